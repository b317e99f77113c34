//! Room for checkpoints, however full the device is: a store that cannot write one commits nothing when its journal is
//! full, and gives nothing back of what is removed.
//!
//! A checkpoint writes changed pages, and what is pending without a place, while all that it replaces is still held. So
//! the store estimates how much that will take ([`crate::index`]) and weighs it against the free space: a checkpoint
//! begins long before they are equal, and what grows waits when it would need half of what there is, its own size
//! ([`super::space_estimate`]) included. It may wait until something is removed, and all that is behind it in its
//! collection waits with it; long before that the cluster is told that the device is full, and clients' writes are
//! refused, or dropped by OSDs that know sooner. A transaction that removes something waits only while a checkpoint is
//! due that would find no room otherwise. So does one that has begun to move objects ([`super::moves`]), as a mount
//! cannot end before it has: a step takes little, and the checkpoint behind it gives most of that back. It waits
//! before it begins until there is room for its end, and others leave that from then on. So a checkpoint always finds
//! some room, and the next mount's does, too: that one writes in one go what the running store had written with the
//! checkpoint being made, and what has changed since.
//!
//! What is pending without a place is written by each checkpoint, twice at a time. So whole blocks of it go to places
//! as long as the next checkpoint finds its room without: they take no more there, and only once.
//!
//! An index device holds no data. So what is written, at once or when it is flushed, is weighed against the main device
//! alone, and so is what a checkpoint needs for the index beyond what is free on the index' own.

use types::{Mutation, Transaction, TxnOp};

use super::{Store, space_estimate::SpaceEstimate};
use crate::{device::BLOCK, index::is_resident, space::Run};

/// The part of the room left for growth beyond which a checkpoint begins, and the part of all free space at which it
/// begins where there is hardly any such room.
const BEGIN_PART: u64 = 4;
const BEGIN_PART_OF_ALL: u64 = 8;
/// Checkpoints for which changes must leave room before anything may grow.
const GROWTH_TIMES: u64 = 2;
/// Quarters of the free space that a checkpoint may need before removals, and moves that have begun, wait for it.
const REMOVAL_QUARTERS: u64 = 3;
/// Bytes of a region's record in the root: a reference of one run.
const REGION_REFERENCE_BYTES: u64 = 28;
/// Index pages that may change when what is under way to its place is there: those of its objects, and of tables.
const PLACING_PAGES: u64 = 8;

/// Free bytes of the main device, which alone may hold data, and of the index'.
#[derive(Clone, Copy)]
struct Free {
    main: u64,
    index: u64,
}

impl Free {
    fn of(counts: [u64; 2]) -> Free {
        let [main, index] = counts.map(|count| count * BLOCK);
        Free { main, index }
    }

    /// How many bytes of the index find no room on its own device and go to the main device.
    fn spilt(self, index_bytes: u64) -> u64 {
        index_bytes.saturating_sub(self.index)
    }
}

impl Store {
    /// Bytes that a checkpoint needs for the index: one begun now, and what is left of the one being made.
    pub(super) fn index_need(&self) -> u64 {
        let need = self.index.dirty_need() + self.index.frozen_need();
        if need == 0 { 0 } else { need + self.map_need() }
    }

    /// The same with the ends of moves that have begun.
    fn need_with_moves(&self) -> u64 {
        self.index_need() + self.waiting.begun_bytes()
    }

    /// Bytes of the space map's changed records, and of all in the root.
    fn map_need(&self) -> u64 {
        self.space.records_need() * BLOCK + self.regions.len() as u64 * REGION_REFERENCE_BYTES
    }

    /// True if the free space is many times what checkpoints and this growth may need: mostly no closer look is needed.
    fn has_plenty(&self, growth: &SpaceEstimate) -> bool {
        let pending = self.pending.need(growth.pending_bytes, 0) + BLOCK;
        let own = self.waiting.begun_bytes() + growth.own_bytes + growth.mark_bytes;
        let index = self.index.need_at_most() + self.map_need() + growth.index_bytes + own;
        let free = self.free();
        let need = free.spilt(8 * index) + 8 * (growth.direct_bytes + pending);
        let has_plenty = need <= free.main.saturating_sub(self.growth_floor());
        debug_assert!(
            !has_plenty || self.may_grow(growth) && !self.is_short_for_removals(),
            "then nothing is short"
        );
        has_plenty
    }

