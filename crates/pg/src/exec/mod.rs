//! The execution of one request's ops over one object: pure, and free of side effects until the PG
//! submits what was staged, so that it can run again when something had to be loaded first.
//!
//! Authority: `PrimaryLogPG::do_osd_ops`, `make_writeable`, `find_object_context` (16.2).

mod checksum;
mod chunks;
mod copy;
mod copy_get;
mod data;
mod manifest;
mod meta;
mod object_info;
mod op_kinds;
mod pgls;
mod pgls_filter;
mod request;
mod run;
mod snaps;
#[cfg(test)]
mod tests;
mod tier;
mod tmap;
mod view;
mod watch;

use bytes::Bytes;
use messages::{MOSDOp, MPgCopyData, OsdOp, osd_flag};
use store::ObjectStore;
use types::{
    CollId, EVersion, EntityAddr, EntityNum, Errno, HObject, IntervalSet, LogEntry, PgTotals, ReqId,
    SnapContext, SnapId, Transaction, UTime,
};

pub(crate) use chunks::{keep_part, put_chunk};
pub(crate) use copy::{CopySource, MeasuredOmap, copy_out, data_writes, held_bytes};
pub(crate) use copy_get::{PastRequest, past_of};
pub(crate) use manifest::{is_reference, reference};
#[cfg(test)]
pub(crate) use object_info::Manifest;
pub(crate) use object_info::{
    CloneInfo, INFO_XATTR, Kept, ObjectInfo, SNAPSET_XATTR, SnapSet, USER_XATTR, info_at, snapset_at,
};
pub(crate) use request::{
    is_for_any_copy, is_ordered, is_pure_read, may_run_over_changes, may_write, plain_reads,
};
pub(crate) use snaps::{TrimStep, trim_object, trim_step};
pub(crate) use watch::{KnownWatch, WatchChange, remove_watcher};

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use classes::CallContext;
use run::{Outcome, Output, Run};
use view::{Change, View};

/// `osd_max_object_size`.
pub(crate) const OBJECT_BYTES_MAX: u64 = 128 << 20;
/// `osd_max_write_op_reply_len`: what a change may answer besides its result.
const CHANGE_OUTPUT_BYTES_MAX: usize = 64;
/// Ops whose results and outputs a log entry keeps. A PG's log has thousands of entries, in memory: with this many of
/// the largest, some 25 MiB in all. Clients of Ceph that ask for outputs send a few ops.
const LOGGED_RETURNS_MAX: usize = 64;

/// What an execution may know besides the object.
#[derive(Clone, Debug)]
pub(crate) struct OpContext {
    /// The PG's collection.
    pub(crate) coll: CollId,
    /// Wall clock.
    pub(crate) wall: UTime,
    /// The request, as the log names it.
    pub(crate) reqid: ReqId,
    /// The sender of the request.
    pub(crate) origin: EntityNum,
    /// Its address.
    pub(crate) origin_addr: EntityAddr,
    /// The version that the next change gets.
    pub(crate) next_version: EVersion,
    /// The highest version that users saw of any object of the PG.
    pub(crate) last_user_version: u64,
    /// The pool's snapshots, where it has them instead of the client.
    pub(crate) pool_snapc: Option<SnapContext>,
    /// Snapshots of the pool that are removed, though clones for them may still be here.
    pub(crate) removed_snaps: Arc<IntervalSet>,
    /// Cookies of the client's watches of this object that are connected.
    pub(crate) connected: BTreeSet<u64>,
    /// Objects that the PG has and this copy lacks, for listings.
    pub(crate) missing: BTreeSet<HObject>,
    /// What was copied for the request, by the number of the op, or of the chunk (`View::chunk_content`).
    pub(crate) copied: BTreeMap<u32, Box<MPgCopyData>>,
    /// The results of what the request had to ask of other objects, by the number of the question.
    pub(crate) asked: BTreeMap<u32, i32>,
    /// The object's last requests, newest first, if the request asks for them (COPY_GET).
    pub(crate) past: Vec<PastRequest>,
    /// PGs of the pool.
    pub(crate) pg_num: u32,
    /// If the pool is full, the error for changes that make it larger.
    pub(crate) full: Option<Errno>,
    /// The id of the request's first notification; later ones count on from it.
    pub(crate) notify_id: u64,
    /// Bytes that the notifications that the request begins, and its answers to notifications, may hold until they are
    /// over.
    pub(crate) notify_room: u64,
    /// The seed for classes that want random bits.
    pub(crate) random_seed: u64,
    /// How many things that are not at hand are loaded at once, if a run finds that it lacks several.
    pub(crate) loads_most: usize,
}

