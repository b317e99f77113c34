//! Faults of the protocol that are made on purpose, between the machines: a simulator that does not find them proves
//! nothing.

use std::collections::BTreeMap;

use codec::Payload;
use messages::{MOSDRepOp, MOSDRepOpReply, Message, RawMessage};
use net::NetEvent;
use osd::Effect;
use rand::{Rng, rngs::StdRng};
use shard::ShardMachine;
use store::DeviceCommand;
use types::{EntityName, Mutation, OsdId, TxnOp};

use crate::network::{EndId, SimWire};

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
        let (messages, _) = machine.under_way();
        for event in messages.iter() {
            if let NetEvent::Opened(conn, end) = event
                && let Some(osd) = osd_of(&end.identity.name)
            {
                heard.insert(osd, *conn);
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
            Canary::EarlyAck | Canary::LongLease | Canary::LateLie => {}
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
        let (messages, effects) = machine.under_way();
        if self != Canary::EarlyAck {
            return;
        }
        for effect in effects {
            if let Effect::SendOsd { osd, message, .. } = effect
                && let Some(conn) = heard.get(osd)
                && let Ok(Message::MOSDRepOp(change)) = Message::decode(as_received(message))
            {
                let MOSDRepOp { pgid, epoch, version, .. } = *change;
                messages.push(NetEvent::Received(*conn, 0, MOSDRepOpReply { pgid, epoch, version }.into()));
            }
        }
    }
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
