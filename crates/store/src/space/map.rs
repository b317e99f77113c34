//! Which blocks of the data area are used, as a checkpoint keeps it: so that a mount need not look at every
//! object.
//!
//! The area is cut in regions. A region's record has a bit for each block that an object, an index page or
//! pending bytes of the checkpoint's moment use, and how often blocks are shared. Only regions in which
//! something changed are written again. The blocks of the records themselves, and of the root, are in no
//! record: the root and the superblock refer to them.

use std::collections::BTreeSet;

use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, Encode, Features, Reader};

use super::{BlockSet, References, Run, Space};
use crate::{DeviceRole, device::BLOCK};

/// Of a record that lists shared blocks one by one. It is read in any case, and written for a region that has none.
const MAGIC: u32 = 0x4752_4c4c;
/// Of one that lists them by runs.
const MAGIC_RUNS: u32 = 0x5352_4c4c;
/// Blocks of a region: its record fits one block unless blocks are shared.
pub(crate) const REGION_BLOCKS: u64 = 31 << 10;
const BITMAP_BYTES: usize = (REGION_BLOCKS / 8) as usize;
/// A block has fewer references than this, so that none that counts on from a record overflows: there are not so many
/// objects.
const REFERENCES_END: u32 = 1 << 31;
/// Bytes of a run in the list of a region's shared blocks.
const SHARED_RUN_BYTES: u64 = 12;
/// Blocks of the longest such list: each block is a run of its own.
const LIST_BLOCKS_MAX: u64 = (REGION_BLOCKS * SHARED_RUN_BYTES).div_ceil(BLOCK);

/// A region's record: this, and [`SharedBlocks`] or [`SharedRuns`].
#[derive(Codec, Clone, Debug)]
struct Region {
    magic: u32,
    /// A bit for each block, the lowest first: 1 is used.
    used: Bytes,
}

/// Blocks of the region that have more than one reference, and how many more.
type SharedBlocks = Vec<(u32, u32)>;
/// Shared blocks as runs of neighbours with equally many references: first block, number of blocks, references.
type SharedRuns = Vec<(u32, u32, u32)>;

/// What changes the map.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Regions whose record differs from what the checkpoint that began last will hold.
    dirty: BTreeSet<u64>,
    /// Set while a checkpoint is made.
    moment: Option<Moment>,
    /// Blocks of records and root.
    own: BlockSet,
}

/// The state that the checkpoint being made holds, as far as it is not that of now.
#[derive(Debug, Default)]
struct Moment {
    /// Regions to be rendered, and those that are.
    dirty: BTreeSet<u64>,
    rendered: BTreeSet<u64>,
    /// What is free when the checkpoint is durable.
    freed: BlockSet,
    /// What was allocated for data since.
    taken: BlockSet,
    /// All references that blocks had, of those where that has changed since.
    references: References,
    guarded: BlockSet,
}

/// The index' own device has no map: the directory says what is used.
fn regions_of(run: Run) -> std::ops::Range<u64> {
    if run.start >= DeviceRole::Index.base_block() {
        return 0..0;
    }
    run.start / REGION_BLOCKS..run.end().div_ceil(REGION_BLOCKS)
}

impl Changes {
    /// A run was allocated for data, or let go of.
    pub(crate) fn mark(&mut self, run: Run) {
        self.dirty.extend(regions_of(run));
    }

    /// A run was allocated for data.
    pub(crate) fn taken(&mut self, run: Run) {
        self.mark(run);
        if let Some(moment) = &mut self.moment {
            moment.taken.insert(run);
        }
    }

    /// A run was allocated for a page of the checkpoint being made.
    pub(crate) fn taken_by_index(&mut self, run: Run) {
        let moment = self.moment.as_mut().expect("pages are written by checkpoints");
        moment.dirty.extend(regions_of(run));
    }

    /// A run was allocated for a record or the root.
    pub(crate) fn taken_by_map(&mut self, run: Run) {
        self.own.insert(run);
    }

    /// The count of references beyond the first of a run's blocks is about to change from `count`.
    pub(crate) fn shares(&mut self, run: Run, count: u32) {
        self.mark(run);
        let Some(moment) = &mut self.moment else { return };
        for (part, known) in moment.references.parts(run) {
            if known == 0 {
                moment.references.set(part, count + 1);
            }
        }
    }

