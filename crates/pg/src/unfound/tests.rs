//! A primary whose copies are bad: what is unfound, what it asks, and what becomes of it.

use messages::{MPgActivated, MPgNotify, MPgPush, Message};
use store::{MemStore, ObjectStore};
use types::{CollId, Epoch, Instant, PgId, PgInfo, PgState, UTime};

use super::*;
use crate::{Event, IntervalStart, Leases, ScrubPolicy, interval::tests::captured};

struct World {
    map: OsdMap,
    store: MemStore,
    effects: Vec<Effect>,
    pg: Pg,
    peers: Vec<OsdId>,
}

impl World {
    /// An active PG with three objects, which all of its three members have.
    fn active() -> World {
        World::of(3)
    }

    /// The same of so many members.
    fn of(size: u8) -> World {
        let mut map = captured();
        let pool = *map.pools.keys().next().unwrap();
        map.pools.get_mut(&pool).unwrap().size = size;
        let pgid = PgId::new(pool, 0);
        let at = map.pg_to_up_acting(pgid);
        let me = at.acting_primary;
        let epoch = map.epoch;
        map.osd_info[usize::try_from(me.0).unwrap()].up_thru = epoch;
        let peers: Vec<OsdId> = at.acting.iter().copied().filter(|osd| *osd != me).collect();
        let mut store = MemStore::new();
        let mut effects = Vec::new();
        let start = IntervalStart { since: epoch, primary_since: epoch };
        let pg = with(&map, &mut store, &mut effects, |cx| Pg::create(1, pgid, me, epoch, start, cx));
        let mut world = World { map, store, effects, pg, peers };
        for at in 1..=3 {
            let version = EVersion::new(epoch, at);
            let object = world.object(at);
            world.pg.log.push(LogEntry { version, object, ..LogEntry::default() });
            let txn = world.content(at, at);
            world.store.submit(types::Token(0), txn);
            world.pg.info.last_update = version;
        }
        let info = PgInfo { last_update: world.pg.info.last_update, ..PgInfo::default() };
        for peer in world.peers.clone() {
            let (info, intervals, leases) = (info.clone(), Vec::new(), Vec::new());
            world.say(peer, MPgNotify { pgid, epoch, info, intervals, leases }.into());
        }
        for peer in world.peers.clone() {
            world.say(peer, MPgActivated { pgid, epoch, missing: types::Missing::new() }.into());
        }
        assert_eq!(world.pg.phase, Phase::Active);
        world
    }

    fn object(&self, at: u64) -> HObject {
        let (pool, snap) = (self.pg.pgid.pool, SnapId::HEAD);
        HObject { oid: Bytes::from(format!("o{at}")), pool, snap, ..HObject::default() }
    }

    /// What makes an object, in a version.
    fn content(&self, at: u64, version: u64) -> Transaction {
        let info = ObjectInfo { version: EVersion::new(self.map.epoch, version), ..ObjectInfo::default() };
        let mut txn = Transaction::new(CollId::pg(self.pg.pgid));
        let object = self.object(at);
        txn.push(&object, Mutation::Remove);
        txn.push(&object, Mutation::Write { offset: 0, data: Bytes::from(vec![version as u8; 10]).into() });
        let pair = (Bytes::from_static(INFO_XATTR), info.to_bytes(Features::default()));
        txn.push(&object, Mutation::SetXattrs([pair].into()));
        txn
    }

    /// Hands an event in, and everything that the store finishes and the PG tells itself after it.
    fn handle(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let World { map, store, effects, pg, .. } = self;
            with(map, store, effects, |cx| pg.handle(event, cx));
            events.extend(store.complete().into_iter().map(Event::Store));
            let me = self.pg.me;
            let is_own = |effect: &mut Effect| matches!(effect, Effect::SendOsd(osd, _) if *osd == me);
            for effect in self.effects.extract_if(.., is_own) {
                if let Effect::SendOsd(_, message) = effect {
                    events.push(Event::Peer(me, message));
                }
            }
        }
    }

    fn say(&mut self, from: OsdId, message: Message) {
        self.handle(Event::Peer(from, message));
    }

    /// A member answers a pull.
    fn push(&mut self, from: OsdId, at: u64, version: u64) {
        let (pgid, epoch, object) = (self.pg.pgid, self.map.epoch, self.object(at));
        let txn = if version == 0 { Transaction::new(self.pg.coll) } else { self.content(at, version) };
        let version = if version == 0 { EVersion::ZERO } else { EVersion::new(epoch, version) };
        self.say(from, MPgPush { pgid, epoch, object, version, txn }.into());
    }

    /// Nobody's copy of the object can be read.
    fn lose(&mut self, at: u64) {
        let object = self.object(at);
        let World { map, store, effects, pg, .. } = self;
        assert!(with(map, store, effects, |cx| pg.repair(&object, cx)));
        // What cannot be read is as good as gone.
        let mut gone = Transaction::new(self.pg.coll);
        gone.push(&object, Mutation::Remove);
        self.store.submit(types::Token(0), gone);
        for peer in self.peers.clone() {
            self.push(peer, at, 0);
        }
    }

    /// The changes that replicas were told of since it was asked last.
    fn replicated(&mut self) -> Vec<LogEntry> {
        let mut out = Vec::new();
        for effect in std::mem::take(&mut self.effects) {
            if let Effect::SendOsds(_, Message::MOSDRepOp(op)) = effect {
                out.extend(op.log);
            }
        }
        out
    }
}

