//! One shard of an OSD on its reactor: connections, the store's device, the queues to the other shards.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, bail};
use auth::OsdCaps;
use messages::Message;
use net::{NetEvent, ServiceAuth, WireEvent};
use osd::{ConnId, Effect, Event, Fault, Osd, Peer, Shard};
use reactor::{Event as IoEvent, ListenerId, Reactor, Signal};
use store::{Completion, DeviceCommand, Store};
use types::{GlobalId, Token};

use super::links::{Fate, Links, Parcel};
use crate::{
    admin_socket::AdminSocket,
    clock,
    device::Device,
    memory::Memory,
    stop::Stop,
    wire::{Net, OnReactor, wire_event},
};

pub(super) const NET_TIMER: u64 = osd::OWN_TIMERS - 1;
const NET_TICK: Duration = Duration::from_millis(200);
/// Memory is looked at with that, and near its target by this timer.
const MEMORY_TIMER: u64 = osd::OWN_TIMERS - 2;
const MEMORY_TICK: Duration = Duration::from_millis(40);

/// See the module's page.
pub(super) struct ShardDaemon {
    pub(super) osd: Osd,
    pub(super) shard: Shard,
    pub(super) store: Store,
    pub(super) device: Device,
    pub(super) memory: Memory,
    pub(super) net: Net,
    pub(super) authority: ServiceAuth,
    pub(super) is_none: bool,
    pub(super) is_stopped: bool,
    /// Why it must end.
    pub(super) fault: Option<Fault>,
    pub(super) effects: Vec<Effect>,
    pub(super) net_events: Vec<NetEvent>,
    pub(super) commands: Vec<DeviceCommand>,
    pub(super) completions: Vec<Completion>,
    pub(super) links: Links,
    pub(super) parcels: Vec<(u16, Parcel)>,
    /// Whose connections are handed out to all shards in turns: those of clients.
    pub(super) public: Option<ListenerId>,
    /// The control shard's, if the OSD has one.
    pub(super) admin: Option<AdminSocket>,
    /// Who gets the next connection.
    pub(super) next_shard: u16,
    pub(super) fate: Fate,
}

impl ShardDaemon {
    /// Serves until it is stopped in order. `stop` is for the control shard, which stops the others.
    ///
    /// A turn goes stage by stage: all that came is read, then handled, then answered. So the code of a stage is in the
    /// CPU's first cache for all messages but the first, which counts more than what they execute (docs/performance.md).
    pub(super) fn run(&mut self, reactor: &mut Reactor, stop: Option<&Stop>) -> Result<()> {
        let (mut io_events, mut later) = (Vec::new(), Vec::new());
        let mut is_stopping = false;
        let mut has_more = false;
        loop {
            self.drain_store(reactor);
            self.links.flush();
            if let Some(fault) = self.store.fault() {
                bail!("the store failed and stopped: {fault}");
            }
            if let Some(fault) = self.fault.take() {
                return Err(fault).context("the OSD cannot serve");
            }
            if self.fate.has_failed() {
                bail!("another shard of this OSD failed: its log says why");
            }
            if self.is_stopped && self.store.is_unmounted() && !self.links.is_behind() {
                return Ok(());
            }
            let is_held = self.osd.is_saturated() || self.links.is_behind();
            self.net.hold_clients(is_held, &mut OnReactor(reactor));
            reactor.poll(has_more.then_some(Duration::ZERO), &mut io_events)?;
            for event in io_events.drain(..) {
                later.extend(self.on_io(event, reactor));
            }
            has_more = self.receive_parcels(reactor);
            self.on_net(reactor);
            // After what had come before it was time: a word of a peer counts if it is there.
            for event in later.drain(..) {
                is_stopping |= self.on_timer_or_signal(event, reactor);
            }
            self.take_admin();
            if !is_stopping && stop.is_some_and(Stop::is_asked) {
                is_stopping = true;
                self.handle(Event::Stop);
            }
            self.execute_all(reactor);
        }
    }

