//! A primary whose copies are bad: what is unfound, what it asks, and what becomes of it.

mod damage;

use messages::{BackoffOp, MOSDRepOpReply, MPgNotify, Message, OpCode, OsdOp};
use store::{MemStore, ObjectStore};
use types::{Epoch, IntervalSet, Missing, PgInfo, PgInterval, PgState, Token};

use super::*;
use crate::{Event, OpThrottle, test_world::World, watched_store::WatchedStore};

/// A client that knows of backoffs, or one that does not, reads an object.
fn read(world: &mut World, budget: &OpThrottle, session: u64, knows_backoffs: bool) {
    let mut event = world.asking(1, session, vec![OsdOp::new(OpCode::STAT)]);
    if let Event::Op { client, permit, .. } = &mut event {
        client.features = if knows_backoffs { Features::RADOS_BACKOFF } else { 0 };
        (client.session, *permit) = (session, budget.take(0));
    }
    world.handle(event);
}

/// The sessions that were told of backoffs, or that they are over, since it was asked last.
fn told_of_backoffs(world: &mut World, which: BackoffOp) -> Vec<u64> {
    let is_told =
        |effect: &mut Effect| matches!(effect, Effect::Tell(_, Message::MOSDBackoff(m)) if m.op == which);
    let told = world.effects.extract_if(.., is_told);
    told.filter_map(|effect| if let Effect::Tell(session, _) = effect { Some(session) } else { None })
        .collect()
}

#[test]
fn an_object_is_unfound_when_the_last_copy_turns_out_bad() {
    let mut world = World::of(2);
    let (object, budget) = (world.object(1), OpThrottle::default());
    let (state, unfound) = (PgState::RECOVERY_UNFOUND, |world: &World| world.pg.unfound_count());
    world.act(|pg, ctx| pg.repair(&object, ctx));
    read(&mut world, &budget, 1, true);
    read(&mut world, &budget, 1, true);
    assert_eq!((budget.ops(), told_of_backoffs(&mut world, BackoffOp::BLOCK)), (2, vec![]));
    assert!(unfound(&world) == 0 && world.pg.state().has(PgState::RECOVERING), "the others are asked");
    for peer in world.peers.clone() {
        assert_eq!(unfound(&world), 0);
        world.push(peer, 1, 0);
    }
    assert!(unfound(&world) == 1 && world.pg.state().has(state) && world.pg.is_unfound(&object));
    assert!(world.pg.is_all_probed(&world.map) && !world.pg.is_unfound(&world.object(2)));
    // Clients hold what waits for it, and what they ask later, even behind one that cannot.
    assert_eq!((budget.ops(), told_of_backoffs(&mut world, BackoffOp::BLOCK)), (0, vec![1]));
    assert!(world.pg.is_object_idle(&object));
    read(&mut world, &budget, 1, true);
    assert_eq!((budget.ops(), told_of_backoffs(&mut world, BackoffOp::BLOCK)), (0, vec![]));
    read(&mut world, &budget, 2, false);
    read(&mut world, &budget, 3, true);
    assert_eq!((budget.ops(), told_of_backoffs(&mut world, BackoffOp::BLOCK)), (1, vec![3]));
    let listed = world.pg.list_unfound(&world.map);
    assert_eq!((&listed["num_unfound"], &listed["objects"][0]["oid"]["oid"]), (&1.into(), &"o1".into()));
    // An OSD that was away comes back and has everything: the object is found, and pulled.
    let (pgid, epoch, info) = (world.pg.pgid, world.map.epoch, world.pg.info.clone());
    let up: Vec<OsdId> = world.map.osds().filter(|osd| world.map.is_up(*osd)).collect();
    let stray = up.into_iter().find(|osd| *osd != world.pg.me && !world.peers.contains(osd));
    let stray = stray.expect("a map with more OSDs than copies");
    let (intervals, leases) = (Vec::new(), Vec::new());
    world.say(stray, MPgNotify { pgid, epoch, info, intervals, leases }.into());
    assert!(unfound(&world) == 0 && world.pg.state().has(PgState::RECOVERING));
    assert_eq!(told_of_backoffs(&mut world, BackoffOp::UNBLOCK), [1, 3]);
    read(&mut world, &budget, 4, true);
    // It goes before it has sent the object, and comes back.
    let (version, txn) = (world.version(1), world.content(1, 1));
    let index = usize::try_from(stray.0).unwrap();
    let up = world.map.osd_state[index];
    for (is_up, told) in [(false, vec![4]), (true, vec![])] {
        world.map.epoch = world.map.epoch.next();
        world.map.osd_state[index] = if is_up { up } else { types::OsdState::EXISTS };
        world.handle(Event::NewMap);
        assert_eq!(unfound(&world), usize::from(!is_up));
        assert_eq!((budget.ops(), told_of_backoffs(&mut world, BackoffOp::BLOCK)), (1, told));
    }
    world.say(stray, messages::MPgPush::whole((pgid, epoch), object.clone(), version, txn).into());
    assert!(!world.pg.is_missing(&object) && budget.ops() == 0);
}

