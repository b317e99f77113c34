//! What a primary asks for, and when it has done with it.

mod clones;

use messages::{MPgBadCopy, MPgNotify, MPgPushRefused, Message};
use store::ObjectStore;
use types::{MapFlags, OsdState};

use super::*;
use crate::{Event, test_world::World};

fn pulls(world: &mut World) -> usize {
    world.told().iter().filter(|(_, message)| matches!(message, Message::MPgPull(_))).count()
}

#[test]
fn an_object_is_pulled_once() {
    let mut world = World::active();
    let (pgid, epoch, object) = (world.pg.pgid, world.map.epoch, world.object(1));
    let (version, txn, peer) = (world.version(1), world.content(1, 1), world.peers[0]);
    world.act(|pg, ctx| pg.repair(&object, ctx));
    assert_eq!(pulls(&mut world), 1);
    // It came, and is not durable.
    let push = MPgPush::whole((pgid, epoch), object, version, txn);
    world.act(|pg, ctx| pg.handle(Event::Peer(peer, push.into()), ctx));
    world.act(|pg, ctx| pg.handle(Event::Tick, ctx));
    assert_eq!((pulls(&mut world), world.missing().len()), (0, 1));
    world.handle(Event::Tick);
    assert!(
        world.missing().is_empty() && world.pg.recovery.active() == 0 && world.pg.state().has(PgState::CLEAN)
    );
    let counted = world.pg.counters();
    assert_eq!((counted.objects_recovered, counted.bytes_recovered), (1, 10));
}

#[test]
fn what_is_pushed_counts_as_recovered() {
    let mut world = World::active();
    let (pgid, epoch, object, peer) = (world.pg.pgid, world.map.epoch, world.object(1), world.peers[0]);
    world.pg.is_clean = false;
    world.pg.peer_missing.insert(peer, [(object.clone(), world.version(1))].into());
    world.act(|pg, ctx| pg.recover(ctx));
    world.say(peer, MPgPushReply { pgid, epoch, object }.into());
    let counted = world.pg.counters();
    assert_eq!((counted.objects_recovered, counted.bytes_recovered), (1, 10));
}

#[test]
fn a_copy_that_was_told_to_go_is_no_source() {
    let mut world = World::active();
    let stray = OsdId(world.peers.iter().map(|peer| peer.0).chain([world.pg.me.0]).max().unwrap() + 1);
    let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
    let info = PgInfo { last_update: world.pg.info.last_update, ..PgInfo::default() };
    let notify = || MPgNotify { pgid, epoch, info: info.clone(), intervals: Vec::new(), leases: Vec::new() };
    let removals = |world: &mut World| {
        let told = world.told().into_iter();
        let clean = told.filter(|(_, message)| matches!(message, Message::MPgClean(clean) if clean.remove));
        clean.map(|(osds, _)| osds).collect::<Vec<_>>()
    };
    // It is heard of when the PG is clean.
    world.told();
    world.say(stray, notify().into());
    assert_eq!(removals(&mut world), [[stray]]);
    assert!(!world.pg.peer_info.contains_key(&stray));
    // And before.
    world.pg.is_clean = false;
    world.pg.peer_missing.insert(world.peers[0], [(world.object(1), world.version(1))].into());
    world.pg.peer_missing.insert(stray, [(world.object(2), world.version(2))].into());
    world.say(stray, notify().into());
    assert!(world.pg.peer_info.contains_key(&stray) && removals(&mut world).is_empty());
    world.say(world.peers[0], MPgPushReply { pgid, epoch, object: world.object(1) }.into());
    assert_eq!(removals(&mut world), [[stray]]);
    assert!(!world.pg.peer_info.contains_key(&stray) && !world.pg.peer_missing.contains_key(&stray));
}

