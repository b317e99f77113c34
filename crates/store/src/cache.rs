//! Clean data in memory, by its place on the device.
//!
//! What a read brought is one segment, kept and evicted as one. A new segment is on probation: only if it is read again
//! before it reaches the end of a short queue, or soon after, does it move to the main one, where it stays while it is
//! read (S3-FIFO: Yang et al., SOSP 2023). So one pass over much data evicts nothing that is in use. Nor does it take
//! more memory than that queue has: filling memory that was not used before costs more than reading the device once
//! more. Pinned segments stay. Segments on their way to the device, and what large reads brought, which the device
//! serves nearly as cheaply, are in no queue and stay only as long as they are needed.

mod ghosts;

use std::{cell::Cell, collections::BTreeMap};

use bytes::Bytes;
use codec::BLOCK_BYTES;

use self::ghosts::Ghosts;
use crate::{device::BLOCK, space::Run};

/// The share of the probation queue in a full cache: one of so many parts.
const PROBATION_PART: u64 = 10;
/// Its bytes at most, however much room there is.
const PROBATION_BYTES_MAX: u64 = 32 << 20;
/// Reads that count.
const READS_MAX: u8 = 3;
/// Segments looked at by one eviction, and at most, however far the limit is surpassed: a millisecond's work.
const LOOKS_MIN: u64 = 64;
const LOOKS_MAX: u64 = 1024;
/// What is left of a buffer goes when it is less than this part of it.
const REST_PART: u64 = 2;

/// Why blocks come here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retention {
    /// They were read, and may be read again.
    Cached,
    /// They were read, and go with the last pin.
    WhilePinned,
    /// Only memory has them, until the device has written them.
    UntilWritten,
}

#[derive(Debug)]
struct Segment {
    data: Bytes,
    /// Checksum of each block.
    crcs: Vec<u32>,
    /// The buffer of which this is a part, with others or alone; `None` if it is the whole of it.
    part_of: Option<u64>,
    pins: u32,
    retention: Retention,
    is_main: bool,
    /// Reads since it was queued, those for which it was loaded left out.
    reads: Cell<u8>,
    /// Its place in its queue.
    tick: u64,
}

/// A segment in the map of all: apart from it, so that a search, which passes many, reads little memory.
#[derive(Debug)]
struct Kept {
    /// Blocks of the segment.
    count: u64,
    segment: Box<Segment>,
}

impl Segment {
    fn count(&self) -> u64 {
        self.crcs.len() as u64
    }

    fn is_free(&self) -> bool {
        self.pins == 0 && self.retention == Retention::Cached
    }
}

/// A buffer that is no longer used as a whole; its memory is freed with its last segment.
#[derive(Debug)]
struct Broken {
    /// Where it was on the device.
    run: Run,
    /// Blocks that segments have.
    used_count: u64,
}

/// Segments in the order in which they came.
#[derive(Debug, Default)]
struct Queue {
    /// First blocks.
    places: BTreeMap<u64, u64>,
    block_count: u64,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct Cache {
    /// By first block; they do not overlap.
    segments: BTreeMap<u64, Kept>,
    broken: BTreeMap<u64, Broken>,
    /// Blocks of broken buffers that no segment has.
    wasted_count: u64,
    probation: Queue,
    main: Queue,
    /// Blocks of segments that are in no queue.
    passing_count: u64,
    /// First blocks of segments evicted from probation.
    ghosts: Ghosts,
    /// Of segments in queues, and of broken buffers.
    next_tick: u64,
    bytes_max: u64,
}

impl Cache {
    pub(crate) fn new(bytes_max: u64) -> Cache {
        Cache {
            segments: BTreeMap::new(),
            broken: BTreeMap::new(),
            wasted_count: 0,
            probation: Queue::default(),
            main: Queue::default(),
            passing_count: 0,
            ghosts: Ghosts::new(bytes_max / BLOCK),
            next_tick: 0,
            bytes_max,
        }
    }

