//! Which page holds which keys, and where it is on the device; in tables of pages, which the root lists.
//!
//! A page answers for all keys from its first one up to the next page's, a table for all pages from its key
//! up to the next table's. There is always a page, and a table, for every key. The directory changes only
//! while a checkpoint is made, so what has become of a table when all pages are rendered is that
//! checkpoint's.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use super::{Key, Root, Table};
use crate::superblock::Blob;

/// References in one table at most; one with more is split.
const TABLE_PAGES_MAX: usize = 128;

/// A page or a table as its parent knows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// Without runs: nothing was written, as there are no entries.
    pub(crate) blob: Blob,
    /// The superblock that refers to it, if that was ever written.
    pub(crate) sequence: u64,
}

#[derive(Debug)]
pub(crate) struct Directory {
    pages: BTreeMap<Key, Place>,
    tables: BTreeMap<Key, Place>,
    dirty_tables: BTreeSet<Key>,
    /// Bytes of pages and tables.
    bytes: u64,
}

impl Directory {
    /// That of an empty index.
    pub(crate) fn new() -> Directory {
        Directory {
            pages: BTreeMap::from([(Key::min(), Place::default())]),
            tables: BTreeMap::from([(Key::min(), Place::default())]),
            dirty_tables: BTreeSet::from([Key::min()]),
            bytes: 0,
        }
    }

    /// What the superblock numbered `sequence` refers to. `None` if it makes no sense.
    pub(crate) fn open(root: &Root, tables: impl Iterator<Item = Table>, sequence: u64) -> Option<Directory> {
        let place = |(key, blob): (Key, Blob)| (key, Place { blob, sequence });
        let out = Directory {
            pages: tables.flat_map(|table| table.pages).map(place).collect(),
            tables: root.tables.iter().cloned().map(place).collect(),
            dirty_tables: BTreeSet::new(),
            bytes: 0,
        };
        let is_whole = out.tables.contains_key(&Key::min())
            && out.tables.keys().all(|table| out.pages.contains_key(table));
        let bytes = out.places().map(|place| u64::from(place.blob.bytes)).sum();
        is_whole.then_some(Directory { bytes, ..out })
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.pages.values().chain(self.tables.values())
    }

    /// Where the pages are.
    pub(crate) fn pages(&self) -> impl Iterator<Item = &Blob> {
        self.pages.values().map(|place| &place.blob)
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
        self.pages.range(..=key).next_back().expect("the first page begins before all keys").0
    }

    /// The first key of the page after the one that begins at `first`.
    pub(crate) fn page_after(&self, first: &Key) -> Option<&Key> {
        self.pages.range((Bound::Excluded(first), Bound::Unbounded)).next().map(|(next, _)| next)
    }

    fn table_of(&self, key: &Key) -> &Key {
        self.tables.range(..=key).next_back().expect("the first table begins before all keys").0
    }

    /// Cuts a page in two: `first` begins one that is not written.
    pub(crate) fn split(&mut self, first: &Key) {
        self.pages.insert(first.clone(), Place::default());
        self.dirty_tables.insert(self.table_of(first).clone());
    }

    /// A page was given a new place. What held it before comes back, in `gone`.
    pub(crate) fn set_page(&mut self, first: &Key, place: Place, gone: &mut Vec<Place>) {
        self.bytes += u64::from(place.blob.bytes);
        let old = self.pages.insert(first.clone(), place).unwrap_or_default();
        self.retire(old, gone);
        self.dirty_tables.insert(self.table_of(first).clone());
    }

    /// An empty page leaves its keys to the one before it. A table keeps its first page while it has others,
    /// so that it answers for its keys.
    pub(crate) fn drop_page(&mut self, first: &Key, gone: &mut Vec<Place>) {
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
        if let Some(page) = self.pages.remove(first) {
            self.retire(page, gone);
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
        let pages: Vec<(Key, Blob)> = pages.map(|(key, page)| (key.clone(), page.blob.clone())).collect();
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
