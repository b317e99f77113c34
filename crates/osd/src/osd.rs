//! The machine's state and the dispatch of events.

use std::collections::{BTreeMap, VecDeque};

use messages::{MMonGetVersion, MMonSubscribe, Message, SubscribeItem};
use pg::{Leases, Permit, RecoveryPolicy, ScrubPolicy};
use rand::{SeedableRng, rngs::StdRng};
use store::{Completion, ObjectStore};
use types::{
    EntityAddrVec, Epoch, Incremental, Instant, IntervalSet, OsdId, OsdMap, PgId, PgState, ScrubHistory,
    Settings, Token, UTime, Uuid,
};

use crate::{
    ConnId, Effect, Event, Peer, Shard, ShardMessage,
    acting::ActingWanted,
    admission::Admission,
    boot::{Boot, BootWatch, Markdowns},
    cluster_log::ClusterLog,
    control::Control,
    failsafe::Failsafe,
    heartbeat::Heartbeat,
    map_store::MapStore,
    on_map::{MapSource, MapsAsked, WholeMap},
    pgs::{MAP_TOKEN, Pgs},
    rbd_perf::ImagePerf,
    refused::Refused,
    session::Session,
    slow_ops::SlowOps,
    stats_report::StatsReport,
    tell::{BOOT_HANDLE, Bench, InjectedFull, LatestMaps, Perf, is_bench_token},
    watchdog::Watchdog,
};

/// What an OSD is told at its start.
#[derive(Clone, Debug)]
pub struct OsdConfig {
    /// Its number.
    pub whoami: OsdId,
    /// The cluster.
    pub fsid: Uuid,
    /// The store's uuid.
    pub uuid: Uuid,
    /// Size of the device in bytes.
    pub device_bytes: u64,
    /// `ceph osd metadata`.
    pub metadata: BTreeMap<String, String>,
    /// The options of its ceph.conf, by name.
    pub options: BTreeMap<String, String>,
    /// The name of its host: the monitors keep options for some hosts only.
    pub hostname: String,
    /// Message features that it announces.
    pub features: u64,
    /// The commit that it was built from, as `git_version` tells it.
    pub git_version: &'static str,
    /// Which part of the OSD this machine is.
    pub shard: Shard,
    /// Seeds everything that is drawn at random.
    pub seed: u64,
}

/// Messages that wait for a map, at most; then connections of clients that send more are closed.
pub(crate) const WAITING_MAX: usize = 10_000;

/// A message that came before its map.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) epoch: Epoch,
    pub(crate) conn: ConnId,
    pub(crate) tid: u64,
    /// The sender, where it is an OSD: its session outlives the connection, and with it what was received.
    pub(crate) from: Option<OsdId>,
    pub(crate) message: Message,
    /// A client's share of what is held.
    pub(crate) permit: Option<Permit>,
}

/// One object storage daemon, or one shard of it.
pub struct Osd {
    pub(crate) config: OsdConfig,
    /// All options by where they come from.
    pub(crate) settings: Settings,
    /// There while images are counted.
    pub(crate) image_perf: Option<Box<ImagePerf>>,
    pub(crate) rng: StdRng,
    pub(crate) maps: MapStore,
    pub(crate) map: OsdMap,
    /// There while the next map cannot be had from its incremental.
    pub(crate) whole_map: Option<WholeMap>,
    pub(crate) maps_asked: MapsAsked,
    pub(crate) public_addrs: EntityAddrVec,
    pub(crate) cluster_addrs: EntityAddrVec,
    pub(crate) boot: Boot,
    pub(crate) boot_watch: BootWatch,
    pub(crate) markdowns: Markdowns,
    pub(crate) boot_epoch: Epoch,
    pub(crate) has_mon: bool,
    pub(crate) sessions: BTreeMap<ConnId, Session>,
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) pgs: Pgs,
    /// PGs want the map to say that this OSD lived in this epoch.
    pub(crate) up_thru_wanted: Epoch,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) leases: Leases,
    pub(crate) refused: Refused,
    /// Which OSDs are to act in PGs, as far as the monitor has not been asked.
    pub(crate) acting_wanted: ActingWanted,
    pub(crate) scrub_policy: ScrubPolicy,
    pub(crate) recovery_policy: RecoveryPolicy,
    pub(crate) cluster_log: ClusterLog,
    pub(crate) admission: Admission,
    pub(crate) failsafe: Failsafe,
    pub(crate) control: Control,
    pub(crate) watchdog: Watchdog,
    /// What takes too long, as of the last look, and when the cluster log was told.
    pub(crate) slow_ops: SlowOps,
    pub(crate) slow_ops_logged: Instant,
    pub(crate) stats_report: StatsReport,
    pub(crate) started: Instant,
    /// What it counts.
    pub(crate) perf: Perf,
    /// Operators that wait for a map.
    pub(crate) latest_maps: LatestMaps,
    /// The benchmark under way.
    pub(crate) bench: Option<Bench>,
    /// How full an operator makes this OSD seem.
    pub(crate) injected_full: Option<InjectedFull>,
}

