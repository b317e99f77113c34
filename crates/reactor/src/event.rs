//! What a reactor reports, and the names of its things.

use std::{fmt, io, net::SocketAddr};

use bytes::Bytes;

use crate::{Signal, slab::SlotId};

/// A connection; stale ids are harmless, calls with them do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub(crate) SlotId);

/// A listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub(crate) SlotId);

/// An open file or block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(crate) SlotId);

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// A peer connected.
    Accepted {
        /// Where it did.
        listener: ListenerId,
        /// The new connection, receiving already.
        conn: ConnId,
        /// The peer's address.
        peer: SocketAddr,
        /// Ours, as the peer sees it.
        local: SocketAddr,
    },
    /// The answer to `connect`: our address, or why not; then `conn` is gone.
    Connected {
        /// The connection.
        conn: ConnId,
        /// Our own address.
        result: io::Result<SocketAddr>,
    },
    /// The next bytes of the stream, never empty. At most one of these per connection and poll, so
    /// that a call to `expect` counts from its end.
    Received {
        /// The connection.
        conn: ConnId,
        /// The bytes.
        bytes: Bytes,
        /// Those that follow, where they lie in several pieces.
        more: Vec<Bytes>,
    },
    /// The send queue, which had been above `Reactor::SEND_HIGH_BYTES`, is below `SEND_LOW_BYTES`.
    Drained {
        /// The connection.
        conn: ConnId,
    },
    /// The connection is gone and its id stale. The last event of each connection that was not
    /// ended by `close`.
    Closed {
        /// The connection.
        conn: ConnId,
        /// Why.
        reason: CloseReason,
    },
    /// A file operation ended.
    FileDone {
        /// The file.
        file: FileId,
        /// As given with the operation.
        token: u64,
        /// The bytes read (page-aligned memory), empty for all but reads.
        result: Result<Bytes, FileError>,
    },
    /// A timer is due.
    Timer {
        /// As given to `set_timer`.
        token: u64,
    },
    /// The waker was used since the last such event: look at the queues. With epoll, the threads that work on files use
    /// it, too.
    Woken,
    /// The process was asked to stop.
    Signal(Signal),
}

/// Why a connection ended.
#[derive(Debug)]
pub enum CloseReason {
    /// The peer ended its stream, and all that was queued for it has been sent.
    Eof,
    /// `close_when_sent` has done what it says.
    Flushed,
    /// The network or the peer failed.
    Error(io::Error),
}

/// The kind of a file operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    /// `open`.
    Open,
    /// `lock`.
    Lock,
    /// `read`.
    Read,
    /// `write`.
    Write,
    /// `sync`.
    Sync,
    /// `discard`.
    Discard,
}

impl fmt::Display for FileOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileOperation::Open => "open",
            FileOperation::Lock => "lock",
            FileOperation::Read => "read",
            FileOperation::Write => "write",
            FileOperation::Sync => "sync",
            FileOperation::Discard => "discard",
        })
    }
}

/// A file operation that failed; nothing is known about how much of a failed write is on disk.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {path} at offset {offset}: {source}")]
pub struct FileError {
    /// What was tried.
    pub operation: FileOperation,
    /// The file's path.
    pub path: String,
    /// Where, in bytes.
    pub offset: u64,
    /// The system's answer; `UnexpectedEof` for a read beyond the end.
    pub source: io::Error,
}
