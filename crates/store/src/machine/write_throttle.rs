//! What grows in memory with what is written is bounded: changed index pages, which stay in memory until a checkpoint
//! holds them, are no more than a part of the index' memory, and what is pending no more than some times what it is
//! flushed at. Beyond that transactions wait. Where flushes leave what is pending, only what removes something goes on.
//!
//! They wait as those do that need pages ([`super::deferred`]), and the oldest goes on first. A checkpoint and a flush
//! need nothing of them, so these end. From where a checkpoint begins on, room for changes is given out evenly over the
//! time that it takes ([`super::throttle_rate`]): so every transaction waits a little, and none until its end. At least
//! one goes on with each journal write. What the OSD keeps for itself never waits. Room on the device is
//! [`super::checkpoint_room`]'s.

use types::{CollId, Instant, Transaction, TxnOp};

use super::{
    Store, Unmount, checkpoint_room::makes_room, space_estimate::SpaceEstimate, throttle_rate::Phase,
};
use crate::index::is_resident;

/// Quarters of the index' memory that changed pages may take, those of a checkpoint being made included.
const CHANGED_QUARTERS: u64 = 3;
/// The eighths of that at which a checkpoint begins, and below which no transaction waits: as long as the index has
/// room it may be later, since each checkpoint writes a page once, however many of its entries have changed.
const BEGIN_EIGHTHS: u64 = 3;
const BEGIN_EIGHTHS_WITH_ROOM: u64 = 5;
/// What may change until what has changed is frozen, and while a checkpoint is made, in eighths.
const BEFORE_EIGHTHS: u64 = 2;
const MEANWHILE_EIGHTHS: u64 = 3;
/// The part of it that changed entries may have: each has memory of its own, and an allocator keeps much of what they
/// took at their most.
const ENTRIES_PART: u64 = 3;
/// Memory of what is pending beyond which transactions wait, in times of `pending_bytes_max`: a flush begins long
/// before, but not while a checkpoint is made.
const PENDING_TIMES: u64 = 2;
/// Memory of what is pending beyond which only removals go on, in times of `pending_bytes_max`: flushes may leave more
/// and more.
const PENDING_TIMES_AT_MOST: u64 = 4;
/// What a mount may find in the journal before a checkpoint begins, in times of `pending_bytes_max`: it holds all of
/// that in memory, as it flushes nothing before it has read the last record. With 32 MiB and a ring of 512 MiB that is
/// as much as half of the ring has, at which a checkpoint begins anyway: only stores with less memory, and pieces of
/// few bytes, make more checkpoints, each of which costs the index pages that have changed.
const REPLAY_TIMES: u64 = 8;
/// Changed pages for which there is always room.
const PAGES_MIN: u64 = 16;

impl Store {
    /// Memory that changed pages may take.
    pub(super) fn changed_bytes_max(&self) -> u64 {
        let least = PAGES_MIN * self.config.page_bytes_max as u64;
        (self.config.index_bytes_max / 4 * CHANGED_QUARTERS).max(least)
    }

    /// Memory of changed pages below which no transaction waits.
    fn changed_bytes_free(&self) -> u64 {
        let has_room = self.index.memory() < self.config.index_bytes_max / 4 * CHANGED_QUARTERS;
        self.changed_bytes_max() / 8 * if has_room { BEGIN_EIGHTHS_WITH_ROOM } else { BEGIN_EIGHTHS }
    }

    /// True if a checkpoint is wanted for the memory of changed pages.
    pub(super) fn wants_clean_pages(&self) -> bool {
        if self.config.index_bytes_max == u64::MAX || self.has_no_room() {
            return false;
        }
        self.index.dirty_memory() > self.changed_bytes_free()
            || self.index.changed_memory() > self.changed_bytes_max() / ENTRIES_PART
    }

    /// Tells the store the time, by which it knows how long checkpoints take, and when the device has nothing to do. To
    /// be called before [`Store::kick`].
    pub fn set_time(&mut self, now: Instant) {
        self.throttle_rate.set_time(now);
    }

    /// Looks at what is done about changed pages.
    pub(super) fn note_throttle_rate(&mut self) {
        let phase = if self.index.frozen_memory() > 0 {
            Phase::Made
        } else if self.wants_clean_pages() {
            Phase::Wanted
        } else {
            Phase::Rest
        };
        self.throttle_rate.enter(phase);
    }

    /// True if further changes have to wait. Not where checkpoints find no room, as only removals make some.
    pub(super) fn is_pressed(&self) -> bool {
        !self.has_no_room()
            && !self.is_opening
            && (self.is_full_of_pending() || self.is_full_of_changes() || self.is_ahead())
    }

    /// What the last flush left may stay for long: blocks that cannot be read, or that have no room.
    fn is_full_of_pending(&self) -> bool {
        let max = self.config.pending_bytes_max.saturating_mul(PENDING_TIMES);
        self.pending.memory() > self.pending.left.memory().saturating_add(max)
    }

    /// True if so much is pending, whatever flushes leave, that no transaction may add to it.
    pub(super) fn has_too_much_pending(&self) -> bool {
        self.pending.memory() > self.config.pending_bytes_max.saturating_mul(PENDING_TIMES_AT_MOST)
    }

