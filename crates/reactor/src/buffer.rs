//! Page-aligned memory for receives and file reads, recycled (see [`Pool`]).
#![allow(unsafe_code, reason = "memory that the kernel fills is uninitialised until it did")]

use std::{mem::MaybeUninit, slice, sync::Arc};

use bytes::Bytes;

use crate::buffer_pool::{Pages, Pool};

/// A page-aligned buffer that is filled from its start up to `limit` bytes.
pub(crate) struct PageBuf {
    /// Present until drop.
    pages: Option<Pages>,
    /// Unused bytes before the first one.
    lead: usize,
    filled: usize,
    limit: usize,
    pool: Arc<Pool>,
}

impl PageBuf {
    /// An empty buffer of `pages` for exactly `limit` bytes, the first `lead` bytes unused; they go to `pool` at drop.
    pub(crate) fn new(pages: Pages, lead: usize, limit: usize, pool: Arc<Pool>) -> PageBuf {
        assert!(lead + limit <= pages.bytes(), "a buffer lies in its memory");
        PageBuf { pages: Some(pages), lead, filled: 0, limit, pool }
    }

    /// Bytes still missing.
    pub(crate) fn remaining(&self) -> usize {
        self.limit - self.filled
    }

    /// Bytes there.
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// True once `limit` bytes are there.
    pub(crate) fn is_full(&self) -> bool {
        self.remaining() == 0
    }

    fn start(&self) -> *mut u8 {
        let pages = self.pages.as_ref().expect("present until drop");
        // SAFETY: `lead + limit <= bytes of the allocation`.
        unsafe { pages.start().add(self.lead) }
    }

    /// Where the next byte goes: `remaining()` bytes from here may be written. The address does
    /// not change when the `PageBuf` moves.
    pub(crate) fn tail(&mut self) -> *mut u8 {
        // SAFETY: `filled <= limit`, and `limit` bytes from the start are in the allocation.
        unsafe { self.start().add(self.filled) }
    }

    /// The memory from the tail on.
    pub(crate) fn spare(&mut self) -> &mut [MaybeUninit<u8>] {
        let (start, bytes) = (self.tail(), self.remaining());
        // SAFETY: `remaining` bytes from the tail belong to the buffer, which is borrowed meanwhile.
        unsafe { slice::from_raw_parts_mut(start.cast(), bytes) }
    }

    /// Counts `count` bytes at the tail as there.
    ///
    /// # Safety
    /// They have been written.
    pub(crate) unsafe fn advance(&mut self, count: usize) {
        assert!(count <= self.remaining(), "the kernel wrote no more than it was given");
        self.filled += count;
    }

    /// Takes as much of `data` as fits and tells how much that was.
    pub(crate) fn fill_from(&mut self, data: &[u8]) -> usize {
        let count = data.len().min(self.remaining());
        // SAFETY: `count` bytes fit behind the tail, this buffer's memory is its own, and they are
        // written before they count.
        unsafe {
            self.tail().copy_from_nonoverlapping(data.as_ptr(), count);
            self.advance(count);
        }
        count
    }

    /// The bytes that are there, shared without a copy.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for PageBuf {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the first `filled` bytes have been written.
        unsafe { slice::from_raw_parts(self.start(), self.filled) }
    }
}

impl Drop for PageBuf {
    fn drop(&mut self) {
        if let Some(pages) = self.pages.take() {
            self.pool.put(pages);
        }
    }
}
