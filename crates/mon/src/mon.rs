//! The monitor: committed state, the next state, and the one proposal between them.
//!
//! A change is made to the next state, which later changes are checked against. When the ledger has committed it, it
//! becomes visible, to the peer that asked for it and to all others.

use std::{borrow::Cow, collections::BTreeMap, mem, time::Duration};

use bytes::Bytes;
use messages::{MPing, Message, Pong};
use rand::rngs::StdRng;
use types::{EntityAddrVec, EntityType, Instant, OsdId, Settings, UTime};

use crate::{
    ConnId, Effect, Effects, Event, LedgerContents, LedgerTxn, MonOptions, Revision,
    access::Right,
    commands,
    config_service::{kept_key, key_without_section},
    health::DataSpace,
    ledger_keys,
    manager::{balancer::Balancer, progress::Progress, rbd_support::RbdSupport},
    op_history::{self, OpHistory},
    osdmap_service::OsdService,
    service_map::ServiceMap,
    session::Session,
    state::{State, value},
    stats::Stats,
};

/// How often time-outs are looked at.
const TICK: Duration = Duration::from_secs(1);

/// If that much passes between two ticks, the monitor's machine stood still, or its disk did.
const STANDSTILL: Duration = Duration::from_secs(5);

/// `mon_health_log_update_period`: the cluster log hears of changed health checks that often.
const HEALTH_LOG_INTERVAL: Duration = Duration::from_secs(5);

/// `mgr_tick_period`: debugging readers of the cluster log hear of the PGs that often.
const PGMAP_LOG_INTERVAL: Duration = Duration::from_secs(2);

/// Changes that are committed together, and the answers that wait for them.
#[derive(Debug, Default)]
struct Batch {
    ops: BTreeMap<String, Option<Bytes>>,
    answers: Vec<Effect>,
}

/// The next state before a command.
pub(crate) struct Checkpoint {
    next: State,
    ops: BTreeMap<String, Option<Bytes>>,
}

/// The state machine of one monitor; see the crate's page.
#[derive(Debug)]
pub struct Mon {
    /// What the daemon was started with.
    pub(crate) base_options: MonOptions,
    /// `base_options` with what `settings` say.
    pub(crate) options: MonOptions,
    /// All options by where they come from.
    pub(crate) settings: Settings,
    /// The options that the database has for the manager's part.
    pub(crate) mgr_config: BTreeMap<String, String>,
    /// The daemon was not yet told that options have other values.
    pub(crate) has_new_options: bool,
    /// The options of the OSDs by where they come from, as the OSDs report them.
    pub(crate) osd_settings: BTreeMap<OsdId, Settings>,
    pub(crate) rng: StdRng,
    is_booted: bool,
    revision: Revision,
    /// The state that every peer may see.
    pub(crate) committed: State,
    /// The committed state with all changes that are proposed or waiting.
    pub(crate) next: State,
    in_flight: Option<(Batch, State)>,
    queued: Batch,
    pub(crate) sessions: BTreeMap<ConnId, Session>,
    pub(crate) osds: OsdService,
    pub(crate) stats: Stats,
    /// The requests that wait for the ledger to be compacted, and since when.
    pub(crate) compacting: Vec<(ConnId, u64, Instant)>,
    /// The requests that wait for the ledger, and the slow and longest ones of late.
    pub(crate) op_history: OpHistory,
    /// The monotonic clock at the last tick, or at the start.
    ticked_at: Instant,
    /// The monotonic clock at the last event.
    pub(crate) now: Instant,
    /// When this monitor began to serve.
    pub(crate) started: UTime,
    /// The time of day of the last event.
    pub(crate) wall: UTime,
    /// The address at which the manager's part is played; empty when nothing listens there.
    pub(crate) manager: EntityAddrVec,
    /// The address at which the manager's part is a client of the cluster; empty where it is none.
    pub(crate) manager_client: EntityAddrVec,
    /// Since when the OSDs are known to refuse the manager's part.
    pub(crate) manager_fenced_at: Option<Instant>,
    /// Where metrics are served for Prometheus.
    pub(crate) metrics_served: Option<std::net::SocketAddr>,
    /// What the monitor's data takes and has left; none until the daemon has said so.
    pub(crate) data_space: Option<DataSpace>,
    pub(crate) service_map: ServiceMap,
    pub(crate) rbd_support: RbdSupport,
    /// What OSDs are to be told.
    pub(crate) orders: Vec<(OsdId, Message)>,
    pub(crate) progress: Progress,
    pub(crate) balancer: Balancer,
    pub(crate) log_seq: u64,
    pub(crate) next_global_id: u64,
    /// Entities that have shown their second key, until it is written down as their first.
    pub(crate) used_pending_keys: std::collections::BTreeMap<types::EntityName, auth::CryptoKey>,
    /// Health checks that the cluster log knows of.
    pub(crate) health_logged: BTreeMap<Cow<'static, str>, String>,
    /// When the cluster log was brought up to date with the health checks.
    health_logged_at: Instant,
    /// When debugging readers of the cluster log heard of the PGs.
    pgmap_logged_at: Instant,
}

