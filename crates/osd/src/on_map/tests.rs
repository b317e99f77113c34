//! What waits for a map.

use std::{collections::BTreeMap, time::Duration};

use auth::OsdCaps;
use codec::{Encode, Features};
use messages::{BackoffOp, MOSDBackoff, MOSDOp, MPgClean, OpCode, OsdOp};
use store::{MemStore, ObjectStore};
use types::{
    CrushBlob, EntityAddr, EntityName, Errno, GlobalId, HObject, Incremental, Instant, PgId, PgPool, PoolId,
    PoolType, SpgId, UTime, Uuid,
};

use super::*;
use crate::{ConnId, Event, Peer, Shard};

const CONN: ConnId = ConnId(1);

/// A new OSD with one connection.
struct Connected {
    osd: Osd,
    store: MemStore,
    now: Instant,
}

impl Connected {
    /// A new OSD with a connection to the peer `name`, which has these capabilities.
    fn with(name: EntityName, caps: OsdCaps) -> Connected {
        let mut it = Connected { osd: Osd::alone(), store: MemStore::new(), now: Instant(1) };
        let addr = EntityAddr::default();
        let features = codec::Features::PACIFIC.0;
        let peer = Peer { entity_type: name.kind, name, global_id: GlobalId(7), addr, caps, features };
        it.tell(Event::ConnOpened(CONN, Box::new(peer)));
        it
    }

    fn client() -> Connected {
        Connected::with(EntityName::new(EntityType::CLIENT, "x"), OsdCaps::allow_all())
    }

    fn osd() -> Connected {
        Connected::with(EntityName::new(EntityType::OSD, "1"), OsdCaps::allow_all())
    }

    fn tell(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.osd.handle(self.now, UTime::default(), event, &mut self.store, &mut effects);
        effects
    }

    /// The peer sends so many messages of the next epoch; true if its connection is closed.
    fn flood(&mut self, count: usize, message: impl Fn(Epoch) -> Message) -> bool {
        let future = self.osd.map.epoch.next();
        let tell = |tid| self.tell(Event::Received(CONN, tid, message(future)));
        let effects: Vec<Effect> = (0..count as u64).flat_map(tell).collect();
        is_closed(&effects)
    }

    /// Messages that wait for a map, and those of clients among them.
    fn waiting(&self) -> (usize, u64) {
        (self.osd.waiting.len(), self.osd.admission.ahead.ops())
    }

    /// The map comes that is waited for.
    fn retry(&mut self) -> Vec<Effect> {
        self.osd.map.epoch = self.osd.map.epoch.next();
        let (mut effects, store) = (Vec::new(), &mut self.store);
        self.osd.retry_waiting(&mut Ctx {
            now: self.now,
            wall: UTime::default(),
            store,
            effects: &mut effects,
        });
        effects
    }
}

fn is_closed(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Close(CONN)))
}

fn op(epoch: Epoch) -> Message {
    Message::MOSDOp(Box::new(MOSDOp { epoch, ..MOSDOp::default() }))
}

fn clean(epoch: Epoch) -> Message {
    MPgClean { pgid: PgId::new(PoolId(1), 0), epoch, remove: false }.into()
}

#[test]
fn what_a_client_says_of_a_backoff_waits_behind_ops_that_it_sent_before() {
    let mut it = Connected::client();
    let (pgid, epoch) = (SpgId::replicated(PgId::new(PoolId(1), 0)), it.osd.map.epoch);
    let (begin, end) = (HObject::default(), HObject::default());
    let held = MOSDBackoff { pgid, epoch, op: BackoffOp::ACK_BLOCK, id: 1, begin, end };
    let held = || Message::from(held.clone());
    it.tell(Event::Received(CONN, 1, held()));
    assert_eq!(it.waiting(), (0, 0), "nothing came before it");
    it.flood(2, op);
    it.tell(Event::Received(CONN, 3, held()));
    let waiting: Vec<&str> = it.osd.waiting.iter().map(|waiting| waiting.message.name()).collect();
    assert_eq!(waiting, ["MOSDOp", "MOSDOp", "MOSDBackoff"]);
    it.retry();
    assert_eq!(it.waiting(), (0, 0));
}

