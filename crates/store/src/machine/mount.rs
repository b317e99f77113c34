//! Opening a store: newest superblock, root, tables, journal, then a checkpoint of a new epoch. Of the index'
//! pages those are read that have to be in memory, or all if there is room for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use codec::{AlignedBuf, DecodeError};
use types::Token;

use super::{
    MountError, Store,
    inspect::Findings,
    journal_salvage::RingRead,
    labels::LabelPlace,
    pages::{CorruptPage, READS_MAX, Waiter},
    replay::{Replay, finish_moves},
};
use crate::{
    Config, DeviceCommand, DeviceError, DeviceSizes, JournalKey, Problem,
    device::{BLOCK, spot},
    index::{Directory, Index, Key, PendingPage, PendingPiece, Place, Root, Table, blob_crc, stays},
    pool_usage::PoolUsages,
    space::{Run, Space},
    superblock::{Blob, COPIES, DeviceLabel, Superblock},
};

/// Pages read at once.
const PAGE_READS_MAX: usize = 32;
/// Memory that a page takes, in its bytes: a guess before it is read.
const PAGE_MEMORY: u64 = 2;

/// A store on its way up: execute its commands, answer them, until [`Mount::take`] has a result.
#[derive(Debug)]
pub struct Mount {
    pub(super) config: Config,
    pub(super) sizes: DeviceSizes,
    commands: Vec<DeviceCommand>,
    pub(super) next_token: u64,
    pub(super) step: Step,
    pub(super) ring_reads: BTreeMap<u64, RingRead>,
    /// Blocks of the ring that cannot be read.
    pub(super) bad_blocks: BTreeSet<u64>,
    /// For a store that has no journal key yet.
    pub(super) new_key: JournalKey,
    /// True until both superblocks have that key.
    pub(super) is_key_given: bool,
    /// Copies of labels that are not this store's: to be written again.
    pub(super) bad_labels: Vec<LabelPlace>,
    /// Set if the store is only to be looked at.
    pub(super) findings: Option<Box<Findings>>,
}

#[derive(Debug)]
pub(super) enum Step {
    Superblocks {
        /// The copies being read: by token, which one, and how often that was read.
        reading: BTreeMap<u64, (usize, u32)>,
        best: Option<Superblock>,
        /// What versions the valid ones have.
        versions: Vec<u32>,
    },
    /// Whether the other devices are the store's own: reads outstanding, and devices found to be.
    Labels {
        superblock: Box<Superblock>,
        /// The copies being read: by token, which one, and how often that was read.
        reading: BTreeMap<u64, (LabelPlace, u32)>,
        found: Vec<(LabelPlace, Option<DeviceLabel>)>,
    },
    Blobs(Box<Blobs>),
    /// Reading the pages to begin with, then what was pending.
    Pages {
        store: Box<Store>,
        wanted: VecDeque<Key>,
        pendings: BTreeMap<usize, PendingPage>,
    },
    Journal(Box<Replay>),
    /// Reading the pages that records change.
    JournalPages {
        replay: Box<Replay>,
        wanted: VecDeque<Key>,
    },
    /// Looking for records behind the last one, first there and then at the ring's start.
    Lookahead {
        replay: Box<Replay>,
        is_wrapped: bool,
    },
    /// Writing bad copies of labels again: writes outstanding.
    Relabel {
        store: Box<Store>,
        left: usize,
    },
    /// Making durable what the journal was found to hold.
    Flush(Box<Store>),
    Checkpoint(Box<Store>),
    /// Going on with moves between collections that a crash interrupted.
    Moves(Box<Store>),
    Done(Option<Result<Box<Store>, MountError>>),
}

