//! Faults of the protocol that are made on purpose, between the machines: a simulator that does not find them proves
//! nothing.

use std::collections::BTreeMap;

use codec::Payload;
use messages::{MOSDRepOp, MOSDRepOpReply, Message, OpCode, OsdOp, RawMessage, WatchOpcode};
use net::NetEvent;
use osd::Effect;
use rand::{Rng, rngs::StdRng};
use shard::ShardMachine;
use store::DeviceCommand;
use types::{EntityName, Errno, Mutation, OsdId, OsdState, TxnOp};

use crate::{
    listing,
    network::{EndId, SimWire},
    watching,
};

/// What all OSDs of a world do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// The primary considers a change durable on all replicas as soon as it has sent it to them.
    EarlyAck,
    /// A replica now and then leaves out what a change does to data, and acknowledges it.
    LostWrite,
    /// A request that is sent again is done again.
    DoneTwice,
    /// Once everything is mended, disks say that unflushed writes are durable: only what is on them in the end shows
    /// it.
    LateLie,
    /// An OSD trusts its leases for five times as long as the OSDs that gave them do.
    LongLease,
    /// A client whose change is refused for want of room is told that it is done.
    RefusedAsDone,
    /// An OSD that was full says that it is so for ever.
    FullForEver,
    /// An OSD knows no client that is fenced off.
    Unfenced,
    /// Now and then an object is left out of a page of a listing.
    LostEntry,
    /// A notification that some did not answer in time ends as if all had answered.
    HiddenTimeout,
    /// A watcher is told of each notification twice.
    ToldTwice,
}

/// The connections on which a shard hears other OSDs.
pub(crate) type Heard = BTreeMap<OsdId, u64>;

fn osd_of(name: &EntityName) -> Option<OsdId> {
    let id = name.to_string().strip_prefix("osd.")?.parse().ok()?;
    Some(OsdId(id))
}

impl Canary {
    /// What was read is about to be handled.
    pub(crate) fn spoil_messages(
        self,
        machine: &mut ShardMachine<EndId>,
        heard: &mut Heard,
        rng: &mut StdRng,
    ) {
        /// Nobody has this one.
        const OTHER_NONCE: u32 = 1 << 30;
        let (messages, _) = machine.under_way();
        for event in messages.iter_mut() {
            if let NetEvent::Opened(conn, end) = event {
                match osd_of(&end.identity.name) {
                    Some(osd) => drop(heard.insert(osd, *conn)),
                    None if self == Canary::Unfenced => end.addr.nonce += OTHER_NONCE,
                    None => {}
                }
            }
        }
        match self {
            Canary::LostWrite => {
                for event in messages {
                    if let NetEvent::Received(_, _, Message::MOSDRepOp(change)) = event
                        && rng.random_ratio(1, 50)
                    {
                        lose_data(change);
                    }
                }
            }
            Canary::DoneTwice => {
                let again: Vec<NetEvent> =
                    messages.iter().filter_map(|event| done_again(event, rng)).collect();
                messages.extend(again);
            }
            Canary::EarlyAck
            | Canary::LongLease
            | Canary::LateLie
            | Canary::RefusedAsDone
            | Canary::FullForEver
            | Canary::Unfenced
            | Canary::LostEntry
            | Canary::HiddenTimeout
            | Canary::ToldTwice => {}
        }
    }

    /// [`ShardMachine::drain_store`], but with this fault in the effects.
    pub(crate) fn drain_store(
        self,
        machine: &mut ShardMachine<EndId>,
        heard: &Heard,
        commands: &mut Vec<DeviceCommand>,
        wire: &mut SimWire<'_>,
    ) -> bool {
        let has_more = machine.run_store(commands, wire);
        self.spoil_effects(machine, heard);
        machine.execute(wire);
        has_more
    }

