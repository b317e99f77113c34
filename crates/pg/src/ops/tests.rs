//! What clients and watchers hear, and in which order.

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{MPgPushReply, Message, ObjectLocator, OpCode, OpParams, WatchOpcode};
use types::{EntityAddr, EntityNum};

use super::*;
use crate::{Effect, Event, OpThrottle, test_world::World};

const WATCH: u8 = 3;

/// The session of a client has its number.
fn ask(world: &mut World, gid: u64, tid: u64, ops: Vec<OsdOp>) {
    let client =
        Client { session: gid, entity: EntityNum::client(gid), addr: EntityAddr::default(), features: 0 };
    let pool = world.pg.pgid.pool;
    let op = MOSDOp {
        pgid: world.pg.pgid,
        epoch: world.map.epoch,
        locator: ObjectLocator { pool, ..ObjectLocator::default() },
        oid: Bytes::from_static(b"o1"),
        ops,
        snapid: types::SnapId::HEAD,
        ..MOSDOp::default()
    };
    world.handle(Event::Op { client, tid, op: Box::new(op), permit: OpThrottle::default().take(0) });
    world.confirm_all();
}

fn watch(what: u8) -> OsdOp {
    OsdOp {
        params: OpParams::from_parts(&[&1u64.to_le_bytes(), &[0; 8], &[what]]),
        ..OsdOp::new(OpCode::WATCH)
    }
}

/// Which session was told what since the last call.
fn heard(world: &mut World) -> Vec<(u64, &'static str)> {
    let effects = std::mem::take(&mut world.effects).into_iter();
    let told = effects.filter_map(|effect| match effect {
        Effect::Reply { session, reply, .. } => {
            Some((session, if reply.result < 0 { "error" } else { "answer" }))
        }
        Effect::Tell(session, Message::MWatchNotify(message)) => match message.opcode {
            WatchOpcode::NOTIFY => Some((session, "notify")),
            WatchOpcode::NOTIFY_COMPLETE => Some((session, "complete")),
            _ => Some((session, "disconnect")),
        },
        _ => None,
    });
    told.collect()
}

/// As Ceph's OSDs do: `complete_read_ctx` comes after `do_osd_op_effects`, a repop's `on_success` after `on_committed`.
#[test]
fn watchers_hear_of_a_change_after_its_client_has_the_answer_and_of_all_else_before() {
    let mut world = World::active();
    ask(&mut world, 7, 1, vec![watch(WATCH)]);
    assert_eq!(heard(&mut world), [(7, "answer")]);
    let seen: Vec<_> = world.pg.watchers().map(|(object, watch)| (&object.oid[..], watch.client)).collect();
    assert_eq!(seen, [(&b"o1"[..], 7)]);
    ask(&mut world, 8, 1, vec![OsdOp::new(OpCode::NOTIFY)]);
    assert_eq!(heard(&mut world), [(7, "notify"), (8, "answer")]);
    let create = OsdOp::new(OpCode::CREATE);
    ask(&mut world, 8, 2, vec![OsdOp::new(OpCode::NOTIFY), create]);
    assert_eq!(heard(&mut world), [(8, "answer"), (7, "notify")]);
    // A client that no longer watches keeps no notification waiting.
    ask(&mut world, 7, 2, vec![watch(0)]);
    assert_eq!(heard(&mut world), [(7, "answer"), (8, "complete"), (8, "complete")]);
    // What has failed does nothing to watches.
    ask(&mut world, 7, 3, vec![watch(WATCH), OsdOp::new(OpCode(0x1299))]);
    ask(&mut world, 8, 3, vec![OsdOp::new(OpCode::NOTIFY)]);
    assert_eq!(heard(&mut world), [(7, "error"), (8, "complete"), (8, "answer")]);
}

