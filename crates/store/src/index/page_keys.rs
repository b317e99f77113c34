//! The first keys of pages that follow each other, in one piece of memory: most hold no more than a collection and a
//! hash ([`Key::between`]), and there is one for every few dozen objects.

use std::cmp::Ordering;

use bytes::Bytes;
use types::{CollId, HObject, PgId, PoolId, SnapId, cmp_bytes, cmp_reversed_bits};

use super::{Key, KeyRef};

/// What begins a key, one bit for each part that it has: a pool other than its collection's, names, a snapshot, an omap
/// key. The last bit is the end of a collection's objects.
const POOL: u8 = 1;
const NAMES: u8 = 1 << 1;
const SNAP: u8 = 1 << 2;
const OMAP: u8 = 1 << 3;
const MAX: u8 = 1 << 4;

/// The first keys of pages that follow each other, in one piece of memory.
#[derive(Debug, Default)]
pub(super) struct PageKeys {
    bytes: Vec<u8>,
    /// Where keys end.
    ends: Vec<u32>,
}

impl PageKeys {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of the keys.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<u32>()
    }

    pub(super) fn get(&self, at: usize) -> Key {
        self.raw(at).key()
    }

    /// How the key at this place compares to another one.
    pub(super) fn compare<'a>(&self, at: usize, key: impl Into<KeyRef<'a>>) -> Ordering {
        self.raw(at).compare(key.into())
    }

    /// How many keys are not behind this one.
    pub(super) fn count_upto<'a>(&self, key: impl Into<KeyRef<'a>>) -> usize {
        let key = key.into();
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.compare(middle, key).is_le() { low = middle + 1 } else { high = middle }
        }
        low
    }

    pub(super) fn insert(&mut self, at: usize, key: &Key) {
        let begin = self.begin(at);
        let mut encoded = Vec::new();
        encode(&mut encoded, key);
        self.bytes.splice(begin..begin, encoded.iter().copied());
        self.ends.insert(at, begin as u32);
        self.ends[at..].iter_mut().for_each(|end| *end += encoded.len() as u32);
    }

    pub(super) fn remove(&mut self, at: usize) {
        let (begin, end) = (self.begin(at), self.ends.remove(at) as usize);
        self.bytes.drain(begin..end);
        self.ends[at..].iter_mut().for_each(|other| *other -= (end - begin) as u32);
    }

    /// Takes out the keys from this place on.
    pub(super) fn split_off(&mut self, at: usize) -> PageKeys {
        let begin = self.begin(at);
        let mut out = PageKeys { bytes: self.bytes.split_off(begin), ends: self.ends.split_off(at) };
        out.ends.iter_mut().for_each(|end| *end -= begin as u32);
        out
    }

    fn begin(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }

    fn raw(&self, at: usize) -> RawKey<'_> {
        RawKey::open(&self.bytes[self.begin(at)..self.ends[at] as usize])
    }
}

fn encode(out: &mut Vec<u8>, key: &Key) {
    let Key { coll: CollId(pg), object, omap } = key;
    let names = [&object.nspace, &object.key, &object.oid];
    let part = |bit: u8, is_there: bool| if is_there { bit } else { 0 };
    let flags = part(POOL, object.pool != pg.pool)
        | part(NAMES, names.iter().any(|name| !name.is_empty()))
        | part(SNAP, object.snap.0 != 0)
        | part(OMAP, omap.is_some())
        | part(MAX, object.is_max);
    out.push(flags);
    out.extend(pg.pool.0.to_le_bytes());
    out.extend(pg.seed.to_le_bytes());
    out.extend(object.hash.to_le_bytes());
    if flags & POOL != 0 {
        out.extend(object.pool.0.to_le_bytes());
    }
    if flags & NAMES != 0 {
        for name in names {
            out.extend((name.len() as u32).to_le_bytes());
            out.extend_from_slice(name);
        }
    }
    if flags & SNAP != 0 {
        out.extend(object.snap.0.to_le_bytes());
    }
    out.extend_from_slice(omap.as_deref().unwrap_or_default());
}

/// A key where it lies.
struct RawKey<'a> {
    coll: CollId,
    pool: PoolId,
    hash: u32,
    nspace: &'a [u8],
    key: &'a [u8],
    oid: &'a [u8],
    snap: SnapId,
    is_max: bool,
    omap: Option<&'a [u8]>,
}

fn number<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (number, tail) = rest.split_first_chunk().expect("keys are put in as a whole");
    *rest = tail;
    *number
}

fn name<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let len = u32::from_le_bytes(number(rest)) as usize;
    let (name, tail) = rest.split_at(len);
    *rest = tail;
    name
}

