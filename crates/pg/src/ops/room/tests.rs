use bytes::Bytes;
use messages::{OpCode, OpParams, OsdOp, osd_flag};
use store::ObjectStore;
use types::{Errno, Mutation, OsdId, SnapContext, SnapId, Token, Transaction};

use super::*;
use crate::{Event, OpThrottle, Room, Rooms, test_world::World};

const MIB: u64 = 1 << 20;
/// Room for less than a change, and for many.
const NONE: Room = Room { bytes: CHANGE_BYTES, left_bytes: CHANGE_BYTES };
const LITTLE: Room = Room { bytes: 0, left_bytes: MIB };
const SOME: Room = Room { bytes: 4 * MIB, left_bytes: 4 * MIB };

fn change(code: OpCode, offset: u64, bytes: u64) -> OsdOp {
    let data = Bytes::from(vec![7; bytes as usize]);
    OsdOp { params: OpParams::extent(offset, bytes), data, ..OsdOp::new(code) }
}

/// The whole object at once, with 16 bytes again and again.
fn repeated(bytes: u64) -> OsdOp {
    let params = OpParams::from_parts(&[&0u64.to_le_bytes(), &bytes.to_le_bytes(), &16u64.to_le_bytes()]);
    OsdOp { params, data: Bytes::from_static(&[1; 16]), ..OsdOp::new(OpCode::WRITESAME) }
}

/// A world in which the first object has as many bytes as that.
fn world_with(bytes: u64) -> World {
    let mut world = World::active();
    let mut txn = Transaction::new(world.pg.coll);
    let data = Bytes::from(vec![1; bytes as usize]).into();
    txn.push(&world.object(1), Mutation::Write { offset: 0, data });
    world.store.submit(Token(0), txn);
    world
}

/// How requests end: with which result, or dropped.
fn ended(world: &mut World) -> Vec<Option<i32>> {
    world.confirm_all();
    let effects = std::mem::take(&mut world.effects).into_iter();
    let ended = effects.filter_map(|effect| match effect {
        Effect::Reply { reply, .. } => Some(Some(reply.result)),
        Effect::Dropped { session: 1, .. } => Some(None),
        _ => None,
    });
    ended.collect()
}

fn set_room(world: &mut World, osd: OsdId, room: Room) {
    world.rooms = Rooms::default();
    world.rooms.set(osd, room);
}

/// Whatever is asked is asked with these flags, at snapshot 5 of the client's.
fn ask_as(world: &mut World, tid: u64, step: OsdOp, flags: u32, snaps: &[u64]) {
    let mut event = world.asking(1, tid, vec![step]);
    if let Event::Op { op, .. } = &mut event {
        let snaps: Vec<SnapId> = snaps.iter().copied().map(SnapId).collect();
        op.snapc = SnapContext { seq: snaps.first().copied().unwrap_or_default(), snaps };
        op.flags = flags;
    }
    world.handle(event);
}