    /// Changes the limit. What is above it goes with this and the next calls of [`Cache::evict`].
    pub(crate) fn set_bytes_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
        self.ghosts.set_blocks_max(bytes_max / BLOCK);
        self.evict();
    }

    /// Bytes of memory held.
    pub(crate) fn bytes(&self) -> u64 {
        self.kept_bytes() + self.passing_count * BLOCK
    }

    /// Of what is in the queues.
    fn kept_bytes(&self) -> u64 {
        (self.probation.block_count + self.main.block_count + self.wasted_count) * BLOCK
    }

    /// Segments held.
    pub(crate) fn count(&self) -> usize {
        self.segments.len()
    }

    /// Lets go of everything that is not needed at present.
    pub(crate) fn clear(&mut self) {
        let free = self.segments.iter().filter(|(_, kept)| kept.segment.is_free());
        for device in free.map(|(device, _)| *device).collect::<Vec<_>>() {
            self.forget(device);
        }
    }

    fn segment(&self, first: u64) -> Option<&Segment> {
        self.segments.get(&first).map(|kept| &*kept.segment)
    }

    fn segment_mut(&mut self, first: u64) -> Option<&mut Segment> {
        self.segments.get_mut(&first).map(|kept| &mut *kept.segment)
    }

    fn find(&self, device: u64) -> Option<(u64, &Segment)> {
        let (&start, kept) = self.segments.range(..=device).next_back()?;
        (device - start < kept.count).then_some((start, &*kept.segment))
    }

    /// The blocks from `device` on that are here with these checksums, as many as lie in one segment.
    pub(crate) fn get(&self, device: u64, crcs: &[u32]) -> Option<Bytes> {
        let (start, segment) = self.find(device)?;
        let at = (device - start) as usize;
        let same = segment.crcs[at..].iter().zip(crcs).take_while(|(a, b)| a == b).count();
        if same == 0 {
            return None;
        }
        if segment.pins == 0 && segment.reads.get() < READS_MAX {
            segment.reads.set(segment.reads.get() + 1);
        }
        Some(segment.data.slice(at * BLOCK_BYTES..(at + same) * BLOCK_BYTES))
    }

    /// True if the block is here with that checksum.
    pub(crate) fn has(&self, device: u64, crc: u32) -> bool {
        self.find(device).is_some_and(|(start, segment)| segment.crcs[(device - start) as usize] == crc)
    }

    /// True if the block is on its way to the device, which does not have it yet.
    pub(crate) fn is_writing(&self, device: u64) -> bool {
        self.find(device).is_some_and(|(_, segment)| segment.retention == Retention::UntilWritten)
    }

    /// Puts blocks in that have to stay until [`Cache::unpin`] of their run.
    pub(crate) fn insert_pinned(&mut self, device: u64, data: Bytes, crcs: Vec<u32>, retention: Retention) {
        self.put(device, data, crcs, (retention, 1));
    }

    /// Puts blocks in. The caller calls [`Cache::evict`] itself, as it may want to pin them first.
    pub(crate) fn insert(&mut self, device: u64, data: Bytes, crcs: Vec<u32>, retention: Retention) {
        self.put(device, data, crcs, (retention, 0));
    }

    fn put(&mut self, device: u64, data: Bytes, crcs: Vec<u32>, (retention, pins): (Retention, u32)) {
        debug_assert_eq!(data.len(), crcs.len() * BLOCK_BYTES);
        self.remove(Run { start: device, count: crcs.len() as u64 });
        let is_main = self.ghosts.take(device);
        let reads = Cell::new(0);
        let segment = Segment { data, crcs, part_of: None, pins, retention, is_main, reads, tick: 0 };
        self.enqueue(device, Box::new(segment));
    }

    fn queue(&mut self, is_main: bool) -> &mut Queue {
        if is_main { &mut self.main } else { &mut self.probation }
    }

