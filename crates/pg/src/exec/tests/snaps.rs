//! Snapshots: clones, their overlaps, rollback, trimming.

use bytes::Bytes;
use codec::{Codec, Decode, Encode, Features};
use messages::{OpCode, OsdOp};
use store::ObjectStore;
use types::{Errno, HObject, Mutation, SnapId, Token, TxnOp};

use super::{
    bench::{Bench, call, extent, plain, range, snap, watch, xattr},
    copies::copy_from,
};
use crate::{
    exec::{Delta, INFO_XATTR, ObjectInfo, SNAPSET_XATTR, TrimStep, trim_step},
    watched_store::WatchedStore,
};

#[derive(Codec, Debug, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
struct Clone {
    id: SnapId,
    snaps: Vec<SnapId>,
    overlap: Vec<(u64, u64)>,
    size: u64,
}

#[derive(Codec, Debug, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
struct Snaps {
    clones: Vec<Clone>,
    seq: SnapId,
}

fn list(bench: &mut Bench) -> Result<Snaps, Errno> {
    let done = bench.at(SnapId::DIR, vec![plain(OpCode::LIST_SNAPS)])?;
    Ok(Snaps::from_bytes(done.ops[0].data.clone()).unwrap())
}

fn clone(id: u64, snaps: &[u64], overlap: &[(u64, u64)], size: u64) -> Clone {
    Clone { id: SnapId(id), snaps: snaps.iter().map(|s| SnapId(*s)).collect(), overlap: overlap.into(), size }
}

fn head(size: u64) -> Clone {
    Clone { id: SnapId::HEAD, snaps: Vec::new(), overlap: Vec::new(), size }
}

fn write(offset: u64, data: &'static str) -> Vec<OsdOp> {
    vec![extent(OpCode::WRITE, offset, data)]
}

/// Data, its clones, and changes in between.
pub(super) fn example() -> Bench {
    let mut bench = Bench::new();
    bench.put("0123456789");
    bench.make_snap(2);
    bench.make_snap(3);
    assert_eq!(bench.result(write(2, "ab")), 0);
    bench.make_snap(5);
    assert_eq!(bench.result(write(8, "cdef")), 0);
    bench
}

#[test]
fn snapshots_keep_what_was() {
    let mut bench = example();
    let read = |bench: &mut Bench, snap| bench.read_at(SnapId(snap));
    assert_eq!(read(&mut bench, 2), Ok(Bytes::from("0123456789")));
    assert_eq!(read(&mut bench, 3), Ok(Bytes::from("0123456789")));
    assert_eq!(read(&mut bench, 5), Ok(Bytes::from("01ab456789")));
    assert_eq!(read(&mut bench, 6), Ok(Bytes::from("01ab4567cdef")));
    assert_eq!(bench.read(), Ok(Bytes::from("01ab4567cdef")));
    // Snapshots that did not exist when the object was changed.
    assert_eq!(read(&mut bench, 1), Err(Errno::ENOENT));
    assert_eq!(read(&mut bench, 4), Err(Errno::ENOENT));
    let clones = vec![clone(3, &[2, 3], &[(0, 2), (4, 6)], 10), clone(5, &[5], &[(0, 8)], 10), head(12)];
    assert_eq!(list(&mut bench), Ok(Snaps { clones, seq: SnapId(5) }));
    assert_eq!(bench.total, Delta { objects: 3, clones: 2, bytes: 32 });
}

#[test]
fn objects_are_not_in_snapshots_older_than_they() {
    let mut bench = Bench::new();
    bench.make_snap(1);
    bench.put("x");
    bench.make_snap(2);
    bench.put("y");
    assert_eq!(bench.read_at(SnapId(1)), Err(Errno::ENOENT));
    assert_eq!(bench.read_at(SnapId(2)), Ok(Bytes::from("x")));
}

