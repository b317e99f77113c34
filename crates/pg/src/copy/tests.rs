//! Which primary is asked for an object's contents, and when it answers.

use std::collections::BTreeSet;

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{
    MOSDRepOpReply, MPgActivated, MPgNotify, MPgPush, Message, ObjectLocator, OpCode, OpParams, OsdOp,
    op_flag, osd_flag,
};
use store::{Completion, MemStore, ObjectStore, ReadError};
use types::{Chunk, EVersion, IntervalSet, Mutation, PgInfo, PoolId, SnapId, object_hash};

use super::*;
use crate::{
    Event, LEASE,
    exec::{CloneInfo, INFO_XATTR, ObjectInfo, SNAPSET_XATTR, SnapSet},
    test_world::World,
    watched_store::WatchedStore,
};

fn question(world: &World, object: HObject) -> MPgCopyGet {
    MPgCopyGet { pgid: world.pg.pgid, epoch: world.map.epoch, object, asker: world.pg.pgid, id: 7 }
}

/// The answers since it was asked last: their results.
fn answers(world: &mut World) -> Vec<i32> {
    let told = world.told().into_iter();
    let data = told.filter_map(|(_, message)| match message {
        Message::MPgCopyData(data) => Some(data.result),
        _ => None,
    });
    data.collect()
}

/// What makes the clone of the first object that is read at snapshot 4.
fn clone_of(world: &World) -> (HObject, Transaction) {
    let clone = world.object(1).with_snap(SnapId(5));
    let info = ObjectInfo { version: world.version(1), ..ObjectInfo::default() };
    let mut txn = Transaction::new(world.pg.coll);
    txn.push(&clone, Mutation::Write { offset: 0, data: Bytes::from_static(b"old").into() });
    let pair = (Bytes::from_static(INFO_XATTR), info.to_bytes(Features::default()));
    txn.push(&clone, Mutation::SetXattrs([pair].into()));
    (clone, txn)
}

#[test]
fn a_clone_that_cannot_be_copied_is_replaced_under_its_own_name() {
    let mut world = World::active();
    let (clone, txn) = clone_of(&world);
    world.store.submit(Token(0), txn.clone());
    let (id, snaps, overlap) = (SnapId(5), vec![SnapId(4), SnapId(5)], IntervalSet::new());
    let snapset = SnapSet { seq: SnapId(5), clones: vec![CloneInfo { id, snaps, size: 3, overlap }] };
    let pair = (Bytes::from_static(SNAPSET_XATTR), snapset.to_bytes(Features::default()));
    let mut head = Transaction::new(world.pg.coll);
    head.push(&world.object(1), Mutation::SetXattrs([pair].into()));
    world.store.submit(Token(0), head);

    let message = question(&world, world.object(1).with_snap(SnapId(4)));
    let (from, wanted) = (world.peers[0], clone.clone());
    let asked = Box::new(CopyQuestion::new(from, message));
    let pending = Pending::CopyRead { asked, wanted };
    let token = world.act(|pg, _| pg.token(pending));
    world.handle(Event::Store(Completion::Loaded(token, Err(ReadError::Corrupt { offset: 0 }))));
    assert_eq!((world.missing(), answers(&mut world)), (vec![(clone.clone(), 1)], vec![]));
    let (pgid, epoch, version) = (world.pg.pgid, world.map.epoch, world.version(1));
    world.say(from, MPgPush::whole((pgid, epoch), clone, version, txn).into());
    assert_eq!((world.missing(), answers(&mut world)), (vec![], vec![]));
    world.handle(Event::Tick);
    assert_eq!(answers(&mut world), [0]);
}

#[test]
fn what_is_too_large_for_a_change_is_refused_to_who_copies_it() {
    let mut world = World::active();
    let value = Bytes::from(vec![0; 50 << 20]);
    let pairs = (0..6).map(|at| (Bytes::from(format!("k{at}")), value.clone()));
    let mut txn = world.content(1, 1);
    txn.push(&world.object(1), Mutation::OmapSet(pairs.collect()));
    world.store.submit(Token(0), txn);
    let message = question(&world, world.object(1));
    world.say(world.peers[0], message.into());
    assert_eq!(answers(&mut world), [Errno::EMSGSIZE.negated()]);
}

