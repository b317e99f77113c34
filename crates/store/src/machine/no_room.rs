//! When a checkpoint that found no room is tried again.
//!
//! What wants one stays: a full journal, for example. Each attempt renders pages and writes those that find room. So
//! one that can only fail as the last did is not worth it: something has to have changed since. The first one that
//! fails is followed by another at once, as that may take what is kept for a mount ([`crate::space`]).

use super::{Store, Unmount};

/// A checkpoint found no room, and none has since.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoRoom {
    /// What there was when it ended.
    state: State,
    /// True if the one before it found room.
    is_first: bool,
}

/// What decides whether a checkpoint finds room.
#[derive(Clone, Copy, Debug)]
struct State {
    free_count: u64,
    pending_bytes: u64,
    dirty_count: usize,
    last_txn: u64,
}

impl State {
    /// True if a checkpoint may find room, though it found none in the state `before`, or has more to make durable.
    fn is_worth_more_than(self, before: State) -> bool {
        self.free_count > before.free_count
            || self.pending_bytes < before.pending_bytes
            || self.dirty_count < before.dirty_count
            || self.last_txn > before.last_txn
    }
}

impl Store {
    fn room_state(&self) -> State {
        State {
            free_count: self.space.free_count(),
            pending_bytes: self.pending.bytes,
            dirty_count: self.index.dirty_count(),
            last_txn: self.last_txn,
        }
    }

    /// Notes that a checkpoint has ended that found no room.
    pub(super) fn note_no_room(&mut self) {
        self.no_room = Some(NoRoom { state: self.room_state(), is_first: self.no_room.is_none() });
    }

    /// True if the last checkpoint found no room.
    pub(super) fn has_no_room(&self) -> bool {
        self.no_room.is_some()
    }

    /// True unless a checkpoint would find no room as the last one did. What an end waits for is always tried.
    pub(super) fn may_find_room(&self) -> bool {
        let is_possible = |last: NoRoom| last.is_first || self.room_state().is_worth_more_than(last.state);
        self.unmount != Unmount::No || self.no_room.is_none_or(is_possible)
    }
}
