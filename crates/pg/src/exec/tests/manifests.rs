//! Objects that refer to others. What is expected was seen with 16.2.15, but for snapshots of redirects, which end its
//! OSDs.

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::{MOSDOp, ObjectLocator, OpCode, OpParams, OsdOp, op_flag, osd_flag};
use store::ObjectStore;
use types::{Errno, HObject, ObjectManifest, PoolId, SnapId, UTime, object_hash};

use super::bench::{Bench, POOL, extent, plain, range, snap, step, truncated, watch, xattr};
use crate::exec::{Blocked, INFO_XATTR, ObjectInfo, execute, object_info::Manifest};

const OTHER: PoolId = PoolId(7);

fn target() -> HObject {
    let (oid, hash) = (Bytes::from_static(b"t"), object_hash(b"", b"", b"t"));
    HObject { oid, hash, pool: OTHER, snap: SnapId::HEAD, ..HObject::default() }
}

pub(super) fn set_redirect(pool: PoolId, name: &'static str, flags: u32) -> OsdOp {
    let locator = ObjectLocator { pool, ..ObjectLocator::default() };
    let data = (Bytes::from(name), locator).to_bytes(Features::default());
    let params = OpParams::from_parts(&[&SnapId::HEAD.0.to_le_bytes(), &5u64.to_le_bytes()]);
    OsdOp { flags, ..step(OpCode::SET_REDIRECT, params, data) }
}

fn redirect() -> OsdOp {
    set_redirect(OTHER, "t", 0)
}

fn blocked(bench: &Bench, snapid: SnapId, ops: Vec<OsdOp>) -> Blocked {
    let request = bench.request("o", snapid, ops);
    execute(&bench.store, &bench.ctx, &request).expect_err("it does not run here")
}

fn passed_on() -> Blocked {
    Blocked::PassOn { target: target() }
}

fn info(bench: &Bench) -> ObjectInfo {
    let bytes = bench.store.xattr(bench.ctx.coll, &Bench::object("o"), INFO_XATTR).unwrap();
    ObjectInfo::from_bytes(bytes.expect("the object is there")).unwrap()
}

#[test]
fn requests_for_a_redirect_are_passed_on_and_it_keeps_nothing_but_xattrs() {
    let mut bench = Bench::new();
    bench.put("data");
    assert_eq!(bench.result(vec![xattr(OpCode::SETXATTR, "x", "1")]), 0);
    assert_eq!(bench.result(vec![redirect()]), 0);
    assert_eq!((info(&bench).user_version, bench.total.bytes), (5, 0));
    for ops in [
        vec![range(OpCode::READ, 0, 0)],
        vec![plain(OpCode::STAT)],
        vec![extent(OpCode::WRITE, 0, "x")],
        vec![plain(OpCode::DELETE)],
        vec![xattr(OpCode::SETXATTR, "y", "1")],
        vec![plain(OpCode::CREATE), plain(OpCode::STAT)],
    ] {
        assert_eq!(blocked(&bench, SnapId::HEAD, ops), passed_on());
    }
    assert_eq!(blocked(&bench, SnapId::DIR, vec![plain(OpCode::LIST_SNAPS)]), passed_on());
    // A watcher is notified by the primary that it sent its watch to.
    assert_eq!(blocked(&bench, SnapId::HEAD, vec![watch(3, 1)]), Blocked::Refused(Errno::EOPNOTSUPP));
    assert_eq!(bench.result(vec![plain(OpCode::TIER_FLUSH)]), Errno::EBUSY.negated());
    assert_eq!(bench.result(vec![plain(OpCode::TIER_EVICT)]), Errno::EINVAL.negated());
    bench.flags = osd_flag::IGNORE_REDIRECT;
    assert_eq!(bench.read().unwrap(), "");
    assert_eq!(bench.result(vec![xattr(OpCode::GETXATTR, "x", "")]), 0);
    bench.flags = 0;
    assert_eq!(bench.result(vec![plain(OpCode::UNSET_MANIFEST)]), 0);
    assert_eq!(bench.read().unwrap(), "");
    assert_eq!(bench.result(vec![xattr(OpCode::GETXATTR, "x", "")]), 0);
    assert_eq!(bench.result(vec![plain(OpCode::UNSET_MANIFEST)]), Errno::EOPNOTSUPP.negated());
}

#[test]
fn what_becomes_a_redirect_keeps_its_watchers_and_what_it_knows_of_truncations() {
    let mut bench = Bench::new();
    assert_eq!(bench.result(vec![truncated(extent(OpCode::WRITE, 0, "data"), 3, 4)]), 0);
    assert_eq!(bench.result(vec![watch(3, 5)]), 0);
    assert_eq!(bench.run(vec![redirect()]).unwrap().watch, []);
    let info = info(&bench);
    assert_eq!((info.watchers.len(), info.truncate_seq, info.truncate_size), (1, 3, 4));
}

#[test]
fn what_cannot_be_a_redirect_is_refused() {
    let mut bench = Bench::new();
    assert_eq!(bench.result(vec![redirect()]), Errno::ENOENT.negated());
    bench.put("data");
    let einval = Errno::EINVAL.negated();
    assert_eq!(bench.result(vec![plain(OpCode::SET_REDIRECT)]), einval);
    assert_eq!(bench.result(vec![set_redirect(POOL, "o", 0)]), einval, "to itself");
    assert_eq!(bench.result(vec![redirect()]), 0);
    assert_eq!(bench.result(vec![set_redirect(OTHER, "u", 0)]), 0, "to another object");
    assert_eq!(bench.read().unwrap_err(), Errno::EXDEV, "the bench has no other pool");
}

