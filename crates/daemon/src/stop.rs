//! Asking a daemon's thread to stop.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::{Context, Result};
use reactor::Waker;
use thiserror::Error;

/// A daemon was asked to stop before it served anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("asked to stop before its store was mounted")]
pub(crate) struct Stopped;

/// A request to end, shared by a daemon's thread and the threads that may end it.
#[derive(Clone)]
pub(crate) struct Stop {
    is_asked: Arc<AtomicBool>,
    waker: Waker,
}

impl Stop {
    pub(crate) fn new() -> Result<Stop> {
        let waker = Waker::new().context("making an eventfd")?;
        Ok(Stop { is_asked: Arc::new(AtomicBool::new(false)), waker })
    }

    /// Asks the daemon to stop in order.
    pub(crate) fn ask(&self) {
        self.is_asked.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire)
    }

    /// Fails once the daemon was asked to stop.
    pub(crate) fn check(&self) -> Result<(), Stopped> {
        if self.is_asked() { Err(Stopped) } else { Ok(()) }
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }
}
