//! What a placement group asks of its store.

use std::ops::Bound;

use bytes::Bytes;
use codec::Payload;
use thiserror::Error;
use types::{CollId, HObject, PoolId, PoolStatfs, Token, Transaction};

use crate::{DeviceWaits, machine::makes_room};

/// What must be loaded before a read can be answered: the caller passes it to
/// [`ObjectStore::load`] and tries again when that completes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCached {
    /// The object's entry in the index (metadata, xattrs, omap).
    Index {
        /// Where.
        coll: CollId,
        /// Which object.
        object: HObject,
        /// Or one of its omap entries.
        omap: Option<Bytes>,
    },
    /// A range of the object's data.
    Data {
        /// Where.
        coll: CollId,
        /// Which object.
        object: HObject,
        /// Byte offset.
        offset: u64,
        /// Bytes.
        len: u64,
    },
}

/// How many omap entries a caller wants at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OmapMost {
    /// Entries.
    pub count: usize,
    /// Bytes of keys and values: the entry with which there are so many is the last one.
    pub bytes: usize,
}

impl OmapMost {
    /// As many as there are.
    pub const ALL: OmapMost = OmapMost { count: usize::MAX, bytes: usize::MAX };

    /// So many, or as many as have a MiB: each may be as large as a request.
    pub const fn of(count: usize) -> OmapMost {
        OmapMost { count, bytes: 1 << 20 }
    }

    /// True if these are as many as wanted, so that there may be more; if not, they are all.
    pub fn is_met_by(&self, entries: &[(Bytes, Bytes)]) -> bool {
        let bytes = || entries.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        entries.len() >= self.count || (self.bytes < usize::MAX && bytes() >= self.bytes)
    }

    /// The first of these entries, up to as many as are wanted.
    pub(crate) fn take(self, entries: impl Iterator<Item = (Bytes, Bytes)>) -> Vec<(Bytes, Bytes)> {
        let mut bytes = 0;
        let is_wanted = |(key, value): &(Bytes, Bytes)| {
            let is_wanted = bytes < self.bytes;
            bytes = bytes.saturating_add(key.len() + value.len());
            is_wanted
        };
        entries.take(self.count).take_while(is_wanted).collect()
    }
}

impl NotCached {
    /// Of which object.
    pub fn object(&self) -> &HObject {
        let (NotCached::Index { object, .. } | NotCached::Data { object, .. }) = self;
        object
    }
}

/// Why something could not be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The device reported an error.
    #[error("the device failed to read")]
    Device,
    /// The bytes on the device do not have their checksum: the object must be read from a replica
    /// and repaired.
    #[error("checksum mismatch at byte {offset} of the object")]
    Corrupt {
        /// Byte offset in the object of the block that failed.
        offset: u64,
    },
}

/// The facts of an object that are always at hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Size in bytes.
    pub size: u64,
}

/// An object's facts, and two of its xattrs.
pub type MetaWith = (ObjectMeta, [Option<Bytes>; 2]);

/// How many there are of something in memory, and what they take there, about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// How many.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a store has in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cached {
    /// Clean data, in pieces as they were read or written.
    pub data: MemoryUse,
    /// Objects whose entries are decoded.
    pub onodes: MemoryUse,
    /// Decoded omap entries, with what all decoded entries hold.
    pub omap: MemoryUse,
    /// Index pages as their bytes.
    pub pages: MemoryUse,
}

/// Space of a store, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Size of the device.
    pub total_bytes: u64,
    /// Free for new data.
    pub available_bytes: u64,
    /// Held by objects' data: blocks of the device, what is not in its place yet included.
    pub data_bytes: u64,
    /// Held by omap.
    pub omap_bytes: u64,
    /// Held by the journal, the index and other metadata.
    pub meta_bytes: u64,
}

/// A finished request of a PG, reported by the store in the order of submission for commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The transaction is durable.
    Committed(Token),
    /// What was missing is at hand until [`ObjectStore::unload`], or could not be had.
    Loaded(Token, Result<(), ReadError>),
}

impl Completion {
    /// The token of the request that is complete.
    pub fn token(&self) -> Token {
        let (Completion::Committed(token) | Completion::Loaded(token, _)) = self;
        *token
    }
}

/// A shard's objects as one PG (or several, on one reactor) sees them.
///
/// A submitted transaction is visible to reads at once (applied) and durable when its
/// [`Completion::Committed`] is reported (committed), in the order of submission. Reads answer from
/// what is in memory or name what is [`NotCached`]; they never wait.
pub trait ObjectStore {
    /// Applies `txn` and starts making it durable. The caller must have room ([`StoreUsage`]) and, for
    /// the partial changes that need it, the index entries loaded (a preceding read of the object's
    /// meta answered `Ok`). Tokens are the caller's and need not be unique.
    fn submit(&mut self, token: Token, txn: Transaction);

    /// Starts loading what is missing; [`Completion::Loaded`] follows.
    fn load(&mut self, token: Token, missing: NotCached);

    /// Bytes that loading this would bring into memory, about.
    fn load_bytes(&self, missing: &NotCached) -> u64;

    /// Like [`ObjectStore::load`] of data, but from the device even if memory has it: so a scrub learns whether the
    /// device can read it.
    fn load_anew(&mut self, token: Token, coll: CollId, object: &HObject, offset: u64, len: u64);