impl Mon {
    /// A monitor that serves nothing before [`Event::Boot`]. `seed` is for keys and other secrets: it must
    /// come from the system's randomness except in tests and simulations.
    pub fn new(options: MonOptions, seed: [u8; 32]) -> Mon {
        Mon {
            base_options: options.clone(),
            settings: Settings::from_file(&options.conf),
            mgr_config: BTreeMap::new(),
            has_new_options: false,
            osd_settings: BTreeMap::new(),
            options,
            rng: rand::SeedableRng::from_seed(seed),
            is_booted: false,
            revision: Revision(0),
            committed: State::default(),
            next: State::default(),
            in_flight: None,
            queued: Batch::default(),
            sessions: BTreeMap::new(),
            osds: OsdService::default(),
            stats: Stats::default(),
            compacting: Vec::new(),
            op_history: OpHistory::default(),
            ticked_at: Instant::default(),
            now: Instant::default(),
            started: UTime::default(),
            wall: UTime::default(),
            manager: EntityAddrVec::default(),
            manager_client: EntityAddrVec::default(),
            manager_fenced_at: None,
            metrics_served: None,
            data_space: None,
            service_map: ServiceMap::default(),
            rbd_support: RbdSupport::default(),
            orders: Vec::new(),
            progress: Progress::default(),
            balancer: Balancer::default(),
            log_seq: 0,
            next_global_id: 0,
            used_pending_keys: Default::default(),
            health_logged: BTreeMap::new(),
            health_logged_at: Instant::default(),
            pgmap_logged_at: Instant::default(),
        }
    }

    /// The lines of the cluster log, oldest first.
    pub fn cluster_log(&self) -> impl Iterator<Item = &str> {
        self.committed.log.iter().map(|entry| entry.message.as_str())
    }

    /// Takes in one event. `now` is the monotonic clock, `wall` the time of day.
    pub fn handle(&mut self, now: Instant, wall: UTime, event: Event, effects: &mut Effects) {
        (self.now, self.wall) = (now, wall);
        match event {
            Event::Boot(contents) => self.on_boot(now, wall, &contents, effects),
            Event::LeaseLost => self.on_lease_lost(effects),
            Event::LedgerCommitted(revision) => self.on_committed(now, wall, revision, effects),
            Event::ConnOpened(conn, peer) if self.is_booted => {
                self.sessions.insert(conn, Session::new(*peer));
                self.commit_used_keys();
            }
            Event::ConnOpened(conn, _) => effects.push(Effect::Close(conn)),
            Event::ConnClosed(conn) => {
                self.sessions.remove(&conn);
            }
            Event::Received { conn, tid, message } => {
                if let Some(peer) =
                    self.sessions.get(&conn).map(|s| s.peer.clone()).filter(|_| self.is_booted)
                {
                    let (description, before) = (op_history::describe(&message), self.answers_pending());
                    self.on_message(now, wall, conn, tid, message, effects);
                    let (after, is_queued) = (self.answers_pending(), !self.queued.ops.is_empty());
                    self.op_history.note(description, &peer, (now, wall), after > before, !is_queued);
                }
            }
            Event::ToManager { link, tid, peer, message } => {
                if self.is_booted {
                    self.on_manager_message(wall, link, tid, &peer, message, effects);
                }
            }
            Event::ObjectsDone(token, result) => self.on_objects_done(wall, token, result, effects),
            Event::RunProgress(run, fraction) => self.on_run_progress(wall, run, fraction),
            Event::RunEnded { run, code, text } => self.on_run_ended(wall, run, code, &text, effects),
            Event::RunFailed { run, text } => self.on_run_failed(wall, run, text, effects),
            Event::Compacted(result) => self.on_compacted(&result, effects),
            Event::Timer => {
                if self.is_booted {
                    self.tick(now, wall, effects);
                }
                effects.push(Effect::SetTimer(now + TICK));
            }
        }
        if self.is_booted {
            self.pump_rbd_support(now, wall, effects);
            self.keep_progress();
        }
        if mem::take(&mut self.has_new_options) {
            effects.push(Effect::OptionsChanged);
        }
        self.propose(effects);
    }