    fn free_bytes(&self) -> u64 {
        self.space.free_count() * BLOCK
    }

    fn free(&self) -> Free {
        Free::of(self.space.free_counts())
    }

    fn growth_floor(&self) -> u64 {
        self.space.growth_floor() * BLOCK
    }

    /// True if there is room on the device for this growth.
    fn may_grow(&self, growth: &SpaceEstimate) -> bool {
        self.may_grow_in(self.free(), self.need_with_moves(), growth)
    }

    fn may_grow_in(&self, free: Free, index_need: u64, growth: &SpaceEstimate) -> bool {
        // As much as the last step of a move may take of what is free.
        let own = growth.own_bytes * 4 / REMOVAL_QUARTERS + growth.mark_bytes;
        let index = free.spilt(GROWTH_TIMES * (index_need + growth.index_bytes) + own);
        let kept = self.growth_floor() + index + growth.direct_bytes;
        free.main.checked_sub(kept).is_some_and(|room| self.pending.fits(room, growth.pending_bytes, 0))
    }

    /// True if a transaction with this growth has to wait for room on the device.
    pub(super) fn is_short_of_room(&self, growth: &SpaceEstimate) -> bool {
        let finds_none = || {
            !self.has_plenty(growth)
                && !self.may_grow(growth)
                && (growth.direct_bytes == 0 || !self.may_grow(&growth.as_pending()))
        };
        !self.is_opening && (self.has_too_much_pending() || finds_none())
    }

    /// True if the transaction that has waited longest waits for room on the device.
    pub(super) fn is_first_held_short(&self) -> bool {
        self.waiting.first_growth().is_some_and(|growth| self.is_short_of_room(growth))
    }

    /// True if a checkpoint has to make sure of its room before even more is removed.
    pub(super) fn is_short_for_removals(&self) -> bool {
        let index_need = self.index_need();
        let has_room = || self.leaves_room(self.free_bytes(), index_need, 0);
        !self.is_opening && !self.has_no_room() && index_need > 0 && !has_room()
    }

    /// True if a checkpoint behind the next step of a move that has begun might find no room.
    pub(super) fn is_short_for_step(&self, growth: &SpaceEstimate) -> bool {
        !self.is_opening
            && !self.has_plenty(growth)
            && !self.has_room_for_step(self.free_bytes(), self.need_with_moves(), growth)
    }

    fn has_room_for_step(&self, free_bytes: u64, index_need: u64, growth: &SpaceEstimate) -> bool {
        self.leaves_room(free_bytes, index_need + growth.index_bytes, growth.as_pending().pending_bytes)
    }

    /// True if checkpoints that need so much for the index, and so much more for what is pending, leave some of so much
    /// free space.
    fn leaves_room(&self, free_bytes: u64, index_need: u64, growing: u64) -> bool {
        let room = free_bytes.saturating_sub(self.space.mount_reserve() * BLOCK) / 4 * REMOVAL_QUARTERS;
        room.checked_sub(index_need).is_some_and(|room| self.pending.fits(room, growing, 0))
    }

    /// True if a checkpoint is wanted now so that it still finds room, or makes room for transactions that wait.
    pub(super) fn wants_room(&self) -> bool {
        let held = self.waiting.first_growth();
        if self.has_plenty(held.unwrap_or(&SpaceEstimate::default())) {
            return false;
        }
        let dirty_need = self.index.dirty_need();
        let fresh_pending = self.pending.fresh_bytes();
        if self.has_no_room() || dirty_need + fresh_pending == 0 {
            return false;
        }
        let (free, floor) = (self.free(), self.growth_floor());
        let is_much = |need: u64, free: u64| {
            need > (free.saturating_sub(floor) / BEGIN_PART).max(free / BEGIN_PART_OF_ALL)
        };
        is_much(dirty_need + fresh_pending, self.free_bytes())
            || is_much(free.spilt(dirty_need) + fresh_pending, free.main)
            || self.is_short_for_removals()
            || self.is_first_held_short()
                && (fresh_pending > 0 || held.is_some_and(|growth| self.would_help(growth)))
            || self.waiting.held_steps().any(|growth| self.would_help_step(growth))
    }

