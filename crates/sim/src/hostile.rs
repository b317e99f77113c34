//! What any peer may send: the bodies of the fuzz targets in `fuzz/`, which any compiler builds and tests run with
//! random input. Nothing panics.

use std::collections::BTreeMap;

use auth::{Authority, EntityAuth, RotatingSecrets, con_mode, method};
use bytes::Bytes;
use codec::crc32c;
use messages::{Message, RawMessage};
use msgr::{Config, Connection, Ctx, InSessions, Output, Role};
use rand::{SeedableRng, rngs::StdRng};
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, UTime};

struct Keys(BTreeMap<EntityType, RotatingSecrets>);

impl Authority for Keys {
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
        7
    }
    fn secrets(&self, service: EntityType) -> Option<&RotatingSecrets> {
        self.0.get(&service)
    }
}

const BANNER: &[u8] = b"ceph v2\n\x10\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// A frame of one segment with right checksums.
fn frame(tag: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 32];
    (out[0], out[1]) = (tag, 1);
    out[2..6].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let crc = crc32c(0, &out[..28]);
    out[28..].copy_from_slice(&crc.to_le_bytes());
    if !payload.is_empty() {
        out.extend_from_slice(payload);
        out.extend_from_slice(&crc32c(u32::MAX, payload).to_le_bytes());
    }
    out
}

/// The honest beginning of `client.x`, without cephx, up to its signature.
fn beginning() -> Vec<u8> {
    let hello = [&[8u8, 1, 1, 1, 28, 0, 0, 0][..], &[0; 28]].concat();
    let name = [&[10u8, 8, 0, 0, 0, 1, 0, 0, 0, b'x'][..], &[0; 8]].concat();
    let head = [1u32, 1, 1, name.len() as u32].map(u32::to_le_bytes).concat();
    [BANNER, &frame(1, &hello), &frame(2, &[head, name].concat()), &frame(7, &[0; 32])].concat()
}

/// What a listening daemon hears: raw bytes, or frames that are right but for what is in them, before and after
/// authentication.
pub fn connection(input: &[u8]) {
    let Some((how, mut rest)) = input.split_first() else { return };
    let address = EntityAddr::parse("v2:127.0.0.1:3300/0").expect("an address");
    let config = Config {
        entity_type: EntityType::MON,
        addrs: EntityAddrVec(vec![address]),
        more_addrs: EntityAddrVec::default(),
        gid: 0,
        methods: vec![method::NONE, method::CEPHX],
        modes: vec![con_mode::CRC, con_mode::SECURE],
    };
    let peer = "127.0.0.1:5000".parse().expect("an address");
    let mut conn = Connection::new(config, Role::Acceptor { peer });
    let mut rng = StdRng::seed_from_u64(1);
    let mut keys = Keys(BTreeMap::new());
    let mut sessions = InSessions::default();
    let mut feed = |bytes: Vec<u8>| {
        let wall = UTime::default();
        let mut ctx =
            Ctx { wall, rng: &mut rng, authority: &mut keys, keeper: None, sessions: &mut sessions };
        conn.receive([Bytes::from(bytes)], &mut ctx, &mut Output::default()).is_ok()
    };
    let start = match how % 3 {
        0 => Vec::new(),
        1 => BANNER.to_vec(),
        _ => beginning(),
    };
    if !feed(start) {
        return;
    }
    if how & 0x80 != 0 {
        feed(rest.to_vec());
        return;
    }
    // Frames: tag, length, payload.
    while let [tag, len, tail @ ..] = rest {
        let (payload, tail) = tail.split_at(usize::from(*len).min(tail.len()));
        if !feed(frame(*tag, payload)) {
            return;
        }
        rest = tail;
    }
}

/// The body of any message: it decodes or it is an error.
pub fn message(input: &[u8]) {
    let [kind_low, kind_high, version, split, rest @ ..] = input else { return };
    let (front, data) = rest.split_at(rest.len() * usize::from(*split) / 255);
    let raw = RawMessage {
        kind: u16::from_le_bytes([*kind_low, *kind_high]),
        version: u16::from(*version),
        compat: 1,
        front: Bytes::copy_from_slice(front),
        data: Bytes::copy_from_slice(data).into(),
        ..RawMessage::default()
    };
    if let Ok(message) = Message::decode(raw) {
        let _ = message.encode(1);
    }
}
