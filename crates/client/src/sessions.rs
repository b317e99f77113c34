//! Connections to OSDs: dialed when a request needs one, dialed again when lost, dropped with the OSD.

use std::{collections::BTreeMap, time::Duration};

use messages::{BackoffOp, MOSDBackoff};
use types::{EntityAddrVec, HObject, Instant, OsdId, PgId};

use crate::{Client, Effect, SessionId, machine::Ctx};

/// An OSD that refused or closed a connection is dialed again after this time.
pub const REDIAL_AFTER: Duration = Duration::from_millis(200);

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Dialing,
    Open,
    Lost { redial_at: Instant },
}

/// The connection to an OSD.
pub(crate) struct Session {
    id: SessionId,
    addrs: EntityAddrVec,
    state: State,
    /// What the OSD asked to leave alone: of a PG, by the backoff's id.
    backoffs: BTreeMap<(PgId, u64), Held>,
}

/// Objects from one to before another; that one alone if both are the same.
struct Held {
    begin: HObject,
    end: HObject,
}

impl Held {
    fn contains(&self, object: &HObject) -> bool {
        *object == self.begin || (self.begin < *object && *object < self.end)
    }
}

impl Client {
    /// The open connection to `osd`; none while it is being made, which this sees to.
    pub(crate) fn session_to(&mut self, osd: OsdId, ctx: &mut Ctx<'_>) -> Option<SessionId> {
        if let Some(session) = self.sessions.get(&osd) {
            return (session.state == State::Open).then_some(session.id);
        }
        let addrs = self.map.as_ref()?.osd_addrs(osd)?.clone();
        let id = SessionId(self.next_session);
        self.next_session += 1;
        ctx.effects.push(Effect::Dial(id, addrs.clone()));
        let session = Session { id, addrs, state: State::Dialing, backoffs: BTreeMap::new() };
        self.sessions.insert(osd, session);
        None
    }

    /// True when the OSD asked to hold requests to an object of `pg`.
    pub(crate) fn is_backed_off(&self, osd: OsdId, pg: PgId, object: &HObject) -> bool {
        let Some(session) = self.sessions.get(&osd) else { return false };
        let mut of_pg = session.backoffs.range((pg, 0)..=(pg, u64::MAX));
        of_pg.any(|(_, held)| held.contains(object))
    }

    fn osd_of(&self, id: SessionId) -> Option<OsdId> {
        self.sessions.iter().find(|(_, session)| session.id == id).map(|(osd, _)| *osd)
    }

    pub(crate) fn is_open(&self, id: SessionId, osd: OsdId) -> bool {
        self.sessions.get(&osd).is_some_and(|session| session.id == id)
    }

    pub(crate) fn on_session_opened(&mut self, id: SessionId, ctx: &mut Ctx<'_>) {
        let Some(osd) = self.osd_of(id) else { return };
        if let Some(session) = self.sessions.get_mut(&osd) {
            session.state = State::Open;
        }
        self.resend_to(osd, ctx);
    }

    pub(crate) fn on_session_closed(&mut self, id: SessionId, ctx: &mut Ctx<'_>) {
        let Some(osd) = self.osd_of(id) else { return };
        let redial_at = ctx.now + REDIAL_AFTER;
        if let Some(session) = self.sessions.get_mut(&osd) {
            session.state = State::Lost { redial_at };
            session.backoffs.clear();
        }
        self.wake_at(redial_at, ctx);
    }

    /// Forgets lost connections whose time has come, and dials those that requests wait for.
    pub(crate) fn redial(&mut self, ctx: &mut Ctx<'_>) {
        let mut due = Vec::new();
        let mut next: Option<Instant> = None;
        for (osd, session) in &self.sessions {
            match session.state {
                State::Lost { redial_at } if redial_at <= ctx.now => due.push(*osd),
                State::Lost { redial_at } => next = Some(next.map_or(redial_at, |at| at.min(redial_at))),
                State::Dialing | State::Open => {}
            }
        }
        for osd in due {
            self.sessions.remove(&osd);
            self.resend_to(osd, ctx);
        }
        if let Some(at) = next {
            self.wake_at(at, ctx);
        }
    }

    /// Ends connections to OSDs that are down or have moved.
    pub(crate) fn drop_dead_sessions(&mut self, ctx: &mut Ctx<'_>) {
        let Some(map) = &self.map else { return };
        let is_dead = |osd: OsdId, session: &Session| {
            !map.is_up(osd) || map.osd_addrs(osd).is_none_or(|addrs| *addrs != session.addrs)
        };
        let dead: Vec<OsdId> = self
            .sessions
            .iter()
            .filter(|(osd, session)| is_dead(**osd, session))
            .map(|(osd, _)| *osd)
            .collect();
        for osd in dead {
            if let Some(session) = self.sessions.remove(&osd) {
                ctx.effects.push(Effect::Close(session.id));
            }
        }
    }

    /// An OSD asks to hold or to go on with the requests to some objects of a PG.
    pub(crate) fn on_backoff(&mut self, id: SessionId, message: MOSDBackoff, ctx: &mut Ctx<'_>) {
        let Some(osd) = self.osd_of(id) else { return };
        let Some(session) = self.sessions.get_mut(&osd) else { return };
        let pg = message.pgid.pg;
        match message.op {
            BackoffOp::BLOCK => {
                let held = Held { begin: message.begin.clone(), end: message.end.clone() };
                session.backoffs.insert((pg, message.id), held);
                let ack = MOSDBackoff { op: BackoffOp::ACK_BLOCK, ..message };
                ctx.effects.push(Effect::Send(id, 0, ack.into()));
            }
            BackoffOp::UNBLOCK => {
                if let Some(held) = session.backoffs.remove(&(pg, message.id)) {
                    self.resend_of_pg(osd, pg, |object| held.contains(object), ctx);
                }
            }
            _ => {}
        }
    }
}
