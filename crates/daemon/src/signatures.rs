//! What the first bytes of a device say about what uses it.

use codec::BLOCK_BYTES;
use store::{DeviceOwner, Store};

/// Bytes from the start of a device that are looked at: all signatures and labels are within.
pub(crate) const HEAD_BYTES: u64 = 128 << 10;

/// What is at a device's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// A store of ours, or a journal or index of one.
    Store(DeviceOwner),
    /// What other software put there.
    Foreign(&'static str),
}

/// What it is, where its mark begins, and the mark.
const SIGNATURES: [(&str, usize, &[u8]); 17] = [
    ("a BlueStore", 0, b"bluestore block device"),
    ("an encrypted volume (LUKS)", 0, b"LUKS\xba\xbe"),
    ("an XFS file system", 0, b"XFSB"),
    ("an ext2, ext3 or ext4 file system", 1080, &[0x53, 0xef]),
    ("an F2FS file system", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    ("a Btrfs file system", 65_600, b"_BHRfS_M"),
    // A physical volume's label is in one of the first four sectors.
    ("an LVM volume", 0, b"LABELONE"),
    ("an LVM volume", 512, b"LABELONE"),
    ("an LVM volume", 1024, b"LABELONE"),
    ("an LVM volume", 1536, b"LABELONE"),
    ("a part of a RAID", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("a part of a RAID", 4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("a swap area", 4086, b"SWAPSPACE2"),
    // With sectors of 512 and of 4096 bytes.
    ("a partition table", 512, b"EFI PART"),
    ("a partition table", 4096, b"EFI PART"),
    ("an ISO 9660 file system", 32_769, b"CD001"),
    // FAT, exFAT and NTFS have this mark, too.
    ("a partition table or boot sector", 510, &[0x55, 0xaa]),
];

/// What the first bytes of a device belong to; `None` if nothing is known to use it.
pub(crate) fn contents(head: &[u8]) -> Option<Contents> {
    let label = |offset: &u64| {
        let at = usize::try_from(*offset).ok()?;
        Store::device_owner(head.get(at..at + BLOCK_BYTES)?)
    };
    let device_owners = || Store::LABEL_OFFSETS.iter().filter_map(label);
    // A label that can be read says more than its damaged copy.
    let readable = device_owners().find(|device_owner| *device_owner != DeviceOwner::Unknown);
    if let Some(device_owner) = readable.or_else(|| device_owners().next()) {
        return Some(Contents::Store(device_owner));
    }
    let is_there = |at: usize, mark: &[u8]| head.get(at..).is_some_and(|tail| tail.starts_with(mark));
    SIGNATURES.iter().find(|(_, at, mark)| is_there(*at, mark)).map(|(what, ..)| Contents::Foreign(what))
}

#[cfg(test)]
mod tests {
    use types::Uuid;

    use super::*;

    #[test]
    fn what_others_put_there_is_known_by_its_mark() {
        for (what, at, mark) in SIGNATURES {
            let mut head = vec![0; HEAD_BYTES as usize];
            head[at..at + mark.len()].copy_from_slice(mark);
            assert_eq!(contents(&head), Some(Contents::Foreign(what)));
            // A short file is no reason to fail.
            assert_eq!(contents(&head[..at]), None);
        }
        assert_eq!(contents(&vec![0; HEAD_BYTES as usize]), None);
    }

    #[test]
    fn the_readable_label_counts() {
        let identity = store::StoreIdentity {
            store_uuid: Uuid([1; 16]),
            fsid: Uuid([2; 16]),
            osd: 7,
            shard: 0,
            shards: 1,
        };
        let mut head = vec![0; HEAD_BYTES as usize];
        let key = store::JournalKey::new([3; 16]);
        for command in Store::format(64 << 20, identity, key, &store::Config::default()).unwrap() {
            let store::DeviceCommand::Write { offset, data, .. } = command else { continue };
            head[offset as usize..offset as usize + data.len()].copy_from_slice(&data);
        }
        let own = Some(Contents::Store(DeviceOwner::Osd { fsid: Uuid([2; 16]), osd: 7 }));
        assert_eq!(contents(&head), own);
        head[100] ^= 1;
        assert_eq!(contents(&head), own);
        head[(16 << 12) + 100] ^= 1;
        assert_eq!(contents(&head), Some(Contents::Store(DeviceOwner::Unknown)));
    }
}
