//! The store proper: a machine whose effects are device commands.

mod apply;
mod checkpoint;
mod checkpoint_room;
mod data_reads;
mod deferred;
mod device_owner;
mod discard;
mod flusher;
mod format;
mod index_read;
mod inspect;
mod invariants;
mod journal_end;
mod journal_salvage;
mod labels;
mod missing_pages;
mod mount;
mod mount_error;
mod moves;
mod no_room;
mod outstanding;
mod pages;
mod pending_totals;
mod read;
mod regions;
mod replay;
mod space_estimate;
mod steps;
mod throttle_rate;
mod write;
mod write_throttle;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use types::Token;

pub(crate) use checkpoint_room::makes_room;
pub use device_owner::DeviceOwner;
pub use format::{Label, StoreIdentity};
pub use inspect::{Inspected, JournalRecord, LayoutExtent, ObjectLayout, SuperblockInfo};
pub use mount::Mount;
pub use mount_error::MountError;
pub(crate) use moves::{mark, marked_txn};
pub use pages::IndexMemory;
pub use replay::Replayed;

use self::{
    checkpoint::Checkpoint,
    data_reads::{DataRead, DataReads},
    deferred::Waiting,
    discard::Discards,
    flusher::Flushing,
    no_room::NoRoom,
    outstanding::Outstanding,
    pages::PageLoads,
    pending_totals::PendingTotals,
    read::Load,
    throttle_rate::ThrottleRate,
    write::Queued,
};
use crate::{
    Completion, Config, DeviceCommand, DeviceError, DeviceRole,
    cache::Cache,
    device::{BLOCK, spot},
    index::{Index, Place},
    journal::Ring,
    space::{Run, Space},
    superblock::Superblock,
};

/// What a device command was for.
#[derive(Debug)]
enum Purpose {
    Journal { sequence: u64 },
    JournalZeros,
    Direct { txn: u64, run: Run },
    Load(DataRead),
    Page { load: u64, part: usize },
    FlushRead { job: u64, read: usize },
    FlushWrite { job: u64 },
    CheckpointWrite,
    CheckpointFlush,
    CheckpointSuperblock,
    Discard(Run),
}

/// Background work; one kind at a time.
#[derive(Debug)]
enum Background {
    Idle,
    Flushing(Flushing),
    Checkpoint(Box<Checkpoint>),
}

/// What a store does beside requests: why they may take longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// Nothing.
    Idle,
    /// Pending bytes go to their places.
    Flush,
    /// The index is written, so that the journal's space is free again.
    Checkpoint,
}

