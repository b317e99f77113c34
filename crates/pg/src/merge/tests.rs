//! What was split becomes one again; what does not fit is not merged.

use store::ObjectStore;
use types::{Epoch, LogEntry, PgId, PgMergeMeta, PgState, ReqId};

use super::*;
use crate::{Event, log, pg::Phase, split::tests::*, test_world};

/// A PG and the one that was split off it, in the map in which they are at rest.
fn parted() -> (World, Pg, Pg) {
    let (mut world, mut pg) = filled();
    world.grow(4);
    let mut child = split(&mut world, &mut pg).remove(0);
    for pg in [&mut pg, &mut child] {
        world.with(|ctx| pg.handle(Event::NewMap, ctx));
    }
    assert_eq!(child.pgid.seed, 3);
    (world, pg, child)
}

/// The map that merges them.
fn shrink(world: &mut World, pg: &Pg, child: &Pg) {
    world.map.epoch = world.map.epoch.next();
    let ready = Epoch(world.map.epoch.0 - 1);
    let pool = world.map.pools.get_mut(&world.pool).unwrap();
    pool.set_pg_num(3);
    pool.last_pg_merge_meta = PgMergeMeta {
        source_pgid: child.pgid,
        ready_epoch: ready,
        last_epoch_started: ready,
        last_epoch_clean: ready,
        source_version: child.info.last_update,
        target_version: pg.info.last_update,
    };
}

#[test]
fn what_was_split_is_whole_again() {
    let (mut world, mut pg, mut child) = parted();
    child.info.last_user_version = 1_000_000;
    let (newest, at_rest) = (pg.info.last_update, world.map.epoch);
    let other = PgId::new(world.pool, 3);
    shrink(&mut world, &pg, &child);
    assert!(pg.is_cut_too_fine(&world.map) && child.is_cut_too_fine(&world.map));
    assert!(pg.can_merge(&child, &world.map));
    world.with(|ctx| pg.merge(child, ctx));
    assert!(!pg.is_cut_too_fine(&world.map));

    let found = world.objects(pg.pgid);
    assert_eq!(found.len() as u64, 2 * OBJECTS);
    for object in &found {
        assert_eq!(world.store.omap_get(pg.coll, object, b"k").unwrap().as_deref(), Some(&b"v"[..]));
    }
    assert!(!world.store.collection_exists(types::CollId::pg(other)));
    assert_eq!(pg.missing.len() as u64, OBJECTS / 10);
    assert_eq!((pg.info.totals.objects, pg.info.totals.bytes), (2 * OBJECTS, OBJECTS * (OBJECTS + 1)));
    // A client that sends a request again is answered, whichever of the two PGs it was for.
    let reqid = |tid| ReqId { tid, ..ReqId::default() };
    assert!((1..=OBJECTS).all(|tid| pg.log.find(&reqid(tid)).is_some()));
    // No log leads here from before.
    assert!(pg.info.last_update > newest && pg.info.log_tail == pg.info.last_update);
    let needs_list = |last| pg.needs_list(log::Span { last, ..log::Span::default() });
    assert!(needs_list(newest) && pg.log.iter().all(|entry| needs_list(entry.version)));
    assert_eq!(pg.info.last_user_version, 1_000_000);
    // A new interval, and the one in which both were at rest is the past.
    assert_eq!((pg.info.since, pg.info.primary_since), (world.map.epoch, world.map.epoch));
    assert_eq!((pg.info.pg_num, pg.info.last_epoch_clean, pg.info.epoch), (3, at_rest, world.map.epoch));
    assert!(pg.intervals.iter().all(|interval| interval.last == at_rest));
    // A crash leaves just this.
    let loaded = Pg::load(9, pg.pgid, world.me, &world.store).unwrap().unwrap();
    assert_eq!((&loaded.info, &loaded.missing), (&pg.info, &pg.missing));
    assert!(loaded.log.iter().eq(pg.log.iter()) && loaded.intervals == pg.intervals);
    assert!(Pg::load(9, other, world.me, &world.store).unwrap().is_none());
}

