//! Clients' ops: order per object, duplicates, execution, answers.
//!
//! Per object, ops run in the order in which they came. A change may start while earlier ones are not
//! durable yet; a read waits for them; nothing passes an op that waits for something to be loaded or
//! recovered.
//!
//! A replica runs reads, too, where it may (`replica_read.rs`): those have no order.

mod listing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use messages::{MOSDOp, MOSDOpReply, MPgCopyData, OsdOp, osd_flag};
use store::{Completion, ReadError};
use types::{EVersion, Epoch, Errno, HObject, Instant, OsdId, PoolFlags, ReqId, Token};

use crate::{
    Client, Ctx, Effect, Permit, Pg,
    exec::{self, Blocked, CopySource, Executed, OpContext, Staged, WatchChange, without_data},
    pg::{Pending, Phase},
    scrub,
};

/// An op that has not run to its end.
#[derive(Debug)]
pub(crate) struct WaitingOp {
    pub(crate) client: Client,
    tid: u64,
    pub(crate) op: Box<MOSDOp>,
    /// What was loaded for it, held until it ends.
    loads: Vec<Token>,
    /// What it copies, by the number of its op.
    copied: BTreeMap<u32, Box<MPgCopyData>>,
    /// Its share of what the OSD holds, and when it came.
    permit: Permit,
    /// When it came to this PG.
    reached: Instant,
    /// When it began to run, the last time; none before it does.
    started: Instant,
}

impl WaitingOp {
    pub(crate) fn new(client: Client, tid: u64, op: Box<MOSDOp>, permit: Permit, now: Instant) -> WaitingOp {
        let (loads, copied) = (Vec::new(), BTreeMap::new());
        let started = Instant::default();
        WaitingOp { client, tid, op, loads, copied, permit, reached: now, started }
    }
}

/// The ops of one object.
#[derive(Debug, Default)]
struct ObjectOps {
    queue: VecDeque<WaitingOp>,
    /// Reads that wait for data.
    loading: BTreeMap<u64, WaitingOp>,
    /// True while one of `loading` is a change: nothing else starts.
    is_change_loading: bool,
    /// Changes that are not durable everywhere.
    in_flight: usize,
}

impl ObjectOps {
    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.loading.is_empty() && self.in_flight == 0
    }

    fn may_start(&self, is_change: bool) -> bool {
        if is_change { self.loading.is_empty() } else { self.in_flight == 0 && !self.is_change_loading }
    }
}

/// A change that is not durable everywhere.
#[derive(Debug)]
struct InFlight {
    waiting: Vec<OsdId>,
    object: HObject,
    reqid: ReqId,
    /// The requests that it answers, kept: a new interval may have to run them again.
    requests: Vec<(WaitingOp, Box<MOSDOpReply>)>,
    /// What the first of them does to watches once it is answered.
    watch: Vec<WatchChange>,
    /// When it was durable here.
    committed: Instant,
}

/// All ops of a PG.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    objects: BTreeMap<HObject, ObjectOps>,
    /// Came while the PG does not serve.
    early: VecDeque<WaitingOp>,
    in_flight: BTreeMap<EVersion, InFlight>,
    next_load: u64,
}

