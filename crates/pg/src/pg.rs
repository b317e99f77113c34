//! The PG's state and the dispatch of events.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use messages::Message;
use store::{Completion, ObjectStore};
use types::{
    CollId, EVersion, Epoch, HObject, Instant, IntervalSet, Membership, Missing, OsdId, PgId, PgInfo,
    PgInterval, Token, Transaction, TxnOp,
};

use crate::{
    Ctx, Event,
    backoff::Backoffs,
    copy::{Copies, CopyQuestion},
    index_wait::{IndexWait, IndexWaits},
    interval::IntervalStart,
    lease::Lease,
    log::{PgLog, Span},
    meta::{self, LoadError, MetaChange},
    object_versions::Versions,
    ops::{LoadId, Ops},
    peer_queue::PeerQueue,
    pg_stats::PgStats,
    proxy::Proxies,
    recount::Recount,
    recovery::{Arrived, Gathered, Part, Push, Recovery},
    replica_read::Committed,
    scrub::Scrubs,
    state_history::StateHistory,
    trim::Trimming,
    unfound::Unfound,
    watch::Watches,
    window::Window,
};

/// How far the PG is in its interval.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not a member, or a member that waits for its primary.
    Idle,
    /// Replica that the primary activated.
    Replica,
    /// Primary: asks all that may know something.
    GetInfo {
        /// OSDs that have not answered.
        waiting: BTreeSet<OsdId>,
    },
    /// Primary: an interval that may have taken writes has no member left to ask.
    Down,
    /// Primary: asked the best copy for its log.
    GetLog {
        /// The OSD that was asked.
        from: OsdId,
    },
    /// Primary: others are to act, as the map will say.
    WaitActing {
        /// False for one that has not taken over the log: it can only give way, or look again.
        has_log: bool,
    },
    /// Primary: the map has to say that we live in this interval, and our log has to be durable.
    WaitUpThru,
    /// Primary: replicas take over the log.
    Activating {
        /// Members that have not confirmed that.
        waiting: BTreeSet<OsdId>,
        /// Our own record of it is durable.
        is_durable: bool,
    },
    /// Primary: serves.
    Active,
}

/// What a completion of the store means.
#[derive(Debug)]
pub(crate) enum Pending {
    /// The local part of the change of this version, which was submitted then.
    LocalCommit(EVersion, Instant),
    /// A replicated change: answer the primary.
    ReplicaCommit { primary: OsdId, version: EVersion, since: Instant },
    /// Replica: activated; answer the primary.
    ReplicaActivated { primary: OsdId },
    /// Primary: the activation is recorded.
    Activated,
    /// All that this copy was before an interval began is durable. `last`: the last map before that.
    Flushed { last: Epoch },
    /// A pushed object is here.
    Pushed { from: OsdId, object: HObject },
    /// A part of a pushed object is here.
    Gathered(Box<Part>),
    /// An object to push is being read.
    PushRead(Box<Push>),
    /// What is known of the neighbour that a push begins with is being read.
    BaseRead(Box<Arrived>),
    /// An object that another PG copies is being read, the same way: it, or a clone.
    CopyRead { asked: Box<CopyQuestion>, wanted: HObject },
    /// Work waits for part of the index.
    IndexWait(IndexWait),
    /// A scrub looks through objects; `is_anew`: by what the device has.
    ScrubLoad { is_anew: bool },
    /// An op waits for what it lacks: of its object or a clone.
    OpLoad { head: HObject, load: LoadId, wanted: HObject },
    /// Nothing waits for it.
    Nothing,
}

