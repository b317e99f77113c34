//! Telling a journal that ends from one that is damaged.
//!
//! A torn record is the end of the journal: nothing from it on was acknowledged. But a record that lies in the
//! journal although so many are missing before it that they cannot all have been in flight proves that those
//! were durable: they were damaged later, by the device, or the superblock is an old one whose successor was. Such
//! a store has lost what it acknowledged and must be rebuilt from its replicas, not served.

use bytes::Bytes;
use codec::BLOCK_BYTES;

use super::replay::Replay;
use crate::journal::Header;

/// How far to look. Larger than any record but those of single huge transactions.
pub(super) const LOOKAHEAD_BLOCKS: u64 = 4096;

impl Replay {
    /// True if these blocks of the ring hold a record that was written when the missing one was durable.
    pub(super) fn is_followed_in(&self, blocks: &Bytes, writes_max: usize) -> bool {
        let superblock = &self.store.superblock;
        let proof = self.sequence + writes_max as u64;
        let mut at = 0;
        while at + BLOCK_BYTES <= blocks.len() {
            let rest = blocks.slice(at..);
            at += BLOCK_BYTES;
            let Some(header) = Header::peek_any(&rest, superblock.record_key()) else { continue };
            let is_later = header.epoch > superblock.epoch
                || header.epoch == superblock.epoch && header.sequence >= proof;
            // Its payload may be torn, or lie beyond what was read: it was begun when the missing one was durable.
            if is_later && header.open_front(&rest).is_some() {
                return true;
            }
        }
        false
    }
}
