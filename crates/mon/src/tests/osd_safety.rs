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
        let both = format!(r#"{{"prefix":"osd ok-to-stop","ids":["{}","{}"]}}"#, acting[1], acting[2]);
        assert_eq!(cluster.command(&both).result, -16, "of three copies two have to stay");
        [0, 1, 2].map(|at| cluster.command(&stop(acting[at])).result)
    };
    assert_eq!(report(PgState::RECOVERING, &[acting[2]]), [-16, -16, 0]);
    assert_eq!(report(PgState::RECOVERING, &acting[1..]), [-16, 0, 0], "two lack what they are given");
    assert_eq!(
        report(PgState::RECOVERING, &acting),
        [-16, -16, -16],
        "any may have the last copy of something"
    );
    assert_eq!(report(PgState::RECOVERING, &[]), [-16, -16, -16], "of an older OSD, which does not say who");
    assert_eq!(report(PgState::UNDERSIZED, &[]), [0, 0, 0]);
}

#[test]
fn nothing_is_said_of_osds_while_pgs_are_unknown() {
    let mut cluster = Cluster::with_rbd();
    let none = (-22, "must specify one or more OSDs".to_owned());
    for command in ["ok-to-stop", "safe-to-destroy"] {
        assert_eq!(cluster.refused(&format!(r#"{{"prefix":"osd {command}","ids":[]}}"#)), none);
    }
    cluster.restart();
    let why = "8 pgs have unknown state; cannot draw any conclusions";
    for command in [
        r#"{"prefix":"osd safe-to-destroy","ids":["0"]}"#,
        r#"{"prefix":"osd safe-to-destroy","ids":["0"],"format":"json"}"#,
        r#"{"prefix":"osd ok-to-stop","ids":["0"]}"#,
    ] {
        assert_eq!(cluster.refused(command), (-11, why.to_owned()), "{command}");
    }
    let output = cluster.command(r#"{"prefix":"osd ok-to-stop","ids":["0"]}"#).output;
    let report: serde_json::Value = serde_json::from_slice(&output).unwrap();
    assert_eq!((&report["ok_to_stop"], &report["num_not_ok_pgs"]), (&json!(false), &json!(0)));
    assert_eq!(report["unknown_pgs"].as_array().map(Vec::len), Some(8));
    for command in [r#"{"prefix":"osd destroy","id":0}"#, r#"{"prefix":"osd purge","id":0}"#] {
        let (result, status) = cluster.refused(command);
        assert!(result == -11 && status.starts_with(why), "{command}: {result} {status}");
    }
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

/// A PG's members that are down are named until its primary reports it again.
#[test]
fn members_that_are_down_do_not_keep_a_pg_active() {
    let mut cluster = Cluster::with_rbd();
    let acting = cluster.map().pg_to_up_acting(PgId::new(PoolId(1), 0)).acting;
    cluster.mon.stats.pgs_mut().for_each(|stat| stat.acting_primary = acting[0]);
    let stop = |osd: OsdId| format!(r#"{{"prefix":"osd ok-to-stop","ids":["{osd}"]}}"#);
    cluster.ok(&format!(r#"{{"prefix":"osd down","ids":["{}"]}}"#, acting[1]));
    let results = [0, 1, 2].map(|at| cluster.command(&stop(acting[at])).result);
    assert_eq!(results, [-16, 0, -16], "one that is down already ends nothing");
}

#[test]
fn nothing_is_said_of_osds_while_the_primary_that_reported_a_pg_is_down() {
    let mut cluster = Cluster::with_rbd();
    let acting = cluster.map().pg_to_up_acting(PgId::new(PoolId(1), 0)).acting;
    cluster.ok(&format!(r#"{{"prefix":"osd down","ids":["{}"]}}"#, acting[0]));
    let (errno, why) = cluster.refused(&format!(r#"{{"prefix":"osd ok-to-stop","ids":["{}"]}}"#, acting[2]));
    assert!(errno == -11 && why.ends_with("pgs have unknown state; cannot draw any conclusions"), "{why}");
}
