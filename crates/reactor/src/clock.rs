//! The machine's clocks and its randomness: where time and seeds enter the pure crates.

use rustix::{
    rand::{GetRandomFlags, getrandom},
    time::{ClockId, clock_gettime},
};

/// Nanoseconds on the monotonic clock, since some start that is the same for all threads.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

/// Wall clock: seconds and nanoseconds since 1970.
pub fn wall() -> (u64, u32) {
    let time = clock_gettime(ClockId::Realtime);
    (time.tv_sec.max(0) as u64, time.tv_nsec as u32)
}

/// 32 bytes of the kernel's randomness, to seed a generator or to make a key.
pub fn random_seed() -> [u8; 32] {
    let mut seed = [0; 32];
    let count = getrandom(&mut seed, GetRandomFlags::empty()).expect("getrandom of 32 bytes never fails");
    assert_eq!(count, seed.len(), "getrandom is whole for up to 256 bytes");
    seed
}
