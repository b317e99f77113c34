//! What is pending in the whole store: small writes that are in the journal and in memory, but not at their places yet.

use std::collections::BTreeSet;

use types::{CollId, HObject};

use super::checkpoint::PENDING_PAGE_BYTES;
use crate::{device::BLOCK, index::piece_bytes, pending::Amount, superblock::Blob};

/// The sums over all objects' [`crate::pending::Pending`], and what flushes and checkpoints have left of it.
#[derive(Debug, Default)]
pub(super) struct PendingTotals {
    pub(super) bytes: u64,
    pub(super) pieces: u64,
    /// Bytes that pages of pending bytes need to name the objects of the pieces.
    pub(super) names_bytes: u64,
    /// Objects with pending bytes.
    pub(super) objects: BTreeSet<(CollId, HObject)>,
    /// The last transaction that was committed when the last flush began.
    pub(super) begun_at_txn: u64,
    /// What was pending when the last flush had ended, and whether it left some for want of room.
    pub(super) left: Amount,
    pub(super) lacks_room: bool,
    /// True if a checkpoint has given space back since, and no flush has begun.
    pub(super) has_room_again: bool,
    /// Where the last checkpoint keeps what was pending.
    pub(super) blobs: Vec<Blob>,
}

impl PendingTotals {
    /// Counts what is pending of an object.
    pub(super) fn count(&mut self, object: &HObject, before: Amount, after: Amount) {
        let names = |amount: Amount| amount.pieces * piece_bytes(object);
        self.bytes = self.bytes + after.bytes - before.bytes;
        self.pieces = self.pieces + after.pieces - before.pieces;
        self.names_bytes = self.names_bytes + names(after) - names(before);
    }

    pub(super) fn amount(&self) -> Amount {
        Amount { bytes: self.bytes, pieces: self.pieces }
    }

    /// Memory that it takes, about: what limits it, as pieces may be of a byte.
    pub(super) fn memory(&self) -> u64 {
        self.amount().memory()
    }

    /// Bytes that came after the last flush, which could not place the others.
    pub(super) fn fresh_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.left.bytes)
    }

    /// Bytes that a checkpoint begun now needs for it, but for `placed` bytes of it, and for so many more.
    pub(super) fn need(&self, growing: u64, placed: u64) -> u64 {
        let left = (self.bytes + growing).saturating_sub(placed);
        if left == 0 { 0 } else { pages_bytes(left + self.names_bytes) }
    }

    /// Bytes that the last checkpoint holds.
    pub(super) fn held_bytes(&self) -> u64 {
        self.blobs.iter().map(Blob::device_bytes).sum()
    }

    /// True if so many bytes suffice for it in the next two checkpoints: the second writes it while that of the first
    /// is still held. What the last durable checkpoint has is held already.
    pub(super) fn fits(&self, room: u64, growing: u64, placed: u64) -> bool {
        let bytes = self.need(growing, placed);
        2 * bytes <= room || 2 * bytes - self.held_bytes().min(bytes) <= room
    }
}

/// Bytes on the device of pages of pending bytes.
fn pages_bytes(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK) + bytes / PENDING_PAGE_BYTES as u64 * BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is pending, of pieces without names.
    fn pending(bytes: u64, held_bytes: u64) -> PendingTotals {
        let blobs = vec![Blob { bytes: held_bytes as u32, ..Blob::default() }];
        PendingTotals { bytes, blobs, ..PendingTotals::default() }
    }

    #[test]
    fn two_checkpoints_need_room_but_for_what_the_last_one_holds() {
        let bytes = 64 * BLOCK;
        let need = pending(bytes, 0).need(0, 0);
        assert!(need >= bytes);
        assert!(pending(bytes, 0).fits(2 * need, 0, 0));
        assert!(!pending(bytes, 0).fits(2 * need - 1, 0, 0));
        assert!(pending(bytes, 10 * BLOCK).fits(2 * need - 10 * BLOCK, 0, 0));
        assert!(!pending(bytes, 10 * BLOCK).fits(2 * need - 10 * BLOCK - 1, 0, 0));
        // It may hold more than what is pending by now: that helps the first of the two alone.
        assert!(!pending(bytes, 900 * BLOCK).fits(need - 1, 0, 0));
        assert!(pending(bytes, 0).fits(0, 0, bytes), "all of it has gone to its places");
    }

    #[test]
    fn fresh_bytes_are_those_that_the_last_flush_did_not_see() {
        let left = Amount { bytes: 4, pieces: 1 };
        let totals = PendingTotals { bytes: 10, left, ..PendingTotals::default() };
        assert_eq!(totals.fresh_bytes(), 6);
        let less = PendingTotals { bytes: 3, left, ..PendingTotals::default() };
        assert_eq!(less.fresh_bytes(), 0, "some of what was left was removed");
    }
}
