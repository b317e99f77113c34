//! The write-ahead log: records in a ring, each one durable write.
//!
//! Positions count blocks since the epoch's start and never wrap; a record lies at its position modulo
//! the ring's size, whole: one that does not fit before the ring's end starts at the next wrap.

mod record;

use std::collections::VecDeque;

pub(crate) use record::{Body, Direct, Encoded, Header, shape};

/// A record on its way to the device.
#[derive(Debug)]
struct Writing {
    sequence: u64,
    position: u64,
    last_txn: u64,
    is_done: bool,
}

#[derive(Debug)]
pub(crate) struct Ring {
    block_count: u64,
    head: u64,
    tail: u64,
    next_sequence: u64,
    writing: VecDeque<Writing>,
}

impl Ring {
    pub(crate) fn new(block_count: u64) -> Ring {
        Ring { block_count, head: 0, tail: 0, next_sequence: 1, writing: VecDeque::new() }
    }

    /// Where the next record goes, and its sequence number.
    pub(crate) fn head(&self) -> (u64, u64) {
        (self.head, self.next_sequence)
    }

    pub(crate) fn writing_count(&self) -> usize {
        self.writing.len()
    }

    pub(crate) fn used_count(&self) -> u64 {
        self.head - self.tail
    }

    pub(crate) fn block_count(&self) -> u64 {
        self.block_count
    }

    /// Takes room for a record of `count` blocks: its block in the ring and its sequence number.
    pub(crate) fn reserve(&mut self, count: u64, last_txn: u64) -> Option<(u64, u64)> {
        if count > self.block_count {
            return None;
        }
        let position = place(self.head, count, self.block_count);
        // A trimmed record that is still being written must not meet a new one.
        let oldest = self.writing.front().map_or(self.tail, |first| first.position.min(self.tail));
        if position + count - oldest > self.block_count {
            return None;
        }
        self.head = position + count;
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.writing.push_back(Writing { sequence, position, last_txn, is_done: false });
        Some((position % self.block_count, sequence))
    }

    /// A record is durable. Returns the last transaction up to which all records are, if that moved.
    pub(crate) fn done(&mut self, sequence: u64) -> Option<u64> {
        let record = self.writing.iter_mut().find(|record| record.sequence == sequence)?;
        record.is_done = true;
        let mut last = None;
        while let Some(first) = self.writing.front().filter(|first| first.is_done) {
            last = Some(first.last_txn);
            self.writing.pop_front();
        }
        last
    }

    /// Gives back the room of records before `position`.
    pub(crate) fn trim(&mut self, position: u64) {
        self.tail = position;
    }
}

/// The position at or after `head` of a record of `count` blocks.
pub(crate) fn place(head: u64, count: u64, block_count: u64) -> u64 {
    let room = block_count - head % block_count;
    if count <= room { head } else { head + room }
}
