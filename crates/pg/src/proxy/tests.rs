//! Requests on a redirect: where they go, how often, and which client or PG is answered.

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{Message, OpCode, OpParams, op_flag};
use types::{Mutation, ObjectManifest, PoolFlags, PoolId, Transaction, object_hash};

use super::*;
use crate::{
    Event,
    exec::{INFO_XATTR, Manifest, ObjectInfo},
    test_world::World,
};

/// An object of a PG that another OSD leads.
fn target(world: &World) -> HObject {
    let names = |pool| (0..100).map(move |at| (pool, Bytes::from(format!("t{at}"))));
    let is_elsewhere = |(pool, oid): &(PoolId, Bytes)| {
        let (_, pgid) = world.map.object_to_pg(*pool, b"", b"", oid).expect("the pool is there");
        let primary = world.map.pg_to_up_acting(pgid).acting_primary;
        primary.is_some() && primary != world.pg.me
    };
    let mut found = world.map.pools.keys().flat_map(|pool| names(*pool)).filter(is_elsewhere);
    let (pool, oid) = found.next().expect("OSDs lead some PG each");
    HObject { hash: object_hash(b"", b"", &oid), oid, pool, snap: SnapId::HEAD, ..HObject::default() }
}

/// Object `at` is a redirect.
fn redirect(world: &mut World, at: u64, target: &HObject) {
    let manifest = ObjectManifest::Redirect(target.clone());
    let manifest = Some(Box::new(Manifest { manifest, has_reference: false }));
    let info = ObjectInfo { version: world.version(at), manifest, ..ObjectInfo::default() };
    let mut txn = Transaction::new(world.pg.coll);
    let object = world.object(at);
    txn.push(&object, Mutation::Truncate { size: 0 });
    let pair = (Bytes::from_static(INFO_XATTR), info.to_bytes(Features::default()));
    txn.push(&object, Mutation::SetXattrs([pair].into()));
    store::ObjectStore::submit(&mut world.store, types::Token(0), txn);
}

fn read() -> OsdOp {
    OsdOp::new(OpCode::READ)
}

fn write() -> OsdOp {
    let (params, data) = (OpParams::extent(0, 3), Bytes::from_static(b"new"));
    OsdOp { params, data, ..OsdOp::new(OpCode::WRITEFULL) }
}

fn ask(world: &mut World, at: u64, tid: u64, step: OsdOp) {
    ask_with(world, at, tid, 0, step);
}

fn ask_with(world: &mut World, at: u64, tid: u64, flags: u32, step: OsdOp) {
    let (session, entity) = (7, EntityNum::client(7));
    let client = Client { session, entity, addr: EntityAddr::default(), features: 0 };
    let pool = world.pg.pgid.pool;
    let op = MOSDOp {
        pgid: world.pg.pgid,
        epoch: world.map.epoch,
        flags,
        locator: ObjectLocator { pool, ..ObjectLocator::default() },
        oid: world.object(at).oid,
        ops: vec![step],
        snapid: SnapId::HEAD,
        client_inc: 9,
        ..MOSDOp::default()
    };
    world.handle(Event::Op { client, tid, op: Box::new(op), permit: OpThrottle::default().take(0) });
}

/// The questions put to other PGs since the last call, each with the OSD that was asked.
fn asked(world: &mut World) -> Vec<(OsdId, MPgProxyOp)> {
    let told = world.told().into_iter();
    let asked = told.filter_map(|(osds, message)| match message {
        Message::MPgProxyOp(op) => Some((osds[0], *op)),
        _ => None,
    });
    asked.collect()
}

/// What clients heard, by their numbers of the requests.
fn heard(world: &mut World) -> Vec<(u64, i32, Bytes)> {
    let effects = std::mem::take(&mut world.effects).into_iter();
    let heard = effects.filter_map(|effect| match effect {
        Effect::Reply { session: 7, tid, reply } => {
            Some((tid, reply.result, reply.ops.first().map(OsdOp::copied_data).unwrap_or_default()))
        }
        _ => None,
    });
    heard.collect()
}

/// The first object is a redirect, and client 7 writes to it: its request 5.
fn passing_on() -> (World, HObject) {
    let mut world = World::active();
    let target = target(&world);
    redirect(&mut world, 1, &target);
    ask(&mut world, 1, 5, write());
    (world, target)
}

fn answer(world: &mut World, question: &MPgProxyOp, result: i32, data: &'static [u8]) {
    let ops = question.op.ops.iter().map(|step| OsdOp { data: Bytes::from_static(data), ..step.clone() });
    let reply = MOSDOpReply { result, ops: ops.collect(), user_version: 3, ..MOSDOpReply::default() };
    let (pgid, epoch, id) = (question.asker, world.map.epoch, question.id);
    world.say(world.peers[0], MPgProxyReply { pgid, epoch, id, reply }.into());
}

