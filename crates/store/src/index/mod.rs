//! All objects by collection and name, and the pages that hold them on the device.
//!
//! The key space is cut in pages ([`directory`]). A page is dirty when an entry of it changed since the
//! last checkpoint began. A checkpoint freezes the dirty pages and renders them one by one, while changes
//! go on: before a frozen page changes, it is rendered as it is ([`render`]). So what a checkpoint writes is
//! the state of the moment in which it began. Pages need not be in memory ([`paging`]), and what is in memory is an
//! entry by itself only if it was asked for or changed: the others are a page's bytes ([`packed`]). What is written
//! changes few places again and again: pages are looked for where they were found last ([`hints`]), and an omap's ends
//! are at hand ([`omap`]).

mod directory;
mod heap;
mod hints;
mod need;
mod node;
mod omap;
mod packed;
mod page;
mod page_keys;
mod paging;
mod render;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
};

use bytes::Bytes;
use codec::Codec;
use types::{CollId, HObject, PgId, PoolId};

pub(crate) use directory::Directory;
pub(crate) use node::Place;
pub(crate) use omap::Omap;
pub(crate) use page::{
    Bounds, Entry, PageImage, PendingPage, PendingPiece, ROOT_MAGIC, Root, Table, Value, blob_crc, open_page,
    piece_bytes,
};
pub(crate) use paging::stays;

use self::need::{Need, growth_factor};
use crate::{onode::Onode, pool_usage::PoolUsages};

/// A place in the key space: an object's own entry, followed by its omap entries.
#[derive(Codec, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) coll: CollId,
    pub(crate) object: HObject,
    pub(crate) omap: Option<Bytes>,
}

impl Key {
    /// Before every key.
    pub(crate) fn min() -> Key {
        let coll = CollId(PgId { pool: PoolId(i64::MIN), seed: 0 });
        Key { coll, object: HObject::min(), omap: None }
    }

    /// The object's own entry.
    pub(crate) fn of(coll: CollId, object: &HObject) -> Key {
        Key { coll, object: object.clone(), omap: None }
    }

    /// Keys of objects without a pool, which the OSD and its PGs keep for themselves: they stay in memory.
    pub(crate) fn is_resident(&self) -> bool {
        is_resident(&self.object)
    }

    /// A key behind `before` and not behind `first`, which is an entry's: as short as it may be, since first keys of
    /// pages stay in memory.
    pub(super) fn between(before: &Key, first: &Key) -> Key {
        let HObject { pool, hash, is_max, .. } = first.object;
        let short = Key::of(first.coll, &HObject { pool, hash, is_max, ..HObject::default() });
        if short > *before {
            return short;
        }
        let is_same = (before.coll, &before.object) == (first.coll, &first.object);
        let omap = first.omap.as_ref().filter(|_| is_same).map(|omap| {
            // What tells it from the omap key before it; behind the object's own entry, nothing is enough.
            let len = before.omap.as_ref().map_or(0, |before| common_len(before, omap) + 1);
            Bytes::copy_from_slice(&omap[..len])
        });
        Key { coll: first.coll, object: first.object.detached(), omap }
    }

    /// One of its omap entries.
    pub(crate) fn of_omap(coll: CollId, object: &HObject, name: &Bytes) -> Key {
        Key { coll, object: object.clone(), omap: Some(name.clone()) }
    }
}

/// A borrowed [`Key`], so that looking for a place takes no memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRef<'a> {
    pub(crate) coll: CollId,
    pub(crate) object: &'a HObject,
    pub(crate) omap: Option<&'a [u8]>,
}

impl<'a> From<&'a Key> for KeyRef<'a> {
    fn from(key: &'a Key) -> KeyRef<'a> {
        KeyRef { coll: key.coll, object: &key.object, omap: key.omap.as_deref() }
    }
}

impl KeyRef<'_> {
    fn to_key(self) -> Key {
        Key { coll: self.coll, object: self.object.clone(), omap: self.omap.map(Bytes::copy_from_slice) }
    }
}

/// Bytes with which both begin.
fn common_len(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// True for objects that stay in memory.
pub(crate) fn is_resident(object: &HObject) -> bool {
    object.pool.0 < 0
}

/// What a collection has, as far as it is in memory by itself.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) onodes: BTreeMap<HObject, Onode>,
    /// Of objects that have any.
    pub(crate) omaps: BTreeMap<HObject, Omap>,
}

/// Memory of an object's entry beside what it holds, about: its name, its place in the map and their slack.
const ONODE_BYTES: u64 = 450;
/// Memory of an omap entry beside what it holds, about.
const OMAP_BYTES: u64 = 130;

