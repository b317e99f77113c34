//! Telling the device what holds nothing of value: TRIM, or a hole in a file.
//!
//! Discards go on behind the requests, few and not too large at once, as a device may do nothing else meanwhile.
//! What waits for its turn is not used; when space is short it is used undiscarded.

use std::collections::VecDeque;

use super::{Purpose, Store};
use crate::{DeviceCommand, DeviceError, allocator::Run, device::BLOCK};

/// Discards in flight.
const DISCARDS_MAX: usize = 2;
/// Blocks of one.
const DISCARD_BLOCKS_MAX: u64 = 4096;

/// Blocks on their way to being free.
#[derive(Debug, Default)]
pub(super) struct Discards {
    waiting: VecDeque<Run>,
    in_flight: Vec<Run>,
}

impl Discards {
    /// All of them.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run> {
        self.waiting.iter().chain(&self.in_flight).copied()
    }
}

impl Store {
    /// A run was freed: whole pieces of free space that it makes are to be discarded.
    pub(super) fn queue_discard(&mut self, freed: Run) {
        if !self.config.discard {
            return;
        }
        let Some(run) = self.space.take_granules(freed) else { return };
        match self.discards.waiting.back_mut() {
            Some(last) if last.end() == run.start => last.count += run.count,
            Some(_) | None => self.discards.waiting.push_back(run),
        }
    }

    /// Starts what may be started.
    pub(super) fn pump_discards(&mut self) {
        if !self.config.discard || self.space.is_short() {
            self.discards.waiting.drain(..).for_each(|run| self.space.discarded(run));
        }
        while self.discards.in_flight.len() < DISCARDS_MAX
            && let Some(run) = self.discards.waiting.pop_front()
        {
            let (now, rest) = run.split_at(DISCARD_BLOCKS_MAX);
            if rest.count > 0 {
                self.discards.waiting.push_front(rest);
            }
            self.discards.in_flight.push(now);
            let token = self.token(Purpose::Discard(now));
            let (offset, len) = (now.start * BLOCK, now.count * BLOCK);
            self.commands.push(DeviceCommand::Discard { token, offset, len });
        }
    }

    /// A device that cannot discard loses nothing by it, and is not asked again.
    pub(super) fn discard_done<T>(&mut self, run: Run, result: Result<T, DeviceError>) {
        if let Err(error) = result
            && self.config.discard
        {
            tracing::info!(%error, "freed space is not discarded");
            self.config.discard = false;
        }
        self.discards.in_flight.retain(|other| *other != run);
        self.space.discarded(run);
        self.pump_discards();
    }
}
