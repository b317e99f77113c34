//! Inputs, outputs and the stored form of the user class (cls_user_ops.h, cls_user_types.h).

use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, Encode, Features, Reader, decode_envelope, encode_envelope};
use types::UTime;

/// `cls_user_bucket`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) name: Bytes,
    pub(super) marker: Bytes,
    pub(super) bucket_id: Bytes,
    /// Where its data goes; empty for a bucket that names its pools.
    pub(super) placement_id: Bytes,
    pub(super) data_pool: Bytes,
    pub(super) index_pool: Bytes,
    pub(super) data_extra_pool: Bytes,
}

/// A bucket that names its pools keeps the layout of version 7, so that old gateways can read it.
impl Encode for Bucket {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        let (version, compat) = if self.placement_id.is_empty() { (7, 3) } else { (9, 8) };
        encode_envelope(out, version, compat, |out| {
            let parts: &[&Bytes] = match version {
                7 => &[
                    &self.name,
                    &self.data_pool,
                    &self.marker,
                    &self.bucket_id,
                    &self.index_pool,
                    &self.data_extra_pool,
                ],
                _ => &[&self.name, &self.marker, &self.bucket_id, &self.placement_id],
            };
            parts.iter().for_each(|part| part.encode(out, features));
        });
    }
}

impl Decode for Bucket {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        decode_envelope(input, 8, "cls_user_bucket", |input, version| {
            let mut bucket = Bucket { name: Bytes::decode(input)?, ..Bucket::default() };
            if version < 8 {
                bucket.data_pool = Bytes::decode(input)?;
            }
            bucket.marker = Bytes::decode(input)?;
            bucket.bucket_id = match version {
                ..=3 => Bytes::from(u64::decode(input)?.to_string()),
                _ => Bytes::decode(input)?,
            };
            if version >= 8 {
                bucket.placement_id = Bytes::decode(input)?;
                if version == 8 && bucket.placement_id.is_empty() {
                    bucket.data_pool = Bytes::decode(input)?;
                    bucket.index_pool = Bytes::decode(input)?;
                    bucket.data_extra_pool = Bytes::decode(input)?;
                }
                return Ok(bucket);
            }
            bucket.index_pool = if version >= 5 { Bytes::decode(input)? } else { bucket.data_pool.clone() };
            if version >= 7 {
                bucket.data_extra_pool = Bytes::decode(input)?;
            }
            Ok(bucket)
        })
    }
}

/// `cls_user_bucket_entry`: a bucket and what it holds.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 9, compat = 5)]
pub(super) struct Entry {
    /// Was the bucket's name.
    pub(super) unused: Bytes,
    /// Bytes.
    pub(super) size: u64,
    /// `creation_time` as old gateways read it.
    pub(super) creation_sec: u32,
    /// Objects.
    pub(super) count: u64,
    pub(super) bucket: Bucket,
    /// Bytes, objects rounded up to 4 KiB.
    pub(super) size_rounded: u64,
    /// It is part of the user's sums.
    #[codec(since = 6)]
    pub(super) user_stats_sync: bool,
    #[codec(since = 7)]
    pub(super) creation_time: UTime,
}

impl Entry {
    /// Makes both forms of the creation time agree, as they do in what Ceph writes.
    pub(super) fn set_creation_time(&mut self, time: UTime) {
        (self.creation_time, self.creation_sec, self.unused) = (time, time.sec, Bytes::new());
    }
}

/// `cls_user_stats`: the sums over a user's buckets.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct Stats {
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) bytes_rounded: u64,
}

impl Stats {
    pub(super) fn add(&mut self, entry: &Entry) {
        self.entries = self.entries.wrapping_add(entry.count);
        self.bytes = self.bytes.wrapping_add(entry.size);
        self.bytes_rounded = self.bytes_rounded.wrapping_add(entry.size_rounded);
    }

    pub(super) fn subtract(&mut self, entry: &Entry) {
        self.entries = self.entries.wrapping_sub(entry.count);
        self.bytes = self.bytes.wrapping_sub(entry.size);
        self.bytes_rounded = self.bytes_rounded.wrapping_sub(entry.size_rounded);
    }
}

/// `cls_user_header`: what the omap header holds.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct Header {
    pub(super) stats: Stats,
    /// When all sums were computed anew.
    pub(super) last_stats_sync: UTime,
    pub(super) last_stats_update: UTime,
}

/// `cls_user_set_buckets_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct SetBucketsOp {
    pub(super) entries: Vec<Entry>,
    /// True if the entries may be new; otherwise entries that are not there are left out.
    pub(super) add: bool,
    pub(super) time: UTime,
}

/// `cls_user_remove_bucket_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct RemoveBucketOp {
    pub(super) bucket: Bucket,
}

/// `cls_user_list_buckets_op`.
#[derive(Codec)]
#[codec(version = 2, compat = 1)]
pub(super) struct ListBucketsOp {
    pub(super) marker: Bytes,
    pub(super) max_entries: u32,
    /// Not inclusive; empty for none.
    #[codec(since = 2)]
    pub(super) end_marker: Bytes,
}

/// `cls_user_list_buckets_ret`.
#[derive(Codec, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub(super) struct ListBucketsReply {
    pub(super) entries: Vec<Entry>,
    pub(super) marker: Bytes,
    pub(super) truncated: bool,
}

/// `cls_user_get_header_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct GetHeaderOp {}

/// `cls_user_get_header_ret`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct GetHeaderReply {
    pub(super) header: Header,
}

/// `cls_user_complete_stats_sync_op`, and `cls_user_reset_stats_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct TimeOp {
    pub(super) time: UTime,
}

/// `cls_user_reset_stats2_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
pub(super) struct ResetStatsOp {
    pub(super) time: UTime,
    /// Where the call before ended.
    pub(super) marker: Bytes,
    /// What the calls before have summed up.
    pub(super) stats: Stats,
}

/// `cls_user_reset_stats2_ret`.
#[derive(Codec, Default)]
#[codec(version = 1, compat = 1)]
pub(super) struct ResetStatsReply {
    pub(super) marker: Bytes,
    pub(super) stats: Stats,
    pub(super) truncated: bool,
}