/// Reading the root, then the tables, the space map and what was pending.
#[derive(Debug)]
pub(super) struct Blobs {
    pub(super) superblock: Superblock,
    pub(super) root: Root,
    pub(super) is_root_read: bool,
    /// By their place in the root.
    tables: BTreeMap<usize, Table>,
    directory: Directory,
    pendings: BTreeMap<usize, PendingPage>,
    /// The space as far as its map is read.
    pub(super) space: Space,
    /// Records of the space map that came before one of an earlier region: none of one that is corrupt.
    pub(super) regions: BTreeMap<usize, Option<Bytes>>,
    /// The first region whose record is not taken in.
    pub(super) next_region: usize,
    waiting: VecDeque<(Part, Blob)>,
    reading: BTreeMap<u64, Reading>,
    next: u64,
    /// Which blob and run a token reads.
    tokens: BTreeMap<u64, (u64, usize)>,
}

/// What a blob is.
#[derive(Clone, Copy, Debug)]
enum Part {
    Root,
    Table(usize),
    Pending(usize),
    Region(usize),
}

#[derive(Debug)]
struct Reading {
    part: Part,
    blob: Blob,
    parts: Vec<Option<Bytes>>,
    /// Why one of its parts could not be read.
    error: Option<DeviceError>,
    /// How often it was read, this time included.
    reads: u32,
}

impl Store {
    /// Starts to open the store on its devices. One that was made before there were journal keys gets the key, which is
    /// drawn anew for each mount.
    pub fn mount(sizes: impl Into<DeviceSizes>, config: Config, new_key: JournalKey) -> Mount {
        let sizes = sizes.into();
        let mut mount = Mount {
            config,
            sizes,
            commands: Vec::new(),
            next_token: 1,
            step: Step::Done(None),
            ring_reads: BTreeMap::new(),
            bad_blocks: BTreeSet::new(),
            new_key,
            is_key_given: false,
            bad_labels: Vec::new(),
            findings: None,
        };
        let copies = COPIES.iter().enumerate();
        let reading = copies.map(|(copy, &block)| (mount.read(Run { start: block, count: 1 }), (copy, 1)));
        mount.step = Step::Superblocks { reading: reading.collect(), best: None, versions: Vec::new() };
        mount
    }
}

impl Mount {
    /// The commands to execute, in any order.
    pub fn take_commands(&mut self) -> Vec<DeviceCommand> {
        if let Step::Checkpoint(store) | Step::Moves(store) = &mut self.step {
            self.commands.extend(store.take_commands());
        }
        std::mem::take(&mut self.commands)
    }

    /// The store, or why there is none; `None` until it is decided.
    pub fn take(&mut self) -> Option<Result<Store, MountError>> {
        let Step::Done(result) = &mut self.step else { return None };
        result.take().map(|result| result.map(|store| *store))
    }

    /// A command was executed.
    pub fn device_done(&mut self, token: Token, result: Result<Option<Bytes>, DeviceError>) {
        let step = std::mem::replace(&mut self.step, Step::Done(None));
        if let Step::Checkpoint(mut store) = step {
            store.device_done(token, result);
            self.step = self.finish_checkpoint(store);
            return;
        }
        if let Step::Moves(mut store) = step {
            store.device_done(token, result);
            self.step = finish_moves(store);
            return;
        }
        let next = match (step, result) {
            (Step::Done(result), _) => Ok(Step::Done(result)),
            (Step::Superblocks { reading, best, versions }, result) => {
                self.superblock_read(token, reading, (best, versions), result)
            }
            (Step::Labels { superblock, reading, found }, result) => {
                self.label_read(superblock, reading, found, (token, result))
            }
            (Step::Pages { mut store, wanted, pendings }, result) => {
                store.device_done(token, result);
                self.pages_read(store, wanted, pendings)
            }
            (Step::JournalPages { mut replay, wanted }, result) => {
                replay.store.device_done(token, result);
                self.replay_window(replay, wanted)
            }
            (Step::Blobs(blobs), result) => self.blob_read(blobs, token, result),
            (Step::Journal(replay), result) => match self.ring_read(token, result) {
                Ok(Some(data)) => self.window_read(replay, data),
                Ok(None) => Ok(Step::Journal(replay)),
                Err(error) => Err(error),
            },
            (Step::Lookahead { replay, is_wrapped }, result) => match self.ring_read(token, result) {
                Ok(Some(data)) => self.looked_ahead(replay, is_wrapped, data),
                Ok(None) => Ok(Step::Lookahead { replay, is_wrapped }),
                Err(error) => Err(error),
            },
            (Step::Relabel { store, left }, result) => Ok(self.label_written(store, left, result)),
            (_, Err(error)) => Err(MountError::Device(error)),
            (Step::Flush(store), Ok(_)) => Ok(self.flushed(store)),
            (Step::Checkpoint(store), Ok(_)) => Ok(Step::Checkpoint(store)),
            (Step::Moves(store), Ok(_)) => Ok(Step::Moves(store)),
        };
        self.step = next.unwrap_or_else(|error| Step::Done(Some(Err(error))));
    }

