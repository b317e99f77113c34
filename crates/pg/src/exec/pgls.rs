//! Listing of a PG's objects (`PrimaryLogPG::do_pg_op`).

use std::collections::BTreeSet;

use bytes::Bytes;
use codec::{Codec, Decode, Encode, Features};
use messages::{MOSDOp, OpCode, OsdOp};
use store::ObjectStore;
use types::{EVersion, Errno, HObject, SnapId};

use super::{
    Blocked, Executed, OpContext,
    object_info::{INFO_XATTR, ObjectInfo},
};

/// `librados::LIBRADOS_ALL_NSPACES`.
const ALL_NAMESPACES: &[u8] = b"\x01";
/// `osd_max_pgls`: entries in one answer.
const COUNT_MAX: u64 = 1_024;
/// Pages of objects looked at for one answer: a namespace may have few of a PG's many objects.
const PAGES_MAX: usize = 8;

#[derive(Codec)]
struct Entry {
    nspace: Bytes,
    oid: Bytes,
    locator: Bytes,
}

/// `pg_nls_response_t`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct Response {
    handle: HObject,
    entries: Vec<Entry>,
}

/// `pg_ls_response_t`, which has no envelope, only a version byte.
struct OldResponse(Response);

impl Encode for OldResponse {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        1u8.encode(out, features);
        self.0.handle.encode(out, features);
        let entries: Vec<_> = self.0.entries.iter().map(|e| (e.oid.clone(), e.locator.clone())).collect();
        entries.encode(out, features);
    }
}

pub(super) fn execute(store: &dyn ObjectStore, cx: &OpContext, op: &MOSDOp) -> Result<Executed, Blocked> {
    let mut ops = op.ops.clone();
    ops.iter_mut().for_each(|step| step.data = Bytes::new());
    let mut result = 0;
    for (index, step) in op.ops.iter().enumerate() {
        match one(store, cx, op, step)? {
            Ok((data, is_end)) => {
                ops[index].data = data;
                result = i32::from(is_end);
            }
            Err(errno) => {
                result = errno.negated();
                break;
            }
        }
    }
    let version = EVersion { version: cx.next_version.version.saturating_sub(1), ..cx.next_version };
    Ok(Executed {
        ops,
        result,
        staged: None,
        watch: Vec::new(),
        watchers: Vec::new(),
        user_version: version.version,
        version,
    })
}

/// One op's output, and whether the PG ends there.
fn one(
    store: &dyn ObjectStore,
    cx: &OpContext,
    op: &MOSDOp,
    step: &OsdOp,
) -> Result<Result<(Bytes, bool), Errno>, Blocked> {
    let is_old = match step.code {
        OpCode::PGNLS => false,
        OpCode::PGLS if op.snapid == SnapId::HEAD => true,
        // Filters are methods of classes that are not here.
        _ => return Ok(Err(Errno::EINVAL)),
    };
    let Ok(cursor) = HObject::from_prefix(step.data.clone()) else { return Ok(Err(Errno::EINVAL)) };
    let count = step.params.u64_at(0).clamp(1, COUNT_MAX) as usize;
    let (mut response, is_end) = list(store, cx, op, cursor, count)?;
    if !is_old {
        return Ok(Ok((response.to_bytes(Features::default()), is_end)));
    }
    if is_end {
        response.handle = HObject::max();
    }
    Ok(Ok((OldResponse(response).to_bytes(Features::default()), is_end)))
}

/// Heads from `cursor` on, of the namespace asked for.
fn list(
    store: &dyn ObjectStore,
    cx: &OpContext,
    op: &MOSDOp,
    cursor: HObject,
    count: usize,
) -> Result<(Response, bool), Blocked> {
    let first = HObject { pool: op.pgid.pool, ..HObject::default() };
    let mut at = cursor.max(first);
    let mut entries = Vec::new();
    for _ in 0..PAGES_MAX {
        let stored = store.list(cx.coll, &at, count + 1).map_err(Blocked::Missing)?;
        let is_last = stored.len() <= count;
        let end = stored.last().filter(|_| !is_last).cloned().unwrap_or_else(HObject::max);
        // What is still to be recovered is there as far as clients can tell.
        let missing = cx.missing.range(at.clone()..=end).cloned();
        for object in stored.into_iter().chain(missing).collect::<BTreeSet<_>>() {
            if entries.len() == count {
                return Ok((Response { handle: object, entries }, false));
            }
            at = object.with_snap(SnapId(object.snap.0.saturating_add(1)));
            if is_listed(store, cx, op, &object)? {
                entries.push(Entry { nspace: object.nspace, oid: object.oid, locator: object.key });
            }
        }
        if is_last {
            // A client that lists a pool goes on from there, until it gets the maximum.
            let (_, end) = HObject::range_of(op.pgid, cx.pg_num);
            return Ok((Response { handle: end, entries }, true));
        }
    }
    Ok((Response { handle: at, entries }, false))
}

/// True for heads of the namespace asked for, but those that only keep their clones together.
fn is_listed(
    store: &dyn ObjectStore,
    cx: &OpContext,
    op: &MOSDOp,
    object: &HObject,
) -> Result<bool, Blocked> {
    let wanted = &op.locator.nspace;
    if !object.is_head() || (wanted.as_ref() != ALL_NAMESPACES && object.nspace != wanted) {
        return Ok(false);
    }
    if cx.missing.contains(object) {
        return Ok(true);
    }
    let info = store.xattr(cx.coll, object, INFO_XATTR).map_err(Blocked::Missing)?;
    let info = info.and_then(|bytes| ObjectInfo::from_bytes(bytes).ok());
    Ok(info.is_some_and(|i| !i.is_whiteout))
}
