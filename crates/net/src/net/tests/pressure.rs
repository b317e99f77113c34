//! Clients that have to wait, and for how long.

use super::{
    pair::{Pair, ping},
    *,
};
use crate::net::pressure::{QUEUED_BYTES_HIGH, QUEUED_BYTES_LOW};

/// The dialed one, with a client that has `queued` bytes to be taken when it is answered.
fn answered(dialer: EntityType, queued: usize) -> Pair {
    let mut pair = Pair::between(dialer, EntityType::OSD);
    let id = pair.talk();
    pair.ends[1].queued_bytes = queued;
    pair.nets[1].send(id, 0, &ping(), &mut pair.ends[1]);
    pair
}

impl Pair {
    fn hold(&mut self, hold: bool) {
        self.nets[1].hold_clients(hold, &mut self.ends[1]);
    }

    /// The wire says that it is drained, when so much is left; true if nothing is received from the peer then.
    fn drained(&mut self, queued: usize) -> bool {
        self.ends[1].queued_bytes = queued;
        self.event(1, WireEvent::Drained(1));
        self.ends[1].is_paused
    }
}

#[test]
fn a_client_that_asks_faster_than_the_network_carries_waits_and_keeps_its_connection() {
    assert!(!answered(EntityType::CLIENT, QUEUED_BYTES_HIGH).ends[1].is_paused);
    let mut pair = answered(EntityType::CLIENT, QUEUED_BYTES_HIGH + 1);
    assert!(pair.ends[1].is_paused && pair.ends[1].closed.is_empty());
    assert!(pair.drained(QUEUED_BYTES_LOW + 1), "new answers have come meanwhile");
    assert!(!pair.drained(QUEUED_BYTES_LOW));
    // What it asks for while answers wait counts likewise.
    pair.ends[1].queued_bytes = QUEUED_BYTES_HIGH + 1;
    pair.say();
    pair.run();
    assert!(pair.ends[1].is_paused);
}

#[test]
fn nobody_waits_for_ever_where_the_wire_does_not_say_that_it_is_drained() {
    let mut pair = answered(EntityType::CLIENT, QUEUED_BYTES_HIGH + 1);
    for (queued, is_paused) in [(QUEUED_BYTES_LOW + 1, true), (QUEUED_BYTES_LOW, false)] {
        pair.ends[1].queued_bytes = queued;
        pair.nets[1].tick(&mut pair.ends[1], &mut pair.told[1]);
        assert_eq!(pair.ends[1].is_paused, is_paused);
    }
}

#[test]
fn a_client_waits_for_the_network_and_for_the_machine() {
    let mut pair = answered(EntityType::CLIENT, QUEUED_BYTES_HIGH + 1);
    pair.hold(true);
    pair.hold(false);
    assert!(pair.ends[1].is_paused, "the network is not ready");
    pair.hold(true);
    assert!(pair.drained(0), "the machine is not ready");
    pair.hold(false);
    assert!(!pair.ends[1].is_paused);
}

/// Only OSDs must not wait; whatever else has a key counts as a client.
#[test]
fn whoever_is_no_osd_waits_like_a_client() {
    for kind in [EntityType::CLIENT, EntityType::MGR, EntityType::MDS, EntityType::MON] {
        let mut pair = answered(kind, QUEUED_BYTES_LOW);
        pair.hold(true);
        assert!(pair.ends[1].is_paused, "{kind:?}");
        pair.hold(false);
        assert!(!pair.ends[1].is_paused, "{kind:?}");
    }
}

/// It waits for what this one says to others, so it has to be heard.
#[test]
fn an_osd_never_waits() {
    let mut pair = answered(EntityType::OSD, QUEUED_BYTES_HIGH + 1);
    pair.hold(true);
    assert!(!pair.ends[1].is_paused);
}
