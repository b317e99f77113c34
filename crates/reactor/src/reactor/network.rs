//! The reactor's listeners and connections.

use std::{
    io, mem,
    net::SocketAddr,
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

use bytes::Bytes;
use rustix::{
    io::Errno,
    net::{Shutdown, SocketAddrAny, shutdown},
};

use super::TimerKey;
use crate::{
    CloseReason, ConnId, Event, ListenerId, Reactor,
    backend::{Completion, Data, Owner, Request},
    clock,
    connection::{Connection, End, Expect, HEAD_BYTES, ReceiveKind, Receiving},
    listener::{Listener, Socket, local_address, peer_address, set_up, socket},
};

/// How long a flushed connection waits for the peer's end of stream: closing earlier could reset
/// the connection under bytes that the peer has not read.
const LINGER: Duration = Duration::from_secs(1);
/// Pause after an accept that failed, mostly for want of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Sends up to this size fit a socket's buffer, mostly, and are brief.
const BRIEF_BYTES_MAX: usize = 64 << 10;

impl Reactor {
    /// Above this many queued bytes a connection counts as congested.
    pub const SEND_HIGH_BYTES: usize = 8 << 20;
    /// [`Event::Drained`] comes when a congested connection has no more than this queued.
    pub const SEND_LOW_BYTES: usize = 1 << 20;

    /// Listens on `address`; port 0 picks one, see [`local_addr`](Reactor::local_addr).
    pub fn listen(&mut self, address: SocketAddr) -> io::Result<ListenerId> {
        let listener = Listener::bind(address, self.backend.kind())?;
        let id = ListenerId(self.listeners.insert(listener));
        self.arm_accept(id);
        Ok(id)
    }

    /// Where a listener listens.
    pub fn local_addr(&self, listener: ListenerId) -> Option<SocketAddr> {
        self.listeners.get(listener.0).map(|listener| listener.local)
    }

    /// Takes a connection out, for another reactor of the same kind: only right after [`Event::Accepted`],
    /// when nothing has been asked of it. `None` once something has.
    pub fn take_socket(&mut self, conn: ConnId) -> Option<Socket> {
        self.connections.get(conn.0).filter(|connection| connection.ops == 0)?;
        self.connections.remove(conn.0).map(|connection| Socket(connection.fd))
    }

    /// Makes a socket that another reactor accepted a connection of this one.
    pub fn adopt(&mut self, socket: Socket) -> ConnId {
        let conn = ConnId(self.connections.insert(Connection::new(socket.0, true)));
        self.mark_dirty(conn);
        conn
    }

    /// Ends a listener; its connections stay. The port is free after the next polls.
    pub fn close_listener(&mut self, listener: ListenerId) {
        if let Some(open) = self.listeners.get_mut(listener.0) {
            open.closing = true;
            match open.accept {
                Some(key) => self.backend.cancel(key),
                None => self.forget_listener(listener),
            }
        }
    }

    /// Starts to connect to `address`; [`Event::Connected`] tells how that went. Bytes may be
    /// queued before.
    pub fn connect(&mut self, address: SocketAddr) -> io::Result<ConnId> {
        let fd = socket(address, self.backend.kind())?;
        set_up(&fd)?;
        let mut connection = Connection::new(fd, false);
        connection.ops = 1;
        let socket = connection.raw_fd();
        let conn = ConnId(self.connections.insert(connection));
        let address = Box::new(SocketAddrAny::from(address));
        let key = self.backend.submit(Owner::Connect(conn), Request::Connect { socket, address });
        if let Some(connection) = self.connections.get_mut(conn.0) {
            connection.sending = Some(key);
        }
        Ok(conn)
    }

    /// Queues `bytes` behind what is queued; one vectored send per connection is in flight. Never
    /// refuses: watch [`queued_bytes`](Reactor::queued_bytes).
    pub fn send(&mut self, conn: ConnId, bytes: Bytes) {
        self.send_vectored(conn, [bytes]);
    }

    /// Queues several buffers.
    pub fn send_vectored(&mut self, conn: ConnId, buffers: impl IntoIterator<Item = Bytes>) {
        let Some(connection) = self.open_connection(conn) else { return };
        if connection.close_when_sent {
            return;
        }
        connection.queue(buffers);
        connection.is_congested |= connection.queued_bytes > Self::SEND_HIGH_BYTES;
        self.mark_dirty(conn);
    }

    /// Bytes accepted by `send` that the kernel has not taken; zero for a stale id.
    pub fn queued_bytes(&self, conn: ConnId) -> usize {
        self.connections.get(conn.0).map_or(0, |connection| connection.queued_bytes)
    }

    /// Wants no [`Event::Received`] before that many bytes of the stream are there, counted from the end of the last
    /// one. For the next event only, after which any bytes come.
    pub fn expect(&mut self, conn: ConnId, bytes: usize) {
        let Some(connection) = self.open_connection(conn).filter(|connection| !connection.close_when_sent)
        else {
            return;
        };
        assert!(!connection.expects_buffer(), "expect is called once per received event");
        connection.set_expect(Expect::Count(bytes));
        self.mark_ready(conn);
    }

    /// Wants the rest of `bytes` bytes, of which the consumer has got the first ones as `have`, and all
    /// of them in one piece of one [`Event::Received`], in memory whose byte `align_at` lies on a page's start. For
    /// large frames whose payload goes to a device as it is. Bound `bytes` before: it is allocated at once. Like
    /// [`expect`](Reactor::expect) otherwise.
    pub fn expect_aligned(&mut self, conn: ConnId, have: &[Bytes], bytes: usize, align_at: usize) {
        let mut buffer = self.pool.take_aligned(bytes, align_at);
        let Some(connection) = self.open_connection(conn).filter(|connection| !connection.close_when_sent)
        else {
            return;
        };
        assert!(!connection.expects_buffer(), "expect is called once per received event");
        let copied: usize = have.iter().map(|piece| buffer.fill_from(piece)).sum();
        assert!(copied == have.iter().map(Bytes::len).sum() && copied < bytes, "something is missing");
        connection.set_expect(Expect::Buffer(Some(buffer)));
        self.mark_dirty(conn);
        self.mark_ready(conn);
    }

    /// Delivers no more bytes, so that the peer has to stop sending, until
    /// [`resume_receive`](Reactor::resume_receive). Events already returned by `poll` stand.
    pub fn pause_receive(&mut self, conn: ConnId) {
        if let Some(connection) = self.open_connection(conn) {
            connection.is_paused = true;
            self.mark_dirty(conn);
        }
    }

    /// Ends a pause.
    pub fn resume_receive(&mut self, conn: ConnId) {
        if let Some(connection) = self.open_connection(conn) {
            connection.is_paused = false;
            self.mark_dirty(conn);
            self.mark_ready(conn);
        }
    }

    /// Ends a connection at once, even one that was closed and waits for its peer. What is queued may be lost. No event
    /// of it follows, though the caller may hold some from its last poll.
    pub fn close(&mut self, conn: ConnId) {
        self.release(conn);
    }

    /// True once nothing is left of a connection: one that is being closed may wait for its peer, without further
    /// events.
    pub fn is_gone(&self, conn: ConnId) -> bool {
        self.connections.get(conn.0).is_none()
    }

    /// Ends a connection after all that is queued has been sent; receives no more. Then, or when
    /// that fails or takes too long ([`Config::close_patience`](crate::Config::close_patience)), comes
    /// [`Event::Closed`].
    pub fn close_when_sent(&mut self, conn: ConnId) {
        let until = clock::now() + self.close_patience.as_nanos() as u64;
        if let Some(connection) = self.open_connection(conn) {
            let is_asked_again = mem::replace(&mut connection.close_when_sent, true);
            connection.is_paused = false;
            if connection.receiving.as_ref().is_none_or(|receiving| receiving.kind != ReceiveKind::Exact) {
                connection.set_expect(Expect::Count(0));
            }
            if !is_asked_again {
                self.timers.set(TimerKey::Linger(conn), until);
            }
            self.mark_dirty(conn);
            self.mark_ready(conn);
        }
    }

    /// A connection's socket.
    #[cfg(test)]
    pub(crate) fn socket_of(&self, conn: ConnId) -> Option<&OwnedFd> {
        self.connections.get(conn.0).map(|connection| &connection.fd)
    }

    /// Connections, including those that are being closed.
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// A connection that its owner has not lost.
    fn open_connection(&mut self, conn: ConnId) -> Option<&mut Connection> {
        self.connections.get_mut(conn.0).filter(|connection| !connection.is_closing)
    }

    fn mark_dirty(&mut self, conn: ConnId) {
        if let Some(connection) = self.connections.get_mut(conn.0)
            && !mem::replace(&mut connection.in_dirty, true)
        {
            self.dirty.push(conn);
        }
    }

    /// While a connection is on the list, a poll does not sleep.
    fn mark_ready(&mut self, conn: ConnId) {
        if let Some(connection) = self.connections.get_mut(conn.0)
            && connection.has_news()
            && !mem::replace(&mut connection.in_ready, true)
        {
            self.ready.push(conn);
        }
    }

    /// Submits the sends and receives that this turn's calls and completions led to.
    pub(super) fn arm_dirty(&mut self) {
        for conn in mem::take(&mut self.dirty) {
            self.arm_send(conn);
            self.arm_receive(conn);
        }
    }

    fn arm_send(&mut self, conn: ConnId) {
        let Some(connection) = self.connections.get_mut(conn.0) else { return };
        connection.in_dirty = false;
        if connection.is_closing || !connection.is_connected || connection.sending.is_some() {
            return;
        }
        if let Some(batch) = connection.next_batch() {
            connection.ops += 1;
            let is_brief = batch.bytes() <= BRIEF_BYTES_MAX && !connection.waits_for_sends();
            let request = Request::Send { socket: connection.raw_fd(), batch, is_brief };
            connection.sending = Some(self.backend.submit(Owner::Send(conn), request));
        }
    }

    fn arm_receive(&mut self, conn: ConnId) {
        let Some(connection) = self.connections.get_mut(conn.0) else { return };
        if connection.is_closing {
            return;
        }
        let wanted = connection.wanted_receive();
        if let Some(receiving) = &mut connection.receiving {
            if wanted != Some(receiving.kind) && !mem::replace(&mut receiving.is_cancelled, true) {
                self.backend.cancel(receiving.key);
            }
            return;
        }
        let Some(kind) = wanted else { return };
        let socket = connection.raw_fd();
        let request = match kind {
            ReceiveKind::Stream => Request::Receive { socket },
            ReceiveKind::Head => Request::ReceiveInto { socket, buffer: self.pool.take(HEAD_BYTES) },
            ReceiveKind::Exact => match connection.take_buffer() {
                Some(buffer) => Request::ReceiveInto { socket, buffer },
                None => return,
            },
        };
        connection.ops += 1;
        let key = self.backend.submit(Owner::Receive(conn), request);
        connection.receiving = Some(Receiving { key, kind, is_cancelled: false });
    }

    pub(super) fn arm_accept(&mut self, listener: ListenerId) {
        if let Some(open) = self.listeners.get_mut(listener.0).filter(|open| !open.closing) {
            let request = Request::Accept { socket: open.fd.as_raw_fd() };
            open.accept = Some(self.backend.submit(Owner::Accept(listener), request));
        }
    }

    fn forget_listener(&mut self, listener: ListenerId) {
        self.timers.cancel(TimerKey::Accept(listener));
        if let Some(open) = self.listeners.remove(listener.0) {
            self.backend.forget(open.fd.as_raw_fd());
        }
    }

    pub(super) fn on_accept(
        &mut self,
        listener: ListenerId,
        completion: Completion,
        events: &mut Vec<Event>,
    ) {
        let Some(open) = self.listeners.get_mut(listener.0) else { return };
        let is_closing = open.closing;
        if completion.request.is_some() {
            open.accept = None;
        }
        if let (Some(Data::Socket(fd)), false) = (completion.data, is_closing)
            && let Err(error) = self.accepted(listener, fd, events)
        {
            tracing::debug!(%error, "a connection was gone before it was accepted");
        }
        match (completion.request.is_some(), is_closing, completion.result) {
            (true, true, _) => self.forget_listener(listener),
            (true, false, Ok(_)) => self.arm_accept(listener),
            (true, false, Err(error)) => {
                let now = clock::now();
                if let Some(open) = self.listeners.get_mut(listener.0) {
                    open.log_failure(error, now);
                }
                self.timers.set(TimerKey::Accept(listener), now + ACCEPT_RETRY.as_nanos() as u64);
            }
            (false, _, _) => {}
        }
    }

    fn accepted(&mut self, listener: ListenerId, fd: OwnedFd, events: &mut Vec<Event>) -> io::Result<()> {
        set_up(&fd)?;
        let (peer, local) = (peer_address(&fd)?, local_address(&fd)?);
        let conn = ConnId(self.connections.insert(Connection::new(fd, true)));
        self.mark_dirty(conn);
        events.push(Event::Accepted { listener, conn, peer, local });
        Ok(())
    }

    pub(super) fn on_connect(&mut self, conn: ConnId, completion: Completion, events: &mut Vec<Event>) {
        let Some(connection) = self.connections.get_mut(conn.0) else { return };
        connection.ops -= 1;
        connection.sending = None;
        if connection.is_closing {
            self.forget_connection(conn);
            return;
        }
        let result = completion.result.map_err(io::Error::from).and_then(|_| local_address(&connection.fd));
        connection.is_connected = result.is_ok();
        let failed = result.is_err();
        events.push(Event::Connected { conn, result });
        if failed {
            self.release(conn);
        } else {
            self.mark_dirty(conn);
            self.mark_ready(conn);
        }
    }

    pub(super) fn on_receive(&mut self, conn: ConnId, completion: Completion) {
        let Completion { result, data, request, .. } = completion;
        let Some(connection) = self.connections.get_mut(conn.0) else { return };
        if let Some(Data::Bytes(bytes)) = data {
            connection.arrived(bytes);
        }
        if let Some(request) = request {
            let receiving = connection.receiving.take();
            if let Request::ReceiveInto { socket, buffer } = request {
                match receiving {
                    Some(receiving) if receiving.goes_on(result, &buffer) => {
                        let request = Request::ReceiveInto { socket, buffer };
                        let key = self.backend.submit(Owner::Receive(conn), request);
                        connection.receiving = Some(Receiving { key, ..receiving });
                        return;
                    }
                    Some(Receiving { kind: ReceiveKind::Exact, .. }) => connection.return_buffer(buffer),
                    _ => connection.arrived(buffer.freeze()),
                }
            }
            connection.ops -= 1;
            match result {
                Ok(0) if connection.end.is_none() => connection.end = Some(End::Eof),
                Err(Errno::CANCELED | Errno::NOBUFS | Errno::INTR | Errno::AGAIN) | Ok(_) => {}
                Err(error) => connection.end = Some(End::Error(error.into())),
            }
            if connection.is_closing {
                self.forget_connection(conn);
                return;
            }
            self.mark_dirty(conn);
        }
        self.mark_ready(conn);
    }

    pub(super) fn on_send(&mut self, conn: ConnId, completion: Completion, events: &mut Vec<Event>) {
        let Some(connection) = self.connections.get_mut(conn.0) else { return };
        connection.sending = None;
        if connection.is_closing {
            connection.ops -= 1;
            self.forget_connection(conn);
            return;
        }
        let Some(Request::Send { socket, mut batch, is_brief }) = completion.request else { return };
        let again = match completion.result {
            Ok(count) => {
                connection.queued_bytes -= count as usize;
                batch.bytes() > 0
            }
            Err(Errno::INTR | Errno::AGAIN) => true,
            Err(error) => {
                connection.end = Some(End::Error(error.into()));
                false
            }
        };
        if again {
            // Now it has to wait. What is not brief is long, or was queued while another send waited.
            if is_brief {
                batch.detach();
            }
            let request = Request::Send { socket, batch, is_brief: false };
            let key = self.backend.submit(Owner::Send(conn), request);
            connection.sending = Some(key);
        } else {
            connection.ops -= 1;
        }
        if connection.is_congested && connection.queued_bytes <= Self::SEND_LOW_BYTES {
            connection.is_congested = false;
            events.push(Event::Drained { conn });
        }
        if !again {
            self.mark_dirty(conn);
            self.mark_ready(conn);
        }
    }

    /// Reports at most one event of each connection that may have one. Those with more stay on the
    /// list, and the next poll does not sleep.
    pub(super) fn deliver_ready(&mut self, events: &mut Vec<Event>) {
        for conn in mem::take(&mut self.ready) {
            let Some(connection) = self.connections.get_mut(conn.0) else { continue };
            connection.in_ready = false;
            if connection.is_closing || !connection.is_connected {
                continue;
            }
            if !connection.is_paused
                && !connection.close_when_sent
                && let Some((bytes, more)) = connection.next_bytes()
            {
                events.push(Event::Received { conn, bytes, more });
                let more = connection.has_bytes() || connection.end.is_some();
                self.mark_dirty(conn);
                if more {
                    self.mark_ready(conn);
                }
                continue;
            }
            self.deliver_end(conn, events);
        }
    }

    fn deliver_end(&mut self, conn: ConnId, events: &mut Vec<Event>) {
        let Some(connection) = self.connections.get_mut(conn.0) else { return };
        let is_flushed = connection.queued_bytes == 0;
        if connection.close_when_sent && is_flushed && connection.end.is_none() {
            connection.end = Some(End::Flushed);
        }
        let reason = match connection.end.take() {
            None => return,
            Some(End::Eof) if !is_flushed || (connection.is_paused && connection.has_bytes()) => {
                connection.end = Some(End::Eof);
                return;
            }
            Some(End::Eof) if connection.close_when_sent => CloseReason::Flushed,
            Some(End::Eof) => CloseReason::Eof,
            Some(End::Flushed) => CloseReason::Flushed,
            Some(End::Error(error)) => CloseReason::Error(error),
        };
        let lingers = matches!(reason, CloseReason::Flushed) && connection.receiving.is_some();
        events.push(Event::Closed { conn, reason });
        if lingers { self.linger(conn) } else { self.release(conn) }
    }

    /// Sends the end of the stream and drops what still arrives, until the peer ends its own.
    fn linger(&mut self, conn: ConnId) {
        let Some(connection) = self.connections.get_mut(conn.0) else { return };
        connection.is_closing = true;
        connection.discard();
        if shutdown(&connection.fd, Shutdown::Write).is_err() {
            self.release(conn);
        } else {
            self.timers.set(TimerKey::Linger(conn), clock::now() + LINGER.as_nanos() as u64);
        }
    }

    /// The peer of a connection that is to be closed has had its time.
    pub(super) fn lose_patience(&mut self, conn: ConnId, events: &mut Vec<Event>) {
        if self.open_connection(conn).is_some() {
            let reason = CloseReason::Error(io::ErrorKind::TimedOut.into());
            events.push(Event::Closed { conn, reason });
        }
        self.release(conn);
    }

    /// Takes a connection from its owner and ends its requests; the last one's completion frees it.
    pub(super) fn release(&mut self, conn: ConnId) {
        let Some(connection) = self.connections.get_mut(conn.0) else { return };
        connection.is_closing = true;
        connection.discard();
        if connection.is_connected {
            // Fails when the peer has ended the connection: nothing to do then.
            let _ = shutdown(&connection.fd, Shutdown::Both);
        }
        let receiving = connection.receiving.as_mut().map(|receiving| {
            receiving.is_cancelled = true;
            receiving.key
        });
        for key in connection.sending.into_iter().chain(receiving) {
            self.backend.cancel(key);
        }
        self.forget_connection(conn);
    }

    fn forget_connection(&mut self, conn: ConnId) {
        if self.connections.get(conn.0).is_none_or(|connection| connection.ops > 0) {
            return;
        }
        self.timers.cancel(TimerKey::Linger(conn));
        if let Some(connection) = self.connections.remove(conn.0) {
            self.backend.forget(connection.raw_fd());
        }
    }
}