/// A store shard on one device.
///
/// The caller passes requests through [`crate::ObjectStore`], calls [`Store::kick`] once per turn of its
/// loop, executes what [`Store::take_commands`] gives, answers each command with [`Store::device_done`]
/// and picks up [`Store::take_completions`]. Nothing is durable until a `Committed` says so.
///
/// After a failed write or flush the store is dead ([`Store::fault`]): it reports no commit any more,
/// as nothing is known about what the device holds; the shard must be mounted again or replaced.
#[derive(Debug)]
pub struct Store {
    config: Config,
    pub(crate) superblock: Superblock,
    pub(crate) index: Index,
    space: Space,
    cache: Cache,
    ring: Ring,
    commands: Vec<DeviceCommand>,
    outstanding: Outstanding,
    next_token: u64,
    completions: Vec<Completion>,
    /// Applied transactions whose record is not written yet.
    queue: VecDeque<Queued>,
    /// Transactions that are not applied.
    waiting: Waiting,
    /// Applied transactions that are not committed, in order.
    uncommitted: VecDeque<(u64, Token)>,
    last_txn: u64,
    committed_txn: u64,
    /// The last step of a transaction that goes in steps ([`steps`]); the next one waits until it is durable.
    step_txn: u64,
    /// What may still be moved and removed at once in this turn, in objects.
    turn_objects_left: usize,
    /// True if the head of the queue found no room in the journal.
    is_journal_full: bool,
    pending: PendingTotals,
    /// Where the records of the space map are, by region.
    regions: Vec<Place>,
    background: Background,
    throttle_rate: ThrottleRate,
    loads: BTreeMap<u64, Load>,
    data_reads: DataReads,
    page_loads: PageLoads,
    /// True while it is mounted, or looked at.
    is_opening: bool,
    /// Device blocks that a caller's token keeps in the cache.
    pins: BTreeMap<Token, Vec<Run>>,
    discards: Discards,
    /// Set if the last checkpoint found no room.
    no_room: Option<NoRoom>,
    unmount: Unmount,
    fault: Option<DeviceError>,
    replayed: Replayed,
    /// Something happened since the last kick, or there was too much to do for one.
    is_stirred: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unmount {
    No,
    Wanted,
    Flushed,
    Done,
}

impl Store {
    fn new(config: Config, superblock: Superblock, index: Index, space: Space) -> Store {
        let last_txn = superblock.last_txn;
        Store {
            ring: Ring::new(superblock.journal.count, superblock.journal.count),
            cache: Cache::new(config.cache_bytes_max),
            config,
            superblock,
            index,
            space,
            commands: Vec::new(),
            outstanding: Outstanding::default(),
            next_token: 1,
            completions: Vec::new(),
            queue: VecDeque::new(),
            waiting: Waiting::default(),
            uncommitted: VecDeque::new(),
            last_txn,
            committed_txn: last_txn,
            step_txn: last_txn,
            turn_objects_left: config.step_objects_max,
            is_journal_full: false,
            pending: PendingTotals::default(),
            regions: Vec::new(),
            background: Background::Idle,
            throttle_rate: ThrottleRate::default(),
            loads: BTreeMap::new(),
            data_reads: DataReads::default(),
            page_loads: PageLoads::default(),
            is_opening: true,
            pins: BTreeMap::new(),
            discards: Discards::default(),
            no_room: None,
            unmount: Unmount::No,
            fault: None,
            replayed: Replayed::default(),
            is_stirred: true,
        }
    }

    /// The commands to execute, in any order. To be called after each call that changes the store.
    pub fn take_commands(&mut self) -> Vec<DeviceCommand> {
        std::mem::take(&mut self.commands)
    }

    /// Puts the commands to execute into `into`, which must be empty: its memory is used for the next ones.
    pub fn swap_commands(&mut self, into: &mut Vec<DeviceCommand>) {
        debug_assert!(into.is_empty(), "commands are executed once");
        std::mem::swap(&mut self.commands, into);
    }

    /// Puts what [`Store::take_completions`] gives into `into`, which must be empty.
    pub fn swap_completions(&mut self, into: &mut Vec<Completion>) {
        debug_assert!(into.is_empty(), "completions are handled once");
        std::mem::swap(&mut self.completions, into);
    }

    /// What finished since the last call; commits in the order of submission.
    pub fn take_completions(&mut self) -> Vec<Completion> {
        std::mem::take(&mut self.completions)
    }

    /// Ends a turn of the caller's loop: all that was submitted in it leaves in one journal write.
    pub fn kick(&mut self) {
        self.turn_objects_left = self.config.step_objects_max;
        self.pump_discards();
        if !std::mem::take(&mut self.is_stirred) {
            return;
        }
        loop {
            self.note_throttle_rate();
            self.submit_held();
            self.step_on();
            self.write_records();
            self.run_background();
            // What ended may have made room.
            if self.fault.is_some() || self.next_held().is_none() {
                break;
            }
        }
        self.evict_pages();
        self.cache.evict();
        // Transactions that wait for room go on as time goes by.
        self.is_stirred = self.waiting.has_held() || self.has_more_to_evict() || self.cache.is_above_limit();
    }