/// The question is about the second object.
fn readdress(question: &mut MPgProxyOp, world: &World) {
    let HObject { oid, pool, hash, .. } = world.object(2);
    (question.pgid, question.op.pgid) = (world.pg.pgid, world.pg.pgid);
    (question.op.oid, question.op.locator.pool, question.op.hash) = (oid, pool, hash);
}

#[test]
fn a_request_goes_to_the_other_pg_in_its_clients_name_and_its_answer_to_the_client() {
    let (mut world, target) = passing_on();
    ask(&mut world, 1, 6, read());
    let asked = asked(&mut world);
    let [(to, change), (_, question)] = &asked[..] else { panic!("both are passed on: {asked:?}") };
    let (hash, pgid) = world.map.object_to_pg(target.pool, b"", b"", &target.oid).unwrap();
    assert_eq!(*to, world.map.pg_to_up_acting(pgid).acting_primary);
    assert_eq!((change.pgid, change.op.pgid, change.op.hash), (pgid, pgid, hash));
    assert_eq!((change.client, change.tid, change.op.client_inc), (EntityNum::client(7), 5, 9));
    assert_eq!((&change.op.oid, &change.op.ops[0].data[..]), (&target.oid, &b"new"[..]));
    assert!(change.op.says_it_writes() && !question.op.says_it_writes());
    assert_eq!(change.path, [world.object(1)]);
    answer(&mut world, question, 0, b"old");
    answer(&mut world, change, -17, b"");
    // Of two answers only the first one counts.
    answer(&mut world, change, 0, b"");
    assert_eq!(heard(&mut world), [(6, 0, Bytes::from_static(b"old")), (5, -17, Bytes::new())]);
    assert!(world.pg.log.iter().all(|entry| entry.reqid.tid == 0), "the other PG remembers it");
}

#[test]
fn a_question_is_asked_again_after_a_while_and_done_once() {
    let (mut world, _) = passing_on();
    let first = asked(&mut world);
    world.handle(Event::Tick);
    assert!(asked(&mut world).is_empty());
    world.now = Instant(world.now.0 + ASK_AGAIN.as_nanos() as u64);
    world.hear_all();
    world.handle(Event::Tick);
    assert_eq!(asked(&mut world), first);

    // As the one that is asked.
    let mut question = first[0].1.clone();
    readdress(&mut question, &world);
    let from = world.peers[0];
    world.say(from, question.clone().into());
    world.say(from, question.clone().into());
    assert_eq!(world.replicated().len(), 1);
    world.confirm_all();
    let answers: Vec<_> = world.told().into_iter().map(|(osds, message)| (osds, message.name())).collect();
    assert_eq!(answers, [(vec![from], "MPgProxyReply")]);
    // The PG knows the request, whichever OSD passes it on.
    question.id += 1;
    world.say(world.peers[1], question.into());
    let answers: Vec<_> = world.told().into_iter().map(|(osds, message)| (osds, message.name())).collect();
    assert_eq!(answers, [(vec![world.peers[1]], "MPgProxyReply")]);
}

#[test]
fn a_pool_that_fails_all_requests_fails_what_is_passed_on_to_it() {
    let mut world = World::active();
    let target = target(&world);
    redirect(&mut world, 1, &target);
    for (tid, step) in [(5, write()), (6, read())] {
        ask_with(&mut world, 1, tid, osd_flag::SUPPORTSPOOLEIO, step);
    }
    let questions = asked(&mut world);
    assert_eq!(questions.len(), 2);
    world.map.pools.get_mut(&world.pg.pgid.pool).unwrap().flags |= PoolFlags::EIO;
    for (_, mut question) in questions {
        readdress(&mut question, &world);
        world.say(world.peers[0], question.into());
    }
    let answers: Vec<_> = world
        .told()
        .into_iter()
        .filter_map(|(_, message)| match message {
            Message::MPgProxyReply(answer) => Some(answer.reply.result),
            _ => None,
        })
        .collect();
    assert_eq!(answers, [Errno::EIO.negated(); 2]);
    assert!(world.pg.proxies.open.is_empty());
}

/// Its client has nothing to send again: the PG that passed it on would wait.
#[test]
fn growth_that_is_passed_on_is_refused_where_there_is_no_room() {
    let (mut world, _) = passing_on();
    let mut question = asked(&mut world).remove(0).1;
    readdress(&mut question, &world);
    question.op.ops = vec![OsdOp { code: OpCode::APPEND, ..write() }];
    world.set_room(world.peers[1], 0);
    world.say(world.peers[0], question.into());
    // The refusal is logged, as that of a client's request.
    world.confirm_all();
    let answers = world.told().into_iter().filter_map(|(_, message)| match message {
        Message::MPgProxyReply(answer) => Some(answer.reply.result),
        _ => None,
    });
    assert_eq!(answers.collect::<Vec<_>>(), [Errno::ENOSPC.negated()]);
}

