//! A client that does its workload's requests.

use std::time::Duration;

use auth::{CryptoKey, TicketKeeper, con_mode, method};
use client::{ClientConfig, ConnectedClient, Outcome, Request};
use messages::MPoolOp;
use msgr::Config;
use net::Net;
use rand::{Rng, rngs::StdRng};
use types::{EntityAddrVec, EntityName, EntityType, OsdMap, Token};

use crate::{
    network::{EndId, SimWire},
    process::{Ctx, Process},
    schedule::Scheduled,
};

const TIMER: Token = Token(1);
const NET_TICK: Duration = Duration::from_millis(50);

/// A client that does its workload's requests.
pub(crate) struct ClientProcess {
    client: ConnectedClient<EndId>,
    key: CryptoKey,
}

impl ClientProcess {
    pub(crate) fn start(
        key: CryptoKey,
        mon: EntityAddrVec,
        addrs: EntityAddrVec,
        rng: &mut StdRng,
        ctx: &mut Ctx<'_>,
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
        let net = Net::new(config, Some(TicketKeeper::new(who, key.clone())), rng.random());
        let config = ClientConfig { hostname: "sim".to_owned(), features: codec::Features::PACIFIC.0 };
        ctx.schedule.after(NET_TICK, ctx.who, Scheduled::NetTick);
        ClientProcess { client: ConnectedClient::new(config, net, vec![mon]), key }
    }

    /// With which it has proved who it is.
    pub(crate) fn key(&self) -> &CryptoKey {
        &self.key
    }

    /// The newest map, once there is one.
    pub(crate) fn map(&self) -> Option<&OsdMap> {
        self.client.client().map()
    }

    pub(crate) fn submit(&mut self, token: Token, request: Request, ctx: &mut Ctx<'_>) {
        self.act(ctx, |client, wire| client.submit(token, request, wire));
    }

    pub(crate) fn command(&mut self, json: String, ctx: &mut Ctx<'_>) {
        self.act(ctx, |client, wire| client.command(json, wire));
    }

    /// Asks the monitor for a change of a pool. The request is not repeated if it gets lost.
    pub(crate) fn pool_op(&mut self, op: MPoolOp, ctx: &mut Ctx<'_>) {
        self.act(ctx, |client, wire| client.tell_mon(&op.into(), wire));
    }

    /// Requests that others than primaries answered.
    pub(crate) fn replica_answers(&self) -> u64 {
        self.client.client().replica_answers()
    }

    /// What has ended since it was asked last.
    pub(crate) fn take_outcomes(&mut self) -> Vec<Outcome> {
        self.client.take_outcomes()
    }

    fn act(&mut self, ctx: &mut Ctx<'_>, act: impl FnOnce(&mut ConnectedClient<EndId>, &mut SimWire<'_>)) {
        act(&mut self.client, &mut ctx.wire());
        if let Some(at) = self.client.take_timer() {
            ctx.set_timer(TIMER, at);
        }
    }
}

impl Process for ClientProcess {
    fn on_arrival(&mut self, end: EndId, ctx: &mut Ctx<'_>) {
        while let Some(event) = ctx.network.take(end) {
            self.act(ctx, |client, wire| client.on_wire(event, wire));
        }
    }

    fn on_net_tick(&mut self, ctx: &mut Ctx<'_>) {
        self.act(ctx, |client, wire| client.tick(wire));
        ctx.schedule.after(NET_TICK, ctx.who, Scheduled::NetTick);
    }

    fn on_timer(&mut self, _: Token, ctx: &mut Ctx<'_>) {
        self.act(ctx, |client, wire| client.on_timer(wire));
    }
}