#[test]
fn an_omap_counts_with_what_its_entries_take() {
    for (small, result) in [(0, 0), (20_000, Errno::EMSGSIZE.negated())] {
        let mut world = World::active();
        let value = Bytes::from(vec![0; 51 << 20]);
        let large = (0..5).map(|at| (Bytes::from(format!("k{at}")), value.clone()));
        let mut txn = world.content(1, 1);
        txn.push(&world.object(1), Mutation::OmapSet(large.chain(small_entries(small)).collect()));
        world.store.submit(Token(0), txn);
        let message = question(&world, world.object(1));
        world.say(world.peers[0], message.into());
        assert_eq!(answers(&mut world), [result]);
    }
}

#[test]
fn what_is_not_there_cannot_be_lacking() {
    let mut world = World::active();
    let object = world.object(9);
    world.act(|pg, ctx| pg.repair(&object, ctx));
    assert_eq!((world.missing(), world.pg.stats.sum.objects_repaired), (vec![], 0));
}

#[test]
fn copies_are_answered_with_a_lease_and_not_at_rest() {
    let mut world = World::active();
    world.now = world.now + 2 * LEASE;
    let message = question(&world, world.object(1));
    world.say(world.peers[0], message.into());
    world.handle(Event::Tick);
    assert!(answers(&mut world).is_empty());
    world.pg.members.is_merging = true;
    world.hear_all();
    world.handle(Event::Tick);
    assert!(answers(&mut world).is_empty());
    world.pg.members.is_merging = false;
    world.handle(Event::Tick);
    assert_eq!(answers(&mut world), [0]);
}

/// Object `at` is to have what `source` has: the request waits.
fn copying(world: &mut World, at: u64, source: &HObject) {
    world.ask(at, 100 + at, vec![copy_of(source)]);
}

fn copy_of(source: &HObject) -> OsdOp {
    let locator = ObjectLocator { pool: source.pool, ..ObjectLocator::default() };
    let data = (source.oid.clone(), locator).to_bytes(Features::default());
    let params = OpParams::from_parts(&[&SnapId::HEAD.0.to_le_bytes()]);
    OsdOp { params, data, ..OsdOp::new(OpCode::COPY_FROM) }
}

/// What was asked of other PGs since it was asked last.
fn questions(world: &mut World) -> Vec<MPgCopyGet> {
    let told = world.told().into_iter();
    let asked = told.filter_map(|(_, message)| match message {
        Message::MPgCopyGet(message) => Some(*message),
        _ => None,
    });
    asked.collect()
}

/// An object of a PG that another OSD leads.
fn elsewhere(world: &World, at: u64) -> HObject {
    let is_elsewhere = |(pool, oid): &(PoolId, Bytes)| {
        let (_, pgid) = world.map.object_to_pg(*pool, b"", b"", oid).unwrap();
        let primary = world.map.pg_to_up_acting(pgid).acting_primary;
        primary.is_some() && primary != world.pg.me
    };
    let names = |pool| (0..100).map(move |n| (pool, Bytes::from(format!("s{at}.{n}"))));
    let (pool, oid) = world.map.pools.keys().flat_map(|pool| names(*pool)).find(is_elsewhere).unwrap();
    HObject { hash: object_hash(b"", b"", &oid), oid, pool, snap: SnapId::HEAD, ..HObject::default() }
}

/// How the requests ended that clients sent, since it was asked last.
fn results(world: &mut World) -> Vec<i32> {
    let effects = std::mem::take(&mut world.effects).into_iter();
    let results = effects.filter_map(|effect| match effect {
        Effect::Reply { reply, .. } => Some(reply.result),
        _ => None,
    });
    results.collect()
}

#[test]
fn a_source_is_asked_for_where_it_is_by_the_newest_map() {
    let mut world = World::active();
    let source = elsewhere(&world, 1);
    copying(&mut world, 1, &source);
    let first = questions(&mut world).remove(0);
    let mut pgids = BTreeSet::from([first.pgid]);
    for _ in 0..8 {
        world.map.pools.get_mut(&source.pool).unwrap().pg_num *= 2;
        world.act(|pg, ctx| pg.tick_copies(ctx));
        let again = questions(&mut world);
        let (_, pgid) = world.map.object_to_pg(source.pool, b"", b"", &source.oid).unwrap();
        assert_eq!(again.iter().map(|again| (again.pgid, again.id)).collect::<Vec<_>>(), [(pgid, first.id)]);
        pgids.insert(pgid);
    }
    assert!(pgids.len() > 1, "the object has moved");
}