    /// What was handled is about to be answered.
    pub(crate) fn spoil_effects(self, machine: &mut ShardMachine<EndId>, heard: &Heard) {
        let is_full = machine.osd.map().state(machine.osd.whoami()).has(OsdState::FULL);
        let (messages, effects) = machine.under_way();
        match self {
            Canary::EarlyAck => messages.extend(effects.iter().filter_map(|effect| early_ack(effect, heard))),
            Canary::ToldTwice => {
                let again: Vec<Effect> = effects.iter().filter_map(told_again).collect();
                effects.extend(again);
            }
            Canary::FullForEver if !is_full => {}
            Canary::RefusedAsDone | Canary::FullForEver | Canary::LostEntry | Canary::HiddenTimeout => {
                effects.iter_mut().for_each(|effect| self.spoil_effect(effect));
            }
            Canary::LostWrite
            | Canary::DoneTwice
            | Canary::LateLie
            | Canary::LongLease
            | Canary::Unfenced => {}
        }
    }

    fn spoil_effect(self, effect: &mut Effect) {
        /// Of so many pages of listings, one lacks an object.
        const PAGES: u64 = 16;
        match (self, effect) {
            (Canary::RefusedAsDone, Effect::Send(_, _, Message::MOSDOpReply(reply)))
                if reply.result == Errno::ENOSPC.negated() =>
            {
                reply.result = 0;
            }
            (Canary::FullForEver, Effect::SendMon(Message::MPGStats(stats))) => stats.stat.kb_avail = 0,
            (Canary::LostEntry, Effect::Send(_, tid, Message::MOSDOpReply(reply)))
                if tid.is_multiple_of(PAGES) =>
            {
                let is_page = |op: &&mut OsdOp| op.code == OpCode::PGNLS;
                reply.ops.iter_mut().filter(is_page).for_each(listing::lose_entry);
            }
            (Canary::HiddenTimeout, Effect::Send(_, _, Message::MWatchNotify(message))) => {
                watching::hide_timeout(message);
            }
            _ => {}
        }
    }
}

/// The answer of a replica that has been sent a change and cannot have it yet.
fn early_ack(effect: &Effect, heard: &Heard) -> Option<NetEvent> {
    let Effect::SendOsd { osd, message, .. } = effect else { return None };
    let conn = heard.get(osd)?;
    let Ok(Message::MOSDRepOp(change)) = Message::decode(as_received(message)) else { return None };
    let MOSDRepOp { pgid, epoch, version, .. } = *change;
    Some(NetEvent::Received(*conn, 0, MOSDRepOpReply { pgid, epoch, version }.into()))
}

/// What a watcher is told.
fn told_again(effect: &Effect) -> Option<Effect> {
    let Effect::Send(conn, tid, Message::MWatchNotify(message)) = effect else { return None };
    let is_notify = message.opcode == WatchOpcode::NOTIFY;
    is_notify.then(|| Effect::Send(*conn, *tid, Message::MWatchNotify(message.clone())))
}

/// What is sent has its data in pieces.
fn as_received(sent: &RawMessage) -> RawMessage {
    let pieces = std::iter::once(sent.data.clone()).chain(sent.data_more.iter().cloned());
    RawMessage { data: Payload::joined(pieces.collect()), data_more: Vec::new(), ..sent.clone() }
}

fn lose_data(change: &mut MOSDRepOp) {
    let is_data = |op: &TxnOp| matches!(op, TxnOp::Object(_, Mutation::Write { .. }));
    change.txn.ops.retain(|op| !is_data(op));
}

/// A client's request as another one.
fn done_again(event: &NetEvent, rng: &mut StdRng) -> Option<NetEvent> {
    /// Tids of clients are smaller.
    const OTHER_TID: u64 = 1 << 40;
    let NetEvent::Received(conn, tid, Message::MOSDOp(op)) = event else { return None };
    let op = op.clone();
    let is_again = op.retry_attempt > 0 && rng.random_bool(0.5);
    let tid = tid + OTHER_TID;
    is_again.then(|| NetEvent::Received(*conn, tid, messages::MOSDOp { tid, ..*op }.into()))
}