    /// True if a checkpoint is wanted so that the next mount need not hold too much in memory.
    pub(super) fn wants_short_replay(&self) -> bool {
        self.ring.replay_memory() > self.config.pending_bytes_max.saturating_mul(REPLAY_TIMES)
    }

    fn is_full_of_changes(&self) -> bool {
        if self.config.index_bytes_max == u64::MAX {
            return false;
        }
        self.index.dirty_memory() + self.index.frozen_memory() > self.changed_bytes_max()
    }

    /// True if more pages have changed than are due by now, and some transactions have not reached the journal yet.
    fn is_ahead(&self) -> bool {
        if self.config.index_bytes_max == u64::MAX {
            return false;
        }
        let (dirty, frozen) = (self.index.dirty_memory(), self.index.frozen_memory());
        let (max, free) = (self.changed_bytes_max(), self.changed_bytes_free());
        if dirty + frozen <= free || self.queue.is_empty() && self.ring.writing_count() == 0 {
            return false;
        }
        let (left, count) = self.index.frozen_left();
        let meanwhile = (max / 8 * MEANWHILE_EIGHTHS).min(max.saturating_sub(frozen));
        let due = match self.throttle_rate.phase() {
            Phase::Rest => free,
            Phase::Wanted => free + self.throttle_rate.share(max / 8 * BEFORE_EIGHTHS, (0, 1)),
            Phase::Made => {
                self.throttle_rate.share(meanwhile, (count.saturating_sub(left) as u64, count as u64))
            }
        };
        dirty > due.max(free.saturating_sub(frozen))
    }

    /// True if the transaction changes nothing but what the OSD keeps for itself.
    pub(super) fn is_own(txn: &Transaction) -> bool {
        txn.ops.iter().all(|op| matches!(op, TxnOp::Object(object, _) if is_resident(object)))
    }

    /// True if a transaction has to wait for room, in memory or on the device. `has_waited`: its number, if it waits
    /// already; transactions that have waited longer come first, unless they wait for room that this one makes.
    pub(super) fn must_hold(&self, txn: &Transaction, has_waited: Option<u64>) -> bool {
        if has_waited.is_some() && self.waiting.is_first_begun(txn.coll) {
            return self.must_hold_step(&self.growth_of(txn));
        }
        !Store::is_own(txn) && self.must_wait(txn, self.finds_no_room(txn), has_waited)
    }

    /// True if a transaction that has begun to move objects has to wait before its next step. What others took
    /// meanwhile does not keep it from its end: its collections' readers wait for that, and a mount has to reach it.
    fn must_hold_step(&self, growth: &SpaceEstimate) -> bool {
        self.is_pressed() || self.is_short_for_step(growth)
    }

    fn must_wait(&self, txn: &Transaction, finds_no_room: bool, has_waited: Option<u64>) -> bool {
        let is_behind = match has_waited {
            Some(number) => self.waiting.has_held_before(number),
            None => self.waiting.has_held(),
        };
        // Where one is too large for what is left, those behind it are not.
        if (finds_no_room || is_behind && self.is_first_held_short()) && makes_room(txn) {
            return self.is_pressed() || self.is_short_for_removals();
        }
        is_behind || finds_no_room || self.is_pressed()
    }

    /// The collection whose first transaction has waited longest for room that there is now, and the number of that
    /// transaction.
    pub(super) fn next_held(&self) -> Option<(u64, CollId)> {
        if !self.waiting.has_held() {
            return None;
        }
        let may_go = |coll: CollId, number: u64, growth: &SpaceEstimate| {
            if self.waiting.is_first_begun(coll) {
                return !self.must_hold_step(growth);
            }
            self.first_deferred(coll).is_none_or(|txn| {
                Store::is_own(txn) || !self.must_wait(txn, self.is_short_of_room(growth), Some(number))
            })
        };
        if matches!(self.unmount, Unmount::Flushed | Unmount::Done) {
            return None;
        }
        let mut held = self.waiting.held();
        let (number, coll, growth) = held.next()?;
        if may_go(coll, number, growth) {
            return Some((number, coll));
        }
        // Only what makes room overtakes, and what has begun to move objects.
        if !self.is_short_of_room(growth) {
            return None;
        }
        let next = held.find(|(number, coll, growth)| may_go(*coll, *number, growth));
        next.map(|(number, coll, _)| (number, coll))
    }

    /// Lets transactions that wait for room go on, as far as there is room.
    pub(super) fn submit_held(&mut self) {
        while self.fault.is_none()
            && let Some((number, coll)) = self.next_held()
        {
            self.waiting.let_go(number);
            self.submit_deferred(coll);
        }
    }

    /// True if all that is left waits for room on the device, and no checkpoint would make any.
    pub(super) fn is_at_an_end(&self) -> bool {
        self.waiting.has_held()
            && self.page_loads.len() == 0
            && self.next_held().is_none()
            && self.waiting.next_stepping().is_none()
            && self.is_first_held_short()
            && !self.wants_checkpoint()
    }
}
