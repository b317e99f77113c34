//! Messages of other OSDs: heartbeats, maps, and what PGs say to each other.

use std::{sync::Arc, time::Duration};

use messages::{MOSDFailure, MOSDPing, Message, PingOp, RawMessage, pg_peer_target};
use pg::Nonsense;
use types::{Epoch, Instant, OsdId};

use crate::{
    ConnId, Effect, Osd, ShardMessage,
    failsafe::in_ping,
    on_map::MapSource,
    osd::{Ctx, Waiting},
    shard::CONTROL,
};

/// No cluster has so many maps: with one a second it would be 68 years old.
const EPOCH_END: Epoch = Epoch(1 << 31);

/// How another OSD fails, as this one sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// It has not answered heartbeats for so long. The monitor waits for other OSDs to say so, too.
    Silent(Duration),
    /// Nothing can be sent to it, and the monitor acts at once.
    Unreachable {
        /// It may serve others.
        may_live: bool,
    },
    /// It answers again.
    TakenBack,
}

impl Osd {
    pub(crate) fn on_osd_message(
        &mut self,
        (conn, from): (ConnId, OsdId),
        tid: u64,
        message: Message,
        ctx: &mut Ctx<'_>,
    ) {
        match message {
            Message::MOSDPing(ping) => self.on_ping(conn, from, *ping, ctx),
            message => match pg_peer_target(&message).map(|(_, epoch)| epoch) {
                // No such map ever comes.
                Some(epoch) if epoch >= EPOCH_END => self.refuse_osd(from, Nonsense::Epoch, ctx),
                Some(epoch) if epoch > self.map.epoch => {
                    let waiting = Waiting { epoch, conn, tid, from: Some(from), message, permit: None };
                    self.wait_for_map(waiting, ctx);
                }
                Some(epoch) => {
                    self.share_maps(conn, epoch, ctx);
                    let txn = match &message {
                        Message::MOSDRepOp(change) => Some(&change.txn),
                        Message::MPgPush(push) => Some(&push.txn),
                        _ => None,
                    };
                    if let Some(txn) = txn {
                        self.note_written(txn.payload_bytes() as u64, ctx);
                    }
                    self.pg_peer_message(from, message, ctx);
                }
                None => tracing::debug!(message = message.name(), osd = from.0, "ignored from an OSD"),
            },
        }
    }

    /// A PG of another shard of this OSD speaks. It may have come to a map that this shard does not have yet.
    pub(crate) fn on_own_peer(&mut self, message: Message, ctx: &mut Ctx<'_>) {
        let me = self.config.whoami;
        match pg_peer_target(&message) {
            Some((_, epoch)) if epoch > self.map.epoch => {
                let (conn, tid) = (ConnId::NONE, 0);
                let waiting = Waiting { epoch, conn, tid, from: Some(me), message, permit: None };
                self.wait_for_map(waiting, ctx);
            }
            Some(_) | None => self.pg_peer_message(me, message, ctx),
        }
    }

    /// What another OSD answers on the connection over which this one sends to it: that this OSD is behind, or dead by
    /// the map.
    pub(crate) fn on_answer_of_osd(&mut self, from: OsdId, message: Message, ctx: &mut Ctx<'_>) {
        if !self.config.shard.is_control() {
            return ctx.send_shard(CONTROL, ShardMessage::FromOsd(from, message));
        }
        match message {
            Message::MOSDMap(maps) => self.on_osd_map(MapSource::Osd, *maps, ctx),
            Message::MOSDPing(ping) if ping.op == PingOp::YOU_DIED => {
                if self.has_mon {
                    self.subscribe(ctx);
                }
            }
            other => {
                tracing::debug!(message = other.name(), osd = from.0, "an OSD does not answer with this")
            }
        }
    }

    fn on_ping(&mut self, conn: ConnId, from: OsdId, ping: MOSDPing, ctx: &mut Ctx<'_>) {
        let me = self.config.whoami;
        match ping.op {
            // An OSD that cannot serve must not grant the lease that an answer is, nor seem to live.
            PingOp::PING if self.watchdog.is_stalled() => {}
            // The ping is of a life before the one that the map shows: the peer's present life has not sent it.
            PingOp::PING if self.map.is_up(from) && ping.up_from < self.map.up_from(from) => {}
            PingOp::PING => {
                let is_dead = self.map.is_down(from) && ping.epoch <= self.map.epoch;
                let op = if is_dead { PingOp::YOU_DIED } else { PingOp::REPLY };
                let (up_from, epoch, stamp_ns) = (self.boot_epoch, self.map.epoch, ping.stamp_ns);
                let (room, left_bytes) = in_ping(self.told_room());
                let reply = MOSDPing { op, from: me, up_from, epoch, stamp_ns, room, left_bytes };
                if is_dead {
                    // `send_osd` sends nothing to an OSD that the map shows down: the answer goes over the connection
                    // of the ping.
                    self.send_conn(conn, 0, reply.into(), ctx);
                } else {
                    let now = ctx.now;
                    self.leases.on_given(from, now);
                    self.send_other_shards(|| ShardMessage::LeaseGiven(from, now), ctx);
                    self.send_osd(from, reply.into(), ctx);
                    self.on_room(from, &ping, ctx);
                }
                self.share_maps(conn, ping.epoch, ctx);
            }
            // The time stamp is by another clock, so the ping was sent in a life before this one. It would make a lease
            // last too long.
            PingOp::REPLY if Instant(ping.stamp_ns) > ctx.now => {}
            PingOp::REPLY => {
                // A peer with a newer map may follow another primary: its answer grants no lease.
                if ping.epoch <= self.map.epoch {
                    let (up_from, sent) = (ping.up_from, Instant(ping.stamp_ns));
                    self.on_lease_granted(from, up_from, sent);
                    self.send_other_shards(|| ShardMessage::LeaseGranted(from, up_from, sent), ctx);
                }
                self.on_room(from, &ping, ctx);
                if self.heartbeat.on_reply(ctx.now, from, Instant(ping.stamp_ns)) {
                    self.report_failure(from, self.map.up_from(from), FailureKind::TakenBack, ctx);
                }
            }
            other => tracing::debug!(op = other.0, "an unknown heartbeat"),
        }
    }

