//! Sessions of OSDs under faults: whatever is cut, nothing is lost, doubled or swapped.

use super::*;
use crate::{connection::State, lossless::Arrival};

/// A dialer's session and what its peer got.
struct World {
    pair: Pair,
    mode: u32,
    session: OutSession,
    pushed: u64,
    delivered: Vec<u64>,
    /// Acceptors whose dialer is gone, with bytes that are still on the way to them.
    ghosts: Vec<(Connection, Vec<u8>)>,
}

impl World {
    fn new(mode: u32, seed: u64) -> World {
        let mut pair = Pair::new(method::CEPHX, mode, EntityType::MON, seed);
        pair.run().unwrap();
        pair.keys.service = EntityType::OSD;
        let (pushed, delivered, ghosts) = (0, Vec::new(), Vec::new());
        World { pair, mode, session: OutSession::new(77), pushed, delivered, ghosts }
    }

    fn dial(&mut self) {
        let resume = Some(self.session.resume);
        let ends = [
            Pair::dialer(method::CEPHX, self.mode, EntityType::OSD, resume),
            Pair::acceptor(EntityType::OSD, method::CEPHX, self.mode),
        ];
        let [_, old] = std::mem::replace(&mut self.pair.ends, ends);
        let [_, late] = std::mem::take(&mut self.pair.wires);
        if (old.is_ready() || !late.is_empty()) && self.ghosts.len() < 3 {
            self.ghosts.push((old, late));
        }
        self.pair.seen = Default::default();
        self.pair.begin();
    }

    fn push(&mut self) {
        let raw = RawMessage { tid: self.pushed, ..message(self.pushed as usize % 90) };
        self.pushed += 1;
        let (seq, _) = self.session.push(raw.clone().into()).unwrap();
        if self.pair.ends[0].is_ready() {
            self.pair.send(0, &raw, Some(seq));
        }
    }

    /// What the daemon does with events.
    fn drain(&mut self) {
        self.delivered.extend(self.pair.messages(1).iter().map(|m| m.tid));
        for event in std::mem::take(&mut self.pair.seen[0]) {
            match event {
                ConnEvent::Established(end) => {
                    let (last, cookie) = end.resumed.unwrap();
                    self.session.acked(last);
                    self.session.resume.server_cookie = cookie;
                    self.session.resume.connect_seq += 1;
                    let again: Vec<_> = self.session.unacked().map(|(s, m)| (s, m.clone())).collect();
                    again.iter().for_each(|(seq, raw)| self.pair.send(0, raw, Some(*seq)));
                }
                ConnEvent::Acked(seq) => self.session.acked(seq),
                ConnEvent::Message(_) | ConnEvent::TooLong(_) | ConnEvent::SessionReset => {
                    panic!("not in this world")
                }
            }
        }
    }

    fn step(&mut self) {
        let ready: Vec<usize> = (0..2).filter(|s| !self.pair.wires[*s].is_empty()).collect();
        if let Some(side) = ready.get(self.pair.rng.random_range(0..2)) {
            let count = self.pair.rng.random_range(1..=self.pair.wires[*side].len().min(200));
            self.pair.deliver(*side, count).unwrap();
        }
        self.drain();
    }

    /// What the acceptor's daemon does now and then.
    fn acknowledge(&mut self) {
        let mut out = Output::default();
        self.pair.ends[1].acknowledge(&mut out);
        self.pair.post(1, out);
    }

    /// No more cuts: all that is on the way arrives, and what that brings.
    fn settle(&mut self) {
        while self.pair.wires.iter().any(|wire| !wire.is_empty()) {
            self.step();
        }
    }

