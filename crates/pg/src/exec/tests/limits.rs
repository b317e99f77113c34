//! What one request may ask for, and what it costs.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::{OpCode, OpParams, OsdOp, op_flag};
use types::{HObject, Mutation, TxnOp, UTime};

use super::bench::{Bench, call, encoded, extent, plain, range, step, xattr};

const MIB: u64 = 1 << 20;
const EFBIG: i32 = -27;
const ENAMETOOLONG: i32 = -36;
const EMSGSIZE: i32 = -90;

fn sums(offset: u64, len: u64, chunk: u32) -> OsdOp {
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

fn repeated(offset: u64, len: u64, data: &'static str) -> OsdOp {
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
    assert_eq!(Bench::new().result(vec![repeated(0, 127 * MIB, "ab")]), 0);
    assert_eq!(Bench::new().result(vec![repeated(0, 128 * MIB, "ab")]), EMSGSIZE);
    assert_eq!(Bench::new().result(vec![repeated(0, 129 * MIB, "ab")]), EFBIG);
    let many = |count| vec![repeated(0, 64 * MIB, "ab"); count];
    assert_eq!((Bench::new().result(many(1)), Bench::new().result(many(2))), (0, EMSGSIZE));
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
    assert_eq!((bench.result(all(8)), bench.result(all(9))), (0, EMSGSIZE));
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