    /// An OSD has answered a ping that left here at `sent`, in its life that began in the epoch `up_from`. Another one
    /// than the map shows grants nothing, as the present one, or the next, knows nothing of it.
    pub(crate) fn on_lease_granted(&mut self, from: OsdId, up_from: Epoch, sent: Instant) {
        if self.map.is_up(from) && up_from == self.map.up_from(from) {
            self.leases.on_granted(from, sent);
        }
    }

    /// The session with an OSD is stuck. The end of the OSD's life ends that; it may have come before anything was said
    /// to the OSD from here.
    pub(crate) fn on_stuck_osd(&mut self, osd: OsdId, ctx: &mut Ctx<'_>) {
        match self.map.is_up(osd) {
            true => self.on_net_fault(osd, true, ctx),
            false => ctx.effects.push(Effect::ForgetOsd(osd)),
        }
    }

    /// Nothing listens at the address of an OSD.
    pub(crate) fn on_refused_osd(&mut self, osd: OsdId, ctx: &mut Ctx<'_>) {
        self.on_net_fault(osd, false, ctx);
    }

    /// The network cannot reach an OSD, in the life whose end it has not been told.
    fn on_net_fault(&mut self, osd: OsdId, may_live: bool, ctx: &mut Ctx<'_>) {
        let is_end = |effect: &Effect| matches!(effect, Effect::ForgetOsd(ended) if *ended == osd);
        // The map shows the next life, which the network knows nothing of yet. If that cannot be reached either, it
        // says so again.
        if !ctx.effects.iter().any(is_end) {
            self.on_unreachable_osd((osd, self.map.up_from(osd)), may_live, ctx);
        }
    }

    /// Nothing listens at the address of an OSD that the map shows up, or that OSD takes nothing, in the life that
    /// began in the epoch `up_from`. Either way, what waits for its answers does not go on before a map shows it down;
    /// but an OSD that takes nothing of ours may serve others.
    ///
    /// The control shard may know of the OSD's next life, which is not to be taken for dead.
    pub(crate) fn on_unreachable_osd(
        &mut self,
        (osd, up_from): (OsdId, Epoch),
        may_live: bool,
        ctx: &mut Ctx<'_>,
    ) {
        if !self.config.shard.is_control() {
            return ctx.send_shard(CONTROL, ShardMessage::OsdUnreachable(osd, up_from, may_live));
        }
        if self.heartbeat.on_unreachable(ctx.now, osd, up_from) {
            self.report_failure(osd, up_from, FailureKind::Unreachable { may_live }, ctx);
        }
    }

    /// Tells the monitor how this OSD sees the life of another one that began in the epoch `target_up_from`.
    pub(crate) fn report_failure(
        &self,
        target: OsdId,
        target_up_from: Epoch,
        kind: FailureKind,
        ctx: &mut Ctx<'_>,
    ) {
        let failed_for = match kind {
            FailureKind::Silent(failed_for) => failed_for,
            FailureKind::Unreachable { .. } | FailureKind::TakenBack => Duration::ZERO,
        };
        let report = MOSDFailure {
            reporter: self.config.whoami,
            target,
            target_up_from,
            is_failed: kind != FailureKind::TakenBack,
            is_immediate: matches!(kind, FailureKind::Unreachable { .. }),
            failed_for_ms: u64::try_from(failed_for.as_millis()).unwrap_or(u64::MAX),
            epoch: self.map.epoch,
            may_live: kind == FailureKind::Unreachable { may_live: true },
        };
        ctx.effects.push(Effect::SendMon(report.into()));
    }

    /// Sends to an OSD by the newest map; dropped when that shows it down.
    pub(crate) fn send_osd(&mut self, osd: OsdId, message: Message, ctx: &mut Ctx<'_>) {
        self.send_osds(&[osd], &Arc::new(message.encode(0).sealed()), ctx);
    }

    /// Sends one message, encoded once, to several OSDs by the newest map.
    pub(crate) fn send_osds(&mut self, osds: &[OsdId], message: &Arc<RawMessage>, ctx: &mut Ctx<'_>) {
        for &osd in osds {
            let addrs = self.map.osd_cluster_addrs(osd).filter(|_| self.map.is_up(osd));
            let Some(addrs) = addrs.map(|addrs| self.pgs.contact(osd, addrs)) else { continue };
            ctx.effects.push(Effect::SendOsd { osd, addrs, message: Arc::clone(message) });
        }
    }
}

#[cfg(test)]
mod tests;
