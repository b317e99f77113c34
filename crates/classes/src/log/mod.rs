//! The `log` class: entries in an object's omap, in the order of their times.
//!
//! Authority: `cls/log` of Ceph 16.2 (cls_log.cc, cls_log_ops.h, cls_log_types.h).

#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeMap;

use ::types::{Errno, UTime};
use bytes::Bytes;
use codec::Decode;
use types::{AddOp, Entry, Header, InfoOp, InfoReply, ListOp, ListReply, TrimOp};

use crate::{
    Method, ObjectView, Stop,
    keys::{input, output},
    method::{self, row},
    time_key,
};

const RD: u8 = method::RD;
const RW: u8 = method::RD | method::WR;

/// The methods with their Ceph flags.
pub(crate) const METHODS: &[Method] = &[
    row("log", "add", RW, add),
    row("log", "list", RD, list),
    row("log", "trim", RW, trim),
    row("log", "info", RD, info),
];

/// Entries of one answer.
const COUNT_MAX: usize = 1_000;

/// The header; one that does not decode counts as none.
fn load_header(view: &mut dyn ObjectView) -> Result<Header, Stop> {
    Ok(Header::from_prefix(view.omap_header()?).unwrap_or_default())
}

/// The key of the entry of that number in this call: other calls in the same request and other requests
/// make other ones, whatever their times are.
fn new_key(view: &dyn ObjectView, time: UTime, number: usize) -> Bytes {
    let context = view.context();
    let mut key = time_key::prefix(time);
    let unique = u64::from(context.subop) << 32 | number as u64;
    key.extend_from_slice(format!("{}.{unique}", context.current_version).as_bytes());
    Bytes::from(key)
}

fn add(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: AddOp = input(bytes)?;
    let mut header = load_header(view)?;
    let mut added = BTreeMap::new();
    for (number, mut entry) in op.entries.into_iter().enumerate() {
        let time = if op.monotonic_inc.0 { entry.timestamp.max(header.max_time) } else { entry.timestamp };
        header.max_time = header.max_time.max(time);
        if entry.id.is_empty() {
            entry.id = new_key(view, time, number);
        }
        let key = entry.id.clone();
        header.max_marker = header.max_marker.max(key.clone());
        added.insert(key, output(&entry)?);
    }
    view.omap_set(added)?;
    view.omap_set_header(output(&header)?)?;
    Ok(Bytes::new())
}

fn list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: ListOp = input(bytes)?;
    let from = if op.marker.is_empty() { time_key::prefix(op.from_time).into() } else { op.marker };
    let has_end = op.from_time != UTime::default() && op.to_time >= op.from_time;
    let end = time_key::prefix(op.to_time);
    let count = time_key::count(op.max_entries, COUNT_MAX);
    let (keys, truncated) = view.omap_list(&from, time_key::PREFIX, count)?;
    let mut reply = ListReply { truncated, ..ListReply::default() };
    for (key, value) in keys {
        reply.marker = key.clone();
        if has_end && time_key::has_reached(&key, &end) {
            reply.truncated = false;
            break;
        }
        // What is no entry is left out.
        reply.entries.extend(Entry::from_prefix(value));
    }
    output(&reply)
}

fn trim(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    const MICROSECOND: std::time::Duration = std::time::Duration::from_micros(1);
    let op: TrimOp = input(bytes)?;
    let from = if op.from_marker.is_empty() { time_key::prefix(op.from_time).into() } else { op.from_marker };
    // The first key that stays.
    let end = match op.to_marker.as_ref() {
        b"" => time_key::prefix(op.to_time.plus(MICROSECOND)),
        marker => [marker, b"\0"].concat(),
    };
    let (first, _) = view.omap_list(&from, b"", 1)?;
    let first = first.into_iter().map(|(key, _)| key).find(|key| key.as_ref() <= end.as_slice());
    view.omap_remove_range(&first.ok_or(Errno::ENODATA)?, &end.into())?;
    Ok(Bytes::new())
}

fn info(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let _: InfoOp = input(bytes)?;
    let header = load_header(view)?;
    output(&InfoReply { header })
}
