//! What the log says of a monitor that is not reached: an operator has nothing else to go by.

use types::Instant;

use super::{Net, UNREACHED_LOGGED};

impl<C: Copy + Ord + std::fmt::Debug> Net<C> {
    /// Notes why this connection to a monitor will come to nothing.
    pub(super) fn note_mon_failure(&mut self, conn: C, why: &'static str) {
        if let Some(mon) = self.mon.as_mut().filter(|mon| mon.link == Some(conn)) {
            mon.failure = Some(why);
        }
    }

    /// An attempt at a session with the monitor whose turn it is has failed. The first failure is logged as a warning,
    /// and then one a minute.
    pub(super) fn on_mon_unreached(&mut self, now: Instant) {
        let Some(mon) = &mut self.mon else { return };
        let why = mon.failure.take().unwrap_or("it closes the connection before there is a session");
        let addrs = &mon.hosts[mon.next % mon.hosts.len()];
        if mon.warning_at_ns.is_none_or(|at| now.0 >= at) {
            mon.warning_at_ns = Some(now.0 + UNREACHED_LOGGED.as_nanos() as u64);
            tracing::warn!(%addrs, why, "the monitor is not reached; trying on");
        } else {
            tracing::debug!(%addrs, why, "the monitor is not reached");
        }
    }

    /// There is a session with one.
    pub(super) fn on_mon_reached(&mut self) {
        let Some(mon) = &mut self.mon else { return };
        if mon.warning_at_ns.take().is_some() {
            tracing::info!(addrs = %mon.hosts[mon.next % mon.hosts.len()], "the monitor is reached");
        }
        mon.failure = None;
        mon.is_refusing = false;
    }

    /// The monitor whose turn it is cannot even be dialed: the next one's turn.
    pub(super) fn pass_mon_over(&mut self, why: &'static str, now: Instant) {
        if let Some(mon) = &mut self.mon {
            mon.failure = Some(why);
        }
        self.on_mon_unreached(now);
        if let Some(mon) = &mut self.mon {
            mon.next += 1;
        }
    }
}