    /// Bytes of a connection that the dialer gave up arrive after all.
    fn haunt(&mut self) {
        let Some((ghost, late)) = self.ghosts.pop() else { return };
        let current = std::mem::replace(&mut self.pair.ends[1], ghost);
        let mut out = Output::default();
        let mut ctx = Ctx {
            wall: NOW,
            rng: &mut self.pair.rng,
            authority: &mut self.pair.keys,
            keeper: None,
            sessions: &mut self.pair.sessions,
        };
        let result = self.pair.ends[1].receive([Bytes::from(late)], &mut ctx, &mut out);
        // Only the beginning of a session that has begun is refused.
        assert!([Ok(()), Err(CloseReason::Protocol(Tag::CLIENT_IDENT.0))].contains(&result), "{result:?}");
        for event in out.events {
            if let ConnEvent::Message(raw) = event {
                self.delivered.push(raw.tid);
            }
        }
        self.pair.ends[1] = current;
    }
}

#[test]
fn a_session_survives_cuts_at_any_point() {
    for seed in 0..60 {
        let mode = if seed % 4 == 0 { con_mode::SECURE } else { con_mode::CRC };
        let mut world = World::new(mode, seed);
        for _ in 0..30 {
            world.dial();
            for _ in 0..world.pair.rng.random_range(0..120) {
                match world.pair.rng.random_range(0..12) {
                    0 => world.push(),
                    1 => world.haunt(),
                    2 => world.acknowledge(),
                    _ => world.step(),
                }
            }
        }
        world.dial();
        world.settle();
        world.acknowledge();
        world.settle();
        assert_eq!(world.session.unacked_count(), 0);
        assert!(world.pushed > 20 && world.pair.ends.iter().all(Connection::is_ready));
        assert_eq!(world.delivered, (0..world.pushed).collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn an_acceptor_that_forgot_the_session_says_so() {
    let mut world = World::new(con_mode::CRC, 3);
    world.dial();
    world.push();
    world.settle();
    world.pair.sessions = InSessions::default();
    world.dial();
    assert_eq!(world.pair.run(), Err(CloseReason::Protocol(Tag::SESSION_RESET.0)));
    assert!(matches!(world.pair.seen[0].last(), Some(ConnEvent::SessionReset)));
    world.session.reset(78);
    world.dial();
    world.push();
    world.settle();
    assert_eq!(world.delivered, [0, 1]);
}

#[test]
fn a_session_does_not_begin_again_with_what_was_said_before_it_began() {
    let mut world = World::new(con_mode::CRC, 6);
    world.dial();
    while !matches!(world.pair.ends[0].state, State::Ident(_)) {
        let side = (0..2).find(|side| !world.pair.wires[*side].is_empty()).unwrap();
        world.pair.run_once(side).unwrap();
    }
    world.dial();
    world.push();
    world.push();
    world.settle();
    world.haunt();
    world.push();
    world.settle();
    assert_eq!(world.delivered, [0, 1, 2]);
}

#[test]
fn a_stream_is_acknowledged_now_and_then() {
    let mut world = World::new(con_mode::CRC, 5);
    world.dial();
    world.settle();
    for _ in 0..100 {
        world.push();
        world.settle();
        assert!(world.session.unacked_count() <= 32);
    }
    assert!(world.session.unacked_count() > 0);
}

/// The dialer heard of no acknowledgement over its old connection, and so sends it again over the new one.
#[test]
fn a_message_that_came_twice_is_acknowledged() {
    let mut world = World::new(con_mode::CRC, 5);
    world.dial();
    world.settle();
    world.push();
    world.dial();
    while !world.pair.ends[1].is_ready() {
        world.pair.run_once(usize::from(!world.pair.wires[1].is_empty())).unwrap();
    }
    world.haunt();
    world.settle();
    assert_eq!((&world.delivered[..], world.session.unacked_count()), (&[0][..], 1));
    world.acknowledge();
    world.settle();
    assert_eq!(world.session.unacked_count(), 0);
}

#[test]
fn messages_that_are_taken_back_come_again() {
    let mut world = World::new(con_mode::CRC, 5);
    world.dial();
    world.settle();
    (0..3).for_each(|_| world.push());
    world.settle();
    assert_eq!(world.pair.ends[1].take_back(2, &mut world.pair.sessions), Some(77));
    world.dial();
    world.settle();
    assert_eq!(world.delivered, [0, 1, 2, 1, 2]);
    assert_eq!(world.pair.ends[0].take_back(1, &mut world.pair.dialer_sessions), None);
}

/// A client's request may all be metadata, and become a change that is longer than what a client may send as such.
#[test]
fn a_session_carries_what_no_client_may_send() {
    let long = RawMessage { front: Bytes::from(vec![7; 33 << 20]), ..message(0) };
    let mut world = World::new(con_mode::CRC, 8);
    world.dial();
    world.settle();
    let (seq, _) = world.session.push(long.clone().into()).unwrap();
    world.pair.send(0, &long, Some(seq));
    world.pair.run().unwrap();
    assert_eq!(world.pair.messages(1)[0].front, long.front);

    let mut pair = Pair::new(method::CEPHX, con_mode::CRC, EntityType::MON, 8);
    pair.run().unwrap();
    pair.send(0, &long, None);
    assert_eq!(pair.run(), Err(CloseReason::Frame(FrameError::TooLong { bytes: 33 << 20 })));
}

/// Monitors and managers hear commands, and maps to be injected, from as many connections as there are.
#[test]
fn who_gives_commands_sends_less_than_who_writes() {
    let run = |service: EntityType, own: EntityType, bytes: usize| {
        let mut pair = Pair::new(method::CEPHX, con_mode::CRC, service, 8);
        let role = Role::Dialer { target: server_addr(), service, resume: None };
        let own = config(own, None, method::NONE, con_mode::CRC);
        let acceptor = Pair::acceptor(service, method::NONE, con_mode::CRC);
        pair.ends = [Connection::new(own, role), acceptor];
        pair.wires = Default::default();
        pair.begin();
        pair.run().unwrap();
        pair.send(0, &message(bytes), None);
        pair.run()
    };
    let (most, more) = (16 << 20, (16 << 20) + 1);
    let refused = Err(CloseReason::Frame(FrameError::TooLong { bytes: more }));
    for (service, own, refuses) in [
        (EntityType::MON, EntityType::CLIENT, true),
        (EntityType::MGR, EntityType::CLIENT, true),
        (EntityType::MON, EntityType::OSD, false),
        (EntityType::OSD, EntityType::CLIENT, false),
    ] {
        assert_eq!(run(service, own, most as usize), Ok(()));
        let result = run(service, own, more as usize);
        assert_eq!(result, if refuses { refused.clone() } else { Ok(()) }, "{service:?} {own:?}");
    }
}

/// Its peer would refuse it again and again, and what is behind it would never come.
#[test]
fn a_session_takes_nothing_that_its_peer_refuses() {
    let mut session = OutSession::new(5);
    let piece = Bytes::from(vec![0; 64 << 20]);
    let long = RawMessage { data_more: vec![piece.clone().into(); 17], ..message(0) };
    let kind = long.kind;
    assert_eq!(session.push(long.into()).map(|(seq, _)| seq), Err(PushError::TooLong { kind }));
    assert_eq!(session.unacked_count(), 0);
    let longest = RawMessage { data_more: vec![piece.into(); 16], ..message(0) };
    let (seq, _) = session.push(longest.into()).unwrap();
    assert_eq!(seq, 1);
}

#[test]
fn a_gap_closes_the_connection() {
    let mut world = World::new(con_mode::CRC, 4);
    world.dial();
    world.pair.run().unwrap();
    world.pair.send(0, &message(3), Some(2));
    assert_eq!(world.pair.run(), Err(CloseReason::Protocol(Tag::MESSAGE.0)));
}

#[test]
fn old_sessions_are_forgotten_before_used_ones() {
    let mut sessions = InSessions::default();
    sessions.open(1);
    sessions.open(2);
    for cookie in 3..30_000 {
        sessions.open(cookie);
        assert_eq!(sessions.resume(1), Some(0));
        assert_eq!(sessions.receive(2, cookie - 2), Arrival::New, "its connection is open");
    }
    assert_eq!(sessions.resume(3), None);
}
