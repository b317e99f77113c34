//! Which page holds which keys, and where it is on the device; in tables of pages, which the root lists.
//!
//! A page answers for all keys from its first one up to the next page's, a table for all pages from its key
//! up to the next table's. There is always a page, and a table, for every key. The directory changes only
//! while a checkpoint is made, so what has become of a table when all pages are rendered is that
//! checkpoint's.

use bytes::Bytes;

use super::{
    Key, KeyRef, Root, Table,
    heap::Heap,
    hints::Hints,
    node::{At, Node, Page, Place},
    packed::{Packed, Raw},
};
use crate::superblock::Blob;

/// References in one table at most; one with more is split.
const TABLE_PAGES_MAX: usize = 128;
/// Bytes of their keys; most take a few dozen each, but omap keys may be long.
const TABLE_KEY_BYTES_MAX: usize = 64 << 10;

/// Pages looked at, and bytes moved, at a time.
const SETTLE_PAGES: usize = 64;
const SETTLE_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Directory {
    /// In the order of their keys.
    nodes: Vec<Node>,
    /// Those before it are not dirty.
    clean_upto: usize,
    /// How many are dirty.
    dirty_count: usize,
    page_count: usize,
    /// Bytes that pages and tables take on the device.
    bytes: u64,
    /// No page has had more of these.
    page_bytes_most: u64,
    /// Memory of entries as they are on the device, and how many pages have such.
    packed_bytes: u64,
    packed_count: usize,
    /// Where those bytes are.
    heap: Heap,
    /// The page up to which the heap was looked through for what had better be elsewhere.
    settled: Key,
    /// Pages that are not in memory.
    absent_count: usize,
    hints: Hints,
}

impl Directory {
    /// That of an empty index.
    pub(crate) fn new() -> Directory {
        let mut only = Node { is_dirty: true, ..Node::default() };
        only.push(&Key::min(), Page::new(Place::default(), true));
        Directory::of(vec![only])
    }

    /// What the superblock numbered `sequence` refers to: no page is in memory. `None` if it makes no sense.
    pub(crate) fn open(root: &Root, tables: impl Iterator<Item = Table>, sequence: u64) -> Option<Directory> {
        let mut nodes = Vec::with_capacity(root.tables.len());
        let mut last: Option<Key> = None;
        for ((first, blob), table) in root.tables.iter().zip(tables) {
            let mut node = Node { place: Place { blob: blob.clone(), sequence }, ..Node::default() };
            node.pages.reserve_exact(table.pages.len());
            if table.pages.first().is_none_or(|(key, _)| key != first) {
                return None;
            }
            for (key, blob) in table.pages {
                if last.as_ref().map_or(key != Key::min(), |last| *last >= key) {
                    return None;
                }
                let is_empty = blob.runs.is_empty();
                node.push(&key, Page::new(Place { blob, sequence }, is_empty));
                last = Some(key);
            }
            nodes.push(node);
        }
        (nodes.len() == root.tables.len() && !nodes.is_empty()).then(|| Directory::of(nodes))
    }

    fn of(nodes: Vec<Node>) -> Directory {
        let page_count = nodes.iter().map(|node| node.pages.len()).sum::<usize>();
        let is_absent = |page: &&Page| !page.is_loaded;
        let absent_count = nodes.iter().flat_map(|node| &node.pages).filter(is_absent).count();
        let dirty_count = nodes.iter().filter(|node| node.is_dirty).count();
        let mut out = Directory {
            nodes,
            clean_upto: 0,
            dirty_count,
            page_count,
            bytes: 0,
            page_bytes_most: 0,
            packed_bytes: 0,
            packed_count: 0,
            heap: Heap::default(),
            settled: Key::min(),
            absent_count,
            hints: Hints::default(),
        };
        out.bytes = out.blobs().map(Blob::device_bytes).sum();
        let pages = out.nodes.iter().flat_map(|node| &node.pages);
        out.page_bytes_most = pages.map(|page| page.place.blob.device_bytes()).max().unwrap_or(0);
        out
    }

