//! What Ceph puts in front of messages to services of the monitors (`PaxosServiceMessage`).

use codec::Codec;

/// The header: the map version that the sender has, and two retired fields.
#[derive(Codec, Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaxosHeader {
    /// Newest version of the service's map that the sender has; in an answer, the version it rests on.
    pub version: u64,
    /// Retired, -1.
    pub deprecated_session_mon: i16,
    /// Retired, 0.
    pub deprecated_session_mon_tid: u64,
}

impl Default for PaxosHeader {
    fn default() -> Self {
        PaxosHeader { version: 0, deprecated_session_mon: -1, deprecated_session_mon_tid: 0 }
    }
}

impl PaxosHeader {
    /// A header that carries `version`.
    pub fn new(version: u64) -> PaxosHeader {
        PaxosHeader { version, ..PaxosHeader::default() }
    }
}
