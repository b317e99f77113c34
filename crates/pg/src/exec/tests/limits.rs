//! What one request may ask for, and what it costs.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::{OpCode, OpParams, OsdOp, op_flag};
use types::{Errno, HObject, Mutation, SnapContext, SnapId, TxnOp, UTime};

use super::bench::{Bench, call, compared_xattr, encoded, extent, plain, range, step, xattr};
use crate::exec::Executed;

const MIB: u64 = 1 << 20;
const EFBIG: i32 = -27;
const ENAMETOOLONG: i32 = -36;
const EMSGSIZE: i32 = -90;

pub(super) fn sums(offset: u64, len: u64, chunk: u32) -> OsdOp {
    let parts = [offset.to_le_bytes(), len.to_le_bytes()];
    let params = OpParams::from_parts(&[&parts[0], &parts[1], &chunk.to_le_bytes(), &[2]]);
    step(OpCode::CHECKSUM, params, vec![0; 4])
}

#[test]
fn a_request_asks_for_so_many_checksums_and_no_more() {
    const SIZE: u64 = 2 << 20;
    let mut bench = Bench::new();
    assert_eq!(bench.result(vec![range(OpCode::WRITE, SIZE, 0)]), 0);
    assert_eq!(bench.result(vec![sums(0, SIZE, 2)]), 0);
    assert_eq!(bench.result(vec![sums(0, SIZE, 1)]), EMSGSIZE);
    assert_eq!(bench.result(vec![sums(0, SIZE, 4), sums(0, SIZE, 4)]), 0);
    assert_eq!(bench.result(vec![sums(0, SIZE, 4), sums(0, SIZE, 2)]), EMSGSIZE);
    // Nor can the same be summed over and over.
    assert_eq!(bench.result(vec![range(OpCode::TRUNCATE, 100 << 20, 0)]), 0);
    assert_eq!(bench.result(vec![sums(0, 100 << 20, 0)]), 0);
    assert_eq!(bench.result(vec![sums(0, 100 << 20, 0), sums(0, 100 << 20, 0)]), EMSGSIZE);
}

pub(super) fn repeated(offset: u64, len: u64, data: &'static str) -> OsdOp {
    let parts = [offset.to_le_bytes(), len.to_le_bytes(), (data.len() as u64).to_le_bytes()];
    step(OpCode::WRITESAME, OpParams::from_parts(&[&parts[0], &parts[1], &parts[2]]), data)
}

#[test]
fn what_is_written_repeatedly_is_not_multiplied_in_memory() {
    let mut bench = Bench::new();
    let done = bench.run(vec![repeated(3, 9 * MIB, "abc")]).unwrap();
    let (mut at, mut parts) = (3, BTreeSet::new());
    for op in &done.staged.unwrap().txn.ops {
        if let TxnOp::Object(_, Mutation::Write { offset, data }) = op {
            assert_eq!(*offset, at);
            at += data.len() as u64;
            parts.insert(data.as_ptr());
        }
    }
    assert_eq!((at, parts.len()), (3 + 9 * MIB, 1));
    let stored = bench.read().unwrap();
    assert!(stored[3..].chunks(3).all(|part| part == b"abc") && stored.len() as u64 == 3 + 9 * MIB);
}

#[test]
fn a_request_stages_so_much_and_no_more() {
    assert_eq!(Bench::new().result(vec![repeated(0, 127 * MIB - 256, "ab")]), 0);
    assert_eq!(Bench::new().result(vec![repeated(0, 127 * MIB, "ab")]), EMSGSIZE);
    assert_eq!(Bench::new().result(vec![repeated(0, 129 * MIB, "ab")]), EFBIG);
    let many = |count| vec![repeated(0, 64 * MIB, "ab"); count];
    assert_eq!((Bench::new().result(many(1)), Bench::new().result(many(2))), (0, EMSGSIZE));
    // Nor does the rest go on if the op may fail.
    let may_fail = |op: OsdOp| OsdOp { flags: op_flag::FAILOK, ..op };
    assert_eq!(Bench::new().result(many(2).into_iter().map(may_fail).collect()), EMSGSIZE);
    // What an op writes anew for a few bytes counts each time.
    let mut bench = Bench::new();
    let line = OpParams::default();
    let entry = |key: &str, value: usize| {
        let mut change = vec![b's'];
        (Bytes::from(key.to_owned()), Bytes::from(vec![0; value])).encode(&mut change, Features::default());
        step(OpCode::TMAPUP, line, change)
    };
    assert_eq!(bench.result(vec![entry("a", 20 << 20)]), 0);
    assert_eq!(bench.result((0..6).map(|_| entry("b", 1)).collect()), 0);
    assert_eq!(bench.result((0..7).map(|_| entry("b", 1)).collect()), EMSGSIZE);
}

