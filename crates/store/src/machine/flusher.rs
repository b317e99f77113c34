//! Pending small writes go to their places: whole blocks over the old ones, the rest to new blocks.
//!
//! Requests go on meanwhile, on the same device: few writes are in flight at once, more only as more is
//! pending, so that commits do not queue up behind a burst.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

use bytes::Bytes;
use codec::{AlignedBuf, BLOCK_BYTES, Payload, crc32c, traffic};
use types::{CollId, HObject};

use super::{Background, Purpose, Store, Unmount};
use crate::{
    DeviceError, device::BLOCK, extent_map::Mapped, journal::is_of_blocks, onode::Onode, space::Run,
};

/// Parts of objects flushed at once.
const JOBS_MAX: usize = 4;
/// Blocks of one part: what is put together in one turn.
const JOB_BLOCKS_MAX: usize = 64;
/// Writes in flight while little is pending; doubled for each quarter of `pending_bytes_max`.
const WRITES_MIN: usize = 4;
/// Doublings at most.
const DOUBLINGS_MAX: u64 = 6;
/// Blocks that found no room are tried again if the flush reduced what is pending by one of so many parts.
const AGAIN_PARTS: u64 = 8;
/// Doublings while the journal, or requests, wait for the flush.
const DOUBLINGS_URGENT: u64 = 4;

#[derive(Debug, Default)]
pub(super) struct Flushing {
    /// Objects left, each with the block to go on from.
    queue: VecDeque<(CollId, HObject, u64)>,
    jobs: BTreeMap<u64, Job>,
    next_job: u64,
    /// Writes of jobs that wait for their turn: job, first block on the device, bytes.
    writes: VecDeque<(u64, u64, (Bytes, Vec<Bytes>))>,
    writing_count: usize,
    is_checkpoint_next: bool,
    /// What was pending at its start, and whether some of it has found no room.
    bytes: u64,
    lacked_room: bool,
    /// Pending bytes of blocks on their way to new places.
    placing_bytes: u64,
}

#[derive(Debug)]
struct Job {
    coll: CollId,
    object: HObject,
    /// The part of the object.
    blocks: Range<u64>,
    /// Blocks whose old bytes are needed, and then those bytes.
    reads: Vec<(u64, Mapped)>,
    olds: BTreeMap<u64, (Mapped, Bytes)>,
    /// Commands outstanding, or to be issued.
    left: usize,
    /// The last committed transaction when the blocks were put together.
    upto: u64,
    generation: u64,
    moves: Vec<Move>,
    /// Pending bytes of the blocks that have new places.
    placing_bytes: u64,
}

/// A block being written: over the old one, or to a new place.
#[derive(Clone, Copy, Debug)]
struct Move {
    block: u64,
    to: Mapped,
    is_in_place: bool,
}

/// A block put together from what is pending and what was there.
struct Merged {
    block: u64,
    /// In aligned memory, as a device takes it.
    bytes: Payload,
    /// Where it may be written over.
    in_place: Option<u64>,
    /// How much of it is pending.
    pending_bytes: u64,
}

impl Store {
    /// Goes once over all objects with pending bytes.
    pub(super) fn start_flush(&mut self, is_checkpoint_next: bool) {
        self.pending.has_room_again = false;
        self.pending.begun_at_txn = self.committed_txn;
        let queue = self.pending.objects.iter().map(|(coll, object)| (*coll, object.clone(), 0)).collect();
        let flushing =
            Flushing { queue, is_checkpoint_next, bytes: self.pending.bytes, ..Flushing::default() };
        self.background = Background::Flushing(flushing);
    }

    pub(super) fn pump_flush(&mut self) {
        while let Background::Flushing(flushing) = &mut self.background {
            if flushing.jobs.len() < JOBS_MAX
                && let Some((coll, object, from)) = flushing.queue.pop_front()
            {
                let id = flushing.next_job;
                flushing.next_job += 1;
                self.start_job(id, coll, object, from);
                continue;
            }
            self.issue_flush_writes();
            if !self.end_flush() {
                return;
            }
        }
    }

    /// Goes on to what comes after the flush, if it is done.
    fn end_flush(&mut self) -> bool {
        let Background::Flushing(flushing) = &self.background else { return false };
        if !flushing.queue.is_empty() || !flushing.jobs.is_empty() {
            return false;
        }
        // What went over old blocks needs no room in a checkpoint any more: there may be some for the rest.
        let is_much_less = self.pending.bytes < flushing.bytes / AGAIN_PARTS * (AGAIN_PARTS - 1);
        if flushing.lacked_room && is_much_less {
            self.start_flush(flushing.is_checkpoint_next);
            return true;
        }
        self.pending.left = self.pending.amount();
        self.pending.lacks_room = flushing.lacked_room;
        if flushing.is_checkpoint_next {
            self.start_checkpoint();
        } else {
            self.background = Background::Idle;
            self.start_background();
        }
        true
    }

