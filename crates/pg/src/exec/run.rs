//! One run over a request's ops: each op goes to its function, and what comes of it into the answer.

use bytes::Bytes;
use classes::Stop;
use codec::Payload;
use messages::{MOSDOp, OpCode, OsdOp, op_flag};
use types::Errno;

use super::{
    Blocked, KnownWatch, OpContext, WatchChange,
    op_kinds::{is_hidden_change, keeps_result},
    tier,
    view::View,
    watch::{NotifyBytes, known},
};

/// One run over the ops.
pub(super) struct Run<'r, 's> {
    pub(super) view: &'r mut View<'s>,
    pub(super) ctx: &'r OpContext,
    pub(super) op: &'r MOSDOp,
    pub(super) watch: Vec<WatchChange>,
    /// What `watch` holds.
    pub(super) held: NotifyBytes,
    /// Notifications in `watch`.
    pub(super) notify_count: u64,
    /// Of all ops.
    data_bytes: usize,
    pub(super) is_user_change: bool,
    pub(super) is_undirtied: bool,
    /// What CHECKSUM ops were asked for so far: bytes to sum, and sums.
    pub(super) summed_bytes: u64,
    pub(super) sum_count: u64,
}

/// What a run came to.
pub(super) struct Outcome {
    /// The ops with results and output.
    pub(super) ops: Vec<OsdOp>,
    /// The request's result.
    pub(super) result: i32,
    /// What it did to watches.
    pub(super) watch: Vec<WatchChange>,
    /// Bytes that notifications and answers among that hold.
    pub(super) notify_bytes: u64,
    /// The object's watchers before it.
    pub(super) watchers: Vec<KnownWatch>,
    /// Some op counts as a change that users see, and gives the object a new user version.
    pub(super) is_user_change: bool,
    /// UNDIRTY was among the ops.
    pub(super) is_undirtied: bool,
}

/// An op's output: data, a result that is not an error, and parameters to echo.
#[derive(Default)]
pub(super) struct Output {
    pub(super) data: Bytes,
    /// What follows it, as it lies in memory.
    pub(super) more: Vec<Payload>,
    pub(super) result: i32,
    /// The result of the op before stays, as for ops of [`keeps_result`].
    pub(super) keeps_result: bool,
    /// extent.length.
    pub(super) length: Option<u64>,
    /// xattr.value_len.
    pub(super) value_len: Option<u32>,
}

impl From<Bytes> for Output {
    fn from(data: Bytes) -> Output {
        Output { data, ..Output::default() }
    }
}

impl<'r, 's> Run<'r, 's> {
    pub(super) fn new(view: &'r mut View<'s>, ctx: &'r OpContext, op: &'r MOSDOp) -> Run<'r, 's> {
        Run {
            view,
            ctx,
            op,
            watch: Vec::new(),
            held: NotifyBytes::default(),
            notify_count: 0,
            data_bytes: op.data_bytes(),
            is_user_change: false,
            is_undirtied: false,
            summed_bytes: 0,
            sum_count: 0,
        }
    }

    /// All ops in order; the first error ends it, unless its op may fail.
    pub(super) fn all(mut self) -> Result<Outcome, Blocked> {
        let op = self.op;
        let watchers = known(self.view);
        let mut ops = op.echoed_ops();
        let mut result = 0;
        for (index, step) in op.ops.iter().enumerate() {
            if self.view.begin_op(index as u32, step.code == OpCode::CALL).is_err() {
                return Err(self.view.take_missing());
            }
            self.is_user_change |= step.code.is_write() && !is_hidden_change(step.code);
            let outcome = self.one(step);
            if let Ok(output) = &outcome
                && self.view.spend(output.data.len() as u64).is_err()
            {
                return Err(self.view.take_missing());
            }
            match outcome {
                Ok(output) => {
                    (ops[index].data, ops[index].data_more) = (output.data, output.more);
                    if !keeps_result(step.code) && !output.keeps_result {
                        result = output.result;
                    }
                    ops[index].result = result;
                    if let Some(length) = output.length {
                        ops[index].params.0[8..16].copy_from_slice(&length.to_le_bytes());
                    }
                    if let Some(len) = output.value_len {
                        ops[index].params.0[4..8].copy_from_slice(&len.to_le_bytes());
                    }
                }
                Err(Stop::Missing) => return Err(self.view.take_missing()),
                Err(stop @ (Stop::Refused(errno) | Stop::Explained(errno, _))) => {
                    if let Stop::Explained(_, why) = stop {
                        ops[index].data = Bytes::from_static(why.as_bytes());
                    }
                    ops[index].result = errno.negated();
                    if step.flags & op_flag::FAILOK == 0 {
                        result = errno.negated();
                        break;
                    }
                    result = 0;
                }
            }
        }
        let Run { view, watch, held, is_user_change, is_undirtied, .. } = self;
        let notify_bytes = held.total(view.info.watchers.len());
        Ok(Outcome { ops, result, watch, notify_bytes, watchers, is_user_change, is_undirtied })
    }

    /// The data of one of the ops.
    pub(super) fn payload_of(&self, step: &OsdOp) -> Payload {
        self.op.payload_of(step, self.data_bytes)
    }

    fn one(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        match step.code {
            OpCode::READ | OpCode::SYNC_READ => self.read(step),
            OpCode::SPARSE_READ => self.sparse_read(step),
            OpCode::MAPEXT => self.map_extents(step),
            OpCode::STAT => self.stat(),
            OpCode::CMPEXT => self.cmpext(step),
            OpCode::CHECKSUM => self.checksum(step),
            OpCode::WRITE => self.write(step),
            OpCode::WRITEFULL => self.write_full(step),
            OpCode::WRITESAME => self.write_same(step),
            OpCode::APPEND => self.append(step),
            OpCode::TRUNCATE | OpCode::TRIMTRUNC => self.truncate(step),
            OpCode::ZERO => self.zero(step),
            OpCode::CREATE => self.create(step),
            OpCode::DELETE => self.delete(),
            OpCode::COPY_FROM | OpCode::COPY_FROM2 => self.copy_from(step),
            OpCode::COPY_GET => self.copy_get(step),
            OpCode::SETALLOCHINT => self.set_alloc_hint(),
            OpCode::STARTSYNC => self.start_sync(),
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
            OpCode::TMAPGET => self.tmap_get(),
            OpCode::TMAPPUT => self.tmap_put(step),
            OpCode::TMAPUP => self.tmap_update(step),
            OpCode::CACHE_FLUSH | OpCode::CACHE_TRY_FLUSH | OpCode::CACHE_EVICT => {
                tier::refuse_without_tier()
            }
            OpCode::CACHE_PIN | OpCode::CACHE_UNPIN => tier::refuse_without_tier(),
            OpCode::TIER_PROMOTE => self.tier_promote(),
            OpCode::TIER_FLUSH => self.tier_flush(),
            OpCode::TIER_EVICT => self.tier_evict(),
            OpCode::UNSET_MANIFEST => self.unset_manifest(),
            OpCode::SET_REDIRECT => self.set_redirect(step),
            OpCode::SET_CHUNK => self.set_chunk(step),
            OpCode::ISDIRTY => self.is_dirty(),
            OpCode::UNDIRTY => self.undirty(),
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }
}
