//! Which pages are in memory, and which of them leave it.
//!
//! An object's entry that is found in memory tells that its page is there. Only where nothing is found, or where
//! a range is asked for, the directory is looked at, and not even then while all pages are in memory. So an index
//! that fits costs nothing more. A page leaves as a whole: never one that changed since the last durable
//! checkpoint, that somebody holds, whose objects have pending bytes (those are not part of pages), or with entries
//! that stay.

use std::ops::Bound;

use bytes::Bytes;
use types::{CollId, HObject};

use super::{Index, Key, Objects, page::Entry};

/// Memory for an object's entry beyond its bytes in the page: names, maps and their slack, as measured.
const ONODE_MEMORY: u64 = 800;
/// The same for an omap entry.
const OMAP_MEMORY: u64 = 160;

impl Index {
    /// Memory held for pages, about.
    pub(crate) fn memory(&self) -> u64 {
        self.directory.loaded_bytes() + self.onode_count * ONODE_MEMORY + self.omap_count * OMAP_MEMORY
    }

    /// Memory of pages that changed since the last checkpoint began, about.
    pub(crate) fn dirty_memory(&self) -> u64 {
        self.page_memory() * self.dirty.len() as u64
    }

    /// Memory of pages that the checkpoint being made holds, about: all of them until it is durable.
    pub(crate) fn frozen_memory(&self) -> u64 {
        self.page_memory() * self.frozen_count as u64
    }

    /// How many pages of the checkpoint being made are not rendered, and of how many.
    pub(crate) fn frozen_left(&self) -> (usize, usize) {
        (self.frozen.len(), self.frozen_count)
    }

    /// Memory of a page, on average.
    fn page_memory(&self) -> u64 {
        self.memory() / (self.directory.loaded_count() as u64).max(1)
    }

    /// True if the page that answers for `key` is not in memory.
    pub(crate) fn is_absent(&self, key: &Key) -> bool {
        if self.directory.is_whole() {
            return false;
        }
        let (_, page) = self.directory.page_at(key);
        page.is_used.set(true);
        !page.is_loaded
    }

