//! A client that does its workload's requests.

use std::{collections::BTreeMap, time::Duration};

use auth::{CryptoKey, TicketKeeper, con_mode, method};
use client::{Client, ClientConfig, CommandReply, Effect, Event, Request, Response, SessionId};
use messages::MPoolOp;
use msgr::Config;
use net::{Net, NetEvent, NoAuthority};
use rand::{Rng, rngs::StdRng};
use types::{EntityAddrVec, EntityName, EntityType, Token};

use crate::{
    network::EndId,
    process::{Cx, Process},
    schedule::What,
};

const TIMER: Token = Token(1);
const NET_TICK: Duration = Duration::from_millis(50);

/// A client that does its workload's requests.
pub(crate) struct ClientProcess {
    pub(crate) client: Client,
    net: Net<EndId>,
    links: BTreeMap<SessionId, u64>,
    sessions: BTreeMap<u64, SessionId>,
    /// What has ended since it was asked last.
    pub(crate) ended: Vec<(Token, Response)>,
    pub(crate) replies: Vec<CommandReply>,
}

impl ClientProcess {
    pub(crate) fn start(
        key: CryptoKey,
        mon: EntityAddrVec,
        addrs: EntityAddrVec,
        rng: &mut StdRng,
        cx: &mut Cx<'_>,
    ) -> ClientProcess {
        let who = EntityName::new(EntityType::CLIENT, "admin");
        let config = Config {
            entity_type: EntityType::CLIENT,
            addrs,
            more_addrs: EntityAddrVec::default(),
            gid: 0,
            methods: vec![method::CEPHX],
            modes: vec![con_mode::CRC],
        };
        let mut net = Net::new(config, Some(TicketKeeper::new(who, key)), rng.random());
        net.keep_mon_session(vec![mon]);
        let config = ClientConfig { hostname: "sim".to_owned(), features: codec::Features::PACIFIC.0 };
        cx.schedule.after(NET_TICK, cx.who, What::NetTick);
        ClientProcess {
            client: Client::new(config),
            net,
            links: BTreeMap::new(),
            sessions: BTreeMap::new(),
            ended: Vec::new(),
            replies: Vec::new(),
        }
    }

    pub(crate) fn submit(&mut self, token: Token, request: Request, cx: &mut Cx<'_>) {
        let mut effects = Vec::new();
        self.client.submit(cx.now(), cx.wall(), token, request, &mut effects);
        self.execute(effects, cx);
    }

    pub(crate) fn command(&mut self, json: String, cx: &mut Cx<'_>) {
        let mut effects = Vec::new();
        self.client.command(cx.now(), Token(0), json, bytes::Bytes::new(), &mut effects);
        self.execute(effects, cx);
    }

    /// Asks the monitor for a change of a pool. The request is not repeated if it gets lost.
    pub(crate) fn pool_op(&mut self, op: MPoolOp, cx: &mut Cx<'_>) {
        self.net.send_mon(0, &op.into(), &mut cx.wire());
    }

    fn on_net(&mut self, events: Vec<NetEvent>, cx: &mut Cx<'_>) {
        for event in events {
            match event {
                NetEvent::MonOpened => self.handle(Event::MonOpened, cx),
                NetEvent::FromMon(tid, message) => self.handle(Event::FromMon(tid, message), cx),
                NetEvent::Opened(link, _) => {
                    if let Some(session) = self.sessions.get(&link) {
                        self.handle(Event::SessionOpened(*session), cx);
                    }
                }
                NetEvent::Closed(link) => {
                    if let Some(session) = self.sessions.remove(&link) {
                        self.links.remove(&session);
                        self.handle(Event::SessionClosed(session), cx);
                    }
                }
                NetEvent::Received(link, tid, message) => {
                    if let Some(session) = self.sessions.get(&link) {
                        self.handle(Event::FromOsd(*session, tid, message), cx);
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

    fn handle(&mut self, event: Event, cx: &mut Cx<'_>) {
        tracing::trace!(who = cx.who.0, epoch = self.client.map().map(|map| map.epoch.0), ?event);
        let mut effects = Vec::new();
        self.client.handle(cx.now(), event, &mut effects);
        self.execute(effects, cx);
    }

    fn execute(&mut self, effects: Vec<Effect>, cx: &mut Cx<'_>) {
        for effect in effects {
            if !matches!(effect, Effect::Done(..)) {
                tracing::trace!(who = cx.who.0, ?effect);
            }
            match effect {
                Effect::SendMon(tid, message) => self.net.send_mon(tid, &message, &mut cx.wire()),
                Effect::Dial(session, addrs) => match self.net.dial(&addrs, &mut cx.wire()) {
                    Some(link) => {
                        self.links.insert(session, link);
                        self.sessions.insert(link, session);
                    }
                    None => self.handle(Event::SessionClosed(session), cx),
                },
                Effect::Close(session) => {
                    if let Some(link) = self.links.remove(&session) {
                        self.sessions.remove(&link);
                        self.net.close(link, &mut cx.wire());
                    }
                }
                Effect::Send(session, tid, message) => {
                    if let Some(link) = self.links.get(&session) {
                        self.net.send(*link, tid, &message, &mut cx.wire());
                    }
                }
                Effect::SetTimer(at) => cx.set_timer(TIMER, at),
                Effect::Done(token, response) => self.ended.push((token, response)),
                Effect::CommandDone(_, reply) => self.replies.push(reply),
                Effect::Notified(_) => {}
            }
        }
    }
}

impl Process for ClientProcess {
    fn on_arrival(&mut self, end: EndId, cx: &mut Cx<'_>) {
        while let Some(event) = cx.network.take(end) {
            let mut out = Vec::new();
            self.net.on_event(event, &mut cx.wire(), &mut NoAuthority, &mut out);
            self.on_net(out, cx);
        }
    }

    fn on_net_tick(&mut self, cx: &mut Cx<'_>) {
        let mut out = Vec::new();
        self.net.tick(&mut cx.wire(), &mut out);
        self.on_net(out, cx);
        cx.schedule.after(NET_TICK, cx.who, What::NetTick);
    }

    fn on_timer(&mut self, _: Token, cx: &mut Cx<'_>) {
        self.handle(Event::Timer, cx);
    }
}
