//! A monitor with a ledger, connections and OSDs that send what real ones would.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use auth::{CryptoKey, KeyringEntry};
use codec::{Decode, Features};
use messages::{MMonCommand, MMonCommandAck, MOSDBoot, MPGStats, Message};
use rand::{SeedableRng, rngs::StdRng};
use serde_json::Value;
use types::{
    EVersion, EntityAddr, EntityAddrVec, EntityName, Epoch, GlobalId, Instant, KeyType, OsdId, OsdMap,
    OsdStat, PgStat, PgStatSum, PgState, PoolId, PoolStatfs, Token, UTime, Uuid,
};

use crate::{
    ConnId, Effect, Event, Ledger, LedgerTxn, MemLedger, MkfsParams, Mon, MonOptions, ObjectRequest, Peer,
    RunId, mkfs,
};

pub(crate) const FSID: Uuid = Uuid([7; 16]);
pub(crate) const ADMIN: ConnId = ConnId(1);
const GIB_KIB: u64 = 1 << 20;

/// One monitor and its world.
pub(crate) struct Cluster {
    pub(crate) mon: Mon,
    pub(crate) ledger: MemLedger,
    pub(crate) now: Instant,
    /// By how much the time of day was set back.
    pub(crate) wall_back: Duration,
    pub(crate) sent: Vec<(ConnId, u64, Message)>,
    /// Proposals are held back while false.
    pub(crate) is_committing: bool,
    pub(crate) held: Vec<LedgerTxn>,
    pub(crate) closed: Vec<ConnId>,
    /// How often the monitor said that it has other options.
    pub(crate) options_changed: u32,
    /// What clients of the manager were told.
    pub(crate) managed: Vec<(u64, Message)>,
    /// What is asked of objects, and runs that are started (arguments) and ended (none).
    pub(crate) objects: Vec<(Token, ObjectRequest)>,
    pub(crate) runs: Vec<(RunId, Option<String>)>,
    tid: u64,
}

pub(crate) fn addr(port: u16) -> EntityAddrVec {
    EntityAddrVec::msgr2(SocketAddr::from(([127, 0, 0, 1], port)), 1)
}

impl Cluster {
    /// A new cluster, booted, with an admin connected.
    pub(crate) fn new() -> Cluster {
        let mut rng = StdRng::seed_from_u64(1);
        let now = UTime::new(1_790_000_000, 0);
        let keys = (0..3).map(|id| {
            let key = CryptoKey::generate(KeyType::Aes256k, now, &mut rng);
            (EntityName::parse(&format!("osd.{id}")).unwrap(), KeyringEntry { key, caps: BTreeMap::new() })
        });
        let mut ledger = MemLedger::default();
        let params = MkfsParams {
            fsid: FSID,
            now,
            mons: BTreeMap::from([("a".to_owned(), addr(3300))]),
            keys: keys.collect(),
            chooseleaf_type: 0,
            key_type: KeyType::Aes,
            seed: [3; 32],
        };
        ledger.commit(&mkfs(&params)).unwrap();
        Cluster::on(ledger)
    }

    /// The cluster that the ledger holds, booted, with an admin connected.
    pub(crate) fn on(ledger: MemLedger) -> Cluster {
        let mut cluster = Cluster {
            mon: Mon::new(MonOptions::default(), [1; 32]),
            ledger,
            now: Instant(1_000_000_000_000),
            wall_back: Duration::ZERO,
            sent: Vec::new(),
            is_committing: true,
            held: Vec::new(),
            closed: Vec::new(),
            options_changed: 0,
            managed: Vec::new(),
            objects: Vec::new(),
            runs: Vec::new(),
            tid: 0,
        };
        cluster.boot();
        cluster
    }

