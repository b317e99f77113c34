//! Clean data in memory, by its place on the device.
//!
//! What a read brought is one segment, kept and evicted as one. A new segment is on probation: only if it
//! is read again before it reaches the end of a short queue does it move to the main one, where it stays
//! while it is read (S3-FIFO: Yang et al., SOSP 2023). So one pass over much data evicts nothing that is
//! used. Pinned segments, and those on their way to the device, stay.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, VecDeque},
};

use bytes::Bytes;
use codec::BLOCK_BYTES;

use crate::{allocator::Run, device::BLOCK};

/// The share of the probation queue: one of so many parts.
const PROBATION_PART: u64 = 10;
/// Reads that count.
const READS_MAX: u8 = 3;
/// Segments looked at for one eviction at most.
const LOOKS_MAX: usize = 16;
/// Places remembered of segments evicted from probation.
const GHOSTS_MAX: usize = 8192;
/// Places in the queues that are not worth a clean-up.
const PLACES_MIN: usize = 256;
/// What is left of a segment is copied out when it is less than this part of its buffer.
const REST_PART: usize = 2;

#[derive(Debug)]
struct Segment {
    data: Bytes,
    /// Checksum of each block.
    crcs: Vec<u32>,
    /// Blocks of the buffer that `data` keeps alive.
    held_count: usize,
    pins: u32,
    /// True while only memory has it.
    is_writing: bool,
    is_main: bool,
    /// Reads since it was queued, those for which it was loaded left out.
    reads: Cell<u8>,
    /// Its place in the queue is the one with this number.
    tick: u64,
}

impl Segment {
    fn count(&self) -> u64 {
        self.crcs.len() as u64
    }
}

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// By first block; they do not overlap.
    segments: BTreeMap<u64, Segment>,
    probation: VecDeque<(u64, u64)>,
    main: VecDeque<(u64, u64)>,
    ghosts: VecDeque<u64>,
    ghost_set: BTreeSet<u64>,
    next_tick: u64,
    bytes_max: u64,
    probation_bytes: u64,
    main_bytes: u64,
}

impl Cache {
    pub(crate) fn new(bytes_max: u64) -> Cache {
        Cache { bytes_max, ..Cache::default() }
    }

    /// Changes the limit.
    pub(crate) fn set_bytes_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
        self.evict();
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.probation_bytes + self.main_bytes
    }

    /// Segments held.
    pub(crate) fn count(&self) -> usize {
        self.segments.len()
    }

    /// Lets everything go that nobody needs at present.
    pub(crate) fn clear(&mut self) {
        let is_free = |segment: &Segment| segment.pins == 0 && !segment.is_writing;
        let free: Vec<u64> =
            self.segments.iter().filter(|(_, segment)| is_free(segment)).map(|(device, _)| *device).collect();
        for device in free {
            self.take(device);
        }
    }

    fn find(&self, device: u64) -> Option<(u64, &Segment)> {
        let (&start, segment) = self.segments.range(..=device).next_back()?;
        (device - start < segment.count()).then_some((start, segment))
    }

    /// The blocks from `device` on that are here with these checksums, as many as lie in one buffer.
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
        self.find(device).is_some_and(|(_, segment)| segment.is_writing)
    }

    /// Puts blocks in that were read or, with `is_writing`, are being written. [`Cache::evict`] is for the
    /// caller to call, who may want to pin them first.
    pub(crate) fn insert(&mut self, device: u64, data: Bytes, crcs: Vec<u32>, is_writing: bool) {
        debug_assert_eq!(data.len(), crcs.len() * BLOCK_BYTES);
        self.remove(Run { start: device, count: crcs.len() as u64 });
        let is_main = self.ghost_set.remove(&device);
        let held_count = crcs.len();
        let segment =
            Segment { data, crcs, held_count, pins: 0, is_writing, is_main, reads: Cell::new(0), tick: 0 };
        self.enqueue(device, segment);
    }

    fn enqueue(&mut self, device: u64, mut segment: Segment) {
        self.next_tick += 1;
        segment.tick = self.next_tick;
        let bytes = segment.count() * BLOCK;
        if segment.is_main {
            self.main.push_back((device, segment.tick));
            self.main_bytes += bytes;
        } else {
            self.probation.push_back((device, segment.tick));
            self.probation_bytes += bytes;
        }
        self.segments.insert(device, segment);
        self.compact();
    }

    /// Drops places in the queues whose segments are gone, when they are the most.
    fn compact(&mut self) {
        if self.probation.len() + self.main.len() > 2 * self.segments.len() + PLACES_MIN {
            let segments = &self.segments;
            let is_current = |&(device, tick): &(u64, u64)| {
                segments.get(&device).is_some_and(|segment| segment.tick == tick)
            };
            self.probation.retain(is_current);
            self.main.retain(is_current);
        }
    }

    fn take(&mut self, device: u64) -> Option<Segment> {
        let segment = self.segments.remove(&device)?;
        let bytes = segment.count() * BLOCK;
        if segment.is_main {
            self.main_bytes -= bytes;
        } else {
            self.probation_bytes -= bytes;
        }
        Some(segment)
    }

    fn starts(&self, run: Run) -> Vec<u64> {
        let first = self.find(run.start).map_or(run.start, |(start, _)| start);
        self.segments.range(first..run.end()).map(|(&start, _)| start).collect()
    }

    /// Forgets blocks: they are free, or hold something else.
    pub(crate) fn remove(&mut self, run: Run) {
        for start in self.starts(run) {
            let Some(segment) = self.take(start) else { continue };
            let end = start + segment.count();
            for (low, high) in [(start, run.start.min(end)), (run.end().max(start), end)] {
                if low < high {
                    self.enqueue(low, part(&segment, (low - start) as usize, (high - start) as usize));
                }
            }
        }
    }

    /// The device has these blocks.
    pub(crate) fn written(&mut self, run: Run) {
        for start in self.starts(run) {
            match self.segments.get_mut(&start) {
                Some(segment) if segment.pins > 0 => segment.is_writing = false,
                // What was just written is rarely read soon; who reads it, brings it.
                Some(_) => drop(self.take(start)),
                None => {}
            }
        }
    }

    /// Keeps the segments of these blocks until [`Cache::unpin`] of what is returned.
    pub(crate) fn pin(&mut self, run: Run) -> Vec<Run> {
        let mut out = Vec::new();
        for start in self.starts(run) {
            if let Some(segment) = self.segments.get_mut(&start) {
                segment.pins += 1;
                out.push(Run { start, count: segment.count() });
            }
        }
        out
    }

    pub(crate) fn unpin(&mut self, run: Run) {
        for start in self.starts(run) {
            self.segments.entry(start).and_modify(|segment| segment.pins = segment.pins.saturating_sub(1));
        }
    }

    /// Lets segments go until the limit is kept, looking at a few old ones.
    pub(crate) fn evict(&mut self) {
        let mut looks = LOOKS_MAX;
        while self.bytes() > self.bytes_max && looks > 0 {
            let from_probation =
                self.probation_bytes > self.bytes_max / PROBATION_PART || self.main.is_empty();
            let queue = if from_probation { &mut self.probation } else { &mut self.main };
            let Some((device, tick)) = queue.pop_front() else { return };
            if self.segments.get(&device).is_none_or(|segment| segment.tick != tick) {
                continue;
            }
            let Some(mut segment) = self.take(device) else { continue };
            if segment.pins > 0 || segment.is_writing {
                looks -= 1;
                self.enqueue(device, segment);
            } else if segment.reads.get() > 0 {
                // Half of what was read often is kept for the next round.
                let reads = if segment.is_main { segment.reads.get() - 1 } else { 0 };
                segment.reads.set(reads);
                segment.is_main = true;
                looks -= 1;
                self.enqueue(device, segment);
            } else if !segment.is_main {
                self.remember(device);
            }
        }
    }

    fn remember(&mut self, device: u64) {
        if self.ghost_set.insert(device) {
            self.ghosts.push_back(device);
        }
        if self.ghosts.len() > GHOSTS_MAX
            && let Some(oldest) = self.ghosts.pop_front()
        {
            self.ghost_set.remove(&oldest);
        }
    }
}