    pub(super) fn read(&mut self, run: Run) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        let (offset, len) = (run.start * BLOCK, run.count * BLOCK);
        self.commands.push(DeviceCommand::Read { token: Token(token), offset, len });
        token
    }

    /// Writes a block, at once durable.
    pub(super) fn write(&mut self, block: u64, data: &[u8]) {
        let token = Token(self.next_token);
        self.next_token += 1;
        let data = Bytes::from(AlignedBuf::from_slice(data));
        let offset = block * BLOCK;
        self.commands.push(DeviceCommand::Write { token, offset, data, more: Vec::new(), durable: true });
    }

    pub(super) fn flush(&mut self) {
        let token = Token(self.next_token);
        self.next_token += 1;
        self.commands.push(DeviceCommand::Flush { token });
    }

    /// Corruption ends a mount; an inspection notes it and goes on.
    pub(super) fn corrupt(&mut self, what: &'static str, block: u64) -> Result<(), MountError> {
        let Some(findings) = &mut self.findings else { return Err(MountError::Corrupt { what }) };
        findings.problems.push(Problem::Index { what, offset: block * BLOCK });
        Ok(())
    }

    fn superblock_read(
        &mut self,
        token: Token,
        mut reading: BTreeMap<u64, (usize, u32)>,
        (best, mut versions): (Option<Superblock>, Vec<u32>),
        result: Result<Option<Bytes>, DeviceError>,
    ) -> Result<Step, MountError> {
        let Some((copy, reads)) = reading.remove(&token.0) else {
            return Ok(Step::Superblocks { reading, best, versions });
        };
        let data = result.ok().flatten();
        let found = data.as_deref().and_then(Superblock::from_block);
        // Without the newest copy the older one would count, and what was done since would be missing.
        if found.is_none() && reads < READS_MAX {
            let at = spot(COPIES[copy] * BLOCK);
            tracing::warn!(at, reads, "what is read of a superblock is none; it is read again");
            let token = self.read(Run { start: COPIES[copy], count: 1 });
            reading.insert(token, (copy, reads + 1));
            return Ok(Step::Superblocks { reading, best, versions });
        }
        versions.extend(data.as_deref().and_then(Superblock::version_of));
        if let (Some(findings), Some(_)) = (&mut self.findings, &found) {
            findings.copies[copy] = true;
        }
        let best = best.into_iter().chain(found).max_by_key(|superblock| superblock.sequence);
        if !reading.is_empty() {
            return Ok(Step::Superblocks { reading, best, versions });
        }
        let superblock = MountError::check_versions(best, versions)?;
        self.check_sizes(&superblock)?;
        self.read_labels(superblock)
    }

    pub(super) fn devices_known(&mut self, mut superblock: Superblock) -> Result<Step, MountError> {
        // What a device grew by is used from here on; the checkpoint that ends the mount says so.
        superblock.grow(&self.sizes);
        // An empty store has no root.
        let root = Some(superblock.root.clone()).filter(|root| !root.runs.is_empty());
        let space = Space::new(superblock.area, superblock.index_area);
        let blobs = Blobs {
            superblock,
            root: Root::default(),
            is_root_read: false,
            tables: BTreeMap::new(),
            directory: Directory::new(),
            pendings: BTreeMap::new(),
            space,
            regions: BTreeMap::new(),
            next_region: 0,
            waiting: root.into_iter().map(|root| (Part::Root, root)).collect(),
            reading: BTreeMap::new(),
            next: 0,
            tokens: BTreeMap::new(),
        };
        self.read_blobs(Box::new(blobs))
    }

    fn read_blobs(&mut self, mut blobs: Box<Blobs>) -> Result<Step, MountError> {
        self.open_regions(&mut blobs)?;
        // Records that wait for an earlier one are in memory, too.
        while blobs.reading.len() + blobs.regions.len() < PAGE_READS_MAX
            && let Some((part, blob)) = blobs.waiting.pop_front()
        {
            if !blobs.superblock.holds_index(&blob) {
                self.corrupt("index reference", blob.runs.first().map_or(0, |run| run.start))?;
                blobs.go_without(part)?;
                self.open_regions(&mut blobs)?;
                continue;
            }
            self.read_blob(&mut blobs, part, blob, 1);
        }
        if blobs.reading.is_empty() {
            // A store without a root has no map: all is free.
            blobs.is_root_read = true;
            self.open_regions(&mut blobs)?;
            return self.directory_read(*blobs);
        }
        Ok(Step::Blobs(blobs))
    }

    fn read_blob(&mut self, blobs: &mut Blobs, part: Part, blob: Blob, reads: u32) {
        let id = blobs.next;
        blobs.next += 1;
        for (at, &run) in blob.runs.iter().enumerate() {
            let token = self.read(run);
            blobs.tokens.insert(token, (id, at));
        }
        let parts = vec![None; blob.runs.len()];
        blobs.reading.insert(id, Reading { part, blob, parts, error: None, reads });
    }

    fn blob_read(
        &mut self,
        mut blobs: Box<Blobs>,
        token: Token,
        result: Result<Option<Bytes>, DeviceError>,
    ) -> Result<Step, MountError> {
        let Some((id, at)) = blobs.tokens.remove(&token.0) else { return Ok(Step::Blobs(blobs)) };
        let reading = blobs.reading.get_mut(&id).expect("a token names a blob being read");
        reading.error = reading.error.or(result.as_ref().err().copied());
        reading.parts[at] = Some(result.ok().flatten().unwrap_or_default());
        if reading.parts.iter().any(Option::is_none) {
            return Ok(Step::Blobs(blobs));
        }
        let Reading { part, blob, parts, error, reads } =
            blobs.reading.remove(&id).expect("it was just there");
        let place = blob.runs.first().map_or(0, |run| run.start);
        let mut bytes = Vec::with_capacity(blob.bytes as usize);
        parts.into_iter().flatten().for_each(|part| bytes.extend_from_slice(&part));
        bytes.truncate(blob.bytes as usize);
        let is_whole = bytes.len() == blob.bytes as usize && blob_crc(&bytes) == blob.crc;
        if !is_whole && reads < READS_MAX {
            let (what, at) = (part.name(), spot(place * BLOCK));
            tracing::warn!(
                what,
                at,
                reads,
                "what leads to the index is not what was written; it is read again"
            );
            self.read_blob(&mut blobs, part, blob, reads + 1);
            return Ok(Step::Blobs(blobs));
        }
        // What cannot be read counts as corrupt for an inspection, which goes on without it.
        if let Some(error) = error.filter(|_| self.findings.is_none()) {
            return Err(MountError::Device(error));
        }
        if !is_whole {
            self.corrupt(part.name(), place)?;
            blobs.go_without(part)?;
        } else if blobs.open(part, Bytes::from(bytes)).is_err() {
            self.corrupt("index entry", place)?;
            blobs.go_without(part)?;
        }
        self.read_blobs(blobs)
    }

    fn directory_read(&mut self, blobs: Blobs) -> Result<Step, MountError> {
        let Blobs { superblock, root, directory, pendings, mut space, .. } = blobs;
        let mut index = Index::new(directory, self.config.page_bytes_max);
        index.omap_bytes = root.omap_bytes;
        index.pools = PoolUsages::open(&root.pools);
        root.colls.iter().for_each(|&coll| index.make_coll(coll));
        for blob in index.directory.blobs().chain(&root.pendings) {
            let Some(first) = blob.runs.first() else { continue };
            if !superblock.holds_index(blob) {
                self.corrupt("index reference", first.start)?;
            } else if !blob.runs.iter().all(|&run| space.reserve_index(run)) {
                self.corrupt("block reference", first.start)?;
            }
        }
        for &run in root.regions.iter().chain([&superblock.root]).flat_map(|blob| &blob.runs) {
            if !space.reserve_map(run) {
                self.corrupt("block reference", run.start)?;
            }
        }
        let place = |blob| Place { blob, sequence: superblock.sequence };
        let regions = root.regions.into_iter().map(place).collect();
        let mut store = Store::new(self.config, superblock, index, space);
        store.pending.blobs = root.pendings;
        store.regions = regions;
        let wanted = store.pages_to_begin_with(&pendings);
        self.pages_read(Box::new(store), wanted, pendings)
    }

    /// Goes on reading pages. True when those wanted are there.
    pub(super) fn load_pages(
        &mut self,
        store: &mut Store,
        wanted: &mut VecDeque<Key>,
    ) -> Result<bool, MountError> {
        // The store may have taken more, for pages that it reads again.
        store.next_token = store.next_token.max(self.next_token);
        while store.page_loads.len() < PAGE_READS_MAX
            && let Some(key) = wanted.pop_front()
        {
            if store.index.is_absent(&key) {
                store.want_page(&key, Waiter::Mount);
            }
        }
        self.next_token = store.next_token;
        self.commands.extend(store.take_commands());
        for CorruptPage { first, block, what } in std::mem::take(&mut store.page_loads.corrupt) {
            if let Some(findings) = &mut self.findings {
                findings.hidden.insert(first);
            }
            self.corrupt(what, block)?;
        }
        Ok(store.page_loads.len() == 0)
    }

    fn pages_read(
        &mut self,
        mut store: Box<Store>,
        mut wanted: VecDeque<Key>,
        pendings: BTreeMap<usize, PendingPage>,
    ) -> Result<Step, MountError> {
        if !self.load_pages(&mut store, &mut wanted)? {
            return Ok(Step::Pages { store, wanted, pendings });
        }
        for (at, page) in pendings {
            if !store.load_pending(page) {
                self.corrupt(
                    "pending data",
                    store.pending.blobs[at].runs.first().map_or(0, |run| run.start),
                )?;
            }
        }
        let (position, sequence) = (store.superblock.journal_position, store.superblock.journal_sequence);
        let (store, window) = (*store, (position, Bytes::new()));
        let mut replay =
            Box::new(Replay { store, position, end: position, sequence, window, is_moved: false, reads: 0 });
        self.read_window(&mut replay, 1);
        Ok(Step::Journal(replay))
    }
}

