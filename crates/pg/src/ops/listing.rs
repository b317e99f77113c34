//! What operators see of the ops that a PG holds: which there are and what each waits for. It is worked out when an
//! operator asks.

use types::{HObject, Instant, OsdId};

use super::{InFlight, ObjectOps, WaitingOp};
use crate::{OpRecord, Pg, op_tracker::DONE, pg::Phase};

impl WaitingOp {
    /// What is known of it wherever it waits.
    fn record(&self, flag_point: &str) -> OpRecord {
        let record = OpRecord::new(&self.client, self.tid, &self.op, self.permit.since(), flag_point);
        let record = record.with("reached_pg", self.reached);
        if self.started == Instant::default() { record } else { record.with("started", self.started) }
    }

    fn delayed(&self, why: &str) -> OpRecord {
        let record = self.record("reached pg");
        let since = record.events.last().map_or(self.reached, |(_, at)| *at);
        record.delayed(why, since)
    }

    /// For how long it has been here.
    #[inline]
    pub(crate) fn nanos_until(&self, now: Instant) -> u64 {
        now.0.saturating_sub(self.permit.since().0)
    }

    /// It is being answered: remembers it, if it was slow.
    #[inline]
    pub(crate) fn answered(&self, now: Instant) {
        self.permit.answered(now, || {
            let is_change = self.is_ordered && self.op.says_it_writes();
            let record = match is_change {
                true => self.record("commit sent; apply or cleanup").with("commit_sent", now),
                false => self.record("started"),
            };
            record.with(DONE, now)
        });
    }
}

impl InFlight {
    /// The record of a request that the change answers, with the OSDs that it waits for.
    fn record(&self, waiting: &WaitingOp, me: OsdId, others: &str) -> OpRecord {
        let record = waiting.record("waiting for sub ops");
        let record = record.with(format!("waiting for subops from {others}"), waiting.started);
        if self.waiting.contains(&me) { record } else { record.with("op_commit", self.committed) }
    }
}

impl Pg {
    /// The ops that are not answered, as far as they came up to `until`.
    pub fn ops_until(&self, until: Instant) -> Vec<OpRecord> {
        let mut out = Vec::new();
        let is_old = |waiting: &WaitingOp| waiting.permit.since() <= until;
        for waiting in self.ops.early.iter().filter(|waiting| is_old(waiting)) {
            out.push(waiting.delayed("waiting for peered"));
        }
        for (head, ops) in &self.ops.objects {
            let queue = ops.queue.iter().filter(|waiting| is_old(waiting));
            out.extend(queue.map(|waiting| waiting.delayed(self.why_queued(head, ops, waiting))));
            let loading = ops.loading.iter().map(|(_, waiting)| waiting).filter(|waiting| is_old(waiting));
            out.extend(loading.map(|waiting| waiting.record("started")));
        }
        let passed_on = self.proxies.requests().filter(|waiting| is_old(waiting));
        out.extend(passed_on.map(|waiting| waiting.record("started")));
        let others: Vec<String> =
            self.members.all().filter(|osd| *osd != self.me).map(|osd| osd.to_string()).collect();
        let others = others.join(",");
        for in_flight in &self.ops.in_flight {
            let requests = in_flight.requests.iter().filter(|(waiting, _)| is_old(waiting));
            out.extend(requests.map(|(waiting, _)| in_flight.record(waiting, self.me, &others)));
        }
        out
    }

    /// What keeps an op in the queue of its object.
    fn why_queued(&self, head: &HObject, ops: &ObjectOps, waiting: &WaitingOp) -> &'static str {
        let is_change = waiting.is_ordered;
        if self.phase != Phase::Active {
            "waiting for active"
        } else if !ops.may_start(waiting) {
            "waiting for rw locks"
        } else if is_change && self.scrubs.holds(head) {
            "waiting for scrub"
        } else if self.is_missing(head) {
            "waiting for missing object"
        } else if is_change && self.is_degraded(head) {
            "waiting for degraded object"
        } else {
            "waiting for readable"
        }
    }
}
