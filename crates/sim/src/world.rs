//! The world: processes, network, clients, and the loop in which things happen.

mod options;
mod phases;
mod state;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    net::SocketAddr,
    time::Duration,
};

use auth::{CryptoKey, KeyringEntry};
use client::{Outcome, Request, Response};
use codec::traffic::{self, Traffic};
use messages::{MPoolOp, PoolOpCode};
use mon::{Ledger, MemLedger, MkfsParams, MonOptions, mkfs};
use rand::{Rng, SeedableRng, rngs::StdRng};
use store::{JournalKey, Store, StoreIdentity, virtual_disk::VirtualDisk};
use types::{EntityAddr, EntityAddrVec, EntityName, KeyType, OsdId, PoolId, SnapId, Token, Uuid};

pub(crate) use options::Scale;
pub use options::{Options, Report};
use phases::Phase;

use crate::{
    canary::Canary,
    client_process::ClientProcess,
    clocks::Clock,
    crowding::{BACKFILLFULL, FULL, NEARFULL},
    device_faults::Loss,
    made_anew::MadeAnew,
    model::SNAP_LAST,
    mon_process::MonProcess,
    network::Network,
    osd_process::{Addrs, End, OsdDisk, OsdProcess, small_store},
    process::{Ctx, Process},
    schedule::{ProcessId, Schedule, Scheduled},
    shared::SharedObjects,
    slot::Slot,
    workload::Workload,
};

pub(crate) const MON: ProcessId = ProcessId(0);
const FSID: Uuid = Uuid([7; 16]);
/// How much faster the clock of an OSD runs that trusts its leases for five times as long as it should.
const SLOW_PPM: i64 = -800_000;
const SHARED_OBJECTS: usize = 3;
pub(crate) const POOL: &str = "sim";
/// How long the world waits for something, in virtual time, before it gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(900);
/// By then a clean PG's primary has told its members.
const TOLD: Duration = Duration::from_secs(1);
/// How many events may happen within [`PATIENCE`]: more means that the world goes round in circles.
const EVENTS_MAX: u64 = 3_000_000;

/// See the crate's page.
pub struct World {
    pub(crate) options: Options,
    pub(crate) scale: Scale,
    pub(crate) rng: StdRng,
    pub(crate) schedule: Schedule,
    pub(crate) network: Network,
    mon: Slot<MonProcess, MemLedger>,
    pub(crate) osds: Vec<Slot<OsdProcess, OsdDisk>>,
    /// The OSD whose device is bad now and then, once it has been.
    pub(crate) rotten: Option<usize>,
    /// What the device that this OSD has now may have lost.
    pub(crate) loss: Loss,
    /// OSDs that may end by themselves.
    pub(crate) faulty: BTreeSet<usize>,
    /// How often each has, on the device that it has.
    pub(crate) ends: BTreeMap<usize, u32>,
    /// An OSD that was destroyed or purged, and waits for its new store.
    pub(crate) made_anew: Option<MadeAnew>,
    /// How often each OSD was made anew.
    pub(crate) generations: Vec<u8>,
    /// OSDs may be fuller than the world began with.
    pub(crate) has_given_way: bool,
    /// What the operator wants, by OSD.
    pub(crate) is_out: Vec<bool>,
    pub(crate) clients: Vec<ClientProcess>,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) shared: SharedObjects,
    /// Clients that were fenced off, and how many of them nobody has taken over from yet.
    pub(crate) fenced: usize,
    pub(crate) taking_over: usize,
    phase: Phase,
    starts: u32,
    events: u64,
    /// Bytes that the OSDs' copies and checksums went over.
    pub(crate) osd_traffic: Traffic,
    hasher: DefaultHasher,
    story: Vec<String>,
    pub(crate) broken: Option<String>,
}

