//! Which page holds which keys, and where it is on the device; in tables of pages, which the root lists.
//!
//! A page answers for all keys from its first one up to the next page's, a table for all pages from its key
//! up to the next table's. There is always a page, and a table, for every key. The directory changes only
//! while a checkpoint is made, so what has become of a table when all pages are rendered is that
//! checkpoint's.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use bytes::Bytes;

use super::{
    Key, Root, Table,
    heap::Heap,
    packed::{Packed, Raw},
};
use crate::superblock::Blob;

/// References in one table at most; one with more is split.
const TABLE_PAGES_MAX: usize = 128;

/// Pages looked at, and bytes moved, at a time.
const SETTLE_PAGES: usize = 64;
const SETTLE_BYTES: usize = 64 << 10;

/// A page or a table as its parent knows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// Without runs: nothing was written, as there are no entries.
    pub(crate) blob: Blob,
    /// The superblock that refers to it, if that was ever written.
    pub(crate) sequence: u64,
}

/// A page, in memory or not.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) place: Place,
    /// True if its entries are in memory: all of them.
    pub(crate) is_loaded: bool,
    /// The index' generation in which it was found to be dirty.
    pub(super) touched: Cell<u64>,
    /// Those of them that are as on the device.
    pub(super) packed: Option<Box<Packed>>,
    /// True if it was used since eviction looked at it last; entries of objects say so by themselves.
    pub(crate) is_used: Cell<bool>,
}

impl Page {
    fn new(place: Place, is_loaded: bool) -> Page {
        Page { place, is_loaded, touched: Cell::new(0), packed: None, is_used: Cell::new(true) }
    }
}

#[derive(Debug)]
pub(crate) struct Directory {
    pages: BTreeMap<Key, Page>,
    tables: BTreeMap<Key, Place>,
    dirty_tables: BTreeSet<Key>,
    /// Bytes of pages and tables.
    bytes: u64,
    /// Memory of entries as they are on the device, and how many pages have such.
    packed_bytes: u64,
    packed_count: usize,
    /// Where those bytes are.
    heap: Heap,
    /// The page up to which the heap was looked through for what had better be elsewhere.
    settled: Key,
    /// Pages that are not in memory.
    absent_count: usize,
}

impl Directory {
    /// That of an empty index.
    pub(crate) fn new() -> Directory {
        Directory {
            pages: BTreeMap::from([(Key::min(), Page::new(Place::default(), true))]),
            tables: BTreeMap::from([(Key::min(), Place::default())]),
            dirty_tables: BTreeSet::from([Key::min()]),
            bytes: 0,
            packed_bytes: 0,
            packed_count: 0,
            heap: Heap::default(),
            settled: Key::min(),
            absent_count: 0,
        }
    }

    /// What the superblock numbered `sequence` refers to: no page is in memory. `None` if it makes no sense.
    pub(crate) fn open(root: &Root, tables: impl Iterator<Item = Table>, sequence: u64) -> Option<Directory> {
        let place = |(key, blob): (Key, Blob)| (key, Place { blob, sequence });
        let page = |(key, place): (Key, Place)| {
            let is_empty = place.blob.runs.is_empty();
            (key, Page::new(place, is_empty))
        };
        let pages: BTreeMap<Key, Page> = tables.flat_map(|table| table.pages).map(place).map(page).collect();
        let out = Directory {
            absent_count: pages.values().filter(|page| !page.is_loaded).count(),
            pages,
            tables: root.tables.iter().cloned().map(place).collect(),
            dirty_tables: BTreeSet::new(),
            bytes: 0,
            packed_bytes: 0,
            packed_count: 0,
            heap: Heap::default(),
            settled: Key::min(),
        };
        let is_whole = out.tables.contains_key(&Key::min())
            && out.tables.keys().all(|table| out.pages.contains_key(table));
        let bytes = out.places().map(|place| u64::from(place.blob.bytes)).sum();
        is_whole.then_some(Directory { bytes, ..out })
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.pages.values().map(|page| &page.place).chain(self.tables.values())
    }

