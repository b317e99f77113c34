//! Runs the `client` machine on a reactor: for the load generator and for tools.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use auth::{Keyring, TicketKeeper, con_mode, method};
use client::{Client, ClientConfig, CommandReply, Effect, Event, Request, Response, SessionId};
use msgr::Config;
use net::{NetEvent, NoAuthority};
use rand::Rng;
use reactor::{Event as IoEvent, Reactor};
use types::{EntityAddrVec, EntityName, EntityType, Instant, Token};

use crate::{
    ceph_conf::CephConf,
    clock,
    cluster::hostname,
    wire::{Net, OnReactor, wire_event},
};

const NET_TIMER: u64 = 1;
const CLIENT_TIMER: u64 = 2;
const NET_TICK: Duration = Duration::from_millis(50);
/// No monitor answers for so long: there is none.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// What has ended.
pub(crate) enum Finished {
    Request(Token, Response),
    Command(CommandReply),
}

/// A client with its reactor.
pub(crate) struct ClientRunner {
    pub(crate) client: Client,
    net: Net,
    reactor: Reactor,
    links: BTreeMap<SessionId, u64>,
    sessions: BTreeMap<u64, SessionId>,
    effects: Vec<Effect>,
    io_events: Vec<IoEvent>,
    finished: Vec<Finished>,
}

