//! Requests over io_uring: one ring per reactor, used by its thread only.
//!
//! Memory: a request moves into `ops` before its entry is pushed and leaves with its final
//! completion, also at drop, which cancels and waits, unless the ring was abandoned: then it stays
//! for ever. Everything that the kernel has an address of is on the heap, so that moving the
//! request moves no such memory.
#![allow(unsafe_code, reason = "entries hold addresses of memory that the request owns")]

use std::{
    io, mem,
    os::fd::{FromRawFd, OwnedFd, RawFd},
    time::Duration,
};

use io_uring::{
    IoUring, cqueue, opcode, squeue,
    types::{Fd, FsyncFlags, SubmitArgs, Timespec},
};
use rustix::io::Errno;

use crate::{
    Config,
    backend::{
        Completion, Data, FileRequest, OpKey, Owner, Request,
        ring_buffers::{BUFFER_GROUP, RingBuffers},
    },
    slab::{Slab, SlotId},
};

/// User data of cancellations, whose own completions mean nothing. No key packs to it: generations
/// stay below 2^31.
const CANCEL: u64 = u64::MAX;
/// Most bytes of one read, write or receive: the kernel's MAX_RW_COUNT, rounded down.
const TRANSFER_BYTES_MAX: usize = 1 << 30;

/// An io_uring and the requests in it.
pub(crate) struct Uring {
    uring: IoUring,
    /// `None` only at the very end of drop.
    buffers: Option<RingBuffers>,
    ops: Slab<(Owner, Request)>,
    /// Brief sends since the last poll: the kernel tells of those that fail and of no others.
    brief: Vec<OpKey>,
    /// Drop waits for nothing.
    is_abandoned: bool,
}

impl Uring {
    /// Fails where the kernel (below 6.0) or a container has no io_uring for us.
    pub(crate) fn new(config: &Config) -> io::Result<Uring> {
        let uring = build(config.entries)?;
        // SAFETY: dropped after `drop` has drained all requests, or leaked with them.
        let buffers =
            unsafe { RingBuffers::register(&uring, config.receive_buffers, config.receive_buffer_bytes)? };
        let (ops, brief) = (Slab::default(), Vec::new());
        Ok(Uring { uring, buffers: Some(buffers), ops, brief, is_abandoned: false })
    }

    /// At drop, requests under way are not waited for: the memory that the kernel may write to yet is leaked.
    pub(crate) fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    fn leak(&mut self) {
        mem::forget(mem::take(&mut self.ops));
        mem::forget(self.buffers.take());
    }

    pub(crate) fn submit(&mut self, owner: Owner, request: Request) -> OpKey {
        let key = self.ops.insert((owner, request));
        let (_, request) = self.ops.get_mut(key).expect("inserted above");
        let mut entry = entry(request).user_data(pack(key));
        if matches!(request, Request::Send { is_brief: true, .. }) {
            entry = entry.flags(squeue::Flags::SKIP_SUCCESS);
            self.brief.push(key);
        }
        self.push(&entry);
        key
    }

    pub(crate) fn cancel(&mut self, key: OpKey) {
        if self.ops.get(key).is_some() {
            self.push(&opcode::AsyncCancel::new(pack(key)).build().user_data(CANCEL));
        }
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the addresses in the entry belong to a request in `ops`, see the module's doc.
        while unsafe { self.uring.submission().push(entry) }.is_err() {
            if let Err(error) = self.uring.submit() {
                assert!(is_transient(&error), "io_uring_enter refuses a full queue: {error}");
            }
        }
    }

