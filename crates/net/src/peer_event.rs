//! What came from peers that dialed: all that a monitor needs of what its connections tell.

use messages::Message;
use msgr::Established;

use crate::NetEvent;

/// What a peer does that dialed us.
#[derive(Debug)]
pub enum PeerEvent {
    /// It finished the handshake.
    Opened(u64, Box<Established>),
    /// Its connection is gone.
    Closed(u64),
    /// It sent a message, under this tid.
    Received(u64, u64, Message),
}

impl NetEvent {
    /// This event, unless it is about a session that this process began.
    pub fn from_peer(self) -> Option<PeerEvent> {
        match self {
            NetEvent::Opened(id, end) => Some(PeerEvent::Opened(id, end)),
            NetEvent::Closed(id) => Some(PeerEvent::Closed(id)),
            NetEvent::Received(id, tid, message) => Some(PeerEvent::Received(id, tid, message)),
            NetEvent::MonOpened
            | NetEvent::MonClosed
            | NetEvent::FromMon(..)
            | NetEvent::Tickets
            | NetEvent::Secrets(_)
            | NetEvent::FromOsd(..)
            | NetEvent::OsdRefused(_)
            | NetEvent::OsdStuck(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use types::OsdId;

    use super::*;

    #[test]
    fn what_a_dialed_daemon_does_is_no_event_of_a_peer() {
        assert!(matches!(NetEvent::Closed(7).from_peer(), Some(PeerEvent::Closed(7))));
        for event in [NetEvent::MonClosed, NetEvent::Tickets, NetEvent::OsdRefused(OsdId(1))] {
            assert!(event.from_peer().is_none());
        }
    }
}
