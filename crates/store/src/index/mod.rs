//! All objects by collection and name, cut in pages that a checkpoint writes where they changed.
//!
//! Every entry is in memory; the pages only say which part of the key space is where on the device.

mod page;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use bytes::Bytes;
use codec::Codec;
use types::{CollId, HObject};

pub(crate) use page::{PageImage, Root, blob_crc};

use crate::{onode::Onode, superblock::Blob};

/// A place in the key space: an object's own entry, followed by its omap entries.
#[derive(Codec, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) coll: CollId,
    pub(crate) object: HObject,
    pub(crate) omap: Option<Bytes>,
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) colls: BTreeMap<CollId, BTreeMap<HObject, Onode>>,
    /// Pages by the first key that they are responsible for.
    pub(crate) pages: BTreeMap<Key, Blob>,
    /// Keys of entries that changed or went since the last checkpoint.
    dirty: BTreeSet<Key>,
    pub(crate) omap_bytes: u64,
    /// The transaction being applied.
    pub(crate) txn: u64,
}

impl Index {
    pub(crate) fn get(&self, coll: CollId, object: &HObject) -> Option<&Onode> {
        self.colls.get(&coll)?.get(object)
    }

    pub(crate) fn get_mut(&mut self, coll: CollId, object: &HObject) -> Option<&mut Onode> {
        self.colls.get_mut(&coll)?.get_mut(object)
    }

    /// The object's entry to be changed, made if there is none.
    pub(crate) fn change(&mut self, coll: CollId, object: &HObject) -> &mut Onode {
        let objects = self.colls.entry(coll).or_default();
        if !objects.contains_key(object) {
            // A flush of an object that was here before is void.
            objects.insert(object.clone(), Onode { generation: self.txn, ..Onode::default() });
        }
        let onode = objects.get_mut(object).expect("it was just made");
        if !onode.is_dirty {
            onode.is_dirty = true;
            self.dirty.insert(Key { coll, object: object.clone(), omap: None });
        }
        onode
    }

    /// Takes an object out, with the places of its entries marked.
    pub(crate) fn remove(&mut self, coll: CollId, object: &HObject) -> Option<Onode> {
        let mut onode = self.colls.get_mut(&coll)?.remove(object)?;
        self.dirty.insert(Key { coll, object: object.clone(), omap: None });
        let keys: Vec<Bytes> = onode.omap.keys().chain(&onode.omap_dirty).cloned().collect();
        for key in keys {
            self.dirty.insert(Key { coll, object: object.clone(), omap: Some(key) });
        }
        self.omap_bytes -= onode.omap.iter().map(|(k, v)| (k.len() + v.len()) as u64).sum::<u64>();
        onode.omap_dirty.clear();
        Some(onode)
    }

    pub(crate) fn omap_set(&mut self, coll: CollId, object: &HObject, key: Bytes, value: Bytes) {
        let added = (key.len() + value.len()) as u64;
        let onode = self.change(coll, object);
        onode.omap_dirty.insert(key.clone());
        let key_len = key.len();
        let gone = onode.omap.insert(key, value).map_or(0, |old| (key_len + old.len()) as u64);
        self.omap_bytes = self.omap_bytes + added - gone;
    }

    pub(crate) fn omap_remove(&mut self, coll: CollId, object: &HObject, key: &Bytes) {
        let onode = self.change(coll, object);
        if let Some(old) = onode.omap.remove(key) {
            onode.omap_dirty.insert(key.clone());
            self.omap_bytes -= (key.len() + old.len()) as u64;
        }
    }

    /// Calls `visit` with each entry of `[from, to)`, in order: `None` stands for the object's own.
    pub(crate) fn visit(
        &self,
        from: &Key,
        to: Option<&Key>,
        mut visit: impl FnMut(CollId, &HObject, &Onode, Option<(&Bytes, &Bytes)>),
    ) {
        let ends = |coll: CollId, object: &HObject, omap: Option<&Bytes>| {
            to.is_some_and(|to| (coll, object, omap) >= (to.coll, &to.object, to.omap.as_ref()))
        };
        for (&coll, objects) in self.colls.range(from.coll..) {
            let low = if coll == from.coll { Bound::Included(&from.object) } else { Bound::Unbounded };
            for (object, onode) in objects.range((low, Bound::Unbounded)) {
                let is_first = coll == from.coll && *object == from.object;
                if ends(coll, object, None) {
                    return;
                }
                if !is_first || from.omap.is_none() {
                    visit(coll, object, onode, None);
                }
                let start = from.omap.as_ref().filter(|_| is_first);
                let low = start.map_or(Bound::Unbounded, Bound::Included);
                for (key, value) in onode.omap.range::<Bytes, _>((low, Bound::Unbounded)) {
                    if ends(coll, object, Some(key)) {
                        return;
                    }
                    visit(coll, object, onode, Some((key, value)));
                }
            }
        }
    }
}
