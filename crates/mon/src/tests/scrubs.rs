use std::time::Duration;

use messages::{MOSDScrub, MPGStats, Message};
use types::{OsdId, OsdStat, PgId, PgStat, PgStatSum, PgState, PoolId, ScrubHistory, UTime};

use super::cluster::Cluster;
use crate::ConnId;

/// What OSDs were told to scrub: the OSD, the PGs, deep, repair.
fn ordered(cluster: &Cluster) -> Vec<(i32, MOSDScrub)> {
    let orders = cluster.sent.iter().filter_map(|(conn, _, message)| match message {
        Message::MOSDScrub(order) => Some((*conn, MOSDScrub::clone(order))),
        _ => None,
    });
    let osd_of = |conn| (0..3).find(|id| Cluster::osd_conn(*id) == conn);
    orders.filter_map(|(conn, order)| Some((osd_of(conn)?, order))).collect()
}

#[test]
fn an_order_goes_to_those_who_lead_the_pgs() {
    let mut cluster = Cluster::with_rbd();
    let pgid = PgId::new(PoolId(1), 0);
    let primary = cluster.map().pg_to_up_acting(pgid).acting_primary;
    let told = cluster.command(r#"{"prefix":"pg deep-scrub","pgid":"1.0"}"#);
    assert_eq!(told.status, format!("instructing pg 1.0 on osd.{primary} to deep-scrub"));
    let epoch = cluster.map().epoch;
    let order = MOSDScrub { epoch, pgs: vec![pgid], is_deep: true, is_repair: false };
    assert_eq!(ordered(&cluster), [(primary.0, order)]);
    cluster.sent.clear();
    let told = cluster.command(r#"{"prefix":"osd pool repair","who":["rbd"]}"#);
    assert_eq!((told.result, told.status.as_str()), (0, ""));
    let orders = ordered(&cluster);
    assert_eq!(orders.iter().map(|(_, o)| o.pgs.len()).sum::<usize>(), cluster.map().pgs().count());
    for (osd, order) in orders {
        assert!(order.is_deep && order.is_repair);
        let leads = |pgid: &PgId| cluster.map().pg_to_up_acting(*pgid).acting_primary == OsdId(osd);
        assert!(order.pgs.iter().all(leads));
    }
    let told = cluster.command(r#"{"prefix":"osd scrub","who":"all"}"#);
    assert_eq!(told.status, "instructed osd(s) 0,1,2 to scrub");
    let told = cluster.command(r#"{"prefix":"osd deep-scrub","who":"osd.1"}"#);
    assert_eq!(told.status, "instructed osd(s) 1 to deep-scrub");
}

#[test]
fn an_order_does_not_end_in_an_older_session_of_the_osd() {
    let mut cluster = Cluster::new();
    // What a lost connection or a tool with the OSD's key leaves: sessions in its name, before its own and after.
    (0..3).for_each(|osd| cluster.connect(ConnId(10 + osd), &format!("osd.{osd}")));
    (0..3).for_each(|osd| cluster.boot_osd(osd));
    (0..3).for_each(|osd| cluster.connect(ConnId(200 + osd), &format!("osd.{osd}")));
    cluster.ok(r#"{"prefix":"osd pool create","pool":"rbd","pg_num":8}"#);
    let primary = cluster.map().pg_to_up_acting(PgId::new(PoolId(1), 0)).acting_primary;
    cluster.ok(r#"{"prefix":"pg repair","pgid":"1.0"}"#);
    let orders = ordered(&cluster);
    assert_eq!(orders.iter().map(|(osd, _)| *osd).collect::<Vec<_>>(), [primary.0]);
}

#[test]
fn orders_for_what_is_not_there_are_refused() {
    let mut cluster = Cluster::with_rbd();
    for (command, errno, why) in [
        (r#"{"prefix":"pg scrub","pgid":"9.9"}"#, -2, "pg 9.9 does not exist"),
        (r#"{"prefix":"osd scrub","who":"77"}"#, -11, "osd.77 is not up"),
        (r#"{"prefix":"osd pool scrub","who":["q"]}"#, -2, "unrecognized pool 'q'"),
    ] {
        assert_eq!(cluster.refused(command), (errno, why.to_owned()));
    }
}

/// The PG's primary reports.
fn say(cluster: &mut Cluster, pg: PgStat, copies_repaired: u64) {
    let map = cluster.map().clone();
    let at = map.pg_to_up_acting(pg.pgid);
    let osd = at.acting_primary;
    let (acting, reported_epoch) = (at.acting, map.epoch);
    let pg = PgStat { reported_epoch, reported_seq: u64::MAX, acting, acting_primary: osd, ..pg };
    let stat = OsdStat { copies_repaired, ..OsdStat::default() };
    let report = MPGStats { osd, epoch: map.epoch, stat, pgs: vec![pg], ..MPGStats::default() };
    cluster.say(Cluster::osd_conn(osd.0), report);
}

fn say_state(cluster: &mut Cluster, pgid: PgId, state: PgState) {
    say(cluster, PgStat { pgid, state, ..PgStat::default() }, 0);
}

fn report(cluster: &mut Cluster, scrubs: ScrubHistory, repaired: u64) {
    let pgid = PgId::new(PoolId(1), 0);
    let (shallow_scrub_errors, deep_scrub_errors) = (scrubs.shallow_errors, scrubs.deep_errors);
    let state = PgState::ACTIVE.with(PgState::CLEAN);
    let state = if scrubs.errors() > 0 { state.with(PgState::INCONSISTENT) } else { state };
    let pg = PgStat {
        pgid,
        state,
        sum: PgStatSum {
            shallow_scrub_errors,
            deep_scrub_errors,
            large_omap_objects: scrubs.large_omap_objects,
            ..PgStatSum::default()
        },
        scrubs,
        ..PgStat::default()
    };
    say(cluster, pg, repaired);
}

#[test]
fn health_tells_what_is_unfound() {
    let mut cluster = Cluster::with_rbd();
    cluster.report_all();
    let pgid = PgId::new(PoolId(1), 0);
    let state = PgState::ACTIVE.with(PgState::RECOVERY_UNFOUND).with(PgState::DEGRADED);
    let sum = PgStatSum { objects: 4, object_copies: 12, unfound: 1, degraded: 3, ..PgStatSum::default() };
    say(&mut cluster, PgStat { pgid, state, sum, ..PgStat::default() }, 0);
    let health = cluster.text(r#"{"prefix":"health","detail":"detail"}"#);
    for line in [
        "[WRN] OBJECT_UNFOUND: 1/11 objects unfound (9.091%)\n    pg 1.0 has 1 unfound objects\n",
        "[ERR] PG_DAMAGED: Possible data damage: 1 pg recovery_unfound\n    pg 1.0 is active+recovery_unfound+degraded, acting [",
        "], 1 unfound\n",
    ] {
        assert!(health.contains(line), "{health}");
    }
    assert!(cluster.text(r#"{"prefix":"pg stat"}"#).contains("; 1/11 objects unfound (9.091%)"));
}

#[test]
fn health_tells_what_waits_for_room() {
    let mut cluster = Cluster::with_rbd();
    cluster.report_all();
    for (seed, state) in
        [(0, PgState::BACKFILL_TOOFULL), (1, PgState::BACKFILL_TOOFULL), (2, PgState::RECOVERY_TOOFULL)]
    {
        let (pgid, state) = (PgId::new(PoolId(1), seed), PgState::ACTIVE.with(state));
        say(&mut cluster, PgStat { pgid, state, ..PgStat::default() }, 0);
    }
    let health = cluster.text(r#"{"prefix":"health","detail":"detail"}"#);
    for line in [
        "[WRN] PG_BACKFILL_FULL: Low space hindering backfill (add storage if this doesn't resolve itself): 2 pgs backfill_toofull\n    pg 1.0 is active+backfill_toofull, acting [",
        "[ERR] PG_RECOVERY_FULL: Full OSDs blocking recovery: 1 pg recovery_toofull\n    pg 1.2 is active+recovery_toofull, acting [",
    ] {
        assert!(health.contains(line), "{health}");
    }
}

#[test]
fn health_tells_what_scrubs_found_and_what_was_not_scrubbed() {
    let mut cluster = Cluster::with_rbd();
    cluster.report_all();
    let day = Duration::from_secs(24 * 60 * 60);
    let wall = cluster.wall().since(UTime::default());
    let ago = |days: u32| UTime::default().plus(wall - day * days);
    let fresh = ScrubHistory {
        last_scrub_stamp: ago(10),
        last_deep_scrub_stamp: ago(12),
        shallow_errors: 7,
        deep_errors: 5,
        large_omap_objects: 2,
        ..ScrubHistory::default()
    };
    report(&mut cluster, fresh, 10);
    let health = cluster.text(r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health.contains("[ERR] OSD_SCRUB_ERRORS: 12 scrub errors\n"), "{health}");
    assert!(health.contains("[ERR] PG_DAMAGED: Possible data damage: 1 pg inconsistent\n"), "{health}");
    let large = "[WRN] LARGE_OMAP_OBJECTS: 2 large omap objects\n    2 large objects found in pool 'rbd'\n";
    assert!(health.contains(large), "{health}");
    assert!(!health.contains("SCRUBBED") && !health.contains("REPAIRS"), "{health}");
    // Intervals of seven days, and half or three quarters of that on top.
    let late = ScrubHistory { last_scrub_stamp: ago(11), last_deep_scrub_stamp: ago(13), ..fresh };
    report(&mut cluster, late, 11);
    let health = cluster.text(r#"{"prefix":"health","detail":"detail"}"#);
    let since = format!("    pg 1.0 not scrubbed since {}\n", ago(11));
    assert!(health.contains("[WRN] PG_NOT_SCRUBBED: 1 pgs not scrubbed in time\n"), "{health}");
    assert!(health.contains(&since), "{health}");
    let since = format!("    pg 1.0 not deep-scrubbed since {}\n", ago(13));
    assert!(health.contains("[WRN] PG_NOT_DEEP_SCRUBBED: 1 pgs not deep-scrubbed in time\n"), "{health}");
    assert!(health.contains(&since), "{health}");
    assert!(health.contains("[WRN] OSD_TOO_MANY_REPAIRS: Too many repaired reads on 1 OSDs\n"), "{health}");
    assert!(health.contains(" had 11 reads repaired\n"), "{health}");
}

#[test]
fn what_is_to_be_recovered_first_is_told_to_those_who_lead_it_where_it_lacks_something() {
    let mut cluster = Cluster::with_rbd();
    cluster.report_all();
    let ok = |cluster: &mut Cluster, json: &str| cluster.ok(json);
    let forced = |cluster: &mut Cluster| {
        let sent = std::mem::take(&mut cluster.sent).into_iter();
        let orders = sent.filter_map(|(_, _, message)| match message {
            Message::MOSDForceRecovery(order) => Some((order.pgs, order.is_backfill, order.is_forced)),
            _ => None,
        });
        orders.collect::<Vec<_>>()
    };
    let none = [
        (r#"{"prefix":"pg force-recovery","pgid":["1.0"]}"#, "pg 1.0 doesn't require recovery; \n"),
        (r#"{"prefix":"pg force-backfill","pgid":["1.0","1.0"]}"#, "pg 1.0 doesn't require backfilling; \n"),
        (r#"{"prefix":"pg cancel-force-recovery","pgid":["1.0"]}"#, "pg 1.0 recovery not forced; \n"),
        (r#"{"prefix":"pg cancel-force-backfill","pgid":["1.0"]}"#, "pg 1.0 backfill not forced; \n"),
    ];
    for (command, told) in none {
        assert_eq!(ok(&mut cluster, command), told);
    }
    assert_eq!(forced(&mut cluster), []);
    let refused = cluster.refused(r#"{"prefix":"pg force-backfill","pgid":["9.9"]}"#);
    assert_eq!(refused, (-2, "pg 9.9 does not exist; \n".to_owned()));
    let refused = cluster.refused(r#"{"prefix":"osd pool force-recovery","who":["q"]}"#);
    assert_eq!(refused, (-2, "unrecognized pool 'q'".to_owned()));
    let pgid = PgId::new(PoolId(1), 0);
    let primary = cluster.map().pg_to_up_acting(pgid).acting_primary;
    let state = |bits| PgState::ACTIVE.with(PgState::DEGRADED).with(PgState::RECOVERING).with(bits);
    say_state(&mut cluster, pgid, state(PgState::default()));
    let told = ok(&mut cluster, r#"{"prefix":"pg force-recovery","pgid":["1.0"]}"#);
    assert_eq!(told, format!("instructing pg(s) [1.0] on osd.{primary} to force-recovery; \n"));
    assert_eq!(forced(&mut cluster), [(vec![pgid], false, true)]);
    say_state(&mut cluster, pgid, state(PgState::FORCED_RECOVERY));
    let told = ok(&mut cluster, r#"{"prefix":"pg force-recovery","pgid":["1.0"]}"#);
    assert_eq!(told, "pg 1.0 recovery already forced; \n");
    ok(&mut cluster, r#"{"prefix":"osd pool cancel-force-recovery","who":["rbd"]}"#);
    assert_eq!(forced(&mut cluster), [(vec![pgid], false, false)]);
}
