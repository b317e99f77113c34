//! Where a PG's ops wait: for their turn at their object, for the PG to serve, for members to have their changes.

use std::collections::{BTreeMap, VecDeque};

use messages::{MOSDOp, MOSDOpReply, MPgCopyData};
use store::ReadError;
use types::{EVersion, Epoch, HObject, Instant, OsdId, ReqId, Token};

use crate::{
    Client, Permit, Slot,
    copy::CopySlot,
    exec::{self, WatchChange},
    proxy::PassedOn,
};

/// An op that has not run to its end.
#[derive(Debug)]
pub(crate) struct WaitingOp {
    pub(crate) client: Client,
    pub(crate) tid: u64,
    pub(crate) op: Box<MOSDOp>,
    /// True if it waits its turn among the changes of its object.
    pub(crate) is_ordered: bool,
    /// What was loaded for it, held until it ends.
    pub(super) loads: Vec<Token>,
    /// How many loads for it are under way.
    pub(super) loading: usize,
    /// What could not be loaded of these, and why.
    pub(super) unloadable: Option<Box<(HObject, ReadError)>>,
    /// How much data `loads` hold, with what is being loaded.
    pub(super) loaded_bytes: u64,
    /// Its slot among the requests that keep much while they load more, once it has one.
    pub(super) read_slot: Option<Slot>,
    /// What it copies, by the number of its op.
    pub(super) copied: BTreeMap<u32, Box<MPgCopyData>>,
    /// Its slot among the requests that copy, once it has one.
    pub(crate) slot: Option<Box<CopySlot>>,
    /// What other objects answered, by the number of the question.
    pub(super) asked: BTreeMap<u32, i32>,
    /// True while it waits for another object's answer to an op of it.
    pub(crate) is_asking: bool,
    /// True once its client's session is gone.
    pub(crate) is_abandoned: bool,
    /// The PG that passed it on, if the client did not send it here.
    pub(crate) passed_on: Option<Box<PassedOn>>,
    /// Its share of what the OSD holds, and when it came.
    pub(super) permit: Permit,
    /// When it came to this PG.
    pub(super) reached: Instant,
    /// When it began to run, the last time; none before it does.
    pub(super) started: Instant,
}

impl WaitingOp {
    pub(crate) fn new(client: Client, tid: u64, op: Box<MOSDOp>, permit: Permit, now: Instant) -> WaitingOp {
        let (loads, copied, asked) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let (is_ordered, is_asking, passed_on) = (exec::is_ordered(&op), false, None);
        let (reached, started) = (now, Instant::default());
        WaitingOp {
            client,
            tid,
            op,
            is_ordered,
            loads,
            loading: 0,
            unloadable: None,
            loaded_bytes: 0,
            read_slot: None,
            copied,
            slot: None,
            asked,
            is_asking,
            is_abandoned: false,
            passed_on,
            permit,
            reached,
            started,
        }
    }

    /// True for a request that another object makes of this one: it has no order among clients' requests.
    pub(crate) fn is_reference(&self) -> bool {
        self.passed_on.is_some() && exec::is_reference(&self.op)
    }

    /// Gives up what was copied for it, and its slot: it begins anew.
    pub(crate) fn forget_copies(&mut self) {
        self.copied.clear();
        self.slot = None;
    }

    /// Forgets what was loaded for it, which is not held any more.
    pub(crate) fn forget_loads(&mut self) {
        self.loads.clear();
        (self.loaded_bytes, self.read_slot) = (0, None);
    }
}

/// Names a request among those of its PG that were put aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadId(u64);

/// The ops of one object.
#[derive(Debug, Default)]
pub(super) struct ObjectOps {
    pub(super) queue: VecDeque<WaitingOp>,
    /// Those that wait for data, by number.
    pub(super) loading: Vec<(LoadId, Box<WaitingOp>)>,
    /// True while one of `loading` is a change: nothing else starts.
    pub(super) is_change_loading: bool,
    /// Changes that are not durable everywhere.
    pub(super) in_flight: usize,
    /// Another PG copies the object, and waits for these changes: no further one starts.
    pub(super) is_asked_for: bool,
    /// Copies by other PGs that the object is read for, and that had to wait before: no further change starts.
    pub(super) reads_for_copies: usize,
}

impl ObjectOps {
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.loading.is_empty() && self.in_flight == 0 && self.reads_for_copies == 0
    }

    pub(super) fn may_start(&self, waiting: &WaitingOp) -> bool {
        if waiting.is_ordered {
            let is_hindered = !self.loading.is_empty() || self.is_asked_for || self.reads_for_copies > 0;
            !is_hindered && (self.in_flight == 0 || exec::may_run_over_changes(&waiting.op))
        } else {
            self.in_flight == 0 && !self.is_change_loading
        }
    }

    /// The place in the queue of a reference that may pass all other ops: an op that has begun waits for another
    /// object, and that object may wait for this reference. The op that has begun runs anew afterwards.
    pub(super) fn passing(&self) -> Option<usize> {
        let is_asking = !self.loading.is_empty() && self.loading.iter().all(|(_, begun)| begun.is_asking);
        if is_asking { self.queue.iter().position(WaitingOp::is_reference) } else { None }
    }
}

