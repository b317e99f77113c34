use std::time::Duration;

use types::{OsdId, OsdState, PoolFlags, PoolId};

use super::cluster::{ADMIN, Cluster};
use crate::{ConnId, Effect, Event, Mon, MonOptions};
use auth::Authority;

#[test]
fn what_is_not_committed_is_seen_by_nobody() {
    let mut cluster = Cluster::with_rbd();
    let before = cluster.map().clone();
    cluster.is_committing = false;
    let set = r#"{"prefix":"osd set","key":"noout"}"#;
    assert_eq!(cluster.try_command(ADMIN, set, b""), None, "the answer waits");
    assert_eq!(*cluster.map(), before);
    // A change that is checked against it waits for it, too, even where it changes nothing.
    assert_eq!(cluster.try_command(ADMIN, set, b""), None);
    let dump = cluster.text(r#"{"prefix":"osd dump"}"#);
    assert!(!dump.contains("noout"));
    // The monitor dies before the commit: nothing was ever promised.
    cluster.restart();
    assert_eq!(*cluster.map(), before);
}

#[test]
fn changes_during_a_commit_go_into_one_next_proposal() {
    let mut cluster = Cluster::with_rbd();
    cluster.is_committing = false;
    let epoch = cluster.map().epoch;
    for key in ["noout", "noin", "noscrub"] {
        cluster.try_command(ADMIN, &format!(r#"{{"prefix":"osd set","key":"{key}"}}"#), b"");
    }
    assert_eq!(cluster.held.len(), 1);
    let txn = cluster.held.pop().unwrap();
    let revision = crate::Ledger::commit(&mut cluster.ledger, &txn).unwrap();
    cluster.event(Event::LedgerCommitted(revision));
    assert_eq!(cluster.map().epoch.0, epoch.0 + 1);
    cluster.commit();
    assert_eq!(cluster.map().epoch.0, epoch.0 + 3);
    assert!(
        cluster.text(r#"{"prefix":"osd dump"}"#).contains("noin,noout,")
            || cluster.text(r#"{"prefix":"osd dump"}"#).contains("noout,noin,")
    );
}

#[test]
fn a_restart_finds_everything_that_was_committed() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"auth get-or-create","entity":"client.x","caps":["mon","allow r"]}"#);
    cluster.ok(r#"{"prefix":"config set","who":"client","name":"rbd_cache","value":"false"}"#);
    cluster.ok(r#"{"prefix":"config-key set","key":"a/b","val":"c"}"#);
    let key = cluster.text(r#"{"prefix":"auth get-key","entity":"client.x"}"#);
    let map = cluster.map().clone();
    cluster.restart();
    assert_eq!(*cluster.map(), map);
    assert_eq!(cluster.text(r#"{"prefix":"auth get-key","entity":"client.x"}"#), key);
    assert_eq!(cluster.text(r#"{"prefix":"config get","who":"client.y","key":"rbd_cache"}"#), "false\n");
    assert_eq!(cluster.text(r#"{"prefix":"config-key get","key":"a/b"}"#), "c");
    assert!(cluster.text(r#"{"prefix":"log last","num":1000}"#).contains("osd.2"));
    assert_eq!(cluster.map().up_from(OsdId(0)), map.up_from(OsdId(0)));
}

#[test]
fn global_ids_are_never_given_twice_not_even_after_a_restart() {
    let mut cluster = Cluster::new();
    let last = (0..100).map(|_| cluster.mon.next_global_id()).last().unwrap();
    cluster.restart();
    assert!(cluster.mon.is_ready());
    assert!(cluster.mon.next_global_id() > last);
}

#[test]
fn nobody_is_served_before_boot_or_without_the_lease() {
    let mut mon = Mon::new(MonOptions::default(), [0; 32]);
    let mut effects = Vec::new();
    let peer = crate::Peer {
        name: types::EntityName::parse("client.admin").unwrap(),
        global_id: types::GlobalId(1),
        addr: Default::default(),
        ip: [127, 0, 0, 1].into(),
        features: 0,
    };
    mon.handle(
        Default::default(),
        Default::default(),
        Event::ConnOpened(ConnId(1), Box::new(peer)),
        &mut effects,
    );
    assert!(matches!(effects[..], [Effect::Close(ConnId(1))]));
    assert!(!mon.is_ready());

    let mut cluster = Cluster::with_rbd();
    cluster.event(Event::LeaseLost);
    assert!(cluster.closed.contains(&ADMIN));
    assert!(!cluster.mon.is_ready());
    cluster.boot();
    cluster.ok(r#"{"prefix":"osd set","key":"noout"}"#);
}

/// Flags of a pool.
fn flags(cluster: &Cluster, pool: i64) -> PoolFlags {
    cluster.map().pools[&PoolId(pool)].flags
}

#[test]
fn a_pg_without_osds_does_not_keep_its_pool_full_for_ever() {
    let mut cluster = Cluster::with_rbd();
    cluster.report_all();
    cluster.mon.stats.pgs_mut().for_each(|stat| stat.sum.bytes = 1 << 20);
    cluster.ok(r#"{"prefix":"osd pool set-quota","pool":"rbd","field":"max_bytes","val":"4K"}"#);
    cluster.pass(Duration::from_secs(3));
    assert!(flags(&cluster, 1).has(PoolFlags::FULL_QUOTA));
    cluster.restart();
    // No OSD reports any.
    cluster.ok(r#"{"prefix":"osd pool set-quota","pool":"rbd","field":"max_bytes","val":"1G"}"#);
    cluster.pass(Duration::from_secs(40));
    assert!(flags(&cluster, 1).has(PoolFlags::FULL_QUOTA));
    cluster.pass(Duration::from_secs(40));
    assert!(!flags(&cluster, 1).has(PoolFlags::FULL_QUOTA));
}

#[test]
fn what_no_osd_has_reported_yet_is_as_it_was() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd pool create","pool":"big","pg_num":128}"#);
    cluster.report_all();
    // Full: it needs the PGs that it has.
    let full = |cluster: &mut Cluster| {
        let big = cluster.mon.stats.pgs_mut().filter(|stat| stat.pgid.pool == PoolId(2));
        big.for_each(|stat| stat.sum.bytes = 160 << 20);
    };
    full(&mut cluster);
    cluster.ok(r#"{"prefix":"osd pool set","pool":"big","var":"pg_autoscale_mode","val":"on"}"#);
    cluster.ok(r#"{"prefix":"osd pool set-quota","pool":"rbd","field":"max_bytes","val":"4K"}"#);
    cluster.ok(r#"{"prefix":"osd set-full-ratio","ratio":0.04}"#);
    cluster.pass(Duration::from_secs(3));
    let is_as_it_was = |cluster: &Cluster| {
        let big = &cluster.map().pools[&PoolId(2)];
        assert_eq!((big.pg_num, big.pg_num_target), (128, 128));
        assert!(flags(cluster, 1).has(PoolFlags::FULL_QUOTA));
        assert!(flags(cluster, 2).has(PoolFlags::FULL));
        assert!((0..3).all(|id| cluster.map().state(OsdId(id)).has(OsdState::FULL)));
    };
    is_as_it_was(&cluster);
    cluster.restart();
    cluster.pass(Duration::from_secs(5));
    is_as_it_was(&cluster);
    // Reports on some of the PGs do not suffice.
    (0..2).for_each(|id| cluster.connect(Cluster::osd_conn(id), &format!("osd.{id}")));
    cluster.report_all();
    cluster.mon.stats.pgs_mut().for_each(|stat| stat.sum.bytes = 0);
    cluster.pass(Duration::from_secs(5));
    is_as_it_was(&cluster);
    cluster.connect(Cluster::osd_conn(2), "osd.2");
    cluster.report_all();
    full(&mut cluster);
    cluster.ok(r#"{"prefix":"osd pool set-quota","pool":"rbd","field":"max_bytes","val":"1G"}"#);
    cluster.ok(r#"{"prefix":"osd set-full-ratio","ratio":0.95}"#);
    cluster.pass(Duration::from_secs(3));
    assert!(!flags(&cluster, 1).has(PoolFlags::FULL) && !flags(&cluster, 2).has(PoolFlags::FULL));
    assert_eq!(cluster.map().pools[&PoolId(2)].pg_num_target, 128);
}
