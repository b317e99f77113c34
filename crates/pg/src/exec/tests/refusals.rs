//! Whole requests that are refused.

use messages::{OpCode, OsdOp, op_flag, osd_flag};
use types::{Errno, SnapId};

use super::{
    bench::{Bench, call, extent, plain, range, snap, step, xattr},
    copies::copy_from,
};

fn check(ops: Vec<OsdOp>, expect: Errno) {
    assert_eq!(Bench::new().run(ops).map(|done| done.result), Err(expect));
}

#[test]
fn reads_of_nothing_are_refused_as_a_whole() {
    // Observed: the ops' own results stay 0.
    check(vec![range(OpCode::READ, 0, 0)], Errno::ENOENT);
    check(vec![plain(OpCode::STAT)], Errno::ENOENT);
    check(vec![xattr(OpCode::GETXATTR, "a", ""), plain(OpCode::STAT)], Errno::ENOENT);
    check(vec![plain(OpCode::NOTIFY)], Errno::ENOENT);
    check(vec![call("lock", "get_info", b"")], Errno::ENOENT);
}

#[test]
fn calls_of_what_is_not_there_are_refused_before_the_object_is_looked_for() {
    // Observed, all three.
    check(vec![call("nosuch", "x", b"")], Errno::EPERM);
    check(vec![call("user", "nosuch", b"")], Errno::EOPNOTSUPP);
    check(vec![call("rbd", "nosuch", b"")], Errno::EOPNOTSUPP);
    let mut short = call("rbd", "get_size", b"12345678");
    short.data.truncate(4);
    check(vec![short], Errno::EINVAL);
}

#[test]
fn names_have_limits() {
    let mut bench = Bench::new();
    for (bytes, expect) in [(2048, Ok(0)), (2049, Err(Errno::ENAMETOOLONG)), (0, Err(Errno::EINVAL))] {
        let request =
            bench.request(&"n".repeat(bytes), SnapId::HEAD, vec![extent(OpCode::WRITEFULL, 0, "x")]);
        assert_eq!(bench.execute(&request).map(|done| done.result), expect, "{bytes} bytes");
    }
    let mut request = bench.request("o", SnapId::HEAD, vec![plain(OpCode::CREATE)]);
    request.locator.nspace = "n".repeat(257).into();
    assert_eq!(bench.execute(&request).map(|done| done.result), Err(Errno::ENAMETOOLONG));
}

#[test]
fn requests_without_ops_and_with_too_much_data_are_refused() {
    check(Vec::new(), Errno::EINVAL);
    let data = vec![0u8; (90 << 20) + 1];
    let params = messages::OpParams::extent(0, data.len() as u64);
    check(vec![step(OpCode::WRITE, params, data)], Errno::EMSGSIZE);
}

#[test]
fn a_request_copies_so_often_and_no_more() {
    let copy = OsdOp { flags: op_flag::FAILOK, ..copy_from("s", SnapId::HEAD, 0) };
    let mut ops = vec![copy.clone(); 16];
    ops.extend(vec![plain(OpCode::CREATE); 16]);
    assert_eq!(Bench::new().result(ops.clone()), 0);
    for another in [OpCode::COPY_FROM2, OpCode::TIER_PROMOTE] {
        check([ops.clone(), vec![OsdOp { code: another, ..copy.clone() }]].concat(), Errno::E2BIG);
    }
}

#[test]
fn a_full_pool_takes_what_does_not_make_it_larger() {
    for errno in [Errno::ENOSPC, Errno::EDQUOT] {
        let mut bench = Bench::new();
        bench.put("0123");
        bench.ctx.full = Some(errno);
        bench.flags = osd_flag::FULL_TRY;
        assert_eq!(bench.result(vec![extent(OpCode::WRITE, 2, "xyz")]), errno.negated());
        assert_eq!(bench.result(vec![extent(OpCode::WRITE, 0, "xyz")]), 0);
        bench.flags = osd_flag::FULL_FORCE | osd_flag::FULL_TRY;
        assert_eq!(bench.result(vec![extent(OpCode::WRITE, 2, "xyz")]), 0);
        bench.flags = osd_flag::FULL_TRY;
        assert_eq!(bench.result(vec![plain(OpCode::DELETE)]), 0);
        assert_eq!(bench.result(vec![plain(OpCode::CREATE)]), errno.negated(), "one object more");
    }
}

