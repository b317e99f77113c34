//! The free blocks of a device, and where to find so many of them together.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

use super::{
    GROUP_BLOCKS, Run, base,
    group::Group,
    size_index::{CLASSES, SizeIndex, class_of, fewest_of, most_of},
    split,
};

/// How many groups are looked through for a run that may be there: groups are known by classes of sizes.
const TRIES_MAX: usize = 4;

/// Free blocks of an area, by runs that are as long as can be.
#[derive(Debug)]
pub(crate) struct FreeMap {
    area: Run,
    /// What is in the runs that are in one group.
    groups: Vec<Counted>,
    /// The first group's number on the device.
    first_group: u64,
    index: SizeIndex,
    /// For each class where in its group a run was found last: those before are likely to be larger, or taken.
    found_at: [u16; CLASSES],
    /// The runs that are in more than one group: at most one begins in each. First block, count.
    wide: BTreeMap<u64, u64>,
    /// The runs that are in more than one group, by size: count, first block.
    wide_by_size: BTreeSet<(u64, u64)>,
    count: u64,
}

/// A group's free blocks, and how many runs of each class they are.
#[derive(Clone, Debug)]
struct Counted {
    blocks: Group,
    runs: [u16; CLASSES],
}

impl Default for FreeMap {
    fn default() -> FreeMap {
        FreeMap::new(Run::default())
    }
}

/// True if all of a run, which is not empty, is in one group.
fn is_narrow(run: Run) -> bool {
    run.start / GROUP_BLOCKS == (run.end() - 1) / GROUP_BLOCKS
}

impl FreeMap {
    /// Nothing of `area` is free yet.
    pub(crate) fn new(area: Run) -> FreeMap {
        let first_group = area.start / GROUP_BLOCKS;
        let count = (area.end().div_ceil(GROUP_BLOCKS) - first_group) as usize;
        let none = Counted { blocks: Group::default(), runs: [0; CLASSES] };
        FreeMap {
            area,
            groups: vec![none; count],
            first_group,
            index: SizeIndex::new(count),
            found_at: [0; CLASSES],
            wide: BTreeMap::new(),
            wide_by_size: BTreeSet::new(),
            count: 0,
        }
    }

    /// How many blocks are free.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Makes blocks free, none of which is.
    ///
    /// # Errors
    /// With the first block that is free already, or of a run that is not of this area; then nothing is made free.
    pub(crate) fn free(&mut self, run: Run) -> Result<(), u64> {
        if run.count == 0 {
            return Ok(());
        }
        if !self.area.holds(run) {
            return Err(run.start);
        }
        if let Some(known) = self.next_in(run) {
            return Err(known.start);
        }
        self.count += run.count;
        let neighbours = [run.start.checked_sub(1), Some(run.end())].map(|at| self.holding(at?));
        let start = neighbours[0].map_or(run.start, |before| before.start);
        let end = neighbours[1].map_or(run.end(), |behind| behind.end());
        let whole = Run { start, count: end - start };
        if is_narrow(whole) {
            neighbours.into_iter().flatten().for_each(|other| self.uncount(other));
            let (at, inner) = self.place(run);
            self.groups[at].blocks.insert(inner);
            self.count_in(whole);
        } else {
            neighbours.into_iter().flatten().for_each(|other| self.cut(other));
            self.put(whole);
        }
        Ok(())
    }

    /// Takes exactly this run; false if part of it is not free.
    pub(crate) fn reserve(&mut self, run: Run) -> bool {
        if run.count == 0 || !self.area.holds(run) {
            return false;
        }
        let Some(whole) = self.holding(run.start).filter(|whole| whole.holds(run)) else { return false };
        self.take_of(whole, run);
        true
    }

    /// Takes `count` blocks: of about the smallest run that has as many, or else of about the largest ones, one after
    /// the other. None if so many are not free.
    pub(crate) fn take(&mut self, count: u64) -> Option<Vec<Run>> {
        if self.count < count {
            return None;
        }
        let mut out = Vec::new();
        let mut left = count;
        while left > 0 {
            let whole = self.fit(left).or_else(|| self.large())?;
            let used = whole.split_at(left).0;
            self.take_of(whole, used);
            left -= used.count;
            out.push(used);
        }
        Some(out)
    }

    /// All free runs, in order.
    #[cfg(test)]
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> {
        self.within(self.area)
    }

    /// What is free of a run of blocks, in order.
    pub(crate) fn within(&self, run: Run) -> impl Iterator<Item = Run> {
        let in_groups = split(run).flat_map(|(group, part)| {
            let mut at = part.start;
            let blocks = self.group(group).map(|group| &group.blocks);
            iter::from_fn(move || {
                let found = blocks?.next(at).filter(|found| found.start < part.end())?;
                at = found.end();
                let end = at.min(part.end());
                Some(Run { start: base(group) + found.start, count: end - found.start })
            })
        });
        let before = self.wide.range(..run.start).next_back();
        let wide = before.into_iter().chain(self.wide.range(run.start..run.end().max(run.start)));
        let wide = wide.filter_map(move |(&start, &count)| {
            let (low, high) = (start.max(run.start), (start + count).min(run.end()));
            (low < high).then(|| Run { start: low, count: high - low })
        });
        let (mut in_groups, mut wide) = (in_groups.peekable(), wide.peekable());
        iter::from_fn(move || match (in_groups.peek(), wide.peek()) {
            (Some(one), Some(other)) if one.start < other.start => in_groups.next(),
            (_, Some(_)) => wide.next(),
            (_, None) => in_groups.next(),
        })
    }

