//! Clean blocks in memory, by their place on the device.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use codec::BLOCK_BYTES;

use crate::device::BLOCK;

#[derive(Debug)]
struct Entry {
    /// The buffer that the block came in, which its neighbours share.
    parent: Bytes,
    /// The block's number in `parent`.
    at: usize,
    crc: u32,
    pins: u32,
    /// True while the block is on its way to the device, when only memory has it.
    is_writing: bool,
    tick: u64,
}

/// Blocks are evicted in the order of their arrival, but for those pinned or being written. Looked up
/// by key only, never iterated, so a hash map is fine here.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    entries: HashMap<u64, Entry>,
    order: VecDeque<(u64, u64)>,
    next_tick: u64,
    bytes_max: u64,
}

impl Cache {
    pub(crate) fn new(bytes_max: u64) -> Cache {
        Cache { bytes_max, ..Cache::default() }
    }

    /// The block at `device`, if it is here with that checksum: its buffer and its number there.
    pub(crate) fn get(&self, device: u64, crc: u32) -> Option<(&Bytes, usize)> {
        let entry = self.entries.get(&device).filter(|entry| entry.crc == crc)?;
        Some((&entry.parent, entry.at))
    }

    /// The block's bytes.
    pub(crate) fn block(&self, device: u64, crc: u32) -> Option<&[u8]> {
        let (parent, at) = self.get(device, crc)?;
        Some(&parent[at * BLOCK_BYTES..][..BLOCK_BYTES])
    }

    pub(crate) fn insert(&mut self, device: u64, parent: Bytes, at: usize, crc: u32, is_writing: bool) {
        self.next_tick += 1;
        let tick = self.next_tick;
        let pins = self.entries.get(&device).map_or(0, |old| old.pins);
        self.entries.insert(device, Entry { parent, at, crc, pins, is_writing, tick });
        self.order.push_back((device, tick));
        self.evict();
    }

    pub(crate) fn remove(&mut self, device: u64) {
        self.entries.remove(&device);
    }

    pub(crate) fn written(&mut self, device: u64) {
        if let Some(entry) = self.entries.get_mut(&device) {
            entry.is_writing = false;
        }
    }

    pub(crate) fn pin(&mut self, device: u64) {
        if let Some(entry) = self.entries.get_mut(&device) {
            entry.pins += 1;
        }
    }

    pub(crate) fn unpin(&mut self, device: u64) {
        if let Some(entry) = self.entries.get_mut(&device) {
            entry.pins = entry.pins.saturating_sub(1);
        }
    }

    /// Lets blocks go until the limit is kept, looking at a few old ones.
    pub(crate) fn evict(&mut self) {
        let mut looks = 8;
        while self.order.len() as u64 * BLOCK > self.bytes_max && looks > 0 {
            let Some((device, tick)) = self.order.pop_front() else { return };
            match self.entries.get_mut(&device) {
                Some(entry) if entry.tick == tick && (entry.pins > 0 || entry.is_writing) => {
                    self.order.push_back((device, tick));
                    looks -= 1;
                }
                Some(entry) if entry.tick == tick => {
                    self.entries.remove(&device);
                }
                Some(_) | None => {}
            }
        }
    }
}