/// Timers of the machine have tokens from here on; those of its runner are below.
pub const OWN_TIMERS: u64 = u64::MAX - 15;
/// The timer of [`Osd`].
pub(crate) const TICK: Token = Token(OWN_TIMERS);
/// The timer of PGs that want to be woken.
pub(crate) const WAKE: Token = Token(OWN_TIMERS + 1);
/// The timer of what PGs want of the monitor.
pub(crate) const ACTING: Token = Token(OWN_TIMERS + 2);

/// What every handler may use.
pub(crate) struct Ctx<'a> {
    pub(crate) now: Instant,
    pub(crate) wall: UTime,
    pub(crate) store: &'a mut dyn ObjectStore,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl Ctx<'_> {
    /// Tells another shard.
    pub(crate) fn send_shard(&mut self, shard: u16, message: ShardMessage) {
        self.effects.push(Effect::ShardMessage(shard, message));
    }
}

impl Osd {
    /// The only shard of an OSD, which has not started and has no options, for tests.
    #[cfg(test)]
    pub(crate) fn alone() -> Osd {
        Osd::new(OsdConfig {
            whoami: OsdId(0),
            fsid: Uuid([1; 16]),
            uuid: Uuid([2; 16]),
            device_bytes: 1 << 30,
            metadata: BTreeMap::new(),
            options: BTreeMap::new(),
            hostname: String::new(),
            features: codec::Features::PACIFIC.0,
            git_version: "",
            shard: Shard::ONLY,
            seed: 1,
        })
    }

    /// An OSD that has not started.
    pub fn new(config: OsdConfig) -> Osd {
        let rng = StdRng::seed_from_u64(config.seed);
        let map = OsdMap::new(config.fsid, UTime::default(), types::CrushBlob::default());
        let settings = Settings::from_file(&config.options);
        let mut osd = Osd {
            settings,
            image_perf: None,
            config,
            rng,
            maps: MapStore::default(),
            map,
            public_addrs: EntityAddrVec::default(),
            cluster_addrs: EntityAddrVec::default(),
            boot: Boot::Starting,
            boot_watch: BootWatch::default(),
            markdowns: Markdowns::default(),
            boot_epoch: Epoch(0),
            has_mon: false,
            sessions: BTreeMap::new(),
            waiting: VecDeque::new(),
            pgs: Pgs::default(),
            up_thru_wanted: Epoch(0),
            heartbeat: Heartbeat::default(),
            leases: Leases::default(),
            refused: Refused::default(),
            acting_wanted: ActingWanted::new(),
            scrub_policy: ScrubPolicy::default(),
            recovery_policy: RecoveryPolicy::default(),
            cluster_log: ClusterLog::default(),
            admission: Admission::default(),
            failsafe: Failsafe::default(),
            control: Control::default(),
            watchdog: Watchdog::default(),
            slow_ops: SlowOps::default(),
            slow_ops_logged: Instant(0),
            stats_report: StatsReport::default(),
            started: Instant(0),
            perf: Perf::default(),
            latest_maps: LatestMaps::default(),
            bench: None,
            whole_map: None,
            maps_asked: MapsAsked::default(),
            injected_full: None,
        };
        osd.follow_options();
        osd
    }

