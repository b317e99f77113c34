//! What is wrong, in Ceph's words.

use std::time::Duration;

use serde_json::Value;
use types::{OsdId, PgState};

use super::cluster::Cluster;
use crate::DataSpace;

fn detail(cluster: &mut Cluster) -> String {
    cluster.text(r#"{"prefix":"health","detail":"detail"}"#)
}

fn set(who: &str, name: &str, value: &str) -> String {
    format!(r#"{{"prefix":"config set","who":"{who}","name":"{name}","value":"{value}"}}"#)
}

fn set_pool(var: &str, val: &str) -> String {
    format!(r#"{{"prefix":"osd pool set","pool":"rbd","var":"{var}","val":"{val}"}}"#)
}

/// Asserts that all these lines are there.
fn check(cluster: &mut Cluster, lines: &[&str]) {
    let text = detail(cluster);
    for line in lines {
        assert!(text.lines().any(|have| have == *line), "{line} is missing from {text}");
    }
}

#[test]
fn buckets_of_any_type_are_down_with_their_osds() {
    let mut cluster = Cluster::with_rbd();
    for id in 0..3 {
        let args = format!(r#"["root=default","rack=r{}","host=h{id}"]"#, id / 2);
        cluster.ok(&format!(r#"{{"prefix":"osd crush set","id":{id},"weight":1.0,"args":{args}}}"#));
    }
    cluster.ok(r#"{"prefix":"osd set","key":"noup"}"#);
    cluster.ok(r#"{"prefix":"osd down","ids":["0","1"]}"#);
    check(
        &mut cluster,
        &[
            "[WRN] OSD_DOWN: 2 osds down",
            "[WRN] OSD_HOST_DOWN: 2 hosts (2 osds) down",
            "    host h0 (root=default,rack=r0) (1 osds) is down",
            "[WRN] OSD_RACK_DOWN: 1 rack (2 osds) down",
            "    rack r0 (root=default) (2 osds) is down",
        ],
    );
    assert!(!detail(&mut cluster).contains("OSD_ROOT_DOWN"));
    cluster.ok(r#"{"prefix":"osd down","ids":["2"]}"#);
    check(&mut cluster, &["[WRN] OSD_ROOT_DOWN: 1 root (3 osds) down", "    root default (3 osds) is down"]);
    cluster.ok(r#"{"prefix":"osd rm","ids":["0"]}"#);
    check(
        &mut cluster,
        &[
            "[WRN] OSD_ORPHAN: 1 osds exist in the crush map but not in the osdmap",
            "    osd.0 exists in crush map but not in osdmap",
        ],
    );
}

#[test]
fn numbers_of_pgs_are_told_that_are_odd_or_too_large() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(&set_pool("pg_num", "12"));
    check(
        &mut cluster,
        &[
            "[WRN] POOL_PG_NUM_NOT_POWER_OF_TWO: 1 pool(s) have non-power-of-two pg_num",
            "    pool 'rbd' pg_num 12 is not a power of two",
        ],
    );
    cluster.ok(&set("mon", "mon_warn_on_pool_pg_num_not_power_of_two", "false"));
    assert_eq!(detail(&mut cluster), "HEALTH_OK\n");
    cluster.ok(&set_pool("pgp_num", "8"));
    check(
        &mut cluster,
        &["[WRN] SMALLER_PGP_NUM: 1 pools have pg_num > pgp_num", "    pool rbd pg_num 12 > pgp_num 8"],
    );
    cluster.ok(&set("mon", "mon_max_pg_per_osd", "7"));
    check(&mut cluster, &["[WRN] TOO_MANY_PGS: too many PGs per OSD (8 > max 7)"]);
    cluster.ok(&set("mon", "mon_osd_down_out_interval", "0"));
    check(
        &mut cluster,
        &[
            "[WRN] OSD_NO_DOWN_OUT_INTERVAL: mon a has mon_osd_down_out_interval set to 0",
            "    mon.a has mon_osd_down_out_interval set to 0",
        ],
    );
}

#[test]
fn pools_with_many_more_objects_a_pg_than_others_are_told() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd pool create","pool":"empty","pg_num":128}"#);
    cluster.ok(r#"{"prefix":"osd pool application enable","pool":"empty","app":"rbd"}"#);
    cluster.report_all();
    let rbd = |cluster: &mut Cluster, objects: u64| {
        for stat in cluster.mon.stats.pgs_mut() {
            stat.sum.objects = if stat.pgid.pool.0 == 1 { objects } else { 0 };
        }
    };
    rbd(&mut cluster, 1249);
    assert_eq!(detail(&mut cluster), "HEALTH_OK\n");
    rbd(&mut cluster, 1250);
    check(
        &mut cluster,
        &[
            "[WRN] MANY_OBJECTS_PER_PG: 1 pools have many more objects per pg than average",
            "    pool rbd objects per pg (1250) is more than 17.1233 times cluster average (73)",
        ],
    );
}

#[test]
fn what_is_expected_of_pools_is_compared_with_the_space() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(&set_pool("target_size_bytes", "40G"));
    check(
        &mut cluster,
        &[
            "[WRN] POOL_TARGET_SIZE_BYTES_OVERCOMMITTED: 1 subtrees have overcommitted pool target_size_bytes",
            "    Pools ['rbd'] overcommit available storage by 2.000x due to target_size_bytes  120G on pools ['rbd']",
        ],
    );
    cluster.ok(&set_pool("target_size_ratio", "1"));
    check(
        &mut cluster,
        &[
            "[WRN] POOL_HAS_TARGET_SIZE_BYTES_AND_RATIO: 1 pools have both target_size_bytes and target_size_ratio set",
            "    Pool rbd has target_size_bytes and target_size_ratio set",
        ],
    );
    assert!(!detail(&mut cluster).contains("OVERCOMMITTED"));
}

#[test]
fn pools_that_are_nearly_full_are_told() {
    let mut cluster = Cluster::with_rbd();
    for (command, lines) in [
        ("nearfull", ["[WRN] POOL_NEARFULL: 1 pool(s) nearfull", "    pool 'rbd' is nearfull"]),
        (
            "backfillfull",
            ["[WRN] POOL_BACKFILLFULL: 1 pool(s) backfillfull", "    pool 'rbd' is backfillfull"],
        ),
        ("full", ["[WRN] POOL_FULL: 1 pool(s) full", "    pool 'rbd' is full (no space)"]),
    ] {
        cluster.ok(&format!(r#"{{"prefix":"osd set-{command}-ratio","ratio":0.04}}"#));
        cluster.pass(Duration::from_secs(2));
        check(&mut cluster, &lines);
    }
}

#[test]
fn misplaced_objects_are_no_warning_unless_asked_for() {
    let mut cluster = Cluster::with_rbd();
    cluster.mon.stats.pgs_mut().for_each(|stat| stat.sum.misplaced = 1);
    assert_eq!(detail(&mut cluster), "HEALTH_OK\n");
    cluster.ok(&set("mon", "mon_warn_on_misplaced", "true"));
    check(&mut cluster, &["[WRN] OBJECT_MISPLACED: 8/24 objects misplaced (33.333%)"]);
}

#[test]
fn osds_that_are_out_do_not_count_as_space() {
    let mut cluster = Cluster::with_rbd();
    let total = |df: &Value| df["stats"]["total_bytes"].as_u64().unwrap() >> 30;
    assert_eq!(total(&cluster.json(r#"{"prefix":"df"}"#)), 60);
    cluster.ok(r#"{"prefix":"osd out","ids":["2"]}"#);
    cluster.report_all();
    assert!(cluster.mon.stats.osd(OsdId(2)).is_some());
    let df = cluster.json(r#"{"prefix":"df"}"#);
    assert_eq!(total(&df), 40);
    assert_eq!(
        ["num_osds", "num_per_pool_osds", "num_per_pool_omap_osds"].map(|of| df["stats"][of].clone()),
        [2; 3]
    );
    let sum =
        cluster.json(r#"{"prefix":"pg dump","dumpcontents":["sum"]}"#)["pg_map"]["osd_stats_sum"].clone();
    assert_eq!(sum["num_osds"], 2);
    assert_eq!(df["stats_by_class"]["ssd"]["total_bytes"], 40u64 << 30);
    assert_eq!(cluster.json(r#"{"prefix":"status"}"#)["pgmap"]["bytes_total"], 40u64 << 30);
    assert!(cluster.mon.metrics().contains(&format!("ceph_cluster_total_bytes {}.0", 40u64 << 30)));
}

#[test]
fn a_monitor_tells_that_its_file_system_fills_up() {
    let mut cluster = Cluster::with_rbd();
    assert_eq!(detail(&mut cluster), "HEALTH_OK\n");
    let space = |free: u64, used: u64| DataSpace { total: 1_000 << 30, free: free << 30, used: used << 30 };
    cluster.mon.set_data_space(space(310, 14));
    assert_eq!(detail(&mut cluster), "HEALTH_OK\n");
    cluster.mon.set_data_space(space(309, 15));
    check(
        &mut cluster,
        &[
            "HEALTH_WARN mon a is using a lot of disk space; mon a is low on available space",
            "[WRN] MON_DISK_BIG: mon a is using a lot of disk space",
            "    mon.a is 15 GiB >= mon_data_size_warn (15 GiB)",
            "[WRN] MON_DISK_LOW: mon a is low on available space",
            "    mon.a has 30% avail",
        ],
    );
    cluster.mon.set_data_space(space(50, 1));
    check(
        &mut cluster,
        &[
            "HEALTH_ERR mon a is very low on available space",
            "[ERR] MON_DISK_CRIT: mon a is very low on available space",
            "    mon.a has 5% avail",
        ],
    );
    cluster.ok(&set("mon", "mon_data_avail_crit", "1"));
    cluster.ok(&set("mon", "mon_data_avail_warn", "2"));
    assert_eq!(detail(&mut cluster), "HEALTH_OK\n");
}

/// What a mute is compared with is what Ceph counts, not lines of detail.
#[test]
fn a_mute_ends_when_more_objects_or_pgs_are_concerned() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(&set("mon", "mon_warn_on_misplaced", "true"));
    let worsen = |cluster: &mut Cluster, misplaced: u64, unfound: u64, state: PgState| {
        for stat in cluster.mon.stats.pgs_mut() {
            stat.sum.misplaced = misplaced;
            stat.sum.unfound = unfound;
            stat.state = PgState::ACTIVE.with(state);
        }
    };
    let degraded = PgState::DEGRADED;
    worsen(&mut cluster, 1, 0, degraded);
    cluster.mon.stats.pgs_mut().take(1).for_each(|stat| stat.sum.unfound = 1);
    let codes = ["OBJECT_MISPLACED", "OBJECT_UNFOUND", "PG_DEGRADED"];
    let count = |cluster: &mut Cluster, code: &str| {
        cluster.json(r#"{"prefix":"health"}"#)["checks"][code]["summary"]["count"].clone()
    };
    assert_eq!(codes.map(|code| count(&mut cluster, code)), [8, 1, 8]);
    for code in codes {
        cluster.ok(&format!(r#"{{"prefix":"health mute","code":"{code}"}}"#));
    }
    let mutes = |cluster: &mut Cluster| {
        cluster.pass(Duration::from_secs(2));
        cluster.json(r#"{"prefix":"health"}"#)["mutes"].as_array().unwrap().len()
    };
    assert_eq!(mutes(&mut cluster), 3);
    cluster.mon.stats.pgs_mut().take(1).for_each(|stat| stat.sum.unfound = 2);
    assert_eq!(mutes(&mut cluster), 2, "as many PGs with more objects that are unfound");
    worsen(&mut cluster, 2, 0, degraded);
    assert_eq!(mutes(&mut cluster), 1, "of more objects that are misplaced");
    worsen(&mut cluster, 1, 0, degraded.with(PgState::UNDERSIZED));
    assert_eq!(count(&mut cluster, "PG_DEGRADED"), 16, "each PG counts with each of its states");
    assert_eq!(mutes(&mut cluster), 0);
}

#[test]
fn details_name_fifty_pgs_and_what_may_help_incomplete_ones() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd pool create","pool":"wide","pg_num":64}"#);
    cluster.report_all();
    for stat in cluster.mon.stats.pgs_mut().filter(|stat| stat.pgid.pool.0 == 2) {
        stat.state = PgState::INCOMPLETE;
        stat.sum.unfound = 1;
    }
    let text = detail(&mut cluster);
    let hint = " (reducing pool wide min_size from 2 may help; search ceph.com/docs for 'incomplete')";
    assert_eq!(text.lines().filter(|line| line.ends_with(hint)).count(), 50, "{text}");
    assert_eq!(text.matches(" has 1 unfound objects").count(), 50, "{text}");
    check(
        &mut cluster,
        &[
            "[WRN] PG_AVAILABILITY: Reduced data availability: 64 pgs inactive, 64 pgs incomplete",
            "    (additional pgs left out for brevity)",
        ],
    );
    cluster.ok(&set_pool("min_size", "1").replace("rbd", "wide"));
    assert!(!detail(&mut cluster).contains("reducing pool"));
}