#[test]
fn who_does_not_have_what_is_pulled_is_passed_over() {
    let mut world = World::active();
    let (object, first, second) = (world.object(1), world.peers[0], world.peers[1]);
    let asked = |world: &mut World| {
        let told = world.told().into_iter();
        let pulls = told.filter(|(_, message)| matches!(message, Message::MPgPull(_)));
        pulls.flat_map(|(osds, _)| osds).collect::<Vec<_>>()
    };
    world.act(|pg, ctx| pg.repair(&object, ctx));
    let one = asked(&mut world);
    assert!(one.len() == 1);
    world.push(one[0], 1, 0);
    let other = if one[0] == first { second } else { first };
    assert_eq!(asked(&mut world), [other]);
    world.push(other, 1, 1);
    assert_eq!(world.missing(), []);
}

#[test]
fn flags_hold_back_what_no_request_waits_for() {
    let mut world = World::active();
    let (peer, first, second) = (world.peers[0], world.object(1), world.object(2));
    let lacking = [(first.clone(), world.version(1)), (second.clone(), world.version(2))];
    world.pg.is_clean = false;
    world.pg.peer_missing.insert(peer, lacking.into());
    let pushed = |world: &mut World| {
        let told = world.told().into_iter();
        let pushes = told.filter_map(|(_, message)| match message {
            Message::MPgPush(push) => Some(push.object),
            _ => None,
        });
        pushes.collect::<Vec<_>>()
    };
    for (flag, does_act) in [
        (MapFlags::NORECOVER, true),
        (MapFlags::NORECOVER, false),
        (MapFlags::NOBACKFILL, false),
        (MapFlags::NOREBALANCE, false),
    ] {
        // A member that does not act is filled.
        world.pg.members.acting = world.pg.members.up.clone();
        world.pg.members.acting.retain(|osd| *osd != peer || does_act);
        world.pg.members.size = world.pg.members.acting.len() as u8;
        world.pg.recovery.clear();
        world.map.flags = flag;
        world.act(|pg, ctx| pg.recover(ctx));
        assert_eq!(pushed(&mut world), []);
        world.act(|pg, ctx| pg.recover_soon(&second, ctx));
        assert_eq!(pushed(&mut world), std::slice::from_ref(&second));
        world.map.flags = MapFlags::default();
        world.act(|pg, ctx| pg.recover(ctx));
        assert_eq!(pushed(&mut world), std::slice::from_ref(&first));
    }
}

#[test]
fn osds_that_are_too_full_are_given_only_what_requests_wait_for() {
    let mut world = World::active();
    let (peer, first, second) = (world.peers[0], world.object(1), world.object(2));
    world.pg.is_clean = false;
    let lacking = [(first.clone(), world.version(1)), (second.clone(), world.version(2))];
    world.pg.peer_missing.insert(peer, lacking.into());
    let at = usize::try_from(peer.0).unwrap();
    let up = world.map.osd_state[at];
    let (acting, full) = (world.pg.members.acting.clone(), PgState::BACKFILL_TOOFULL);
    for (state, does_act, told) in [
        (OsdState::FULL, true, PgState::RECOVERY_TOOFULL),
        (OsdState::FULL, false, full),
        (OsdState::BACKFILLFULL, false, full),
    ] {
        world.pg.members.acting = acting.clone();
        world.pg.members.acting.retain(|osd| *osd != peer || does_act);
        world.pg.recovery.clear();
        world.map.osd_state[at] = up.with(state, true);
        world.act(|pg, ctx| pg.recover(ctx));
        assert_eq!((world.pg.recovery.active(), world.pg.state().has(told)), (0, true));
        world.act(|pg, ctx| pg.recover_soon(&second, ctx));
        assert_eq!(world.pg.recovery.active(), 1);
        world.map.osd_state[at] = up;
        world.act(|pg, ctx| pg.recover(ctx));
        assert_eq!((world.pg.recovery.active(), world.pg.state().has(told)), (2, false));
    }
    // It says so itself, sooner than the map.
    world.pg.members.acting = acting.clone();
    world.pg.recovery.clear();
    world.set_room(peer, 0);
    world.act(|pg, ctx| pg.recover(ctx));
    assert_eq!((world.pg.recovery.active(), world.pg.state().has(PgState::RECOVERY_TOOFULL)), (0, true));
    world.set_room(peer, 1 << 30);
    world.act(|pg, ctx| pg.recover(ctx));
    assert_eq!(world.pg.recovery.active(), 2);
    // An OSD that acts is held back only by its last reserve of space.
    world.pg.members.acting = acting;
    world.pg.recovery.clear();
    world.map.osd_state[at] = up.with(OsdState::BACKFILLFULL, true);
    world.act(|pg, ctx| pg.recover(ctx));
    assert_eq!(world.pg.recovery.active(), 2);
}