    /// Follows the options that are in force now.
    pub(crate) fn follow_options(&mut self) {
        self.scrub_policy.follow(&self.settings);
        self.failsafe.follow(&self.settings);
        let shard = self.config.shard;
        self.recovery_policy.follow(&self.settings, (shard.index, shard.count));
        self.admission.requests.with_history(|history| history.follow(&self.settings));
    }

    /// Handles one event. `wall` is the wall clock; transactions are submitted to `store`, whose
    /// completions come back as [`Event::Store`]. What is in `effects` has not been carried out.
    pub fn handle(
        &mut self,
        now: Instant,
        wall: UTime,
        event: Event,
        store: &mut dyn ObjectStore,
        effects: &mut Vec<Effect>,
    ) {
        let ctx = &mut Ctx { now, wall, store, effects };
        match event {
            Event::Started { public_addrs, cluster_addrs } => {
                self.on_started(public_addrs, cluster_addrs, ctx)
            }
            Event::MonOpened => self.on_mon_opened(ctx),
            Event::MonClosed => self.on_mon_closed(ctx),
            Event::FromMon(message) => self.on_mon_message(message, ctx),
            Event::ConnOpened(conn, peer) => self.on_conn_opened(conn, *peer),
            Event::ConnClosed(conn) => self.on_conn_closed(conn, ctx),
            Event::Received(conn, tid, message) => self.on_received(conn, tid, message, ctx),
            Event::FromOsd(osd, message) => self.on_answer_of_osd(osd, message, ctx),
            Event::OsdRefused(osd) => self.on_refused_osd(osd, ctx),
            Event::OsdStuck(osd) => self.on_stuck_osd(osd, ctx),
            Event::Store(completion) => self.on_store(completion, ctx),
            Event::ShardMessage(from, message) => self.on_shard_message(from, message, ctx),
            Event::Timer(TICK) => self.on_tick(ctx),
            Event::Timer(WAKE) => self.wake_pgs(ctx),
            Event::Timer(ACTING) => self.send_acting_wanted(ctx),
            Event::Timer(_) => {}
            Event::Stop => self.on_stop(ctx),
        }
        self.give_read_turns(ctx);
        self.give_recovery_turns(ctx);
        if self.config.shard.count > 1 {
            self.tell_saturation(ctx);
        }
    }

    /// Its number.
    pub fn whoami(&self) -> OsdId {
        self.config.whoami
    }

    /// The newest map.
    pub fn map(&self) -> &OsdMap {
        &self.map
    }

    /// True while clients have to wait: it holds as much of theirs as it wants to. Messages of OSDs and
    /// monitors are always welcome.
    pub fn is_saturated(&self) -> bool {
        self.admission.is_saturated(self.config.shard.count)
    }

