//! One shard of an OSD on its reactor: its sockets and timers, the store's device, the queues to the other shards.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, bail};
use net::WireEvent;
use osd::{CONTROL, ConnId, Event, Shard};
use reactor::{Event as IoEvent, ListenerId, Reactor, Signal};
use shard::{Outcome, ShardMachine};
use store::DeviceCommand;
use types::{EntityName, EntityType, Token};

use super::shard_queues::{ShardItem, ShardQueues, SharedFailure};
use crate::{
    admin_socket::AdminSocket,
    clock,
    device::Device,
    log_levels,
    memory::Memory,
    stop::Stop,
    wire::{OnReactor, wire_event},
};

pub(super) const NET_TIMER: u64 = osd::OWN_TIMERS - 1;
const NET_TICK: Duration = Duration::from_millis(200);
/// Memory is looked at with that, and near its target by this timer.
const MEMORY_TIMER: u64 = osd::OWN_TIMERS - 2;
const MEMORY_TICK: Duration = Duration::from_millis(40);

/// One shard of an OSD on its reactor.
pub(super) struct ShardDaemon {
    pub(super) machine: ShardMachine<reactor::ConnId>,
    pub(super) shard: Shard,
    pub(super) device: Device,
    pub(super) memory: Memory,
    pub(super) outcomes: Vec<Outcome>,
    pub(super) commands: Vec<DeviceCommand>,
    pub(super) queues: ShardQueues,
    pub(super) items: Vec<(u16, ShardItem)>,
    /// The clients' listener, whose connections are handed out to all shards in turns.
    pub(super) public: Option<ListenerId>,
    /// The control shard's, if the OSD has one.
    pub(super) admin: Option<AdminSocket>,
    /// The shard that gets the next connection.
    pub(super) next_shard: u16,
    pub(super) failure: SharedFailure,
}

impl ShardDaemon {
    /// Serves until it is stopped in order. `stop` is for the control shard, which stops the others.
    ///
    /// Crate `shard` says why a turn goes stage by stage.
    pub(super) fn run(&mut self, reactor: &mut Reactor, stop: Option<&Stop>) -> Result<()> {
        let (mut io_events, mut later) = (Vec::new(), Vec::new());
        let mut is_stopping = false;
        let mut has_more = false;
        loop {
            self.drain_store(reactor);
            // Before anything leaves: what a store says that has just failed may be wrong.
            if let Some(fault) = self.machine.store.fault() {
                bail!("the store failed and stopped: {fault}");
            }
            self.carry_out(reactor);
            self.queues.flush();
            if let Some(fault) = self.machine.take_fault() {
                return Err(fault).context("the OSD cannot serve");
            }
            self.failure.check()?;
            let is_over = self.machine.is_stopped() && self.machine.store.is_unmounted();
            if is_over && !self.queues.is_behind() {
                return Ok(());
            }
            let is_held = self.machine.osd.is_saturated() || self.queues.is_behind();
            self.machine.net.hold_clients(is_held, &mut OnReactor(reactor));
            reactor.poll(has_more.then_some(Duration::ZERO), &mut io_events)?;
            for event in io_events.drain(..) {
                later.extend(self.on_io(event, reactor));
            }
            has_more = self.receive_items(reactor);
            self.machine.handle_messages(&mut OnReactor(reactor));
            // After what had come before it was time: a word of a peer counts if it is there.
            for event in later.drain(..) {
                is_stopping |= self.on_timer_or_signal(event, reactor);
            }
            self.take_admin(reactor);
            if !is_stopping && stop.is_some_and(Stop::is_asked) {
                is_stopping = true;
                self.machine.handle(Event::Stop, &OnReactor(reactor));
            }
            self.machine.execute(&mut OnReactor(reactor));
        }
    }

    /// Takes what came in. What is to be handled after that is returned.
    fn on_io(&mut self, event: IoEvent, reactor: &mut Reactor) -> Option<IoEvent> {
        match event {
            IoEvent::Signal(_) | IoEvent::Timer { .. } => return Some(event),
            IoEvent::FileDone { token, result, .. } => {
                if let Some((token, result)) = self.device.done(token, result) {
                    self.machine.store.device_done(token, result);
                }
            }
            IoEvent::Accepted { listener, conn, peer, .. } if self.public == Some(listener) => {
                self.hand_out(conn, peer, reactor);
            }
            event => {
                if let Some(event) = wire_event(event) {
                    self.machine.on_wire(event, &mut OnReactor(reactor));
                }
            }
        }
        None
    }

    /// True if the OSD is to stop.
    fn on_timer_or_signal(&mut self, event: IoEvent, reactor: &mut Reactor) -> bool {
        match event {
            IoEvent::Signal(Signal::Interrupt | Signal::Terminate) => {
                self.machine.handle(Event::Stop, &OnReactor(reactor));
                return true;
            }
            IoEvent::Timer { token: NET_TIMER } => {
                self.machine.on_net_tick(&mut OnReactor(reactor));
                self.govern_memory(reactor);
                reactor.set_timer(NET_TIMER, (clock::now() + NET_TICK).0);
            }
            IoEvent::Timer { token: MEMORY_TIMER } => self.govern_memory(reactor),
            IoEvent::Timer { token } => self.machine.on_timer(Token(token), &OnReactor(reactor)),
            // A hangup tells Ceph's daemons that their logs were moved; ours sees it by itself.
            _ => {}
        }
        false
    }