/// One placement group on one OSD.
pub struct Pg {
    pub(crate) id: u32,
    pub(crate) pgid: PgId,
    pub(crate) coll: CollId,
    pub(crate) me: OsdId,
    /// See [`PgInfo::store_born`].
    pub(crate) store_born: Epoch,
    pub(crate) info: PgInfo,
    /// See [`Pg::interval_seen_since`].
    pub(crate) seen_since: Epoch,
    /// The info that the store has; none before the first change.
    pub(crate) kept: Option<PgInfo>,
    pub(crate) intervals: Vec<PgInterval>,
    pub(crate) log: PgLog,
    pub(crate) missing: Missing,
    pub(crate) members: Membership,
    pub(crate) phase: Phase,
    pub(crate) peer_info: BTreeMap<OsdId, PgInfo>,
    pub(crate) peer_missing: BTreeMap<OsdId, Missing>,
    pub(crate) ops: Ops,
    pub(crate) backoffs: Backoffs,
    pub(crate) lease: Lease,
    pub(crate) committed: Committed,
    pub(crate) recovery: Recovery,
    pub(crate) gathered: Gathered,
    pub(crate) unfound: Unfound,
    pub(crate) watches: Watches,
    pub(crate) copies: Copies,
    pub(crate) proxies: Proxies,
    pub(crate) index_waits: IndexWaits,
    pub(crate) peer_queue: PeerQueue,
    pub(crate) versions: Versions,
    pub(crate) scrubs: Scrubs,
    pub(crate) pending: Window<Pending>,
    /// How many of them are [`Pending::Flushed`].
    pub(crate) flushes: usize,
    pub(crate) stats: PgStats,
    pub(crate) history: StateHistory,
    pub(crate) trimming: Option<Trimming>,
    /// Snapshots that are removed, as of an epoch: what the map says, and those purged before.
    pub(crate) removed_snaps: Option<(Epoch, Arc<IntervalSet>)>,
    pub(crate) recount: Option<Recount>,
    pub(crate) is_clean: bool,
    is_removed: bool,
}

impl Pg {
    /// A PG that this OSD does not have yet: it begins ([`Pg::begin`]), or is taken from elsewhere. `id` (not 0) goes
    /// into the high half of its store tokens.
    pub fn absent(id: u32, pgid: PgId, me: OsdId) -> Pg {
        Pg {
            id,
            pgid,
            coll: CollId::pg(pgid),
            me,
            store_born: Epoch(0),
            info: PgInfo::default(),
            seen_since: Epoch(0),
            kept: None,
            intervals: Vec::new(),
            log: PgLog::default(),
            missing: Missing::new(),
            members: Membership::default(),
            phase: Phase::Idle,
            peer_info: BTreeMap::new(),
            peer_missing: BTreeMap::new(),
            ops: Ops::default(),
            backoffs: Backoffs::default(),
            lease: Lease::default(),
            committed: Committed::default(),
            recovery: Recovery::default(),
            gathered: Gathered::default(),
            unfound: Unfound::default(),
            watches: Watches::default(),
            copies: Copies::default(),
            proxies: Proxies::default(),
            index_waits: IndexWaits::default(),
            peer_queue: PeerQueue::default(),
            versions: Versions::default(),
            scrubs: Scrubs::default(),
            pending: Window::default(),
            flushes: 0,
            stats: PgStats::default(),
            history: StateHistory::default(),
            trimming: None,
            removed_snaps: None,
            recount: None,
            is_clean: false,
            is_removed: false,
        }
    }

    /// Since when the store that the PG is in has been the OSD's: what it took part in before, another store has.
    pub fn set_store_born(&mut self, epoch: Epoch) {
        self.store_born = epoch;
    }

    /// A PG that was absent begins: it is new in the cluster, or new here. `created` is the epoch in which it was made,
    /// `start` where its present interval began: what clients and peers say since then is for this PG. `past`:
    /// intervals since it was made in which others may have taken writes.
    pub fn begin(&mut self, created: Epoch, start: IntervalStart, past: Vec<PgInterval>, ctx: &mut Ctx<'_>) {
        self.intervals = past;
        self.info.created = created;
        self.info.epoch = ctx.map.epoch;
        self.info.since = start.since;
        self.info.primary_since = start.primary_since;
        self.seen_since = start.seen_since;
        self.info.pg_num = ctx.map.pools.get(&self.pgid.pool).map_or(0, |pool| pool.pg_num);
        let mut txn = Transaction::new(self.coll);
        txn.ops.push(TxnOp::CreateCollection);
        let mut change = MetaChange::default();
        change.info(&self.info, &mut self.kept);
        change.intervals(&self.intervals);
        change.into_txn(&mut txn);
        self.submit(Pending::Nothing, txn, ctx);
        self.members = Membership::of(ctx.map, self.pgid);
        self.start_interval(ctx);
    }

    /// The PG kept in `store`, as of the map that it saw last: the caller walks it through the maps
    /// since. None if the collection has no PG.
    ///
    /// # Errors
    /// When there is one, and what it keeps of itself is not readable.
    pub fn load(id: u32, pgid: PgId, me: OsdId, store: &dyn ObjectStore) -> Result<Option<Pg>, LoadError> {
        let mut pg = Pg::absent(id, pgid, me);
        let Some(kept) = meta::load(store, pg.coll)? else { return Ok(None) };
        pg.info = kept.info;
        pg.intervals = kept.intervals;
        pg.log = PgLog::from_entries(kept.log);
        pg.missing = kept.missing;
        pg.gathered = Gathered::left_over(kept.gathered);
        Ok(Some(pg))
    }