    fn enqueue(&mut self, device: u64, mut segment: Box<Segment>) {
        let count = segment.count();
        if segment.retention == Retention::Cached {
            self.next_tick += 1;
            segment.tick = self.next_tick;
            let queue = self.queue(segment.is_main);
            queue.places.insert(segment.tick, device);
            queue.block_count += count;
        } else {
            self.passing_count += count;
        }
        self.segments.insert(device, Kept { count, segment });
    }

    /// Takes a segment out, which may come back.
    fn take(&mut self, device: u64) -> Option<Box<Segment>> {
        let Kept { count, segment } = self.segments.remove(&device)?;
        if segment.retention == Retention::Cached {
            let queue = self.queue(segment.is_main);
            queue.places.remove(&segment.tick);
            queue.block_count -= count;
        } else {
            self.passing_count -= count;
        }
        Some(segment)
    }

    /// Drops a segment.
    fn forget(&mut self, device: u64) {
        if let Some(segment) = self.take(device)
            && let Some(buffer) = segment.part_of
        {
            self.unuse(buffer, segment.count());
        }
    }

    /// The first segment that has a block of `run`, as its own run.
    fn first_in(&self, run: Run) -> Option<Run> {
        let of = |(&start, kept): (&u64, &Kept)| Run { start, count: kept.count };
        let last = self.segments.range(..run.end()).next_back().map(of)?;
        if last.end() <= run.start || run.count == 0 {
            return None;
        }
        // Mostly there is but one.
        if last.start <= run.start {
            return Some(last);
        }
        let before = self.segments.range(..=run.start).next_back().map(of).filter(|at| at.end() > run.start);
        before.or_else(|| self.segments.range(run.start..).next().map(of))
    }

    /// What is left of `run` behind `done`.
    fn behind(run: Run, done: Run) -> Run {
        let start = done.end().min(run.end());
        Run { start, count: run.end() - start }
    }

    /// Forgets blocks: they are free, or hold something else.
    pub(crate) fn remove(&mut self, run: Run) {
        let mut left = run;
        while let Some(whole) = self.first_in(left) {
            left = Self::behind(left, whole);
            let (start, end) = (whole.start, whole.end());
            let Some(mut segment) = self.take(start) else { continue };
            let rest = [(start, run.start.min(end)), (run.end().max(start), end)];
            let rest = rest.into_iter().filter(|(low, high)| low < high);
            if segment.part_of.is_none() && rest.clone().next().is_some() {
                self.next_tick += 1;
                self.broken.insert(self.next_tick, Broken { run: whole, used_count: whole.count });
                segment.part_of = Some(self.next_tick);
            }
            for (low, high) in rest {
                let part = part(&segment, (low - start) as usize, (high - start) as usize);
                self.enqueue(low, Box::new(part));
            }
            if let Some(buffer) = segment.part_of {
                self.unuse(buffer, end.min(run.end()) - start.max(run.start));
            }
        }
    }

    /// So many blocks of a broken buffer are no longer used. When most are not, the rest goes as well: copying it to
    /// free the buffer would cost a write of one block far more than a later read saves.
    fn unuse(&mut self, id: u64, count: u64) {
        let Some(buffer) = self.broken.get_mut(&id) else { return };
        buffer.used_count -= count;
        self.wasted_count += count;
        let Broken { run, used_count } = *buffer;
        let mut left_count = used_count;
        if used_count > 0 && used_count * REST_PART < run.count {
            let mut left = run;
            while let Some(at) = self.first_in(left) {
                left = Self::behind(left, at);
                let is_rest = |segment: &Segment| segment.part_of == Some(id) && segment.is_free();
                if self.segment(at.start).is_some_and(is_rest) {
                    left_count -= self.take(at.start).map_or(0, |segment| segment.count());
                }
            }
        }
        self.wasted_count += used_count - left_count;
        if left_count == 0 {
            self.broken.remove(&id);
            self.wasted_count -= run.count;
        } else {
            self.broken.insert(id, Broken { run, used_count: left_count });
        }
    }

