//! Free and shared blocks of the data area.
//!
//! A block that is let go of is quarantined: it is allocated again only when a checkpoint that does not
//! refer to it is durable, so that whatever state a crash falls back to finds its blocks as they were.

use codec::{Decode, DecodeError, Encode, Features, Reader};

use super::{BlockSet, FreeMap, References, map::Changes};
use crate::{DeviceRole, device::BLOCK};

/// Consecutive blocks on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    /// The first block.
    pub(crate) start: u64,
    /// How many.
    pub(crate) count: u64,
}

impl Encode for Run {
    fn encode(&self, out: &mut Vec<u8>, f: Features) {
        (self.start, self.count).encode(out, f);
    }
}

/// One whose end is a byte that a device may have.
impl Decode for Run {
    fn decode(input: &mut Reader) -> Result<Run, DecodeError> {
        let (start, count) = <(u64, u64)>::decode(input)?;
        let end = start.checked_add(count).and_then(|end| end.checked_mul(BLOCK));
        end.map(|_| Run { start, count }).ok_or(DecodeError::Invalid { what: "run of blocks", value: start })
    }
}

impl Run {
    pub(crate) fn end(self) -> u64 {
        self.start + self.count
    }

    /// True if all of `inner` lies in it.
    pub(crate) fn holds(self, inner: Run) -> bool {
        inner.start >= self.start && inner.start.checked_add(inner.count).is_some_and(|end| end <= self.end())
    }

    /// The first `count` blocks, or all, and the rest.
    pub(crate) fn split_at(self, count: u64) -> (Run, Run) {
        let count = count.min(self.count);
        (Run { start: self.start, count }, Run { start: self.start + count, count: self.count - count })
    }
}

/// Space is discarded in whole aligned pieces of so many blocks: smaller ones cost devices and file systems more
/// than they give.
const GRANULE_BLOCKS: u64 = 16;

/// The main device's part of the space.
const MAIN: usize = 0;
/// The index device's.
const INDEX: usize = 1;

fn part(block: u64) -> usize {
    if block < DeviceRole::Index.base_block() { MAIN } else { INDEX }
}

#[derive(Debug, Default)]
pub(crate) struct Space {
    pub(crate) area: Run,
    /// Free blocks: of the main device, and of the index'.
    free: [FreeMap; 2],
    /// References beyond the first, of blocks that clones share.
    pub(crate) shared: References,
    quarantine: BlockSet,
    /// Blocks that lost a reference since the last checkpoint, which still has it.
    guarded: BlockSet,
    /// Blocks in quarantine, by part as above.
    quarantine_counts: [u64; 2],
    /// Blocks that nobody uses and that are being discarded.
    discard_count: u64,
    /// Blocks that new data does not take, so that a checkpoint finds room. What is pending may have half of them.
    reserve_count: u64,
    /// True while checkpoints leave what the next mount's may need.
    keeps_mount_reserve: bool,
    /// The first block that was let go of though it was free, or a second time.
    contradiction: Option<u64>,
    pub(crate) changes: Changes,
}

impl Space {
    /// A space of which nothing is free but `index_area`, which is for the index alone and may be empty.
    pub(crate) fn new(area: Run, index_area: Run) -> Space {
        let reserve_count = (area.count / 32).clamp(64.min(area.count / 4), 1 << 18);
        let free = [FreeMap::new(area), FreeMap::new(index_area)];
        let mut space = Space { area, free, reserve_count, ..Space::default() };
        space.free(index_area);
        space
    }

    /// Blocks for new data, those in quarantine included.
    pub(crate) fn available_count(&self) -> u64 {
        (self.free[MAIN].count() + self.quarantine_counts[MAIN] + self.discard_count)
            .saturating_sub(self.reserve_count)
    }