    /// The PGs that it holds.
    pub fn pg_ids(&self) -> impl Iterator<Item = PgId> + '_ {
        self.pgs.ids()
    }

    /// The state of a PG that this OSD leads.
    pub fn led_state(&self, pgid: PgId) -> Option<PgState> {
        self.led_states().find(|(id, _)| *id == pgid).map(|(_, state)| state)
    }

    /// The PGs that this OSD leads.
    pub fn led_states(&self) -> impl Iterator<Item = (PgId, PgState)> + '_ {
        self.pgs.primaries().map(|pg| (pg.pgid(), pg.state()))
    }

    /// When the PGs were scrubbed that this OSD leads, and with what result.
    pub fn led_scrubs(&self) -> impl Iterator<Item = (PgId, ScrubHistory)> + '_ {
        self.pgs.primaries().map(|pg| (pg.pgid(), pg.scrub_history()))
    }

    /// Snapshots whose clones are trimmed, as the copies here know it.
    pub fn purged_snaps(&self) -> impl Iterator<Item = (PgId, &IntervalSet)> {
        self.pgs.all().map(|pg| (pg.pgid(), pg.purged_snaps()))
    }

    fn on_started(&mut self, public_addrs: EntityAddrVec, cluster_addrs: EntityAddrVec, ctx: &mut Ctx<'_>) {
        self.started = ctx.now;
        self.public_addrs = public_addrs;
        self.cluster_addrs = cluster_addrs;
        self.maps = MapStore::load(ctx.store).expect("the OSD's own collection is loaded at mount");
        if let Err(fault) = self.load_pgs(ctx) {
            return ctx.effects.push(Effect::Failed(fault));
        }
        self.admission.held_back.follow(None, &self.map);
        if !self.config.shard.is_control() {
            self.want_maps(ctx);
        }
        ctx.effects.push(Effect::SetTimer(TICK, ctx.now));
    }

    pub(crate) fn on_conn_opened(&mut self, conn: ConnId, peer: Peer) {
        self.sessions.insert(conn, Session::new(peer));
    }

    fn on_mon_opened(&mut self, ctx: &mut Ctx<'_>) {
        self.has_mon = true;
        if self.boot != Boot::Active {
            self.boot = Boot::Starting;
        }
        self.subscribe(ctx);
        self.subscribe_config(ctx);
        self.resend_log(ctx);
        let version = MMonGetVersion { handle: BOOT_HANDLE, what: "osdmap".to_owned() };
        ctx.effects.push(Effect::SendMon(version.into()));
        self.ask_latest_maps(ctx);
        // Asks for whatever the last session did not carry.
        self.ask_up_thru(ctx);
        self.stats_report.at_once(ctx.now);
    }

    fn on_mon_closed(&mut self, ctx: &mut Ctx<'_>) {
        self.has_mon = false;
        if matches!(self.boot, Boot::Stopping { .. }) {
            self.finish_stop(ctx);
        }
    }

    /// Asks the monitor for every map from the next one on.
    pub(crate) fn subscribe(&mut self, ctx: &mut Ctx<'_>) {
        self.maps_asked.note(self.map.epoch, ctx.now);
        let start = if self.map.epoch.0 == 0 { 0 } else { u64::from(self.map.epoch.0) + 1 };
        let message = MMonSubscribe {
            what: [("osdmap".to_owned(), SubscribeItem { start, flags: 0 })].into(),
            hostname: String::new(),
        };
        ctx.effects.push(Effect::SendMon(message.into()));
    }

    fn on_mon_message(&mut self, message: Message, ctx: &mut Ctx<'_>) {
        match message {
            Message::MOSDMap(maps) => self.on_osd_map(MapSource::Monitor, *maps, ctx),
            Message::MMonGetVersionReply(reply) => {
                self.on_latest_map(&reply, ctx);
                if self.boot == Boot::Starting {
                    let newest = Epoch(u32::try_from(reply.version).unwrap_or(u32::MAX));
                    self.boot = Boot::CatchingUp(newest);
                    self.boot_if_due(ctx);
                }
            }
            Message::MOSDImageQuery(query) => self.on_image_query(*query, ctx),
            Message::MOSDPGCreate(create) => self.distribute_pg_create(&create, ctx),
            Message::MOSDScrub(message) => self.distribute_scrub(&message, ctx),
            Message::MOSDForceRecovery(message) => self.distribute_force(&message, ctx),
            Message::MLogAck(ack) => self.on_log_ack(&ack),
            Message::MConfig(message) => {
                self.settings.set_mon(&message.config);
                self.on_settings_changed(ctx);
            }
            Message::MOSDMarkMeDown(ack) if ack.is_ack => self.finish_stop(ctx),
            other => tracing::debug!(message = other.name(), "ignored from the monitor"),
        }
    }

    fn on_store(&mut self, completion: Completion, ctx: &mut Ctx<'_>) {
        match completion {
            Completion::Committed(token) if is_bench_token(token) => self.on_bench_committed(token, ctx),
            Completion::Committed(MAP_TOKEN) => {}
            completion => self.pg_completion(completion, ctx),
        }
    }

    /// Decodes a stored full map.
    pub(crate) fn decode_full(bytes: bytes::Bytes) -> Option<OsdMap> {
        <OsdMap as codec::Decode>::from_bytes(bytes)
            .inspect_err(|error| tracing::error!(%error, "a full map does not decode"))
            .ok()
    }

    /// Decodes a stored or received incremental.
    pub(crate) fn decode_incremental(bytes: bytes::Bytes) -> Option<Incremental> {
        <Incremental as codec::Decode>::from_bytes(bytes)
            .inspect_err(|error| tracing::error!(%error, "an incremental map does not decode"))
            .ok()
    }
}
