//! Object names in their PG's order.

use std::{cmp::Ordering, fmt};

use bytes::Bytes;
use codec::{Decode, DecodeError, Encode, Features, Reader};

use crate::{PgId, PoolId, SnapId};

/// `hobject_t`: an object (head or clone) with its hash. Names are bytes, not text: clients may use any.
///
/// Ordered as Ceph's bitwise order: by pool, bit-reversed hash, namespace, locator key (or name),
/// name, snapshot; `max` objects last. Objects of one PG are contiguous in this order.
#[derive(Eq, Default)]
pub struct HObject {
    /// The object's name.
    pub oid: Bytes,
    /// The locator key, empty if the name itself was hashed.
    pub key: Bytes,
    /// The namespace.
    pub nspace: Bytes,
    /// The pool.
    pub pool: PoolId,
    /// `ceph_str_hash_rjenkins` of namespace and key or name.
    pub hash: u32,
    /// [`SnapId::HEAD`] or the id of a clone.
    pub snap: SnapId,
    /// True for the end of the order, a cursor only.
    pub is_max: bool,
}

/// Names are shared; most have no key and no namespace.
impl Clone for HObject {
    fn clone(&self) -> HObject {
        let shared = |name: &Bytes| if name.is_empty() { Bytes::new() } else { name.clone() };
        HObject {
            oid: self.oid.clone(),
            key: shared(&self.key),
            nspace: shared(&self.nspace),
            pool: self.pool,
            hash: self.hash,
            snap: self.snap,
            is_max: self.is_max,
        }
    }
}

impl HObject {
    /// Before every object.
    pub fn min() -> HObject {
        HObject { pool: PoolId(i64::MIN), ..HObject::default() }
    }

    /// After every object.
    pub fn max() -> HObject {
        HObject { pool: PoolId(i64::MIN), is_max: true, ..HObject::default() }
    }

    /// The objects of a PG in a pool of `pg_num` PGs: from the first one on, before the second
    /// (`pg_t::get_hobj_start`, `pg_t::get_hobj_end`).
    pub fn range_of(pgid: PgId, pg_num: u32) -> (HObject, HObject) {
        let bits = HObject::split_bits(pgid, pg_num);
        let begin =
            HObject { pool: pgid.pool, hash: pgid.seed, snap: SnapId::default(), ..HObject::default() };
        let last = u64::from(pgid.seed.reverse_bits()) | u64::from(u32::MAX) >> bits;
        let end = match u32::try_from(last + 1) {
            Ok(next) => HObject { hash: next.reverse_bits(), snap: SnapId::HEAD, ..begin.clone() },
            Err(_) => HObject::max(),
        };
        (begin, end)
    }

    /// How many low bits of the hash are the same in all objects of a PG (`pg_t::get_split_bits`).
    pub fn split_bits(pgid: PgId, pg_num: u32) -> u32 {
        let bits = u32::BITS - pg_num.leading_zeros();
        match pg_num {
            0 | 1 => 0,
            n if pgid.seed % (1 << (bits - 1)) < n % (1 << (bits - 1)) => bits,
            _ => bits - 1,
        }
    }

    /// This object at another snapshot.
    pub fn with_snap(&self, snap: SnapId) -> HObject {
        HObject { snap, ..self.clone() }
    }

    /// A copy in memory of its own, which keeps no larger piece of memory alive.
    pub fn detached(&self) -> HObject {
        let own = |name: &Bytes| if name.is_empty() { Bytes::new() } else { Bytes::copy_from_slice(name) };
        HObject { oid: own(&self.oid), key: own(&self.key), nspace: own(&self.nspace), ..*self }
    }

    /// The head of the same object.
    pub fn head(&self) -> HObject {
        self.with_snap(SnapId::HEAD)
    }

    /// True for the head.
    pub fn is_head(&self) -> bool {
        self.snap == SnapId::HEAD
    }

    /// True for [`HObject::min`].
    pub fn is_min(&self) -> bool {
        !self.is_max && self.pool.0 == i64::MIN
    }

    /// What decides the place in a hash bucket: the key, or the name without one.
    fn effective_key(&self) -> &Bytes {
        if self.key.is_empty() { &self.oid } else { &self.key }
    }
}

/// What tells most objects apart without a look at their names comes first.
impl PartialEq for HObject {
    fn eq(&self, other: &Self) -> bool {
        (self.hash, self.pool, self.snap, self.is_max) == (other.hash, other.pool, other.snap, other.is_max)
            && is_same(&self.oid, &other.oid)
            && is_same(&self.key, &other.key)
            && is_same(&self.nspace, &other.nspace)
    }
}