#[test]
fn a_source_whose_pool_goes_is_not_there() {
    let mut world = World::active();
    let source = elsewhere(&world, 1);
    copying(&mut world, 1, &source);
    assert!(results(&mut world).is_empty());
    world.map.pools.remove(&source.pool);
    world.handle(Event::Tick);
    world.confirm_all();
    assert_eq!(results(&mut world), [Errno::ENOENT.negated()]);
}

/// Acts on a thread that has little stack.
fn with_little_stack(act: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(256 << 10).spawn(act).unwrap().join().unwrap();
}

/// An op that copies from a pool that there is not.
fn copy_of_nowhere(failing: u32) -> OsdOp {
    let locator = ObjectLocator { pool: PoolId(999), ..ObjectLocator::default() };
    let data = (Bytes::from_static(b"s"), locator).to_bytes(Features::default());
    let params = OpParams::from_parts(&[&SnapId::HEAD.0.to_le_bytes()]);
    OsdOp { params, data, flags: failing, ..OsdOp::new(OpCode::COPY_FROM) }
}

#[test]
fn copies_from_a_pool_that_is_not_there_do_not_nest() {
    const COUNT: usize = 2_000;
    with_little_stack(|| {
        let mut world = World::active();
        world.ask(1, 1, vec![copy_of_nowhere(op_flag::FAILOK); 16]);
        world.ask(1, 2, vec![copy_of_nowhere(op_flag::FAILOK); 20_000]);
        // Nor do those that wait behind one that has to wait.
        let source = elsewhere(&world, 1);
        copying(&mut world, 1, &source);
        let question = questions(&mut world).remove(0);
        (0..COUNT as u64).for_each(|at| world.ask(1, 1_000 + at, vec![copy_of_nowhere(0)]));
        assert!(results(&mut world).is_empty());
        answer(&mut world, &question, 10);
        let version = world.pg.info.last_update.version;
        assert_eq!(version, 3 + 1 + 1 + COUNT as u64);
        world.confirm(world.version(version));
        let results = results(&mut world);
        assert_eq!(results.iter().filter(|result| **result == Errno::ENOENT.negated()).count(), COUNT);
    });
}

#[test]
fn references_to_a_pool_that_is_not_there_do_not_nest() {
    const COUNT: u64 = 2_000;
    with_little_stack(|| {
        let mut world = World::active();
        let source = elsewhere(&world, 1);
        copying(&mut world, 1, &source);
        let question = questions(&mut world).remove(0);
        let nowhere = OsdOp { code: OpCode::SET_REDIRECT, ..copy_of_nowhere(op_flag::WITH_REFERENCE) };
        (0..COUNT).for_each(|at| world.ask(1, 1_000 + at, vec![nowhere.clone()]));
        answer(&mut world, &question, 10);
        assert_eq!(results(&mut world), vec![Errno::ENOENT.negated(); COUNT as usize]);
    });
}

#[test]
fn what_is_another_pgs_is_not_answered() {
    let mut world = World::active();
    world.map.pools.get_mut(&world.pg.pgid.pool).unwrap().pg_num = 8;
    let object = HObject { hash: 1, ..world.object(9) };
    let message = question(&world, object);
    world.say(world.peers[0], message.into());
    assert!(answers(&mut world).is_empty(), "it may be there");
}

#[test]
fn a_source_that_is_written_all_the_time_is_copied_too() {
    let mut world = World::active();
    world.write(1, 1);
    world.write(1, 2);
    let message = question(&world, world.object(1));
    world.say(world.peers[0], message.into());
    // One write is always under way, but for this question.
    world.write(1, 3);
    assert_eq!(world.pg.info.last_update, world.version(5));
    world.confirm(world.version(4));
    assert!(answers(&mut world).is_empty());
    world.confirm(world.version(5));
    assert_eq!((answers(&mut world), world.pg.info.last_update), (vec![0], world.version(6)));
    world.write(1, 4);
    assert_eq!(world.pg.info.last_update, world.version(7));
}

