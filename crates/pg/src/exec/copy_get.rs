//! COPY_GET: an object piece by piece, with what the log knows of the requests that changed it. Ceph's OSDs ask each
//! other this way for what they copy (`PrimaryLogPG::do_copy_get`); for what ours do, see `copy`.

use std::collections::BTreeMap;

use bytes::Bytes;
use classes::{ObjectView, Stop};
use codec::{Codec, Decode, Encode, Features, Reader};
use messages::{MOSDOp, OpCode, OsdOp};
use types::{Errno, HObject, LogEntry, ReqId, SnapId, UTime};

use super::{Executed, OpContext, Output, Run};

/// Bytes of data and omap in one answer, at most, whatever the client would take: it asks on from the cursor.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Entries of an omap that are looked at together.
const OMAP_PAGE: usize = 256;
/// Entries of an omap in one answer, at most: looking at them counts besides their bytes.
const OMAP_COUNT_MAX: u32 = 1 << 18;
/// Requests of the object that an answer names, at most.
const REQUESTS_MAX: usize = 10;

/// A change of the object, or an attempt at one, as the log knows it: newest first in lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PastRequest {
    /// Its name.
    pub(crate) reqid: ReqId,
    /// The object's version after it, 0 for one that failed.
    pub(crate) user_version: u64,
    /// Its error, if it failed.
    pub(crate) error: Option<i32>,
}

/// `object_copy_cursor_t`: how far a copy has come.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
struct Cursor {
    has_attrs: bool,
    data_offset: u64,
    has_data: bool,
    /// The last key that was sent.
    omap_offset: Bytes,
    has_omap: bool,
}

/// `object_copy_data_t`.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
#[codec(version = 8, compat = 5)]
struct CopyData {
    size: u64,
    mtime: UTime,
    attrs: BTreeMap<Bytes, Bytes>,
    data: Bytes,
    /// A count and as many keys and values; nothing instead of none.
    omap: Bytes,
    cursor: Cursor,
    omap_header: Bytes,
    /// The snapshots of a clone, newest first.
    snaps: Vec<SnapId>,
    /// The snapshot sequence of a head (`SnapSet::seq`).
    snap_seq: SnapId,
    /// Which of the digests count: none.
    flags: u32,
    data_digest: u32,
    omap_digest: u32,
    requests: Vec<(ReqId, u64)>,
    truncate_seq: u64,
    truncate_size: u64,
    /// Errors, by their request's place in `requests`.
    errors: BTreeMap<u32, i32>,
}

impl Default for CopyData {
    /// What is said of an object that is not there.
    fn default() -> CopyData {
        CopyData {
            size: u64::MAX,
            mtime: UTime::default(),
            attrs: BTreeMap::new(),
            data: Bytes::new(),
            omap: Bytes::new(),
            cursor: Cursor::default(),
            omap_header: Bytes::new(),
            snaps: Vec::new(),
            snap_seq: SnapId::default(),
            flags: 0,
            data_digest: u32::MAX,
            omap_digest: u32::MAX,
            requests: Vec::new(),
            truncate_seq: 0,
            truncate_size: 0,
            errors: BTreeMap::new(),
        }
    }
}

impl CopyData {
    fn name_requests(&mut self, past: &[PastRequest]) {
        self.requests = past.iter().map(|request| (request.reqid, request.user_version)).collect();
        let errors = (0..).zip(past).filter_map(|(at, request)| Some((at, request.error?)));
        self.errors = errors.collect();
    }
}

/// The last requests on `head` in a log whose `newest` entries come first, if `op` asks for them.
pub(crate) fn past_of<'a>(
    head: &HObject,
    op: &MOSDOp,
    newest: impl Iterator<Item = &'a LogEntry>,
) -> Vec<PastRequest> {
    if !op.ops.iter().any(|step| step.code == OpCode::COPY_GET) {
        return Vec::new();
    }
    let of_object = newest.filter(|entry| entry.object == *head && entry.reqid != ReqId::default());
    let past = of_object.map(|entry| PastRequest {
        reqid: entry.reqid,
        user_version: if entry.is_error { 0 } else { entry.user_version },
        error: entry.is_error.then_some(entry.result),
    });
    past.take(REQUESTS_MAX).collect()
}

