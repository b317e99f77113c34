//! Index pages that are not in memory: what waits for them, and how they come and go.
//!
//! Pages are read one command for each run, and checked as a mount checks them. A page that is not what was
//! written, however often it is read, stops the store: what it named is unknown, and a store that does not know its
//! objects must not serve.
//! Pages leave only at the end of a turn, so what a caller has seen in memory is there until its turn ends.

use std::collections::BTreeMap;

use bytes::Bytes;
use types::{CollId, Token};

use super::{Purpose, Store};
use crate::{
    Completion, DeviceError, ReadError,
    device::spot,
    index::{Key, blob_crc},
    superblock::Blob,
};

/// How often a page, what leads to it, a superblock or a block of the journal is read before it counts as damaged: a
/// device, or the path to it, may fail once.
pub(super) const READS_MAX: u32 = 4;
/// Pages that eviction looks at in one turn.
const LOOKS_MAX: usize = 32;
/// Looks that eviction gains for each page that is read: a page that was used is passed over once.
const LOOKS_PER_PAGE: usize = 4;

/// What waits for a page and goes on when it is in memory.
#[derive(Debug)]
pub(super) enum Waiter {
    /// A caller's load of what the key names.
    Load(Token, Key),
    /// The transaction with this number among the deferred ones of the collection.
    Deferred(CollId, u64),
    /// A mount, which looks by itself.
    Mount,
}

/// A page being read.
#[derive(Debug)]
struct PageLoad {
    first: Key,
    blob: Blob,
    parts: Vec<Option<Bytes>>,
    waiters: Vec<Waiter>,
    /// How often it was read, this time included.
    reads: u32,
}

/// A page that is not what was written.
#[derive(Debug)]
pub(super) struct CorruptPage {
    /// Its first key.
    pub(super) first: Key,
    /// Where it is.
    pub(super) block: u64,
    /// What is wrong.
    pub(super) what: &'static str,
}

/// Index pages that are being read, and those that callers keep in memory.
#[derive(Debug, Default)]
pub(super) struct PageLoads {
    by_page: BTreeMap<Key, u64>,
    loads: BTreeMap<u64, PageLoad>,
    /// Keys that a caller's token keeps in memory.
    pins: BTreeMap<Token, Vec<Key>>,
    /// Pages that are not what was written.
    pub(super) corrupt: Vec<CorruptPage>,
    count: u64,
    /// Looks that eviction has left until something changes: where nothing may go, looking again is of no use.
    looks: usize,
    /// An operator wants memory to be as after a mount.
    is_dropping: bool,
}

/// How an index is in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexMemory {
    /// Bytes that pages in memory take, about.
    pub bytes: u64,
    /// Pages in memory.
    pub loaded: usize,
    /// All pages.
    pub pages: usize,
    /// Pages read since the mount began.
    pub reads: u64,
    /// Bytes that the directory of all pages takes, beside [`IndexMemory::bytes`].
    pub directory_bytes: u64,
}

impl PageLoads {
    /// Tokens that keep pages in memory.
    pub(super) fn pinning_count(&self) -> usize {
        self.pins.len()
    }

    /// How many are under way.
    pub(super) fn len(&self) -> usize {
        self.loads.len()
    }
}

impl Store {
    /// Loads what a key names for a caller, whose token keeps it in memory.
    pub(super) fn load_index(&mut self, token: Token, key: Key) {
        self.pin_for(token, &key);
        self.go_on_loading(token, key);
    }

    pub(super) fn go_on_loading(&mut self, token: Token, key: Key) {
        if self.index.is_absent(&key) {
            self.want_page(&key, Waiter::Load(token, key.clone()));
        } else if let Some(deferred) = self.last_deferred_of(key.coll, &key.object) {
            deferred.waiters.push((token, key));
        } else {
            self.index.unpack(&key);
            self.completions.push(Completion::Loaded(token, Ok(())));
        }
    }

    /// Keeps a page in memory until the token is unloaded.
    pub(super) fn pin_for(&mut self, token: Token, key: &Key) {
        self.page_loads.pins.entry(token).or_default().push(key.clone());
        self.index.pin(key.clone());
    }

    pub(super) fn unpin_pages(&mut self, token: Token) {
        for key in self.page_loads.pins.remove(&token).unwrap_or_default() {
            self.index.unpin(&key);
        }
    }

    /// Reads the page that answers for `key`, which is not in memory, unless that is under way.
    pub(super) fn want_page(&mut self, key: &Key, waiter: Waiter) {
        let first = self.index.directory.page_of(key);
        let known = self.page_loads.by_page.get(&first);
        if let Some(load) = known.and_then(|id| self.page_loads.loads.get_mut(id)) {
            return load.waiters.push(waiter);
        }
        let blob = self.index.directory.page_at(key).place.blob.clone();
        if !self.superblock.holds_index(&blob) {
            return self.page_is_corrupt(first, &blob, "index reference", vec![waiter]);
        }
        self.read_page(PageLoad { first, blob, parts: Vec::new(), waiters: vec![waiter], reads: 1 });
    }

