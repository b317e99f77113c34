//! Temporary acting sets that primaries ask for.

use std::time::Duration;

use messages::{MOSDMarkMeDown, MOSDPGTemp};
use types::{OsdId, PgId, PoolId};

use super::cluster::Cluster;

const PG: PgId = PgId { pool: PoolId(1), seed: 0 };

fn ask(cluster: &mut Cluster, from: OsdId, osd: OsdId, acting: &[OsdId]) {
    let message = MOSDPGTemp { osd, acting: [(PG, acting.to_vec())].into() };
    cluster.say(Cluster::osd_conn(from.0), message);
}

fn stop(cluster: &mut Cluster, osd: OsdId) {
    let epoch = cluster.map().epoch;
    cluster.say(Cluster::osd_conn(osd.0), MOSDMarkMeDown { osd, epoch, is_ack: false });
}

#[test]
fn the_primary_names_who_acts_until_those_do_who_are_up() {
    let mut cluster = Cluster::with_rbd();
    let up = cluster.map().pg_to_up_acting(PG).up;
    let (primary, other) = (up[0], up[1]);
    ask(&mut cluster, other, other, &[other, primary]);
    ask(&mut cluster, other, primary, &[other, primary]);
    assert!(cluster.map().pg_temp.is_empty(), "it does not lead");
    ask(&mut cluster, primary, primary, &[other, primary]);
    assert_eq!(cluster.map().pg_temp[&PG], [other, primary]);
    let epoch = cluster.map().epoch;
    ask(&mut cluster, other, other, &[other, primary]);
    assert_eq!(cluster.map().epoch, epoch, "it is so");
    ask(&mut cluster, primary, primary, &[]);
    assert_eq!(cluster.map().epoch, epoch, "it does not lead any more");
    ask(&mut cluster, other, other, &up);
    assert!(cluster.map().pg_temp.is_empty());
}

#[test]
fn nobody_acts_who_is_down() {
    let mut cluster = Cluster::with_rbd();
    let up = cluster.map().pg_to_up_acting(PG).up;
    stop(&mut cluster, up[2]);
    ask(&mut cluster, up[0], up[0], &[up[1], up[2]]);
    assert!(cluster.map().pg_temp.is_empty());
    ask(&mut cluster, up[0], up[0], &[up[1]]);
    assert_eq!(cluster.map().pg_to_up_acting(PG).acting, [up[1]]);
    stop(&mut cluster, up[1]);
    cluster.pass(Duration::from_secs(2));
    assert!(cluster.map().pg_temp.is_empty(), "nobody of it is left");
}

#[test]
fn no_more_osds_act_than_the_pg_has_copies_and_none_twice() {
    let mut cluster = Cluster::with_rbd();
    cluster.ok(r#"{"prefix":"osd pool set","pool":"rbd","var":"size","val":"2"}"#);
    let up = cluster.map().pg_to_up_acting(PG).up;
    let stray = cluster.map().osds().find(|osd| !up.contains(osd)).unwrap();
    let all: Vec<OsdId> = up.iter().copied().chain([stray]).collect();
    for wrong in [&all[..], &[up[0], up[0]], &vec![up[0]; 100_000], &[up[0], OsdId(9)]] {
        ask(&mut cluster, up[0], up[0], wrong);
        assert!(cluster.map().pg_temp.is_empty(), "{} OSDs", wrong.len());
    }
    ask(&mut cluster, up[0], up[0], &all[1..]);
    assert_eq!(cluster.map().pg_temp[&PG], all[1..]);
}

#[test]
fn a_primary_set_by_hand_leads_no_longer_than_it_is_up() {
    let mut cluster = Cluster::with_rbd();
    let up = cluster.map().pg_to_up_acting(PG).up;
    let set = |cluster: &mut Cluster, osd: OsdId| {
        cluster.ok(&format!(r#"{{"prefix":"osd primary-temp","pgid":"1.0","id":"osd.{osd}"}}"#));
    };
    set(&mut cluster, up[2]);
    assert_eq!(cluster.map().pg_to_up_acting(PG).acting_primary, up[2]);
    let epoch = cluster.map().epoch;
    stop(&mut cluster, up[2]);
    assert_eq!(cluster.map().epoch, epoch.next(), "the same map shows both");
    assert!(cluster.map().primary_temp.is_empty());
    assert_eq!(cluster.map().pg_to_up_acting(PG).acting_primary, up[0]);
    set(&mut cluster, up[0]);
    assert!(cluster.map().primary_temp.is_empty(), "it leads anyway");
    // With a pool its PGs go.
    set(&mut cluster, up[1]);
    assert_eq!(cluster.map().primary_temp[&PG], up[1]);
    cluster.allow_pool_delete();
    cluster.ok(r#"{"prefix":"osd pool rm","pool":"rbd","pool2":"rbd","yes_i_really_really_mean_it":true}"#);
    assert!(cluster.map().primary_temp.is_empty());
}
