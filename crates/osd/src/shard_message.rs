//! What the shards of an OSD say to each other, and what each does with it. Between two shards the order
//! is kept; that carries the weight: a session is announced before its ops come, and what the control
//! shard says of leases is heard before the maps that follow.

use std::collections::{BTreeMap, BTreeSet};

use messages::{
    ImageCounts, ImageKey, LogLevel, MOSDForceRecovery, MOSDMap, MOSDPGCreate, MOSDScrub, Message,
    pg_peer_target,
};
use pg::{CommitTimes, OpCounts, OpHistograms, Room};
use serde_json::{Map, Value};
use store::{DeviceWaits, StoreUsage};
use types::{Epoch, Instant, OsdId, PgId, PgStat, PoolId, PoolStatfs, Settings};

use crate::{
    ConnId, Effect, Osd, Peer, boot::Boot, on_map::MapSource, osd::Ctx, shard::CONTROL, slow_ops::SlowOps,
    tell,
};

/// From one shard to another.
#[derive(Debug)]
pub enum ShardMessage {
    /// A connection of the sender: messages of it follow.
    Opened(ConnId, Box<Peer>),
    /// A connection of the sender is gone.
    Closed(ConnId),
    /// A message from it, about a PG of the receiver, or for the control shard.
    Received(ConnId, u64, Message),
    /// To the peer of a connection of the receiver.
    Send(ConnId, u64, Message),
    /// Close a connection of the receiver.
    Close(ConnId),
    /// Take nothing more from the client of a connection of the receiver, whose ops wait in the sender, or take again.
    Hold(ConnId, bool),
    /// A PG of the sender tells a PG of the receiver, which is of this OSD, too.
    OwnPeer(Message),
    /// The sender holds as many ops as it wants to (or not any more): take no more of clients.
    Saturated(bool),
    /// To the control shard: what the sender has.
    Report(Box<Report>),
    /// To the control shard: the sender has maps up to this epoch and wants newer ones.
    WantMaps(Epoch),
    /// To the control shard: the sender wants the whole map of this epoch.
    WantWholeMap(Epoch),
    /// To the control shard: PGs want the map to say that this OSD lived in this epoch.
    WantUpThru(Epoch),
    /// To the control shard: these are to act in a PG of the sender's.
    WantActing(PgId, Vec<OsdId>),
    /// What an OSD said to a PG of the receiver's, whose pool was not known when it came; on a connection that may be
    /// gone.
    FromPeer(ConnId, OsdId, Message),
    /// To the control shard: an OSD answers on a connection of the sender.
    FromOsd(OsdId, Message),
    /// To the control shard: that OSD cannot be reached in the life that began in this epoch; true if it may live.
    OsdUnreachable(OsdId, Epoch, bool),
    /// To the control shard: what clients did with images.
    Images(BTreeMap<ImageKey, ImageCounts>),
    /// To the control shard: the report asked for by that number has been sent.
    Flushed(u64),
    /// To the control shard: a part of the answer to the command of that number.
    Gathered(u64, Value),
    /// To the control shard: no client is answered any more.
    Quiesced,
    /// To the control shard: the sender's thread goes on; this is what its devices have not answered.
    Liveness(DeviceWaits),
    /// To the control shard: a line for the cluster log.
    ClusterLog(LogLevel, String),
    /// From the control shard: new maps.
    Maps(Box<MOSDMap>),
    /// From the control shard: the options in force.
    Settings(Box<Settings>),
    /// From the control shard: these PGs never existed.
    PgCreate(Box<MOSDPGCreate>),
    /// From the control shard: scrub these PGs.
    Scrub(Box<MOSDScrub>),
    /// From the control shard: recover these PGs before others, or no more.
    Force(Box<MOSDForceRecovery>),
    /// From the control shard: a peer answered a ping that left then.
    LeaseGranted(OsdId, Epoch, Instant),
    /// From the control shard: a peer's ping was answered then.
    LeaseGiven(OsdId, Instant),
    /// From the control shard: that OSD has so much room.
    Room(OsdId, Room),
    /// From the control shard: act as if the store were all but full, or no more.
    InjectFailsafe(bool),
    /// From the control shard: count what clients do with images for so many seconds.
    CountImages(u32),
    /// From the control shard: send your part of the answer to this command, which has that number.
    Gather(u64, Box<Map<String, Value>>),
    /// From the control shard: report at once, and say that it was for this number.
    Flush(u64),
    /// From the control shard: the OSD is going to be marked down, answer no client any more.
    Quiesce,
    /// From the control shard: stop.
    Stop,
}

