//! Which OSDs may be stopped.

use std::time::Duration;

use messages::MPGStats;
use serde_json::json;
use types::{OsdId, PgId, PgStat, PgState, PoolId};

use super::cluster::Cluster;

/// Stopping the only OSD that has everything makes the PG unavailable.
#[test]
fn an_osd_is_needed_by_pgs_whose_other_members_lack_objects() {
    let mut cluster = Cluster::with_rbd();
    let acting = cluster.map().pg_to_up_acting(PgId::new(PoolId(1), 0)).acting;
    let stop = |osd: OsdId| format!(r#"{{"prefix":"osd ok-to-stop","ids":["{osd}"]}}"#);
    assert_eq!(cluster.command(&stop(acting[1])).result, 0);
    let mut report = |state: PgState, lacking: &[OsdId]| {
        let epoch = cluster.map().epoch;
        let pg = PgStat {
            pgid: PgId::new(PoolId(1), 0),
            state: PgState::ACTIVE.with(PgState::DEGRADED).with(state),
            reported_epoch: epoch,
            reported_seq: cluster.now.0,
            up: acting.clone(),
            acting: acting.clone(),
            up_primary: acting[0],
            acting_primary: acting[0],
            lacking: lacking.to_vec(),
            ..PgStat::default()
        };
        let osd = acting[0];
        cluster.now = cluster.now + Duration::from_secs(1);
        cluster.say(Cluster::osd_conn(osd.0), MPGStats { osd, epoch, pgs: vec![pg], ..MPGStats::default() });
        [0, 1, 2].map(|at| cluster.command(&stop(acting[at])).result)
    };
    assert_eq!(report(PgState::RECOVERING, &[acting[2]]), [-16, -16, 0]);
    assert_eq!(report(PgState::RECOVERING, &[]), [-16, -16, -16], "of an older OSD, which does not say who");
    assert_eq!(report(PgState::UNDERSIZED, &[]), [0, 0, 0]);
}

/// Orchestrators ask for as many as may be stopped together.
#[test]
fn more_osds_are_named_that_may_be_stopped_at_the_same_time() {
    let mut cluster = Cluster::with_rbd();
    let osds = |cluster: &mut Cluster, max: i64| {
        let out = cluster.json(&format!(r#"{{"prefix":"osd ok-to-stop","ids":["1"],"max":{max}}}"#));
        (out["ok_to_stop"].clone(), out["osds"].clone())
    };
    assert_eq!(osds(&mut cluster, 1), (json!(true), json!([1])));
    assert_eq!(osds(&mut cluster, 3), (json!(true), json!([1])), "of three copies two have to stay");
    cluster.ok(r#"{"prefix":"osd pool set","pool":"rbd","var":"min_size","val":"1"}"#);
    assert_eq!(osds(&mut cluster, 3), (json!(true), json!([0, 1])));
    assert_eq!(osds(&mut cluster, -1), (json!(true), json!([1])));
}