#[test]
fn a_new_interval_begins_again_what_was_passed_on() {
    let (mut world, _) = passing_on();
    let before = asked(&mut world);
    // Another PG's request, which waits here.
    let mut theirs = before[0].1.clone();
    readdress(&mut theirs, &world);
    theirs.tid = 77;
    world.say(world.peers[0], theirs.clone().into());
    world.told();
    world.act(|pg, ctx| pg.start_interval(ctx));
    world.activate_all();
    world.confirm_all();
    let again = asked(&mut world);
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].1.tid, &again[0].1.op), (5, &before[0].1.op));
    answer(&mut world, &before[0].1, 0, b"");
    assert_eq!(heard(&mut world), [], "that was the question of the last interval");
    answer(&mut world, &again[0].1, 0, b"");
    assert_eq!(heard(&mut world).len(), 1);
    // With another primary it is not here any more, and may come again.
    world.act(|pg, ctx| pg.ops_end_interval(false, ctx));
    assert!(world.pg.proxies.open.is_empty() && world.pg.proxies.questions.is_empty());
}

#[test]
fn redirects_that_lead_back_are_found_out() {
    let (mut world, _) = passing_on();
    let mut question = asked(&mut world).remove(0).1;
    // The other one is a redirect to the first.
    let first = world.object(1);
    redirect(&mut world, 2, &first);
    readdress(&mut question, &world);
    world.say(world.peers[0], question.into());
    let told = world.told();
    let [(_, Message::MPgProxyReply(reply))] = &told[..] else { panic!("it answers: {told:?}") };
    assert_eq!(reply.reply.result, Errno::ELOOP.negated());
}

#[test]
fn a_pool_that_is_gone_has_no_object() {
    let mut world = World::active();
    let nowhere = HObject { pool: PoolId(4242), ..target(&world) };
    redirect(&mut world, 1, &nowhere);
    ask(&mut world, 1, 5, read());
    assert_eq!(heard(&mut world), [(5, Errno::ENOENT.negated(), Bytes::new())]);
}

#[test]
fn references_are_taken_before_a_change_and_given_back_after_it() {
    let mut world = World::active();
    let target = target(&world);
    ask(&mut world, 1, 5, refer(&target));
    assert_eq!(world.pg.info.last_update.version, 3, "nothing is changed");
    let taken = asked(&mut world).remove(0).1;
    assert_eq!((taken.tid, &taken.op.ops[0].data[..16]), (5, &b"caschunk_get_ref"[..]));
    assert_ne!(taken.op.client_inc, 9, "it is no answer to the client's own request");
    answer(&mut world, &taken, 0, b"");
    world.confirm_all();
    assert_eq!(heard(&mut world).len(), 1);

    ask(&mut world, 1, 6, OsdOp::new(OpCode::UNSET_MANIFEST));
    assert!(asked(&mut world).is_empty(), "it is not durable");
    world.confirm_all();
    let given_back = asked(&mut world).remove(0).1;
    assert_eq!(&given_back.op.ops[0].data[..16], b"caschunk_put_ref");
    answer(&mut world, &given_back, -2, b"");
    assert!(world.pg.proxies.questions.is_empty());
}

/// What has object 1 refer to `target`, as its client sends it.
fn refer(target: &HObject) -> OsdOp {
    let locator = ObjectLocator { pool: target.pool, ..ObjectLocator::default() };
    let data = (target.oid.clone(), locator).to_bytes(Features::default());
    let params = OpParams::from_parts(&[&SnapId::HEAD.0.to_le_bytes()]);
    OsdOp { params, data, flags: op_flag::WITH_REFERENCE, ..OsdOp::new(OpCode::SET_REDIRECT) }
}

#[test]
fn objects_that_come_to_refer_to_each_other_do_not_wait_for_each_other() {
    let mut world = World::active();
    let target = target(&world);
    ask(&mut world, 1, 5, refer(&target));
    ask(&mut world, 1, 6, write());
    let taken = asked(&mut world).remove(0).1;
    // The other one does the same at the same time.
    let mut theirs = taken.clone();
    readdress(&mut theirs, &world);
    (theirs.tid, theirs.op.oid, theirs.op.ops) =
        (77, world.object(1).oid, vec![exec::reference(&target, true)]);
    world.say(world.peers[0], theirs.into());
    let entries = world.replicated();
    assert_eq!(entries.iter().map(|entry| entry.reqid.tid).collect::<Vec<_>>(), [77]);
    world.confirm_all();
    let told = world.told();
    assert!(matches!(&told[..], [(_, Message::MPgProxyReply(_))]), "{told:?}");
    // Its own changes have kept their order.
    answer(&mut world, &taken, 0, b"");
    assert_eq!(world.replicated()[0].reqid.tid, 5);
}

