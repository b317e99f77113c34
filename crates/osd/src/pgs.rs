//! The OSD's PGs: making, loading, walking through maps, handing events in and carrying effects out.

mod early;
mod early_ops;
mod make;
mod walk;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use messages::{MOSDAlive, MOSDOp, MPgNotify, MPgPush, Message, PgCreation, pg_peer_target};
use pg::{Client, CommitTimes, Ctx as PgCtx, Event, OpCounts, OpHistograms, Permit, Pg};
use rand::RngCore;
use store::Completion;
use types::{
    CollId, EVersion, EntityAddrVec, Epoch, Errno, Instant, OsdId, PgId, PgInfo, PgStat, Token, Transaction,
};

use crate::{
    ConnId, Effect, Osd, ShardMessage,
    boot::Boot,
    osd::{Ctx, WAKE},
    shard::CONTROL,
};
use early::EarlyPassedOn;

/// The token of map transactions and the like: nothing waits for their completion.
pub(crate) const MAP_TOKEN: Token = Token(0);

/// The PGs of this shard, and what it keeps for them.
#[derive(Default)]
pub(crate) struct Pgs {
    pgs: BTreeMap<PgId, Pg>,
    /// Which PG a store token's high half names, of those that are here.
    ids: BTreeMap<u32, PgId>,
    last_id: u32,
    /// Ops for PGs that we should lead and that are not here yet.
    pub(crate) early: Vec<(ConnId, u64, Box<MOSDOp>, Permit)>,
    /// Such ops that other OSDs have passed on: one that was dropped would come again behind later ones.
    early_passed_on: EarlyPassedOn,
    /// OSDs spoken to, and where they were then.
    contacted: BTreeMap<OsdId, Arc<EntityAddrVec>>,
    /// The PGs that want to be woken, by the time; the first has a timer.
    wakes: BTreeSet<(Instant, PgId)>,
    /// Empty memory for what a PG wants done.
    effects: Vec<pg::Effect>,
    /// What PGs have told PGs of this shard, which has not heard it yet.
    own_messages: VecDeque<Message>,
    /// PGs do not hear it now: a message is being delivered, or they walk into a map.
    is_holding: bool,
    /// What PGs served that are not here any more.
    served_before: OpCounts,
    histograms_before: OpHistograms,
    /// Copies that were replaced of PGs that are not here any more.
    copies_repaired_before: u64,
    /// How long changes took of PGs that are not here any more.
    commit_times_before: CommitTimes,
}

