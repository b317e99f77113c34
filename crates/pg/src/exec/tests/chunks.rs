//! Objects with parts that are parts of others. What is answered was seen with 16.2.15, but for what it evicts: there
//! an object is evicted as a whole, and only if all of it is chunks.

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::{ObjectLocator, OpCode, OpParams, OsdOp, op_flag};
use store::ObjectStore;
use types::{Chunk, ChunkMap, Errno, HObject, Mutation, ObjectManifest, PoolId, SnapId, TxnOp, object_hash};

use super::{
    bench::{Bench, POOL, call, extent, plain, range, snap, step},
    snaps::trimmed,
};
use crate::exec::{Blocked, Executed, INFO_XATTR, ObjectInfo, execute};

/// The object that has the chunks.
fn target(name: &'static str) -> HObject {
    let (oid, hash) = (Bytes::from(name), object_hash(b"", b"", name.as_bytes()));
    HObject { oid, hash, pool: POOL, snap: SnapId::HEAD, ..HObject::default() }
}

pub(super) fn set_chunk(offset: u64, len: u64, name: &'static str, at: u64) -> OsdOp {
    let locator = ObjectLocator { pool: POOL, ..ObjectLocator::default() };
    let data = ((offset, len, locator), (Bytes::from(name), at)).to_bytes(Features::default());
    OsdOp { flags: op_flag::WITH_REFERENCE, ..step(OpCode::SET_CHUNK, OpParams::default(), data) }
}

/// `o` has 16 bytes, and `t` as many others.
fn example() -> Bench {
    let mut bench = Bench::new();
    bench.put("abcdefghijklmnop");
    let content = bench.request("t", SnapId::HEAD, vec![extent(OpCode::WRITEFULL, 0, "ABCDEFGHIJKLMNOP")]);
    bench.execute(&content).unwrap();
    bench
}

/// As the PG does, with references that are given.
pub(super) fn granted(bench: &mut Bench, snapid: SnapId, ops: Vec<OsdOp>) -> (Executed, Vec<HObject>) {
    let mut asked = Vec::new();
    loop {
        let request = bench.request("o", snapid, ops.clone());
        if let Err(Blocked::Ask { question, target, .. }) = execute(&bench.store, &bench.ctx, &request) {
            assert_eq!(bench.ctx.asked.insert(question, 0), None);
            asked.push(target);
            continue;
        }
        let done = bench.execute(&request).unwrap();
        bench.ctx.asked.clear();
        bench.ctx.copied.clear();
        return (done, asked);
    }
}

fn evict(bench: &mut Bench) {
    assert_eq!(granted(bench, SnapId::HEAD, vec![plain(OpCode::TIER_EVICT)]).0.result, 0);
}

fn chunks(bench: &Bench, snapid: SnapId) -> ChunkMap {
    let object = Bench::object("o").with_snap(snapid);
    let info = bench.store.xattr(bench.ctx.coll, &object, INFO_XATTR).unwrap().unwrap();
    ObjectInfo::from_bytes(info).unwrap().chunks().cloned().unwrap_or_default()
}

