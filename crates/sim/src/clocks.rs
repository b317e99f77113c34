//! The clocks of the processes: each begins where it likes, and runs a little too fast or too slow.

use std::time::Duration;

use rand::{Rng, rngs::StdRng};
use types::{Instant, UTime};

/// What wall clocks show when a world begins, about.
const BEGIN: u32 = 1_790_000_000;
/// At first, no wall clock is further ahead of, or behind, what it should show.
const WALL_ERROR_BEGIN: Duration = Duration::from_secs(2);
/// No wall clock is ever further off than this: as far as clocks drift in a world.
pub(crate) const WALL_ERROR_MAX: Duration = Duration::from_secs(3);
/// No clock runs faster or slower by more than this, in parts per million: the most that NTP corrects.
const DRIFT_PPM_MAX: i64 = 500;
const MILLION: i128 = 1_000_000;

/// The clocks of a host. The default is right.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// How long the host had been up when the world began.
    up_ns: u64,
    /// How far the wall clock is ahead.
    ahead_ns: i64,
    /// How much faster than true time the clock runs, and the wall clock.
    drift_ppm: i64,
    wall_drift_ppm: i64,
}

impl Clock {
    pub(crate) fn random(rng: &mut StdRng) -> Clock {
        let error = WALL_ERROR_BEGIN.as_nanos() as i64;
        let (up_ns, ahead_ns) = (rng.random_range(0..1_000_000_000_000), rng.random_range(-error..error));
        let drift_ppm = rng.random_range(-DRIFT_PPM_MAX..=DRIFT_PPM_MAX);
        Clock { up_ns, ahead_ns, drift_ppm, wall_drift_ppm: drift_ppm }
    }

    /// This one, running faster by so much, or slower, but for its wall clock.
    pub(crate) fn drifting(self, ppm: i64) -> Clock {
        Clock { drift_ppm: ppm, ..self }
    }

    /// What it shows at a time.
    pub(crate) fn now(self, at: Instant) -> Instant {
        Instant(self.up_ns + passed(at, self.drift_ppm))
    }

    /// What its wall clock shows then.
    pub(crate) fn wall(self, at: Instant) -> UTime {
        let begin = 1_000_000_000 * i64::from(BEGIN) + self.ahead_ns;
        UTime::default().plus(Duration::from_nanos(begin as u64 + passed(at, self.wall_drift_ppm)))
    }

    /// The first time at which it shows `shown`, or more.
    pub(crate) fn when(self, shown: Instant) -> Instant {
        let passed = i128::from(shown.0.saturating_sub(self.up_ns));
        let rate = MILLION + i128::from(self.drift_ppm);
        Instant(((passed * MILLION + rate - 1) / rate) as u64)
    }
}

/// For a clock with such a drift.
fn passed(at: Instant, drift_ppm: i64) -> u64 {
    (i128::from(at.0) * (MILLION + i128::from(drift_ppm)) / MILLION) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_rings_when_its_clock_shows_the_time() {
        for drift_ppm in [-500_000, -500, 0, 500, 10_000] {
            let clock = Clock { up_ns: 77, ..Clock::default() }.drifting(drift_ppm);
            for shown in [78, 1_000, 16_000_000_001] {
                let at = clock.when(Instant(shown));
                assert!(clock.now(at) >= Instant(shown), "{drift_ppm} {shown}");
                assert!(clock.now(Instant(at.0 - 1)) < Instant(shown), "{drift_ppm} {shown}");
            }
        }
    }
}
