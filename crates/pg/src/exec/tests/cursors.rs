//! Listings that begin anywhere, with any filter: each is refused or leads to the end of the PG.

use bytes::Bytes;
use codec::{Decode, Encode, Features, Reader};
use messages::{MOSDOp, OpCode, OpParams};
use proptest::{collection::vec, prelude::*, sample::select};
use types::{HObject, PgId, PoolId, SnapId};

use super::{
    bench::{Bench, POOL, extent, step, xattr},
    listing::Page,
};
use crate::damage::{Damage, damage, damaged, number};

/// PGs of the pool, and the one that is listed.
const PG_NUM: u32 = 4;
const SEED: u32 = 1;
const NAMES: &[&str] = &["a", "b", "c", "d", "e", "f", "g"];
const NAMESPACES: &[&str] = &["", "ns", ".ceph-internal", "\x01"];

/// Objects in two namespaces, of which the PG lacks some.
fn example() -> Bench {
    let mut bench = Bench::new();
    bench.ctx.pg_num = PG_NUM;
    for (at, name) in (0..).zip(NAMES) {
        let ops = vec![extent(OpCode::WRITEFULL, 0, "x"), xattr(OpCode::SETXATTR, "a", "1")];
        let mut request = bench.request(name, SnapId::HEAD, ops);
        request.hash = SEED + PG_NUM * at;
        request.locator.nspace = NAMESPACES[at as usize % 2].into();
        bench.execute(&request).unwrap();
        let missing = HObject { oid: Bytes::from(format!("missing {name}")), ..request.head() };
        bench.ctx.missing.insert(missing);
    }
    bench
}

/// Some place in a pool or outside.
fn place() -> impl Strategy<Value = HObject> {
    let pool = select(vec![POOL, POOL, PoolId(POOL.0 + 1), PoolId(i64::MIN), PoolId(i64::MAX)]);
    let hash = prop_oneof![3 => (0..9u32).prop_map(|at| SEED + PG_NUM * at), 1 => any::<u32>()];
    let (name, space) = (select(NAMES), select(NAMESPACES));
    let snap = prop_oneof![Just(SnapId(0)), Just(SnapId::HEAD), number().prop_map(SnapId)];
    (pool, hash, name, space, snap, prop::bool::weighted(0.1)).prop_map(
        |(pool, hash, name, nspace, snap, is_max)| {
            let (oid, nspace) = (Bytes::from(name), Bytes::from(nspace));
            HObject { oid, nspace, pool, hash, snap, is_max, ..HObject::default() }
        },
    )
}

/// What is in front of the cursor in a listing with a filter.
fn filter() -> impl Strategy<Value = Bytes> {
    let kind = select(vec!["plain", "plain", "", "rbd.", ".x", "rbd.x", "none.x", "cephfs.inode_tag"]);
    let name = select(vec!["_a", "_", "", "a", "_parent"]);
    (kind, name, select(vec!["1", ""])).prop_map(|(kind, name, value)| {
        let text = |text: &'static str| Bytes::from(text);
        let front = (text("class"), text("method"), text(kind)).to_bytes(Features::default());
        [front, (text(name), text(value)).to_bytes(Features::default())].concat().into()
    })
}

/// The place where an answer says that the next one begins, and how many objects it names.
fn read(code: OpCode, answer: Bytes) -> (HObject, usize) {
    if matches!(code, OpCode::PGNLS | OpCode::PGNLS_FILTER) {
        let page = Page::from_bytes(answer).unwrap();
        return (page.handle, page.entries.len());
    }
    let mut input = Reader::new(answer);
    let version = u8::decode(&mut input).unwrap();
    let (handle, entries) = <(HObject, Vec<(Bytes, Bytes)>)>::decode(&mut input).unwrap();
    assert_eq!((version, input.remaining()), (1, 0));
    (handle, entries.len())
}

/// One page of a listing, if it is not refused: where it ends, and whether that is the end.
fn page(bench: &mut Bench, request: &MOSDOp) -> Option<(HObject, bool)> {
    let count = request.ops[0].params.u64_at(0).clamp(1, 1_024);
    let done = bench.execute(request).unwrap();
    if done.result < 0 {
        return None;
    }
    let (handle, named) = read(request.ops[0].code, done.ops[0].data.clone());
    assert!(named as u64 <= count);
    Some((handle, done.result == 1))
}

proptest! {
    #![proptest_config(::damage::cases(2_000))]

    #[test]
    fn a_listing_that_begins_anywhere_ends(
        code in select(vec![OpCode::PGNLS, OpCode::PGLS, OpCode::PGNLS_FILTER, OpCode::PGLS_FILTER]),
        count in number(),
        (cursor, filter) in (place(), filter()),
        nspace in select(NAMESPACES),
        damages in vec(damage(), 0..2),
    ) {
        let mut bench = example();
        let front = match code {
            OpCode::PGNLS | OpCode::PGLS => Bytes::new(),
            _ => filter,
        };
        let request = |bench: &Bench, cursor: &HObject, damages: &[Damage]| {
            let input = [front.clone(), cursor.to_bytes(Features::default())].concat();
            let params = OpParams::from_parts(&[&count.to_le_bytes()]);
            let mut request =
                bench.request("", SnapId::HEAD, vec![step(code, params, damaged(&input, damages))]);
            request.pgid = PgId::new(POOL, SEED);
            request.locator.nspace = nspace.into();
            request
        };
        let first = request(&bench, &cursor, &damages);
        let Some((mut at, mut is_end)) = page(&mut bench, &first) else { return Ok(()) };
        // A page names an object at least, or has looked at more than there are.
        for pages in 0.. {
            prop_assert!(pages <= 2 * NAMES.len(), "it does not end");
            if is_end || at.is_max {
                break;
            }
            let next = request(&bench, &at, &[]);
            let Some((handle, is_last)) = page(&mut bench, &next) else { break };
            prop_assert!(handle > at, "{handle} after {at}");
            (at, is_end) = (handle, is_last);
        }
    }

    #[test]
    fn inputs_of_listings_may_be_anything(
        code in 0x1500u16..0x1510,
        inputs in vec(vec(any::<u8>(), 0..60), 1..4),
        count in number(),
    ) {
        let mut bench = example();
        let params = OpParams::from_parts(&[&count.to_le_bytes()]);
        let ops = inputs.into_iter().map(|input| step(OpCode(code), params, input)).collect();
        let mut request = bench.request("", SnapId::HEAD, ops);
        request.pgid = PgId::new(POOL, SEED);
        let done = bench.execute(&request).unwrap();
        prop_assert!(done.staged.is_none() && done.ops.len() == request.ops.len());
    }
}