#[test]
fn what_cannot_be_a_chunk_is_refused() {
    let mut bench = Bench::new();
    assert_eq!(bench.result(vec![set_chunk(0, 4, "t", 8)]), Errno::ENOENT.negated());
    let mut bench = example();
    let mut uncounted = set_chunk(0, 4, "t", 8);
    uncounted.flags = 0;
    assert_eq!(bench.result(vec![uncounted]), Errno::EOPNOTSUPP.negated());
    assert_eq!(bench.result(vec![set_chunk(0, 0, "t", 8)]), Errno::EINVAL.negated());
    assert_eq!(bench.result(vec![set_chunk(14, 4, "t", 8)]), Errno::ERANGE.negated());
    assert_eq!(bench.result(vec![set_chunk(u64::MAX, 4, "t", 8)]), Errno::ERANGE.negated());
    assert_eq!(bench.result(vec![plain(OpCode::SET_CHUNK)]), Errno::EINVAL.negated());
    assert_eq!(bench.result(vec![set_chunk(0, 4, "o", 8)]), Errno::EINVAL.negated());
    // The other object has to be there.
    bench.ctx.asked.insert(0, Errno::ENOENT.negated());
    assert_eq!(bench.result(vec![set_chunk(0, 4, "t", 8)]), Errno::ENOENT.negated());
    assert_eq!(chunks(&bench, SnapId::HEAD), ChunkMap::new());
    bench.ctx.asked.clear();
    assert_eq!(granted(&mut bench, SnapId::HEAD, vec![set_chunk(4, 4, "t", 8)]).1, [target("t")]);
    for (offset, len) in [(4, 4), (2, 4), (7, 2), (0, 16)] {
        let overlap = set_chunk(offset, len, "t", 0);
        assert_eq!(bench.result(vec![overlap]), Errno::EOPNOTSUPP.negated());
    }
    assert_eq!(bench.result(vec![plain(OpCode::TIER_FLUSH)]), Errno::EINVAL.negated());
    assert_eq!(bench.read().unwrap(), "abcdefghijklmnop");
}

#[test]
fn what_is_evicted_is_read_from_the_other_object() {
    let mut bench = example();
    let name = Bytes::from_static(b"t").to_bytes(Features::default());
    assert_eq!(bench.result(vec![call("cas", "references_chunk", &name)]), Errno::ENOLINK.negated());
    assert_eq!(bench.result(vec![plain(OpCode::TIER_EVICT)]), Errno::EINVAL.negated());
    granted(&mut bench, SnapId::HEAD, vec![set_chunk(4, 4, "t", 8)]);
    granted(&mut bench, SnapId::HEAD, vec![set_chunk(8, 2, "t", 0)]);
    evict(&mut bench);
    let raw = bench.store.read_pieces(bench.ctx.coll, &Bench::object("o"), 0, 16).unwrap();
    assert_eq!(codec::Payload::joined(raw).as_ref(), b"abcd\0\0\0\0\0\0klmnop");
    assert_eq!(bench.read().unwrap(), "abcdIJKLABklmnop");
    bench.ctx.copied.clear();
    let part = bench.run(vec![range(OpCode::READ, 0, 4)]).unwrap();
    assert_eq!(
        (&part.ops[0].data[..], bench.ctx.copied.len()),
        (&b"abcd"[..], 0),
        "asks for no more than is read"
    );
    let sparse = bench.run(vec![range(OpCode::SPARSE_READ, 6, 3)]).unwrap();
    assert_eq!(&sparse.ops[0].data[sparse.ops[0].data.len() - 3..], b"KLA");

    // Both chunks stay chunks when they are taken in.
    assert_eq!(granted(&mut bench, SnapId::HEAD, vec![plain(OpCode::TIER_PROMOTE)]).0.given_back, []);
    assert!(chunks(&bench, SnapId::HEAD).values().all(|chunk| !chunk.is_missing && chunk.has_reference));
    assert_eq!(chunks(&bench, SnapId::HEAD).len(), 2);
    evict(&mut bench);
    let (done, _) = granted(&mut bench, SnapId::HEAD, vec![plain(OpCode::UNSET_MANIFEST)]);
    assert_eq!(done.given_back, [target("t"), target("t")]);
    assert_eq!(bench.read().unwrap(), "abcdIJKLABklmnop");
}

#[test]
fn what_changes_is_a_chunk_no_more() {
    for (change, content, left) in [
        (extent(OpCode::WRITE, 6, "xy"), "abcdIJxyABklmnop", 1),
        (extent(OpCode::WRITE, 7, "xy"), "abcdIJKxyBklmnop", 0),
        (extent(OpCode::WRITE, 4, "wxyz"), "abcdwxyzABklmnop", 1),
        (extent(OpCode::APPEND, 0, "q"), "abcdIJKLABklmnopq", 2),
        (extent(OpCode::WRITEFULL, 0, "new"), "new", 0),
        (range(OpCode::TRUNCATE, 9, 0), "abcdIJKLA", 1),
        (range(OpCode::ZERO, 5, 2), "abcdI\0\0LABklmnop", 1),
    ] {
        let mut bench = example();
        granted(&mut bench, SnapId::HEAD, vec![set_chunk(4, 4, "t", 8)]);
        granted(&mut bench, SnapId::HEAD, vec![set_chunk(8, 2, "t", 0)]);
        evict(&mut bench);
        let (done, asked) = granted(&mut bench, SnapId::HEAD, vec![change]);
        assert_eq!((done.result, asked.len(), done.given_back.len()), (0, 0, 2 - left));
        assert_eq!((bench.read().unwrap(), chunks(&bench, SnapId::HEAD).len()), (content.into(), left));
        assert_eq!(granted(&mut bench, SnapId::HEAD, vec![plain(OpCode::DELETE)]).0.given_back.len(), left);
    }
}

