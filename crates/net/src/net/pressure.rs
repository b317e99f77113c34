//! Which clients have to wait: all of them while the machine holds enough of what they sent, and each one that asks for
//! more than the network takes.

use crate::{
    Wire,
    net::{Net, Purpose},
};

/// When more than this waits to be sent to a client, nothing is received from it: it reads faster than the network
/// carries. A link of 10 Gbit/s takes 50 ms for that.
pub(super) const QUEUED_BYTES_HIGH: usize = 64 << 20;
/// When no more than this waits, it is received from again. More than what a wire has left when it says that it is
/// drained, so that this is heard once.
pub(super) const QUEUED_BYTES_LOW: usize = 8 << 20;
/// A peer that does not take its answers: more than this waits to be sent. Far above the other mark, as all that was
/// received before is still answered: 256 reads of 4 MiB.
pub(super) const QUEUED_BYTES_MAX: usize = (1 << 30) + QUEUED_BYTES_HIGH;

impl<C: Copy + Ord + std::fmt::Debug> Net<C> {
    /// Takes nothing more from clients, or takes again: what they send waits on their side.
    pub fn hold_clients(&mut self, hold: bool, wire: &mut impl Wire<Conn = C>) {
        if hold == self.is_holding_clients {
            return;
        }
        self.is_holding_clients = hold;
        for (conn, _) in self.links.iter().filter(|(_, link)| link.is_client && !link.is_choked) {
            wire.pause_receive(*conn, hold);
        }
    }

    /// Called after something was sent: true for a peer that makes us send so much more than it takes that its
    /// connection is to be closed. What we ask of others is bounded at its source; answers are not, if the peer does
    /// not read them.
    pub(super) fn is_overfull(&mut self, conn: C, wire: &mut impl Wire<Conn = C>) -> bool {
        let queued = wire.queued_bytes(conn);
        if queued <= QUEUED_BYTES_HIGH {
            return false;
        }
        let Some(link) = self.links.get_mut(&conn).filter(|link| link.purpose == Purpose::Inbound) else {
            return false;
        };
        if queued > QUEUED_BYTES_MAX {
            tracing::warn!(peer = %link.conn.socket(), "a peer does not take its answers; closing its connection");
            return true;
        }
        if link.is_client && !link.is_choked {
            link.is_choked = true;
            wire.pause_receive(conn, true);
        }
        false
    }

    /// Receives from a client again, if it has taken what was said to it.
    pub(super) fn release(&mut self, conn: C, wire: &mut impl Wire<Conn = C>) {
        if wire.queued_bytes(conn) > QUEUED_BYTES_LOW {
            return;
        }
        if let Some(link) = self.links.get_mut(&conn).filter(|link| link.is_choked) {
            link.is_choked = false;
            wire.pause_receive(conn, self.is_holding_clients);
        }
    }

    /// Called several times a second, so that no client waits for ever, whatever the wire has reported.
    pub(super) fn release_all(&mut self, wire: &mut impl Wire<Conn = C>) {
        let choked = self.links.iter().filter(|(_, link)| link.is_choked).map(|(conn, _)| *conn);
        for conn in choked.collect::<Vec<_>>() {
            self.release(conn, wire);
        }
    }
}
