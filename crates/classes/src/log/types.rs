//! Inputs, outputs and the stored form of the log class (cls_log_ops.h, cls_log_types.h).

use bytes::Bytes;
use codec::Codec;
use types::UTime;

/// `cls_log_entry`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub(super) struct Entry {
    pub(super) section: Bytes,
    pub(super) name: Bytes,
    pub(super) timestamp: UTime,
    pub(super) data: Bytes,
    /// Its key; empty for one that the OSD is to make.
    #[codec(since = 2)]
    pub(super) id: Bytes,
}

/// `cls_log_header`: what the omap header holds.
#[derive(Codec, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct Header {
    pub(super) max_marker: Bytes,
    pub(super) max_time: UTime,
}

/// `cls_log_add_op`.
#[derive(Codec)]
#[codec(version = 2, compat = 1)]
pub(super) struct AddOp {
    pub(super) entries: Vec<Entry>,
    #[codec(since = 2)]
    pub(super) monotonic_inc: Monotonic,
}

/// True if keys that the OSD makes are of no earlier time than any before; so it is without a word.
#[derive(Codec)]
pub(super) struct Monotonic(pub(super) bool);

impl Default for Monotonic {
    fn default() -> Monotonic {
        Monotonic(true)
    }
}

/// `cls_log_list_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct ListOp {
    pub(super) from_time: UTime,
    /// Instead of `from_time`, if it is not empty.
    pub(super) marker: Bytes,
    /// The end, not inclusive; without a beginning there is none.
    pub(super) to_time: UTime,
    pub(super) max_entries: u32,
}

/// `cls_log_list_ret`.
#[derive(Codec, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct ListReply {
    pub(super) entries: Vec<Entry>,
    /// The last key that was looked at.
    pub(super) marker: Bytes,
    pub(super) truncated: bool,
}

/// `cls_log_trim_op`.
#[derive(Codec)]
#[codec(version = 2, compat = 1)]
pub(super) struct TrimOp {
    pub(super) from_time: UTime,
    /// Inclusive.
    pub(super) to_time: UTime,
    /// Instead of `from_time`, if it is not empty.
    #[codec(since = 2)]
    pub(super) from_marker: Bytes,
    /// Instead of `to_time`, if it is not empty; inclusive.
    #[codec(since = 2)]
    pub(super) to_marker: Bytes,
}

/// `cls_log_info_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct InfoOp {}

/// `cls_log_info_ret`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct InfoReply {
    pub(super) header: Header,
}
