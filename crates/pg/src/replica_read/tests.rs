//! What a replica answers, and what it leaves to the primary.

use bytes::Bytes;
use messages::{MOSDOp, MOSDRepOp, MPgClean, Message, ObjectLocator, OpCode, OpParams, OsdOp, osd_flag};
use store::{Completion, ReadError};
use types::{EntityAddr, EntityNum, Epoch, Instant, PgTotals, SnapId, Token};

use super::*;
use crate::{Client, Event, LEASE, LEASE_AT_MOST, Leases, OpThrottle, pg::Pending, test_world::World};

const EAGAIN: i32 = -Errno::EAGAIN.0;

/// A replica whose primary serves, with a lease that begins now.
fn serving() -> World {
    let mut world = World::replica();
    world.hear_all();
    committed(&mut world, 3);
    world
}

fn committed(world: &mut World, to: u64) {
    let (pgid, epoch, committed_to) = (world.pg.pgid, world.map.epoch, world.version(to));
    world.say(world.peers[0], MPgCommitted { pgid, epoch, committed_to }.into());
}

/// The primary orders a change of an object; all before `committed_to` is durable everywhere.
fn change(world: &mut World, at: u64, version: u64, committed_to: u64) {
    let message = MOSDRepOp {
        pgid: world.pg.pgid,
        epoch: world.map.epoch,
        version: world.version(version),
        log: vec![world.entry(at, version, at)],
        trim_to: EVersion::ZERO,
        totals: PgTotals::default(),
        txn: world.content(at, version),
        committed_to: world.version(committed_to),
    };
    world.say(world.peers[0], message.into());
}

fn read() -> OsdOp {
    OsdOp { params: OpParams::extent(0, 100), ..OsdOp::new(OpCode::READ) }
}

fn request(world: &World, flags: u32, at: u64, ops: Vec<OsdOp>) -> MOSDOp {
    let pool = world.pg.pgid.pool;
    MOSDOp {
        pgid: world.pg.pgid,
        epoch: world.map.epoch,
        flags,
        locator: ObjectLocator { pool, ..ObjectLocator::default() },
        oid: Bytes::from(format!("o{at}")),
        ops,
        snapid: SnapId::HEAD,
        ..MOSDOp::default()
    }
}

/// What a request is answered with: its result, and what the first op found.
fn answer(world: &mut World, op: MOSDOp) -> Option<(i32, Bytes)> {
    let (entity, addr) = (EntityNum::client(7), EntityAddr::default());
    let client = Client { session: 7, entity, addr, features: 0 };
    world.handle(Event::Op { client, tid: 1, op: Box::new(op), permit: OpThrottle::default().take(0) });
    let mut answers = world.effects.extract_if(.., |effect| matches!(effect, Effect::Reply { .. }));
    match (answers.next(), answers.next()) {
        (Some(Effect::Reply { reply, .. }), None) => Some((reply.result, reply.ops[0].copied_data())),
        _ => None,
    }
}

fn balanced(world: &mut World, at: u64) -> (i32, Bytes) {
    let op = request(world, osd_flag::BALANCE_READS, at, vec![read()]);
    answer(world, op).expect("an answer")
}

fn found(version: u8) -> (i32, Bytes) {
    (0, Bytes::from(vec![version; 10]))
}

#[test]
fn it_serves_once_the_primary_does_and_while_all_others_have_heard_it() {
    let mut world = World::replica();
    assert_eq!(balanced(&mut world, 1).0, EAGAIN);
    world.hear_all();
    assert_eq!(balanced(&mut world, 1).0, EAGAIN, "its primary may not serve yet");
    committed(&mut world, 3);
    assert_eq!(balanced(&mut world, 1), found(1));
    let op = request(&world, osd_flag::LOCALIZE_READS, 1, vec![read()]);
    assert_eq!(answer(&mut world, op), Some(found(1)));
    assert_eq!(balanced(&mut world, 4).0, -Errno::ENOENT.0);
    assert_eq!(world.pg.stats.sum.reads, 2);
    world.now = world.now + LEASE;
    assert_eq!(balanced(&mut world, 1).0, EAGAIN, "nobody has heard it for long");
    // All others have to.
    world.leases.on_granted(world.peers[0], world.now);
    assert_eq!(balanced(&mut world, 1).0, EAGAIN);
    world.leases.on_granted(world.peers[1], world.now);
    assert_eq!(balanced(&mut world, 1), found(1));
}

