//! Making a store.

use bytes::Bytes;
use codec::AlignedBuf;
use types::Token;

use super::Store;
use crate::{
    Config, DeviceCommand,
    allocator::Run,
    device::BLOCK,
    superblock::{Blob, COPIES, JOURNAL_START, Superblock},
};

/// Whose store it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreIdentity {
    /// Random, of this store alone: what an earlier store left on the device is never taken for its own.
    pub store_uuid: [u8; 16],
    /// The cluster.
    pub fsid: [u8; 16],
    /// The OSD's id.
    pub osd: u32,
    /// Which of the OSD's stores this is, from 0.
    pub shard: u16,
    /// How many stores the OSD has on the device, each in a region of its own.
    pub shards: u16,
}

/// What a superblock tells before the store is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Whose store it is.
    pub identity: StoreIdentity,
    /// Bytes of its region.
    pub bytes: u64,
}

/// The smallest journal, in blocks.
const JOURNAL_BLOCKS_MIN: u64 = 64;
/// The smallest data area, in blocks.
const AREA_BLOCKS_MIN: u64 = 128;
/// The largest journal that is chosen by itself, in bytes.
const JOURNAL_BYTES_DEFAULT_MAX: u64 = 512 << 20;

impl Store {
    /// Reads the label off the superblocks, which are at [`Store::LABEL_OFFSETS`] of the region; `None` if
    /// neither is valid.
    pub fn label<'a>(blocks: impl IntoIterator<Item = &'a [u8]>) -> Option<Label> {
        let found = blocks.into_iter().filter_map(Superblock::from_block);
        let newest = found.max_by_key(|superblock| superblock.sequence)?;
        Some(Label { identity: newest.identity(), bytes: newest.device_bytes })
    }

    /// Where the superblocks are, in bytes, each [`codec::BLOCK_BYTES`] long.
    pub const LABEL_OFFSETS: [u64; 2] = [COPIES[0] * BLOCK, COPIES[1] * BLOCK];

    /// The commands that make an empty store, to be executed in order, one after another; the last one
    /// is a flush. `None` if the device is too small for the journal asked for.
    pub fn format(device_bytes: u64, identity: StoreIdentity, config: &Config) -> Option<Vec<DeviceCommand>> {
        let total = device_bytes / BLOCK;
        let wanted = match config.journal_bytes {
            0 => (device_bytes / 8).min(JOURNAL_BYTES_DEFAULT_MAX),
            bytes => bytes,
        };
        let journal = Run { start: JOURNAL_START, count: (wanted / BLOCK).max(JOURNAL_BLOCKS_MIN) };
        let area = Run { start: journal.end(), count: total.checked_sub(journal.end())? };
        if area.count < AREA_BLOCKS_MIN {
            return None;
        }
        let mut superblock = Superblock {
            store_uuid: identity.store_uuid,
            fsid: identity.fsid,
            osd: identity.osd,
            shard: identity.shard,
            shards: identity.shards,
            sequence: 0,
            device_bytes: total * BLOCK,
            journal,
            area,
            epoch: 1,
            journal_position: 0,
            journal_sequence: 1,
            last_txn: 0,
            is_clean: 1,
            root: Blob::default(),
        };
        let mut out = Vec::new();
        for (at, block) in COPIES.into_iter().enumerate() {
            superblock.sequence = at as u64 + 1;
            let data = Bytes::from(AlignedBuf::from_slice(&superblock.to_block()));
            let token = Token(at as u64 + 1);
            out.push(DeviceCommand::Write { token, offset: block * BLOCK, data, durable: true });
        }
        out.push(DeviceCommand::Flush { token: Token(COPIES.len() as u64 + 1) });
        Some(out)
    }
}
