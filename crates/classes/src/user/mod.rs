//! The `user` class: a gateway user's buckets in an object's omap, their sums in its header.
//!
//! Authority: `cls/user` of Ceph 16.2 to 20.2 (cls_user.cc, cls_user_ops.h, cls_user_types.h).

mod accounts;
#[cfg(test)]
mod tests;
mod types;

use ::types::Errno;
use bytes::Bytes;
use codec::Decode;
use types::{
    Bucket, Entry, GetHeaderOp, GetHeaderReply, Header, ListBucketsOp, ListBucketsReply, RemoveBucketOp,
    ResetStatsOp, ResetStatsReply, SetBucketsOp, Stats, TimeOp,
};

use crate::{
    Method, ObjectView, Stop,
    keys::{Reach, find, input, output, remove, walk, write},
    method::{self, row},
    time_key,
};

const RD: u8 = method::RD;
const RW: u8 = method::RD | method::WR;

/// The methods with their Ceph flags.
pub(crate) const METHODS: &[Method] = &[
    row("user", "set_buckets_info", RW, set_buckets_info),
    row("user", "complete_stats_sync", RW, complete_stats_sync),
    row("user", "remove_bucket", RW, remove_bucket),
    row("user", "list_buckets", RD, list_buckets),
    row("user", "get_header", RD, get_header),
    row("user", "reset_user_stats", RW, reset_user_stats),
    row("user", "reset_user_stats2", RW, reset_user_stats2),
    row("user", "account_resource_add", RW, accounts::add),
    row("user", "account_resource_get", RD, accounts::get),
    row("user", "account_resource_rm", RW, accounts::rm),
    row("user", "account_resource_list", RD, accounts::list),
];

/// Buckets that one call of `reset_user_stats2` sums up.
const COUNT_MAX: usize = 1_000;

fn load_header(view: &mut dyn ObjectView) -> Result<Header, Stop> {
    let bytes = view.omap_header()?;
    if bytes.is_empty() {
        return Ok(Header::default());
    }
    Header::from_prefix(bytes).map_err(|_| Errno::EIO.into())
}

fn store_header(view: &mut dyn ObjectView, header: &Header) -> Result<(), Stop> {
    view.omap_set_header(output(header)?)
}

/// The entry of a bucket; EINVAL for one without a name.
fn find_bucket(view: &mut dyn ObjectView, bucket: &Bucket) -> Result<Option<Entry>, Stop> {
    if bucket.name.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    find(view, &bucket.name)
}

fn set_buckets_info(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: SetBucketsOp = input(bytes)?;
    let mut header = load_header(view)?;
    for given in op.entries {
        let mut entry = match find_bucket(view, &given.bucket)? {
            None if !op.add => continue,
            None => given.clone(),
            Some(mut entry) if op.add => {
                // It may have been divided anew, or removed and made again.
                entry.bucket.bucket_id = given.bucket.bucket_id.clone();
                entry.set_creation_time(given.creation_time);
                entry
            }
            Some(entry) => entry,
        };
        if entry.user_stats_sync {
            header.stats.subtract(&entry);
        }
        if !op.add {
            (entry.size, entry.size_rounded, entry.count) = (given.size, given.size_rounded, given.count);
        }
        entry.user_stats_sync = true;
        entry.set_creation_time(entry.creation_time);
        write(view, &given.bucket.name, &entry)?;
        header.stats.add(&entry);
    }
    header.last_stats_update = header.last_stats_update.max(op.time);
    store_header(view, &header)?;
    Ok(Bytes::new())
}

fn complete_stats_sync(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: TimeOp = input(bytes)?;
    let mut header = load_header(view)?;
    header.last_stats_sync = header.last_stats_sync.max(op.time);
    store_header(view, &header)?;
    Ok(Bytes::new())
}

fn remove_bucket(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: RemoveBucketOp = input(bytes)?;
    let mut header = load_header(view)?;
    let Some(entry) = find_bucket(view, &op.bucket)? else { return Ok(Bytes::new()) };
    remove(view, &op.bucket.name)?;
    if entry.user_stats_sync {
        header.stats.subtract(&entry);
        store_header(view, &header)?;
    }
    Ok(Bytes::new())
}

fn list_buckets(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: ListBucketsOp = input(bytes)?;
    let (keys, truncated) = view.omap_list(&op.marker, b"", time_key::count(op.max_entries, 0))?;
    let mut reply = ListBucketsReply { truncated, ..ListBucketsReply::default() };
    let mut marker = Bytes::new();
    for (key, value) in keys {
        if !op.end_marker.is_empty() && op.end_marker <= key {
            reply.truncated = false;
            break;
        }
        // What is no entry is left out.
        reply.entries.extend(Entry::from_prefix(value));
        marker = key;
    }
    if reply.truncated {
        reply.marker = marker;
    }
    output(&reply)
}

fn get_header(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let _: GetHeaderOp = input(bytes)?;
    let header = load_header(view)?;
    output(&GetHeaderReply { header })
}

fn reset_user_stats(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: TimeOp = input(bytes)?;
    let mut stats = Stats::default();
    walk(view, b"", b"", Reach::All, |_, value| {
        stats.add(&Entry::from_prefix(value).map_err(|_| Stop::Refused(Errno::EIO))?);
        Ok(true)
    })?;
    store_header(view, &Header { stats, last_stats_update: op.time, ..Header::default() })?;
    Ok(Bytes::new())
}

/// A part at a time: the client calls again with the reply until nothing is left.
fn reset_user_stats2(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: ResetStatsOp = input(bytes)?;
    let (keys, truncated) = view.omap_list(&op.marker, b"", COUNT_MAX)?;
    let mut reply = ResetStatsReply { stats: Stats::default(), truncated, ..ResetStatsReply::default() };
    for (key, value) in keys {
        reply.stats.add(&Entry::from_prefix(value).map_err(|_| Stop::Refused(Errno::EIO))?);
        reply.marker = key;
    }
    if !truncated {
        let header = Header { stats: reply.stats, last_stats_update: op.time, ..Header::default() };
        store_header(view, &header)?;
    }
    output(&reply)
}