fn with<T>(
    map: &OsdMap,
    store: &mut MemStore,
    effects: &mut Vec<Effect>,
    act: impl FnOnce(&mut Ctx<'_>) -> T,
) -> T {
    act(&mut Ctx {
        now: Instant(u64::MAX / 2),
        wall: UTime::default(),
        store,
        map,
        leases: &Leases::default(),
        scrub: &ScrubPolicy::default(),
        random: 0,
        effects,
    })
}

#[test]
fn an_object_is_unfound_when_the_last_copy_turns_out_bad() {
    let mut world = World::of(2);
    let object = world.object(1);
    let (state, unfound) = (PgState::RECOVERY_UNFOUND, |world: &World| world.pg.unfound_count());
    {
        let World { map, store, effects, pg, .. } = &mut world;
        assert!(with(map, store, effects, |cx| pg.repair(&object, cx)));
    }
    assert!(unfound(&world) == 0 && world.pg.state().has(PgState::RECOVERING), "the others are asked");
    for peer in world.peers.clone() {
        assert_eq!(unfound(&world), 0);
        world.push(peer, 1, 0);
    }
    assert!(unfound(&world) == 1 && world.pg.state().has(state) && world.pg.is_unfound(&object));
    assert!(world.pg.is_all_probed(&world.map) && !world.pg.is_unfound(&world.object(2)));
    let listed = world.pg.list_unfound(&world.map);
    assert_eq!((&listed["num_unfound"], &listed["objects"][0]["oid"]["oid"]), (&1.into(), &"o1".into()));
    // Somebody who was away comes and has all: it is pulled, and found.
    let (pgid, epoch, info) = (world.pg.pgid, world.map.epoch, world.pg.info.clone());
    let up: Vec<OsdId> = world.map.osds().filter(|osd| world.map.is_up(*osd)).collect();
    let stray = up.into_iter().find(|osd| *osd != world.pg.me && !world.peers.contains(osd));
    let stray = stray.expect("a map with more OSDs than copies");
    let (intervals, leases) = (Vec::new(), Vec::new());
    world.say(stray, MPgNotify { pgid, epoch, info, intervals, leases }.into());
    assert!(unfound(&world) == 0 && world.pg.state().has(PgState::RECOVERING));
    world.push(stray, 1, 1);
    assert!(!world.pg.is_missing(&object));
}

#[test]
fn what_is_given_up_is_what_it_was_before_or_gone() {
    for (how, offers, kept) in [
        (GiveUp::Delete, [0, 0], 0),
        (GiveUp::Revert, [0, 0], 0),
        (GiveUp::Revert, [1, 0], 1),
        (GiveUp::Revert, [1, 2], 2),
        // Nobody knows this version.
        (GiveUp::Revert, [9, 0], 0),
    ] {
        let mut world = World::active();
        world.lose(3);
        world.replicated();
        world.handle(Event::GiveUp(how));
        if how == GiveUp::Revert {
            assert_eq!(world.pg.unfound_count(), 1, "it is not known yet what is left");
            for (peer, version) in world.peers.clone().into_iter().zip(offers) {
                world.push(peer, 3, version);
            }
        }
        assert_eq!(world.pg.unfound_count(), 0);
        let object = world.object(3);
        let entries = world.replicated();
        let [entry] = &entries[..] else { panic!("{entries:?}") };
        assert_eq!((&entry.object, entry.is_delete), (&object, kept == 0));
        assert_eq!(entry.lost_to.map(|version| version.version), Some(kept));
        let at = crate::errand::object_version(&world.store, world.pg.coll, &object).unwrap();
        assert_eq!(at, if kept == 0 { EVersion::ZERO } else { entry.version }, "{how:?} {offers:?}");
        assert!(world.pg.info.is_estimated && world.pg.missing.is_empty());
        assert_eq!(entry.version.epoch, Epoch(world.map.epoch.0));
    }
}

#[test]
fn nothing_is_given_up_while_somebody_is_away_who_may_have_it() {
    let mut world = World::active();
    world.lose(2);
    let away = OsdId(world.map.max_osd - 1);
    let index = usize::try_from(away.0).unwrap();
    let (first, last) = (Epoch(1), Epoch(2));
    let interval = types::PgInterval { first, last, acting: vec![away], ..types::PgInterval::default() };
    world.pg.intervals.push(interval);
    world.pg.peer_info.remove(&away);
    assert!(!world.pg.is_all_probed(&world.map));
    let mut map = world.map.clone();
    map.osd_info[index].lost_at = Epoch(map.osd_info[index].up_from.0 + 1);
    assert!(world.pg.is_all_probed(&map), "it is lost");
}