    /// The device has these blocks.
    pub(crate) fn written(&mut self, run: Run) {
        let mut left = run;
        while let Some(at) = self.first_in(left) {
            left = Self::behind(left, at);
            let Some(segment) = self.segment_mut(at.start) else { continue };
            match (segment.pins, segment.retention) {
                // What was just written is rarely read soon; a read that needs it loads it again.
                (0, _) => self.forget(at.start),
                (_, Retention::UntilWritten) => segment.retention = Retention::WhilePinned,
                (_, Retention::Cached | Retention::WhilePinned) => {}
            }
        }
    }

    /// Keeps the segments of these blocks until [`Cache::unpin`] of what is returned.
    pub(crate) fn pin(&mut self, run: Run) -> Vec<Run> {
        let mut out = Vec::new();
        let mut left = run;
        while let Some(at) = self.first_in(left) {
            left = Self::behind(left, at);
            if let Some(segment) = self.segment_mut(at.start) {
                segment.pins += 1;
                out.push(at);
            }
        }
        out
    }

    pub(crate) fn unpin(&mut self, run: Run) {
        // Mostly the segment is as it was.
        if let Some(segment) = self.segment_mut(run.start).filter(|at| at.count() == run.count)
            && (segment.pins > 1 || segment.retention != Retention::WhilePinned)
        {
            segment.pins = segment.pins.saturating_sub(1);
            return;
        }
        let mut left = run;
        while let Some(at) = self.first_in(left) {
            left = Self::behind(left, at);
            let Some(segment) = self.segment_mut(at.start) else { continue };
            segment.pins = segment.pins.saturating_sub(1);
            if segment.pins == 0 && segment.retention == Retention::WhilePinned {
                self.forget(at.start);
            }
        }
    }

    /// True if there is more than is to be kept.
    pub(crate) fn is_above_limit(&self) -> bool {
        self.kept_bytes() > self.bytes_max || self.probation.block_count * BLOCK > PROBATION_BYTES_MAX
    }

    /// Lets segments go until the limits are kept, looking at some old ones: more where more is to go.
    pub(crate) fn evict(&mut self) {
        let looks =
            (self.kept_bytes().saturating_sub(self.bytes_max) / BLOCK * 2).clamp(LOOKS_MIN, LOOKS_MAX);
        for _ in 0..looks {
            if !self.is_above_limit() {
                return;
            }
            let probation = self.probation.block_count * BLOCK;
            let probation_max = PROBATION_BYTES_MAX.min(self.bytes_max / PROBATION_PART);
            let is_main = probation <= probation_max && self.main.block_count > 0;
            let Some((_, &device)) = self.queue(is_main).places.first_key_value() else { return };
            let Some(segment) = self.segment(device) else { return };
            if segment.is_free() && segment.reads.get() == 0 {
                self.forget(device);
                if !is_main {
                    self.ghosts.remember(device);
                }
            } else if let Some(mut segment) = self.take(device) {
                // Half of what was read often is kept for the next round.
                let reads = segment.reads.get();
                if segment.pins == 0 {
                    segment.reads.set(if is_main { reads - 1 } else { 0 });
                    segment.is_main = true;
                }
                self.enqueue(device, segment);
            }
        }
    }
}

/// Blocks `[low, high)` of a segment as one of its own, in the same memory.
fn part(segment: &Segment, low: usize, high: usize) -> Segment {
    Segment {
        data: segment.data.slice(low * BLOCK_BYTES..high * BLOCK_BYTES),
        crcs: segment.crcs[low..high].to_vec(),
        part_of: segment.part_of,
        pins: segment.pins,
        retention: segment.retention,
        is_main: segment.is_main,
        reads: segment.reads.clone(),
        tick: 0,
    }
}

#[cfg(test)]
mod tests;