/// The client's key: from the keyring that ceph.conf names, or from one of Ceph's usual places.
fn find_keyring(conf: &CephConf, who: &EntityName) -> Result<Keyring> {
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

impl ClientRunner {
    /// Connects `who` to the cluster of `conf`, and waits for its map.
    pub(crate) fn connect(conf: &CephConf, who: &EntityName) -> Result<ClientRunner> {
        let is_none = conf.get(who, "auth client required").is_some_and(|v| v == "none");
        let keeper = if is_none {
            None
        } else {
            let keyring = find_keyring(conf, who)?;
            let key = keyring.0.get(who).with_context(|| format!("the keyring has no {who}"))?.key.clone();
            Some(TicketKeeper::new(who.clone(), key))
        };
        let config = Config {
            entity_type: EntityType::CLIENT,
            addrs: EntityAddrVec::default(),
            more_addrs: EntityAddrVec::default(),
            gid: 0,
            methods: vec![if is_none { method::NONE } else { method::CEPHX }],
            modes: vec![con_mode::CRC, con_mode::SECURE],
        };
        let mut net = Net::new(config, keeper, clock::random_seed());
        let nonce = net.rng().random_range(1..=u32::MAX);
        net.set_addrs(EntityAddrVec::msgr2(([127, 0, 0, 1], 0).into(), nonce));
        net.keep_mon_session(conf.mon_hosts(who)?);
        let config = ClientConfig { hostname: hostname(), features: codec::Features::PACIFIC.0 };
        let mut reactor = Reactor::new(reactor::Config::default())?;
        reactor.set_timer(NET_TIMER, clock::now().0);
        let mut runner = ClientRunner {
            client: Client::new(config),
            net,
            reactor,
            links: BTreeMap::new(),
            sessions: BTreeMap::new(),
            effects: Vec::new(),
            io_events: Vec::new(),
            finished: Vec::new(),
        };
        let start = clock::now();
        while runner.client.map().is_none() {
            if clock::now().since(start) > CONNECT_TIMEOUT {
                bail!("no monitor answers, or the key is wrong");
            }
            runner.turn()?;
        }
        Ok(runner)
    }

    /// Starts a request.
    pub(crate) fn submit(&mut self, token: Token, request: Request) {
        let mut effects = std::mem::take(&mut self.effects);
        self.client.submit(clock::now(), clock::wall(), token, request, &mut effects);
        self.execute(effects);
    }

    /// Runs a command of JSON and waits for its answer.
    pub(crate) fn command(&mut self, json: String) -> Result<CommandReply> {
        let mut effects = std::mem::take(&mut self.effects);
        self.client.command(clock::now(), Token(0), json, bytes::Bytes::new(), &mut effects);
        self.execute(effects);
        loop {
            for finished in self.turn()? {
                if let Finished::Command(reply) = finished {
                    return Ok(reply);
                }
            }
        }
    }

    /// Waits for something to happen; what has ended by then.
    pub(crate) fn turn(&mut self) -> Result<Vec<Finished>> {
        let mut io_events = std::mem::take(&mut self.io_events);
        self.reactor.poll(None, &mut io_events)?;
        for event in io_events.drain(..) {
            self.on_io(event);
        }
        self.io_events = io_events;
        Ok(std::mem::take(&mut self.finished))
    }

    fn on_io(&mut self, event: IoEvent) {
        let mut out = Vec::new();
        match event {
            IoEvent::Timer { token: CLIENT_TIMER } => self.handle(Event::Timer),
            IoEvent::Timer { .. } => {
                self.net.tick(&mut OnReactor(&mut self.reactor), &mut out);
                self.reactor.set_timer(NET_TIMER, (clock::now() + NET_TICK).0);
            }
            event => {
                if let Some(event) = wire_event(event) {
                    self.net.on_event(event, &mut OnReactor(&mut self.reactor), &mut NoAuthority, &mut out);
                }
            }
        }
        for event in out {
            self.on_net(event);
        }
    }

    fn on_net(&mut self, event: NetEvent) {
        match event {
            NetEvent::MonOpened => self.handle(Event::MonOpened),
            NetEvent::FromMon(tid, message) => self.handle(Event::FromMon(tid, message)),
            NetEvent::Opened(link, _) => {
                if let Some(session) = self.sessions.get(&link) {
                    self.handle(Event::SessionOpened(*session));
                }
            }
            NetEvent::Closed(link) => {
                if let Some(session) = self.sessions.remove(&link) {
                    self.links.remove(&session);
                    self.handle(Event::SessionClosed(session));
                }
            }
            NetEvent::Received(link, tid, message) => {
                if let Some(session) = self.sessions.get(&link) {
                    self.handle(Event::FromOsd(*session, tid, message));
                }
            }
            NetEvent::MonClosed | NetEvent::OsdRefused(_) => {}
        }
    }

    fn handle(&mut self, event: Event) {
        let mut effects = std::mem::take(&mut self.effects);
        self.client.handle(clock::now(), event, &mut effects);
        self.execute(effects);
    }

    fn execute(&mut self, mut effects: Vec<Effect>) {
        for effect in effects.drain(..) {
            match effect {
                Effect::SendMon(tid, message) => {
                    self.net.send_mon(tid, &message, &mut OnReactor(&mut self.reactor))
                }
                Effect::Dial(session, addrs) => self.dial(session, &addrs),
                Effect::Close(session) => {
                    if let Some(link) = self.links.remove(&session) {
                        self.sessions.remove(&link);
                        self.net.close(link, &mut OnReactor(&mut self.reactor));
                    }
                }
                Effect::Send(session, tid, message) => {
                    if let Some(link) = self.links.get(&session) {
                        self.net.send(*link, tid, &message, &mut OnReactor(&mut self.reactor));
                    }
                }
                Effect::SetTimer(Instant(at)) => self.reactor.set_timer(CLIENT_TIMER, at),
                Effect::Done(token, response) => self.finished.push(Finished::Request(token, response)),
                Effect::CommandDone(_, reply) => self.finished.push(Finished::Command(reply)),
            }
        }
        self.effects = effects;
    }

    fn dial(&mut self, session: SessionId, addrs: &EntityAddrVec) {
        match self.net.dial(addrs, &mut OnReactor(&mut self.reactor)) {
            Some(link) => {
                self.links.insert(session, link);
                self.sessions.insert(link, session);
            }
            None => self.handle(Event::SessionClosed(session)),
        }
    }
}