    pub(crate) fn poll(&mut self, wait: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()> {
        self.buffers.iter_mut().for_each(RingBuffers::reclaim);
        let idle = wait != Some(Duration::ZERO) && self.uring.completion().is_empty();
        let result = match wait {
            None if idle => self.uring.submit_and_wait(1),
            Some(wait) if idle => {
                let time = Timespec::new().sec(wait.as_secs()).nsec(wait.subsec_nanos());
                self.uring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
            _ => {
                let queue = self.uring.submission();
                let skip = queue.is_empty() && !queue.taskrun() && !queue.cq_overflow();
                drop(queue);
                if skip { Ok(0) } else { self.uring.submit() }
            }
        };
        match result {
            Err(error) if !is_transient(&error) => return Err(error),
            _ => {}
        }
        let blocked = self.reap(out);
        // Before anything is queued again, so that the kernel has the whole queue.
        self.end_brief(out);
        for key in blocked {
            self.be_patient(key);
        }
        Ok(())
    }

    /// Brief sends never wait in the kernel: all have ended when it has taken the queue, well if it says
    /// nothing of them.
    fn end_brief(&mut self, out: &mut Vec<Completion>) {
        let queue = self.uring.submission();
        let is_all_told = queue.is_empty() && !queue.cq_overflow();
        drop(queue);
        if !is_all_told || !self.uring.completion().is_empty() {
            return;
        }
        let mut brief = mem::take(&mut self.brief);
        for key in brief.drain(..) {
            let Some((owner, mut request)) = self.ops.remove(key) else { continue };
            let Request::Send { batch, .. } = &mut request else { continue };
            let bytes = batch.bytes();
            batch.advance(bytes);
            // At most BRIEF_BYTES_MAX.
            out.push(Completion { owner, result: Ok(bytes as u32), data: None, request: Some(request) });
        }
        // The next turn has as many.
        self.brief = brief;
    }

    /// A brief send met a full socket: from here on it waits like any other.
    fn be_patient(&mut self, key: OpKey) {
        let Some((_, request)) = self.ops.get_mut(key) else { return };
        if let Request::Send { is_brief, batch, .. } = request {
            *is_brief = false;
            batch.detach();
        }
        let entry = entry(request).user_data(pack(key));
        self.push(&entry);
    }

    /// Takes what was completed. Returns the brief sends that met a full socket.
    fn reap(&mut self, out: &mut Vec<Completion>) -> Vec<OpKey> {
        let mut blocked = Vec::new();
        for entry in self.uring.completion() {
            if entry.user_data() == CANCEL {
                continue;
            }
            let key = unpack(entry.user_data());
            let Some((owner, request)) = self.ops.get_mut(key) else {
                debug_assert!(false, "a completion of no request");
                continue;
            };
            let result = match entry.result() {
                code if code < 0 => Err(Errno::from_raw_os_error(-code)),
                count => Ok(count as u32),
            };
            if let (Request::Send { is_brief: true, .. }, Err(Errno::AGAIN)) = (&*request, result) {
                self.brief.retain(|brief| *brief != key);
                blocked.push(key);
                continue;
            }
            let buffers = self.buffers.as_mut().expect("present until drop");
            let data = data(request, result, entry.flags(), buffers);
            let mut request = None;
            let owner = *owner;
            if !cqueue::more(entry.flags()) {
                request = self.ops.remove(key).map(|(_, request)| request);
            }
            if let (Some(request), Ok(count)) = (&mut request, result) {
                account(request, count as usize);
            }
            out.push(Completion { owner, result, data, request });
        }
        blocked
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if self.is_abandoned {
            return self.leak();
        }
        for key in self.ops.ids() {
            self.cancel(key);
        }
        let mut completions = Vec::new();
        while self.ops.len() > 0 {
            let wait = (!self.brief.is_empty()).then_some(Duration::ZERO);
            // Completions are dropped here: accepted sockets close, memory is freed.
            if let Err(error) = self.poll(wait, &mut completions) {
                tracing::error!(%error, "cannot drain io_uring; its memory is leaked");
                return self.leak();
            }
            completions.clear();
        }
    }
}

/// A ring with the cheapest kind of completion that the kernel has. SINGLE_ISSUER came with
/// multishot receive (6.0), so a kernel that refuses both sets cannot run the rest either.
fn build(entries: u32) -> io::Result<IoUring> {
    let mut deferred = IoUring::builder();
    deferred.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    let mut cooperative = IoUring::builder();
    cooperative.setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag();
    let mut result = Err(io::ErrorKind::Unsupported.into());
    for builder in [&mut deferred, &mut cooperative] {
        result = builder.setup_submit_all().setup_cqsize(entries * 4).build(entries);
        if !result.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)) {
            break;
        }
    }
    result
}