#[test]
fn what_a_full_primary_lacks_waits() {
    let mut world = World::active();
    let (me, object) = (usize::try_from(world.pg.me.0).unwrap(), world.object(1));
    world.map.osd_state[me] = world.map.osd_state[me].with(OsdState::FULL, true);
    world.pg.missing.insert(object.clone(), world.version(1));
    world.pg.is_clean = false;
    world.act(|pg, ctx| pg.recover(ctx));
    assert_eq!((pulls(&mut world), world.pg.state().has(PgState::RECOVERY_TOOFULL)), (0, true));
    world.act(|pg, ctx| pg.recover_soon(&object, ctx));
    assert_eq!(pulls(&mut world), 1);
}

const MIB: u64 = 1 << 20;

/// A world whose first object has a MiB.
fn with_large_object(mut world: World) -> World {
    let txn = large(&world, 1);
    world.store.submit(Token(0), txn);
    world
}

fn large(world: &World, version: u64) -> Transaction {
    let mut txn = world.content(1, version);
    let data = bytes::Bytes::from(vec![1; MIB as usize]).into();
    txn.push(&world.object(1), Mutation::Write { offset: 0, data });
    txn
}

/// A request that waits for the object does not change that.
#[test]
fn no_osd_is_sent_what_it_has_no_room_for() {
    let mut world = with_large_object(World::active());
    let (pgid, epoch, peer, other) = (world.pg.pgid, world.map.epoch, world.peers[0], world.peers[1]);
    let (first, second) = (world.object(1), world.object(2));
    world.pg.is_clean = false;
    let lacking = [(first.clone(), world.version(1)), (second.clone(), world.version(2))];
    for osd in [peer, other] {
        world.pg.peer_missing.insert(osd, lacking.clone().into());
    }
    let sent = |world: &mut World, room: u64| {
        world.set_room(peer, room);
        world.act(|pg, ctx| pg.recover_soon(&first, ctx));
        world.handle(Event::Tick);
        let told = world.told().into_iter();
        let to =
            |osd| move |(osds, message): &(_, _)| *osds == [osd] && matches!(message, Message::MPgPush(_));
        let pushes: Vec<_> = told.collect();
        let count = |osd| pushes.iter().filter(|push| to(osd)(push)).count();
        (count(peer), count(other), world.pg.state().has(PgState::RECOVERY_TOOFULL))
    };
    assert_eq!(sent(&mut world, 0), (0, 2, true));
    assert_eq!(sent(&mut world, MIB), (0, 0, true));
    assert_eq!(world.recovery.active.taken(), 2, "what is put off has no slot");
    assert_eq!(sent(&mut world, MIB), (0, 0, true));
    assert_eq!(sent(&mut world, 4 * MIB), (2, 0, false));
    // The OSD knows better.
    let refusal = MPgPushRefused { pgid, epoch, object: first.clone(), bytes: 2 * MIB };
    world.say(peer, refusal.clone().into());
    assert!(world.pg.state().has(PgState::RECOVERY_TOOFULL));
    world.say(peer, MPgPushReply { pgid, epoch, object: second }.into());
    assert_eq!(sent(&mut world, 2 * MIB), (0, 0, true));
    assert_eq!(sent(&mut world, 8 * MIB), (1, 0, false));
    world.say(peer, MPgPushReply { pgid, epoch, object: first.clone() }.into());
    world.say(peer, refusal.into());
    assert!(!world.pg.state().has(PgState::RECOVERY_TOOFULL), "it has the object");
}