/// Such a client holds nothing back when the pool is full, and would not send again: Ceph's OSDs never answer it.
#[test]
fn a_method_that_makes_a_full_pool_larger_is_refused_where_its_client_only_reads() {
    let mut bench = Bench::new();
    bench.ctx.full = Some(Errno::EDQUOT);
    let record = || vec![call("hello", "record_hello", b"you")];
    bench.flags = osd_flag::READ;
    assert_eq!(bench.result(record()), Errno::EDQUOT.negated());
    bench.flags = osd_flag::READ | osd_flag::FULL_FORCE;
    assert_eq!(bench.result(record()), 0);
    bench.flags = osd_flag::READ;
    assert_eq!(bench.result(vec![call("hello", "turn_it_to_11", b"")]), 0);
}

/// Observed with 16.2.15.
#[test]
fn a_full_pool_makes_the_clones_that_snapshots_want() {
    let mut bench = Bench::new();
    bench.put("0123");
    bench.make_snap(1);
    bench.ctx.full = Some(Errno::EDQUOT);
    bench.flags = osd_flag::FULL_TRY;
    assert_eq!(bench.result(vec![extent(OpCode::WRITE, 0, "xyz")]), 0);
    assert_eq!(bench.result(vec![snap(OpCode::ROLLBACK, 1)]), 0);
    assert_eq!(bench.total.clones, 1);
}

#[test]
fn what_reads_found_comes_with_a_full_pools_refusal() {
    let mut bench = Bench::new();
    bench.put("0123");
    bench.ctx.full = Some(Errno::EDQUOT);
    bench.flags = osd_flag::FULL_TRY;
    let done = bench.run(vec![range(OpCode::READ, 0, 2), extent(OpCode::WRITE, 2, "xyz")]).unwrap();
    assert_eq!((done.result, &done.ops[0].data[..], done.user_version), (-122, &b"01"[..], 0));
    let staged = done.staged.unwrap();
    assert!(
        staged.txn.ops.is_empty() && staged.log[0].is_error,
        "it is answered when what it read is durable"
    );
}

/// Observed in a pool without tiers.
#[test]
fn tiers_are_refused_as_without_one() {
    let mut bench = Bench::new();
    bench.put("x");
    for code in [OpCode::CACHE_FLUSH, OpCode::CACHE_TRY_FLUSH, OpCode::CACHE_EVICT, OpCode::CACHE_PIN] {
        check(vec![plain(OpCode::STAT), plain(OpCode::TIER_FLUSH)], Errno::ENOENT);
        assert_eq!(bench.result(vec![plain(code)]), Errno::EINVAL.negated());
        // What may change an object may make it.
        let of_nothing = if code == OpCode::CACHE_PIN { Errno::EINVAL } else { Errno::ENOENT };
        assert_eq!(Bench::new().result(vec![plain(code)]), of_nothing.negated());
    }
    assert_eq!(bench.result(vec![plain(OpCode::STARTSYNC)]), 0);
    for (code, result) in [
        (OpCode::TIER_PROMOTE, 0),
        (OpCode::TIER_FLUSH, 0),
        (OpCode::TIER_EVICT, Errno::EINVAL.negated()),
        (OpCode::UNSET_MANIFEST, Errno::EOPNOTSUPP.negated()),
        (OpCode::SET_CHUNK, Errno::EINVAL.negated()),
    ] {
        assert_eq!(bench.result(vec![plain(code)]), result, "{code:?}");
        assert_eq!(Bench::new().result(vec![plain(code)]), Errno::ENOENT.negated(), "{code:?} of nothing");
    }
}

#[test]
fn snapshots_are_not_written_to() {
    let mut bench = Bench::new();
    bench.put("x");
    let write = vec![extent(OpCode::WRITE, 0, "y")];
    assert_eq!(bench.at(SnapId(1), write).map(|done| done.result), Err(Errno::EINVAL));
}

#[test]
fn only_lists_of_snapshots_address_all_of_them() {
    let mut bench = Bench::new();
    bench.put("x");
    let results = [
        bench.at(SnapId::DIR, vec![plain(OpCode::LIST_SNAPS)]).map(|done| done.result),
        bench.at(SnapId::HEAD, vec![plain(OpCode::LIST_SNAPS)]).map(|done| done.result),
        bench.at(SnapId::DIR, vec![plain(OpCode::STAT)]).map(|done| done.result),
    ];
    assert_eq!(results, [Ok(0), Err(Errno::EINVAL), Err(Errno::EINVAL)]);
}

