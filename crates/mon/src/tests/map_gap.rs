//! A ledger whose maps have a gap, as one that was rebuilt: nobody knows the epochs that were lost.

use std::collections::BTreeMap;

use messages::{MMonGetOSDMap, MMonGetVersion, MMonSubscribe, MOSDMap, Message, SubscribeItem};
use types::Epoch;

use super::cluster::{ADMIN, Cluster};
use crate::{ConnId, Ledger, LedgerTxn, mkfs::put_whole_map};

const GAP: u32 = 1_000;

/// A cluster with three OSDs and some maps behind a gap; the last map before it, and the first one behind it.
fn with_gap(gap: u32) -> (Cluster, Epoch, Epoch) {
    let mut cluster = Cluster::with_rbd();
    pass_epochs(&mut cluster, 60);
    let mut map = cluster.map().clone();
    let last = map.epoch;
    map.epoch = Epoch(last.0 + gap);
    let mut txn = LedgerTxn { expected: cluster.ledger.0.revision, ..LedgerTxn::default() };
    put_whole_map(&map, &mut txn.ops);
    cluster.ledger.commit(&txn).unwrap();
    cluster.restart();
    (0..3).for_each(|osd| cluster.connect(Cluster::osd_conn(osd), &format!("osd.{osd}")));
    assert_eq!(cluster.map().epoch, map.epoch);
    pass_epochs(&mut cluster, 2);
    (cluster, last, map.epoch)
}

pub(crate) fn pass_epochs(cluster: &mut Cluster, count: u32) {
    for _ in 0..count / 2 {
        cluster.ok(r#"{"prefix":"osd set","key":"noout"}"#);
        cluster.ok(r#"{"prefix":"osd unset","key":"noout"}"#);
    }
}

/// What a peer is sent that asks for the maps from `start` on.
pub(crate) fn subscribe(cluster: &mut Cluster, conn: ConnId, start: Epoch) -> Vec<MOSDMap> {
    cluster.sent.clear();
    let item = SubscribeItem { start: start.0.into(), flags: 0 };
    let what = BTreeMap::from([("osdmap".to_owned(), item)]);
    cluster.say(conn, MMonSubscribe { what, ..MMonSubscribe::default() });
    let maps = cluster.sent.iter().filter_map(|(to, _, message)| match message {
        Message::MOSDMap(maps) if *to == conn => Some(MOSDMap::clone(maps)),
        _ => None,
    });
    maps.collect()
}

/// The epochs in the order in which an OSD takes them that has the map of `have`: the next incremental, or else the
/// newest whole map of the message.
fn walk(messages: &[MOSDMap], have: Epoch) -> Vec<Epoch> {
    let (mut at, mut seen) = (have, Vec::new());
    for maps in messages {
        loop {
            let is_step = maps.incrementals.contains_key(&at.next());
            let jump = maps.fulls.keys().next_back().copied().filter(|epoch| *epoch > at);
            let next = if is_step { Some(at.next()) } else { jump };
            let Some(next) = next else { break };
            seen.push(next);
            at = next;
        }
    }
    seen
}

#[test]
fn an_osd_walks_up_to_a_gap_and_jumps_over_it() {
    let (mut cluster, last, first) = with_gap(GAP);
    let conn = Cluster::osd_conn(2);
    let newest = cluster.map().epoch;
    let behind: Vec<Epoch> = (first.0..=newest.0).map(Epoch).collect();
    assert_eq!(behind.len(), 3);
    let sent = subscribe(&mut cluster, conn, Epoch(last.0 - 49));
    let all: Vec<Epoch> = (last.0 - 49..=last.0).map(Epoch).chain(behind.clone()).collect();
    assert_eq!(walk(&sent, Epoch(last.0 - 50)), all);
    let sent = subscribe(&mut cluster, conn, last.next());
    assert_eq!(walk(&sent, last), behind);
    // It has seen a map that was lost.
    let sent = subscribe(&mut cluster, conn, Epoch(last.0 + 9));
    assert_eq!(walk(&sent, Epoch(last.0 + 8)), behind);
    let sent = subscribe(&mut cluster, conn, newest);
    assert_eq!((walk(&sent, Epoch(newest.0 - 1)), sent[0].fulls.len()), (vec![newest], 0));
}

/// A client that is told of maps which it cannot reach asks for them for ever.
#[test]
fn a_client_from_before_a_gap_gets_the_newest_map_alone() {
    let (mut cluster, last, first) = with_gap(GAP);
    let newest = cluster.map().epoch;
    for start in [last, last.next(), Epoch(last.0 + 9)] {
        let sent = subscribe(&mut cluster, ADMIN, start);
        let [maps] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!((maps.oldest, maps.newest), (newest, newest));
        assert_eq!((maps.fulls.keys().copied().collect(), maps.incrementals.len()), (vec![newest], 0));
    }
    let sent = subscribe(&mut cluster, ADMIN, first.next());
    assert_eq!((sent[0].oldest, walk(&sent, first)), (first, vec![first.next(), newest]));
    cluster.sent.clear();
    cluster.say(ADMIN, MMonGetVersion { handle: 1, what: "osdmap".to_owned() });
    let oldest = cluster.sent.iter().find_map(|(_, _, message)| match message {
        Message::MMonGetVersionReply(reply) => Some(reply.oldest),
        _ => None,
    });
    assert_eq!(oldest, Some(first.0.into()));
}

#[test]
fn maps_on_both_sides_of_a_gap_are_had_by_epoch_and_none_within() {
    let (mut cluster, last, first) = with_gap(GAP);
    let mut ask = |epoch| {
        cluster.sent.clear();
        cluster.say(ADMIN, MMonGetOSDMap::whole(epoch));
        super::cluster::maps_sent(&cluster, ADMIN).0
    };
    for (epoch, is_there) in [(last, true), (first, true), (first.next(), true), (last.next(), false)] {
        assert_eq!(ask(epoch), if is_there { vec![epoch] } else { vec![] });
    }
}

/// An OSD that is told of none before the gap gives up a map there that it has asked for, and asks at once again.
#[test]
fn an_osd_is_told_of_the_maps_before_a_gap() {
    let (mut cluster, last, first) = with_gap(GAP);
    let oldest = cluster.mon.committed.oldest_epoch();
    for (conn, expected) in [(Cluster::osd_conn(2), oldest), (ADMIN, first)] {
        let mut sent = subscribe(&mut cluster, conn, first.next());
        cluster.sent.clear();
        cluster.say(conn, MMonGetOSDMap::whole(last));
        sent.extend(cluster.sent.iter().filter_map(|(_, _, message)| match message {
            Message::MOSDMap(maps) => Some(MOSDMap::clone(maps)),
            _ => None,
        }));
        assert!(sent.len() == 2 && sent.iter().all(|maps| maps.oldest == expected), "{sent:?}");
    }
}

#[test]
fn the_map_behind_a_gap_stays_for_as_long_as_those_before_it() {
    // Where full maps lie close together, some of them go.
    let (mut cluster, last, first) = with_gap(3);
    // No PG is reported clean, so nothing may be trimmed.
    pass_epochs(&mut cluster, 1_400);
    assert!(cluster.mon.committed.fulls.len() <= 40);
    for epoch in [last, first, Epoch(first.0 + 700)] {
        assert_eq!(cluster.mon.committed.full_map(epoch).map(|map| map.epoch), Some(epoch));
    }
    cluster.report_all();
    pass_epochs(&mut cluster, 100);
    assert!(cluster.mon.committed.oldest_epoch() > first);
    assert_eq!(cluster.mon.committed.gap_end(), None);
}