#[test]
fn a_replica_refuses_what_it_has_no_room_for() {
    let mut world = World::replica();
    let (pgid, epoch, me, primary) = (world.pg.pgid, world.map.epoch, world.pg.me, world.peers[0]);
    let (object, version) = (world.object(1), world.version(4));
    let change = world.entry(1, 4, 1);
    world.activate(3, vec![change], 4, None);
    let replies = |world: &mut World, room: u64| {
        world.told();
        world.set_room(me, room);
        let push = MPgPush::whole((pgid, epoch), object.clone(), version, large(world, 4));
        world.say(primary, push.into());
        let told = world.told().into_iter().map(|(_, message)| match message {
            Message::MPgPushRefused(refused) => refused.bytes,
            Message::MPgPushReply(_) => 0,
            other => panic!("{}", other.name()),
        });
        told.collect::<Vec<_>>()
    };
    for room in [0, MIB] {
        let replies = replies(&mut world, room);
        assert!(replies.len() == 1 && replies[0] > MIB, "{replies:?}");
        assert_eq!((world.missing().len(), world.stored(1)), (1, 1));
    }
    assert_eq!((replies(&mut world, 4 * MIB), world.missing(), world.stored(1)), (vec![0], vec![], 4));
}

#[test]
fn a_primary_takes_nothing_that_it_has_no_room_for() {
    let mut world = World::active();
    let (me, object) = (world.pg.me, world.object(1));
    world.set_room(me, MIB);
    world.act(|pg, ctx| pg.repair(&object, ctx));
    assert_eq!(pulls(&mut world), 1);
    let source = world.pg.recovery.pulling[&object].0;
    let (pgid, epoch, version) = (world.pg.pgid, world.map.epoch, world.version(1));
    let push = |world: &World| MPgPush::whole((pgid, epoch), object.clone(), version, large(world, 1));
    let pushed = push(&world);
    world.say(source, pushed.into());
    assert_eq!((world.missing().len(), world.recovery.active.taken()), (1, 0));
    assert!(world.pg.state().has(PgState::RECOVERY_TOOFULL));
    // Though a request waits for it.
    world.act(|pg, ctx| pg.recover_soon(&object, ctx));
    world.handle(Event::Tick);
    assert_eq!(pulls(&mut world), 0);
    world.set_room(me, 8 * MIB);
    world.handle(Event::Tick);
    assert_eq!(pulls(&mut world), 1);
    let pushed = push(&world);
    world.say(world.pg.recovery.pulling[&object].0, pushed.into());
    assert!(world.missing().is_empty() && !world.pg.state().has(PgState::RECOVERY_TOOFULL));
}

#[test]
fn a_pg_waits_when_the_osd_has_enough_on_its_way() {
    let mut world = World::active();
    let peer = world.peers[0];
    let lacking: Vec<_> = (1..=3).map(|at| (world.object(at), world.version(at))).collect();
    world.pg.is_clean = false;
    world.pg.peer_missing.insert(peer, lacking.into_iter().collect());
    world.recovery.active_max = 1;
    let elsewhere = world.recovery.active.take();
    world.handle(Event::Tick);
    assert_eq!((world.pg.recovery.active(), world.recovery.active.taken()), (0, 1));
    assert!(!world.pg.recovery.is_idle());
    // What a request waits for goes all the same.
    let wanted = world.object(3);
    world.act(|pg, ctx| pg.recover_soon(&wanted, ctx));
    assert_eq!((world.pg.recovery.active(), world.recovery.active.taken()), (1, 2));
    world.recovery.active_max = 3;
    drop(elsewhere);
    world.handle(Event::Tick);
    assert_eq!((world.pg.recovery.active(), world.recovery.active.taken()), (3, 3));
    world.act(|pg, _| pg.recovery.clear());
    assert_eq!(world.recovery.active.taken(), 0);
}

