//! What the store asks of its block device, as data.

use std::fmt;

use bytes::Bytes;
use codec::BLOCK_BYTES;
use thiserror::Error;
use types::{Instant, Token};

/// The block size as a device offset.
pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;

/// The devices of a store. Only the main one has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceRole {
    /// Data, and everything that has no device of its own; the superblock.
    Main,
    /// The journal.
    Journal,
    /// The index; what does not fit goes to the main device.
    Index,
}

impl DeviceRole {
    /// All of them, in the order of their numbers.
    pub const ALL: [DeviceRole; 3] = [DeviceRole::Main, DeviceRole::Journal, DeviceRole::Index];

    /// Where its bytes begin in the store's one space of offsets.
    pub const fn base(self) -> u64 {
        (self as u64) << ROLE_SHIFT
    }

    /// Whose byte an offset of that space is, and its offset there.
    pub fn of(offset: u64) -> (DeviceRole, u64) {
        let role = match offset >> ROLE_SHIFT {
            0 => DeviceRole::Main,
            1 => DeviceRole::Journal,
            _ => DeviceRole::Index,
        };
        (role, offset.wrapping_sub(role.base()))
    }

    /// Its first block in that space.
    pub(crate) const fn base_block(self) -> u64 {
        self.base() / BLOCK
    }
}

/// Each device has this many bits of offsets: an exbibyte.
const ROLE_SHIFT: u32 = 60;

impl fmt::Display for DeviceRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceRole::Main => "main",
            DeviceRole::Journal => "journal",
            DeviceRole::Index => "index",
        })
    }
}

/// An offset for people: `byte 4096`, `byte 4096 of the journal device`.
pub(crate) fn spot(offset: u64) -> String {
    match DeviceRole::of(offset) {
        (DeviceRole::Main, at) => format!("byte {at}"),
        (role, at) => format!("byte {at} of the {role} device"),
    }
}

/// What devices have not answered, but for discards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceWaits {
    /// The command that has waited longest: of which device, and when it was given out.
    pub oldest: Option<(DeviceRole, Instant)>,
    /// The device that has answered nothing for the longest, though it has something to answer, and since when.
    pub silent: Option<(DeviceRole, Instant)>,
}

/// Sizes of a store's devices, in bytes. A number alone is the size of the main one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceSizes {
    /// The main device.
    pub main: u64,
    /// The journal's, if it has one.
    pub journal: Option<u64>,
    /// The index', if it has one.
    pub index: Option<u64>,
}

impl From<u64> for DeviceSizes {
    fn from(main: u64) -> DeviceSizes {
        DeviceSizes { main, ..DeviceSizes::default() }
    }
}

impl DeviceSizes {
    /// The size of one of them.
    pub fn get(&self, role: DeviceRole) -> Option<u64> {
        match role {
            DeviceRole::Main => Some(self.main),
            DeviceRole::Journal => self.journal,
            DeviceRole::Index => self.index,
        }
    }
}

/// A command for the devices: [`DeviceRole::of`] tells for which one, by its offset. Offsets and lengths are whole
/// blocks of 4 KiB; the memory of a write is aligned to a block. Commands in flight may be executed in any order. Each
/// is answered by `device_done` with its token, which is the store's own.
#[derive(Clone, Debug)]
pub enum DeviceCommand {
    /// Answered with `len` bytes.
    Read {
        /// Names the command in its answer.
        token: Token,
        /// Byte offset on the device.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Writes all of `data`, and of `more` behind it.
    Write {
        /// Names the command in its answer.
        token: Token,
        /// Byte offset on the device.
        offset: u64,
        /// Whole blocks of aligned memory.
        data: Bytes,
        /// The rest of the data, where it is not in one piece of memory: whole blocks of aligned memory, too.
        more: Vec<Bytes>,
        /// True if the data must survive a power cut when the command is answered (`RWF_DSYNC`).
        durable: bool,
    },
    /// Makes all writes answered before it durable, on all devices.
    Flush {
        /// Names the command in its answer.
        token: Token,
    },
    /// Tells the device that a range holds nothing of value. May be ignored, must be answered.
    Discard {
        /// Names the command in its answer.
        token: Token,
        /// Byte offset on the device.
        offset: u64,
        /// Bytes.
        len: u64,
    },
}

/// Why the device did not do what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The device or the kernel reported an error.
    #[error("input/output error")]
    Io,
    /// The device does not do such a thing: a discard.
    #[error("not supported by the device")]
    Unsupported,
    /// Fewer bytes were moved than asked for.
    #[error("short transfer")]
    Short,
}