/// It has made what it wants to stage, and would do so again in each op that may fail.
#[test]
fn a_method_that_stages_too_much_is_the_last_one_of_its_request() {
    let resize = call("rbd", "object_map_resize", &(256_000_000u64, 1u8).to_bytes(Features::default()));
    let resize = OsdOp { flags: op_flag::FAILOK, ..resize };
    let empty = [repeated(0, 100 * MIB, "ab"), range(OpCode::TRUNCATE, 0, 0)];
    assert_eq!(Bench::new().result([&empty[..], &[resize.clone(), resize.clone()]].concat()), EMSGSIZE);
    assert_eq!(Bench::new().result(vec![resize]), 0);
}

#[test]
fn a_method_makes_so_many_changes_and_no_more() {
    let f = Features::default();
    let empty = |count: u64| {
        let extents: BTreeMap<u64, u64> = (0..count).map(|at| (at, 0)).collect();
        call("rbd", "sparse_copyup", &(extents, Bytes::new()).to_bytes(f))
    };
    let result = |op| Bench::new().result(vec![op]);
    assert_eq!((result(empty(100_000)), result(empty(530_000))), (0, EMSGSIZE));
    // Each of as many ops as a request may have changes something.
    let mut bench = Bench::new();
    assert_eq!(bench.result((0..65_535).map(|at| range(OpCode::TRUNCATE, at % 9, 0)).collect()), 0);
    assert_eq!(bench.result(vec![extent(OpCode::WRITE, 0, "x"); 65_535]), 0);
}

#[test]
fn names_of_xattrs_have_a_limit_for_methods_too() {
    let mut bench = Bench::new();
    let lock = |name: usize| {
        let mut input = vec![1, 1, 0, 0, 0, 0];
        let f = Features::default();
        "n".repeat(name).encode(&mut input, f);
        1u8.encode(&mut input, f);
        (Bytes::new(), (Bytes::new(), Bytes::new())).encode(&mut input, f);
        (UTime::default(), 0u8).encode(&mut input, f);
        let len = input.len() as u32 - 6;
        input[2..6].copy_from_slice(&len.to_le_bytes());
        call("lock", "lock", &input)
    };
    assert_eq!(bench.result(vec![lock(95)]), 0);
    assert_eq!(bench.result(vec![lock(96)]), ENAMETOOLONG);
    assert_eq!(bench.result(vec![xattr(OpCode::SETXATTR, &"n".repeat(100), "v")]), 0);
    assert_eq!(bench.result(vec![xattr(OpCode::SETXATTR, &"n".repeat(101), "v")]), ENAMETOOLONG);
}

#[test]
fn omap_keys_have_a_limit() {
    let mut bench = Bench::new();
    let set = |len: usize| {
        let entries = BTreeMap::from([(Bytes::from(vec![7; len]), Bytes::from_static(b"v"))]);
        encoded(OpCode::OMAPSETVALS, entries)
    };
    assert_eq!(
        (bench.result(vec![set(64 << 10)]), bench.result(vec![set((64 << 10) + 1)])),
        (0, ENAMETOOLONG)
    );
}