#[test]
fn what_ops_wait_for_waits_for_nothing_else_and_goes_in_their_order() {
    let mut world = World::active();
    let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
    let peers = world.peers.clone();
    let lacking: Missing = (10..80).map(|at| (world.object(at), world.version(1))).collect();
    world.pg.is_clean = false;
    world.pg.peer_missing.insert(peers[0], lacking.clone());
    world.pg.peer_missing.insert(peers[1], lacking);
    // The second lacks much, and does not act.
    world.pg.members.acting.retain(|osd| *osd != peers[1]);
    let pushed = |world: &mut World| {
        let told = world.told().into_iter();
        let pushes = told.filter_map(|(osds, message)| match message {
            Message::MPgPush(push) => Some((osds[0], push.object)),
            _ => None,
        });
        pushes.collect::<Vec<_>>()
    };
    world.act(|pg, ctx| pg.recover(ctx));
    assert_eq!(pushed(&mut world).len(), ACTIVE_MAX);
    let objects = [79, 78, 60, 59, 58].map(|at| world.object(at));
    for object in &objects {
        world.act(|pg, ctx| pg.recover_soon(object, ctx));
    }
    let both = |object: &HObject| peers.iter().map(|peer| (*peer, object.clone())).collect::<Vec<_>>();
    assert_eq!(pushed(&mut world), objects[..4].iter().flat_map(both).collect::<Vec<_>>());
    // Objects come that sort before: the one that came first still has its turn first.
    let late = world.object(50);
    world.act(|pg, ctx| pg.recover_soon(&late, ctx));
    for peer in &peers {
        world.say(*peer, MPgPushReply { pgid, epoch, object: objects[0].clone() }.into());
    }
    assert_eq!(pushed(&mut world), both(&objects[4]));
}

#[test]
fn a_copy_counts_as_repaired_where_a_good_one_takes_its_place() {
    let mut world = World::replica();
    let (pgid, epoch, primary) = (world.pg.pgid, world.map.epoch, world.peers[0]);
    let (object, version) = (world.object(2), world.version(2));
    world.say(primary, MPgBadCopy { pgid, epoch, object, version }.into());
    assert_eq!(world.pg.copies_repaired(), 0);
    world.push(primary, 2, 2);
    assert_eq!((world.missing().len(), world.pg.copies_repaired()), (0, 1));
    // What was only missed was not bad.
    let change = world.entry(2, 4, 2);
    world.activate(3, vec![change], 4, None);
    world.push(primary, 2, 4);
    assert_eq!((world.missing().len(), world.pg.copies_repaired()), (0, 1));

    let mut world = World::active();
    let object = world.object(1);
    world.act(|pg, ctx| pg.repair(&object, ctx));
    world.push(world.peers[0], 1, 1);
    assert_eq!(world.pg.copies_repaired(), 1);
}

#[test]
fn a_replica_takes_objects_of_the_primary_that_it_follows_alone() {
    let mut world = World::replica();
    let change = world.entry(2, 4, 2);
    world.activate(3, vec![change], 4, None);
    let lacking = (vec![(world.object(2), 4)], 2);
    let (primary, other) = (world.peers[0], world.peers[1]);
    for osd in [other, OsdId(77)] {
        world.push(osd, 2, 4);
        assert_eq!((world.missing(), world.stored(2)), lacking, "of {osd}");
    }
    world.act(|pg, ctx| pg.start_interval(ctx));
    world.push(primary, 2, 4);
    assert_eq!((world.missing(), world.stored(2)), lacking, "before it is activated");
    world.activate(4, Vec::new(), 4, None);
    world.push(primary, 2, 4);
    assert_eq!((world.missing(), world.stored(2)), (vec![], 4));
}

#[test]
fn a_bad_copy_that_is_given_up_is_not_repaired() {
    let mut world = World::active();
    world.lose(1);
    world.handle(Event::GiveUp(crate::GiveUp::Delete));
    assert_eq!(world.missing(), []);
    // What was asked for before comes late.
    world.push(world.peers[0], 1, 1);
    assert_eq!((world.stored(1), world.pg.copies_repaired()), (0, 0));
}

/// The first push of an object that was sent to any OSD: its version and the length of its transaction.
fn pushed(world: &mut World) -> Vec<(EVersion, usize)> {
    let told = world.told().into_iter();
    let pushes = told.filter_map(|(_, message)| match message {
        Message::MPgPush(push) => Some((push.version, push.txn.ops.len())),
        _ => None,
    });
    pushes.collect()
}