    /// After [`Pg::load`]: takes its place in the map that it saw last, or in the oldest that there is.
    pub fn resume(&mut self, ctx: &mut Ctx<'_>) {
        self.members = Membership::of(ctx.map, self.pgid);
        if self.info.pg_num == 0 {
            self.info.pg_num = ctx.map.pools.get(&self.pgid.pool).map_or(0, |pool| pool.pg_num);
        }
        // The interval goes on where it was left, unless the map of then is not there any more: its beginning tells
        // later whether it took writes.
        let at = std::mem::replace(&mut self.info.epoch, ctx.map.epoch);
        if at != ctx.map.epoch || self.info.since == Epoch(0) {
            self.info.since = self.members.begin(at, ctx.map);
            self.info.primary_since = ctx.map.epoch;
        }
        // Kept may be the earliest that the interval can have begun. Others tell and ask again when this OSD is up.
        self.seen_since = ctx.map.epoch;
        self.lease_after_restart(ctx.now);
        self.start_interval(ctx);
    }

    /// The last map that it saw.
    pub fn epoch(&self) -> Epoch {
        self.info.epoch
    }

    /// The number that its tokens have in their high half.
    pub fn token_id(&self) -> u32 {
        self.id
    }

    /// Its id.
    pub fn pgid(&self) -> PgId {
        self.pgid
    }

    /// True when this OSD leads it.
    pub fn is_primary(&self) -> bool {
        self.members.primary == self.me
    }

    /// True when its collection is being removed.
    pub fn is_removed(&self) -> bool {
        self.is_removed
    }

    /// Copies here that could not be read and were replaced from other OSDs, since it was loaded.
    pub fn copies_repaired(&self) -> u64 {
        self.stats.copies_repaired
    }

    /// True while objects are on their way to copies that lack them.
    pub fn is_recovering(&self) -> bool {
        self.recovery.active() > 0
    }

    /// When it was scrubbed, and with what result.
    pub fn scrub_history(&self) -> types::ScrubHistory {
        self.info.scrubs
    }

    /// Snapshots whose clones are trimmed, as this copy knows it.
    pub fn purged_snaps(&self) -> &IntervalSet {
        &self.info.purged_snaps
    }

    /// The PG's place in the order of scrubs, the least first: scrubs that were ordered come before those that are only
    /// due, and among equals the PG whose last scrub is longest ago comes first.
    pub fn scrub_turn(&self) -> (bool, types::UTime) {
        (!self.scrubs.is_ordered(), self.info.scrubs.last_scrub_stamp)
    }

    /// OSDs that have it, or are to have it.
    pub fn members(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.members.all()
    }

    /// Handles one event.
    pub fn handle(&mut self, event: Event, ctx: &mut Ctx<'_>) {
        if self.is_removed {
            return;
        }
        match event {
            Event::NewMap => self.on_map(ctx),
            Event::Op { client, tid, op, permit } => self.on_op(client, tid, op, permit, ctx),
            Event::BackoffAck { session, id } => self.backoffs.on_ack(session, id),
            Event::SessionClosed(session) => self.on_session_closed(session, ctx),
            Event::Peer(from, message) => self.on_peer(from, message, ctx),
            Event::Store(completion) => self.on_store(completion, ctx),
            Event::Scrub(request) => self.on_scrub_request(request),
            Event::GiveUp(how) => self.on_give_up(how, ctx),
            Event::ForceRecovery { is_backfill, is_forced } => self.on_force(is_backfill, is_forced, ctx),
            Event::RecoveryTurn(osd) => self.on_recovery_turn(osd, ctx),
            Event::ReadTurn => self.on_read_turn(ctx),
            Event::Tick => self.on_tick(ctx),
            // A scrub under way goes on after each event.
            Event::Wake => self.tick_scrub(ctx),
        }
        self.drive_scrub(ctx);
        self.settle_backoffs(ctx);
        self.note_state(ctx);
    }

    /// Submits `txn`; `pending` says what its completion means.
    pub(crate) fn submit(&mut self, pending: Pending, txn: Transaction, ctx: &mut Ctx<'_>) {
        let token = self.token(pending);
        ctx.store.submit(token, txn);
    }

    pub(crate) fn token(&mut self, pending: Pending) -> Token {
        Token(u64::from(self.id) << 32 | u64::from(self.pending.push(pending)))
    }

