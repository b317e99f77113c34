//! Keys with their values, in one allocation.

use std::collections::BTreeMap;

use bytes::Bytes;

/// A map of few entries, such as the attributes or omap entries that a transaction sets. Entries are in the order of
/// their keys, and each key is there once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs(Vec<(Bytes, Bytes)>);

impl Pairs {
    /// No entries.
    pub fn new() -> Pairs {
        Pairs::default()
    }

    /// Room for so many entries.
    pub fn with_capacity(count: usize) -> Pairs {
        Pairs(Vec::with_capacity(count))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, (Bytes, Bytes)> {
        self.0.iter()
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &Bytes> {
        self.0.iter().map(|(key, _)| key)
    }

    fn find(&self, key: &[u8]) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(key))
    }

    /// A key's value.
    pub fn get(&self, key: &[u8]) -> Option<&Bytes> {
        self.find(key).ok().map(|at| &self.0[at].1)
    }

    /// True if the key is there.
    pub fn contains_key(&self, key: &[u8]) -> bool {
        self.find(key).is_ok()
    }

    /// Gives a key a value, whatever it had.
    pub fn insert(&mut self, key: Bytes, value: Bytes) {
        match self.find(&key) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &[u8]) {
        if let Ok(at) = self.find(key) {
            self.0.remove(at);
        }
    }

    /// Keeps the entries whose keys are wanted.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&Bytes) -> bool) {
        self.0.retain(|(key, _)| is_wanted(key));
    }
}

/// Of a key that comes twice the last value counts.
impl From<Vec<(Bytes, Bytes)>> for Pairs {
    fn from(mut pairs: Vec<(Bytes, Bytes)>) -> Pairs {
        if !pairs.is_sorted_by(|one, next| one.0 < next.0) {
            pairs.sort_by(|one, other| one.0.cmp(&other.0));
            pairs.dedup_by(|later, kept| {
                let is_same = later.0 == kept.0;
                if is_same {
                    std::mem::swap(later, kept);
                }
                is_same
            });
        }
        Pairs(pairs)
    }
}

impl FromIterator<(Bytes, Bytes)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (Bytes, Bytes)>>(pairs: I) -> Pairs {
        Pairs::from(Vec::from_iter(pairs))
    }
}

impl<const N: usize> From<[(Bytes, Bytes); N]> for Pairs {
    fn from(pairs: [(Bytes, Bytes); N]) -> Pairs {
        Pairs::from(Vec::from(pairs))
    }
}

impl From<BTreeMap<Bytes, Bytes>> for Pairs {
    fn from(map: BTreeMap<Bytes, Bytes>) -> Pairs {
        Pairs(map.into_iter().collect())
    }
}

impl IntoIterator for Pairs {
    type Item = (Bytes, Bytes);
    type IntoIter = std::vec::IntoIter<(Bytes, Bytes)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Pairs {
    type Item = &'a (Bytes, Bytes);
    type IntoIter = std::slice::Iter<'a, (Bytes, Bytes)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key: &'static str, value: &'static str) -> (Bytes, Bytes) {
        (Bytes::from(key), Bytes::from(value))
    }

    #[test]
    fn they_are_a_map() {
        let entries = [pair("b", "1"), pair("a", "2"), pair("b", "3"), pair("c", "4"), pair("b", "5")];
        let mut pairs = Pairs::from(entries.clone());
        let mut map = BTreeMap::from(entries);
        assert_eq!(pairs, Pairs::from(map.clone()));
        for (key, value) in [pair("d", "6"), pair("0", "7"), pair("b", "8")] {
            pairs.insert(key.clone(), value.clone());
            map.insert(key, value);
        }
        pairs.remove(b"c");
        pairs.remove(b"x");
        map.remove(&b"c"[..]);
        assert!(pairs.iter().map(|(key, value)| (key, value)).eq(&map));
        assert_eq!((pairs.get(b"b"), pairs.contains_key(b"c")), (Some(&Bytes::from("8")), false));
        pairs.retain(|key| key > &b"a"[..]);
        assert_eq!(pairs, Pairs::from([pair("b", "8"), pair("d", "6")]));
    }
}