    /// A new cluster with three OSDs up and a pool `rbd` whose PGs are clean.
    pub(crate) fn with_rbd() -> Cluster {
        let mut cluster = Cluster::new();
        (0..3).for_each(|id| cluster.boot_osd(id));
        assert_eq!(
            cluster.ok(r#"{"prefix":"osd pool create","pool":"rbd","pg_num":8}"#),
            "pool 'rbd' created"
        );
        cluster.ok(r#"{"prefix":"osd pool application enable","pool":"rbd","app":"rbd"}"#);
        cluster.report_all();
        cluster.pass(Duration::from_secs(3));
        cluster
    }

    /// Allows pools to be deleted, as an operator who means to delete some would.
    pub(crate) fn allow_pool_delete(&mut self) {
        self.ok(r#"{"prefix":"config set","who":"mon","name":"mon_allow_pool_delete","value":"true"}"#);
    }

    /// Hands the ledger's contents to the monitor and connects the admin.
    pub(crate) fn boot(&mut self) {
        let contents = self.ledger.load().unwrap();
        self.event(Event::Boot(Box::new(contents)));
        self.connect(ADMIN, "client.admin");
    }

    /// A new monitor on what the ledger has committed.
    pub(crate) fn restart(&mut self) {
        self.restart_with(MonOptions::default());
    }

    pub(crate) fn restart_with(&mut self, options: MonOptions) {
        self.mon = Mon::new(options, [9; 32]);
        self.held.clear();
        self.is_committing = true;
        self.boot();
    }

    /// The time of day.
    pub(crate) fn wall(&self) -> UTime {
        let start = UTime::new(1_790_000_000 - self.wall_back.as_secs() as u32, 0);
        start.plus(Duration::from_nanos(self.now.0))
    }

    /// The peer at the other end of a connection.
    pub(crate) fn peer(&self, conn: ConnId) -> Peer {
        self.mon.sessions[&conn].peer.clone()
    }

    pub(crate) fn connect(&mut self, conn: ConnId, name: &str) {
        let peer = Peer {
            name: EntityName::parse(name).unwrap(),
            global_id: GlobalId(4000 + conn.0),
            addr: EntityAddr::parse("127.0.0.1:0/99").unwrap(),
            ip: [127, 0, 0, 1].into(),
            features: Features::PACIFIC.0,
        };
        self.event(Event::ConnOpened(conn, Box::new(peer)));
    }

    pub(crate) fn event(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.mon.handle(self.now, self.wall(), event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Compact => {
                    let result = self.ledger.compact();
                    self.event(Event::Compacted(result));
                }
                Effect::Send { conn, tid, message } => self.sent.push((conn, tid, message)),
                Effect::Propose(txn) => self.held.push(txn),
                Effect::Close(conn) => self.closed.push(conn),
                Effect::SendManager { tid, message, .. } => self.managed.push((tid, message)),
                Effect::Objects(token, request) => self.objects.push((token, request)),
                Effect::Run(run, args) => self.runs.push((run, Some(args.join(" ")))),
                Effect::Kill(run) => self.runs.push((run, None)),
                Effect::OptionsChanged => self.options_changed += 1,
                Effect::SetTimer(_) => {}
            }
        }
        if self.is_committing {
            self.commit();
        }
    }

    /// Commits what is proposed.
    pub(crate) fn commit(&mut self) {
        while let Some(txn) = self.held.pop() {
            assert!(self.held.is_empty(), "one proposal at a time");
            let revision = self.ledger.commit(&txn).unwrap();
            self.event(Event::LedgerCommitted(revision));
        }
    }

    /// Time passes, with a timer every second.
    pub(crate) fn pass(&mut self, span: Duration) {
        for _ in 0..span.as_secs() {
            self.now = self.now + Duration::from_secs(1);
            self.event(Event::Timer);
        }
    }

    pub(crate) fn say(&mut self, conn: ConnId, message: impl Into<Message>) -> u64 {
        self.tid += 1;
        let tid = self.tid;
        self.event(Event::Received { conn, tid, message: message.into() });
        tid
    }

    /// The id of the last request.
    pub(crate) fn last_tid(&self) -> u64 {
        self.tid
    }

    /// Says something to the manager as `peer`; gives the answers so far.
    pub(crate) fn manage(&mut self, peer: &Peer, message: impl Into<Message>) -> Vec<Message> {
        self.tid += 1;
        let tid = self.tid;
        let (link, peer, message) = (1, Box::new(peer.clone()), message.into());
        self.event(Event::ToManager { link, tid, peer, message });
        self.managed.iter().filter(|(t, _)| *t == tid).map(|(_, message)| message.clone()).collect()
    }

    /// Runs a command; `None` while it is not answered.
    pub(crate) fn try_command(&mut self, conn: ConnId, json: &str, input: &[u8]) -> Option<MMonCommandAck> {
        let command = MMonCommand {
            fsid: FSID,
            cmd: vec![json.to_owned()],
            input: input.to_vec().into(),
            ..MMonCommand::default()
        };
        let tid = self.say(conn, command);
        self.sent.iter().find_map(|(_, t, message)| match message {
            Message::MMonCommandAck(ack) if *t == tid => Some(MMonCommandAck::clone(ack)),
            _ => None,
        })
    }

    pub(crate) fn command(&mut self, json: &str) -> MMonCommandAck {
        self.try_command(ADMIN, json, b"").unwrap_or_else(|| panic!("no answer to {json}"))
    }

    /// Runs a command that must succeed; gives its status line.
    pub(crate) fn ok(&mut self, json: &str) -> String {
        let ack = self.command(json);
        assert_eq!(ack.result, 0, "{json}: {}", ack.status);
        ack.status
    }

    /// Runs a command that must be refused.
    pub(crate) fn refused(&mut self, json: &str) -> (i32, String) {
        let ack = self.command(json);
        assert!(ack.result < 0, "{json} succeeded");
        (ack.result, ack.status)
    }

    /// The plain output of a command that must succeed.
    pub(crate) fn text(&mut self, json: &str) -> String {
        let ack = self.command(json);
        assert_eq!(ack.result, 0, "{json}: {}", ack.status);
        String::from_utf8(ack.output.to_vec()).unwrap()
    }

    /// The JSON output of a command that must succeed.
    pub(crate) fn json(&mut self, json: &str) -> Value {
        let with_format = json.replacen('}', r#","format":"json"}"#, 1);
        serde_json::from_str(&self.text(&with_format)).unwrap()
    }

    pub(crate) fn map(&self) -> &OsdMap {
        self.mon.osdmap()
    }

    pub(crate) fn osd_conn(id: i32) -> ConnId {
        ConnId(100 + id as u64)
    }

    pub(crate) fn boot_osd(&mut self, id: i32) {
        self.connect(Self::osd_conn(id), &format!("osd.{id}"));
        let newest_map = self.map().epoch;
        self.say(Self::osd_conn(id), boot_message(id, newest_map));
    }

    /// Every primary reports all of its PGs clean, every OSD its device.
    pub(crate) fn report_all(&mut self) {
        let map = self.map().clone();
        for osd in map.osds().filter(|osd| map.is_up(*osd)) {
            let pgs: Vec<PgStat> = map
                .pgs()
                .filter_map(|pg| {
                    let placed = map.pg_to_up_acting(pg);
                    let full = placed.acting.len() == 3;
                    let is_merging = map.pools[&pg.pool].is_merging(pg);
                    let state = match is_merging {
                        true => PgState::PEERED.with(PgState::PREMERGE),
                        false => PgState::ACTIVE,
                    };
                    let state = state.with(if full { PgState::CLEAN } else { PgState::UNDERSIZED });
                    // Each at a version of its own.
                    let at = u64::from(is_merging) * u64::from(pg.seed + 1);
                    let version = EVersion::new(Epoch(at.min(1) as u32), at);
                    let sum = PgStatSum { bytes: 4096, objects: 1, object_copies: 3, ..PgStatSum::default() };
                    (placed.acting_primary == osd).then(|| PgStat {
                        pgid: pg,
                        state,
                        version,
                        reported_epoch: map.epoch,
                        reported_seq: self.now.0,
                        up: placed.up.clone(),
                        acting: placed.acting.clone(),
                        up_primary: placed.up_primary,
                        acting_primary: placed.acting_primary,
                        sum,
                        purged_snaps: map.removed_snaps_queue.get(&pg.pool).cloned().unwrap_or_default(),
                        ..PgStat::default()
                    })
                })
                .collect();
            let stat = OsdStat {
                kb: 20 * GIB_KIB,
                kb_used: GIB_KIB,
                kb_avail: 19 * GIB_KIB,
                pg_count: 8,
                ..OsdStat::default()
            };
            let mut pools = BTreeMap::<PoolId, PoolStatfs>::new();
            let one = PoolStatfs { allocated: 4096, data_stored: 100, omap_allocated: 0 };
            for pg in map.pgs().filter(|pg| map.pg_to_up_acting(*pg).acting.contains(&osd)) {
                let sum = pools.entry(pg.pool).or_default();
                *sum = sum.plus(one);
            }
            let pool_stat = pools.into_iter().collect();
            self.say(
                Self::osd_conn(osd.0),
                MPGStats { osd, epoch: map.epoch, stat, pgs, pool_stat, ..MPGStats::default() },
            );
        }
    }
}

pub(crate) fn boot_message(id: i32, newest_map: Epoch) -> MOSDBoot {
    MOSDBoot {
        osd: OsdId(id),
        uuid: Uuid([id as u8 + 1; 16]),
        public_addrs: addr(6800 + id as u16 * 2),
        cluster_addrs: addr(6801 + id as u16 * 2),
        newest_map,
        device_bytes: 20 << 30,
        metadata: BTreeMap::from([("hostname".to_owned(), "vm".to_owned())]),
        features: Features::PACIFIC.0,
    }
}

/// The OSD maps in what was sent to `conn`: full ones and incrementals, by epoch.
pub(crate) fn maps_sent(cluster: &Cluster, conn: ConnId) -> (Vec<Epoch>, Vec<Epoch>) {
    let (mut fulls, mut incs) = (Vec::new(), Vec::new());
    for (to, _, message) in &cluster.sent {
        if let Message::MOSDMap(maps) = message
            && *to == conn
        {
            fulls.extend(maps.fulls.keys());
            incs.extend(maps.incrementals.keys());
            for (epoch, bytes) in &maps.fulls {
                assert_eq!(OsdMap::from_bytes(bytes.clone()).unwrap().epoch, *epoch);
            }
        }
    }
    (fulls, incs)
}