impl Pgs {
    pub(crate) fn ids(&self) -> impl Iterator<Item = PgId> + '_ {
        self.pgs.keys().copied()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Pg> {
        self.pgs.values()
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Pg> {
        self.pgs.values_mut()
    }

    pub(crate) fn primaries(&self) -> impl Iterator<Item = &Pg> {
        self.pgs.values().filter(|pg| pg.is_primary())
    }

    /// A PG that is here.
    pub(crate) fn get(&self, pgid: PgId) -> Option<&Pg> {
        self.pgs.get(&pgid)
    }

    /// A PG that is here, to be changed.
    pub(crate) fn get_mut(&mut self, pgid: PgId) -> Option<&mut Pg> {
        self.pgs.get_mut(&pgid)
    }

    pub(crate) fn len(&self) -> usize {
        self.pgs.len()
    }

    /// Requests that wait for PGs to be here, and messages that wait to be delivered.
    pub(crate) fn early_count(&self) -> usize {
        self.early.len() + self.early_passed_on.len() + self.own_messages.len()
    }

    /// Copies that could not be read and were replaced.
    pub(crate) fn copies_repaired(&self) -> u64 {
        self.copies_repaired_before + self.pgs.values().map(Pg::copies_repaired).sum::<u64>()
    }

    /// What clients were served since this OSD was started.
    pub(crate) fn op_counts(&self) -> OpCounts {
        self.pgs.values().map(Pg::op_counts).chain([self.served_before]).sum()
    }

    /// How long that took, by size.
    pub(crate) fn histograms(&self) -> OpHistograms {
        let mut all = self.histograms_before.clone();
        self.pgs.values().for_each(|pg| all.add(pg.histograms()));
        all
    }

    /// How long changes took to become durable since this OSD was started.
    pub(crate) fn commit_times(&self) -> CommitTimes {
        self.pgs.values().map(Pg::commit_times).chain([self.commit_times_before]).sum()
    }

    /// The PG goes, with the number of its tokens; what it counted stays.
    fn take(&mut self, pgid: PgId) -> Option<Pg> {
        let pg = self.pgs.remove(&pgid)?;
        self.ids.remove(&pg.token_id());
        self.copies_repaired_before += pg.copies_repaired();
        self.histograms_before.add(pg.histograms());
        self.served_before = [self.served_before, pg.op_counts()].into_iter().sum();
        self.commit_times_before = [self.commit_times_before, pg.commit_times()].into_iter().sum();
        Some(pg)
    }

    fn new_id(&mut self, pgid: PgId) -> u32 {
        self.last_id += 1;
        self.ids.insert(self.last_id, pgid);
        self.last_id
    }

    /// OSDs that share PGs with this one.
    pub(crate) fn peers(&self) -> BTreeSet<OsdId> {
        self.pgs.values().flat_map(Pg::members).collect()
    }

    /// Notes that an OSD is spoken to at `addrs`, and returns these, shared.
    pub(crate) fn contact(&mut self, osd: OsdId, addrs: &EntityAddrVec) -> Arc<EntityAddrVec> {
        let known = self.contacted.entry(osd).or_default();
        if **known != *addrs {
            *known = Arc::new(addrs.clone());
        }
        Arc::clone(known)
    }

    /// The life is over in which an OSD was spoken to.
    pub(crate) fn forget_contact(&mut self, osd: OsdId) {
        self.contacted.remove(&osd);
    }
}

/// The answer to an OSD that asks for a copy that was here, or for an object of it, and waits: there is none. `epoch`
/// is the newest map's; the store has been the OSD's since `store_born`.
fn answer_without_pg(message: Message, epoch: Epoch, store_born: Epoch) -> Option<Message> {
    match message {
        Message::MPgQuery(query) => {
            let info = PgInfo { created: query.created, epoch, store_born, ..PgInfo::default() };
            let (intervals, leases) = (Vec::new(), Vec::new());
            Some(MPgNotify { pgid: query.pgid, epoch, info, intervals, leases }.into())
        }
        Message::MPgPull(pull) => {
            let (version, txn) = (EVersion::ZERO, Transaction::new(CollId::pg(pull.pgid)));
            // The answer has the epoch of the question: later intervals have nothing to do with it.
            Some(MPgPush::whole((pull.pgid, pull.epoch), pull.object, version, txn).into())
        }
        _ => None,
    }
}

impl Osd {
    pub(crate) fn pg_event(&mut self, pgid: PgId, event: Event, ctx: &mut Ctx<'_>) {
        self.with_pg(pgid, ctx, |pg, pg_ctx| pg.handle(event, pg_ctx));
    }

