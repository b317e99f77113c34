//! Weights of OSDs, as operators and the load give them, and what being out does to them.

use std::time::Duration;

use messages::MPGStats;
use types::{OsdId, OsdStat, WEIGHT_IN};

use super::cluster::{ADMIN, Cluster};

#[test]
fn the_weight_from_before_an_osd_went_out_is_used_once() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd reweight","id":"2","weight":"0.5"}"#);
    cluster.ok(r#"{"prefix":"osd down","ids":["2"]}"#);
    cluster.ok(r#"{"prefix":"osd set","key":"nodown"}"#);
    cluster.pass(Duration::from_secs(610));
    let weights =
        |cluster: &Cluster| (cluster.map().weight(OsdId(2)), cluster.map().xinfo(OsdId(2)).old_weight);
    assert_eq!(weights(&cluster), (0, 0x8000));
    cluster.boot_osd(2);
    assert_eq!(weights(&cluster), (0x8000, 0));
}

#[test]
fn a_weight_is_a_number() {
    let mut cluster = Cluster::with_rbd();
    let before = cluster.map().epoch;
    for weight in ["nan", "NaN", "-nan", "inf", "1e999"] {
        for command in ["osd reweight", "osd primary-affinity"] {
            let command = format!(r#"{{"prefix":"{command}","id":"2","weight":"{weight}"}}"#);
            assert_eq!(cluster.refused(&command).0, -22, "{command}");
        }
    }
    assert_eq!(cluster.map().epoch, before);
}

#[test]
fn an_osd_that_is_about_to_be_out_gets_no_weight_by_its_load() {
    let mut cluster = Cluster::with_rbd();
    for (id, kb_used) in [(0, 1 << 10), (1, 1 << 19), (2, 1 << 10)] {
        let stat = OsdStat { kb: 1 << 20, kb_used, ..OsdStat::default() };
        let epoch = cluster.map().epoch;
        cluster.say(Cluster::osd_conn(id), MPGStats { osd: OsdId(id), epoch, stat, ..MPGStats::default() });
    }
    let by_load = r#"{"prefix":"osd reweight-by-utilization"}"#;
    cluster.ok(by_load);
    assert!((1..WEIGHT_IN).contains(&cluster.map().weight(OsdId(1))));
    cluster.is_committing = false;
    for command in [r#"{"prefix":"osd out","ids":["1"]}"#, by_load] {
        assert!(cluster.try_command(ADMIN, command, b"").is_none(), "it is not committed");
    }
    cluster.commit();
    assert_eq!(cluster.map().weight(OsdId(1)), 0);
}
