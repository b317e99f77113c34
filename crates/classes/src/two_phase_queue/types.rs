//! Inputs, outputs and the stored form of the 2pc_queue class (cls_2pc_queue_types.h, cls_2pc_queue_ops.h).

use std::collections::BTreeMap;

use ::types::UTime;
use bytes::Bytes;
use codec::Codec;

/// `cls_2pc_reservation`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub(super) struct Reservation {
    pub(super) bytes: u64,
    pub(super) made: UTime,
    #[codec(since = 2)]
    pub(super) entries: u32,
}

/// By their numbers.
pub(super) type Reservations = BTreeMap<u32, Reservation>;

/// `cls_2pc_urgent_data`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub(super) struct Urgent {
    /// The bytes reserved, including those that entries take besides their data.
    pub(super) reserved_bytes: u64,
    pub(super) last_id: u32,
    pub(super) reservations: Reservations,
    /// There are more of them in an xattr.
    pub(super) has_more: bool,
    #[codec(since = 2)]
    pub(super) committed_entries: u32,
}

/// `cls_2pc_queue_reserve_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct ReserveOp {
    pub(super) bytes: u64,
    pub(super) entries: u32,
}

/// `cls_2pc_queue_reserve_ret` and `cls_2pc_queue_abort_op`.
#[derive(Codec, Debug, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct ReservationId {
    pub(super) id: u32,
}

/// `cls_2pc_queue_commit_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct CommitOp {
    pub(super) id: u32,
    pub(super) entries: Vec<Bytes>,
}

/// `cls_2pc_queue_expire_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct ExpireOp {
    /// Reservations that were made before are given up.
    pub(super) stale: UTime,
}

/// `cls_2pc_queue_reservations_ret`.
#[derive(Codec, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct ReservationsReply {
    pub(super) reservations: Reservations,
}

/// `cls_2pc_queue_remove_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct RemoveOp {
    pub(super) end_marker: Bytes,
}

/// `cls_queue_get_stats_ret`.
#[derive(Codec, Debug, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct StatsReply {
    pub(super) bytes: u64,
    pub(super) entries: u32,
}
