//! Messages to the monitor and to the manager's part: right ones with any numbers and texts in them.

use ::messages::{
    ImageCounts, ImageKey, LogEntry, LogLevel, MAuth, MGetPoolStats, MLog, MMgrClose, MMgrOpen, MMgrReport,
    MMonGetMap, MMonGetOSDMap, MMonGetVersion, MMonSubscribe, MOSDAlive, MOSDFailure, MOSDImageStats,
    MOSDMarkMeDown, MOSDPGTemp, MPGStats, MPing, MPoolOp, MStatfs, PeerPing, PerfValue, Pong, PoolOpCode,
    SubscribeItem,
};
use codec::{Encode, encode_envelope};
use proptest::{collection::vec, prelude::*, sample::select};
use types::{
    EVersion, EntityAddrVec, EntityName, EntityNum, Epoch, OsdId, OsdStat, PgId, PgStat, PgStatSum, PgState,
    PoolId, PoolStatfs, SnapId, UTime,
};

use super::{super::cluster::boot_message, commands::look, *};

/// The newest map when messages begin to come.
fn epoch() -> Epoch {
    static EPOCH: OnceLock<Epoch> = OnceLock::new();
    *EPOCH.get_or_init(|| World::new().cluster.map().epoch)
}

fn entry(name: &str) -> LogEntry {
    LogEntry {
        name: EntityName::parse(name).unwrap(),
        rank: EntityNum { kind: 8, num: 1 },
        addrs: EntityAddrVec::default(),
        stamp: UTime::new(1_790_000_000, 0),
        seq: 1,
        level: LogLevel::WARN,
        message: "a line".to_owned(),
        channel: "cluster".to_owned(),
    }
}

