//! Which OSD uses a device, for a caller that is about to make a store on it.

use types::Uuid;

use super::Store;
use crate::superblock::{DeviceLabel, LABEL_MAGIC, MAGIC, Superblock};

/// Which OSD uses a device, according to one of its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceOwner {
    /// That OSD of that cluster.
    Osd {
        /// The cluster.
        fsid: Uuid,
        /// The OSD's id.
        osd: u32,
    },
    /// A store of another version, or one whose label is damaged.
    Unknown,
}

impl Store {
    /// What a block at one of [`Store::LABEL_OFFSETS`] says, of a main, journal or index device; `None` if it is no
    /// label at all.
    pub fn device_owner(block: &[u8]) -> Option<DeviceOwner> {
        if let Some(Superblock { fsid, osd, .. }) = Superblock::from_block(block) {
            return Some(DeviceOwner::Osd { fsid, osd });
        }
        if let Some(DeviceLabel { fsid, osd, .. }) = DeviceLabel::from_block(block) {
            return Some(DeviceOwner::Osd { fsid, osd });
        }
        let is_ours = [MAGIC, LABEL_MAGIC].iter().any(|magic| block.starts_with(magic));
        is_ours.then_some(DeviceOwner::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, DeviceCommand, DeviceSizes, JournalKey, StoreIdentity};

    #[test]
    fn every_label_of_a_new_store_names_its_osd() {
        let identity =
            StoreIdentity { store_uuid: Uuid([1; 16]), fsid: Uuid([2; 16]), osd: 7, shard: 0, shards: 1 };
        let sizes = DeviceSizes { main: 64 << 20, journal: Some(16 << 20), index: Some(16 << 20) };
        let mut labels = 0;
        let key = JournalKey::new([3; 16]);
        for command in Store::format(sizes, identity, key, &Config::default()).unwrap() {
            let DeviceCommand::Write { data, .. } = command else { continue };
            labels += 1;
            assert_eq!(Store::device_owner(&data), Some(DeviceOwner::Osd { fsid: Uuid([2; 16]), osd: 7 }));
            let mut damaged = data.to_vec();
            damaged[100] ^= 1;
            assert_eq!(Store::device_owner(&damaged), Some(DeviceOwner::Unknown));
        }
        assert_eq!(labels, 6);
        assert_eq!(Store::device_owner(&[0; 4096]), None);
    }
}
