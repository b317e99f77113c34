//! The client as a whole: its state, and which part handles what.

use std::collections::BTreeMap;

use messages::Message;
use types::{Epoch, Instant, OsdId, OsdMap, Token, UTime};

use crate::{
    Effect, Event, Request, SessionId, commands::PendingCommand, maps::MapWish, places::Places,
    requests::InFlight, sessions::Session,
};

/// Fixed properties of a client.
#[derive(Clone, Debug, Default)]
pub struct ClientConfig {
    /// Its machine's name, for the monitor.
    pub hostname: String,
    /// Message features that it claims.
    pub features: u64,
}

/// A RADOS client. Feed it events with [`Client::handle`], requests with [`Client::submit`]; it answers
/// with effects. Requests on one object reach its PG in the order of their submission.
pub struct Client {
    pub(crate) config: ClientConfig,
    /// None until the monitor sent one.
    pub(crate) map: Option<OsdMap>,
    pub(crate) places: Places,
    pub(crate) requests: BTreeMap<u64, InFlight>,
    pub(crate) sessions: BTreeMap<OsdId, Session>,
    pub(crate) commands: BTreeMap<u64, PendingCommand>,
    /// Requests whose pool is not in the map, by the question how new the map is.
    pub(crate) pool_checks: BTreeMap<u64, u64>,
    pub(crate) next_tid: u64,
    pub(crate) next_session: u64,
    pub(crate) map_wish: MapWish,
    /// When [`Event::Timer`] is to come.
    timer: Option<Instant>,
    pub(crate) replica_answers: u64,
}

/// What every handler gets.
pub(crate) struct Ctx<'a> {
    pub(crate) now: Instant,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl Client {
    /// A client without a map.
    pub fn new(config: ClientConfig) -> Client {
        Client {
            config,
            map: None,
            places: Places::default(),
            requests: BTreeMap::new(),
            sessions: BTreeMap::new(),
            commands: BTreeMap::new(),
            pool_checks: BTreeMap::new(),
            next_tid: 1,
            next_session: 1,
            map_wish: MapWish::default(),
            timer: None,
            replica_answers: 0,
        }
    }

    /// The newest map, once there is one.
    pub fn map(&self) -> Option<&OsdMap> {
        self.map.as_ref()
    }

    /// Requests that have not ended.
    pub fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Requests that others than primaries answered.
    pub fn replica_answers(&self) -> u64 {
        self.replica_answers
    }

    /// Starts a request; ends in [`Effect::Done`] with `token`.
    pub fn submit(
        &mut self,
        now: Instant,
        wall: UTime,
        token: Token,
        request: Request,
        effects: &mut Vec<Effect>,
    ) {
        let tid = self.take_tid();
        self.requests.insert(tid, InFlight::new(token, wall, request));
        self.place(tid, &mut Ctx { now, effects });
    }

    /// Lets go of a request: it is sent no more, and does not end. An OSD that was sent it may still carry it out.
    pub fn forget(&mut self, token: Token) {
        self.requests.retain(|_, flying| flying.token != token);
    }

    /// Handles one event.
    pub fn handle(&mut self, now: Instant, event: Event, effects: &mut Vec<Effect>) {
        let ctx = &mut Ctx { now, effects };
        match event {
            Event::MonOpened => self.on_mon_opened(ctx),
            Event::FromMon(tid, message) => self.on_mon(tid, message, ctx),
            Event::SessionOpened(id) => self.on_session_opened(id, ctx),
            Event::SessionClosed(id) => self.on_session_closed(id, ctx),
            Event::FromOsd(id, tid, message) => self.on_osd(id, tid, message, ctx),
            Event::Timer => self.on_timer(ctx),
        }
    }

    /// Has the timer come at `at`, if it does not come before that anyway.
    pub(crate) fn wake_at(&mut self, at: Instant, ctx: &mut Ctx<'_>) {
        if self.timer.is_none_or(|timer| at < timer) {
            self.timer = Some(at);
            ctx.effects.push(Effect::SetTimer(at));
        }
    }

    fn on_timer(&mut self, ctx: &mut Ctx<'_>) {
        self.timer = None;
        self.redial(ctx);
        self.ask_again_for_maps(ctx);
    }

    pub(crate) fn take_tid(&mut self) -> u64 {
        self.next_tid += 1;
        self.next_tid - 1
    }

    /// Epoch of the newest map, 0 without one.
    pub(crate) fn epoch(&self) -> Epoch {
        self.map.as_ref().map_or(Epoch(0), |map| map.epoch)
    }

    fn on_mon_opened(&mut self, ctx: &mut Ctx<'_>) {
        self.subscribe(ctx);
        self.resend_commands(ctx);
        let checks: Vec<u64> = self.pool_checks.keys().copied().collect();
        for check in checks {
            self.ask_version(check, ctx);
        }
    }

    fn on_mon(&mut self, tid: u64, message: Message, ctx: &mut Ctx<'_>) {
        match message {
            Message::MOSDMap(maps) => self.on_maps(&maps, ctx),
            Message::MMonCommandAck(ack) => self.on_command_ack(tid, *ack, ctx),
            Message::MMonGetVersionReply(reply) => self.on_version(*reply, ctx),
            other => tracing::debug!(message = other.name(), "the monitor says what is of no use here"),
        }
    }

    fn on_osd(&mut self, id: SessionId, tid: u64, message: Message, ctx: &mut Ctx<'_>) {
        match message {
            Message::MOSDOpReply(reply) => self.on_reply(id, tid, *reply, ctx),
            Message::MOSDMap(maps) => self.on_maps(&maps, ctx),
            Message::MOSDBackoff(backoff) => self.on_backoff(id, *backoff, ctx),
            Message::MWatchNotify(notify) => ctx.effects.push(Effect::Notified(notify)),
            other => tracing::debug!(message = other.name(), "an OSD says what is of no use here"),
        }
    }
}
