//! Inputs, outputs and the stored form of the lock class (cls/lock/cls_lock_ops.h, cls_lock_types.h).

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::Codec;
use types::{EntityAddr, EntityNum, UTime};

/// `ClsLockType`.
pub(super) mod kind {
    const EXCLUSIVE: u8 = 1;
    const SHARED: u8 = 2;
    /// Exclusive, and the object goes with the last unlock.
    const EXCLUSIVE_EPHEMERAL: u8 = 3;

    pub(in crate::lock) fn is_valid(kind: u8) -> bool {
        matches!(kind, EXCLUSIVE | SHARED | EXCLUSIVE_EPHEMERAL)
    }

    pub(in crate::lock) fn is_exclusive(kind: u8) -> bool {
        matches!(kind, EXCLUSIVE | EXCLUSIVE_EPHEMERAL)
    }

    pub(in crate::lock) fn is_ephemeral(kind: u8) -> bool {
        kind == EXCLUSIVE_EPHEMERAL
    }
}

/// `LOCK_FLAG_*`.
pub(super) mod flag {
    pub(in crate::lock) const MAY_RENEW: u8 = 1;
    pub(in crate::lock) const MUST_RENEW: u8 = 2;
}

/// `cls_lock_lock_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct LockOp {
    pub(super) name: Bytes,
    pub(super) kind: u8,
    pub(super) cookie: Bytes,
    pub(super) tag: Bytes,
    pub(super) description: Bytes,
    pub(super) duration: UTime,
    pub(super) flags: u8,
}

/// `cls_lock_unlock_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct UnlockOp {
    pub(super) name: Bytes,
    pub(super) cookie: Bytes,
}

/// `cls_lock_break_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct BreakOp {
    pub(super) name: Bytes,
    pub(super) locker: EntityNum,
    pub(super) cookie: Bytes,
}

/// `cls_lock_get_info_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct GetInfoOp {
    pub(super) name: Bytes,
}

/// `locker_id_t`.
#[derive(Codec, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[codec(version = 1, compat = 1)]
pub(super) struct LockerId {
    pub(super) locker: EntityNum,
    pub(super) cookie: Bytes,
}

/// `locker_info_t`.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct LockerInfo {
    /// Zero never expires.
    pub(super) expiration: UTime,
    pub(super) addr: EntityAddr,
    pub(super) description: Bytes,
}

/// `lock_info_t`: what the xattr holds.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct LockInfo {
    pub(super) lockers: BTreeMap<LockerId, LockerInfo>,
    pub(super) kind: u8,
    pub(super) tag: Bytes,
}

/// `cls_lock_get_info_reply`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct GetInfoReply {
    pub(super) lockers: BTreeMap<LockerId, LockerInfo>,
    pub(super) kind: u8,
    pub(super) tag: Bytes,
}

/// `cls_lock_list_locks_reply`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct ListLocksReply {
    pub(super) locks: Vec<Bytes>,
}

/// `cls_lock_assert_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct AssertOp {
    pub(super) name: Bytes,
    pub(super) kind: u8,
    pub(super) cookie: Bytes,
    pub(super) tag: Bytes,
}

/// `cls_lock_set_cookie_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct SetCookieOp {
    pub(super) name: Bytes,
    pub(super) kind: u8,
    pub(super) cookie: Bytes,
    pub(super) tag: Bytes,
    pub(super) new_cookie: Bytes,
}