/// Why an execution did not end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// Load these and run again.
    NotCached(Vec<store::NotCached>),
    /// Fetch this object's contents and run again.
    Copy {
        /// Which op copies it, or which chunk it is for.
        subop: u32,
        /// The object.
        source: CopySource,
        /// From where on, and how much, if not all of it is wanted.
        part: Option<(u32, u32)>,
    },
    /// Ask this of another object and run again.
    Ask {
        /// Which question it is.
        question: u32,
        /// The object.
        target: HObject,
        /// What.
        step: Box<OsdOp>,
    },
    /// Pass the request on to another object.
    PassOn {
        /// The object.
        target: HObject,
    },
    /// The whole request is refused.
    Refused(Errno),
}

impl From<store::NotCached> for Blocked {
    fn from(missing: store::NotCached) -> Blocked {
        Blocked::NotCached(vec![missing])
    }
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

impl Delta {
    /// What a PG holds that held `totals` before.
    pub(crate) fn added_to(self, totals: PgTotals) -> PgTotals {
        PgTotals {
            objects: totals.objects.saturating_add_signed(self.objects),
            clones: totals.clones.saturating_add_signed(self.clones),
            bytes: totals.bytes.saturating_add_signed(self.bytes),
        }
    }
}

/// A change to be submitted and replicated; without a transaction's ops, one that is only logged.
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
#[derive(Clone, Debug, Default)]
pub(crate) struct Executed {
    /// The ops with results and output.
    pub(crate) ops: Vec<OsdOp>,
    /// The request's result.
    pub(crate) result: i32,
    /// What it changed.
    pub(crate) staged: Option<Staged>,
    /// What it did to watches.
    pub(crate) watch: Vec<WatchChange>,
    /// Bytes that notifications and answers among that hold.
    pub(crate) notify_bytes: u64,
    /// The object's watchers, by what is kept with it.
    pub(crate) watchers: Vec<KnownWatch>,
    /// The object's version for the reply.
    pub(crate) user_version: u64,
    /// The PG's version for the reply, of requests that change nothing.
    pub(crate) version: EVersion,
    /// Objects that this one does not refer to any more: they are told when the change is durable.
    pub(crate) given_back: Vec<HObject>,
}

/// Runs the ops of `op`.
pub(crate) fn execute(store: &dyn ObjectStore, ctx: &OpContext, op: &MOSDOp) -> Result<Executed, Blocked> {
    if op.ops.iter().any(|step| step.code.is_pg()) {
        return pgls::execute(store, ctx, op);
    }
    request::check(op).map_err(Blocked::Refused)?;
    let snapc = snap_context(ctx, op);
    let call = CallContext {
        origin: ctx.origin,
        origin_addr: ctx.origin_addr,
        now: ctx.wall,
        features: op.features,
        min_compat_client: 16,
        snapc: snapc.clone(),
        random_seed: ctx.random_seed,
        object_bytes_max: OBJECT_BYTES_MAX,
        ..CallContext::default()
    };
    let is_of_all = op.snapid == SnapId::DIR;
    let mut view = View::open(store, ctx, op.head(), op.snapid, call)?;
    if let Some(manifest) = &view.info.manifest
        && let Some(blocked) = manifest::pass_on(manifest, &view, op)
    {
        return Err(blocked);
    }
    if may_write(op) {
        if op.flags & osd_flag::ORDERSNAP != 0 && snapc.seq < view.snapset.seq {
            return Err(Blocked::Refused(Errno::EOLDSNAPC));
        }
        if !snapc.is_valid() {
            return Err(Blocked::Refused(Errno::EINVAL));
        }
    } else if !view.exists() && !(view.is_whiteout() && (is_of_all || tier::is_of_cache(op))) {
        return copy_get::of_nothing(ctx, op).ok_or(Blocked::Refused(Errno::ENOENT));
    }
    let mut outcome = Run::new(&mut view, ctx, op).all()?;
    if outcome.result >= 0
        && view.grows()
        && let Some(errno) = full(ctx, op)
    {
        let Outcome { ops, watchers, .. } = outcome;
        return Ok(Executed::without_growth(errno, ops, watchers).refused(ctx, op));
    }
    if outcome.result >= 0 && view.has_too_many_attributes()? {
        outcome.result = Errno::EFBIG.negated();
    }
    if outcome.result >= 0 && view.is_changed() && view.has_too_many_snaps(op, &snapc) {
        outcome.result = Errno::E2BIG.negated();
    }
    if outcome.result >= 0 && view.is_changed() {
        view.settle_chunks(view.needs_clone(op, &snapc))?;
    }
    let mut done = finish(view, ctx, op, &snapc, outcome);
    done.watch.sort_by_key(WatchChange::rank);
    Ok(done)
}

/// The error that refuses a change that makes its pool larger. Clients that do not want to try (FULL_TRY) wait until
/// there is space, and send again; but not where the change is one of a class method and the client takes the request
/// for a read.
fn full(ctx: &OpContext, op: &MOSDOp) -> Option<Errno> {
    let tries = op.flags & osd_flag::FULL_TRY != 0 || !op.says_it_writes();
    ctx.full.filter(|_| tries && op.flags & osd_flag::FULL_FORCE == 0)
}

/// The snapshots that a change has to respect.
fn snap_context(ctx: &OpContext, op: &MOSDOp) -> SnapContext {
    match &ctx.pool_snapc {
        Some(of_pool) if op.flags & osd_flag::ENFORCE_SNAPC == 0 => of_pool.clone(),
        Some(_) | None => {
            let mut snapc = op.snapc.clone();
            snapc.snaps.retain(|snap| !ctx.removed_snaps.contains(snap.0));
            snapc
        }
    }
}

/// Stages what the ops of a request have changed.
fn finish(
    mut view: View<'_>,
    ctx: &OpContext,
    op: &MOSDOp,
    snapc: &SnapContext,
    outcome: Outcome,
) -> Executed {
    let Outcome { ops, result, watch, notify_bytes, watchers, is_user_change, is_undirtied } = outcome;
    let user_version = view.user_version();
    let mut done =
        Executed { ops, result, watch, notify_bytes, watchers, user_version, ..Executed::default() };
    if done.result < 0 {
        if !may_write(op) {
            done.user_version = 0;
        }
        if done.result == Errno::ENOENT.negated() {
            // No version of the object that may come is lower.
            done.user_version = ctx.last_user_version;
        }
        return done.refused(ctx, op);
    }
    if !view.is_changed() {
        return done.only_logged(ctx, op);
    }
    let returns_output = op.flags & osd_flag::RETURNVEC != 0;
    if returns_output {
        for step in done.ops.iter_mut().filter(|step| step.data_bytes() > CHANGE_OUTPUT_BYTES_MAX) {
            step.clear_data();
            step.result = Errno::EOVERFLOW.negated();
            done.result = step.result;
        }
        if done.result < 0 {
            return done.refused(ctx, op);
        }
    } else {
        // A repeat of the request could not be answered with the same data, so the first answer has none either.
        done.ops.iter_mut().for_each(OsdOp::clear_data);
        done.result = 0;
    }
    view.info.is_clean = is_undirtied;
    done.given_back = view.take_given_back();
    done.watch.extend(view.take_disconnected().into_iter().map(WatchChange::Disconnect));
    let is_same_for_snaps = view.is_same_for_snaps(op);
    let change = Change { mtime: op.mtime, is_user_change, is_same_for_snaps, result: done.result };
    let (mut staged, user_version) = view.stage(ctx, snapc, change);
    if let Some(entry) = staged.log.last_mut().filter(|_| returns_output) {
        entry.returns = done.ops.iter().map(|step| (step.result, step.copied_data())).collect();
    }
    done.staged = Some(staged);
    done.user_version = user_version;
    done
}

impl Executed {
    /// The refusal of a change for which there might be no room at all, whatever the client's flags say: it would wait,
    /// and all that comes after it.
    pub(crate) fn without_room(self, ctx: &OpContext, op: &MOSDOp) -> Executed {
        Executed::without_growth(Errno::ENOSPC, self.ops, self.watchers).refused(ctx, op)
    }