/// An entry takes more memory than its few bytes: so do those that are only to be removed, or looked for.
#[test]
fn a_request_has_so_many_entries_and_no_more() {
    let keys = |count: u32| (0..count).map(|at| Bytes::copy_from_slice(&at.to_be_bytes()));
    let set =
        |count| encoded(OpCode::OMAPSETVALS, keys(count).map(|key| (key, Bytes::new())).collect::<Vec<_>>());
    let remove = |count| encoded(OpCode::OMAPRMKEYS, keys(count).collect::<Vec<_>>());
    let get = |count| encoded(OpCode::OMAPGETVALSBYKEYS, keys(count).collect::<Vec<_>>());
    let mut bench = Bench::new();
    for op in [&set as &dyn Fn(u32) -> OsdOp, &remove] {
        assert_eq!(bench.result(vec![op(100_000)]), 0);
        assert_eq!(bench.result(vec![op(400_000), op(500_000)]), EMSGSIZE);
        assert_eq!(bench.result(vec![op(900_000)]), EMSGSIZE);
    }
    assert_eq!((bench.result(vec![get(100_000)]), bench.result(vec![get(900_000)])), (0, EMSGSIZE));
    // The number alone counts: more is not decoded.
    for code in [OpCode::OMAPSETVALS, OpCode::OMAPRMKEYS, OpCode::OMAPGETVALSBYKEYS, OpCode::OMAP_CMP] {
        assert_eq!(bench.result(vec![encoded(code, 900_000u32)]), EMSGSIZE);
    }
}

#[test]
fn reads_behind_many_changes_count_what_they_look_at() {
    let changed = |reads: usize| {
        let mut ops = vec![extent(OpCode::WRITE, 0, "x"); 16_384];
        ops.resize(16_384 + reads, range(OpCode::READ, 0, 1));
        Bench::new().result(ops)
    };
    assert_eq!((changed(1_000), changed(2_000)), (0, EMSGSIZE));
}

/// What is kept of snapshots is read and written as a whole, with each change.
#[test]
fn an_object_has_so_many_snapshots_and_no_more() {
    let mut bench = Bench::new();
    bench.put("abc");
    let context = |from: u64| {
        let snaps: Vec<SnapId> = (from..from + (4 << 20)).rev().map(SnapId).collect();
        SnapContext { seq: snaps[0], snaps }
    };
    bench.snapc = context(1);
    assert_eq!(bench.result(vec![extent(OpCode::WRITE, 0, "x")]), 0);
    bench.snapc = context(5 << 20);
    assert_eq!(bench.result(vec![extent(OpCode::WRITE, 0, "x")]), Errno::E2BIG.negated());
    // What adds no clone goes on, and so does what ends it.
    assert_eq!(bench.result(vec![xattr(OpCode::GETXATTR, "a", "")]), Errno::ENODATA.negated());
    let snapc = std::mem::take(&mut bench.snapc);
    assert_eq!(bench.result(vec![extent(OpCode::WRITE, 0, "x")]), 0);
    bench.snapc = snapc;
    assert_eq!(bench.result(vec![plain(OpCode::DELETE)]), 0);
    // Nor does it grow by being made and deleted in turns.
    assert_eq!(bench.result(vec![extent(OpCode::WRITE, 0, "x")]), Errno::E2BIG.negated());
}

/// The object has so many bytes, which are in the store.
fn sized(len: u64) -> Bench {
    let mut bench = Bench::new();
    assert_eq!(bench.result(vec![range(OpCode::WRITE, len, 0), range(OpCode::TRUNCATE, len, 0)]), 0);
    bench
}

#[test]
fn a_request_reads_so_much_and_no_more() {
    let mut bench = sized(100 * MIB);
    let reads = |count| vec![range(OpCode::READ, 0, 0); count];
    assert_eq!((bench.result(reads(5)), bench.result(reads(6))), (0, EMSGSIZE));
    // Nor does the rest go on if the op may fail; and comparisons do not read without end either.
    let may_fail = |op: OsdOp| OsdOp { flags: op_flag::FAILOK, ..op };
    assert_eq!(bench.result(vec![may_fail(range(OpCode::READ, 0, 0)); 6]), EMSGSIZE);
    assert_eq!(bench.result(vec![may_fail(range(OpCode::CMPEXT, 0, 100 * MIB)); 6]), EMSGSIZE);
}

