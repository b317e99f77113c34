//! The state of one TCP connection: what waits to be sent, what has arrived, what is in flight. No
//! system calls here.

use std::{
    collections::VecDeque,
    io, mem,
    os::fd::{AsRawFd, OwnedFd, RawFd},
};

use bytes::{Buf, Bytes};
use rustix::io::Errno;

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

/// What waits for more to arrive is copied out of its receive buffer if it is no more than this.
const RELEASED_BYTES_MAX: usize = 1 << 10;

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

/// Behind a send that waits, buffers are copied that are less than one of so many parts of what is queued: so few can
/// wait that are small parts of much memory.
const COPIED_PART: usize = 32;
/// Below this size they are copied in any case.
const COPIED_BYTES_MIN: usize = 64 << 10;
/// From this size on they are not: mostly they have their memory to themselves.
const COPIED_BYTES_MAX: usize = 1 << 20;

/// A buffer from this size on is worth another system call, which keeps what follows it out of the provided buffers.
const HEAD_FIRST_BYTES_MIN: usize = 256 << 10;
/// Room for the head of a message that is expected to be a large one, and for little of its payload.
pub(crate) const HEAD_BYTES: usize = 4 << 10;

/// What the consumer wants next.
pub(crate) enum Expect {
    /// What there is, once there are so many bytes of it.
    Count(usize),
    /// As many bytes as the buffer takes, received into it; `None` while it is in flight.
    Buffer(Option<PageBuf>),
}

/// The receive that is, or ought to be, in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReceiveKind {
    /// Multishot, into provided buffers.
    Stream,
    /// One, of what there is, into a buffer of [`HEAD_BYTES`].
    Head,
    /// Into the expected buffer, one after the other until it is full.
    Exact,
}

/// A receive in flight.
pub(crate) struct Receiving {
    pub(crate) key: OpKey,
    pub(crate) kind: ReceiveKind,
    pub(crate) is_cancelled: bool,
}

impl Receiving {
    /// True if the same receive is to be asked for again, with what is left of `buffer`: this one brought a part.
    pub(crate) fn goes_on(&self, result: Result<u32, Errno>, buffer: &PageBuf) -> bool {
        let has_part = result.is_ok_and(|count| count > 0) && !buffer.is_full();
        self.kind == ReceiveKind::Exact && has_part && !self.is_cancelled
    }
}

/// What has arrived, in the chunks in which it came.
#[derive(Default)]
struct Inbox {
    chunks: VecDeque<Bytes>,
    bytes: usize,
}

