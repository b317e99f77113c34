//! Values of blocks, of which those that follow each other mostly have the same.
//!
//! Memory is by runs of equal values, whatever they hold: what clones share is long runs.

use std::collections::BTreeMap;

use crate::allocator::Run;

/// Values by block. Runs do not overlap, and neighbours with equal values are one.
#[derive(Clone, Debug)]
pub(crate) struct RunMap<V> {
    /// By first block: how many, and the value of each.
    runs: BTreeMap<u64, (u64, V)>,
}

impl<V> Default for RunMap<V> {
    fn default() -> RunMap<V> {
        RunMap { runs: BTreeMap::new() }
    }
}

impl<V: Copy + Eq> RunMap<V> {
    /// How many runs there are.
    pub(crate) fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// A block's value, if it has one.
    pub(crate) fn get(&self, block: u64) -> Option<V> {
        self.within(Run { start: block, count: 1 }).next().map(|(_, value)| value)
    }

    /// All runs, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Run, V)> + '_ {
        self.runs.iter().map(|(&start, &(count, value))| (Run { start, count }, value))
    }

    /// The parts of `run` that have values, in order.
    pub(crate) fn within(&self, run: Run) -> impl Iterator<Item = (Run, V)> + '_ {
        let before = self.runs.range(..run.start).next_back();
        let all = before.into_iter().chain(self.runs.range(run.start..run.end().max(run.start)));
        all.filter_map(move |(&start, &(count, value))| {
            let (low, high) = (start.max(run.start), (start + count).min(run.end()));
            (low < high).then(|| (Run { start: low, count: high - low }, value))
        })
    }

    /// All of `run` in parts of equal values, those without one included.
    pub(crate) fn parts(&self, run: Run) -> Vec<(Run, Option<V>)> {
        let (mut out, mut at) = (Vec::new(), run.start);
        for (part, value) in self.within(run) {
            if at < part.start {
                out.push((Run { start: at, count: part.start - at }, None));
            }
            at = part.end();
            out.push((part, Some(value)));
        }
        if at < run.end() {
            out.push((Run { start: at, count: run.end() - at }, None));
        }
        out
    }

    /// Gives the blocks of a run a value, or none.
    pub(crate) fn set(&mut self, run: Run, value: Option<V>) {
        if run.count == 0 {
            return;
        }
        self.cut(run.start);
        self.cut(run.end());
        while let Some((&start, _)) = self.runs.range(run.start..run.end()).next() {
            self.runs.remove(&start);
        }
        let Some(value) = value else { return };
        let mut whole = run;
        if let Some((&start, &(count, known))) = self.runs.range(..run.start).next_back()
            && start + count == run.start
            && known == value
        {
            whole = Run { start, count: count + whole.count };
        }
        if let Some(&(count, known)) = self.runs.get(&run.end())
            && known == value
        {
            self.runs.remove(&run.end());
            whole.count += count;
        }
        self.runs.insert(whole.start, (whole.count, value));
    }

    /// Makes `block` the first one of its run, if it is in one.
    fn cut(&mut self, block: u64) {
        let Some((&start, (count, value))) = self.runs.range_mut(..block).next_back() else { return };
        let end = start + *count;
        if block < end {
            *count = block - start;
            let value = *value;
            self.runs.insert(block, (end - block, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn it_has_what_a_value_for_each_block_has_in_the_fewest_runs() {
        for seed in 0..50 {
            let mut rng = StdRng::seed_from_u64(seed);
            let (mut map, mut model) = (RunMap::default(), vec![None; 64]);
            for _ in 0..200 {
                let start = rng.random_range(0..64);
                let run = Run { start, count: rng.random_range(0..=64 - start) };
                let value = Some(rng.random_range(0..3)).filter(|value| *value > 0);
                map.set(run, value);
                model[run.start as usize..run.end() as usize].fill(value);
                let asked = Run { start: rng.random_range(0..32), count: rng.random_range(0..32) };
                let parts = map.parts(asked);
                let blocks =
                    parts.iter().flat_map(|(part, value)| (part.start..part.end()).map(move |b| (b, *value)));
                let expected = (asked.start..asked.end()).map(|block| (block, model[block as usize]));
                assert!(blocks.eq(expected), "seed {seed}");
                assert!(parts.windows(2).all(|pair| pair[0].1 != pair[1].1), "seed {seed}: {parts:?}");
                let alike = |at: &usize| *at == 0 || model[*at] != model[*at - 1];
                let runs = (0..64).filter(|at| model[*at].is_some() && alike(at)).count();
                assert_eq!(map.run_count(), runs, "seed {seed}");
                assert!((0..64).all(|block| map.get(block) == model[block as usize]), "seed {seed}");
            }
        }
    }
}
