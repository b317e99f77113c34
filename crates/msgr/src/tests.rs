use std::collections::BTreeMap;

use auth::{Authority, CryptoKey, EntityAuth, RotatingSecrets, TicketKeeper, con_mode, method};
use bytes::Bytes;
use codec::{Encode, Features};
use messages::RawMessage;
use rand::{Rng, SeedableRng, rngs::StdRng};
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, KeyType, UTime};

use crate::*;

mod attacks;
mod frames;
mod golden;
mod hostile;
mod lossless;

struct Keys {
    service: EntityType,
    entities: BTreeMap<EntityName, EntityAuth>,
    secrets: BTreeMap<EntityType, RotatingSecrets>,
}

impl Authority for Keys {
    fn service(&self) -> EntityType {
        self.service
    }
    fn allows_none(&self) -> bool {
        true
    }
    fn entity(&self, name: &EntityName) -> Option<EntityAuth> {
        self.entities.get(name).cloned()
    }
    fn next_global_id(&mut self) -> u64 {
        4_100
    }
    fn secrets(&self, service: EntityType) -> Option<&RotatingSecrets> {
        self.secrets.get(&service)
    }
}

const NOW: UTime = UTime { sec: 1_795_210_947, nsec: 0 };

/// Two ends and the bytes between them.
struct Pair {
    rng: StdRng,
    keys: Keys,
    keeper: TicketKeeper,
    sessions: InSessions,
    dialer_sessions: InSessions,
    ends: [Connection; 2],
    seen: [Vec<ConnEvent>; 2],
    wires: [Vec<u8>; 2],
    /// A large frame to be delivered whole: its bytes, and where its payload begins.
    whole: [Option<(usize, usize)>; 2],
    /// The address at which the payload of the last such frame was delivered.
    payload_at: [usize; 2],
}

fn server_addr() -> EntityAddr {
    EntityAddr::parse("v2:127.0.0.1:6800/7").unwrap()
}

fn config(kind: EntityType, addr: Option<EntityAddr>, auth: u32, mode: u32) -> Config {
    let addrs = EntityAddrVec(addr.into_iter().collect());
    Config {
        entity_type: kind,
        addrs,
        more_addrs: EntityAddrVec::default(),
        gid: 1,
        methods: vec![auth],
        modes: vec![mode],
    }
}

impl Pair {
    fn new(auth: u32, mode: u32, service: EntityType, seed: u64) -> Pair {
        let mut rng = StdRng::seed_from_u64(seed);
        let name = EntityName::parse("osd.1").unwrap();
        let key = CryptoKey::generate(KeyType::Aes256k, NOW, &mut rng);
        let mut secrets = BTreeMap::new();
        for kind in [EntityType::AUTH, EntityType::MON, EntityType::OSD] {
            let mut rotating = RotatingSecrets::default();
            rotating.rotate(kind, KeyType::Aes256k, NOW, &mut rng);
            secrets.insert(kind, rotating);
        }
        let caps = ["mon", "osd"].map(|service| (service.to_owned(), "allow *".to_owned())).into();
        let entities = BTreeMap::from([(name.clone(), EntityAuth { key: key.clone(), caps })]);
        let keys = Keys { service, entities, secrets };
        let keeper = TicketKeeper::new(name, key);
        let mut pair = Pair {
            rng,
            keys,
            keeper,
            sessions: InSessions::default(),
            dialer_sessions: InSessions::default(),
            ends: [Pair::dialer(auth, mode, service, None), Pair::acceptor(service, auth, mode)],
            seen: Default::default(),
            wires: Default::default(),
            whole: Default::default(),
            payload_at: Default::default(),
        };
        pair.begin();
        pair
    }

    fn dialer(auth: u32, mode: u32, service: EntityType, resume: Option<Resume>) -> Connection {
        let role = Role::Dialer { target: server_addr(), service, resume };
        Connection::new(config(EntityType::OSD, None, auth, mode), role)
    }

    fn acceptor(service: EntityType, auth: u32, mode: u32) -> Connection {
        let peer = "127.0.0.1:50000".parse().unwrap();
        Connection::new(config(service, Some(server_addr()), auth, mode), Role::Acceptor { peer })
    }

    fn begin(&mut self) {
        for side in 0..2 {
            let mut out = Output::default();
            self.ends[side].start(&mut out);
            self.post(side, out);
        }
    }