impl HObject {
    fn cmp_names(&self, other: &Self) -> Ordering {
        if self.key.is_empty() && other.key.is_empty() {
            return cmp_bytes(&self.oid, &other.oid);
        }
        cmp_bytes(self.effective_key(), other.effective_key())
            .then_with(|| cmp_bytes(&self.oid, &other.oid))
            .then_with(|| cmp_bytes(&self.key, &other.key))
    }
}

/// Most names that are compared are equal, and many of those share their memory or are empty.
fn is_at_hand(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && (a.is_empty() || a.as_ptr() == b.as_ptr())
}

fn is_same(a: &[u8], b: &[u8]) -> bool {
    is_at_hand(a, b) || a == b
}

/// How names compare, without a look at them where they are one piece of memory.
pub fn cmp_bytes(a: &[u8], b: &[u8]) -> Ordering {
    if is_at_hand(a, b) { Ordering::Equal } else { a.cmp(b) }
}

/// The order of two numbers with their bits reversed: the lowest bit in which they differ decides.
pub fn cmp_reversed_bits(a: u32, b: u32) -> Ordering {
    let differing = a ^ b;
    let lowest = differing & differing.wrapping_neg();
    (a & lowest).cmp(&(b & lowest))
}

impl Ord for HObject {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.is_max || other.is_max {
            return self.is_max.cmp(&other.is_max);
        }
        if self.pool != other.pool {
            return self.pool.cmp(&other.pool);
        }
        if self.hash != other.hash {
            return cmp_reversed_bits(self.hash, other.hash);
        }
        cmp_bytes(&self.nspace, &other.nspace)
            .then_with(|| self.cmp_names(other))
            .then_with(|| self.snap.cmp(&other.snap))
    }
}

impl PartialOrd for HObject {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `pool:hash:namespace:key:name:snap`, as Ceph logs it.
impl fmt::Display for HObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_max {
            return f.write_str("MAX");
        }
        if self.is_min() {
            return f.write_str("MIN");
        }
        write!(
            f,
            "{}:{:08x}:{}:{}:{}:{}",
            self.pool,
            self.hash.reverse_bits(),
            self.nspace.escape_ascii(),
            self.key.escape_ascii(),
            self.oid.escape_ascii(),
            self.snap
        )
    }
}

impl fmt::Debug for HObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Ceph's encoding, version 4: key, name, snap, hash, max, namespace, pool.
impl Encode for HObject {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        codec::encode_envelope(out, 4, 3, |out| {
            self.key.encode(out, features);
            self.oid.encode(out, features);
            self.snap.encode(out, features);
            self.hash.encode(out, features);
            self.is_max.encode(out, features);
            self.nspace.encode(out, features);
            self.pool.encode(out, features);
        });
    }
}

impl Decode for HObject {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        codec::decode_envelope(input, 4, "hobject_t", |input, _| {
            Ok(HObject {
                key: Bytes::decode(input)?,
                oid: Bytes::decode(input)?,
                snap: SnapId::decode(input)?,
                hash: u32::decode(input)?,
                is_max: bool::decode(input)?,
                nspace: Bytes::decode(input)?,
                pool: PoolId::decode(input)?,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pgs_follow_each_other_through_the_pool() {
        for pg_num in [1u32, 8, 12, 32] {
            let mut at = HObject { pool: PoolId(1), ..HObject::default() };
            let mut seen = Vec::new();
            while !at.is_max {
                let mask = pg_num.next_power_of_two() - 1;
                let low = at.hash & mask;
                let seed = if low < pg_num { low } else { at.hash & (mask >> 1) };
                seen.push(seed);
                let (begin, end) = HObject::range_of(PgId::new(PoolId(1), seed), pg_num);
                assert_eq!(begin, HObject { snap: begin.snap, ..at });
                at = end;
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..pg_num).collect::<Vec<_>>());
        }
    }

    #[test]
    fn hashes_compare_by_their_bits_reversed() {
        let numbers = [0, 1, 2, 3, 0x8000_0000, 0x8000_0001, 0x1234_5678, u32::MAX - 1, u32::MAX];
        for a in numbers {
            for b in numbers {
                assert_eq!(cmp_reversed_bits(a, b), a.reverse_bits().cmp(&b.reverse_bits()), "{a:#x} {b:#x}");
            }
        }
    }
}
