//! A store in memory that shows how it is used.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
};

use bytes::Bytes;
use codec::Payload;
use store::{Cached, Completion, MemStore, NotCached, ObjectMeta, ObjectStore, OmapMost, StoreUsage};
use types::{CollId, HObject, PoolId, PoolStatfs, Token, Transaction, TxnOp};

/// What a page takes.
pub(crate) const PAGE_BYTES: u64 = 16 << 10;

/// Counts what of omap it is asked for, and what is held of it.
pub(crate) struct WatchedStore {
    store: MemStore,
    /// True if ranges of omap are at hand only where they were loaded, by the key that they begin with.
    is_paged: bool,
    /// The same of entries, by their keys.
    is_keyed: bool,
    /// Objects whose data was loaded and not changed since: that of others is not at hand. None if all is.
    warm: Option<BTreeSet<HObject>>,
    /// An object whose entry has to be loaded.
    absent: Option<HObject>,
    /// Omap entries that were read.
    pub(crate) omap_read: Cell<usize>,
    /// Attributes that were read by name.
    pub(crate) xattrs_read: Cell<usize>,
    held: BTreeMap<Token, NotCached>,
    /// The most that was held at a time.
    pub(crate) held_max: usize,
    /// Answers to loads that the PG has not been given yet.
    pub(crate) loaded: VecDeque<Completion>,
}

impl WatchedStore {
    /// All of `store` is at hand.
    pub(crate) fn over(store: MemStore) -> WatchedStore {
        let (held, loaded) = (BTreeMap::new(), VecDeque::new());
        let (is_paged, is_keyed, warm, absent) = (false, false, None, None);
        let (omap_read, xattrs_read) = (Cell::new(0), Cell::new(0));
        WatchedStore {
            store,
            is_paged,
            is_keyed,
            warm,
            absent,
            omap_read,
            xattrs_read,
            held,
            held_max: 0,
            loaded,
        }
    }

    /// Its objects' data has to be loaded, and again when it has changed.
    pub(crate) fn cold(store: MemStore) -> WatchedStore {
        WatchedStore { warm: Some(BTreeSet::new()), ..WatchedStore::over(store) }
    }

    /// What was committed since the last call.
    pub(crate) fn committed(&mut self) -> Vec<Completion> {
        self.store.complete()
    }

    /// Its omaps have to be loaded.
    pub(crate) fn paged(store: MemStore) -> WatchedStore {
        WatchedStore { is_paged: true, ..WatchedStore::over(store) }
    }

    /// Each omap entry has to be loaded.
    pub(crate) fn keyed(store: MemStore) -> WatchedStore {
        WatchedStore { is_keyed: true, ..WatchedStore::over(store) }
    }

    /// This object's entry has to be loaded.
    pub(crate) fn lacking(store: MemStore, object: HObject) -> WatchedStore {
        WatchedStore { absent: Some(object), ..WatchedStore::over(store) }
    }

    /// How much is held.
    pub(crate) fn held_count(&self) -> usize {
        self.held.len()
    }
}