#[test]
fn a_request_reads_no_more_of_what_it_changes() {
    let mut bench = sized(100 * MIB);
    let changed = |count: usize| {
        let mut ops = vec![extent(OpCode::WRITE, 7, "x")];
        ops.resize(1 + count, range(OpCode::READ, 0, 0));
        ops
    };
    assert_eq!((bench.result(changed(5)), bench.result(changed(6))), (0, EMSGSIZE));
}

#[test]
fn what_is_answered_besides_data_counts_too() {
    let mut bench = Bench::new();
    assert_eq!(bench.result(vec![xattr(OpCode::SETXATTR, "a", &"v".repeat(60 << 20))]), 0);
    let all = |count| vec![plain(OpCode::GETXATTRS); count];
    assert_eq!((bench.result(all(4)), bench.result(all(5))), (0, EMSGSIZE));
}

/// An op that answers little, or fails, has looked at what it was asked to look at.
#[test]
fn a_request_looks_at_so_much_and_no_more() {
    let may_fail = |op: OsdOp| OsdOp { flags: op_flag::FAILOK, ..op };
    let mut bench = Bench::new();
    let value: &str = &"v".repeat(60 << 20);
    assert_eq!(bench.result(vec![xattr(OpCode::SETXATTR, "lock.n", value)]), 0);
    let compare = compared_xattr(OpCode::CMPXATTR, "lock.n", b"", 1, 1);
    assert_eq!(bench.result(vec![may_fail(compare.clone()); 8]), 0);
    assert_eq!(bench.result(vec![may_fail(compare); 9]), EMSGSIZE);
    assert_eq!(bench.result(vec![may_fail(call("lock", "list_locks", b"")); 9]), EMSGSIZE);

    let mut bench = Bench::new();
    let entry = BTreeMap::from([(Bytes::from("k"), Bytes::from(vec![7; 80 << 20]))]);
    assert_eq!(bench.result(vec![encoded(OpCode::OMAPSETVALS, entry)]), 0);
    let wanted = BTreeMap::from([(Bytes::from("k"), (Bytes::new(), 1i32))]);
    let compare = may_fail(encoded(OpCode::OMAP_CMP, wanted));
    assert_eq!((bench.result(vec![compare.clone(); 6]), bench.result(vec![compare; 7])), (0, EMSGSIZE));
}

#[test]
fn entries_that_a_request_removed_count_when_it_looks_for_others() {
    let mut bench = Bench::new();
    let keys: Vec<Bytes> = (0..20_000).map(|at| Bytes::from(format!("{at:05}"))).collect();
    let entries: BTreeMap<Bytes, Bytes> = keys.iter().map(|key| (key.clone(), Bytes::new())).collect();
    assert_eq!(bench.result(vec![encoded(OpCode::OMAPSETVALS, entries)]), 0);
    let list = encoded(OpCode::OMAPGETKEYS, (Bytes::new(), 1u64));
    let removing =
        |count| [vec![encoded(OpCode::OMAPRMKEYS, keys.clone())], vec![list.clone(); count]].concat();
    // Each list looks at what is stored, and at what was removed.
    assert_eq!((bench.result(removing(30)), bench.result(removing(20))), (EMSGSIZE, 0));
    // The second time, nothing is stored.
    assert_eq!((bench.result(removing(40)), bench.result(removing(60))), (0, EMSGSIZE));
}

/// A pool has many mirrored images, and a method that sums up their states looks for those of each.
#[test]
fn a_method_may_look_for_many_entries_that_are_not_there() {
    let mut bench = Bench::new();
    let image = |at: u64| {
        let fields = [&4u32.to_le_bytes()[..], format!("{at:04}").as_bytes(), &[1]].concat();
        [&[1, 1][..], &(fields.len() as u32).to_le_bytes(), &fields].concat()
    };
    let entries: BTreeMap<Bytes, Bytes> =
        (0..9_999).map(|at| (Bytes::from(format!("image_{at:04}")), Bytes::from(image(at)))).collect();
    let others = (0..1_000).map(|at| (Bytes::from(format!("s{at:04}")), Bytes::new()));
    let entries: BTreeMap<Bytes, Bytes> = entries.into_iter().chain(others).collect();
    assert_eq!(bench.result(vec![encoded(OpCode::OMAPSETVALS, entries)]), 0);
    let summary = call("rbd", "mirror_image_status_get_summary", b"");
    // As for a pool of 150,000.
    assert_eq!(bench.result(vec![summary.clone(); 15]), 0);
    assert_eq!(bench.result(vec![summary; 60]), EMSGSIZE);
}