    /// Calls into a PG and carries out its effects.
    pub(crate) fn with_pg(
        &mut self,
        pgid: PgId,
        ctx: &mut Ctx<'_>,
        act: impl FnOnce(&mut Pg, &mut PgCtx<'_>),
    ) {
        let Some(pg) = self.pgs.pgs.get_mut(&pgid) else { return };
        let mut effects = std::mem::take(&mut self.pgs.effects);
        let mut pg_ctx = PgCtx {
            now: ctx.now,
            wall: ctx.wall,
            store: ctx.store,
            map: &self.map,
            rooms: &self.failsafe.rooms,
            leases: &self.leases,
            scrub: &self.scrub_policy,
            recovery: &self.recovery_policy,
            copying: &self.admission.copying,
            reading: &self.admission.reading,
            notifying: &self.admission.notifying,
            random: self.rng.next_u64(),
            effects: &mut effects,
        };
        act(pg, &mut pg_ctx);
        if pg.is_removed() {
            self.pgs.take(pgid);
        }
        self.carry_out(pgid, &mut effects, ctx);
        self.pgs.effects = effects;
        self.deliver_own_messages(ctx);
    }

    /// Requests go on that waited until others let go of what they had loaded.
    pub(crate) fn give_read_turns(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(pgid) = self.admission.reading.next_turn() {
            self.pg_event(pgid, Event::ReadTurn, ctx);
        }
    }

    fn carry_out(&mut self, pgid: PgId, effects: &mut Vec<pg::Effect>, ctx: &mut Ctx<'_>) {
        for effect in effects.drain(..) {
            self.pg_effect(pgid, effect, ctx);
        }
    }

    /// Delivers what PGs of this shard have told each other, once all that was wanted before is carried out: what comes
    /// of a message, such as a change that is sent to replicas, must not overtake that. Messages are delivered one
    /// after the other: if each PG heard its message at once, within the call that told it, the stack would be as deep
    /// as the conversation is long.
    fn deliver_own_messages(&mut self, ctx: &mut Ctx<'_>) {
        if self.pgs.own_messages.is_empty() || self.pgs.is_holding {
            return;
        }
        self.pgs.is_holding = true;
        while let Some(message) = self.pgs.own_messages.pop_front() {
            self.pg_peer_message(self.config.whoami, message, ctx);
        }
        self.pgs.is_holding = false;
    }

    /// Delivers what has waited for PGs that are here now. What is left waits for PGs that are not.
    fn deliver_early(&mut self, ctx: &mut Ctx<'_>) {
        let Pgs { pgs, early_passed_on, .. } = &mut self.pgs;
        let questions = early_passed_on.take(|pgid| pgs.contains_key(&pgid));
        self.deliver_early_ops(ctx);
        for (from, question) in questions {
            self.pg_peer_message(from, Message::MPgProxyOp(question), ctx);
        }
    }

    fn pg_effect(&mut self, pgid: PgId, effect: pg::Effect, ctx: &mut Ctx<'_>) {
        match effect {
            // While the OSD stops, answers to requests of other OSDs' clients are dropped, like those to its own
            // clients below: requests that were passed on, and what is read of an object to be copied.
            pg::Effect::SendOsd(_, Message::MPgProxyReply(_) | Message::MPgCopyData(_))
                if matches!(self.boot, Boot::Stopping { .. }) => {}
            // One PG here may ask another.
            pg::Effect::SendOsd(osd, message) if osd == self.config.whoami => {
                let shard = self.place_of(&message);
                match shard == self.config.shard.index {
                    true => self.pgs.own_messages.push_back(message),
                    false => ctx.send_shard(shard, ShardMessage::OwnPeer(message)),
                }
            }
            pg::Effect::SendOsd(osd, message) => self.send_osd(osd, message, ctx),
            pg::Effect::SendOsds(osds, message) => {
                self.send_osds(&osds, &Arc::new(message.encode(0).sealed()), ctx)
            }
            pg::Effect::SendEncoded(osds, message) => self.send_osds(&osds, &message, ctx),
            // The monitor is told that this OSD serves no more: other OSDs may serve already.
            pg::Effect::Reply { .. } if matches!(self.boot, Boot::Stopping { .. }) => {}
            pg::Effect::Reply { session, tid, reply } => {
                self.image_op_ended(ConnId(session), tid, &reply, ctx);
                self.send_conn(ConnId(session), tid, Message::MOSDOpReply(reply), ctx);
            }
            pg::Effect::Tell(session, message) => {
                self.send_conn(ConnId(session), 0, message, ctx);
            }
            pg::Effect::ShareMap(session) => self.share_maps(ConnId(session), Epoch(0), ctx),
            pg::Effect::Dropped { session, bytes } => self.note_dropped(ConnId(session), pgid, bytes),
            pg::Effect::Grew(bytes) => self.note_written(bytes, ctx),
            pg::Effect::ClusterLog(level, line) => self.cluster_log(level, line, ctx),
            pg::Effect::WakeAt(at) => {
                self.pgs.wakes.insert((at, pgid));
                self.set_wake_timer(ctx);
            }
            pg::Effect::WantUpThru(want) => self.want_up_thru(want, ctx),
            pg::Effect::WantActing(osds) => self.want_acting(pgid, osds, ctx),
            pg::Effect::Refused(osd, nonsense) => self.refuse_osd(osd, nonsense, ctx),
            pg::Effect::StatsChanged | pg::Effect::Removed => self.stats_changed(ctx),
        }
    }

    /// A PG waits for the map to say that this OSD lived in epoch `want`.
    pub(crate) fn want_up_thru(&mut self, want: Epoch, ctx: &mut Ctx<'_>) {
        if want <= self.up_thru_wanted {
            return;
        }
        self.up_thru_wanted = want;
        match self.config.shard.is_control() {
            true => self.ask_up_thru(ctx),
            false => ctx.send_shard(CONTROL, ShardMessage::WantUpThru(want)),
        }
    }

    /// Asks the monitor to record that this OSD lives, as long as a PG waits for that.
    pub(crate) fn ask_up_thru(&self, ctx: &mut Ctx<'_>) {
        if self.up_thru_wanted > self.map.up_thru(self.config.whoami) {
            let alive = MOSDAlive { osd: self.config.whoami, want: self.up_thru_wanted };
            ctx.effects.push(Effect::SendMon(alive.into()));
        }
    }

    /// A client's op, permitted, for a PG of the newest map.
    pub(crate) fn pg_op(
        &mut self,
        conn: ConnId,
        tid: u64,
        op: Box<MOSDOp>,
        permit: Permit,
        ctx: &mut Ctx<'_>,
    ) {
        let pgid = op.pgid;
        if !self.pgs.pgs.contains_key(&pgid) {
            let (me, placed) = (self.config.whoami, self.map.pg_to_up_acting(pgid));
            if placed.acting_primary == me {
                self.wait_for_pg(conn, tid, op, permit.since(), ctx);
            } else if placed.acting.contains(&me) && op.asks_any_copy() {
                // This OSD is going to be a replica: the primary has what the client wants.
                self.refuse(conn, tid, &op, Errno::EAGAIN, ctx);
            }
            return;
        }
        let Some(session) = self.sessions.get(&conn) else { return };
        let client = Client {
            session: conn.0,
            entity: session.entity(),
            addr: session.peer.addr,
            features: session.peer.features,
        };
        self.pg_event(pgid, Event::Op { client, tid, op, permit }, ctx);
    }

    /// Another OSD's message about a PG. An OSD that should have the PG and does not, makes it if the sender knows the
    /// PG's past: if it is a copy that tells its primary what it has, or the primary that activates this copy. A
    /// question makes no PG, nor does the answer of an OSD that has no copy.
    ///
    /// Authority: `OSD::handle_pg_query_nopg`, `MOSDPGNotify2::get_create_info`, `MOSDPGLog::get_create_info` (16.2).
    pub(crate) fn pg_peer_message(&mut self, from: OsdId, message: Message, ctx: &mut Ctx<'_>) {
        let Some((pgid, epoch)) = pg_peer_target(&message) else { return };
        if self.is_refused(from) {
            return;
        }
        if !self.pgs.pgs.contains_key(&pgid) {
            if let Message::MPgProxyOp(question) = message {
                if self.map.pg_to_up_acting(pgid).acting_primary == self.config.whoami {
                    self.pgs.early_passed_on.keep(from, question);
                }
                return;
            }
            if let Err(nonsense) = pg::check_message(&message) {
                return self.refuse_osd(from, nonsense, ctx);
            }
            let (created, intervals) = match &message {
                Message::MPgQuery(_) | Message::MPgPull(_) => {
                    return self.answer_without_pg(from, message, ctx);
                }
                // Every copy is in some interval.
                Message::MPgNotify(notify) if notify.info.since != Epoch(0) => {
                    (notify.info.created, notify.intervals.clone())
                }
                Message::MPgLog(log) if log.is_activation => (log.info.created, log.intervals.clone()),
                _ => return,
            };
            let placed = self.map.pg_to_up_acting(pgid);
            let me = self.config.whoami;
            let is_member =
                placed.acting.contains(&me) || placed.up.contains(&me) || placed.acting_primary == me;
            if !is_member || !self.map.pg_exists(pgid) {
                return;
            }
            self.make_pg(PgCreation { pgid, created, intervals }, epoch, ctx);
        }
        self.pg_event(pgid, Event::Peer(from, message), ctx);
    }

    fn answer_without_pg(&mut self, from: OsdId, message: Message, ctx: &mut Ctx<'_>) {
        if let Some(answer) = answer_without_pg(message, self.map.epoch, self.maps.born) {
            self.send_osd(from, answer, ctx);
        }
    }

    /// What a PG wanted of the store is done.
    pub(crate) fn pg_completion(&mut self, completion: Completion, ctx: &mut Ctx<'_>) {
        let token = completion.token();
        let id = (token.0 >> 32) as u32;
        match self.pgs.ids.get(&id).copied() {
            Some(pgid) => self.pg_event(pgid, Event::Store(completion), ctx),
            // The PG was removed meanwhile, and may have been made anew.
            None => ctx.store.unload(token),
        }
    }

    pub(crate) fn pgs_session_closed(&mut self, conn: ConnId, ctx: &mut Ctx<'_>) {
        for pgid in self.pgs.ids().collect::<Vec<_>>() {
            self.pg_event(pgid, Event::SessionClosed(conn.0), ctx);
        }
    }

    fn set_wake_timer(&self, ctx: &mut Ctx<'_>) {
        if let Some((at, _)) = self.pgs.wakes.first() {
            ctx.effects.push(Effect::SetTimer(WAKE, *at));
        }
    }

    /// Wakes the PGs whose time has come.
    pub(crate) fn wake_pgs(&mut self, ctx: &mut Ctx<'_>) {
        let due: Vec<_> = self.pgs.wakes.extract_if(.., |(at, _)| *at <= ctx.now).collect();
        // Those that want to be woken at once, to go on with something long, are woken by the timer: what has come
        // meanwhile has its turn first.
        for (_, pgid) in due {
            self.pg_event(pgid, Event::Wake, ctx);
        }
        self.set_wake_timer(ctx);
    }

    pub(crate) fn tick_pgs(&mut self, ctx: &mut Ctx<'_>) {
        self.scrub_policy.is_recovering = self.pgs.primaries().any(Pg::is_recovering);
        // Scrubs begin with ticks, as many as may run at once: the PG whose turn is next is ticked first.
        let mut ids: Vec<PgId> = self.pgs.ids().collect();
        ids.sort_by_cached_key(|pgid| self.pgs.get(*pgid).map(Pg::scrub_turn));
        for pgid in ids {
            self.pg_event(pgid, Event::Tick, ctx);
        }
    }

    pub(crate) fn primary_pg_stats(&mut self, ctx: &Ctx<'_>) -> Vec<PgStat> {
        let primaries = self.pgs.pgs.values_mut().filter(|pg| pg.is_primary());
        primaries.map(|pg| pg.stat(&self.map, ctx.wall)).collect()
    }

    /// PGs of all shards that this OSD leads, as far as they have reported.
    pub(crate) fn primary_pg_count(&self) -> usize {
        self.pgs.primaries().count() + self.control.reports().map(|report| report.pgs.len()).sum::<usize>()
    }

    /// PGs of all shards.
    pub(crate) fn pg_count(&self) -> usize {
        self.pgs.len() + self.control.reports().map(|report| report.pg_count).sum::<usize>()
    }
}

#[cfg(test)]
mod tests;