#[test]
fn a_pg_that_splits_is_asked_again() {
    let (mut world, target) = passing_on();
    let first = asked(&mut world).remove(0).1;
    // It has dropped what came before, and the object may still be its own.
    for _ in 0..8 {
        let pool = world.map.pools.get_mut(&target.pool).unwrap();
        pool.pg_num *= 2;
        world.map.epoch = world.map.epoch.next();
        world.act(|pg, ctx| pg.ask_others(ctx));
        let again = asked(&mut world);
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].1.id, first.id);
    }
}

#[test]
fn an_answer_to_an_earlier_life_is_for_nobody() {
    let mut ids = Vec::new();
    for lives in 0..2 {
        let mut world = World::active();
        world.map.epoch = types::Epoch(world.map.epoch.0 + lives);
        let target = target(&world);
        redirect(&mut world, 1, &target);
        ask(&mut world, 1, 5, write());
        ids.push(asked(&mut world).remove(0).1.id);
    }
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn who_was_blocklisted_since_it_asked_is_refused() {
    let (mut world, _) = passing_on();
    let mut question = asked(&mut world).remove(0).1;
    readdress(&mut question, &world);
    question.addr = EntityAddr::parse("any:10.0.0.1:1000/77").unwrap();
    world.map.blocklist.insert(question.addr, types::UTime::default());
    world.say(world.peers[0], question.into());
    let told = world.told();
    let [(_, Message::MPgProxyReply(reply))] = &told[..] else { panic!("it answers: {told:?}") };
    assert_eq!(reply.reply.result, Errno::EBLOCKLISTED.negated());
    assert!(world.pg.proxies.open.is_empty());
}

#[test]
fn what_is_passed_on_keeps_its_order_when_an_interval_begins_while_it_waits() {
    let (mut world, _) = passing_on();
    let mut first = asked(&mut world).remove(0).1;
    readdress(&mut first, &world);
    let from = world.peers[0];
    let second = MPgProxyOp { id: first.id + 1, tid: first.tid + 1, ..first.clone() };
    // Another copy's message waits for the index.
    let (coll, object) = (world.pg.coll, world.object(1));
    let lacking = store::NotCached::Index { coll, object, omap: None };
    world.act(|pg, ctx| pg.wait(crate::index_wait::IndexWait::Peer, vec![lacking], ctx));
    world.act(|pg, ctx| pg.handle(Event::Peer(from, first.clone().into()), ctx));
    // A map begins another interval with the same primary, which the asker does not have yet.
    world.map.epoch = world.map.epoch.next();
    world.map.osd_info[usize::try_from(world.peers[1].0).unwrap()].up_from = world.map.epoch;
    world.map.osd_info[usize::try_from(world.pg.me.0).unwrap()].up_thru = world.map.epoch;
    world.handle(Event::NewMap);
    world.say(from, second.clone().into());
    // Then it asks all again.
    world.say(from, first.into());
    world.say(from, second.into());
    world.told();
    world.activate_all();
    let tids: Vec<u64> = world.replicated().iter().map(|entry| entry.reqid.tid).collect();
    assert_eq!(tids, [5, 6]);
}

#[test]
fn by_a_new_map_earlier_questions_are_sent_again_before_a_new_one() {
    let (mut world, target) = passing_on();
    asked(&mut world);
    world.map.epoch = world.map.epoch.next();
    world.map.pools.get_mut(&target.pool).unwrap().pg_num *= 2;
    ask(&mut world, 1, 6, write());
    let tids: Vec<u64> = asked(&mut world).iter().map(|(_, question)| question.tid).collect();
    assert_eq!(tids, [5, 6]);
}

#[test]
fn references_are_given_back_under_a_name_each_however_many_they_are() {
    let mut world = World::active();
    let (source, target) = (world.object(1), target(&world));
    let counts = [(1 << 16) + 1, 1];
    for (version, count) in (4..).zip(counts) {
        let version = world.version(version);
        world.act(|pg, ctx| pg.give_back(&source, vec![target.clone(); count], version, ctx));
    }
    let asked = asked(&mut world);
    let names: BTreeSet<_> = asked.iter().map(|(_, question)| question.tid).collect();
    assert_eq!((asked.len(), names.len()), (counts[0] + counts[1], asked.len()));
}
