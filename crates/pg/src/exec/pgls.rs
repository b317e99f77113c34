//! Listing of a PG's objects (`PrimaryLogPG::do_pg_op`).

use bytes::Bytes;
use codec::{Codec, Decode, Encode, Features};
use messages::{MOSDOp, OpCode};
use store::ObjectStore;
use types::{Errno, HObject, PgId, SnapId};

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
            let handle = end_of_pg(op.pgid, cx.pg_num);
            return Ok((Response { handle, entries }, true));
        }
    }
}

/// Where the next PG begins in the order of objects (`pg_t::get_hobj_end`): a client that lists a pool
/// goes on from there, until it gets the maximum.
fn end_of_pg(pgid: PgId, pg_num: u32) -> HObject {
    let bits = u32::BITS - pg_num.leading_zeros();
    let bits = match pg_num {
        0 | 1 => 0,
        n if pgid.seed % (1 << (bits - 1)) < n % (1 << (bits - 1)) => bits,
        _ => bits - 1,
    };
    let last = u64::from(pgid.seed.reverse_bits()) | u64::from(u32::MAX) >> bits;
    match u32::try_from(last + 1) {
        Ok(next) => {
            HObject { pool: pgid.pool, hash: next.reverse_bits(), snap: SnapId::HEAD, ..HObject::default() }
        }
        Err(_) => HObject::max(),
    }
}

/// False for a head that only keeps its clones together.
fn is_visible(store: &dyn ObjectStore, cx: &OpContext, object: &HObject) -> Result<bool, Blocked> {
    let info = store.xattr(cx.coll, object, INFO_XATTR).map_err(Blocked::Missing)?;
    let info = info.and_then(|bytes| ObjectInfo::from_bytes(bytes).ok());
    Ok(info.is_some_and(|i| !i.is_whiteout))
}

#[cfg(test)]
mod tests {
    use types::PoolId;

    use super::*;

    #[test]
    fn pgs_follow_each_other_through_the_pool() {
        for pg_num in [1u32, 8, 12, 32] {
            let mut at = HObject { pool: PoolId(1), ..HObject::default() };
            let mut seen = Vec::new();
            while !at.is_max {
                let mask = pg_num.next_power_of_two() - 1;
                let low = at.hash & mask;
                let seed = if low < pg_num { low } else { at.hash & (mask >> 1) };
                seen.push(seed);
                at = end_of_pg(PgId::new(PoolId(1), seed), pg_num);
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..pg_num).collect::<Vec<_>>());
        }
    }
}
