//! Answers: refusals, what was done before, and changes that all members have durable.

use messages::MOSDOpReply;
use types::{EVersion, Errno, HObject, Instant, OsdId, ReqId};

use super::WaitingOp;
use crate::{Client, Ctx, Pg, exec::WatchChange};

impl Pg {
    /// Lets go of what was loaded for an op.
    pub(crate) fn release(&mut self, waiting: &WaitingOp, ctx: &mut Ctx<'_>) {
        waiting.loads.iter().for_each(|token| ctx.store.unload(*token));
    }

    /// Answers a request whose ops do not run.
    pub(crate) fn refuse(&mut self, waiting: &WaitingOp, errno: Errno, ctx: &mut Ctx<'_>) {
        let reply = MOSDOpReply::refusal(&waiting.op, errno, ctx.map.epoch);
        self.release(waiting, ctx);
        self.reply(waiting, Box::new(reply), ctx);
    }

    pub(super) fn answer_scrub_listing(&mut self, waiting: &WaitingOp, ctx: &mut Ctx<'_>) {
        let (result, ops) = self.list_scrub_results(&waiting.op);
        let reply = MOSDOpReply { result, ops, ..MOSDOpReply::to(&waiting.op, ctx.map.epoch) };
        self.reply(waiting, Box::new(reply), ctx);
    }

    /// Answers a request that was done before, or joins the one that is under way.
    pub(super) fn answer_duplicate(&mut self, reqid: &ReqId, mut waiting: WaitingOp, ctx: &mut Ctx<'_>) {
        let Some(entry) = self.log.find(reqid) else { return };
        let mut ops = waiting.op.echoed_ops();
        for (step, (result, data)) in ops.iter_mut().zip(&entry.returns) {
            (step.result, step.data) = (*result, data.clone());
        }
        let reply = Box::new(MOSDOpReply {
            result: entry.result,
            ops,
            replay_version: entry.version,
            user_version: entry.user_version,
            ..MOSDOpReply::to(&waiting.op, ctx.map.epoch)
        });
        self.release(&waiting, ctx);
        waiting.forget_loads();
        match self.ops.in_flight.iter_mut().find(|f| f.reqid == *reqid) {
            Some(in_flight) => in_flight.requests.push((waiting, reply)),
            None => self.reply(&waiting, reply, ctx),
        }
    }

    /// A member has the change of `version`, and all before, durable.
    pub(crate) fn on_commit(&mut self, from: OsdId, version: EVersion, ctx: &mut Ctx<'_>) {
        for in_flight in self.ops.in_flight.iter_mut().take_while(|change| change.version <= version) {
            in_flight.waiting.retain(|osd| *osd != from);
            if from == self.me && in_flight.committed == Instant::default() {
                in_flight.committed = ctx.now;
            }
        }
        // Answers leave in the order of the changes.
        while let Some(done) = self.ops.pop_durable() {
            self.note_committed(done.version);
            // The others are the same request, sent again: the client is where it sent it last.
            let client = match done.requests.last() {
                Some((asked, _)) if !done.watch.is_empty() => {
                    Some((asked.client.clone(), asked.is_abandoned))
                }
                Some(_) | None => None,
            };
            if let Some((asked, reply)) = done.requests.first() {
                self.stats.note_served(&asked.op, &reply.ops, true, asked.nanos_until(ctx.now));
            }
            for (asked, reply) in done.requests {
                self.reply(&asked, reply, ctx);
            }
            self.give_back(&done.object, done.given_back, done.version, ctx);
            drop(done.notifying);
            match client {
                Some((client, is_abandoned)) => {
                    self.change_watches(&done.object, (&client, is_abandoned), done.watch, ctx);
                }
                None => self.watches.end_all(&done.object, &done.watch, ctx),
            }
            if let Some(ops) = self.ops.objects.get_mut(&done.object) {
                ops.in_flight -= 1;
                if ops.in_flight == 0 && std::mem::take(&mut ops.is_asked_for) {
                    self.answer_copies(ctx);
                }
            }
            self.run_object(&done.object, ctx);
        }
        if self.unfound.is_giving_up() {
            self.recover(ctx);
        }
        self.answer_copies(ctx);
        self.ask_for_waiting_copies(ctx);
    }

    pub(super) fn change_watches(
        &mut self,
        head: &HObject,
        (client, is_abandoned): (&Client, bool),
        changes: Vec<WatchChange>,
        ctx: &mut Ctx<'_>,
    ) {
        for change in changes {
            self.watches.apply(head, client, change, ctx);
        }
        if is_abandoned {
            // What watches there are of the session now came after it.
            self.watches.on_session_closed(client.session, ctx.now);
        }
    }
}