#[test]
fn nothing_that_an_osd_sends_ahead_of_its_map_is_lost() {
    let mut it = Connected::osd();
    assert!(!it.flood(WAITING_MAX + 1, clean));
    it.now = it.now + MAP_PATIENCE;
    assert!(!is_closed(&it.tell(Event::Timer(crate::osd::TICK))));
    it.tell(Event::ConnClosed(CONN));
    assert_eq!(it.waiting(), (WAITING_MAX + 1, 0));
}

/// While a pool is not known, it cannot be told which shard has its PG: what an OSD said of the PG may wait at another
/// one.
#[test]
fn what_waited_at_the_wrong_shard_is_passed_on_though_its_connection_is_gone() {
    for seeds in [[1, 2], [2, 1]] {
        let mut it = Connected::osd();
        it.osd.config.shard = Shard { index: 0, count: 2 };
        let (pool, epoch) = (PoolId(1), it.osd.map.epoch.next());
        for seed in seeds {
            let message = MPgClean { pgid: PgId::new(pool, seed), epoch, remove: false };
            it.tell(Event::Received(CONN, 1, message.into()));
        }
        it.tell(Event::ConnClosed(CONN));
        assert_eq!(it.waiting(), (2, 0));
        let mut split = PgPool::new(PoolType::REPLICATED, 3, 2, 0, 1);
        split.set_pg_num(4);
        it.osd.map.pools.insert(pool, split);
        let effects = it.retry();
        let passed = effects.iter().filter_map(|effect| match effect {
            Effect::ShardMessage(1, ShardMessage::FromPeer(CONN, OsdId(1), Message::MPgClean(passed))) => {
                Some(passed.pgid.seed)
            }
            _ => None,
        });
        assert_eq!((passed.collect::<Vec<_>>(), effects.len()), (seeds.to_vec(), 2), "{effects:?}");
    }
}

#[test]
fn maps_are_asked_for_once_however_many_messages_are_ahead_of_them() {
    let mut it = Connected::osd();
    it.tell(Event::MonOpened);
    let asks = |it: &mut Connected, event| {
        let is_asked = |effect: &&Effect| match effect {
            Effect::SendMon(Message::MMonSubscribe(sub)) => sub.what.contains_key("osdmap"),
            Effect::ShardMessage(CONTROL, ShardMessage::WantMaps(_)) => true,
            _ => false,
        };
        it.tell(event).iter().filter(is_asked).count()
    };
    for shard in [Shard::ONLY, Shard { index: 1, count: 2 }] {
        it.osd.config.shard = shard;
        let mut asks_after = |ms, epochs| {
            it.now = it.now + Duration::from_millis(ms);
            it.osd.map.epoch.0 += epochs;
            let epoch = it.osd.map.epoch.next();
            asks(&mut it, Event::Received(CONN, 1, clean(epoch)))
        };
        let asked = [(0, 1), (0, 0), (999, 0), (1, 0), (0, 1), (0, 0)];
        assert_eq!(asked.map(|(ms, epochs)| asks_after(ms, epochs)), [1, 0, 0, 1, 1, 0], "{shard:?}");
    }
    // What other shards want is the same.
    it.osd.config.shard = Shard { index: 0, count: 4 };
    it.osd.map.epoch = it.osd.map.epoch.next();
    let have = it.osd.map.epoch;
    let wants = |from| asks(&mut it, Event::ShardMessage(from, ShardMessage::WantMaps(have)));
    assert_eq!([1, 2, 3].map(wants), [1, 0, 0]);
}

/// The control shard walks into a map before it hands the map on.
#[test]
fn what_a_pg_of_another_shard_says_by_a_newer_map_waits_for_that_map() {
    let mut it = Connected::client();
    it.osd.config.shard = Shard { index: 1, count: 2 };
    let future = it.osd.map.epoch.next();
    let effects = it.tell(Event::ShardMessage(0, ShardMessage::OwnPeer(clean(future))));
    assert_eq!(it.waiting(), (1, 0));
    // The map comes by itself.
    let is_wish = |effect: &Effect| matches!(effect, Effect::ShardMessage(_, ShardMessage::WantMaps(_)));
    assert!(!effects.iter().any(is_wish), "{effects:?}");
    it.retry();
    it.tell(Event::ShardMessage(0, ShardMessage::OwnPeer(clean(future))));
    assert_eq!(it.waiting(), (0, 0));
}

