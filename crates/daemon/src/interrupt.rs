//! Ctrl-C and its like, while something is made that must not be left half made: looked at between steps.

use std::{cell::RefCell, time::Duration};

use anyhow::{Result, bail};
use reactor::{Event, Reactor, Signal};

/// The signals that ask this process to end.
pub(crate) struct Interrupt(RefCell<Reactor>);

impl Interrupt {
    /// From here on they end the process no more. To be called before the process has other threads.
    pub(crate) fn new() -> Result<Interrupt> {
        reactor::block_signals()?;
        let config = reactor::Config { signals: true, ..Default::default() };
        Ok(Interrupt(RefCell::new(Reactor::new(config)?)))
    }

    /// Waits for one.
    pub(crate) fn wait(&self, patience: Duration) -> Result<Option<Signal>> {
        let mut events = Vec::new();
        self.0.borrow_mut().poll(Some(patience), &mut events)?;
        Ok(events.into_iter().find_map(|event| match event {
            Event::Signal(signal) => Some(signal),
            _ => None,
        }))
    }

    /// An error once there was one.
    pub(crate) fn check(&self) -> Result<()> {
        match self.wait(Duration::ZERO)? {
            Some(_) => bail!("interrupted"),
            None => Ok(()),
        }
    }
}
