//! Reading the journal of a store that is opened, record by record, and the checkpoint that ends it.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;

use super::{
    JournalRecord, Mount, MountError, Store, inspect::describe, journal_end::LOOKAHEAD_BLOCKS, mount::Step,
    pages::READS_MAX,
};
use crate::{
    JournalKey, Problem,
    device::{BLOCK, spot},
    index::Key,
    journal::{Body, Header, Ring, place},
    space::Run,
};

/// Blocks of one look into the journal.
const WINDOW_BLOCKS: u64 = 1024;

/// What a mount found in the journal behind the last checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// How many records.
    pub records: u64,
    /// Transactions in them that the checkpoint did not hold.
    pub transactions: u64,
    /// The records' bytes.
    pub bytes: u64,
}

/// Reading the journal record by record, a window at a time.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) store: Store,
    pub(super) position: u64,
    /// Where the last record found ends.
    pub(super) end: u64,
    /// The next record's number.
    pub(super) sequence: u64,
    /// Where the window read last begins, and its bytes.
    pub(super) window: (u64, Bytes),
    pub(super) is_moved: bool,
    /// How often it was read again where the last record ends.
    pub(super) reads: u32,
}

impl Mount {
    /// Reads from the position on, at least `count` blocks if the ring goes on that far.
    pub(super) fn read_window(&mut self, replay: &mut Replay, count: u64) {
        let journal = replay.store.superblock.journal;
        let at = replay.position % journal.count;
        let count = count.max(WINDOW_BLOCKS).min(journal.count - at);
        replay.window = (replay.position, Bytes::new());
        self.read_ring(Run { start: journal.start + at, count });
    }

    pub(super) fn window_read(&mut self, mut replay: Box<Replay>, data: Bytes) -> Result<Step, MountError> {
        replay.window.1 = data;
        let wanted = replay.absent_in_window();
        self.replay_window(replay, wanted)
    }

    /// Applies the records of the window, once the pages that they change are there.
    pub(super) fn replay_window(
        &mut self,
        mut replay: Box<Replay>,
        mut wanted: VecDeque<Key>,
    ) -> Result<Step, MountError> {
        if !self.load_pages(&mut replay.store, &mut wanted)? {
            return Ok(Step::JournalPages { replay, wanted });
        }
        loop {
            match replay.next_record(self.findings.is_some())? {
                Found::Gap(error) => {
                    self.note_unmountable(error)?;
                    // What follows makes no sense without what is missing.
                    replay.reads = READS_MAX;
                    return Ok(self.look_ahead(replay, false));
                }
                Found::Record(record) => {
                    if let Some(findings) = &mut self.findings {
                        findings.records.push(record);
                    }
                }
                Found::Beyond(count) => {
                    self.read_window(&mut replay, count);
                    return Ok(Step::Journal(replay));
                }
                Found::End => {
                    // A record may have been too long for the ring's end and lie at its start.
                    let next = place(replay.position, u64::MAX, replay.store.superblock.journal.count);
                    if replay.is_moved || next == replay.position {
                        return Ok(self.look_ahead(replay, false));
                    }
                    replay.is_moved = true;
                    replay.position = next;
                    self.read_window(&mut replay, 1);
                    return Ok(Step::Journal(replay));
                }
            }
        }
    }

    /// Reads on where no record was found, or, `is_wrapped`, where those of a later epoch would begin.
    fn look_ahead(&mut self, replay: Box<Replay>, is_wrapped: bool) -> Step {
        let journal = replay.store.superblock.journal;
        let at = replay.end % journal.count;
        let ahead = LOOKAHEAD_BLOCKS.min(journal.count - at);
        self.read_ring(match is_wrapped {
            false => Run { start: journal.start + at, count: ahead },
            true => Run {
                start: journal.start,
                count: WINDOW_BLOCKS.max(LOOKAHEAD_BLOCKS - ahead).min(journal.count),
            },
        });
        Step::Lookahead { replay, is_wrapped }
    }

    pub(super) fn looked_ahead(
        &mut self,
        mut replay: Box<Replay>,
        is_wrapped: bool,
        data: Bytes,
    ) -> Result<Step, MountError> {
        let journal = replay.store.superblock.journal;
        let begin = if is_wrapped { place(replay.end, u64::MAX, journal.count) } else { replay.end };
        replay.window = (begin, data.clone());
        // What was read before may not have been what is there: a device, or the path to it, may fail once.
        let parsed = replay.parse(begin, replay.sequence);
        let is_there = match parsed {
            Parsed::Record(..) | Parsed::Unknown => replay.reads < READS_MAX,
            Parsed::Torn | Parsed::Beyond(_) => replay.reads + 1 < READS_MAX,
            Parsed::End => false,
        };
        if is_there {
            replay.reads += 1;
            let at = spot((journal.start + begin % journal.count) * BLOCK);
            tracing::warn!(
                at,
                reads = replay.reads,
                "where the journal seemed to end is a record; it is read again"
            );
            if matches!(parsed, Parsed::Torn) {
                return Ok(self.look_ahead(replay, is_wrapped));
            }
            (replay.position, replay.is_moved) = (begin, is_wrapped);
            let wanted = replay.absent_in_window();
            return self.replay_window(replay, wanted);
        }
        if replay.is_followed_in(&data, self.config.journal_writes_max) {
            let offset = (journal.start + replay.end % journal.count) * BLOCK;
            self.note_unmountable(MountError::JournalGap { offset })?;
        }
        if !is_wrapped {
            return Ok(self.look_ahead(replay, true));
        }
        if self.findings.is_some() {
            return Ok(Step::Done(Some(Ok(Box::new(replay.store)))));
        }
        self.replayed(*replay)
    }