#[test]
fn what_is_given_up_is_what_it_was_before_or_gone() {
    for (how, offers, kept) in [
        (GiveUp::Delete, [0, 0], 0),
        (GiveUp::Revert, [0, 0], 0),
        (GiveUp::Revert, [1, 0], 1),
        (GiveUp::Revert, [1, 2], 2),
        // The log does not know this version.
        (GiveUp::Revert, [9, 0], 0),
        // The very version that is lost, where it is bad.
        (GiveUp::Revert, [3, 1], 1),
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
        let at = crate::object_versions::object_version(&world.store, world.pg.coll, &object).unwrap();
        assert_eq!(at, if kept == 0 { EVersion::ZERO } else { entry.version }, "{how:?} {offers:?}");
        assert!(world.pg.info.is_estimated && world.pg.missing.is_empty());
        assert_eq!(entry.version.epoch, Epoch(world.map.epoch.0));
    }
}

#[test]
fn what_no_osd_has_room_for_becomes_what_it_was_when_there_is_some() {
    let mut world = World::active();
    let (first, second) = (world.peers[0], world.peers[1]);
    world.lose(3);
    world.handle(Event::GiveUp(GiveUp::Revert));
    for (room, left) in [(0, 1), (1 << 20, 0)] {
        world.set_room(second, room);
        world.handle(Event::Tick);
        world.push(first, 3, 1);
        world.push(second, 3, 2);
        assert_eq!((world.pg.unfound_count(), world.stored(3) > 0), (left, left == 0));
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

#[test]
fn an_older_version_counts_however_old_it_is_where_it_is_a_members() {
    let world = World::of(2);
    let (tail, object) = (world.version(3), world.object(3));
    let up: Vec<OsdId> = world.map.osds().filter(|osd| world.map.is_up(*osd)).collect();
    let stray = up.into_iter().find(|osd| *osd != world.pg.me && !world.peers.contains(osd)).unwrap();
    for (who, kept) in [(stray, 0), (world.peers[0], 2)] {
        let mut world = World::of(2);
        world.act(|pg, _| {
            // The log is past all that it told of the object.
            pg.log.trim(tail, 0);
            pg.info.log_tail = tail;
            pg.peer_info.insert(stray, types::PgInfo { last_update: tail, ..types::PgInfo::default() });
        });
        world.lose(3);
        world.push(stray, 3, 0);
        world.replicated();
        world.handle(Event::GiveUp(GiveUp::Revert));
        for osd in [stray, world.peers[0]] {
            world.push(osd, 3, if osd == who { 2 } else { 0 });
        }
        let entries = world.replicated();
        let lost_to: Vec<_> = entries.iter().map(|entry| (&entry.object, entry.lost_to)).collect();
        assert_eq!(lost_to, [(&object, Some(world.version(kept)))], "{who} has it");
    }
}

#[test]
fn a_head_that_becomes_older_names_no_clone_that_was_trimmed_since() {
    let clone = |id: u64, snaps: &[u64]| CloneInfo {
        id: SnapId(id),
        snaps: snaps.iter().copied().map(SnapId).collect(),
        ..CloneInfo::default()
    };
    let of = |clones: Vec<CloneInfo>| SnapSet { seq: SnapId(5), clones };
    for (is_whiteout, clones, left) in [
        (false, vec![clone(2, &[2]), clone(5, &[5, 4])], Some(vec![clone(5, &[5])])),
        (false, vec![clone(2, &[2])], Some(vec![])),
        (true, vec![clone(2, &[2])], None),
        (true, vec![clone(2, &[2]), clone(5, &[5])], Some(vec![clone(5, &[5])])),
    ] {
        let mut world = World::active();
        world.lose(3);
        world.replicated();
        let mut purged = IntervalSet::new();
        [2, 4].into_iter().for_each(|snap| purged.insert(snap, 1));
        world.pg.learn_purged_snaps(&purged);
        world.handle(Event::GiveUp(GiveUp::Revert));
        let (pgid, epoch, object, version) =
            (world.pg.pgid, world.map.epoch, world.object(3), world.version(1));
        let mut txn = world.content(3, 1);
        let info = ObjectInfo { version, is_whiteout, ..ObjectInfo::default() };
        let f = Features::default();
        let system = [(INFO_XATTR, info.to_bytes(f)), (SNAPSET_XATTR, of(clones).to_bytes(f))];
        let system = system.map(|(name, value)| (Bytes::from_static(name), value));
        *txn.ops.last_mut().unwrap() = TxnOp::Object(object.clone(), Mutation::SetXattrs(system.into()));
        let peers = world.peers.clone();
        world.say(peers[0], messages::MPgPush::whole((pgid, epoch), object.clone(), version, txn).into());
        world.push(peers[1], 3, 0);
        let entries = world.replicated();
        let [entry] = &entries[..] else { panic!("{entries:?}") };
        assert_eq!(entry.is_delete, left.is_none());
        let kept = world.store.xattr(world.pg.coll, &object, SNAPSET_XATTR).unwrap();
        assert_eq!(kept.map(|bytes| SnapSet::from_bytes(bytes).unwrap()), left.map(of));
    }
}

/// A head in an older version, as a copy offers it.
fn older_head(world: &World, at: u64, snapset: &SnapSet) -> Message {
    let (pgid, epoch, version) = (world.pg.pgid, world.map.epoch, world.version(1));
    let mut txn = world.content(at, 1);
    let info = ObjectInfo { version, ..ObjectInfo::default() };
    let f = Features::default();
    let system = [(INFO_XATTR, info.to_bytes(f)), (SNAPSET_XATTR, snapset.to_bytes(f))];
    let system = system.map(|(name, value)| (Bytes::from_static(name), value));
    *txn.ops.last_mut().unwrap() = TxnOp::Object(world.object(at), Mutation::SetXattrs(system.into()));
    messages::MPgPush::whole((pgid, epoch), world.object(at), version, txn).into()
}

/// A pass over the objects had come to the object before its head was lost.
#[test]
fn a_head_that_becomes_older_names_no_clone_that_is_gone_while_a_snapshot_is_being_trimmed() {
    let mut world = World::active();
    let (coll, object) = (world.pg.coll, world.object(3));
    world.lose(3);
    world.replicated();
    let mut removed = IntervalSet::new();
    removed.insert(2, 3);
    world.map.removed_snaps_queue.insert(world.pg.pgid.pool, removed);
    world.pg.removed_snaps = None;
    // One clone is there, one has to be recovered, and one was trimmed; the last one's snapshot was not removed.
    let [there, lacking, gone] = [2, 3, 4].map(|id| object.with_snap(SnapId(id)));
    let mut txn = Transaction::new(coll);
    txn.push(&there, Mutation::Touch);
    world.store.submit(Token(0), txn);
    world.pg.missing.insert(lacking, world.version(1));
    world.handle(Event::GiveUp(GiveUp::Revert));
    let clone = |id: u64| CloneInfo { id: SnapId(id), snaps: vec![SnapId(id)], ..CloneInfo::default() };
    let of = |ids: &[u64]| SnapSet { seq: SnapId(5), clones: ids.iter().copied().map(clone).collect() };
    let offer = older_head(&world, 3, &of(&[2, 3, 4, 5]));
    let peers = world.peers.clone();
    world.push(peers[1], 3, 0);
    let mut store = WatchedStore::lacking(std::mem::replace(&mut world.store, MemStore::new()), gone);
    world.act_on(&mut store, |pg, ctx| pg.handle(Event::Peer(peers[0], offer), ctx));
    assert_eq!(world.replicated(), [], "it is not known yet what is left");
    let loaded = store.loaded.pop_front().unwrap();
    world.act_on(&mut store, |pg, ctx| pg.handle(Event::Store(loaded), ctx));
    assert_eq!(world.replicated().len(), 1);
    let kept = store.xattr(coll, &object, SNAPSET_XATTR).unwrap();
    assert_eq!(kept.map(|bytes| SnapSet::from_bytes(bytes).unwrap()), Some(of(&[2, 3, 5])));
    assert_eq!(store.held_count(), 0);
}

/// The pass was past the object, and had taken the removed snapshot from its clone.
#[test]
fn a_head_that_becomes_older_is_trimmed_again_before_its_snapshot_is_purged() {
    let mut world = World::active();
    let (coll, object, peers) = (world.pg.coll, world.object(3), world.peers.clone());
    let of = |snaps: &[u64]| {
        let snaps = snaps.iter().copied().map(SnapId).collect();
        SnapSet { seq: SnapId(5), clones: vec![CloneInfo { id: SnapId(5), snaps, ..CloneInfo::default() }] }
    };
    let kept = |world: &World| {
        let bytes = world.store.xattr(coll, &object, SNAPSET_XATTR).unwrap().unwrap();
        SnapSet::from_bytes(bytes).unwrap()
    };
    let confirm = |world: &mut World| {
        let (pgid, epoch, version) = (world.pg.pgid, world.map.epoch, world.pg.info.last_update);
        for peer in world.peers.clone() {
            world.say(peer, messages::MOSDRepOpReply { pgid, epoch, version }.into());
        }
    };
    let mut txn = Transaction::new(coll);
    let pair = (Bytes::from_static(SNAPSET_XATTR), of(&[5, 4]).to_bytes(Features::default()));
    txn.push(&object, Mutation::SetXattrs([pair].into()));
    txn.push(&object.with_snap(SnapId(5)), Mutation::Touch);
    world.store.submit(Token(0), txn);
    let mut removed = IntervalSet::new();
    removed.insert(4, 1);
    world.map.removed_snaps_queue.insert(world.pg.pgid.pool, removed);
    world.pg.removed_snaps = None;
    world.handle(Event::Tick);
    assert_eq!(kept(&world), of(&[5]));
    confirm(&mut world);
    world.lose(3);
    world.handle(Event::GiveUp(GiveUp::Revert));
    let offer = older_head(&world, 3, &of(&[5, 4]));
    world.say(peers[0], offer);
    world.push(peers[1], 3, 0);
    assert_eq!((kept(&world), world.pg.unfound_count()), (of(&[5, 4]), 0));
    confirm(&mut world);
    world.handle(Event::Tick);
    assert_eq!((kept(&world), world.pg.info.purged_snaps.contains(4)), (of(&[5]), false));
    confirm(&mut world);
    world.handle(Event::Tick);
    world.handle(Event::Tick);
    assert!(world.pg.info.purged_snaps.contains(4));
}

#[test]
fn what_cannot_be_decoded_is_no_offer() {
    let mut world = World::active();
    world.lose(3);
    world.replicated();
    world.handle(Event::GiveUp(GiveUp::Revert));
    let (pgid, epoch, object, version) = (world.pg.pgid, world.map.epoch, world.object(3), world.version(2));
    let mut txn = world.content(3, 2);
    let pair = (Bytes::from_static(INFO_XATTR), Bytes::from_static(b"?"));
    txn.push(&object, Mutation::SetXattrs([pair].into()));
    txn.ops.remove(2);
    let peers = world.peers.clone();
    world.say(peers[0], messages::MPgPush::whole((pgid, epoch), object.clone(), version, txn).into());
    world.push(peers[1], 3, 1);
    let entries = world.replicated();
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((entry.lost_to, world.stored(3)), (Some(world.version(1)), entry.version.version));
}

#[test]
fn one_of_the_past_that_comes_up_without_its_copy_is_asked_and_holds_nothing_up() {
    let mut world = World::of(2);
    let members = [world.pg.me, world.peers[0]];
    let stray = world.map.osds().find(|osd| world.map.is_up(*osd) && !members.contains(osd)).unwrap();
    let index = usize::try_from(stray.0).unwrap();
    let up = std::mem::replace(&mut world.map.osd_state[index], types::OsdState::EXISTS);
    let (first, last) = (world.map.epoch, world.map.epoch);
    world.pg.intervals.push(PgInterval { first, last, acting: vec![stray], ..PgInterval::default() });
    world.told();
    world.lose(1);
    let asked = |world: &mut World| {
        let told = world.told().into_iter().filter(|(_, message)| matches!(message, Message::MPgQuery(_)));
        told.flat_map(|(osds, _)| osds).collect::<Vec<_>>()
    };
    assert!(
        world.pg.unfound_count() == 1 && !world.pg.is_all_probed(&world.map) && asked(&mut world).is_empty()
    );
    world.map.epoch = world.map.epoch.next();
    world.map.osd_state[index] = up;
    world.map.osd_info[index].up_from = world.map.epoch;
    world.handle(Event::NewMap);
    assert_eq!(asked(&mut world), [stray]);
    let (pgid, epoch, info) = (world.pg.pgid, world.map.epoch, PgInfo::default());
    world.say(stray, MPgNotify { pgid, epoch, info, intervals: Vec::new(), leases: Vec::new() }.into());
    assert!(world.pg.unfound_count() == 1 && world.pg.is_all_probed(&world.map));
    world.map.epoch = world.map.epoch.next();
    world.handle(Event::NewMap);
    assert!(asked(&mut world).is_empty(), "once is enough");
}

/// It would have to be a change of that size, and what becomes of it is not what an operator wanted.
#[test]
fn what_is_too_large_to_be_what_it_was_stays_unfound() {
    let mut world = World::active();
    world.lose(3);
    world.handle(Event::GiveUp(GiveUp::Revert));
    let (pgid, epoch, object) = (world.pg.pgid, world.map.epoch, world.object(3));
    let (version, txn) = (world.version(1), world.content(3, 1));
    let next = messages::ObjectCursor { data: 1, ..messages::ObjectCursor::default() };
    let part =
        messages::MPgPush { pgid, epoch, object, version, txn, begin: Default::default(), next: Some(next) };
    let peers = world.peers.clone();
    world.say(peers[0], part.into());
    world.push(peers[1], 3, 0);
    assert_eq!((world.pg.unfound_count(), world.replicated()), (1, vec![]));
}

/// One copy is too large to go back to, so that the other's answer settles nothing: it is the lost version, which is
/// bad there.
#[test]
fn what_is_offered_when_nobody_asks_any_more_is_not_taken() {
    let mut world = World::active();
    world.lose(3);
    world.handle(Event::GiveUp(GiveUp::Revert));
    let (pgid, epoch, object) = (world.pg.pgid, world.map.epoch, world.object(3));
    let (version, txn) = (world.version(1), world.content(3, 1));
    let next = Some(messages::ObjectCursor { data: 1, ..messages::ObjectCursor::default() });
    let part = messages::MPgPush { pgid, epoch, object, version, txn, begin: Default::default(), next };
    let peers = world.peers.clone();
    world.say(peers[0], part.into());
    world.told();
    world.push(peers[1], 3, 3);
    assert_eq!((world.missing(), world.pg.unfound_count()), (vec![(world.object(3), 3)], 1));
    // It has come: no more than that is said of it.
    let is_reply = |message: &Message| matches!(message, Message::MPgPushReply(_));
    assert!(world.stored(3) == 0 && world.told().iter().all(|(_, message)| is_reply(message)));
}

#[test]
fn nothing_is_given_up_while_the_pg_is_about_to_be_merged() {
    for how in [GiveUp::Revert, GiveUp::Delete] {
        let mut world = World::active();
        world.lose(3);
        world.told();
        world.pg.members.is_merging = true;
        world.handle(Event::GiveUp(how));
        let asked = world.told().into_iter().any(|(_, message)| matches!(message, Message::MPgPull(_)));
        assert!(!asked && world.pg.unfound_count() == 1, "it would be asked for again and again");
    }
}

#[test]
fn objects_are_given_up_as_fast_as_members_confirm_that() {
    let mut world = World::of(2);
    let (pgid, epoch, peer, tail) = (world.pg.pgid, world.map.epoch, world.peers[0], world.version(3));
    world.act(|pg, _| {
        // The log is past all that it told of the objects.
        pg.log.trim(tail, 0);
        pg.info.log_tail = tail;
    });
    let lost = (10..).map(|at| (world.object(at), world.version(1))).take(3 * IN_FLIGHT_MAX);
    let lost: Missing = lost.collect();
    world.pg.peer_missing.insert(peer, lost.clone());
    world.pg.missing = lost;
    world.pg.is_clean = false;
    world.act(|pg, ctx| pg.look_for_all(ctx));
    world.handle(Event::GiveUp(GiveUp::Delete));
    for left in [2 * IN_FLIGHT_MAX, IN_FLIGHT_MAX, 0] {
        assert_eq!((world.replicated().len(), world.pg.unfound_count()), (IN_FLIGHT_MAX, left));
        let version = world.pg.info.last_update;
        world.say(peer, MOSDRepOpReply { pgid, epoch, version }.into());
    }
    assert!(world.pg.missing.is_empty() && world.pg.is_clean);
}

#[test]
fn an_interval_that_ends_before_all_is_given_up_says_so() {
    let mut world = World::active();
    world.lose(3);
    world.handle(Event::GiveUp(GiveUp::Revert));
    let warnings = |world: &mut World| {
        let is_warning = |effect: &Effect| matches!(effect, Effect::ClusterLog(LogLevel::WARN, _));
        world.effects.extract_if(.., |effect| is_warning(effect)).count()
    };
    for said in [1, 0] {
        world.act(|pg, ctx| pg.start_interval(ctx));
        assert_eq!(warnings(&mut world), said);
    }
}

#[test]
fn an_object_that_is_given_up_is_awaited_no_more() {
    let mut world = World::active();
    world.lose(3);
    let awaited = |world: &World| world.pg.held().find(|(kind, _)| *kind == "recovery");
    assert!(awaited(&world).is_some());
    world.handle(Event::GiveUp(GiveUp::Delete));
    world.confirm_all();
    assert_eq!(awaited(&world), None);
}