#[test]
fn a_copy_whose_info_cannot_be_decoded_is_replaced_and_not_spread() {
    let mut world = World::active();
    let (first, second, object) = (world.peers[0], world.peers[1], world.object(1));
    world.damage(1);
    world.pg.is_clean = false;
    world.pg.peer_missing.insert(first, [(object, world.version(1))].into());
    world.handle(Event::Tick);
    assert_eq!(pushed(&mut world), []);
    assert_eq!(world.missing(), [(world.object(1), 1)]);
    // What the other one has is good, and goes to both.
    world.handle(Event::Tick);
    world.push(second, 1, 1);
    assert_eq!((world.missing(), world.stored(1)), (vec![], 1));
    let [(version, ops)] = pushed(&mut world)[..] else { panic!("it is pushed once") };
    assert!(version == world.version(1) && ops > 0);
}

#[test]
fn a_replica_whose_info_cannot_be_decoded_says_that_it_lacks_the_object() {
    let mut world = World::replica();
    let (pgid, epoch, primary) = (world.pg.pgid, world.map.epoch, world.peers[0]);
    world.damage(2);
    let pull = |world: &World, version| MPgPull {
        pgid,
        epoch,
        object: world.object(2),
        version,
        ..MPgPull::default()
    };
    // A pull of whatever version there is.
    let any = pull(&world, EVersion::ZERO);
    world.say(primary, any.into());
    assert_eq!((pushed(&mut world), world.missing()), (vec![(EVersion::ZERO, 0)], vec![]));
    let this = pull(&world, world.version(2));
    world.say(primary, this.into());
    assert_eq!(pushed(&mut world), [(EVersion::ZERO, 0)]);
    assert_eq!(world.missing(), [(world.object(2), 2)]);
    // So a good copy is taken.
    world.push(primary, 2, 2);
    assert_eq!((world.missing(), world.stored(2)), (vec![], 2));
}

#[test]
fn a_replica_that_can_do_nothing_with_a_push_says_so() {
    let mut world = World::replica();
    let change = world.entry(2, 4, 2);
    world.activate(3, vec![change], 4, None);
    world.told();
    let primary = world.peers[0];
    for version in [0, 2] {
        world.push(primary, 2, version);
        assert_eq!(
            (pushed(&mut world), world.missing()),
            (vec![(EVersion::ZERO, 0)], vec![(world.object(2), 4)])
        );
    }
    world.push(primary, 2, 4);
    assert_eq!((world.missing(), world.stored(2)), (vec![], 4));
}

#[test]
fn a_primary_whose_push_is_refused_looks_for_a_good_copy() {
    let mut world = World::active();
    let (first, second, object) = (world.peers[0], world.peers[1], world.object(1));
    world.pg.is_clean = false;
    world.pg.peer_missing.insert(first, [(object.clone(), world.version(2))].into());
    world.handle(Event::Tick);
    assert_eq!(pushed(&mut world).len(), 1);
    world.push(first, 1, 0);
    assert_eq!(world.missing(), [(object, 2)]);
    assert_eq!((pulls(&mut world), world.pg.recovery.active()), (1, 1));
    world.push(second, 1, 2);
    assert_eq!((pushed(&mut world)[0].0, world.stored(1)), (world.version(2), 2));
}

#[test]
fn a_primary_takes_only_what_it_pulls_from_there() {
    let mut world = World::active();
    let object = world.object(1);
    world.act(|pg, ctx| pg.repair(&object, ctx));
    let source = world.pg.recovery.pulling[&object].0;
    let other = world.peers.iter().copied().find(|peer| *peer != source).unwrap();
    for version in [0, 1] {
        world.push(other, 1, version);
        assert_eq!((world.missing().len(), world.pg.recovery.pulling[&object].0), (1, source));
        assert!(world.pg.peer_missing.values().all(Missing::is_empty));
    }
    world.push(source, 1, 1);
    assert_eq!(world.missing(), []);
}