/// What a shard tells the control shard about itself, for reports to the monitor and for operators.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The PGs that it leads.
    pub pgs: Vec<PgStat>,
    /// How many it holds.
    pub pg_count: usize,
    /// OSDs that share PGs with it.
    pub peers: BTreeSet<OsdId>,
    /// Space of its store.
    pub usage: StoreUsage,
    /// What pools take of it.
    pub pool_usage: Vec<(PoolId, PoolStatfs)>,
    /// Ops that it holds.
    pub ops: u64,
    /// Copies that could not be read and were replaced.
    pub copies_repaired: u64,
    /// What it has served.
    pub op_counts: OpCounts,
    /// How long that took, by size.
    pub histograms: OpHistograms,
    /// Ops that took too long.
    pub slow_ops: SlowOps,
    /// How long changes took to become durable since its start.
    pub commit_times: CommitTimes,
}

impl Osd {
    /// Which shard a message is for: that of its PG, or the control shard.
    pub(crate) fn place_of(&self, message: &Message) -> u16 {
        let (shard, map) = (self.config.shard, &self.map);
        if shard.count == 1 {
            return shard.index;
        }
        match message {
            // A client's ops wait here for the map that has their pool: if they waited in the shard that seems to be
            // theirs, later ones could pass them on the way to the right one.
            Message::MOSDOp(op) => shard.known_owner(op.pgid, map).unwrap_or(shard.index),
            Message::MOSDBackoff(backoff) => shard.owner(backoff.pgid.pg, map),
            Message::MCommand(command) => tell::pg_of(command).map_or(CONTROL, |pgid| shard.owner(pgid, map)),
            Message::MPing(_) => shard.index,
            // What OSDs say waits here, too. The shard that seems to be the PG's may have the map already, and would
            // make the PG, though it belongs to another one.
            message => pg_peer_target(message)
                .map_or(CONTROL, |(pgid, _)| shard.known_owner(pgid, map).unwrap_or(shard.index)),
        }
    }

    /// Hands a message of one of our connections to another shard.
    pub(crate) fn pass_on(&mut self, to: u16, conn: ConnId, tid: u64, message: Message, ctx: &mut Ctx<'_>) {
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        if session.announce_to(to) {
            ctx.send_shard(to, ShardMessage::Opened(conn, Box::new(session.peer.clone())));
        }
        ctx.send_shard(to, ShardMessage::Received(conn, tid, message));
    }

    /// Sends to the peer of a connection, whichever shard has it.
    pub(crate) fn send_conn(&self, conn: ConnId, tid: u64, message: Message, ctx: &mut Ctx<'_>) {
        match conn.shard() {
            shard if shard == self.config.shard.index => ctx.effects.push(Effect::Send(conn, tid, message)),
            shard => ctx.send_shard(shard, ShardMessage::Send(conn, tid, message)),
        }
    }

    /// Closes a connection, whichever shard has it.
    pub(crate) fn close_conn(&mut self, conn: ConnId, ctx: &mut Ctx<'_>) {
        match conn.shard() {
            shard if shard == self.config.shard.index => {
                ctx.effects.push(Effect::Close(conn));
                // No event tells of the end of what was closed from here.
                self.on_conn_closed(conn, ctx);
            }
            shard => ctx.send_shard(shard, ShardMessage::Close(conn)),
        }
    }

    /// Has nothing more taken from a client, or lets it be taken again, whichever shard has its connection.
    pub(crate) fn hold_conn(&mut self, conn: ConnId, hold: bool, ctx: &mut Ctx<'_>) {
        match conn.shard() {
            shard if shard == self.config.shard.index => self.hold_own_conn(shard, conn, hold, ctx),
            shard => ctx.send_shard(shard, ShardMessage::Hold(conn, hold)),
        }
    }

    /// Does so for one of the shards, with a connection of this one.
    fn hold_own_conn(&mut self, by: u16, conn: ConnId, hold: bool, ctx: &mut Ctx<'_>) {
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        if session.hold(by, hold) {
            ctx.effects.push(Effect::Hold(conn, hold));
        }
    }