    /// A device command was executed. Reads come with their bytes. An unknown token is ignored.
    pub fn device_done(&mut self, token: Token, result: Result<Option<Bytes>, DeviceError>) {
        let Some(purpose) = self.outstanding.remove(token.0, self.throttle_rate.now()) else { return };
        self.is_stirred = true;
        match purpose {
            Purpose::Load(read) => {
                self.data_read_done(read);
                return self.load_done(read, result);
            }
            Purpose::Page { load, part } => {
                self.page_read_done(load, part, result);
                // What waited for the page may be written; a mount goes on by itself.
                if !self.is_opening && self.fault.is_none() {
                    self.kick();
                }
                return;
            }
            Purpose::FlushRead { job, read } => return self.flush_read_done(job, read, result),
            Purpose::Discard(run) => return self.discard_done(run, result),
            Purpose::Journal { .. }
            | Purpose::JournalZeros
            | Purpose::Direct { .. }
            | Purpose::FlushWrite { .. }
            | Purpose::CheckpointWrite
            | Purpose::CheckpointFlush
            | Purpose::CheckpointSuperblock => {}
        }
        if let Err(error) = result {
            tracing::error!(%error, "a device write failed; the store stops");
            self.fault.get_or_insert(error);
        }
        if self.fault.is_some() {
            return;
        }
        match purpose {
            Purpose::Journal { sequence } => self.record_done(sequence),
            Purpose::JournalZeros => self.ring.zeros_done(),
            Purpose::Direct { txn, run } => self.direct_done(txn, run),
            Purpose::FlushWrite { job } => self.flush_write_done(job),
            Purpose::CheckpointWrite => self.checkpoint_write_done(),
            Purpose::CheckpointFlush => self.checkpoint_flushed(),
            Purpose::CheckpointSuperblock => self.checkpoint_done(),
            Purpose::Load(_) | Purpose::Page { .. } | Purpose::FlushRead { .. } | Purpose::Discard(_) => {}
        }
        self.kick();
    }

    /// Why the store stopped, if it did.
    pub fn fault(&self) -> Option<DeviceError> {
        self.fault
    }

    /// What its mount took from the journal.
    pub fn replayed(&self) -> Replayed {
        self.replayed
    }

    /// Starts the orderly end: everything is flushed, a checkpoint is written and marked clean. Nothing
    /// may be submitted any more. Go on as usual until [`Store::is_unmounted`]. Where the checkpoint finds no
    /// room it is no clean end: the next mount replays the journal, and what is not committed by then never is.
    pub fn unmount(&mut self) {
        self.is_stirred = true;
        if self.unmount == Unmount::No {
            self.unmount = Unmount::Wanted;
        }
        self.kick();
    }

    /// True when the store is clean on the device, or there is no room for that, and has nothing left to do.
    pub fn is_unmounted(&self) -> bool {
        self.unmount == Unmount::Done
    }

    /// Transactions submitted and not committed yet.
    pub fn uncommitted_count(&self) -> usize {
        self.uncommitted.len() + self.waiting.len()
    }

    /// True if no command is outstanding and nothing waits for one.
    pub fn is_idle(&self) -> bool {
        self.outstanding.is_empty()
            && self.uncommitted_count() == 0
            && matches!(self.background, Background::Idle)
    }

    /// What is being loaded, and tokens that were not unloaded.
    pub fn held_loads(&self) -> usize {
        self.loads.len() + self.pins.len() + self.page_loads.pinning_count()
    }

    /// What the store does beside requests.
    pub fn activity(&self) -> Activity {
        match self.background {
            Background::Idle => Activity::Idle,
            Background::Flushing(_) => Activity::Flush,
            Background::Checkpoint(_) => Activity::Checkpoint,
        }
    }

    /// Changes how many bytes of clean data blocks are kept in memory. Those above a lower limit go within the next
    /// turns.
    pub fn set_cache_bytes(&mut self, bytes: u64) {
        self.config.cache_bytes_max = bytes;
        self.is_stirred = true;
        self.cache.set_bytes_max(bytes);
    }

    /// Changes how much memory pending small writes may take.
    pub fn set_pending_bytes(&mut self, bytes: u64) {
        self.config.pending_bytes_max = bytes;
        self.is_stirred = true;
    }

    /// The OSD and cluster whose store this is.
    pub fn identity(&self) -> StoreIdentity {
        self.superblock.identity()
    }

