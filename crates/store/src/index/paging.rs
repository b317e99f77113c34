//! Which pages are in memory, in what form, and which of them leave it.
//!
//! A page that is read stays as its bytes; an entry of it becomes one by itself when it is asked for or changes. An
//! object's entry that is found in memory tells that its page is there. Only where nothing is found, or where
//! a range is asked for, the directory is looked at, and not even then while all entries are in memory by themselves.
//! So an index that is used as a whole costs nothing more. A page leaves as a whole: never one that changed since the
//! last durable checkpoint, that a caller holds, whose objects have pending bytes (those are not part of pages), or
//! with entries that stay.

use std::ops::Bound;

use bytes::Bytes;
use codec::DecodeError;
use types::{CollId, HObject};

use super::{
    Index, Key, KeyRef, OMAP_BYTES, ONODE_BYTES, Objects, is_resident,
    node::Page,
    packed::Packed,
    page::{Bounds, Entry, Value, decode_entry, open_page},
};
use crate::{Cached, MemoryUse, onode::Onode, space::Run};

impl Index {
    /// Memory held for pages, about.
    pub(crate) fn memory(&self) -> u64 {
        self.directory.packed_bytes() + self.unpacked_memory()
    }

    /// What is in memory by kind: onodes, omap entries, pages.
    pub(crate) fn cached(&self) -> Cached {
        let (onodes, omap) = (self.onode_count, self.omap_count);
        Cached {
            data: MemoryUse::default(),
            onodes: MemoryUse { items: onodes, bytes: onodes * ONODE_BYTES },
            omap: MemoryUse { items: omap, bytes: omap * OMAP_BYTES + self.heap_bytes },
            pages: MemoryUse {
                items: self.directory.packed_count() as u64,
                bytes: self.directory.packed_bytes(),
            },
        }
    }

    /// Memory of entries by themselves, about.
    pub(crate) fn unpacked_memory(&self) -> u64 {
        self.onode_count * ONODE_BYTES + self.omap_count * OMAP_BYTES + self.heap_bytes
    }

    /// Memory of entries that changed since the last checkpoint began, about.
    pub(crate) fn changed_memory(&self) -> u64 {
        self.changed_bytes
    }

    /// Memory of pages that changed since the last checkpoint began, about.
    pub(crate) fn dirty_memory(&self) -> u64 {
        self.changed_bytes + self.page_memory() * self.dirty.len() as u64
    }

    /// Memory of pages that the checkpoint being made holds, about: all of them until it is durable.
    pub(crate) fn frozen_memory(&self) -> u64 {
        self.frozen_bytes + self.page_memory() * self.frozen_count as u64
    }

    /// How many pages of the checkpoint being made are not rendered, and of how many.
    pub(crate) fn frozen_left(&self) -> (usize, usize) {
        (self.frozen.len(), self.frozen_count)
    }

    /// How many pages have changed since the last checkpoint began.
    pub(crate) fn dirty_count(&self) -> usize {
        self.dirty.len()
    }

    /// Memory of the bytes of a page, on average.
    fn page_memory(&self) -> u64 {
        self.directory.packed_bytes() / (self.directory.packed_count() as u64).max(1)
    }

    /// Takes in the page that begins at `first`; objects' data is in `area`.
    pub(crate) fn load_page(&mut self, first: &Key, bytes: Bytes, area: Run) -> Result<(), DecodeError> {
        let next = self.directory.page_after(first);
        let bounds = Bounds { first, next: next.as_ref(), area };
        if stays(first, next.as_ref()) {
            // As few bytes as there are, since they stay.
            open_page(Bytes::copy_from_slice(&bytes), &bounds, |_, key, value| self.insert(key, value))?;
        } else {
            self.directory.set_packed(first, Some(Packed::open(bytes, &bounds)?));
        }
        self.directory.set_loaded(first, true);
        Ok(())
    }

