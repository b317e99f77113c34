//! Objects with something that the PG keeps with them and cannot decode: it is not taken for nothing.

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::OpCode;
use store::ObjectStore;
use types::{Errno, HObject, Mutation, SnapId, Token, Transaction};

use super::{
    bench::{Bench, extent, snap},
    chunks::{granted, set_chunk},
    copies::copy_from,
    snaps::{example, trim},
};
use crate::exec::{INFO_XATTR, SNAPSET_XATTR, SnapSet};

const EIO: i32 = -5;

/// All objects with all that is kept with them.
fn kept(bench: &Bench) -> Vec<(HObject, Vec<(Bytes, Bytes)>)> {
    let objects = bench.store.list(bench.ctx.coll, &HObject::min(), 99).unwrap();
    let xattrs = |object: &HObject| bench.store.xattrs(bench.ctx.coll, object).unwrap().into_iter().collect();
    objects.into_iter().map(|object| (object.clone(), xattrs(&object))).collect()
}

#[test]
fn it_is_not_copied() {
    for (snap, xattr, is_of_head) in
        [(SnapId::HEAD, INFO_XATTR, true), (SnapId(3), SNAPSET_XATTR, true), (SnapId(3), INFO_XATTR, false)]
    {
        let mut bench = example();
        let damaged = Bench::object("o");
        bench.damage(&if is_of_head { damaged } else { damaged.with_snap(SnapId(3)) }, xattr);
        let request = bench.request("copy", SnapId::HEAD, vec![copy_from("o", snap, 0)]);
        let result = bench.execute(&request).map_or_else(Errno::negated, |done| done.result);
        assert_eq!(result, EIO, "{snap:?} {xattr:?}");
        assert!(!kept(&bench).iter().any(|(object, _)| object.oid == "copy"));
    }
}

#[test]
fn nothing_goes_back_to_it() {
    let mut bench = example();
    bench.damage(&Bench::object("o").with_snap(SnapId(3)), INFO_XATTR);
    let before = kept(&bench);
    assert_eq!(bench.result(vec![snap(OpCode::ROLLBACK, 3)]), EIO);
    assert_eq!(kept(&bench), before);
    assert_eq!(bench.read().unwrap(), "01ab4567cdef");
    assert_eq!(bench.result(vec![snap(OpCode::ROLLBACK, 5)]), 0);
}

/// What the damaged clone refers to is not known, so it cannot be told which references are lost.
#[test]
fn references_beside_it_are_not_counted() {
    let mut bench = Bench::new();
    bench.put("abcdefghijklmnop");
    let content = bench.request("t", SnapId::HEAD, vec![extent(OpCode::WRITEFULL, 0, "ABCDEFGHIJKLMNOP")]);
    bench.execute(&content).unwrap();
    granted(&mut bench, SnapId::HEAD, vec![set_chunk(4, 4, "t", 8)]);
    bench.make_snap(4);
    assert_eq!(bench.result(vec![extent(OpCode::WRITE, 0, "new")]), 0);
    bench.damage(&Bench::object("o").with_snap(SnapId(4)), INFO_XATTR);
    let before = kept(&bench);
    assert_eq!(bench.result(vec![extent(OpCode::WRITE, 4, "gone")]), EIO);
    assert_eq!(kept(&bench), before);
}

#[test]
fn it_is_not_trimmed_and_what_is_behind_it_is() {
    for (snap, xattr) in [(SnapId::HEAD, SNAPSET_XATTR), (SnapId::HEAD, INFO_XATTR), (SnapId(3), INFO_XATTR)]
    {
        let mut bench = example();
        let other = bench.request("z", SnapId::HEAD, vec![extent(OpCode::WRITEFULL, 0, "old")]);
        bench.execute(&other).unwrap();
        bench.make_snap(7);
        let change = bench.request("z", SnapId::HEAD, vec![extent(OpCode::WRITEFULL, 0, "new")]);
        bench.execute(&change).unwrap();
        bench.damage(&Bench::object("o").with_snap(snap), xattr);
        let before = kept(&bench);
        assert_eq!(trim(&mut bench, &[2, 3, 5, 7]), 1, "the other object, {snap:?} {xattr:?}");
        let of_it = |all: Vec<(HObject, _)>| {
            all.into_iter().filter(|(object, _)| object.oid == "o").collect::<Vec<_>>()
        };
        let left = kept(&bench);
        assert!(!left.iter().any(|(object, _)| object.oid == "z" && !object.is_head()));
        assert_eq!(of_it(left), of_it(before), "{snap:?} {xattr:?}");
    }
}

/// What they are said to have does not count further than numbers go.
#[test]
fn clones_of_sizes_that_none_has_are_trimmed() {
    let mut bench = example();
    let (coll, head) = (bench.ctx.coll, Bench::object("o"));
    let kept = bench.store.xattr(coll, &head, SNAPSET_XATTR).unwrap().unwrap();
    let mut snapset = SnapSet::from_bytes(kept).unwrap();
    snapset.clones.iter_mut().for_each(|clone| clone.size = 1 << 63);
    let mut txn = Transaction::new(coll);
    let pair = (Bytes::from_static(SNAPSET_XATTR), snapset.to_bytes(Features::default()));
    txn.push(&head, Mutation::SetXattrs([pair].into()));
    bench.store.submit(Token(0), txn);
    bench.total.bytes = 0;
    assert_eq!(trim(&mut bench, &[2, 3, 5]), 1);
    assert_eq!((bench.total.objects, bench.total.clones, bench.total.bytes), (1, 0, i64::MIN));
}
