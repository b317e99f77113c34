//! What the reactor asks of the kernel, as requests that own their memory and complete later. Two
//! implementors: [`uring`], and [`epoll`] where io_uring is forbidden. Neither knows connections,
//! timers or consumers.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    time::Duration,
};

use bytes::Bytes;
use rustix::{io::Errno, net::SocketAddrAny};

use crate::{
    BackendKind, Config, ConnId, FileId, ListenerId, RawFd, Waker,
    backend::{batch::Batch, epoll::Epoll, uring::Uring},
    buffer::PageBuf,
    slab::SlotId,
};

pub(crate) mod batch;
mod epoll;
mod file_threads;
mod ring_buffers;
mod uring;

/// Names a request in flight.
pub(crate) type OpKey = SlotId;

/// What a completion is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    Accept(ListenerId),
    Connect(ConnId),
    Receive(ConnId),
    Send(ConnId),
    File { file: FileId, token: u64 },
    Wake,
    Signal,
}

/// Work for the kernel, with the memory it works on. Descriptors stay open until the final
/// completion: their owner waits for it.
pub(crate) enum Request {
    /// Completes once per new connection until cancelled.
    Accept {
        socket: RawFd,
    },
    Connect {
        socket: RawFd,
        address: Box<SocketAddrAny>,
    },
    /// Completes once per arrived chunk until cancelled; zero bytes at the end of the stream.
    Receive {
        socket: RawFd,
    },
    /// Receives into `buffer` what there is, once there is something; zero bytes at the end of the stream.
    ReceiveInto {
        socket: RawFd,
        buffer: PageBuf,
    },
    /// Sends `batch`, or as much of it as the socket takes. Nobody waits for the end of one that `is_brief`, so that it
    /// may be told with the next completion instead of causing one. If that meets a full socket, it waits like any
    /// other.
    Send {
        socket: RawFd,
        batch: Box<Batch>,
        is_brief: bool,
    },
    /// Reads an eventfd (8 bytes) or a signalfd (128).
    ReadSmall {
        fd: RawFd,
        buffer: Box<[u8; 128]>,
        bytes: u32,
    },
    /// Made by [`Backend::submit_file`].
    File {
        file: RawFd,
        request: FileRequest,
    },
}

/// Work on a file or block device.
pub(crate) enum FileRequest {
    /// Reads to the tail of `buffer`, from `offset` plus what is there.
    Read {
        offset: u64,
        buffer: PageBuf,
    },
    /// Writes what `batch` still has, at `offset`.
    Write {
        offset: u64,
        batch: Box<Batch>,
        durable: bool,
    },
    Sync,
    Discard {
        offset: u64,
        bytes: u64,
    },
}

/// What a multishot request brought.
pub(crate) enum Data {
    /// A new connection.
    Socket(OwnedFd),
    /// Bytes that arrived.
    Bytes(Bytes),
}

/// An answer of the kernel.
pub(crate) struct Completion {
    pub(crate) owner: Owner,
    /// A byte count where there is one.
    pub(crate) result: Result<u32, Errno>,
    pub(crate) data: Option<Data>,
    /// The request with its memory when this is its last completion.
    pub(crate) request: Option<Request>,
}

/// The kernel interface in use.
pub(crate) enum Backend {
    Uring(Box<Uring>),
    Epoll(Epoll),
}

impl Backend {
    /// The backend that `config` names; with `Automatic`, epoll only where io_uring cannot be had. `waker` is the
    /// reactor's.
    pub(crate) fn new(config: &Config, waker: &Waker) -> io::Result<Backend> {
        let epoll = || Epoll::new(waker.clone()).map(Backend::Epoll);
        let uring = || Uring::new(config).map(|uring| Backend::Uring(Box::new(uring)));
        match config.backend {
            BackendKind::IoUring => uring(),
            BackendKind::Epoll => epoll(),
            BackendKind::Automatic => uring().or_else(|error| {
                tracing::warn!(%error, "io_uring is not available here: using epoll, which costs CPU");
                epoll()
            }),
        }
    }

    pub(crate) fn kind(&self) -> BackendKind {
        match self {
            Backend::Uring(_) => BackendKind::IoUring,
            Backend::Epoll(_) => BackendKind::Epoll,
        }
    }

    /// Queues `request`; it reaches the kernel with the next poll.
    pub(crate) fn submit(&mut self, owner: Owner, request: Request) -> OpKey {
        match self {
            Backend::Uring(uring) => uring.submit(owner, request),
            Backend::Epoll(epoll) => epoll.submit(owner, request),
        }
    }

    /// To be told when a file was opened, which stays open.
    pub(crate) fn add_file(&mut self, file: BorrowedFd<'_>) -> io::Result<()> {
        match self {
            Backend::Uring(_) => Ok(()),
            Backend::Epoll(epoll) => epoll.add_file(file),
        }
    }

    /// Queues work on a file that was added. It cannot be cancelled.
    pub(crate) fn submit_file(&mut self, owner: Owner, file: RawFd, request: FileRequest) {
        match self {
            Backend::Uring(uring) => {
                uring.submit(owner, Request::File { file, request });
            }
            Backend::Epoll(epoll) => epoll.submit_file(owner, file, request),
        }
    }

    /// Asks for an early end of `key`, which still completes, as ECANCELED or as whatever was faster.
    pub(crate) fn cancel(&mut self, key: OpKey) {
        match self {
            Backend::Uring(uring) => uring.cancel(key),
            Backend::Epoll(epoll) => epoll.cancel(key),
        }
    }

    /// Submits everything queued and waits up to `wait` (for ever if `None`) for a completion. The reactor's waker ends
    /// the wait if sleep was announced to it before.
    pub(crate) fn poll(&mut self, wait: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        match self {
            Backend::Uring(uring) => uring.poll(wait, out),
            Backend::Epoll(epoll) => epoll.poll(wait, out),
        }
    }

    /// At drop, requests under way are not waited for.
    pub(crate) fn abandon(&mut self) {
        match self {
            Backend::Uring(uring) => uring.abandon(),
            Backend::Epoll(epoll) => epoll.abandon(),
        }
    }

    /// To be told before a socket is closed.
    pub(crate) fn forget(&mut self, socket: RawFd) {
        match self {
            Backend::Uring(_) => {}
            Backend::Epoll(epoll) => epoll.forget(socket),
        }
    }
}