    /// Records that were durable are missing, or make no sense: that ends a mount, and an inspection notes it.
    fn note_unmountable(&mut self, error: MountError) -> Result<(), MountError> {
        let Some(findings) = &mut self.findings else { return Err(error) };
        let problem = Problem::Unmountable(error);
        if !findings.problems.contains(&problem) {
            findings.problems.push(problem);
        }
        Ok(())
    }

    /// Nothing of an older epoch replays: what a crash left behind the last record cannot come back.
    fn replayed(&mut self, replay: Replay) -> Result<Step, MountError> {
        let mut store = replay.store;
        store.is_opening = false;
        store.superblock.epoch += 1;
        if store.superblock.journal_key == JournalKey::NONE {
            store.superblock.journal_key = self.new_key;
            self.is_key_given = true;
        }
        // No checkpoint has this value: it tells whether the one that follows came about.
        store.superblock.journal_sequence = 0;
        let count = store.superblock.journal.count;
        // The last epoch began at the ring's start, too.
        let written = if self.config.prepares_journal { replay.end.min(count) } else { count };
        store.ring = Ring::new(count, written);
        store.committed_txn = store.last_txn;
        Ok(self.relabel(Box::new(store)))
    }

    /// The store is known to be sound, and its labels are written.
    pub(super) fn labelled(&mut self, store: Box<Store>) -> Step {
        // Records of a process that was killed may be in the device's cache only. What they cover is written over from
        // here on, so a power cut must not take them back.
        self.flush();
        Step::Flush(store)
    }

    /// What was replayed is durable: it goes to its places, and a checkpoint ends the mount.
    pub(super) fn flushed(&mut self, mut store: Box<Store>) -> Step {
        store.next_token = self.next_token;
        self.start_checkpoint(store)
    }

    fn start_checkpoint(&mut self, mut store: Box<Store>) -> Step {
        store.start_flush(true);
        store.pump_flush();
        self.finish_checkpoint(store)
    }

    /// The next step of a mount while its checkpoint is made.
    pub(super) fn finish_checkpoint(&mut self, mut store: Box<Store>) -> Step {
        if let Err(error) = store.check_opening() {
            return Step::Done(Some(Err(error)));
        }
        match store.background {
            super::Background::Flushing(_) | super::Background::Checkpoint(_) => Step::Checkpoint(store),
            // The sequence in memory is the old one until a checkpoint is durable.
            super::Background::Idle if store.superblock.journal_position == 0 && store.is_fresh() => {
                // By the other copy, which has no key, a mount would take the records from here on for another
                // store's, should this one be damaged; and earlier builds would mount by it.
                if std::mem::take(&mut self.is_key_given) {
                    return self.start_checkpoint(store);
                }
                match store.resume_moves() {
                    Ok(false) => Step::Done(Some(Ok(store))),
                    Ok(true) => {
                        store.is_stirred = true;
                        store.kick();
                        finish_moves(store)
                    }
                    Err(_) => Step::Done(Some(Err(MountError::Corrupt { what: "move under way" }))),
                }
            }
            super::Background::Idle => Step::Done(Some(Err(MountError::NoSpace))),
        }
    }
}

/// The next step of a mount while moves go on that a crash interrupted.
pub(super) fn finish_moves(store: Box<Store>) -> Step {
    if let Err(error) = store.check_opening() {
        return Step::Done(Some(Err(error)));
    }
    if store.is_idle() {
        return Step::Done(Some(Ok(store)));
    }
    // Nothing makes room during a mount.
    let is_stuck = store.outstanding.is_empty();
    if is_stuck { Step::Done(Some(Err(MountError::NoSpace))) } else { Step::Moves(store) }
}

/// What is at a place of the journal.
enum Parsed {
    Record(Header, Vec<Body>),
    /// The window must hold so many blocks from there on.
    Beyond(u64),
    /// One that is not as it was written.
    Torn,
    /// One that is, and makes no sense here.
    Unknown,
    End,
}

enum Found {
    Record(JournalRecord),
    /// The window must hold so many blocks from the position on.
    Beyond(u64),
    /// A record that does not follow what the index, or the record before it, holds, or makes no sense.
    Gap(MountError),
    End,
}

