//! Two OSDs, one of which has dialed the other, and the bytes between them.

use std::{collections::VecDeque, mem};

use auth::CryptoKey;
use types::{EntityName, KeyType};

use super::*;
use crate::ServiceAuth;

/// One end of all connections.
#[derive(Default)]
struct End {
    dialed: u32,
    /// Said and not heard by the other end.
    said: VecDeque<(u32, Vec<Bytes>)>,
    /// What seems to wait to be sent.
    queued_bytes: usize,
    closed: Vec<u32>,
}

impl Wire for End {
    type Conn = u32;

    fn now(&self) -> Instant {
        Instant(1_000_000_000_000)
    }
    fn wall(&self) -> UTime {
        UTime::default()
    }
    fn connect(&mut self, _: SocketAddr) -> Option<u32> {
        self.dialed += 1;
        Some(self.dialed)
    }
    fn send(&mut self, conn: u32, buffers: Vec<Bytes>) {
        self.said.push_back((conn, buffers));
    }
    fn queued_bytes(&self, _: u32) -> usize {
        self.queued_bytes
    }
    fn expect(&mut self, _: u32, _: usize) {}
    fn expect_frame(&mut self, _: u32, _: PartialFrame) {
        unreachable!("nothing here is large");
    }
    fn pause_receive(&mut self, _: u32, _: bool) {}
    fn close(&mut self, conn: u32) {
        self.closed.push(conn);
    }
    fn close_when_sent(&mut self, conn: u32) {
        self.closed.push(conn);
    }
}

/// The first dials, the second is OSD 3.
struct Pair {
    nets: [Net<u32>; 2],
    ends: [End; 2],
    authority: ServiceAuth,
    /// What each machine would learn.
    told: [Vec<NetEvent>; 2],
    addrs: Arc<EntityAddrVec>,
}

const DIALED: OsdId = OsdId(3);

impl Pair {
    fn new() -> Pair {
        let addrs = ["v2:127.0.0.1:6801/8", "v2:127.0.0.1:6800/7"]
            .map(|addr| EntityAddrVec(vec![EntityAddr::parse(addr).unwrap()]));
        let mut rng = StdRng::seed_from_u64(5);
        let key = CryptoKey::generate(KeyType::Aes, UTime::default(), &mut rng);
        let nets = addrs.clone().map(|addrs| {
            let config = Config {
                entity_type: EntityType::OSD,
                addrs,
                more_addrs: EntityAddrVec::default(),
                gid: 1,
                methods: vec![auth::method::NONE],
                modes: vec![auth::con_mode::CRC],
            };
            let keeper = TicketKeeper::new(EntityName::new(EntityType::OSD, "1"), key.clone());
            Net::new(config, Some(keeper), rng.random())
        });
        let [_, addrs] = addrs.map(Arc::new);
        let authority = ServiceAuth::new(EntityType::OSD, true);
        Pair { nets, ends: Default::default(), authority, told: Default::default(), addrs }
    }

    /// The first one says something to the second one, which learns it on this connection.
    fn talk(&mut self) -> u64 {
        self.say();
        self.event(1, WireEvent::Accepted(1, "127.0.0.1:50000".parse().unwrap()));
        self.event(0, WireEvent::Connected(1));
        self.run();
        match &mem::take(&mut self.told[1])[..] {
            [NetEvent::Opened(id, _), NetEvent::Received(from, _, Message::MPing(_))] if from == id => *id,
            other => panic!("{other:?}"),
        }
    }

    fn say(&mut self) {
        let raw = Arc::new(ping().encode(0));
        self.nets[0].send_osd(DIALED, self.addrs.clone(), raw, &mut self.ends[0]);
    }

    fn event(&mut self, side: usize, event: WireEvent<u32>) {
        self.nets[side].on_event(event, &mut self.ends[side], &mut self.authority, &mut self.told[side]);
    }

    /// Until nobody has anything to say.
    fn run(&mut self) {
        while let Some(side) = (0..2).find(|side| !self.ends[1 - side].said.is_empty()) {
            for (conn, bytes) in mem::take(&mut self.ends[1 - side].said) {
                for bytes in bytes {
                    self.event(side, WireEvent::Received(conn, bytes, Vec::new()));
                }
            }
        }
    }
}

#[test]
fn an_osd_that_was_dialed_can_answer_on_that_connection() {
    let mut pair = Pair::new();
    let id = pair.talk();
    pair.nets[1].send(id, 0, &ping(), &mut pair.ends[1]);
    pair.run();
    assert!(matches!(pair.told[0][..], [NetEvent::FromOsd(DIALED, Message::MPing(_))]), "{:?}", pair.told[0]);
}

fn ping() -> Message {
    MPing { pong: Pong(None) }.into()
}

#[test]
fn who_makes_us_say_more_than_it_takes_is_closed_and_that_is_told() {
    let mut pair = Pair::new();
    let id = pair.talk();
    pair.ends[1].queued_bytes = QUEUED_BYTES_MAX;
    pair.say();
    pair.run();
    assert!(matches!(pair.told[1][..], [NetEvent::Received(..)]));
    pair.ends[1].queued_bytes += 1;
    pair.say();
    pair.run();
    assert_eq!(pair.ends[1].closed, [1]);
    assert!(matches!(pair.told[1][..], [.., NetEvent::Closed(closed)] if closed == id), "{:?}", pair.told[1]);
}

#[test]
fn who_does_not_take_its_answers_is_closed_and_that_is_told() {
    let mut pair = Pair::new();
    let id = pair.talk();
    pair.ends[1].queued_bytes = QUEUED_BYTES_MAX + 1;
    pair.nets[1].send(id, 0, &ping(), &mut pair.ends[1]);
    assert_eq!(pair.ends[1].closed, [1]);
    pair.nets[1].tick(&mut pair.ends[1], &mut pair.told[1]);
    assert!(matches!(pair.told[1][..], [NetEvent::Closed(closed)] if closed == id), "{:?}", pair.told[1]);
}
