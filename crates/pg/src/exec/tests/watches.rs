//! Watch and notify as ops.

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{OpCode, OpParams, OsdOp, op_flag};
use types::{EntityNum, Errno};

use super::bench::{Bench, has_changed, plain, step, watch};
use crate::exec::{WatchChange, remove_watcher};

const UNWATCH: u8 = 0;
const LEGACY_WATCH: u8 = 1;
const WATCH: u8 = 3;
const RECONNECT: u8 = 5;
const PING: u8 = 7;

fn started(cookie: u64) -> WatchChange {
    WatchChange::Watch { cookie, timeout_sec: 30, pings: true }
}

fn watched() -> Bench {
    let mut bench = Bench::new();
    bench.put("x");
    assert_eq!(bench.result(vec![watch(WATCH, 11)]), 0);
    bench
}

#[test]
fn watches_are_kept_with_the_object() {
    let mut bench = Bench::new();
    assert_eq!(bench.result(vec![watch(WATCH, 11)]), -2);
    bench.put("x");
    let version = bench.run(vec![plain(OpCode::STAT)]).unwrap().user_version;
    let done = bench.run(vec![watch(WATCH, 11)]).unwrap();
    assert_eq!(done.watch, [started(11)]);
    assert_eq!((done.user_version, has_changed(&done)), (version, true));
    // Again: nothing to keep.
    let done = bench.run(vec![watch(WATCH, 11)]).unwrap();
    assert!(!has_changed(&done));
    assert_eq!(done.watch, [started(11)]);
    assert_eq!(done.watchers.iter().map(|w| w.watcher).collect::<Vec<_>>(), [(7, 11)]);
    let done = bench.run(vec![watch(UNWATCH, 11)]).unwrap();
    assert_eq!((done.watch.len(), has_changed(&done)), (1, true));
    let done = bench.run(vec![watch(UNWATCH, 11)]).unwrap();
    assert_eq!((done.result, done.watch.len(), has_changed(&done)), (0, 0, false));
}

#[test]
fn only_known_watches_reconnect_and_only_connected_ones_ping() {
    let mut bench = watched();
    assert_eq!(bench.run(vec![watch(RECONNECT, 11)]).unwrap().watch, [started(11)]);
    assert_eq!(bench.result(vec![watch(RECONNECT, 12)]), -107);
    assert_eq!(bench.result(vec![watch(PING, 12)]), -107);
    assert_eq!(bench.result(vec![watch(PING, 11)]), -110);
    bench.ctx.connected.insert(11);
    assert_eq!(bench.run(vec![watch(PING, 11)]).unwrap().watch, [WatchChange::Ping { cookie: 11 }]);
    bench.ctx.origin = EntityNum::client(8);
    assert_eq!(bench.result(vec![watch(RECONNECT, 11)]), -107);
    // Ceph takes what it does not know for nothing.
    let done = bench.run(vec![watch(99, 11)]).unwrap();
    assert_eq!((done.result, done.watch.len(), has_changed(&done)), (0, 0, false));
    let legacy = WatchChange::Watch { cookie: 13, timeout_sec: 30, pings: false };
    assert_eq!(bench.run(vec![watch(LEGACY_WATCH, 13)]).unwrap().watch, [legacy]);
    // A ping of nothing is a read of nothing.
    assert_eq!(Bench::new().run(vec![watch(PING, 1)]).map(|done| done.result), Err(Errno::ENOENT));
}

#[test]
fn watchers_of_a_deleted_object_are_told() {
    let mut bench = watched();
    let done = bench.run(vec![plain(OpCode::DELETE)]).unwrap();
    assert_eq!(done.watch, [WatchChange::Disconnect((7, 11))]);
    bench.put("x");
    assert_eq!(bench.result(vec![watch(RECONNECT, 11)]), -107);
}

#[test]
fn watches_that_end_by_themselves_leave_the_version_alone() {
    let mut bench = watched();
    let before = bench.run(vec![plain(OpCode::STAT)]).unwrap();
    let head = Bench::object("o");
    let staged = remove_watcher(&bench.store, bench.ctx.coll, &head, (7, 11), bench.ctx.next_version);
    let staged = staged.unwrap().unwrap();
    bench.ctx.next_version.version += 1;
    store::ObjectStore::submit(&mut bench.store, types::Token(0), staged.txn);
    let after = bench.run(vec![plain(OpCode::STAT)]).unwrap();
    assert_eq!((after.user_version, &after.ops), (before.user_version, &before.ops));
    assert!(after.watchers.is_empty());
    let again = remove_watcher(&bench.store, bench.ctx.coll, &head, (7, 11), bench.ctx.next_version);
    assert!(again.unwrap().is_none());
}

#[test]
fn notifications_carry_the_payload_and_the_version() {
    let mut bench = watched();
    let mut input = (1u32, 10u32).to_bytes(Features::default()).to_vec();
    Bytes::from("hi").encode(&mut input, Features::default());
    let op = step(OpCode::NOTIFY, OpParams::from_parts(&[&5u64.to_le_bytes()]), input);
    let (id, user_version) = (900, 1);
    let expect = WatchChange::Notify { id, cookie: 5, timeout_sec: 10, payload: "hi".into(), user_version };
    let done = bench.run(vec![op]).unwrap();
    assert_eq!((done.watch, &done.ops[0].data[..]), (vec![expect], &900u64.to_le_bytes()[..]));
    let expect = WatchChange::Notify { id, cookie: 0, timeout_sec: 30, payload: Bytes::new(), user_version };
    assert_eq!(bench.run(vec![plain(OpCode::NOTIFY)]).unwrap().watch, [expect]);
}