#[test]
fn removed_snapshots_are_gone_for_readers_and_writers_at_once() {
    let mut bench = example();
    bench.remove_snap(5);
    assert_eq!(bench.read_at(SnapId(5)), Err(Errno::ENOENT));
    let before_trimming = [clone(3, &[2, 3], &[(0, 2), (4, 4)], 10), head(12)];
    assert_eq!(list(&mut bench).unwrap().clones, before_trimming);
    bench.make_snap(6);
    bench.remove_snap(6);
    bench.put("z");
    assert_eq!(list(&mut bench).unwrap().clones.len(), 2);
    bench.remove_snap(3);
    assert_eq!(list(&mut bench).unwrap().clones[0].snaps, [SnapId(2)]);
}

#[test]
fn at_a_removed_snapshot_after_its_last_change_an_object_is_what_it_is() {
    let mut bench = example();
    let now = bench.read().unwrap();
    bench.make_snap(9);
    bench.remove_snap(9);
    assert_eq!(bench.read_at(SnapId(9)), Ok(now.clone()));
    // A copy sees the same.
    let copy = bench.request("copy", SnapId::HEAD, vec![copy_from("o", SnapId(9), 0)]);
    assert_eq!(bench.execute(&copy).unwrap().result, 0);
    bench.ctx.copied.clear();
    bench.put("z");
    assert_eq!(bench.read_at(SnapId(9)), Err(Errno::ENOENT));
    let copy = bench.request("copy", SnapId::HEAD, vec![copy_from("o", SnapId(9), 0)]);
    assert_eq!(bench.execute(&copy).unwrap().result, -2);
}

#[test]
fn deleted_objects_live_on_in_snapshots() {
    let mut bench = example();
    bench.make_snap(7);
    assert_eq!(bench.result(vec![plain(OpCode::DELETE)]), 0);
    assert_eq!(bench.read(), Err(Errno::ENOENT));
    assert_eq!(bench.result(vec![plain(OpCode::DELETE)]), -2);
    assert_eq!(bench.read_at(SnapId(7)), Ok(Bytes::from("01ab4567cdef")));
    assert_eq!(bench.read_at(SnapId(8)), Err(Errno::ENOENT));
    let snaps = list(&mut bench).unwrap();
    assert_eq!((snaps.clones.len(), snaps.clones[2].size), (3, 12));
    assert_eq!(bench.total, Delta { objects: 4, clones: 3, bytes: 32 });
    // The object may come back; its old contents do not.
    bench.put("new");
    assert_eq!(bench.read(), Ok(Bytes::from("new")));
    assert_eq!(bench.read_at(SnapId(3)), Ok(Bytes::from("0123456789")));
}

/// Live migration asks this before it copies an object: one that was removed must not come back.
#[test]
fn what_lives_on_in_snapshots_is_not_taken_for_what_never_was() {
    const NEWER: u8 = 0;
    const NOT_NEWER: u8 = 1;
    const ERANGE: i32 = -34;
    let ask = |bench: &mut Bench, seq: u64, state: u8| {
        let input = (SnapId(seq), state).to_bytes(Features::default());
        bench.result(vec![call("rbd", "assert_snapc_seq", &input)])
    };
    let mut bench = Bench::new();
    bench.make_snap(1);
    assert_eq!((ask(&mut bench, 0, NEWER), ask(&mut bench, 0, NOT_NEWER)), (0, ERANGE));
    bench.put("x");
    assert_eq!((ask(&mut bench, 1, NEWER), ask(&mut bench, 1, NOT_NEWER)), (ERANGE, 0));
    bench.make_snap(3);
    assert_eq!(bench.result(vec![plain(OpCode::DELETE)]), 0);
    assert_eq!((ask(&mut bench, 3, NEWER), ask(&mut bench, 3, NOT_NEWER)), (ERANGE, 0));
    assert_eq!((ask(&mut bench, 4, NEWER), ask(&mut bench, 4, NOT_NEWER)), (0, ERANGE));
    // Without clones nothing is left of it.
    let mut bench = Bench::new();
    bench.make_snap(1);
    bench.put("x");
    assert_eq!(bench.result(vec![plain(OpCode::DELETE)]), 0);
    assert_eq!((ask(&mut bench, 1, NEWER), ask(&mut bench, 1, NOT_NEWER)), (0, ERANGE));
}

