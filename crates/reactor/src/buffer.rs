//! Page-aligned memory for receives and file reads, recycled so that a stream of large transfers
//! neither zeroes nor faults fresh pages.
#![allow(unsafe_code, reason = "memory that the kernel fills is uninitialised until it did")]

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    collections::VecDeque,
    mem::MaybeUninit,
    ptr::NonNull,
    slice,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use codec::BLOCK_BYTES;

/// Buffers below this size go back to the allocator, which is fast for them.
const POOLED_BYTES_MIN: usize = 64 << 10;
/// Idle memory that a pool keeps.
const POOL_BYTES_MAX: usize = 32 << 20;

/// Memory of whole pages, freed at drop.
struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: `Pages` owns its memory alone; nothing about it is bound to a thread.
unsafe impl Send for Pages {}
// SAFETY: a shared `Pages` gives out nothing but its address.
unsafe impl Sync for Pages {}

impl Pages {
    fn new(bytes: usize) -> Pages {
        let bytes = bytes.max(1).next_multiple_of(BLOCK_BYTES);
        let layout = Self::layout(bytes);
        // SAFETY: the size is not zero.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Pages { start, bytes }
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, BLOCK_BYTES).expect("a page is a power of two, sizes are bounded")
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, freed once.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.bytes)) }
    }
}

/// Recycles the memory of large buffers; shared with the `Bytes` handed out, which may be dropped
/// on any thread.
#[derive(Default)]
pub(crate) struct Pool {
    /// The longest idle first; and their bytes.
    free: Mutex<(VecDeque<Pages>, usize)>,
}

impl Pool {
    /// An empty buffer for exactly `limit` bytes.
    pub(crate) fn take(self: &Arc<Self>, limit: usize) -> PageBuf {
        self.take_aligned(limit, 0)
    }

    /// An empty buffer for exactly `limit` bytes, whose byte `align_at` lies on a page's start.
    pub(crate) fn take_aligned(self: &Arc<Self>, limit: usize, align_at: usize) -> PageBuf {
        let lead = align_at.next_multiple_of(BLOCK_BYTES) - align_at;
        let bytes = lead + limit;
        let pages = (bytes >= POOLED_BYTES_MIN).then(|| self.find(bytes)).flatten();
        let pages = pages.unwrap_or_else(|| Pages::new(rounded(bytes)));
        PageBuf { pages: Some(pages), lead, filled: 0, limit, pool: Arc::clone(self) }
    }

    fn find(&self, limit: usize) -> Option<Pages> {
        let (free, bytes) = &mut *self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let index = free.iter().rposition(|pages| (limit..=limit * 2).contains(&pages.bytes))?;
        let pages = free.remove(index)?;
        *bytes -= pages.bytes;
        Some(pages)
    }

    fn put(&self, pages: Pages) {
        let (free, bytes) = &mut *self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if pages.bytes < POOLED_BYTES_MIN {
            return;
        }
        *bytes += pages.bytes;
        free.push_back(pages);
        // Sizes of the past must not keep those of the present out.
        while *bytes > POOL_BYTES_MAX
            && let Some(oldest) = free.pop_front()
        {
            *bytes -= oldest.bytes;
        }
    }
}

/// The bytes to allocate for so many: sizes that are nearly the same share their memory.
fn rounded(bytes: usize) -> usize {
    if bytes < POOLED_BYTES_MIN { bytes } else { bytes.next_multiple_of(bytes.next_power_of_two() / 8) }
}

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
        unsafe { pages.start.as_ptr().add(self.lead) }
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
