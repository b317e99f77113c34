//! The `client` machine with its connections, on a reactor that its caller owns.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, Result};
use auth::{Keyring, TicketKeeper, con_mode, method};
use client::{Client, ClientConfig, CommandReply, Effect, Event, Request, Response, SessionId};
use messages::MWatchNotify;
use msgr::Config;
use net::{NetEvent, NoAuthority, WireEvent};
use rand::Rng;
use reactor::{ConnId, Reactor};
use types::{EntityAddrVec, EntityName, EntityType, Instant, Token};

use crate::{
    ceph_conf::CephConf,
    clock,
    cluster::hostname,
    wire::{Net, OnReactor},
};

/// What has ended, or has come to a watcher.
pub(crate) enum Finished {
    Request(Token, Response),
    Command(CommandReply),
    Notified(Box<MWatchNotify>),
}

/// A `client` machine with its connections.
pub(crate) struct ClientIo {
    pub(crate) client: Client,
    net: Net,
    addrs: EntityAddrVec,
    /// The reactor's timer that is the client's.
    timer: u64,
    links: BTreeMap<SessionId, u64>,
    sessions: BTreeMap<u64, SessionId>,
    effects: Vec<Effect>,
    finished: Vec<Finished>,
}

/// The client's key: from the keyring that ceph.conf names, or from one of Ceph's usual places.
pub(crate) fn find_keyring(conf: &CephConf, who: &EntityName) -> Result<Keyring> {
    let usual = [format!("/etc/ceph/ceph.{who}.keyring"), "/etc/ceph/ceph.keyring".to_owned()];
    let named = conf.get(who, "keyring").map(PathBuf::from);
    let path = named
        .into_iter()
        .chain(usual.map(PathBuf::from))
        .find(|path| path.exists())
        .with_context(|| format!("no keyring for {who}: name one in ceph.conf"))?;
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Keyring::parse(&text).with_context(|| path.display().to_string())
}

/// Takes an address that nobody had before.
fn new_addrs(net: &mut Net) -> EntityAddrVec {
    let nonce = net.rng().random_range(1..=u32::MAX);
    let addrs = EntityAddrVec::msgr2(([127, 0, 0, 1], 0).into(), nonce);
    net.set_addrs(addrs.clone());
    addrs
}

