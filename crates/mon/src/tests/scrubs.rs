use std::time::Duration;

use messages::{MOSDScrub, MPGStats, Message};
use types::{OsdId, OsdStat, PgId, PgStat, PgStatSum, PgState, PoolId, ScrubHistory, UTime};

use super::cluster::Cluster;

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

fn report(cluster: &mut Cluster, scrubs: ScrubHistory, repaired: u64) {
    let map = cluster.map().clone();
    let pgid = PgId::new(PoolId(1), 0);
    let at = map.pg_to_up_acting(pgid);
    let (shallow_scrub_errors, deep_scrub_errors) = (scrubs.shallow_errors, scrubs.deep_errors);
    let state = PgState::ACTIVE.with(PgState::CLEAN);
    let state = if scrubs.errors() > 0 { state.with(PgState::INCONSISTENT) } else { state };
    let pg = PgStat {
        pgid,
        state,
        reported_epoch: map.epoch,
        reported_seq: u64::MAX,
        acting: at.acting,
        acting_primary: at.acting_primary,
        sum: PgStatSum {
            shallow_scrub_errors,
            deep_scrub_errors,
            large_omap_objects: scrubs.large_omap_objects,
            ..PgStatSum::default()
        },
        scrubs,
        ..PgStat::default()
    };
    let osd = at.acting_primary;
    let stat = OsdStat { copies_repaired: repaired, ..OsdStat::default() };
    let stats = MPGStats { osd, epoch: map.epoch, stat, pgs: vec![pg] };
    cluster.say(Cluster::osd_conn(osd.0), stats);
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