    /// True if new data has little room left that a checkpoint could enlarge.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        let quarantined = self.quarantine_counts[MAIN];
        quarantined > 0 && quarantined >= self.free[MAIN].count().saturating_sub(self.reserve_count) / 2
    }

    /// All free blocks.
    pub(crate) fn free_count(&self) -> u64 {
        self.free_counts().iter().sum()
    }

    /// Free blocks of the main device, and of the index'.
    pub(crate) fn free_counts(&self) -> [u64; 2] {
        self.free.each_ref().map(FreeMap::count)
    }

    /// Free runs, in order.
    #[cfg(test)]
    pub(crate) fn free_runs(&self) -> impl Iterator<Item = Run> {
        self.free.iter().flat_map(FreeMap::runs)
    }

    /// What is free of a run of one device, in order.
    pub(crate) fn free_within(&self, run: Run) -> impl Iterator<Item = Run> {
        self.free[part(run.start)].within(run)
    }

    /// Blocks that are free after the next checkpoint, of the main device and of the index'.
    pub(crate) fn free_counts_after(&self) -> [u64; 2] {
        [MAIN, INDEX].map(|part| self.free[part].count() + self.quarantine_counts[part])
    }

    /// Free blocks that growing data must leave, beside what checkpoints need.
    pub(crate) fn growth_floor(&self) -> u64 {
        self.reserve_count / 2
    }

    /// Free blocks that only the checkpoint which ends a mount may take: it writes at once what the running store wrote
    /// with up to two, and what that was about to need was only known about.
    pub(crate) fn mount_reserve(&self) -> u64 {
        self.reserve_count / 8
    }

    /// Free blocks that the next checkpoint leaves.
    pub(crate) fn checkpoint_floor(&self) -> u64 {
        if self.keeps_mount_reserve { self.mount_reserve() } else { 0 }
    }

    /// Says whether checkpoints leave the mount reserve from now on. The one that ends a mount does not, nor does one
    /// that follows another that found no room.
    pub(crate) fn keep_mount_reserve(&mut self, keeps: bool) {
        self.keeps_mount_reserve = keeps;
    }

    /// Takes `count` blocks for new data, in as few runs as [`FreeMap::take`] finds.
    pub(crate) fn allocate(&mut self, count: u64) -> Option<Vec<Run>> {
        self.allocate_above(count, self.reserve_count)
    }

    /// Takes `count` blocks for pending data: as each checkpoint would write it again, it may take part of the reserve.
    pub(crate) fn allocate_pending(&mut self, count: u64) -> Option<Vec<Run>> {
        self.allocate_above(count, self.growth_floor())
    }

    /// Takes `count` blocks for pending data that is whole blocks, of which each checkpoint would otherwise write as
    /// much: all free blocks but those that the next checkpoint leaves.
    pub(crate) fn allocate_whole(&mut self, count: u64) -> Option<Vec<Run>> {
        self.allocate_above(count, self.checkpoint_floor())
    }

    fn allocate_above(&mut self, count: u64, floor: u64) -> Option<Vec<Run>> {
        if self.free[MAIN].count() < count + floor {
            return None;
        }
        let runs = self.free[MAIN].take(count)?;
        runs.iter().for_each(|&run| self.changes.taken(run));
        Some(runs)
    }

    /// Takes `count` blocks for pages of the checkpoint being made: of the index' own device, or else of the main
    /// one, from the reserve too.
    pub(crate) fn allocate_index(&mut self, count: u64) -> Option<Vec<Run>> {
        let runs = self.take_for_index(count, usize::MAX)?;
        runs.iter().for_each(|&run| self.changes.taken_by_index(run));
        Some(runs)
    }

    /// Takes `count` blocks for records of the space map or the root, in so many runs at most: of the index' own
    /// device, or else of the main one, from the reserve too.
    pub(crate) fn allocate_map(&mut self, count: u64, runs_max: usize) -> Option<Vec<Run>> {
        let runs = self.take_for_index(count, runs_max)?;
        runs.iter().for_each(|&run| self.changes.taken_by_map(run));
        Some(runs)
    }

    /// The index' own device may have enough blocks, but too scattered for a root. Estimates of room count them
    /// nevertheless: a root is so small a part of what it leads to that the reserve of the main device has room for
    /// many, even the part that is kept for a mount.
    fn take_for_index(&mut self, count: u64, runs_max: usize) -> Option<Vec<Run>> {
        if let Some(runs) = self.take_in_runs(INDEX, count, runs_max) {
            return Some(runs);
        }
        if self.free[MAIN].count() < count + self.checkpoint_floor() {
            return None;
        }
        self.take_in_runs(MAIN, count, runs_max)
    }

    /// Takes `count` blocks of a device, if it has them in so many runs at most.
    fn take_in_runs(&mut self, part: usize, count: u64, runs_max: usize) -> Option<Vec<Run>> {
        let runs = self.free[part].take(count)?;
        if runs.len() <= runs_max {
            return Some(runs);
        }
        // No write is on its way to these blocks yet: they may be reused at once.
        runs.into_iter().for_each(|run| self.free(run));
        None
    }

    /// Makes a run free at once.
    pub(crate) fn free(&mut self, run: Run) {
        let freed = self.free[part(run.start)].free(run);
        self.agree(freed);
    }

    /// The first block that was let go of though it was free, or a second time; none in a sound store. The store must
    /// go no further then: the index, or the map of used space, is damaged, and what is allocated may be in use.
    pub(crate) fn contradiction(&self) -> Option<u64> {
        self.contradiction
    }

    /// True if what was let go of was in use; notes it otherwise.
    fn agree(&mut self, result: Result<(), u64>) -> bool {
        if let Err(block) = result {
            self.contradiction.get_or_insert(block);
        }
        result.is_ok()
    }

    /// The first of the device's granules that a run is part of and that are free as a whole, at most `max` blocks.
    pub(crate) fn free_granules(&self, run: Run, max: u64) -> Option<Run> {
        let low = run.start / GRANULE_BLOCKS * GRANULE_BLOCKS;
        let high = run.end().next_multiple_of(GRANULE_BLOCKS);
        self.free_within(Run { start: low, count: high - low }).find_map(|free| {
            let from = free.start.next_multiple_of(GRANULE_BLOCKS);
            let to = free.end() / GRANULE_BLOCKS * GRANULE_BLOCKS;
            (from < to).then(|| Run { start: from, count: to - from }.split_at(max).0)
        })
    }

    /// Takes [`Space::free_granules`], to be discarded; [`Space::discarded`] follows.
    pub(crate) fn take_granules(&mut self, run: Run, max: u64) -> Option<Run> {
        let granules = self.free_granules(run, max)?;
        if !self.reserve(granules) {
            return None;
        }
        self.discard_count += granules.count;
        Some(granules)
    }

    /// Frees what was taken to be discarded.
    pub(crate) fn discarded(&mut self, run: Run) {
        self.discard_count -= run.count;
        self.free(run);
    }

    /// True if data finds so little room that nothing may wait for a discard.
    pub(crate) fn is_short(&self) -> bool {
        self.free[MAIN].count() < self.reserve_count * 2
    }

    /// Takes exactly this run; false if part of it is not free.
    pub(crate) fn reserve(&mut self, run: Run) -> bool {
        self.free[part(run.start)].reserve(run)
    }

    /// Takes a run of the space map or the root, as a mount finds it; false if part of it is not free.
    pub(crate) fn reserve_map(&mut self, run: Run) -> bool {
        let is_free = self.reserve(run);
        if is_free {
            self.changes.taken_by_map(run);
        }
        is_free
    }

    /// Takes a run of data, as the journal names it; false if part of it is not free.
    pub(crate) fn reserve_data(&mut self, run: Run) -> bool {
        let is_free = self.reserve(run);
        if is_free {
            self.changes.taken(run);
        }
        is_free
    }

    /// Takes a run of a page, as a mount finds it, if it is on the index' own device, of which there is no map;
    /// false if part of it is not free. The map of the main device has the run: false if part of it is free.
    pub(crate) fn reserve_index(&mut self, run: Run) -> bool {
        match part(run.start) {
            MAIN => self.free_within(run).next().is_none(),
            _ => self.reserve(run),
        }
    }

    /// Adds a reference to each block of a run in use.
    pub(crate) fn share(&mut self, run: Run) {
        for (part, count) in self.shared.parts(run) {
            self.changes.shares(part, count);
            self.shared.set(part, count + 1);
        }
    }

    /// True if no other owner refers to the block, nor comes back if a crash undoes what is not in a
    /// checkpoint.
    pub(crate) fn is_exclusive(&self, block: u64) -> bool {
        self.shared.get(block) == 0 && !self.guarded.has(block)
    }

    /// Drops a reference to each block of a run; blocks without any left go to quarantine. Returns how many blocks
    /// still have one.
    pub(crate) fn release(&mut self, run: Run) -> u64 {
        if self.shared.within(run).next().is_none() {
            self.quarantine(run);
            return 0;
        }
        let mut kept_count = 0;
        for (part, count) in self.shared.parts(run) {
            if count == 0 {
                self.quarantine(part);
                continue;
            }
            self.guarded.insert(part);
            self.changes.shares(part, count);
            self.shared.set(part, count - 1);
            kept_count += part.count;
        }
        kept_count
    }

    fn quarantine(&mut self, run: Run) {
        let is_new = self.quarantine.insert_new(run);
        if self.agree(is_new) {
            self.quarantine_counts[part(run.start)] += run.count;
            self.changes.mark(run);
        }
    }

    /// A checkpoint begins: what was let go of up to now is given back when it is durable.
    pub(crate) fn freeze(&mut self) {
        let (freed, guarded) = (std::mem::take(&mut self.quarantine), std::mem::take(&mut self.guarded));
        self.changes.freeze(freed, guarded);
    }

    /// The checkpoint came to nothing: what it would have given back waits for the next one.
    pub(crate) fn thaw(&mut self) {
        let (freed, guarded) = self.changes.thaw();
        self.quarantine.append(freed);
        self.guarded.append(guarded);
    }

    /// The checkpoint being made lets go of a run of a page.
    pub(crate) fn release_index(&mut self, run: Run) {
        let is_new = self.changes.freed_by_index(run);
        if self.agree(is_new) {
            self.quarantine_counts[part(run.start)] += run.count;
        }
    }

    /// The checkpoint being made lets go of a run of a record of the space map, or of the root.
    pub(crate) fn release_map(&mut self, run: Run) {
        let is_new = self.changes.freed_by_map(run);
        if self.agree(is_new) {
            self.quarantine_counts[part(run.start)] += run.count;
        }
    }

    /// Frees a run of a record or root that no superblock refers to.
    pub(crate) fn free_map(&mut self, run: Run) {
        self.changes.forget(run);
        self.free(run);
    }

    /// Takes a run of which a durable checkpoint let go out of the count of quarantined blocks, before it is freed.
    pub(crate) fn leave_quarantine(&mut self, run: Run) {
        self.quarantine_counts[part(run.start)] -= run.count;
    }

    /// What a checkpoint does not refer to any more, if one is made and durable.
    pub(crate) fn quarantined(&self) -> impl Iterator<Item = Run> {
        self.quarantine.runs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_no_device_has_are_refused() {
        let last = u64::MAX / BLOCK;
        for (start, count, is_read) in [
            (0, 0, true),
            (7, 3, true),
            (last - 1, 1, true),
            (last, 1, false),
            (u64::MAX, 0, false),
            (7, u64::MAX, false),
            (u64::MAX - 1, 2, false),
        ] {
            let run = Run { start, count };
            let found = Run::from_bytes(run.to_bytes(Features::default()));
            assert_eq!(found.ok(), is_read.then_some(run));
        }
    }
}