    /// A checkpoint begins: `freed` is what it does not refer to any more.
    pub(crate) fn freeze(&mut self, freed: BlockSet, guarded: BlockSet) {
        assert!(self.moment.is_none(), "one checkpoint is made at a time");
        let dirty = std::mem::take(&mut self.dirty);
        self.moment = Some(Moment { dirty, freed, guarded, ..Moment::default() });
    }

    /// The checkpoint lets go of a run, of a page; an error as from [`BlockSet::insert_new`].
    pub(crate) fn freed_by_index(&mut self, run: Run) -> Result<(), u64> {
        let moment = self.moment.as_mut().expect("pages are replaced by checkpoints");
        moment.dirty.extend(regions_of(run));
        moment.freed.insert_new(run)
    }

    /// The checkpoint lets go of a run, of a record or of the root; an error as from [`BlockSet::insert_new`].
    pub(crate) fn freed_by_map(&mut self, run: Run) -> Result<(), u64> {
        self.own.remove(run);
        self.moment.as_mut().map_or(Ok(()), |moment| moment.freed.insert_new(run))
    }

    /// A run of a record or root that nobody refers to is free.
    pub(crate) fn forget(&mut self, run: Run) {
        self.own.remove(run);
    }

    /// The checkpoint is durable: what is free.
    pub(crate) fn finish(&mut self) -> BlockSet {
        self.moment.take().map(|moment| moment.freed).unwrap_or_default()
    }

    /// The checkpoint comes to nothing: what is let go of still, and the blocks that lost a reference.
    pub(crate) fn thaw(&mut self) -> (BlockSet, BlockSet) {
        let Some(moment) = self.moment.take() else { return Default::default() };
        self.dirty.extend(moment.dirty);
        self.dirty.extend(moment.rendered);
        (moment.freed, moment.guarded)
    }

    /// How many regions' records the next checkpoint writes, and the one being made.
    pub(crate) fn dirty_count(&self) -> u64 {
        (self.dirty.len() + self.moment.as_ref().map_or(0, |moment| moment.dirty.len())) as u64
    }

    /// The next region to be rendered.
    pub(crate) fn next_region(&mut self) -> Option<u64> {
        let moment = self.moment.as_mut()?;
        let region = moment.dirty.pop_first()?;
        moment.rendered.insert(region);
        Some(region)
    }
}

impl Space {
    /// The blocks of the area that are in a region.
    fn region(&self, region: u64) -> Run {
        let (start, end) = (region * REGION_BLOCKS, (region + 1) * REGION_BLOCKS);
        let low = start.max(self.area.start);
        Run { start: low, count: end.min(self.area.end()).saturating_sub(low) }
    }

    /// Blocks that the records take which the next checkpoint writes, and the one being made, at most: it is not looked
    /// which of all shared runs are in those regions.
    pub(crate) fn records_need(&self) -> u64 {
        let dirty_count = self.changes.dirty_count();
        // What was otherwise when the checkpoint began may have cut a run in three.
        let then = self.changes.moment.as_ref().map_or(0, |moment| moment.references.run_count());
        let run_count = (self.shared.run_count() + 2 * then) as u64;
        if run_count == 0 {
            return dirty_count;
        }
        // A list begins anew with its region, and a block holds it to its end.
        let lists = (run_count + dirty_count) * SHARED_RUN_BYTES / BLOCK + dirty_count;
        dirty_count + lists.min(dirty_count * LIST_BLOCKS_MAX)
    }

