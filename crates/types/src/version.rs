//! Versions of PG log entries and the ids of requests.

use std::fmt;

use codec::Codec;

use crate::{EntityNum, Epoch};

/// `eversion_t`: the epoch and the number of a change to a PG. Ordered by epoch, then number;
/// on the wire the number comes first.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EVersion {
    /// The change's number in its PG, from 1 on.
    pub version: u64,
    /// The map epoch in which the primary ordered it.
    pub epoch: Epoch,
}

impl EVersion {
    /// Before every change.
    pub const ZERO: EVersion = EVersion { version: 0, epoch: Epoch(0) };
    /// After every change.
    pub const MAX: EVersion = EVersion { version: u64::MAX, epoch: Epoch(u32::MAX) };

    /// Version `epoch'version`.
    pub fn new(epoch: Epoch, version: u64) -> EVersion {
        EVersion { version, epoch }
    }
}

impl Ord for EVersion {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.epoch, self.version).cmp(&(other.epoch, other.version))
    }
}

impl PartialOrd for EVersion {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for EVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}'{}", self.epoch, self.version)
    }
}

/// `osd_reqid_t`: names a client's request; a resent one keeps it.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[codec(version = 2, compat = 2)]
pub struct ReqId {
    /// The client that sent the request (`client.4123`).
    pub name: EntityNum,
    /// The client's transaction id.
    pub tid: u64,
    /// The client's incarnation.
    pub inc: i32,
}
