//! Random choices that follow from a seed.

use bytes::Bytes;
use rand::{Rng, SeedableRng, rngs::StdRng};

/// A source of choices.
pub(crate) struct Dice(StdRng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(StdRng::seed_from_u64(seed))
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.random_range(0..end)
    }

    /// True once in `times`.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of `all`.
    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// So many bytes of few values, so that comparisons succeed now and then; some have the sign bit.
    pub(crate) fn bytes(&mut self, len: u64) -> Bytes {
        let base = self.pick(&[0, 1, 2, 3, 0x80]);
        (0..len).map(|at| (at / 512) as u8).map(|at| at.wrapping_add(base)).collect()
    }
}