    /// The first of a run's blocks that are free.
    fn next_in(&self, run: Run) -> Option<Run> {
        if !is_narrow(run) {
            return self.within(run).next();
        }
        let (at, inner) = self.place(run);
        match self.groups[at].blocks.next(inner.start) {
            Some(next) if next.start < inner.end() => {
                Some(Run { start: run.start + next.start - inner.start, ..next })
            }
            // One that is in several groups begins before, or goes on behind.
            Some(_) | None => self.wide_holding(run.start).or_else(|| self.wide_holding(run.end() - 1)),
        }
    }

    fn group(&self, group: u64) -> Option<&Counted> {
        self.groups.get(group.checked_sub(self.first_group)? as usize)
    }

    /// The whole run that a block is in.
    fn holding(&self, block: u64) -> Option<Run> {
        let group = block / GROUP_BLOCKS;
        if let Some(run) = self.group(group)?.blocks.holding(block - base(group)) {
            return Some(Run { start: base(group) + run.start, ..run });
        }
        self.wide_holding(block)
    }

    fn wide_holding(&self, block: u64) -> Option<Run> {
        let (&start, &count) = self.wide.range(..=block).next_back()?;
        (block < start + count).then_some(Run { start, count })
    }

    /// The smallest run of at least so many blocks, but for what [`SizeIndex`] does not tell apart.
    fn fit(&mut self, count: u64) -> Option<Run> {
        let wide = self.wide_by_size.range((count, 0)..).next().map(|&(count, start)| Run { start, count });
        let narrow = if count <= GROUP_BLOCKS { self.fit_narrow(count) } else { None };
        match (narrow, wide) {
            (Some(one), Some(other)) if other.count < one.count => Some(other),
            (narrow, wide) => narrow.or(wide),
        }
    }

    fn fit_narrow(&mut self, count: u64) -> Option<Run> {
        // Some groups of its own class may have smaller runs only.
        let class = class_of(count);
        let found = {
            let mut groups = self.index.groups_of(class).take(TRIES_MAX);
            groups.find_map(|group| self.fit_in(group, count, class))
        };
        if let Some(run) = found {
            self.found_at[class] = (run.start % GROUP_BLOCKS) as u16;
            return Some(run);
        }
        self.first_of(self.index.lowest(class + 1)?)
    }

    /// One of about the largest runs.
    fn large(&mut self) -> Option<Run> {
        let wide = self.wide_by_size.last().map(|&(count, start)| Run { start, count });
        let narrow = self.index.highest().and_then(|class| self.first_of(class));
        match (narrow, wide) {
            (Some(one), Some(other)) if other.count > one.count => Some(other),
            (narrow, wide) => narrow.or(wide),
        }
    }

    fn first_of(&mut self, class: usize) -> Option<Run> {
        let run = self.fit_in(self.index.groups_of(class).next()?, fewest_of(class), class)?;
        self.found_at[class] = (run.start % GROUP_BLOCKS) as u16;
        Some(run)
    }

    /// The smallest run of a class in a group that has `count` blocks.
    fn fit_in(&self, group: usize, count: u64, class: usize) -> Option<Run> {
        let run = self.groups[group].blocks.fit(count, most_of(class), self.found_at[class].into())?;
        Some(Run { start: base(self.first_group + group as u64) + run.start, ..run })
    }

    /// Takes part of a whole run.
    fn take_of(&mut self, whole: Run, part: Run) {
        self.count -= part.count;
        let before = Run { start: whole.start, count: part.start - whole.start };
        let behind = Run { start: part.end(), count: whole.end() - part.end() };
        let rest = [before, behind].into_iter().filter(|run| run.count > 0);
        if is_narrow(whole) {
            self.uncount(whole);
            let (at, inner) = self.place(part);
            self.groups[at].blocks.remove(inner);
            rest.for_each(|run| self.count_in(run));
        } else {
            self.cut(whole);
            rest.for_each(|run| self.put(run));
        }
    }

    /// Adds a whole run.
    fn put(&mut self, run: Run) {
        if !is_narrow(run) {
            self.wide.insert(run.start, run.count);
            self.wide_by_size.insert((run.count, run.start));
            return;
        }
        let (at, inner) = self.place(run);
        self.groups[at].blocks.insert(inner);
        self.count_in(run);
    }

    /// Takes a whole run away.
    fn cut(&mut self, run: Run) {
        if !is_narrow(run) {
            self.wide.remove(&run.start);
            self.wide_by_size.remove(&(run.count, run.start));
            return;
        }
        let (at, inner) = self.place(run);
        self.groups[at].blocks.remove(inner);
        self.uncount(run);
    }

    /// There is a whole run, which is in one group.
    fn count_in(&mut self, run: Run) {
        let (at, class) = (self.place(run).0, class_of(run.count));
        let count = &mut self.groups[at].runs[class];
        *count += 1;
        if *count == 1 {
            self.index.insert(class, at);
        }
    }

    /// There is no longer such a run.
    fn uncount(&mut self, run: Run) {
        let (at, class) = (self.place(run).0, class_of(run.count));
        let count = &mut self.groups[at].runs[class];
        *count -= 1;
        if *count == 0 {
            self.index.remove(class, at);
        }
    }

    /// The group that a narrow run is in, and the run counted from its first block.
    fn place(&self, run: Run) -> (usize, Run) {
        let group = run.start / GROUP_BLOCKS;
        ((group - self.first_group) as usize, Run { start: run.start - base(group), ..run })
    }
}

#[cfg(test)]
mod tests;