    /// Tells every other shard.
    pub(crate) fn send_other_shards(&self, message: impl Fn() -> ShardMessage, ctx: &mut Ctx<'_>) {
        for shard in self.config.shard.others() {
            ctx.send_shard(shard, message());
        }
    }

    /// Tells each other shard of those of the PGs that belong to it.
    pub(crate) fn send_shards_of(
        &self,
        pgs: &[PgId],
        message: impl Fn(Vec<PgId>) -> ShardMessage,
        ctx: &mut Ctx<'_>,
    ) {
        let shard = self.config.shard;
        for other in shard.others() {
            let theirs: Vec<PgId> =
                pgs.iter().filter(|pgid| shard.owner(**pgid, &self.map) == other).copied().collect();
            if !theirs.is_empty() {
                ctx.send_shard(other, message(theirs));
            }
        }
    }

    /// Another shard says.
    pub(crate) fn on_shard_message(&mut self, from: u16, message: ShardMessage, ctx: &mut Ctx<'_>) {
        match message {
            ShardMessage::Opened(conn, peer) => self.on_conn_opened(conn, *peer),
            ShardMessage::Closed(conn) => self.on_conn_closed(conn, ctx),
            ShardMessage::Received(conn, tid, message) => self.on_own_message(conn, tid, message, ctx),
            ShardMessage::Send(conn, tid, message) => ctx.effects.push(Effect::Send(conn, tid, message)),
            ShardMessage::Close(conn) => self.close_conn(conn, ctx),
            ShardMessage::Hold(conn, hold) => self.hold_own_conn(from, conn, hold, ctx),
            ShardMessage::OwnPeer(message) => self.on_own_peer(message, ctx),
            ShardMessage::Saturated(is_full) => self.admission.on_shard_full(from, is_full),
            ShardMessage::Report(report) => self.on_report(from, *report, ctx),
            ShardMessage::WantMaps(have) => self.on_want_maps(from, have, ctx),
            ShardMessage::WantWholeMap(epoch) => self.on_want_whole_map(from, epoch, ctx),
            ShardMessage::WantUpThru(epoch) => self.want_up_thru(epoch, ctx),
            ShardMessage::WantActing(pgid, osds) => self.want_acting(pgid, osds, ctx),
            ShardMessage::FromPeer(conn, osd, message) => self.on_osd_message((conn, osd), 0, message, ctx),
            ShardMessage::FromOsd(osd, message) => self.on_answer_of_osd(osd, message, ctx),
            ShardMessage::OsdUnreachable(osd, up_from, may_live) => {
                self.on_unreachable_osd((osd, up_from), may_live, ctx);
            }
            ShardMessage::Images(images) => self.send_image_stats(images, ctx),
            ShardMessage::CountImages(seconds) => self.count_images(seconds, ctx),
            ShardMessage::Gathered(number, part) => self.on_gathered(number, part, ctx),
            ShardMessage::Gather(number, args) => {
                let part = self.part_of(&tell::Call::of(*args), ctx);
                ctx.send_shard(CONTROL, ShardMessage::Gathered(number, part));
            }
            ShardMessage::Flushed(number) => self.on_flushed(number, ctx),
            ShardMessage::Quiesced => self.on_quiesced(ctx),
            ShardMessage::Maps(maps) => self.on_osd_map(MapSource::Control, *maps, ctx),
            ShardMessage::Settings(settings) => {
                self.settings = *settings;
                self.follow_options();
                ctx.effects.push(Effect::OptionsChanged);
            }
            ShardMessage::PgCreate(create) => self.on_pg_create(*create, ctx),
            ShardMessage::Scrub(message) => self.on_scrub(&message, ctx),
            ShardMessage::Force(message) => self.on_force(&message, ctx),
            ShardMessage::Liveness(waits) => self.on_liveness(from, waits, ctx),
            ShardMessage::ClusterLog(level, line) => self.cluster_log(level, line, ctx),
            ShardMessage::LeaseGranted(osd, up_from, sent) => self.on_lease_granted(osd, up_from, sent),
            ShardMessage::LeaseGiven(osd, at) => self.leases.on_given(osd, at),
            ShardMessage::Room(osd, room) => _ = self.failsafe.rooms.set(osd, room),
            ShardMessage::InjectFailsafe(is_injected) => self.inject_failsafe(is_injected, ctx),
            ShardMessage::Flush(number) => {
                self.report(ctx);
                ctx.send_shard(CONTROL, ShardMessage::Flushed(number));
            }
            ShardMessage::Quiesce => {
                // The control shard decides when it is over.
                self.boot = Boot::Stopping { deadline: Instant(u64::MAX) };
                ctx.send_shard(CONTROL, ShardMessage::Quiesced);
            }
            ShardMessage::Stop => ctx.effects.push(Effect::Stopped),
        }
    }

