use bytes::Bytes;
use codec::{Decode, Encode, Features};
use types::{AddrType, EntityAddr, EntityNum, Errno, UTime};

use super::types::{BreakOp, GetInfoOp, GetInfoReply, ListLocksReply, LockOp, UnlockOp};
use crate::test_view::TestView;

fn op(cookie: &'static str, duration_sec: u32, flags: u8) -> Bytes {
    LockOp {
        name: "l".into(),
        kind: 1,
        cookie: cookie.into(),
        tag: "t".into(),
        description: Bytes::new(),
        duration: UTime::new(duration_sec, 0),
        flags,
    }
    .to_bytes(Features::PACIFIC)
}

fn client(id: u64) -> TestView {
    let mut view = TestView::default();
    view.context.origin = EntityNum::client(id);
    view.context.now = UTime::new(1_000, 0);
    view
}

#[test]
fn one_client_holds_an_exclusive_lock() {
    let mut view = client(1);
    view.call("lock", "lock", op("c", 0, 0)).unwrap();
    assert_eq!(view.call("lock", "lock", op("c", 0, 0)).unwrap_err(), Errno::EEXIST);
    view.call("lock", "lock", op("c", 0, 1)).unwrap();
    view.context.origin = EntityNum::client(2);
    assert_eq!(view.call("lock", "lock", op("c", 0, 0)).unwrap_err(), Errno::EBUSY);
    let unlock = UnlockOp { name: "l".into(), cookie: "c".into() }.to_bytes(Features::PACIFIC);
    assert_eq!(view.call("lock", "unlock", unlock).unwrap_err(), Errno::ENOENT);
    let unlock = BreakOp { name: "l".into(), locker: EntityNum::client(1), cookie: "c".into() };
    view.call("lock", "break_lock", unlock.to_bytes(Features::PACIFIC)).unwrap();
    view.call("lock", "lock", op("c", 0, 0)).unwrap();
}

#[test]
fn an_expired_lock_is_free() {
    let mut view = client(1);
    view.call("lock", "lock", op("c", 10, 0)).unwrap();
    view.context.origin = EntityNum::client(2);
    view.context.now = UTime::new(1_010, 1);
    view.context.origin_addr = EntityAddr::parse("any:10.0.0.1:0/123").unwrap();
    view.call("lock", "lock", op("d", 0, 0)).unwrap();
    let info = GetInfoOp { name: "l".into() }.to_bytes(Features::PACIFIC);
    let info = GetInfoReply::from_bytes(view.call("lock", "get_info", info).unwrap()).unwrap();
    assert_eq!(info.lockers.keys().map(|k| k.locker.num).collect::<Vec<_>>(), [2]);
    // `rados_list_lockers` says v1:10.0.0.1:0/123.
    assert!(
        info.lockers.values().all(|locker| locker.addr.kind == AddrType::LEGACY && locker.addr.nonce == 123)
    );
}

/// Names are C++ strings, which hold any bytes.
#[test]
fn texts_need_not_be_utf8() {
    let mut view = client(1);
    let (name, cookie) = (Bytes::from_static(b"n\xff"), Bytes::from_static(b"\xfe c"));
    let op = LockOp {
        name: name.clone(),
        kind: 1,
        cookie: cookie.clone(),
        tag: Bytes::from_static(b"\x80"),
        description: Bytes::from_static(b"\xc3"),
        duration: UTime::default(),
        flags: 0,
    };
    view.call("lock", "lock", op.to_bytes(Features::PACIFIC)).unwrap();
    let locks = view.call("lock", "list_locks", "").unwrap();
    assert_eq!(ListLocksReply::from_bytes(locks).unwrap().locks, std::slice::from_ref(&name));
    let info = GetInfoOp { name: name.clone() }.to_bytes(Features::PACIFIC);
    let info = GetInfoReply::from_bytes(view.call("lock", "get_info", info).unwrap()).unwrap();
    assert_eq!(info.lockers.keys().next().map(|id| id.cookie.clone()), Some(cookie.clone()));
    view.call("lock", "unlock", UnlockOp { name, cookie }.to_bytes(Features::PACIFIC)).unwrap();
}
