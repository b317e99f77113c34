//! The ring of provided buffers that multishot receives take their memory from.
#![allow(unsafe_code, reason = "memory shared with the kernel")]

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
};

use io_uring::{IoUring, types::BufRingEntry};

use crate::buffer::{PageBuf, Pool};

/// The buffer group's number: one per ring.
pub(crate) const BUFFER_GROUP: u16 = 0;

/// Buffers of equal size which kernel and reactor pass to each other.
pub(crate) struct RingBuffers {
    /// The ring: an array of `BufRingEntry`, whose first entry's spare field is the tail.
    ring: PageBuf,
    /// The buffers, one after the other.
    memory: PageBuf,
    count: u16,
    buffer_bytes: usize,
    tail: u16,
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
        let mut buffers = RingBuffers { ring, memory, count, buffer_bytes, tail: 0 };
        (0..count).for_each(|buffer| buffers.recycle(buffer));
        Ok(buffers)
    }

    fn buffer(&mut self, buffer: u16) -> *mut u8 {
        assert!(buffer < self.count, "the kernel names buffers that it was given");
        // SAFETY: in bounds by the assertion: `count` buffers were allocated.
        unsafe { self.memory.tail().add(usize::from(buffer) * self.buffer_bytes) }
    }

    /// What the kernel put into `buffer`.
    pub(crate) fn bytes(&self, buffer: u16, bytes: usize) -> &[u8] {
        assert!(buffer < self.count && bytes <= self.buffer_bytes, "the kernel names what it was given");
        // SAFETY: in bounds by the assertion, initialised at registration, and the kernel does not
        // write to it between its completion and `recycle`, which needs `&mut self`.
        unsafe {
            let start = self.memory.as_ref().as_ptr().add(usize::from(buffer) * self.buffer_bytes);
            std::slice::from_raw_parts(start, bytes)
        }
    }

    /// Hands `buffer` to the kernel.
    pub(crate) fn recycle(&mut self, buffer: u16) {
        let address = self.buffer(buffer) as u64;
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