#[test]
fn a_reference_is_asked_for_first_and_given_back() {
    let mut bench = Bench::new();
    bench.put("data");
    let counted = || set_redirect(OTHER, "t", op_flag::WITH_REFERENCE);
    let Blocked::Ask { question: 0, target: asked, step } = blocked(&bench, SnapId::HEAD, vec![counted()])
    else {
        panic!("it asks");
    };
    assert_eq!((asked, step.code), (target(), OpCode::CALL));
    assert_eq!(&step.data[..16], b"caschunk_get_ref");
    // Without the other object it comes to nothing.
    bench.ctx.asked.insert(0, Errno::ENOENT.negated());
    assert_eq!(bench.run(vec![counted()]).unwrap_err(), Errno::ENOENT);
    assert_eq!(bench.read().unwrap(), "data");
    bench.ctx.asked.insert(0, 0);
    assert_eq!(bench.result(vec![counted()]), 0);
    assert!(info(&bench).manifest.unwrap().has_reference);
    // A reference has to be given back before the object may refer to another one.
    assert_eq!(bench.result(vec![redirect()]), Errno::EINVAL.negated());
    assert_eq!(bench.run(vec![plain(OpCode::UNSET_MANIFEST)]).unwrap().given_back, [target()]);

    assert_eq!(bench.result(vec![counted()]), 0);
    bench.flags = osd_flag::IGNORE_REDIRECT;
    assert_eq!(bench.run(vec![plain(OpCode::DELETE)]).unwrap().given_back, [target()]);
}

#[test]
fn a_promoted_redirect_is_an_object_of_its_own() {
    let mut bench = Bench::new();
    let ops = vec![truncated(extent(OpCode::WRITE, 0, "there"), 3, 9), xattr(OpCode::SETXATTR, "x", "its")];
    let content = MOSDOp { mtime: UTime::new(77, 1), ..bench.request("s", SnapId::HEAD, ops) };
    let version = bench.execute(&content).unwrap().user_version;
    bench.put("data");
    for (name, value) in [("x", "mine"), ("y", "mine")] {
        assert_eq!(bench.result(vec![xattr(OpCode::SETXATTR, name, value)]), 0);
    }
    bench.ctx.asked.insert(0, 0);
    assert_eq!(bench.result(vec![set_redirect(POOL, "s", op_flag::WITH_REFERENCE)]), 0);
    let promote = bench.request("o", SnapId::HEAD, vec![plain(OpCode::TIER_PROMOTE)]);
    let done = bench.execute(&MOSDOp { mtime: UTime::new(99, 0), ..promote }).unwrap();
    assert_eq!((done.result, done.given_back.len()), (0, 1));
    assert_eq!(bench.read().unwrap(), "there");
    let now = info(&bench);
    assert_eq!((now.user_version, now.mtime), (version, UTime::new(77, 1)));
    assert_eq!((now.truncate_seq, now.truncate_size), (3, 9));
    let value = |bench: &mut Bench, name| {
        bench.run(vec![xattr(OpCode::GETXATTR, name, "")]).unwrap().ops[0].data.clone()
    };
    assert_eq!((value(&mut bench, "x"), value(&mut bench, "y")), ("its".into(), "mine".into()));
    assert_eq!(bench.result(vec![plain(OpCode::TIER_PROMOTE)]), 0);
    bench.put("new");
    assert_eq!(bench.read().unwrap(), "new");
}

#[test]
fn a_snapshot_of_a_redirect_refers_to_the_same_object() {
    let mut bench = Bench::new();
    bench.put("old");
    bench.make_snap(1);
    assert_eq!(bench.result(vec![redirect()]), 0);
    assert_eq!(bench.read_at(SnapId(1)).unwrap(), "old");
    bench.make_snap(2);
    assert_eq!(blocked(&bench, SnapId(2), vec![range(OpCode::READ, 0, 0)]), passed_on());
    assert_eq!(bench.result(vec![plain(OpCode::UNSET_MANIFEST)]), 0);
    assert_eq!(blocked(&bench, SnapId(2), vec![range(OpCode::READ, 0, 0)]), passed_on());
    bench.put("new");
    assert_eq!(bench.read_at(SnapId(1)).unwrap(), "old");
    assert_eq!(bench.result(vec![snap(OpCode::ROLLBACK, 2)]), Errno::EOPNOTSUPP.negated());
    assert_eq!(bench.read().unwrap(), "new");
    assert_eq!(bench.result(vec![snap(OpCode::ROLLBACK, 1)]), 0);
    assert_eq!(bench.read().unwrap(), "old");
}

/// As the versions before it had no manifests.
#[test]
fn an_older_record_has_no_manifest() {
    let manifest = Manifest { manifest: ObjectManifest::Redirect(target()), has_reference: true };
    let info = ObjectInfo { manifest: Some(Box::new(manifest)), user_version: 3, ..ObjectInfo::default() };
    let bytes = info.to_bytes(Features::default());
    assert_eq!(ObjectInfo::from_bytes(bytes).unwrap(), info);
    let plain = ObjectInfo { manifest: None, ..info };
    let mut older = plain.to_bytes(Features::default()).to_vec();
    older.pop();
    older[0] = 2;
    older[2] -= 1;
    assert_eq!(ObjectInfo::from_bytes(older.into()).unwrap(), plain);
}
