//! What becomes of a client's requests whose session is gone. The client hears no answers any more, and sends again if
//! it is still there: requests that have not begun are dropped, since they hold room that others need. The others go
//! on.

use std::collections::VecDeque;

use types::HObject;

use super::{Ops, WaitingOp};
use crate::{Ctx, Pg};

impl Pg {
    /// A client's session is gone.
    pub(crate) fn on_session_closed(&mut self, session: u64, ctx: &mut Ctx<'_>) {
        self.watches.on_session_closed(session, ctx.now);
        self.backoffs.on_session_closed(session);
        self.proxies
            .requests_mut()
            .filter(|w| w.client.session == session)
            .for_each(|w| w.is_abandoned = true);
        let (dropped, heads) = self.ops.on_session_closed(session);
        for waiting in dropped {
            self.release(&waiting, ctx);
        }
        for head in heads {
            self.run_object(&head, ctx);
        }
    }
}

impl Ops {
    /// Takes out the session's requests that have not begun, and marks the others as abandoned. Returns those taken
    /// out, and the objects whose queues they stood in.
    fn on_session_closed(&mut self, session: u64) -> (Vec<WaitingOp>, Vec<HObject>) {
        let is_its = |waiting: &WaitingOp| waiting.client.session == session;
        let abandon = |waiting: &mut WaitingOp| waiting.is_abandoned |= waiting.client.session == session;
        // What another object has granted a request is not given back if the request goes.
        let is_taken = |waiting: &WaitingOp| is_its(waiting) && waiting.asked.is_empty();
        let mut dropped = self.take_early(is_taken);
        self.early.iter_mut().for_each(abandon);
        let mut heads = Vec::new();
        for (head, ops) in &mut self.objects {
            ops.loading.iter_mut().for_each(|(_, waiting)| abandon(waiting));
            if ops.queue.iter().any(is_its) {
                let (taken, kept): (VecDeque<_>, _) =
                    std::mem::take(&mut ops.queue).into_iter().partition(is_taken);
                dropped.extend(taken);
                ops.queue = kept;
                ops.queue.iter_mut().for_each(abandon);
                heads.push(head.clone());
            }
        }
        let in_flight = self.in_flight.iter_mut().flat_map(|change| &mut change.requests);
        in_flight.for_each(|(waiting, _)| abandon(waiting));
        (dropped, heads)
    }
}
