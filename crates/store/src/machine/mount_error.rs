//! Why a store cannot be opened.

use thiserror::Error;

use crate::{
    DeviceError, DeviceRole,
    device::spot,
    superblock::{READ_VERSIONS, Superblock, VERSION},
};

/// Why a store cannot be opened. The shard is to be rebuilt from its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MountError {
    /// Neither superblock is valid: there is no store, or what names it is damaged.
    #[error("no valid superblock: not a store, or a damaged one")]
    NoSuperblock,
    /// There is a store, which a build wrote that has another format.
    #[error(
        "the store has format {found}, which this build (format {expected}) does not read: a build that does is needed, \
         or a new store, which the other copies fill"
    )]
    Version {
        /// That of the superblock.
        found: u32,
        /// That of this build.
        expected: u32,
    },
    /// A device is smaller than the store.
    #[error("the {role} device has {found} bytes, the store needs {expected}")]
    DeviceSize {
        /// Which one.
        role: DeviceRole,
        /// What the superblock says.
        expected: u64,
        /// What there is.
        found: u64,
    },
    /// The store uses a device that is not given.
    #[error("the store keeps its {role} on a device of its own, and none is given for it")]
    DeviceMissing {
        /// For what.
        role: DeviceRole,
    },
    /// A device is given that the store does not use.
    #[error("a device is given for the {role}, and the store keeps its {role} on the main device")]
    DeviceUnused {
        /// For what.
        role: DeviceRole,
    },
    /// The device given is not the one that the store uses.
    #[error(
        "the device given for the {role} is not this store's: {}",
        owner.map_or("it belongs to no store".to_owned(), |osd| format!("it is of a store of osd.{osd}, or of another use"))
    )]
    DeviceWrong {
        /// For what.
        role: DeviceRole,
        /// The OSD of the store whose device it is, if it is one's.
        owner: Option<u32>,
    },
    /// Bytes of the index have a wrong checksum or make no sense.
    #[error("corrupt {what}")]
    Corrupt {
        /// Which part.
        what: &'static str,
    },
    /// Records that were durable are not there: they were damaged later, or belong to a superblock that was.
    #[error("the journal is damaged at {}: records that follow it are there", spot(*offset))]
    JournalGap {
        /// Where the record is missing, on the device.
        offset: u64,
    },
    /// The device failed.
    #[error("device: {0}")]
    Device(DeviceError),
    /// There was no room for the checkpoint that ends a mount.
    #[error("no room for a checkpoint")]
    NoSpace,
}

impl MountError {
    /// The newest of the superblocks that this build reads, unless a copy has a later format: that is then the newest,
    /// and the other one is what was before. Given the versions of both.
    pub(super) fn check_versions(
        newest: Option<Superblock>,
        versions: impl IntoIterator<Item = u32>,
    ) -> Result<Superblock, MountError> {
        let unread = versions.into_iter().filter(|version| !READ_VERSIONS.contains(version)).max();
        match (newest, unread) {
            (Some(newest), unread) if unread.is_none_or(|found| found < VERSION) => Ok(newest),
            (_, Some(found)) => Err(MountError::Version { found, expected: VERSION }),
            (_, None) => Err(MountError::NoSuperblock),
        }
    }
}