#[test]
fn without_the_other_object_what_was_evicted_cannot_be_read() {
    let mut bench = example();
    granted(&mut bench, SnapId::HEAD, vec![set_chunk(4, 4, "t", 8)]);
    evict(&mut bench);
    let gone = bench.request("t", SnapId::HEAD, vec![plain(OpCode::DELETE)]);
    bench.execute(&gone).unwrap();
    assert_eq!(bench.read().unwrap_err(), Errno::ENOENT);
    bench.ctx.copied.clear();
    assert_eq!(bench.result(vec![extent(OpCode::WRITE, 6, "xy")]), Errno::ENOENT.negated());
    assert_eq!(bench.result(vec![extent(OpCode::WRITE, 0, "xy")]), 0);
    assert_eq!(bench.result(vec![extent(OpCode::WRITEFULL, 0, "whole")]), 0);
    assert_eq!(bench.read().unwrap(), "whole");
}

/// One reference for as long as the chunk is the same from one state to the next.
#[test]
fn snapshots_share_their_references() {
    let mut bench = example();
    bench.make_snap(1);
    // The contents are the same: nothing to keep.
    granted(&mut bench, SnapId::HEAD, vec![set_chunk(4, 4, "t", 8)]);
    assert_eq!(bench.total.clones, 0);
    let (done, _) = granted(&mut bench, SnapId::HEAD, vec![extent(OpCode::WRITE, 0, "1")]);
    assert_eq!((done.given_back.len(), bench.total.clones), (0, 1));
    assert_eq!(chunks(&bench, SnapId(1)), chunks(&bench, SnapId::HEAD));
    evict(&mut bench);
    bench.make_snap(2);
    // The head loses the chunk, its clones have it.
    assert_eq!(granted(&mut bench, SnapId::HEAD, vec![extent(OpCode::WRITE, 4, "x")]).0.given_back, []);
    assert_eq!(bench.read().unwrap(), "1bcdxJKLijklmnop");
    assert_eq!(bench.read_at(SnapId(2)).unwrap(), "1bcdIJKLijklmnop");
    bench.ctx.copied.clear();
    assert_eq!(bench.read_at(SnapId(1)).unwrap(), "abcdefghijklmnop");
    let count = |bench: &mut Bench| {
        let name = Bytes::from_static(b"t").to_bytes(Features::default());
        bench.run(vec![call("cas", "references_chunk", &name)]).unwrap().result
    };
    assert_eq!(count(&mut bench), 1);
    // Back again, it is one more beside that of the clones: the state between did not have it.
    bench.make_snap(3);
    let (_, asked) = granted(&mut bench, SnapId::HEAD, vec![snap(OpCode::ROLLBACK, 2)]);
    assert_eq!((asked, count(&mut bench)), (vec![target("t")], 2));
    assert_eq!(bench.read().unwrap(), "1bcdIJKLijklmnop");
    // Without the state between both are one.
    assert_eq!(trimmed(&mut bench, &[3]), [target("t")]);
    assert_eq!(trimmed(&mut bench, &[1]), []);
    assert_eq!(granted(&mut bench, SnapId::HEAD, vec![plain(OpCode::DELETE)]).0.given_back, []);
    assert_eq!(trimmed(&mut bench, &[2]), [target("t")]);
}

