//! The execution of one request's ops over one object: pure, and free of side effects until the PG
//! submits what was staged, so that it can run again when something had to be loaded first.
//!
//! Authority: `PrimaryLogPG::do_osd_ops`, `make_writeable`, `find_object_context` (16.2).

mod data;
mod meta;
mod object_info;
mod pgls;
mod snaps;
mod view;
mod watch;

use bytes::Bytes;
use messages::{MOSDOp, OpCode, OsdOp, op_flag, osd_flag};
use store::ObjectStore;
use types::{
    CollId, EVersion, EntityAddr, EntityNum, Errno, HObject, LogEntry, ReqId, SnapContext, Transaction, UTime,
};

pub(crate) use object_info::{INFO_XATTR, ObjectInfo};
pub(crate) use snaps::{TrimStep, trim_step};
pub(crate) use watch::{WatchChange, remove_watcher};

use classes::{CallContext, Stop};
use view::View;

/// `osd_max_object_size`.
pub(crate) const OBJECT_BYTES_MAX: u64 = 128 << 20;
/// `osd_max_object_name_len`.
const NAME_BYTES_MAX: usize = 2048;

/// What an execution may know besides the object.
#[derive(Clone, Debug)]
pub(crate) struct OpContext {
    /// The PG's collection.
    pub(crate) coll: CollId,
    /// Wall clock.
    pub(crate) wall: UTime,
    /// The request, as the log names it.
    pub(crate) reqid: ReqId,
    /// Who asks.
    pub(crate) origin: EntityNum,
    /// From where.
    pub(crate) origin_addr: EntityAddr,
    /// The client's features.
    pub(crate) features: u64,
    /// The version that the next change gets.
    pub(crate) next_version: EVersion,
    /// The pool's snapshots, where it has them instead of the client.
    pub(crate) pool_snapc: Option<SnapContext>,
    /// PGs of the pool.
    pub(crate) pg_num: u32,
    /// For classes that want random bits.
    pub(crate) random_seed: u64,
}

/// Why an execution did not end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// Load this and run again.
    Missing(store::Missing),
    /// The whole request is refused.
    Refused(Errno),
}

/// How the PG's totals change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    /// Objects, clones included.
    pub(crate) objects: i64,
    /// Clones.
    pub(crate) clones: i64,
    /// Bytes of data.
    pub(crate) bytes: i64,
}

/// A change to be submitted and replicated.
#[derive(Clone, Debug)]
pub(crate) struct Staged {
    /// The change.
    pub(crate) txn: Transaction,
    /// Its log entries, the request's own last.
    pub(crate) log: Vec<LogEntry>,
    /// Totals.
    pub(crate) delta: Delta,
}

/// A request that ran to its end.
#[derive(Clone, Debug)]
pub(crate) struct Executed {
    /// The ops with results and output.
    pub(crate) ops: Vec<OsdOp>,
    /// The request's result.
    pub(crate) result: i32,
    /// What it changed.
    pub(crate) staged: Option<Staged>,
    /// What it did to watches.
    pub(crate) watch: Vec<WatchChange>,
    /// The object's version for the reply.
    pub(crate) user_version: u64,
}

/// Runs the ops of `op`.
pub(crate) fn execute(store: &dyn ObjectStore, cx: &OpContext, op: &MOSDOp) -> Result<Executed, Blocked> {
    if op.ops.iter().any(|step| step.code.is_pg()) {
        return pgls::execute(store, cx, op);
    }
    if op.oid.is_empty() {
        return Err(Blocked::Refused(Errno::EINVAL));
    }
    if op.oid.len() > NAME_BYTES_MAX || op.locator.key.len() > NAME_BYTES_MAX {
        return Err(Blocked::Refused(Errno::ENAMETOOLONG));
    }
    let snapc = cx.pool_snapc.clone().unwrap_or_else(|| op.snapc.clone());
    if op.may_write() && !snapc.is_valid() {
        return Err(Blocked::Refused(Errno::EINVAL));
    }
    let call = CallContext {
        origin: cx.origin,
        origin_addr: cx.origin_addr,
        now: cx.wall,
        features: cx.features,
        min_compat_client: 16,
        snapc: snapc.clone(),
        random_seed: cx.random_seed,
        object_bytes_max: OBJECT_BYTES_MAX,
        ..CallContext::default()
    };
    let head = op.object().head();
    let mut view = View::open(store, cx.coll, head, op.snapid, call)?;
    let mut run = Run { view: &mut view, watch: Vec::new(), cx };
    let (ops, result) = run.all(op)?;
    let watch = run.watch;
    finish(view, cx, op, snapc, ops, result, watch)
}

