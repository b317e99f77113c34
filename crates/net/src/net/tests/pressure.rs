//! Clients that have to wait, and for how long.

use super::{
    pair::{Pair, ping},
    *,
};
use crate::net::pressure::{CLOSING_BYTES_MAX, QUEUED_BYTES_HIGH, QUEUED_BYTES_LOW, QUEUED_BYTES_MAX};

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

#[test]
fn a_client_that_is_held_by_itself_waits_for_that_and_for_all_else() {
    let mut pair = answered(EntityType::CLIENT, QUEUED_BYTES_HIGH + 1);
    let id = pair.nets[1].links[&1].id;
    let hold_it = |pair: &mut Pair, hold| {
        pair.nets[1].hold_client(id, hold, &mut pair.ends[1]);
        pair.ends[1].is_paused
    };
    assert!(hold_it(&mut pair, true));
    assert!(pair.drained(0));
    pair.hold(true);
    pair.hold(false);
    assert!(pair.ends[1].is_paused);
    assert!(!hold_it(&mut pair, false));
    pair.hold(true);
    assert!(hold_it(&mut pair, true) && hold_it(&mut pair, false), "all are held");
    pair.hold(false);
    assert!(!pair.ends[1].is_paused);
    // OSDs are heard whatever happens.
    let mut pair = answered(EntityType::OSD, 0);
    assert!(!hold_it(&mut pair, true));
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

impl Pair {
    /// The dialed one looks after its connections, so many seconds later.
    fn tick_after(&mut self, seconds: u64) {
        self.ends[1].now = self.ends[1].now + Duration::from_secs(seconds);
        self.nets[1].tick(&mut self.ends[1], &mut self.told[1]);
    }

    /// More clients of the dialed one: connections from 2 on, for which so much waits.
    fn more_clients(&mut self, queued: &[usize]) {
        for (conn, queued) in (2..).zip(queued) {
            let role = Role::Acceptor { peer: "127.0.0.1:50000".parse().unwrap() };
            let id = self.nets[1].add_link(conn, Purpose::Inbound, role, &self.ends[1]);
            self.nets[1].links.get_mut(&conn).unwrap().is_client = true;
            self.nets[1].by_id.insert(id, conn);
            self.ends[1].queued_on.insert(conn, *queued);
        }
    }

    /// What is counted as waiting for all clients of the dialed one.
    fn counted(&self) -> usize {
        self.nets[1].links.values().map(|link| link.queued_bytes).sum()
    }
}

#[test]
fn a_client_that_takes_nothing_for_a_minute_while_it_waits_is_closed() {
    let mut pair = answered(EntityType::CLIENT, QUEUED_BYTES_HIGH + 1);
    pair.tick_after(59);
    // It takes little, but something.
    pair.ends[1].queued_bytes -= 1;
    pair.tick_after(1);
    pair.tick_after(59);
    assert!(pair.ends[1].closed.is_empty() && pair.told[1].is_empty());
    pair.tick_after(1);
    assert_eq!(pair.ends[1].closed, [1]);
    assert!(matches!(pair.told[1][..], [NetEvent::Closed(_)]), "{:?}", pair.told[1]);
    // One that asks for little may stop for as long as it likes.
    let mut pair = answered(EntityType::CLIENT, QUEUED_BYTES_HIGH);
    pair.tick_after(1);
    pair.tick_after(600);
    assert!(pair.ends[1].closed.is_empty());
}

#[test]
fn clients_wait_with_less_where_much_waits_for_all_of_them() {
    let mut pair = answered(EntityType::CLIENT, QUEUED_BYTES_LOW + 1);
    assert!(!pair.ends[1].is_paused);
    pair.more_clients(&[QUEUED_BYTES_MAX / 4]);
    pair.tick_after(0);
    assert_eq!(pair.counted(), QUEUED_BYTES_MAX / 4 + QUEUED_BYTES_LOW + 1);
    let id = pair.nets[1].links[&1].id;
    let mut is_held = |queued| {
        pair.ends[1].queued_bytes = queued;
        pair.nets[1].send(id, 0, &ping(), &mut pair.ends[1]);
        pair.ends[1].is_paused
    };
    assert!(!is_held(QUEUED_BYTES_LOW));
    assert!(is_held(QUEUED_BYTES_LOW + 1));
    assert!(pair.ends[1].closed.is_empty());
}

#[test]
fn the_client_with_most_answers_is_closed_where_too_many_wait() {
    const QUARTER: usize = QUEUED_BYTES_MAX / 4;
    let mut pair = answered(EntityType::CLIENT, QUARTER);
    pair.more_clients(&[QUARTER + 1, QUARTER - 1]);
    pair.tick_after(0);
    assert!(pair.ends[1].closed.is_empty());
    let id = pair.nets[1].links[&1].id;
    pair.ends[1].queued_bytes += QUARTER;
    pair.nets[1].send(id, 0, &ping(), &mut pair.ends[1]);
    assert!(pair.ends[1].closed.is_empty(), "as much as may be");
    pair.ends[1].queued_on.insert(2, QUARTER + 2);
    pair.nets[1].send(id, 0, &ping(), &mut pair.ends[1]);
    pair.tick_after(0);
    assert_eq!(pair.ends[1].closed, [1]);
    assert_eq!(pair.counted(), 2 * QUARTER + 1);
    assert!(matches!(pair.told[1][..], [NetEvent::Closed(closed)] if closed == id), "{:?}", pair.told[1]);
}

#[test]
fn a_client_that_takes_nothing_is_closed_before_one_with_more_answers_that_takes_them() {
    const HALF: usize = QUEUED_BYTES_MAX / 2;
    let mut pair = answered(EntityType::CLIENT, HALF - 1);
    pair.more_clients(&[HALF + 1]);
    pair.tick_after(0);
    // The first one waits, and takes nothing for a second.
    pair.ends[1].queued_on.insert(2, HALF);
    pair.tick_after(1);
    assert!(pair.ends[1].closed.is_empty());
    pair.ends[1].queued_on.insert(2, HALF + 2);
    pair.tick_after(0);
    assert_eq!(pair.ends[1].closed, [1]);
}

#[test]
fn what_waits_for_a_client_that_goes_is_counted_no_more() {
    let mut pair = answered(EntityType::CLIENT, QUEUED_BYTES_LOW);
    let id = pair.nets[1].links[&1].id;
    assert_eq!(pair.nets[1].queued.bytes, QUEUED_BYTES_LOW);
    pair.nets[1].close(id, &mut pair.ends[1]);
    assert_eq!(pair.nets[1].queued.bytes, 0);
    pair.more_clients(&[5, 6]);
    pair.tick_after(0);
    pair.event(1, WireEvent::Closed(2));
    assert_eq!(pair.nets[1].queued.bytes, 6);
}

#[test]
fn a_client_leaves_no_answers_behind_when_it_breaks_its_connection() {
    let mut pair = answered(EntityType::CLIENT, QUEUED_BYTES_HIGH);
    pair.event(1, WireEvent::Received(1, Bytes::from_static(&[0; 32]), Vec::new()));
    assert!(matches!(pair.told[1][..], [NetEvent::Closed(_)]), "{:?}", pair.told[1]);
    assert_eq!((&pair.ends[1].closed[..], &pair.ends[1].closed_when_sent[..]), (&[1][..], &[][..]));
}

#[test]
fn a_connection_with_many_answers_is_not_kept_until_they_are_sent() {
    for (queued, is_kept) in [(QUEUED_BYTES_LOW, true), (QUEUED_BYTES_LOW + 1, false)] {
        let mut pair = answered(EntityType::CLIENT, queued);
        let id = pair.nets[1].links[&1].id;
        pair.nets[1].close(id, &mut pair.ends[1]);
        assert_eq!(pair.ends[1].closed, [1]);
        assert_eq!(pair.ends[1].closed_when_sent.len(), usize::from(is_kept));
    }
}

#[test]
fn connections_that_were_closed_keep_no_more_than_a_bounded_part_of_their_answers() {
    let mut pair = answered(EntityType::CLIENT, 0);
    let fitting = CLOSING_BYTES_MAX / QUEUED_BYTES_LOW - 1;
    pair.more_clients(&vec![QUEUED_BYTES_LOW; fitting + 2]);
    let mut close = |conn: u32| {
        let id = pair.nets[1].links[&conn].id;
        pair.nets[1].close(id, &mut pair.ends[1]);
        pair.ends[1].lingering.insert(conn);
        pair.ends[1].closed_when_sent.len()
    };
    let conns = 2..2 + fitting as u32;
    assert_eq!(conns.clone().map(&mut close).last(), Some(fitting));
    assert_eq!(close(conns.end), fitting, "one too many");
    pair.ends[1].lingering.remove(&conns.start);
    pair.tick_after(0);
    let id = pair.nets[1].links[&(conns.end + 1)].id;
    pair.nets[1].close(id, &mut pair.ends[1]);
    assert_eq!(pair.ends[1].closed_when_sent.len(), fitting + 1, "one has gone");
}