    fn issue_flush_writes(&mut self) {
        let quarters = self.pending.memory() * 4 / self.config.pending_bytes_max.max(1);
        let is_urgent = self.is_journal_full || self.waiting.has_held() || self.unmount != Unmount::No;
        let doublings = quarters.max(if is_urgent { DOUBLINGS_URGENT } else { 0 }).min(DOUBLINGS_MAX);
        let writes_max = WRITES_MIN << doublings;
        loop {
            let Background::Flushing(flushing) = &mut self.background else { return };
            if flushing.writing_count >= writes_max {
                return;
            }
            let Some((job, start, data)) = flushing.writes.pop_front() else { return };
            flushing.writing_count += 1;
            self.write_pieces(start, data, false, Purpose::FlushWrite { job });
        }
    }

    fn start_job(&mut self, id: u64, coll: CollId, object: HObject, from: u64) {
        let Some(onode) = self.index.get(coll, &object) else { return };
        let mut olds = BTreeMap::new();
        let mut reads = Vec::new();
        let ready = ready_blocks(onode, from..u64::MAX, self.committed_txn);
        // Each pass ends: it goes on behind what it saw, and comes to each block once.
        let end = ready.get(JOB_BLOCKS_MAX).copied().unwrap_or(u64::MAX);
        for &block in ready.iter().take_while(|block| **block < end) {
            let Some(mapped) = onode.extents.lookup(block) else { continue };
            if onode.pending.covers(block * BLOCK, (block + 1) * BLOCK) {
                continue;
            }
            match self.cache.get(mapped.device, &[mapped.crc]) {
                Some(bytes) => {
                    olds.insert(block, (mapped, bytes));
                }
                None => reads.push((block, mapped)),
            }
        }
        if let Background::Flushing(flushing) = &mut self.background
            && end < u64::MAX
        {
            flushing.queue.push_back((coll, object.clone(), end));
        }
        let (left, blocks) = (reads.len(), from..end);
        let job = Job {
            coll,
            object,
            blocks,
            reads,
            olds,
            left,
            upto: 0,
            generation: 0,
            moves: Vec::new(),
            placing_bytes: 0,
        };
        if left == 0 {
            return self.write_job(id, job);
        }
        for (read, &(_, mapped)) in job.reads.iter().enumerate() {
            let run = Run { start: mapped.device, count: 1 };
            self.read_device(run, Purpose::FlushRead { job: id, read });
        }
        if let Background::Flushing(flushing) = &mut self.background {
            flushing.jobs.insert(id, job);
        }
    }

    /// A block that cannot be read, or is not what it was, stays pending: the checkpoint keeps it.
    pub(super) fn flush_read_done(
        &mut self,
        id: u64,
        read: usize,
        result: Result<Option<Bytes>, DeviceError>,
    ) {
        let Background::Flushing(flushing) = &mut self.background else { return };
        let Some(mut job) = flushing.jobs.remove(&id) else { return };
        let (block, mapped) = job.reads[read];
        match result {
            Ok(Some(data)) if data.len() == BLOCK_BYTES && crc32c(u32::MAX, &data) == mapped.crc => {
                job.olds.insert(block, (mapped, data));
            }
            Ok(_) | Err(_) => {
                tracing::warn!(object = %job.object, block, "a block to merge with is unreadable")
            }
        }
        job.left -= 1;
        if job.left > 0 {
            flushing.jobs.insert(id, job);
        } else {
            self.write_job(id, job);
            self.run_background();
        }
    }

    fn write_job(&mut self, id: u64, mut job: Job) {
        let Some(onode) = self.index.get(job.coll, &job.object) else { return };
        job.upto = self.committed_txn;
        job.generation = onode.generation;
        let mut placed = Vec::new();
        let mut moved = Vec::new();
        for block in ready_blocks(onode, job.blocks.clone(), job.upto) {
            let Some(mut merged) = merge(onode, block, job.olds.get(&block)) else { continue };
            merged.in_place = merged.in_place.filter(|&old| self.space.is_exclusive(old));
            if merged.in_place.is_some() { placed.push(merged) } else { moved.push(merged) }
        }
        let mut targets: Vec<(u64, Merged)> =
            placed.into_iter().filter_map(|merged| merged.in_place.map(|at| (at, merged))).collect();
        let found = self.find_places(moved);
        let Background::Flushing(flushing) = &mut self.background else { return };
        job.placing_bytes = found.iter().map(|(_, merged)| merged.pending_bytes).sum();
        flushing.placing_bytes += job.placing_bytes;
        targets.extend(found);
        let mut rest = targets.as_slice();
        job.left = 0;
        while let Some(&(start, _)) = rest.first() {
            let same_run = |(at, pair): &(usize, &(u64, Merged))| pair.0 == start + *at as u64;
            let count = rest.iter().enumerate().take_while(same_run).count();
            let (run, tail) = rest.split_at(count);
            rest = tail;
            for (device, merged) in run {
                let to = Mapped { device: *device, crc: merged.bytes.crc() };
                job.moves.push(Move { block: merged.block, to, is_in_place: merged.in_place.is_some() });
            }
            let mut pieces = run.iter().map(|(_, merged)| Bytes::clone(&merged.bytes));
            let Some(first) = pieces.next() else { break };
            flushing.writes.push_back((id, start, (first, pieces.collect())));
            job.left += 1;
        }
        if job.left > 0 {
            flushing.jobs.insert(id, job);
        }
    }

