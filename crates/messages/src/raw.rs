//! A message as the messenger carries it: a type number and byte segments.

use bytes::Bytes;
use codec::{Payload, crc32c};

/// The longest front, and the longest payload, that OSDs send each other. A client's request becomes a change of about
/// its size (`osd_max_write_size` is 90 MiB), all of which may be front. No change exceeds 1 GiB, but the list of a
/// PG's objects may, if there are some ten million of them.
pub const PEER_SEGMENT_BYTES_MAX: u32 = 1 << 30;

/// The parts of a message that a connection moves; see `Message` for their meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawMessage {
    /// `CEPH_MSG_*` number.
    pub kind: u16,
    /// Version of the front's encoding.
    pub version: u16,
    /// Oldest version that a decoder must know to read it.
    pub compat: u16,
    /// Larger is more urgent; clients see Ceph's values (63 to 196).
    pub priority: u16,
    /// The request's id, echoed by the reply. 0 for a message that no request asked for.
    pub tid: u64,
    /// The encoded struct.
    pub front: Bytes,
    /// The front's checksum, where it is known: for a message to several peers it is computed once.
    pub front_crc: Option<u32>,
    /// Unused by all messages here.
    pub middle: Bytes,
    /// Payload; received with the checksum that the connection has checked.
    pub data: Payload,
    /// More payload, behind `data`; the messenger sends all of it as one segment without joining it.
    /// Always empty on received messages.
    pub data_more: Vec<Payload>,
}

impl RawMessage {
    /// True for what another OSD takes.
    pub fn fits_peers(&self) -> bool {
        let data_bytes = self.data.len() + self.data_more.iter().map(|piece| piece.len()).sum::<usize>();
        self.front.len().max(data_bytes) <= PEER_SEGMENT_BYTES_MAX as usize
    }

    /// This message with the front's checksum.
    pub fn sealed(self) -> RawMessage {
        RawMessage { front_crc: Some(crc32c(u32::MAX, &self.front)), ..self }
    }
}
