//! Telling the device what holds nothing of value: TRIM, or a hole in a file.
//!
//! A device that discards does other things later: discarded as they were freed, objects of 4 MiB that were overwritten
//! cost writes a third of their bandwidth. So free space can be used at once, and most of it soon is. The rest is
//! discarded when the device has nothing else to do, or when it has been free for long.

use std::{collections::VecDeque, time::Duration};

use types::Instant;

use super::{Purpose, Store, Unmount};
use crate::{DeviceCommand, DeviceError, device::BLOCK, space::Run};

/// Discards in flight on a device that has nothing else to do; of what waited for too long, one.
const DISCARDS_MAX: usize = 2;
/// Blocks of one.
const DISCARD_BLOCKS_MAX: u64 = 4096;
/// A device without other commands for so long has nothing to do.
const REST: Duration = Duration::from_millis(100);
/// What has been free for so long does not wait for that.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs that wait, some of them more than once. Beyond that the oldest are forgotten: a device that is that busy gains
/// nothing by their being discarded.
const WAITING_MAX: usize = 64 << 10;

/// Space that was freed and is to be discarded.
#[derive(Debug, Default)]
pub(super) struct Discards {
    /// With when it was freed, the oldest first. Some of it may be in use again.
    waiting: VecDeque<(Instant, Run)>,
    /// Blocks that must not be used meanwhile.
    in_flight: Vec<Run>,
    /// When the device was last given something else to do.
    busy_at: Instant,
}

impl Discards {
    /// How many runs wait.
    #[cfg(test)]
    pub(super) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Runs that are neither free nor in use.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run> {
        self.in_flight.iter().copied()
    }

    /// The device is given something else to do.
    pub(super) fn note_busy(&mut self, now: Instant) {
        self.busy_at = now;
    }

    /// True if the next one is to begin.
    fn is_time(&self, now: Instant) -> bool {
        let is_idle = now.since(self.busy_at) >= REST;
        let is_late = |(freed_at, _): &(Instant, Run)| now.since(*freed_at) >= PATIENCE;
        self.in_flight.len() < if is_idle { DISCARDS_MAX } else { 1 }
            && self.waiting.front().is_some_and(|oldest| is_idle || is_late(oldest))
    }
}

impl Store {
    /// A run was freed: what stays free of the granules that it made whole is to be discarded.
    pub(super) fn queue_discard(&mut self, freed: Run) {
        if !self.config.discard || self.space.free_granules(freed, DISCARD_BLOCKS_MAX).is_none() {
            return;
        }
        let now = self.throttle_rate.now();
        match self.discards.waiting.back_mut() {
            Some((at, last)) if last.end() == freed.start && *at == now => last.count += freed.count,
            Some(_) | None => self.discards.waiting.push_back((now, freed)),
        }
        if self.discards.waiting.len() > WAITING_MAX {
            self.discards.waiting.pop_front();
        }
    }

    /// Starts what it is time for. A device that was found not to discard is not asked again, and one with little room
    /// is to take data: what is free there is soon used again.
    pub(super) fn pump_discards(&mut self) {
        if self.discards.waiting.is_empty() {
            return;
        }
        if !self.config.discard || self.space.is_short() {
            self.discards.waiting.clear();
        }
        let may_begin = self.unmount == Unmount::No && self.fault.is_none();
        while may_begin && self.discards.is_time(self.throttle_rate.now()) {
            let Some((freed_at, freed)) = self.discards.waiting.pop_front() else { return };
            let Some(run) = self.space.take_granules(freed, DISCARD_BLOCKS_MAX) else { continue };
            if run.end() < freed.end() {
                let rest = Run { start: run.end(), count: freed.end() - run.end() };
                self.discards.waiting.push_front((freed_at, rest));
            }
            self.discards.in_flight.push(run);
            let token = self.token(Purpose::Discard(run), run.start);
            let (offset, len) = (run.start * BLOCK, run.count * BLOCK);
            self.commands.push(DeviceCommand::Discard { token, offset, len });
        }
    }

    /// A device that cannot discard loses nothing by it.
    pub(super) fn discard_done<T>(&mut self, run: Run, result: Result<T, DeviceError>) {
        if let Err(error) = result
            && self.config.discard
        {
            tracing::info!(%error, "freed space is not discarded");
            self.config.discard = false;
        }
        self.discards.in_flight.retain(|other| *other != run);
        self.space.discarded(run);
    }
}
