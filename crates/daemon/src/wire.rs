//! The reactor's sockets as a [`Wire`].

use std::net::SocketAddr;

use bytes::Bytes;
use msgr::{Established, PartialFrame};
use net::{Wire, WireEvent};
use reactor::{Event, Reactor};
use types::{GlobalId, Instant, UTime};

use crate::clock;

/// The connections of a process on a reactor.
pub(crate) type Net = net::Net<reactor::ConnId>;

/// A reactor's sockets as a [`Wire`].
pub(crate) struct OnReactor<'a>(pub(crate) &'a mut Reactor);

impl Wire for OnReactor<'_> {
    type Conn = reactor::ConnId;

    fn now(&self) -> Instant {
        clock::now()
    }

    fn wall(&self) -> UTime {
        clock::wall()
    }

    fn connect(&mut self, to: SocketAddr) -> Option<reactor::ConnId> {
        let connected = self.0.connect(to);
        connected.inspect_err(|error| tracing::warn!(%error, %to, "no socket to dial with")).ok()
    }

    fn send(&mut self, conn: reactor::ConnId, buffers: Vec<Bytes>) {
        self.0.send_vectored(conn, buffers);
    }

    fn queued_bytes(&self, conn: reactor::ConnId) -> usize {
        self.0.queued_bytes(conn)
    }

    fn expect(&mut self, conn: reactor::ConnId, bytes: usize) {
        self.0.expect(conn, bytes);
    }

    fn expect_frame(&mut self, conn: reactor::ConnId, part: PartialFrame) {
        self.0.expect_aligned(conn, &part.have, part.bytes, part.align_at);
    }

    fn pause_receive(&mut self, conn: reactor::ConnId, pause: bool) {
        if pause {
            self.0.pause_receive(conn);
        } else {
            self.0.resume_receive(conn);
        }
    }

    fn close(&mut self, conn: reactor::ConnId) {
        self.0.close(conn);
    }

    fn close_when_sent(&mut self, conn: reactor::ConnId) {
        self.0.close_when_sent(conn);
    }

    fn is_gone(&self, conn: reactor::ConnId) -> bool {
        self.0.is_gone(conn)
    }
}

/// The peer at the other end of a connection of the monitor or of its manager's part.
pub(crate) fn mon_peer(end: Established) -> mon::Peer {
    mon::Peer {
        name: end.identity.name,
        global_id: GlobalId(end.identity.global_id),
        addr: end.addr,
        ip: end.socket.ip(),
        features: end.features,
    }
}

/// The reactor's event, where it is one of a connection.
pub(crate) fn wire_event(event: Event) -> Option<WireEvent<reactor::ConnId>> {
    Some(match event {
        Event::Accepted { conn, peer, .. } => WireEvent::Accepted(conn, peer),
        Event::Connected { conn, result: Ok(_) } => WireEvent::Connected(conn),
        Event::Connected { conn, result: Err(error) } => {
            WireEvent::Failed(conn, error.kind() == std::io::ErrorKind::ConnectionRefused)
        }
        Event::Received { conn, bytes, more } => WireEvent::Received(conn, bytes, more),
        Event::Drained { conn } => WireEvent::Drained(conn),
        Event::Closed { conn, .. } => WireEvent::Closed(conn),
        _ => return None,
    })
}