/// Hands an event in, and what the store has committed after it; what it has loaded is for later.
fn handle_on(store: &mut WatchedStore, world: &mut World, event: Event) {
    let mut events = vec![event];
    while let Some(event) = events.pop() {
        world.act_on(store, |pg, ctx| pg.handle(event, ctx));
        events.extend(store.committed().into_iter().map(Event::Store));
    }
}

/// [`World::confirm`] on this store.
fn commit_on(store: &mut WatchedStore, world: &mut World, version: EVersion) {
    let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
    for peer in world.peers.clone() {
        let reply = MOSDRepOpReply { pgid, epoch, version };
        handle_on(store, world, Event::Peer(peer, reply.into()));
    }
}

/// A primary whose store has to load data is asked for its first object, which is written all the time, until it holds
/// the writes back.
fn copied_while_written() -> (WatchedStore, World, MPgCopyGet) {
    let mut world = World::active();
    let mut store = WatchedStore::cold(std::mem::replace(&mut world.store, MemStore::new()));
    let message = question(&world, world.object(1));
    let event = Event::Peer(world.peers[0], message.clone().into());
    handle_on(&mut store, &mut world, event);
    for tid in 1..=2 {
        // One write is always under way, but for this question.
        let before = world.pg.info.last_update;
        let write = world.writing(1, tid);
        handle_on(&mut store, &mut world, write);
        if let Some(loaded) = store.loaded.pop_front() {
            handle_on(&mut store, &mut world, Event::Store(loaded));
        }
        commit_on(&mut store, &mut world, before);
    }
    assert_eq!((store.loaded.len(), world.pg.info.last_update), (1, world.version(4)));
    assert!(answers(&mut world).is_empty());
    (store, world, message)
}

#[test]
fn a_source_that_is_written_all_the_time_is_loaded_and_copied() {
    let (mut store, mut world, message) = copied_while_written();
    // Asked again meanwhile, it loads nothing again.
    let event = Event::Peer(world.peers[0], message.into());
    handle_on(&mut store, &mut world, event);
    assert_eq!(store.loaded.len(), 1);
    let loaded = store.loaded.pop_front().unwrap();
    handle_on(&mut store, &mut world, Event::Store(loaded));
    assert_eq!((answers(&mut world), world.pg.info.last_update), (vec![0], world.version(5)));
    let write = world.writing(1, 3);
    handle_on(&mut store, &mut world, write);
    let last = world.version(6);
    commit_on(&mut store, &mut world, last);
    assert!(world.pg.is_object_idle(&world.object(1)));
    assert_eq!((store.held_count(), world.pg.info.last_update), (0, last));
}

#[test]
fn writes_that_wait_for_a_copy_go_on_whatever_becomes_of_it() {
    // What is to be copied cannot be read: it is replaced before.
    let (mut store, mut world, _) = copied_while_written();
    let Some(Completion::Loaded(token, _)) = store.loaded.pop_front() else { panic!("it is loaded") };
    let corrupt = Completion::Loaded(token, Err(ReadError::Corrupt { offset: 0 }));
    handle_on(&mut store, &mut world, Event::Store(corrupt));
    assert_eq!((world.missing().len(), world.pg.info.last_update), (1, world.version(4)));
    let (pgid, epoch, object) = (world.pg.pgid, world.map.epoch, world.object(1));
    let push = MPgPush::whole((pgid, epoch), object, world.version(4), world.content(1, 4));
    let event = Event::Peer(world.peers[0], push.into());
    handle_on(&mut store, &mut world, event);
    assert_eq!((world.missing().len(), world.pg.info.last_update), (0, world.version(5)));

    // The interval ends.
    let (mut store, mut world, _) = copied_while_written();
    world.act_on(&mut store, |pg, ctx| pg.start_interval(ctx));
    let (pgid, epoch, missing) = (world.pg.pgid, world.map.epoch, types::Missing::new());
    let info = PgInfo { last_update: world.version(4), ..PgInfo::default() };
    for peer in world.peers.clone() {
        let (info, intervals, leases) = (info.clone(), Vec::new(), Vec::new());
        let notify = MPgNotify { pgid, epoch, info, intervals, leases };
        handle_on(&mut store, &mut world, Event::Peer(peer, notify.into()));
    }
    for peer in world.peers.clone() {
        let activated = MPgActivated { pgid, epoch, missing: missing.clone(), takes_clones: true };
        handle_on(&mut store, &mut world, Event::Peer(peer, activated.into()));
    }
    assert_eq!(world.pg.info.last_update, world.version(5));
    let loaded = store.loaded.pop_front().unwrap();
    handle_on(&mut store, &mut world, Event::Store(loaded));
    let last = world.version(5);
    commit_on(&mut store, &mut world, last);
    assert!(world.pg.is_object_idle(&world.object(1)) && answers(&mut world).is_empty());
}