fn finish(
    view: View<'_>,
    cx: &OpContext,
    op: &MOSDOp,
    snapc: SnapContext,
    mut ops: Vec<OsdOp>,
    result: i32,
    watch: Vec<WatchChange>,
) -> Result<Executed, Blocked> {
    let old_version = view.user_version();
    if result < 0 || !view.is_changed() {
        let watch = if result < 0 { Vec::new() } else { watch };
        return Ok(Executed { ops, result, staged: None, watch, user_version: old_version });
    }
    if op.flags & osd_flag::ORDERSNAP != 0 && snapc.seq < view.snapset_seq() {
        return Err(Blocked::Refused(Errno::EOVERFLOW));
    }
    if op.flags & osd_flag::RETURNVEC == 0 {
        // A write answers with results only.
        ops.iter_mut().for_each(|step| step.data = Bytes::new());
    }
    let mtime = if op.mtime == UTime::default() { cx.wall } else { op.mtime };
    let (staged, user_version) = view.stage(cx, &snapc, mtime, result)?;
    Ok(Executed { ops, result, staged: Some(staged), watch, user_version })
}

/// One run over the ops.
struct Run<'r, 's> {
    view: &'r mut View<'s>,
    watch: Vec<WatchChange>,
    cx: &'r OpContext,
}

/// An op's output: data, a result that is not an error, and parameters to echo.
#[derive(Default)]
struct Output {
    data: Bytes,
    result: i32,
    length: Option<u64>,
}

impl From<Bytes> for Output {
    fn from(data: Bytes) -> Output {
        Output { data, ..Output::default() }
    }
}

impl Run<'_, '_> {
    /// All ops in order; the first error ends it, unless its op may fail.
    fn all(&mut self, op: &MOSDOp) -> Result<(Vec<OsdOp>, i32), Blocked> {
        let mut ops = op.ops.clone();
        let mut result = 0;
        for (index, step) in op.ops.iter().enumerate() {
            self.view.set_subop(index as u32);
            let outcome = self.one(step);
            ops[index].data = Bytes::new();
            match outcome {
                Ok(output) => {
                    ops[index].data = output.data;
                    ops[index].result = output.result;
                    if let Some(length) = output.length {
                        ops[index].params.0[8..16].copy_from_slice(&length.to_le_bytes());
                    }
                    result = output.result;
                }
                Err(Stop::Missing) => return Err(self.view.take_missing()),
                Err(Stop::Refused(errno)) => {
                    ops[index].result = errno.negated();
                    if step.flags & op_flag::FAILOK == 0 {
                        result = errno.negated();
                        ops[index + 1..].iter_mut().for_each(|later| later.data = Bytes::new());
                        break;
                    }
                }
            }
        }
        Ok((ops, result))
    }

    fn one(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        if step.code.is_write() && !self.view.is_head() {
            return Err(Errno::EINVAL.into());
        }
        match step.code {
            OpCode::READ | OpCode::SYNC_READ => self.read(step),
            OpCode::SPARSE_READ | OpCode::MAPEXT => self.sparse_read(step),
            OpCode::STAT => self.stat(),
            OpCode::CMPEXT => self.cmpext(step),
            OpCode::WRITE => self.write(step),
            OpCode::WRITEFULL => self.write_full(step),
            OpCode::WRITESAME => self.write_same(step),
            OpCode::APPEND => self.append(step),
            OpCode::TRUNCATE => self.truncate(step),
            OpCode::ZERO => self.zero(step),
            OpCode::CREATE => self.create(step),
            OpCode::DELETE => self.delete(),
            OpCode::SETALLOCHINT => self.set_alloc_hint(),
            OpCode::CALL => self.call(step),
            OpCode::GETXATTR => self.get_xattr(step),
            OpCode::GETXATTRS => self.get_xattrs(),
            OpCode::SETXATTR => self.set_xattr(step),
            OpCode::RMXATTR => self.remove_xattr(step),
            OpCode::CMPXATTR => self.compare_xattr(step),
            OpCode::OMAPGETKEYS => self.omap_keys(step),
            OpCode::OMAPGETVALS => self.omap_values(step),
            OpCode::OMAPGETVALSBYKEYS => self.omap_values_by_keys(step),
            OpCode::OMAPGETHEADER => self.omap_header(),
            OpCode::OMAP_CMP => self.omap_compare(step),
            OpCode::OMAPSETVALS => self.omap_set(step),
            OpCode::OMAPSETHEADER => self.omap_set_header(step),
            OpCode::OMAPRMKEYS => self.omap_remove(step),
            OpCode::OMAPRMKEYRANGE => self.omap_remove_range(step),
            OpCode::OMAPCLEAR => self.omap_clear(),
            OpCode::ASSERT_VER => self.assert_version(step),
            OpCode::LIST_SNAPS => self.list_snaps(),
            OpCode::ROLLBACK => self.rollback(step),
            OpCode::WATCH => self.watch(step),
            OpCode::NOTIFY => self.notify(step),
            OpCode::NOTIFY_ACK => self.notify_ack(step),
            OpCode::LIST_WATCHERS => self.list_watchers(),
            OpCode::ISDIRTY => Ok(Output::from(Bytes::from_static(&[0]))),
            OpCode::UNDIRTY => Ok(Output::default()),
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }
}

/// The object that must be present on all copies before `op` runs: every clone of it counts as one.
pub(crate) fn head_of(op: &MOSDOp) -> HObject {
    op.object().head()
}
