//! What a request did to the omap of its object, over what is stored.
//!
//! Removed ranges are kept as ranges: removing reads nothing, however much there is to remove, and later reads skip
//! what was removed.

use std::{collections::BTreeMap, ops::Bound};

use bytes::Bytes;

/// The changes that a request made to the omap of its object.
#[derive(Clone, Debug, Default)]
pub(super) struct Omap {
    /// Entries that were set, or, without a value, removed one by one.
    entries: BTreeMap<Bytes, Option<Bytes>>,
    /// Where nothing that is stored counts: first keys with those behind the last; none touches another.
    removed: BTreeMap<Bytes, Bytes>,
    /// Nothing that is stored counts.
    is_new: bool,
}

impl Omap {
    pub(super) fn new(is_new: bool) -> Omap {
        Omap { is_new, ..Omap::default() }
    }

    /// True if nothing that is stored counts.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    pub(super) fn set(&mut self, entries: &BTreeMap<Bytes, Bytes>) {
        self.entries.extend(entries.iter().map(|(key, value)| (key.clone(), Some(value.clone()))));
    }

    pub(super) fn remove(&mut self, keys: &[Bytes]) {
        self.entries.extend(keys.iter().map(|key| (key.clone(), None)));
    }

    /// Removes what is from `first` to before `last`, which is behind it.
    pub(super) fn remove_range(&mut self, first: &Bytes, last: &Bytes) {
        let mut within = self.entries.split_off(first);
        self.entries.append(&mut within.split_off(last));
        if self.is_new {
            return;
        }
        let (mut first, mut last) = (first.clone(), last.clone());
        // Ranges that begin up to where this one ends, and end where it begins or later: from the last one backwards.
        while let Some((at, end)) =
            self.removed.range(..=last.clone()).next_back().filter(|(_, end)| **end >= first)
        {
            let at = at.clone();
            last = last.max(end.clone());
            self.removed.remove(&at);
            first = first.min(at);
        }
        self.removed.insert(first, last);
    }

    /// What the request left at a key; none where that is what is stored.
    pub(super) fn known(&self, key: &[u8]) -> Option<Option<Bytes>> {
        match self.entries.get(key) {
            Some(value) => Some(value.clone()),
            None => (self.is_new || self.end_of_removed(key).is_some()).then_some(None),
        }
    }

    /// Where the removed range ends that has this key.
    fn end_of_removed(&self, key: &[u8]) -> Option<&Bytes> {
        let range = (Bound::Unbounded, Bound::Included(key));
        let (_, end) = self.removed.range::<[u8], _>(range).next_back()?;
        (end.as_ref() > key).then_some(end)
    }

    /// From where on to read what is stored: the same place, or behind the range that it is in.
    pub(super) fn past_removed(&self, from: Bound<Bytes>) -> Bound<Bytes> {
        let (Bound::Included(key) | Bound::Excluded(key)) = &from else { return from };
        match self.end_of_removed(key) {
            Some(end) => Bound::Included(end.clone()),
            None => from,
        }
    }

    /// Entries that were set, or, without a value, removed one by one, from a place on.
    pub(super) fn changes_from(&self, from: Bound<&[u8]>) -> impl Iterator<Item = (&Bytes, Option<&Bytes>)> {
        let range = self.entries.range::<[u8], _>((from, Bound::Unbounded));
        range.map(|(key, value)| (key, value.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn removed_ranges_that_touch_are_one() {
        let mut omap = Omap::new(false);
        for (first, last) in
            [("c", "e"), ("k", "m"), ("e", "g"), ("a", "b"), ("f", "k"), ("x", "z"), ("d", "e")]
        {
            omap.remove_range(&key(first), &key(last));
        }
        let ranges: Vec<_> = omap.removed.iter().map(|(first, last)| (first.clone(), last.clone())).collect();
        assert_eq!(ranges, [("a", "b"), ("c", "m"), ("x", "z")].map(|(first, last)| (key(first), key(last))));
        assert_eq!(omap.past_removed(Bound::Excluded(key("d"))), Bound::Included(key("m")));
        assert_eq!(omap.past_removed(Bound::Included(key("m"))), Bound::Included(key("m")));
        omap.remove_range(&key(""), &key("zz"));
        assert_eq!(omap.removed, BTreeMap::from([(key(""), key("zz"))]));
    }

    #[test]
    fn what_is_set_in_a_removed_range_is_there() {
        let mut omap = Omap::new(false);
        omap.set(&BTreeMap::from([(key("b"), key("old")), (key("x"), key("kept"))]));
        omap.remove_range(&key("a"), &key("f"));
        assert_eq!(omap.known(b"b"), Some(None));
        omap.set(&BTreeMap::from([(key("b"), key("new"))]));
        assert_eq!(omap.known(b"b"), Some(Some(key("new"))));
        assert_eq!((omap.known(b"f"), omap.known(b"x")), (None, Some(Some(key("kept")))));
        omap.remove(&[key("c")]);
        let changes: Vec<_> =
            omap.changes_from(Bound::Unbounded).map(|(key, value)| (key.clone(), value.cloned())).collect();
        let set = |at, value| (key(at), Some(key(value)));
        assert_eq!(changes, [set("b", "new"), (key("c"), None), set("x", "kept")]);
    }
}
