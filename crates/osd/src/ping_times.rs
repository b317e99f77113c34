//! How long a heartbeat peer takes to answer: of the last minute, five and fifteen.
//!
//! Authority: `OSD::handle_osd_ping`, `osd_stat_t::Interfaces` (16.2).

use std::time::Duration;

use types::Instant;

/// Minutes that are remembered.
const MINUTES: u64 = 15;

/// The answers of one minute.
#[derive(Clone, Copy, Debug, Default)]
struct Minute {
    number: u64,
    count: u32,
    sum: Duration,
    min: Duration,
    max: Duration,
}

/// What is said of some minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PingSummary {
    pub(crate) average: Duration,
    pub(crate) min: Duration,
    pub(crate) max: Duration,
}

/// The round trips to one peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct PingTimes {
    /// The minutes, by their number modulo [`MINUTES`].
    minutes: [Minute; MINUTES as usize],
    /// The last answer: when it came, and after how long.
    last: Option<(Instant, Duration)>,
}

fn minute_of(at: Instant) -> u64 {
    at.0 / 60_000_000_000
}

impl PingTimes {
    pub(crate) fn add(&mut self, now: Instant, trip: Duration) {
        let number = minute_of(now);
        let minute = &mut self.minutes[(number % MINUTES) as usize];
        if minute.number != number || minute.count == 0 {
            *minute = Minute { number, min: trip, ..Minute::default() };
        }
        minute.count += 1;
        minute.sum += trip;
        minute.min = minute.min.min(trip);
        minute.max = minute.max.max(trip);
        self.last = Some((now, trip));
    }

    /// When the last answer came, and after how long; [`None`] before the first.
    pub(crate) fn last(&self) -> Option<(Instant, Duration)> {
        self.last
    }

    /// What is said of the last 1, 5 and 15 minutes, the present one included. If no answer came in these, the last
    /// answer counts.
    pub(crate) fn summaries(&self, now: Instant) -> Option<[PingSummary; 3]> {
        let (_, last) = self.last?;
        Some([1, 5, MINUTES].map(|minutes| self.summary(now, minutes, last)))
    }

    fn summary(&self, now: Instant, minutes: u64, last: Duration) -> PingSummary {
        // The present minute is only a part of one, so one more minute is counted.
        let since = minute_of(now).saturating_sub(minutes.min(MINUTES - 1));
        let seen = || self.minutes.iter().filter(|minute| minute.count > 0 && minute.number >= since);
        let count: u32 = seen().map(|minute| minute.count).sum();
        let sum: Duration = seen().map(|minute| minute.sum).sum();
        PingSummary {
            average: sum.checked_div(count).unwrap_or(last),
            min: seen().map(|minute| minute.min).min().unwrap_or(last),
            max: seen().map(|minute| minute.max).max().unwrap_or(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(second: u64) -> Instant {
        Instant(second * 1_000_000_000)
    }

    #[test]
    fn minutes_are_told_apart_and_forgotten() {
        let mut times = PingTimes::default();
        assert!(times.summaries(at(1)).is_none());
        for minute in 0..10 {
            times.add(at(minute * 60), MS * 10);
            times.add(at(minute * 60 + 2), MS * 20);
        }
        times.add(at(600), MS * 400);
        let [one, five, fifteen] = times.summaries(at(601)).unwrap();
        assert_eq!((one.average, one.min, one.max), ((MS * 430).div_f64(3.0), MS * 10, MS * 400));
        assert_eq!(five.average, (MS * 550).div_f64(11.0));
        assert_eq!(fifteen.average, (MS * 700).div_f64(21.0));
        assert_eq!(times.last(), Some((at(600), MS * 400)));
        times.add(at(3_600), MS);
        let [one, _, fifteen] = times.summaries(at(3_601)).unwrap();
        assert_eq!((one.max, fifteen.max), (MS, MS), "an hour ago is not remembered");
    }

    #[test]
    fn a_peer_that_fell_silent_keeps_its_last_trip() {
        let mut times = PingTimes::default();
        times.add(at(10), MS * 7);
        let [one, ..] = times.summaries(at(10_000)).unwrap();
        assert_eq!(one, PingSummary { average: MS * 7, min: MS * 7, max: MS * 7 });
    }
}