#[test]
fn what_takes_room_is_refused_or_dropped_where_an_osd_with_a_copy_has_none() {
    let (own, peer) = (World::active().pg.me, World::active().peers[0]);
    let end = |osd: OsdId, room: Room, flags: u32, step: OsdOp, snaps: &[u64]| {
        let mut world = world_with(200 << 10);
        set_room(&mut world, osd, room);
        ask_as(&mut world, 1, step, flags, snaps);
        let [end] = ended(&mut world)[..] else { panic!("one request ends once") };
        end
    };
    let refused = Some(Errno::ENOSPC.negated());
    let tries = [osd_flag::FULL_TRY, osd_flag::FULL_FORCE];
    let large = 100 << 10;
    for osd in [own, peer] {
        for flags in tries {
            for (room, code, offset, bytes, result) in [
                (SOME, OpCode::APPEND, 0, 3, Some(0)),
                (NONE, OpCode::APPEND, 0, 3, refused),
                (LITTLE, OpCode::APPEND, 0, 3, refused),
                // An overwrite takes new blocks before it gives the old ones back.
                (SOME, OpCode::WRITE, 0, large, Some(0)),
                (NONE, OpCode::WRITE, 0, large, refused),
                (LITTLE, OpCode::WRITE, 0, large, refused),
                (LITTLE, OpCode::WRITEFULL, 0, 3, Some(0)),
                (NONE, OpCode::WRITEFULL, 0, 3, refused),
                (NONE, OpCode::DELETE, 0, 0, Some(0)),
                (NONE, OpCode::TRUNCATE, 7, 0, Some(0)),
                (NONE, OpCode::ZERO, 0, 0, Some(0)),
            ] {
                let mut step = change(code, offset, bytes);
                if code == OpCode::ZERO {
                    step.params = OpParams::extent(0, 4096);
                }
                assert_eq!(end(osd, room, flags, step, &[]), result, "{code:?} {offset} {bytes} {room:?}");
            }
            // What keeps a copy for a snapshot takes room, whatever it is.
            assert_eq!(end(osd, NONE, flags, OsdOp::new(OpCode::DELETE), &[5]), refused);
        }
        assert_eq!(end(osd, NONE, 0, change(OpCode::WRITE, 0, 3), &[]), None);
        assert_eq!(end(osd, NONE, 0, OsdOp::new(OpCode::DELETE), &[]), Some(0));
    }
    assert_eq!(end(OsdId(77), NONE, tries[0], change(OpCode::APPEND, 0, 3), &[]), Some(0), "it has no copy");
}

#[test]
fn what_a_request_did_not_bring_is_weighed_and_told() {
    let grew = |world: &mut World| {
        let effects = world.effects.iter().filter_map(|effect| match effect {
            Effect::Grew(bytes) => Some(*bytes),
            _ => None,
        });
        effects.sum::<u64>()
    };
    let mut world = World::active();
    let peer = world.peers[0];
    for (bytes, flags, end) in
        [(MIB, 0, Some(0)), (4 * MIB, 0, None), (4 * MIB, osd_flag::FULL_TRY, Some(Errno::ENOSPC.negated()))]
    {
        set_room(&mut world, peer, SOME);
        ask_as(&mut world, bytes + u64::from(flags), repeated(bytes), flags, &[]);
        let told = grew(&mut world);
        assert_eq!((ended(&mut world), told >= bytes), (vec![end], end == Some(0)), "{bytes} {flags}");
    }
    // All that is under way counts.
    let throttle = OpThrottle::default();
    for (tid, dropped) in [(2, 0), (3, 0), (4, 0), (5, 1)] {
        let mut event = world.asking(tid, tid, vec![repeated(MIB)]);
        if let Event::Op { permit, .. } = &mut event {
            *permit = throttle.take(16);
        }
        world.handle(event);
        let effects = world.effects.iter().filter(|effect| matches!(effect, Effect::Dropped { .. }));
        assert_eq!(effects.count(), dropped, "{tid}");
    }
}

/// What is dropped makes room for what comes behind it, which the earlier change would overwrite when it is sent again.
#[test]
fn what_waited_for_the_pg_behind_a_change_that_is_dropped_is_dropped_too() {
    let mut world = World::active();
    let peer = world.peers[0];
    set_room(&mut world, peer, SOME);
    for (tid, at, step) in [
        (1, 1, repeated(4 * MIB)),
        (2, 1, change(OpCode::WRITE, 0, 3)),
        (3, 1, change(OpCode::READ, 0, 0)),
        (4, 2, change(OpCode::WRITE, 0, 3)),
    ] {
        let mut waiting = world.waiting(at, tid);
        waiting.op.ops = vec![step];
        world.pg.ops.early.push_back(waiting);
    }
    world.act(|pg, ctx| pg.run_waiting_ops(ctx));
    assert_eq!(ended(&mut world), [None, Some(0), Some(0)]);
}