#[test]
fn as_many_ops_as_a_request_may_have_may_read_a_little() {
    let mut bench = Bench::new();
    bench.put("x");
    assert_eq!(bench.result(vec![range(OpCode::READ, 0, 1); 65_535]), 0);
    // Lists of many entries are longer than what they answer.
    let entries: BTreeMap<Bytes, Bytes> =
        (0..1024).map(|at| (Bytes::from(format!("{at}")), Bytes::new())).collect();
    assert_eq!(bench.result(vec![encoded(OpCode::OMAPSETVALS, entries)]), 0);
    let list = encoded(OpCode::OMAPGETKEYS, (Bytes::new(), 1024u64));
    assert_eq!((bench.result(vec![list.clone(); 500]), bench.result(vec![list; 1100])), (0, EMSGSIZE));
}

/// The statuses of many images may be one and the same.
#[test]
fn a_method_that_gets_the_same_large_entry_again_and_again_is_refused() {
    let mut bench = Bench::new();
    let f = Features::default();
    let enveloped = |fields: Vec<u8>| [&[1, 1][..], &(fields.len() as u32).to_le_bytes(), &fields].concat();
    let text = |text: &[u8]| [&(text.len() as u32).to_le_bytes(), text].concat();
    let image = Bytes::from(enveloped([text(b"g"), vec![1]].concat()));
    let mut entries: BTreeMap<Bytes, Bytes> =
        (0..100).map(|at| (Bytes::from(format!("image_{at:02}")), image.clone())).collect();
    entries.insert(Bytes::from("global_g"), Bytes::from(text(b"00")));
    assert_eq!(bench.result(vec![encoded(OpCode::OMAPSETVALS, entries)]), 0);
    let status = |description: usize| {
        let description = text(&vec![b'd'; description]);
        let status =
            enveloped([vec![4], description, UTime::default().to_bytes(f).to_vec(), vec![1]].concat());
        call("rbd", "mirror_image_status_set", &[text(b"g"), status].concat())
    };
    let list = |count: u64| call("rbd", "mirror_image_status_list", &(Bytes::new(), count).to_bytes(f));
    assert_eq!((bench.result(vec![status(1 << 20)]), bench.result(vec![list(100)])), (0, 0));
    assert_eq!((bench.result(vec![status(80 << 20)]), bench.result(vec![list(100)])), (0, EMSGSIZE));
    assert_eq!(bench.result(vec![list(3)]), 0);
}

#[test]
fn a_list_of_an_omap_ends_where_it_has_enough_bytes_and_says_so() {
    let mut bench = Bench::new();
    let value = Bytes::from(vec![7; 80 << 20]);
    for key in ["a", "b", "c"] {
        let pairs = BTreeMap::from([(Bytes::from(key), value.clone())]);
        assert_eq!(bench.result(vec![encoded(OpCode::OMAPSETVALS, pairs)]), 0);
    }
    let list =
        |after: &'static str| encoded(OpCode::OMAPGETVALS, (Bytes::from(after), (100u64, Bytes::new())));
    let listed = |bench: &mut Bench, after| {
        let data = bench.run(vec![list(after)]).unwrap().ops[0].data.clone();
        let (found, has_more): (BTreeMap<Bytes, Bytes>, bool) = Decode::from_bytes(data).unwrap();
        (found.into_keys().collect::<Vec<_>>(), has_more)
    };
    assert_eq!(listed(&mut bench, ""), (vec![Bytes::from("a"), Bytes::from("b")], true));
    assert_eq!(listed(&mut bench, "b"), (vec![Bytes::from("c")], false));
    assert_eq!(bench.result(vec![list(""); 4]), EMSGSIZE);
    let keys = BTreeSet::from([Bytes::from("a"), Bytes::from("b"), Bytes::from("c")]);
    let by_keys = encoded(OpCode::OMAPGETVALSBYKEYS, keys);
    assert_eq!((bench.result(vec![by_keys.clone()]), bench.result(vec![by_keys; 3])), (0, EMSGSIZE));
}

