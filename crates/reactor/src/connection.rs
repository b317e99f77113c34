//! The state of one TCP connection: what waits to be sent, what has arrived, what is in flight. No
//! system calls here.

use std::{
    collections::VecDeque,
    io, mem,
    os::fd::{AsRawFd, OwnedFd, RawFd},
};

use bytes::{Buf, Bytes, BytesMut};

use crate::{
    backend::{
        OpKey,
        batch::{BATCH_BUFFERS_MAX, Batch},
    },
    buffer::PageBuf,
};

/// Most bytes of one send: enough for the largest write of RBD with its headers, small enough that
/// the memory of what is sent is freed along the way.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// From this size on an expected buffer is received into directly; below, a copy is cheaper than
/// leaving and entering the stream mode.
pub(crate) const DIRECT_BYTES_MIN: usize = 32 << 10;

/// How a connection is coming to its end.
#[derive(Debug)]
pub(crate) enum End {
    /// The peer sends no more.
    Eof,
    /// All is sent, as asked by `close_when_sent`.
    Flushed,
    /// It failed.
    Error(io::Error),
}

/// What the consumer wants next.
pub(crate) enum Expect {
    /// What there is.
    Any,
    /// So many bytes at once, gathered in the inbox.
    Count(usize),
    /// As many bytes as the buffer takes, received into it; `None` while it is in flight.
    Buffer(Option<PageBuf>),
}

/// The receive that is, or ought to be, in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReceiveKind {
    /// Multishot, into provided buffers.
    Stream,
    /// One, into the expected buffer.
    Exact,
}

/// A receive in flight.
pub(crate) struct Receiving {
    pub(crate) key: OpKey,
    pub(crate) kind: ReceiveKind,
    pub(crate) is_cancelled: bool,
}

/// What has arrived: a chunk as it came, or several in one piece.
enum Inbox {
    Chunk(Bytes),
    Joined(BytesMut),
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox::Chunk(Bytes::new())
    }
}

impl Inbox {
    fn as_slice(&self) -> &[u8] {
        match self {
            Inbox::Chunk(bytes) => bytes,
            Inbox::Joined(bytes) => bytes,
        }
    }

    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    fn push(&mut self, bytes: Bytes) {
        match self {
            own if own.is_empty() => *own = Inbox::Chunk(bytes),
            Inbox::Chunk(first) => {
                let mut joined = BytesMut::with_capacity(first.len() + bytes.len());
                joined.extend_from_slice(first);
                joined.extend_from_slice(&bytes);
                *self = Inbox::Joined(joined);
            }
            Inbox::Joined(joined) => joined.extend_from_slice(&bytes),
        }
    }

    /// Takes the first `count` bytes, of which there are as many.
    fn split_to(&mut self, count: usize) -> Bytes {
        match self {
            own if count == own.len() => match mem::take(own) {
                Inbox::Chunk(bytes) => bytes,
                Inbox::Joined(bytes) => bytes.freeze(),
            },
            Inbox::Chunk(bytes) => bytes.split_to(count),
            Inbox::Joined(bytes) => bytes.split_to(count).freeze(),
        }
    }
}

/// One connection.
pub(crate) struct Connection {
    pub(crate) fd: OwnedFd,
    pub(crate) is_connected: bool,
    /// Gone for its owner; waits for its requests to complete.
    pub(crate) is_closing: bool,
    /// Reports `Flushed` and ends when all is sent; arriving bytes are dropped.
    pub(crate) close_when_sent: bool,
    pub(crate) is_paused: bool,
    /// Above the high mark of queued bytes since the last time below the low one.
    pub(crate) is_congested: bool,
    /// In the reactor's list of connections that may need requests.
    pub(crate) in_dirty: bool,
    /// In the reactor's list of connections that may have events.
    pub(crate) in_ready: bool,
    pub(crate) end: Option<End>,
    /// Requests in flight.
    pub(crate) ops: u32,
    pub(crate) receiving: Option<Receiving>,
    /// The connect or send in flight.
    pub(crate) sending: Option<OpKey>,
    queue: VecDeque<Bytes>,
    /// Bytes in `queue` and in the send in flight.
    pub(crate) queued_bytes: usize,
    inbox: Inbox,
    expect: Expect,
}

impl Connection {
    pub(crate) fn new(fd: OwnedFd, is_connected: bool) -> Connection {
        Connection {
            fd,
            is_connected,
            is_closing: false,
            close_when_sent: false,
            is_paused: false,
            is_congested: false,
            in_dirty: false,
            in_ready: false,
            end: None,
            ops: 0,
            receiving: None,
            sending: None,
            queue: VecDeque::new(),
            queued_bytes: 0,
            inbox: Inbox::default(),
            expect: Expect::Any,
        }
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Queues `bytes` to be sent.
    pub(crate) fn queue(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.queued_bytes += bytes.len();
            self.queue.push_back(bytes);
        }
    }

