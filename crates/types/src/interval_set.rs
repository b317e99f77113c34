//! Sets of integers kept as intervals (`interval_set<T>`).

use std::collections::BTreeMap;

use codec::Codec;

/// Disjoint, non-adjacent intervals: start to length. On the wire a map.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct IntervalSet(BTreeMap<u64, u64>);

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

    /// How many elements there are.
    pub fn size(&self) -> u64 {
        self.0.values().fold(0, |sum, len| sum.saturating_add(*len))
    }

    /// True when `value` is an element.
    pub fn contains(&self, value: u64) -> bool {
        self.0.range(..=value).next_back().is_some_and(|(s, l)| value - s < *l)
    }

    /// Adds `[start, start + len)`, merging with what it touches.
    pub fn insert(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (mut from, mut to) = (start, start.saturating_add(len));
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
