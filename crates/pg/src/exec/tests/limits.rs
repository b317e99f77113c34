//! What one request may ask for, and what it costs.

use std::collections::BTreeSet;

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{OpCode, OpParams, OsdOp};
use types::{Mutation, TxnOp, UTime};

use super::bench::{Bench, call, range, step, xattr};

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
