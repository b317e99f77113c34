//! Wake-ups from other threads: a state word, and an eventfd that is written only when the reactor
//! sleeps, so that waking a busy reactor costs one atomic.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    sync::Arc,
};

use rustix::event::{EventfdFlags, eventfd};

use crate::sleep::Sleep;

struct Shared {
    sleep: Sleep,
    eventfd: OwnedFd,
}

/// Wakes one reactor from any thread. Made before the reactor, so that threads can be wired up
/// before they start; given to it in its `Config`.
#[derive(Clone)]
pub struct Waker {
    shared: Arc<Shared>,
}

impl Waker {
    /// A waker for one reactor. Fails when the process has no file descriptor left.
    pub fn new() -> io::Result<Waker> {
        // One that does not block would do as well: io_uring waits for either, and epoll's reads ask what is there.
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Waker { shared: Arc::new(Shared { sleep: Sleep::new(), eventfd }) })
    }

    /// Makes the reactor return [`Event::Woken`](crate::Event::Woken) from its current or its next
    /// poll. Several calls before that give one event. What the caller wrote before is visible then.
    pub fn wake(&self) {
        if self.shared.sleep.wake()
            && let Err(error) = rustix::io::write(&self.shared.eventfd, &1u64.to_ne_bytes())
        {
            tracing::error!(%error, "cannot write the eventfd of a sleeping reactor");
        }
    }

    /// Announces sleep; false when a wake-up is pending and sleep must not begin.
    pub(crate) fn prepare_sleep(&self) -> bool {
        self.shared.sleep.prepare()
    }

    /// True when a wake-up is pending.
    pub(crate) fn is_notified(&self) -> bool {
        self.shared.sleep.is_notified()
    }

    /// Ends sleep, takes the pending wake-up and tells whether there was one.
    pub(crate) fn take(&self) -> bool {
        self.shared.sleep.take()
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.shared.eventfd.as_raw_fd()
    }
}
