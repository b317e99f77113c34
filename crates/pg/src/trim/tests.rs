//! Trimming of snapshots: when it is done, and which OSDs are told.

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{MOSDRepOpReply, MPgInfo, Message};
use store::ObjectStore;
use types::{Mutation, OsdId, PgState, Token, Transaction, UTime};

use super::*;
use crate::{
    Event,
    exec::{CloneInfo, SNAPSET_XATTR, SnapSet},
    test_world::World,
};

fn snaps(snap: u64) -> IntervalSet {
    let mut out = IntervalSet::new();
    out.insert(snap, 1);
    out
}

/// The snapshots that the members were told to be purged.
fn shared(world: &mut World) -> Vec<(Vec<OsdId>, IntervalSet)> {
    let told = world.told().into_iter();
    told.filter_map(|(osds, message)| match message {
        Message::MPgInfo(m) => Some((osds, m.purged_snaps)),
        _ => None,
    })
    .collect()
}

/// The first object has a clone that only snapshot 5 needs.
fn keep_clone(world: &mut World) {
    keep_clone_of(world, 1);
}

fn keep_clone_of(world: &mut World, at: u64) {
    let clone = CloneInfo { id: SnapId(5), snaps: vec![SnapId(5)], size: 1, overlap: IntervalSet::new() };
    let snapset = SnapSet { seq: SnapId(5), clones: vec![clone] };
    let mut txn = Transaction::new(world.pg.coll);
    let pair = (Bytes::from_static(SNAPSET_XATTR), snapset.to_bytes(Features::default()));
    txn.push(&world.object(at), Mutation::SetXattrs([pair].into()));
    txn.push(&world.object(at).with_snap(SnapId(5)), Mutation::Touch);
    world.store.submit(Token(0), txn);
}

/// How many objects were trimmed since it was asked last.
fn trimmed(world: &mut World) -> usize {
    world.replicated().iter().filter(|entry| entry.object.is_head()).count()
}

#[test]
fn a_snapshot_is_purged_when_all_members_have_its_clones_removed() {
    let mut world = World::active();
    keep_clone(&mut world);
    world.map.removed_snaps_queue.insert(world.pg.pgid.pool, snaps(5));
    let peers = world.peers.clone();
    world.handle(Event::Tick);
    let version = world.pg.info.last_update;
    assert!(version > world.version(3) && world.pg.state().has(PgState::SNAPTRIM));
    let reply = MOSDRepOpReply { pgid: world.pg.pgid, epoch: world.map.epoch, version };
    world.say(peers[0], reply.into());
    world.handle(Event::Tick);
    assert!(shared(&mut world).is_empty() && !world.pg.snaps_to_trim(&world.map).is_empty());
    world.say(peers[1], reply.into());
    world.handle(Event::Tick);
    assert_eq!(shared(&mut world), [(peers, snaps(5))]);
    assert!(world.pg.snaps_to_trim(&world.map).is_empty() && !world.pg.state().has(PgState::SNAPTRIM));
}

#[test]
fn what_is_trimmed_is_reported_while_more_is_removed() {
    let mut world = World::active();
    world.map.removed_snaps_queue.insert(world.pg.pgid.pool, snaps(5));
    world.act(|pg, _| pg.info.purged_snaps = snaps(3));
    world.handle(Event::Tick);
    let reported = |world: &mut World| {
        let stat = world.pg.stat(&world.map, UTime::default());
        (stat.purged_snaps, stat.snaptrimq_len)
    };
    assert_eq!(reported(&mut world), (snaps(5), 0), "of those that the map has forgotten nobody asks");
    world.map.removed_snaps_queue.get_mut(&world.pg.pgid.pool).unwrap().insert(7, 1);
    assert_eq!(reported(&mut world), (snaps(5), 1));
}

#[test]
fn trimming_waits_for_members_that_do_not_follow_and_for_a_lease() {
    let mut world = World::active();
    (1..=120).for_each(|at| keep_clone_of(&mut world, at));
    world.map.removed_snaps_queue.insert(world.pg.pgid.pool, snaps(5));
    world.handle(Event::Tick);
    world.handle(Event::Tick);
    assert_eq!(trimmed(&mut world), 64);
    world.confirm_all();
    world.now = world.now + 2 * crate::LEASE;
    world.handle(Event::Tick);
    assert_eq!(trimmed(&mut world), 0);
    world.hear_all();
    world.handle(Event::Tick);
    assert_eq!(trimmed(&mut world), 56);
}

