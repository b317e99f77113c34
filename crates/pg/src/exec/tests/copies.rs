//! Copies of objects.

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::{MOSDOp, ObjectLocator, OpCode, OpParams, OsdOp};
use types::{Errno, SnapId, UTime};

use super::bench::{Bench, POOL, encoded, entries, extent, plain, range, step, watch, xattr};

pub(super) fn copy_from(name: &'static str, snap: SnapId, version: u64) -> OsdOp {
    let params = OpParams::from_parts(&[&snap.0.to_le_bytes(), &version.to_le_bytes()]);
    let mut data = Bytes::from(name).to_bytes(Features::default()).to_vec();
    ObjectLocator { pool: POOL, ..ObjectLocator::default() }.encode(&mut data, Features::default());
    step(OpCode::COPY_FROM, params, data)
}

/// A source `s` with data, a hole, xattrs and omap; its version.
fn source(bench: &mut Bench) -> u64 {
    let ops = vec![
        extent(OpCode::WRITE, 0, "begin"),
        extent(OpCode::WRITE, 100, "end"),
        xattr(OpCode::SETXATTR, "k", "v"),
        encoded(OpCode::OMAPSETVALS, entries(&[("a", "1")])),
        step(OpCode::OMAPSETHEADER, OpParams::default(), "head"),
    ];
    let request = bench.request("s", SnapId::HEAD, ops);
    bench.execute(&request).unwrap().user_version
}

#[test]
fn copies_have_the_contents_and_the_version() {
    let mut bench = Bench::new();
    let version = source(&mut bench);
    bench.put("what was here before, and watched");
    assert_eq!(bench.result(vec![xattr(OpCode::SETXATTR, "old", "1"), watch(3, 5)]), 0);
    // Observed: the copy answers with the source's version, and keeps it.
    let done = bench.run(vec![copy_from("s", SnapId::HEAD, 0)]).unwrap();
    assert_eq!((done.result, done.user_version, done.watch.len()), (0, version, 0));
    let done =
        bench.run(vec![range(OpCode::READ, 0, 0), plain(OpCode::GETXATTRS), plain(OpCode::OMAPGETHEADER)]);
    let done = done.unwrap();
    assert_eq!((done.ops[0].data.len(), done.user_version, done.watchers.len()), (103, version, 1));
    assert!(done.ops[0].data.starts_with(b"begin\0") && done.ops[0].data.ends_with(b"\0end"));
    assert_eq!(done.ops[1].data, entries(&[("k", "v")]).to_bytes(Features::default()));
    assert_eq!(done.ops[2].data, "head");
}

#[test]
fn copies_were_changed_when_their_source_was() {
    let (then, now) = (UTime::new(77, 1), UTime::new(99, 0));
    let mut bench = Bench::new();
    let make = bench.request("s", SnapId::HEAD, vec![extent(OpCode::WRITE, 0, "x")]);
    bench.execute(&MOSDOp { mtime: then, ..make }).unwrap();
    let mut mtime_of = |ops: Vec<OsdOp>| {
        let request = bench.request("o", SnapId::HEAD, ops);
        bench.execute(&MOSDOp { mtime: now, ..request }).unwrap();
        let done = bench.run(vec![plain(OpCode::STAT)]).unwrap();
        <(u64, UTime)>::from_bytes(done.ops[0].data.clone()).unwrap().1
    };
    assert_eq!(mtime_of(vec![copy_from("s", SnapId::HEAD, 0)]), then);
    assert_eq!(mtime_of(vec![extent(OpCode::WRITE, 0, "y")]), now);
    // As in Ceph, whatever else the request does.
    assert_eq!(mtime_of(vec![copy_from("s", SnapId::HEAD, 0), extent(OpCode::WRITE, 0, "y")]), then);
    // Of an OSD that does not say it.
    let mut copied = bench.ctx.copied.remove(&0).unwrap();
    copied.mtime = None;
    bench.ctx.copied.insert(0, copied);
    let request = bench.request("o", SnapId::HEAD, vec![copy_from("s", SnapId::HEAD, 0)]);
    bench.execute(&MOSDOp { mtime: now, ..request }).unwrap();
    let done = bench.run(vec![plain(OpCode::STAT)]).unwrap();
    assert_eq!(<(u64, UTime)>::from_bytes(done.ops[0].data.clone()).unwrap().1, now);
}

