//! Heartbeats among OSDs; encoding ours (Ceph's is `MOSDPing`, 70).

use codec::Codec;
use types::{Epoch, OsdId};

use crate::table::front_only;

/// What a heartbeat says.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PingOp(pub u8);

impl PingOp {
    /// Are you there?
    pub const PING: PingOp = PingOp(1);
    /// Yes.
    pub const REPLY: PingOp = PingOp(2);
    /// The map says that this incarnation of yours is down.
    pub const YOU_DIED: PingOp = PingOp(3);
}

/// A heartbeat or its answer.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 3, compat = 1)]
pub struct MOSDPing {
    /// What it says.
    pub op: PingOp,
    /// The sender.
    pub from: OsdId,
    /// `up_from` of the sender's incarnation.
    pub up_from: Epoch,
    /// Newest map of the sender.
    pub epoch: Epoch,
    /// The ping's monotonic time in ns by its sender's clock; a reply echoes it.
    pub stamp_ns: u64,
    /// Bytes that the sender has room for in its fullest shard: none if it is all but full.
    #[codec(since = 2)]
    pub room: Option<u64>,
    /// What is left there in fact.
    #[codec(since = 3)]
    pub left_bytes: u64,
}
front_only!(MOSDPing);