    /// Tells the others when clients have to wait for this shard, and when no more.
    pub(crate) fn tell_saturation(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(is_full) = self.admission.news(self.config.shard.count) {
            self.send_other_shards(|| ShardMessage::Saturated(is_full), ctx);
        }
    }

    /// Reports to the control shard.
    pub(crate) fn report(&mut self, ctx: &mut Ctx<'_>) {
        self.told_room();
        let report = Report {
            pgs: self.primary_pg_stats(ctx),
            pg_count: self.pgs.len(),
            peers: self.pgs.peers(),
            usage: ctx.store.usage(),
            pool_usage: ctx.store.pool_usage(),
            ops: self.admission.ops(),
            copies_repaired: self.pgs.copies_repaired(),
            op_counts: self.pgs.op_counts(),
            histograms: self.pgs.histograms(),
            slow_ops: self.slow_ops.clone(),
            commit_times: self.pgs.commit_times(),
        };
        ctx.send_shard(CONTROL, ShardMessage::Report(Box::new(report)));
    }
}

#[cfg(test)]
mod tests {
    use messages::{MCommand, MOSDOp, MPgNotify};
    use types::{PgId, PgInfo, PgPool, PoolId, PoolType};

    use super::*;
    use crate::Shard;

    #[test]
    fn ops_wait_in_the_shard_that_they_came_to_until_their_pool_is_known() {
        let pgid = PgId::new(PoolId(3), 6);
        wait_here_until_their_pool_is_known(&MOSDOp { pgid, ..MOSDOp::default() }.into(), pgid);
    }

    #[test]
    fn what_osds_say_waits_in_the_shard_that_it_came_to_until_its_pool_is_known() {
        let (pgid, epoch, info) = (PgId::new(PoolId(3), 6), Epoch(9), PgInfo::default());
        let notify = MPgNotify { pgid, epoch, info, intervals: Vec::new(), leases: Vec::new() };
        wait_here_until_their_pool_is_known(&notify.into(), pgid);
    }

    #[test]
    fn commands_go_to_the_shard_of_the_pg_that_they_name_if_they_are_for_one() {
        let mut osd = Osd::alone();
        osd.config.shard = Shard { index: 2, count: 4 };
        let pgid = PgId::new(PoolId(3), 6);
        let owner = osd.config.shard.owner(pgid, &osd.map);
        assert_ne!(owner, CONTROL);
        let place = |prefix: &str| {
            let cmd = vec![format!(r#"{{"prefix":"{prefix}","pgid":"{pgid}"}}"#)];
            osd.place_of(&MCommand { cmd, ..MCommand::default() }.into())
        };
        assert_eq!(["query", "pg", "deep_scrub"].map(place), [owner; 3]);
        // As `ceph tell PGID` names it in all.
        assert_eq!(["dump_ops_in_flight", "flush_pg_stats", "version", "no such"].map(place), [CONTROL; 4]);
    }

    /// The message is for the PG, which came of the first one of its pool.
    fn wait_here_until_their_pool_is_known(message: &Message, pgid: PgId) {
        let mut osd = Osd::alone();
        osd.config.shard = Shard { index: 2, count: 4 };
        // If the pool had begun with it, it would be elsewhere.
        assert_eq!((osd.place_of(message), osd.config.shard.owner(pgid, &osd.map)), (2, 1));
        let mut pool = PgPool::new(PoolType::REPLICATED, 3, 2, 0, 2);
        pool.set_pg_num(8);
        osd.map.pools.insert(pgid.pool, pool);
        let first = PgId::new(pgid.pool, 0);
        assert_eq!((osd.place_of(message), osd.config.shard.owner(first, &osd.map)), (3, 3));
    }
}
