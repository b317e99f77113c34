//! The reference model: objects in ordered maps, durable when told so.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

use bytes::Bytes;
use codec::Payload;
use types::{CollId, HObject, Mutation, PoolId, PoolStatfs, Token, Transaction, TxnOp};

use crate::{Cached, Completion, NotCached, ObjectMeta, ObjectStore, OmapMost, StoreUsage};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct MemObject {
    data: Vec<u8>,
    xattrs: BTreeMap<Bytes, Bytes>,
    omap: BTreeMap<Bytes, Bytes>,
    omap_header: Bytes,
}

impl MemObject {
    fn grow(&mut self, size: u64) {
        let size = usize::try_from(size).expect("object sizes are bounded by the PG");
        if self.data.len() < size {
            self.data.resize(size, 0);
        }
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.grow(offset + data.len() as u64);
        self.data[offset as usize..][..data.len()].copy_from_slice(data);
    }
}

/// An [`ObjectStore`] in plain maps. Transactions commit, in order, when [`MemStore::complete`] is called.
#[derive(Clone, Debug, Default)]
pub struct MemStore {
    colls: BTreeMap<CollId, BTreeMap<HObject, MemObject>>,
    done: VecDeque<Completion>,
}

impl MemStore {
    /// An empty store.
    pub fn new() -> MemStore {
        MemStore::default()
    }

    /// Everything that completed since the last call: all that was submitted and loaded.
    pub fn complete(&mut self) -> Vec<Completion> {
        self.done.drain(..).collect()
    }

    fn object(&self, coll: CollId, object: &HObject) -> Option<&MemObject> {
        self.colls.get(&coll)?.get(object)
    }

    fn apply(&mut self, coll: CollId, op: TxnOp) {
        match op {
            TxnOp::CreateCollection => {
                self.colls.entry(coll).or_default();
            }
            TxnOp::RemoveCollection => {
                self.colls.remove(&coll);
            }
            TxnOp::Split(split) => {
                let objects = self.colls.entry(coll).or_default();
                let moved: Vec<_> = objects.extract_if(split.from..split.to, |_, _| true).collect();
                let child = self.colls.entry(split.child).or_default();
                child.extend(moved);
                if !split.omap.is_empty() {
                    apply_mutation(child, split.record, Mutation::OmapSet(split.omap));
                }
            }
            TxnOp::Merge(merge) => {
                let source = self.colls.remove(&merge.source).unwrap_or_default();
                let moved = source.into_iter().filter(|(object, _)| merge.moves(object));
                self.colls.entry(coll).or_default().extend(moved);
            }
            TxnOp::Object(object, mutation) => {
                let objects = self.colls.entry(coll).or_default();
                apply_mutation(objects, object, mutation);
            }
        }
    }
}

fn apply_mutation(objects: &mut BTreeMap<HObject, MemObject>, object: HObject, mutation: Mutation) {
    let source = match &mutation {
        Mutation::CloneFrom { source } => objects.get(source).cloned().unwrap_or_default(),
        _ => MemObject::default(),
    };
    if mutation == Mutation::Remove {
        objects.remove(&object);
        return;
    }
    let target = objects.entry(object).or_default();
    match mutation {
        Mutation::Touch | Mutation::Remove => {}
        Mutation::Write { offset, data } => target.write(offset, &data),
        Mutation::Zero { offset, len } => {
            target.grow(offset + len);
            target.data[offset as usize..(offset + len) as usize].fill(0);
        }
        Mutation::Truncate { size } => {
            let size = usize::try_from(size).expect("object sizes are bounded by the PG");
            target.data.resize(size, 0);
        }
        Mutation::SetXattrs(map) => target.xattrs.extend(map),
        Mutation::RemoveXattr(name) => {
            target.xattrs.remove(&name);
        }
        Mutation::ClearXattrs => target.xattrs.clear(),
        Mutation::OmapSet(map) => target.omap.extend(map),
        Mutation::OmapRemove(keys) => keys.iter().for_each(|key| {
            target.omap.remove(key);
        }),
        Mutation::OmapRemoveRange { first, last } => {
            target.omap.retain(|key, _| *key < first || *key >= last);
        }
        Mutation::OmapClear => {
            target.omap.clear();
            target.omap_header = Bytes::new();
        }
        Mutation::OmapSetHeader(header) => target.omap_header = header,
        Mutation::CloneFrom { .. } => *target = source,
    }
}

impl ObjectStore for MemStore {
    fn submit(&mut self, token: Token, txn: Transaction) {
        for op in txn.ops {
            self.apply(txn.coll, op);
        }
        self.done.push_back(Completion::Committed(token));
    }

