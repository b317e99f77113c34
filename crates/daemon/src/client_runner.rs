//! Runs the `client` machine on a reactor of its own: for the load generator and for tools.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use client::{Client, CommandReply, Outcome, Request, Response};
use messages::MWatchNotify;
use reactor::{Event as IoEvent, Reactor};
use types::{EntityName, Instant, Token};

use crate::{
    ceph_conf::CephConf,
    client_io::{ClientIo, find_keyring},
    clock,
    wire::wire_event,
};

const NET_TIMER: u64 = 1;
const CLIENT_TIMER: u64 = 2;
const WAKE_TIMER: u64 = 3;
const NET_TICK: Duration = Duration::from_millis(50);
/// No monitor answers for so long: there is none.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// A client with its reactor.
pub struct ClientRunner {
    io: ClientIo,
    reactor: Reactor,
    io_events: Vec<IoEvent>,
    /// Of [`ClientRunner::request`].
    last_token: u64,
    notified: Vec<MWatchNotify>,
    has_signal: bool,
}

impl ClientRunner {
    /// Connects `who` to the cluster of `conf`, and waits for its map.
    pub fn connect(conf: &CephConf, who: &EntityName) -> Result<ClientRunner> {
        ClientRunner::connect_with(conf, who, reactor::Config::default())
    }

    /// The same in a process that blocks signals, which [`ClientRunner::take_signal`] tells of; one ends the wait.
    pub(crate) fn connect_until_signal(conf: &CephConf, who: &EntityName) -> Result<ClientRunner> {
        ClientRunner::connect_with(conf, who, reactor::Config { signals: true, ..Default::default() })
    }

    fn connect_with(conf: &CephConf, who: &EntityName, config: reactor::Config) -> Result<ClientRunner> {
        let key = if conf.is_auth_none(who)? {
            None
        } else {
            let keyring = find_keyring(conf, who)?;
            Some(keyring.0.get(who).with_context(|| format!("the keyring has no {who}"))?.key.clone())
        };
        let mut reactor = Reactor::new(config)?;
        reactor.set_timer(NET_TIMER, clock::now().0);
        let io = ClientIo::new(conf.mon_hosts(who)?, who.clone(), key, CLIENT_TIMER);
        let (io_events, notified) = (Vec::new(), Vec::new());
        let mut runner = ClientRunner { io, reactor, io_events, last_token: 0, notified, has_signal: false };
        let start = clock::now();
        while runner.client().map().is_none() {
            if clock::now().since(start) > CONNECT_TIMEOUT {
                bail!("no monitor answers, or the key is wrong");
            }
            runner.turn()?;
            if runner.take_signal() {
                bail!("interrupted");
            }
        }
        Ok(runner)
    }

    /// The machine.
    pub fn client(&self) -> &Client {
        self.io.client()
    }

    /// Starts a request.
    pub(crate) fn submit(&mut self, token: Token, request: Request) {
        self.io.submit(token, request, &mut self.reactor);
    }

    /// Runs a command of JSON and waits for its answer.
    pub fn command(&mut self, json: String) -> Result<CommandReply> {
        self.io.command(json, &mut self.reactor);
        let reply = |outcome| match outcome {
            Outcome::CommandDone(reply) => Some(reply),
            _ => None,
        };
        self.wait_for(reply, Duration::MAX)?.context("no answer")
    }

    /// Runs a request and waits for its answer; none if there is none in that time. The request is not sent any more
    /// then, though an OSD that was sent it may still carry it out.
    pub fn request(&mut self, request: Request, patience: Duration) -> Result<Option<Response>> {
        self.last_token += 1;
        let token = Token(self.last_token);
        self.submit(token, request);
        let response = |outcome| match outcome {
            Outcome::Done(done, response) if done == token => Some(response),
            _ => None,
        };
        let found = self.wait_for(response, patience)?;
        if found.is_none() {
            self.io.forget(token);
        }
        Ok(found)
    }

    /// Waits for one outcome, for so long; what else ends meanwhile is dropped.
    fn wait_for<T>(
        &mut self,
        wanted: impl Fn(Outcome) -> Option<T>,
        patience: Duration,
    ) -> Result<Option<T>> {
        let start = clock::now();
        while clock::now().since(start) <= patience {
            if let Some(found) = self.turn()?.into_iter().find_map(&wanted) {
                return Ok(Some(found));
            }
            if self.has_signal {
                bail!("interrupted");
            }
        }
        Ok(None)
    }

    /// Waits for a new map of the cluster, or for no longer than a moment.
    pub fn wait(&mut self) -> Result<()> {
        self.turn().map(drop)
    }

    /// What came to watchers and notifiers since this was asked last.
    pub fn take_notified(&mut self) -> Vec<MWatchNotify> {
        std::mem::take(&mut self.notified)
    }

    /// True once for a signal that asked the process to end.
    pub(crate) fn take_signal(&mut self) -> bool {
        std::mem::take(&mut self.has_signal)
    }

    /// Waits for something to happen; what has ended by then.
    pub(crate) fn turn(&mut self) -> Result<Vec<Outcome>> {
        let mut io_events = std::mem::take(&mut self.io_events);
        self.reactor.poll(None, &mut io_events)?;
        for event in io_events.drain(..) {
            match event {
                IoEvent::Timer { token: CLIENT_TIMER } => self.io.on_timer(&mut self.reactor),
                IoEvent::Timer { token: WAKE_TIMER } => {}
                IoEvent::Timer { .. } => {
                    self.io.tick(&mut self.reactor);
                    self.reactor.set_timer(NET_TIMER, (clock::now() + NET_TICK).0);
                }
                IoEvent::Signal(_) => self.has_signal = true,
                event => {
                    if let Some(event) = wire_event(event) {
                        self.io.on_event(event, &mut self.reactor);
                    }
                }
            }
        }
        self.io_events = io_events;
        let (mut ended, mut notified) = (Vec::new(), Vec::new());
        for outcome in self.io.take_outcomes() {
            match outcome {
                Outcome::Notified(notify) => notified.push(*notify),
                other => ended.push(other),
            }
        }
        self.notified.append(&mut notified);
        Ok(ended)
    }

    /// Like [`ClientRunner::turn`], but waits no longer than until `at`.
    pub(crate) fn turn_until(&mut self, at: Instant) -> Result<Vec<Outcome>> {
        self.reactor.set_timer(WAKE_TIMER, at.0);
        self.turn()
    }
}