#[test]
fn notifications_of_changes_take_their_room_before_the_changes_are_durable() {
    let mut world = World::active();
    ask(&mut world, 7, 1, vec![watch(WATCH)]);
    assert_eq!(world.notifying.bytes(), 0);
    let data = (1u32, 30u32, Bytes::from(vec![1; 1_000])).to_bytes(Features::default());
    let notify = OsdOp { data, ..OsdOp::new(OpCode::NOTIFY) };
    world.ask(1, 2, vec![notify, OsdOp::new(OpCode::CREATE)]);
    let held = world.notifying.bytes();
    assert!(held > 1_000);
    world.confirm_all();
    assert_eq!(world.notifying.bytes(), held);
    ask(&mut world, 7, 3, vec![watch(0)]);
    assert_eq!(world.notifying.bytes(), 0);
}

#[test]
fn what_is_read_is_counted_in_whatever_pieces_it_goes_out() {
    let mut world = World::active();
    let params = OpParams::from_parts(&[&0u64.to_le_bytes(), &100u64.to_le_bytes()]);
    ask(&mut world, 7, 1, vec![OsdOp { params, ..OsdOp::new(OpCode::READ) }]);
    assert_eq!(heard(&mut world), [(7, "answer")]);
    let counters = world.pg.stats.sum;
    assert_eq!((counters.reads, counters.read_bytes, counters.write_bytes), (1, 10, 0));
}

/// librbd takes the loss of its watch for the sign that it was blocklisted, and a flush then fails at once.
#[test]
fn a_client_loses_its_watches_with_the_map_that_blocklists_it() {
    let mut world = World::active();
    ask(&mut world, 7, 1, vec![watch(WATCH)]);
    heard(&mut world);
    let addr = EntityAddr { kind: types::AddrType::ANY, ..EntityAddr::default() };
    world.map.blocklist.insert(addr, types::UTime { sec: u32::MAX, nsec: 0 });
    world.map.epoch = world.map.epoch.next();
    world.handle(Event::NewMap);
    world.confirm_all();
    assert_eq!(heard(&mut world), [(7, "disconnect")]);
    assert_eq!(world.pg.watchers().count(), 0);
}

/// If the primary failed before, the next one would wait for the watcher: its client could come back, and has not heard
/// of a notification that went well.
#[test]
fn a_watch_that_an_osd_ends_is_over_once_that_is_durable() {
    let mut world = World::active();
    ask(&mut world, 7, 1, vec![watch(WATCH)]);
    let data = (1u32, 3_600u32, Bytes::new()).to_bytes(Features::default());
    ask(&mut world, 8, 1, vec![OsdOp { data, ..OsdOp::new(OpCode::NOTIFY) }]);
    heard(&mut world);
    world.map.blocklist.insert(
        EntityAddr { kind: types::AddrType::ANY, ..EntityAddr::default() },
        types::UTime { sec: u32::MAX, nsec: 0 },
    );
    for _ in 0..2 {
        world.map.epoch = world.map.epoch.next();
        world.handle(Event::NewMap);
        assert!(heard(&mut world).is_empty());
        assert_eq!(world.pg.watchers().count(), 1);
    }
    world.confirm_all();
    assert_eq!(heard(&mut world), [(7, "disconnect"), (8, "complete")]);
    assert_eq!(world.pg.watchers().count(), 0);
}

#[test]
fn a_change_that_was_put_aside_waits_for_copies_that_were_found_bad_meanwhile() {
    let mut world = World::active();
    let (head, peer) = (world.object(1), world.peers[0]);
    let client =
        Client { session: 1, entity: EntityNum::client(1), addr: EntityAddr::default(), features: 0 };
    let op = MOSDOp {
        pgid: world.pg.pgid,
        epoch: world.map.epoch,
        oid: head.oid.clone(),
        ops: vec![OsdOp::new(OpCode::DELETE)],
        snapid: types::SnapId::HEAD,
        ..MOSDOp::default()
    };
    let waiting = WaitingOp::new(client, 1, Box::new(op), OpThrottle::default().take(0), world.now);
    let bad = world.version(1);
    world.act(|pg, ctx| {
        let load = pg.put_aside(&head, waiting);
        pg.is_clean = false;
        pg.replace_copy(peer, head.clone(), bad, ctx);
        pg.resume_with_answer(&head, load, 0, 0, ctx);
    });
    assert_eq!((world.replicated().len(), world.stored(1)), (0, 1));
    let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
    world.say(peer, MPgPushReply { pgid, epoch, object: head }.into());
    assert_eq!((world.replicated().len(), world.stored(1)), (1, 0));
}

