//! Peers that are there and take nothing, say nothing, or make us say too much.

mod large_frames;
mod mon_reach;
mod pair;
mod pressure;
mod tickets;

use std::sync::Arc;

use messages::{MCommand, MMgrMap};
use types::EntityAddr;

use self::pair::{DIALED, End, Pair, config, ping};
use super::{pressure::QUEUED_BYTES_MAX, *};
use crate::handshakes::HANDSHAKES_MAX;

/// An OSD to which a message had to be dropped is given up until the map says something new of it, so that no request
/// waits for an answer that cannot come.
#[test]
fn an_osd_that_takes_nothing_is_reported_until_it_is_forgotten() {
    let mut net: Net<u32> = Net::new(config(EntityType::OSD), None, [1; 32]);
    let mut wire = End::default();
    let addrs = Arc::new(EntityAddrVec(vec![EntityAddr::parse("v2:127.0.0.1:6800/7").unwrap()]));
    let ping = Arc::new(ping().encode(0));
    let reports = |net: &mut Net<u32>, wire: &mut End| {
        let mut out = Vec::new();
        net.tick(wire, &mut out);
        out.iter().filter(|event| matches!(event, NetEvent::OsdStuck(OsdId(3)))).count()
    };
    for _ in 0..100_000 {
        net.send_osd(OsdId(3), addrs.clone(), ping.clone(), &mut wire);
    }
    assert_eq!((reports(&mut net, &mut wire), wire.dialed), (0, 1));
    net.send_osd(OsdId(3), addrs.clone(), ping.clone(), &mut wire);
    assert_eq!((reports(&mut net, &mut wire), &wire.closed[..]), (1, &[1][..]));
    net.send_osd(OsdId(3), addrs.clone(), ping.clone(), &mut wire);
    assert_eq!((reports(&mut net, &mut wire), wire.dialed), (1, 1), "nothing more waits for it");
    net.forget_osd(OsdId(3), &mut wire);
    net.send_osd(OsdId(3), addrs, ping.clone(), &mut wire);
    assert_eq!((reports(&mut net, &mut wire), wire.dialed), (0, 2));
}

#[test]
fn a_monitor_that_does_not_answer_is_dialed_again() {
    let mut pair = Pair::new(EntityType::MON);
    pair.follow();
    pair.pass(200, true);
    assert_eq!((pair.told[0].len(), pair.ends[0].dialed), (1, 1));
    pair.pass(29, false);
    assert_eq!(pair.told[0].len(), 1, "it may be slow");
    pair.pass(13, false);
    assert!(matches!(pair.told[0][1..], [NetEvent::MonClosed]), "{:?}", pair.told[0]);
    assert_eq!((pair.ends[0].dialed, &pair.ends[0].closed[..]), (2, &[1][..]));
}

#[test]
fn an_osd_that_was_dialed_can_answer_on_that_connection() {
    let mut pair = Pair::new(EntityType::OSD);
    let id = pair.talk();
    pair.nets[1].send(id, 0, &ping(), &mut pair.ends[1]);
    pair.run();
    assert!(matches!(pair.told[0][..], [NetEvent::FromOsd(DIALED, Message::MPing(_))]), "{:?}", pair.told[0]);
}

#[test]
fn who_makes_us_say_more_than_it_takes_is_closed_and_that_is_told() {
    let mut pair = Pair::new(EntityType::OSD);
    let id = pair.talk();
    pair.ends[1].queued_bytes = QUEUED_BYTES_MAX;
    pair.say();
    pair.run();
    assert!(matches!(pair.told[1][..], [NetEvent::Received(..)]));
    pair.ends[1].queued_bytes += 1;
    pair.say();
    pair.run();
    assert_eq!(pair.ends[1].closed, [1]);
    pair.nets[1].tick(&mut pair.ends[1], &mut pair.told[1]);
    assert!(matches!(pair.told[1][..], [.., NetEvent::Closed(closed)] if closed == id), "{:?}", pair.told[1]);
}