impl Replay {
    /// The record at `position` of the window, if it has this number.
    fn parse(&self, position: u64, sequence: u64) -> Parsed {
        let journal = self.store.superblock.journal;
        let skip = (position - self.window.0) * BLOCK;
        let room = (journal.count - position % journal.count) * BLOCK;
        let rest = match usize::try_from(skip).ok().filter(|skip| *skip < self.window.1.len()) {
            Some(skip) => self.window.1.slice(skip..),
            None => return Parsed::Beyond(1),
        };
        let superblock = &self.store.superblock;
        let Some(header) = Header::peek(&rest, superblock.record_key(), superblock.epoch) else {
            return Parsed::End;
        };
        let bytes = u64::from(header.block_count) * BLOCK;
        if header.sequence != sequence || bytes > room {
            return Parsed::End;
        }
        if (rest.len() as u64) < bytes {
            // It may take all of the ring: what a damaged header says of that is not to be read.
            let front_count = header.front_block_count();
            return if (rest.len() as u64) < front_count * BLOCK {
                Parsed::Beyond(front_count)
            } else if header.open_front(&rest).is_some() {
                Parsed::Beyond(bytes / BLOCK)
            } else {
                Parsed::Torn
            };
        }
        match header.open(&rest) {
            Some(Ok(bodies)) => Parsed::Record(header, bodies),
            Some(Err(error)) => {
                let at = spot((journal.start + position % journal.count) * BLOCK);
                tracing::error!(%error, at, "a record of the journal is whole and does not decode");
                Parsed::Unknown
            }
            None => Parsed::Torn,
        }
    }

    /// A key of each page that the window's records change and that is not in memory.
    fn absent_in_window(&self) -> VecDeque<Key> {
        let mut out = BTreeSet::new();
        if self.store.index.directory.is_whole() {
            return VecDeque::new();
        }
        let (mut position, mut sequence) = (self.position, self.sequence);
        while let Parsed::Record(header, bodies) = self.parse(position, sequence) {
            let news = (header.first_txn..).zip(&bodies).filter(|(txn, _)| *txn > self.store.last_txn);
            news.for_each(|(_, body)| out.extend(self.store.absent_for_body(body)));
            position += u64::from(header.block_count);
            sequence += 1;
        }
        out.into_iter().collect()
    }

    fn next_record(&mut self, is_described: bool) -> Result<Found, MountError> {
        let (header, bodies) = match self.parse(self.position, self.sequence) {
            Parsed::Record(header, bodies) => (header, bodies),
            Parsed::Beyond(count) => return Ok(Found::Beyond(count)),
            Parsed::Unknown => return Ok(Found::Gap(MountError::Corrupt { what: "journal record" })),
            Parsed::Torn | Parsed::End => return Ok(Found::End),
        };
        let journal = self.store.superblock.journal;
        let bytes = u64::from(header.block_count) * BLOCK;
        let offset = (journal.start + self.position % journal.count) * BLOCK;
        // A checkpoint commits transactions without a record, and the next record follows those. So an older
        // superblock than the one that this record followed does not have them, though no record is missing.
        if header.first_txn > self.store.last_txn.saturating_add(1) {
            return Ok(Found::Gap(MountError::JournalGap { offset }));
        }
        let record = JournalRecord {
            offset,
            bytes,
            sequence: self.sequence,
            first_txn: header.first_txn,
            txns: if is_described { bodies.iter().map(describe).collect() } else { Vec::new() },
        };
        for (txn, body) in (header.first_txn..).zip(&bodies) {
            if txn <= self.store.last_txn {
                continue;
            }
            self.store.last_txn = txn;
            self.store.index.txn = txn;
            let area = self.store.superblock.area;
            for run in body.directs.iter().flat_map(|direct| &direct.runs) {
                if !area.holds(*run) || !self.store.space.reserve_data(*run) {
                    return Err(MountError::Corrupt { what: "journal block reference" });
                }
            }
            self.store.apply_body(body, txn);
            self.store.check_space()?;
            self.store.replayed.transactions += 1;
        }
        self.position += u64::from(header.block_count);
        self.end = self.position;
        self.sequence += 1;
        self.store.replayed.records += 1;
        self.store.replayed.bytes += bytes;
        (self.is_moved, self.reads) = (false, 0);
        Ok(Found::Record(record))
    }
}

impl Store {
    /// An error if a block was let go of that was free, or twice.
    fn check_space(&self) -> Result<(), MountError> {
        let is_sound = self.space.contradiction().is_none();
        is_sound.then_some(()).ok_or(MountError::Corrupt { what: "block reference" })
    }

    /// An error if a mount cannot go on with this store.
    fn check_opening(&self) -> Result<(), MountError> {
        self.check_space()?;
        self.fault.map_or(Ok(()), |error| Err(MountError::Device(error)))
    }

    /// True if the journal has nothing and the superblock is this epoch's.
    fn is_fresh(&self) -> bool {
        self.ring.used_count() == 0 && self.superblock.journal_sequence == self.ring.head().sequence
    }
}
