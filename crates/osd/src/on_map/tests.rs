//! What waits for a map.

use auth::OsdCaps;
use messages::{MOSDOp, MPgClean};
use store::MemStore;
use types::{EntityAddr, EntityName, GlobalId, Instant, PgId, PoolId, UTime};

use super::*;
use crate::{ConnId, Event, OsdConfig, Peer, Shard};

const CONN: ConnId = ConnId(1);

/// A new OSD, connected with `name`, that is sent as many messages of the future as may wait and one more; how many do
/// wait then, and whether the connection was closed.
fn flooded(name: EntityName, message: impl Fn(Epoch) -> Message) -> (usize, bool) {
    let mut osd = Osd::new(OsdConfig {
        whoami: OsdId(0),
        fsid: [1; 16],
        uuid: [2; 16],
        device_bytes: 1 << 30,
        metadata: Default::default(),
        options: Default::default(),
        hostname: String::new(),
        features: codec::Features::PACIFIC.0,
        shard: Shard::ONLY,
        seed: 1,
    });
    let (mut store, mut effects) = (MemStore::new(), Vec::new());
    let mut tell = |osd: &mut Osd, event| {
        osd.handle(Instant(1), UTime::default(), event, &mut store, &mut effects);
        effects.drain(..).any(|effect| matches!(effect, Effect::Close(CONN)))
    };
    let peer = Peer {
        name,
        global_id: GlobalId(7),
        addr: EntityAddr::default(),
        caps: OsdCaps::allow_all(),
        features: codec::Features::PACIFIC.0,
    };
    tell(&mut osd, Event::ConnOpened(CONN, Box::new(peer)));
    let future = osd.map.epoch.next();
    let is_closed = (0..=WAITING_MAX as u64)
        .map(|tid| tell(&mut osd, Event::Received(CONN, tid, message(future))))
        .fold(false, |before, is_closed| before | is_closed);
    (osd.waiting.len(), is_closed)
}

#[test]
fn nothing_that_an_osd_sends_ahead_of_its_map_is_lost() {
    let pgid = PgId::new(PoolId(1), 0);
    let clean = |epoch| MPgClean { pgid, epoch, remove: false }.into();
    assert_eq!(flooded(EntityName::new(EntityType::OSD, "1"), clean), (WAITING_MAX + 1, false));
}

#[test]
fn a_client_too_far_ahead_is_shown_the_door() {
    let op = |epoch| Message::MOSDOp(Box::new(MOSDOp { epoch, ..MOSDOp::default() }));
    assert_eq!(flooded(EntityName::new(EntityType::CLIENT, "x"), op), (WAITING_MAX, true));
}
