//! A PG on a store is split: what it holds, logged and lacks is divided, and survives a crash.

use bytes::Bytes;
use store::{MemStore, ObjectStore};
use types::{EVersion, Epoch, Instant, LogEntry, Mutation, OsdId, PoolId, ReqId, UTime};

use super::*;
use crate::{Event, IntervalStart, Leases, RecoveryPolicy, ScrubPolicy, interval::tests::captured};

pub(crate) const OBJECTS: u64 = 200;

pub(crate) struct World {
    pub(crate) map: OsdMap,
    pub(crate) store: MemStore,
    pub(crate) me: OsdId,
    pub(crate) pool: PoolId,
}

impl World {
    pub(crate) fn with<T>(&mut self, act: impl FnOnce(&mut Ctx<'_>) -> T) -> T {
        let mut effects = Vec::new();
        act(&mut Ctx {
            now: Instant(0),
            wall: UTime::default(),
            store: &mut self.store,
            map: &self.map,
            rooms: &Default::default(),
            leases: &Leases::default(),
            scrub: &ScrubPolicy::default(),
            recovery: &RecoveryPolicy::default(),
            copying: &crate::Slots::default(),
            reading: &crate::ReadSlots::default(),
            notifying: &crate::OpThrottle::default(),
            random: 0,
            effects: &mut effects,
        })
    }

    pub(crate) fn objects(&self, pgid: PgId) -> Vec<HObject> {
        let all = self.store.list(CollId::pg(pgid), &HObject::min(), usize::MAX).unwrap();
        all.into_iter().filter(|object| object.pool == pgid.pool).collect()
    }

    pub(crate) fn grow(&mut self, pg_num: u32) {
        self.map.epoch = self.map.epoch.next();
        self.map.pools.get_mut(&self.pool).unwrap().set_pg_num(pg_num);
    }
}

/// A PG of a pool of two, with objects, clones, a log of them, and some of them missing.
pub(crate) fn filled() -> (World, Pg) {
    let mut map = captured();
    let pool = *map.pools.keys().next().unwrap();
    let of_pool = map.pools.get_mut(&pool).unwrap();
    (of_pool.pg_num, of_pool.pgp_num, of_pool.pg_num_pending) = (2, 2, 2);
    let pgid = PgId::new(pool, 1);
    let me = map.pg_to_up_acting(pgid).acting_primary;
    let epoch = map.epoch;
    let mut world = World { map, store: MemStore::new(), me, pool };
    let start = IntervalStart { since: epoch, primary_since: epoch, seen_since: epoch };
    let mut pg = Pg::absent(1, pgid, me);
    world.with(|ctx| pg.begin(epoch, start, Vec::new(), ctx));
    let mut txn = Transaction::new(pg.coll);
    let mut change = MetaChange::default();
    for at in 0..OBJECTS {
        let hash = (at as u32).wrapping_mul(0x9e37_79b9) | 1;
        let head = HObject {
            oid: Bytes::from(format!("o{at}")),
            pool,
            hash,
            snap: SnapId::HEAD,
            ..HObject::default()
        };
        for object in [head.with_snap(SnapId(3)), head.clone()] {
            let data = Bytes::from(vec![1; at as usize + 1]).into();
            txn.push(&object, Mutation::Write { offset: 0, data });
            txn.push(&object, Mutation::OmapSet([(Bytes::from("k"), Bytes::from("v"))].into()));
        }
        let version = EVersion::new(epoch, at + 1);
        let reqid = ReqId { tid: at + 1, ..ReqId::default() };
        let entry = LogEntry { version, object: head.clone(), reqid, ..LogEntry::default() };
        change.log(&entry);
        pg.log.extend([entry]);
        pg.info.last_update = version;
        if at % 10 == 0 {
            change.missing(&head, Some(version));
            pg.missing.insert(head, version);
        }
    }
    pg.info.totals = PgTotals { objects: 2 * OBJECTS, clones: OBJECTS, bytes: OBJECTS * (OBJECTS + 1) };
    change.info(&pg.info, &mut pg.kept);
    change.into_txn(&mut txn);
    world.store.submit(types::Token(0), txn);
    (world, pg)
}

fn totals_of(objects: &[HObject], bytes: u64) -> PgTotals {
    let clones = objects.iter().filter(|object| !object.is_head()).count() as u64;
    PgTotals { objects: objects.len() as u64, clones, bytes }
}

/// Splits as the OSD does.
pub(crate) fn split(world: &mut World, pg: &mut Pg) -> Vec<Pg> {
    let children: Vec<(u32, PgId)> = (2..).zip(pg.children(&world.map)).collect();
    world.with(|ctx| pg.split(&children, ctx))
}

#[test]
fn what_a_pg_has_is_divided_by_hash_and_nothing_is_lost() {
    for pg_num in [4, 5, 7, 8, 11, 64] {
        let (mut world, mut pg) = filled();
        world.grow(pg_num);
        let mut all = split(&mut world, &mut pg);
        assert_eq!(all.len() as u32, pg_num / 2 - 1);
        assert!(pg.children(&world.map).is_empty(), "once");
        all.push(pg);
        let (mut objects, mut logged, mut lacking, mut totals) = (0, 0, 0, PgTotals::default());
        for pg in &all {
            let is_own =
                |object: &HObject| PgPool::ancestor_of(PgId::new(world.pool, object.hash), pg_num) == pg.pgid;
            let found = world.objects(pg.pgid);
            assert!(found.iter().all(is_own) && pg.log.iter().all(|entry| is_own(&entry.object)));
            assert!(pg.missing.keys().all(is_own));
            for object in &found {
                let omap = world.store.omap_get(pg.coll, object, b"k").unwrap();
                assert_eq!(omap.as_deref(), Some(&b"v"[..]));
            }
            objects += found.len() as u64;
            logged += pg.log.len() as u64;
            lacking += pg.missing.len() as u64;
            totals.objects += pg.info.totals.objects;
            totals.bytes += pg.info.totals.bytes;
            assert_eq!(pg.info.last_update.version, OBJECTS, "all have seen all changes");
            assert_eq!((pg.info.pg_num, pg.info.last_epoch_split), (pg_num, world.map.epoch));
            // A crash leaves just this.
            let loaded = Pg::load(9, pg.pgid, world.me, &world.store).unwrap().unwrap();
            assert_eq!((&loaded.info, &loaded.missing), (&pg.info, &pg.missing));
            assert!(loaded.log.iter().eq(pg.log.iter()) && loaded.intervals == pg.intervals);
        }
        assert_eq!((objects, logged, lacking), (2 * OBJECTS, OBJECTS, OBJECTS / 10));
        assert_eq!((totals.objects, totals.bytes), (2 * OBJECTS, OBJECTS * (OBJECTS + 1)));
    }
}

#[test]
fn parent_and_children_begin_an_interval_and_remember_the_one_before() {
    let (mut world, mut pg) = filled();
    let (before, acting) = (world.map.epoch, pg.members.acting.clone());
    let info = world.map.osd_info.get_mut(usize::try_from(world.me.0).unwrap()).unwrap();
    info.up_thru = before;
    world.grow(4);
    let children = split(&mut world, &mut pg);
    for mut pg in children.into_iter().chain([pg]) {
        world.with(|ctx| pg.handle(Event::NewMap, ctx));
        assert_eq!((pg.info.since, pg.info.primary_since), (world.map.epoch, world.map.epoch));
        let last = pg.intervals.last().unwrap();
        assert_eq!((last.last, &last.acting, last.maybe_went_rw), (before, &acting, true));
    }
}

#[test]
fn a_child_that_was_split_off_before_a_crash_remembers_its_parents_members() {
    let (mut world, mut pg) = filled();
    let (old, acting) = (world.map.clone(), pg.members.acting.clone());
    world.grow(4);
    split(&mut world, &mut pg);
    let child = PgId::new(world.pool, 3);
    let mut loaded = Pg::load(9, child, world.me, &world.store).unwrap().unwrap();
    let new = std::mem::replace(&mut world.map, old);
    world.with(|ctx| loaded.resume(ctx));
    assert_eq!(loaded.members.acting, acting);
    world.map = new;
    assert!(loaded.children(&world.map).is_empty());
    world.with(|ctx| loaded.handle(Event::NewMap, ctx));
    assert_eq!((loaded.info.since, loaded.intervals.len()), (world.map.epoch, pg.intervals.len()));
}

#[test]
fn a_pool_that_grew_elsewhere_leaves_a_pg_alone() {
    let (mut world, mut pg) = filled();
    world.grow(3);
    // The new one comes of the other one.
    assert_eq!(pg.children(&world.map), []);
    world.with(|ctx| pg.handle(Event::NewMap, ctx));
    assert_eq!((pg.info.since, pg.info.pg_num), (Epoch(world.map.epoch.0 - 1), 3));
}

#[test]
fn what_a_split_estimates_is_counted_while_things_change() {
    let (mut world, mut pg) = filled();
    world.grow(4);
    split(&mut world, &mut pg);
    pg.is_clean = true;
    let mut recount = crate::recount::Recount::new();
    assert!(!world.with(|ctx| pg.count_step(&mut recount, 64, ctx)).unwrap());
    // The first object is counted, the last one is not.
    let objects = world.objects(pg.pgid);
    let grown = crate::exec::Delta { bytes: 7, ..crate::exec::Delta::default() };
    recount.note(&objects.first().unwrap().head(), grown);
    recount.note(&objects.last().unwrap().head(), grown);
    pg.recount = Some(recount);
    world.with(|ctx| pg.recount(ctx));
    let sizes = objects.iter().map(|object| world.store.meta(pg.coll, object).unwrap().unwrap().size);
    assert_eq!(pg.info.totals, totals_of(&objects, sizes.sum::<u64>() + 7));
    assert!(!pg.info.is_estimated && pg.recount.is_none());
}

#[test]
fn what_was_pushed_is_not_missing_after_a_split() {
    let (mut world, mut pg) = filled();
    for object in pg.missing.keys().cloned().collect::<Vec<_>>() {
        // The store has not answered yet.
        pg.token(Pending::Pushed { from: OsdId(1), object });
    }
    world.grow(4);
    let children = split(&mut world, &mut pg);
    assert!(!children.is_empty() && children.iter().chain([&pg]).all(|pg| pg.missing.is_empty()));
}