    fn load(&mut self, token: Token, _: NotCached) {
        self.done.push_back(Completion::Loaded(token, Ok(())));
    }

    /// All is in memory.
    fn load_bytes(&self, _: &NotCached) -> u64 {
        0
    }

    fn load_anew(&mut self, token: Token, _: CollId, _: &HObject, _: u64, _: u64) {
        self.done.push_back(Completion::Loaded(token, Ok(())));
    }

    fn unload(&mut self, _: Token) {}

    fn meta(&self, coll: CollId, object: &HObject) -> Result<Option<ObjectMeta>, NotCached> {
        Ok(self.object(coll, object).map(|o| ObjectMeta { size: o.data.len() as u64 }))
    }

    fn read_pieces(
        &self,
        coll: CollId,
        object: &HObject,
        offset: u64,
        len: u64,
    ) -> Result<Vec<Payload>, NotCached> {
        let Some(found) = self.object(coll, object) else { return Ok(Vec::new()) };
        let size = found.data.len() as u64;
        let end = offset.saturating_add(len).min(size);
        let start = offset.min(end);
        Ok(vec![Bytes::copy_from_slice(&found.data[start as usize..end as usize]).into()])
    }

    fn extents(
        &self,
        coll: CollId,
        object: &HObject,
        offset: u64,
        len: u64,
    ) -> Result<Vec<(u64, u64)>, NotCached> {
        let size = self.object(coll, object).map_or(0, |o| o.data.len() as u64);
        let end = offset.saturating_add(len).min(size);
        Ok(if offset < end { vec![(offset, end - offset)] } else { Vec::new() })
    }

    fn xattr(&self, coll: CollId, object: &HObject, name: &[u8]) -> Result<Option<Bytes>, NotCached> {
        Ok(self.object(coll, object).and_then(|o| o.xattrs.get(name).cloned()))
    }

    fn xattrs(&self, coll: CollId, object: &HObject) -> Result<Vec<(Bytes, Bytes)>, NotCached> {
        let found = self.object(coll, object);
        Ok(found.map_or_else(Vec::new, |o| o.xattrs.clone().into_iter().collect()))
    }

    fn omap_header(&self, coll: CollId, object: &HObject) -> Result<Bytes, NotCached> {
        Ok(self.object(coll, object).map(|o| o.omap_header.clone()).unwrap_or_default())
    }

    fn omap_get(&self, coll: CollId, object: &HObject, key: &[u8]) -> Result<Option<Bytes>, NotCached> {
        Ok(self.object(coll, object).and_then(|o| o.omap.get(key).cloned()))
    }

    fn omap_range(
        &self,
        coll: CollId,
        object: &HObject,
        from: Bound<&[u8]>,
        most: OmapMost,
    ) -> Result<Vec<(Bytes, Bytes)>, NotCached> {
        let Some(found) = self.object(coll, object) else { return Ok(Vec::new()) };
        let range = found.omap.range::<[u8], _>((from, Bound::Unbounded));
        Ok(most.take(range.map(|(k, v)| (k.clone(), v.clone()))))
    }

    fn list(&self, coll: CollId, from: &HObject, count_max: usize) -> Result<Vec<HObject>, NotCached> {
        let Some(objects) = self.colls.get(&coll) else { return Ok(Vec::new()) };
        Ok(objects.range(from..).take(count_max).map(|(oid, _)| oid.clone()).collect())
    }

    fn collections(&self) -> Vec<CollId> {
        self.colls.keys().copied().collect()
    }

    fn collection_exists(&self, coll: CollId) -> bool {
        self.colls.contains_key(&coll)
    }

    fn pool_usage(&self) -> Vec<(PoolId, PoolStatfs)> {
        let mut out = BTreeMap::<PoolId, PoolStatfs>::new();
        for (coll, object) in self.colls.iter().flat_map(|(coll, o)| o.values().map(move |o| (coll, o))) {
            let sum = out.entry(coll.0.pool).or_default();
            sum.allocated += object.data.len() as u64;
            sum.data_stored += object.data.len() as u64;
        }
        out.into_iter().collect()
    }

    fn usage(&self) -> StoreUsage {
        let data_bytes = self.colls.values().flat_map(|c| c.values()).map(|o| o.data.len() as u64).sum();
        StoreUsage { total_bytes: 1 << 40, available_bytes: 1 << 39, data_bytes, ..StoreUsage::default() }
    }

    /// Nothing of it could be read again.
    fn cached(&self) -> Cached {
        Cached::default()
    }

    fn drop_cache(&mut self) {}
}
