//! Peers that are there and take nothing, or say nothing.

use std::{mem, net::SocketAddr};

use auth::{CryptoKey, EntityAuth, RotatingSecrets};
use messages::{MPing, Pong};
use msgr::PartialFrame;
use types::{EntityAddr, EntityName, Instant, KeyType, UTime};

use super::*;

mod pair;

/// Connections that are made only by who holds the other end.
struct DeadWire {
    now: Instant,
    dialed: u32,
    closed: Vec<u32>,
    sent: Vec<Bytes>,
}

impl Default for DeadWire {
    fn default() -> Self {
        DeadWire { now: Instant(1_000_000_000_000), dialed: 0, closed: Vec::new(), sent: Vec::new() }
    }
}

impl Wire for DeadWire {
    type Conn = u32;

    fn now(&self) -> Instant {
        self.now
    }
    fn wall(&self) -> UTime {
        UTime::default()
    }
    fn connect(&mut self, _: SocketAddr) -> Option<u32> {
        self.dialed += 1;
        Some(self.dialed)
    }
    fn send(&mut self, _: u32, bytes: Vec<Bytes>) {
        self.sent.extend(bytes);
    }
    fn queued_bytes(&self, _: u32) -> usize {
        0
    }
    fn expect(&mut self, _: u32, _: usize) {}
    fn expect_frame(&mut self, _: u32, _: PartialFrame) {}
    fn pause_receive(&mut self, _: u32, _: bool) {}
    fn close(&mut self, conn: u32) {
        self.closed.push(conn);
    }
    fn close_when_sent(&mut self, _: u32) {}
}

fn config(entity_type: EntityType) -> Config {
    Config {
        entity_type,
        addrs: EntityAddrVec::default(),
        more_addrs: EntityAddrVec::default(),
        gid: 1,
        methods: vec![auth::method::NONE],
        modes: vec![auth::con_mode::CRC],
    }
}

/// Where a message to it had to be dropped, an OSD is given up until the map says something new of it, so that
/// nobody waits for an answer that cannot come.
#[test]
fn an_osd_that_takes_nothing_is_reported_until_it_is_forgotten() {
    let mut net: Net<u32> = Net::new(config(EntityType::OSD), None, [1; 32]);
    let mut wire = DeadWire::default();
    let addrs = Arc::new(EntityAddrVec(vec![EntityAddr::parse("v2:127.0.0.1:6800/7").unwrap()]));
    let ping = Arc::new(Message::from(MPing { pong: Pong(None) }).encode(0));
    let reports = |net: &mut Net<u32>, wire: &mut DeadWire| {
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

/// A monitor that lets everybody in.
struct Open;

impl Authority for Open {
    fn service(&self) -> EntityType {
        EntityType::MON
    }
    fn allows_none(&self) -> bool {
        true
    }
    fn entity(&self, _: &EntityName) -> Option<EntityAuth> {
        None
    }
    fn next_global_id(&mut self) -> u64 {
        4_100
    }
    fn secrets(&self, _: EntityType) -> Option<&RotatingSecrets> {
        None
    }
}

/// An OSD with a session with a monitor; each has a wire, and the OSD's events are kept.
struct Session {
    ends: [Net<u32>; 2],
    wires: [DeadWire; 2],
    seen: Vec<NetEvent>,
}

impl Session {
    fn open() -> Session {
        let name = EntityName::new(EntityType::OSD, "1");
        let key = CryptoKey::generate(KeyType::Aes256k, UTime::default(), &mut StdRng::from_seed([3; 32]));
        let keeper = Some(TicketKeeper::new(name, key));
        let host = EntityAddrVec(vec![EntityAddr::parse("v2:127.0.0.1:3300/0").unwrap()]);
        let mut ends = [
            Net::new(config(EntityType::OSD), keeper, [1; 32]),
            Net::new(config(EntityType::MON), None, [2; 32]),
        ];
        ends[1].set_addrs(host.clone());
        let mut session = Session { ends, wires: Default::default(), seen: Vec::new() };
        session.ends[0].keep_mon_session(vec![host]);
        session.tick();
        session.on_event(1, WireEvent::Accepted(1, "127.0.0.1:50000".parse().unwrap()));
        session.on_event(0, WireEvent::Connected(1));
        session.deliver();
        assert!(matches!(session.seen[..], [NetEvent::MonOpened]), "{:?}", session.seen);
        session
    }

    fn on_event(&mut self, side: usize, event: WireEvent<u32>) {
        let mut out = Vec::new();
        self.ends[side].on_event(event, &mut self.wires[side], &mut Open, &mut out);
        if side == 0 {
            self.seen.extend(out);
        }
    }

    /// Brings what was sent to the other side, until nobody says anything more.
    fn deliver(&mut self) {
        while let Some(side) = (0..2).find(|side| !self.wires[*side].sent.is_empty()) {
            for bytes in mem::take(&mut self.wires[side].sent) {
                self.on_event(1 - side, WireEvent::Received(1, bytes, Vec::new()));
            }
        }
    }

    fn tick(&mut self) {
        self.ends[0].tick(&mut self.wires[0], &mut self.seen);
    }

    /// Ticks once a second; true for a monitor that answers.
    fn pass(&mut self, seconds: u32, answers: bool) {
        for _ in 0..seconds {
            self.wires[0].now = self.wires[0].now + Duration::from_secs(1);
            self.tick();
            match answers {
                true => self.deliver(),
                false => self.wires[0].sent.clear(),
            }
        }
    }
}

#[test]
fn a_monitor_that_does_not_answer_is_dialed_again() {
    let mut session = Session::open();
    session.pass(200, true);
    assert_eq!((session.seen.len(), session.wires[0].dialed), (1, 1));
    session.pass(29, false);
    assert_eq!(session.seen.len(), 1, "it may be slow");
    session.pass(13, false);
    assert!(matches!(session.seen[1..], [NetEvent::MonClosed]), "{:?}", session.seen);
    assert_eq!((session.wires[0].dialed, &session.wires[0].closed[..]), (2, &[1][..]));
}
