//! What carries the bytes: a reactor's sockets, or the simulator's network.

use std::{fmt::Debug, net::SocketAddr};

use bytes::Bytes;
use msgr::PartialFrame;
use types::{Instant, UTime};

/// Streams of bytes to other processes, and the clocks. Calls that name a connection which is gone do
/// nothing.
pub trait Wire {
    /// Names a connection; never reused.
    type Conn: Copy + Ord + Debug;

    /// Monotonic clock.
    fn now(&self) -> Instant;

    /// Wall clock.
    fn wall(&self) -> UTime;

    /// Starts to connect; ends in [`WireEvent::Connected`] or [`WireEvent::Failed`]. None when that is
    /// not even possible.
    fn connect(&mut self, to: SocketAddr) -> Option<Self::Conn>;

    /// Queues bytes to be sent in this order.
    fn send(&mut self, conn: Self::Conn, buffers: Vec<Bytes>);

    /// Bytes queued and not yet taken by the network.
    fn queued_bytes(&self, conn: Self::Conn) -> usize;

    /// A hint: the bytes that are received next are of no use before there are so many.
    fn expect(&mut self, conn: Self::Conn, bytes: usize);

    /// The next bytes that are received are to be those of `part` and all that follow of it, in one piece.
    fn expect_frame(&mut self, conn: Self::Conn, part: PartialFrame);

    /// Stops taking bytes from the peer, or goes on.
    fn pause_receive(&mut self, conn: Self::Conn, pause: bool);

    /// Ends a connection at once, even one that is being closed already; no event of it follows.
    fn close(&mut self, conn: Self::Conn);

    /// Ends a connection when what is queued is sent; no event of it follows.
    fn close_when_sent(&mut self, conn: Self::Conn);

    /// True once a connection takes nothing any more. One that was closed may still wait for its peer.
    fn is_gone(&self, conn: Self::Conn) -> bool;
}

/// What a wire reports.
#[derive(Debug)]
pub enum WireEvent<C> {
    /// A peer connected.
    Accepted(C, SocketAddr),
    /// Our own attempt to connect succeeded.
    Connected(C),
    /// Our own attempt to connect failed, and the connection is gone; true when no process listens there.
    Failed(C, bool),
    /// Bytes of the stream, and those that follow where they lie in several pieces.
    Received(C, Bytes, Vec<Bytes>),
    /// Much was queued to be sent, and hardly any of it is left.
    Drained(C),
    /// The connection is gone.
    Closed(C),
}

impl<C: Copy> WireEvent<C> {
    /// Which connection it concerns.
    pub fn conn(&self) -> C {
        match self {
            WireEvent::Accepted(conn, _)
            | WireEvent::Connected(conn)
            | WireEvent::Failed(conn, _)
            | WireEvent::Received(conn, ..)
            | WireEvent::Drained(conn)
            | WireEvent::Closed(conn) => *conn,
        }
    }
}