/// A change that is not durable everywhere.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) version: EVersion,
    /// Members that have not said that they have it.
    pub(super) waiting: Vec<OsdId>,
    pub(super) object: HObject,
    pub(super) reqid: ReqId,
    /// The requests that it answers, kept: a new interval may have to run them again.
    pub(super) requests: Vec<(WaitingOp, Box<MOSDOpReply>)>,
    /// What the first of them does to watches once it is answered.
    pub(super) watch: Vec<WatchChange>,
    /// The room of the notifications among that, until they take it themselves.
    pub(super) notifying: Option<Permit>,
    /// Objects that this one does not refer to any more.
    pub(super) given_back: Vec<HObject>,
    /// When it was durable here.
    pub(super) committed: Instant,
}

/// All ops of a PG.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    pub(super) objects: BTreeMap<HObject, ObjectOps>,
    /// Ops that came while the PG does not serve.
    pub(super) early: VecDeque<WaitingOp>,
    /// Changes that are not durable everywhere, in the order of their versions.
    pub(super) in_flight: VecDeque<InFlight>,
    /// Requests that were put aside until they get a slot to load more, first come, first served.
    pub(super) readers: VecDeque<(HObject, LoadId)>,
    last_load: LoadId,
}

impl Ops {
    /// The acting set changed. While the primary stays the same, clients rely on it to run what it has
    /// (`apply_and_flush_repops`): all of it waits, in its order, until the PG serves again. A change that
    /// is in the log by then is only answered. With another primary clients send again; such ops are returned.
    /// `all` are those that waited elsewhere.
    pub(crate) fn on_new_interval(
        &mut self,
        mut all: Vec<WaitingOp>,
        primary_since: Epoch,
        is_primary: bool,
    ) -> Vec<WaitingOp> {
        for in_flight in std::mem::take(&mut self.in_flight) {
            all.extend(in_flight.requests.into_iter().map(|(waiting, _)| waiting));
        }
        for ops in std::mem::take(&mut self.objects).into_values() {
            all.extend(ops.loading.into_iter().map(|(_, waiting)| *waiting));
            all.extend(ops.queue);
        }
        all.extend(std::mem::take(&mut self.early));
        self.readers.clear();
        let stays = |waiting: &mut WaitingOp| is_primary && waiting.op.epoch >= primary_since;
        let dropped = all.extract_if(.., |waiting| !stays(waiting)).collect();
        // The PG may not serve for long.
        all.iter_mut().for_each(WaitingOp::forget_copies);
        self.early = all.into();
        dropped
    }

    /// Objects with ops, ops that wait for the PG to serve, and changes that are not durable everywhere.
    pub(crate) fn count(&self) -> usize {
        self.objects.len() + self.early.len() + self.in_flight.len()
    }

    /// Requests that wait for a slot to load more, those included that have ended meanwhile.
    pub(crate) fn reader_count(&self) -> usize {
        self.readers.len()
    }

    /// Changes that no client asked for and that are not durable everywhere.
    pub(crate) fn unasked_in_flight(&self) -> usize {
        self.in_flight.iter().filter(|change| change.reqid == ReqId::default()).count()
    }

    /// A name for a request that is put aside.
    pub(super) fn next_load(&mut self) -> LoadId {
        self.last_load.0 += 1;
        self.last_load
    }

    /// The name of the request that was put aside last.
    #[cfg(test)]
    pub(super) fn last_load(&self) -> LoadId {
        self.last_load
    }

    /// Takes out the first change in flight, once it is durable everywhere.
    pub(super) fn pop_durable(&mut self) -> Option<InFlight> {
        self.in_flight.front().filter(|first| first.waiting.is_empty())?;
        self.in_flight.pop_front()
    }

    /// All that wait for the PG to serve.
    pub(crate) fn early_mut(&mut self) -> impl Iterator<Item = &mut WaitingOp> {
        self.early.iter_mut()
    }

    /// What was passed on to this PG, of all that waits for it to serve.
    pub(crate) fn early_passed_on(&self) -> impl Iterator<Item = &PassedOn> {
        self.early.iter().filter_map(|waiting| waiting.passed_on.as_deref())
    }

    /// Takes those away that wait in the queue of an object and that `is_wanted` wants.
    pub(crate) fn take_queued(
        &mut self,
        head: &HObject,
        is_wanted: impl Fn(&WaitingOp) -> bool,
    ) -> Vec<WaitingOp> {
        let Some(ops) = self.objects.get_mut(head) else { return Vec::new() };
        let (taken, kept) = std::mem::take(&mut ops.queue).into_iter().partition(is_wanted);
        ops.queue = kept;
        taken.into_iter().collect()
    }

    /// Takes those away that wait for the PG to serve and that `is_wanted` wants.
    pub(crate) fn take_early(&mut self, is_wanted: impl Fn(&WaitingOp) -> bool) -> Vec<WaitingOp> {
        let (taken, kept) = std::mem::take(&mut self.early).into_iter().partition(is_wanted);
        self.early = kept;
        taken.into_iter().collect()
    }
}