    fn on_store(&mut self, completion: Completion, ctx: &mut Ctx<'_>) {
        let token = completion.token();
        let Some(pending) = self.pending.take(token.0 as u32) else {
            ctx.store.unload(token);
            return;
        };
        match pending {
            Pending::LocalCommit(version, since) => {
                self.stats.commit_times.note(ctx.now.since(since));
                self.on_commit(self.me, version, ctx);
            }
            Pending::ReplicaCommit { primary, version, since } => {
                self.stats.commit_times.note(ctx.now.since(since));
                self.stats.ops.subops.note(ctx.now.since(since));
                self.reply_rep_op(primary, version, ctx);
            }
            Pending::ReplicaActivated { primary } => self.reply_activated(primary, ctx),
            Pending::Activated => self.on_activation_durable(ctx),
            Pending::Flushed { .. } => self.on_flushed(ctx),
            Pending::Pushed { from, object } => self.on_push_durable(from, object, ctx),
            Pending::Gathered(part) => self.on_part_durable(*part, ctx),
            Pending::PushRead(mut push) => {
                push.loads.push(token);
                self.on_push_read(*push, completion, ctx);
            }
            Pending::BaseRead(arrived) => self.on_base_read(*arrived, completion, ctx),
            Pending::CopyRead { mut asked, wanted } => {
                asked.loads.push(token);
                let is_loaded = matches!(completion, Completion::Loaded(_, Ok(())));
                self.on_copy_read(*asked, &wanted, is_loaded, ctx);
            }
            Pending::IndexWait(wait) => self.on_index_loaded(wait, completion, ctx),
            Pending::ScrubLoad { is_anew } => self.on_scrub_loaded(is_anew, completion, ctx),
            Pending::OpLoad { head, load, wanted } => {
                self.on_op_loaded(&head, load, &wanted, completion, ctx);
            }
            Pending::Nothing => ctx.store.unload(token),
        }
    }

    /// Whether a message can be handled now; else what has to be loaded before.
    pub(crate) fn ready_for(
        &mut self,
        from: OsdId,
        message: &Message,
        ctx: &Ctx<'_>,
    ) -> Result<(), Vec<store::NotCached>> {
        match message {
            _ if !self.is_of_interval(message) => Ok(()),
            Message::MPgQuery(m) if m.wants_log && self.is_activating(from) => self.scan_objects(ctx.store),
            Message::MPgQuery(m) if m.wants_log => {
                self.ready_for_log(Span { tail: m.tail, last: m.since }, ctx)
            }
            Message::MPgLog(m) if m.is_activation && !self.is_activator(from) => Ok(()),
            Message::MPgLog(m) if !m.is_activation && self.phase != (Phase::GetLog { from }) => Ok(()),
            Message::MPgLog(m) => self.ready_to_take_over(m, ctx),
            _ => Ok(()),
        }
    }

    /// What was said before this interval began is about another one.
    pub(crate) fn is_of_interval(&self, message: &Message) -> bool {
        messages::pg_peer_target(message).is_some_and(|(_, epoch)| epoch >= self.interval_seen_since())
    }

    /// An epoch in which the present interval was under way for sure: its first one, if that is known. Where the maps
    /// of then are gone, `PgInfo::since` is the earliest that its beginning can be, and tells which writes can be of
    /// it; what others have said since then may be of earlier intervals.
    pub(crate) fn interval_seen_since(&self) -> Epoch {
        self.info.since.max(self.seen_since)
    }

