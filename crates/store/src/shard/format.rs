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
}

/// The smallest journal, in blocks.
const JOURNAL_BLOCKS_MIN: u64 = 64;
/// The smallest data area, in blocks.
const AREA_BLOCKS_MIN: u64 = 128;
/// The largest journal that is chosen by itself, in bytes.
const JOURNAL_BYTES_DEFAULT_MAX: u64 = 512 << 20;

impl Store {
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
