//! The write-ahead log: records in a ring, each one durable write.
//!
//! Positions count blocks since the epoch's start and never wrap; a record lies at its position modulo
//! the ring's size, whole: one that does not fit before the ring's end starts at the next wrap.
//!
//! On a file the first write to a place costs a commit of the file system's own journal, and a thread. So
//! zeros are written ahead of the first lap, much at a time.

mod key;
mod record;

use std::{collections::VecDeque, ops::Range};

use bytes::Bytes;
use codec::AlignedBuf;

pub use key::JournalKey;
pub(crate) use record::{Body, Direct, Draft, Encoded, Header, is_of_blocks, shape};

use crate::device::BLOCK;

/// Blocks of zeros in one write.
const ZEROS_BLOCKS: u64 = 1024;
/// Blocks of the one piece of memory that all of these are written from.
const ZEROS_PIECE_BLOCKS: u64 = 16;
/// Blocks ahead of the head that are to have been written.
const AHEAD_BLOCKS: u64 = 2 * ZEROS_BLOCKS;
/// Blocks between the head and the zeros: records need not wait for them.
const GAP_BLOCKS: u64 = 128;

/// Where a record is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    /// Where it begins, in blocks since the epoch's start.
    pub(crate) position: u64,
    /// Its number among the records.
    pub(crate) sequence: u64,
}

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
    /// Memory of what all records up to the head leave pending in a mount, and of what those before the tail did.
    head_memory: u64,
    tail_memory: u64,
    /// Positions of the first lap up to which the device has been written, or soon is.
    written: u64,
    /// Zeros on their way to the device.
    zeros: Option<Range<u64>>,
    /// Zeros in memory, once some were wanted.
    zeros_piece: Bytes,
}

impl Ring {
    /// `written`: the blocks at the ring's start that need no zeros.
    pub(crate) fn new(block_count: u64, written: u64) -> Ring {
        let writing = VecDeque::new();
        Ring {
            block_count,
            head: 0,
            tail: 0,
            next_sequence: 1,
            writing,
            head_memory: 0,
            tail_memory: 0,
            written,
            zeros: None,
            zeros_piece: Bytes::new(),
        }
    }

    /// The blocks of the ring where zeros are to be written; [`Ring::zeros_done`] has to follow.
    pub(crate) fn wants_zeros(&mut self) -> Option<Range<u64>> {
        if self.zeros.is_some() || self.written >= self.block_count.min(self.head + AHEAD_BLOCKS) {
            return None;
        }
        // On the first lap nothing lies ahead of the head that a mount needs.
        let from = self.written.max(self.head + GAP_BLOCKS);
        let to = self.block_count.min(from + ZEROS_BLOCKS);
        self.written = to.max(self.written);
        if from >= to {
            return None;
        }
        self.zeros = Some(from..to);
        self.zeros.clone()
    }

    /// So many blocks of zeros, the first piece and the others.
    pub(crate) fn zeros(&mut self, count: u64) -> (Bytes, Vec<Bytes>) {
        if self.zeros_piece.is_empty() {
            self.zeros_piece = AlignedBuf::zeroed((ZEROS_PIECE_BLOCKS * BLOCK) as usize).into();
        }
        let piece = |at: u64| {
            let blocks = ZEROS_PIECE_BLOCKS.min(count - at);
            self.zeros_piece.slice(..(blocks * BLOCK) as usize)
        };
        let more = (ZEROS_PIECE_BLOCKS..count).step_by(ZEROS_PIECE_BLOCKS as usize).map(piece).collect();
        (piece(0), more)
    }

    /// The zeros are written.
    pub(crate) fn zeros_done(&mut self) {
        self.zeros = None;
    }

    /// True if a record of `count` blocks would meet zeros on their way to the same place, or pass them: records of the
    /// next lap would meet them.
    pub(crate) fn waits_for_zeros(&self, count: u64) -> bool {
        let position = place(self.head, count, self.block_count);
        self.zeros.as_ref().is_some_and(|zeros| zeros.start < position + count)
    }

    /// The place of the next record, unless it has to begin with the ring's next lap.
    pub(crate) fn head(&self) -> RecordPlace {
        RecordPlace { position: self.head, sequence: self.next_sequence }
    }

    /// The block of the ring at a position.
    pub(crate) fn block_at(&self, position: u64) -> u64 {
        position % self.block_count
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

    /// Memory of what all records up to the head leave pending in a mount.
    pub(crate) fn head_memory(&self) -> u64 {
        self.head_memory
    }

    /// The same of those behind the tail, which a mount has to read.
    pub(crate) fn replay_memory(&self) -> u64 {
        self.head_memory - self.tail_memory
    }

    /// Takes room for a record of `count` blocks, if there is any. A mount that finds it needs so much memory for what
    /// it leaves pending.
    pub(crate) fn reserve(&mut self, count: u64, last_txn: u64, memory: u64) -> Option<RecordPlace> {
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
        self.head_memory += memory;
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.writing.push_back(Writing { sequence, position, last_txn, is_done: false });
        Some(RecordPlace { position, sequence })
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

    /// Gives back the room of records before `position`, which was the head when [`Ring::head_memory`] was `memory`.
    pub(crate) fn trim(&mut self, position: u64, memory: u64) {
        self.tail = position;
        self.tail_memory = memory;
    }
}

/// The position at or after `head` of a record of `count` blocks.
pub(crate) fn place(head: u64, count: u64, block_count: u64) -> u64 {
    let room = block_count - head % block_count;
    if count <= room { head } else { head + room }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_record_meets_or_passes_zeros_on_their_way() {
        let mut ring = Ring::new(300, 0);
        assert_eq!(ring.wants_zeros(), Some(GAP_BLOCKS..300));
        assert!(ring.reserve(100, 1, 0).is_some());
        assert!(!ring.waits_for_zeros(GAP_BLOCKS - 100) && ring.waits_for_zeros(GAP_BLOCKS - 99));
        // Too long for what is left before the ring's end: it would be on the next lap, where all follows that comes.
        assert!(ring.waits_for_zeros(250));
        ring.zeros_done();
        assert!(!ring.waits_for_zeros(250));
    }
}
