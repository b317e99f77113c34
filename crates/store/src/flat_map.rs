//! An ordered map in one allocation: most objects have one extent and two xattrs, and there are millions of them.

use std::{borrow::Borrow, ops::Range};

use codec::{Decode, DecodeError, Encode, Features, Reader};

/// Entries up to which room is made for no more than there are.
const EXACT_MAX: usize = 8;

/// Entries in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlatMap<K, V> {
    pairs: Vec<(K, V)>,
}

impl<K, V> Default for FlatMap<K, V> {
    fn default() -> FlatMap<K, V> {
        FlatMap { pairs: Vec::new() }
    }
}

impl<K: Ord, V> FlatMap<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.pairs.len()
    }

    pub(crate) fn clear(&mut self) {
        self.pairs = Vec::new();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.pairs.iter()
    }

    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.pairs.binary_search_by(|(other, _)| other.borrow().cmp(key))
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|at| &self.pairs[at].1)
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|at| &mut self.pairs[at].1)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        match self.find(&key) {
            Ok(at) => self.pairs[at].1 = value,
            Err(at) => {
                if self.pairs.len() < EXACT_MAX {
                    self.pairs.reserve_exact(1);
                }
                self.pairs.insert(at, (key, value));
            }
        }
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|at| self.pairs.remove(at).1)
    }

    /// The last entry with a key up to this one.
    pub(crate) fn last_upto(&self, key: &K) -> Option<&(K, V)> {
        self.pairs[..self.pairs.partition_point(|(other, _)| other <= key)].last()
    }

    /// The last entry with a key up to this one, to be changed.
    pub(crate) fn last_upto_mut(&mut self, key: &K) -> Option<&mut (K, V)> {
        let end = self.pairs.partition_point(|(other, _)| other <= key);
        self.pairs[..end].last_mut()
    }

    /// Entries of a range of keys.
    pub(crate) fn range(&self, keys: Range<&K>) -> &[(K, V)] {
        let start = self.pairs.partition_point(|(other, _)| other < keys.start);
        let len = self.pairs[start..].partition_point(|(other, _)| other < keys.end);
        &self.pairs[start..start + len]
    }
}

impl<K: Encode, V: Encode> Encode for FlatMap<K, V> {
    fn encode(&self, out: &mut Vec<u8>, f: Features) {
        (self.pairs.len() as u32).encode(out, f);
        for (key, value) in &self.pairs {
            key.encode(out, f);
            value.encode(out, f);
        }
    }
}

impl<K: Decode + Ord, V: Decode> Decode for FlatMap<K, V> {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let count = input.count(1)?;
        let mut pairs = Vec::with_capacity(count.min(EXACT_MAX));
        for _ in 0..count {
            pairs.push((K::decode(input)?, V::decode(input)?));
        }
        if !pairs.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(DecodeError::Invalid { what: "order of a map's keys", value: count as u64 });
        }
        Ok(FlatMap { pairs })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn it_is_a_map() {
        let mut rng = StdRng::seed_from_u64(1);
        let (mut flat, mut model) = (FlatMap::<u64, u64>::default(), BTreeMap::new());
        for value in 0..2_000 {
            let key = rng.random_range(0..60);
            if rng.random_bool(0.6) {
                flat.insert(key, value);
                model.insert(key, value);
            } else {
                assert_eq!(flat.remove(&key), model.remove(&key));
            }
            let (low, high) = (rng.random_range(0..60), rng.random_range(60..70));
            let range: Vec<(u64, u64)> = model.range(low..high).map(|(k, v)| (*k, *v)).collect();
            assert_eq!(flat.range(&low..&high), range);
            assert_eq!(flat.get(&key), model.get(&key));
            let last = model.range(..=key).next_back().map(|(k, v)| (*k, *v));
            assert_eq!(flat.last_upto(&key).copied(), last);
            assert_eq!(flat.last_upto_mut(&key).copied(), last);
        }
        let bytes = flat.to_bytes(Features::default());
        assert_eq!(bytes, model.to_bytes(Features::default()));
        assert_eq!(FlatMap::from_bytes(bytes), Ok(flat));
        assert!(FlatMap::<u8, u8>::from_bytes(vec![2, 0, 0, 0, 5, 1, 5, 1].into()).is_err());
    }
}
