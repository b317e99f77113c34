//! The client with its connections, over any wire: the same on a reactor and in the simulator.

use std::{collections::BTreeMap, fmt::Debug};

use bytes::Bytes;
use messages::{MWatchNotify, Message};
use net::{Net, NetEvent, NoAuthority, Wire, WireEvent};
use types::{EntityAddrVec, Instant, Token};

use crate::{Client, ClientConfig, CommandReply, Effect, Event, Request, Response, SessionId};

/// What has come of what a client was asked for.
#[derive(Debug)]
pub enum Outcome {
    /// A request has ended.
    Done(Token, Response),
    /// A command has ended.
    CommandDone(CommandReply),
    /// An OSD tells a watcher, or a notifier, of a notification.
    Notified(Box<MWatchNotify>),
}

/// A client with its connections. `C` names a connection of the [`Wire`].
pub struct ConnectedClient<C> {
    client: Client,
    net: Net<C>,
    /// The net's connection of each session.
    links: BTreeMap<SessionId, u64>,
    sessions: BTreeMap<u64, SessionId>,
    /// Kept for their memory.
    events: Vec<NetEvent>,
    effects: Vec<Effect>,
    outcomes: Vec<Outcome>,
    timer: Option<Instant>,
}

impl<C: Copy + Ord + Debug> ConnectedClient<C> {
    /// A client that begins to connect to the monitors at `mons` with its first [`ConnectedClient::tick`].
    pub fn new(config: ClientConfig, mut net: Net<C>, mons: Vec<EntityAddrVec>) -> ConnectedClient<C> {
        net.keep_mon_session(mons);
        ConnectedClient {
            client: Client::new(config),
            net,
            links: BTreeMap::new(),
            sessions: BTreeMap::new(),
            events: Vec::new(),
            effects: Vec::new(),
            outcomes: Vec::new(),
            timer: None,
        }
    }

    /// The machine.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The connections.
    pub fn net(&mut self) -> &mut Net<C> {
        &mut self.net
    }

    /// True for what concerns a connection of this client.
    pub fn owns(&self, conn: C) -> bool {
        self.net.owns(conn)
    }

    /// What has ended, or has come to a watcher, since this was asked last.
    pub fn take_outcomes(&mut self) -> Vec<Outcome> {
        std::mem::take(&mut self.outcomes)
    }

    /// The time at which [`ConnectedClient::on_timer`] is to be called, if that has changed since this was asked last.
    pub fn take_timer(&mut self) -> Option<Instant> {
        self.timer.take()
    }

    /// Starts a request; ends in [`Outcome::Done`] with `token`.
    pub fn submit(&mut self, token: Token, request: Request, wire: &mut impl Wire<Conn = C>) {
        let mut effects = std::mem::take(&mut self.effects);
        self.client.submit(wire.now(), wire.wall(), token, request, &mut effects);
        self.execute(effects, wire);
    }

    /// Lets go of a request, as [`Client::forget`] does.
    pub fn forget(&mut self, token: Token) {
        self.client.forget(token);
    }

    /// Starts a command of JSON; ends in [`Outcome::CommandDone`].
    pub fn command(&mut self, json: String, wire: &mut impl Wire<Conn = C>) {
        let mut effects = std::mem::take(&mut self.effects);
        self.client.command(wire.now(), Token(0), json, Bytes::new(), &mut effects);
        self.execute(effects, wire);
    }

    /// Tells the monitor, once: the message is not repeated if it gets lost.
    pub fn tell_mon(&mut self, message: &Message, wire: &mut impl Wire<Conn = C>) {
        self.net.send_mon(0, message, wire);
    }

    /// Ends all sessions with OSDs. Over new ones everything is sent again that has no answer.
    pub fn close_sessions(&mut self, wire: &mut impl Wire<Conn = C>) {
        self.sessions.clear();
        for (session, link) in std::mem::take(&mut self.links) {
            self.net.close(link, wire);
            self.handle(Event::SessionClosed(session), wire);
        }
    }

    /// True while monitors do not let this client in.
    pub fn is_refused(&self) -> bool {
        self.net.is_refused_by_mon()
    }

