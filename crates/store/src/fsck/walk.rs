//! Looking at a store's entries page by page, in order, and at their data.
//!
//! Pages that are not in memory are read a few ahead, looked at and forgotten. A deep walk also reads a page's data, in
//! the order of the device, before it looks at the next page.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use codec::{BLOCK_BYTES, crc32c};
use types::{CollId, HObject, Token};

use super::{FsckReport, Problem, Totals, bad_data::BadData, marks::Marks};
use crate::{
    DeviceCommand, DeviceError, Inspected, ReadError,
    device::BLOCK,
    index::{Bounds, Entry, Key, blob_crc, open_page},
    onode::Onode,
    superblock::Blob,
};

/// Pages read ahead.
const PAGES_MAX: usize = 32;
/// Reads in flight while data is verified.
pub(super) const READS_MAX: usize = 8;
/// Blocks of one of them.
const READ_BLOCKS_MAX: usize = 1024;

/// A walk over a store's entries, page by page, and over their data if it is a deep one.
#[derive(Debug)]
pub(super) struct Walk {
    inspected: Inspected,
    is_deep: bool,
    report: FsckReport,
    /// Problems of data: they say nothing about the index.
    bad_data: BadData,
    totals: Totals,
    marks: Marks,
    commands: Vec<DeviceCommand>,
    /// The page to be asked for next.
    next: Option<Key>,
    /// Pages asked for, in order, and the number of the first of them.
    pages: VecDeque<Page>,
    pages_done: u64,
    /// Data to be verified, in the order of the device.
    pieces: VecDeque<Piece>,
    pieces_reading: usize,
    reading: BTreeMap<u64, Reading>,
    next_token: u64,
}

/// A page that was asked for.
#[derive(Debug)]
struct Page {
    first: Key,
    blob: Blob,
    /// None of one that is in memory.
    parts: Vec<Option<Bytes>>,
}

/// Consecutive blocks of an object on the device.
#[derive(Clone, Debug)]
struct Piece {
    coll: CollId,
    object: HObject,
    /// The first block, in the object and on the device.
    block: u64,
    device: u64,
    crcs: Vec<u32>,
}

/// What a command reads.
#[derive(Debug)]
enum Reading {
    Page { number: u64, part: usize },
    Piece(Piece),
}

impl Walk {
    pub(super) fn new(inspected: Inspected, is_deep: bool) -> Walk {
        Walk {
            report: inspected.opened(),
            totals: inspected.store.totals(),
            inspected,
            is_deep,
            bad_data: BadData::default(),
            marks: Marks::new(),
            commands: Vec::new(),
            next: Some(Key::min()),
            pages: VecDeque::new(),
            pages_done: 0,
            pieces: VecDeque::new(),
            pieces_reading: 0,
            reading: BTreeMap::new(),
            next_token: 1,
        }
    }

    pub(super) fn take_commands(&mut self) -> Vec<DeviceCommand> {
        std::mem::take(&mut self.commands)
    }

    /// Goes on as far as what was read allows; the report, at the end.
    pub(super) fn go_on(&mut self) -> Option<FsckReport> {
        loop {
            while self.pieces_reading < READS_MAX
                && let Some(piece) = self.pieces.pop_front()
            {
                self.pieces_reading += 1;
                let (offset, len) = (piece.device * BLOCK, piece.crcs.len() as u64 * BLOCK);
                self.read(offset, len, Reading::Piece(piece));
            }
            while self.pages.len() < PAGES_MAX
                && let Some(first) = self.next.take()
            {
                self.ask_for(first);
            }
            let is_here = self.pages.front().is_some_and(|page| page.parts.iter().all(Option::is_some));
            if !is_here || !self.pieces.is_empty() {
                break;
            }
            self.look_at_page();
        }
        let is_done = self.pages.is_empty() && self.reading.is_empty();
        is_done.then(|| self.finish())
    }

    fn finish(&mut self) -> FsckReport {
        let mut report = std::mem::take(&mut self.report);
        self.inspected.judge(&self.totals, &mut report);
        report.problems.extend(std::mem::replace(&mut self.marks, Marks::new()).problem());
        report.problems.extend(std::mem::take(&mut self.bad_data).into_problems());
        report
    }

    fn read(&mut self, offset: u64, len: u64, what: Reading) {
        let token = self.next_token;
        self.next_token += 1;
        self.reading.insert(token, what);
        self.commands.push(DeviceCommand::Read { token: Token(token), offset, len });
    }

    fn ask_for(&mut self, first: Key) {
        let store = &self.inspected.store;
        self.next = store.index.directory.page_after(&first);
        let page = store.index.directory.page(&first).filter(|page| !page.is_loaded);
        let blob = page.map(|page| page.place.blob.clone()).unwrap_or_default();
        if page.is_some() && !store.superblock.holds_index(&blob) {
            return self.corrupt("index reference", &blob);
        }
        let number = self.pages_done + self.pages.len() as u64;
        for (part, run) in blob.runs.iter().enumerate() {
            self.read(run.start * BLOCK, run.count * BLOCK, Reading::Page { number, part });
        }
        self.pages.push_back(Page { first, parts: vec![None; blob.runs.len()], blob });
    }

