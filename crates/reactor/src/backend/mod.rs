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
    backend::{batch::Batch, epoll::Epoll, file_threads::FileThreads, uring::Uring},
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
    /// Punches a hole, which reads as zeros.
    Discard {
        offset: u64,
        bytes: u64,
    },
    /// Discards on a device that cannot write zeroes, and refuses [`Self::Discard`]: BLKDISCARD promises less.
    DiscardAny {
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
enum Kernel {
    Uring(Box<Uring>),
    Epoll(Epoll),
}

/// What does a reactor's requests.
pub(crate) struct Backend {
    kernel: Kernel,
    /// For requests on files that the kernel does only while a thread waits. There once a file has need of them.
    threads: Option<FileThreads>,
    /// The reactor's, for those threads.
    waker: Waker,
}

impl Backend {
    /// The backend that `config` names; with `Automatic`, epoll only where io_uring cannot be had. `waker` is the
    /// reactor's.
    pub(crate) fn new(config: &Config, waker: &Waker) -> io::Result<Backend> {
        let epoll = || Epoll::new().map(Kernel::Epoll);
        let uring = || Uring::new(config).map(|uring| Kernel::Uring(Box::new(uring)));
        let kernel = match config.backend {
            BackendKind::IoUring => uring()?,
            BackendKind::Epoll => epoll()?,
            BackendKind::Automatic => uring().or_else(|error| {
                tracing::warn!(%error, "io_uring is not available here: using epoll, which costs CPU");
                epoll()
            })?,
        };
        Ok(Backend { kernel, threads: None, waker: waker.clone() })
    }

    pub(crate) fn kind(&self) -> BackendKind {
        match self.kernel {
            Kernel::Uring(_) => BackendKind::IoUring,
            Kernel::Epoll(_) => BackendKind::Epoll,
        }
    }

    /// Queues `request`; it reaches the kernel with the next poll.
    pub(crate) fn submit(&mut self, owner: Owner, request: Request) -> OpKey {
        match &mut self.kernel {
            Kernel::Uring(uring) => uring.submit(owner, request),
            Kernel::Epoll(epoll) => epoll.submit(owner, request),
        }
    }

    /// To be told when a file was opened, which stays open.
    pub(crate) fn add_file(&mut self, file: BorrowedFd<'_>) -> io::Result<()> {
        match self.kernel {
            Kernel::Uring(_) => Ok(()),
            Kernel::Epoll(_) => self.add_to_threads(file),
        }
    }

    /// To be called before [`FileRequest::DiscardAny`] of this file, for which io_uring needs a thread, too.
    pub(crate) fn add_to_threads(&mut self, file: BorrowedFd<'_>) -> io::Result<()> {
        let threads = match &mut self.threads {
            Some(threads) => threads,
            none => none.insert(FileThreads::start(self.waker.clone())?),
        };
        threads.add(file)
    }

    /// Queues work on a file that was added. It cannot be cancelled.
    pub(crate) fn submit_file(&mut self, owner: Owner, file: RawFd, request: FileRequest) {
        match &mut self.kernel {
            Kernel::Uring(uring) if !matches!(request, FileRequest::DiscardAny { .. }) => {
                uring.submit(owner, Request::File { file, request });
            }
            _ => self.threads.as_mut().expect("there since a file was added").submit(owner, file, request),
        }
    }

    /// Asks for an early end of `key`, which still completes, as ECANCELED or as whatever was faster.
    pub(crate) fn cancel(&mut self, key: OpKey) {
        match &mut self.kernel {
            Kernel::Uring(uring) => uring.cancel(key),
            Kernel::Epoll(epoll) => epoll.cancel(key),
        }
    }

    /// Submits everything queued and waits up to `wait` (for ever if `None`) for a completion. The reactor's waker ends
    /// the wait if sleep was announced to it before.
    pub(crate) fn poll(&mut self, wait: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        self.take_from_threads(out);
        let wait = if out.is_empty() { wait } else { Some(Duration::ZERO) };
        match &mut self.kernel {
            Kernel::Uring(uring) => uring.poll(wait, out)?,
            Kernel::Epoll(epoll) => epoll.poll(wait, out)?,
        }
        self.take_from_threads(out);
        Ok(())
    }

    fn take_from_threads(&mut self, out: &mut Vec<Completion>) {
        self.threads.iter_mut().for_each(|threads| threads.take_done(out));
    }

    /// At drop, requests under way are not waited for.
    pub(crate) fn abandon(&mut self) {
        self.threads.iter_mut().for_each(FileThreads::abandon);
        match &mut self.kernel {
            Kernel::Uring(uring) => uring.abandon(),
            Kernel::Epoll(_) => {}
        }
    }

    /// To be told before a socket is closed.
    pub(crate) fn forget(&mut self, socket: RawFd) {
        match &mut self.kernel {
            Kernel::Uring(_) => {}
            Kernel::Epoll(epoll) => epoll.forget(socket),
        }
    }
}