impl World {
    /// Lives through the world of a seed. If anything goes wrong, returns what, with the story of the world.
    pub fn run(options: Options) -> Result<Report, String> {
        let mut world = World::new(options);
        let outcome = world.live();
        let story = world.story.join("\n  ");
        outcome.map_err(|why| format!("at {:?}: {why}\n  {story}", world.schedule.now()))?;
        let requests = world.workloads.iter().map(Workload::begun).sum();
        Ok(Report {
            events: world.events,
            requests,
            replica_answers: world.clients.iter().map(|client| client.replica_answers()).sum(),
            seen: world.shared.seen,
            elapsed: Duration::from_nanos(world.schedule.now().0),
            fingerprint: world.hasher.finish(),
            story: world.story,
        })
    }

    fn new(options: Options) -> World {
        let mut rng = StdRng::seed_from_u64(options.seed);
        let osds = [3, 3, 3, 4, 5][rng.random_range(0..5)];
        // The OSDs that PGs move to are others.
        let osds = if options.copies.is_some() || options.is_full { osds.max(4) } else { osds };
        let shards = [1, 1, 2, 2, 4][rng.random_range(0..5)];
        let store = small_store(&mut rng);
        let pg_num = if options.is_resized { rng.random_range(4..17) } else { rng.random_range(1..7) };
        let (journal_devices, index_devices) = (rng.random_range(0..8), rng.random_range(0..8));
        let scale = Scale { journal_devices, index_devices, ..Scale::new(osds, store, pg_num) };
        // Elsewhere logs are longer than such a world is.
        let log_entries = rng.random_bool(0.5).then(|| rng.random_range(20..60));
        let scale = Scale { shards, is_busy: true, log_entries, ..scale };
        let scale = if options.is_full { scale.small(&mut rng) } else { scale };
        let mut clocks: Vec<Clock> = (0..=osds).map(|_| Clock::random(&mut rng)).collect();
        if options.canary == Some(Canary::LongLease) {
            clocks[1] = clocks[1].drifting(SLOW_PPM);
        }
        let mut world = World::of(options, scale, rng);
        for (process, clock) in clocks.into_iter().enumerate() {
            world.schedule.set_clock(ProcessId(process), clock);
        }
        world
    }

    pub(crate) fn of(options: Options, scale: Scale, mut rng: StdRng) -> World {
        World {
            network: Network::new(rng.random()),
            rng,
            options,
            scale,
            schedule: Schedule::default(),
            mon: Slot::Moving,
            osds: (0..scale.osds).map(|_| Slot::Moving).collect(),
            rotten: None,
            loss: Loss::Nothing,
            faulty: BTreeSet::new(),
            ends: BTreeMap::new(),
            made_anew: None,
            generations: vec![0; scale.osds],
            has_given_way: false,
            is_out: vec![false; scale.osds],
            clients: Vec::new(),
            workloads: Vec::new(),
            shared: SharedObjects::new(SHARED_OBJECTS),
            fenced: 0,
            taking_over: 0,
            phase: Phase::Idle,
            starts: 0,
            events: 0,
            osd_traffic: Traffic::default(),
            hasher: DefaultHasher::new(),
            story: Vec::new(),
            broken: None,
        }
    }

