//! How fast transactions that change pages go on while a checkpoint cleans pages: each waits a little, and none until
//! the checkpoint ends.
//!
//! A checkpoint takes about as long as the one before it. So the room that it leaves for changes is given out evenly
//! over that time, the last quarter of it slower, as this one may take longer. It does not distinguish what takes how
//! long: pages, the device's flush, the superblock.

use std::time::Duration;

use types::Instant;

/// Parts of a whole.
const WHOLE: u64 = 1 << 10;
/// What is given out by the time at which an end is expected.
const ON_TIME: u64 = WHOLE / 4 * 3;
/// The rest is given out in so many times that time.
const LATE_TIMES: u64 = 2;
/// What is taken for the time of a phase that there never was.
const UNKNOWN: Duration = Duration::from_millis(40);

/// What is done about changed pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// There are few.
    #[default]
    Rest,
    /// A checkpoint is wanted: what is pending is flushed first.
    Wanted,
    /// A checkpoint is made.
    Made,
}

/// Spreads the room for changed pages over the time that a checkpoint takes.
#[derive(Debug)]
pub(super) struct ThrottleRate {
    now: Instant,
    phase: Phase,
    since: Instant,
    /// How long a phase takes, by what the last ones took.
    wanted_takes: Duration,
    made_takes: Duration,
}

impl Default for ThrottleRate {
    fn default() -> ThrottleRate {
        ThrottleRate {
            now: Instant::default(),
            phase: Phase::Rest,
            since: Instant::default(),
            wanted_takes: UNKNOWN,
            made_takes: UNKNOWN,
        }
    }
}

impl ThrottleRate {
    pub(super) fn set_time(&mut self, now: Instant) {
        self.now = now;
    }

    /// The time that was told last.
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Says what is done.
    pub(super) fn enter(&mut self, phase: Phase) {
        if phase == self.phase {
            return;
        }
        let took = self.now.since(self.since);
        match self.phase {
            Phase::Rest => {}
            Phase::Wanted => self.wanted_takes = (self.wanted_takes + took) / 2,
            Phase::Made => self.made_takes = (self.made_takes + took) / 2,
        }
        (self.phase, self.since) = (phase, self.now);
    }

    /// The part of `room` that is given out in this phase, of which `done` of `count` parts are known to be done.
    pub(super) fn share(&self, room: u64, (done, count): (u64, u64)) -> u64 {
        let takes = match self.phase {
            Phase::Rest => return room,
            Phase::Wanted => self.wanted_takes,
            Phase::Made => self.made_takes,
        };
        let took = self.now.since(self.since);
        let by_time = part_at(took.as_nanos() as u64, (takes.as_nanos() as u64).max(1));
        let by_work = ON_TIME * done / count.max(1);
        room / WHOLE * by_time.max(by_work) + room % WHOLE
    }
}

/// What is given out when so much time has gone by, of [`WHOLE`].
fn part_at(took: u64, takes: u64) -> u64 {
    let times = |time: u64| (u128::from(WHOLE) * u128::from(time) / u128::from(takes)) as u64;
    if took <= takes {
        return times(took) * ON_TIME / WHOLE;
    }
    let late = times((took - takes).min(takes.saturating_mul(LATE_TIMES))) / LATE_TIMES;
    ON_TIME + late * (WHOLE - ON_TIME) / WHOLE
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: u64 = 1 << 20;

    fn at(rate: &mut ThrottleRate, ms: u64) -> u64 {
        rate.set_time(Instant(ms * 1_000_000));
        rate.share(ROOM, (0, 9)) * 100 / ROOM
    }

    #[test]
    fn room_is_given_out_over_the_time_that_the_last_ones_took() {
        let mut rate = ThrottleRate::default();
        assert_eq!(at(&mut rate, 1_000), 100);
        let mut now = 1_000;
        // Each takes 200 ms, and there are 10 between.
        for _ in 0..12 {
            rate.enter(Phase::Made);
            at(&mut rate, now + 200);
            rate.enter(Phase::Rest);
            now += 210;
            at(&mut rate, now);
        }
        rate.enter(Phase::Made);
        for (ms, part) in [(0, 0), (50, 18), (100, 37), (200, 74), (400, 87), (600, 99), (5_000, 99)] {
            assert!(at(&mut rate, now + ms).abs_diff(part) <= 1, "{ms} ms: {}", at(&mut rate, now + ms));
        }
    }

    #[test]
    fn what_is_done_faster_gives_more_room() {
        let mut rate = ThrottleRate::default();
        rate.enter(Phase::Made);
        let share = |done| rate.share(ROOM, (done, 8));
        assert_eq!([share(0), share(4), share(8)], [0, ROOM / 8 * 3, ROOM / 4 * 3]);
        assert_eq!(rate.share(ROOM, (0, 0)), 0);
    }

    #[test]
    fn it_never_gives_less_later() {
        let mut last = 0;
        for took in 0..500 {
            let part = part_at(took, 100);
            assert!(part >= last && part <= WHOLE);
            last = part;
        }
        assert_eq!(last, WHOLE);
        assert_eq!(part_at(u64::MAX, 1), WHOLE);
    }
}