#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) colls: BTreeMap<CollId, Objects>,
    pub(crate) directory: Directory,
    /// Pages that differ from what the checkpoint that began last holds, by first key.
    dirty: BTreeSet<Key>,
    /// Pages that the checkpoint being made has still to render; they are as they were when it began.
    frozen: BTreeSet<Key>,
    /// How many pages the checkpoint being made froze.
    frozen_count: usize,
    /// Pages rendered and not placed.
    rendered: VecDeque<PageImage>,
    /// Grows with each checkpoint begun.
    generation: u64,
    /// Of all omap entries, in memory or not. It counts on from what the root says, and wraps where that is wrong.
    pub(crate) omap_bytes: u64,
    /// What each pool takes, in memory or not.
    pub(crate) pools: PoolUsages,
    /// The transaction being applied.
    pub(crate) txn: u64,
    /// A page with more bytes than this is split.
    page_bytes_max: usize,
    /// What growth takes on the device ([`need`]).
    growth_factor: u64,
    /// Entries in memory by themselves, and bytes of what they hold.
    onode_count: u64,
    omap_count: u64,
    heap_bytes: u64,
    /// Memory of entries that changed since the last checkpoint began, and of those that it holds, about. What the
    /// OSD keeps for itself does not count.
    changed_bytes: u64,
    frozen_bytes: u64,
    /// What the pages that changed, and those that the checkpoint being made froze, take on the device.
    need: Need,
    frozen_need: Need,
    /// Keys whose pages stay in memory, and how many ask for that.
    pinned: BTreeMap<Key, u32>,
    /// The page at which eviction looked last.
    hand: Key,
}

impl Index {
    /// What the pages of `directory` say is to be taken in with [`Index::load_page`].
    pub(crate) fn new(directory: Directory, page_bytes_max: usize) -> Index {
        Index {
            colls: BTreeMap::new(),
            directory,
            dirty: BTreeSet::new(),
            frozen: BTreeSet::new(),
            frozen_count: 0,
            rendered: VecDeque::new(),
            generation: 1,
            omap_bytes: 0,
            pools: PoolUsages::default(),
            txn: 0,
            page_bytes_max,
            growth_factor: growth_factor(page_bytes_max),
            onode_count: 0,
            omap_count: 0,
            heap_bytes: 0,
            changed_bytes: 0,
            frozen_bytes: 0,
            need: Need::default(),
            frozen_need: Need::default(),
            pinned: BTreeMap::new(),
            hand: Key::min(),
        }
    }

    /// The object's entry, if it is in memory by itself.
    pub(crate) fn get(&self, coll: CollId, object: &HObject) -> Option<&Onode> {
        let onode = self.colls.get(&coll)?.onodes.get(object)?;
        onode.is_used.set(true);
        Some(onode)
    }

    pub(crate) fn get_mut(&mut self, coll: CollId, object: &HObject) -> Option<&mut Onode> {
        self.colls.get_mut(&coll)?.onodes.get_mut(object)
    }

    /// Makes the collection exist.
    pub(crate) fn make_coll(&mut self, coll: CollId) {
        self.colls.entry(coll).or_default();
    }

    /// The object's omap, as far as it is in memory by itself; none if it is empty.
    pub(crate) fn omap(&self, coll: CollId, object: &HObject) -> Option<&Omap> {
        self.colls.get(&coll)?.omaps.get(object)
    }

    /// Changes the object's entry, made if there is none.
    pub(crate) fn change<T>(
        &mut self,
        coll: CollId,
        object: &HObject,
        change: impl FnOnce(&mut Onode) -> T,
    ) -> T {
        let generation = self.generation;
        // The common case: the page is dirty already.
        let touched = self.get_mut(coll, object).filter(|onode| onode.touched == generation);
        let (out, before, after) = match touched {
            Some(onode) => measured(onode, change),
            None => {
                self.begin_change(coll, object);
                measured(self.get_mut(coll, object).expect("it was there or was just made"), change)
            }
        };
        self.heap_bytes = self.heap_bytes + after - before;
        self.need.grow(after as i64 - before as i64);
        if !is_resident(object) {
            self.changed_bytes = (self.changed_bytes + after).saturating_sub(before);
        }
        out
    }

    /// Makes the object, if there is none, and its page dirty.
    pub(crate) fn make(&mut self, coll: CollId, object: &HObject) {
        let generation = self.generation;
        if self.get(coll, object).is_none_or(|onode| onode.touched != generation) {
            self.begin_change(coll, object);
        }
    }

    /// The object's first change since the last checkpoint began.
    fn begin_change(&mut self, coll: CollId, object: &HObject) {
        let key = KeyRef { coll, object, omap: None };
        self.touch(key);
        if self.get(coll, object).is_none() && !self.unpack(key) {
            // A flush of an object that was here before is void.
            let onode = Onode { generation: self.txn, ..Onode::default() };
            self.colls.entry(coll).or_default().onodes.insert(object.detached(), onode);
            self.onode_count += 1;
            self.need.grow_by_entries(1);
        }
        let generation = self.generation;
        if let Some(onode) = self.get_mut(coll, object) {
            onode.touched = generation;
            let bytes = ONODE_BYTES + onode.heap_bytes();
            self.changed_bytes += if is_resident(object) { 0 } else { bytes };
        }
    }

