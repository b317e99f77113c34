//! How much of the maps is in one message: the kernel's client drops one of more than 16 MiB.

use std::collections::BTreeMap;

use messages::{MMonGetOSDMap, MMonSubscribe, MOSDMap, Message, SubscribeItem};
use types::Epoch;

use super::{
    cluster::{ADMIN, Cluster, maps_sent},
    map_gap::{pass_epochs, subscribe},
};

/// How large the last incrementals are made, in MiB.
const SIZES: [usize; 6] = [4, 4, 4, 24, 1, 1];

/// A cluster whose last incrementals are that large, and the epoch of the first of these.
fn with_large_maps() -> (Cluster, Epoch) {
    let mut cluster = Cluster::with_rbd();
    pass_epochs(&mut cluster, 10);
    let first = Epoch(cluster.map().epoch.0 + 1 - SIZES.len() as u32);
    for (epoch, mib) in (first.0..).map(Epoch).zip(SIZES) {
        cluster.mon.committed.incrementals.set(epoch, Some(vec![0; mib << 20].into()));
    }
    (cluster, first)
}

#[test]
fn a_message_ends_before_its_maps_are_too_large_and_has_one_at_least() {
    let (mut cluster, first) = with_large_maps();
    for conn in [ADMIN, Cluster::osd_conn(2)] {
        let sent = subscribe(&mut cluster, conn, first);
        let counts: Vec<usize> = sent.iter().map(|maps: &MOSDMap| maps.incrementals.len()).collect();
        assert_eq!(counts, [2, 1, 1, 2]);
    }
}

#[test]
fn who_asks_for_one_message_gets_what_it_has_room_for() {
    let (mut cluster, first) = with_large_maps();
    let (newest, two) = (cluster.map().epoch, vec![first, first.next()]);
    cluster.sent.clear();
    let item = SubscribeItem { start: first.0.into(), flags: SubscribeItem::ONETIME };
    let what = BTreeMap::from([("osdmap".to_owned(), item)]);
    cluster.say(ADMIN, MMonSubscribe { what, ..MMonSubscribe::default() });
    assert_eq!(maps_sent(&cluster, ADMIN), (vec![], two.clone()));
    cluster.sent.clear();
    let wanted = MMonGetOSDMap { inc_first: first, inc_last: newest, ..MMonGetOSDMap::whole(Epoch(1)) };
    cluster.say(ADMIN, wanted);
    assert_eq!(maps_sent(&cluster, ADMIN), (vec![Epoch(1)], two));
    let is_newest_told =
        |message: &Message| matches!(message, Message::MOSDMap(maps) if maps.newest == newest);
    assert!(cluster.sent.iter().any(|(_, _, message)| is_newest_told(message)), "so it asks for the rest");
}
