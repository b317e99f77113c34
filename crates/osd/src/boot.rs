//! Getting (back) into the map: an OSD subscribes, catches up, and asks to be marked up.
//!
//! Authority: `OSD::start_boot`, `_preboot`, `_send_boot`.

use std::time::Duration;

use types::{Epoch, Instant};

/// The boot message is sent again if the map does not show us up by then.
const RETRY: Duration = Duration::from_secs(5);

/// How far an OSD is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boot {
    /// No monitor yet, or its newest epoch is unknown.
    Starting,
    /// Has to catch up to the monitor's newest map first.
    CatchingUp(Epoch),
    /// Asked to be marked up.
    Booting {
        /// When the request was sent.
        asked: Instant,
    },
    /// The map shows this incarnation up.
    Active,
    /// Asked to be marked down before it stops.
    Stopping {
        /// When to stop without an answer.
        deadline: Instant,
    },
}

impl Boot {
    /// The state as `ceph tell osd.N status` names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Boot::Starting => "initializing",
            Boot::CatchingUp(_) => "preboot",
            Boot::Booting { .. } => "booting",
            Boot::Active => "active",
            Boot::Stopping { .. } => "stopping",
        }
    }

    /// True when the boot message is due: all maps are there, and it was not sent or went unheard.
    pub(crate) fn is_due(self, now: Instant, map: Epoch) -> bool {
        match self {
            Boot::CatchingUp(newest) => map >= newest,
            Boot::Booting { asked } => now.since(asked) >= RETRY,
            Boot::Starting | Boot::Active | Boot::Stopping { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_is_asked_for_once_caught_up_and_again_when_unheard() {
        let sec = |n: u64| Instant(n * 1_000_000_000);
        assert!(!Boot::Starting.is_due(sec(100), Epoch(9)));
        assert!(!Boot::CatchingUp(Epoch(9)).is_due(sec(0), Epoch(8)));
        assert!(Boot::CatchingUp(Epoch(9)).is_due(sec(0), Epoch(9)));
        assert!(!Boot::Booting { asked: sec(1) }.is_due(sec(5), Epoch(9)));
        assert!(Boot::Booting { asked: sec(1) }.is_due(sec(6), Epoch(9)));
    }
}
