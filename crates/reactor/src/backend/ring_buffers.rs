//! The ring of provided buffers that multishot receives take their memory from.
//!
//! A buffer that the kernel has filled is handed out as it is, and comes back when it is dropped. A caller that keeps
//! it long withholds it from the kernel: so at most half of the buffers are out at a time, and what arrives beyond is
//! copied.
#![allow(unsafe_code, reason = "memory shared with the kernel")]

use std::{
    io,
    ptr::NonNull,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU16, Ordering},
    },
};

use bytes::Bytes;
use io_uring::{IoUring, types::BufRingEntry};

use crate::{buffer::PageBuf, buffer_pool::Pool};

/// The buffer group's number: one per ring.
pub(crate) const BUFFER_GROUP: u16 = 0;

/// The memory of all buffers, one after the other, and which of them came back.
struct Shared {
    /// Freed when nothing of it is in use any more.
    _memory: PageBuf,
    returned: Mutex<Vec<u16>>,
}

/// Bytes in one of the buffers, which goes back when they are dropped, on any thread.
struct Filled {
    shared: Arc<Shared>,
    buffer: u16,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory lives as long as `shared`, and nobody writes to it before the drop of this.
unsafe impl Send for Filled {}
// SAFETY: it gives out nothing but shared bytes.
unsafe impl Sync for Filled {}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: in bounds as checked in `take`, initialised at registration, alive by `shared`, and the kernel
        // gets the buffer back after the drop of this only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        self.shared.returned.lock().unwrap_or_else(PoisonError::into_inner).push(self.buffer);
    }
}

/// Buffers of equal size which kernel and reactor pass to each other.
pub(crate) struct RingBuffers {
    /// The ring: an array of `BufRingEntry`, whose first entry's spare field is the tail.
    ring: PageBuf,
    shared: Arc<Shared>,
    start: NonNull<u8>,
    count: u16,
    buffer_bytes: usize,
    tail: u16,
    /// Buffers handed out and not back.
    out: usize,
}

impl RingBuffers {
    /// Registers `count` buffers (a power of two) of `buffer_bytes` with `uring`.
    ///
    /// # Safety
    /// The result must outlive every request of `uring` that uses it.
    pub(crate) unsafe fn register(
        uring: &IoUring,
        count: u16,
        buffer_bytes: usize,
    ) -> io::Result<RingBuffers> {
        assert!(count.is_power_of_two() && buffer_bytes > 0, "the kernel masks ring positions");
        let pool = Arc::new(Pool::default());
        let mut ring = pool.take(usize::from(count) * size_of::<BufRingEntry>());
        let mut memory = pool.take(usize::from(count) * buffer_bytes);
        // SAFETY: both allocations are at least as large as what is zeroed here, which makes all
        // of it readable as bytes.
        unsafe {
            ring.tail().write_bytes(0, ring.remaining());
            memory.tail().write_bytes(0, memory.remaining());
            uring.submitter().register_buf_ring_with_flags(ring.tail() as u64, count, BUFFER_GROUP, 0)?;
        }
        let start = NonNull::new(memory.tail()).expect("allocated memory has an address");
        let shared = Arc::new(Shared { _memory: memory, returned: Mutex::default() });
        let mut buffers = RingBuffers { ring, shared, start, count, buffer_bytes, tail: 0, out: 0 };
        (0..count).for_each(|buffer| buffers.recycle(buffer));
        Ok(buffers)
    }

    fn buffer(&self, buffer: u16) -> NonNull<u8> {
        assert!(buffer < self.count, "the kernel names buffers that it was given");
        // SAFETY: in bounds by the assertion: `count` buffers were allocated.
        unsafe { self.start.add(usize::from(buffer) * self.buffer_bytes) }
    }

    /// The first `bytes` of a buffer that the kernel has filled; to be called once for each.
    pub(crate) fn take(&mut self, buffer: u16, bytes: usize) -> Bytes {
        assert!(bytes <= self.buffer_bytes, "the kernel fills what it was given");
        let filled = Filled { shared: Arc::clone(&self.shared), buffer, start: self.buffer(buffer), bytes };
        self.out += 1;
        if self.out * 2 > usize::from(self.count) {
            self.reclaim();
        }
        if self.out * 2 > usize::from(self.count) {
            return Bytes::copy_from_slice(filled.as_ref());
        }
        Bytes::from_owner(filled)
    }

    /// Hands to the kernel what has come back.
    pub(crate) fn reclaim(&mut self) {
        if self.out == 0 {
            return;
        }
        let shared = Arc::clone(&self.shared);
        for buffer in shared.returned.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            self.out -= 1;
            self.recycle(buffer);
        }
    }

    /// Hands `buffer` to the kernel.
    fn recycle(&mut self, buffer: u16) {
        let address = self.buffer(buffer).as_ptr() as u64;
        let entries = self.ring.tail().cast::<BufRingEntry>();
        let position = usize::from(self.tail & (self.count - 1));
        // SAFETY: the position is inside the ring, and the kernel reads an entry only once the tail
        // is past it. The entry is written by field because the first one's spare field is the tail.
        unsafe {
            let entry = &mut *entries.add(position);
            entry.set_addr(address);
            entry.set_len(self.buffer_bytes as u32);
            entry.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is an aligned u16 in the ring's first entry that only this thread
        // writes; release makes the entry visible before it.
        unsafe {
            let tail = AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut());
            tail.store(self.tail, Ordering::Release);
        }
    }
}
