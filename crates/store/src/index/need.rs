//! How much room a checkpoint needs for the index, about: told at any time without a look at the pages.

use std::collections::BTreeSet;

use types::{CollId, HObject};

use super::{Index, Key, render::part_bytes};
use crate::device::BLOCK;

/// Bytes of an entry on the device beside what it holds: mostly its name.
const ENTRY_BYTES: i64 = 160;
/// Bytes of a page in its table, and of a table in the root.
const REFERENCE_BYTES: u64 = 160;
/// What growth takes on the device is told in so many parts of the growth's own bytes.
const GROWTH_PARTS: u64 = 64;

/// How many of these parts entries take on the device for each byte by which they grow. A page that is split is cut in
/// parts of half a page, at least, each of which takes the blocks of the largest one.
pub(super) fn growth_factor(page_bytes_max: usize) -> u64 {
    let part_bytes = (part_bytes(page_bytes_max) as u64).next_multiple_of(BLOCK);
    (part_bytes * GROWTH_PARTS).div_ceil(page_bytes_max as u64 / 2)
}

/// What dirty pages take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Need {
    /// As they were when they were found to be dirty.
    page_bytes: u64,
    /// By how much their entries have grown since.
    grown_bytes: i64,
}

impl Need {
    pub(super) fn grow(&mut self, bytes: i64) {
        self.grown_bytes += bytes;
    }

    pub(super) fn grow_by_entries(&mut self, count: i64) {
        self.grown_bytes += count * ENTRY_BYTES;
    }

    /// About by how much `part` of the `whole` pages have grown.
    fn grown_share(self, part: u64, whole: u64) -> i64 {
        self.grown_bytes / whole.max(1) as i64 * part as i64
    }
}

impl Index {
    /// Bytes that entries take on the device for so many by which they grow.
    pub(crate) fn grown_need(&self, bytes: u64) -> u64 {
        bytes * self.growth_factor / GROWTH_PARTS
    }

    fn bytes_of(&self, need: Need) -> u64 {
        need.page_bytes + self.grown_need(u64::try_from(need.grown_bytes).unwrap_or(0))
    }

    /// The page is dirty from now on.
    pub(super) fn need_page(&mut self, first: &Key) {
        self.need.page_bytes += self.page_need(first);
    }

    /// A checkpoint comes to nothing, of whose pages `left` are not placed and dirty again: they are needed with all
    /// that are dirty, each once, and those placed are not.
    pub(super) fn need_again(&mut self, left: u64) {
        let grown_bytes =
            self.need.grown_bytes + self.frozen_need.grown_share(left, self.frozen_count as u64);
        let page_bytes = self.dirty.iter().map(|first| self.page_need(first)).sum();
        self.need = Need { page_bytes, grown_bytes };
        self.frozen_need = Need::default();
    }

    fn page_need(&self, first: &Key) -> u64 {
        let bytes = self.directory.page_at(first).place.blob.device_bytes();
        // One that has no place yet has its part of another one's entries.
        if bytes == 0 { (self.page_bytes_max as u64).next_multiple_of(BLOCK) } else { bytes }
    }

    /// What those pages of these keys that are not dirty take, with their tables. Fastest where keys of one page follow
    /// each other.
    pub(crate) fn clean_need(&self, keys: impl Iterator<Item = Key>) -> u64 {
        let (mut clean, mut bytes) = (BTreeSet::new(), 0);
        let mut last: Option<(Key, Option<Key>)> = None;
        for key in keys {
            let is_in = |(first, next): &(Key, Option<Key>)| {
                *first <= key && next.as_ref().is_none_or(|next| key < *next)
            };
            if last.as_ref().is_some_and(is_in) {
                continue;
            }
            let first = self.directory.page_of(&key);
            if !self.dirty.contains(&first) && clean.insert(first.clone()) {
                bytes += self.page_need(&first);
            }
            last = Some((first, self.directory.page_after(&key)));
        }
        if clean.is_empty() { 0 } else { bytes + self.tables_need(clean.len()) }
    }

    /// What so many pages take at most, with their tables.
    pub(crate) fn need_of_pages(&self, count: u64) -> u64 {
        let of_one =
            (self.page_bytes_max as u64).next_multiple_of(BLOCK).max(self.directory.page_bytes_most());
        count * of_one + self.tables_need(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Bytes of the first pages from one key to another, as they are on the device.
    pub(crate) fn bytes_between(&self, from: &Key, to: &Key, pages_max: usize) -> u64 {
        let pages = self.directory.pages_from(from).take_while(|(first, _)| first <= from || first < to);
        pages.take(pages_max).map(|(first, _)| self.page_need(&first)).sum()
    }

    /// Bytes of the pages that hold something of an object, as they are on the device.
    pub(crate) fn bytes_of_object(&self, coll: CollId, object: &HObject) -> u64 {
        let from = Key::of(coll, object);
        let is_of_it = |first: &Key| first.coll == coll && first.object == *object;
        let pages = self.directory.pages_from(&from);
        let pages = pages.take_while(|(first, _)| *first <= from || is_of_it(first));
        pages.map(|(first, _)| self.page_need(&first)).sum()
    }

    /// Bytes that a checkpoint begun now takes for pages, tables and the root, about; 0 if no page and no table has
    /// changed.
    pub(crate) fn dirty_need(&self) -> u64 {
        let count = self.dirty.len() + self.left_table_count();
        if count == 0 { 0 } else { self.bytes_of(self.need) + self.tables_need(count) }
    }

    /// Tables that a checkpoint has left which placed their pages and came to nothing. One that froze pages counts
    /// them.
    fn left_table_count(&self) -> usize {
        if self.frozen_count == 0 { self.directory.dirty_table_count() } else { 0 }
    }

    /// More than both of these together, told without a division: they may be asked for with every change.
    pub(crate) fn need_at_most(&self) -> u64 {
        let (pages, tables) = (self.directory.page_count() as u64, self.directory.table_count() as u64);
        let of_tables = (pages + 2 * tables) * REFERENCE_BYTES + (tables + 1) * BLOCK;
        self.bytes_of(self.need) + self.bytes_of(self.frozen_need) + 2 * of_tables
    }

    /// Bytes that the checkpoint being made has still to place for the index, about, tables and root included.
    pub(crate) fn frozen_need(&self) -> u64 {
        if self.frozen_count == 0 {
            return 0;
        }
        let (count, left) = (self.frozen_count as u64, (self.frozen.len() + self.rendered.len()) as u64);
        // A page that is placed has made its table dirty.
        let table_count = left as usize + self.directory.dirty_table_count();
        self.bytes_of(self.frozen_need) / count * left.min(count) + self.tables_need(table_count)
    }

    /// What the tables of so many pages, which may all be in different tables, and the root take.
    fn tables_need(&self, page_count: usize) -> u64 {
        let table_count = self.directory.table_count();
        let of_one = (self.directory.page_count() / table_count.max(1) + 1) as u64 * REFERENCE_BYTES;
        let root = (table_count as u64 * REFERENCE_BYTES).next_multiple_of(BLOCK);
        page_count.min(table_count) as u64 * of_one.next_multiple_of(BLOCK) + root
    }
}
