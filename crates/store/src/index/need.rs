//! How much room a checkpoint needs for the index, about: told at any time without a look at the pages.

use super::{Index, Key};
use crate::device::BLOCK;

/// Bytes of an entry on the device beside what it holds: mostly its name.
const ENTRY_BYTES: i64 = 160;
/// Bytes of a page in its table, and of a table in the root.
const REFERENCE_BYTES: u64 = 160;

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

    fn bytes(self) -> u64 {
        // A page that is split is cut in parts of three quarters, at least.
        let grown = u64::try_from(self.grown_bytes).unwrap_or(0);
        self.page_bytes + grown + grown / 3
    }

    pub(super) fn add(&mut self, other: Need) {
        self.page_bytes += other.page_bytes;
        self.grown_bytes += other.grown_bytes;
    }
}

impl Index {
    /// The page is dirty from now on.
    pub(super) fn need_page(&mut self, first: &Key) {
        let bytes = self.directory.page_at(first).place.blob.bytes;
        // One that has no place yet has its part of another one's entries.
        let bytes = if bytes == 0 { self.page_bytes_max as u64 } else { u64::from(bytes) };
        self.need.page_bytes += bytes.next_multiple_of(BLOCK);
    }

    /// Bytes that a checkpoint begun now takes for pages, tables and the root, about; 0 if no page has changed.
    pub(crate) fn dirty_need(&self) -> u64 {
        if self.dirty.is_empty() { 0 } else { self.need.bytes() + self.tables_need(self.dirty.len()) }
    }

    /// More than both of these together, told without a division: they may be asked for with every change.
    pub(crate) fn need_at_most(&self) -> u64 {
        let (pages, tables) = (self.directory.page_count() as u64, self.directory.table_count() as u64);
        let of_tables = (pages + 2 * tables) * REFERENCE_BYTES + (tables + 1) * BLOCK;
        self.need.bytes() + self.frozen_need.bytes() + 2 * of_tables
    }

    /// The same of what the one being made has still to place, tables and root included.
    pub(crate) fn frozen_need(&self) -> u64 {
        if self.frozen_count == 0 {
            return 0;
        }
        let (count, left) = (self.frozen_count as u64, (self.frozen.len() + self.rendered.len()) as u64);
        self.frozen_need.bytes() / count * left.min(count) + self.tables_need(self.frozen_count)
    }

    /// What the tables of so many pages take, which may all be others', and the root.
    fn tables_need(&self, page_count: usize) -> u64 {
        let table_count = self.directory.table_count();
        let of_one = (self.directory.page_count() / table_count.max(1) + 1) as u64 * REFERENCE_BYTES;
        let root = (table_count as u64 * REFERENCE_BYTES).next_multiple_of(BLOCK);
        page_count.min(table_count) as u64 * of_one.next_multiple_of(BLOCK) + root
    }
}