impl Store {
    /// A key of each page that is to be in memory before the journal is read.
    fn pages_to_begin_with(&self, pendings: &BTreeMap<usize, PendingPage>) -> VecDeque<Key> {
        let directory = &self.index.directory;
        let bytes: u64 = directory.pages().map(|(_, page)| u64::from(page.place.blob.bytes)).sum();
        let has_room = bytes.saturating_mul(PAGE_MEMORY) <= self.config.index_bytes_max;
        let mut nexts = directory.pages().map(|(next, _)| next).skip(1);
        let firsts = directory.pages().map(|(first, _)| first);
        let firsts = firsts.filter(|first| stays(first, nexts.next().as_ref()) || has_room);
        let pieces = pendings.values().flat_map(|page| &page.pieces);
        let pieces = pieces.map(|piece| Key::of(piece.coll, &piece.object));
        firsts.chain(pieces).collect()
    }

    /// Gives objects back their pending bytes. False if something makes no sense.
    fn load_pending(&mut self, page: PendingPage) -> bool {
        let mut is_sound = true;
        for PendingPiece { coll, object, offset, data } in page.pieces {
            // Its last block is one that an object may have.
            let end =
                offset.checked_add(data.len() as u64).and_then(|end| end.checked_next_multiple_of(BLOCK));
            self.index.unpack(&Key::of(coll, &object));
            let found = self.index.get_mut(coll, &object);
            let Some(onode) = found.filter(|_| end.is_some() && !data.is_empty()) else {
                is_sound = false;
                continue;
            };
            let before = onode.pending.amount();
            onode.pending.insert(offset, data.into(), 0);
            let after = onode.pending.amount();
            self.pending.count(&object, before, after);
            self.pending.objects.insert((coll, object));
        }
        is_sound
    }
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Root => "root of the index",
            Part::Table(_) => "index table",
            Part::Pending(_) => "page of pending data",
            Part::Region(_) => "record of the space map",
        }
    }
}

