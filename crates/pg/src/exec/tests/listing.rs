//! Listings of a PG.

use bytes::Bytes;
use codec::{Codec, Decode, Encode, Features, Reader};
use messages::{MOSDOp, OpCode, OpParams};
use types::{Errno, HObject, SnapId};

use super::bench::{Bench, extent, plain, step, xattr};

#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct Page {
    pub(super) handle: HObject,
    pub(super) entries: Vec<(Bytes, Bytes, Bytes)>,
}

fn request(bench: &Bench, code: OpCode, nspace: &'static str, cursor: &HObject, count: u64) -> MOSDOp {
    let params = OpParams::from_parts(&[&count.to_le_bytes()]);
    let op = step(code, params, cursor.to_bytes(Features::default()));
    let mut request = bench.request("", SnapId::HEAD, vec![op]);
    request.locator.nspace = nspace.into();
    request
}

/// All names, `count` at a time.
fn names(bench: &mut Bench, nspace: &'static str, count: u64) -> Vec<String> {
    let (mut cursor, mut out) = (HObject::min(), Vec::new());
    loop {
        let request = request(bench, OpCode::PGNLS, nspace, &cursor, count);
        let done = bench.execute(&request).unwrap();
        let page = Page::from_bytes(done.ops[0].data.clone()).unwrap();
        assert!(page.entries.len() as u64 <= count && done.ops[0].result == 0);
        out.extend(page.entries.iter().map(|(_, oid, _)| String::from_utf8(oid.to_vec()).unwrap()));
        if done.result == 1 {
            assert!(page.handle.is_max, "the only PG ends where the pool does");
            return out;
        }
        assert!(page.handle > cursor);
        cursor = page.handle;
    }
}

fn example() -> Bench {
    let mut bench = Bench::new();
    for (nspace, name) in [("", "a"), ("", "b"), ("", "c"), ("ns", "d"), ("ns", "e")] {
        let mut request = bench.request(name, SnapId::HEAD, vec![extent(OpCode::WRITEFULL, 0, "x")]);
        request.locator.nspace = nspace.into();
        bench.execute(&request).unwrap();
    }
    bench
}

#[test]
fn listings_show_a_namespace_page_by_page() {
    let mut bench = example();
    for count in [1, 2, 3, 100] {
        assert_eq!(names(&mut bench, "", count), ["a", "b", "c"]);
        assert_eq!(names(&mut bench, "ns", count), ["d", "e"]);
        assert_eq!(names(&mut bench, "\x01", count), ["a", "b", "c", "d", "e"]);
        assert!(names(&mut bench, "other", count).is_empty());
    }
}

#[test]
fn listings_show_no_clones_and_what_snapshots_still_have() {
    let mut bench = example();
    bench.make_snap(1);
    let request = bench.request("a", SnapId::HEAD, vec![extent(OpCode::WRITEFULL, 0, "y")]);
    bench.execute(&request).unwrap();
    let request = bench.request("b", SnapId::HEAD, vec![plain(OpCode::DELETE)]);
    bench.execute(&request).unwrap();
    for count in [1, 100] {
        assert_eq!(names(&mut bench, "", count), ["a", "b", "c"]);
    }
    super::snaps::trim(&mut bench, &[1]);
    assert_eq!(names(&mut bench, "", 100), ["a", "c"], "no snapshot has b any more");
}

#[test]
fn listings_show_what_is_still_to_be_recovered() {
    let mut bench = example();
    bench.ctx.missing.insert(Bench::object("bb"));
    bench.ctx.missing.insert(Bench::object("z"));
    for count in [1, 2, 100] {
        assert_eq!(names(&mut bench, "", count), ["a", "b", "bb", "c", "z"]);
    }
}

#[test]
fn old_listings_have_names_and_locators_only() {
    let mut bench = example();
    type Old = (u8, HObject, Vec<(Bytes, Bytes)>);
    // The old listings know no name for all namespaces.
    for (nspace, count) in [("", 3), ("ns", 2), ("\x01", 0)] {
        let request = request(&bench, OpCode::PGLS, nspace, &HObject::min(), 10);
        let done = bench.execute(&request).unwrap();
        let mut reader = Reader::new(done.ops[0].data.clone());
        let (version, handle, entries) = Old::decode(&mut reader).unwrap();
        assert_eq!((version, handle.is_max, entries.len(), done.result), (1, true, count, 1));
    }
}

#[test]
fn bad_listings_are_invalid() {
    let mut bench = example();
    let mut bad = request(&bench, OpCode::PGNLS, "", &HObject::min(), 10);
    bad.ops[0].data.truncate(5);
    assert_eq!(bench.execute(&bad).unwrap().result, Errno::EINVAL.negated());
    let filter = request(&bench, OpCode::PGNLS_FILTER, "", &HObject::min(), 10);
    assert_eq!(bench.execute(&filter).unwrap().result, Errno::EINVAL.negated());
    let mut beyond = request(&bench, OpCode::PGNLS, "", &Bench::object("a"), 10);
    beyond.pgid.seed = 1;
    bench.ctx.pg_num = 2;
    assert_eq!(bench.execute(&beyond).unwrap().result, Errno::EINVAL.negated());
}

/// What passes a filter of the kind, or the errno; observed on a stock OSD.
fn filtered(bench: &mut Bench, kind: &str, xattr: &str, value: &str) -> Result<Vec<String>, Errno> {
    let mut request = request(bench, OpCode::PGNLS_FILTER, "", &HObject::min(), 100);
    let parts: Vec<u8> = ["pg", "filter", kind, xattr, value]
        .iter()
        .flat_map(|part| part.to_bytes(Features::default()).to_vec())
        .collect();
    request.ops[0].data = Bytes::from([&parts, &request.ops[0].data[..]].concat());
    let done = bench.execute(&request)?;
    if done.result < 0 {
        return Err(Errno(-done.result));
    }
    let page = Page::from_bytes(done.ops[0].data.clone()).unwrap();
    Ok(page.entries.iter().map(|(_, oid, _)| String::from_utf8(oid.to_vec()).unwrap()).collect())
}

#[test]
fn filters_compare_an_xattr() {
    let mut bench = example();
    let request = bench.request("b", SnapId::HEAD, vec![xattr(OpCode::SETXATTR, "x", "yes")]);
    bench.execute(&request).unwrap();
    for kind in ["plain", "hello.hello"] {
        assert_eq!(filtered(&mut bench, kind, "_x", "yes"), Ok(vec!["b".to_owned()]));
        assert_eq!(filtered(&mut bench, kind, "_x", ""), Ok(Vec::new()));
        assert_eq!(filtered(&mut bench, kind, "x", "yes"), Ok(Vec::new()));
        assert_eq!(filtered(&mut bench, kind, "", "").map(|names| names.len()), Ok(3));
    }
    for (kind, errno) in [
        ("nosuch", Errno::EINVAL),
        ("nosuch.x", Errno::EPERM),
        ("hello.nope", Errno::EINVAL),
        (".x", Errno::EINVAL),
        ("lock.x", Errno::EINVAL),
    ] {
        assert_eq!(filtered(&mut bench, kind, "_x", "yes"), Err(errno), "{kind}");
    }
}
