//! Two daemons, one of which has dialed the other, and the bytes between them.

use std::{
    collections::{BTreeSet, VecDeque},
    mem,
    net::SocketAddr,
    sync::Arc,
};

use auth::CryptoKey;
use messages::{MPing, Pong};
use msgr::PartialFrame;
use rand::Rng;
use types::{EntityAddr, EntityName, Instant, KeyType, UTime};

use super::*;
use crate::ServiceAuth;

/// One end of all connections.
pub(super) struct End {
    pub(super) now: Instant,
    pub(super) dialed: u32,
    /// Said and not heard by the other end.
    pub(super) said: VecDeque<(u32, Vec<Bytes>)>,
    /// What seems to wait to be sent.
    pub(super) queued_bytes: usize,
    /// Likewise on some connections alone.
    pub(super) queued_on: BTreeMap<u32, usize>,
    /// Nothing is taken from the peer that was paused or resumed last.
    pub(super) is_paused: bool,
    /// The connections from which nothing is taken.
    pub(super) paused: BTreeSet<u32>,
    /// The sizes of the large frames that are to be received in one piece, and what there is of them.
    pub(super) expected: BTreeMap<u32, PartialFrame>,
    pub(super) closed: Vec<u32>,
    /// Those of them over which what waited was to be sent first.
    pub(super) closed_when_sent: Vec<u32>,
    /// Those of these whose peers have not taken it yet.
    pub(super) lingering: BTreeSet<u32>,
}

impl Default for End {
    fn default() -> Self {
        End {
            now: Instant(1_000_000_000_000),
            dialed: 0,
            said: VecDeque::new(),
            queued_bytes: 0,
            queued_on: BTreeMap::new(),
            is_paused: false,
            paused: BTreeSet::new(),
            expected: BTreeMap::new(),
            closed: Vec::new(),
            closed_when_sent: Vec::new(),
            lingering: BTreeSet::new(),
        }
    }
}

impl Wire for End {
    type Conn = u32;

    fn now(&self) -> Instant {
        self.now
    }
    fn wall(&self) -> UTime {
        UTime::default().plus(Duration::from_nanos(self.now.0))
    }
    fn connect(&mut self, _: SocketAddr) -> Option<u32> {
        self.dialed += 1;
        Some(self.dialed)
    }
    fn send(&mut self, conn: u32, buffers: Vec<Bytes>) {
        self.said.push_back((conn, buffers));
    }
    fn queued_bytes(&self, conn: u32) -> usize {
        self.queued_on.get(&conn).copied().unwrap_or(self.queued_bytes)
    }
    fn expect(&mut self, _: u32, _: usize) {}
    fn expect_frame(&mut self, conn: u32, part: PartialFrame) {
        let before = self.expected.insert(conn, part);
        assert!(before.is_none(), "one frame comes after the other");
    }
    fn pause_receive(&mut self, conn: u32, pause: bool) {
        self.is_paused = pause;
        match pause {
            true => self.paused.insert(conn),
            false => self.paused.remove(&conn),
        };
    }
    fn close(&mut self, conn: u32) {
        self.closed.push(conn);
    }
    fn close_when_sent(&mut self, conn: u32) {
        self.closed.push(conn);
        self.closed_when_sent.push(conn);
    }
    fn is_gone(&self, conn: u32) -> bool {
        !self.lingering.contains(&conn)
    }
}

/// The first, mostly an OSD, dials; the second is OSD 3, or a monitor.
pub(super) struct Pair {
    pub(super) nets: [Net<u32>; 2],
    pub(super) ends: [End; 2],
    authority: ServiceAuth,
    /// What each machine would learn.
    pub(super) told: [Vec<NetEvent>; 2],
    addrs: Arc<EntityAddrVec>,
}

pub(super) const DIALED: OsdId = OsdId(3);

impl Pair {
    pub(super) fn new(dialed: EntityType) -> Pair {
        Pair::between(EntityType::OSD, dialed)
    }

