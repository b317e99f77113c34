//! The machine, its store and its connections.

use std::fmt::Debug;

use auth::{OsdCaps, RotatingSecrets, TicketKeeper};
use messages::{MCommand, Message};
use net::{Net, NetEvent, ServiceAuth, Wire, WireEvent};
use osd::{ConnId, Effect, Event, Fault, Osd, Peer, ShardMessage};
use store::{Completion, DeviceCommand, ObjectStore, Store};
use types::{EntityType, GlobalId, Instant, Token};

/// What a turn leaves to the shard's runner, to be carried out in order.
#[derive(Debug)]
pub enum Outcome {
    /// To the session of [`ShardMachine::on_command`].
    Answer(ConnId, Message),
    /// To another shard of this OSD.
    ShardMessage(u16, ShardMessage),
    /// Each other shard is to have the tickets and secrets that this one has: [`ShardMachine::own_auth`].
    ShareAuth,
    /// The control shard, which is another one, is to get new tickets: [`Net::want_tickets`].
    WantTickets,
    /// [`ShardMachine::on_timer`] at this time; replaces a timer of the same token.
    SetTimer(Token, Instant),
    /// Options have other values: [`Osd::option`] has them.
    OptionsChanged,
}

/// A shard of an OSD as a whole: its machine, its store and its connections. `C` names a connection of the [`Wire`].
pub struct ShardMachine<C> {
    /// The PGs and all that is around them.
    pub osd: Osd,
    /// Where the PGs keep what they have.
    pub store: Store,
    /// The connections.
    pub net: Net<C>,
    authority: ServiceAuth,
    is_none: bool,
    is_stopped: bool,
    fault: Option<Fault>,
    /// Read and not handled.
    messages: Vec<NetEvent>,
    /// Handled and not answered.
    effects: Vec<Effect>,
    outcomes: Vec<Outcome>,
    /// Kept for its memory.
    completions: Vec<Completion>,
}

impl<C: Copy + Ord + Debug> ShardMachine<C> {
    /// A shard that was not told [`Event::Started`] yet. With `is_none`, all peers are believed to be what they say
    /// they are.
    pub fn new(osd: Osd, store: Store, net: Net<C>, is_none: bool) -> ShardMachine<C> {
        ShardMachine {
            osd,
            store,
            net,
            authority: ServiceAuth::new(EntityType::OSD, is_none),
            is_none,
            is_stopped: false,
            fault: None,
            messages: Vec::new(),
            effects: Vec::new(),
            outcomes: Vec::new(),
            completions: Vec::new(),
        }
    }

    /// Reads what a connection brought.
    pub fn on_wire(&mut self, event: WireEvent<C>, wire: &mut impl Wire<Conn = C>) {
        self.net.on_event(event, wire, &mut self.authority, &mut self.messages);
    }

    /// Handles what another shard said.
    pub fn on_shard_message(&mut self, from: u16, message: ShardMessage, wire: &impl Wire<Conn = C>) {
        self.handle(Event::ShardMessage(from, message), wire);
    }

    /// Handles what was read.
    pub fn handle_messages(&mut self, wire: &mut impl Wire<Conn = C>) {
        let mut messages = std::mem::take(&mut self.messages);
        for message in messages.drain(..) {
            self.on_net(message, wire);
        }
        self.messages = messages;
    }

    fn on_net(&mut self, event: NetEvent, wire: &mut impl Wire<Conn = C>) {
        match event {
            NetEvent::Opened(id, end) => {
                let caps = match self.is_none {
                    true => OsdCaps::allow_all(),
                    false => OsdCaps::parse(&end.identity.caps).unwrap_or_default().at(end.socket.ip()),
                };
                let peer = Peer {
                    name: end.identity.name,
                    entity_type: end.entity_type,
                    global_id: GlobalId(end.identity.global_id),
                    addr: end.addr,
                    caps,
                    features: end.features,
                };
                self.handle(Event::ConnOpened(ConnId(id), Box::new(peer)), wire);
            }
            NetEvent::Closed(id) => self.handle(Event::ConnClosed(ConnId(id)), wire),
            NetEvent::Received(id, tid, message) => {
                self.handle(Event::Received(ConnId(id), tid, message), wire);
            }
            NetEvent::MonOpened => {
                let is_ready = self.authority.on_mon_opened(&mut self.net, wire);
                self.on_auth(is_ready, wire);
            }
            NetEvent::MonClosed => {
                self.authority.on_mon_closed();
                self.handle(Event::MonClosed, wire);
            }
            NetEvent::Tickets => self.on_auth(false, wire),
            NetEvent::Secrets(secrets) => {
                let is_ready = self.authority.on_secrets(secrets, &mut self.net, wire);
                self.on_auth(is_ready, wire);
            }
            NetEvent::FromMon(_, message) => self.handle(Event::FromMon(message), wire),
            NetEvent::FromOsd(osd, message) => self.handle(Event::FromOsd(osd, message), wire),
            NetEvent::OsdRefused(osd) => self.handle(Event::OsdRefused(osd), wire),
            NetEvent::OsdStuck(osd) => self.handle(Event::OsdStuck(osd), wire),
        }
    }

    /// The other shards learn of it before the machine asks to be marked up: peers may connect as soon as it is up.
    fn on_auth(&mut self, is_ready: bool, wire: &impl Wire<Conn = C>) {
        self.outcomes.push(Outcome::ShareAuth);
        if is_ready {
            self.handle(Event::MonOpened, wire);
        }
    }