#[test]
fn rollback_makes_the_head_what_it_was() {
    let mut bench = example();
    assert_eq!(bench.result(vec![xattr(OpCode::SETXATTR, "later", "1")]), 0);
    let version = bench.run(vec![snap(OpCode::ROLLBACK, 3)]).unwrap().user_version;
    assert_eq!(bench.read(), Ok(Bytes::from("0123456789")));
    assert_eq!(bench.result(vec![xattr(OpCode::GETXATTR, "later", "")]), -61);
    assert_eq!(bench.run(vec![plain(OpCode::STAT)]).unwrap().user_version, version);
    assert_eq!(list(&mut bench).unwrap().clones[1], clone(5, &[5], &[(0, 2), (4, 4)], 10));
    // A snapshot without the object: it is removed.
    assert_eq!(bench.result(vec![snap(OpCode::ROLLBACK, 1)]), 0);
    assert_eq!(bench.read(), Err(Errno::ENOENT));
    assert_eq!(bench.result(vec![snap(OpCode::ROLLBACK, 5)]), 0);
    assert_eq!(bench.read(), Ok(Bytes::from("01ab456789")));
    // A snapshot that was made after the last change: the head already is what it was then.
    assert_eq!(bench.result(vec![snap(OpCode::ROLLBACK, 9)]), 0);
    assert_eq!(bench.read(), Ok(Bytes::from("01ab456789")));
}

#[test]
fn rollback_does_not_take_an_object_from_its_watchers() {
    let mut bench = Bench::new();
    bench.make_snap(1);
    bench.put("x");
    assert_eq!(bench.result(vec![watch(3, 1)]), 0);
    assert_eq!(bench.result(vec![snap(OpCode::ROLLBACK, 1)]), -16);
}

#[test]
fn a_rollback_after_a_new_snapshot_keeps_the_state_before() {
    let mut bench = example();
    bench.make_snap(9);
    assert_eq!(bench.result(vec![snap(OpCode::ROLLBACK, 3)]), 0);
    assert_eq!(bench.read_at(SnapId(9)), Ok(Bytes::from("01ab4567cdef")));
    assert_eq!(bench.read(), Ok(Bytes::from("0123456789")));
}

pub(super) fn trim(bench: &mut Bench, removed: &[u64]) -> usize {
    trim_all(bench, removed).0
}

/// Trims, and says what is not referred to any more.
pub(super) fn trimmed(bench: &mut Bench, removed: &[u64]) -> Vec<HObject> {
    trim_all(bench, removed).1
}

fn trim_all(bench: &mut Bench, removed: &[u64]) -> (usize, Vec<HObject>) {
    let (mut from, mut changes, mut given_back) = (HObject::min(), 0, Vec::new());
    loop {
        let is_removed = |snap: SnapId| removed.contains(&snap.0);
        match trim_step(&bench.store, bench.ctx.coll, &from, &is_removed, bench.ctx.next_version).unwrap() {
            TrimStep::Done => return (changes, given_back),
            TrimStep::Continue(next) => from = next,
            TrimStep::Change(_, staged, lost) => {
                changes += 1;
                given_back.extend(lost);
                // Taking such a change back requires the version that there was.
                for entry in staged.log.iter().filter(|entry| entry.is_delete) {
                    let info = bench.store.xattr(bench.ctx.coll, &entry.object, INFO_XATTR).unwrap().unwrap();
                    assert_eq!(entry.prior_version, ObjectInfo::from_bytes(info).unwrap().version);
                }
                bench.ctx.next_version.version += staged.log.len() as u64;
                bench.total.objects += staged.delta.objects;
                bench.total.clones += staged.delta.clones;
                bench.total.bytes += staged.delta.bytes;
                bench.store.submit(Token(0), staged.txn);
            }
        }
    }
}

/// It grows with the clones, and was read for each of them.
#[test]
fn what_tells_of_an_objects_clones_is_read_once() {
    let mut bench = Bench::new();
    bench.put("0123456789");
    for snap in 2..62 {
        bench.make_snap(snap);
        assert_eq!(bench.result(write(snap % 10, "a")), 0);
    }
    let store = WatchedStore::over(bench.store);
    let step =
        trim_step(&store, bench.ctx.coll, &HObject::min(), &|snap| snap == SnapId(1), bench.ctx.next_version);
    assert!(matches!(step, Ok(TrimStep::Done)));
    assert_eq!(store.xattrs_read.get(), 1);
}