    fn live(&mut self) -> Result<(), String> {
        let pool = self.set_up()?;
        for client in 0..self.clients.len() {
            let rng = StdRng::from_rng(&mut self.rng);
            let workload = Workload::new(client as u64 + 1, pool, rng);
            self.workloads.push(workload.with_options(&self.options, self.clients.len()));
            self.schedule.after(Duration::ZERO, self.client_process(client), Scheduled::Work);
        }
        self.make_snaps(pool)?;
        self.phase = Phase::Working;
        let (span, faults) = match &self.options {
            Options { copies: Some(_), .. } => (20..90, 4..12),
            Options { is_full: true, .. } => (40..100, 2..8),
            Options { is_resized: true, .. } => (20..120, 1..6),
            _ => (5..60, 1..6),
        };
        let working = Duration::from_secs(self.rng.random_range(span));
        for _ in 0..self.rng.random_range(faults) {
            let at = working.mul_f64(self.rng.random_range(0.0..1.0));
            self.schedule.after(at, MON, Scheduled::Fault);
        }
        if self.options.is_resized {
            for _ in 0..self.rng.random_range(1..4) {
                let at = working.mul_f64(self.rng.random_range(0.0..0.6));
                self.schedule.after(at, MON, Scheduled::Resize);
            }
        }
        self.pass(working)?;
        self.note("everything is mended".to_owned());
        self.mend();
        self.phase = if self.options.is_full { Phase::MakingRoom } else { Phase::Idle };
        if self.options.is_full {
            // PGs that are clean before they go back to these OSDs may be too large for them.
            let are_in = |w: &World| w.osdmap().is_some_and(|map| map.osds().all(|osd| map.is_in(osd)));
            self.until("all OSDs to be in", are_in)?;
        }
        self.until("clients to take over", |w| w.taking_over == 0)?;
        self.give_up_unfound()?;
        self.until("requests to end", |w| w.workloads.iter().all(|work| work.in_flight() == 0))?;
        self.until("all PGs to be clean", World::is_clean)?;
        if self.options.has_watchers {
            self.watch_calmly()?;
        }
        for work in &mut self.workloads {
            work.finish(&self.shared);
        }
        self.phase = Phase::Reading;
        self.until("the last reads", |w| w.workloads.iter().all(Workload::is_finished))?;
        self.phase = Phase::Idle;
        let is_trimmed = |w: &World| w.osdmap().is_some_and(|map| map.removed_snaps_queue.is_empty());
        self.until("removed snapshots to be trimmed", is_trimmed)?;
        self.until("all copies to know of them", World::is_purge_known)?;
        self.repair()?;
        self.compare_copies()
    }