impl<'a> RawKey<'a> {
    fn open(mut rest: &'a [u8]) -> RawKey<'a> {
        let rest = &mut rest;
        let [flags] = number(rest);
        let pool = PoolId(i64::from_le_bytes(number(rest)));
        let coll = CollId(PgId { pool, seed: u32::from_le_bytes(number(rest)) });
        let hash = u32::from_le_bytes(number(rest));
        let pool = if flags & POOL == 0 { pool } else { PoolId(i64::from_le_bytes(number(rest))) };
        let has_names = flags & NAMES != 0;
        let [nspace, key, oid] = [(); 3].map(|()| if has_names { name(rest) } else { &[] });
        let snap = SnapId(if flags & SNAP == 0 { 0 } else { u64::from_le_bytes(number(rest)) });
        let omap = (flags & OMAP != 0).then_some(*rest);
        RawKey { coll, pool, hash, nspace, key, oid, snap, is_max: flags & MAX != 0, omap }
    }

    fn key(&self) -> Key {
        let bytes = Bytes::copy_from_slice;
        let object = HObject {
            oid: bytes(self.oid),
            key: bytes(self.key),
            nspace: bytes(self.nspace),
            pool: self.pool,
            hash: self.hash,
            snap: self.snap,
            is_max: self.is_max,
        };
        Key { coll: self.coll, object, omap: self.omap.map(bytes) }
    }

    /// As keys compare.
    fn compare(&self, other: KeyRef<'_>) -> Ordering {
        self.coll
            .cmp(&other.coll)
            .then_with(|| self.compare_object(other.object))
            .then_with(|| self.omap.cmp(&other.omap))
    }

    fn compare_object(&self, other: &HObject) -> Ordering {
        if self.is_max || other.is_max {
            return self.is_max.cmp(&other.is_max);
        }
        self.pool
            .cmp(&other.pool)
            .then_with(|| cmp_reversed_bits(self.hash, other.hash))
            .then_with(|| cmp_bytes(self.nspace, &other.nspace))
            .then_with(|| self.compare_names(other))
            .then_with(|| self.snap.cmp(&other.snap))
    }

    fn compare_names(&self, other: &HObject) -> Ordering {
        if self.key.is_empty() && other.key.is_empty() {
            return cmp_bytes(self.oid, &other.oid);
        }
        let decisive = if self.key.is_empty() { self.oid } else { self.key };
        let others = if other.key.is_empty() { &other.oid } else { &other.key };
        cmp_bytes(decisive, others)
            .then_with(|| cmp_bytes(self.oid, &other.oid))
            .then_with(|| cmp_bytes(self.key, &other.key))
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    fn any_key(rng: &mut StdRng) -> Key {
        let mut name =
            |names: [&'static str; 3]| Bytes::from_static(names[rng.random_range(0..3)].as_bytes());
        let [oid, key, nspace] = [["a", "b", "ab"], ["", "", "ab"], ["", "", "n"]].map(&mut name);
        let omap = name(["", "k", "kk"]);
        let pool = PoolId(rng.random_range(-1..2));
        let seed = rng.random_range(0..2);
        let object = HObject {
            oid: if rng.random_bool(0.2) { Bytes::new() } else { oid },
            key,
            nspace,
            pool: if rng.random_bool(0.9) { pool } else { PoolId(-2) },
            hash: rng.random_range(0..3),
            snap: [SnapId(0), SnapId(4), SnapId::HEAD][rng.random_range(0..3)],
            is_max: rng.random_bool(0.1),
        };
        Key { coll: CollId(PgId { pool, seed }), object, omap: rng.random_bool(0.3).then_some(omap) }
    }

    #[test]
    fn keys_come_out_as_they_went_in_and_compare_as_they_do() {
        let mut rng = StdRng::seed_from_u64(5);
        for _ in 0..300 {
            let mut keys: Vec<Key> = (0..rng.random_range(1..60)).map(|_| any_key(&mut rng)).collect();
            keys.sort();
            keys.dedup_by(|a, b| a.cmp(&b).is_eq());
            let mut packed = PageKeys::default();
            keys.iter().step_by(2).enumerate().for_each(|(at, key)| packed.insert(at, key));
            keys.iter().enumerate().skip(1).step_by(2).for_each(|(at, key)| packed.insert(at, key));
            let all = |packed: &PageKeys| (0..packed.len()).map(|at| packed.get(at)).collect::<Vec<Key>>();
            assert_eq!(all(&packed), keys);
            let other = any_key(&mut rng);
            assert_eq!(packed.count_upto(&other), keys.partition_point(|key| *key <= other));
            for (at, key) in keys.iter().enumerate() {
                assert_eq!(packed.compare(at, &other), key.cmp(&other), "{key:?} and {other:?}");
            }
            let cut = rng.random_range(0..keys.len());
            let mut rest = packed.split_off(cut);
            assert_eq!((all(&packed), all(&rest)), (keys[..cut].to_vec(), keys[cut..].to_vec()));
            rest.remove(0);
            assert_eq!(all(&rest), keys[cut + 1..]);
        }
    }
}