impl ObjectStore for WatchedStore {
    fn submit(&mut self, token: Token, txn: Transaction) {
        if let Some(warm) = &mut self.warm {
            txn.ops.iter().filter_map(TxnOp::object).for_each(|object| {
                warm.remove(object);
            });
        }
        self.store.submit(token, txn);
    }
    fn load(&mut self, token: Token, missing: NotCached) {
        if let (Some(warm), NotCached::Data { object, .. }) = (&mut self.warm, &missing) {
            warm.insert(object.clone());
        }
        self.held.insert(token, missing);
        self.held_max = self.held_max.max(self.held.len());
        self.loaded.push_back(Completion::Loaded(token, Ok(())));
    }
    fn load_bytes(&self, missing: &NotCached) -> u64 {
        match missing {
            NotCached::Data { len, .. } => *len,
            NotCached::Index { .. } => PAGE_BYTES,
        }
    }
    fn load_anew(&mut self, token: Token, coll: CollId, object: &HObject, offset: u64, len: u64) {
        self.store.load_anew(token, coll, object, offset, len);
    }
    fn unload(&mut self, token: Token) {
        self.held.remove(&token);
    }
    fn meta(&self, coll: CollId, object: &HObject) -> Result<Option<ObjectMeta>, NotCached> {
        if self.absent.as_ref() == Some(object) {
            let wanted = NotCached::Index { coll, object: object.clone(), omap: None };
            if !self.held.values().any(|held| *held == wanted) {
                return Err(wanted);
            }
        }
        self.store.meta(coll, object)
    }
    fn read_pieces(
        &self,
        coll: CollId,
        o: &HObject,
        offset: u64,
        len: u64,
    ) -> Result<Vec<Payload>, NotCached> {
        if self.warm.as_ref().is_some_and(|warm| !warm.contains(o)) {
            return Err(NotCached::Data { coll, object: o.clone(), offset, len });
        }
        self.store.read_pieces(coll, o, offset, len)
    }
    fn lacks(&self, coll: CollId, o: &HObject, offset: u64, len: u64) -> Option<NotCached> {
        self.read_pieces(coll, o, offset, len).err()
    }
    fn extents(
        &self,
        coll: CollId,
        o: &HObject,
        offset: u64,
        len: u64,
    ) -> Result<Vec<(u64, u64)>, NotCached> {
        self.store.extents(coll, o, offset, len)
    }
    fn xattr(&self, coll: CollId, object: &HObject, name: &[u8]) -> Result<Option<Bytes>, NotCached> {
        self.meta(coll, object)?;
        self.xattrs_read.set(self.xattrs_read.get() + 1);
        self.store.xattr(coll, object, name)
    }
    fn xattrs(&self, coll: CollId, object: &HObject) -> Result<Vec<(Bytes, Bytes)>, NotCached> {
        self.store.xattrs(coll, object)
    }
    fn omap_header(&self, coll: CollId, object: &HObject) -> Result<Bytes, NotCached> {
        self.store.omap_header(coll, object)
    }
    fn omap_get(&self, coll: CollId, object: &HObject, key: &[u8]) -> Result<Option<Bytes>, NotCached> {
        let wanted =
            || NotCached::Index { coll, object: object.clone(), omap: Some(Bytes::copy_from_slice(key)) };
        self.omap_read.set(self.omap_read.get() + 1);
        if self.is_keyed && !self.held.values().any(|held| *held == wanted()) {
            return Err(wanted());
        }
        self.store.omap_get(coll, object, key)
    }
    fn omap_range(
        &self,
        coll: CollId,
        object: &HObject,
        from: Bound<&[u8]>,
        most: OmapMost,
    ) -> Result<Vec<(Bytes, Bytes)>, NotCached> {
        if self.is_paged {
            let omap = match from {
                Bound::Included(key) | Bound::Excluded(key) => Some(Bytes::copy_from_slice(key)),
                Bound::Unbounded => None,
            };
            let wanted = NotCached::Index { coll, object: object.clone(), omap };
            if !self.held.values().any(|held| *held == wanted) {
                return Err(wanted);
            }
        }
        let found = self.store.omap_range(coll, object, from, most)?;
        self.omap_read.set(self.omap_read.get() + found.len());
        Ok(found)
    }
    /// All that is missing is named by the object. Each entry has a page of its own.
    fn omap_bytes(
        &self,
        coll: CollId,
        o: &HObject,
        from: Bound<&[u8]>,
        prefix: &[u8],
        pages_max: usize,
        _bytes_max: u64,
    ) -> Result<u64, NotCached> {
        if !self.is_paged {
            return Ok(0);
        }
        let wanted = NotCached::Index { coll, object: o.clone(), omap: None };
        if !self.held.values().any(|held| *held == wanted) {
            return Err(wanted);
        }
        let entries = self.store.omap_range(coll, o, from, OmapMost::ALL)?;
        let pages = entries.iter().take_while(|(key, _)| key.starts_with(prefix)).take(pages_max);
        Ok(pages.count() as u64 * PAGE_BYTES)
    }
    fn list(&self, coll: CollId, from: &HObject, count_max: usize) -> Result<Vec<HObject>, NotCached> {
        self.store.list(coll, from, count_max)
    }
    fn collections(&self) -> Vec<CollId> {
        self.store.collections()
    }
    fn collection_exists(&self, coll: CollId) -> bool {
        self.store.collection_exists(coll)
    }
    fn usage(&self) -> StoreUsage {
        self.store.usage()
    }
    fn cached(&self) -> Cached {
        self.store.cached()
    }
    fn drop_cache(&mut self) {}
    fn pool_usage(&self) -> Vec<(PoolId, PoolStatfs)> {
        self.store.pool_usage()
    }
}