    /// What reads had found comes with the refusal, and may still be undone: the refusal waits until it cannot.
    fn without_growth(errno: Errno, ops: Vec<OsdOp>, watchers: Vec<KnownWatch>) -> Executed {
        Executed { ops, result: errno.negated(), watchers, ..Executed::default() }
    }

    /// A request that failed: what it did to watches does not count either.
    fn refused(mut self, ctx: &OpContext, op: &MOSDOp) -> Executed {
        self.watch.clear();
        self.only_logged(ctx, op)
    }

    /// A request that failed, or changed nothing. If it might have changed something, this is logged: sent again, it
    /// gets the same answer, whatever happened meanwhile (`record_write_error`). Of a request with more ops than the
    /// log keeps returns of, that is the result alone.
    fn only_logged(mut self, ctx: &OpContext, op: &MOSDOp) -> Executed {
        if !may_write(op) {
            return self;
        }
        let mut entry = LogEntry {
            version: ctx.next_version,
            object: op.head(),
            reqid: ctx.reqid,
            user_version: self.user_version,
            result: self.result,
            mtime: op.mtime,
            is_error: true,
            ..LogEntry::default()
        };
        let is_wanted = self.result < 0 || op.flags & osd_flag::RETURNVEC != 0;
        if is_wanted && self.ops.len() <= LOGGED_RETURNS_MAX {
            // Logs are no place for large outputs.
            let kept = |step: &OsdOp| match step.data_bytes() <= CHANGE_OUTPUT_BYTES_MAX {
                true => step.copied_data(),
                false => Bytes::new(),
            };
            entry.returns = self.ops.iter().map(|step| (step.result, kept(step))).collect();
        }
        let txn = Transaction::new(ctx.coll);
        self.staged = Some(Staged { txn, log: vec![entry], delta: Delta::default() });
        self
    }
}