/// Answers a question.
fn answer(world: &mut World, question: &MPgCopyGet, size: usize) {
    answer_with(world, question, size, Vec::new(), ChunkMap::new());
}

/// Answers a question about an object that has an omap, too, and chunks that are other objects'.
fn answer_with(
    world: &mut World,
    question: &MPgCopyGet,
    size: usize,
    omap: Vec<(Bytes, Bytes)>,
    missing: ChunkMap,
) {
    let mut data = world.act(|pg, ctx| nothing(pg.pgid, question.id, ctx));
    (data.result, data.missing) = (0, missing);
    let write = Mutation::Write { offset: 0, data: Bytes::from(vec![7; size]).into() };
    data.txn.push(&question.object, write);
    data.txn.push(&question.object, Mutation::OmapSet(omap.into_iter().collect()));
    world.say(world.peers[0], data.into());
}

/// So many entries that have short keys and nothing else.
fn small_entries(count: u32) -> impl Iterator<Item = (Bytes, Bytes)> {
    (0..count).map(|at| (Bytes::copy_from_slice(&at.to_be_bytes()), Bytes::new()))
}

#[test]
fn so_many_requests_copy_at_a_time() {
    let mut world = World::active();
    world.copying = Slots::default();
    let elsewhere_held: Vec<_> = (0..COPYING_MAX - 2).map(|_| world.copying.take()).collect();
    let source = elsewhere(&world, 1);
    (1..=5).for_each(|at| copying(&mut world, at, &source));
    let first = questions(&mut world);
    assert_eq!(first.len(), 2);
    // The next one begins when one of them is durable, and the order is that in which they came.
    answer(&mut world, &first[1], 10);
    assert!(questions(&mut world).is_empty());
    let version = world.pg.info.last_update.version;
    world.confirm(world.version(version));
    let next = questions(&mut world);
    assert_eq!((next.len(), next[0].id - first[1].id), (1, 1));
    // One of each PG may always.
    answer(&mut world, &first[0], 10);
    answer(&mut world, &next[0], 10);
    let others: Vec<_> = (0..9).map(|_| world.copying.take()).collect();
    let version = world.pg.info.last_update.version;
    world.confirm(world.version(version));
    assert_eq!(questions(&mut world).len(), 1);
    drop((others, elsewhere_held));
    world.handle(Event::Tick);
    assert_eq!(questions(&mut world).len(), 1);
    assert_eq!(world.copying.taken(), 2);
}

#[test]
fn a_source_that_does_not_answer_has_others_go_before() {
    let mut world = World::active();
    let _elsewhere: Vec<_> = (0..COPYING_MAX).map(|_| world.copying.take()).collect();
    let (stuck, source) = (elsewhere(&world, 1), elsewhere(&world, 2));
    copying(&mut world, 1, &stuck);
    copying(&mut world, 2, &source);
    let first = questions(&mut world);
    assert_eq!(first.iter().map(|asked| &asked.object).collect::<Vec<_>>(), [&stuck]);
    world.now = world.now + ASK_AGAIN;
    world.hear_all();
    world.handle(Event::Tick);
    let next = questions(&mut world);
    assert_eq!(next.iter().map(|asked| &asked.object).collect::<Vec<_>>(), [&source]);
    // No request waits for the answer to the first question any more.
    answer(&mut world, &first[0], 10);
    assert!(world.replicated().is_empty());
    answer(&mut world, &next[0], 10);
    assert_eq!(world.pg.info.last_update, world.version(4));
    world.confirm(world.version(4));
    let again = questions(&mut world);
    assert_eq!(again.iter().map(|asked| &asked.object).collect::<Vec<_>>(), [&stuck]);
}