#[test]
fn what_may_not_be_everywhere_is_left_to_the_primary() {
    let mut world = serving();
    change(&mut world, 1, 4, 3);
    assert_eq!(balanced(&mut world, 1).0, EAGAIN);
    assert_eq!(balanced(&mut world, 2), found(2));
    change(&mut world, 2, 5, 4);
    assert_eq!((balanced(&mut world, 1), balanced(&mut world, 2).0), (found(4), EAGAIN));
    committed(&mut world, 5);
    assert_eq!((balanced(&mut world, 1), balanced(&mut world, 2)), (found(4), found(5)));
    // Old word takes nothing back.
    committed(&mut world, 3);
    assert_eq!(balanced(&mut world, 1), found(4));
}

#[test]
fn what_it_lacks_is_left_to_the_primary() {
    let mut world = serving();
    let (object, version) = (world.object(2), world.version(2));
    world.act(|pg, ctx| pg.declare_missing(object, version, ctx));
    assert_eq!((balanced(&mut world, 1), balanced(&mut world, 2).0), (found(1), EAGAIN));
}

#[test]
fn only_reads_are_for_any_copy() {
    let mut world = serving();
    let flags = osd_flag::BALANCE_READS;
    let ask = |world: &mut World, flags: u32, code| {
        let op = request(world, flags, 1, vec![read(), OsdOp::new(code)]);
        answer(world, op).map(|(result, _)| result)
    };
    assert_eq!(ask(&mut world, flags, OpCode::STAT), Some(0));
    // Clients that want these from a replica are refused, not left without an answer.
    for code in [OpCode::NOTIFY, OpCode::PGLS, OpCode::CACHE_FLUSH] {
        assert_eq!(ask(&mut world, flags, code), Some(EAGAIN), "{code:?}");
    }
    // Clients send these to the primary, as soon as they know who that is.
    for (flags, code) in [(0, OpCode::STAT), (flags, OpCode::DELETE), (flags, OpCode::WATCH)] {
        assert_eq!(ask(&mut world, flags, code), None, "{code:?}");
    }
    assert_eq!(ask(&mut world, flags | osd_flag::WRITE, OpCode::STAT), None);
    let old = MOSDOp { epoch: Epoch(world.map.epoch.0 - 1), ..request(&world, flags, 1, vec![read()]) };
    assert_eq!(answer(&mut world, old).map(|(result, _)| result), Some(EAGAIN), "of an earlier interval");
}

/// A read of the first object waits for what the store loads for it.
fn loading(world: &mut World) -> Token {
    let op = request(world, osd_flag::BALANCE_READS, 1, vec![read()]);
    let (entity, addr) = (EntityNum::client(7), EntityAddr::default());
    let client = Client { session: 7, entity, addr, features: 0 };
    let waiting = WaitingOp::new(client, 1, Box::new(op), OpThrottle::default().take(0), Instant::default());
    let (head, wanted) = (world.object(1), world.object(1));
    world.act(|pg, _| {
        let load = pg.put_aside(&head, waiting);
        pg.token(Pending::OpLoad { head, load, wanted })
    })
}

/// True when one request was refused since effects were last looked at.
fn has_refused(world: &World) -> bool {
    let is_refusal =
        |effect: &Effect| matches!(effect, Effect::Reply { reply, .. } if reply.result == EAGAIN);
    world.effects.iter().any(is_refusal)
}

/// Clients send such a read again only when others act.
#[test]
fn what_it_has_begun_is_left_to_the_primary_when_an_interval_begins() {
    let mut world = serving();
    let token = loading(&mut world);
    world.effects.clear();
    world.act(|pg, ctx| pg.start_interval(ctx));
    assert!(has_refused(&world) && world.pg.is_object_idle(&world.object(1)));
    // What is loaded for it then is not used.
    world.effects.clear();
    world.handle(Event::Store(Completion::Loaded(token, Ok(()))));
    assert!(!world.effects.iter().any(|effect| matches!(effect, Effect::Reply { .. })));
    // With another primary, clients send all again.
    let mut world = World::active();
    loading(&mut world);
    world.pg.members.primary = world.peers[0];
    world.act(|pg, ctx| pg.start_interval(ctx));
    assert!(!has_refused(&world) && world.pg.is_object_idle(&world.object(1)));
}