    /// The token of a command for the device that has this block.
    fn token(&mut self, purpose: Purpose, block: u64) -> Token {
        let token = self.next_token;
        self.next_token += 1;
        if !matches!(purpose, Purpose::Discard(_)) {
            self.discards.note_busy(self.throttle_rate.now());
        }
        let (role, _) = DeviceRole::of(block * BLOCK);
        self.outstanding.insert(token, purpose, role, self.throttle_rate.now());
        Token(token)
    }

    fn read_device(&mut self, run: Run, purpose: Purpose) {
        let token = self.token(purpose, run.start);
        self.commands.push(DeviceCommand::Read { token, offset: run.start * BLOCK, len: run.count * BLOCK });
    }

    fn write_device(&mut self, block: u64, data: Bytes, durable: bool, purpose: Purpose) {
        self.write_pieces(block, (data, Vec::new()), durable, purpose);
    }

    /// Writes memory that is in several pieces: the first one and the others.
    fn write_pieces(&mut self, block: u64, data: (Bytes, Vec<Bytes>), durable: bool, purpose: Purpose) {
        let token = self.token(purpose, block);
        let (data, more) = data;
        self.commands.push(DeviceCommand::Write { token, offset: block * BLOCK, data, more, durable });
    }

    /// All transactions up to `txn` are durable.
    fn commit(&mut self, txn: u64) {
        self.committed_txn = self.committed_txn.max(txn);
        while let Some(&(_, token)) = self.uncommitted.front().filter(|(txn, _)| *txn <= self.committed_txn) {
            self.uncommitted.pop_front();
            self.completions.push(Completion::Committed(token));
        }
    }

    /// Stops a store whose space contradicts itself, before anything that follows from it is durable.
    fn stop_on_contradiction(&mut self) {
        if let Some(block) = self.space.contradiction().filter(|_| self.fault.is_none()) {
            let at = spot(block * BLOCK);
            tracing::error!(
                at,
                "a block was let go of that was free: the index, or the map of used space, is damaged; the store stops"
            );
            self.fault = Some(DeviceError::Io);
        }
    }

    fn run_background(&mut self) {
        self.go_on_in_background();
        self.stop_on_contradiction();
    }

    fn go_on_in_background(&mut self) {
        if self.fault.is_some() {
            return;
        }
        if matches!(self.background, Background::Idle) {
            self.start_background();
        }
        self.pump_flush();
        let is_ending = matches!(&self.background, Background::Checkpoint(last) if last.is_durable());
        self.pump_checkpoint();
        // There may be no other event to start what is wanted next.
        if is_ending && matches!(self.background, Background::Idle) {
            self.start_background();
            self.pump_flush();
        }
    }

    /// Starts what is wanted, if anything is.
    fn start_background(&mut self) {
        if self.unmount == Unmount::Done {
            return;
        }
        // Those that find no room never do, as nothing more is submitted that makes some.
        let is_all = self.uncommitted.is_empty() && (self.waiting.is_empty() || self.is_at_an_end());
        let wants_end = self.unmount == Unmount::Wanted && is_all;
        if wants_end {
            self.unmount = Unmount::Flushed;
        }
        if wants_end || self.wants_checkpoint() {
            self.start_flush(true);
        } else if self.wants_flush() {
            self.start_flush(false);
        }
    }

    /// True if much is pending that was not just looked at, or may find room now. Flushed blocks stay covered by the
    /// journal until the next checkpoint.
    fn wants_flush(&self) -> bool {
        let (memory, max) = (self.pending.memory(), self.config.pending_bytes_max);
        // What came while the last flush went counts as left, and nothing more may come.
        let is_stuck = self.has_too_much_pending() && self.committed_txn > self.pending.begun_at_txn;
        memory > max / 2
            && (is_stuck || self.pending.has_room_again || memory > self.pending.left.memory() + max / 8)
    }

    fn wants_checkpoint(&self) -> bool {
        let is_wanted = self.is_journal_full
            || self.ring.used_count() * 2 > self.ring.block_count()
            || self.wants_short_replay()
            || self.space.wants_checkpoint()
            || self.wants_room()
            || self.wants_clean_pages();
        is_wanted && self.may_find_room()
    }
}

#[cfg(test)]
mod tests;