    fn insert(&mut self, key: Key, value: Value) {
        let objects = self.colls.entry(key.coll).or_default();
        match value {
            Value::Onode(onode) => {
                self.heap_bytes += onode.heap_bytes();
                self.onode_count += u64::from(objects.onodes.insert(key.object, onode).is_none());
            }
            Value::Omap(value) => {
                let name = key.omap.unwrap_or_default();
                self.heap_bytes += (name.len() + value.len()) as u64;
                let old = objects.omaps.entry(key.object).or_default().insert(name, value);
                self.omap_count += u64::from(old.is_none());
            }
        }
    }

    fn insert_bytes(&mut self, bytes: Bytes) {
        let (key, value) = decode_entry(bytes).expect("a page's entries were looked at");
        self.insert(key, value);
    }

    /// Takes the entry of a key out of its page's bytes and makes it one by itself. False if it is not in such bytes.
    pub(crate) fn unpack<'a>(&mut self, key: impl Into<KeyRef<'a>>) -> bool {
        let key = key.into();
        if self.directory.packed_count() == 0 || is_resident(key.object) {
            return false;
        }
        let bytes = self.directory.take_packed(&key.to_key());
        let is_found = bytes.is_some();
        bytes.into_iter().for_each(|bytes| self.insert_bytes(bytes));
        is_found
    }

    /// Takes out of their pages' bytes all entries from a key on for which `is_within` holds.
    fn unpack_from(&mut self, from: &Key, is_within: impl Fn(&Key) -> bool) {
        if self.directory.packed_count() > 0 {
            let found = self.directory.take_packed_from(from, is_within);
            found.into_iter().for_each(|bytes| self.insert_bytes(bytes));
        }
    }

    /// Takes the entries of an object and its omap out of their pages' bytes.
    pub(crate) fn unpack_object(&mut self, coll: CollId, object: &HObject) {
        // Nothing of what stays in memory is packed.
        if is_resident(object) {
            return;
        }
        let from = Key::of(coll, object);
        self.unpack_from(&from, |key| key.coll == coll && key.object == *object);
    }

    /// Takes all entries of a collection out of their pages' bytes.
    pub(crate) fn unpack_coll(&mut self, coll: CollId) {
        self.unpack_from(&Key::of(coll, &HObject::min()), |key| key.coll == coll);
    }

    /// Takes the entries of the objects in `[from, to)` and of their omaps out of their pages' bytes.
    pub(crate) fn unpack_objects(&mut self, coll: CollId, from: &HObject, to: &HObject) {
        self.unpack_from(&Key::of(coll, from), |key| key.coll == coll && key.object < *to);
    }

    /// Takes all entries of a page out of its bytes.
    pub(super) fn unpack_page(&mut self, first: &Key) {
        let next = self.directory.page_after(first);
        self.unpack_from(first, |key| next.as_ref().is_none_or(|next| key < next));
    }

    /// The object's entry, if its page is in memory.
    pub(crate) fn fetch(&mut self, coll: CollId, object: &HObject) -> Option<&Onode> {
        if self.get(coll, object).is_none() {
            self.unpack(&Key::of(coll, object));
        }
        self.get(coll, object)
    }

    /// A copy of the object's entry, if its page is in memory: for a caller that looks at all objects once.
    pub(crate) fn peek(&self, coll: CollId, object: &HObject) -> Option<Onode> {
        let in_page = || match self.packed_value(&Key::of(coll, object))? {
            Value::Onode(onode) => Some(onode),
            Value::Omap(_) => None,
        };
        self.get(coll, object).cloned().or_else(in_page)
    }

    /// What an entry that is in its page's bytes says.
    pub(crate) fn packed_value(&self, key: &Key) -> Option<Value> {
        let found = self.directory.page_at(key).packed.as_deref()?.find(key)?;
        Some(found.entry().1)
    }

    /// True if there is no telling what the entry of a key says, or whether there is one, before it is loaded.
    pub(crate) fn is_hidden(&self, key: &Key) -> bool {
        if self.directory.is_whole() {
            return false;
        }
        let page = self.directory.page_at(key);
        page.is_used.set(true);
        !page.is_loaded || page.packed.as_deref().is_some_and(|packed| packed.find(key).is_some())
    }

    /// Calls `visit` with every entry whose page is in memory, in no order.
    pub(crate) fn each_entry(&self, mut visit: impl FnMut(CollId, &HObject, Entry<'_>)) {
        let loaded = self.directory.pages().filter(|(_, page)| page.is_loaded);
        loaded.for_each(|(first, _)| self.each_in_page(&first, &mut visit));
    }

    /// Calls `visit` with each entry of the page that begins at `first`, which is in memory, in no order.
    pub(crate) fn each_in_page(&self, first: &Key, mut visit: impl FnMut(CollId, &HObject, Entry<'_>)) {
        self.visit(first, self.directory.page_after(first).as_ref(), |coll, object, entry| {
            visit(coll, object, entry);
            true
        });
        let packed = self.directory.page(first).and_then(|page| page.packed.as_deref());
        for raw in packed.into_iter().flat_map(|packed| packed.from(first)) {
            let (key, value) = raw.entry();
            visit(key.coll, &key.object, value.entry(&key));
        }
    }

    /// True if the page that answers for `key` is not in memory.
    pub(crate) fn is_absent(&self, key: &Key) -> bool {
        if self.directory.is_whole() {
            return false;
        }
        let page = self.directory.page_at(key);
        page.is_used.set(true);
        !page.is_loaded
    }

    /// The pages that may have entries from `from` on that `is_within` says count, none if all entries are in memory by
    /// themselves: it is asked with the first key of each page but the first one, and says where the range ends.
    fn pages_in<'a>(
        &'a self,
        from: &'a Key,
        is_within: impl Fn(&Key) -> bool + 'a,
    ) -> impl Iterator<Item = (Key, &'a Page)> + 'a {
        let pages = self.directory.pages_from(from).filter(move |_| !self.directory.is_whole());
        let pages = pages.take_while(move |(first, _)| first <= from || is_within(first));
        pages.inspect(|(_, page)| page.is_used.set(true))
    }

    /// A key of each of the pages in a range, as [`Index::pages_in`] has it, that is not in memory.
    pub(crate) fn absent_in<'a>(
        &'a self,
        from: &'a Key,
        is_within: impl Fn(&Key) -> bool + 'a,
    ) -> impl Iterator<Item = Key> + 'a {
        let absent = self.pages_in(from, is_within).filter(|(_, page)| !page.is_loaded);
        absent.map(move |(first, _)| first.max(from.clone()))
    }

    /// What the page that answers for a key takes on the device.
    pub(crate) fn page_bytes(&self, key: &Key) -> u64 {
        u64::from(self.directory.page_at(key).place.blob.bytes)
    }

    /// What the first `pages_max` pages in a range take on the device, up to the one with which that is more than
    /// `bytes_max`; or a key of the first one before it that is not in memory.
    pub(crate) fn bytes_in(
        &self,
        from: &Key,
        is_within: impl Fn(&Key) -> bool,
        pages_max: usize,
        bytes_max: u64,
    ) -> Result<u64, Key> {
        let mut bytes = 0;
        for (first, page) in self.pages_in(from, is_within).take(pages_max) {
            bytes += u64::from(page.place.blob.bytes);
            if bytes > bytes_max {
                break;
            }
            if !page.is_loaded {
                return Err(first.max(from.clone()));
            }
        }
        Ok(bytes)
    }

    /// As `absent_in`, for pages with objects' own entries: those with nothing but one object's omap are passed over.
    pub(crate) fn absent_listing<'a>(
        &'a self,
        from: &'a Key,
        is_within: impl Fn(&Key) -> bool + 'a,
    ) -> impl Iterator<Item = Key> + 'a {
        self.absent_in(from, is_within).filter(move |key| {
            let first = self.directory.page_of(key);
            let next = self.directory.page_after(key);
            let is_same = next.is_some_and(|next| next.coll == first.coll && next.object == first.object);
            first.omap.is_none() || !is_same
        })
    }

    /// Keys of the absent pages with the object or its omap.
    pub(crate) fn absent_of_object(&self, coll: CollId, object: &HObject, out: &mut Vec<Key>) {
        let from = Key::of(coll, object);
        out.extend(self.absent_in(&from, |first| first.coll == coll && first.object == *object));
    }

    /// Keeps the page of a key in memory, once it is there, until [`Index::unpin`].
    pub(crate) fn pin(&mut self, key: Key) {
        *self.pinned.entry(key).or_default() += 1;
    }

    pub(crate) fn unpin(&mut self, key: &Key) {
        if let Some(count) = self.pinned.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.pinned.remove(key);
            }
        }
    }

    /// Looks at the next page in turn and evicts it if it may go and was not used since the last look. False if there
    /// is no page. `durable` is the number of the superblock on the device.
    pub(crate) fn evict_step(&mut self, durable: u64) -> bool {
        let Some(first) = self.directory.evictable_after(&self.hand) else { return false };
        let next = self.directory.page_after(&first);
        if self.may_evict(&first, next.as_ref(), durable) {
            self.directory.set_loaded(&first, false);
            self.drop_entries(&first, next.as_ref());
        }
        self.hand = first;
        true
    }

    fn may_evict(&self, first: &Key, next: Option<&Key>, durable: u64) -> bool {
        let Some(page) = self.directory.page(first) else { return false };
        let is_clean = !page.place.blob.runs.is_empty()
            && page.place.sequence <= durable
            && !self.dirty.contains(first)
            && !self.frozen.contains(first)
            && !self.rendered.iter().any(|image| image.first == *first);
        if stays(first, next) || !is_clean || self.is_pinned(first, next) {
            return false;
        }
        let mut is_idle = !page.is_used.replace(false);
        self.visit(first, next, |_, _, entry| {
            if let Entry::Onode(onode) = entry {
                let was_used = onode.is_used.replace(false);
                is_idle &= !was_used && onode.pending.is_empty();
            }
            true
        });
        is_idle
    }

    fn is_pinned(&self, first: &Key, next: Option<&Key>) -> bool {
        let to = next.map_or(Bound::Unbounded, Bound::Excluded);
        self.pinned.range((Bound::Included(first), to)).next().is_some()
    }

    /// Pages of a checkpoint that are rendered, and not about to change, stay as their bytes, but for objects with
    /// pending bytes.
    pub(super) fn pack_rendered(&mut self) {
        for at in 0..self.rendered.len() {
            let image = &self.rendered[at];
            let (first, bytes, starts) = (image.first.clone(), image.bytes.clone(), image.starts.clone());
            let next = self.directory.page_after(&first);
            if stays(&first, next.as_ref()) || self.is_pinned(&first, next.as_ref()) {
                continue;
            }
            let mut packed = Packed::new(bytes, starts);
            self.drop_entries(&first, next.as_ref());
            self.visit(&first, next.as_ref(), |coll, object, _| {
                packed.take(&Key::of(coll, object));
                true
            });
            self.directory.set_packed(&first, Some(packed));
        }
    }

    /// Asserts that what is in memory is of pages that are; walks everything, for tests.
    pub(crate) fn check_pages(&self) {
        let (mut onodes, mut omaps, mut bytes) = (0, 0, 0);
        self.visit(&Key::min(), None, |coll, object, entry| {
            let key = match entry {
                Entry::Onode(_) => Key::of(coll, object),
                Entry::Omap(name, _) => Key::of_omap(coll, object, name),
            };
            match entry {
                Entry::Onode(onode) => {
                    onodes += 1;
                    bytes += onode.heap_bytes();
                }
                Entry::Omap(name, value) => {
                    omaps += 1;
                    bytes += (name.len() + value.len()) as u64;
                }
            }
            assert!(self.directory.page_at(&key).is_loaded, "an entry of an absent page: {key:?}");
            assert!(self.packed_value(&key).is_none(), "an entry is there twice: {key:?}");
            true
        });
        assert_eq!((onodes, omaps), (self.onode_count, self.omap_count), "entries in memory");
        assert_eq!(bytes, self.heap_bytes, "memory of entries");
    }

    /// Takes the entries of `[from, to)` that are by themselves out of memory, but for objects with pending bytes.
    fn drop_entries(&mut self, from: &Key, to: Option<&Key>) {
        let last = to.map_or(Bound::Unbounded, |to| Bound::Included(to.coll));
        for (&coll, objects) in self.colls.range_mut((Bound::Included(from.coll), last)) {
            let low = Some(from).filter(|from| from.coll == coll);
            let high = to.filter(|to| to.coll == coll);
            let (onodes, onode_bytes) = objects.drop_onodes(low, high);
            let (omaps, omap_bytes) = objects.drop_omaps(low, high);
            self.onode_count -= onodes;
            self.omap_count -= omaps;
            self.heap_bytes -= onode_bytes + omap_bytes;
        }
    }
}

