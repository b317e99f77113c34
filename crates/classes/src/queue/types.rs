//! Inputs, outputs and the stored form of the queue classes (cls_queue_types.h, cls_queue_ops.h).

use ::types::Errno;
use bytes::Bytes;
use codec::Codec;

use crate::Stop;

/// `cls_queue_marker`: a place in the ring, and how often the ring was passed before.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(crate) struct Marker {
    pub(crate) round: u64,
    pub(crate) offset: u64,
}

impl Marker {
    /// As it is shown to clients: `ROUND/OFFSET`.
    pub(crate) fn text(self) -> Bytes {
        Bytes::from(format!("{}/{}", self.round, self.offset))
    }

    pub(crate) fn parse(text: &[u8]) -> Result<Marker, Stop> {
        let text = std::str::from_utf8(text).ok();
        let parts = text.and_then(|text| text.split_once('/'));
        let parsed = parts.and_then(|(round, offset)| {
            Some(Marker { round: round.parse().ok()?, offset: offset.parse().ok()? })
        });
        parsed.ok_or(Errno::EINVAL.into())
    }
}

/// `cls_queue_head`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(crate) struct Head {
    /// Where the ring begins.
    pub(crate) begin: u64,
    /// The oldest entry.
    pub(crate) front: Marker,
    /// Where the next entry goes.
    pub(crate) tail: Marker,
    /// Where the ring ends.
    pub(crate) end: u64,
    pub(crate) urgent_bytes_max: u64,
    /// What a class built on the queue keeps with it.
    pub(crate) urgent: Bytes,
}

/// `cls_queue_entry`.
#[derive(Codec, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(crate) struct Entry {
    pub(crate) data: Bytes,
    pub(crate) marker: Bytes,
}

/// `cls_queue_init_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(crate) struct InitOp {
    pub(crate) bytes: u64,
    pub(crate) urgent_bytes_max: u64,
    pub(crate) urgent: Bytes,
}

/// `cls_queue_enqueue_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(crate) struct EnqueueOp {
    pub(crate) entries: Vec<Bytes>,
}

/// `cls_queue_list_op`.
#[derive(Codec, Clone, Default)]
#[codec(version = 2, compat = 1)]
pub(crate) struct ListOp {
    pub(crate) max: u64,
    pub(crate) start_marker: Bytes,
    /// The first entry that is not listed, if not empty.
    #[codec(since = 2)]
    pub(crate) end_marker: Bytes,
}

/// `cls_queue_list_ret`.
#[derive(Codec, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(crate) struct ListReply {
    pub(crate) is_truncated: bool,
    pub(crate) next_marker: Bytes,
    pub(crate) entries: Vec<Entry>,
}

/// `cls_queue_remove_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(crate) struct RemoveOp {
    pub(crate) end_marker: Bytes,
}

/// `cls_queue_get_capacity_ret`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(crate) struct CapacityReply {
    pub(crate) bytes: u64,
}