/// The answer where the object is not there: its past (`fill_in_copy_get_noent`). None if `op` does not begin with
/// COPY_GET.
pub(super) fn of_nothing(ctx: &OpContext, op: &MOSDOp) -> Option<Executed> {
    let mut ops = op.echoed_ops();
    let first = ops.first_mut().filter(|step| step.code == OpCode::COPY_GET)?;
    let mut past = CopyData::default();
    past.name_requests(&ctx.past);
    first.data = past.to_bytes(Features::default());
    first.result = Errno::ENOENT.negated();
    Some(Executed { ops, result: Errno::ENOENT.negated(), ..Executed::default() })
}

impl Run<'_, '_> {
    /// In a request that may change the object, one that does not exist passes for an empty one, but for its xattrs.
    pub(super) fn copy_get(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let mut input = Reader::new(step.data.clone());
        let mut cursor = Cursor::decode(&mut input).map_err(|_| Errno::EINVAL)?;
        let mut left = u64::decode(&mut input).map_err(|_| Errno::EINVAL)?.min(ANSWER_BYTES_MAX);
        let info = &self.view.info;
        let mut out = CopyData {
            size: self.view.size(),
            mtime: info.mtime,
            truncate_seq: info.truncate_seq.into(),
            truncate_size: info.truncate_size,
            ..CopyData::default()
        };
        match self.view.clone_info() {
            Some(clone) => out.snaps = clone.snaps.clone(),
            None => out.snap_seq = self.view.snapset.seq,
        }
        if !cursor.has_attrs {
            self.view.check_exists()?;
            out.attrs = self.view.xattrs()?;
            cursor.has_attrs = true;
        }
        if left > 0 && !cursor.has_data {
            out.data = self.view.read(cursor.data_offset, left)?;
            left -= out.data.len() as u64;
            cursor.data_offset += out.data.len() as u64;
            cursor.has_data = cursor.data_offset == out.size;
        }
        if !cursor.has_omap {
            self.copy_omap(&mut cursor, left, &mut out)?;
        }
        if cursor.has_attrs && cursor.has_data && cursor.has_omap && self.view.clone_info().is_none() {
            out.name_requests(&self.ctx.past);
        }
        out.cursor = cursor;
        Ok(out.to_bytes(Features::default()).into())
    }

    fn copy_omap(&mut self, cursor: &mut Cursor, left: u64, out: &mut CopyData) -> Result<(), Stop> {
        let header = self.view.omap_header()?;
        if header.is_empty() && self.view.omap_page(b"", b"", 1)?.0.is_empty() {
            cursor.has_omap = true;
            return Ok(());
        }
        if left == 0 {
            return Ok(());
        }
        // A cursor behind the data's end, which ends an OSD of Ceph.
        if !cursor.has_data {
            return Err(Errno::EINVAL.into());
        }
        if cursor.omap_offset.is_empty() {
            out.omap_header = header;
        }
        let (mut count, mut entries, mut left) = (0u32, Vec::new(), left);
        let mut last = cursor.omap_offset.clone();
        while !cursor.has_omap && left > 0 && count < OMAP_COUNT_MAX {
            let (page, has_more) = self.view.omap_page(&last, b"", OMAP_PAGE)?;
            for (key, value) in page {
                count += 1;
                key.encode(&mut entries, Features::default());
                value.encode(&mut entries, Features::default());
                left = left.saturating_sub((key.len() + 4 + value.len() + 4) as u64);
                last = key;
                if left == 0 {
                    break;
                }
            }
            cursor.has_omap = left > 0 && !has_more;
        }
        if !cursor.has_omap {
            cursor.omap_offset = last;
        }
        if count > 0 {
            let mut omap = count.to_le_bytes().to_vec();
            omap.append(&mut entries);
            out.omap = omap.into();
        }
        Ok(())
    }
}