#[test]
fn clones_get_and_lose_chunks_by_themselves() {
    let mut bench = example();
    bench.make_snap(1);
    assert_eq!(bench.result(vec![extent(OpCode::WRITE, 15, "1")]), 0);
    bench.make_snap(2);
    assert_eq!(bench.result(vec![extent(OpCode::WRITE, 15, "2")]), 0);
    let set = || vec![set_chunk(4, 4, "t", 4)];
    assert_eq!(granted(&mut bench, SnapId(1), set()).1.len(), 1);
    assert_eq!(granted(&mut bench, SnapId::HEAD, set()).1.len(), 1);
    // In the middle it makes one of two.
    let (done, asked) = granted(&mut bench, SnapId(2), set());
    assert_eq!((asked, done.given_back), (vec![], vec![target("t")]));
    assert_eq!(granted(&mut bench, SnapId(2), vec![plain(OpCode::TIER_EVICT)]).0.result, 0);
    assert_eq!(bench.read_at(SnapId(2)).unwrap(), "abcdEFGHijklmno1");
    assert_eq!(bench.read_at(SnapId(1)).unwrap(), "abcdefghijklmnop");
    assert_eq!(bench.read().unwrap(), "abcdefghijklmno2");
    assert_eq!(bench.at(SnapId(1), vec![extent(OpCode::WRITE, 0, "x")]).unwrap_err(), Errno::EINVAL);
    assert_eq!(bench.at(SnapId(1), vec![plain(OpCode::TIER_PROMOTE)]).unwrap_err(), Errno::EINVAL);
}

/// `chunk_info_t` and `object_manifest_t` of 16.2.
#[test]
fn manifests_are_read_as_they_were_written() {
    let target = HObject { pool: PoolId(7), ..target("t") };
    let chunk = Chunk { offset: 8, length: 4, target, is_missing: true, has_reference: true };
    let manifest =
        ObjectManifest::Chunked([(0, Chunk { is_missing: false, ..chunk.clone() }), (4, chunk)].into());
    assert_eq!(ObjectManifest::from_bytes(manifest.to_bytes(Features::default())).unwrap(), manifest);
}

#[test]
fn what_is_brought_again_and_again_has_a_limit() {
    const LEN: u64 = 100 << 20;
    let sized = |name: &'static str, bench: &mut Bench| {
        let content =
            bench.request(name, SnapId::HEAD, vec![plain(OpCode::CREATE), range(OpCode::TRUNCATE, LEN, 0)]);
        assert_eq!(bench.execute(&content).unwrap().result, 0);
    };
    let mut bench = Bench::new();
    sized("o", &mut bench);
    sized("t", &mut bench);
    granted(&mut bench, SnapId::HEAD, vec![set_chunk(0, LEN, "t", 0)]);
    evict(&mut bench);
    // Each read of a byte brings all of the chunk.
    let reads = |count| vec![range(OpCode::READ, 0, 1); count];
    assert_eq!((bench.result(reads(5)), bench.result(reads(6))), (0, Errno::EMSGSIZE.negated()));
    let there_and_back = |count| {
        let pair = || [plain(OpCode::TIER_PROMOTE), plain(OpCode::TIER_EVICT)];
        std::iter::repeat_with(pair).take(count).flatten().collect::<Vec<_>>()
    };
    assert_eq!(
        (bench.result(there_and_back(5)), bench.result(there_and_back(6))),
        (0, Errno::EMSGSIZE.negated())
    );
}

#[test]
fn of_a_chunks_object_no_more_is_kept_than_the_chunk() {
    let mut bench = example();
    granted(&mut bench, SnapId::HEAD, vec![set_chunk(4, 4, "t", 8)]);
    evict(&mut bench);
    assert_eq!(bench.read().unwrap(), "abcdIJKLijklmnop");
    let kept = bench.ctx.copied.values().flat_map(|copied| &copied.txn.ops);
    let bytes = kept.map(|op| match op {
        TxnOp::Object(_, Mutation::Write { data, .. }) => data.len(),
        _ => 100,
    });
    assert_eq!(bytes.collect::<Vec<_>>(), [4]);
}
