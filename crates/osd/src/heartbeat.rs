//! Heartbeats: which peers answer, and which are to be reported.
//!
//! Authority: `OSD::heartbeat`, `OSD::handle_osd_ping` for intervals and grace. Ceph uses connections
//! of their own for heartbeats; ours share the cluster connection, so that a refused or reset
//! connection is a sign of its own (`osd_fast_fail_on_connection_refused`).

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use messages::{MOSDPing, PeerPing, PingOp};
use types::{Epoch, Instant, OsdId};

use crate::ping_times::PingTimes;

/// Between two pings to a peer. Shorter than Ceph's 6 s: a ping costs microseconds here.
pub const INTERVAL: Duration = Duration::from_secs(2);
/// Without an answer for this long, a peer is reported: Ceph's default of `osd_heartbeat_grace`. The option does not
/// change it: read leases end before the grace does, and must on all OSDs alike.
pub const GRACE: Duration = Duration::from_secs(20);
/// A report is repeated as long as it holds.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// So is a report that nothing can be sent to a peer. The monitor acts on a single one, and all that waits for the peer
/// waits until then: a report that was lost, or came when the monitor did not want to act, is repeated sooner than one
/// of silence, but not with each attempt to connect.
const UNREACHABLE_REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// If the answers have not been checked for so long, this OSD itself stood still. Peers may have answered, and their
/// answers still wait to be handled.
const STALL: Duration = Duration::from_secs(5);
/// After that, no peer is reported for so long: the answers that wait are handled meanwhile.
const STALL_PATIENCE: Duration = Duration::from_secs(4);
/// Unanswered pings that are remembered of a peer: those of the grace, twice. Later ones say no more.
const UNANSWERED_MAX: usize = 20;

#[derive(Clone, Debug)]
struct Peer {
    up_from: Epoch,
    /// When the pings were sent that the peer has not answered, oldest first.
    unanswered: VecDeque<Instant>,
    reported: Option<Instant>,
    times: PingTimes,
}

/// The heartbeat peers of one OSD.
#[derive(Debug, Default)]
pub struct Heartbeat {
    peers: BTreeMap<OsdId, Peer>,
    /// When overdue answers were last looked for, and from when on peers may be reported.
    looked: Instant,
    trusted_from: Instant,
}

