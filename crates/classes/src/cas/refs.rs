//! `chunk_refs_t`: references to a chunk, by object, or only counted by hash, by pool or at all
//! (cls_cas_internal.h). OSDs write those by object; the others come from tools that found them too long.

use std::collections::BTreeMap;

use codec::{Codec, Decode, DecodeError, Encode, Features, Reader, decode_envelope, encode_envelope};
use types::{HObject, PoolId};

const BY_OBJECT: u8 = 1;
const BY_HASH: u8 = 2;
const BY_POOL: u8 = 4;
const COUNT: u8 = 5;

/// The references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChunkRefs {
    /// Each with the object that refers, in order; one may refer often.
    ByObject(Vec<HObject>),
    /// Counted by pool and the lowest bits of the objects' hashes.
    ByHash { hash_bits: u8, counts: BTreeMap<(PoolId, u32), u64> },
    /// Counted by pool.
    ByPool(BTreeMap<PoolId, u64>),
    /// Counted.
    Count(u64),
}

impl Default for ChunkRefs {
    fn default() -> ChunkRefs {
        ChunkRefs::ByObject(Vec::new())
    }
}

fn hash_key(source: &HObject, hash_bits: u8) -> (PoolId, u32) {
    (source.pool, source.hash & (u32::MAX >> (32 - hash_bits)))
}

/// Takes one of `key` away; false if there is none.
fn take<K: Ord>(counts: &mut BTreeMap<K, u64>, key: &K) -> bool {
    let Some(count) = counts.get_mut(key) else { return false };
    *count = count.saturating_sub(1);
    if *count == 0 {
        counts.remove(key);
    }
    true
}

impl ChunkRefs {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            ChunkRefs::ByObject(objects) => objects.is_empty(),
            ChunkRefs::ByHash { counts, .. } => counts.is_empty(),
            ChunkRefs::ByPool(counts) => counts.is_empty(),
            ChunkRefs::Count(count) => *count == 0,
        }
    }

    pub(super) fn get(&mut self, source: HObject) {
        match self {
            ChunkRefs::ByObject(objects) => objects.insert(objects.partition_point(|o| *o <= source), source),
            ChunkRefs::ByHash { hash_bits, counts } => {
                let count = counts.entry(hash_key(&source, *hash_bits)).or_default();
                *count = count.saturating_add(1);
            }
            ChunkRefs::ByPool(counts) => {
                let count = counts.entry(source.pool).or_default();
                *count = count.saturating_add(1);
            }
            ChunkRefs::Count(count) => *count = count.saturating_add(1),
        }
    }

    /// False if there is no such reference.
    pub(super) fn put(&mut self, source: &HObject) -> bool {
        match self {
            ChunkRefs::ByObject(objects) => {
                let found = objects.binary_search(source);
                found.map(|index| objects.remove(index)).is_ok()
            }
            ChunkRefs::ByHash { hash_bits, counts } => take(counts, &hash_key(source, *hash_bits)),
            ChunkRefs::ByPool(counts) => take(counts, &source.pool),
            ChunkRefs::Count(count) => {
                let is_held = *count > 0;
                *count = count.saturating_sub(1);
                is_held
            }
        }
    }
}

/// `denc_varint`: seven bits a byte, the lowest first.
struct Varint(u64);

impl Encode for Varint {
    fn encode(&self, out: &mut Vec<u8>, _: Features) {
        let mut rest = self.0;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
}

impl Decode for Varint {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = u8::decode(input)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(Varint(value));
            }
        }
        Err(DecodeError::Invalid { what: "varint", value })
    }
}

/// `denc_signed_varint`: the sign is the lowest bit.
fn encode_pool(pool: PoolId, out: &mut Vec<u8>, features: Features) {
    Varint(pool.0.unsigned_abs() << 1 | u64::from(pool.0 < 0)).encode(out, features);
}

fn decode_pool(input: &mut Reader) -> Result<PoolId, DecodeError> {
    let Varint(coded) = Varint::decode(input)?;
    let size = (coded >> 1) as i64;
    Ok(PoolId(if coded & 1 == 0 { size } else { -size }))
}