impl ClientIo {
    /// A client that begins to connect to the monitors at `hosts`; without a keeper of tickets it gives its name and
    /// proves nothing. `timer` is a timer of the reactor that nobody else uses.
    pub(crate) fn new(
        hosts: Vec<EntityAddrVec>,
        kind: EntityType,
        keeper: Option<TicketKeeper>,
        timer: u64,
    ) -> ClientIo {
        let config = Config {
            entity_type: kind,
            addrs: EntityAddrVec::default(),
            more_addrs: EntityAddrVec::default(),
            gid: 0,
            methods: vec![if keeper.is_none() { method::NONE } else { method::CEPHX }],
            modes: vec![con_mode::CRC, con_mode::SECURE],
        };
        let mut net = Net::new(config, keeper, clock::random_seed());
        let addrs = new_addrs(&mut net);
        net.keep_mon_session(hosts);
        let config = ClientConfig { hostname: hostname(), features: codec::Features::PACIFIC.0 };
        ClientIo {
            client: Client::new(config),
            net,
            addrs,
            timer,
            links: BTreeMap::new(),
            sessions: BTreeMap::new(),
            effects: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// As what OSDs know this client.
    pub(crate) fn addrs(&self) -> &EntityAddrVec {
        &self.addrs
    }

    /// Goes on under another address, as OSDs refuse this one for good: with new sessions to them, over which
    /// everything is sent again that has no answer.
    pub(crate) fn change_addrs(&mut self, reactor: &mut Reactor) {
        self.addrs = new_addrs(&mut self.net);
        self.sessions.clear();
        for (session, link) in std::mem::take(&mut self.links) {
            self.net.close(link, &mut OnReactor(reactor));
            self.handle(Event::SessionClosed(session), reactor);
        }
    }

    /// Starts a request.
    pub(crate) fn submit(&mut self, token: Token, request: Request, reactor: &mut Reactor) {
        let mut effects = std::mem::take(&mut self.effects);
        self.client.submit(clock::now(), clock::wall(), token, request, &mut effects);
        self.execute(effects, reactor);
    }

    /// Starts a command of JSON.
    pub(crate) fn command(&mut self, json: String, reactor: &mut Reactor) {
        let mut effects = std::mem::take(&mut self.effects);
        self.client.command(clock::now(), Token(0), json, bytes::Bytes::new(), &mut effects);
        self.execute(effects, reactor);
    }

    /// What has ended since.
    pub(crate) fn take_finished(&mut self) -> Vec<Finished> {
        std::mem::take(&mut self.finished)
    }

    /// True for what concerns a connection of this client.
    pub(crate) fn owns(&self, conn: ConnId) -> bool {
        self.net.owns(conn)
    }

    /// Several times a second.
    pub(crate) fn tick(&mut self, reactor: &mut Reactor) {
        let mut out = Vec::new();
        self.net.tick(&mut OnReactor(reactor), &mut out);
        self.on_net(out, reactor);
    }

    /// The client's timer rang.
    pub(crate) fn on_timer(&mut self, reactor: &mut Reactor) {
        self.handle(Event::Timer, reactor);
    }

    /// Something happened to a connection of this client.
    pub(crate) fn on_event(&mut self, event: WireEvent<ConnId>, reactor: &mut Reactor) {
        let mut out = Vec::new();
        self.net.on_event(event, &mut OnReactor(reactor), &mut NoAuthority, &mut out);
        self.on_net(out, reactor);
    }

    fn on_net(&mut self, events: Vec<NetEvent>, reactor: &mut Reactor) {
        for event in events {
            match event {
                NetEvent::MonOpened => self.handle(Event::MonOpened, reactor),
                NetEvent::FromMon(tid, message) => self.handle(Event::FromMon(tid, message), reactor),
                NetEvent::Opened(link, _) => {
                    if let Some(session) = self.sessions.get(&link) {
                        self.handle(Event::SessionOpened(*session), reactor);
                    }
                }
                NetEvent::Closed(link) => {
                    if let Some(session) = self.sessions.remove(&link) {
                        self.links.remove(&session);
                        self.handle(Event::SessionClosed(session), reactor);
                    }
                }
                NetEvent::Received(link, tid, message) => {
                    if let Some(session) = self.sessions.get(&link) {
                        self.handle(Event::FromOsd(*session, tid, message), reactor);
                    }
                }
                NetEvent::MonClosed
                | NetEvent::Tickets
                | NetEvent::Secrets(_)
                | NetEvent::FromOsd(..)
                | NetEvent::OsdRefused(_)
                | NetEvent::OsdStuck(_) => {}
            }
        }
    }

    fn handle(&mut self, event: Event, reactor: &mut Reactor) {
        let mut effects = std::mem::take(&mut self.effects);
        self.client.handle(clock::now(), event, &mut effects);
        self.execute(effects, reactor);
    }

    fn execute(&mut self, mut effects: Vec<Effect>, reactor: &mut Reactor) {
        for effect in effects.drain(..) {
            match effect {
                Effect::SendMon(tid, message) => {
                    self.net.send_mon(tid, &message, &mut OnReactor(reactor));
                }
                Effect::Dial(session, addrs) => self.dial(session, &addrs, reactor),
                Effect::Close(session) => {
                    if let Some(link) = self.links.remove(&session) {
                        self.sessions.remove(&link);
                        self.net.close(link, &mut OnReactor(reactor));
                    }
                }
                Effect::Send(session, tid, message) => {
                    if let Some(link) = self.links.get(&session) {
                        self.net.send(*link, tid, &message, &mut OnReactor(reactor));
                    }
                }
                Effect::SetTimer(Instant(at)) => reactor.set_timer(self.timer, at),
                Effect::Done(token, response) => self.finished.push(Finished::Request(token, response)),
                Effect::CommandDone(_, reply) => self.finished.push(Finished::Command(reply)),
                Effect::Notified(notify) => self.finished.push(Finished::Notified(notify)),
            }
        }
        self.effects = effects;
    }

    fn dial(&mut self, session: SessionId, addrs: &EntityAddrVec, reactor: &mut Reactor) {
        match self.net.dial(addrs, &mut OnReactor(reactor)) {
            Some(link) => {
                self.links.insert(session, link);
                self.sessions.insert(link, session);
            }
            None => self.handle(Event::SessionClosed(session), reactor),
        }
    }
}