/// Blocks `[low, high)` of a segment as one of its own.
fn part(segment: &Segment, low: usize, high: usize) -> Segment {
    let slice = &segment.data[low * BLOCK_BYTES..high * BLOCK_BYTES];
    let is_small = (high - low) * REST_PART < segment.held_count;
    let (data, held_count) = if is_small {
        (Bytes::copy_from_slice(slice), high - low)
    } else {
        (segment.data.slice_ref(slice), segment.held_count)
    };
    Segment {
        data,
        crcs: segment.crcs[low..high].to_vec(),
        held_count,
        pins: segment.pins,
        is_writing: segment.is_writing,
        is_main: segment.is_main,
        reads: segment.reads.clone(),
        tick: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(cache: &mut Cache, device: u64, count: usize) {
        let crcs = (0..count).map(|at| device as u32 + at as u32).collect();
        cache.insert(device, Bytes::from(vec![device as u8; count * BLOCK_BYTES]), crcs, false);
        cache.evict();
    }

    fn has(cache: &Cache, device: u64) -> bool {
        cache.get(device, &[device as u32]).is_some()
    }

    #[test]
    fn one_pass_over_much_data_evicts_nothing_that_is_used() {
        let mut cache = Cache::new(100 * BLOCK);
        for round in 0..4 {
            for device in 0..50 {
                if !has(&cache, device) {
                    assert!(round < 2, "block {device} was evicted in round {round}");
                    put(&mut cache, device, 1);
                }
            }
            (1000 * (round + 1)..).take(400).for_each(|device| put(&mut cache, device, 1));
            assert!(cache.bytes() <= 100 * BLOCK);
        }
    }

    #[test]
    fn parts_of_segments_go_and_the_rest_stays() {
        let mut cache = Cache::new(100 * BLOCK);
        put(&mut cache, 10, 10);
        cache.remove(Run { start: 12, count: 1 });
        assert!(!has(&cache, 12) && has(&cache, 10) && has(&cache, 11) && has(&cache, 19));
        assert_eq!(cache.get(13, &[13, 14, 15]).unwrap().len(), 3 * BLOCK_BYTES);
        assert_eq!(cache.get(10, &[10, 11, 12]).unwrap().len(), 2 * BLOCK_BYTES);
        assert!(cache.get(13, &[99]).is_none());
        assert_eq!(cache.bytes(), 9 * BLOCK);
        put(&mut cache, 14, 3);
        assert_eq!(cache.bytes(), 9 * BLOCK);
    }

    #[test]
    fn the_pinned_and_the_unwritten_stay() {
        let mut cache = Cache::new(4 * BLOCK);
        put(&mut cache, 1, 2);
        assert_eq!(cache.pin(Run { start: 2, count: 1 }), [Run { start: 1, count: 2 }]);
        cache.insert(50, Bytes::from(vec![1; BLOCK_BYTES]), vec![50], true);
        (100..200).for_each(|device| put(&mut cache, device, 1));
        assert!(has(&cache, 1) && has(&cache, 50));
        cache.unpin(Run { start: 1, count: 2 });
        cache.written(Run { start: 50, count: 1 });
        assert!(!has(&cache, 50));
        (200..400).for_each(|device| put(&mut cache, device, 1));
        assert!(cache.bytes() <= 4 * BLOCK);
    }
}