    /// Takes what came in. What is to be handled after that is returned.
    fn on_io(&mut self, event: IoEvent, reactor: &mut Reactor) -> Option<IoEvent> {
        match event {
            IoEvent::Signal(_) | IoEvent::Timer { .. } => return Some(event),
            IoEvent::FileDone { token, result, .. } => {
                if let Some((token, result)) = self.device.done(token, result) {
                    self.store.device_done(token, result);
                }
            }
            IoEvent::Accepted { listener, conn, peer, .. } if self.public == Some(listener) => {
                self.hand_out(conn, peer, reactor);
            }
            event => {
                if let Some(event) = wire_event(event) {
                    self.on_wire(event, reactor);
                }
            }
        }
        None
    }

    /// True if the OSD is to stop.
    fn on_timer_or_signal(&mut self, event: IoEvent, reactor: &mut Reactor) -> bool {
        match event {
            IoEvent::Signal(Signal::Interrupt | Signal::Terminate) => {
                self.handle(Event::Stop);
                return true;
            }
            IoEvent::Timer { token: NET_TIMER } => {
                self.net.tick(&mut OnReactor(reactor), &mut self.net_events);
                self.on_net(reactor);
                self.authority.renew(&mut self.net, &mut OnReactor(reactor));
                self.govern_memory(reactor);
                reactor.set_timer(NET_TIMER, (clock::now() + NET_TICK).0);
            }
            IoEvent::Timer { token: MEMORY_TIMER } => self.govern_memory(reactor),
            IoEvent::Timer { token } => self.handle(Event::Timer(Token(token))),
            // A hangup tells Ceph's daemons that their logs were moved; ours sees it by itself.
            _ => {}
        }
        false
    }

    fn govern_memory(&mut self, reactor: &mut Reactor) {
        self.memory.govern(&mut self.store);
        if self.memory.is_near() {
            reactor.set_timer(MEMORY_TIMER, (clock::now() + MEMORY_TICK).0);
        }
    }

    fn on_wire(&mut self, event: WireEvent<reactor::ConnId>, reactor: &mut Reactor) {
        self.net.on_event(event, &mut OnReactor(reactor), &mut self.authority, &mut self.net_events);
    }

    /// Gives a connection to the shard whose turn it is.
    fn hand_out(&mut self, conn: reactor::ConnId, peer: SocketAddr, reactor: &mut Reactor) {
        let to = self.next_shard;
        self.next_shard = (to + 1) % self.shard.count;
        if to == self.shard.index {
            self.on_wire(WireEvent::Accepted(conn, peer), reactor);
        } else if let Some(socket) = reactor.take_socket(conn) {
            self.links.send(to, Parcel::Connection(socket, peer));
        }
    }

    /// What the other shards have sent. True if there may be more.
    fn receive_parcels(&mut self, reactor: &mut Reactor) -> bool {
        let mut parcels = std::mem::take(&mut self.parcels);
        let has_more = self.links.receive(&mut parcels);
        for (from, parcel) in parcels.drain(..) {
            match parcel {
                Parcel::Cross(cross) => self.handle(Event::Cross(from, cross)),
                Parcel::Connection(socket, peer) => {
                    let conn = reactor.adopt(socket);
                    self.on_wire(WireEvent::Accepted(conn, peer), reactor);
                }
                Parcel::Auth(keeper, secrets) => {
                    self.net.keeper = Some(*keeper);
                    if let Some(secrets) = secrets {
                        self.authority.set_secrets(*secrets);
                    }
                }
            }
        }
        self.parcels = parcels;
        has_more
    }

    /// The other shards get the tickets and secrets that this one has got.
    fn share_auth(&mut self) {
        for to in (0..self.shard.count).filter(|to| *to != self.shard.index) {
            let Some(keeper) = self.net.keeper.clone() else { continue };
            let secrets = self.authority.own_secrets().cloned().map(Box::new);
            self.links.send(to, Parcel::Auth(Box::new(keeper), secrets));
        }
    }

    /// Gives the store its turn: one journal write for all that this turn submitted.
    fn drain_store(&mut self, reactor: &mut Reactor) {
        self.store.set_time(clock::now());
        loop {
            if !self.is_stopped {
                self.store.kick();
            }
            self.store.swap_commands(&mut self.commands);
            self.device.submit(self.commands.drain(..), reactor);
            let mut completions = std::mem::take(&mut self.completions);
            self.store.swap_completions(&mut completions);
            let is_done = completions.is_empty();
            for completion in completions.drain(..) {
                self.handle(Event::Store(completion));
            }
            self.completions = completions;
            self.execute_all(reactor);
            if is_done {
                return;
            }
        }
    }

