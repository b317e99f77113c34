//! The two clocks and the seed that machines are handed.

use types::{Instant, UTime};

/// Time that never steps, and goes on while the machine is suspended.
pub(crate) fn now() -> Instant {
    Instant(reactor::clock::now())
}

/// Wall clock.
pub(crate) fn wall() -> UTime {
    let (sec, nsec) = reactor::clock::wall();
    UTime::new(u32::try_from(sec).unwrap_or(u32::MAX), nsec)
}

/// Random bits from the system.
pub(crate) fn random_seed() -> [u8; 32] {
    reactor::clock::random_seed()
}
