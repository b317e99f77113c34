//! When the monitor is told how PGs are, and how long changes take.

use std::time::Duration;

use pg::CommitTimes;
use types::{Epoch, Instant};

/// Statistics without any change; the monitor's sign of life of an OSD.
const INTERVAL: Duration = Duration::from_secs(5);
/// Between two reports while PGs change all the time.
const INTERVAL_BUSY: Duration = Duration::from_millis(500);

/// The reports that a shard makes: the control shard to the monitor, the others to it.
#[derive(Debug, Default)]
pub(crate) struct StatsReport {
    due: Instant,
    /// Reports to the monitor, counted.
    made: u32,
    /// The commit times as of the last look, the time per change that they gave, and when to look again.
    commit_times: CommitTimes,
    commit_latency_ns: u64,
    commit_times_due: Instant,
}

impl StatsReport {
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// It goes out at the next occasion.
    pub(crate) fn at_once(&mut self, now: Instant) {
        self.due = now;
    }

    /// Something changed that the monitor wants to know soon.
    pub(crate) fn soon(&mut self, now: Instant) {
        self.due = self.due.min(now + INTERVAL_BUSY);
    }

    /// It went out: if nothing changes, the next one is a sign of life.
    pub(crate) fn went_out(&mut self, now: Instant) {
        self.due = now + INTERVAL;
    }

    /// One more report to the monitor.
    pub(crate) fn count(&mut self) {
        self.made += 1;
    }

    /// The number of the last report: larger than all before, whatever process of this OSD made them. `boot`: the epoch
    /// in which this one was let in.
    pub(crate) fn seq(&self, boot: Epoch) -> u64 {
        u64::from(boot.0) << 32 | u64::from(self.made)
    }

    /// Finds out how long changes took since the last look, if it is time for the next one.
    pub(crate) fn measure_commits(&mut self, now: Instant, times: impl FnOnce() -> CommitTimes) {
        if now < self.commit_times_due {
            return;
        }
        self.commit_times_due = now + INTERVAL;
        let times = times();
        self.commit_latency_ns = times.mean_since(std::mem::replace(&mut self.commit_times, times));
    }

    /// Nanoseconds that a change took, as of the last look.
    pub(crate) fn commit_latency_ns(&self) -> u64 {
        self.commit_latency_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_hastens_a_report_and_never_delays_it() {
        let at = |ms: u64| Instant(ms * 1_000_000);
        let mut report = StatsReport::default();
        report.went_out(at(1_000));
        assert!(!report.is_due(at(5_999)) && report.is_due(at(6_000)));
        report.soon(at(2_000));
        assert!(!report.is_due(at(2_499)) && report.is_due(at(2_500)));
        report.soon(at(2_400));
        assert!(report.is_due(at(2_500)));
    }

    #[test]
    fn a_later_process_has_larger_numbers() {
        let mut earlier = StatsReport::default();
        (0..9).for_each(|_| earlier.count());
        let mut later = StatsReport::default();
        later.count();
        assert!(later.seq(Epoch(8)) > earlier.seq(Epoch(7)));
    }
}