    /// A timer of [`Outcome::SetTimer`] rings.
    pub fn on_timer(&mut self, token: Token, wire: &impl Wire<Conn = C>) {
        self.handle(Event::Timer(token), wire);
    }

    /// Looks after the connections, and after a store that is being unmounted, several times a second.
    pub fn on_net_tick(&mut self, wire: &mut impl Wire<Conn = C>) {
        if self.is_stopped {
            let stall = self.osd.watch_unmount(wire.now(), self.store.device_waits());
            self.fault = self.fault.take().or(stall);
        }
        self.net.tick(wire, &mut self.messages);
        self.handle_messages(wire);
        self.authority.renew(&mut self.net, wire);
        if self.net.pass_ticket_wish_on() {
            self.outcomes.push(Outcome::WantTickets);
        }
    }

    /// An operator's command at the OSD's own socket, from a session of its own ([`ConnId::local`]). It is answered by
    /// [`Outcome::Answer`]; the runner ends the session then ([`Event::ConnClosed`]).
    pub fn on_command(&mut self, session: ConnId, command: MCommand, wire: &impl Wire<Conn = C>) {
        let peer = Peer::at_admin_socket();
        self.handle(Event::ConnOpened(session, Box::new(peer)), wire);
        self.handle(Event::Received(session, 0, command.into()), wire);
    }

    /// Handles an event; what comes of it is to be executed.
    pub fn handle(&mut self, event: Event, wire: &impl Wire<Conn = C>) {
        if !self.is_stopped {
            self.osd.handle(wire.now(), wire.wall(), event, &mut self.store, &mut self.effects);
        }
    }

    /// What was read and not handled, and what was handled and not answered. For the simulator, which spoils it to
    /// prove that it would find a fault of the protocol.
    pub fn under_way(&mut self) -> (&mut Vec<NetEvent>, &mut Vec<Effect>) {
        (&mut self.messages, &mut self.effects)
    }

    /// Answers what was handled.
    pub fn execute(&mut self, wire: &mut impl Wire<Conn = C>) {
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::SendMon(message) => self.net.send_mon(0, &message, wire),
                Effect::Send(conn, _, message) if conn.is_local() => {
                    self.outcomes.push(Outcome::Answer(conn, message));
                }
                Effect::Send(conn, tid, message) => self.net.send(conn.0, tid, &message, wire),
                Effect::SendOsd { osd, addrs, message } => self.net.send_osd(osd, addrs, message, wire),
                Effect::ForgetOsd(osd) => self.net.forget_osd(osd, wire),
                Effect::Close(conn) => self.net.close(conn.0, wire),
                Effect::Hold(conn, hold) => self.net.hold_client(conn.0, hold, wire),
                Effect::ShardMessage(to, message) => self.outcomes.push(Outcome::ShardMessage(to, message)),
                Effect::SetTimer(token, at) => self.outcomes.push(Outcome::SetTimer(token, at)),
                Effect::OptionsChanged => self.outcomes.push(Outcome::OptionsChanged),
                Effect::Stopped => {
                    self.is_stopped = true;
                    self.store.unmount();
                }
                Effect::Failed(fault) => self.fault = Some(fault),
            }
        }
        self.effects = effects;
    }

    /// Gives the store its turn, and puts what the device is to do into `commands`, which is empty. True if more came
    /// of it, and the store is to have another turn when those are submitted.
    pub fn drain_store(&mut self, commands: &mut Vec<DeviceCommand>, wire: &mut impl Wire<Conn = C>) -> bool {
        let has_more = self.run_store(commands, wire);
        self.execute(wire);
        has_more
    }

    /// [`Self::drain_store`], before what came of it is answered ([`Self::execute`]). For the simulator, which spoils
    /// the answers.
    pub fn run_store(&mut self, commands: &mut Vec<DeviceCommand>, wire: &impl Wire<Conn = C>) -> bool {
        self.store.set_time(wire.now());
        if !self.is_stopped {
            self.store.kick();
        }
        self.store.swap_commands(commands);
        let mut completions = std::mem::take(&mut self.completions);
        self.store.swap_completions(&mut completions);
        let has_more = !completions.is_empty();
        for completion in completions.drain(..) {
            self.handle(Event::Store(completion), wire);
        }
        self.completions = completions;
        has_more
    }

    /// What is to be carried out, into `into`, which is empty: its memory is used for the next ones.
    pub fn swap_outcomes(&mut self, into: &mut Vec<Outcome>) {
        debug_assert!(into.is_empty(), "outcomes are carried out once");
        std::mem::swap(&mut self.outcomes, into);
    }

    /// This shard's own tickets and secrets, for another shard.
    pub fn own_auth(&self) -> Option<(&TicketKeeper, Option<&RotatingSecrets>)> {
        Some((self.net.keeper.as_ref()?, self.authority.own_secrets()))
    }

    /// Takes over the tickets and secrets that another shard has got.
    pub fn set_auth(&mut self, keeper: TicketKeeper, secrets: Option<RotatingSecrets>) {
        self.net.keeper = Some(keeper);
        if let Some(secrets) = secrets {
            self.authority.set_secrets(secrets);
        }
    }

    /// Why the OSD must end, and serve nothing before; told once.
    pub fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }

    /// All is stopped in order: the store is being unmounted, and nothing is handled any more.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }
}

#[cfg(test)]
mod tests;