#[test]
fn writers_with_old_snapshots_can_ask_to_be_refused() {
    let mut bench = Bench::new();
    bench.make_snap(5);
    bench.put("x");
    bench.snapc = types::SnapContext::default();
    bench.put("y");
    bench.flags = osd_flag::ORDERSNAP;
    assert_eq!(bench.result(vec![extent(OpCode::WRITEFULL, 0, "z")]), -85);
    bench.flags = 0;
    bench.snapc = types::SnapContext { seq: SnapId(3), snaps: vec![SnapId(4)] };
    assert_eq!(bench.result(vec![extent(OpCode::WRITEFULL, 0, "z")]), -22);
}

/// As the newest snapshot that the object knows, the head's number would hide all that follow.
#[test]
fn writers_whose_newest_snapshot_is_none_are_refused() {
    let mut bench = Bench::new();
    bench.put("x");
    for seq in [SnapId::HEAD, SnapId::DIR] {
        bench.snapc = types::SnapContext { seq, snaps: vec![SnapId(1)] };
        assert_eq!(bench.result(vec![extent(OpCode::WRITEFULL, 0, "y")]), -22);
    }
    // Ceph lets a number 0 pass.
    bench.snapc = types::SnapContext { seq: SnapId(1), snaps: vec![SnapId(1), SnapId(0)] };
    bench.put("y");
    assert_eq!((bench.read_at(SnapId(1)).unwrap(), bench.total.clones), ("x".into(), 1));
}

#[test]
fn unknown_ops_are_not_supported() {
    let mut bench = Bench::new();
    bench.put("x");
    let done = bench.run(vec![plain(OpCode::STAT), plain(OpCode::MASKTRUNC), plain(OpCode::STAT)]).unwrap();
    assert_eq!(done.result, -95);
    assert_eq!(done.ops.iter().map(|op| op.result).collect::<Vec<_>>(), [0, -95, 0]);
    assert!(done.staged.is_none());
}

#[test]
fn a_flag_that_ceph_never_implemented_is_refused() {
    let mut bench = Bench::new();
    bench.put("x");
    bench.flags = osd_flag::PARALLELEXEC;
    assert_eq!(bench.run(vec![plain(OpCode::DELETE)]).map(|done| done.result), Err(Errno::EINVAL));
}

/// Sent again, the request gets the same answer, even if the object exists by then.
#[test]
fn a_change_that_fails_is_kept_in_the_log_and_changes_nothing() {
    let mut bench = Bench::new();
    let done = bench.run(vec![plain(OpCode::DELETE)]).unwrap();
    let staged = done.staged.unwrap();
    assert_eq!(staged.log.iter().map(|e| (e.result, e.is_error)).collect::<Vec<_>>(), [(-2, true)]);
    assert!(staged.txn.ops.is_empty() && staged.delta == Default::default());
    bench.put("x");
    let read = bench.run(vec![xattr(OpCode::GETXATTR, "none", "")]).unwrap();
    assert!(read.result < 0 && read.staged.is_none(), "reads are not kept");
}

/// Its first answer holds when it comes again, even if it would change something by then.
#[test]
fn a_change_that_comes_to_nothing_is_kept_in_the_log_as_well() {
    let mut bench = Bench::new();
    bench.put("xyz");
    let done = bench.run(vec![range(OpCode::READ, 0, 2), plain(OpCode::OMAPCLEAR)]).unwrap();
    assert_eq!((done.result, &done.ops[0].data[..]), (0, &b"xy"[..]));
    let staged = done.staged.unwrap();
    assert!(staged.txn.ops.is_empty());
    assert_eq!(staged.log.iter().map(|e| (e.is_error, e.returns.len())).collect::<Vec<_>>(), [(true, 0)]);
    bench.return_outputs();
    let done = bench.run(vec![range(OpCode::READ, 0, 2), plain(OpCode::OMAPCLEAR)]).unwrap();
    assert_eq!(done.staged.unwrap().log[0].returns, [(0, "xy".into()), (0, bytes::Bytes::new())]);
}

#[test]
fn a_class_may_say_why_it_refuses() {
    let done = Bench::new().run(vec![call("hello", "write_return_data", b"input")]).unwrap();
    assert_eq!((done.result, done.ops[0].data.as_ref()), (-22, &b"too much input data!"[..]));
}

#[test]
fn requests_may_write_whose_ops_may_change_the_object() {
    let bench = Bench::new();
    for code in OpCode::ALL.iter().copied().filter(|code| *code != OpCode::CALL) {
        let request = bench.request("o", SnapId::HEAD, vec![OsdOp::new(OpCode::STAT), OsdOp::new(code)]);
        assert_eq!(crate::exec::may_write(&request), OsdOp::new(code).may_change(), "{code:?}");
    }
}
