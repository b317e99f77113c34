//! Room for checkpoints, however full the device is: a store that cannot write one commits nothing when its journal is
//! full, and gives nothing back of what is removed.
//!
//! A checkpoint writes changed pages, and what is pending without a place, while all that it replaces is still held. So
//! what that will take is known about ([`crate::index`]) and weighed against the free space: a checkpoint begins long before
//! they are equal, and what grows waits when it would need half of what there is. It may wait until something is removed,
//! and all that is behind it in its collection waits with it; the cluster is told that the device is full long before, and
//! what clients write is refused. What removes waits only while a checkpoint is due that would else find
//! no room. So a checkpoint always finds some, and the next mount's does, too: that one writes in one go what the running
//! store had written with the checkpoint being made, and what has changed since.

use types::{Mutation, Transaction, TxnOp};

use super::Store;
use crate::{allocator::Run, device::BLOCK, index::is_resident};

/// The part of the room left for growth beyond which a checkpoint begins, and the part of all free space at which it
/// begins where there is hardly any such room.
const BEGIN_PART: u64 = 4;
const BEGIN_PART_OF_ALL: u64 = 8;
/// Checkpoints that what has changed must leave room for before more may grow.
const GROWTH_TIMES: u64 = 2;
/// Quarters of the free space that a checkpoint may need before what removes has to wait for it.
const REMOVAL_QUARTERS: u64 = 3;
/// Bytes that an object's pending pieces take beside what they hold: mostly its name.
const PENDING_OBJECT_BYTES: u64 = 512;

impl Store {
    /// Bytes that a checkpoint needs for the index: one begun now, and what is left of the one being made.
    fn index_need(&self) -> u64 {
        let need = self.index.dirty_need() + self.index.frozen_need();
        if need == 0 { 0 } else { need + self.space.changes.dirty_count() * BLOCK }
    }

    /// True if what there is is many times what anything here may need: mostly that is all there is to know.
    fn has_plenty(&self) -> bool {
        let pending = self.pending_bytes + self.pending_objects.len() as u64 * PENDING_OBJECT_BYTES + BLOCK;
        let index = self.index.need_at_most() + self.space.changes.dirty_count() * BLOCK;
        let floor = self.growth_floor();
        let has_plenty = 8 * (index + pending) <= self.free_bytes().saturating_sub(floor);
        debug_assert!(
            !has_plenty || self.may_grow(0) && !self.is_short_for_removals(),
            "then nothing is short"
        );
        has_plenty
    }

    /// True if so many bytes hold what is pending, but for `placed` bytes of it, in the next two checkpoints: one writes
    /// it while the last one's is still held. What the last durable one has is held already.
    fn holds_pending(&self, room: u64, placed: u64) -> bool {
        if self.pending_bytes <= placed {
            return true;
        }
        let names = self.pending_objects.len() as u64 * PENDING_OBJECT_BYTES;
        let bytes = (self.pending_bytes - placed + names).next_multiple_of(BLOCK);
        if 2 * bytes <= room {
            return true;
        }
        let held = self.pending_blobs.iter().map(|blob| u64::from(blob.bytes).next_multiple_of(BLOCK));
        2 * bytes - held.sum::<u64>().min(bytes) <= room
    }

    fn free_bytes(&self) -> u64 {
        self.space.free_count() * BLOCK
    }

    fn growth_floor(&self) -> u64 {
        self.space.growth_floor() * BLOCK
    }

    /// True if what grows finds room on the device, and `count` blocks besides.
    fn may_grow(&self, count: u64) -> bool {
        let kept = self.growth_floor() + GROWTH_TIMES * self.index_need() + count * BLOCK;
        self.free_bytes().checked_sub(kept).is_some_and(|room| self.holds_pending(room, 0))
    }

    /// True if what grows has to wait for room on the device.
    pub(super) fn is_short_of_room(&self) -> bool {
        !self.has_plenty() && !self.is_opening && !self.may_grow(0)
    }

    /// True if a checkpoint has to make sure of its room before even more is removed.
    pub(super) fn is_short_for_removals(&self) -> bool {
        let index_need = self.index_need();
        let room =
            self.free_bytes().saturating_sub(self.space.mount_reserve() * BLOCK) / 4 * REMOVAL_QUARTERS;
        let has_room = || room.checked_sub(index_need).is_some_and(|room| self.holds_pending(room, 0));
        !self.is_opening && !self.has_no_room && index_need > 0 && !has_room()
    }

    /// True if a checkpoint is wanted so that it finds room, or makes some for those that wait.
    pub(super) fn wants_room(&self) -> bool {
        if self.has_plenty() {
            return false;
        }
        let dirty_need = self.index.dirty_need();
        let fresh_pending = self.pending_bytes.saturating_sub(self.pending_bytes_left);
        if self.has_no_room || dirty_need + fresh_pending == 0 {
            return false;
        }
        let (free, floor) = (self.free_bytes(), self.growth_floor());
        let enough = (free.saturating_sub(floor) / BEGIN_PART).max(free / BEGIN_PART_OF_ALL);
        let after = (free + self.space.quarantined_count() * BLOCK).checked_sub(floor);
        let would_help = || after.is_some_and(|room| room > 0 && self.holds_pending(room, 0));
        dirty_need + fresh_pending > enough
            || self.is_short_for_removals()
            || self.waiting.has_held() && self.is_short_of_room() && (fresh_pending > 0 || would_help())
    }

    /// Takes new space for a large write; none if that must not be.
    pub(super) fn allocate_data(&mut self, count: u64) -> Option<Vec<Run>> {
        if self.may_grow(count) { self.space.allocate(count) } else { None }
    }

    /// Takes places for blocks that hold `placed` bytes of what is pending; none if a checkpoint needs the room more.
    pub(super) fn allocate_places(&mut self, count: u64, placed: u64) -> Option<Vec<Run>> {
        let kept = self.growth_floor() + self.index_need() + count * BLOCK;
        let room = self.free_bytes().checked_sub(kept)?;
        if self.holds_pending(room, placed) { self.space.allocate_pending(count) } else { None }
    }
}

/// True if the transaction gives space back, and takes none but for what the OSD keeps for itself.
pub(super) fn makes_room(txn: &Transaction) -> bool {
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
            Mutation::Write { .. }
            | Mutation::OmapSet(_)
            | Mutation::CloneFrom { .. }
            | Mutation::CloneRangeFrom { .. } => return is_resident(object),
        }
        true
    });
    has_removal && takes_none
}
