//! What waits for a map.

use std::{collections::BTreeMap, time::Duration};

use auth::OsdCaps;
use codec::{Encode, Features};
use messages::{MOSDOp, MPgClean};
use store::MemStore;
use types::{CrushBlob, EntityAddr, EntityName, GlobalId, Incremental, Instant, PgId, PoolId, UTime};

use super::*;
use crate::{ConnId, Event, Peer};

const CONN: ConnId = ConnId(1);

/// A new OSD, connected with `name`, that is sent as many messages of the future as may wait and one more; how many do
/// wait then, and whether the connection was closed.
fn flooded(name: EntityName, message: impl Fn(Epoch) -> Message) -> (usize, bool) {
    let mut osd = Osd::alone();
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

/// What an OSD wants of the monitor.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Whole(Epoch),
    From(u64),
}

/// An OSD that follows the maps of a monitor.
struct Following {
    osd: Osd,
    store: MemStore,
    /// The monitor's newest.
    map: OsdMap,
    now: Instant,
}

impl Following {
    /// One that has the first map.
    fn new() -> Following {
        let mut map = OsdMap::new([1; 16], UTime::default(), CrushBlob::default());
        map.epoch = Epoch(1);
        let mut it = Following { osd: Osd::alone(), store: MemStore::new(), map, now: Instant(1) };
        it.handle(Event::MonOpened);
        it.hear(MOSDMap { fulls: [(Epoch(1), it.map.to_bytes_and_crc().0)].into(), ..MOSDMap::default() });
        assert_eq!(it.osd.map.epoch, Epoch(1));
        it
    }

    /// The monitor makes the next map; how to come there. Told wrong, the map seems to be another one.
    fn next(&mut self, is_wrong: bool) -> (Epoch, Bytes) {
        let mut inc = Incremental::new([1; 16], self.map.epoch.next());
        inc.new_max_osd = Some(self.map.epoch.0 as i32);
        self.map.apply(&inc).unwrap();
        inc.full_crc = self.map.to_bytes_and_crc().1 ^ u32::from(is_wrong);
        (inc.epoch, inc.to_bytes(Features::PACIFIC))
    }

    /// The monitor sends maps; what the OSD asks for.
    fn hear(&mut self, maps: MOSDMap) -> Vec<Asked> {
        let maps = MOSDMap { fsid: [1; 16], oldest: Epoch(1), newest: self.map.epoch, ..maps };
        self.handle(Event::FromMon(maps.into()))
    }

    fn handle(&mut self, event: Event) -> Vec<Asked> {
        let mut effects: Vec<Effect> = Vec::new();
        self.osd.handle(self.now, UTime::default(), event, &mut self.store, &mut effects);
        let asked = |effect: Effect| match effect {
            Effect::SendMon(Message::MMonGetOSDMap(wanted)) => Some(Asked::Whole(wanted.full_first)),
            Effect::SendMon(Message::MMonSubscribe(sub)) => Some(Asked::From(sub.what.get("osdmap")?.start)),
            _ => None,
        };
        effects.into_iter().filter_map(asked).collect()
    }
}

#[test]
fn a_map_that_is_not_the_monitors_is_asked_for_as_a_whole() {
    let mut it = Following::new();
    let incrementals: BTreeMap<Epoch, Bytes> = [it.next(false), it.next(true), it.next(false)].into();
    let maps = MOSDMap { incrementals, ..MOSDMap::default() };
    assert_eq!(it.hear(maps.clone()), [Asked::Whole(Epoch(3))]);
    assert_eq!(it.osd.map.epoch, Epoch(2), "the bad one is not installed, nor what follows it");
    // The same again, as after another subscription.
    assert_eq!(it.hear(maps), []);
    it.now = it.now + Duration::from_secs(6);
    assert_eq!(it.handle(Event::Timer(crate::osd::TICK)), [Asked::Whole(Epoch(3))]);
    // The map comes; and what follows upon it, which had come too early, is asked for.
    let mut third = OsdMap::new([1; 16], UTime::default(), CrushBlob::default());
    third.epoch = Epoch(3);
    let fulls = [(Epoch(3), third.to_bytes_and_crc().0)].into();
    assert_eq!(it.hear(MOSDMap { fulls, ..MOSDMap::default() }), [Asked::From(4)]);
    assert_eq!(it.osd.map.epoch, Epoch(3));
    it.now = it.now + Duration::from_secs(6);
    assert_eq!(it.handle(Event::Timer(crate::osd::TICK)), []);
}
