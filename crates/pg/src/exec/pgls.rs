//! Listing of a PG's objects (`PrimaryLogPG::do_pg_op`).

use bytes::Bytes;
use codec::{Codec, Decode, Encode, Features};
use messages::{MOSDOp, OpCode};
use store::ObjectStore;
use types::{Errno, HObject};

use super::{
    Blocked, Executed, OpContext,
    object_info::{INFO_XATTR, ObjectInfo},
};

/// `librados::LIBRADOS_ALL_NSPACES`.
const ALL_NAMESPACES: &[u8] = b"\x01";
/// Entries in one answer.
const COUNT_MAX: u64 = 1_000;

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

pub(super) fn execute(store: &dyn ObjectStore, cx: &OpContext, op: &MOSDOp) -> Result<Executed, Blocked> {
    let mut ops = op.ops.clone();
    let mut result = 0;
    for step in &mut ops {
        match step.code {
            OpCode::PGNLS => {
                let cursor =
                    HObject::from_prefix(step.data.clone()).map_err(|_| Blocked::Refused(Errno::EINVAL))?;
                let count = step.params.u64_at(0).clamp(1, COUNT_MAX) as usize;
                let (response, is_end) = list(store, cx, op, cursor, count)?;
                step.data = response.to_bytes(Features::default());
                result = i32::from(is_end);
            }
            _ => {
                step.data = Bytes::new();
                result = Errno::EOPNOTSUPP.negated();
            }
        }
        step.result = result;
        if result < 0 {
            break;
        }
    }
    Ok(Executed { ops, result, staged: None, watch: Vec::new(), user_version: 0 })
}

/// Heads from `cursor` on, of the namespace asked for.
fn list(
    store: &dyn ObjectStore,
    cx: &OpContext,
    op: &MOSDOp,
    cursor: HObject,
    count: usize,
) -> Result<(Response, bool), Blocked> {
    let wanted = &op.locator.nspace;
    let first = HObject { pool: op.pgid.pool, ..HObject::default() };
    let mut at = cursor.max(first);
    let mut entries = Vec::new();
    loop {
        let objects = store.list(cx.coll, &at, count + 1).map_err(Blocked::Missing)?;
        let is_last = objects.len() <= count;
        for object in objects {
            if entries.len() == count {
                return Ok((Response { handle: object, entries }, false));
            }
            at = object.with_snap(types::SnapId(object.snap.0.saturating_add(1)));
            let is_wanted = wanted.as_ref() == ALL_NAMESPACES || object.nspace == wanted;
            if object.is_head() && is_wanted && is_visible(store, cx, &object)? {
                entries.push(Entry { nspace: object.nspace, oid: object.oid, locator: object.key });
            }
        }
        if is_last {
            // The handle of the end is where the next PG begins; clients only look at the result.
            let handle = HObject { pool: op.pgid.pool, is_max: true, ..HObject::default() };
            return Ok((Response { handle, entries }, true));
        }
    }
}

/// False for a head that only keeps its clones together.
fn is_visible(store: &dyn ObjectStore, cx: &OpContext, object: &HObject) -> Result<bool, Blocked> {
    let info = store.xattr(cx.coll, object, INFO_XATTR).map_err(Blocked::Missing)?;
    let info = info.and_then(|bytes| ObjectInfo::from_bytes(bytes).ok());
    Ok(info.is_some_and(|i| !i.is_whiteout))
}