impl Objects {
    /// Takes out objects' own entries of `[from, to)` without pending bytes; how many there were, and their bytes.
    fn drop_onodes(&mut self, from: Option<&Key>, to: Option<&Key>) -> (u64, u64) {
        let low = from.map_or(Bound::Unbounded, |from| match from.omap {
            None => Bound::Included(&from.object),
            Some(_) => Bound::Excluded(&from.object),
        });
        let high = to.map_or(Bound::Unbounded, |to| match to.omap {
            None => Bound::Excluded(&to.object),
            Some(_) => Bound::Included(&to.object),
        });
        if is_empty(low, high) {
            return (0, 0);
        }
        let gone = self.onodes.extract_if((low.cloned(), high.cloned()), |_, onode| onode.pending.is_empty());
        gone.fold((0, 0), |(count, bytes), (_, onode)| (count + 1, bytes + onode.heap_bytes()))
    }

    /// Takes out omap entries of `[from, to)`; how many there were, and their bytes.
    fn drop_omaps(&mut self, from: Option<&Key>, to: Option<&Key>) -> (u64, u64) {
        let low = from.map_or(Bound::Unbounded, |from| Bound::Included(&from.object));
        let high = to.map_or(Bound::Unbounded, |to| match to.omap {
            None => Bound::Excluded(&to.object),
            Some(_) => Bound::Included(&to.object),
        });
        if is_empty(low, high) {
            return (0, 0);
        }
        let mut dropped = (0, 0);
        let omaps = self.omaps.extract_if((low.cloned(), high.cloned()), |object, omap| {
            let low = from.filter(|from| from.object == *object).and_then(|from| from.omap.as_ref());
            let high = to.filter(|to| to.object == *object).and_then(|to| to.omap.as_ref());
            let low = low.map_or(Bound::Unbounded, |key| Bound::Included(&**key));
            let high = high.map_or(Bound::Unbounded, |key| Bound::Excluded(&**key));
            omap.remove_range(low, high, |key, value| {
                dropped.0 += 1;
                dropped.1 += (key.len() + value.len()) as u64;
            });
            omap.is_empty()
        });
        omaps.for_each(drop);
        dropped
    }
}

/// True for a page that answers for keys which stay in memory: they come first in their collections.
pub(crate) fn stays(first: &Key, next: Option<&Key>) -> bool {
    first.is_resident() || next.is_none_or(|next| next.coll != first.coll)
}

/// A map's range must not end before it begins.
fn is_empty(low: Bound<&HObject>, high: Bound<&HObject>) -> bool {
    match (low, high) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
            low >= high
        }
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    }
}