    fn get(&self, at: At) -> &Page {
        &self.nodes[at.node].pages[at.page]
    }

    fn get_mut(&mut self, at: At) -> &mut Page {
        &mut self.nodes[at.node].pages[at.page]
    }

    fn key(&self, at: At) -> Key {
        self.nodes[at.node].keys.get(at.page)
    }

    /// Where the page is that answers for `key`: the first one begins before all keys.
    fn find<'a>(&self, key: impl Into<KeyRef<'a>>) -> At {
        let key = key.into();
        let hint = self.hints.of(key);
        if !self.answers_for(hint.get(), key) {
            hint.set(self.search(key));
        }
        debug_assert_eq!(hint.get(), self.search(key), "one page answers for a key");
        hint.get()
    }

    /// True if this is a page, and that of `key`.
    fn answers_for(&self, at: At, key: KeyRef<'_>) -> bool {
        let Some(node) = self.nodes.get(at.node).filter(|node| at.page < node.pages.len()) else {
            return false;
        };
        node.keys.compare(at.page, key).is_le()
            && self.after(at).is_none_or(|At { node, page }| self.nodes[node].keys.compare(page, key).is_gt())
    }

    fn search(&self, key: KeyRef<'_>) -> At {
        let node = self.nodes.partition_point(|node| node.keys.compare(0, key).is_le()).saturating_sub(1);
        At { node, page: self.nodes[node].keys.count_upto(key).saturating_sub(1) }
    }

    /// Where the page is that begins at `first`.
    fn find_first(&self, first: &Key) -> Option<At> {
        let at = self.find(first);
        self.nodes[at.node].keys.compare(at.page, first).is_eq().then_some(at)
    }

    fn after(&self, at: At) -> Option<At> {
        if at.page + 1 < self.nodes[at.node].pages.len() {
            return Some(At { page: at.page + 1, ..at });
        }
        (at.node + 1 < self.nodes.len()).then_some(At { node: at.node + 1, page: 0 })
    }

    fn before(&self, at: At) -> Option<At> {
        if at.page > 0 {
            return Some(At { page: at.page - 1, ..at });
        }
        let node = at.node.checked_sub(1)?;
        Some(At { node, page: self.nodes[node].pages.len() - 1 })
    }

    /// The first evictable page from a place on. What stays in memory is a large part of it where there are few objects
    /// for each PG's log: tables with nothing else are passed over.
    fn evictable_from(&self, at: At) -> Option<At> {
        let page = |at: At| (at.page..self.nodes[at.node].pages.len()).map(move |page| At { page, ..at });
        let later = (at.node + 1..self.nodes.len()).filter(|node| self.nodes[*node].evictable_count > 0);
        let mut places = page(at).chain(later.flat_map(|node| page(At { node, page: 0 })));
        places.find(|at| self.get(*at).is_evictable())
    }

    fn walk(&self, at: At) -> impl Iterator<Item = At> + '_ {
        std::iter::successors(Some(at), |at| self.after(*at))
    }

    /// How many pages there are.
    pub(crate) fn page_count(&self) -> usize {
        self.page_count
    }

    /// How many tables they are in.
    pub(crate) fn table_count(&self) -> usize {
        self.nodes.len()
    }

    /// How many tables differ from what is on the device.
    pub(crate) fn dirty_table_count(&self) -> usize {
        self.dirty_count
    }

    /// Bytes of memory of the directory itself.
    pub(crate) fn memory(&self) -> u64 {
        (self.hints.memory() + self.nodes.iter().map(Node::memory).sum::<usize>()) as u64
    }

    /// All pages with their first keys.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (Key, &Page)> {
        self.walk(At { node: 0, page: 0 }).map(|at| (self.key(at), self.get(at)))
    }

    /// The page that begins at `first`.
    pub(crate) fn page(&self, first: &Key) -> Option<&Page> {
        self.find_first(first).map(|at| self.get(at))
    }

    /// The page that answers for `key`, and those after it.
    pub(crate) fn pages_from(&self, key: &Key) -> impl Iterator<Item = (Key, &Page)> {
        self.walk(self.find(key)).map(|at| (self.key(at), self.get(at)))
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
        self.page_count - self.absent_count
    }

    /// How many pages are in memory but for those that stay.
    pub(crate) fn evictable_count(&self) -> usize {
        self.nodes.iter().map(|node| node.evictable_count).sum()
    }

    /// The next evictable page behind `key`, in turn: after the last one comes the first.
    pub(crate) fn evictable_after(&self, key: &Key) -> Option<Key> {
        let next = self.after(self.find(key)).and_then(|at| self.evictable_from(at));
        next.or_else(|| self.evictable_from(At { node: 0, page: 0 })).map(|at| self.key(at))
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
        let Some(at) = self.find_first(first).filter(|at| self.get(*at).is_loaded != is_loaded) else {
            return;
        };
        let node = &mut self.nodes[at.node];
        let page = &mut node.pages[at.page];
        node.evictable_count -= usize::from(page.is_evictable());
        page.is_loaded = is_loaded;
        page.is_used.set(true);
        node.evictable_count += usize::from(page.is_evictable());
        if is_loaded {
            self.absent_count -= 1;
        } else {
            self.absent_count += 1;
            self.set_packed_at(at, None);
        }
    }

    /// Changes which entries of a page are in memory as they are on the device.
    pub(super) fn set_packed(&mut self, first: &Key, packed: Option<Packed>) {
        if let Some(at) = self.find_first(first) {
            self.set_packed_at(at, packed);
        }
    }

    fn set_packed_at(&mut self, at: At, packed: Option<Packed>) {
        let packed = packed.filter(|packed| !packed.is_empty());
        let packed = packed.map(|packed| Box::new(packed.stored(&mut self.heap)));
        if let Some(packed) = &packed {
            self.packed_bytes += packed.memory();
            self.packed_count += 1;
        }
        if let Some(old) = std::mem::replace(&mut self.get_mut(at).packed, packed) {
            self.packed_bytes -= old.memory();
            self.packed_count -= 1;
            old.free(&mut self.heap);
        }
    }

    /// True if much of the memory that pages' bytes lie in is free.
    pub(crate) fn is_sparse(&self) -> bool {
        self.heap.is_sparse()
    }

    /// Moves pages' bytes together, of some pages, if much of the memory that they lie in is free.
    pub(crate) fn settle(&mut self) {
        if !self.heap.is_sparse() {
            return;
        }
        let (mut moved, mut next) = (0, self.evictable_from(self.find(&self.settled)));
        for _ in 0..SETTLE_PAGES {
            let Some(at) = next.filter(|_| moved < SETTLE_BYTES) else { break };
            let packed = self.nodes[at.node].pages[at.page].packed.as_deref_mut();
            moved += packed.map_or(0, |packed| packed.settle(&mut self.heap));
            next = self.after(at).and_then(|at| self.evictable_from(at));
        }
        self.settled = next.map_or_else(Key::min, |at| self.key(at));
    }

    /// Entries from a key on that are as on the device.
    pub(crate) fn packed_from<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = Raw<'a>> + 'a {
        let begin = Some(self.find(key)).filter(|_| self.packed_count > 0);
        let loaded = std::iter::successors(begin.and_then(|at| self.evictable_from(at)), |at| {
            self.after(*at).and_then(|at| self.evictable_from(at))
        });
        loaded.filter_map(|at| self.get(at).packed.as_deref()).flat_map(|packed| packed.from(key))
    }

    /// Takes out the entry with this key that is as on the device: its bytes.
    pub(super) fn take_packed(&mut self, key: &Key) -> Option<Bytes> {
        let at = self.find(key);
        let page = self.get_mut(at);
        page.is_used.set(true);
        let packed = page.packed.as_deref_mut()?;
        let bytes = packed.take(key)?;
        if packed.is_empty() {
            self.set_packed_at(at, None);
        }
        Some(bytes)
    }

    /// Takes out all from a key on that `is_within` says count.
    pub(super) fn take_packed_from(&mut self, key: &Key, is_within: impl Fn(&Key) -> bool) -> Vec<Bytes> {
        let (mut out, mut next) = (Vec::new(), Some(self.find(key)));
        while let Some(at) = next {
            let first = self.key(at);
            if first > *key && !is_within(&first) {
                break;
            }
            let page = self.get_mut(at);
            page.is_used.set(true);
            if let Some(packed) = page.packed.as_deref_mut() {
                packed.take_from(key, &is_within, &mut out);
                if packed.is_empty() {
                    self.set_packed_at(at, None);
                }
            }
            next = self.after(at);
        }
        out
    }

    /// Everything on the device that it refers to.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = &Blob> {
        let pages = self.nodes.iter().flat_map(|node| &node.pages).map(|page| &page.place.blob);
        pages.chain(self.nodes.iter().map(|node| &node.place.blob))
    }

    /// Bytes that they take on the device.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first key of the page that answers for `key`.
    pub(crate) fn page_of<'a>(&self, key: impl Into<KeyRef<'a>>) -> Key {
        self.key(self.find(key))
    }

    /// The page that answers for `key`.
    pub(crate) fn page_at<'a>(&self, key: impl Into<KeyRef<'a>>) -> &Page {
        self.get(self.find(key))
    }

    /// The first key of the page after the one that answers for `key`.
    pub(crate) fn page_after(&self, key: &Key) -> Option<Key> {
        self.after(self.find(key)).map(|at| self.key(at))
    }

    /// No page takes more bytes on the device.
    pub(crate) fn page_bytes_most(&self) -> u64 {
        self.page_bytes_most
    }

    fn mark_dirty(&mut self, node: usize) {
        let was_dirty = std::mem::replace(&mut self.nodes[node].is_dirty, true);
        self.dirty_count += usize::from(!was_dirty);
        self.clean_upto = self.clean_upto.min(node);
    }

    /// Cuts a page that is in memory in two: `first` begins one that is not written.
    pub(crate) fn split(&mut self, first: &Key) {
        let At { node, page } = self.find(first);
        self.nodes[node].insert(page + 1, first, Page::new(Place::default(), true));
        self.page_count += 1;
        self.mark_dirty(node);
        let (pages, key_bytes) = (self.nodes[node].pages.len(), self.nodes[node].keys.bytes());
        if pages > TABLE_PAGES_MAX || (pages > 1 && key_bytes > TABLE_KEY_BYTES_MAX) {
            let half = self.nodes[node].split();
            self.dirty_count += usize::from(half.is_dirty);
            self.nodes.insert(node + 1, half);
        }
    }

    /// A page that is in memory was given a new place. What held it before comes back, in `gone`.
    pub(crate) fn set_page(&mut self, first: &Key, place: Place, gone: &mut Vec<Place>) {
        let at = self.find_first(first).expect("what is rendered is a page's");
        self.bytes += place.blob.device_bytes();
        self.page_bytes_most = self.page_bytes_most.max(place.blob.device_bytes());
        let old = std::mem::replace(&mut self.get_mut(at).place, place);
        self.retire(old, gone);
        self.mark_dirty(at.node);
    }

    /// An empty page leaves its keys to the one before it. A table keeps its first page while it has others,
    /// so that it answers for its keys; and a collection its last one while the one before is not in memory, as
    /// that would come to answer for keys that stay ([`super::stays`]).
    pub(crate) fn drop_page(&mut self, first: &Key, gone: &mut Vec<Place>) {
        // The first page is the first table's, too.
        let Some(at) = self.find_first(first) else { return };
        let Some(before) = self.before(at) else { return };
        let next = self.after(at).map(|at| self.key(at));
        if !self.get(before).is_loaded && super::stays(&self.key(before), next.as_ref()) {
            return;
        }
        let node = &self.nodes[at.node];
        let is_alone = node.pages.len() == 1;
        if at.page == 0 && !is_alone {
            return;
        }
        self.set_packed_at(at, None);
        let page = self.nodes[at.node].remove(at.page);
        self.page_count -= 1;
        self.absent_count -= usize::from(!page.is_loaded);
        self.retire(page.place, gone);
        if is_alone {
            let node = self.nodes.remove(at.node);
            self.dirty_count -= usize::from(node.is_dirty);
            self.clean_upto = self.clean_upto.min(at.node);
            self.retire(node.place, gone);
        } else {
            self.mark_dirty(at.node);
        }
    }

    fn retire(&mut self, old: Place, gone: &mut Vec<Place>) {
        self.bytes -= old.blob.device_bytes();
        if !old.blob.runs.is_empty() {
            gone.push(old);
        }
    }

    /// A table that changed. [`Directory::set_table`] has to follow.
    pub(crate) fn take_dirty_table(&mut self) -> Option<(Key, Table)> {
        let is_dirty = self.nodes[self.clean_upto..].iter().position(|node| node.is_dirty);
        self.clean_upto = is_dirty.map_or(self.nodes.len(), |at| self.clean_upto + at);
        let node = self.nodes.get_mut(self.clean_upto)?;
        node.is_dirty = false;
        self.dirty_count -= 1;
        let pages = node.pages.iter().enumerate();
        let pages: Vec<_> = pages.map(|(at, page)| (node.keys.get(at), page.place.blob.clone())).collect();
        Some((node.keys.get(0), Table::new(pages)))
    }

    /// A table was given a place.
    pub(crate) fn set_table(&mut self, first: &Key, place: Place, gone: &mut Vec<Place>) {
        let At { node, .. } = self.find(first);
        self.bytes += place.blob.device_bytes();
        let old = std::mem::replace(&mut self.nodes[node].place, place);
        self.retire(old, gone);
    }

    /// The table could not be placed: it stays to be written.
    pub(crate) fn keep_dirty(&mut self, first: &Key) {
        self.mark_dirty(self.find(first).node);
    }

    /// What a root lists.
    pub(crate) fn tables(&self) -> Vec<(Key, Blob)> {
        self.nodes.iter().map(|node| (node.keys.get(0), node.place.blob.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use types::{CollId, HObject, PgId, PoolId};

    use super::*;

    #[test]
    fn eviction_goes_round_without_what_stays() {
        let coll = CollId(PgId { pool: PoolId(1), seed: 0 });
        let key = |pool, hash| Key::of(coll, &HObject { pool: PoolId(pool), hash, ..HObject::default() });
        let mut directory = Directory::new();
        // More than a table has, so that it is cut.
        let resident: Vec<Key> = (0..200).map(|n: u32| key(-2, n.reverse_bits())).collect();
        let others: Vec<Key> = (0..200).map(|n: u32| key(1, n.reverse_bits())).collect();
        resident.iter().chain(&others).for_each(|first| directory.split(first));
        assert_eq!((directory.loaded_count(), directory.evictable_count()), (401, 200));

        let mut hand = Key::min();
        for first in others.iter().chain(&others) {
            hand = directory.evictable_after(&hand).unwrap();
            assert_eq!(hand, *first);
        }
        others.iter().step_by(2).for_each(|first| directory.set_loaded(first, false));
        assert_eq!((directory.loaded_count(), directory.evictable_count()), (301, 100));
        assert_eq!(directory.evictable_after(&hand), Some(others[1].clone()));
        directory.set_loaded(&others[0], true);
        assert_eq!(directory.evictable_after(&hand), Some(others[0].clone()));
        others.iter().for_each(|first| directory.set_loaded(first, false));
        assert_eq!((directory.evictable_after(&hand), directory.evictable_count()), (None, 0));
    }
}
