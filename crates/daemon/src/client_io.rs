//! The client with its connections, on a reactor that its caller owns.

use std::path::PathBuf;

use anyhow::{Context, Result};
use auth::{CryptoKey, Keyring, TicketKeeper, con_mode, method};
use client::{Client, ClientConfig, ConnectedClient, Outcome, Request};
use msgr::Config;
use net::WireEvent;
use rand::{Rng, SeedableRng, rngs::StdRng};
use reactor::{ConnId, Reactor};
use types::{EntityAddrVec, EntityName, EntityType, Instant, KeyType, Token};

use crate::{
    ceph_conf::CephConf,
    clock,
    host::hostname,
    wire::{Net, OnReactor},
};

/// A client with its connections, on a reactor.
pub(crate) struct ClientIo {
    client: ConnectedClient<ConnId>,
    addrs: EntityAddrVec,
    /// The reactor's timer that is the client's.
    timer: u64,
}

/// The client's key: from the keyring that ceph.conf names, or from one of Ceph's usual places if it names none.
pub(crate) fn find_keyring(conf: &CephConf, who: &EntityName) -> Result<Keyring> {
    let usual = || [format!("/etc/ceph/ceph.{who}.keyring"), "/etc/ceph/ceph.keyring".to_owned()];
    let paths = conf.keyrings(who).unwrap_or_else(|| usual().map(PathBuf::from).into());
    let path = paths.iter().find(|path| path.exists()).with_context(|| {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        format!("no keyring for {who}: {} is not there; ceph.conf names it by `keyring`", paths.join(" or "))
    })?;
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
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
    /// A client that begins to connect to the monitors at `hosts`; without a key it gives its name and proves nothing.
    /// `timer` is a timer of the reactor that nobody else uses.
    pub(crate) fn new(
        hosts: Vec<EntityAddrVec>,
        who: EntityName,
        key: Option<CryptoKey>,
        timer: u64,
    ) -> ClientIo {
        let config = Config {
            entity_type: EntityType::CLIENT,
            addrs: EntityAddrVec::default(),
            more_addrs: EntityAddrVec::default(),
            gid: 0,
            methods: vec![if key.is_none() { method::NONE } else { method::CEPHX }],
            modes: vec![con_mode::CRC, con_mode::SECURE],
        };
        // Where nothing is proved, it is the keeper that has the id that the monitors give.
        let any_key =
            || CryptoKey::generate(KeyType::Aes, clock::wall(), &mut StdRng::from_seed(clock::random_seed()));
        let keeper = TicketKeeper::new(who, key.unwrap_or_else(any_key));
        let mut net = Net::new(config, Some(keeper), clock::random_seed());
        let addrs = new_addrs(&mut net);
        let config = ClientConfig { hostname: hostname(), features: codec::Features::PACIFIC.0 };
        ClientIo { client: ConnectedClient::new(config, net, hosts), addrs, timer }
    }

    /// The machine.
    pub(crate) fn client(&self) -> &Client {
        self.client.client()
    }

    /// As what OSDs know this client.
    pub(crate) fn addrs(&self) -> &EntityAddrVec {
        &self.addrs
    }

    /// Goes on under another address, as OSDs refuse this one for good: with new sessions to them, over which
    /// everything is sent again that has no answer.
    pub(crate) fn change_addrs(&mut self, reactor: &mut Reactor) {
        self.addrs = new_addrs(self.client.net());
        self.act(reactor, |client, wire| client.close_sessions(wire));
    }

    /// True while the monitor does not let this client in.
    pub(crate) fn is_refused(&self) -> bool {
        self.client.is_refused()
    }

    /// Ends the client with all its connections. Requests that have not ended never do.
    pub(crate) fn close(self, reactor: &mut Reactor) {
        self.client.close(&mut OnReactor(reactor));
    }

    /// Starts a request.
    pub(crate) fn submit(&mut self, token: Token, request: Request, reactor: &mut Reactor) {
        self.act(reactor, |client, wire| client.submit(token, request, wire));
    }

    /// Lets go of a request: it does not end.
    pub(crate) fn forget(&mut self, token: Token) {
        self.client.forget(token);
    }

    /// Starts a command of JSON.
    pub(crate) fn command(&mut self, json: String, reactor: &mut Reactor) {
        self.act(reactor, |client, wire| client.command(json, wire));
    }

    /// What has ended since.
    pub(crate) fn take_outcomes(&mut self) -> Vec<Outcome> {
        self.client.take_outcomes()
    }

    /// True for what concerns a connection of this client.
    pub(crate) fn owns(&self, conn: ConnId) -> bool {
        self.client.owns(conn)
    }

    /// Several times a second.
    pub(crate) fn tick(&mut self, reactor: &mut Reactor) {
        self.act(reactor, |client, wire| client.tick(wire));
    }

    /// The client's timer rang.
    pub(crate) fn on_timer(&mut self, reactor: &mut Reactor) {
        self.act(reactor, |client, wire| client.on_timer(wire));
    }

    /// Something happened to a connection of this client.
    pub(crate) fn on_event(&mut self, event: WireEvent<ConnId>, reactor: &mut Reactor) {
        self.act(reactor, |client, wire| client.on_wire(event, wire));
    }

    fn act(
        &mut self,
        reactor: &mut Reactor,
        act: impl FnOnce(&mut ConnectedClient<ConnId>, &mut OnReactor<'_>),
    ) {
        act(&mut self.client, &mut OnReactor(reactor));
        if let Some(Instant(at)) = self.client.take_timer() {
            reactor.set_timer(self.timer, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyring_that_ceph_conf_names_is_the_only_one_looked_for() {
        let dir = std::env::temp_dir().join(format!("loligo-keyring-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("keyring");
        std::fs::write(&path, "").unwrap();
        let who = EntityName::new(EntityType::CLIENT, "admin");
        let find = |value: &str| {
            let conf = CephConf::parse(&format!("[global]\nkeyring = {value}\n")).unwrap();
            find_keyring(&conf, &who)
        };
        let error = find("/nowhere/keyring").unwrap_err().to_string();
        assert!(error.contains("/nowhere/keyring") && !error.contains("/etc/ceph"), "{error}");
        assert!(find(&format!("/nowhere/keyring, {}", path.display())).unwrap().0.is_empty());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
