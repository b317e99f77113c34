//! A set of blocks that begins empty, and is empty again soon.

use std::{collections::BTreeMap, iter};

use super::{GROUP_BLOCKS, Run, base, group::Group, groups_of, joined, part_in, split};

/// Blocks, wherever on the devices they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockSet {
    /// Those that have some.
    groups: BTreeMap<u64, Group>,
}

impl BlockSet {
    /// Adds blocks; some may be there.
    pub(crate) fn insert(&mut self, run: Run) {
        split(run).for_each(|(group, part)| self.groups.entry(group).or_default().insert(part));
    }

    /// Adds blocks, none of which is there.
    ///
    /// # Errors
    /// With the first block that is there; then none is added.
    pub(crate) fn insert_new(&mut self, run: Run) -> Result<(), u64> {
        if let Some(known) = self.pieces_within(run).next() {
            return Err(known.start);
        }
        self.insert(run);
        Ok(())
    }

    /// Adds all of another set.
    pub(crate) fn append(&mut self, other: BlockSet) {
        other.runs().for_each(|run| self.insert(run));
    }

    /// Takes blocks away; some may not be there.
    pub(crate) fn remove(&mut self, run: Run) {
        for (group, part) in split(run) {
            let Some(blocks) = self.groups.get_mut(&group) else { continue };
            blocks.remove(part);
            if blocks.is_empty() {
                self.groups.remove(&group);
            }
        }
    }

    /// Takes some of the first blocks away.
    pub(crate) fn pop_first(&mut self) -> Option<Run> {
        let run = self.pieces_within(Run { start: 0, count: u64::MAX }).next()?;
        self.remove(run);
        Some(run)
    }

    pub(crate) fn has(&self, block: u64) -> bool {
        let group = block / GROUP_BLOCKS;
        self.groups.get(&group).is_some_and(|blocks| blocks.has(block - base(group)))
    }

    /// All blocks, in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> {
        self.within(Run { start: 0, count: u64::MAX })
    }

    /// The blocks of a run that are in the set, in order.
    pub(crate) fn within(&self, run: Run) -> impl Iterator<Item = Run> {
        joined(self.pieces_within(run).map(|piece| (piece, ()))).map(|(run, ())| run)
    }

    /// The blocks of a run that are in the set, in order, cut at the borders of groups.
    fn pieces_within(&self, run: Run) -> impl Iterator<Item = Run> {
        let groups = groups_of(run).map(|groups| self.groups.range(groups)).into_iter().flatten();
        groups.flat_map(move |(&group, blocks)| {
            let part = part_in(group, run);
            let mut at = part.start;
            iter::from_fn(move || {
                let found = blocks.next(at).filter(|found| found.start < part.end())?;
                at = found.end();
                Some(Run { start: base(group) + found.start, count: at.min(part.end()) - found.start })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::DeviceRole;

    #[test]
    fn it_has_the_blocks_that_a_set_has() {
        for seed in 0..20 {
            let mut rng = StdRng::seed_from_u64(seed);
            // Some of the main device, some of the index'.
            let bases = [0, DeviceRole::Index.base_block()];
            let (mut set, mut model) = (BlockSet::default(), BTreeSet::new());
            let longest = [1, 30, 1_000][seed as usize % 3];
            for _ in 0..1_000 {
                let mut random = |longest| {
                    let start = bases[rng.random_range(0..2)] + rng.random_range(0..2 * GROUP_BLOCKS);
                    Run { start, count: rng.random_range(1..=longest) }
                };
                let (inserted, removed, asked) = (random(longest), random(longest), random(500));
                set.insert(inserted);
                model.extend(inserted.start..inserted.end());
                set.remove(removed);
                for block in removed.start..removed.end() {
                    model.remove(&block);
                }
                let within = set.within(asked).flat_map(|run| run.start..run.end());
                assert!(within.eq(model.range(asked.start..asked.end()).copied()), "seed {seed}");
                assert_eq!(set.has(asked.start), model.contains(&asked.start), "seed {seed}");
            }
            let mut other = BlockSet::default();
            other.append(set.clone());
            let runs: Vec<Run> = other.runs().collect();
            assert!(runs.windows(2).all(|pair| pair[0].end() < pair[1].start), "seed {seed}");
            let popped = std::iter::from_fn(|| set.pop_first()).flat_map(|run| run.start..run.end());
            assert!(popped.eq(model), "seed {seed}");
            assert!(set.groups.is_empty(), "seed {seed}");
        }
    }

    #[test]
    fn what_is_let_go_of_twice_is_told() {
        let mut set = BlockSet::default();
        assert_eq!(set.insert_new(Run { start: 5, count: 3 }), Ok(()));
        assert_eq!(set.insert_new(Run { start: 7, count: 2 }), Err(7));
        assert_eq!(set.runs().collect::<Vec<Run>>(), [Run { start: 5, count: 3 }]);
    }
}
