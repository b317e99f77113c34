//! Snapshots that come and go.

use std::time::Duration;

use codec::Decode;
use messages::PoolOpCode;
use types::{IntervalSet, PgPool, PoolId};

use super::{cluster::Cluster, pools::pool_op};

fn make(cluster: &mut Cluster) -> u64 {
    let made = pool_op(cluster, PoolOpCode::CREATE_UNMANAGED_SNAP, 0, "");
    u64::from_bytes(made.response.unwrap()).unwrap()
}

fn remove(cluster: &mut Cluster, snap: u64) {
    assert_eq!(pool_op(cluster, PoolOpCode::DELETE_UNMANAGED_SNAP, snap, "").reply_code, 0);
}

#[test]
fn snapshots_that_come_and_go_leave_one_interval() {
    let mut cluster = Cluster::with_rbd();
    let kept = make(&mut cluster);
    for _ in 0..1_000 {
        let snap = make(&mut cluster);
        remove(&mut cluster, snap);
    }
    let id = PoolId(1);
    let counts = |cluster: &Cluster| {
        let ever = &cluster.mon.committed.removed_snaps[&id];
        [ever.iter().count(), cluster.map().removed_snaps_queue[&id].iter().count()]
    };
    assert_eq!(counts(&cluster), [1, 1]);
    assert!(!cluster.mon.committed.removed_snaps[&id].contains(kept));
    remove(&mut cluster, kept);
    assert_eq!(counts(&cluster), [1, 1]);
    assert!(make(&mut cluster) > 2_000, "no number is given twice");
}

#[test]
fn snapshots_are_purged_that_all_pgs_have_trimmed_while_more_are_removed() {
    let mut cluster = Cluster::with_rbd();
    let queue = |cluster: &Cluster| cluster.map().removed_snaps_queue[&PoolId(1)].clone();
    let mut last = make(&mut cluster);
    remove(&mut cluster, last);
    for _ in 0..5 {
        cluster.report_all();
        // Before the monitor looks at the reports there is something to trim again.
        let next = make(&mut cluster);
        remove(&mut cluster, next);
        cluster.pass(Duration::from_secs(1));
        assert!(!queue(&cluster).contains(last) && queue(&cluster).contains(next));
        last = next;
    }
    cluster.report_all();
    let slow = cluster.mon.stats.pgs_mut().next().unwrap();
    slow.purged_snaps = IntervalSet::new();
    cluster.pass(Duration::from_secs(2));
    assert!(queue(&cluster).contains(last), "one PG has not trimmed it");
    cluster.report_all();
    cluster.pass(Duration::from_secs(1));
    assert!(cluster.map().removed_snaps_queue.is_empty());
}

#[test]
fn what_was_trimmed_before_a_merge_is_reported_again() {
    let mut cluster = Cluster::with_rbd();
    let snap = make(&mut cluster);
    remove(&mut cluster, snap);
    cluster.report_all();
    let merged = cluster.map().epoch.next();
    cluster.mon.change_osdmap(cluster.wall(), |map, inc| {
        let pool = PgPool { last_force_op_resend: merged, ..map.pools[&PoolId(1)].clone() };
        inc.new_pools.insert(PoolId(1), pool);
    });
    cluster.pass(Duration::from_secs(2));
    assert!(!cluster.map().removed_snaps_queue.is_empty());
    cluster.report_all();
    cluster.pass(Duration::from_secs(1));
    assert!(cluster.map().removed_snaps_queue.is_empty());
}
