//! Changed index pages, which stay in memory until a checkpoint holds them, are no more than a part of the index'
//! memory: beyond it transactions wait.
//!
//! They wait as those do that need pages ([`super::deferred`]), in order within a collection, and the oldest goes on
//! first. A checkpoint needs nothing of them, so it ends, and each that ends lets some go on. While one is made, room
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
        let is_much = || self.index.dirty_memory() > self.changed_bytes_max() / BEGIN_PART;
        !self.has_no_room && (self.waiting.has_held() || is_much())
    }

    /// True if what changes more pages has to wait. Not where checkpoints find no room, as only what is removed makes
    /// some.
    pub(super) fn is_pressed(&self) -> bool {
        if self.config.index_bytes_max == u64::MAX || self.has_no_room || self.is_opening {
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

    /// True if the transaction changes pages that may leave memory.
    pub(super) fn changes_pages(txn: &Transaction) -> bool {
        txn.ops.iter().any(|op| match op {
            TxnOp::CreateCollection => false,
            TxnOp::RemoveCollection => true,
            TxnOp::Object(object, _) => !is_resident(object),
        })
    }

    /// Those that wait for changed pages go on, as far as there is room.
    pub(super) fn submit_held(&mut self) {
        while self.waiting.has_held() && self.fault.is_none() && !self.is_pressed() {
            let Some(coll) = self.waiting.take_held() else { return };
            self.submit_deferred(coll);
        }
    }
}
