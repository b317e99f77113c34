//! Clients' ops: order per object, duplicates, execution, answers.
//!
//! Per object, ops run in the order in which they came. A change may start while earlier ones are not
//! durable yet; a read waits for them, and so does a request that changes nothing though its client says
//! that it writes; nothing passes an op that waits for something to be loaded or recovered.
//!
//! A replica runs reads, too, where it may (`replica_read.rs`): those have no order.

mod abandoned;
mod answer;
mod listing;
mod loading;
mod queue;
mod room;

use std::collections::BTreeSet;

use messages::{MOSDOp, MOSDOpReply, MPgCopyData, OsdOp, osd_flag};
use types::{EVersion, Errno, HObject, Instant, PoolFlags, PoolId, ReqId};

pub(crate) use loading::let_go_of_much;
pub(crate) use queue::{LoadId, Ops, WaitingOp};

use self::{
    queue::{InFlight, ObjectOps},
    room::Weighed,
};
use crate::{
    Client, Ctx, Permit, Pg,
    copy::{CopySlot, nothing},
    exec::{self, Blocked, CopySource, Executed, OpContext, Staged, WatchChange},
    pg::Phase,
    scrub, watch,
};

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
        ctx: &mut Ctx<'_>,
    ) {
        let waiting = WaitingOp::new(client, tid, op, permit, ctx.now);
        let is_replica_read = self.is_replica_read(&waiting);
        // A client that mapped the object to another primary sends again.
        let is_for_primary = self.is_primary() && waiting.op.epoch >= self.info.primary_since;
        if !is_replica_read && (!is_for_primary || self.is_held_back(&waiting)) {
            return;
        }
        self.take(waiting, is_replica_read, ctx);
    }

    /// A request that this copy has to answer.
    pub(crate) fn take(&mut self, waiting: WaitingOp, is_replica_read: bool, ctx: &mut Ctx<'_>) {
        let pool = ctx.map.pools.get(&self.pgid.pool);
        if pool.is_some_and(|pool| pool.flags.has(PoolFlags::EIO)) {
            // A client that knows the flag fails its ops itself, in the order in which it sent them.
            if waiting.op.flags & osd_flag::SUPPORTSPOOLEIO == 0 {
                self.refuse(&waiting, Errno::EIO, ctx);
            }
        } else if is_replica_read {
            self.run(&waiting.op.head(), waiting, ctx);
        } else if self.is_serving() {
            self.enqueue(waiting, ctx);
        } else {
            self.ops.early.push_back(waiting);
        }
    }

    /// Runs what came before the PG served. Each may have others behind it dropped ([`Pg::drop_for_room`]).
    pub(crate) fn run_waiting_ops(&mut self, ctx: &mut Ctx<'_>) {
        while self.is_serving()
            && let Some(waiting) = self.ops.early.pop_front()
        {
            self.enqueue(waiting, ctx);
        }
    }

    fn enqueue(&mut self, waiting: WaitingOp, ctx: &mut Ctx<'_>) {
        let head = waiting.op.head();
        // Mostly nothing is under way on the object: there is no need to stand in a queue.
        let is_idle = !self.ops.objects.contains_key(&head);
        if is_idle && self.is_unhindered(&head, waiting.is_ordered, ctx) {
            self.run(&head, waiting, ctx);
            return self.forget_idle(&head);
        }
        let may_pass = waiting.is_reference();
        let ops = self.ops.objects.entry(head.clone()).or_default();
        ops.queue.push_back(waiting);
        let is_first = ops.queue.len() == 1;
        // An unfound object's op is held by its client, even behind those of clients that cannot hold theirs.
        if is_first || may_pass || self.is_unfound(&head) {
            self.run_object(&head, ctx);
        }
    }

    /// True if a read or a change of the object can only be held up by ops that came before it.
    fn is_unhindered(&mut self, head: &HObject, is_change: bool, ctx: &Ctx<'_>) -> bool {
        self.is_serving()
            && !self.must_recover(head, is_change)
            && !(is_change && self.scrubs.holds(head))
            && self.has_lease(ctx)
    }

    /// True if the object has to be recovered first: on this copy for a read, on all copies for a change.
    fn must_recover(&self, head: &HObject, is_change: bool) -> bool {
        if is_change { self.is_degraded(head) } else { self.is_missing(head) }
    }

    /// Starts the object's ops, as many as may start.
    pub(crate) fn run_object(&mut self, head: &HObject, ctx: &mut Ctx<'_>) {
        if self.phase == Phase::Replica {
            return self.forget_idle(head);
        }
        if !self.is_serving() || !self.has_lease(ctx) {
            return;
        }
        while let Some(ops) = self.ops.objects.get_mut(head) {
            let Some(front) = ops.queue.front() else { break };
            let (at, is_change) = if ops.may_start(front) {
                (0, front.is_ordered)
            } else {
                let Some(at) = ops.passing() else { return };
                (at, true)
            };
            if is_change && self.scrubs.holds(head) {
                return self.scrubs.hinders();
            }
            if self.must_recover(head, is_change) {
                if self.is_unfound(head) {
                    self.hold_object(head, ctx);
                }
                return self.recover_soon(head, ctx);
            }
            let Some(waiting) = self.ops.objects.get_mut(head).and_then(|o| o.queue.remove(at)) else {
                return;
            };
            self.run(head, waiting, ctx);
        }
        self.forget_idle(head);
    }

    fn forget_idle(&mut self, head: &HObject) {
        if self.ops.objects.get(head).is_some_and(ObjectOps::is_idle) {
            self.ops.objects.remove(head);
        }
    }

    /// Starts everything that may start.
    pub(crate) fn run_all_objects(&mut self, ctx: &mut Ctx<'_>) {
        for head in self.ops.objects.keys().cloned().collect::<Vec<_>>() {
            self.run_object(&head, ctx);
        }
    }

    /// Starts what may be started of objects from one to before another.
    pub(crate) fn run_objects_between(&mut self, start: &HObject, end: &HObject, ctx: &mut Ctx<'_>) {
        let within = self.ops.objects.range(start..end).map(|(head, _)| head.clone());
        for head in within.collect::<Vec<_>>() {
            self.run_object(&head, ctx);
        }
    }

    fn run(&mut self, head: &HObject, mut waiting: WaitingOp, ctx: &mut Ctx<'_>) {
        if !self.is_primary() {
            if !self.can_serve_replica_read(&waiting, ctx) {
                return self.refuse(&waiting, Errno::EAGAIN, ctx);
            }
        } else if !self.has_lease(ctx) {
            // Most of what was loaded for requests stays loaded: their turn comes again.
            let_go_of_much(&mut waiting, ctx);
            return self.ops.objects.entry(head.clone()).or_default().queue.push_front(waiting);
        }
        waiting.started = ctx.now;
        if scrub::is_listing(&waiting.op) {
            return self.answer_scrub_listing(&waiting, ctx);
        }
        // Most reads that lack data lack only this: loading it first has them run once instead of twice.
        let lacking = self.lacked_by_reads(head, &waiting, ctx.store);
        if !lacking.is_empty() {
            return self.load_for(head, waiting, lacking, ctx);
        }
        let reqid = reqid_of(&waiting.client, waiting.tid, &waiting.op);
        if waiting.is_ordered && self.log.find(&reqid).is_some() {
            return self.answer_duplicate(&reqid, waiting, ctx);
        }
        // That the client may send changes was checked when the request came. The client may have been blocklisted
        // since, and others may rely on no request of it being carried out any more.
        let has_waited = waiting.reached != ctx.now;
        if has_waited && waiting.is_ordered && ctx.map.is_blocklisted(&waiting.client.addr) {
            return self.refuse(&waiting, Errno::EBLOCKLISTED, ctx);
        }
        let mut context = self.context_for(head, &mut waiting, reqid, ctx);
        let outcome = self.execute(&mut context, &waiting.op, ctx);
        waiting.copied = std::mem::take(&mut context.copied);
        waiting.asked = std::mem::take(&mut context.asked);
        match outcome {
            Err(Blocked::NotCached(lacking)) => self.load_for(head, waiting, lacking, ctx),
            // Only a primary asks other PGs.
            Err(Blocked::Copy { .. }) if !self.is_primary() => self.refuse(&waiting, Errno::EAGAIN, ctx),
            Err(Blocked::Copy { subop, source, part }) => {
                self.copy_for(head, waiting, subop, (source, part), ctx)
            }
            Err(Blocked::Ask { question, target, step }) => {
                self.ask_for(head, waiting, question, target, *step, ctx)
            }
            Err(Blocked::PassOn { target }) => self.pass_on(head, waiting, target, ctx),
            Err(Blocked::Refused(errno)) => self.refuse(&waiting, errno, ctx),
            Ok(done) => match self.weigh(&mut waiting, &done, ctx) {
                Weighed::Fits => self.finish(head, waiting, done, reqid, ctx),
                Weighed::TooLong => self.refuse(&waiting, Errno::EMSGSIZE, ctx),
                Weighed::Short(_) if waiting.wants_refusal() => {
                    let refusal = done.without_room(&context, &waiting.op);
                    self.finish(head, waiting, refusal, reqid, ctx);
                }
                Weighed::Short(bytes) => self.drop_for_room(head, waiting, bytes, ctx),
            },
        }
    }

    /// What the ops of a request may know. What was fetched for the request goes along.
    fn context_for(
        &mut self,
        head: &HObject,
        waiting: &mut WaitingOp,
        reqid: ReqId,
        ctx: &Ctx<'_>,
    ) -> OpContext {
        OpContext {
            coll: self.coll,
            wall: ctx.wall,
            reqid,
            origin: waiting.client.entity,
            origin_addr: waiting.client.addr,
            next_version: self.next_version(ctx),
            last_user_version: self.info.last_user_version,
            pool_snapc: self.pool_snapc(ctx),
            removed_snaps: self.removed_snaps(ctx),
            connected: self.watches.connected(head, &waiting.client),
            missing: self.missing_for(&waiting.op),
            copied: std::mem::take(&mut waiting.copied),
            asked: std::mem::take(&mut waiting.asked),
            past: exec::past_of(head, &waiting.op, self.log.iter().rev()),
            pg_num: self.info.pg_num,
            full: self.full(ctx),
            notify_id: self.watches.next_id(ctx),
            notify_room: watch::NOTIFIES_BYTES_MAX.saturating_sub(ctx.notifying.bytes()),
            random_seed: ctx.random ^ waiting.tid,
            loads_most: waiting.loads_most(),
        }
    }

    /// Runs a request's ops. If they copy from a pool that does not exist, or ask it for something, that is answered
    /// here at once: delivered like other answers, it would run this request and those behind it nested in each other,
    /// as deep as there are many.
    fn execute(&self, context: &mut OpContext, op: &MOSDOp, ctx: &Ctx<'_>) -> Result<Executed, Blocked> {
        let is_nowhere = |pool: PoolId| self.is_primary() && !ctx.map.pools.contains_key(&pool);
        loop {
            match exec::execute(ctx.store, context, op) {
                Err(Blocked::Copy { subop, source, .. }) if is_nowhere(source.locator.pool) => {
                    context.copied.insert(subop, Box::new(nothing(self.pgid, 0, ctx)));
                }
                Err(Blocked::Ask { question, target, .. }) if is_nowhere(target.pool) => {
                    context.asked.insert(question, Errno::ENOENT.negated());
                }
                outcome => return outcome,
            }
        }
    }

    /// What growing is refused with, while the pool is full.
    fn full(&self, ctx: &Ctx<'_>) -> Option<Errno> {
        let is_over_quota = ctx.map.pools.get(&self.pgid.pool)?.flags.has(PoolFlags::FULL_QUOTA);
        let errno = if is_over_quota { Errno::EDQUOT } else { Errno::ENOSPC };
        ctx.map.is_full(self.pgid.pool).then_some(errno)
    }

    /// Objects that a listing must name though they are not here yet.
    fn missing_for(&self, op: &MOSDOp) -> BTreeSet<HObject> {
        if !op.ops.iter().any(|step| step.code.is_pg()) {
            return BTreeSet::new();
        }
        self.missing.keys().filter(|object| object.is_head()).cloned().collect()
    }

    /// Puts a request aside until something comes; its number.
    pub(crate) fn put_aside(&mut self, head: &HObject, waiting: WaitingOp) -> LoadId {
        let load = self.ops.next_load();
        let ops = self.ops.objects.entry(head.clone()).or_default();
        ops.is_change_loading |= waiting.is_ordered;
        ops.loading.push((load, Box::new(waiting)));
        load
    }

    fn take_back(&mut self, head: &HObject, load: LoadId) -> Option<WaitingOp> {
        self.take_back_if(head, load, |_| true)
    }

    /// Takes back a request that was put aside, if it is there and is to go on.
    fn take_back_if(
        &mut self,
        head: &HObject,
        load: LoadId,
        goes_on: impl FnOnce(&mut WaitingOp) -> bool,
    ) -> Option<WaitingOp> {
        let ops = self.ops.objects.get_mut(head)?;
        let at = ops.loading.iter().position(|(number, _)| *number == load)?;
        if !goes_on(&mut ops.loading[at].1) {
            return None;
        }
        let mut waiting = ops.loading.remove(at).1;
        ops.is_change_loading = ops.loading.iter().any(|(_, waiting)| waiting.is_ordered);
        waiting.is_asking = false;
        Some(*waiting)
    }

    /// A request that was put aside goes on, unless a copy of its object was found to be bad meanwhile, or a scrub
    /// holds the object, as scrubs do not wait for a change that may take long: then the request is the first to run
    /// afterwards.
    fn go_on(&mut self, head: &HObject, mut waiting: WaitingOp, ctx: &mut Ctx<'_>) {
        let is_held = waiting.is_ordered && self.scrubs.holds(head);
        if self.is_primary() && (is_held || self.must_recover(head, waiting.is_ordered)) {
            // That may take a while, and other requests want to copy as well.
            waiting.forget_copies();
            let_go_of_much(&mut waiting, ctx);
            self.ops.objects.entry(head.clone()).or_default().queue.push_front(waiting);
        } else {
            self.run(head, waiting, ctx);
        }
    }

    fn copy_for(
        &mut self,
        head: &HObject,
        mut waiting: WaitingOp,
        subop: u32,
        source: (CopySource, Option<(u32, u32)>),
        ctx: &mut Ctx<'_>,
    ) {
        let slot = waiting.slot.take();
        let_go_of_much(&mut waiting, ctx);
        let load = self.put_aside(head, waiting);
        self.fetch_copy((head, load, subop), source, slot, ctx);
    }

    /// The contents arrived that a request copies.
    pub(crate) fn resume_with_copy(
        &mut self,
        (head, load, subop): (&HObject, LoadId, u32),
        data: Box<MPgCopyData>,
        mut slot: Option<Box<CopySlot>>,
        ctx: &mut Ctx<'_>,
    ) {
        let Some(mut waiting) = self.take_back(head, load) else { return };
        let fits = slot.as_mut().is_none_or(|slot| slot.has_room_for(&data));
        waiting.slot = slot;
        if fits {
            waiting.copied.insert(subop, data);
            self.go_on(head, waiting, ctx);
        } else {
            self.refuse(&waiting, Errno::EMSGSIZE, ctx);
        }
        self.run_object(head, ctx);
    }

    /// A request that copies gives others its slot, and begins anew.
    pub(crate) fn copy_anew(&mut self, head: &HObject, load: LoadId, ctx: &mut Ctx<'_>) {
        if let Some(mut waiting) = self.take_back(head, load) {
            waiting.forget_copies();
            self.go_on(head, waiting, ctx);
            self.run_object(head, ctx);
        }
    }

    /// Another object answered what an op of a request had to ask.
    pub(crate) fn resume_with_answer(
        &mut self,
        head: &HObject,
        load: LoadId,
        question: u32,
        result: i32,
        ctx: &mut Ctx<'_>,
    ) {
        if let Some(mut waiting) = self.take_back(head, load) {
            waiting.asked.insert(question, result);
            self.go_on(head, waiting, ctx);
            self.run_object(head, ctx);
        }
    }

    /// True while a change of the object is not durable everywhere. The object's next changes then wait until the PG
    /// that copies it is answered, so that this happens however much is written.
    pub(crate) fn hold_changes_for_copy(&mut self, head: &HObject) -> bool {
        let Some(ops) = self.ops.objects.get_mut(head).filter(|ops| ops.in_flight > 0) else { return false };
        ops.is_asked_for = true;
        true
    }

    /// Has the object's next changes wait while it is read for a copy.
    pub(crate) fn hold_changes_for_read(&mut self, head: &HObject) {
        self.ops.objects.entry(head.clone()).or_default().reads_for_copies += 1;
    }

    /// The object was read for a copy, or could not be: its changes go on.
    pub(crate) fn release_changes_for_read(&mut self, head: &HObject, ctx: &mut Ctx<'_>) {
        if let Some(ops) = self.ops.objects.get_mut(head) {
            ops.reads_for_copies = ops.reads_for_copies.saturating_sub(1);
        }
        self.run_object(head, ctx);
    }

    /// True while this change, or one before it, is not durable everywhere.
    pub(crate) fn has_change_under_way_until(&self, version: EVersion) -> bool {
        self.ops.in_flight.front().is_some_and(|first| first.version <= version)
    }

    fn finish(
        &mut self,
        head: &HObject,
        mut waiting: WaitingOp,
        done: Executed,
        reqid: ReqId,
        ctx: &mut Ctx<'_>,
    ) {
        self.release(&waiting, ctx);
        waiting.forget_loads();
        let Executed {
            ops,
            result,
            staged,
            mut watch,
            notify_bytes,
            watchers,
            user_version,
            version,
            given_back,
        } = done;
        if self.is_primary() {
            self.watches.learn(head, &watchers, ctx.now);
        }
        self.watches.count(&watch);
        self.count(&waiting.op, &ops, staged.is_some());
        let mut reply = MOSDOpReply {
            result,
            ops,
            user_version,
            replay_version: version,
            ..MOSDOpReply::to(&waiting.op, ctx.map.epoch)
        };
        // As with Ceph, watchers hear of a request that changes the object after its client is answered, of any other
        // before.
        if staged.as_ref().is_none_or(|staged| staged.txn.ops.is_empty()) {
            let client = (&waiting.client, waiting.is_abandoned);
            self.change_watches(head, client, std::mem::take(&mut watch), ctx);
        }
        let Some(staged) = staged else {
            self.stats.note_served(&waiting.op, &reply.ops, false, waiting.nanos_until(ctx.now));
            return self.reply(&waiting, Box::new(reply), ctx);
        };
        let (version, members) = self.replicate(staged, ctx);
        reply.replay_version = version;
        let (object, requests) = (head.clone(), vec![(waiting, Box::new(reply))]);
        let committed = Instant::default();
        // Notifications to come take their room now: many changes with one each may be in flight.
        let is_notifying = notify_bytes > 0 && !watch.is_empty();
        let notifying = is_notifying.then(|| ctx.notifying.take(notify_bytes));
        let waiting = members;
        let change =
            InFlight { version, waiting, object, reqid, requests, watch, notifying, given_back, committed };
        self.put_in_flight(change);
    }

    fn put_in_flight(&mut self, change: InFlight) {
        match self.ops.objects.get_mut(&change.object) {
            Some(ops) => ops.in_flight += 1,
            None => {
                let ops = ObjectOps { in_flight: 1, ..ObjectOps::default() };
                self.ops.objects.insert(change.object.clone(), ops);
            }
        }
        debug_assert!(self.ops.in_flight.back().is_none_or(|last| last.version < change.version));
        self.ops.in_flight.push_back(change);
    }

    /// Submits a change that no client asked for: trimming, watches that end. Once it is durable, the object's
    /// references to `given_back` are given back.
    pub(crate) fn submit_internal(
        &mut self,
        head: &HObject,
        staged: Staged,
        watch: Vec<WatchChange>,
        given_back: Vec<HObject>,
        ctx: &mut Ctx<'_>,
    ) {
        let (version, waiting) = self.replicate(staged, ctx);
        let (object, reqid) = (head.clone(), ReqId::default());
        let (requests, committed) = (Vec::new(), Instant::default());
        let notifying = None;
        let change =
            InFlight { version, waiting, object, reqid, requests, watch, notifying, given_back, committed };
        self.put_in_flight(change);
    }

    /// True if the object may be changed now without a request, beside changes that are in flight: earlier requests may
    /// be answered by its state before or after that.
    pub(crate) fn may_change_unasked(&self, head: &HObject) -> bool {
        let is_change_loading = self.ops.objects.get(head).is_some_and(|ops| ops.is_change_loading);
        !self.scrubs.holds(head) && !is_change_loading
    }

    /// True while a change of the object is in flight that, once it is durable, ends this watch or does something else
    /// to watches than to end others.
    pub(crate) fn is_changing_watch(&self, head: &HObject, watcher: (u64, u64)) -> bool {
        let ends_other =
            |change: &WatchChange| matches!(change, WatchChange::Disconnect(other) if *other != watcher);
        let changes = self.ops.in_flight.iter().filter(|change| change.object == *head);
        changes.flat_map(|change| &change.watch).any(|change| !ends_other(change))
    }

    /// True when nothing is under way on the object.
    #[cfg(test)]
    pub(crate) fn is_object_idle(&self, head: &HObject) -> bool {
        self.ops.objects.get(head).is_none_or(ObjectOps::is_idle)
    }

    fn count(&mut self, op: &MOSDOp, ops: &[OsdOp], is_write: bool) {
        if is_write {
            self.stats.sum.writes += 1;
            self.stats.sum.write_bytes += op.ops.iter().map(|s| s.data.len() as u64).sum::<u64>();
        } else {
            self.stats.sum.reads += 1;
            self.stats.sum.read_bytes += ops.iter().map(|s| s.data_bytes() as u64).sum::<u64>();
        }
    }
}

#[cfg(test)]
mod tests;
