//! Where the monitor plays the manager's part: a listener and connections of its own, since clients dial
//! managers by their own kind of entity and with their own tickets.

use std::{collections::BTreeMap, net::SocketAddr};

use anyhow::{Context, Result};
use auth::con_mode;
use messages::Message;
use mon::{Event, ManagerAuthority, Mon, Peer};
use msgr::Config;
use net::{NetEvent, PeerEvent, WireEvent};
use reactor::{ConnId, ListenerId, Reactor};
use types::{EntityAddr, EntityAddrVec, EntityType};

use crate::{
    bind_ports::BindPorts,
    clock,
    wire::{Net, OnReactor, mon_peer},
};

/// The listener and the connections of the manager's part.
pub(crate) struct ManagerPort {
    listener: ListenerId,
    net: Net,
    peers: BTreeMap<u64, Peer>,
}

impl ManagerPort {
    /// Listens at the first free port beside the monitor, and tells it.
    pub(crate) fn open(
        reactor: &mut Reactor,
        beside: SocketAddr,
        ports: &BindPorts,
        methods: Vec<u32>,
        mon: &mut Mon,
    ) -> Result<ManagerPort> {
        let wanted = SocketAddr::new(beside.ip(), 0);
        let (listener, socket) = ports.listen(reactor, wanted).context("the manager's part")?;
        let nonce = u32::from_le_bytes([0, 1, 2, 3].map(|at| clock::random_seed()[at])).max(1);
        let addrs = EntityAddrVec(vec![EntityAddr::msgr2(socket, nonce)]);
        let config = Config {
            entity_type: EntityType::MGR,
            addrs: addrs.clone(),
            more_addrs: EntityAddrVec::default(),
            gid: 0,
            methods,
            modes: vec![con_mode::CRC, con_mode::SECURE],
        };
        mon.set_manager(addrs);
        let net = Net::new(config, None, clock::random_seed());
        Ok(ManagerPort { listener, net, peers: BTreeMap::new() })
    }

    /// True for what concerns a connection of this port; `accepted_by` is the listener of a new one.
    pub(crate) fn owns(&self, event: &WireEvent<ConnId>, accepted_by: Option<ListenerId>) -> bool {
        match accepted_by {
            Some(listener) => listener == self.listener,
            None => self.net.owns(event.conn()),
        }
    }

    /// Handles what concerns a connection of this port; what its client says is for the monitor.
    pub(crate) fn on_event(
        &mut self,
        event: WireEvent<ConnId>,
        mon: &mut Mon,
        reactor: &mut Reactor,
    ) -> Vec<Event> {
        let mut out = Vec::new();
        self.net.on_event(event, &mut OnReactor(reactor), &mut ManagerAuthority(mon), &mut out);
        self.on_net(out)
    }

    /// Several times a second.
    pub(crate) fn tick(&mut self, reactor: &mut Reactor) -> Vec<Event> {
        let mut out = Vec::new();
        self.net.tick(&mut OnReactor(reactor), &mut out);
        self.on_net(out)
    }

    /// Says something to a client.
    pub(crate) fn send(&mut self, link: u64, tid: u64, message: &Message, reactor: &mut Reactor) {
        self.net.send(link, tid, message, &mut OnReactor(reactor));
    }

    fn on_net(&mut self, events: Vec<NetEvent>) -> Vec<Event> {
        let mut said = Vec::new();
        for event in events.into_iter().filter_map(NetEvent::from_peer) {
            match event {
                PeerEvent::Opened(id, end) => {
                    self.peers.insert(id, mon_peer(*end));
                }
                PeerEvent::Closed(id) => {
                    self.peers.remove(&id);
                }
                PeerEvent::Received(id, tid, message) => {
                    if let Some(peer) = self.peers.get(&id) {
                        let peer = Box::new(peer.clone());
                        said.push(Event::ToManager { link: id, tid, peer, message });
                    }
                }
            }
        }
        said
    }
}
