//! Backoffs: while the PG cannot serve for as long as nobody helps it, clients hold their ops instead of
//! having them wait here.
//!
//! Authority: `PrimaryLogPG::do_request` and `Session::have_backoff` (16.2). A client's ops leave in one
//! stream, so all that it sent before it knew of the backoff comes before its ACK_BLOCK: those ops are
//! dropped, even when the backoff is lifted already, because it sends them again in their order.

use std::collections::BTreeMap;

use codec::Features;
use messages::{BackoffOp, MOSDBackoff};
use types::{HObject, SpgId};

use crate::{Client, Ctx, Effect, Pg, pg::Phase};

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

#[derive(Clone, Copy, Debug)]
struct Backoff {
    id: u64,
    state: State,
}

/// The backoffs of a PG, by session.
#[derive(Debug, Default)]
pub(crate) struct Backoffs {
    by_session: BTreeMap<u64, Backoff>,
    last_id: u64,
}

impl Backoffs {
    pub(crate) fn on_session_closed(&mut self, session: u64) {
        self.by_session.remove(&session);
    }

    /// The client confirms that it holds.
    pub(crate) fn on_ack(&mut self, session: u64, id: u64) {
        match self.by_session.get_mut(&session).filter(|backoff| backoff.id == id) {
            Some(Backoff { state: State::Lifted, .. }) => {
                self.by_session.remove(&session);
            }
            Some(backoff) => backoff.state = State::Holds,
            None => {}
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
            | Phase::Activating { .. }
            | Phase::Active => false,
        }
    }

    /// True when the op's client holds its ops, or will know soon that it has to.
    pub(crate) fn is_held_back(&self, client: &Client) -> bool {
        self.backoffs.by_session.contains_key(&client.session)
    }

    /// After every event: tells clients to hold or to go on, as the PG's phase is now.
    pub(crate) fn settle_backoffs(&mut self, cx: &mut Ctx<'_>) {
        if self.must_back_off() {
            let waiting = self.ops.take_early(|waiting| knows_backoffs(&waiting.client));
            for op in waiting {
                self.release(&op, cx);
                self.hold(&op.client, cx);
            }
        } else if !self.backoffs.by_session.is_empty() {
            self.lift(cx);
        }
    }

    fn hold(&mut self, client: &Client, cx: &mut Ctx<'_>) {
        if self.is_held_back(client) {
            return;
        }
        self.backoffs.last_id += 1;
        let backoff = Backoff { id: self.backoffs.last_id, state: State::Told };
        self.backoffs.by_session.insert(client.session, backoff);
        self.send_backoff(client.session, backoff.id, BackoffOp::BLOCK, cx);
    }

    fn lift(&mut self, cx: &mut Ctx<'_>) {
        let mut backoffs = std::mem::take(&mut self.backoffs.by_session);
        for (session, backoff) in &mut backoffs {
            if backoff.state != State::Lifted {
                self.send_backoff(*session, backoff.id, BackoffOp::UNBLOCK, cx);
            }
        }
        backoffs.retain(|_, backoff| backoff.state != State::Holds);
        backoffs.values_mut().for_each(|backoff| backoff.state = State::Lifted);
        self.backoffs.by_session = backoffs;
    }

    fn send_backoff(&self, session: u64, id: u64, op: BackoffOp, cx: &mut Ctx<'_>) {
        let (begin, end) = HObject::range_of(self.pgid, self.info.pg_num);
        let pgid = SpgId::replicated(self.pgid);
        let message = MOSDBackoff { pgid, epoch: cx.map.epoch, op, id, begin, end };
        cx.effects.push(Effect::Tell(session, message.into()));
    }
}

fn knows_backoffs(client: &Client) -> bool {
    Features(client.features).has(Features::RADOS_BACKOFF)
}