#[test]
fn an_object_that_is_written_all_the_time_is_trimmed() {
    let mut world = World::active();
    keep_clone(&mut world);
    world.write(1, 1);
    world.map.removed_snaps_queue.insert(world.pg.pgid.pool, snaps(5));
    world.replicated();
    world.handle(Event::Tick);
    assert_eq!(trimmed(&mut world), 1);
    world.write(1, 2);
    world.confirm_all();
    world.write(1, 3);
    world.handle(Event::Tick);
    assert_eq!(shared(&mut world), [(world.peers.clone(), snaps(5))]);
}

#[test]
fn an_object_that_is_busy_keeps_no_clones_of_others() {
    let mut world = World::active();
    (1..=3).for_each(|at| keep_clone_of(&mut world, at));
    let (head, waiting) = (world.object(1), world.waiting(1, 1));
    let load = world.act(|pg, _| pg.put_aside(&head, waiting));
    world.map.removed_snaps_queue.insert(world.pg.pgid.pool, snaps(5));
    world.handle(Event::Tick);
    assert_eq!(trimmed(&mut world), 2);
    // As long as anything is left the snapshot is not purged.
    world.handle(Event::Tick);
    assert!(trimmed(&mut world) == 0 && world.pg.state().has(PgState::SNAPTRIM));
    world.act(|pg, ctx| pg.resume_with_answer(&head, load, 0, 0, ctx));
    world.replicated();
    world.handle(Event::Tick);
    assert_eq!(trimmed(&mut world), 1);
    world.confirm_all();
    world.handle(Event::Tick);
    assert_eq!(shared(&mut world), [(world.peers.clone(), snaps(5))]);
}

#[test]
fn clones_of_purged_snapshots_are_looked_for_when_an_operator_says_so() {
    let mut world = World::active();
    keep_clone(&mut world);
    world.act(|pg, _| pg.info.purged_snaps = snaps(5));
    world.handle(Event::Tick);
    let before = world.pg.info.last_update;
    assert!(!world.pg.state().has(PgState::SNAPTRIM));
    world.act(|pg, _| pg.trim_purged_snaps());
    world.handle(Event::Tick);
    assert!(world.pg.info.last_update > before && world.pg.state().has(PgState::SNAPTRIM));
}

#[test]
fn replicas_learn_what_is_purged_from_the_primary_and_from_the_map() {
    let mut world = World::replica();
    let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
    let info = MPgInfo { pgid, epoch, purged_snaps: snaps(5), ..MPgInfo::default() };
    world.say(world.peers[0], info.into());
    // A primary of an older release says nothing of them.
    world.say(world.peers[0], MPgInfo { pgid, epoch, ..MPgInfo::default() }.into());
    assert_eq!(*world.pg.purged_snaps(), snaps(5));
    world.map.epoch = world.map.epoch.next();
    world.map.new_purged_snaps.insert(pgid.pool, snaps(7));
    world.handle(Event::NewMap);
    assert!(world.pg.purged_snaps().contains(5) && world.pg.purged_snaps().contains(7));
}

#[test]
fn an_operator_may_hold_trimming_back() {
    let mut world = World::active();
    (1..=120).for_each(|at| keep_clone_of(&mut world, at));
    world.map.removed_snaps_queue.insert(world.pg.pgid.pool, snaps(5));
    // Before the pass begins, and while it is under way.
    for at_once in [64, 56] {
        for (flags, count) in [(MapFlags::NOSNAPTRIM, 0), (MapFlags::default(), at_once)] {
            world.map.flags = flags;
            (0..2).for_each(|_| world.handle(Event::Tick));
            assert_eq!(trimmed(&mut world), count);
            assert_eq!(world.pg.state().has(PgState::SNAPTRIM), count > 0);
        }
        world.confirm_all();
    }
}
