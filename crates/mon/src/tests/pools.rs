use std::time::Duration;

use codec::Decode;
use messages::{MPoolOp, MPoolOpReply, MStatfs, Message, PoolOpCode};
use types::{OsdId, OsdState, PoolFlags, PoolId, SnapId};

use super::cluster::{ADMIN, Cluster, FSID};

pub(super) fn pool_op(cluster: &mut Cluster, op: PoolOpCode, snapid: u64, name: &str) -> MPoolOpReply {
    let message = MPoolOp {
        fsid: FSID,
        pool: 1,
        op,
        snapid: SnapId(snapid),
        name: name.to_owned(),
        ..MPoolOp::default()
    };
    let tid = cluster.say(ADMIN, message);
    let found = cluster.sent.iter().find_map(|(_, t, m)| match m {
        Message::MPoolOpReply(reply) if *t == tid => Some(MPoolOpReply::clone(reply)),
        _ => None,
    });
    found.expect("pool operations are answered")
}

#[test]
fn a_new_pool_is_created_on_its_primaries_and_the_cluster_gets_healthy() {
    let mut cluster = Cluster::new();
    (0..3).for_each(|id| cluster.boot_osd(id));
    assert_eq!(cluster.text(r#"{"prefix":"health"}"#), "HEALTH_OK\n");
    cluster.ok(r#"{"prefix":"osd pool create","pool":"rbd","pg_num":8}"#);
    let told: usize = cluster
        .sent
        .iter()
        .filter_map(|(_, _, m)| if let Message::MOSDPGCreate(m) = m { Some(m.pgs.len()) } else { None })
        .sum();
    assert!(told >= 8, "{told} PGs");
    assert!(cluster.text(r#"{"prefix":"health"}"#).contains("8 pgs inactive"));
    cluster.report_all();
    cluster.pass(Duration::from_secs(3));
    let health = cluster.text(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health.contains("POOL_APP_NOT_ENABLED"), "{health}");
    cluster.ok(r#"{"prefix":"osd pool application enable","pool":"rbd","app":"rbd"}"#);
    assert_eq!(cluster.text(r#"{"prefix":"health"}"#), "HEALTH_OK\n");
    assert!(cluster.mon.committed.creating.is_empty());
}

#[test]
fn self_managed_snapshots_count_from_two_and_are_purged_when_trimmed() {
    let mut cluster = Cluster::with_rbd();
    let first = pool_op(&mut cluster, PoolOpCode::CREATE_UNMANAGED_SNAP, 0, "");
    assert_eq!(u64::from_bytes(first.response.unwrap()).unwrap(), 2);
    assert_eq!(first.epoch, cluster.map().epoch);
    let second = pool_op(&mut cluster, PoolOpCode::CREATE_UNMANAGED_SNAP, 0, "");
    assert_eq!(u64::from_bytes(second.response.unwrap()).unwrap(), 3);
    assert_eq!(pool_op(&mut cluster, PoolOpCode::CREATE_SNAP, 0, "s").reply_code, -22);
    assert_eq!(pool_op(&mut cluster, PoolOpCode::DELETE_UNMANAGED_SNAP, 2, "").reply_code, 0);
    let queue = &cluster.map().removed_snaps_queue[&PoolId(1)];
    assert!(queue.contains(2) && !queue.contains(3));
    let epoch = cluster.map().epoch;
    assert_eq!(pool_op(&mut cluster, PoolOpCode::DELETE_UNMANAGED_SNAP, 2, "").reply_code, 0);
    assert_eq!(cluster.map().epoch, epoch, "it is gone already");
    cluster.pass(Duration::from_secs(2));
    assert!(!cluster.map().removed_snaps_queue.is_empty(), "nobody has trimmed it");
    cluster.report_all();
    cluster.pass(Duration::from_secs(2));
    assert!(cluster.map().removed_snaps_queue.is_empty());
}

#[test]
fn pool_snapshots_have_names() {
    let mut cluster = Cluster::with_rbd();
    assert_eq!(pool_op(&mut cluster, PoolOpCode::CREATE_SNAP, 0, "s1").reply_code, 0);
    assert_eq!(cluster.map().pools[&PoolId(1)].snap_by_name("s1"), Some(SnapId(1)));
    assert!(cluster.map().pools[&PoolId(1)].flags.has(PoolFlags::POOL_SNAPS));
    assert_eq!(pool_op(&mut cluster, PoolOpCode::CREATE_UNMANAGED_SNAP, 0, "").reply_code, -22);
    assert_eq!(pool_op(&mut cluster, PoolOpCode::DELETE_SNAP, 0, "s1").reply_code, 0);
    assert_eq!(cluster.map().pools[&PoolId(1)].snap_by_name("s1"), None);
}

#[test]
fn pools_are_deleted_only_when_named_twice() {
    let mut cluster = Cluster::with_rbd();
    assert_eq!(cluster.refused(r#"{"prefix":"osd pool rm","pool":"rbd"}"#).0, -1);
    let rm = r#"{"prefix":"osd pool rm","pool":"rbd","pool2":"rbd","yes_i_really_really_mean_it":true}"#;
    assert_eq!(cluster.ok(rm), "pool 'rbd' removed");
    assert!(cluster.map().pools.is_empty());
    assert_eq!(cluster.ok(rm), "pool 'rbd' does not exist");
    cluster.ok(r#"{"prefix":"osd pool create","pool":"rbd"}"#);
    assert_eq!(cluster.map().pool_by_name("rbd").unwrap().0, PoolId(2), "ids are never given again");
}

#[test]
fn quotas_fill_the_pool() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd pool set-quota","pool":"rbd","field":"max_bytes","val":"4K"}"#);
    cluster.pass(Duration::from_secs(2));
    let flags = cluster.map().pools[&PoolId(1)].flags;
    assert!(flags.has(PoolFlags::FULL | PoolFlags::FULL_QUOTA));
    assert!(cluster.text(r#"{"prefix":"health"}"#).contains("1 pool(s) full"));
    cluster.ok(r#"{"prefix":"osd pool set-quota","pool":"rbd","field":"max_bytes","val":"0"}"#);
    cluster.pass(Duration::from_secs(2));
    assert!(!cluster.map().pools[&PoolId(1)].flags.has(PoolFlags::FULL));
}

#[test]
fn a_full_osd_fills_its_pools() {
    let mut cluster = Cluster::with_rbd();
    for (command, ratio, flag) in [
        ("osd set-nearfull-ratio", "0.04", PoolFlags::NEARFULL),
        ("osd set-backfillfull-ratio", "0.04", PoolFlags::BACKFILLFULL),
        ("osd set-full-ratio", "0.04", PoolFlags::FULL),
    ] {
        cluster.ok(&format!(r#"{{"prefix":"{command}","ratio":{ratio}}}"#));
        cluster.pass(Duration::from_secs(2));
        let all = [PoolFlags::NEARFULL, PoolFlags::BACKFILLFULL, PoolFlags::FULL];
        let set = all.map(|one| cluster.map().pools[&PoolId(1)].flags.has(one));
        assert_eq!(set, all.map(|one| one == flag), "{command}");
    }
    assert!(cluster.map().state(OsdId(0)).has(OsdState::FULL));
    for command in ["osd set-full-ratio", "osd set-backfillfull-ratio", "osd set-nearfull-ratio"] {
        cluster.ok(&format!(r#"{{"prefix":"{command}","ratio":0.9}}"#));
    }
    cluster.pass(Duration::from_secs(2));
    assert!(!cluster.map().is_full(PoolId(1)) && !cluster.map().state(OsdId(0)).has(OsdState::FULL));
}

#[test]
fn statfs_sums_the_devices() {
    let mut cluster = Cluster::with_rbd();
    let tid = cluster.say(ADMIN, MStatfs { fsid: FSID, ..MStatfs::default() });
    let reply = cluster.sent.iter().find_map(|(_, t, m)| match m {
        Message::MStatfsReply(reply) if *t == tid => Some(**reply),
        _ => None,
    });
    let reply = reply.unwrap();
    assert_eq!((reply.kb, reply.kb_used, reply.num_objects), (60 << 20, 3 << 20, 8));
}
