//! When requests begin that do not wait for others to end.

use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::StdRng};
use types::Instant;

/// Requests as many users make them who know nothing of each other: so many a second on average, at times that nothing
/// decides but chance (a Poisson process).
pub(super) struct Arrivals {
    rng: StdRng,
    /// Between two, on average.
    mean: Duration,
    due: Instant,
}

impl Arrivals {
    /// Of `per_second` requests, from 1 to a billion, from `start` on. Clients that load a cluster together need other
    /// `seed`s, or all of them begin each request at the same moment.
    pub(super) fn new(start: Instant, per_second: u64, seed: u64) -> Arrivals {
        let mean = Duration::from_secs(1) / per_second.clamp(1, 1_000_000_000) as u32;
        let mut arrivals = Arrivals { rng: StdRng::seed_from_u64(seed), mean, due: start };
        arrivals.take();
        arrivals
    }

    /// When the next one is due.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Takes the next one: when it was due.
    pub(super) fn take(&mut self) -> Instant {
        // Chance is below 1, so that the logarithm is one of a number above 0.
        let chance: f64 = self.rng.random();
        let due = self.due;
        self.due = due + self.mean.mul_f64(-(1.0 - chance).ln());
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_a_second_begin_at_times_of_chance() {
        let start = Instant(7);
        let mut arrivals = Arrivals::new(start, 1000, 1);
        let times: Vec<_> = (0..100_000).map(|_| arrivals.take()).collect();
        let seconds = times.last().unwrap().since(start).as_secs_f64();
        assert!((97.0..103.0).contains(&seconds), "{seconds}");
        let gaps: Vec<_> = times.windows(2).map(|pair| pair[1].since(pair[0])).collect();
        let longer = gaps.iter().filter(|gap| **gap > Duration::from_millis(1)).count();
        // Of an exponential distribution 1/e is above the mean.
        assert!((35_000..39_000).contains(&longer), "{longer}");
    }
}
