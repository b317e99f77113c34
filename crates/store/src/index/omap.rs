//! The omap of an object, as far as it is in memory by itself: an ordered map whose ends are at hand.
//!
//! A PG's log is one, and every write adds an entry at its end and takes one from its beginning. A B-tree looks for
//! the place from its root, which costs a dozen keys that are in no cache, and one that only grows at its end leaves
//! its nodes half empty. Here entries lie in runs of at most [`RUN_MAX`]; the first and the last one are looked at
//! first. Behind the log there is what the PG keeps beside it: its end is the last entry but one.

use std::{cmp::Ordering, collections::VecDeque, ops::Bound};

use bytes::Bytes;

/// Entries of a run at most.
const RUN_MAX: usize = 64;
/// Two neighbours that have no more than that become one.
const MERGED_MAX: usize = RUN_MAX / 2;

type Pair = (Bytes, Bytes);

/// Which run, and which of its entries.
type At = (usize, usize);

/// Entries in the order of their keys; no run is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Omap {
    runs: VecDeque<VecDeque<Pair>>,
    len: usize,
}

impl Omap {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Bytes> {
        let (run, at) = self.seek(key).ok()?;
        Some(&self.runs[run][at].1)
    }

    /// The value that the key had.
    pub(crate) fn insert(&mut self, key: Bytes, value: Bytes) -> Option<Bytes> {
        let (run, at) = match self.seek(&key) {
            Ok((run, at)) => return Some(std::mem::replace(&mut self.runs[run][at].1, value)),
            Err(place) => place,
        };
        self.len += 1;
        let (run, at) = self.make_room(run, at);
        self.runs[run].insert(at, (key, value));
        None
    }

    /// The place for one more entry, which belongs to this one, in a run that is not full.
    fn make_room(&mut self, run: usize, at: usize) -> At {
        let len = self.runs.get(run).map_or(RUN_MAX, VecDeque::len);
        if len < RUN_MAX {
            return (run, at);
        }
        if self.runs.is_empty() {
            self.runs.push_back(VecDeque::new());
            return (0, 0);
        }
        // What grows at its end leaves full runs behind.
        let grows = run + 1 == self.runs.len() && at + 1 >= len;
        let cut = if grows { at } else { len / 2 };
        let rest = self.runs[run].split_off(cut);
        self.runs.insert(run + 1, rest);
        if at >= cut { (run + 1, at - cut) } else { (run, at) }
    }