    /// A cluster with a pool, and clients that know it.
    pub(crate) fn set_up(&mut self) -> Result<PoolId, String> {
        let now = self.schedule.wall();
        let names: Vec<String> = (0..self.osds.len()).map(|id| format!("osd.{id}")).collect();
        let names = names.iter().map(String::as_str).chain(["client.admin"]);
        let keys: BTreeMap<EntityName, KeyringEntry> = names
            .filter_map(EntityName::parse)
            .map(|name| {
                let key = CryptoKey::generate(KeyType::Aes256k, now, &mut self.rng);
                (name, KeyringEntry { key, caps: BTreeMap::new() })
            })
            .collect();
        let mut ledger = MemLedger::default();
        let params = MkfsParams {
            fsid: FSID,
            now,
            mons: BTreeMap::from([("a".to_owned(), mon_addrs())]),
            keys: keys.clone(),
            chooseleaf_type: 0,
            key_type: KeyType::Aes,
            seed: self.rng.random(),
        };
        ledger.commit(&mkfs(&params)).expect("an empty ledger takes the first transaction");
        self.mon = Slot::Down(ledger);
        self.start(MON);
        for id in 0..self.osds.len() {
            let key = keys[&EntityName::new(types::EntityType::OSD, id.to_string())].key.clone();
            self.osds[id] = Slot::Down(self.new_disk(id, key));
            self.start(self.osd_process(id));
        }
        let admin = keys[&EntityName::new(types::EntityType::CLIENT, "admin")].key.clone();
        for _ in 0..self.rng.random_range(1..4) {
            self.start_client(admin.clone());
        }
        self.until("OSDs to be up", World::is_all_up)?;
        let pg_num = self.scale.pg_num;
        let size = self.options.copies.map_or(String::new(), |copies| format!(r#","size":{copies}"#));
        self.command(format!(r#"{{"prefix":"osd pool create","pool":"{POOL}","pg_num":{pg_num}{size}}}"#));
        let pool_of = |client: &ClientProcess| Some(client.map()?.pool_by_name(POOL)?.0);
        self.until("the pool", move |w| w.clients.iter().all(|client| pool_of(client).is_some()))?;
        if self.options.is_full {
            self.set_ratios([NEARFULL, BACKFILLFULL, FULL]);
        }
        self.clients.first().and_then(pool_of).ok_or("there is no client".to_owned())
    }

    /// Another client.
    pub(crate) fn start_client(&mut self, key: CryptoKey) {
        let (who, addrs) = (self.client_process(self.clients.len()), self.next_client_addrs());
        let mut ctx = Ctx { who, schedule: &mut self.schedule, network: &mut self.network };
        let process = ClientProcess::start(key, mon_addrs(), addrs, &mut self.rng, &mut ctx);
        self.clients.push(process);
    }

    pub(crate) fn new_disk(&self, id: usize, key: CryptoKey) -> OsdDisk {
        let Scale { shards, is_busy, store: config, log_entries, .. } = self.scale;
        let sizes = self.scale.device_sizes(id);
        let disk = |shard| {
            let mut disk = VirtualDisk::new(sizes);
            disk.set_lying(self.options.is_disk_lying);
            let (mut store_uuid, osd) = (Uuid([id as u8 + 1; 16]), id as u32);
            store_uuid.0[0] = self.generations[id];
            let identity = StoreIdentity { store_uuid, fsid: FSID, osd, shard, shards };
            let key = JournalKey::new(store_uuid.0.map(|byte| !byte));
            let commands = Store::format(sizes, identity, key, &config);
            for command in commands.expect("the disk is large enough") {
                disk.execute(command).1.expect("the disk takes what lies within it");
            }
            disk
        };
        let disks = (0..shards).map(disk).collect();
        let canary = self.options.canary;
        OsdDisk { whoami: OsdId(id as i32), fsid: FSID, key, disks, config, log_entries, is_busy, canary }
    }

    pub(crate) fn osd_process(&self, id: usize) -> ProcessId {
        ProcessId(1 + id)
    }

    pub(crate) fn client_process(&self, client: usize) -> ProcessId {
        ProcessId(1 + self.osds.len() + client)
    }

    pub(crate) fn process_count(&self) -> usize {
        1 + self.osds.len() + self.clients.len()
    }

    pub(crate) fn note(&mut self, what: String) {
        let ms = self.schedule.now().0 / 1_000_000;
        tracing::info!(ms, "{what}");
        self.story.push(format!("{}.{:03} s: {what}", ms / 1_000, ms % 1_000));
    }

    /// Remembers what happened that does not happen in every world.
    pub(crate) fn saw(&mut self, what: impl IntoIterator<Item = &'static str>) {
        self.shared.seen.extend(what);
    }

    pub(crate) fn end(&mut self, who: ProcessId, end: End) {
        let is_up = match who {
            MON => self.mon.up().is_some(),
            ProcessId(at) => self.osds[at - 1].up().is_some(),
        };
        if !is_up {
            return;
        }
        self.network.kill(who, &mut self.schedule);
        self.schedule.forget(who);
        match who {
            MON => self.mon.crash(MonProcess::crash),
            ProcessId(at) => self.osds[at - 1].crash(|osd| osd.end(end)),
        }
    }

    /// Starts what is down.
    pub(crate) fn start(&mut self, who: ProcessId) {
        self.starts += 1;
        if who.0.checked_sub(1).is_some_and(|id| self.is_removed(id)) {
            return;
        }
        if let Some(id) = who.0.checked_sub(1).filter(|id| self.osds[*id].up().is_none() && self.is_worn(*id))
        {
            return self.renew_device(id, "it has ended too often");
        }
        let mut ctx = Ctx { who, schedule: &mut self.schedule, network: &mut self.network };
        let rng = &mut self.rng;
        match who {
            MON => {
                let options = MonOptions {
                    osd_down_out_interval: Duration::from_secs(30),
                    // Short enough for copies that were away to find maps gone.
                    osdmap_epochs_min: 20,
                    is_pool_delete_allowed: true,
                    is_pool_size_one_allowed: true,
                    ..MonOptions::default()
                };
                let outcome = self
                    .mon
                    .start(|ledger| Ok(MonProcess::start(ledger, mon_addrs(), options, rng, &mut ctx)));
                outcome.expect("a monitor starts on any ledger");
            }
            ProcessId(at) => {
                let at_port = |port: u16| EntityAddr::msgr2(address(port + at as u16), self.starts);
                let public = EntityAddrVec(vec![at_port(6_800)]);
                let cluster = match self.scale.shards {
                    1 => public.clone(),
                    shards => EntityAddrVec((0..shards).map(|n| at_port(7_000 + 100 * n)).collect()),
                };
                let (addrs, mon) = (Addrs { public, cluster }, mon_addrs());
                let slot = &mut self.osds[at - 1];
                let outcome = slot.start(|disk| OsdProcess::start(disk, &addrs, &mon, rng, &mut ctx));
                if let Err(why) = outcome {
                    self.cannot_start(at - 1, &why);
                }
            }
        }
    }

    /// Ends every fault.
    fn mend(&mut self) {
        self.network.heal(&mut self.schedule);
        self.osds.iter_mut().filter_map(Slot::up_mut).for_each(|osd| osd.fail_commands(0));
        for process in 0..=self.osds.len() {
            self.start(ProcessId(process));
        }
        for id in 0..self.osds.len() {
            self.command(format!(r#"{{"prefix":"osd in","ids":["{id}"]}}"#));
        }
        if self.options.is_full {
            self.set_ratios([NEARFULL, BACKFILLFULL, FULL]);
        }
        if self.options.canary == Some(Canary::LateLie) {
            self.osds.iter_mut().filter_map(Slot::up_mut).for_each(OsdProcess::lie);
        }
    }

    /// An operator's command, by the first client.
    pub(crate) fn command(&mut self, json: String) {
        let who = self.client_process(0);
        let mut ctx = Ctx { who, schedule: &mut self.schedule, network: &mut self.network };
        self.clients[0].command(json, &mut ctx);
    }

    /// An operator's command at an OSD's admin socket.
    pub(crate) fn osd_command(&mut self, id: usize, json: String) {
        let who = self.osd_process(id);
        let mut ctx = Ctx { who, schedule: &mut self.schedule, network: &mut self.network };
        if let Some(osd) = self.osds[id].up_mut() {
            osd.command(json, &mut ctx);
        }
    }

    /// A change of the pool, by the first client.
    pub(crate) fn pool_op(&mut self, op: PoolOpCode, snapid: SnapId) {
        let Some(pool) = self.osdmap().and_then(|map| Some(map.pool_by_name(POOL)?.0)) else { return };
        let who = self.client_process(0);
        let mut ctx = Ctx { who, schedule: &mut self.schedule, network: &mut self.network };
        let op = MPoolOp { fsid: FSID, pool: pool.0 as u32, op, snapid, ..MPoolOp::default() };
        self.clients[0].pool_op(op, &mut ctx);
    }

    /// Clients may make as many snapshots as they do.
    pub(crate) fn make_snaps(&mut self, pool: PoolId) -> Result<(), String> {
        // Their ids begin with 2.
        (1..SNAP_LAST.0).for_each(|_| self.pool_op(PoolOpCode::CREATE_UNMANAGED_SNAP, SnapId(0)));
        let is_done = move |w: &World| w.osdmap().is_some_and(|map| map.pools[&pool].snap_seq >= SNAP_LAST);
        self.until("snapshots", is_done)
    }

    /// A client's request.
    pub(crate) fn submit(&mut self, client: usize, token: Token, request: Request) {
        let who = self.client_process(client);
        let mut ctx = Ctx { who, schedule: &mut self.schedule, network: &mut self.network };
        self.clients[client].submit(token, request, &mut ctx);
    }

    /// What has ended of a client without a workload.
    pub(crate) fn take_ended(&mut self, client: usize) -> impl Iterator<Item = (Token, Response)> {
        self.clients[client].take_outcomes().into_iter().filter_map(|outcome| match outcome {
            Outcome::Done(token, response) => Some((token, response)),
            Outcome::CommandDone(_) | Outcome::Notified(_) => None,
        })
    }

    fn with(&mut self, who: ProcessId, act: impl FnOnce(&mut dyn Process, &mut Ctx<'_>)) {
        let mut ctx = Ctx { who, schedule: &mut self.schedule, network: &mut self.network };
        let process: Option<&mut dyn Process> = match who.whole().0 {
            0 => self.mon.up_mut().map(|p| p as &mut dyn Process),
            at if at <= self.osds.len() => self.osds[at - 1].up_mut().map(|p| p as &mut dyn Process),
            at => self.clients.get_mut(at - 1 - self.osds.len()).map(|p| p as &mut dyn Process),
        };
        if let Some(process) = process {
            act(process, &mut ctx);
        }
    }

    /// One thing happens.
    pub(crate) fn step(&mut self) {
        let Some((who, what)) = self.schedule.pop() else { return };
        self.events += 1;
        let before = traffic::so_far();
        (self.schedule.now(), who.0, std::mem::discriminant(&what)).hash(&mut self.hasher);
        match what {
            Scheduled::NetTick => self.with(who, |process, ctx| process.on_net_tick(ctx)),
            Scheduled::Timer(token) => self.with(who, |process, ctx| process.on_timer(token, ctx)),
            Scheduled::Device => {
                let mut ctx = Ctx { who, schedule: &mut self.schedule, network: &mut self.network };
                if let Some(osd) = self.osds[who.whole().0 - 1].up_mut() {
                    osd.on_device(&mut ctx);
                }
            }
            Scheduled::Turn => {
                let mut ctx = Ctx { who, schedule: &mut self.schedule, network: &mut self.network };
                if let Some(osd) = self.osds[who.whole().0 - 1].up_mut() {
                    osd.turn(&mut ctx);
                }
            }
            Scheduled::ShardItem(from, item) => {
                let mut ctx = Ctx { who, schedule: &mut self.schedule, network: &mut self.network };
                if let Some(osd) = self.osds[who.whole().0 - 1].up_mut() {
                    osd.on_shard_item(from, *item, &mut ctx);
                }
            }
            Scheduled::Ledger => {
                let mut ctx = Ctx { who, schedule: &mut self.schedule, network: &mut self.network };
                if let Some(mon) = self.mon.up_mut() {
                    mon.on_ledger(&mut ctx);
                }
            }
            Scheduled::Arrival(end, arrival) => {
                self.network.arrive(end, arrival, &mut self.schedule);
                self.with(who, |process, ctx| process.on_arrival(end, ctx));
            }
            Scheduled::Start => {
                self.note(format!("{who:?} starts"));
                self.start(who);
            }
            Scheduled::MakeAnew => self.make_anew(who),
            Scheduled::TakeOver => self.take_over(who),
            Scheduled::Fault => self.strike(),
            Scheduled::Resize => self.resize(),
            Scheduled::OtherPool if self.phase == Phase::Working => self.toggle_pool(),
            Scheduled::OtherPool => {}
            Scheduled::Heal => {
                self.note("the network is whole".to_owned());
                self.network.heal(&mut self.schedule);
            }
            Scheduled::Work => self.work(who),
        }
        match who.whole().0 {
            0 => {}
            at if at <= self.osds.len() => {
                self.osd_traffic = self.osd_traffic + (traffic::so_far() - before);
                self.look_after(at - 1);
            }
            at => self.collect(at - 1 - self.osds.len()),
        }
    }

    pub(crate) fn pass(&mut self, span: Duration) -> Result<(), String> {
        let end = self.schedule.now() + span;
        self.until("time to pass", move |w| w.schedule.now() >= end)
    }

    /// Waits until all PGs are clean, and as long as primaries take to tell their members.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        self.until("all PGs to be clean", World::is_clean)?;
        self.pass(TOLD)
    }

    pub(crate) fn until(&mut self, what: &str, is_there: impl Fn(&World) -> bool) -> Result<(), String> {
        let (limit, events) = (self.schedule.now() + PATIENCE, self.events);
        // The condition may be expensive to check: it is checked only now and then.
        while !is_there(self) {
            for _ in 0..16 {
                self.step();
            }
            if let Some(why) = self.broken.take() {
                return Err(why);
            }
            if self.schedule.now() > limit || self.events - events > EVENTS_MAX {
                let happened = self.events - events;
                return Err(format!("waited for {what} in vain ({happened} events): {}", self.state()));
            }
        }
        Ok(())
    }

    pub(crate) fn take_osds(&mut self) -> Vec<OsdProcess> {
        let osds = std::mem::take(&mut self.osds).into_iter();
        osds.filter_map(|slot| match slot {
            Slot::Up(osd) => Some(osd),
            Slot::Down(_) | Slot::Moving => None,
        })
        .collect()
    }
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn mon_addrs() -> EntityAddrVec {
    EntityAddrVec::msgr2(address(3_300), 0)
}
