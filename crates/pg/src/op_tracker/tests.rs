//! What of the ops of a PG can be seen, and when.

use std::{collections::BTreeMap, time::Duration};

use messages::{ObjectLocator, OpCode, OpParams, OsdOp};
use types::{EntityAddr, EntityNum, Settings, SnapId};

use super::*;
use crate::{Event, OpThrottle, test_world::World};

/// A client's request on the first object, which comes at this moment.
fn ask(world: &mut World, held: &OpThrottle, tid: u64, op: OsdOp) {
    let entity = EntityNum::client(7);
    let client = Client { session: 1, entity, addr: EntityAddr::default(), features: 0 };
    let pool = world.pg.pgid.pool;
    let op = MOSDOp {
        pgid: world.pg.pgid,
        epoch: world.map.epoch,
        locator: ObjectLocator { pool, ..ObjectLocator::default() },
        oid: "o1".into(),
        ops: vec![op],
        snapid: SnapId::HEAD,
        ..MOSDOp::default()
    };
    let permit = held.take_at(0, world.now);
    world.handle(Event::Op { client, tid, op: Box::new(op), permit });
}

fn write(data: &'static [u8]) -> OsdOp {
    OsdOp {
        params: OpParams::extent(0, data.len() as u64),
        data: data.into(),
        ..OsdOp::new(OpCode::WRITEFULL)
    }
}

fn points(world: &World) -> Vec<(u64, String)> {
    world.pg.ops_until(world.now).into_iter().map(|op| (op.tid, op.flag_point)).collect()
}

#[test]
fn ops_in_flight_tell_what_they_wait_for() {
    let mut world = World::active();
    let (held, before) = (OpThrottle::default(), world.now);
    ask(&mut world, &held, 1, write(b"abc"));
    world.now = world.now + Duration::from_secs(2);
    ask(&mut world, &held, 2, OsdOp::new(OpCode::STAT));
    assert_eq!(
        points(&world),
        [(2, "waiting for rw locks".to_owned()), (1, "waiting for sub ops".to_owned())]
    );
    let old = world.pg.ops_until(before);
    assert_eq!(old.iter().map(|op| op.tid).collect::<Vec<_>>(), [1], "the other one came later");
    let shown = old[0].to_json(world.now, UTime::new(1_795_404_943, 5_000));
    let others: Vec<String> = world.peers.iter().map(ToString::to_string).collect();
    let seen: Vec<&str> = shown["type_data"]["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    let mut sorted = others.clone();
    sorted.sort();
    let waits = seen.iter().find_map(|event| event.strip_prefix("waiting for subops from ")).unwrap();
    let mut waits: Vec<&str> = waits.split(',').collect();
    waits.sort_unstable();
    assert_eq!(waits, sorted);
    assert_eq!(seen[..3], ["initiated", "reached_pg", "started"]);
    assert_eq!(seen[4..], ["op_commit"], "it is durable here");
    assert_eq!(shown["initiated_at"], "2026-11-23T03:35:41.000005+0000");
    assert_eq!((&shown["age"], &shown["duration"]), (&json!(2.0), &json!(2.0)));
    assert_eq!(shown["type_data"]["client_info"]["client"], "client.7");
    world.confirm_all();
    assert_eq!(points(&world), []);
}

#[test]
fn answered_ops_are_remembered_when_they_were_slower_than_others() {
    let mut world = World::active();
    let held = OpThrottle::default();
    let file = [("osd_op_history_size", "2"), ("osd_op_history_slow_op_threshold", "4")];
    let file: BTreeMap<String, String> =
        file.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    held.with_history(|history| history.follow(&Settings::from_file(&file)));
    for (tid, seconds) in [(1, 3), (2, 5), (3, 1), (4, 4)] {
        ask(&mut world, &held, tid, write(b"abc"));
        world.now = world.now + Duration::from_secs(seconds);
        world.confirm_all();
    }
    let tids = |dump: &Value, list: &str| -> Vec<u64> {
        let ops = dump[list].as_array().unwrap().iter();
        ops.map(|op| op["type_data"]["client_info"]["tid"].as_u64().unwrap()).collect()
    };
    let now = world.now;
    held.with_history(|history| {
        let all = history.dump(false, now, UTime::default());
        assert_eq!((&all["size"], &all["duration"]), (&json!(2), &json!(600)));
        assert_eq!(tids(&all, "ops"), [2, 4]);
        let last = &all["ops"][1];
        assert_eq!(last["duration"], json!(4.0));
        assert_eq!(last["type_data"]["flag_point"], "commit sent; apply or cleanup");
        assert_eq!(tids(&history.dump(true, now, UTime::default()), "ops"), [2, 4], "the slowest first");
        let slow = history.dump_slow(now, UTime::default());
        assert_eq!((&slow["num to keep"], &slow["threshold to keep"]), (&json!(20), &json!(4)));
        assert_eq!(tids(&slow, "Ops"), [2, 4]);
        // The first one came 13 seconds ago, the last one 4.
        history.expire(now + Duration::from_secs(595));
        assert_eq!(tids(&history.dump(false, now, UTime::default()), "ops"), [4]);
    });
    assert_eq!(world.pg.commit_times().count, 4);
}

#[test]
fn nothing_is_described_that_is_not_remembered() {
    let held = OpThrottle::default();
    held.with_history(|history| history.is_enabled = false);
    held.take_at(0, Instant(0)).answered(Instant(u64::MAX / 2), || unreachable!("the tracker is off"));
}