    /// Takes an object out, with its omap.
    pub(crate) fn remove(&mut self, coll: CollId, object: &HObject) -> Option<Onode> {
        self.unpack_object(coll, object);
        self.get(coll, object)?;
        let last = self.omap(coll, object).and_then(Omap::last_key).cloned();
        let to = Key { coll, object: object.clone(), omap: last };
        self.touch_range(&Key::of(coll, object), &to);
        let objects = self.colls.get_mut(&coll)?;
        let omap = objects.omaps.remove(object).unwrap_or_default();
        let omap_bytes = omap.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
        let onode = objects.onodes.remove(object)?;
        self.forget_omap(coll, object, omap.len(), omap_bytes);
        self.onode_count -= 1;
        self.heap_bytes -= onode.heap_bytes();
        self.need.grow_by_entries(-1);
        self.need.grow(-(onode.heap_bytes() as i64));
        Some(onode)
    }

    /// Sets an entry of an object that is there.
    pub(crate) fn omap_set(&mut self, coll: CollId, object: &HObject, key: Bytes, value: Bytes) {
        let place = KeyRef { coll, object, omap: Some(&key) };
        self.touch(place);
        self.unpack(place);
        let (key_len, added) = (key.len() as u64, (key.len() + value.len()) as u64);
        let omaps = &mut self.colls.entry(coll).or_default().omaps;
        let old = match omaps.get_mut(object) {
            Some(omap) => omap.insert(key, value),
            None => {
                let mut omap = Omap::default();
                omap.insert(key, value);
                omaps.insert(object.detached(), omap);
                None
            }
        };
        self.omap_count += u64::from(old.is_none());
        self.need.grow_by_entries(i64::from(old.is_none()));
        let gone = old.map_or(0, |old| key_len + old.len() as u64);
        self.need.grow(added as i64 - gone as i64);
        self.omap_bytes = self.omap_bytes.wrapping_add(added).wrapping_sub(gone);
        self.pools.add_omap(coll, object, added.wrapping_sub(gone));
        self.heap_bytes = self.heap_bytes + added - gone;
        self.changed_bytes += if is_resident(object) { 0 } else { OMAP_BYTES + added };
    }

    pub(crate) fn omap_remove(&mut self, coll: CollId, object: &HObject, key: &Bytes) {
        if !self.directory.is_whole() {
            self.unpack(KeyRef { coll, object, omap: Some(key) });
        }
        if self.omap(coll, object).is_none_or(|omap| omap.get(key).is_none()) {
            return;
        }
        self.touch(KeyRef { coll, object, omap: Some(key) });
        let Some(objects) = self.colls.get_mut(&coll) else { return };
        let Some(omap) = objects.omaps.get_mut(object) else { return };
        let old = omap.remove(key);
        if omap.is_empty() {
            objects.omaps.remove(object);
        }
        if let Some(old) = old {
            self.forget_omap(coll, object, 1, (key.len() + old.len()) as u64);
        }
    }

    /// Takes the entries between two keys out of an object's omap: a log's oldest at once, with one look at their page.
    pub(crate) fn omap_remove_range(
        &mut self,
        coll: CollId,
        object: &HObject,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
    ) {
        self.unpack_object(coll, object);
        let ends = self.omap(coll, object).and_then(|omap| omap.ends(low, high));
        let Some((first, last)) = ends.map(|(first, last)| (first.clone(), last.clone())) else { return };
        self.touch_range(&Key::of_omap(coll, object, &first), &Key::of_omap(coll, object, &last));
        let Some(objects) = self.colls.get_mut(&coll) else { return };
        let Some(omap) = objects.omaps.get_mut(object) else { return };
        let (mut count, mut bytes) = (0, 0);
        omap.remove_range(low, high, |key, value| {
            count += 1;
            bytes += (key.len() + value.len()) as u64;
        });
        if omap.is_empty() {
            objects.omaps.remove(object);
        }
        self.forget_omap(coll, object, count, bytes);
    }

    /// Takes omap entries that were in memory by themselves out of the accounts.
    fn forget_omap(&mut self, coll: CollId, object: &HObject, count: usize, bytes: u64) {
        self.omap_count -= count as u64;
        self.need.grow_by_entries(-(count as i64));
        self.need.grow(-(bytes as i64));
        self.omap_bytes = self.omap_bytes.wrapping_sub(bytes);
        self.heap_bytes -= bytes;
        self.pools.remove_omap(coll, object, bytes);
    }
}

/// Changes an entry; with what that returns, the bytes that it held before and holds now.
fn measured<T>(onode: &mut Onode, change: impl FnOnce(&mut Onode) -> T) -> (T, u64, u64) {
    onode.is_used.set(true);
    let before = onode.heap_bytes();
    let out = change(onode);
    (out, before, onode.heap_bytes())
}