    fn read_page(&mut self, mut load: PageLoad) {
        self.page_loads.count += 1;
        let id = self.page_loads.count;
        for (part, &run) in load.blob.runs.iter().enumerate() {
            self.read_device(run, Purpose::Page { load: id, part });
        }
        load.parts = vec![None; load.blob.runs.len()];
        self.page_loads.by_page.insert(load.first.clone(), id);
        self.page_loads.loads.insert(id, load);
    }

    pub(super) fn page_read_done(
        &mut self,
        id: u64,
        part: usize,
        result: Result<Option<Bytes>, DeviceError>,
    ) {
        let Some(load) = self.page_loads.loads.get_mut(&id) else { return };
        // A page that stays unreadable counts as corrupt.
        load.parts[part] = Some(result.ok().flatten().unwrap_or_default());
        if load.parts.iter().any(Option::is_none) {
            return;
        }
        let Some(load) = self.page_loads.loads.remove(&id) else { return };
        self.page_loads.by_page.remove(&load.first);
        let PageLoad { first, blob, parts, waiters, reads } = load;
        let bytes = match <[Option<Bytes>; 1]>::try_from(parts) {
            Ok([only]) => only.unwrap_or_default(),
            Err(parts) => parts.into_iter().flatten().flatten().collect::<Vec<u8>>().into(),
        };
        let bytes = bytes.slice(..bytes.len().min(blob.bytes as usize));
        if bytes.len() != blob.bytes as usize || blob_crc(&bytes) != blob.crc {
            if reads < READS_MAX {
                let at = spot(blob.runs.first().map_or(0, |run| run.start) * crate::device::BLOCK);
                tracing::warn!(at, reads, "an index page is not what was written; it is read again");
                return self.read_page(PageLoad {
                    first,
                    blob,
                    parts: Vec::new(),
                    waiters,
                    reads: reads + 1,
                });
            }
            return self.page_is_corrupt(first, &blob, "index page", waiters);
        }
        if self.index.load_page(&first, bytes, self.superblock.area).is_err() {
            return self.page_is_corrupt(first, &blob, "index entry", waiters);
        }
        self.page_loads.looks += LOOKS_PER_PAGE;
        for waiter in waiters {
            match waiter {
                Waiter::Load(token, key) => self.go_on_loading(token, key),
                Waiter::Deferred(coll, number) => self.deferred_page_came(coll, number),
                Waiter::Mount => {}
            }
        }
    }

    fn page_is_corrupt(&mut self, first: Key, blob: &Blob, what: &'static str, waiters: Vec<Waiter>) {
        let block = blob.runs.first().map_or(0, |run| run.start);
        self.page_loads.corrupt.push(CorruptPage { first: first.clone(), block, what });
        if self.is_opening {
            // An inspection, which only looks, goes on without the page; a mount ends.
            self.index.directory.set_loaded(&first, true);
        }
        // Later on nobody may take what the page names for absent: it stays what is yet to be read.
        let result = if self.is_opening { Ok(()) } else { Err(ReadError::Device) };
        for waiter in waiters {
            if let Waiter::Load(token, _) = waiter {
                self.completions.push(Completion::Loaded(token, result));
            }
        }
        if !self.is_opening {
            let at = spot(block * crate::device::BLOCK);
            tracing::error!(what, at, "the index is damaged; the store stops");
            self.fault.get_or_insert(DeviceError::Io);
        }
    }

    /// Ends a turn: pages leave until the index has the memory that it may have, and what they leave goes back.
    pub(super) fn evict_pages(&mut self) {
        self.index.directory.settle();
        if std::mem::take(&mut self.page_loads.is_dropping) {
            self.cache.clear();
            self.evict_all();
        }
        if self.index.memory() <= self.config.index_bytes_max {
            return;
        }
        for _ in 0..LOOKS_MAX.min(self.page_loads.looks) {
            self.page_loads.looks -= 1;
            if self.index.memory() <= self.config.index_bytes_max
                || !self.index.evict_step(self.superblock.sequence)
            {
                return;
            }
        }
    }

    /// True if the next turn's end goes on with that.
    pub(super) fn has_more_to_evict(&self) -> bool {
        self.index.directory.is_sparse() || self.index.memory() > self.config.index_bytes_max
    }

    /// Notes that pages may leave now that had to stay before.
    pub(super) fn look_again(&mut self) {
        self.page_loads.looks = 2 * self.index.directory.evictable_count();
    }

    /// Has clean data and pages leave when the turn ends.
    pub(super) fn drop_at_turn_end(&mut self) {
        self.page_loads.is_dropping = true;
        self.is_stirred = true;
    }

    /// Evicts every page that may leave.
    fn evict_all(&mut self) {
        // Two looks at each page: one that was used since the last look stays at the first.
        for _ in 0..2 * self.index.directory.evictable_count() {
            if !self.index.evict_step(self.superblock.sequence) {
                return;
            }
        }
    }

    /// Changes how much memory index pages may take.
    pub fn set_index_bytes(&mut self, bytes: u64) {
        self.config.index_bytes_max = bytes;
        self.look_again();
    }

    /// How the index is in memory.
    pub fn index_memory(&self) -> IndexMemory {
        let directory = &self.index.directory;
        IndexMemory {
            bytes: self.index.memory(),
            loaded: directory.loaded_count(),
            pages: directory.page_count(),
            reads: self.page_loads.count,
            directory_bytes: directory.memory(),
        }
    }
}
