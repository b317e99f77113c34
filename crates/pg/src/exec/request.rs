//! What a whole request is, and whether it is refused before its ops run (`OpInfo::set_from_op`,
//! `PrimaryLogPG::do_op`).

use bytes::Bytes;
use classes::{Method, registry};
use messages::{MOSDOp, OpCode, OsdOp, osd_flag};
use types::{Errno, SnapId};

use super::{LOGGED_RETURNS_MAX, op_kinds::copies};

/// `osd_max_object_name_len`, of names and locator keys.
const NAME_BYTES_MAX: usize = 2048;
/// `osd_max_object_namespace_len`.
const NAMESPACE_BYTES_MAX: usize = 256;
/// `osd_max_write_size`.
const DATA_BYTES_MAX: usize = 90 << 20;

/// Copies in a request: it begins anew for each of them. Clients of Ceph ask for one.
pub(super) const COPIES_MAX: usize = 16;

/// Classes that a stock OSD loads; one of these that is not here is not supported, any other forbidden.
const LOADABLE_CLASSES: &str = "cephfs otp rgw rgw_gc fifo";

/// True for a request that may change its object. Clients do not say so of every class call: it is the
/// method that counts.
pub(crate) fn may_write(op: &MOSDOp) -> bool {
    op.ops.iter().any(|step| match step.code {
        OpCode::CALL => find_method(step).is_ok_and(|(method, _)| method.is_write()),
        _ => step.may_change(),
    })
}

/// True for a read that any copy may answer, if it can.
pub(crate) fn is_for_any_copy(op: &MOSDOp) -> bool {
    op.asks_any_copy() && !may_write(op)
}

/// True for a read of one object and nothing else: watches and notifications are the primary's.
pub(crate) fn is_pure_read(op: &MOSDOp) -> bool {
    let is_read = |code: OpCode| {
        code.is_read() && !code.is_pg() && code != OpCode::NOTIFY && code != OpCode::NOTIFY_ACK
    };
    !is_ordered(op) && op.ops.iter().all(|step| is_read(step.code))
}

/// True for a request that waits its turn among the changes of its object.
pub(crate) fn is_ordered(op: &MOSDOp) -> bool {
    op.says_it_writes() || may_write(op)
}

/// True for an ordered request that may run over changes that can still be undone: a change, since its answer comes
/// after theirs, or pings, which tell nothing of what was changed. What only reads must not find those changes: clients
/// say of such requests, too, that they write.
pub(crate) fn may_run_over_changes(op: &MOSDOp) -> bool {
    may_write(op) || op.ops.iter().all(|step| step.code == OpCode::WATCH)
}

/// Where a request reads that does nothing but read from places of a head: offsets and lengths.
pub(crate) fn plain_reads(op: &MOSDOp) -> impl Iterator<Item = (u64, u64)> {
    let is_read = |step: &OsdOp| {
        matches!(step.code, OpCode::READ | OpCode::SYNC_READ | OpCode::SPARSE_READ)
            && step.params.length() > 0
    };
    let is_plain = op.snapid == SnapId::HEAD && op.ops.iter().all(is_read);
    let steps = if is_plain { &op.ops[..] } else { &[] };
    steps.iter().map(|step| (step.params.offset(), step.params.length()))
}

/// The method that an op calls, and its input.
pub(super) fn find_method(step: &OsdOp) -> Result<(&'static Method, Bytes), Errno> {
    let (class, name) = step.call_names().ok_or(Errno::EINVAL)?;
    let (input_at, input_len) = (class.len() + name.len(), step.params.u32_at(3) as usize);
    let input_end = input_at.checked_add(input_len).filter(|end| *end <= step.data.len());
    let input_end = input_end.ok_or(Errno::EINVAL)?;
    let method = registry::find(class, name)
        .ok_or_else(|| if is_class(class) { Errno::EOPNOTSUPP } else { Errno::EPERM })?;
    Ok((method, step.data.slice(input_at..input_end)))
}

/// True for a class that an OSD has, or would have if Ceph's were all here.
pub(super) fn is_class(class: &[u8]) -> bool {
    registry::class_exists(class) || LOADABLE_CLASSES.split(' ').any(|c| c.as_bytes() == class)
}

/// Refuses what no object can be asked.
pub(super) fn check(op: &MOSDOp) -> Result<(), Errno> {
    // A flag that Ceph never came to support.
    if op.flags & osd_flag::PARALLELEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    for step in op.ops.iter().filter(|step| step.code == OpCode::CALL) {
        find_method(step)?;
    }
    if op.ops.is_empty() || op.oid.is_empty() {
        return Err(Errno::EINVAL);
    }
    if op.oid.len() > NAME_BYTES_MAX
        || op.locator.key.len() > NAME_BYTES_MAX
        || op.locator.nspace.len() > NAMESPACE_BYTES_MAX
    {
        return Err(Errno::ENAMETOOLONG);
    }
    if may_write(op) {
        if op.snapid != SnapId::HEAD && !op.ops.iter().all(|step| step.code.changes_despite_its_mode()) {
            return Err(Errno::EINVAL);
        }
        if op.ops.iter().map(|step| step.data.len()).sum::<usize>() > DATA_BYTES_MAX {
            return Err(Errno::EMSGSIZE);
        }
        // The log keeps what such a request answers.
        if op.flags & osd_flag::RETURNVEC != 0 && op.ops.len() > LOGGED_RETURNS_MAX {
            return Err(Errno::E2BIG);
        }
        if op.ops.len() > COPIES_MAX && op.ops.iter().filter(|step| copies(step.code)).count() > COPIES_MAX {
            return Err(Errno::E2BIG);
        }
    }
    // LIST_SNAPS is asked of all snapshots together, and no other op is.
    let is_of_all = op.snapid == SnapId::DIR;
    if op.ops.iter().any(|step| (step.code == OpCode::LIST_SNAPS) != is_of_all) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}