#[test]
fn a_request_copies_no_more_than_a_change_has() {
    let mut world = World::active();
    let source = elsewhere(&world, 1);
    let locator = ObjectLocator { pool: source.pool, ..ObjectLocator::default() };
    let data = (source.oid.clone(), locator).to_bytes(Features::default());
    let params = OpParams::from_parts(&[&SnapId::HEAD.0.to_le_bytes()]);
    world.ask(1, 1, vec![OsdOp { params, data, ..OsdOp::new(OpCode::COPY_FROM) }; 4]);
    let mut asked = 0;
    while let Some(question) = questions(&mut world).pop() {
        asked += 1;
        answer(&mut world, &question, 100 << 20);
    }
    assert_eq!((asked, world.copying.taken(), world.pg.info.last_update), (3, 0, world.version(3)));
}

#[test]
fn a_copy_that_finds_no_room_is_dropped_with_what_its_client_wants_behind_it() {
    let mut world = World::active();
    let (peer, source) = (world.peers[0], elsewhere(&world, 1));
    copying(&mut world, 1, &source);
    let question = questions(&mut world).remove(0);
    let create = || OsdOp::new(OpCode::CREATE);
    for (tid, session, step, flags) in [
        (2, 1, create(), 0),
        (3, 1, OsdOp::new(OpCode::STAT), 0),
        (4, 2, create(), 0),
        (5, 1, OsdOp::new(OpCode::DELETE), osd_flag::FULL_TRY),
    ] {
        let mut event = world.asking(1, tid, vec![step]);
        if let Event::Op { client, op, .. } = &mut event {
            (client.session, op.flags) = (session, flags);
        }
        world.handle(event);
    }
    world.set_room(peer, 4 << 20);
    answer(&mut world, &question, 4 << 20);
    for _ in 0..3 {
        world.confirm_all();
    }
    let told = world.effects.iter().filter_map(|effect| match effect {
        Effect::Reply { tid, .. } => Some(*tid),
        Effect::Dropped { session: 1, bytes } => Some(*bytes / (4 << 20)),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [1, 3, 4, 5]);
    assert!(world.pg.is_object_idle(&world.object(1)));
    assert_eq!(world.copying.taken(), 0);
    // With a flag that says so, the client hears of it.
    let mut event = world.asking(1, 6, vec![copy_of(&source)]);
    if let Event::Op { op, .. } = &mut event {
        op.flags = osd_flag::FULL_TRY;
    }
    world.handle(event);
    let question = questions(&mut world).remove(0);
    answer(&mut world, &question, 4 << 20);
    world.confirm_all();
    assert_eq!(results(&mut world), [Errno::ENOSPC.negated()]);
}

#[test]
fn a_request_copies_no_more_omap_than_it_may_hold() {
    for (small, changes) in [(0, 1), (5_000, 0)] {
        let mut world = World::active();
        let source = elsewhere(&world, 1);
        let locator = ObjectLocator { pool: source.pool, ..ObjectLocator::default() };
        let data = (source.oid.clone(), locator).to_bytes(Features::default());
        let params = OpParams::from_parts(&[&SnapId::HEAD.0.to_le_bytes()]);
        world.ask(1, 1, vec![OsdOp { params, data, ..OsdOp::new(OpCode::COPY_FROM) }; 3]);
        while let Some(question) = questions(&mut world).pop() {
            answer_with(&mut world, &question, 85 << 20, small_entries(small).collect(), ChunkMap::new());
        }
        assert_eq!(world.pg.info.last_update, world.version(3 + changes));
    }
}

#[test]
fn contents_that_wait_for_chunks_of_theirs_count() {
    let chunk_of = |target: &HObject, length| {
        let (target, is_missing, has_reference) = (target.clone(), true, false);
        ChunkMap::from([(0, Chunk { offset: 0, length, target, is_missing, has_reference })])
    };
    let large = |world: &mut World, question: &MPgCopyGet, chunks| {
        let omap = vec![(Bytes::from_static(b"k"), Bytes::from(vec![0; 80 << 20]))];
        answer_with(world, question, 120 << 20, omap, chunks);
    };
    for (length, is_too_much) in [(100 << 20, true), (10, false)] {
        let mut world = World::active();
        let [first, second, third] = [1, 2, 3].map(|at| elsewhere(&world, at));
        copying(&mut world, 1, &first);
        let question = questions(&mut world).remove(0);
        large(&mut world, &question, chunk_of(&second, length));
        let question = questions(&mut world).remove(0);
        assert_eq!(question.object, second);
        large(&mut world, &question, chunk_of(&third, 5));
        if is_too_much {
            world.confirm(world.version(4));
            assert_eq!(results(&mut world), [Errno::EMSGSIZE.negated()]);
        } else {
            // Of the second, only what is a chunk of the first is held.
            assert_eq!(questions(&mut world).remove(0).object, third);
        }
    }
}

#[test]
fn a_request_that_waits_for_something_else_gives_others_its_place() {
    let mut world = World::active();
    let source = elsewhere(&world, 1);
    let locator = ObjectLocator { pool: source.pool, ..ObjectLocator::default() };
    let data = (source.oid.clone(), locator).to_bytes(Features::default());
    let params = OpParams::from_parts(&[&SnapId::HEAD.0.to_le_bytes()]);
    let copy = OsdOp { params, data, ..OsdOp::new(OpCode::COPY_FROM) };
    let refer = OsdOp { code: OpCode::SET_REDIRECT, flags: op_flag::WITH_REFERENCE, ..copy.clone() };
    world.ask(1, 1, vec![copy, refer]);
    let question = questions(&mut world).remove(0);
    assert_eq!(world.copying.taken(), 1);
    answer(&mut world, &question, 10);
    assert!(world.told().iter().any(|(_, message)| matches!(message, Message::MPgProxyOp(_))));
    assert_eq!(world.copying.taken(), 0);

    let head = world.object(2);
    let mut waiting = world.waiting(2, 9);
    let (of_osd, of_pg) = (world.copying.take(), Slots::default().take());
    waiting.slot = Some(Box::new(CopySlot { _of_osd: of_osd, _of_pg: of_pg, bytes: 0 }));
    let token = world.act(|pg, _| {
        let load = pg.put_aside(&head, waiting);
        pg.token(Pending::OpLoad { wanted: head.clone(), head, load })
    });
    assert_eq!(world.copying.taken(), 1);
    world.handle(Event::Store(Completion::Loaded(token, Err(ReadError::Corrupt { offset: 0 }))));
    assert_eq!((world.missing().len(), world.copying.taken()), (1, 0));
}

#[test]
fn questions_that_nobody_repeats_are_forgotten() {
    let mut world = World::active();
    world.now = world.now + 2 * LEASE;
    let message = question(&world, world.object(1));
    world.say(world.peers[0], message.into());
    world.now = world.now + 2 * ASK_AGAIN;
    world.hear_all();
    world.handle(Event::Tick);
    assert!(answers(&mut world).is_empty() && world.pg.copies.asked.is_empty());
}

/// If each looked at all that wait, this would not end.
#[test]
fn very_many_requests_may_wait_for_a_slot() {
    const COUNT: u64 = 20_000;
    let mut world = World::active();
    let (head, pool) = (world.object(2), world.pg.pgid.pool);
    for tid in 0..COUNT {
        let waiting = world.waiting(2, tid);
        let locator = ObjectLocator { pool, ..ObjectLocator::default() };
        let source = CopySource { locator, oid: Bytes::from_static(b"source"), snap: SnapId::HEAD };
        world.act(|pg, ctx| {
            let load = pg.put_aside(&head, waiting);
            pg.fetch_copy((&head, load, 0), (source, None), None, ctx);
        });
    }
    let Copies { wanted, without_slot, .. } = &world.pg.copies;
    assert_eq!((wanted.len() as u64, without_slot.len() as u64), (COUNT, COUNT - COPYING_MAX));
    assert!(wanted.keys().rev().take(without_slot.len()).all(|id| without_slot.contains(id)));
}