#[test]
fn a_copy_that_is_known_as_bad_is_not_sent() {
    let mut world = World::replica();
    let (pgid, epoch, primary) = (world.pg.pgid, world.map.epoch, world.peers[0]);
    let (object, bad) = (world.object(2), world.version(2));
    world.say(primary, MPgBadCopy { pgid, epoch, object: object.clone(), version: bad }.into());
    let pull = |version| MPgPull { pgid, epoch, object: object.clone(), version, ..MPgPull::default() };
    for version in [EVersion::ZERO, bad] {
        world.told();
        world.say(primary, pull(version).into());
        assert_eq!(pushed(&mut world), [(EVersion::ZERO, 0)]);
    }
    // An older one than what is lacking is good.
    let newer = world.entry(3, 4, 3);
    world.activate(3, vec![newer], 4, None);
    world.told();
    let pull = MPgPull { object: world.object(3), ..pull(EVersion::ZERO) };
    world.say(primary, pull.into());
    assert_eq!(pushed(&mut world)[0].0, world.version(3));
}

/// It is found to be bad while it is read.
#[test]
fn what_turns_out_to_be_bad_is_not_pushed() {
    let mut world = World::active();
    let (first, second, object) = (world.peers[0], world.peers[1], world.object(1));
    world.pg.is_clean = false;
    world.pg.peer_missing.insert(first, [(object.clone(), world.version(1))].into());
    let permit = world.recovery.active.take();
    world.pg.recovery.pushing.insert((first, object.clone()), permit);
    let version = world.version(1);
    world.act(|pg, ctx| pg.declare_missing(object.clone(), version, ctx));
    world.told();
    let push = Push::new(first, object, Measure::of_parts(&world.recovery));
    world.act(|pg, ctx| pg.push(push, ctx));
    assert_eq!((pushed(&mut world), world.pg.recovery.pushing.len()), (vec![], 0));
    world.push(second, 1, 1);
    assert_eq!(pushed(&mut world)[0].0, version);
}

#[test]
fn what_is_unfound_is_looked_at_again_when_a_copy_of_it_comes_up() {
    let mut world = World::of(2);
    let peer = world.peers[0];
    let up: Vec<OsdId> = world.map.osds().filter(|osd| world.map.is_up(*osd)).collect();
    let stray = up.into_iter().find(|osd| *osd != world.pg.me && *osd != peer).unwrap();
    [1, 2].into_iter().for_each(|at| world.lose(at));
    world.handle(Event::Tick);
    let Pg { missing, peer_missing, recovery, .. } = &world.pg;
    let left = (
        recovery.pulls_from.rest(missing).count(),
        recovery.pushes_from[&peer].rest(&peer_missing[&peer]).count(),
    );
    assert_eq!((world.pg.unfound_count(), left), (2, (0, 0)));
    let (pgid, epoch, info) = (world.pg.pgid, world.map.epoch, world.pg.info.clone());
    world.told();
    let (intervals, leases) = (Vec::new(), Vec::new());
    world.say(stray, MPgNotify { pgid, epoch, info, intervals, leases }.into());
    assert_eq!(pulls(&mut world), 2);
    for at in [2, 1] {
        world.push(stray, at, at);
        let told = world.told().into_iter();
        let is_push =
            |message: &Message| matches!(message, Message::MPgPush(push) if push.object == world.object(at));
        assert_eq!(told.filter(|(osds, message)| *osds == [peer] && is_push(message)).count(), 1);
    }
}

/// It was sent when this one was good.
#[test]
fn a_copy_is_found_where_it_has_just_arrived() {
    let mut world = World::of(2);
    let (pgid, epoch, object, peer) = (world.pg.pgid, world.map.epoch, world.object(1), world.peers[0]);
    world.pg.is_clean = false;
    world.pg.peer_missing.insert(peer, [(object.clone(), world.version(1))].into());
    world.act(|pg, ctx| pg.recover(ctx));
    world.act(|pg, ctx| pg.repair(&object, ctx));
    assert_eq!((pulls(&mut world), world.pg.unfound_count()), (0, 1));
    world.say(peer, MPgPushReply { pgid, epoch, object }.into());
    assert_eq!((pulls(&mut world), world.pg.unfound_count()), (1, 0));
}
