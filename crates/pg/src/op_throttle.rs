//! What an OSD holds for its clients at a time: the ops it took and has not answered. Above a limit it
//! takes no more, so that a client that sends faster than the OSD serves waits in its own memory.

use std::{
    cell::{Cell, RefCell, RefMut},
    fmt,
    rc::Rc,
};

use types::Instant;

use crate::{CHANGE_BYTES, OpHistory, OpRecord};

#[derive(Default)]
struct Held {
    ops: Cell<u64>,
    bytes: Cell<u64>,
    /// Those that are remembered after they were answered.
    history: RefCell<OpHistory>,
    /// Nanoseconds; what took less is not remembered.
    remember_from: Cell<u64>,
}

/// Counts what is held; clones count together.
#[derive(Clone, Default)]
pub struct OpThrottle(Rc<Held>);

impl OpThrottle {
    /// Counts an op of `bytes` until the permit is dropped.
    pub fn take(&self, bytes: u64) -> Permit {
        self.take_at(bytes, Instant::default())
    }

    /// Counts an op of `bytes` that came at `since`, until the permit is dropped.
    pub fn take_at(&self, bytes: u64, since: Instant) -> Permit {
        self.0.ops.set(self.0.ops.get() + 1);
        self.0.bytes.set(self.0.bytes.get() + bytes);
        Permit { held: Rc::clone(&self.0), bytes, since }
    }

    /// Ops held.
    pub fn ops(&self) -> u64 {
        self.0.ops.get()
    }

    /// Bytes of their payload.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.get()
    }

    /// What they may take of a device.
    pub fn under_way(&self) -> u64 {
        self.0.under_way()
    }

    /// What is remembered of ops that were answered, to be read or set up.
    pub fn with_history<T>(&self, act: impl FnOnce(&mut OpHistory) -> T) -> T {
        let mut history = self.0.history.borrow_mut();
        let out = act(&mut history);
        self.0.note(&history);
        out
    }
}

impl Held {
    fn under_way(&self) -> u64 {
        self.bytes.get() + self.ops.get() * CHANGE_BYTES
    }

    fn note(&self, history: &RefMut<'_, OpHistory>) {
        self.remember_from.set(history.remember_from());
    }
}

/// The share of one op, given back when it is dropped: answered, or sent again by its client.
pub struct Permit {
    held: Rc<Held>,
    bytes: u64,
    since: Instant,
}

impl Permit {
    /// When its op came.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Bytes of its op.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its op holds so many bytes more.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.held.bytes.set(self.held.bytes.get() + bytes);
        self.bytes += bytes;
    }

    /// What all ops that are held may take of a device.
    pub(crate) fn under_way(&self) -> u64 {
        self.held.under_way()
    }

    /// Its op is being answered: remembers it if it is one of the slowest. Only then is it described.
    #[inline]
    pub fn answered(&self, now: Instant, describe: impl FnOnce() -> OpRecord) {
        if now.0.saturating_sub(self.since.0) >= self.held.remember_from.get() {
            let mut history = self.held.history.borrow_mut();
            history.remember(now.since(self.since), describe());
            self.held.note(&history);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.held.ops.set(self.held.ops.get() - 1);
        self.held.bytes.set(self.held.bytes.get() - self.bytes);
    }
}

impl fmt::Debug for OpThrottle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpThrottle({} ops, {} bytes)", self.ops(), self.bytes())
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::OpThrottle;

    #[test]
    fn a_dropped_permit_gives_its_share_back() {
        let throttle = OpThrottle::default();
        let first = throttle.take(5);
        let mut second = throttle.clone().take(7);
        assert_eq!((throttle.ops(), throttle.bytes()), (2, 12));
        drop(first);
        assert_eq!((throttle.ops(), throttle.bytes()), (1, 7));
        second.add(3);
        assert_eq!((throttle.bytes(), second.bytes()), (10, 10));
        drop(second);
        assert_eq!((throttle.ops(), throttle.bytes()), (0, 0));
    }
}