    /// The record of a region for the checkpoint being made; none if all of it is free. `discarding`: runs that
    /// nobody uses and that are not free yet.
    pub(crate) fn render_region(&self, region: u64, discarding: impl Iterator<Item = Run>) -> Vec<u8> {
        let within = self.region(region);
        let base = region * REGION_BLOCKS;
        let mut used = Bitmap(vec![0; BITMAP_BYTES]);
        used.set(within.start - base, within.end() - base, true);
        let nothing = Moment::default();
        let moment = self.changes.moment.as_ref().unwrap_or(&nothing);
        self.free_within(within).for_each(|run| used.set(run.start - base, run.end() - base, false));
        for blocks in [&self.changes.own, &moment.freed, &moment.taken] {
            blocks.within(within).for_each(|run| used.set(run.start - base, run.end() - base, false));
        }
        for run in discarding {
            let (low, high) = (run.start.max(within.start), run.end().min(within.end()));
            if low < high {
                used.set(low - base, high - base, false);
            }
        }
        let mut shared = References::default();
        let then = moment.references.within(within).map(|(run, count)| (run, count - 1));
        self.shared.within(within).chain(then).for_each(|(run, count)| shared.set(run, count));
        if used.0.iter().all(|byte| *byte == 0) {
            return Vec::new();
        }
        // Without any, the record is as earlier builds read it.
        let shared: SharedRuns =
            shared.iter().map(|(run, count)| ((run.start - base) as u32, run.count as u32, count)).collect();
        let magic = if shared.is_empty() { MAGIC } else { MAGIC_RUNS };
        let mut out = Region { magic, used: Bytes::from(used.0) }.to_bytes(Features::default()).to_vec();
        shared.encode(&mut out, Features::default());
        out
    }

    /// Takes in a region's record: what is not used is free. The regions come in order, each once; one without a
    /// record is all free.
    pub(crate) fn open_region(&mut self, region: u64, record: Option<Bytes>) -> Result<(), DecodeError> {
        let within = self.region(region);
        let base = region * REGION_BLOCKS;
        let Some(record) = record else {
            self.free(within);
            return Ok(());
        };
        let mut record = Reader::new(record);
        let Region { magic, used } = Region::decode(&mut record)?;
        let shared: SharedRuns = match magic {
            MAGIC => SharedBlocks::decode(&mut record)?
                .into_iter()
                .map(|(block, count)| (block, 1, count))
                .collect(),
            MAGIC_RUNS => SharedRuns::decode(&mut record)?,
            _ => return Err(DecodeError::Invalid { what: "region of the space map", value: region }),
        };
        let is_sound = |(first, count, references): &(u32, u32, u32)| {
            within.holds(Run { start: base + u64::from(*first), count: u64::from(*count) })
                && (1..REFERENCES_END).contains(references)
        };
        if used.len() != BITMAP_BYTES || !shared.iter().all(is_sound) {
            return Err(DecodeError::Invalid { what: "region of the space map", value: region });
        }
        let used = Bitmap(used.to_vec());
        let mut at = within.start;
        while at < within.end() {
            let start = at;
            let is_used = used.get(at - base);
            while at < within.end() && used.get(at - base) == is_used {
                at += 1;
            }
            if !is_used {
                self.free(Run { start, count: at - start });
            }
        }
        for (first, count, references) in shared {
            let run = Run { start: base + u64::from(first), count: u64::from(count) };
            self.shared.set(run, references);
        }
        Ok(())
    }

    /// How many regions there are, those before the area included.
    pub(crate) fn region_count(area: Run) -> usize {
        area.end().div_ceil(REGION_BLOCKS) as usize
    }
}

struct Bitmap(Vec<u8>);

impl Bitmap {
    fn set(&mut self, from: u64, to: u64, value: bool) {
        let mut at = from;
        while at < to {
            let byte = (at / 8) as usize;
            if at.is_multiple_of(8) && to - at >= 8 {
                self.0[byte] = if value { 0xff } else { 0 };
                at += 8;
                continue;
            }
            let bit = 1 << (at % 8);
            self.0[byte] = if value { self.0[byte] | bit } else { self.0[byte] & !bit };
            at += 1;
        }
    }