fn facts() -> BTreeMap<String, String> {
    [("hostname", "h"), ("daemon_type", "portal"), ("ceph_version", "1"), ("zone_id", "z")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

fn subscribe(names: &[&str], start: u64) -> Message {
    let what = names.iter().map(|name| ((*name).to_owned(), SubscribeItem { start, flags: 0 })).collect();
    MMonSubscribe { what, hostname: "h".to_owned() }.into()
}

/// Messages that the monitor takes, one or more of each kind.
fn samples() -> Vec<(Sender, Message)> {
    [of_clients(), of_osds(), of_daemons()].concat()
}

fn of_clients() -> Vec<(Sender, Message)> {
    let (epoch, fsid) = (epoch(), FSID);
    let op = |op| {
        Message::from(MPoolOp {
            fsid,
            pool: 2,
            op,
            snapid: SnapId(2),
            name: "s2".into(),
            ..MPoolOp::default()
        })
    };
    let cmd = || vec![r#"{"prefix":"osd pool ls","detail":"detail","format":"json"}"#.to_owned()];
    vec![
        (Sender::Admin, MMonCommand { fsid, cmd: cmd(), ..MMonCommand::default() }.into()),
        (Sender::Admin, MCommand { fsid, cmd: cmd(), ..MCommand::default() }.into()),
        (Sender::ToManager, MMgrCommand { fsid, cmd: cmd(), ..MMgrCommand::default() }.into()),
        (Sender::Admin, MMonGetMap::default().into()),
        (Sender::Admin, MMonGetVersion { handle: 1, what: "osdmap".to_owned() }.into()),
        (Sender::Admin, subscribe(&["osdmap", "monmap", "mgrmap", "config", "log-info"], 1)),
        (Sender::Client, subscribe(&["osdmap", "log-debug", "kv:"], 0)),
        (Sender::Osd(2), subscribe(&["osdmap", "config"], 2)),
        (Sender::Admin, MMonGetOSDMap::whole(epoch).into()),
        (
            Sender::Admin,
            MMonGetOSDMap { inc_first: Epoch(1), inc_last: epoch, ..MMonGetOSDMap::default() }.into(),
        ),
        (Sender::Admin, MStatfs { fsid, data_pool: Some(PoolId(1)), ..MStatfs::default() }.into()),
        (Sender::Admin, MStatfs { fsid, ..MStatfs::default() }.into()),
        (
            Sender::Admin,
            MGetPoolStats {
                fsid,
                pools: vec!["rbd".to_owned(), "data".to_owned()],
                ..MGetPoolStats::default()
            }
            .into(),
        ),
        (Sender::Admin, MLog { fsid, entries: vec![entry("client.admin"); 2], ..MLog::default() }.into()),
        (Sender::Osd(1), MLog { fsid, entries: vec![entry("osd.1")], ..MLog::default() }.into()),
        (Sender::Admin, op(PoolOpCode::CREATE)),
        (Sender::Admin, op(PoolOpCode::DELETE)),
        (Sender::Admin, op(PoolOpCode::CREATE_SNAP)),
        (Sender::Admin, op(PoolOpCode::DELETE_SNAP)),
        (Sender::Admin, op(PoolOpCode::CREATE_UNMANAGED_SNAP)),
        (Sender::Client, op(PoolOpCode::DELETE_UNMANAGED_SNAP)),
        (Sender::Admin, MAuth { payload: vec![0, 2, 0, 0, 0, 1, 0, 0, 0].into(), ..MAuth::default() }.into()),
        (Sender::Admin, MPing { pong: Pong(None) }.into()),
    ]
}

fn of_osds() -> Vec<(Sender, Message)> {
    let (osd, other, epoch) = (OsdId(1), OsdId(2), epoch());
    let pg = PgId::new(PoolId(1), 0);
    let from_osd = |message: Message| (Sender::Osd(1), message);
    let failure = MOSDFailure {
        reporter: osd,
        target: other,
        target_up_from: World::new().cluster.map().up_from(other),
        is_failed: true,
        failed_for_ms: 30_000,
        epoch,
        ..MOSDFailure::default()
    };
    let mut boot = boot_message(1, epoch);
    boot.metadata.insert("device_ids".to_owned(), "sda=d,sdb=e".to_owned());
    let counts = ImageCounts { writes: 1, reads: 2, write_bytes: 3, read_bytes: 4, write_ns: 5, read_ns: 6 };
    let image = ImageKey { pool: PoolId(1), nspace: String::new(), id: "1a".to_owned() };
    vec![
        from_osd(boot.into()),
        (Sender::Osd(9), boot_message(9, epoch).into()),
        from_osd(MOSDAlive { osd, want: epoch }.into()),
        from_osd(MOSDPGTemp { osd, acting: [(pg, vec![osd, other])].into() }.into()),
        from_osd(failure.into()),
        from_osd(MOSDFailure { is_immediate: true, ..failure }.into()),
        from_osd(MOSDMarkMeDown { osd, epoch, is_ack: false }.into()),
        from_osd(open().into()),
        from_osd(MOSDImageStats { osd, images: [(image, counts)].into() }.into()),
    ]
}

/// How a daemon begins that reports to the manager.
fn open() -> MMgrOpen {
    MMgrOpen {
        daemon_name: "x".to_owned(),
        service_name: "portal".to_owned(),
        service: Some((facts(), facts())),
        config: [("debug_ms".to_owned(), [(1, "5".to_owned())].into())].into(),
        ignored_config: facts(),
    }
}

fn of_daemons() -> Vec<(Sender, Message)> {
    let report = MMgrReport {
        daemon_name: "x".to_owned(),
        service_name: "portal".to_owned(),
        status: Some(facts()),
        ..MMgrReport::default()
    };
    vec![
        (Sender::ToManager, open().into()),
        (Sender::ToManager, report.into()),
        (
            Sender::ToManager,
            MMgrClose { daemon_name: "x".to_owned(), service_name: "portal".to_owned() }.into(),
        ),
    ]
}

/// A type that is encoded as so many numbers in an envelope.
fn of_numbers<T: Decode>(version: u8, numbers: &[u64]) -> T {
    let mut out = Vec::new();
    encode_envelope(&mut out, version, 1, |out| {
        numbers.iter().for_each(|n| n.encode(out, Features::PACIFIC))
    });
    T::from_bytes(out.into()).unwrap()
}

/// A report of an OSD on PGs of two pools and on itself, all of whose numbers are any.
fn report() -> impl Strategy<Value = (Sender, Message)> {
    let pgs = vec((vec(number(), 20), number(), 0u32..9), 0..4);
    (0i32..3, vec(number(), 24), pgs).prop_map(|(osd, numbers, pgs)| {
        let [a, b, c, d] = [numbers[0], numbers[1], numbers[2], numbers[3]];
        let stamp = |n: u64| UTime::new(n as u32, (n >> 32) as u32);
        let pg = |(sums, state, place): &(Vec<u64>, u64, u32)| PgStat {
            pgid: PgId::new(PoolId(1 + i64::from(place % 2)), *place),
            state: PgState(*state),
            version: EVersion::new(Epoch(*state as u32), sums[0]),
            reported_epoch: Epoch(sums[1] as u32),
            reported_seq: sums[2],
            up: vec![OsdId(osd), OsdId(a as i32)],
            acting: vec![OsdId(osd), OsdId(b as i32)],
            up_primary: OsdId(osd),
            acting_primary: OsdId(if a < 20 { osd } else { b as i32 }),
            log_start: EVersion::new(Epoch(sums[3] as u32), sums[4]),
            log_size: sums[5],
            created: Epoch(sums[6] as u32),
            last_epoch_clean: Epoch(sums[7] as u32),
            mapping_epoch: Epoch(sums[8] as u32),
            last_fresh: stamp(sums[9]),
            last_change: stamp(sums[10]),
            last_active: stamp(sums[11]),
            last_clean: stamp(sums[12]),
            snaptrimq_len: sums[13],
            sum: of_numbers::<PgStatSum>(3, sums),
            blocked_by: vec![OsdId(c as i32)],
            lacking: vec![OsdId(d as i32)],
            ..PgStat::default()
        };
        let stat = OsdStat {
            kb: numbers[4],
            kb_used: numbers[5],
            kb_used_data: numbers[6],
            kb_used_omap: numbers[7],
            kb_used_meta: numbers[8],
            kb_avail: numbers[9],
            commit_latency_ns: numbers[10],
            apply_latency_ns: numbers[11],
            pg_count: numbers[12] as u32,
            primary_pg_count: numbers[13] as u32,
            heartbeat_peers: vec![OsdId(a as i32)],
            copies_repaired: numbers[14],
        };
        let ping = |n: u64| PeerPing {
            osd: OsdId(n as i32),
            mean_1min_us: a as u32,
            mean_5min_us: b as u32,
            mean_15min_us: c as u32,
        };
        let perf =
            ["op", "op_latency", "subop", "x"].map(|name| (name.to_owned(), PerfValue { sum: a, count: b }));
        let (allocated, data_stored, omap_allocated) = (numbers[16], numbers[17], numbers[18]);
        let statfs = PoolStatfs { allocated, data_stored, omap_allocated };
        let message = MPGStats {
            osd: OsdId(osd),
            epoch: Epoch(a as u32),
            stat,
            pgs: pgs.iter().map(pg).collect(),
            pool_stat: [1, 2, numbers[15] as i64].map(|pool| (PoolId(pool), statfs)).to_vec(),
            slow_ops: numbers[19] as u32,
            oldest_slow_op_sec: numbers[20] as u32,
            perf: perf.into(),
            seq: numbers[21],
            pings: vec![ping(1), ping(2), ping(numbers[22])],
        };
        (Sender::Osd(osd), message.into())
    })
}

/// A message with some damage, if it can still be read.
fn damaged() -> impl Strategy<Value = Step> {
    let sample = prop_oneof![3 => select(samples()), 2 => report()];
    (sample, prop_oneof![1 => Just(Vec::new()), 2 => vec(damage(), 1..5)]).prop_map(
        |((sender, message), damages)| {
            let mut raw = message.encode(1);
            let mut front = raw.front.to_vec();
            damages.iter().for_each(|damage| damage.apply(&mut front));
            raw.front = front.into();
            match Message::decode(raw) {
                Ok(message) => Step::Say(sender, message),
                Err(_) => Step::Pass(1),
            }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![10 => damaged(), 2 => other_step(), 3 => look()]
}

proptest! {
    #![proptest_config(::damage::cases(60))]

    #[test]
    fn messages_leave_a_sound_cluster(steps in vec(step(), 1..24)) {
        let mut world = World::new();
        world.cluster.connect(Cluster::osd_conn(9), "osd.9");
        steps.iter().for_each(|step| world.step(step));
        let _ = world.cluster.mon.metrics();
        world.end();
    }
}