impl Inbox {
    fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.bytes += chunk.len();
            self.chunks.push_back(chunk);
        }
    }

    /// Moves what fits into `buffer`.
    fn fill(&mut self, buffer: &mut PageBuf) {
        while let Some(chunk) = self.chunks.front_mut()
            && !buffer.is_full()
        {
            let count = buffer.fill_from(chunk);
            self.bytes -= count;
            chunk.advance(count);
            if chunk.is_empty() {
                self.chunks.pop_front();
            }
        }
    }

    /// Takes everything: the first chunk, and what follows.
    fn take(&mut self) -> Option<(Bytes, Vec<Bytes>)> {
        self.bytes = 0;
        Some((self.chunks.pop_front()?, self.chunks.drain(..).collect()))
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
    /// A large buffer was the last that was delivered. Another message like that follows, probably, so that only its
    /// head is received before its own buffer is there to take the rest.
    follows_buffer: bool,
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
            expect: Expect::Count(0),
            follows_buffer: false,
        }
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Queues `buffers` to be sent. Behind a send that waits for the peer, they stay for as long as the peer likes:
    /// short ones, which may be small parts of much memory, are copied then.
    pub(crate) fn queue(&mut self, buffers: impl IntoIterator<Item = Bytes>) {
        if self.sending.is_none() {
            return buffers.into_iter().for_each(|bytes| self.queue_one(bytes));
        }
        let limit = (self.queued_bytes / COPIED_PART).clamp(COPIED_BYTES_MIN, COPIED_BYTES_MAX);
        let mut own = Vec::new();
        for bytes in buffers {
            if bytes.len() < limit {
                own.extend_from_slice(&bytes);
            } else {
                self.queue_one(mem::take(&mut own).into());
                self.queue_one(bytes);
            }
        }
        self.queue_one(own.into());
    }

    fn queue_one(&mut self, bytes: Bytes) {
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
        self.expect = Expect::Count(0);
    }

    /// Takes bytes that arrived.
    pub(crate) fn arrived(&mut self, mut bytes: Bytes) {
        if self.close_when_sent || self.is_closing {
            return;
        }
        if let Expect::Buffer(Some(buffer)) = &mut self.expect {
            // What had arrived before is in it.
            bytes.advance(buffer.fill_from(&bytes));
        }
        // The peer may take long to send the rest, and other connections need the receive buffer.
        let has_to_wait =
            matches!(self.expect, Expect::Count(count) if self.inbox.bytes + bytes.len() < count);
        let is_copied = has_to_wait && bytes.len() <= RELEASED_BYTES_MAX;
        self.inbox.push(if is_copied { Bytes::copy_from_slice(&bytes) } else { bytes });
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
            self.inbox.fill(buffer);
        }
    }

    /// Takes the expected buffer to receive into it.
    pub(crate) fn take_buffer(&mut self) -> Option<PageBuf> {
        match &mut self.expect {
            Expect::Buffer(buffer) => buffer.take_if(|buffer| !buffer.is_full()),
            Expect::Count(_) => None,
        }
    }

    /// The bytes to deliver, if what is wanted is there: the first piece, and what follows.
    pub(crate) fn next_bytes(&mut self) -> Option<(Bytes, Vec<Bytes>)> {
        if !self.has_bytes() {
            return None;
        }
        let bytes = match &mut self.expect {
            Expect::Count(_) => self.inbox.take()?,
            Expect::Buffer(buffer) => (buffer.take()?.freeze(), Vec::new()),
        };
        self.follows_buffer = self.expects_buffer() && bytes.0.len() >= HEAD_FIRST_BYTES_MIN;
        self.expect = Expect::Count(0);
        Some(bytes)
    }

    /// True when something of the stream is still to be delivered.
    pub(crate) fn has_bytes(&self) -> bool {
        match &self.expect {
            Expect::Count(count) => self.inbox.bytes > 0 && self.inbox.bytes >= *count,
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
            // A stream drops what comes until the peer ends.
            Expect::Count(_) if self.follows_buffer && !self.close_when_sent => Some(ReceiveKind::Head),
            Expect::Count(_) => Some(ReceiveKind::Stream),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::slab::SlotId;

    fn connection(is_sending: bool) -> Connection {
        let (socket, _) = UnixStream::pair().expect("a pair of sockets");
        let sending = is_sending.then_some(SlotId { index: 0, generation: 0 });
        Connection { sending, ..Connection::new(socket.into(), true) }
    }

    /// The lengths of what is queued that is a part of `whole`, and of what has memory of its own.
    fn queued(connection: &Connection, whole: &Bytes) -> (Vec<usize>, Vec<usize>) {
        let lens = |is_part| {
            let of_whole = |bytes: &&Bytes| whole.as_ptr_range().contains(&bytes.as_ptr()) == is_part;
            connection.queue.iter().filter(of_whole).map(Bytes::len).collect()
        };
        (lens(true), lens(false))
    }

    #[test]
    fn small_parts_of_much_memory_are_copied_behind_a_send_that_waits() {
        let whole = Bytes::from((0..4 << 20).map(|at: u32| (at >> 8) as u8).collect::<Vec<_>>());
        let parts = || [whole.slice(..100), whole.slice(100..65_635), whole.slice(65_635..131_171)];
        let mut ready = connection(false);
        ready.queue(parts());
        assert_eq!(queued(&ready, &whole), (vec![100, 65_535, 65_536], vec![]));
        let mut waiting = connection(true);
        waiting.queue(parts().into_iter().chain([whole.slice(131_171..131_180)]));
        assert_eq!(queued(&waiting, &whole), (vec![65_536], vec![65_635, 9]));
        assert_eq!(waiting.queued_bytes, 131_180);
        let sent: Vec<u8> = waiting.queue.iter().flatten().copied().collect();
        assert!(sent == whole[..131_180]);
    }

    #[test]
    fn no_more_parts_of_a_size_wait_than_are_bounded() {
        let whole = Bytes::from(vec![7; 4 << 20]);
        for (bytes, parts) in [(64 << 10, 32), (512 << 10, 32), (1 << 20, 64)] {
            let mut waiting = connection(true);
            (0..(64 << 20) / bytes).for_each(|_| waiting.queue([whole.slice(..bytes)]));
            let count = queued(&waiting, &whole).0.len();
            assert!(count <= parts + 1, "{count} of {bytes} bytes");
        }
    }

    #[test]
    fn what_waits_for_more_keeps_no_receive_buffer_for_a_few_bytes() {
        let received = Bytes::from(vec![7; 16 << 10]);
        let mut connection = connection(false);
        let is_shared = |connection: &Connection| {
            let last = connection.inbox.chunks.back().expect("something has arrived");
            received.as_ptr_range().contains(&last.as_ptr())
        };
        connection.set_expect(Expect::Count(6_000));
        connection.arrived(received.slice(..1));
        assert!(!is_shared(&connection));
        connection.arrived(received.slice(1..2_000));
        assert!(is_shared(&connection), "most of it may be needed");
        connection.arrived(received.slice(2_000..5_999));
        connection.arrived(received.slice(5_999..6_000));
        assert!(is_shared(&connection), "nothing has to wait");
        let (first, more) = connection.next_bytes().expect("all is there");
        assert!([&[first][..], &more].concat().concat() == received[..6_000]);
    }
}
