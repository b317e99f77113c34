//! Buffers on their way out in one vectored system call.
#![allow(unsafe_code, reason = "a message header is plain data for the kernel")]

use std::{collections::VecDeque, io::IoSlice, mem, ptr};

use bytes::{Buf, Bytes};

/// Buffers in one call: the kernel's limit (UIO_MAXIOV).
pub(crate) const BATCH_BUFFERS_MAX: usize = 1024;

/// Buffers to be written in order, and the structs that describe them to the kernel. Those point
/// to memory owned by `buffers`; a batch in flight is boxed and not touched.
pub(crate) struct Batch {
    buffers: VecDeque<Bytes>,
    bytes: usize,
    iovecs: Vec<libc::iovec>,
    header: libc::msghdr,
}

// SAFETY: the structs for the kernel point to memory that goes with the batch, and are made anew for each call.
unsafe impl Send for Batch {}

impl Batch {
    pub(crate) fn new(buffers: impl IntoIterator<Item = Bytes>) -> Box<Batch> {
        let buffers: VecDeque<Bytes> = buffers.into_iter().filter(|buffer| !buffer.is_empty()).collect();
        let bytes = buffers.iter().map(Bytes::len).sum();
        // SAFETY: a message header of zeros is valid: no name, no buffers, no control data.
        let header = unsafe { mem::zeroed() };
        Box::new(Batch { buffers, bytes, iovecs: Vec::new(), header })
    }

    /// Bytes still to be written.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops the first `count` bytes: they are written.
    pub(crate) fn advance(&mut self, mut count: usize) {
        assert!(count <= self.bytes, "the kernel wrote no more than it was given");
        self.bytes -= count;
        while count > 0 {
            let front = self.buffers.front_mut().expect("as many bytes as counted");
            let part = count.min(front.len());
            front.advance(part);
            count -= part;
            if front.is_empty() {
                self.buffers.pop_front();
            }
        }
    }

    /// Copies what is left into memory of its own: it has to wait for the peer, and its buffers may be small parts of
    /// much memory.
    pub(crate) fn detach(&mut self) {
        let mut own = Vec::with_capacity(self.bytes);
        self.buffers.drain(..).for_each(|buffer| own.extend_from_slice(&buffer));
        self.buffers.push_back(own.into());
    }

    /// Describes what is left; valid until the batch is touched or dropped.
    pub(crate) fn iovecs(&mut self) -> &[libc::iovec] {
        self.iovecs.clear();
        self.iovecs.extend(self.buffers.iter().take(BATCH_BUFFERS_MAX).map(|buffer| libc::iovec {
            iov_base: buffer.as_ptr().cast_mut().cast(),
            iov_len: buffer.len(),
        }));
        &self.iovecs
    }

    /// As [`iovecs`](Self::iovecs), in a message for a connected socket.
    pub(crate) fn header(&mut self) -> *const libc::msghdr {
        self.iovecs();
        self.header.msg_iov = self.iovecs.as_mut_ptr();
        self.header.msg_iovlen = self.iovecs.len();
        ptr::from_ref(&self.header)
    }

    /// As [`iovecs`](Self::iovecs), for safe wrappers.
    pub(crate) fn slices(&self) -> Vec<IoSlice<'_>> {
        self.buffers.iter().take(BATCH_BUFFERS_MAX).map(|buffer| IoSlice::new(buffer)).collect()
    }
}
