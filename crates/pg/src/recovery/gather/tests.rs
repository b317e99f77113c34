//! A primary and a replica hand each other objects in parts.

use bytes::Bytes;
use messages::{MOSDRepOp, MPgPush, Message};
use store::ObjectStore;
use types::{LogEntry, PgTotals, Token};

use super::*;
use crate::{Event, test_world::World};

const MIB: usize = 1 << 20;
/// A part is at most so long, and a value or block longer.
const PART_BYTES_MAX: usize = 9 * MIB;

/// What is large: 20 MiB of data with a hole before, xattrs of 10 MiB, an omap of 21 MiB.
fn large(world: &World, version: u64) -> Transaction {
    let object = world.object(1);
    let mut txn = world.content(1, version);
    let data = Bytes::from(vec![version as u8; 20 * MIB]);
    txn.push(&object, Mutation::Write { offset: 5 * MIB as u64, data: data.into() });
    let pair =
        |at: usize, bytes: usize| (Bytes::from(format!("k{at:05}")), Bytes::from(vec![at as u8; bytes]));
    txn.push(&object, Mutation::SetXattrs((0..10).map(|at| pair(at, MIB)).collect()));
    txn.push(&object, Mutation::OmapSetHeader(Bytes::from_static(b"header")));
    txn.push(&object, Mutation::OmapSet((0..21 << 10).map(|at| pair(at, 1 << 10)).collect()));
    txn
}

/// A primary that has the object, and a replica that lacks it and has an older one.
fn pair() -> [World; 2] {
    let (mut primary, mut replica) = (World::active(), World::replica());
    let object = primary.object(1);
    let txn = large(&primary, 2);
    primary.store.submit(Token(0), txn);
    let need = primary.version(2);
    replica.pg.missing.insert(object.clone(), need);
    primary.pg.is_clean = false;
    primary.pg.peer_missing.insert(replica.pg.me, [(object, need)].into());
    primary.act(|pg, ctx| pg.recover(ctx));
    [primary, replica]
}

/// Delivers what the two say to each other, and counts the parts. Ends before the part of this number, or when nothing
/// is said any more.
fn talk([primary, replica]: &mut [World; 2], parts_max: usize) -> usize {
    let (first, second) = (primary.pg.me, replica.pg.me);
    let mut parts = 0;
    loop {
        let mut has_spoken = false;
        for (osds, message) in primary.told() {
            if osds.contains(&second) {
                if let Message::MPgPush(push) = &message {
                    assert!(push.txn.bytes_at_most() < PART_BYTES_MAX, "{}", push.txn.bytes_at_most());
                    if parts == parts_max {
                        return parts;
                    }
                    parts += 1;
                }
                has_spoken = true;
                replica.say(first, message);
            }
        }
        for (osds, message) in replica.told() {
            if osds.contains(&first) {
                has_spoken = true;
                primary.say(second, message);
            }
        }
        if !has_spoken {
            return parts;
        }
    }
}

/// Objects besides the PG's record and its three.
fn leftovers(world: &World) -> usize {
    world.store.list(world.pg.coll, &HObject::min(), 99).unwrap().len() - 4
}

type Pairs = Vec<(Bytes, Bytes)>;

fn content(world: &World, object: &HObject) -> (Bytes, Pairs, Bytes, Pairs) {
    let (store, coll) = (&world.store, world.pg.coll);
    (
        store.read(coll, object, 0, u64::MAX).unwrap(),
        store.xattrs(coll, object).unwrap(),
        store.omap_header(coll, object).unwrap(),
        store.omap_range(coll, object, std::ops::Bound::Unbounded, store::OmapMost::ALL).unwrap(),
    )
}

fn kept(world: &World) -> Vec<HObject> {
    crate::meta::load(&world.store, world.pg.coll).unwrap().unwrap().gathered
}

#[test]
fn a_large_object_comes_in_parts_and_takes_its_place_at_last() {
    let mut worlds = pair();
    let object = worlds[0].object(1);
    assert_eq!(talk(&mut worlds, 5), 5);
    let [_, replica] = &worlds;
    assert_eq!((replica.stored(1), leftovers(replica), kept(replica)), (1, 1, vec![object.clone()]));
    // The part that was held back.
    let mut worlds = pair();
    assert!((6..9).contains(&talk(&mut worlds, usize::MAX)));
    let [primary, replica] = &worlds;
    assert!(content(primary, &object) == content(replica, &object));
    assert_eq!((replica.missing(), leftovers(replica), kept(replica)), (vec![], 0, vec![]));
    assert!(primary.pg.peer_missing[&replica.pg.me].is_empty() && primary.pg.recovery.active() == 0);
}

#[test]
fn what_is_put_together_goes_with_its_interval() {
    let mut worlds = pair();
    talk(&mut worlds, 3);
    let [_, replica] = &mut worlds;
    assert_eq!(leftovers(replica), 1);
    replica.act(|pg, ctx| pg.start_interval(ctx));
    assert_eq!((replica.stored(1), leftovers(replica), kept(replica)), (1, 0, vec![]));
    assert!(replica.pg.missing.contains_key(&replica.object(1)));
}

#[test]
fn what_is_put_together_goes_when_its_pg_is_loaded() {
    let mut worlds = pair();
    talk(&mut worlds, 3);
    let [_, replica] = &mut worlds;
    let (pgid, me) = (replica.pg.pgid, replica.pg.me);
    replica.pg = Pg::load(1, pgid, me, &replica.store).unwrap().unwrap();
    assert_eq!(leftovers(replica), 1);
    replica.act(|pg, ctx| pg.resume(ctx));
    assert_eq!((leftovers(replica), kept(replica)), (0, vec![]));
}