    fn on_boot(&mut self, now: Instant, wall: UTime, contents: &LedgerContents, effects: &mut Effects) {
        self.on_lease_lost(effects);
        // A ledger that cannot be read is not served: nothing it says could be trusted.
        let Ok(state) = State::load(contents) else { return };
        self.revision = contents.revision;
        self.log_seq = state.log.back().map_or(0, |entry| entry.seq);
        self.next_global_id = state.global_id_limit;
        self.committed = state.clone();
        self.next = state;
        (self.started, self.ticked_at) = (wall, now);
        self.stats.follow(&self.committed.osdmap, wall);
        self.is_booted = true;
        self.apply_config();
        self.service_map = ServiceMap::started(wall);
        self.osds = OsdService::started(now, &self.committed);
        self.load_progress();
        self.balancer = Balancer::default();
        self.tick_auth(wall);
        self.ensure_manager_key(wall);
        self.begin_mgrmap(wall);
        let name = self.options.name.clone();
        self.log_info(wall, format!("mon.{name} is new leader, mons {name} in quorum (ranks 0)"));
        effects.push(Effect::SetTimer(now + TICK));
    }

    fn on_lease_lost(&mut self, effects: &mut Effects) {
        self.is_booted = false;
        effects.extend(mem::take(&mut self.sessions).into_keys().map(Effect::Close));
        self.in_flight = None;
        self.queued = Batch::default();
        self.op_history.on_lease_lost();
        self.next = self.committed.clone();
        self.stats = Stats::default();
        effects.extend(self.rbd_support.stop());
    }

    fn on_committed(&mut self, now: Instant, wall: UTime, revision: Revision, effects: &mut Effects) {
        // A commit without a proposal in flight belongs to a lease that was lost.
        let Some((batch, state)) = self.in_flight.take() else { return };
        self.revision = revision;
        self.op_history.on_committed(now);
        let before = mem::replace(&mut self.committed, state);
        self.on_state_changed(now, wall, &before, effects);
        for mut answer in batch.answers {
            if let Effect::Send { message: Message::MMonCommandAck(ack), .. } = &mut answer {
                ack.header.version = u64::from(self.committed.osdmap.epoch.0);
            }
            if let Effect::Send { message: Message::MPoolOpReply(reply), .. } = &mut answer {
                reply.epoch = self.committed.osdmap.epoch;
                reply.header.version = u64::from(reply.epoch.0);
            }
            let is_gone = matches!(&answer, Effect::Send { conn, .. } if !self.sessions.contains_key(conn));
            if !is_gone {
                effects.push(answer);
            }
        }
    }

    /// Tells subscribers what a commit changed.
    fn on_state_changed(&mut self, now: Instant, wall: UTime, before: &State, effects: &mut Effects) {
        let conns: Vec<ConnId> = self.sessions.keys().copied().collect();
        if before.config != self.committed.config
            || before.osdmap.crush_version != self.committed.osdmap.crush_version
        {
            self.apply_config();
        }
        if before.osdmap.epoch != self.committed.osdmap.epoch {
            self.on_osdmap_changed(now, wall, &before.osdmap, effects);
        }
        if self.seals_with_unknown(before) {
            self.send_secrets(wall, effects);
        }
        for conn in conns {
            self.check_subs(conn, effects);
        }
    }

