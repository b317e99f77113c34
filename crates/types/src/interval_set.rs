//! Sets of integers kept as intervals (`interval_set<T>`).

use std::collections::BTreeMap;

use codec::{Decode, DecodeError, Encode, Features, Reader};

/// Disjoint intervals: start to length. On the wire a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntervalSet(BTreeMap<u64, u64>);

impl Encode for IntervalSet {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        self.0.encode(out, features);
    }
}

/// Intervals that overlap, as no sender tells them that is sound, are taken for all that is in any of them.
impl Decode for IntervalSet {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let intervals = Vec::<(u64, u64)>::decode(input)?;
        let is_before = |one: &(u64, u64), next: &(u64, u64)| {
            one.0 < next.0 && one.0.checked_add(one.1).is_some_and(|end| end <= next.0)
        };
        if intervals.is_sorted_by(is_before) {
            return Ok(IntervalSet(intervals.into_iter().collect()));
        }
        let mut set = IntervalSet::new();
        intervals.into_iter().for_each(|(start, len)| set.insert(start, len));
        Ok(set)
    }
}

impl IntervalSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// True without elements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Intervals as (start, length), ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|(s, l)| (*s, *l))
    }

    /// How many intervals there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// How many elements there are.
    pub fn size(&self) -> u64 {
        self.0.values().fold(0, |sum, len| sum.saturating_add(*len))
    }

    /// True when `value` is an element.
    pub fn contains(&self, value: u64) -> bool {
        self.0.range(..=value).next_back().is_some_and(|(s, l)| value - s < *l)
    }

    /// Adds `[start, start + len)`, merging with what it touches. The highest number is in no set.
    pub fn insert(&mut self, start: u64, len: u64) {
        let (mut from, mut to) = (start, start.saturating_add(len));
        if from == to {
            return;
        }
        let touching: Vec<u64> = self
            .0
            .range(..=to)
            .rev()
            .take_while(|(s, l)| s.saturating_add(**l) >= from)
            .map(|(s, _)| *s)
            .collect();
        for s in touching {
            let l = self.0.remove(&s).expect("the key was just seen");
            from = from.min(s);
            to = to.max(s.saturating_add(l));
        }
        self.0.insert(from, to - from);
    }

    /// Removes `[start, start + len)`, whatever of it is there.
    pub fn remove(&mut self, start: u64, len: u64) {
        let end = start.saturating_add(len);
        let touching: Vec<(u64, u64)> = self
            .0
            .range(..end)
            .rev()
            .take_while(|(s, l)| s.saturating_add(**l) > start)
            .map(|(s, l)| (*s, *l))
            .collect();
        for (s, l) in touching {
            self.0.remove(&s);
            if s < start {
                self.0.insert(s, start - s);
            }
            if s.saturating_add(l) > end {
                self.0.insert(end, s.saturating_add(l) - end);
            }
        }
    }

    /// Adds every element of `other`.
    pub fn union_with(&mut self, other: &IntervalSet) {
        for (s, l) in other.iter() {
            self.insert(s, l);
        }
    }

    /// Removes every element of `other`.
    pub fn subtract(&mut self, other: &IntervalSet) {
        for (s, l) in other.iter() {
            self.remove(s, l);
        }
    }

    /// The elements that both sets have.
    pub fn intersection(&self, other: &IntervalSet) -> IntervalSet {
        let mut out = IntervalSet::new();
        for (s, l) in self.iter() {
            for (t, m) in
                other.0.range(..s.saturating_add(l)).rev().take_while(|(t, m)| t.saturating_add(**m) > s)
            {
                let from = s.max(*t);
                let to = s.saturating_add(l).min(t.saturating_add(*m));
                out.insert(from, to - from);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(intervals: &[(u64, u64)]) -> IntervalSet {
        IntervalSet::from_bytes(intervals.to_vec().to_bytes(Features::default())).unwrap()
    }

    #[test]
    fn intervals_that_overlap_have_what_is_in_any_of_them() {
        let set = read(&[(0, 100), (5, 2), (200, 1), (150, 60)]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [(0, 100), (150, 60)]);
        assert!(set.contains(10) && !set.contains(100));
        let endless = read(&[(1, u64::MAX), (7, u64::MAX)]);
        assert_eq!(endless.iter().collect::<Vec<_>>(), [(1, u64::MAX - 1)]);
        // What is told in order is kept as it is told.
        let adjacent = [(1, 2), (3, 4)];
        assert_eq!(read(&adjacent).iter().collect::<Vec<_>>(), adjacent);
    }

    #[test]
    fn nothing_begins_at_the_end_of_all_numbers() {
        let mut set = read(&[(1, 2)]);
        set.insert(u64::MAX, 5);
        assert_eq!(set, read(&[(1, 2)]));
    }
}