    /// Ends the client with all its connections. Requests that have not ended never do.
    pub fn close(self, wire: &mut impl Wire<Conn = C>) {
        self.net.close_all(wire);
    }

    /// Looks after the connections, several times a second.
    pub fn tick(&mut self, wire: &mut impl Wire<Conn = C>) {
        let mut events = std::mem::take(&mut self.events);
        self.net.tick(wire, &mut events);
        self.on_net(events, wire);
    }

    /// The time of [`ConnectedClient::take_timer`] has come.
    pub fn on_timer(&mut self, wire: &mut impl Wire<Conn = C>) {
        self.handle(Event::Timer, wire);
    }

    /// Something happened to a connection of this client.
    pub fn on_wire(&mut self, event: WireEvent<C>, wire: &mut impl Wire<Conn = C>) {
        let mut events = std::mem::take(&mut self.events);
        self.net.on_event(event, wire, &mut NoAuthority, &mut events);
        self.on_net(events, wire);
    }

    fn on_net(&mut self, mut events: Vec<NetEvent>, wire: &mut impl Wire<Conn = C>) {
        for event in events.drain(..) {
            if let Some(event) = self.event_of(event) {
                self.handle(event, wire);
            }
        }
        self.events = events;
    }

    fn event_of(&mut self, event: NetEvent) -> Option<Event> {
        match event {
            NetEvent::MonOpened => Some(Event::MonOpened),
            NetEvent::FromMon(tid, message) => Some(Event::FromMon(tid, message)),
            NetEvent::Opened(link, _) => {
                self.sessions.get(&link).map(|session| Event::SessionOpened(*session))
            }
            NetEvent::Closed(link) => {
                let session = self.sessions.remove(&link)?;
                self.links.remove(&session);
                Some(Event::SessionClosed(session))
            }
            NetEvent::Received(link, tid, message) => {
                self.sessions.get(&link).map(|session| Event::FromOsd(*session, tid, message))
            }
            NetEvent::MonClosed
            | NetEvent::Tickets
            | NetEvent::Secrets(_)
            | NetEvent::FromOsd(..)
            | NetEvent::OsdRefused(_)
            | NetEvent::OsdStuck(_) => None,
        }
    }

    fn handle(&mut self, event: Event, wire: &mut impl Wire<Conn = C>) {
        tracing::trace!(epoch = self.client.map().map(|map| map.epoch.0), ?event);
        let mut effects = std::mem::take(&mut self.effects);
        self.client.handle(wire.now(), event, &mut effects);
        self.execute(effects, wire);
    }

    fn execute(&mut self, mut effects: Vec<Effect>, wire: &mut impl Wire<Conn = C>) {
        let mut undialed = Vec::new();
        for effect in effects.drain(..) {
            if !matches!(effect, Effect::Done(..)) {
                tracing::trace!(?effect);
            }
            match effect {
                Effect::SendMon(tid, message) => self.net.send_mon(tid, &message, wire),
                Effect::Dial(session, addrs) => match self.net.dial(&addrs, wire) {
                    Some(link) => {
                        self.links.insert(session, link);
                        self.sessions.insert(link, session);
                    }
                    None => undialed.push(session),
                },
                Effect::Close(session) => {
                    if let Some(link) = self.links.remove(&session) {
                        self.sessions.remove(&link);
                        self.net.close(link, wire);
                    }
                }
                Effect::Send(session, tid, message) => {
                    if let Some(link) = self.links.get(&session) {
                        self.net.send(*link, tid, &message, wire);
                    }
                }
                Effect::SetTimer(at) => self.timer = Some(at),
                Effect::Done(token, response) => self.outcomes.push(Outcome::Done(token, response)),
                Effect::CommandDone(_, reply) => self.outcomes.push(Outcome::CommandDone(reply)),
                Effect::Notified(notify) => self.outcomes.push(Outcome::Notified(notify)),
            }
        }
        self.effects = effects;
        // What comes of that is newer than all effects above: a timer that it sets is not to be replaced.
        for session in undialed {
            self.handle(Event::SessionClosed(session), wire);
        }
    }
}