#[test]
fn what_is_put_together_goes_when_its_object_does() {
    let mut worlds = pair();
    talk(&mut worlds, 3);
    let [_, replica] = &mut worlds;
    let (version, object) = (replica.version(4), replica.object(1));
    let mut txn = Transaction::new(replica.pg.coll);
    txn.push(&object, Mutation::Remove);
    let entry = LogEntry { is_delete: true, ..replica.entry(1, 4, 1) };
    let change = MOSDRepOp {
        pgid: replica.pg.pgid,
        epoch: replica.map.epoch,
        version,
        log: vec![LogEntry { object, ..entry }],
        trim_to: EVersion::ZERO,
        totals: PgTotals::default(),
        txn,
        committed_to: EVersion::ZERO,
    };
    replica.say(replica.peers[0], change.into());
    let objects = replica.store.list(replica.pg.coll, &HObject::min(), 99).unwrap();
    assert_eq!((replica.missing(), objects.len(), kept(replica)), (vec![], 3, vec![]));
}

#[test]
fn an_object_that_changes_meanwhile_is_sent_again_from_the_beginning() {
    let mut worlds = pair();
    talk(&mut worlds, 3);
    let [primary, replica] = &mut worlds;
    let (object, txn) = (primary.object(1), large(primary, 3));
    primary.store.submit(Token(0), txn);
    let (need, me) = (primary.version(3), replica.pg.me);
    replica.pg.missing.insert(object.clone(), need);
    primary.pg.peer_missing.insert(me, [(object.clone(), need)].into());
    // The part that was held back is asked for again.
    let last = replica.pg.gathered.0[&object].clone().unwrap();
    replica.act(|pg, ctx| pg.on_part_durable(last, ctx));
    talk(&mut worlds, usize::MAX);
    let [primary, replica] = &worlds;
    assert!(content(primary, &object) == content(replica, &object));
    assert_eq!((replica.stored(1), leftovers(replica), kept(replica)), (3, 0, vec![]));
}

#[test]
fn a_part_that_does_not_follow_is_left_alone() {
    let mut worlds = pair();
    talk(&mut worlds, 2);
    let [_, replica] = &mut worlds;
    let (pgid, epoch, object) = (replica.pg.pgid, replica.map.epoch, replica.object(1));
    let begin = ObjectCursor { data: 1, ..ObjectCursor::default() };
    let (version, txn) = (replica.version(2), Transaction::new(replica.pg.coll));
    let part = MPgPush { pgid, epoch, object, version, txn, begin, next: None };
    replica.say(replica.peers[0], part.into());
    assert_eq!((replica.stored(1), leftovers(replica), replica.missing().len()), (1, 1, 1));
}

#[test]
fn what_is_put_together_goes_when_there_is_no_room_for_the_next_part() {
    let mut worlds = pair();
    talk(&mut worlds, 2);
    let (mib, me) = (MIB as u64, worlds[1].pg.me);
    let [_, replica] = &mut worlds;
    let last = replica.pg.gathered.0[&replica.object(1)].clone().unwrap();
    replica.set_room(me, 16 * mib);
    replica.act(|pg, ctx| pg.on_part_durable(last, ctx));
    assert_eq!(talk(&mut worlds, usize::MAX), 1);
    let [primary, replica] = &mut worlds;
    assert_eq!((replica.stored(1), leftovers(replica), kept(replica)), (1, 0, vec![]));
    assert_eq!((replica.missing().len(), primary.recovery.active.taken()), (1, 0));
    // There was no room for more than one part, about, so there has to be some for all that came and more.
    primary.set_room(me, 16 * mib);
    primary.handle(Event::Tick);
    assert_eq!(primary.recovery.active.taken(), 0);
    for world in &mut worlds {
        world.set_room(me, 400 * mib);
    }
    worlds[0].handle(Event::Tick);
    assert!(talk(&mut worlds, usize::MAX) > 5);
    let [primary, replica] = &worlds;
    let object = primary.object(1);
    assert!(content(primary, &object) == content(replica, &object));
    assert_eq!((replica.missing(), leftovers(replica), kept(replica)), (vec![], 0, vec![]));
}

/// The sender need not have lost anything: the receiver puts the pieces together in order.
#[test]
fn the_primary_pulls_in_parts_as_well() {
    let [mut primary, mut replica] = pair();
    let object = primary.object(1);
    let txn = large(&replica, 2);
    replica.store.submit(Token(0), txn);
    replica.pg.missing.clear();
    primary.pg.recovery.clear();
    primary.pg.peer_missing.clear();
    let mut gone = Transaction::new(primary.pg.coll);
    gone.push(&object, Mutation::Remove);
    primary.store.submit(Token(0), gone);
    primary.told();
    let (me, need) = (replica.pg.me, primary.version(2));
    primary.pg.missing.insert(object.clone(), need);
    primary.pg.peer_info.retain(|osd, _| *osd == me);
    primary.handle(Event::Tick);
    let mut worlds = [primary, replica];
    talk(&mut worlds, usize::MAX);
    let [primary, replica] = &worlds;
    assert!(content(primary, &object) == content(replica, &object));
    assert_eq!((primary.missing(), leftovers(primary), kept(primary)), (vec![], 0, vec![]));
}