#[test]
fn an_object_has_so_many_bytes_of_xattrs_and_no_more() {
    let mut bench = Bench::new();
    let value: &str = &"v".repeat(20 << 20);
    let set = |name: &str| xattr(OpCode::SETXATTR, name, value);
    assert_eq!(bench.result(vec![set("a"), set("b")]), 0);
    assert_eq!(bench.result(vec![set("c")]), 0);
    assert_eq!(bench.result(vec![set("d")]), EFBIG);
    assert_eq!(bench.result(vec![step(OpCode::OMAPSETHEADER, OpParams::default(), value.to_owned())]), EFBIG);
    assert_eq!(bench.result(vec![xattr(OpCode::GETXATTR, "d", "")]), -61);
    // An xattr may replace another of its size, and whatever leaves the object less is allowed.
    assert_eq!(bench.result(vec![set("c"), extent(OpCode::WRITE, 0, "x")]), 0);
    assert_eq!(bench.result(vec![xattr(OpCode::RMXATTR, "a", ""), set("d")]), 0);
    assert_eq!(bench.result(vec![plain(OpCode::DELETE), set("a")]), 0);
    assert_eq!(bench.result(vec![set("b"), set("c"), set("d")]), EFBIG);
}

#[test]
fn a_method_lists_so_many_bytes_of_an_omap_and_no_more() {
    let mut bench = Bench::new();
    let value = Bytes::from(vec![7; 80 << 20]);
    let list = call("rbd", "metadata_list", &(Bytes::new(), 100u64).to_bytes(Features::default()));
    for count in 0..4u8 {
        let pairs = BTreeMap::from([(Bytes::from(format!("metadata_{count}")), value.clone())]);
        assert_eq!(bench.result(vec![encoded(OpCode::OMAPSETVALS, pairs)]), 0);
        // What it answers counts besides.
        assert_eq!(bench.result(vec![list.clone()]) == EMSGSIZE, count == 3, "{count}");
    }
}

#[test]
fn a_request_lists_a_pg_so_often_and_no_more() {
    let mut bench = Bench::new();
    let list = step(OpCode::PGNLS, OpParams::default(), HObject::min().to_bytes(Features::default()));
    assert_eq!((bench.result(vec![list.clone(); 16]), bench.result(vec![list; 17])), (1, EMSGSIZE));
}

/// The log keeps the results and outputs of so many ops, and no more.
#[test]
fn a_request_that_wants_outputs_of_its_change_has_so_many_ops() {
    let kept = |done: Executed| done.staged.unwrap().log.pop().unwrap().returns.len();
    let mut bench = Bench::new();
    let creations = |count| vec![plain(OpCode::CREATE); count];
    assert_eq!(kept(bench.run(creations(1_000)).unwrap()), 0);
    // Of a failure, the answer says which op it was, if there are not too many.
    let failing = |count: usize| {
        [vec![plain(OpCode::STAT); count - 1], vec![OsdOp { flags: op_flag::EXCL, ..plain(OpCode::CREATE) }]]
            .concat()
    };
    assert_eq!(kept(bench.run(failing(64)).unwrap()), 64);
    assert_eq!(kept(bench.run(failing(65)).unwrap()), 0);
    bench.return_outputs();
    assert_eq!(kept(bench.run(creations(64)).unwrap()), 64);
    assert_eq!(bench.run(creations(65)).err(), Some(Errno::E2BIG));
    // What only reads is not logged.
    assert_eq!(bench.result(vec![plain(OpCode::STAT); 65]), 0);
}