    fn govern_memory(&mut self, reactor: &mut Reactor) {
        self.memory.govern(&mut self.machine.store);
        if self.memory.is_near() {
            reactor.set_timer(MEMORY_TIMER, (clock::now() + MEMORY_TICK).0);
        }
    }

    /// Gives a connection to the next shard in turn. It stays here if that shard does not keep up: what waits for room
    /// in a queue has no limit, and strangers can connect as often as they like.
    fn hand_out(&mut self, conn: reactor::ConnId, peer: SocketAddr, reactor: &mut Reactor) {
        let to = self.next_shard;
        self.next_shard = (to + 1) % self.shard.count;
        if to == self.shard.index || !self.queues.keeps_up(to) {
            self.machine.on_wire(WireEvent::Accepted(conn, peer), &mut OnReactor(reactor));
        } else if let Some(socket) = reactor.take_socket(conn) {
            self.queues.send(to, ShardItem::Connection(socket, peer));
        }
    }

    /// What the other shards have sent. True if there may be more.
    fn receive_items(&mut self, reactor: &mut Reactor) -> bool {
        let mut items = std::mem::take(&mut self.items);
        let has_more = self.queues.receive(&mut items);
        for (from, item) in items.drain(..) {
            match item {
                ShardItem::Message(message) => {
                    self.machine.on_shard_message(from, message, &OnReactor(reactor))
                }
                ShardItem::Connection(socket, peer) => {
                    let conn = reactor.adopt(socket);
                    self.machine.on_wire(WireEvent::Accepted(conn, peer), &mut OnReactor(reactor));
                }
                ShardItem::Auth(keeper, secrets) => {
                    self.machine.set_auth(*keeper, secrets.map(|secrets| *secrets))
                }
                ShardItem::WantTickets => self.machine.net.want_tickets(),
            }
        }
        self.items = items;
        has_more
    }

    /// The other shards get the tickets and secrets that this one has got.
    fn share_auth(&mut self) {
        let Some((keeper, secrets)) = self.machine.own_auth() else { return };
        for to in (0..self.shard.count).filter(|to| *to != self.shard.index) {
            let secrets = secrets.cloned().map(Box::new);
            self.queues.send(to, ShardItem::Auth(Box::new(keeper.clone()), secrets));
        }
    }

    /// One journal write for all that this turn submitted.
    fn drain_store(&mut self, reactor: &mut Reactor) {
        loop {
            let has_more = self.machine.drain_store(&mut self.commands, &mut OnReactor(reactor));
            self.device.submit(self.commands.drain(..), reactor);
            if !has_more {
                return;
            }
        }
    }

    /// What was asked at the admin socket: as the OSD itself.
    fn take_admin(&mut self, reactor: &mut Reactor) {
        for (id, command) in self.admin.as_mut().map(AdminSocket::take).unwrap_or_default() {
            self.machine.on_command(ConnId(id), command, &OnReactor(reactor));
        }
    }

    /// Carries out what the machine leaves to be done here.
    fn carry_out(&mut self, reactor: &mut Reactor) {
        loop {
            self.machine.swap_outcomes(&mut self.outcomes);
            if self.outcomes.is_empty() {
                return;
            }
            let mut outcomes = std::mem::take(&mut self.outcomes);
            for outcome in outcomes.drain(..) {
                self.carry_out_one(outcome, reactor);
            }
            self.outcomes = outcomes;
            self.machine.execute(&mut OnReactor(reactor));
        }
    }

    fn carry_out_one(&mut self, outcome: Outcome, reactor: &mut Reactor) {
        match outcome {
            Outcome::Answer(session, message) => {
                if self.admin.as_mut().is_some_and(|admin| admin.answer(session.0, &message)) {
                    self.machine.handle(Event::ConnClosed(session), &OnReactor(reactor));
                }
            }
            Outcome::ShardMessage(to, message) => self.queues.send(to, ShardItem::Message(message)),
            Outcome::ShareAuth => self.share_auth(),
            Outcome::WantTickets => self.queues.send(CONTROL, ShardItem::WantTickets),
            Outcome::SetTimer(token, at) => reactor.set_timer(token.0, at.0),
            Outcome::OptionsChanged => {
                let option = |name: &str| self.machine.osd.option(name);
                if self.shard.is_control() {
                    let id = self.machine.osd.whoami().to_string();
                    log_levels::follow(&EntityName::new(EntityType::OSD, id), option);
                }
                self.memory.set(option("osd_memory_target"), option("bluestore_cache_size"));
                self.memory.sizes().apply(&mut self.machine.store);
                self.machine.net.set_queued_bytes_max(self.memory.queued_bytes_max());
            }
        }
    }
}