#[test]
fn a_change_that_has_waited_is_refused_if_its_client_was_blocklisted_meanwhile() {
    let mut world = World::active();
    // Without a lease nothing runs.
    world.now = world.now + std::time::Duration::from_secs(60);
    ask(&mut world, 7, 1, vec![OsdOp::new(OpCode::CREATE)]);
    assert_eq!(heard(&mut world), []);
    let addr = EntityAddr { kind: types::AddrType::ANY, ..EntityAddr::default() };
    world.map.blocklist.insert(addr, types::UTime { sec: u32::MAX, nsec: 0 });
    world.now = world.now + std::time::Duration::from_secs(1);
    world.hear_all();
    world.handle(Event::Tick);
    assert_eq!(heard(&mut world), [(7, "error")]);
    assert_eq!(world.replicated(), []);
}

#[test]
fn a_request_that_becomes_too_large_changes_nothing() {
    let mut world = World::active();
    let (at, unit, len) = (0u64.to_le_bytes(), 1024u64, 86u64 << 20);
    let params = OpParams::from_parts(&[&at, &len.to_le_bytes(), &unit.to_le_bytes()]);
    let data = Bytes::from(vec![7; 1024]);
    let same = OsdOp { params, data, ..OsdOp::new(OpCode::WRITESAME) };
    let before = world.pg.info.last_update;
    ask(&mut world, 7, 1, vec![same; 3]);
    assert_eq!((heard(&mut world), world.stored(1)), (vec![(7, "error")], 1));
    assert_eq!(world.pg.info.last_update, before, "nothing is logged");
}

#[test]
fn watchers_of_an_object_that_is_written_all_the_time_go_too() {
    let mut world = World::active();
    ask(&mut world, 7, 1, vec![watch(WATCH)]);
    world.now = world.now + std::time::Duration::from_secs(60);
    world.hear_all();
    world.write(1, 2);
    assert_eq!((world.replicated().len(), world.pg.watchers().count()), (2, 1));
    world.handle(Event::Tick);
    assert_eq!(world.replicated().len(), 1);
    world.confirm_all();
    assert_eq!(world.pg.watchers().count(), 0);
}

#[test]
fn a_watcher_that_comes_back_at_the_last_moment_stays() {
    let mut world = World::active();
    ask(&mut world, 1, 1, vec![watch(WATCH)]);
    world.now = world.now + std::time::Duration::from_secs(60);
    world.hear_all();
    world.ask(1, 2, vec![watch(WATCH)]);
    world.handle(Event::Tick);
    assert_eq!(world.pg.watchers().count(), 1);
}

/// librados marks every request of its write operations as one that writes, guards alone included.
#[test]
fn a_request_that_only_reads_waits_for_changes_in_flight_whatever_its_client_calls_it() {
    let mut world = World::active();
    let marked = |world: &World, tid: u64, ops: Vec<OsdOp>| {
        let mut event = world.asking(1, tid, ops);
        if let Event::Op { op, .. } = &mut event {
            op.flags |= osd_flag::WRITE;
        }
        event
    };
    let read = || vec![OsdOp { params: OpParams::extent(0, 3), ..OsdOp::new(OpCode::READ) }];
    world.write(1, 1);
    let ping = marked(&world, 2, vec![watch(7)]);
    world.handle(ping);
    assert_eq!(heard(&mut world), [(1, "error")], "a ping waits for nothing");
    let guard = marked(&world, 3, read());
    world.handle(guard);
    // What comes later keeps its place behind it.
    world.write(1, 4);
    assert_eq!(heard(&mut world), []);
    let version = world.pg.info.last_update;
    world.confirm_all();
    let replies: Vec<u64> = std::mem::take(&mut world.effects)
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Reply { tid, reply, .. } if reply.result >= 0 => Some(tid),
            _ => None,
        })
        .collect();
    assert_eq!((replies, world.pg.info.last_update.version), (vec![1, 3], version.version + 1));
}