/// Errors after which the same call may be made again.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

fn pack(key: OpKey) -> u64 {
    u64::from(key.generation) << 32 | u64::from(key.index)
}

fn unpack(user_data: u64) -> OpKey {
    SlotId { index: user_data as u32, generation: (user_data >> 32) as u32 }
}

/// What a completion of a multishot request carries.
fn data(
    request: &Request,
    result: Result<u32, Errno>,
    flags: u32,
    buffers: &mut RingBuffers,
) -> Option<Data> {
    match (request, cqueue::buffer_select(flags), result) {
        // SAFETY: the kernel made this descriptor for us and told nobody else.
        (Request::Accept { .. }, _, Ok(fd)) => {
            Some(Data::Socket(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }))
        }
        (_, Some(buffer), result) => Some(Data::Bytes(buffers.take(buffer, result.unwrap_or(0) as usize))),
        _ => None,
    }
}

/// Counts `count` transferred bytes in a request that is complete.
fn account(request: &mut Request, count: usize) {
    match request {
        Request::ReceiveInto { buffer, .. }
        | Request::File { request: FileRequest::Read { buffer, .. }, .. } => {
            // SAFETY: the kernel says that it wrote them at the tail that it was given.
            unsafe { buffer.advance(count) }
        }
        Request::Send { batch, .. } => batch.advance(count),
        Request::File { request: FileRequest::Write { batch, offset, .. }, .. } => {
            batch.advance(count);
            *offset += count as u64;
        }
        Request::Accept { .. }
        | Request::Connect { .. }
        | Request::Receive { .. }
        | Request::ReadSmall { .. }
        | Request::File {
            request: FileRequest::Sync | FileRequest::Discard { .. } | FileRequest::DiscardAny { .. },
            ..
        } => {}
    }
}

/// A brief send ends at once, and with MSG_WAITALL a short one counts as failed, so that the kernel tells of it.
///
/// No other request has MSG_WAITALL. One that goes on by itself after each part and is woken 128 times without an end
/// goes to a kernel thread of its own, which blocks there for as long as the peer likes.
const BRIEF_FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_WAITALL;

/// The submission entry of `request`, with the addresses of its memory.
fn entry(request: &mut Request) -> squeue::Entry {
    match request {
        Request::Accept { socket } => opcode::AcceptMulti::new(Fd(*socket)).flags(libc::SOCK_CLOEXEC).build(),
        Request::Connect { socket, address } => {
            opcode::Connect::new(Fd(*socket), address.as_ptr().cast(), address.addr_len()).build()
        }
        Request::Receive { socket } => opcode::RecvMulti::new(Fd(*socket), BUFFER_GROUP).build(),
        Request::ReceiveInto { socket, buffer } => {
            let bytes = buffer.remaining().min(TRANSFER_BYTES_MAX) as u32;
            opcode::Recv::new(Fd(*socket), buffer.tail(), bytes).build()
        }
        Request::Send { socket, batch, is_brief } => {
            let flags = libc::MSG_NOSIGNAL | if *is_brief { BRIEF_FLAGS } else { 0 };
            opcode::SendMsg::new(Fd(*socket), batch.header()).flags(flags as u32).build()
        }
        Request::ReadSmall { fd, buffer, bytes } => {
            opcode::Read::new(Fd(*fd), buffer.as_mut_ptr(), *bytes).offset(u64::MAX).build()
        }
        Request::File { file, request } => file_entry(Fd(*file), request),
    }
}