#[test]
fn a_client_too_far_ahead_is_shown_the_door() {
    let mut it = Connected::client();
    assert!(!it.flood(WAITING_MAX, op));
    assert_eq!(it.waiting(), (WAITING_MAX, WAITING_MAX as u64));
    assert!(it.flood(1, op));
    assert!(it.osd.sessions.is_empty(), "nobody tells of the end of what is closed from here");
    assert_eq!(it.waiting(), (0, 0));
}

#[test]
fn who_is_gone_does_not_keep_others_waiting() {
    let mut it = Connected::client();
    it.flood(2_000, op);
    let permits = (0..2_000).map(|_| it.osd.admission.early.take(5)).collect::<Vec<_>>();
    it.osd.pgs.early.extend(permits.into_iter().map(|permit| (CONN, 1, Box::default(), permit)));
    it.tell(Event::ConnClosed(CONN));
    assert_eq!((it.waiting(), it.osd.pgs.early.len(), it.osd.admission.ops()), ((0, 0), 0, 0));
}

#[test]
fn a_client_whose_map_does_not_come_is_shown_the_door() {
    let mut it = Connected::client();
    it.flood(2_000, op);
    it.now = it.now + (MAP_PATIENCE - Duration::from_nanos(1));
    assert!(!is_closed(&it.tell(Event::Timer(crate::osd::TICK))));
    it.now = it.now + Duration::from_nanos(1);
    assert!(is_closed(&it.tell(Event::Timer(crate::osd::TICK))));
    assert_eq!((it.waiting(), it.osd.sessions.len()), ((0, 0), 0));
}

/// Which of this OSD's connections are held, or no more, and those of its other shards.
fn held(effects: &[Effect]) -> Vec<(ConnId, bool)> {
    let held = effects.iter().filter_map(|effect| match effect {
        Effect::Hold(conn, hold) | Effect::ShardMessage(_, ShardMessage::Hold(conn, hold)) => {
            Some((*conn, *hold))
        }
        _ => None,
    });
    held.collect()
}

/// Any client may name a map that never comes.
#[test]
fn a_client_that_is_ahead_waits_and_keeps_no_other_client_waiting() {
    let mut it = Connected::client();
    let future = it.osd.map.epoch.next();
    let effects: Vec<Effect> =
        (0..2_000).flat_map(|tid| it.tell(Event::Received(CONN, tid, op(future)))).collect();
    assert_eq!((it.waiting(), held(&effects)), ((2_000, 2_000), vec![(CONN, true)]));
    assert!(!it.osd.is_saturated());
    it.tell(Event::Received(CONN, 2_000, op(future.next())));
    assert_eq!(held(&it.retry()), [], "one waits still");
    assert_eq!((it.waiting(), held(&it.retry())), ((1, 1), vec![(CONN, false)]));
    assert_eq!(it.waiting(), (0, 0));
}

#[test]
fn a_client_waits_for_each_shard_where_it_is_ahead() {
    let mut it = Connected::client();
    it.osd.config.shard = Shard { index: 0, count: 2 };
    let mut hear = |hold| held(&it.tell(Event::ShardMessage(1, ShardMessage::Hold(CONN, hold))));
    assert_eq!((hear(true), hear(true)), (vec![(CONN, true)], vec![]));
    assert_eq!(hear(false), [(CONN, false)]);
    hear(true);
    let future = it.osd.map.epoch.next();
    assert_eq!(held(&it.tell(Event::Received(CONN, 1, op(future)))), []);
    assert_eq!(held(&it.tell(Event::ShardMessage(1, ShardMessage::Hold(CONN, false)))), []);
    assert_eq!(held(&it.retry()), [(CONN, false)]);
    // The other shard tells this one.
    it.osd.config.shard = Shard { index: 1, count: 2 };
    let future = it.osd.map.epoch.next();
    let effects = it.tell(Event::ShardMessage(0, ShardMessage::Received(CONN, 1, op(future))));
    assert!(effects.iter().any(|e| matches!(e, Effect::ShardMessage(0, ShardMessage::Hold(CONN, true)))));
}