#[test]
fn a_watch_whose_session_ended_before_it_began_is_over_in_its_time() {
    // A client that does not ping.
    const LEGACY_WATCH: u8 = 1;
    let mut world = World::active();
    world.ask(1, 1, vec![watch(LEGACY_WATCH)]);
    world.handle(Event::SessionClosed(1));
    world.confirm_all();
    assert_eq!(world.pg.watchers().count(), 1);
    world.now = world.now + std::time::Duration::from_secs(60);
    world.hear_all();
    world.handle(Event::Tick);
    world.confirm_all();
    assert_eq!(world.pg.watchers().count(), 0);
}

#[test]
fn a_watch_that_was_sent_again_is_the_new_sessions() {
    let mut world = World::active();
    world.ask(1, 1, vec![watch(1)]);
    world.handle(Event::SessionClosed(1));
    let mut again = world.asking(1, 1, vec![watch(1)]);
    if let Event::Op { client, .. } = &mut again {
        client.session = 2;
    }
    world.handle(again);
    world.confirm_all();
    world.now = world.now + std::time::Duration::from_secs(60);
    world.hear_all();
    world.handle(Event::Tick);
    assert_eq!(world.pg.watchers().count(), 1);
}

#[test]
fn requests_of_a_session_that_ends_are_dropped_unless_they_have_begun() {
    let mut world = World::active();
    let budget = OpThrottle::default();
    let asking = |world: &World, tid: u64, ops: Vec<OsdOp>, session: u64| {
        let mut event = world.asking(1, tid, ops);
        if let Event::Op { client, permit, .. } = &mut event {
            (client.session, *permit) = (session, budget.take(0));
        }
        event
    };
    let early = world.waiting(2, 9);
    world.pg.ops.early.push_back(early);
    // A read waits for the change, and the next change for the read.
    let create = || vec![OsdOp::new(OpCode::CREATE)];
    for (tid, ops, session) in [(1, create(), 1), (2, vec![OsdOp::new(OpCode::STAT)], 1), (3, create(), 2)] {
        let event = asking(&world, tid, ops, session);
        world.handle(event);
    }
    assert_eq!((budget.ops(), world.replicated().len()), (3, 1));
    world.handle(Event::SessionClosed(1));
    assert_eq!((budget.ops(), world.replicated().len(), world.pg.ops.early.len()), (2, 1, 0));
    world.confirm_all();
    assert_eq!(heard(&mut world), [(1, "answer"), (2, "answer")]);
}

#[test]
fn no_backoff_is_left_to_a_session_that_has_ended() {
    let mut world = World::active();
    let mut begun = world.waiting(1, 1);
    begun.client.features = codec::Features::RADOS_BACKOFF;
    begun.asked.insert(0, 0);
    world.pg.ops.early.push_back(begun);
    world.handle(Event::SessionClosed(1));
    assert!(world.pg.ops.early[0].is_abandoned);
    world.pg.phase = Phase::Down;
    world.handle(Event::Tick);
    assert!(world.pg.ops.early.is_empty());
    let is_told = |effect: &Effect| matches!(effect, Effect::Tell(..));
    assert!(!world.effects.iter().any(is_told));
}

/// Who waits for nothing but what an interval drops would else learn of the map only when it has waited for long.
#[test]
fn clients_whose_requests_an_interval_drops_are_given_its_map() {
    let mut world = World::active();
    let write = || OsdOp { data: Bytes::from_static(b"x"), ..OsdOp::new(OpCode::WRITEFULL) };
    for (session, tid) in [(7, 1), (7, 2), (8, 1)] {
        let Event::Op { mut client, op, permit, .. } = world.asking(1, tid, vec![write()]) else { panic!() };
        client.session = session;
        world.handle(Event::Op { client, tid, op, permit });
    }
    let told = |world: &mut World| -> Vec<u64> {
        let effects = std::mem::take(&mut world.effects).into_iter();
        effects
            .filter_map(|effect| if let Effect::ShareMap(session) = effect { Some(session) } else { None })
            .collect()
    };
    // With this primary they stay.
    world.act(|pg, ctx| pg.ops_end_interval(true, ctx));
    assert_eq!(told(&mut world), [0; 0]);
    world.act(|pg, ctx| pg.ops_end_interval(false, ctx));
    assert_eq!(told(&mut world), [7, 8]);
}
