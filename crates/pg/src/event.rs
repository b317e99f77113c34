//! What reaches a PG and what it wants done.

use std::sync::Arc;

use crate::{
    GiveUp, Leases, Nonsense, OpThrottle, Permit, ReadSlots, RecoveryPolicy, Rooms, ScrubPolicy,
    ScrubRequest, Slots,
};
use messages::{LogLevel, MOSDOp, MOSDOpReply, Message, RawMessage};
use store::{Completion, ObjectStore};
use types::{EntityAddr, EntityNum, Epoch, Instant, OsdId, OsdMap, UTime};

/// A client's session, as far as an op needs it.
#[derive(Clone, Debug)]
pub struct Client {
    /// The session: where answers and notifications go.
    pub session: u64,
    /// The client itself.
    pub entity: EntityNum,
    /// Its address, as blocklists and lock owners name it.
    pub addr: EntityAddr,
    /// Its features.
    pub features: u64,
}

/// An input of the machine.
#[derive(Debug)]
pub enum Event {
    /// The map moved on by one epoch; `Ctx::map` is the new one.
    NewMap,
    /// A client's operation, permitted and mapped here.
    Op {
        /// The client that wants it.
        client: Client,
        /// The client's number for it.
        tid: u64,
        /// What is wanted.
        op: Box<MOSDOp>,
        /// Dropped when it is answered.
        permit: Permit,
    },
    /// A client holds its ops, as a backoff asked.
    BackoffAck {
        /// The session that the backoff is of.
        session: u64,
        /// Its id in the session.
        id: u64,
    },
    /// A client's session is gone.
    SessionClosed(u64),
    /// Another copy says.
    Peer(OsdId, Message),
    /// The store finished a request of this PG.
    Store(Completion),
    /// An operator wants it scrubbed.
    Scrub(ScrubRequest),
    /// An operator gives up the objects that are unfound.
    GiveUp(GiveUp),
    /// An operator wants it recovered before others, or as others again.
    ForceRecovery {
        /// True where that was called backfill.
        is_backfill: bool,
        /// False to take it back.
        is_forced: bool,
    },
    /// It may go on with recovery: [`RecoveryPolicy::next_turn`] has named it, and this OSD.
    RecoveryTurn(OsdId),
    /// One of its requests may load more than one thing: [`ReadSlots::next_turn`] has named the PG.
    ReadTurn,
    /// A second passed, more or less.
    Tick,
    /// The time came that [`Effect::WakeAt`] named.
    Wake,
}

/// An output of the machine, carried out in order.
#[derive(Debug)]
pub enum Effect {
    /// Tell another OSD.
    SendOsd(OsdId, Message),
    /// Tell several other OSDs the same.
    SendOsds(Vec<OsdId>, Message),
    /// Tell several other OSDs the same, encoded already: its contents are still used here.
    SendEncoded(Vec<OsdId>, Arc<RawMessage>),
    /// Answer a client's op.
    Reply {
        /// The session that it came from.
        session: u64,
        /// The client's number for it.
        tid: u64,
        /// The answer.
        reply: Box<MOSDOpReply>,
    },
    /// Tell a client of a session what it did not ask for: notifications, backoffs.
    Tell(u64, Message),
    /// Ops of this session were dropped, as they belong elsewhere now: its client is to send them again, which it does
    /// when it has the map.
    ShareMap(u64),
    /// Give it [`Event::Wake`] at this time, and at all other times that it has named.
    WakeAt(Instant),
    /// Have the monitor record that this OSD lived in the interval that began then.
    WantUpThru(Epoch),
    /// Have the monitor set the PG's acting set; an empty one stands for the up set.
    WantActing(Vec<OsdId>),
    /// A client's change was dropped, for which there is no room for so many bytes: its client is to send it again when
    /// there is.
    Dropped {
        /// The session that it came from.
        session: u64,
        /// What it takes.
        bytes: u64,
    },
    /// A change takes so many bytes more than its request has brought.
    Grew(u64),
    /// Write a line to the cluster log.
    ClusterLog(LogLevel, String),
    /// That OSD has said what cannot be so: nothing more of it is to be heard, and the monitor is to know.
    Refused(OsdId, Nonsense),
    /// The PG's state or contents changed: report soon.
    StatsChanged,
    /// The PG is not needed here any more: its collection is being removed.
    Removed,
}

impl Effect {
    /// True for what the PG tells or asks of other OSDs or of the monitor.
    pub fn is_for_others(&self) -> bool {
        match self {
            Effect::SendOsd(..)
            | Effect::SendOsds(..)
            | Effect::SendEncoded(..)
            | Effect::WantUpThru(_)
            | Effect::WantActing(_) => true,
            Effect::Reply { .. }
            | Effect::Tell(..)
            | Effect::ShareMap(_)
            | Effect::WakeAt(_)
            | Effect::Dropped { .. }
            | Effect::Grew(_)
            | Effect::ClusterLog(..)
            | Effect::Refused(..)
            | Effect::StatsChanged
            | Effect::Removed => false,
        }
    }
}

/// What a PG may use during a call.
pub struct Ctx<'a> {
    /// Monotonic clock.
    pub now: Instant,
    /// Wall clock.
    pub wall: UTime,
    /// Where its objects are.
    pub store: &'a mut dyn ObjectStore,
    /// The newest map.
    pub map: &'a OsdMap,
    /// What OSDs have room for, whatever the map says of them.
    pub rooms: &'a Rooms,
    /// The read leases, as heartbeats tell of them.
    pub leases: &'a Leases,
    /// How and how often PGs are scrubbed.
    pub scrub: &'a ScrubPolicy,
    /// How much recovery the OSD does at a time.
    pub recovery: &'a RecoveryPolicy,
    /// Requests of all its PGs that copy objects.
    pub copying: &'a Slots,
    /// Requests of all its PGs that keep what they have loaded while they load more.
    pub reading: &'a ReadSlots,
    /// Notifications of all its PGs that are not over.
    pub notifying: &'a OpThrottle,
    /// Random bits for this call.
    pub random: u64,
    /// Where effects go.
    pub effects: &'a mut Vec<Effect>,
}