fn file_entry(file: Fd, request: &mut FileRequest) -> squeue::Entry {
    match request {
        FileRequest::Read { offset, buffer } => {
            let at = *offset + buffer.filled() as u64;
            let bytes = buffer.remaining().min(TRANSFER_BYTES_MAX) as u32;
            opcode::Read::new(file, buffer.tail(), bytes).offset(at).build()
        }
        FileRequest::Write { offset, batch, durable } => {
            let flags = if *durable { libc::RWF_DSYNC } else { 0 };
            match batch.iovecs() {
                [one] if one.iov_len <= TRANSFER_BYTES_MAX => {
                    opcode::Write::new(file, one.iov_base.cast_const().cast(), one.iov_len as u32)
                        .offset(*offset)
                        .rw_flags(flags)
                        .build()
                }
                many => opcode::Writev::new(file, many.as_ptr(), many.len() as u32)
                    .offset(*offset)
                    .rw_flags(flags)
                    .build(),
            }
        }
        FileRequest::Sync => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
        FileRequest::Discard { offset, bytes } => opcode::Fallocate::new(file, *bytes)
            .offset(*offset)
            .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
            .build(),
        FileRequest::DiscardAny { .. } => unreachable!("threads do it, as io_uring cannot"),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{ErrorKind, Read, Write},
        os::{fd::AsRawFd, unix::net::UnixStream},
        sync::Arc,
    };

    use super::*;
    use crate::{backend::batch::Batch, buffer_pool::Pool};

    fn send(uring: &mut Uring, socket: &UnixStream, conn: u32) {
        let owner = Owner::Send(crate::ConnId(SlotId { index: conn, generation: 0 }));
        let batch = Batch::new([bytes::Bytes::from_static(b"reply")]);
        uring.submit(owner, Request::Send { socket: socket.as_raw_fd(), batch, is_brief: true });
    }

    /// The connections whose sends have ended.
    fn ended(uring: &mut Uring, wait: Option<Duration>) -> Vec<u32> {
        let mut out = Vec::new();
        uring.poll(wait, &mut out).unwrap();
        out.iter()
            .map(|completion| match completion.owner {
                Owner::Send(conn) => conn.0.index,
                _ => panic!("only sends were submitted"),
            })
            .collect()
    }

    #[test]
    fn what_the_kernel_may_write_to_stays_in_memory_when_a_ring_is_abandoned() {
        for is_abandoned in [false, true] {
            let mut uring = match Uring::new(&Config::default()) {
                Ok(uring) => uring,
                Err(error) => return eprintln!("SKIPPED: io_uring is not available here: {error}"),
            };
            let (socket, _peer) = UnixStream::pair().unwrap();
            let pool = Arc::new(Pool::default());
            let (socket, buffer) = (socket.as_raw_fd(), pool.take(4096));
            uring.submit(Owner::Wake, Request::ReceiveInto { socket, buffer });
            uring.poll(Some(Duration::ZERO), &mut Vec::new()).unwrap();
            if is_abandoned {
                uring.abandon();
            }
            drop(uring);
            assert_eq!(Arc::strong_count(&pool) > 1, is_abandoned, "the buffer is there");
        }
    }

    #[test]
    fn a_brief_send_is_told_beside_one_that_meets_a_full_socket() {
        let mut uring = match Uring::new(&Config::default()) {
            Ok(uring) => uring,
            Err(error) => return eprintln!("SKIPPED: io_uring is not available here: {error}"),
        };
        let (free, _peer) = UnixStream::pair().unwrap();
        let (mut full, mut reader) = UnixStream::pair().unwrap();
        full.set_nonblocking(true).unwrap();
        let filled = full.write_all(&vec![0; 64 << 20]).map_err(|error| error.kind());
        assert_eq!(filled, Err(ErrorKind::WouldBlock));
        full.set_nonblocking(false).unwrap();
        send(&mut uring, &free, 1);
        send(&mut uring, &full, 2);
        assert_eq!(ended(&mut uring, Some(Duration::ZERO)), [1]);
        // The other one ends when the peer reads.
        let mut buffer = vec![0; 1 << 20];
        assert!(reader.read(&mut buffer).unwrap() > 0);
        let mut left = 1000;
        while ended(&mut uring, Some(Duration::from_millis(100))).is_empty() {
            left -= 1;
            assert!(left > 0, "the send ends");
        }
    }
}
