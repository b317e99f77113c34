//! Damaged requests and locators: an error, or what is read from its own bytes again.

use ::damage::{Damage, damaged};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};

use super::*;
use crate::OpParams;

fn damage() -> impl Strategy<Value = Damage> {
    let number = prop_oneof![Just(0), Just(u64::MAX), Just(1 << 31), 0u64..256, any::<u64>()];
    prop_oneof![
        9 => (any::<Index>(), number, select(vec![1, 1, 2, 4, 8])).prop_map(|(at, n, width)| Damage::Number(at, n, width)),
        1 => any::<Index>().prop_map(Damage::Cut),
    ]
}

fn locator(hash: i64) -> ObjectLocator {
    let [key, nspace] = ["key", "space"].map(|text| Bytes::from_static(text.as_bytes()));
    ObjectLocator { pool: PoolId(3), key, nspace, hash }
}

fn request() -> MOSDOp {
    let data = Bytes::from_static(b"some data");
    let op = |code, data| OsdOp { code, data, ..OsdOp::default() };
    let write = OsdOp { params: OpParams::extent(5, data.len() as u64), ..op(OpCode::WRITE, data.clone()) };
    MOSDOp {
        pgid: PgId::new(PoolId(3), 7),
        epoch: Epoch(9),
        locator: locator(-1),
        oid: Bytes::from_static(b"object"),
        ops: vec![write, op(OpCode::STAT, Bytes::new()), op(OpCode::CALL, data)],
        snapc: SnapContext { seq: SnapId(5), snaps: vec![SnapId(5), SnapId(2)] },
        ..MOSDOp::default()
    }
}

fn encoded(request: &MOSDOp) -> RawMessage {
    let mut raw = RawMessage { version: 8, ..RawMessage::default() };
    request.encode_body(&mut raw);
    let data: Vec<u8> = raw.data_more.drain(..).flat_map(|part| part.to_vec()).collect();
    RawMessage { data: Bytes::from(data).into(), ..raw }
}

proptest! {
    #![proptest_config(::damage::cases(2_000))]

    #[test]
    fn a_damaged_locator_is_refused_or_read(hash in select(vec![-1, 5]), damages in vec(damage(), 1..4)) {
        let bytes = damaged(&locator(hash).to_bytes(Features::PACIFIC), &damages);
        if let Ok(found) = ObjectLocator::from_prefix(bytes) {
            prop_assert_eq!(ObjectLocator::from_bytes(found.to_bytes(Features::PACIFIC)), Ok(found));
        }
    }

    #[test]
    fn a_damaged_request_is_refused_or_read(
        front in vec(damage(), 0..4),
        data in vec(damage(), 0..2),
        more in vec(any::<u8>(), 0..9),
    ) {
        let mut raw = encoded(&request());
        raw.front = [&damaged(&raw.front, &front)[..], &more[..]].concat().into();
        raw.data = damaged(&raw.data, &data).into();
        if let Ok(found) = MOSDOp::decode_body(raw) {
            let _ = (found.held_bytes(), found.echoed_ops(), found.head());
            let back = MOSDOp::decode_body(encoded(&found)).map(|back| MOSDOp { front_bytes: found.front_bytes, ..back });
            prop_assert_eq!(back, Ok(found));
        }
    }
}
