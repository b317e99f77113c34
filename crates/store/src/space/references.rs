//! How many references blocks have beyond what all have.

use std::collections::BTreeMap;

use super::{GROUP_BLOCKS, Run, base, counts::Counts, groups_of, joined, part_in, split};

/// Counts by block; 0 where nothing else is said.
#[derive(Clone, Debug, Default)]
pub(crate) struct References {
    /// Groups of which not all counts are 0.
    groups: BTreeMap<u64, Counts>,
    run_count: usize,
}

impl References {
    /// How many runs of blocks with equal counts there are, if groups are looked at one by one.
    pub(crate) fn run_count(&self) -> usize {
        self.run_count
    }

    /// A block's count.
    pub(crate) fn get(&self, block: u64) -> u32 {
        let group = block / GROUP_BLOCKS;
        self.groups.get(&group).map_or(0, |counts| counts.get(block - base(group)))
    }

    /// All runs of blocks with equal counts that are not 0, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Run, u32)> {
        self.within(Run { start: 0, count: u64::MAX })
    }

    /// Runs of blocks with equal counts that are not 0, within a run, in order.
    pub(crate) fn within(&self, run: Run) -> impl Iterator<Item = (Run, u32)> {
        joined(self.pieces_within(run))
    }

    /// Runs of blocks with equal counts that are not 0, within a run, cut at the borders of groups.
    fn pieces_within(&self, run: Run) -> impl Iterator<Item = (Run, u32)> {
        let groups = groups_of(run).map(|groups| self.groups.range(groups)).into_iter().flatten();
        groups.flat_map(move |(&group, counts)| {
            let within = counts.within(part_in(group, run));
            within.map(move |(part, count)| (Run { start: base(group) + part.start, ..part }, count))
        })
    }

    /// All of `run` in parts of equal counts.
    pub(crate) fn parts(&self, run: Run) -> Vec<(Run, u32)> {
        let (mut out, mut at) = (Vec::new(), run.start);
        for (part, count) in self.within(run) {
            if at < part.start {
                out.push((Run { start: at, count: part.start - at }, 0));
            }
            at = part.end();
            out.push((part, count));
        }
        if at < run.end() {
            out.push((Run { start: at, count: run.end() - at }, 0));
        }
        out
    }

    /// Gives the blocks of a run a count.
    pub(crate) fn set(&mut self, run: Run, count: u32) {
        for (group, part) in split(run) {
            let counts = self.groups.entry(group).or_default();
            self.run_count -= counts.run_count();
            counts.set(part, count);
            self.run_count += counts.run_count();
            if counts.is_empty() {
                self.groups.remove(&group);
            }
        }
    }
}

#[cfg(test)]
mod tests;