impl Blobs {
    /// Takes in the bytes of a blob, and names those that they lead to.
    fn open(&mut self, part: Part, bytes: Bytes) -> Result<(), DecodeError> {
        match part {
            Part::Root => {
                let root = Root::open(bytes)?;
                let beyond = root.regions.iter().skip(Space::region_count(self.superblock.area));
                let has_more = beyond.into_iter().any(|blob| !blob.runs.is_empty());
                // There is a table for every key, and what is behind the area has no record.
                if root.tables.is_empty() || has_more {
                    let value = root.tables.len() as u64;
                    return Err(DecodeError::Invalid { what: "root of the index", value });
                }
                self.root = root;
                self.is_root_read = true;
                let pendings = self.root.pendings.iter().enumerate();
                self.waiting.extend(pendings.map(|(at, blob)| (Part::Pending(at), blob.clone())));
                let regions = self.root.regions.iter().enumerate().filter(|(_, blob)| !blob.runs.is_empty());
                self.waiting.extend(regions.map(|(at, blob)| (Part::Region(at), blob.clone())));
                let tables = self.root.tables.iter().enumerate();
                self.waiting.extend(tables.map(|(at, (_, blob))| (Part::Table(at), blob.clone())));
            }
            Part::Table(at) => {
                let table = Table::open(bytes)?;
                self.table_read(at, table)?;
            }
            Part::Pending(at) => {
                self.pendings.insert(at, PendingPage::open(bytes)?);
            }
            Part::Region(at) => {
                self.regions.insert(at, Some(bytes));
            }
        }
        Ok(())
    }
    fn table_read(&mut self, at: usize, table: Table) -> Result<(), DecodeError> {
        self.tables.insert(at, table);
        if self.tables.len() < self.root.tables.len() {
            return Ok(());
        }
        let tables = std::mem::take(&mut self.tables).into_values();
        self.directory = Directory::open(&self.root, tables, self.superblock.sequence)
            .ok_or(DecodeError::Invalid { what: "directory", value: 0 })?;
        Ok(())
    }

    /// An inspection goes on without a part that is corrupt.
    fn go_without(&mut self, part: Part) -> Result<(), MountError> {
        let at = match part {
            Part::Table(at) => at,
            Part::Region(at) => {
                self.regions.insert(at, None);
                return Ok(());
            }
            Part::Root | Part::Pending(_) => return Ok(()),
        };
        let key = self.root.tables[at].0.clone();
        let nothing = Table::new(vec![(key, Blob::default())]);
        self.table_read(at, nothing).map_err(|_| MountError::Corrupt { what: "index table" })
    }
}
