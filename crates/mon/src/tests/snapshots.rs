//! Snapshots that come and go.

use codec::Decode;
use messages::PoolOpCode;
use types::PoolId;

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
        [ever.interval_count(), cluster.map().removed_snaps_queue[&id].interval_count()]
    };
    assert_eq!(counts(&cluster), [1, 1]);
    assert!(!cluster.mon.committed.removed_snaps[&id].contains(kept));
    remove(&mut cluster, kept);
    assert_eq!(counts(&cluster), [1, 1]);
    assert!(make(&mut cluster) > 2_000, "no number is given twice");
}