    fn get(&self, at: u64) -> bool {
        self.0[(at / 8) as usize] >> (at % 8) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A space of two regions, in use but for what a checkpoint's record says later.
    fn space(area: Run) -> Space {
        let mut space = Space::new(area, Run::default());
        space.free(area);
        assert!(space.reserve_data(area));
        space
    }

    fn reopened(area: Run, records: &[Vec<u8>]) -> Space {
        let mut space = Space::new(area, Run::default());
        for (region, record) in (0..).zip(records) {
            let record = Some(Bytes::copy_from_slice(record)).filter(|record| !record.is_empty());
            space.open_region(region, record).unwrap();
        }
        space
    }

    #[test]
    fn what_clones_share_goes_through_a_record_by_runs() {
        let area = Run { start: 0, count: 2 * REGION_BLOCKS };
        let mut space = space(area);
        let whole = Run { start: REGION_BLOCKS - 1_000, count: 2_000 };
        space.share(whole);
        space.share(Run { start: REGION_BLOCKS - 10, count: 20 });
        space.release(Run { start: REGION_BLOCKS - 1_000, count: 100 });
        space.freeze();
        // What changes from here on is not the checkpoint's.
        space.share(Run { start: REGION_BLOCKS, count: 5 });
        space.release(Run { start: REGION_BLOCKS + 500, count: 500 });
        let records: Vec<Vec<u8>> =
            (0..2).map(|region| space.render_region(region, [].into_iter())).collect();
        assert!(records.iter().all(|record| record.len() < BITMAP_BYTES + 100));
        let found: Vec<(Run, u32)> = reopened(area, &records).shared.iter().collect();
        let run = |from: i64, to: i64| Run {
            start: REGION_BLOCKS.wrapping_add_signed(from),
            count: (to - from) as u64,
        };
        assert_eq!(found, [(run(-900, -10), 1), (run(-10, 10), 2), (run(10, 1_000), 1)]);
    }

    #[test]
    fn records_take_no_more_than_is_said_before() {
        let area = Run { start: 0, count: 2 * REGION_BLOCKS };
        for step in [0, 2, 3, 7, 1_000] {
            let mut space = space(area);
            let starts = (1..REGION_BLOCKS + 100).step_by(step.max(1)).filter(|_| step > 0);
            starts.for_each(|start| space.share(Run { start, count: 1 }));
            let need = space.records_need();
            space.freeze();
            assert_eq!(space.records_need(), need);
            let records = (0..2).map(|region| space.render_region(region, [].into_iter()).len() as u64);
            let written: u64 = records.map(|bytes| bytes.div_ceil(BLOCK)).sum();
            assert!((written..=2 * written + 2).contains(&need), "{step}: {written} of {need}");
            // Nothing changes any more.
            while space.changes.next_region().is_some() {}
            assert_eq!(space.records_need(), 0);
        }
    }

    #[test]
    fn records_that_list_blocks_one_by_one_are_read() {
        let area = Run { start: 0, count: REGION_BLOCKS };
        let shared: SharedBlocks = vec![(7, 1), (8, 1), (9, 4)];
        let region = Region { magic: MAGIC, used: Bytes::from(vec![0xff; BITMAP_BYTES]) };
        let mut record = region.to_bytes(Features::default()).to_vec();
        shared.encode(&mut record, Features::default());
        let found: Vec<(Run, u32)> = reopened(area, &[record]).shared.iter().collect();
        assert_eq!(found, [(Run { start: 7, count: 2 }, 1), (Run { start: 9, count: 1 }, 4)]);
    }

    #[test]
    fn shared_runs_that_cannot_be_are_refused() {
        let area = Run { start: 0, count: REGION_BLOCKS };
        let last = REGION_BLOCKS as u32 - 1;
        let opened = |run: (u32, u32, u32)| {
            let region = Region { magic: MAGIC_RUNS, used: Bytes::from(vec![0xff; BITMAP_BYTES]) };
            let mut record = region.to_bytes(Features::default()).to_vec();
            SharedRuns::from([run]).encode(&mut record, Features::default());
            let mut space = Space::new(area, Run::default());
            space.open_region(0, Some(record.into())).map(|()| space.share(Run { start: 7, count: 1 }))
        };
        for run in [(last, 1, 1), (7, 1, 1), (7, 1, REFERENCES_END - 1)] {
            assert!(opened(run).is_ok(), "{run:?}");
        }
        for run in
            [(last, 2, 1), (u32::MAX, u32::MAX, 1), (7, 1, 0), (7, 1, REFERENCES_END), (7, 1, u32::MAX)]
        {
            assert!(opened(run).is_err(), "{run:?}");
        }
    }
}