#[test]
fn who_does_not_take_its_answers_is_closed_and_that_is_told() {
    let mut pair = Pair::new(EntityType::OSD);
    let id = pair.talk();
    pair.ends[1].queued_bytes = QUEUED_BYTES_MAX + 1;
    pair.nets[1].send(id, 0, &ping(), &mut pair.ends[1]);
    assert_eq!(pair.ends[1].closed, [1]);
    let said = pair.ends[1].said.len();
    pair.nets[1].send(id, 0, &ping(), &mut pair.ends[1]);
    assert_eq!(pair.ends[1].said.len(), said, "what the machine says before it knows is not even encoded");
    pair.nets[1].tick(&mut pair.ends[1], &mut pair.told[1]);
    assert!(matches!(pair.told[1][..], [NetEvent::Closed(closed)] if closed == id), "{:?}", pair.told[1]);
}

#[test]
fn a_stranger_that_is_told_nothing_is_closed_at_once() {
    let mut pair = Pair::new(EntityType::OSD);
    pair.event(1, WireEvent::Accepted(1, "127.0.0.1:50000".parse().unwrap()));
    let noise = Bytes::from_static(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n");
    pair.event(1, WireEvent::Received(1, noise, Vec::new()));
    assert_eq!((&pair.ends[1].closed[..], &pair.ends[1].closed_when_sent[..]), (&[1][..], &[][..]));
}

#[test]
fn a_stranger_that_was_refused_counts_until_it_is_gone() {
    for lingers in [false, true] {
        let mut pair = Pair::new(EntityType::OSD);
        pair.let_nobody_in();
        pair.say();
        pair.connect();
        assert_eq!((&pair.ends[1].closed[..], &pair.ends[1].closed_when_sent[..]), (&[1][..], &[1][..]));
        pair.ends[1].lingering.extend(lingers.then_some(1));
        pair.nets[1].tick(&mut pair.ends[1], &mut pair.told[1]);
        for conn in 2..2 + HANDSHAKES_MAX as u32 {
            pair.event(1, WireEvent::Accepted(conn, "127.0.0.1:50000".parse().unwrap()));
        }
        // It is the oldest.
        let closed = if lingers { &[1, 1][..] } else { &[1] };
        assert_eq!(pair.ends[1].closed, closed);
    }
}

const DIALER: OsdId = OsdId(1);

/// An MOSDOp without anything.
fn undecodable() -> RawMessage {
    RawMessage { kind: 42, version: 8, ..ping().encode(0) }
}

#[test]
fn what_cannot_be_taken_blocks_its_session_until_its_sender_is_forgotten() {
    blocks_its_session(undecodable());
    blocks_its_session(RawMessage { kind: u16::MAX, ..ping().encode(0) });
    blocks_its_session(RawMessage { version: 99, compat: 99, ..ping().encode(0) });
}

/// Nothing behind it may be taken for the proof that it was heard.
fn blocks_its_session(raw: RawMessage) {
    let mut pair = Pair::new(EntityType::OSD);
    pair.talk();
    pair.say_raw(raw);
    pair.say();
    pair.run_at_once();
    assert!(matches!(pair.told[1][..], [NetEvent::Closed(_)]), "{:?}", pair.told[1]);
    pair.nets[1].tick(&mut pair.ends[1], &mut pair.told[1]);
    assert!(matches!(pair.told[1][..], [_, NetEvent::OsdStuck(DIALER)]), "{:?}", pair.told[1]);
    // Over the next connection the same comes again.
    pair.told[1].clear();
    pair.reconnect(2);
    assert!(matches!(pair.told[1][..], [NetEvent::Opened(..), NetEvent::Closed(_)]), "{:?}", pair.told[1]);
    pair.nets[1].forget_osd(DIALER, &mut pair.ends[1]);
    pair.told[1].clear();
    pair.reconnect(3);
    assert!(pair.told[1].is_empty(), "its sender hears that the session is over: {:?}", pair.told[1]);
    // The sender's map says, too, that it was marked down.
    pair.nets[0].forget_osd(DIALED, &mut pair.ends[0]);
    pair.say();
    pair.reconnect(4);
    assert!(
        matches!(pair.told[1][..], [NetEvent::Opened(..), NetEvent::Received(_, _, Message::MPing(_))]),
        "{:?}",
        pair.told[1]
    );
    pair.told[1].clear();
    pair.nets[1].tick(&mut pair.ends[1], &mut pair.told[1]);
    assert!(pair.told[1].is_empty());
}

#[test]
fn a_stuck_osd_that_begins_anew_is_reported_no_more() {
    let mut pair = Pair::new(EntityType::OSD);
    pair.talk();
    pair.say_raw(undecodable());
    pair.run();
    let reports = |pair: &mut Pair| {
        pair.told[1].clear();
        pair.nets[1].tick(&mut pair.ends[1], &mut pair.told[1]);
        pair.told[1].iter().filter(|event| matches!(event, NetEvent::OsdStuck(DIALER))).count()
    };
    assert_eq!(reports(&mut pair), 1);
    pair.nets[0].forget_osd(DIALED, &mut pair.ends[0]);
    pair.say();
    pair.reconnect(2);
    assert_eq!(reports(&mut pair), 0);
}

/// A request may wait for the answer to what was lost with the session.
#[test]
fn an_osd_that_forgot_a_session_with_something_in_it_is_reported_until_it_is_forgotten() {
    let mut pair = Pair::new(EntityType::OSD);
    pair.talk();
    pair.nets[1].sessions = InSessions::default();
    pair.say();
    pair.reconnect(2);
    pair.tick();
    assert!(matches!(pair.told[0][..], [NetEvent::OsdStuck(DIALED)]), "{:?}", pair.told[0]);
    pair.nets[0].forget_osd(DIALED, &mut pair.ends[0]);
    pair.told.iter_mut().for_each(Vec::clear);
    pair.say();
    pair.reconnect(3);
    assert!(matches!(pair.told[1][..], [NetEvent::Opened(..), NetEvent::Received(..)]), "{:?}", pair.told[1]);
    pair.tick();
    assert!(pair.told[0].is_empty(), "{:?}", pair.told[0]);
}

/// Some of what clients never send takes many times the memory when it is read, and so does what is too long.
#[test]
fn of_clients_only_what_they_send_is_read() {
    let says = |dialer: EntityType, message: RawMessage| {
        let mut pair = Pair::between(dialer, EntityType::OSD);
        pair.talk();
        pair.say_raw(message);
        pair.run();
        (pair.told[1].pop(), pair.ends[1].closed.len())
    };
    let map = || MMgrMap::default().to_raw(0);
    let (told, closed) = says(EntityType::CLIENT, map());
    assert!(matches!(told, Some(NetEvent::Received(_, _, Message::Unknown(_)))) && closed == 0, "{told:?}");
    let (told, closed) = says(EntityType::OSD, map());
    assert!(matches!(told, Some(NetEvent::Received(_, _, Message::MMgrMap(_)))) && closed == 0, "{told:?}");
    let command = |bytes: usize| MCommand { cmd: vec!["x".repeat(bytes)], ..MCommand::default() }.to_raw(0);
    for (dialer, bytes, is_closed) in [
        (EntityType::CLIENT, CLIENT_FRONT_BYTES_MAX - 100, false),
        (EntityType::CLIENT, CLIENT_FRONT_BYTES_MAX, true),
        (EntityType::OSD, CLIENT_FRONT_BYTES_MAX, false),
    ] {
        let (told, closed) = says(dialer, command(bytes));
        let is_told = matches!(told, Some(NetEvent::Received(_, _, Message::MCommand(_))));
        assert_eq!((is_told, closed > 0), (!is_closed, is_closed), "{dialer:?}, {bytes}");
    }
}

/// It need not know all that a newer OSD says.
#[test]
fn a_monitor_hears_what_it_does_not_know() {
    let mut pair = Pair::new(EntityType::MON);
    pair.follow();
    let unknown = Message::Unknown(Box::new(RawMessage { kind: u16::MAX, ..ping().encode(0) }));
    pair.nets[0].send_mon(0, &unknown, &mut pair.ends[0]);
    pair.run();
    let heard = &pair.told[1][..];
    assert!(matches!(heard, [_, NetEvent::Received(_, _, Message::Unknown(_))]), "{heard:?}");
}