#[test]
fn what_comes_after_a_copy_that_was_deleted_is_newer_than_it_was() {
    let mut bench = Bench::new();
    bench.ctx.next_version.version = 1_000;
    let version = source(&mut bench);
    assert!(version >= 1_000);
    // As if the source were of another PG.
    (bench.ctx.next_version.version, bench.ctx.last_user_version) = (1, 0);
    assert_eq!(bench.run(vec![copy_from("s", SnapId::HEAD, 0)]).unwrap().user_version, version);
    assert_eq!(bench.result(vec![plain(OpCode::DELETE)]), 0);
    let deleted = bench.ctx.last_user_version;
    assert!(deleted > version);
    let refused = bench.run(vec![plain(OpCode::DELETE)]).unwrap();
    assert_eq!((refused.result, refused.user_version), (Errno::ENOENT.negated(), deleted));
    assert!(bench.run(vec![extent(OpCode::WRITE, 0, "again")]).unwrap().user_version > deleted);
    // Behind the highest number that there is, versions are the PG's.
    bench.ctx.last_user_version = u64::MAX;
    assert_eq!(bench.result(vec![plain(OpCode::DELETE)]), 0);
    let at = bench.ctx.next_version.version;
    assert_eq!(bench.run(vec![extent(OpCode::WRITE, 0, "last")]).unwrap().user_version, at);
}

#[test]
fn copies_can_be_of_a_snapshot_and_of_a_version() {
    let mut bench = Bench::new();
    source(&mut bench);
    let version = source(&mut bench);
    assert_eq!(bench.result(vec![copy_from("s", SnapId::HEAD, version)]), 0);
    bench.ctx.copied.clear();
    assert_eq!(bench.result(vec![copy_from("s", SnapId::HEAD, version - 1)]), -34);
    bench.ctx.copied.clear();
    assert_eq!(bench.result(vec![copy_from("s", SnapId::HEAD, version + 1)]), -75);
    bench.ctx.copied.clear();
    bench.make_snap(4);
    let request = bench.request("s", SnapId::HEAD, vec![extent(OpCode::WRITEFULL, 0, "new")]);
    bench.execute(&request).unwrap();
    assert_eq!(bench.result(vec![copy_from("s", SnapId(4), 0)]), 0);
    assert_eq!(bench.read().unwrap().len(), 103);
}

#[test]
fn the_largest_object_can_be_copied() {
    let mut bench = Bench::new();
    let max = 128 << 20;
    let request = bench.request("s", SnapId::HEAD, vec![extent(OpCode::WRITE, max - 1, "x")]);
    bench.execute(&request).unwrap();
    assert_eq!(bench.result(vec![copy_from("s", SnapId::HEAD, 0)]), 0);
    let done = bench.run(vec![range(OpCode::READ, max - 2, 10)]).unwrap();
    assert_eq!(done.ops[0].data, "\0x");
}

#[test]
fn copies_of_nothing_are_refused() {
    let mut bench = Bench::new();
    assert_eq!(bench.result(vec![copy_from("s", SnapId::HEAD, 0)]), Errno::ENOENT.negated());
    assert_eq!(bench.result(vec![copy_from("o", SnapId::HEAD, 0)]), Errno::EINVAL.negated());
    assert_eq!(bench.result(vec![plain(OpCode::COPY_FROM)]), Errno::EINVAL.negated());
    assert_eq!(bench.read(), Err(Errno::ENOENT));
}
