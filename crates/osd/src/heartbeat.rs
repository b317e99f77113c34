//! Heartbeats: who of the peers answers, and who is to be reported.
//!
//! Authority: `OSD::heartbeat`, `OSD::handle_osd_ping` for intervals and grace. Ceph uses connections
//! of their own for heartbeats; ours share the cluster connection, so that a refused or reset
//! connection is a sign of its own (`osd_fast_fail_on_connection_refused`).

use std::{collections::BTreeMap, time::Duration};

use messages::{MOSDFailure, MOSDPing, PeerPing, PingOp};
use types::{Epoch, Instant, OsdId};

use crate::ping_times::PingTimes;

/// Between two pings to a peer. Shorter than Ceph's 6 s: a ping costs microseconds here.
pub const INTERVAL: Duration = Duration::from_secs(2);
/// Without an answer for this long, a peer is reported (`osd_heartbeat_grace`).
pub const GRACE: Duration = Duration::from_secs(20);
/// A report is repeated as long as it holds.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
struct Peer {
    up_from: Epoch,
    last_reply: Instant,
    reported: Option<Instant>,
    times: PingTimes,
}

/// The heartbeat peers of one OSD.
#[derive(Debug, Default)]
pub struct Heartbeat {
    peers: BTreeMap<OsdId, Peer>,
}

impl Heartbeat {
    /// Takes the set of peers (with the `up_from` of their incarnation) that the newest map gives.
    pub fn set_peers(&mut self, now: Instant, peers: impl Iterator<Item = (OsdId, Epoch)>) {
        let mut old = std::mem::take(&mut self.peers);
        for (osd, up_from) in peers {
            let fresh = Peer { up_from, last_reply: now, reported: None, times: PingTimes::default() };
            let known = old.remove(&osd).filter(|peer| peer.up_from == up_from);
            self.peers.insert(osd, known.unwrap_or(fresh));
        }
    }

    /// The peers, ascending.
    pub fn peers(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.peers.keys().copied()
    }

    /// How long each peer takes to answer, ascending.
    pub(crate) fn ping_times(&self) -> impl Iterator<Item = (OsdId, &PingTimes)> {
        self.peers.iter().map(|(osd, peer)| (*osd, &peer.times))
    }

    /// The same in short, of those who answered in the last minutes (Ceph's sixty times `osd_heartbeat_grace`).
    pub(crate) fn pings(&self, now: Instant) -> Vec<PeerPing> {
        let of = |(osd, times): (OsdId, &PingTimes)| {
            times.last().filter(|(at, _)| now.since(*at) <= GRACE * 60)?;
            let means = times.summaries(now)?.map(|summary| summary.average.as_micros());
            let [mean_1min_us, mean_5min_us, mean_15min_us] =
                means.map(|us| u32::try_from(us).unwrap_or(u32::MAX));
            Some(PeerPing { osd, mean_1min_us, mean_5min_us, mean_15min_us })
        };
        self.ping_times().filter_map(of).collect()
    }

    /// A peer answered a ping of ours that was sent at `sent`. True when a failure report is to be
    /// taken back.
    pub fn on_reply(&mut self, now: Instant, from: OsdId, sent: Instant) -> bool {
        let Some(peer) = self.peers.get_mut(&from) else { return false };
        peer.times.add(now, now.since(sent));
        peer.last_reply = peer.last_reply.max(sent);
        peer.reported.take().is_some()
    }

    /// Peers that have not answered within the grace and whose report is due: with the time that
    /// they have been silent.
    pub fn overdue(&mut self, now: Instant) -> Vec<(OsdId, Epoch, Duration)> {
        let mut out = Vec::new();
        for (osd, peer) in &mut self.peers {
            let silent = now.since(peer.last_reply);
            let is_due = peer.reported.is_none_or(|at| now.since(at) >= REPORT_INTERVAL);
            if silent >= GRACE && is_due {
                peer.reported = Some(now);
                out.push((*osd, peer.up_from, silent));
            }
        }
        out
    }

    /// The peer's socket refuses connections: the report that this is worth, once per incarnation
    /// and report interval.
    pub fn on_refused(&mut self, now: Instant, osd: OsdId) -> Option<Epoch> {
        let peer = self.peers.get_mut(&osd)?;
        if peer.reported.is_some_and(|at| now.since(at) < Duration::from_secs(1)) {
            return None;
        }
        peer.reported = Some(now);
        Some(peer.up_from)
    }

    /// The ping that all peers get.
    pub fn ping(now: Instant, from: OsdId, up_from: Epoch, epoch: Epoch) -> MOSDPing {
        MOSDPing { op: PingOp::PING, from, up_from, epoch, stamp_ns: now.0 }
    }

    /// A report about `target`.
    pub fn failure(
        reporter: OsdId,
        target: OsdId,
        target_up_from: Epoch,
        failed_for: Duration,
        is_immediate: bool,
        epoch: Epoch,
    ) -> MOSDFailure {
        MOSDFailure {
            reporter,
            target,
            target_up_from,
            is_failed: true,
            is_immediate,
            failed_for_ms: u64::try_from(failed_for.as_millis()).unwrap_or(u64::MAX),
            epoch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: u64 = 1_000_000_000;

    #[test]
    fn a_silent_peer_is_reported_after_the_grace_and_cleared_by_an_answer() {
        let mut beat = Heartbeat::default();
        beat.set_peers(Instant(0), [(OsdId(1), Epoch(5))].into_iter());
        assert!(beat.overdue(Instant(19 * SEC)).is_empty());
        assert_eq!(beat.overdue(Instant(20 * SEC)), [(OsdId(1), Epoch(5), GRACE)]);
        assert!(beat.overdue(Instant(21 * SEC)).is_empty(), "not repeated at once");
        assert!(beat.on_reply(Instant(21 * SEC), OsdId(1), Instant(21 * SEC)), "the report is taken back");
        assert!(beat.overdue(Instant(40 * SEC)).is_empty());
    }

    #[test]
    fn who_answered_lately_is_reported_with_its_times() {
        let mut beat = Heartbeat::default();
        beat.set_peers(Instant(0), [1, 2].map(|osd| (OsdId(osd), Epoch(5))).into_iter());
        beat.on_reply(Instant(4 * SEC), OsdId(1), Instant(SEC));
        let us = 3_000_000;
        let slow = PeerPing { osd: OsdId(1), mean_1min_us: us, mean_5min_us: us, mean_15min_us: us };
        assert_eq!(beat.pings(Instant(5 * SEC)), [slow], "the other has never answered");
        assert_eq!(beat.pings(Instant(1_204 * SEC)), [slow]);
        assert_eq!(beat.pings(Instant(1_205 * SEC)), []);
    }

    #[test]
    fn a_new_incarnation_starts_fresh() {
        let mut beat = Heartbeat::default();
        beat.set_peers(Instant(0), [(OsdId(1), Epoch(5))].into_iter());
        beat.set_peers(Instant(19 * SEC), [(OsdId(1), Epoch(9))].into_iter());
        assert!(beat.overdue(Instant(30 * SEC)).is_empty());
    }
}