    /// The value that the key had.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Bytes> {
        let (run, at) = self.seek(key).ok()?;
        let (_, value) = self.runs[run].remove(at)?;
        self.len -= 1;
        let left = self.runs[run].len();
        if left == 0 {
            self.runs.remove(run);
        } else if self.runs.get(run + 1).is_some_and(|next| left + next.len() <= MERGED_MAX)
            && let Some(mut next) = self.runs.remove(run + 1)
        {
            self.runs[run].append(&mut next);
        }
        Some(value)
    }

    /// Takes entries out, and tells of each.
    pub(crate) fn remove_range(
        &mut self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
        mut gone: impl FnMut(&Bytes, &Bytes),
    ) {
        let (from, to) = self.places(low, high);
        for run in from.0..self.runs.len().min(to.0 + 1) {
            let begin = if run == from.0 { from.1 } else { 0 };
            let end = if run == to.0 { to.1 } else { self.runs[run].len() };
            self.len -= end.saturating_sub(begin);
            self.runs[run].drain(begin..end.max(begin)).for_each(|(key, value)| gone(&key, &value));
        }
        self.runs.retain(|run| !run.is_empty());
    }

    /// The first and the last key between two.
    pub(crate) fn ends(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Option<(&Bytes, &Bytes)> {
        let mut keys = self.range(low, high).map(|(key, _)| key);
        let first = keys.next()?;
        Some((first, keys.last().unwrap_or(first)))
    }

    pub(crate) fn last_key(&self) -> Option<&Bytes> {
        self.runs.back()?.back().map(|(key, _)| key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.runs.iter().flatten().map(|(key, value)| (key, value))
    }

    /// Entries between two keys, in order; none where the first is behind the second.
    pub(crate) fn range(
        &self,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
    ) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        let (from, to) = self.places(low, high);
        let runs = self.runs.iter().enumerate().skip(from.0).take_while(move |(run, _)| *run <= to.0);
        runs.flat_map(move |(run, entries)| {
            let begin = if run == from.0 { from.1 } else { 0 };
            let end = if run == to.0 { to.1 } else { entries.len() };
            entries.range(begin..end.max(begin)).map(|(key, value)| (key, value))
        })
    }

    /// The places that two bounds say: the first entry within, and the first one behind. The second is not before the
    /// first.
    fn places(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> (At, At) {
        let from_or_after = |key: &[u8], includes: bool| match self.seek(key) {
            Ok((run, at)) => (run, at + usize::from(!includes)),
            Err(place) => place,
        };
        let from = match low {
            Bound::Included(key) => from_or_after(key, true),
            Bound::Excluded(key) => from_or_after(key, false),
            Bound::Unbounded => (0, 0),
        };
        let to = match high {
            Bound::Included(key) => from_or_after(key, false),
            Bound::Excluded(key) => from_or_after(key, true),
            Bound::Unbounded => (self.runs.len(), 0),
        };
        (from, to.max(from))
    }

    /// Where the key is, or where it belongs: in a run that is there, if there is any.
    fn seek(&self, key: &[u8]) -> Result<At, At> {
        let is_from = |run: &VecDeque<Pair>| run.front().is_some_and(|(first, _)| **first <= *key);
        let Some(last) = self.runs.len().checked_sub(1) else { return Err((0, 0)) };
        let run = if is_from(&self.runs[last]) {
            last
        } else if !is_from(&self.runs[last.min(1)]) {
            0
        } else {
            self.runs.partition_point(is_from) - 1
        };
        let entries = &self.runs[run];
        // The last two, and then all.
        for at in (0..entries.len()).rev().take(2) {
            match (*entries[at].0).cmp(key) {
                Ordering::Less => return Err((run, at + 1)),
                Ordering::Equal => return Ok((run, at)),
                Ordering::Greater => {}
            }
        }
        let found = entries.binary_search_by(|(other, _)| (**other).cmp(key));
        found.map(|at| (run, at)).map_err(|at| (run, at))
    }
}

impl IntoIterator for Omap {
    type Item = Pair;
    type IntoIter = std::iter::Flatten<std::collections::vec_deque::IntoIter<VecDeque<Pair>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.runs.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    fn key(number: u32) -> Bytes {
        Bytes::copy_from_slice(format!("{number:05}").as_bytes())
    }

    fn check(omap: &Omap, model: &BTreeMap<Bytes, Bytes>) {
        assert!(omap.iter().eq(model.iter()), "what is there");
        assert_eq!((omap.len(), omap.is_empty()), (model.len(), model.is_empty()), "how many");
        assert_eq!(omap.last_key(), model.keys().next_back());
        assert!(
            omap.runs.iter().all(|run| (1..=RUN_MAX).contains(&run.len())),
            "no run is empty or too long"
        );
    }

    fn bound<'a>(rng: &mut StdRng, key: &'a Bytes) -> Bound<&'a [u8]> {
        match rng.random_range(0..5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    }

    /// Whether the standard library's map takes such a range.
    fn is_ordered(low: Bound<&[u8]>, high: Bound<&[u8]>) -> bool {
        match (low, high) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
            (Bound::Included(low), Bound::Included(high)) => low <= high,
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
                low < high
            }
        }
    }

    #[test]
    fn it_has_what_an_ordered_map_has() {
        for seed in 0..30 {
            let mut rng = StdRng::seed_from_u64(seed);
            let (mut omap, mut model) = (Omap::default(), BTreeMap::new());
            let keys = rng.random_range(2..1500);
            for step in 0..3000 {
                let name = key(rng.random_range(0..keys));
                match rng.random_range(0..100) {
                    // Grows, and shrinks again.
                    0..=64 if step < 1500 => {
                        let value = key(step);
                        assert_eq!(omap.insert(name.clone(), value.clone()), model.insert(name, value));
                    }
                    0..=97 => assert_eq!(omap.remove(&name), model.remove(&name)),
                    98 => {
                        let other = key(rng.random_range(0..keys));
                        let (low, high) = (bound(&mut rng, &name), bound(&mut rng, &other));
                        let mut gone = Vec::new();
                        omap.remove_range(low, high, |key, _| gone.push(key.clone()));
                        let range = is_ordered(low, high).then(|| model.range::<[u8], _>((low, high)));
                        let wanted: Vec<Bytes> =
                            range.into_iter().flatten().map(|(key, _)| key.clone()).collect();
                        wanted.iter().for_each(|key| drop(model.remove(key)));
                        assert_eq!(gone, wanted, "seed {seed}, step {step}: {low:?} to {high:?}");
                    }
                    _ => check(&omap, &model),
                }
                assert_eq!(omap.get(&key(step % keys)), model.get(&key(step % keys)));
            }
            check(&omap, &model);
        }
    }

    #[test]
    fn ranges_are_those_of_an_ordered_map() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut omap = Omap::default();
        let mut model = BTreeMap::new();
        for number in (0..900).step_by(3) {
            omap.insert(key(number), Bytes::new());
            model.insert(key(number), Bytes::new());
        }
        for _ in 0..2000 {
            let (low, high) = (key(rng.random_range(0..905)), key(rng.random_range(0..905)));
            let (low, high) = (bound(&mut rng, &low), bound(&mut rng, &high));
            let found: Vec<_> = omap.range(low, high).collect();
            let wanted: Vec<_> = if is_ordered(low, high) {
                model.range::<[u8], _>((low, high)).collect()
            } else {
                Vec::new()
            };
            assert_eq!(found, wanted, "{low:?} to {high:?}");
        }
    }

    #[test]
    fn a_log_fills_its_runs() {
        let mut omap = Omap::default();
        omap.insert("progress".into(), Bytes::new());
        for number in 0..3200 {
            omap.insert(key(number), Bytes::new());
        }
        assert_eq!(omap.runs.len(), 3200 / RUN_MAX + 1);
        for number in 0..3000 {
            assert!(omap.remove(&key(number)).is_some());
        }
        assert_eq!(omap.iter().next().map(|(name, _)| name.clone()), Some(key(3000)));
        assert!(omap.runs.len() <= 200usize.div_ceil(RUN_MAX) + 2);
    }
}
