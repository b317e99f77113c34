//! Listing of a PG's objects (`PrimaryLogPG::do_pg_op`).

use std::collections::BTreeSet;

use bytes::Bytes;
use codec::{Codec, Decode, Encode, Features, Reader};
use messages::{MOSDOp, OpCode, OsdOp};
use store::ObjectStore;
use types::{EVersion, Errno, HObject, SnapId, UTime};

use super::{Blocked, Executed, OpContext, pgls_filter::Filter};

/// `librados::LIBRADOS_ALL_NSPACES`.
const ALL_NAMESPACES: &[u8] = b"\x01";
/// `osd_hit_set_namespace`: what is in it is never listed.
const HIDDEN_NAMESPACE: &[u8] = b".ceph-internal";
/// `osd_max_pgls`: entries in one answer.
const COUNT_MAX: u64 = 1_024;
/// Listings in one request: clients send one.
const LISTINGS_MAX: usize = 16;
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

pub(super) fn execute(store: &dyn ObjectStore, ctx: &OpContext, op: &MOSDOp) -> Result<Executed, Blocked> {
    if op.ops.len() > LISTINGS_MAX {
        return Err(Blocked::Refused(Errno::EMSGSIZE));
    }
    let mut ops = op.ops.clone();
    ops.iter_mut().for_each(|step| step.data = Bytes::new());
    let mut result = 0;
    for (index, step) in op.ops.iter().enumerate() {
        match one(store, ctx, op, step)? {
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
    let version = EVersion { version: ctx.next_version.version.saturating_sub(1), ..ctx.next_version };
    Ok(Executed {
        ops,
        result,
        staged: None,
        watch: Vec::new(),
        notify_bytes: 0,
        watchers: Vec::new(),
        user_version: ctx.last_user_version,
        version,
        given_back: Vec::new(),
    })
}

/// One op's output, and whether the PG ends there.
fn one(
    store: &dyn ObjectStore,
    ctx: &OpContext,
    op: &MOSDOp,
    step: &OsdOp,
) -> Result<Result<(Bytes, bool), Errno>, Blocked> {
    let (is_old, is_filtered) = match step.code {
        OpCode::PGNLS => (false, false),
        OpCode::PGNLS_FILTER => (false, true),
        OpCode::PGLS => (true, false),
        OpCode::PGLS_FILTER => (true, true),
        // No PG has hit sets.
        OpCode::PG_HITSET_LS => {
            return Ok(Ok((Vec::<(UTime, UTime)>::new().to_bytes(Features::default()), false)));
        }
        OpCode::PG_HITSET_GET => return Ok(Err(Errno::ENOENT)),
        _ => return Ok(Err(Errno::EINVAL)),
    };
    let mut input = Reader::new(step.data.clone());
    let wanted = match wanted(op, &mut input, is_filtered, is_old) {
        Ok(wanted) => wanted,
        Err(errno) => return Ok(Err(errno)),
    };
    let Ok(cursor) = HObject::decode(&mut input) else { return Ok(Err(Errno::EINVAL)) };
    let (first, end) = HObject::range_of(op.pgid, ctx.pg_num);
    let is_outside = (!cursor.is_max && cursor >= end) || (cursor != HObject::min() && cursor < first);
    if is_outside && !is_old {
        return Ok(Err(Errno::EINVAL));
    }
    let count = step.params.u64_at(0).clamp(1, COUNT_MAX) as usize;
    let (mut response, is_end) = list(store, ctx, op, cursor, count, &wanted)?;
    if !is_old {
        return Ok(Ok((response.to_bytes(Features::default()), is_end)));
    }
    if is_end {
        response.handle = HObject::max();
    }
    Ok(Ok((OldResponse(response).to_bytes(Features::default()), is_end)))
}

/// Which heads a listing shows.
struct Wanted {
    nspace: Bytes,
    /// The old listings know one namespace at a time, and none that is hidden.
    is_old: bool,
    filter: Option<Filter>,
}

impl Wanted {
    fn is_in(&self, nspace: &Bytes) -> bool {
        match self.is_old {
            true => self.nspace == nspace,
            false => (self.nspace == ALL_NAMESPACES || self.nspace == nspace) && nspace != HIDDEN_NAMESPACE,
        }
    }
}

fn wanted(op: &MOSDOp, input: &mut Reader, is_filtered: bool, is_old: bool) -> Result<Wanted, Errno> {
    let filter = if is_filtered { Some(Filter::decode(input)?) } else { None };
    if op.snapid != SnapId::HEAD {
        return Err(Errno::EINVAL);
    }
    Ok(Wanted { nspace: op.locator.nspace.clone(), is_old, filter })
}

/// Heads from `cursor` on, of those wanted.
fn list(
    store: &dyn ObjectStore,
    ctx: &OpContext,
    op: &MOSDOp,
    cursor: HObject,
    count: usize,
    wanted: &Wanted,
) -> Result<(Response, bool), Blocked> {
    let first = HObject { pool: op.pgid.pool, ..HObject::default() };
    let mut at = cursor.max(first);
    let mut entries = Vec::new();
    for _ in 0..PAGES_MAX {
        let stored = store.list(ctx.coll, &at, count + 1).map_err(Blocked::from)?;
        let is_last = stored.len() <= count;
        let end = stored.last().filter(|_| !is_last).cloned().unwrap_or_else(HObject::max);
        // What is still to be recovered is there as far as clients can tell.
        let missing = ctx.missing.range(at.clone()..=end).cloned();
        // What is put together of parts has no pool of clients.
        let stored = stored.into_iter().filter(|object| object.pool == op.pgid.pool);
        for object in stored.chain(missing).collect::<BTreeSet<_>>() {
            if entries.len() == count {
                return Ok((Response { handle: object, entries }, false));
            }
            at = object.with_snap(SnapId(object.snap.0.saturating_add(1)));
            if is_listed(store, ctx, wanted, &object)? {
                entries.push(Entry { nspace: object.nspace, oid: object.oid, locator: object.key });
            }
        }
        if is_last {
            // A client that lists a pool goes on from there, until it gets the maximum.
            let (_, end) = HObject::range_of(op.pgid, ctx.pg_num);
            return Ok((Response { handle: end, entries }, true));
        }
    }
    Ok((Response { handle: at, entries }, false))
}

/// True for wanted heads, those that only keep their clones together included: Ceph's clients see them,
/// too, until the snapshots are gone.
fn is_listed(
    store: &dyn ObjectStore,
    ctx: &OpContext,
    wanted: &Wanted,
    object: &HObject,
) -> Result<bool, Blocked> {
    if !object.is_head() || !wanted.is_in(&object.nspace) {
        return Ok(false);
    }
    match &wanted.filter {
        // What is not here cannot be looked at.
        Some(_) if ctx.missing.contains(object) => Ok(false),
        Some(filter) => filter.passes(store, ctx.coll, object).map_err(Blocked::from),
        None => Ok(true),
    }
}
