//! Backoffs: while the PG, or one of its objects, cannot be served without help from outside, clients hold their ops
//! instead of having them wait here.
//!
//! Authority: `PrimaryLogPG::do_request`, `do_op` and `Session::have_backoff` (16.2). A client's ops leave in one
//! stream, so all that it sent before it knew of the backoff comes before its ACK_BLOCK: those ops are
//! dropped, even when the backoff is lifted already, because it sends them again in their order.

use std::collections::BTreeMap;

use codec::Features;
use messages::{BackoffOp, MOSDBackoff};
use types::{HObject, SpgId};

use crate::{Client, Ctx, Effect, Pg, ops::WaitingOp, pg::Phase};

/// How far the client is with a backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It was told to hold.
    Told,
    /// It holds.
    Holds,
    /// It was told to hold and then to go on, and has not said that it held.
    Lifted,
}

/// What a backoff is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Pg,
    /// An object, its clones included.
    Object(HObject),
}

#[derive(Clone, Copy, Debug)]
struct Backoff {
    id: u64,
    state: State,
}

/// The backoffs of a PG, by session.
#[derive(Debug, Default)]
pub(crate) struct Backoffs {
    by_session: BTreeMap<u64, BTreeMap<Scope, Backoff>>,
    last_id: u64,
}

impl Backoffs {
    /// Sessions that have some.
    pub(crate) fn session_count(&self) -> usize {
        self.by_session.len()
    }

    pub(crate) fn on_session_closed(&mut self, session: u64) {
        self.by_session.remove(&session);
    }

    /// The client confirms that it holds.
    pub(crate) fn on_ack(&mut self, session: u64, id: u64) {
        let Some(of_session) = self.by_session.get_mut(&session) else { return };
        of_session.retain(|_, backoff| backoff.id != id || backoff.state != State::Lifted);
        let acked = of_session.values_mut().find(|backoff| backoff.id == id);
        acked.into_iter().for_each(|backoff| backoff.state = State::Holds);
        if of_session.is_empty() {
            self.by_session.remove(&session);
        }
    }
}

impl Pg {
    /// True for a primary that serves again only when the map changes.
    fn must_back_off(&self) -> bool {
        match self.phase {
            Phase::Down => true,
            Phase::WaitUpThru => !self.has_min_size(),
            Phase::Idle
            | Phase::Replica
            | Phase::GetInfo { .. }
            | Phase::GetLog { .. }
            | Phase::WaitActing { .. }
            | Phase::Activating { .. }
            | Phase::Active => false,
        }
    }

    /// True when the client holds its ops of this object, or will know soon that it has to.
    pub(crate) fn is_held_back(&self, waiting: &WaitingOp) -> bool {
        let Some(of_session) = self.backoffs.by_session.get(&waiting.client.session) else { return false };
        let head = waiting.op.head();
        of_session.keys().any(|scope| match scope {
            Scope::Pg => true,
            Scope::Object(object) => *object == head,
        })
    }

    /// An object cannot be served: clients that know of backoffs hold their ops on it.
    pub(crate) fn hold_object(&mut self, head: &HObject, ctx: &mut Ctx<'_>) {
        for op in self.ops.take_queued(head, |waiting| knows_backoffs(&waiting.client)) {
            self.release(&op, ctx);
            self.hold(&op, Scope::Object(head.clone()), ctx);
        }
    }

    /// After every event: tells clients to hold or to go on, as the PG's phase is now.
    pub(crate) fn settle_backoffs(&mut self, ctx: &mut Ctx<'_>) {
        if self.must_back_off() {
            let waiting = self.ops.take_early(|waiting| knows_backoffs(&waiting.client));
            for op in waiting {
                self.release(&op, ctx);
                self.hold(&op, Scope::Pg, ctx);
            }
        }
        if !self.backoffs.by_session.is_empty() {
            self.lift(ctx);
        }
    }

    /// The client of an op that was dropped is to hold it.
    fn hold(&mut self, dropped: &WaitingOp, scope: Scope, ctx: &mut Ctx<'_>) {
        let client = &dropped.client;
        if dropped.is_abandoned {
            // The end of its session has been: a backoff in it would stay.
            return;
        }
        let of_session = self.backoffs.by_session.entry(client.session).or_default();
        if of_session.contains_key(&scope) {
            return;
        }
        self.backoffs.last_id += 1;
        let backoff = Backoff { id: self.backoffs.last_id, state: State::Told };
        of_session.insert(scope.clone(), backoff);
        self.send_backoff(client.session, &scope, backoff.id, BackoffOp::BLOCK, ctx);
    }

    /// Lifts backoffs whose reason is gone.
    fn lift(&mut self, ctx: &mut Ctx<'_>) {
        let mut backoffs = std::mem::take(&mut self.backoffs.by_session);
        for (session, of_session) in &mut backoffs {
            of_session.retain(|scope, backoff| {
                let must_hold = match scope {
                    Scope::Pg => self.must_back_off(),
                    Scope::Object(head) => self.is_unfound(head),
                };
                if must_hold || backoff.state == State::Lifted {
                    return true;
                }
                self.send_backoff(*session, scope, backoff.id, BackoffOp::UNBLOCK, ctx);
                let is_over = backoff.state == State::Holds;
                backoff.state = State::Lifted;
                !is_over
            });
        }
        backoffs.retain(|_, of_session| !of_session.is_empty());
        self.backoffs.by_session = backoffs;
    }

    fn send_backoff(&self, session: u64, scope: &Scope, id: u64, op: BackoffOp, ctx: &mut Ctx<'_>) {
        let (begin, end) = match scope {
            Scope::Pg => HObject::range_of(self.pgid, self.info.pg_num),
            // Both ends the same: that object alone.
            Scope::Object(head) => (head.clone(), head.clone()),
        };
        let pgid = SpgId::replicated(self.pgid);
        let message = MOSDBackoff { pgid, epoch: ctx.map.epoch, op, id, begin, end };
        ctx.effects.push(Effect::Tell(session, message.into()));
    }
}

fn knows_backoffs(client: &Client) -> bool {
    Features(client.features).has(Features::RADOS_BACKOFF)
}
