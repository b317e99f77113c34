//! Requests over epoll and plain system calls, for where io_uring is forbidden: sockets wait for
//! edges, and a few [threads](super::file_threads) work on files. Slower, same behaviour.
#![allow(unsafe_code, reason = "borrows descriptors and fills uninitialised buffers")]

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    mem::{self, MaybeUninit},
    os::fd::{BorrowedFd, OwnedFd, RawFd},
    time::Duration,
};

use bytes::Bytes;
use rustix::{
    event::{Timespec, epoll},
    io::Errno,
    net::{RecvFlags, SendFlags, SocketFlags},
};

use crate::{
    backend::{Completion, Data, OpKey, Owner, Request},
    slab::Slab,
};

/// Bytes of one receive.
const RECEIVE_BYTES: usize = 64 << 10;
/// Receives or accepts of one request in one turn, so that no peer starves the others.
const ROUNDS_MAX: usize = 16;
/// Edges fetched at once.
const EDGES_MAX: usize = 256;

/// What is known about a descriptor between edges, and which requests wait for the next one.
#[derive(Default)]
struct Interest {
    reader: Option<OpKey>,
    writer: Option<OpKey>,
}

/// The requests in flight and the epoll instance.
pub(crate) struct Epoll {
    epoll: OwnedFd,
    ops: Slab<(Owner, Request)>,
    interests: BTreeMap<RawFd, Interest>,
    /// Requests worth an attempt.
    ready: VecDeque<OpKey>,
    /// Completions of cancelled requests.
    done: Vec<Completion>,
    scratch: Vec<MaybeUninit<u8>>,
}

/// What an attempt came to.
enum Outcome {
    /// Wait for an edge.
    Blocked,
    /// Progress was made and more may be possible.
    Again(Option<Completion>),
    /// The last completion's result, and its data.
    Done(Result<u32, Errno>, Option<Data>),
}

impl Epoll {
    pub(crate) fn new() -> io::Result<Epoll> {
        Ok(Epoll {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            ops: Slab::default(),
            interests: BTreeMap::new(),
            ready: VecDeque::new(),
            done: Vec::new(),
            scratch: vec![MaybeUninit::uninit(); RECEIVE_BYTES],
        })
    }

    pub(crate) fn submit(&mut self, owner: Owner, request: Request) -> OpKey {
        let (fd, is_reader) = direction(&request);
        let key = self.ops.insert((owner, request));
        self.watch(fd);
        let interest = self.interests.entry(fd).or_default();
        *(if is_reader { &mut interest.reader } else { &mut interest.writer }) = Some(key);
        self.ready.push_back(key);
        key
    }

    /// Adds `fd` to the epoll set when it is new. Edges that come while nobody waits are lost,
    /// which is fine: a new request is attempted before it waits.
    fn watch(&mut self, fd: RawFd) {
        if self.interests.contains_key(&fd) {
            return;
        }
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(fd as u64);
        if let Err(error) = epoll::add(&self.epoll, borrow(fd), data, flags | epoll::EventFlags::RDHUP) {
            tracing::error!(%error, "epoll does not take a socket");
        }
    }

    pub(crate) fn cancel(&mut self, key: OpKey) {
        if let Some((owner, request)) = self.ops.remove(key) {
            let result = Err(Errno::CANCELED);
            self.done.push(Completion { owner, result, data: None, request: Some(request) });
        }
    }

    pub(crate) fn forget(&mut self, fd: RawFd) {
        if self.interests.remove(&fd).is_some()
            && let Err(error) = epoll::delete(&self.epoll, borrow(fd))
        {
            tracing::error!(%error, "epoll does not let go of a socket");
        }
    }

    pub(crate) fn poll(&mut self, wait: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        self.attempt_ready(out);
        out.append(&mut self.done);
        let wait = if out.is_empty() && self.ready.is_empty() { wait } else { Some(Duration::ZERO) };
        self.fetch_edges(wait)?;
        self.attempt_ready(out);
        Ok(())
    }

    fn fetch_edges(&mut self, wait: Option<Duration>) -> io::Result<()> {
        let time = wait.map(|wait| Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        });
        let mut edges = [MaybeUninit::<epoll::Event>::uninit(); EDGES_MAX];
        let edges = match epoll::wait(&self.epoll, &mut edges, time.as_ref()) {
            Ok((edges, _)) => edges,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for edge in edges {
            let Some(interest) = self.interests.get(&(edge.data.u64() as RawFd)) else { continue };
            let flags = edge.flags;
            let broken = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
            if broken || flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP) {
                self.ready.extend(interest.reader);
            }
            if broken || flags.contains(epoll::EventFlags::OUT) {
                self.ready.extend(interest.writer);
            }
        }
        Ok(())
    }

    /// Attempts what is ready now; what is still ready afterwards waits for the next turn.
    fn attempt_ready(&mut self, out: &mut Vec<Completion>) {
        for _ in 0..self.ready.len() {
            let Some(key) = self.ready.pop_front() else { break };
            self.attempt(key, out);
        }
    }

    fn attempt(&mut self, key: OpKey, out: &mut Vec<Completion>) {
        for _ in 0..ROUNDS_MAX {
            let Some((owner, request)) = self.ops.get_mut(key) else { return };
            match run(*owner, request, &mut self.scratch) {
                Outcome::Blocked => return,
                Outcome::Again(completion) => out.extend(completion),
                Outcome::Done(result, data) => {
                    let Some((owner, request)) = self.ops.remove(key) else { return };
                    out.push(Completion { owner, result, data, request: Some(request) });
                    return;
                }
            }
        }
        self.ready.push_back(key);
    }
}

