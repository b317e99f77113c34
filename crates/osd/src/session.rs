//! What an OSD knows of a connected client.

use types::{EntityNum, EntityType, Epoch, OsdId};

use crate::event::Peer;

/// One connection of a client or an OSD.
#[derive(Debug)]
pub(crate) struct Session {
    /// Who it is.
    pub(crate) peer: Peer,
    /// Newest map that the peer has, as far as we know: what it named or we sent.
    pub(crate) map_epoch: Epoch,
}

impl Session {
    pub(crate) fn new(peer: Peer) -> Session {
        Session { peer, map_epoch: Epoch(0) }
    }

    /// `client.4123`, as request ids and lock owners name it.
    pub(crate) fn entity(&self) -> EntityNum {
        EntityNum { kind: self.peer.name.kind.0, num: self.peer.global_id.0 as i64 }
    }

    /// The OSD at the other end, if it is one.
    pub(crate) fn osd(&self) -> Option<OsdId> {
        if self.peer.name.kind != EntityType::OSD {
            return None;
        }
        self.peer.name.id.parse().ok().map(OsdId)
    }
}
