//! What the PGs of a pool have done, while their primaries change.

use std::time::Duration;

use messages::{MGetPoolStats, MPGStats, MStatfs};
use serde_json::json;
use types::{OsdId, OsdStat, PgId, PgStat, PgStatSum, PgState, PoolId, PoolStatfs};

use super::cluster::{ADMIN, Cluster};

const POOL: PoolId = PoolId(1);

/// The OSD, which came up in epoch `up_from`, reports that it leads the PG and has read so many bytes.
pub(super) fn report(cluster: &mut Cluster, seed: u32, osd: i32, up_from: u64, read_bytes: u64) {
    let sum = PgStatSum { read_bytes, reads: read_bytes / 100, ..PgStatSum::default() };
    report_sum(cluster, seed, osd, up_from, sum);
}

/// Makes the OSD lead the PG.
fn lead(cluster: &mut Cluster, seed: u32, osd: i32) {
    let pgid = PgId::new(POOL, seed);
    if cluster.map().pg_to_up_acting(pgid).acting_primary != OsdId(osd) {
        cluster.ok(&format!(r#"{{"prefix":"osd primary-temp","pgid":"{pgid}","id":"osd.{osd}"}}"#));
    }
    assert_eq!(cluster.map().pg_to_up_acting(pgid).acting_primary, OsdId(osd));
}

fn report_sum(cluster: &mut Cluster, seed: u32, osd: i32, up_from: u64, sum: PgStatSum) {
    cluster.pass(Duration::from_secs(1));
    lead(cluster, seed, osd);
    let reported_seq = cluster.now.0;
    say(
        cluster,
        osd,
        up_from,
        PgStat { pgid: PgId::new(POOL, seed), reported_seq, sum, ..PgStat::default() },
    );
}

/// What the OSD says of a PG in the newest map.
fn say(cluster: &mut Cluster, osd: i32, up_from: u64, pg: PgStat) {
    let (osd, epoch) = (OsdId(osd), cluster.map().epoch);
    let pg = PgStat { state: PgState::ACTIVE, reported_epoch: epoch, acting_primary: osd, ..pg };
    let seq = up_from << 32;
    cluster.say(Cluster::osd_conn(osd.0), MPGStats { osd, epoch, pgs: vec![pg], seq, ..MPGStats::default() });
}

fn read_bytes(cluster: &mut Cluster) -> u64 {
    cluster.json(r#"{"prefix":"df","detail":"detail"}"#)["pools"][0]["stats"]["rd_bytes"].as_u64().unwrap()
}

fn rates(cluster: &mut Cluster) -> serde_json::Value {
    cluster.json(r#"{"prefix":"osd pool stats"}"#)[0]["client_io_rate"].clone()
}

#[test]
fn counters_of_a_pool_do_not_fall_when_primaries_change() {
    let mut cluster = Cluster::with_rbd();
    let gib = 1u64 << 30;
    report(&mut cluster, 0, 0, 1, 0);
    report(&mut cluster, 0, 0, 1, 70 * gib);
    // The sums are those of all primaries; each of them counts for itself.
    let mut seen = Vec::new();
    for (osd, up_from, bytes) in [(1, 1, 500), (1, 1, 800), (0, 1, 70 * gib), (0, 9, 200), (0, 9, 1_000)] {
        report(&mut cluster, 0, osd, up_from, bytes);
        seen.push(read_bytes(&mut cluster) - 70 * gib);
    }
    assert_eq!(seen, [0, 300, 300, 300, 1_100]);
    // The oldest sample is as old as the second report; that a primary came back is no activity.
    cluster.pass(Duration::from_secs(8));
    report(&mut cluster, 0, 1, 1, 900);
    report(&mut cluster, 0, 0, 9, 1_000);
    cluster.pass(Duration::from_secs(2));
    assert_eq!(rates(&mut cluster), json!({}));
    report(&mut cluster, 0, 0, 9, 8_000);
    cluster.pass(Duration::from_secs(1));
    assert_eq!(
        rates(&mut cluster),
        json!({"read_bytes_sec": 1_000, "read_op_per_sec": 10, "write_op_per_sec": 0})
    );
    let shown = cluster.text(r#"{"prefix":"osd status"}"#);
    let of = |id: &str| shown.lines().find(|line| line.trim_start().starts_with(id)).unwrap().to_owned();
    assert!(of("0  ").contains(" 1000 ") && !of("1  ").contains(" 1000 "), "{shown}");
}

#[test]
fn a_report_of_a_map_that_does_not_exist_yet_hides_no_later_report() {
    let mut cluster = Cluster::with_rbd();
    lead(&mut cluster, 0, 0);
    let epoch = cluster.map().epoch;
    let pgid = PgId::new(POOL, 0);
    let forged = PgStat { pgid, reported_epoch: epoch.next(), ..PgStat::default() };
    let osd = OsdId(0);
    let message = MPGStats { osd, epoch: epoch.next(), pgs: vec![forged], ..MPGStats::default() };
    cluster.say(Cluster::osd_conn(0), message);
    report(&mut cluster, 0, 0, 1, 500);
    let shown = cluster.mon.stats.pg(pgid).unwrap();
    assert_eq!((shown.reported_epoch, shown.acting_primary), (epoch, OsdId(0)));
}

#[test]
fn a_pg_is_as_its_primary_says_whatever_others_say_of_it() {
    let mut cluster = Cluster::with_rbd();
    // It knows of no report.
    cluster.restart();
    (0..3).for_each(|id| cluster.connect(Cluster::osd_conn(id), &format!("osd.{id}")));
    let pgid = PgId::new(POOL, 0);
    let shown = |cluster: &Cluster| cluster.mon.stats.pg(pgid).map(|stat| stat.acting_primary.0);
    let last = || PgStat { pgid, reported_seq: u64::MAX, ..PgStat::default() };
    lead(&mut cluster, 0, 0);
    say(&mut cluster, 1, 1, last());
    assert_eq!(shown(&cluster), None);
    report(&mut cluster, 0, 0, 1, 0);
    say(&mut cluster, 1, 1, last());
    assert_eq!(shown(&cluster), Some(0));
    // It leads no more, and goes on until it hears of that.
    lead(&mut cluster, 0, 1);
    say(&mut cluster, 0, 1, last());
    report(&mut cluster, 0, 1, 1, 0);
    assert_eq!(shown(&cluster), Some(1));
    say(&mut cluster, 0, 1, last());
    assert_eq!(shown(&cluster), Some(1));
}

#[test]
fn a_monitor_that_has_just_begun_takes_old_totals_for_no_activity() {
    let mut cluster = Cluster::with_rbd();
    cluster.restart();
    (0..3).for_each(|id| cluster.connect(Cluster::osd_conn(id), &format!("osd.{id}")));
    for seed in 0..4 {
        report(&mut cluster, seed, 0, 1, 1 << 40);
    }
    cluster.pass(Duration::from_secs(1));
    assert_eq!((read_bytes(&mut cluster), rates(&mut cluster)), (4 << 40, json!({})));
}

#[test]
fn pgs_that_no_osd_has_reported_are_unknown_and_not_inactive() {
    let mut cluster = Cluster::with_rbd();
    cluster.restart();
    (0..3).for_each(|id| cluster.connect(Cluster::osd_conn(id), &format!("osd.{id}")));
    let ratios = |cluster: &mut Cluster| {
        let shown = cluster.json(r#"{"prefix":"status"}"#)["pgmap"].clone();
        ["unknown_pgs_ratio", "inactive_pgs_ratio"]
            .map(|name| shown.get(name).and_then(|ratio| ratio.as_f64()))
    };
    assert_eq!(ratios(&mut cluster), [Some(1.0), None]);
    report(&mut cluster, 0, 0, 1, 0);
    assert_eq!(ratios(&mut cluster), [Some(0.875), None]);
    cluster.ok(r#"{"prefix":"osd pool create","pool":"new","pg_num":8}"#);
    assert_eq!(ratios(&mut cluster), [Some(0.4375), Some(0.5)], "those of a new pool are being made");
    let text = cluster.text(r#"{"prefix":"status"}"#);
    assert!(text.contains("pgs:     43.750% pgs unknown\n             50.000% pgs not active\n"), "{text}");
    cluster.report_all();
    assert_eq!(ratios(&mut cluster), [None, None]);
}

#[test]
fn pgs_are_listed_by_state_pool_and_acting_osd() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd pool create","pool":"new","pg_num":4}"#);
    cluster.report_all();
    cluster.pass(Duration::from_secs(3));
    for moved in cluster.mon.stats.pgs_mut().take(1) {
        moved.state = PgState::ACTIVE.with(PgState::LAGGY);
        moved.acting.retain(|osd| *osd != OsdId(2));
    }
    let count = |cluster: &mut Cluster, command: &str| {
        cluster.json(&format!(r#"{{"prefix":"pg {command}}}"#))["pg_stats"].as_array().unwrap().len()
    };
    for (command, pgs) in [
        (r#"ls""#, 12),
        (r#"ls","states":["all"]"#, 12),
        (r#"ls","states":["nonsense","all","clean"]"#, 12),
        (r#"ls","states":["laggy","wait","failed_repair","unknown"]"#, 1),
        (r#"ls","pool":1,"states":["clean"]"#, 7),
        (r#"ls-by-pool","poolstr":"new","states":["all"]"#, 4),
        (r#"ls-by-osd","osd":"osd.1""#, 12),
        (r#"ls-by-osd","osd":"osd.1","pool":2"#, 4),
        (r#"ls-by-osd","osd":"osd.2","pool":1"#, 7),
    ] {
        assert_eq!(count(&mut cluster, command), pgs, "{command}");
    }
    let led: usize =
        (0..3).map(|osd| count(&mut cluster, &format!(r#"ls-by-primary","osd":"{osd}","pool":2"#))).sum();
    assert_eq!(led, 4);
    for (command, errno) in [
        (r#"ls-by-osd","osd":"osd.1","pool":9"#, -2),
        (r#"ls-by-primary","osd":"osd.1","pool":9"#, -2),
        (r#"ls-by-osd","osd":"osd.9""#, -11),
        (r#"ls","states":["all","nonsense"]"#, -22),
    ] {
        assert_eq!(cluster.refused(&format!(r#"{{"prefix":"pg {command}}}"#)).0, errno, "{command}");
    }
    cluster.restart();
    assert_eq!(count(&mut cluster, r#"ls","states":["unknown"]"#), 12);
}

/// What an operator sees of recovery, in each place that tells of it.
#[test]
fn recovery_is_told_in_numbers_and_in_words() {
    let mut cluster = Cluster::with_rbd();
    for objects_recovered in [0, 14] {
        let sum = PgStatSum {
            objects: 4,
            object_copies: 12,
            degraded: 3,
            unfound: 1,
            objects_recovered,
            bytes_recovered: objects_recovered << 20,
            ..PgStatSum::default()
        };
        report_sum(&mut cluster, 0, 0, 1, sum);
    }
    cluster.pass(Duration::from_secs(6));
    let summary = cluster.json(r#"{"prefix":"pg stat"}"#)["pg_summary"].clone();
    let shown = ["degraded_objects", "degraded_total", "unfound_objects", "num_objects_recovered"];
    assert_eq!(shown.map(|key| summary[key].clone()), [3, 33, 1, 14]);
    assert_eq!((&summary["recovering_objects_per_sec"], summary.get("io_sec")), (&2.into(), None));
    let text = cluster.text(r#"{"prefix":"pg stat"}"#);
    assert!(text.contains("; 3/33 objects degraded (9.091%); 1/11 objects unfound (9.091%); "), "{text}");
    assert!(text.ends_with("; 2 MiB/s, 2 objects/s recovering\n"), "{text}");
    let text = cluster.text(r#"{"prefix":"status"}"#);
    assert!(text.contains("    recovery: 2 MiB/s, 2 objects/s\n"), "{text}");
    let text = cluster.text(r#"{"prefix":"osd pool stats"}"#);
    assert!(text.ends_with("objects unfound (9.091%)\n  recovery io 2 MiB/s, 2 objects/s\n\n"), "{text}");
    let gauge = |cluster: &Cluster| {
        let page = cluster.mon.metrics();
        page.lines().find(|line| line.starts_with("ceph_pool_num_objects_recovered{")).unwrap().to_owned()
    };
    assert_eq!(gauge(&cluster), "ceph_pool_num_objects_recovered{pool_id=\"1\"} 14.0");
    cluster.pass(Duration::from_secs(10));
    assert_eq!(gauge(&cluster), "ceph_pool_num_objects_recovered{pool_id=\"1\"} 0.0", "of the last seconds");
}

/// What OSDs report may be any numbers, and sums of them end at the largest number there is.
#[test]
fn reports_of_any_numbers_are_summed_up() {
    let mut cluster = Cluster::with_rbd();
    let most = u64::MAX;
    for times in 1..=4 {
        let done = most / 4 * times;
        for osd in 0..3 {
            let counted = PgStatSum {
                bytes: most,
                objects: most,
                object_copies: most,
                degraded: most,
                misplaced: most,
                unfound: most,
                reads: done,
                read_bytes: done,
                writes: done,
                write_bytes: done,
                objects_recovered: done,
                bytes_recovered: done,
                shallow_scrub_errors: most,
                deep_scrub_errors: most,
                ..PgStatSum::default()
            };
            let pg = |seed| PgStat {
                pgid: PgId::new(POOL, seed),
                state: PgState::ACTIVE,
                reported_epoch: cluster.map().epoch,
                reported_seq: most - 4 + times,
                acting_primary: OsdId(osd),
                log_size: most,
                sum: counted,
                ..PgStat::default()
            };
            let stat = OsdStat { kb: most, kb_used: most, kb_avail: most, ..OsdStat::default() };
            let statfs = PoolStatfs { allocated: most, data_stored: most, omap_allocated: most };
            let report = MPGStats {
                osd: OsdId(osd),
                seq: (1 << 32) + times,
                stat,
                pgs: vec![pg(osd as u32), pg(osd as u32 + 3)],
                pool_stat: vec![(POOL, statfs)],
                ..MPGStats::default()
            };
            cluster.say(Cluster::osd_conn(osd), report);
        }
        cluster.pass(Duration::from_secs(2));
    }
    for prefix in ["status", "health", "df", "pg dump", "pg stat", "osd df", "osd pool stats", "iostat"] {
        for format in ["plain", "json"] {
            cluster.text(&json!({"prefix": prefix, "format": format}).to_string());
        }
    }
    assert_eq!(cluster.json(r#"{"prefix":"df"}"#)["pools"][0]["stats"]["objects"], most);
    for data_pool in [None, Some(POOL)] {
        cluster.say(ADMIN, MStatfs { data_pool, ..MStatfs::default() });
        cluster.say(ADMIN, MGetPoolStats { pools: vec!["rbd".to_owned()], ..MGetPoolStats::default() });
    }
    assert!(cluster.mon.metrics().contains("ceph_pool_objects"));
}