    /// What was asked at the admin socket: as the OSD itself.
    fn take_admin(&mut self) {
        for (id, command) in self.admin.as_mut().map(AdminSocket::take).unwrap_or_default() {
            let peer = Peer::at_admin_socket();
            self.handle(Event::ConnOpened(ConnId(id), Box::new(peer)));
            self.handle(Event::Received(ConnId(id), 0, command.into()));
        }
    }

    fn on_net(&mut self, reactor: &mut Reactor) {
        let mut events = std::mem::take(&mut self.net_events);
        for event in events.drain(..) {
            match event {
                NetEvent::Opened(id, end) => {
                    let caps = if self.is_none {
                        OsdCaps::allow_all()
                    } else {
                        OsdCaps::parse(&end.identity.caps).unwrap_or_default().at(end.socket.ip())
                    };
                    let peer = Peer {
                        name: end.identity.name,
                        global_id: GlobalId(end.identity.global_id),
                        addr: end.addr,
                        caps,
                        features: end.features,
                    };
                    self.handle(Event::ConnOpened(ConnId(id), Box::new(peer)));
                }
                NetEvent::Closed(id) => self.handle(Event::ConnClosed(ConnId(id))),
                NetEvent::Received(id, tid, message) => {
                    self.handle(Event::Received(ConnId(id), tid, message));
                }
                NetEvent::MonOpened => {
                    if self.authority.on_mon_opened(&mut self.net, &mut OnReactor(reactor)) {
                        self.handle(Event::MonOpened);
                    }
                    self.share_auth();
                }
                NetEvent::MonClosed => {
                    self.authority.on_mon_closed();
                    self.handle(Event::MonClosed);
                }
                NetEvent::FromMon(_, Message::MAuthReply(reply)) => {
                    let wire = &mut OnReactor(reactor);
                    let is_ready = self.authority.on_auth_reply(reply.payload, &mut self.net, wire);
                    // Before the machine asks to be marked up: others may come as soon as it is.
                    self.share_auth();
                    if is_ready {
                        self.handle(Event::MonOpened);
                    }
                }
                NetEvent::FromMon(_, message) => self.handle(Event::FromMon(message)),
                NetEvent::OsdRefused(osd) => self.handle(Event::OsdRefused(osd)),
            }
        }
        self.net_events = events;
    }

    /// What comes of it is to be executed.
    pub(super) fn handle(&mut self, event: Event) {
        if !self.is_stopped {
            self.osd.handle(clock::now(), clock::wall(), event, &mut self.store, &mut self.effects);
        }
    }

    pub(super) fn execute_all(&mut self, reactor: &mut Reactor) {
        while !self.effects.is_empty() {
            let mut effects = std::mem::take(&mut self.effects);
            for effect in effects.drain(..) {
                self.execute(effect, reactor);
            }
            // Executing makes effects of its own in rare cases only.
            effects.append(&mut self.effects);
            self.effects = effects;
        }
    }

    fn execute(&mut self, effect: Effect, reactor: &mut Reactor) {
        let wire = &mut OnReactor(reactor);
        match effect {
            Effect::SendMon(message) => self.net.send_mon(0, &message, wire),
            Effect::Send(conn, _, message) if AdminSocket::owns(conn.0) => {
                if self.admin.as_mut().is_some_and(|admin| admin.answer(conn.0, &message)) {
                    self.handle(Event::ConnClosed(conn));
                }
            }
            Effect::Send(conn, tid, message) => self.net.send(conn.0, tid, &message, wire),
            Effect::SendOsd { osd, addrs, message } => self.net.send_osd(osd, addrs, message, wire),
            Effect::ForgetOsd(osd) => self.net.forget_osd(osd, wire),
            Effect::Close(conn) => self.net.close(conn.0, wire),
            Effect::Cross(to, cross) => self.links.send(to, Parcel::Cross(cross)),
            Effect::SetTimer(token, at) => wire.0.set_timer(token.0, at.0),
            Effect::OptionsChanged => {
                let option = |name| self.osd.option(name);
                self.memory.set(option("osd_memory_target"), option("bluestore_cache_size"));
                self.memory.sizes().apply(&mut self.store);
            }
            Effect::Stopped => {
                self.is_stopped = true;
                self.store.unmount();
            }
            Effect::Failed(fault) => self.fault = Some(fault),
        }
    }
}