    /// True if a move that has begun waits for room that a checkpoint would make.
    fn would_help_step(&self, growth: &SpaceEstimate) -> bool {
        let free_after = self.space.free_counts_after().iter().sum::<u64>() * BLOCK;
        self.is_short_for_step(growth)
            && self.has_room_for_step(free_after, self.waiting.begun_bytes(), growth)
    }

    /// True if this growth would find room after a checkpoint.
    fn would_help(&self, growth: &SpaceEstimate) -> bool {
        let after = Free::of(self.space.free_counts_after());
        let fits = |growth: SpaceEstimate| self.may_grow_in(after, self.waiting.begun_bytes(), &growth);
        fits(*growth) || fits(growth.as_pending())
    }

    /// Takes new space for a large write; `None` if it must not have any. The reserve is for writes that would need it
    /// twice if they were pending.
    pub(super) fn allocate_data(&mut self, count: u64) -> Option<Vec<Run>> {
        let growth = SpaceEstimate::of_data(count * BLOCK);
        let may_grow = self.may_grow(&growth);
        if may_grow && let Some(runs) = self.space.allocate(count) {
            return Some(runs);
        }
        if self.may_grow(&growth.as_pending()) { None } else { self.space.allocate_pending(count) }
    }

    /// Takes places for blocks that hold `placed` bytes of what is pending, beside those under way that hold `placing`;
    /// none if a checkpoint needs the room more.
    pub(super) fn allocate_places(&mut self, count: u64, placed: u64, placing: u64) -> Option<Vec<Run>> {
        let (bytes, left) = (count * BLOCK, placed + placing);
        let kept = self.growth_floor() + self.need_with_moves() + bytes;
        let room = self.free_bytes().checked_sub(kept);
        if room.is_some_and(|room| self.pending.fits(room, 0, left))
            && let Some(runs) = self.space.allocate_pending(count)
        {
            return Some(runs);
        }
        // Whole blocks take no more than they would in each checkpoint from now on: the next one finds its room as it
        // does without, and all others have more.
        let pages = PLACING_PAGES * (self.config.page_bytes_max as u64).next_multiple_of(BLOCK);
        let next = self.need_with_moves() + pages + self.pending.need(0, left);
        let kept = self.space.checkpoint_floor() * BLOCK + next + bytes;
        if bytes <= placed && kept <= self.free_bytes() { self.space.allocate_whole(count) } else { None }
    }
}

/// True if the transaction gives space back, and takes none but for what the OSD keeps for itself.
pub(crate) fn makes_room(txn: &Transaction) -> bool {
    let mut has_removal = false;
    let takes_none = txn.ops.iter().all(|op| {
        let (object, mutation) = match op {
            TxnOp::CreateCollection => return true,
            TxnOp::RemoveCollection => {
                has_removal = true;
                return true;
            }
            TxnOp::Split(_) | TxnOp::Merge(_) => return false,
            TxnOp::Object(object, mutation) => (object, mutation),
        };
        match mutation {
            Mutation::Remove
            | Mutation::Truncate { .. }
            | Mutation::Zero { .. }
            | Mutation::OmapClear
            | Mutation::OmapRemove(_)
            | Mutation::OmapRemoveRange { .. } => has_removal = true,
            // What is left of an object tells of what was removed.
            Mutation::Touch
            | Mutation::SetXattrs(_)
            | Mutation::RemoveXattr(_)
            | Mutation::ClearXattrs
            | Mutation::OmapSetHeader(_) => {}
            Mutation::Write { .. } | Mutation::OmapSet(_) | Mutation::CloneFrom { .. } => {
                return is_resident(object);
            }
        }
        true
    });
    has_removal && takes_none
}
