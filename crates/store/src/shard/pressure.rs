//! What grows in memory with what is written is bounded: changed index pages, which stay in memory until a checkpoint
//! holds them, are no more than a part of the index' memory, and pending bytes no more than some times what they are
//! flushed at. Beyond that transactions wait.
//!
//! They wait as those do that need pages ([`super::deferred`]), and the oldest goes on first. A checkpoint and a flush
//! need nothing of them, so these end, and each that ends lets some go on. While a checkpoint is made, room
//! for changes comes in proportion to what is done of it: so everybody waits a little, and nobody until its end.
//! What the OSD keeps for itself never waits.

use types::{Transaction, TxnOp};

use super::Store;
use crate::index::is_resident;

/// The part of the index' memory that changed pages may take, those of a checkpoint being made included.
const CHANGED_PART: u64 = 2;
/// The part of that at which a checkpoint begins.
const BEGIN_PART: u64 = 2;
/// The part of what a checkpoint being made leaves which may be used when it begins.
const SLACK_PART: u64 = 4;
/// Pending bytes beyond which transactions wait, in times of `pending_bytes_max`: a flush begins long before, but not
/// while a checkpoint is made.
const PENDING_TIMES: u64 = 2;
/// Changed pages that there is always room for.
const PAGES_MIN: u64 = 16;

impl Store {
    /// Memory that changed pages may take.
    fn changed_bytes_max(&self) -> u64 {
        let least = PAGES_MIN * self.config.page_bytes_max as u64;
        (self.config.index_bytes_max / CHANGED_PART).max(least)
    }

    /// True if a checkpoint is wanted for the memory of changed pages.
    pub(super) fn wants_clean_pages(&self) -> bool {
        if self.config.index_bytes_max == u64::MAX || self.has_no_room {
            return false;
        }
        self.index.dirty_memory() > self.changed_bytes_max() / BEGIN_PART || self.is_full_of_changes()
    }

    /// True if what changes more has to wait. Not where checkpoints find no room, as only what is removed makes some.
    pub(super) fn is_pressed(&self) -> bool {
        !self.has_no_room && !self.is_opening && (self.is_full_of_pending() || self.is_full_of_changes())
    }

    /// What the last flush left may stay for long: blocks that cannot be read, or that have no room.
    fn is_full_of_pending(&self) -> bool {
        let max = self.config.pending_bytes_max.saturating_mul(PENDING_TIMES);
        self.pending_bytes > self.pending_bytes_left.saturating_add(max)
    }

    fn is_full_of_changes(&self) -> bool {
        if self.config.index_bytes_max == u64::MAX {
            return false;
        }
        let room = self.changed_bytes_max().saturating_sub(self.index.frozen_memory());
        let allowed = match self.index.frozen_left() {
            (_, 0) => room,
            (left, count) => {
                let slack = room / SLACK_PART;
                slack + (room - slack) / count as u64 * count.saturating_sub(left) as u64
            }
        };
        self.index.dirty_memory() > allowed
    }

    /// True if the transaction changes nothing but what the OSD keeps for itself.
    pub(super) fn is_own(txn: &Transaction) -> bool {
        txn.ops.iter().all(|op| matches!(op, TxnOp::Object(object, _) if is_resident(object)))
    }

    /// Those that wait for room go on, as far as there is room.
    pub(super) fn submit_held(&mut self) {
        while self.waiting.has_held() && self.fault.is_none() && !self.is_pressed() {
            let Some(coll) = self.waiting.take_held() else { return };
            self.submit_deferred(coll);
        }
    }
}
