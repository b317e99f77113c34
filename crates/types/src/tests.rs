mod damage;
pub(crate) mod damaged_words;

use std::net::{Ipv6Addr, SocketAddrV6};

use bytes::Bytes;
use codec::{Decode, Encode, Features, Reader};

use crate::*;

#[test]
fn utime_prints_as_ceph_does() {
    assert_eq!(UTime::new(1_795_209_488, 651_397_000).to_string(), "2026-11-20T21:18:08.651397+0000");
    assert_eq!(UTime::default().to_string(), "0.000000");
}

#[test]
fn hobject_cursor_has_ceph_size() {
    // The PGNLS cursor of a stock client: `4, 3, 33` and 33 bytes.
    let bytes = HObject { pool: PoolId(2), ..HObject::default() }.to_bytes(Features::default());
    assert_eq!((bytes.len(), &bytes[..6]), (39, &[4, 3, 33, 0, 0, 0][..]));
}

#[test]
fn hobject_order_is_bitwise() {
    let at =
        |hash: u32| HObject { hash, pool: PoolId(1), oid: Bytes::from_static(b"x"), ..HObject::default() };
    assert!(at(0x8000_0000) > at(0) && at(1) > at(0x8000_0000));
    assert!(HObject::min() < at(0) && at(u32::MAX) < HObject::max());
    assert!(at(1).with_snap(SnapId(4)) < at(1).with_snap(SnapId::HEAD));
}

#[test]
fn address_round_trips_and_prints() {
    let addr = EntityAddr::parse("v2:127.0.0.1:6800/77").unwrap();
    assert_eq!(addr.to_string(), "v2:127.0.0.1:6800/77");
    let bytes = addr.to_bytes(Features::default());
    assert_eq!(bytes.len(), 1 + 6 + 28);
    assert_eq!(EntityAddr::from_bytes(bytes).unwrap(), addr);
    let v6 = EntityAddr::parse("v2:[::1]:6800/1").unwrap();
    assert_eq!(EntityAddr::from_bytes(v6.to_bytes(Features::default())).unwrap(), v6);
    let link_local = EntityAddr::parse("v2:[fe80::1%2]:6800/1").unwrap();
    let bytes = link_local.to_bytes(Features::default());
    assert_eq!(bytes[bytes.len() - 4..], [2, 0, 0, 0], "the scope, as it lies in the C struct");
    assert_eq!(EntityAddr::from_bytes(bytes).unwrap(), link_local);
    assert_eq!(link_local.to_string(), "v2:[fe80::1%2]:6800/1");
    let labelled = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 6800, 0x12345, 0);
    let labelled = EntityAddr::msgr2(labelled.into(), 1);
    assert_eq!(EntityAddr::from_bytes(labelled.to_bytes(Features::default())).unwrap(), labelled);
    let ip = |text| EntityAddr::parse(text).map(|addr| addr.to_string());
    assert_eq!(ip("v2:[::1]").as_deref(), Some("v2:[::1]:0/0"));
    assert_eq!(["v2:[::1", "v2:::1]", "[[::1]]", "v2:1.2.3.4]"].map(ip), [const { None }; 4]);
}

#[test]
fn interval_set_merges_and_splits() {
    let mut set = IntervalSet::new();
    set.insert(1, 2);
    set.insert(5, 1);
    set.insert(3, 2);
    assert_eq!(set.iter().collect::<Vec<_>>(), [(1, 5)]);
    set.remove(2, 2);
    assert_eq!(set.iter().collect::<Vec<_>>(), [(1, 1), (4, 2)]);
    assert!(set.contains(5) && !set.contains(3) && !set.contains(6));
    let mut other = IntervalSet::new();
    other.insert(0, 5);
    assert_eq!(set.intersection(&other).iter().collect::<Vec<_>>(), [(1, 1), (4, 1)]);
}

