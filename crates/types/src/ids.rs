//! Ids and epochs: a newtype each, so that one cannot stand in for another.

use std::fmt;

use codec::{Codec, Decode, DecodeError, Encode, Features, Reader};

/// `epoch_t`: the version of a cluster map. 0 means none.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The epoch after this one.
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of an OSD; -1 in places where there is none.
#[derive(Codec, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsdId(pub i32);

impl OsdId {
    /// No OSD: the primary of an empty acting set.
    pub const NONE: OsdId = OsdId(-1);
    /// `CRUSH_ITEM_NONE`: a hole in the acting set of an erasure-coded PG.
    pub const HOLE: OsdId = OsdId(0x7fff_ffff);

    /// True for an id that names an OSD.
    pub fn is_some(self) -> bool {
        self.0 >= 0 && self != OsdId::HOLE
    }
}

impl fmt::Display for OsdId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a pool.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub i64);

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id that the monitors give to an authenticated client session's owner.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GlobalId(pub u64);

/// `snapid_t`: the number of a snapshot.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapId(pub u64);

impl SnapId {
    /// `CEPH_NOSNAP`: the head object, not a snapshot.
    pub const HEAD: SnapId = SnapId(u64::MAX - 1);
    /// `CEPH_SNAPDIR`: all snapshots of an object, as list-snaps asks for them.
    pub const DIR: SnapId = SnapId(u64::MAX);
    /// `CEPH_MAXSNAP`: the highest number that a snapshot can have.
    pub const MAX: SnapId = SnapId(u64::MAX - 2);
}

impl fmt::Display for SnapId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SnapId::HEAD => f.write_str("head"),
            SnapId::DIR => f.write_str("snapdir"),
            SnapId(id) => write!(f, "{id:x}"),
        }
    }
}

/// `pg_t`: a placement group of a pool. On the wire a version byte, pool, seed and an unused -1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PgId {
    /// The pool.
    pub pool: PoolId,
    /// The PG's number in the pool, or the raw hash where a raw pg is meant.
    pub seed: u32,
}

impl PgId {
    /// PG `seed` of `pool`.
    pub fn new(pool: PoolId, seed: u32) -> PgId {
        PgId { pool, seed }
    }

    /// Parses `1.2f`: the pool in decimal, the seed in hex.
    pub fn parse(text: &str) -> Option<PgId> {
        let (pool, seed) = text.split_once('.')?;
        Some(PgId { pool: PoolId(pool.parse().ok()?), seed: u32::from_str_radix(seed, 16).ok()? })
    }
}

impl Encode for PgId {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        1u8.encode(out, features);
        self.pool.encode(out, features);
        self.seed.encode(out, features);
        (-1i32).encode(out, features);
    }
}

impl Decode for PgId {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let _version = u8::decode(input)?;
        let out = PgId { pool: PoolId::decode(input)?, seed: u32::decode(input)? };
        let _preferred = i32::decode(input)?;
        Ok(out)
    }
}

impl fmt::Display for PgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.pool, self.seed)
    }
}

/// `spg_t`: a PG and the shard of it that one OSD holds (-1 for replicated pools).
#[derive(Codec, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[codec(version = 1, compat = 1)]
pub struct SpgId {
    /// The PG.
    pub pg: PgId,
    /// The shard.
    pub shard: i8,
}

impl SpgId {
    /// The only shard of a replicated PG.
    pub fn replicated(pg: PgId) -> SpgId {
        SpgId { pg, shard: -1 }
    }
}

/// A collection of objects in a store: a PG's, or the OSD's own.
#[derive(Codec, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollId(pub PgId);

impl CollId {
    /// The OSD's own objects: maps, superblock.
    pub const META: CollId = CollId(PgId { pool: PoolId(-1), seed: 0 });

    /// The objects of a PG.
    pub fn pg(pg: PgId) -> CollId {
        CollId(pg)
    }
}

/// Ties a request that a machine made to the completion that answers it. The maker chooses the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);