    pub(super) fn between(dialer: EntityType, dialed: EntityType) -> Pair {
        let addrs = ["v2:127.0.0.1:6801/8", "v2:127.0.0.1:6800/7"]
            .map(|addr| EntityAddrVec(vec![EntityAddr::parse(addr).unwrap()]));
        let mut rng = StdRng::seed_from_u64(5);
        let key = CryptoKey::generate(KeyType::Aes, UTime::default(), &mut rng);
        let mut kinds = [dialer, dialed].into_iter();
        let nets = addrs.clone().map(|addrs| {
            let kind = kinds.next().expect("there is one for each");
            let keeper = TicketKeeper::new(EntityName::new(kind, "1"), key.clone());
            Net::new(Config { addrs, ..config(kind) }, Some(keeper), rng.random())
        });
        let [_, addrs] = addrs.map(Arc::new);
        let authority = ServiceAuth::new(dialed, true);
        Pair { nets, ends: Default::default(), authority, told: Default::default(), addrs }
    }

    /// The second one refuses whoever dials it.
    pub(super) fn let_nobody_in(&mut self) {
        self.authority = ServiceAuth::new(EntityType::OSD, false);
    }

    /// The first one says something to the second one, which learns it on this connection.
    pub(super) fn talk(&mut self) -> u64 {
        self.say();
        self.connect();
        match &mem::take(&mut self.told[1])[..] {
            [NetEvent::Opened(id, _), NetEvent::Received(from, _, Message::MPing(_))] if from == id => *id,
            other => panic!("{other:?}"),
        }
    }

    /// The first one has a session with the monitor that the second one is.
    pub(super) fn follow(&mut self) {
        self.nets[0].keep_mon_session(vec![EntityAddrVec::clone(&self.addrs)]);
        self.tick();
        self.connect();
        assert!(matches!(self.told[0][..], [NetEvent::MonOpened]), "{:?}", self.told[0]);
    }

    pub(super) fn connect(&mut self) {
        self.event(1, WireEvent::Accepted(1, "127.0.0.1:50000".parse().unwrap()));
        self.event(0, WireEvent::Connected(1));
        self.run();
    }

    /// The first one looks after its connections.
    pub(super) fn tick(&mut self) {
        self.nets[0].tick(&mut self.ends[0], &mut self.told[0]);
    }

    /// The first one does so once a second, and hears what the second one says, or nothing.
    pub(super) fn pass(&mut self, seconds: u32, answers: bool) {
        for _ in 0..seconds {
            self.ends[0].now = self.ends[0].now + Duration::from_secs(1);
            self.tick();
            match answers {
                true => self.run(),
                false => self.ends[0].said.clear(),
            }
        }
    }

    /// The first one dials again, under this number.
    pub(super) fn reconnect(&mut self, conn: u32) {
        self.event(0, WireEvent::Closed(conn - 1));
        self.ends[0].now = self.ends[0].now + Duration::from_secs(1);
        self.tick();
        self.event(1, WireEvent::Accepted(conn, "127.0.0.1:50000".parse().unwrap()));
        self.event(0, WireEvent::Connected(conn));
        self.run();
    }

    pub(super) fn say(&mut self) {
        self.say_raw(ping().encode(0));
    }

    pub(super) fn say_raw(&mut self, raw: RawMessage) {
        self.nets[0].send_osd(DIALED, self.addrs.clone(), Arc::new(raw), &mut self.ends[0]);
    }

    /// All that the first one has said reaches the second one at once.
    pub(super) fn run_at_once(&mut self) {
        let said = mem::take(&mut self.ends[0].said);
        let conn = said[0].0;
        let mut bytes = said.into_iter().flat_map(|(_, bytes)| bytes);
        let first = bytes.next().unwrap();
        self.event(1, WireEvent::Received(conn, first, bytes.collect()));
        self.run();
    }

    pub(super) fn event(&mut self, side: usize, event: WireEvent<u32>) {
        self.nets[side].on_event(event, &mut self.ends[side], &mut self.authority, &mut self.told[side]);
    }

    /// Runs until neither end has anything to say.
    pub(super) fn run(&mut self) {
        while let Some(side) = (0..2).find(|side| !self.ends[1 - side].said.is_empty()) {
            for (conn, bytes) in mem::take(&mut self.ends[1 - side].said) {
                for bytes in bytes {
                    self.event(side, WireEvent::Received(conn, bytes, Vec::new()));
                }
            }
        }
    }
}

pub(super) fn config(entity_type: EntityType) -> Config {
    Config {
        entity_type,
        addrs: EntityAddrVec::default(),
        more_addrs: EntityAddrVec::default(),
        gid: 1,
        methods: vec![auth::method::NONE],
        modes: vec![auth::con_mode::CRC],
    }
}

pub(super) fn ping() -> Message {
    MPing { pong: Pong(None) }.into()
}