    /// Takes from the queue what one send may carry.
    pub(crate) fn next_batch(&mut self) -> Option<Box<Batch>> {
        let mut bytes = 0;
        let mut count = 0;
        for buffer in self.queue.iter().take(BATCH_BUFFERS_MAX) {
            if count > 0 && bytes + buffer.len() > BATCH_BYTES_MAX {
                break;
            }
            bytes += buffer.len();
            count += 1;
        }
        (count > 0).then(|| Batch::new(self.queue.drain(..count)))
    }

    /// True when something happens as soon as what is being sent is sent.
    pub(crate) fn waits_for_sends(&self) -> bool {
        !self.queue.is_empty() || self.close_when_sent || self.is_congested
    }

    /// Forgets all that is queued or has arrived.
    pub(crate) fn discard(&mut self) {
        self.queue.clear();
        self.queued_bytes = 0;
        self.inbox = Inbox::default();
        self.expect = Expect::Any;
    }

    /// Takes bytes that arrived.
    pub(crate) fn arrived(&mut self, mut bytes: Bytes) {
        if self.close_when_sent || self.is_closing {
            return;
        }
        if let (Expect::Buffer(Some(buffer)), true) = (&mut self.expect, self.inbox.is_empty()) {
            bytes.advance(buffer.fill_from(&bytes));
        }
        self.inbox.push(bytes);
    }

    /// Wants the next bytes as `expect` says, starting with what is in the inbox.
    pub(crate) fn set_expect(&mut self, expect: Expect) {
        self.expect = expect;
        self.fill_buffer();
    }

    /// True while a large buffer is expected.
    pub(crate) fn expects_buffer(&self) -> bool {
        matches!(self.expect, Expect::Buffer(_))
    }

    /// Gives the expected buffer back after a receive into it.
    pub(crate) fn return_buffer(&mut self, buffer: PageBuf) {
        self.expect = Expect::Buffer(Some(buffer));
        self.fill_buffer();
    }

    fn fill_buffer(&mut self) {
        if let Expect::Buffer(Some(buffer)) = &mut self.expect {
            let count = buffer.fill_from(self.inbox.as_slice());
            let _ = self.inbox.split_to(count);
        }
    }

    /// Takes the expected buffer to receive into it.
    pub(crate) fn take_buffer(&mut self) -> Option<PageBuf> {
        match &mut self.expect {
            Expect::Buffer(buffer) => buffer.take_if(|buffer| !buffer.is_full()),
            Expect::Any | Expect::Count(_) => None,
        }
    }

    /// The bytes to deliver, if what is wanted is there.
    pub(crate) fn next_bytes(&mut self) -> Option<Bytes> {
        let bytes = match &mut self.expect {
            Expect::Any if self.inbox.is_empty() => return None,
            Expect::Any => self.inbox.split_to(self.inbox.len()),
            Expect::Count(count) if self.inbox.len() < *count => return None,
            Expect::Count(count) => self.inbox.split_to(*count),
            Expect::Buffer(buffer) => buffer.take_if(|buffer| buffer.is_full())?.freeze(),
        };
        self.expect = Expect::Any;
        Some(bytes)
    }

    /// True when something of the stream is still to be delivered.
    pub(crate) fn has_bytes(&self) -> bool {
        match &self.expect {
            Expect::Any => !self.inbox.is_empty(),
            Expect::Count(count) => self.inbox.len() >= *count,
            Expect::Buffer(buffer) => buffer.as_ref().is_some_and(PageBuf::is_full),
        }
    }

    /// True when there may be something to tell.
    pub(crate) fn has_news(&self) -> bool {
        self.has_bytes() || self.end.is_some() || self.close_when_sent && self.queued_bytes == 0
    }

    /// The receive that should be in flight.
    pub(crate) fn wanted_receive(&self) -> Option<ReceiveKind> {
        if !self.is_connected || self.is_closing || self.is_paused || self.end.is_some() {
            return None;
        }
        match &self.expect {
            Expect::Buffer(Some(buffer)) if buffer.remaining() < DIRECT_BYTES_MIN => {
                Some(ReceiveKind::Stream)
            }
            Expect::Buffer(_) => Some(ReceiveKind::Exact),
            Expect::Any | Expect::Count(_) => Some(ReceiveKind::Stream),
        }
    }
}