#[test]
fn trimming_removes_what_only_removed_snapshots_need() {
    let mut bench = example();
    assert_eq!(trim(&mut bench, &[2]), 1);
    assert_eq!(list(&mut bench).unwrap().clones[0].snaps, [SnapId(3)]);
    assert_eq!(bench.read_at(SnapId(3)), Ok(Bytes::from("0123456789")));
    assert_eq!(trim(&mut bench, &[2]), 0);
    assert_eq!(trim(&mut bench, &[2, 5]), 1);
    let snaps = list(&mut bench).unwrap();
    assert_eq!(snaps.clones, [clone(3, &[3], &[(0, 2), (4, 4)], 10), head(12)]);
    assert_eq!(bench.total, Delta { objects: 2, clones: 1, bytes: 22 });
    assert_eq!(bench.read(), Ok(Bytes::from("01ab4567cdef")));
    assert_eq!(trim(&mut bench, &[2, 3, 5]), 1);
    assert_eq!(list(&mut bench).unwrap().clones, [head(12)]);
}

#[test]
fn the_last_clone_takes_a_deleted_head_with_it() {
    let mut bench = example();
    assert_eq!(bench.result(vec![plain(OpCode::DELETE)]), 0);
    assert_eq!(trim(&mut bench, &[2, 3, 5]), 1);
    assert_eq!(bench.total, Delta::default());
    assert_eq!(bench.store.list(bench.ctx.coll, &HObject::min(), 9).unwrap(), []);
}

#[test]
fn what_a_snapshot_shows_stays_when_the_head_is_written_in_the_same_request() {
    let mut bench = Bench::new();
    bench.put("old");
    bench.make_snap(1);
    let ops = vec![plain(OpCode::DELETE), extent(OpCode::WRITE, 0, "newer"), range(OpCode::TRUNCATE, 2, 0)];
    assert_eq!(bench.result(ops), 0);
    assert_eq!(bench.read_at(SnapId(1)), Ok(Bytes::from("old")));
    assert_eq!(bench.read(), Ok(Bytes::from("ne")));
}

#[test]
fn pools_snapshots_come_from_the_map() {
    let mut bench = Bench::new();
    bench.put("old");
    bench.ctx.pool_snapc = Some(types::SnapContext { seq: SnapId(4), snaps: vec![SnapId(4)] });
    bench.put("new");
    assert_eq!(bench.read_at(SnapId(4)), Ok(Bytes::from("old")));
}

/// Whether ops on the object write its `SnapSet`, which must be there afterwards in any case, unless the object is
/// deleted.
fn writes_snapset(bench: &mut Bench, ops: Vec<OsdOp>) -> bool {
    let staged = bench.run(ops).unwrap().staged.unwrap();
    let kept = bench.store.xattr(bench.ctx.coll, &Bench::object("o"), SNAPSET_XATTR).unwrap();
    assert_eq!(kept.is_some(), !staged.log[0].is_delete);
    staged.txn.ops.iter().any(|op| match op {
        TxnOp::Object(_, Mutation::SetXattrs(map)) => map.contains_key(SNAPSET_XATTR),
        _ => false,
    })
}

#[test]
fn what_an_object_has_of_snapshots_is_written_when_it_changes() {
    let mut bench = Bench::new();
    let write = |at| vec![extent(OpCode::WRITE, at, "data")];
    assert!(writes_snapset(&mut bench, write(0)));
    assert!(!writes_snapset(&mut bench, write(2)));
    bench.make_snap(1);
    assert!(writes_snapset(&mut bench, write(0)));
    assert!(!writes_snapset(&mut bench, write(0)));
    // What the clone and the head have in common is less.
    assert!(writes_snapset(&mut bench, write(4)));
    assert!(writes_snapset(&mut bench, vec![snap(OpCode::ROLLBACK, 1)]));
    assert!(!writes_snapset(&mut bench, vec![xattr(OpCode::SETXATTR, "a", "b")]));
    assert!(writes_snapset(&mut bench, vec![plain(OpCode::DELETE)]));
    assert!(writes_snapset(&mut bench, write(0)));
}