    /// A key of each page that is not in memory and may have entries from `from` on that `is_within` says count: it
    /// is asked with the first key of each page but the first one, and says where the range ends.
    pub(crate) fn absent_in<'a>(
        &'a self,
        from: &'a Key,
        is_within: impl Fn(&Key) -> bool + 'a,
    ) -> impl Iterator<Item = Key> + 'a {
        let pages = self.directory.pages_from(from).filter(move |_| !self.directory.is_whole());
        let pages = pages.take_while(move |(first, _)| *first <= from || is_within(first));
        let absent = pages.filter(|(_, page)| {
            page.is_used.set(true);
            !page.is_loaded
        });
        absent.map(move |(first, _)| first.max(from).clone())
    }

    /// The same for pages with objects' own entries: those with nothing but one object's omap are passed over.
    pub(crate) fn absent_listing<'a>(
        &'a self,
        from: &'a Key,
        is_within: impl Fn(&Key) -> bool + 'a,
    ) -> impl Iterator<Item = Key> + 'a {
        self.absent_in(from, is_within).filter(move |key| {
            let first = self.directory.page_of(key);
            let next = self.directory.page_after(first);
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

    /// The page's entries are in memory.
    pub(super) fn note_loaded(&mut self, first: &Key) {
        self.directory.set_loaded(first, true);
        self.clock.push_back(first.clone());
    }

    /// Looks at the page whose turn it is and evicts it if it may go and was not used since the last look. False if
    /// there is none. `durable` is the number of the superblock on the device.
    pub(crate) fn evict_step(&mut self, durable: u64) -> bool {
        let Some(first) = self.clock.pop_front() else { return false };
        // It may have become part of another one.
        if !self.directory.page(&first).is_some_and(|page| page.is_loaded) {
            return true;
        }
        let next = self.directory.page_after(&first).cloned();
        if self.may_evict(&first, next.as_ref(), durable) {
            self.directory.set_loaded(&first, false);
            self.drop_entries(&first, next.as_ref());
        } else {
            self.clock.push_back(first);
        }
        true
    }

    /// How many pages are looked at in turn.
    pub(crate) fn clock_len(&self) -> usize {
        self.clock.len()
    }

    fn may_evict(&self, first: &Key, next: Option<&Key>, durable: u64) -> bool {
        let Some(page) = self.directory.page(first) else { return false };
        let is_clean = !page.place.blob.runs.is_empty()
            && page.place.sequence <= durable
            && !self.dirty.contains(first)
            && !self.frozen.contains(first)
            && !self.rendered.iter().any(|image| image.first == *first);
        let to = next.map_or(Bound::Unbounded, Bound::Excluded);
        if stays(first, next) || !is_clean || self.pinned.range((Bound::Included(first), to)).next().is_some()
        {
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

    /// Asserts that what is in memory is of pages that are; walks everything, for tests.
    pub(crate) fn check_pages(&self) {
        let (mut onodes, mut omaps) = (0, 0);
        self.visit(&Key::min(), None, |coll, object, entry| {
            let key = match entry {
                Entry::Onode(_) => Key::of(coll, object),
                Entry::Omap(name, _) => Key::of_omap(coll, object, name),
            };
            match entry {
                Entry::Onode(_) => onodes += 1,
                Entry::Omap(..) => omaps += 1,
            }
            assert!(self.directory.page_at(&key).1.is_loaded, "an entry of an absent page: {key:?}");
            true
        });
        assert_eq!((onodes, omaps), (self.onode_count, self.omap_count), "entries in memory");
    }

    /// Takes the entries of `[from, to)` out of memory.
    fn drop_entries(&mut self, from: &Key, to: Option<&Key>) {
        let last = to.map_or(Bound::Unbounded, |to| Bound::Included(to.coll));
        for (&coll, objects) in self.colls.range_mut((Bound::Included(from.coll), last)) {
            let low = Some(from).filter(|from| from.coll == coll);
            let high = to.filter(|to| to.coll == coll);
            self.onode_count -= objects.drop_onodes(low, high);
            self.omap_count -= objects.drop_omaps(low, high);
        }
    }
}

impl Objects {
    /// Takes out objects' own entries of `[from, to)`; how many there were.
    fn drop_onodes(&mut self, from: Option<&Key>, to: Option<&Key>) -> u64 {
        let low = from.map_or(Bound::Unbounded, |from| match from.omap {
            None => Bound::Included(&from.object),
            Some(_) => Bound::Excluded(&from.object),
        });
        let high = to.map_or(Bound::Unbounded, |to| match to.omap {
            None => Bound::Excluded(&to.object),
            Some(_) => Bound::Included(&to.object),
        });
        if is_empty(low, high) {
            return 0;
        }
        self.onodes.extract_if((low.cloned(), high.cloned()), |_, _| true).count() as u64
    }

    /// Takes out omap entries of `[from, to)`; how many there were.
    fn drop_omaps(&mut self, from: Option<&Key>, to: Option<&Key>) -> u64 {
        let low = from.map_or(Bound::Unbounded, |from| Bound::Included(&from.object));
        let high = to.map_or(Bound::Unbounded, |to| match to.omap {
            None => Bound::Excluded(&to.object),
            Some(_) => Bound::Included(&to.object),
        });
        if is_empty(low, high) {
            return 0;
        }
        let mut dropped = 0;
        let omaps = self.omaps.extract_if((low.cloned(), high.cloned()), |object, omap| {
            let low = from.filter(|from| from.object == *object).and_then(|from| from.omap.as_ref());
            let high = to.filter(|to| to.object == *object).and_then(|to| to.omap.as_ref());
            let bounds = (
                low.map_or(Bound::Unbounded, |key| Bound::Included(key.clone())),
                high.map_or(Bound::Unbounded, |key| Bound::Excluded(key.clone())),
            );
            dropped += omap.extract_if::<_, (Bound<Bytes>, Bound<Bytes>)>(bounds, |_, _| true).count() as u64;
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