    /// How many pages there are.
    pub(crate) fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// All pages by their first keys.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (&Key, &Page)> {
        self.pages.iter()
    }

    /// The page that begins at `first`.
    pub(crate) fn page(&self, first: &Key) -> Option<&Page> {
        self.pages.get(first)
    }

    /// The page that answers for `key`, and those after it.
    pub(crate) fn pages_from<'a>(&'a self, key: &Key) -> impl Iterator<Item = (&'a Key, &'a Page)> + use<'a> {
        self.pages.range((Bound::Included(self.page_of(key)), Bound::Unbounded))
    }

    /// True if all pages are in memory.
    pub(crate) fn is_loaded(&self) -> bool {
        self.absent_count == 0
    }

    /// True if all entries are in memory by themselves.
    pub(crate) fn is_whole(&self) -> bool {
        self.absent_count == 0 && self.packed_count == 0
    }

    /// How many pages are in memory.
    pub(crate) fn loaded_count(&self) -> usize {
        self.pages.len() - self.absent_count
    }

    /// Memory of entries as they are on the device.
    pub(crate) fn packed_bytes(&self) -> u64 {
        self.packed_bytes
    }

    /// How many pages have such.
    pub(crate) fn packed_count(&self) -> usize {
        self.packed_count
    }

    /// The page's entries were taken into memory, or out of it.
    pub(crate) fn set_loaded(&mut self, first: &Key, is_loaded: bool) {
        let Some(page) = self.pages.get_mut(first).filter(|page| page.is_loaded != is_loaded) else { return };
        page.is_loaded = is_loaded;
        page.is_used.set(true);
        if is_loaded {
            self.absent_count -= 1;
        } else {
            self.absent_count += 1;
            self.set_packed(first, None);
        }
    }

    /// Changes which entries of a page are in memory as they are on the device.
    pub(super) fn set_packed(&mut self, first: &Key, packed: Option<Packed>) {
        let Some(page) = self.pages.get_mut(first) else { return };
        let packed = packed.filter(|packed| !packed.is_empty());
        let packed = packed.map(|packed| Box::new(packed.stored(&mut self.heap)));
        let old = std::mem::replace(&mut page.packed, packed);
        if let Some(packed) = &page.packed {
            self.packed_bytes += packed.memory();
            self.packed_count += 1;
        }
        if let Some(old) = old {
            self.packed_bytes -= old.memory();
            self.packed_count -= 1;
            old.free(&mut self.heap);
        }
    }

    /// Moves pages' bytes together, of some pages, if much of the memory that they lie in is free.
    pub(crate) fn settle(&mut self) {
        if !self.heap.is_sparse() {
            return;
        }
        let mut moved = 0;
        for (at, (first, page)) in self.pages.range_mut(&self.settled..).enumerate() {
            if at == SETTLE_PAGES || moved >= SETTLE_BYTES {
                self.settled = first.clone();
                return;
            }
            moved += page.packed.as_deref_mut().map_or(0, |packed| packed.settle(&mut self.heap));
        }
        self.settled = Key::min();
    }

    /// Entries from a key on that are as on the device.
    pub(crate) fn packed_from<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = Raw<'a>> + 'a {
        let pages = self.pages_from(key).filter(|_| self.packed_count > 0);
        pages.filter_map(|(_, page)| page.packed.as_deref()).flat_map(|packed| packed.from(key))
    }

    /// Takes out the entry with this key that is as on the device: its bytes.
    pub(super) fn take_packed(&mut self, key: &Key) -> Option<Bytes> {
        let (first, page) = self.pages.range_mut(..=key).next_back()?;
        page.is_used.set(true);
        let packed = page.packed.as_deref_mut()?;
        let bytes = packed.take(key)?;
        if packed.is_empty() {
            let first = first.clone();
            self.set_packed(&first, None);
        }
        Some(bytes)
    }

    /// Takes out all from a key on that `is_within` says count.
    pub(super) fn take_packed_from(&mut self, key: &Key, is_within: impl Fn(&Key) -> bool) -> Vec<Bytes> {
        let (mut out, mut emptied) = (Vec::new(), Vec::new());
        let begin = self.page_of(key).clone();
        for (first, page) in self.pages.range_mut(begin..) {
            if first > key && !is_within(first) {
                break;
            }
            page.is_used.set(true);
            let Some(packed) = page.packed.as_deref_mut() else { continue };
            packed.take_from(key, &is_within, &mut out);
            if packed.is_empty() {
                emptied.push(first.clone());
            }
        }
        emptied.iter().for_each(|first| self.set_packed(first, None));
        out
    }

    /// Everything on the device that it refers to.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.places().map(|place| &place.blob)
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first key of the page that answers for `key`.
    pub(crate) fn page_of(&self, key: &Key) -> &Key {
        self.page_at(key).0
    }

    /// The page that answers for `key`, with its first key.
    pub(crate) fn page_at(&self, key: &Key) -> (&Key, &Page) {
        self.pages.range(..=key).next_back().expect("the first page begins before all keys")
    }

    /// The first key of the page after the one that begins at `first`.
    pub(crate) fn page_after(&self, first: &Key) -> Option<&Key> {
        self.pages.range((Bound::Excluded(first), Bound::Unbounded)).next().map(|(next, _)| next)
    }

    fn table_of(&self, key: &Key) -> &Key {
        self.tables.range(..=key).next_back().expect("the first table begins before all keys").0
    }

    /// Cuts a page that is in memory in two: `first` begins one that is not written.
    pub(crate) fn split(&mut self, first: &Key) {
        self.pages.insert(first.clone(), Page::new(Place::default(), true));
        self.dirty_tables.insert(self.table_of(first).clone());
    }

    /// A page that is in memory was given a new place. What held it before comes back, in `gone`.
    pub(crate) fn set_page(&mut self, first: &Key, place: Place, gone: &mut Vec<Place>) {
        let bytes = u64::from(place.blob.bytes);
        self.bytes += bytes;
        let page = self.pages.entry(first.clone()).or_insert_with(|| Page::new(Place::default(), true));
        let old = std::mem::replace(&mut page.place, place);
        self.retire(old, gone);
        self.dirty_tables.insert(self.table_of(first).clone());
    }

    /// An empty page leaves its keys to the one before it. A table keeps its first page while it has others,
    /// so that it answers for its keys; and a collection its last one while the one before is not in memory, as
    /// that would come to answer for keys that stay ([`super::stays`]).
    pub(crate) fn drop_page(&mut self, first: &Key, gone: &mut Vec<Place>) {
        let before = self.pages.range(..first).next_back();
        if before
            .is_some_and(|(before, page)| !page.is_loaded && super::stays(before, self.page_after(first)))
        {
            return;
        }
        let is_alone = || {
            let next_page = self.page_after(first);
            let next_table = self.tables.range((Bound::Excluded(first), Bound::Unbounded)).next();
            next_page == next_table.map(|(key, _)| key)
        };
        if self.tables.contains_key(first) {
            if *first == Key::min() || !is_alone() {
                return;
            }
            if let Some(table) = self.tables.remove(first) {
                self.retire(table, gone);
            }
            self.dirty_tables.remove(first);
        } else {
            self.dirty_tables.insert(self.table_of(first).clone());
        }
        self.set_packed(first, None);
        if let Some(page) = self.pages.remove(first) {
            self.retire(page.place, gone);
        }
    }

    fn retire(&mut self, old: Place, gone: &mut Vec<Place>) {
        self.bytes -= u64::from(old.blob.bytes);
        if !old.blob.runs.is_empty() {
            gone.push(old);
        }
    }

    /// A table that changed, cut in several if it has grown too large. [`Directory::set_table`] has to follow
    /// for each.
    pub(crate) fn take_dirty_table(&mut self) -> Option<Vec<(Key, Table)>> {
        let first = self.dirty_tables.pop_first()?;
        let next = self.tables.range((Bound::Excluded(&first), Bound::Unbounded)).next();
        let to = next.map_or(Bound::Unbounded, |(next, _)| Bound::Excluded(next.clone()));
        let pages = self.pages.range((Bound::Included(first), to));
        let pages: Vec<(Key, Blob)> =
            pages.map(|(key, page)| (key.clone(), page.place.blob.clone())).collect();
        let parts = pages.len().div_ceil(TABLE_PAGES_MAX).max(1);
        let chunks = pages.chunks(pages.len().div_ceil(parts).max(1));
        Some(chunks.map(|chunk| (chunk[0].0.clone(), Table::new(chunk.to_vec()))).collect())
    }

    /// A table was given a place.
    pub(crate) fn set_table(&mut self, first: &Key, place: Place, gone: &mut Vec<Place>) {
        self.bytes += u64::from(place.blob.bytes);
        let old = self.tables.insert(first.clone(), place).unwrap_or_default();
        self.retire(old, gone);
    }

    /// The table could not be placed: it stays to be written.
    pub(crate) fn keep_dirty(&mut self, first: &Key) {
        self.dirty_tables.insert(self.table_of(first).clone());
    }

    /// What a root lists.
    pub(crate) fn tables(&self) -> Vec<(Key, Blob)> {
        self.tables.iter().map(|(key, table)| (key.clone(), table.blob.clone())).collect()
    }
}