#[test]
fn a_copy_that_is_not_at_the_version_is_not_merged() {
    let (mut world, mut pg, mut child) = parted();
    shrink(&mut world, &pg, &child);
    let at = child.info.last_update;
    for version in [0, at.version - 1, at.version + 1] {
        child.info.last_update.version = version;
        assert!(!pg.can_merge(&child, &world.map));
    }
    child.info.last_update = EVersion::new(at.epoch.next(), at.version);
    assert!(!pg.can_merge(&child, &world.map), "of another history");
    child.info.last_update = at;
    pg.info.last_update.version += 1;
    assert!(!pg.can_merge(&child, &world.map));
    pg.info.last_update.version -= 1;
    assert!(pg.can_merge(&child, &world.map));
    // The maps between are gone: what was merged in them is not known.
    world.map.epoch = world.map.epoch.next();
    assert!(!pg.can_merge(&child, &world.map));
    assert!(pg.is_cut_too_fine(&world.map) && child.is_cut_too_fine(&world.map));
    world.with(|ctx| child.discard(ctx));
    assert!(child.is_removed() && world.objects(child.pgid).is_empty());
}

#[test]
fn other_pgs_of_the_pool_are_left_alone() {
    let (mut world, pg, child) = parted();
    shrink(&mut world, &pg, &child);
    let mut third = Pg::absent(7, PgId::new(world.pool, 0), world.me);
    third.info.pg_num = 4;
    assert!(!third.is_cut_too_fine(&world.map));
    // Two PGs less.
    world.map.pools.get_mut(&world.pool).unwrap().set_pg_num(2);
    assert!(third.is_cut_too_fine(&world.map) && !pg.can_merge(&child, &world.map));
}

#[test]
fn the_newest_requests_of_both_are_known() {
    let log_of = |from: u64| {
        let entry = |at: u64| LogEntry {
            version: EVersion::new(Epoch(1), at + 1),
            reqid: ReqId { tid: from + at, ..ReqId::default() },
            ..LogEntry::default()
        };
        log::PgLog::from_entries((0..2_000).map(entry).collect())
    };
    let end = EVersion::new(Epoch(2), 2_000 + log::ENTRIES_KEPT as u64 + 1);
    let merged = log::merge_requests(&log_of(1), &log_of(10_001), end);
    assert_eq!(merged.len(), log::ENTRIES_KEPT);
    let knows = |tid| merged.find(&ReqId { tid, ..ReqId::default() }).is_some();
    assert!(knows(2_000) && knows(501) && knows(12_000) && knows(10_501));
    assert!(!knows(500) && !knows(10_500));
    assert!(merged.iter().all(|entry| entry.version < end && entry.version.version > 2_000));
    let few = log::merge_requests(&log::PgLog::default(), &log_of(1), end);
    assert_eq!(few.len(), 2_000);
}

#[test]
fn a_pg_that_waits_to_be_merged_is_clean_and_changes_nothing() {
    let mut world = test_world::World::active();
    let (pool, pgid) = (world.pg.pgid.pool, world.pg.pgid);
    let set_pending = |world: &mut test_world::World, pending: u32| {
        world.map.epoch = world.map.epoch.next();
        let of_pool = world.map.pools.get_mut(&pool).unwrap();
        (of_pool.pg_num, of_pool.pg_num_pending) = (2, pending);
        let at = usize::try_from(world.pg.me.0).unwrap();
        world.map.osd_info[at].up_thru = world.map.epoch;
        world.pg.info.pg_num = 2;
        world.handle(Event::NewMap);
        world.activate_all();
        world.hear_all();
    };
    // Of a pool of two from here on.
    set_pending(&mut world, 2);
    assert_eq!(world.pg.state(), PgState::ACTIVE.with(PgState::CLEAN));
    set_pending(&mut world, 1);
    assert_eq!(world.pg.phase, Phase::Active);
    assert_eq!(world.pg.state(), PgState::PEERED.with(PgState::PREMERGE).with(PgState::CLEAN));
    let version = world.pg.info.last_update;
    world.write(1, 7);
    assert_eq!((world.pg.info.last_update, world.replicated().len()), (version, 0), "it waits");
    set_pending(&mut world, 2);
    assert_eq!(world.replicated().len(), 1, "it goes on as before");
    assert_eq!(world.pg.pgid, pgid);
}
