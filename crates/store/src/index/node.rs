//! A table of pages, as it is in memory.

use std::cell::Cell;

use super::{Key, packed::Packed, page_keys::PageKeys};
use crate::superblock::Blob;

/// Pages that room is made for at a time: there are many tables, and most stay as large as they are.
const ROOM_PAGES: usize = 8;

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
    /// True if its first key is of those that stay in memory.
    is_resident: bool,
    /// The index' generation in which it was found to be dirty.
    pub(super) touched: Cell<u64>,
    /// Those of them that are as on the device.
    pub(super) packed: Option<Box<Packed>>,
    /// True if it was used since eviction looked at it last; entries of objects say so by themselves.
    pub(crate) is_used: Cell<bool>,
}

/// Of millions of pages most are not in memory, but this of them is.
const _: () = assert!(size_of::<Page>() <= 64);

impl Page {
    pub(super) fn new(place: Place, is_loaded: bool) -> Page {
        Page {
            place,
            is_loaded,
            is_resident: false,
            touched: Cell::new(0),
            packed: None,
            is_used: Cell::new(true),
        }
    }

    /// True if it is in memory and its first key does not keep it there.
    pub(super) fn is_evictable(&self) -> bool {
        self.is_loaded && !self.is_resident
    }
}

/// A table and its pages, of which there is always one: it begins where the table does.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) is_dirty: bool,
    pub(super) keys: PageKeys,
    pub(super) pages: Vec<Page>,
    /// How many pages are evictable.
    pub(super) evictable_count: usize,
}

impl Node {
    pub(super) fn push(&mut self, first: &Key, page: Page) {
        self.insert(self.pages.len(), first, page);
    }

    pub(super) fn insert(&mut self, at: usize, first: &Key, mut page: Page) {
        if self.pages.len() == self.pages.capacity() {
            self.pages.reserve_exact(ROOM_PAGES);
        }
        page.is_resident = first.is_resident();
        self.evictable_count += usize::from(page.is_evictable());
        self.keys.insert(at, first);
        self.pages.insert(at, page);
    }

    pub(super) fn remove(&mut self, at: usize) -> Page {
        self.keys.remove(at);
        let page = self.pages.remove(at);
        self.evictable_count -= usize::from(page.is_evictable());
        page
    }

    /// Takes out its second half.
    pub(super) fn split(&mut self) -> Node {
        let half = self.pages.len() / 2;
        let mut pages = self.pages.split_off(half);
        pages.shrink_to_fit();
        let evictable_count = pages.iter().filter(|page| page.is_evictable()).count();
        self.evictable_count -= evictable_count;
        let keys = self.keys.split_off(half);
        Node { place: Place::default(), is_dirty: true, keys, pages, evictable_count }
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Node>() + self.keys.memory() + self.pages.capacity() * size_of::<Page>()
    }
}

/// Where a page is in memory, until pages come or go: its table, and which of its pages it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) node: usize,
    pub(super) page: usize,
}