/// What has no fixed length counts in full.
#[test]
fn a_transaction_knows_how_long_it_is() {
    let bytes = Bytes::from(vec![1; 1000]);
    let pairs = || [(bytes.clone(), bytes.clone())].into();
    for (mutation, least) in [
        (Mutation::Write { offset: 0, data: bytes.clone().into() }, 1000),
        (Mutation::SetXattrs(pairs()), 2000),
        (Mutation::RemoveXattr(bytes.clone()), 1000),
        (Mutation::OmapSet(pairs()), 2000),
        (Mutation::OmapRemove(vec![bytes.clone(); 3]), 3000),
        (Mutation::OmapRemoveRange { first: bytes.clone(), last: bytes.clone() }, 2000),
        (Mutation::OmapSetHeader(bytes.clone()), 1000),
        (
            Mutation::CloneFrom { source: Box::new(HObject { oid: bytes.clone(), ..HObject::default() }) },
            1000,
        ),
    ] {
        let mut txn = Transaction::new(CollId::pg(PgId::new(PoolId(1), 3)));
        txn.push(&HObject::default(), mutation);
        let (mut meta, mut payloads) = (Vec::new(), Vec::new());
        txn.encode_split(&mut meta, &mut payloads);
        let bytes = meta.len() + payloads.iter().map(|payload| payload.len()).sum::<usize>();
        assert!(bytes > least && (bytes..bytes + 300).contains(&txn.bytes_at_most()), "{bytes}");
    }
}

#[test]
fn transaction_splits_payloads_from_meta() {
    let mut txn = Transaction::new(CollId::pg(PgId::new(PoolId(1), 3)));
    let oid = HObject { oid: Bytes::from_static(b"o"), ..HObject::default() };
    txn.ops.push(TxnOp::CreateCollection);
    txn.push(&oid, Mutation::Write { offset: 4096, data: Bytes::from_static(b"payload").into() });
    txn.push(&oid, Mutation::OmapSet([(Bytes::from_static(b"k"), Bytes::from_static(b"v"))].into()));
    txn.push(&oid.with_snap(SnapId(3)), Mutation::CloneFrom { source: oid.clone().into() });
    txn.push(&oid.with_snap(SnapId(3)), Mutation::Truncate { size: 3 });
    txn.ops.push(TxnOp::CreateCollection);
    txn.push(&oid.with_snap(SnapId(3)), Mutation::Touch);
    let (key, nspace) = (Bytes::from_static(b"key"), Bytes::from_static(b"space"));
    let long = HObject { key, nspace, pool: PoolId(-2), hash: 7, snap: SnapId::HEAD, ..oid.clone() };
    txn.push(&long, Mutation::Touch);
    txn.push(&HObject::max(), Mutation::Touch);
    txn.push(&oid, Mutation::Touch);
    txn.ops.push(TxnOp::Split(Box::new(CollSplit {
        child: CollId::pg(PgId::new(PoolId(1), 11)),
        from: oid.clone(),
        to: HObject::max(),
        record: oid.with_snap(SnapId(1)),
        omap: [(Bytes::from_static(b"k"), Bytes::from_static(b"v"))].into(),
    })));
    txn.ops.push(TxnOp::Merge(Box::new(CollMerge {
        source: CollId::pg(PgId::new(PoolId(1), 19)),
        from: oid.clone(),
        to: HObject::max(),
    })));
    let (mut meta, mut payloads) = (Vec::new(), Vec::new());
    txn.encode_split(&mut meta, &mut payloads);
    assert_eq!(payloads, [Bytes::from_static(b"payload").into()]);
    let (bytes, at_most) = (meta.len() + b"payload".len(), txn.bytes_at_most());
    assert!((bytes..bytes + 160 * txn.ops.len()).contains(&at_most), "{at_most} for {bytes}");
    let mut payload = Reader::new(Bytes::clone(&payloads[0]));
    let back = Transaction::decode_split(&mut Reader::new(Bytes::from(meta.clone())), &mut payload).unwrap();
    assert_eq!(back, txn);
    // What stays keeps nothing alive that it came with.
    let input = Bytes::from(meta.clone());
    let mut payload = Reader::new(Bytes::clone(&payloads[0]));
    let back = Transaction::decode_split(&mut Reader::new(input.clone()), &mut payload).unwrap();
    let entries = back.ops.iter().filter_map(|op| match op {
        TxnOp::Object(_, Mutation::OmapSet(map)) => Some(map),
        _ => None,
    });
    let mut kept = entries.flatten().flat_map(|(key, value)| [key, value]).peekable();
    assert!(kept.peek().is_some() && kept.all(|bytes| !input.as_ptr_range().contains(&bytes.as_ptr())));
    for end in 0..meta.len() {
        let mut payload = Reader::new(Bytes::clone(&payloads[0]));
        let mut cut = Reader::new(Bytes::from(meta[..end].to_vec()));
        assert!(Transaction::decode_split(&mut cut, &mut payload).is_err(), "{end}");
    }
}