/// As `PrimaryLogPG::do_osd_op_effects` does: what ends, what begins, notifications, answers.
#[test]
fn what_a_request_does_to_watches_has_an_order() {
    let mut bench = watched();
    let ops = vec![
        plain(OpCode::NOTIFY_ACK),
        plain(OpCode::NOTIFY),
        watch(WATCH, 12),
        plain(OpCode::NOTIFY),
        watch(UNWATCH, 11),
    ];
    bench.return_outputs();
    let done = bench.run(ops).unwrap();
    let ids = |at: usize| u64::from_le_bytes(done.ops[at].data[..].try_into().unwrap());
    assert_eq!((ids(1), ids(3)), (900, 901));
    let name = |change: &WatchChange| match change {
        WatchChange::Unwatch { cookie: 11 } => "unwatch",
        WatchChange::Watch { cookie: 12, .. } => "watch",
        WatchChange::Notify { id: 900 | 901, .. } => "notify",
        WatchChange::Ack { .. } => "ack",
        other => panic!("{other:?}"),
    };
    let order: Vec<&str> = done.watch.iter().map(name).collect();
    assert_eq!(order, ["unwatch", "watch", "notify", "notify", "ack"]);
}

#[test]
fn acknowledgements_name_a_watch_or_all_of_them() {
    let mut bench = watched();
    let mut input = (9u64, 11u64).to_bytes(Features::default()).to_vec();
    Bytes::from("yes").encode(&mut input, Features::default());
    let done = bench.run(vec![step(OpCode::NOTIFY_ACK, OpParams::default(), input)]).unwrap();
    assert_eq!(done.watch, [WatchChange::Ack { notify_id: 9, cookie: Some(11), reply: "yes".into() }]);
    let old = step(OpCode::NOTIFY_ACK, OpParams::from_parts(&[&9u64.to_le_bytes()]), "");
    let done = bench.run(vec![old]).unwrap();
    assert_eq!(done.watch, [WatchChange::Ack { notify_id: 9, cookie: None, reply: Bytes::new() }]);
}

#[test]
fn notifications_are_refused_where_there_is_no_room_for_them() {
    const EBUSY: i32 = -16;
    let mut bench = Bench::new();
    bench.put("x");
    bench.ctx.notify_room = 2_000;
    let notify = |len: usize, timeout: u32| {
        let data = (1u32, timeout, Bytes::from(vec![1; len])).to_bytes(Features::default());
        step(OpCode::NOTIFY, OpParams::from_parts(&[&5u64.to_le_bytes()]), data)
    };
    assert_eq!(bench.result(vec![notify(1_000, 5)]), 0);
    assert_eq!(bench.result(vec![notify(1_800, 5)]), EBUSY);
    assert_eq!(bench.result(vec![notify(100, 5), notify(1_000, 5)]), EBUSY);
    // What was refused takes no id.
    let may_fail = OsdOp { flags: op_flag::FAILOK, ..notify(1_800, 5) };
    let done = bench.run(vec![may_fail, notify(100, 5)]).unwrap();
    assert!(matches!(done.watch[..], [WatchChange::Notify { id: 900, .. }]), "{:?}", done.watch);
    let ack = |len: usize| {
        let data = (1u64, 5u64, Bytes::from(vec![1; len])).to_bytes(Features::default());
        step(OpCode::NOTIFY_ACK, OpParams::default(), data)
    };
    assert_eq!((bench.result(vec![ack(1_999)]), bench.result(vec![ack(2_001)])), (0, EBUSY));
    let done = bench.run(vec![notify(1, u32::MAX)]).unwrap();
    assert!(matches!(done.watch[0], WatchChange::Notify { timeout_sec: 3_600, .. }));
}

/// Each watcher is sent a message with the payload.
#[test]
fn notifications_take_room_for_each_watcher_those_of_their_own_request_included() {
    const EBUSY: i32 = -16;
    let mut bench = watched();
    bench.ctx.notify_room = 3_000;
    let notify = || {
        let data = (1u32, 5u32, Bytes::from(vec![1; 1_000])).to_bytes(Features::default());
        step(OpCode::NOTIFY, OpParams::default(), data)
    };
    let done = bench.run(vec![watch(WATCH, 12), notify()]).unwrap();
    assert_eq!((done.result, done.notify_bytes), (0, 512 + 2 * 1_032));
    assert_eq!(bench.result(vec![notify(), watch(WATCH, 13)]), EBUSY);
    assert_eq!(bench.result(vec![notify(), watch(WATCH, 12)]), 0, "it watches already");
    assert_eq!(bench.result(vec![watch(WATCH, 13)]), 0);
    assert_eq!(bench.result(vec![notify()]), EBUSY);
}

#[test]
fn watches_last_an_hour_at_most_and_an_object_has_so_many_and_no_more() {
    let mut bench = watched();
    let long =
        OpParams::from_parts(&[&12u64.to_le_bytes(), &[0; 8], &[WATCH], &[0; 4], &u32::MAX.to_le_bytes()]);
    let done = bench.run(vec![step(OpCode::WATCH, long, "")]).unwrap();
    assert_eq!(done.watch, [WatchChange::Watch { cookie: 12, timeout_sec: 3_600, pings: true }]);
    assert_eq!(bench.result((100..4_194).map(|cookie| watch(WATCH, cookie)).collect()), 0);
    assert_eq!(bench.result(vec![watch(WATCH, 4_194)]), Errno::EBUSY.negated());
    assert_eq!(bench.result(vec![watch(WATCH, 4_193), watch(UNWATCH, 11), watch(WATCH, 4_194)]), 0);
}