    fn post(&mut self, side: usize, out: Output) {
        out.bytes.iter().for_each(|b| self.wires[1 - side].extend_from_slice(b));
        self.seen[side].extend(out.events);
    }

    /// Moves bytes in random chunks until nothing is on the wires.
    fn run(&mut self) -> Result<(), CloseReason> {
        while let Some(side) = (0..2).find(|s| !self.wires[*s].is_empty()) {
            let count = self.rng.random_range(1..=self.wires[side].len().min(50));
            self.deliver(side, count)?;
        }
        Ok(())
    }

    /// Moves bytes to one end.
    fn deliver(&mut self, side: usize, count: usize) -> Result<(), CloseReason> {
        let whole = self.whole[side].take();
        let count = whole.map_or(count, |(bytes, _)| bytes);
        let chunk = Bytes::from(self.wires[side].drain(..count).collect::<Vec<u8>>());
        if let Some((_, align_at)) = whole {
            self.payload_at[side] = chunk.as_ptr() as usize + align_at;
        }
        let mut out = Output::default();
        let sessions = if side == 1 { &mut self.sessions } else { &mut self.dialer_sessions };
        let mut ctx = Ctx {
            wall: NOW,
            rng: &mut self.rng,
            authority: &mut self.keys,
            keeper: (side == 0).then_some(&mut self.keeper),
            sessions,
        };
        let result = self.ends[side].receive([chunk], &mut ctx, &mut out);
        if out.is_ack_due {
            self.ends[side].acknowledge(&mut out);
        }
        if let Some(part) = self.ends[side].take_partial() {
            self.wires[side].splice(..0, part.have.concat());
            self.whole[side] = Some((part.bytes, part.align_at));
        }
        self.post(side, out);
        result
    }

    fn send(&mut self, side: usize, raw: &RawMessage, seq: Option<u64>) {
        let mut out = Output::default();
        self.ends[side].send(raw, seq, &mut out);
        self.post(side, out);
    }

    fn messages(&mut self, side: usize) -> Vec<RawMessage> {
        let events = std::mem::take(&mut self.seen[side]);
        events
            .into_iter()
            .filter_map(|e| if let ConnEvent::Message(m) = e { Some(m) } else { None })
            .collect()
    }
}

fn message(bytes: usize) -> RawMessage {
    let data: Vec<u8> = (0..bytes).map(|n| (n * 7) as u8).collect();
    RawMessage {
        kind: 42,
        version: 8,
        compat: 3,
        priority: 63,
        tid: 9,
        front: Bytes::from_static(b"front"),
        data: Bytes::from(data).into(),
        ..RawMessage::default()
    }
}

#[test]
fn a_client_names_itself_by_the_id_that_it_authenticated_as() {
    let mut pair = Pair::new(method::CEPHX, con_mode::CRC, EntityType::MON, 4);
    let role = Role::Dialer { target: server_addr(), service: EntityType::MON, resume: None };
    let own = config(EntityType::CLIENT, None, method::CEPHX, con_mode::CRC);
    pair.ends = [Connection::new(own, role), Pair::acceptor(EntityType::MON, method::CEPHX, con_mode::CRC)];
    pair.wires = Default::default();
    pair.begin();
    let mut said = Vec::new();
    while let Some(side) = (0..2).find(|side| !pair.wires[*side].is_empty()) {
        if side == 1 {
            said.extend_from_slice(&pair.wires[1]);
        }
        let count = pair.wires[side].len();
        pair.deliver(side, count).unwrap();
    }
    assert!(pair.ends.iter().all(Connection::is_ready));
    let global_id = pair.keeper.global_id();
    assert_ne!(global_id, 1, "the number in the configuration");
    let mut ident = Vec::new();
    (server_addr(), global_id).encode(&mut ident, Features(Features::MSG_ADDR2));
    assert!(said.windows(ident.len()).any(|part| part == ident));
}

#[test]
fn the_id_that_a_monitor_gave_is_the_clients_with_osds_without_cephx_too() {
    let mut pair = Pair::new(method::NONE, con_mode::CRC, EntityType::MON, 4);
    pair.run().unwrap();
    let global_id = pair.keeper.global_id();
    assert_ne!(global_id, 0);
    pair.keys.service = EntityType::OSD;
    pair.ends = [
        Pair::dialer(method::NONE, con_mode::CRC, EntityType::OSD, None),
        Pair::acceptor(EntityType::OSD, method::NONE, con_mode::CRC),
    ];
    pair.seen = Default::default();
    pair.begin();
    pair.run().unwrap();
    let established = pair.seen[1].iter().find_map(|event| match event {
        ConnEvent::Established(established) => Some(established.identity.global_id),
        _ => None,
    });
    assert_eq!(established, Some(global_id));
}