/// The descriptor that a request waits on, and whether to read.
fn direction(request: &Request) -> (RawFd, bool) {
    match request {
        Request::Accept { socket } | Request::Receive { socket } | Request::ReceiveInto { socket, .. } => {
            (*socket, true)
        }
        Request::ReadSmall { fd, .. } => (*fd, true),
        Request::Connect { socket, .. } | Request::Send { socket, .. } => (*socket, false),
        Request::File { .. } => unreachable!("threads work on files, which have no edges"),
    }
}

fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: descriptors stay open until their requests are complete and `forget` was called.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

fn run(owner: Owner, request: &mut Request, scratch: &mut [MaybeUninit<u8>]) -> Outcome {
    let step = |result: Result<usize, Errno>| match result {
        Err(Errno::AGAIN) => Outcome::Blocked,
        Err(Errno::INTR) => Outcome::Again(None),
        result => Outcome::Done(result.map(|count| count as u32), None),
    };
    match request {
        Request::Accept { socket } => accept(owner, *socket),
        Request::Connect { socket, address } => match rustix::net::connect(borrow(*socket), &**address) {
            Ok(()) | Err(Errno::ISCONN) => Outcome::Done(Ok(0), None),
            Err(Errno::INPROGRESS | Errno::ALREADY) => Outcome::Blocked,
            Err(error) => Outcome::Done(Err(error), None),
        },
        Request::Receive { socket } => receive(owner, *socket, scratch),
        Request::ReceiveInto { socket, buffer } => {
            let result = rustix::net::recv(borrow(*socket), buffer.spare(), RecvFlags::DONTWAIT);
            let result = result.map(|(_, count)| count);
            if let Ok(count) = result {
                // SAFETY: received into the tail.
                unsafe { buffer.advance(count) };
            }
            step(result)
        }
        Request::Send { socket, batch, is_brief } => {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let result =
                rustix::net::sendmsg(borrow(*socket), &batch.slices(), &mut Default::default(), flags);
            match result {
                Ok(count) => batch.advance(count),
                Err(Errno::AGAIN) if mem::take(is_brief) => batch.detach(),
                Err(_) => {}
            }
            step(result)
        }
        Request::ReadSmall { fd, buffer, bytes } => {
            let mut poll =
                [rustix::event::PollFd::from_borrowed_fd(borrow(*fd), rustix::event::PollFlags::IN)];
            // The descriptor blocks: read only what is there.
            match rustix::event::poll(&mut poll, Some(&Timespec::default())) {
                Ok(0) => Outcome::Blocked,
                Ok(_) => step(rustix::io::read(borrow(*fd), &mut buffer[..*bytes as usize])),
                Err(error) => step(Err(error)),
            }
        }
        Request::File { .. } => unreachable!("threads work on files, which have no edges"),
    }
}

fn accept(owner: Owner, socket: RawFd) -> Outcome {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    match rustix::net::accept_with(borrow(socket), flags) {
        Ok(fd) => {
            let data = Some(Data::Socket(fd));
            Outcome::Again(Some(Completion { owner, result: Ok(0), data, request: None }))
        }
        Err(Errno::AGAIN) => Outcome::Blocked,
        Err(Errno::INTR | Errno::CONNABORTED) => Outcome::Again(None),
        Err(error) => Outcome::Done(Err(error), None),
    }
}

fn receive(owner: Owner, socket: RawFd, scratch: &mut [MaybeUninit<u8>]) -> Outcome {
    match rustix::net::recv(borrow(socket), scratch, RecvFlags::DONTWAIT) {
        Ok(((bytes, _), 1..)) => {
            let result = Ok(bytes.len() as u32);
            let data = Some(Data::Bytes(Bytes::copy_from_slice(bytes)));
            Outcome::Again(Some(Completion { owner, result, data, request: None }))
        }
        Ok(_) => Outcome::Done(Ok(0), None),
        Err(Errno::AGAIN) => Outcome::Blocked,
        Err(Errno::INTR) => Outcome::Again(None),
        Err(error) => Outcome::Done(Err(error), None),
    }
}