    fn propose(&mut self, effects: &mut Effects) {
        if self.in_flight.is_some() || self.queued.ops.is_empty() {
            return;
        }
        self.op_history.on_proposed();
        let batch = mem::take(&mut self.queued);
        effects.push(Effect::Propose(LedgerTxn { expected: self.revision, ops: batch.ops.clone() }));
        self.in_flight = Some((batch, self.next.clone()));
    }

    /// Answers that wait for the ledger.
    fn answers_pending(&self) -> usize {
        self.queued.answers.len() + self.in_flight.as_ref().map_or(0, |(batch, _)| batch.answers.len())
    }

    /// Changes one key in the next state and queues it for the ledger.
    pub(crate) fn put(&mut self, key: String, value: Option<Bytes>) {
        self.next.apply(&key, value.as_ref()).expect("the monitor wrote what it reads");
        self.queued.ops.insert(key, value);
    }

    /// What [`Mon::roll_back`] goes back to.
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        Checkpoint { next: self.next.clone(), ops: self.queued.ops.clone() }
    }

    /// True when something was changed since the checkpoint, within one event.
    pub(crate) fn is_changed_since(&self, before: &Checkpoint) -> bool {
        self.queued.ops != before.ops
    }

    /// Takes back what was changed since the checkpoint, within one event: nothing of it was proposed.
    pub(crate) fn roll_back(&mut self, before: Checkpoint) {
        self.next = before.next;
        self.queued.ops = before.ops;
    }

    /// Changes a configuration key; those of the configuration database are options.
    pub(crate) fn put_config_key(&mut self, key: &str, data: Option<Bytes>) {
        if !ledger_keys::is_config(key) {
            self.put(ledger_keys::config_key(key), data);
            return;
        }
        let key = kept_key(key);
        if let Some(other) = key_without_section(&key) {
            // An older version may have written it.
            self.put(other, None);
        }
        let text = data.map(|data| String::from_utf8_lossy(&data).into_owned());
        self.put(key.into_owned(), text.and_then(|text| value(&text)));
    }

    /// Answers when all that was asked for so far is committed: at once when nothing is pending.
    pub(crate) fn answer_when_committed(&mut self, answer: Effect, effects: &mut Effects) {
        if !self.queued.ops.is_empty() {
            self.queued.answers.push(answer);
        } else if let Some((batch, _)) = &mut self.in_flight {
            batch.answers.push(answer);
        } else {
            effects.push(answer);
        }
    }

    fn on_message(
        &mut self,
        now: Instant,
        wall: UTime,
        conn: ConnId,
        tid: u64,
        message: Message,
        effects: &mut Effects,
    ) {
        match message {
            Message::MMonGetMap(_) => {
                let message = self.monmap_message();
                effects.push(Effect::Send { conn, tid, message });
            }
            Message::MMonSubscribe(subscribe) => self.on_subscribe(conn, *subscribe, effects),
            Message::MMonGetOSDMap(wanted) if self.may(conn, "osd", Right::Read) => {
                let message = self.osdmaps_by_epoch(conn, &wanted).into();
                effects.push(Effect::Send { conn, tid, message });
            }
            Message::MMonGetVersion(question) if self.may(conn, "mon", Right::Read) => {
                self.on_get_version(conn, tid, &question, effects);
            }
            Message::MMonCommand(command) => self.on_command(wall, conn, tid, *command, effects),
            Message::MCommand(command) => self.on_tell(wall, conn, tid, *command, effects),
            // A peer without the right gets no answer, as from Ceph's monitors.
            Message::MStatfs(question) if self.may(conn, "pg", Right::Read) => {
                self.on_statfs(conn, tid, &question, effects);
            }
            Message::MGetPoolStats(question) if self.may(conn, "pg", Right::Read) => {
                self.on_get_pool_stats(conn, tid, &question, effects);
            }
            Message::MLog(log) if self.may(conn, "log", Right::Write) => {
                self.on_log(conn, tid, *log, effects);
            }
            Message::MPoolOp(op) => self.on_pool_op(wall, conn, tid, &op, effects),
            Message::MAuth(request) => self.on_auth(wall, conn, tid, &request, effects),
            Message::MPing(_) => {
                let message = MPing { pong: Pong(Some(commands::pong(self, wall))) }.into();
                effects.push(Effect::Send { conn, tid, message });
            }
            other => self.on_osd_message(now, wall, conn, tid, other, effects),
        }
    }

    /// Messages that only OSDs send; from any other peer, or one without the right to be an OSD, they are ignored.
    fn on_osd_message(
        &mut self,
        now: Instant,
        wall: UTime,
        conn: ConnId,
        tid: u64,
        message: Message,
        effects: &mut Effects,
    ) {
        let Some(sender) = self.osd_of(conn).filter(|_| self.may(conn, "osd", Right::Execute)) else {
            return;
        };
        match message {
            Message::MOSDBoot(boot) if boot.osd == sender => {
                self.on_osd_boot(now, wall, conn, &boot, effects)
            }
            Message::MOSDAlive(alive) if alive.osd == sender => self.on_osd_alive(wall, &alive),
            Message::MOSDPGTemp(temp) if temp.osd == sender => self.on_pg_temp(wall, *temp),
            Message::MOSDFailure(failure) if failure.reporter == sender => {
                self.on_osd_failure(now, wall, &failure);
            }
            Message::MOSDMarkMeDown(request) if request.osd == sender => {
                self.on_mark_me_down(wall, conn, tid, &request, effects);
            }
            Message::MMgrOpen(open) => {
                self.osd_settings.insert(sender, Settings::from_wire(open.config, open.ignored_config));
            }
            Message::MPGStats(stats) if stats.osd == sender => self.on_pg_stats(now, wall, *stats),
            Message::MOSDImageStats(stats) if stats.osd == sender => self.on_image_stats(*stats),
            other => tracing::debug!("{} from osd.{sender} ignored", other.name()),
        }
    }

    /// The OSD at the other end of a connection.
    pub(crate) fn osd_of(&self, conn: ConnId) -> Option<OsdId> {
        let name = &self.sessions.get(&conn)?.peer.name;
        (name.kind == EntityType::OSD).then(|| name.id.parse().ok().map(OsdId)).flatten()
    }

    /// The monitor's name: `a` of `mon.a`.
    pub fn name(&self) -> &str {
        &self.base_options.name
    }

    /// The value of an option in force.
    pub fn option(&self, name: &str) -> Option<String> {
        self.settings.get(name)
    }

    /// True once [`Event::Boot`] has brought a ledger that can be read, and until [`Event::LeaseLost`].
    pub fn is_booted(&self) -> bool {
        self.is_booted
    }

    fn tick(&mut self, now: Instant, wall: UTime, effects: &mut Effects) {
        let gap = now.since(mem::replace(&mut self.ticked_at, now));
        if gap > STANDSTILL {
            self.osds.stood_still(now, gap);
        }
        self.tick_auth(wall);
        self.tick_osds(now, wall);
        self.tick_pools(now, wall);
        self.tick_creating(now, effects);
        self.stats.sample(now);
        self.tick_mutes(wall);
        self.service_map.tick(wall);
        if !self.manager.0.is_empty() {
            self.ensure_manager_key(wall);
            self.tick_rbd_support(now, wall, effects);
            self.tick_balancer(now, wall);
        }
        if now.since(self.health_logged_at) >= HEALTH_LOG_INTERVAL {
            self.health_logged_at = now;
            self.tick_health_log(wall);
            self.tick_crashes(wall);
        }
        if now.since(self.pgmap_logged_at) >= PGMAP_LOG_INTERVAL {
            self.pgmap_logged_at = now;
            self.tell_pgmap(wall, effects);
        }
    }

    /// The newest committed OSD map.
    pub fn osdmap(&self) -> &types::OsdMap {
        &self.committed.osdmap
    }
}