impl Ops {
    /// The acting set changed. While the primary stays the same, clients rely on it to run what it has
    /// (`apply_and_flush_repops`): all of it waits, in its order, until the PG serves again. A change that
    /// is in the log by then is only answered. With another primary clients send again; what was loaded for
    /// such ops is returned.
    pub(crate) fn on_new_interval(&mut self, primary_since: Epoch, is_primary: bool) -> Vec<Token> {
        let mut all: Vec<WaitingOp> = Vec::new();
        for in_flight in std::mem::take(&mut self.in_flight).into_values() {
            all.extend(in_flight.requests.into_iter().map(|(waiting, _)| waiting));
        }
        for ops in std::mem::take(&mut self.objects).into_values() {
            all.extend(ops.loading.into_values());
            all.extend(ops.queue);
        }
        all.extend(std::mem::take(&mut self.early));
        let stays = |waiting: &mut WaitingOp| is_primary && waiting.op.epoch >= primary_since;
        let dropped = all.extract_if(.., |waiting| !stays(waiting));
        let loads = dropped.flat_map(|waiting| waiting.loads).collect();
        self.early = all.into();
        loads
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

fn reply_for(op: &MOSDOp, epoch: Epoch) -> MOSDOpReply {
    MOSDOpReply {
        oid: op.oid.clone(),
        pgid: op.pgid,
        flags: u64::from(op.flags | osd_flag::ACK | osd_flag::ONDISK),
        epoch,
        retry_attempt: op.retry_attempt,
        ..MOSDOpReply::default()
    }
}

fn reqid_of(client: &Client, tid: u64, op: &MOSDOp) -> ReqId {
    ReqId { name: client.entity, tid, inc: op.client_inc as i32 }
}

impl Pg {
    pub(crate) fn on_op(
        &mut self,
        client: Client,
        tid: u64,
        op: Box<MOSDOp>,
        permit: Permit,
        cx: &mut Ctx<'_>,
    ) {
        let waiting = WaitingOp::new(client, tid, op, permit, cx.now);
        let is_replica_read = self.is_replica_read(&waiting);
        // A client that mapped the object to another primary sends again.
        let is_for_primary = self.is_primary() && waiting.op.epoch >= self.info.primary_since;
        if !is_replica_read && (!is_for_primary || self.is_held_back(&waiting)) {
            return;
        }
        let pool = cx.map.pools.get(&self.pgid.pool);
        if pool.is_some_and(|pool| pool.flags.has(PoolFlags::EIO)) {
            // Who knows the flag fails its ops itself, in the order in which it sent them.
            if waiting.op.flags & osd_flag::SUPPORTSPOOLEIO == 0 {
                self.refuse(&waiting, Errno::EIO, cx);
            }
        } else if is_replica_read {
            self.run(&exec::head_of(&waiting.op), waiting, cx);
        } else if self.is_serving() {
            self.enqueue(waiting, cx);
        } else {
            self.ops.early.push_back(waiting);
        }
    }

    /// Runs what came before the PG served.
    pub(crate) fn run_waiting_ops(&mut self, cx: &mut Ctx<'_>) {
        if !self.is_serving() {
            return;
        }
        for waiting in std::mem::take(&mut self.ops.early) {
            self.enqueue(waiting, cx);
        }
    }

    fn enqueue(&mut self, waiting: WaitingOp, cx: &mut Ctx<'_>) {
        let head = exec::head_of(&waiting.op);
        let ops = self.ops.objects.entry(head.clone()).or_default();
        ops.queue.push_back(waiting);
        if ops.queue.len() == 1 {
            self.run_object(&head, cx);
        }
    }

    /// Starts the object's ops, as many as may start.
    pub(crate) fn run_object(&mut self, head: &HObject, cx: &mut Ctx<'_>) {
        if self.phase == Phase::Replica {
            return self.forget_idle(head);
        }
        if !self.is_serving() || !self.has_lease(cx) {
            return;
        }
        while let Some(ops) = self.ops.objects.get_mut(head) {
            let Some(front) = ops.queue.front() else { break };
            let is_change = exec::is_ordered(&front.op);
            if !ops.may_start(is_change) {
                return;
            }
            if is_change && self.scrubs.holds(head) {
                return self.scrubs.hinders();
            }
            let must_recover = if is_change { self.is_degraded(head) } else { self.is_missing(head) };
            if must_recover {
                if self.is_unfound(head) {
                    self.hold_object(head, cx);
                }
                return self.recover_soon(head, cx);
            }
            let Some(waiting) = self.ops.objects.get_mut(head).and_then(|o| o.queue.pop_front()) else {
                return;
            };
            self.run(head, waiting, cx);
        }
        self.forget_idle(head);
    }

    fn forget_idle(&mut self, head: &HObject) {
        if self.ops.objects.get(head).is_some_and(ObjectOps::is_idle) {
            self.ops.objects.remove(head);
        }
    }

    /// Starts everything that may start.
    pub(crate) fn run_all_objects(&mut self, cx: &mut Ctx<'_>) {
        for head in self.ops.objects.keys().cloned().collect::<Vec<_>>() {
            self.run_object(&head, cx);
        }
    }

    /// Starts what may be started of objects from one to before another.
    pub(crate) fn run_objects_between(&mut self, start: &HObject, end: &HObject, cx: &mut Ctx<'_>) {
        let within = self.ops.objects.range(start..end).map(|(head, _)| head.clone());
        for head in within.collect::<Vec<_>>() {
            self.run_object(&head, cx);
        }
    }

    /// True while a change of an object among these has begun and waits for something.
    pub(crate) fn has_change_loading(&self, start: &HObject, end: &HObject) -> bool {
        self.ops.objects.range(start..end).any(|(_, ops)| ops.is_change_loading)
    }

    fn run(&mut self, head: &HObject, mut waiting: WaitingOp, cx: &mut Ctx<'_>) {
        if !self.is_primary() {
            if !self.can_serve_replica_read(&waiting, cx) {
                return self.refuse(&waiting, Errno::EAGAIN, cx);
            }
        } else if !self.has_lease(cx) {
            // What was loaded for it stays: its turn comes again.
            let ops = self.ops.objects.entry(head.clone()).or_default();
            return ops.queue.push_front(waiting);
        }
        waiting.started = cx.now;
        if scrub::is_listing(&waiting.op) {
            return self.answer_scrub_listing(&waiting, cx);
        }
        let reqid = reqid_of(&waiting.client, waiting.tid, &waiting.op);
        if exec::is_ordered(&waiting.op) && self.log.find(&reqid).is_some() {
            return self.answer_duplicate(&reqid, waiting, cx);
        }
        let context = OpContext {
            coll: self.coll,
            wall: cx.wall,
            reqid,
            origin: waiting.client.entity,
            origin_addr: waiting.client.addr,
            next_version: self.next_version(cx),
            pool_snapc: self.pool_snapc(cx),
            removed_snaps: self.removed_snaps(cx),
            connected: self.watches.connected(head, &waiting.client),
            missing: self.missing_for(&waiting.op),
            copied: waiting.copied.clone(),
            past: exec::past_of(head, &waiting.op, self.log.iter().rev()),
            pg_num: self.info.pg_num,
            full: self.full(cx),
            notify_id: self.watches.next_id(cx),
            random_seed: cx.random ^ waiting.tid,
        };
        match exec::execute(cx.store, &context, &waiting.op) {
            Err(Blocked::Missing(missing)) => self.load_for(head, waiting, missing, cx),
            Err(Blocked::Copy { subop, source }) => self.copy_for(head, waiting, subop, source, cx),
            Err(Blocked::Refused(errno)) => self.refuse(&waiting, errno, cx),
            Ok(done) => self.finish(head, waiting, done, reqid, cx),
        }
    }

    /// What growing is refused with, while the pool is full.
    fn full(&self, cx: &Ctx<'_>) -> Option<Errno> {
        let is_over_quota = cx.map.pools.get(&self.pgid.pool)?.flags.has(PoolFlags::FULL_QUOTA);
        let errno = if is_over_quota { Errno::EDQUOT } else { Errno::ENOSPC };
        cx.map.is_full(self.pgid.pool).then_some(errno)
    }

    /// Objects that a listing must name though they are not here yet.
    fn missing_for(&self, op: &MOSDOp) -> BTreeSet<HObject> {
        if !op.ops.iter().any(|step| step.code.is_pg()) {
            return BTreeSet::new();
        }
        self.missing.keys().filter(|object| object.is_head()).cloned().collect()
    }

    /// Puts a request aside until something comes; its number.
    pub(crate) fn put_aside(&mut self, head: &HObject, waiting: WaitingOp) -> u64 {
        self.ops.next_load += 1;
        let load = self.ops.next_load;
        let ops = self.ops.objects.entry(head.clone()).or_default();
        ops.is_change_loading |= exec::is_ordered(&waiting.op);
        ops.loading.insert(load, waiting);
        load
    }

    fn take_back(&mut self, head: &HObject, load: u64) -> Option<WaitingOp> {
        let ops = self.ops.objects.get_mut(head)?;
        ops.is_change_loading = false;
        ops.loading.remove(&load)
    }

    fn copy_for(
        &mut self,
        head: &HObject,
        waiting: WaitingOp,
        subop: u32,
        source: CopySource,
        cx: &mut Ctx<'_>,
    ) {
        let load = self.put_aside(head, waiting);
        if self.fetch_copy(head, load, subop, source, cx).is_none()
            && let Some(waiting) = self.take_back(head, load)
        {
            self.refuse(&waiting, Errno::ENOENT, cx);
        }
    }

    /// The contents came that a request copies.
    pub(crate) fn resume_with_copy(
        &mut self,
        head: &HObject,
        load: u64,
        subop: u32,
        data: Box<MPgCopyData>,
        cx: &mut Ctx<'_>,
    ) {
        if let Some(mut waiting) = self.take_back(head, load) {
            waiting.copied.insert(subop, data);
            self.run(head, waiting, cx);
            self.run_object(head, cx);
        }
    }

    /// True while a change of the object is not durable everywhere.
    pub(crate) fn has_change_under_way(&self, head: &HObject) -> bool {
        self.ops.objects.get(head).is_some_and(|ops| ops.in_flight > 0)
    }

    /// True while this change, or one before it, is not durable everywhere.
    pub(crate) fn has_change_under_way_until(&self, version: EVersion) -> bool {
        self.ops.in_flight.range(..=version).next().is_some()
    }

    fn load_for(&mut self, head: &HObject, waiting: WaitingOp, missing: store::Missing, cx: &mut Ctx<'_>) {
        let load = self.put_aside(head, waiting);
        let wanted = missing.object().clone();
        let token = self.token(Pending::OpLoad { head: head.clone(), load, wanted });
        cx.store.load(token, missing);
    }

    pub(crate) fn on_op_loaded(
        &mut self,
        head: &HObject,
        load: u64,
        wanted: &HObject,
        completion: Completion,
        cx: &mut Ctx<'_>,
    ) {
        let Completion::Loaded(token, result) = completion else { return };
        let Some(mut waiting) = self.take_back(head, load) else { return cx.store.unload(token) };
        waiting.loads.push(token);
        match result {
            Ok(()) => self.run(head, waiting, cx),
            Err(error) => {
                let what = if matches!(error, ReadError::Corrupt { .. }) { "corrupt" } else { "unreadable" };
                tracing::error!(pg = %self.pgid, object = %wanted, %error, "{what} data");
                if !self.is_primary() {
                    self.complain_of_copy(&waiting, wanted, cx);
                    return self.forget_idle(head);
                }
                self.release(&waiting, cx);
                waiting.loads.clear();
                self.repair(wanted, cx);
                self.ops.objects.entry(head.clone()).or_default().queue.push_front(waiting);
            }
        }
        self.run_object(head, cx);
    }

    /// Lets go of what was loaded for an op.
    pub(crate) fn release(&mut self, waiting: &WaitingOp, cx: &mut Ctx<'_>) {
        waiting.loads.iter().for_each(|token| cx.store.unload(*token));
    }

    pub(crate) fn refuse(&mut self, waiting: &WaitingOp, errno: Errno, cx: &mut Ctx<'_>) {
        let reply = MOSDOpReply {
            // Refusals do not say more than the request.
            flags: u64::from(waiting.op.flags),
            result: errno.negated(),
            ops: without_data(&waiting.op),
            ..reply_for(&waiting.op, cx.map.epoch)
        };
        self.release(waiting, cx);
        waiting.answered(cx.now);
        cx.effects.push(Effect::Reply(waiting.client.session, waiting.tid, Box::new(reply)));
    }

    fn answer_scrub_listing(&self, waiting: &WaitingOp, cx: &mut Ctx<'_>) {
        let (result, ops) = self.list_scrub_results(&waiting.op);
        let reply = MOSDOpReply { result, ops, ..reply_for(&waiting.op, cx.map.epoch) };
        cx.effects.push(Effect::Reply(waiting.client.session, waiting.tid, Box::new(reply)));
    }

    /// Answers a request that was done before, or joins the one that is under way.
    fn answer_duplicate(&mut self, reqid: &ReqId, waiting: WaitingOp, cx: &mut Ctx<'_>) {
        let Some(entry) = self.log.find(reqid) else { return };
        let mut ops = without_data(&waiting.op);
        for (step, (result, data)) in ops.iter_mut().zip(&entry.returns) {
            (step.result, step.data) = (*result, data.clone());
        }
        let reply = Box::new(MOSDOpReply {
            result: entry.result,
            ops,
            replay_version: entry.version,
            user_version: entry.user_version,
            ..reply_for(&waiting.op, cx.map.epoch)
        });
        self.release(&waiting, cx);
        match self.ops.in_flight.values_mut().find(|f| f.reqid == *reqid) {
            Some(in_flight) => in_flight.requests.push((waiting, reply)),
            None => {
                waiting.answered(cx.now);
                cx.effects.push(Effect::Reply(waiting.client.session, waiting.tid, reply));
            }
        }
    }

    fn finish(&mut self, head: &HObject, waiting: WaitingOp, done: Executed, reqid: ReqId, cx: &mut Ctx<'_>) {
        self.release(&waiting, cx);
        let Executed { ops, result, staged, mut watch, watchers, user_version, version } = done;
        if self.is_primary() {
            self.watches.learn(head, &watchers, cx.now);
        }
        self.watches.count(&watch);
        self.count(&waiting.op, &ops, staged.is_some());
        let mut reply = MOSDOpReply {
            result,
            ops,
            user_version,
            replay_version: version,
            ..reply_for(&waiting.op, cx.map.epoch)
        };
        // Of what changes the object, watchers hear after the client has its answer, of all else before: as with Ceph.
        if staged.as_ref().is_none_or(|staged| staged.txn.ops.is_empty()) {
            self.change_watches(head, &waiting.client, std::mem::take(&mut watch), cx);
        }
        let Some(staged) = staged else {
            waiting.answered(cx.now);
            cx.effects.push(Effect::Reply(waiting.client.session, waiting.tid, Box::new(reply)));
            return;
        };
        let (version, members) = self.replicate(staged, cx);
        reply.replay_version = version;
        let (object, requests) = (head.clone(), vec![(waiting, Box::new(reply))]);
        let committed = Instant::default();
        let change = InFlight { waiting: members, object, reqid, requests, watch, committed };
        self.put_in_flight(version, change);
    }

    fn change_watches(
        &mut self,
        head: &HObject,
        client: &Client,
        changes: Vec<WatchChange>,
        cx: &mut Ctx<'_>,
    ) {
        for change in changes {
            self.watches.apply(head, client, change, cx);
        }
    }

    fn put_in_flight(&mut self, version: EVersion, change: InFlight) {
        self.ops.objects.entry(change.object.clone()).or_default().in_flight += 1;
        self.ops.in_flight.insert(version, change);
    }

    /// A change that nobody asked for: trimming, watches that end.
    pub(crate) fn submit_internal(&mut self, head: &HObject, staged: Staged, cx: &mut Ctx<'_>) {
        let (version, waiting) = self.replicate(staged, cx);
        let (object, reqid) = (head.clone(), ReqId::default());
        let (requests, watch, committed) = (Vec::new(), Vec::new(), Instant::default());
        let change = InFlight { waiting, object, reqid, requests, watch, committed };
        self.put_in_flight(version, change);
    }

    /// True when nothing is under way on the object.
    pub(crate) fn is_object_idle(&self, head: &HObject) -> bool {
        !self.scrubs.holds(head) && self.ops.objects.get(head).is_none_or(ObjectOps::is_idle)
    }

    /// A member has the change of `version`, and all before, durable.
    pub(crate) fn on_commit(&mut self, from: OsdId, version: EVersion, cx: &mut Ctx<'_>) {
        for (_, in_flight) in self.ops.in_flight.range_mut(..=version) {
            in_flight.waiting.retain(|osd| *osd != from);
            if from == self.me && in_flight.committed == Instant::default() {
                in_flight.committed = cx.now;
            }
        }
        // Answers leave in the order of the changes.
        while let Some(first) = self.ops.in_flight.first_entry() {
            if !first.get().waiting.is_empty() {
                break;
            }
            let (version, done) = first.remove_entry();
            self.note_committed(version);
            let client = match done.requests.first() {
                Some((asked, _)) if !done.watch.is_empty() => Some(asked.client.clone()),
                Some(_) | None => None,
            };
            for (asked, reply) in done.requests {
                asked.answered(cx.now);
                cx.effects.push(Effect::Reply(asked.client.session, asked.tid, reply));
            }
            if let Some(client) = client {
                self.change_watches(&done.object, &client, done.watch, cx);
            }
            if let Some(ops) = self.ops.objects.get_mut(&done.object) {
                ops.in_flight -= 1;
            }
            self.run_object(&done.object, cx);
        }
        self.answer_copies(cx);
    }

    fn count(&mut self, op: &MOSDOp, ops: &[OsdOp], is_write: bool) {
        if is_write {
            self.counters.writes += 1;
            self.counters.write_bytes += op.ops.iter().map(|s| s.data.len() as u64).sum::<u64>();
        } else {
            self.counters.reads += 1;
            self.counters.read_bytes += ops.iter().map(|s| s.data_bytes() as u64).sum::<u64>();
        }
    }
}

#[cfg(test)]
mod tests;