#[test]
fn messages_cross_in_every_mode() {
    for (auth, mode) in
        [(method::NONE, con_mode::CRC), (method::CEPHX, con_mode::CRC), (method::CEPHX, con_mode::SECURE)]
    {
        let mut pair = Pair::new(auth, mode, EntityType::MON, 3);
        pair.run().unwrap();
        assert!(pair.ends.iter().all(Connection::is_ready));
        for bytes in [0, 1, 47, 48, 4096, 100_000] {
            let mut raw = message(bytes);
            pair.send(0, &raw, None);
            raw.data_more = vec![raw.data.clone(), Bytes::from_static(b"more").into()];
            pair.send(1, &raw, None);
            pair.send(0, &RawMessage { kind: 5, ..RawMessage::default() }, None);
            pair.run().unwrap();
            let got = pair.messages(1);
            assert_eq!((got.len(), &got[0]), (2, &message(bytes)));
            if bytes == 100_000 && mode == con_mode::CRC {
                assert_eq!(got[0].data.as_ptr() as usize, pair.payload_at[1]);
            }
            let whole = [&raw.data[..], &raw.data, b"more"].concat();
            assert_eq!(pair.messages(0)[0].data[..], whole);
        }
    }
}

#[test]
fn damage_closes_the_connection() {
    for at in [30, 60, 100, 200] {
        let mut pair = Pair::new(method::CEPHX, con_mode::CRC, EntityType::MON, 9);
        // Past the banners, one byte of the client's stream changes.
        let mut passed = 0;
        let failed = loop {
            let Some(side) = (0..2).find(|s| !pair.wires[*s].is_empty()) else {
                break pair.ends[1].is_ready().then_some(());
            };
            if side == 1 {
                for byte in &mut pair.wires[1] {
                    if passed == at {
                        *byte ^= 0x10;
                    }
                    passed += 1;
                }
            }
            if pair.run_once(side).is_err() {
                break None;
            }
        };
        assert!(failed.is_none(), "byte {at}");
    }
}

impl Pair {
    fn run_once(&mut self, side: usize) -> Result<(), CloseReason> {
        self.deliver(side, self.wires[side].len())
    }
}

#[test]
fn strangers_are_turned_away() {
    let feed = |bytes: &[u8]| {
        let mut pair = Pair::new(method::CEPHX, con_mode::CRC, EntityType::MON, 1);
        pair.wires = [Vec::new(), bytes.to_vec()];
        pair.run_once(1)
    };
    assert_eq!(feed(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n"), Err(CloseReason::Banner));
    let banner = crate::control::BANNER.to_vec();
    assert_eq!(feed(&[&banner[..], &[0xff; 64]].concat()), Err(CloseReason::Frame(FrameError::Crc)));
    // A preamble that is right but for the length that it claims.
    let mut preamble = [0u8; 32];
    preamble[0] = 1;
    preamble[1] = 1;
    preamble[2..6].copy_from_slice(&u32::MAX.to_le_bytes());
    let crc = codec::crc32c(0, &preamble[..28]);
    preamble[28..].copy_from_slice(&crc.to_le_bytes());
    let too_long = Err(CloseReason::Frame(FrameError::TooLong { bytes: u32::MAX }));
    assert_eq!(feed(&[&banner[..], &preamble].concat()), too_long);
    let mut rng = StdRng::seed_from_u64(4);
    for _ in 0..200 {
        let noise: Vec<u8> = (0..rng.random_range(1..300)).map(|_| rng.random()).collect();
        let _ = feed(&[&banner[..], &noise].concat());
    }
}

#[test]
fn auth_none_is_refused_where_cephx_is_asked_for() {
    let mut pair = Pair::new(method::CEPHX, con_mode::CRC, EntityType::MON, 2);
    pair.ends[0] = Pair::dialer(method::NONE, con_mode::CRC, EntityType::MON, None);
    pair.wires = Default::default();
    pair.begin();
    assert!(pair.run().is_err());
    assert!(!pair.ends[1].is_ready());
}
