//! Which clients have to wait: all of them while the machine holds enough of what they sent, single ones for which the
//! machine has to wait itself, and each one that asks for more than the network takes; and which are given up, as they
//! take nothing of what they ask for.

use std::time::Duration;

use crate::{
    Wire,
    net::{Link, Net, Purpose},
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

/// A client that is not received from for so much that waits, and takes none of that for so long, is given up: it holds
/// memory that others need, and its end might not be noticed.
const CHOKED_MAX: Duration = Duration::from_secs(60);
/// Where connections have to be closed, those go first of which nothing was taken for so long.
const STALLED: Duration = Duration::from_secs(1);
/// From such a part of what may wait for all clients on, each may have no more than [`QUEUED_BYTES_LOW`] of it.
const HIGH_PART: usize = 4;

/// What waits to be sent to clients.
#[derive(Debug)]
pub(super) struct Queued {
    /// To all of them; no less, and more by what was taken since it was last looked at.
    pub(super) bytes: usize,
    /// Above that, connections are closed.
    bytes_max: usize,
    /// So much waits that no client may have much of it.
    is_crowded: bool,
}

impl Default for Queued {
    fn default() -> Queued {
        Queued { bytes: 0, bytes_max: QUEUED_BYTES_MAX, is_crowded: false }
    }
}

impl Queued {
    /// So much waits now for a client for which `known` was counted.
    pub(super) fn note(&mut self, known: &mut usize, queued: usize) {
        self.bytes = self.bytes - *known + queued;
        *known = queued;
    }

    /// A connection for which that was counted is gone.
    pub(super) fn forget(&mut self, known: usize) {
        self.bytes -= known;
    }

    /// True while it has to be looked at with each message that is sent.
    pub(super) fn is_high(&self) -> bool {
        self.bytes > self.high()
    }

    fn high(&self) -> usize {
        self.bytes_max / HIGH_PART
    }
}

/// Bytes that connections may keep which were closed and whose peers do not take what waits for them.
pub(super) const CLOSING_BYTES_MAX: usize = 64 << 20;
/// More than a connection takes by itself.
const CONNECTION_BYTES: usize = 4 << 10;

/// Connections that were closed when something waited to be sent, and how much that was: it is in no other count.
#[derive(Debug)]
pub(super) struct Closing<C> {
    conns: Vec<(C, usize)>,
    bytes: usize,
}

impl<C> Default for Closing<C> {
    fn default() -> Closing<C> {
        Closing { conns: Vec::new(), bytes: 0 }
    }
}

impl<C: Copy> Closing<C> {
    /// True if there is room for one more, which is counted then.
    pub(super) fn admit(&mut self, conn: C, queued: usize) -> bool {
        let bytes = queued + CONNECTION_BYTES;
        let has_room = queued <= QUEUED_BYTES_LOW && self.bytes + bytes <= CLOSING_BYTES_MAX;
        if has_room {
            self.conns.push((conn, bytes));
            self.bytes += bytes;
        }
        has_room
    }

    /// Forgets those that are gone.
    pub(super) fn free(&mut self, is_gone: impl Fn(C) -> bool) {
        self.conns.retain(|(conn, _)| !is_gone(*conn));
        self.bytes = self.conns.iter().map(|(_, bytes)| bytes).sum();
    }
}

/// A little less than a limit. Acted upon from here on, the limit is reached again only after that little was sent: all
/// clients are not looked at anew with each message.
fn nearly(limit: usize) -> usize {
    limit - limit / 8
}

impl<C: Copy + Ord + std::fmt::Debug> Net<C> {
    /// Takes nothing more from clients, or takes again: what they send waits on their side.
    pub fn hold_clients(&mut self, hold: bool, wire: &mut impl Wire<Conn = C>) {
        if hold == self.is_holding_clients {
            return;
        }
        self.is_holding_clients = hold;
        let free = |link: &Link| link.is_client && !link.waits(false);
        for (conn, _) in self.links.iter().filter(|(_, link)| free(link)) {
            wire.pause_receive(*conn, hold);
        }
    }

    /// Takes nothing more from a single client, or takes again.
    pub fn hold_client(&mut self, id: u64, hold: bool, wire: &mut impl Wire<Conn = C>) {
        let Some(conn) = self.by_id.get(&id).copied() else { return };
        if let Some(link) = self.links.get_mut(&conn).filter(|link| link.is_client) {
            link.is_held = hold;
            wire.pause_receive(conn, link.waits(self.is_holding_clients));
        }
    }

    /// How much may wait to be sent to all clients before connections are closed; never less than may wait for one.
    pub fn set_queued_bytes_max(&mut self, bytes: usize) {
        self.queued.bytes_max = bytes.max(QUEUED_BYTES_MAX);
    }

    /// Called where much waits to be sent to a peer, or to all clients. A client that has its share of that is received
    /// from no more. Connections that make us send so much more than they take are closed, and the machine is told with
    /// the next tick. What we ask of others is bounded at its source; answers are not, if the peer does not read them.
    pub(super) fn relieve(&mut self, conn: C, queued: usize, wire: &mut impl Wire<Conn = C>) {
        let Some(link) = self.links.get(&conn).filter(|link| link.purpose == Purpose::Inbound) else {
            return;
        };
        if queued > QUEUED_BYTES_MAX {
            tracing::warn!(peer = %link.conn.socket(), "a peer does not take its answers; closing its connection");
            return self.cut(conn, wire);
        }
        if self.queued.is_high() && !self.queued.is_crowded {
            self.recount(wire);
        }
        let mark = if self.queued.is_crowded { QUEUED_BYTES_LOW } else { QUEUED_BYTES_HIGH };
        if let Some(link) = self.links.get_mut(&conn)
            && link.is_client
            && !link.is_choked
            && queued > mark
        {
            link.is_choked = true;
            link.taken_at_ns = wire.now().0;
            wire.pause_receive(conn, true);
        }
        if self.queued.bytes > self.queued.bytes_max {
            self.recount(wire);
            self.cut_largest(wire);
        }
    }

    /// Looks at what waits to be sent to each client.
    fn recount(&mut self, wire: &impl Wire<Conn = C>) {
        let now = wire.now().0;
        self.queued.bytes = 0;
        for (conn, link) in self.links.iter_mut().filter(|(_, link)| link.is_client) {
            let queued = wire.queued_bytes(*conn);
            if queued == 0 || queued < link.queued_bytes {
                link.taken_at_ns = now;
            }
            link.queued_bytes = queued;
            self.queued.bytes += queued;
        }
        self.queued.is_crowded = self.queued.bytes > nearly(self.queued.high());
    }

    /// Closes the connections of the clients for which most waits, until there is room; first of those that seem to
    /// take nothing.
    fn cut_largest(&mut self, wire: &mut impl Wire<Conn = C>) {
        let since = wire.now().0.saturating_sub(STALLED.as_nanos() as u64);
        while self.queued.bytes > nearly(self.queued.bytes_max) {
            let weight = |link: &Link| (link.is_choked && link.taken_at_ns <= since, link.queued_bytes);
            let counted = self.links.iter().filter(|(_, link)| link.queued_bytes > 0);
            let Some((conn, link)) = counted.max_by_key(|(_, link)| weight(link)) else { return };
            let (conn, peer, mib) = (*conn, link.conn.socket(), link.queued_bytes >> 20);
            tracing::warn!(%peer, mib, "too many answers wait for clients; closing a connection with many");
            self.cut(conn, wire);
        }
    }

    /// Closes a connection at once. Nothing more is sent over it; the machine is told with the next tick.
    pub(super) fn cut(&mut self, conn: C, wire: &mut impl Wire<Conn = C>) {
        wire.close(conn);
        let mut closed = std::mem::take(&mut self.closed);
        self.drop_link(conn, wire, &mut closed);
        self.closed = closed;
    }

    /// Receives from a client again, if it has taken what was said to it.
    pub(super) fn release(&mut self, conn: C, wire: &mut impl Wire<Conn = C>) {
        if wire.queued_bytes(conn) > QUEUED_BYTES_LOW {
            return;
        }
        if let Some(link) = self.links.get_mut(&conn).filter(|link| link.is_choked) {
            link.is_choked = false;
            wire.pause_receive(conn, link.waits(self.is_holding_clients));
        }
    }

    /// Called several times a second: no client waits for ever, whatever the wire has reported, and none that takes
    /// nothing keeps its answers for ever.
    pub(super) fn look_at_clients(&mut self, wire: &mut impl Wire<Conn = C>) {
        self.recount(wire);
        let since = wire.now().0.saturating_sub(CHOKED_MAX.as_nanos() as u64);
        let choked = self.links.iter().filter(|(_, link)| link.is_choked);
        let choked = choked.map(|(conn, link)| (*conn, link.conn.socket(), link.taken_at_ns <= since));
        for (conn, peer, is_stuck) in choked.collect::<Vec<_>>() {
            if is_stuck {
                tracing::warn!(%peer, "a client takes none of its answers; closing its connection");
                self.cut(conn, wire);
            } else {
                self.release(conn, wire);
            }
        }
        if self.queued.bytes > self.queued.bytes_max {
            self.cut_largest(wire);
        }
    }
}