impl Heartbeat {
    /// Takes the set of peers (with the `up_from` of their incarnation) that the newest map gives.
    pub fn set_peers(&mut self, peers: impl Iterator<Item = (OsdId, Epoch)>) {
        let mut old = std::mem::take(&mut self.peers);
        for (osd, up_from) in peers {
            let (unanswered, times) = (VecDeque::new(), PingTimes::default());
            let fresh = Peer { up_from, unanswered, reported: None, times };
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

    /// Ping times in short, of the peers that answered in the last minutes (Ceph's sixty times `osd_heartbeat_grace`).
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

    /// A peer answered a ping of ours that was sent at `sent`. True when a failure report is to be withdrawn.
    pub fn on_reply(&mut self, now: Instant, from: OsdId, sent: Instant) -> bool {
        let Some(peer) = self.peers.get_mut(&from) else { return false };
        peer.times.add(now, now.since(sent));
        while peer.unanswered.front().is_some_and(|first| *first <= sent) {
            peer.unanswered.pop_front();
        }
        peer.reported.take().is_some()
    }

    /// A ping leaves to each peer.
    pub fn on_pinged(&mut self, now: Instant) {
        let with_room = self.peers.values_mut().filter(|peer| peer.unanswered.len() < UNANSWERED_MAX);
        with_room.for_each(|peer| peer.unanswered.push_back(now));
    }

    /// Peers that have not answered within the grace and whose report is due: with the time that
    /// they have been silent. To be called more often than once in [`STALL`].
    pub fn overdue(&mut self, now: Instant) -> Vec<(OsdId, Epoch, Duration)> {
        if now.since(self.looked) >= STALL {
            self.trusted_from = now + STALL_PATIENCE;
        }
        self.looked = now;
        let mut out = Vec::new();
        if now < self.trusted_from {
            return out;
        }
        for (osd, peer) in &mut self.peers {
            let silent = peer.unanswered.front().map_or(Duration::ZERO, |first| now.since(*first));
            let is_due = peer.reported.is_none_or(|at| now.since(at) >= REPORT_INTERVAL);
            if silent >= GRACE && is_due {
                peer.reported = Some(now);
                out.push((*osd, peer.up_from, silent));
            }
        }
        out
    }

    /// Nothing can be sent to the peer, in the incarnation that began in the epoch `up_from`. True if that is to be
    /// reported now.
    pub fn on_unreachable(&mut self, now: Instant, osd: OsdId, up_from: Epoch) -> bool {
        let Some(peer) = self.peers.get_mut(&osd).filter(|peer| peer.up_from == up_from) else {
            return false;
        };
        let is_due = peer.reported.is_none_or(|at| now.since(at) >= UNREACHABLE_REPORT_INTERVAL);
        if is_due {
            peer.reported = Some(now);
        }
        is_due
    }

    /// The ping that all peers get, but for the room that it tells of.
    pub fn ping(now: Instant, from: OsdId, up_from: Epoch, epoch: Epoch) -> MOSDPing {
        MOSDPing { op: PingOp::PING, from, up_from, epoch, stamp_ns: now.0, room: None, left_bytes: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEC: u64 = 1_000_000_000;

    fn sec(n: u64) -> Instant {
        Instant(n * SEC)
    }

    /// A heartbeat with one peer, which pings it at each of `pings`, and looks at its answers every second from 0 to
    /// before `end`.
    fn beating(pings: &[u64], end: u64) -> Heartbeat {
        let mut beat = Heartbeat::default();
        beat.set_peers([(OsdId(1), Epoch(5))].into_iter());
        for now in 0..end {
            assert!(beat.overdue(sec(now)).is_empty(), "{now}");
            if pings.contains(&now) {
                beat.on_pinged(sec(now));
            }
        }
        beat
    }

    #[test]
    fn a_silent_peer_is_reported_after_the_grace_and_cleared_by_an_answer() {
        let mut beat = beating(&[6, 8], 26);
        assert_eq!(beat.overdue(sec(26)), [(OsdId(1), Epoch(5), GRACE)]);
        assert!(beat.overdue(sec(27)).is_empty(), "not repeated at once");
        assert!(beat.on_reply(sec(27), OsdId(1), sec(6)), "the report is taken back");
        assert!(beat.overdue(sec(27)).is_empty());
        assert_eq!(beat.overdue(sec(28)), [(OsdId(1), Epoch(5), GRACE)], "the next ping has no answer");
        assert!(beat.on_reply(sec(29), OsdId(1), sec(8)));
        assert!(beat.overdue(sec(32)).is_empty());
    }

    #[test]
    fn who_was_not_asked_is_not_reported() {
        let mut beat = beating(&[], 60);
        beat.on_pinged(sec(60));
        assert!((60..80).all(|now| beat.overdue(sec(now)).is_empty()));
        assert_eq!(beat.overdue(sec(80)).len(), 1);
    }

    #[test]
    fn nobody_is_reported_for_what_waited_while_this_osd_stood_still() {
        let mut beat = beating(&[6], 10);
        // The answer to the ping waits to be heard.
        assert!(beat.overdue(sec(40)).is_empty());
        assert!(beat.overdue(sec(43)).is_empty());
        assert_eq!(beat.overdue(sec(44)).len(), 1, "it was not there");
    }

    #[test]
    fn no_more_is_kept_of_who_never_answers() {
        let mut beat = Heartbeat::default();
        beat.set_peers([(OsdId(1), Epoch(5))].into_iter());
        (0..1_000).for_each(|now| beat.on_pinged(sec(now)));
        assert_eq!(beat.peers[&OsdId(1)].unanswered.len(), UNANSWERED_MAX);
        beat.on_reply(sec(1_000), OsdId(1), sec(999));
        assert!(beat.peers[&OsdId(1)].unanswered.is_empty());
    }

    #[test]
    fn who_answered_lately_is_reported_with_its_times() {
        let mut beat = Heartbeat::default();
        beat.set_peers([1, 2].map(|osd| (OsdId(osd), Epoch(5))).into_iter());
        beat.on_reply(Instant(4 * SEC), OsdId(1), Instant(SEC));
        let us = 3_000_000;
        let slow = PeerPing { osd: OsdId(1), mean_1min_us: us, mean_5min_us: us, mean_15min_us: us };
        assert_eq!(beat.pings(Instant(5 * SEC)), [slow], "the other has never answered");
        assert_eq!(beat.pings(Instant(1_204 * SEC)), [slow]);
        assert_eq!(beat.pings(Instant(1_205 * SEC)), []);
    }

    #[test]
    fn an_unreachable_peer_is_reported_at_most_once_a_second() {
        let mut beat = beating(&[6], 10);
        let ms = |n: u64| Instant(n * 1_000_000);
        let reports = [10_000, 10_999, 11_000, 11_500, 12_000]
            .map(|at| beat.on_unreachable(ms(at), OsdId(1), Epoch(5)));
        assert_eq!(reports, [true, false, true, false, true]);
        assert!(!beat.on_unreachable(ms(13_000), OsdId(1), Epoch(4)), "an earlier incarnation");
        assert!(!beat.on_unreachable(ms(13_000), OsdId(2), Epoch(5)), "no peer");
    }

    #[test]
    fn a_new_incarnation_starts_fresh() {
        let mut beat = beating(&[6], 25);
        beat.set_peers([(OsdId(1), Epoch(9))].into_iter());
        assert!(beat.overdue(sec(26)).is_empty());
    }
}
