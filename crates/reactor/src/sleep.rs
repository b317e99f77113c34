//! Whether a reactor sleeps, and whether it is to be woken: one word that the reactor and those that wake it share.
//! Only a reactor that sleeps costs its waker a system call.

use crate::sync::{AtomicU8, Ordering};

const AWAKE: u8 = 0;
const SLEEPING: u8 = 1;
const NOTIFIED: u8 = 2;

/// The state of one reactor.
pub(crate) struct Sleep(AtomicU8);

impl Sleep {
    /// Of a reactor that is awake.
    pub(crate) fn new() -> Sleep {
        Sleep(AtomicU8::new(AWAKE))
    }

    /// Leaves a wake-up; true when the reactor sleeps and has to be woken. What the caller wrote before is visible to
    /// the reactor once it has taken the wake-up.
    pub(crate) fn wake(&self) -> bool {
        self.0.swap(NOTIFIED, Ordering::SeqCst) == SLEEPING
    }

    /// Announces sleep; false when a wake-up is pending and sleep must not begin.
    pub(crate) fn prepare(&self) -> bool {
        self.0.compare_exchange(AWAKE, SLEEPING, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// True when a wake-up is pending.
    pub(crate) fn is_notified(&self) -> bool {
        self.0.load(Ordering::SeqCst) == NOTIFIED
    }

    /// Ends sleep, takes the pending wake-up and tells whether there was one.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(AWAKE, Ordering::SeqCst) == NOTIFIED
    }
}