#[test]
fn a_copy_that_cannot_be_read_is_replaced_by_the_primary() {
    let mut world = serving();
    let (token, head) = (loading(&mut world), world.object(1));
    let bad = ReadError::Corrupt { offset: 0 };
    world.handle(Event::Store(Completion::Loaded(token, Err(bad))));
    assert!(has_refused(&world) && world.pg.is_object_idle(&head));
    let told = world.told();
    let [(to, Message::MPgBadCopy(word))] = &told[..] else { panic!("{told:?}") };
    assert_eq!((&to[..], &word.object), (&world.peers[..1], &head));

    let mut primary = World::active();
    let (replica, epoch) = (primary.peers[1], primary.map.epoch);
    primary.told();
    for _ in 0..2 {
        primary.say(replica, MPgBadCopy { epoch, ..MPgBadCopy::clone(word) }.into());
    }
    let told = primary.told();
    let [(to, Message::MPgBadCopy(word)), (_, Message::MPgPush(push))] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(
        (&to[..], word.version, push.version),
        (&[replica][..], primary.version(1), primary.version(1))
    );
}

#[test]
fn the_primary_tells_how_far_all_are() {
    let mut world = World::active();
    let told = |world: &mut World| {
        let told = world.told().into_iter();
        let word = told.filter_map(|(_, message)| match message {
            Message::MPgCommitted(word) => Some(word.committed_to.version),
            Message::MOSDRepOp(op) => Some(op.committed_to.version + 100),
            _ => None,
        });
        word.collect::<Vec<u64>>()
    };
    assert_eq!(told(&mut world), [3]);
    let op = request(&world, 0, 1, vec![OsdOp::new(OpCode::DELETE)]);
    assert_eq!(answer(&mut world, op), None);
    world.handle(Event::Tick);
    assert_eq!(told(&mut world), [103], "nothing is new");
    world.confirm(world.version(4));
    world.handle(Event::Tick);
    world.handle(Event::Tick);
    assert_eq!(told(&mut world), [4]);
}

#[test]
fn a_new_interval_takes_all_back() {
    let mut world = serving();
    world.act(|pg, ctx| pg.start_interval(ctx));
    assert_eq!(balanced(&mut world, 1).0, EAGAIN);
    world.activate(3, Vec::new(), 3, None);
    let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
    world.say(world.peers[0], MPgClean { pgid, epoch, remove: false }.into());
    assert_eq!(balanced(&mut world, 1).0, EAGAIN);
    committed(&mut world, 3);
    assert_eq!(balanced(&mut world, 1), found(1));
}

#[test]
fn those_who_answered_a_replica_make_later_primaries_wait_for_it() {
    let mut world = World::active();
    let (primary, replica, now) = (world.peers[0], world.peers[1], world.now);
    let mut leases = Leases::default();
    leases.on_given(replica, now);
    world.leases = leases;
    world.now = now + LEASE / 2;
    world.act(|pg, ctx| pg.end_lease(true, ctx));
    let told = world.pg.lease.to_tell(world.now);
    assert_eq!(told.iter().map(|lease| lease.osd).collect::<Vec<_>>(), [replica]);
    world.pg.peer_info.clear();
    assert!(!world.act(|pg, ctx| pg.is_prior_lease_over(ctx)));
    world.now = now + LEASE;
    assert!(!world.act(|pg, ctx| pg.is_prior_lease_over(ctx)), "its clock may be slower");
    world.now = now + LEASE_AT_MOST;
    assert!(world.act(|pg, ctx| pg.is_prior_lease_over(ctx)));
    // Where no writes were taken, no replica served.
    world.act(|pg, ctx| pg.end_lease(false, ctx));
    assert!(world.pg.lease.to_tell(now).is_empty() && primary != replica);
}
