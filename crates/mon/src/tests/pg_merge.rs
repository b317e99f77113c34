//! Pools that get fewer PGs: one PG after the other goes, and only when it is whole.

use std::time::Duration;

use messages::MOSDMarkMeDown;
use types::{EVersion, EntityAddrVec, Epoch, OsdId, PgId, PgPool, PoolId, Uuid};

use super::cluster::{Cluster, boot_message};

const POOL: PoolId = PoolId(1);
const SEC: Duration = Duration::from_secs(1);

fn set_pg_num(pg_num: u32) -> String {
    format!(r#"{{"prefix":"osd pool set","pool":"rbd","var":"pg_num","val":"{pg_num}"}}"#)
}

fn pool(cluster: &Cluster) -> PgPool {
    cluster.map().pools[&POOL].clone()
}

/// Another OSD than those of [`Cluster::with_rbd`] may come.
fn make_fourth(cluster: &mut Cluster) {
    cluster.ok(
        r#"{"prefix":"auth get-or-create","entity":"osd.3","caps":["mon","allow profile osd","osd","allow *"]}"#,
    );
    let uuid = Uuid([4; 16]);
    cluster.ok(&format!(r#"{{"prefix":"osd create","uuid":"{uuid}","id":3}}"#));
}

/// `pg_num`, what it is about to become, and `pgp_num`.
fn pg_nums(cluster: &Cluster) -> [u32; 3] {
    let pool = pool(cluster);
    [pool.pg_num, pool.pg_num_pending, pool.pgp_num]
}

fn step(cluster: &mut Cluster) -> [u32; 3] {
    cluster.report_all();
    cluster.pass(SEC);
    pg_nums(cluster)
}

/// A pool of eight PGs, the last of which is about to go.
fn about_to_merge() -> Cluster {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd pool set","pool":"rbd","var":"pg_autoscale_mode","val":"off"}"#);
    cluster.ok(&set_pg_num(5));
    while pg_nums(&cluster) != [8, 7, 5] {
        step(&mut cluster);
    }
    cluster
}

#[test]
fn a_pool_shrinks_by_a_pg_at_a_time_each_whole_and_at_rest() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd pool set","pool":"rbd","var":"pg_autoscale_mode","val":"off"}"#);
    cluster.mon.stats.pgs_mut().for_each(|stat| stat.sum.reads = 5);
    assert_eq!(cluster.ok(&set_pg_num(5)), "set pool 1 pg_num to 5");
    let line = cluster.text(r#"{"prefix":"osd dump"}"#);
    assert!(line.contains(" pg_num 8 pgp_num 8 pg_num_target 5 pgp_num_target 5 autoscale"), "{line}");
    cluster.pass(3 * SEC);
    assert_eq!(pg_nums(&cluster), [8, 8, 8], "nobody has said that all are clean");
    for pgp_num in [7, 6, 5] {
        assert_eq!(step(&mut cluster), [8, 8, pgp_num], "PGs go where those are that they are merged with");
    }
    assert_eq!(step(&mut cluster), [8, 7, 5]);
    let before = pool(&cluster);
    assert_eq!(before.last_force_op_resend_prenautilus, before.last_change);
    assert!(
        cluster.text(r#"{"prefix":"osd dump"}"#).contains(" pgp_num 5 pg_num_target 5 pg_num_pending 7 ")
    );
    cluster.pass(3 * SEC);
    assert_eq!(pg_nums(&cluster), [8, 7, 5], "what was reported before is not of PGs at rest");
    let ready = cluster.map().epoch;
    assert_eq!(step(&mut cluster), [7, 7, 5]);
    let merged = pool(&cluster);
    let merge = &merged.last_pg_merge_meta;
    assert_eq!((merge.source_pgid, merge.ready_epoch), (PgId::new(POOL, 7), ready));
    let at = |seed: u64| EVersion::new(Epoch(1), seed + 1);
    assert_eq!((merge.source_version, merge.target_version), (at(7), at(3)));
    assert_eq!(merged.last_force_op_resend, merged.last_change);
    assert_eq!((merged.first_pg_num(), cluster.mon.stats.pgs_mut().count()), (7, 7));
    for expected in [[7, 6, 5], [6, 6, 5], [6, 5, 5], [5, 5, 5], [5, 5, 5]] {
        assert_eq!(step(&mut cluster), expected);
    }
    assert_eq!(cluster.mon.stats.total().reads, 40, "what merged PGs have done is still counted");
    assert_eq!(cluster.ok(r#"{"prefix":"osd pool get","pool":"rbd","var":"pg_num"}"#), "");
    assert_eq!(cluster.text(r#"{"prefix":"osd pool get","pool":"rbd","var":"pg_num"}"#), "pg_num: 5\n");
}

#[test]
fn pgs_that_are_not_ready_go_on_as_before() {
    let mut cluster = about_to_merge();
    // Not heard of for long.
    cluster.pass(29 * SEC);
    assert_eq!(pg_nums(&cluster), [8, 7, 5]);
    cluster.pass(3 * SEC);
    assert_eq!(pg_nums(&cluster), [8, 8, 5]);
    // A report of the time when they were at rest is of no use any more.
    assert_eq!(step(&mut cluster), [8, 7, 5]);

    // A member dies.
    let osd = cluster.map().pg_to_up_acting(PgId::new(POOL, 7)).acting[1];
    let epoch = cluster.map().epoch;
    cluster.report_all();
    cluster.say(Cluster::osd_conn(osd.0), MOSDMarkMeDown { osd, epoch, is_ack: false });
    cluster.pass(SEC);
    assert_eq!(pg_nums(&cluster), [8, 8, 5], "not all members are there");
    assert_eq!(step(&mut cluster), [8, 8, 5]);
}

#[test]
fn a_clock_that_is_set_back_has_no_pgs_wait_longer() {
    let mut cluster = about_to_merge();
    cluster.pass(2 * SEC);
    cluster.wall_back = Duration::from_secs(3_600);
    cluster.pass(27 * SEC);
    assert_eq!(pg_nums(&cluster), [8, 7, 5]);
    cluster.pass(3 * SEC);
    assert_eq!(pg_nums(&cluster), [8, 8, 5]);
    // Nor less long where it is set right again.
    assert_eq!(step(&mut cluster), [8, 7, 5]);
    cluster.wall_back = Duration::ZERO;
    cluster.pass(29 * SEC);
    assert_eq!(pg_nums(&cluster), [8, 7, 5]);
}

/// Else the pool could never get more PGs again.
#[test]
fn a_pg_that_was_merged_away_is_not_to_be_made() {
    let mut cluster = about_to_merge();
    cluster.ok(r#"{"prefix":"osd force-create-pg","pgid":"1.7","yes_i_really_mean_it":true}"#);
    assert!(cluster.mon.committed.creating.contains_key(&POOL));
    assert_eq!(step(&mut cluster), [7, 7, 5]);
    cluster.pass(SEC);
    assert!(cluster.mon.committed.creating.is_empty());
}

#[test]
fn a_member_that_began_anew_has_to_be_reported_again() {
    let mut cluster = about_to_merge();
    let osd = cluster.map().pg_to_up_acting(PgId::new(POOL, 7)).acting[1];
    cluster.report_all();
    let message = boot_message(osd.0, cluster.map().epoch);
    cluster.say(Cluster::osd_conn(osd.0), message);
    let map = cluster.map().clone();
    if map.up_from(osd) == map.epoch {
        cluster.pass(SEC);
        assert_eq!(pg_nums(&cluster), [8, 7, 5]);
        assert_eq!(step(&mut cluster), [7, 7, 5]);
    }
}

#[test]
fn who_wants_more_again_has_no_pg_merged() {
    let mut cluster = about_to_merge();
    cluster.ok(&set_pg_num(8));
    assert_eq!(step(&mut cluster), [8, 8, 5]);
    assert_eq!(step(&mut cluster), [8, 8, 8]);
}

#[test]
fn what_an_operator_has_placed_is_placed_by_the_pool_before() {
    let mut cluster = Cluster::with_rbd();
    make_fourth(&mut cluster);
    cluster.boot_osd(3);
    cluster.ok(r#"{"prefix":"osd pool set","pool":"rbd","var":"pg_autoscale_mode","val":"off"}"#);
    cluster.ok(r#"{"prefix":"osd set-require-min-compat-client","version":"luminous"}"#);
    let up = cluster.map().pg_to_up_acting(PgId::new(POOL, 7)).up;
    let other = (0..4).find(|id| !up.contains(&OsdId(*id))).unwrap();
    cluster.ok(&format!(r#"{{"prefix":"osd pg-upmap-items","pgid":"1.7","id":[{},{other}]}}"#, up[0].0));
    assert_eq!(cluster.map().pg_upmap_items.len(), 1);
    cluster.ok(&set_pg_num(7));
    assert_eq!(step(&mut cluster), [8, 8, 7]);
    assert_eq!(step(&mut cluster), [8, 8, 7]);
    assert!(cluster.map().pg_upmap_items.is_empty());
    assert_eq!(step(&mut cluster), [8, 7, 7]);
}

#[test]
fn each_reactor_keeps_pgs_of_its_own() {
    let mut cluster = Cluster::with_rbd();
    make_fourth(&mut cluster);
    let mut boot = boot_message(3, cluster.map().epoch);
    let EntityAddrVec(one) = boot.cluster_addrs.clone();
    boot.cluster_addrs = EntityAddrVec([one.clone(), one.clone(), one.clone(), one].concat());
    cluster.connect(Cluster::osd_conn(3), "osd.3");
    cluster.say(Cluster::osd_conn(3), boot);
    assert!(cluster.map().is_up(OsdId(3)));
    let (errno, why) = cluster.refused(&set_pg_num(3));
    assert_eq!(errno, -22);
    assert_eq!(why, "specified pg_num 3 < 4: PGs of different reactors of an OSD are not merged");
    cluster.ok(&set_pg_num(4));
}

/// Its reactors would keep the two PGs apart, and it would drop both.
#[test]
fn no_pgs_are_merged_that_are_in_different_reactors_of_an_osd_that_came_meanwhile() {
    let mut cluster = about_to_merge();
    make_fourth(&mut cluster);
    let mut boot = boot_message(3, cluster.map().epoch);
    let EntityAddrVec(one) = boot.cluster_addrs.clone();
    boot.cluster_addrs = EntityAddrVec(one.repeat(8));
    cluster.connect(Cluster::osd_conn(3), "osd.3");
    cluster.say(Cluster::osd_conn(3), boot);
    assert!(cluster.map().is_up(OsdId(3)));
    for _ in 0..3 {
        assert_eq!(step(&mut cluster)[..2], [8, 8]);
    }
}