/// `chunk_refs_by_object_t`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct ByObject {
    objects: Vec<HObject>,
}

/// `chunk_refs_count_t`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct Count {
    count: u64,
}

fn sum<K>(counts: &BTreeMap<K, u64>) -> Varint {
    Varint(counts.values().fold(0, |sum, count| sum.saturating_add(*count)))
}

impl Encode for ChunkRefs {
    fn encode(&self, out: &mut Vec<u8>, f: Features) {
        encode_envelope(out, 1, 1, |out| match self {
            ChunkRefs::ByObject(objects) => {
                BY_OBJECT.encode(out, f);
                ByObject { objects: objects.clone() }.encode(out, f);
            }
            ChunkRefs::ByHash { hash_bits, counts } => {
                BY_HASH.encode(out, f);
                encode_envelope(out, 1, 1, |out| {
                    sum(counts).encode(out, f);
                    Varint(u64::from(*hash_bits)).encode(out, f);
                    Varint(counts.len() as u64).encode(out, f);
                    for ((pool, hash), count) in counts {
                        encode_pool(*pool, out, f);
                        out.extend_from_slice(&hash.to_le_bytes()[..usize::from(hash_bits.div_ceil(8))]);
                        Varint(*count).encode(out, f);
                    }
                });
            }
            ChunkRefs::ByPool(counts) => {
                BY_POOL.encode(out, f);
                encode_envelope(out, 1, 1, |out| {
                    sum(counts).encode(out, f);
                    Varint(counts.len() as u64).encode(out, f);
                    for (pool, count) in counts {
                        encode_pool(*pool, out, f);
                        Varint(*count).encode(out, f);
                    }
                });
            }
            ChunkRefs::Count(count) => {
                COUNT.encode(out, f);
                Count { count: *count }.encode(out, f);
            }
        });
    }
}

fn decode_by_hash(input: &mut Reader) -> Result<ChunkRefs, DecodeError> {
    let _total = Varint::decode(input)?;
    let Varint(bits) = Varint::decode(input)?;
    if !(1..=32).contains(&bits) {
        return Err(DecodeError::Invalid { what: "hash_bits", value: bits });
    }
    let mut counts = BTreeMap::new();
    for _ in 0..Varint::decode(input)?.0 {
        let pool = decode_pool(input)?;
        let mut hash = [0; 4];
        let bytes = input.take(bits.div_ceil(8) as usize)?;
        hash[..bytes.len()].copy_from_slice(&bytes);
        counts.insert((pool, u32::from_le_bytes(hash)), Varint::decode(input)?.0);
    }
    Ok(ChunkRefs::ByHash { hash_bits: bits as u8, counts })
}

fn decode_by_pool(input: &mut Reader) -> Result<ChunkRefs, DecodeError> {
    let _total = Varint::decode(input)?;
    let mut counts = BTreeMap::new();
    for _ in 0..Varint::decode(input)?.0 {
        let pool = decode_pool(input)?;
        counts.insert(pool, Varint::decode(input)?.0);
    }
    Ok(ChunkRefs::ByPool(counts))
}

impl Decode for ChunkRefs {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        decode_envelope(input, 1, "chunk_refs_t", |input, _| match u8::decode(input)? {
            BY_OBJECT => {
                let mut objects = ByObject::decode(input)?.objects;
                objects.sort();
                Ok(ChunkRefs::ByObject(objects))
            }
            BY_HASH => decode_envelope(input, 1, "chunk_refs_by_hash_t", |input, _| decode_by_hash(input)),
            BY_POOL => decode_envelope(input, 1, "chunk_refs_by_pool_t", |input, _| decode_by_pool(input)),
            COUNT => Ok(ChunkRefs::Count(Count::decode(input)?.count)),
            kind => Err(DecodeError::Invalid { what: "chunk_refs_t", value: u64::from(kind) }),
        })
    }
}