    /// New places for blocks: for all of them, or for those that are pending as a whole, or for none.
    fn find_places(&mut self, mut moved: Vec<Merged>) -> Vec<(u64, Merged)> {
        let Background::Flushing(flushing) = &mut self.background else { return Vec::new() };
        let placing = flushing.placing_bytes;
        while !moved.is_empty() {
            let bytes = moved.iter().map(|merged| merged.pending_bytes).sum();
            if let Some(runs) = self.allocate_places(moved.len() as u64, bytes, placing) {
                let places = runs.into_iter().flat_map(|run| run.start..run.end());
                return places.zip(moved).collect();
            }
            if let Background::Flushing(flushing) = &mut self.background {
                flushing.lacked_room = true;
            }
            let count = moved.len();
            moved.retain(|merged| merged.pending_bytes == BLOCK);
            if moved.len() == count {
                break;
            }
        }
        Vec::new()
    }

    pub(super) fn flush_write_done(&mut self, id: u64) {
        let Background::Flushing(flushing) = &mut self.background else { return };
        flushing.writing_count -= 1;
        let Some(mut job) = flushing.jobs.remove(&id) else { return };
        job.left -= 1;
        if job.left > 0 {
            flushing.jobs.insert(id, job);
            return;
        }
        flushing.placing_bytes -= job.placing_bytes;
        for step in &job.moves {
            self.cache.remove(Run { start: step.to.device, count: 1 });
        }
        let exists = self.index.get(job.coll, &job.object).is_some_and(|o| o.generation == job.generation);
        if !exists {
            // The object changed under the flush. What was overwritten in place is still covered.
            for step in job.moves.iter().filter(|step| !step.is_in_place) {
                self.space.release(Run { start: step.to.device, count: 1 });
            }
            return;
        }
        let mut freed = Vec::new();
        let (before, after) = self.index.change(job.coll, &job.object, |onode| {
            let before = onode.pending.amount();
            for step in &job.moves {
                onode.pending.remove_upto(step.block * BLOCK, (step.block + 1) * BLOCK, job.upto);
                if step.is_in_place {
                    onode.extents.set_crc(step.block, step.to.crc);
                } else {
                    freed.extend(onode.extents.punch_blocks(step.block, step.block + 1));
                    onode.extents.insert(step.block, step.to.device, &[step.to.crc]);
                }
            }
            (before, onode.pending.amount())
        });
        self.pending.count(&job.object, before, after);
        let coll = job.coll;
        if after.bytes == 0 {
            self.pending.objects.remove(&(coll, job.object));
        }
        // What was pending in a hole counted already.
        freed.into_iter().for_each(|run| self.release(coll, run));
    }
}

/// Blocks of `within` with pending bytes that are all committed: the first ones, as many as a job takes and
/// one more.
fn ready_blocks(onode: &Onode, within: Range<u64>, upto: u64) -> Vec<u64> {
    let mut out = Vec::new();
    let mut last = None;
    let bytes = within.start.saturating_mul(BLOCK)..within.end.saturating_mul(BLOCK);
    for (offset, part, txn) in onode.pending.range(bytes.start, bytes.end) {
        let end = offset + part.len() as u64;
        for block in offset / BLOCK..end.div_ceil(BLOCK) {
            match &mut last {
                Some((known, is_ready)) if *known == block => *is_ready &= txn <= upto,
                _ => {
                    out.extend(last.filter(|(_, is_ready)| *is_ready).map(|(block, _)| block));
                    last = Some((block, txn <= upto));
                }
            }
            if out.len() > JOB_BLOCKS_MAX {
                return out;
            }
        }
    }
    out.extend(last.filter(|(_, is_ready)| *is_ready).map(|(block, _)| block));
    out
}

/// The block as it should be, or `None` if its old bytes are needed and not at hand.
fn merge(onode: &Onode, block: u64, old: Option<&(Mapped, Bytes)>) -> Option<Merged> {
    let (from, to) = (block * BLOCK, (block + 1) * BLOCK);
    let mapped = onode.extents.lookup(block);
    let in_place = mapped.filter(|_| onode.pending.covers(from, to)).map(|mapped| mapped.device);
    if let Some(whole) = onode.pending.exactly(from, to).filter(|data| is_of_blocks(data)) {
        return Some(Merged { block, bytes: whole.clone(), in_place, pending_bytes: BLOCK });
    }
    let mut bytes = match mapped.filter(|_| in_place.is_none()) {
        Some(mapped) => AlignedBuf::from_slice(&old.filter(|(old, _)| *old == mapped)?.1),
        None => AlignedBuf::zeroed(BLOCK_BYTES),
    };
    let mut pending_bytes = 0;
    for (offset, part, _) in onode.pending.range(from, to) {
        traffic::copied(part.len());
        pending_bytes += part.len() as u64;
        bytes.as_mut_slice()[(offset - from) as usize..][..part.len()].copy_from_slice(part);
    }
    Some(Merged { block, bytes: Bytes::from(bytes).into(), in_place, pending_bytes })
}