    pub(crate) fn on_peer_message(&mut self, from: OsdId, message: Message, ctx: &mut Ctx<'_>) {
        // A client's request outlives an interval if its primary does.
        let is_request = matches!(message, Message::MPgProxyOp(_));
        if !is_request && !self.is_of_interval(&message) {
            return;
        }
        match message {
            Message::MPgProxyOp(m) => self.on_proxy_op(from, *m, ctx),
            Message::MPgProxyReply(m) => self.on_proxy_reply(*m, ctx),
            Message::MOSDRepOp(m) => self.on_rep_op(from, *m, ctx),
            Message::MOSDRepOpReply(m) => self.on_commit(from, m.version, ctx),
            Message::MPgQuery(m) => self.on_query(from, *m, ctx),
            Message::MPgNotify(m) => self.on_notify(from, *m, ctx),
            Message::MPgLog(m) if m.is_activation => self.on_activate(from, *m, ctx),
            Message::MPgLog(m) => self.on_log(from, *m, ctx),
            Message::MPgActivated(m) => self.on_activated(from, *m, ctx),
            Message::MPgPull(m) => self.on_pull(from, *m, ctx),
            Message::MPgPush(m) => self.on_push(from, *m, ctx),
            Message::MPgPushReply(m) => self.on_push_reply(from, *m, ctx),
            Message::MPgPushRefused(m) => self.on_no_room(from, &m, ctx),
            Message::MPgClean(m) => self.on_clean(from, *m, ctx),
            Message::MPgCopyGet(m) => self.on_copy_get(from, *m, ctx),
            Message::MPgCopyData(m) => self.on_copy_data(m, ctx),
            Message::MOSDRepScrub(m) => self.on_rep_scrub(from, *m, ctx),
            Message::MOSDRepScrubMap(m) => self.on_rep_scrub_map(from, *m),
            Message::MPgInfo(m) => self.on_info(from, *m, ctx),
            Message::MPgCommitted(m) => self.on_committed(from, &m),
            Message::MOSDScrubReserve(m) => self.on_scrub_reserve(from, *m, ctx),
            Message::MPgBadCopy(m) => self.on_bad_copy(from, *m, ctx),
            _ => {}
        }
    }

    fn on_tick(&mut self, ctx: &mut Ctx<'_>) {
        self.tick_watches(ctx);
        self.tick_copies(ctx);
        self.tick_proxies(ctx);
        self.tick_lease(ctx);
        // What the monitor was asked for may have been lost.
        match self.phase {
            Phase::WaitActing { has_log: true } => self.after_log(ctx),
            Phase::WaitActing { has_log: false } => self.give_way_again(ctx),
            _ => {}
        }
        if self.phase == Phase::Active {
            self.tell_committed(ctx);
            self.recovery.look_for_room(ctx.rooms);
            self.recover(ctx);
            self.trim_snaps(ctx);
            self.tick_scrub(ctx);
            self.recount(ctx);
        }
    }

    /// Makes the PG's info durable, whenever that is.
    pub(crate) fn keep_info(&mut self, ctx: &mut Ctx<'_>) {
        let mut change = MetaChange::default();
        change.info(&self.info, &mut self.kept);
        let mut txn = Transaction::new(self.coll);
        change.into_txn(&mut txn);
        self.submit(Pending::Nothing, txn, ctx);
    }

    /// Makes what is known of scrubs and of purged snapshots durable, if it is not.
    pub(crate) fn keep_learned(&mut self, ctx: &mut Ctx<'_>) {
        let info = &self.info;
        let is_same = |kept: &PgInfo| kept.scrubs == info.scrubs && kept.purged_snaps == info.purged_snaps;
        if !self.kept.as_ref().is_some_and(is_same) {
            self.keep_info(ctx);
        }
    }

    /// Makes the PG's info and past intervals durable; `pending` says what comes then.
    pub(crate) fn keep_info_and_intervals(&mut self, pending: Pending, ctx: &mut Ctx<'_>) {
        let mut change = MetaChange::default();
        change.info(&self.info, &mut self.kept);
        change.intervals(&self.intervals);
        let mut txn = Transaction::new(self.coll);
        change.into_txn(&mut txn);
        self.submit(pending, txn, ctx);
    }

    /// Ends all that is under way.
    pub(crate) fn let_go_of_all(&mut self, ctx: &mut Ctx<'_>) {
        self.ops_end_interval(false, ctx);
        let loads = self.scrubs.on_new_interval(false);
        loads.into_iter().for_each(|token| ctx.store.unload(token));
        self.drop_loads(ctx);
        self.drop_gathered(ctx);
    }

    /// Removes everything of the PG from this OSD.
    pub(crate) fn remove(&mut self, ctx: &mut Ctx<'_>) {
        self.let_go_of_all(ctx);
        let mut txn = Transaction::new(self.coll);
        txn.ops.push(TxnOp::RemoveCollection);
        self.submit(Pending::Nothing, txn, ctx);
        self.is_removed = true;
        ctx.effects.push(crate::Effect::Removed);
    }

    /// True for a primary that takes what clients want, and does what has to be done meanwhile. One that is about to be
    /// merged waits, whole, at its last version.
    pub(crate) fn is_serving(&self) -> bool {
        self.phase == Phase::Active && !self.members.is_merging
    }

    /// The version of the next change.
    pub(crate) fn next_version(&self, ctx: &Ctx<'_>) -> EVersion {
        EVersion::new(ctx.map.epoch, self.info.last_update.version + 1)
    }
}