    fn corrupt(&mut self, what: &'static str, blob: &Blob) {
        let offset = blob.runs.first().map_or(0, |run| run.start) * BLOCK;
        self.report.problems.push(Problem::Index { what, offset });
    }

    fn look_at_page(&mut self) {
        let Some(Page { first, blob, parts }) = self.pages.pop_front() else { return };
        self.pages_done += 1;
        let store = &self.inspected.store;
        let (next, area) = (store.index.directory.page_after(&first), store.superblock.area);
        let Walk { totals, marks, is_deep, .. } = self;
        let mut pieces = Vec::new();
        let mut visit = |coll: CollId, object: &HObject, entry: Entry<'_>| {
            totals.add(coll, object, entry);
            marks.note(coll, object, entry);
            if let (Entry::Onode(onode), true) = (entry, *is_deep) {
                add_pieces(coll, object, onode, &mut pieces);
            }
        };
        if blob.runs.is_empty() {
            self.inspected.store.index.each_in_page(&first, visit);
        } else {
            let mut bytes = parts.into_iter().flatten().flatten().collect::<Vec<u8>>();
            bytes.truncate(blob.bytes as usize);
            if bytes.len() != blob.bytes as usize || blob_crc(&bytes) != blob.crc {
                return self.corrupt("index page", &blob);
            }
            let bounds = Bounds { first: &first, next: next.as_ref(), area };
            let opened = open_page(bytes.into(), &bounds, |_, key, value| {
                visit(key.coll, &key.object, value.entry(&key));
            });
            if opened.is_err() {
                self.corrupt("index entry", &blob);
            }
        }
        pieces.sort_by_key(|piece| piece.device);
        self.pieces = pieces.into();
    }

    pub(super) fn read_done(&mut self, token: Token, result: Result<Option<Bytes>, DeviceError>) {
        let bytes = result.ok().flatten();
        match self.reading.remove(&token.0) {
            Some(Reading::Page { number, part }) => {
                // Unreadable is corrupt.
                let page = self.pages.get_mut((number - self.pages_done) as usize);
                page.into_iter().for_each(|page| page.parts[part] = Some(bytes.clone().unwrap_or_default()));
            }
            Some(Reading::Piece(piece)) => {
                self.pieces_reading -= 1;
                self.verify(&piece, bytes);
            }
            None => {}
        }
    }

    fn verify(&mut self, piece: &Piece, bytes: Option<Bytes>) {
        let bytes = bytes.filter(|bytes| bytes.len() == piece.crcs.len() * BLOCK_BYTES);
        if bytes.is_none() && piece.crcs.len() > 1 {
            // One bad sector fails the read of all: each block is asked for by itself.
            let one = |(at, crc): (usize, &u32)| {
                let (block, device) = (piece.block + at as u64, piece.device + at as u64);
                Piece { coll: piece.coll, object: piece.object.clone(), block, device, crcs: vec![*crc] }
            };
            return piece.crcs.iter().enumerate().map(one).rev().for_each(|one| self.pieces.push_front(one));
        }
        for (at, (crc, block)) in piece.crcs.iter().zip(piece.block..).enumerate() {
            self.report.counts.verified_blocks += 1;
            let offset = block * BLOCK;
            let found =
                bytes.as_ref().map(|bytes| crc32c(u32::MAX, &bytes[at * BLOCK_BYTES..][..BLOCK_BYTES]));
            let error = match found {
                Some(found) if found == *crc => continue,
                Some(_) => ReadError::Corrupt { offset },
                None => ReadError::Device,
            };
            self.bad_data.note(piece.coll, &piece.object, error, offset);
        }
    }
}

/// All data of an object on the device, but for blocks that pending bytes hide: these may hold anything, as a crash may
/// have left them half overwritten.
fn add_pieces(coll: CollId, object: &HObject, onode: &Onode, out: &mut Vec<Piece>) {
    for (first, device, crcs) in onode.extents.range(0, u64::MAX) {
        let mut at = 0;
        let is_hidden = |at: usize| {
            let block = first + at as u64;
            !onode.pending.is_empty() && onode.pending.covers(block * BLOCK, (block + 1) * BLOCK)
        };
        while at < crcs.len() {
            let shown = (at..crcs.len()).take_while(|at| !is_hidden(*at)).take(READ_BLOCKS_MAX).count();
            if shown > 0 {
                let (block, device) = (first + at as u64, device + at as u64);
                let crcs = crcs[at..at + shown].to_vec();
                out.push(Piece { coll, object: object.detached(), block, device, crcs });
            }
            at += shown.max(1);
        }
    }
}