    /// Lets go of what `load(token, …)` brought; a no-op for unknown tokens.
    fn unload(&mut self, token: Token);

    /// The object's facts, `None` if it does not exist.
    fn meta(&self, coll: CollId, object: &HObject) -> Result<Option<ObjectMeta>, NotCached>;

    /// Data of `[offset, offset + len)`, cut at the object's size; holes are zeros. Empty if the
    /// object does not exist. In the pieces in which memory has it, with the checksums that are known.
    fn read_pieces(
        &self,
        coll: CollId,
        object: &HObject,
        offset: u64,
        len: u64,
    ) -> Result<Vec<Payload>, NotCached>;

    /// What a read of this range would certainly miss, found by a look at its first block, so that the caller can have
    /// it loaded before the first attempt. `None` where only an attempt tells.
    fn lacks(&self, _coll: CollId, _object: &HObject, _offset: u64, _len: u64) -> Option<NotCached> {
        None
    }

    /// Data of `[offset, offset + len)`, as [`ObjectStore::read_pieces`] has it, in one piece.
    fn read(&self, coll: CollId, object: &HObject, offset: u64, len: u64) -> Result<Bytes, NotCached> {
        Ok(Payload::joined(self.read_pieces(coll, object, offset, len)?).into_bytes())
    }

    /// Ranges (offset, length) of `[offset, offset + len)` that hold data, ascending, cut at the size.
    /// Ranges left out read as zeros.
    fn extents(
        &self,
        coll: CollId,
        object: &HObject,
        offset: u64,
        len: u64,
    ) -> Result<Vec<(u64, u64)>, NotCached>;

    /// One xattr.
    fn xattr(&self, coll: CollId, object: &HObject, name: &[u8]) -> Result<Option<Bytes>, NotCached>;

    /// Two xattrs with the object's facts, found with one look; `None` if it does not exist.
    fn meta_with(
        &self,
        coll: CollId,
        object: &HObject,
        names: [&[u8]; 2],
    ) -> Result<Option<MetaWith>, NotCached> {
        let Some(meta) = self.meta(coll, object)? else { return Ok(None) };
        let [one, other] = names;
        Ok(Some((meta, [self.xattr(coll, object, one)?, self.xattr(coll, object, other)?])))
    }

    /// All xattrs by name.
    fn xattrs(&self, coll: CollId, object: &HObject) -> Result<Vec<(Bytes, Bytes)>, NotCached>;

    /// The omap header, empty if never set.
    fn omap_header(&self, coll: CollId, object: &HObject) -> Result<Bytes, NotCached>;

    /// One omap value.
    fn omap_get(&self, coll: CollId, object: &HObject, key: &[u8]) -> Result<Option<Bytes>, NotCached>;

    /// Omap entries from `from` on, ascending by key, up to as many as the caller wants at once.
    fn omap_range(
        &self,
        coll: CollId,
        object: &HObject,
        from: Bound<&[u8]>,
        most: OmapMost,
    ) -> Result<Vec<(Bytes, Bytes)>, NotCached>;

    /// What the pages of the index take on the device, about, that have the omap entries from `from` on that start with
    /// `prefix`; or what is missing of them. A caller that reads all of them in parts has them loaded first, as it
    /// would begin anew for each part. `from` has the prefix or lies before it. Looks at `pages_max` pages at most, and
    /// up to the one with which they take more than `bytes_max`: that one may be missing. 0 where no entry has to be
    /// loaded.
    fn omap_bytes(
        &self,
        _coll: CollId,
        _object: &HObject,
        _from: Bound<&[u8]>,
        _prefix: &[u8],
        _pages_max: usize,
        _bytes_max: u64,
    ) -> Result<u64, NotCached> {
        Ok(0)
    }

    /// Up to `count_max` objects of the collection from `from` on (inclusive), in order.
    fn list(&self, coll: CollId, from: &HObject, count_max: usize) -> Result<Vec<HObject>, NotCached>;

    /// All collections, ascending.
    fn collections(&self) -> Vec<CollId>;

    /// True if the collection exists.
    fn collection_exists(&self, coll: CollId) -> bool;

    /// Space used and free.
    fn usage(&self) -> StoreUsage;

    /// What a transaction takes of the device at most, about: nothing if it gives space back.
    fn growth_bytes(&self, txn: &Transaction) -> u64 {
        if makes_room(txn) { 0 } else { txn.bytes_at_most() as u64 }
    }

    /// False if the store would hold the transaction, and all later ones of its collection, until there is room on the
    /// device.
    fn has_room_for(&self, _txn: &Transaction) -> bool {
        true
    }

    /// What is in memory and could be read again.
    fn cached(&self) -> Cached;

    /// Lets go of what [`ObjectStore::cached`] counts when the turn ends, as far as it is not needed then. Nothing else
    /// goes on meanwhile.
    fn drop_cache(&mut self);

    /// What each pool takes of the store, in order, without pools that take nothing.
    fn pool_usage(&self) -> Vec<(PoolId, PoolStatfs)>;

    /// What its devices have not answered; nothing where all is in memory.
    fn device_waits(&self) -> DeviceWaits {
        DeviceWaits::default()
    }
}