#[test]
fn a_client_whose_contents_are_too_much_ahead_is_shown_the_door() {
    let mut it = Connected::client();
    let others = it.osd.admission.ahead.take(512 << 20);
    let op_with_data = |epoch| {
        let write = OsdOp { data: Bytes::from_static(b"x"), ..OsdOp::new(OpCode::WRITEFULL) };
        Message::MOSDOp(Box::new(MOSDOp { epoch, ops: vec![write], ..MOSDOp::default() }))
    };
    assert!(it.flood(1, op_with_data));
    drop(others);
    assert_eq!(it.waiting(), (0, 0));
}

#[test]
fn who_may_do_nothing_waits_for_no_map() {
    let mut it = Connected::with(EntityName::new(EntityType::CLIENT, "x"), OsdCaps::default());
    let effects = it.tell(Event::Received(CONN, 3, op(Epoch(9))));
    let refused = Errno::EPERM.negated();
    assert!(matches!(&effects[..], [Effect::Send(CONN, 3, Message::MOSDOpReply(r))] if r.result == refused));
    assert_eq!(it.waiting(), (0, 0));
}

/// The kernel's client drops a message of more than 16 MiB.
#[test]
fn a_message_ends_before_its_maps_are_too_large_and_has_one_at_least() {
    let epochs = |maps: &BTreeMap<Epoch, Bytes>| maps.keys().map(|epoch| epoch.0).collect::<Vec<_>>();
    for (mut it, shared) in [
        // A client can jump to the newest map.
        (Connected::client(), (vec![5], vec![])),
        // An OSD asks the monitor for the rest.
        (Connected::osd(), (vec![], vec![2, 3])),
    ] {
        for (epoch, mib) in (1..).map(Epoch).zip([0, 4, 4, 4, 24]) {
            let mut txn = MapStore::transaction(&it.store);
            let incremental = (mib > 0).then(|| Bytes::from(vec![0; mib << 20]));
            it.osd.maps.push(&mut txn, epoch, Bytes::from_static(b"full"), incremental, None);
            it.store.submit(crate::pgs::MAP_TOKEN, txn);
        }
        it.osd.map.epoch = Epoch(5);
        let mut effects = Vec::new();
        let (now, wall, store) = (it.now, UTime::default(), &mut it.store);
        let mut ctx = Ctx { now, wall, store, effects: &mut effects };
        let since: Vec<_> =
            (1..5).map(|have| epochs(&it.osd.maps_since(Epoch(have), &ctx).incrementals)).collect();
        assert_eq!(since, [vec![2, 3], vec![3, 4], vec![4], vec![5]]);
        it.osd.share_maps(CONN, Epoch(1), &mut ctx);
        let [Effect::Send(CONN, 0, Message::MOSDMap(maps))] = &effects[..] else { panic!("{effects:?}") };
        assert_eq!(
            (epochs(&maps.fulls), epochs(&maps.incrementals), maps.newest),
            (shared.0, shared.1, Epoch(5))
        );
    }
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
    /// An OSD that has the first map.
    fn new() -> Following {
        let mut map = OsdMap::new(Uuid([1; 16]), UTime::default(), CrushBlob::default());
        map.epoch = Epoch(1);
        let mut it = Following { osd: Osd::alone(), store: MemStore::new(), map, now: Instant(1) };
        it.handle(Event::MonOpened);
        it.hear(MOSDMap { fulls: [(Epoch(1), it.map.to_bytes_and_crc().0)].into(), ..MOSDMap::default() });
        assert_eq!(it.osd.map.epoch, Epoch(1));
        it
    }

    /// Makes the monitor's next map, and returns the incremental that leads there. With `is_wrong`, its checksum is
    /// that of another map.
    fn next(&mut self, is_wrong: bool) -> (Epoch, Bytes) {
        let mut inc = Incremental::new(Uuid([1; 16]), self.map.epoch.next());
        inc.new_max_osd = Some(self.map.epoch.0 as i32);
        self.map.apply(&inc).unwrap();
        inc.full_crc = self.map.to_bytes_and_crc().1 ^ u32::from(is_wrong);
        (inc.epoch, inc.to_bytes(Features::PACIFIC))
    }

    /// The monitor sends maps; returns what the OSD asks for.
    fn hear(&mut self, maps: MOSDMap) -> Vec<Asked> {
        let oldest = maps.oldest.max(Epoch(1));
        let maps = MOSDMap { fsid: Uuid([1; 16]), oldest, newest: self.map.epoch, ..maps };
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
    let mut third = OsdMap::new(Uuid([1; 16]), UTime::default(), CrushBlob::default());
    third.epoch = Epoch(3);
    let fulls = [(Epoch(3), third.to_bytes_and_crc().0)].into();
    assert_eq!(it.hear(MOSDMap { fulls, ..MOSDMap::default() }), [Asked::From(4)]);
    assert_eq!(it.osd.map.epoch, Epoch(3));
    it.now = it.now + Duration::from_secs(6);
    assert_eq!(it.handle(Event::Timer(crate::osd::TICK)), []);
}

/// With one of them, the OSD would go back to intervals that are over.
#[test]
fn a_full_map_that_is_not_of_its_epoch_or_cluster_is_asked_for_once_more() {
    for (its_epoch, fsid) in [(1, 1), (2, 1), (6, 1), (5, 8)] {
        let mut it = Following::new();
        let second = it.next(false);
        it.hear(MOSDMap { incrementals: [second].into(), ..MOSDMap::default() });
        it.map.epoch = Epoch(5);
        let whole = OsdMap { epoch: Epoch(its_epoch), fsid: Uuid([fsid; 16]), ..it.map.clone() };
        let fulls: BTreeMap<Epoch, Bytes> = [(Epoch(5), whole.to_bytes_and_crc().0)].into();
        let maps = MOSDMap { fulls, oldest: Epoch(4), ..MOSDMap::default() };
        assert_eq!(it.hear(maps.clone()), [Asked::Whole(Epoch(5))]);
        assert_eq!((it.osd.map.epoch, it.osd.map.fsid), (Epoch(2), Uuid([1; 16])));
        assert_eq!(it.hear(maps), [], "not at once again");
        it.now = it.now + Duration::from_secs(6);
        assert_eq!(it.handle(Event::Timer(crate::osd::TICK)), [Asked::Whole(Epoch(5))]);
        // The monitor has it no more.
        it.map.epoch = Epoch(7);
        assert_eq!(it.hear(MOSDMap { oldest: Epoch(6), ..MOSDMap::default() }), [Asked::From(3)]);
    }
}

#[test]
fn what_came_too_early_is_asked_for_again_at_once() {
    let mut it = Following::new();
    let wish = || Event::ShardMessage(1, ShardMessage::WantMaps(Epoch(1)));
    assert_eq!((it.handle(wish()), it.handle(wish())), (vec![Asked::From(2)], vec![]));
    it.map.epoch = Epoch(5);
    let others = OsdMap { fsid: Uuid([8; 16]), ..it.map.clone() };
    let fulls = [(Epoch(5), others.to_bytes_and_crc().0)].into();
    let maps = MOSDMap { fulls, oldest: Epoch(4), ..MOSDMap::default() };
    assert_eq!(it.hear(maps), [Asked::Whole(Epoch(5))]);
    it.map.epoch = Epoch(7);
    assert_eq!(it.hear(MOSDMap { oldest: Epoch(6), ..MOSDMap::default() }), [Asked::From(2)]);
}

#[test]
fn an_incremental_with_the_full_map_of_another_epoch_is_not_taken() {
    let mut it = Following::new();
    let (bytes, full_crc) = it.map.to_bytes_and_crc();
    let inc = Incremental { fullmap: bytes, full_crc, ..Incremental::new(Uuid([1; 16]), Epoch(2)) };
    it.next(false);
    let incrementals = [(Epoch(2), inc.to_bytes(Features::PACIFIC))].into();
    assert_eq!(it.hear(MOSDMap { incrementals, ..MOSDMap::default() }), [Asked::Whole(Epoch(2))]);
    assert_eq!(it.osd.map.epoch, Epoch(1));
}
