//! Memory of large buffers, recycled so that a stream of large transfers neither zeroes nor faults fresh pages.
#![allow(unsafe_code, reason = "memory that the kernel fills is uninitialised until it did")]

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    collections::VecDeque,
    ptr::NonNull,
    sync::{Arc, Mutex, PoisonError},
};

use codec::BLOCK_BYTES;

use crate::buffer::PageBuf;

/// Buffers below this size go back to the allocator, which is fast for them.
const POOLED_BYTES_MIN: usize = 64 << 10;
/// Idle memory that a pool keeps: that of 16 requests of 4 MiB, which may all end at once.
const POOL_BYTES_MAX: usize = 64 << 20;
/// How often [`Pool::age`] is to be called, in nanoseconds.
pub(crate) const AGE_NS: u64 = 1_000_000_000;

/// Memory of whole pages, freed at drop.
pub(crate) struct Pages {
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

    /// The first byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// How many bytes there are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
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
/// on any thread. It keeps what was in use within the last two [`AGE_NS`], up to a limit.
#[derive(Default)]
pub(crate) struct Pool {
    free: Mutex<Free>,
}

/// What nobody uses.
#[derive(Default)]
struct Free {
    /// The longest idle first.
    pages: VecDeque<Pages>,
    /// Their bytes.
    bytes: usize,
    /// The least that `bytes` was since the pool aged: so much was not needed meanwhile.
    least_bytes: usize,
}

impl Free {
    /// Gives the longest idle back to the allocator until no more than `bytes_max` are left.
    fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && let Some(oldest) = self.pages.pop_front()
        {
            self.bytes -= oldest.bytes;
        }
        self.least_bytes = self.least_bytes.min(self.bytes);
    }
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
        PageBuf::new(pages, lead, limit, Arc::clone(self))
    }

    fn find(&self, limit: usize) -> Option<Pages> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let index = free.pages.iter().rposition(|pages| (limit..=limit * 2).contains(&pages.bytes))?;
        let pages = free.pages.remove(index)?;
        free.bytes -= pages.bytes;
        free.least_bytes = free.least_bytes.min(free.bytes);
        Some(pages)
    }

    /// Takes the memory of a buffer that is no longer used.
    pub(crate) fn put(&self, pages: Pages) {
        if pages.bytes < POOLED_BYTES_MIN {
            return;
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.bytes += pages.bytes;
        free.pages.push_back(pages);
        // Sizes of the past must not keep those of the present out.
        free.shrink(POOL_BYTES_MAX);
    }

    /// Gives back to the allocator what was idle all the time since the last call.
    pub(crate) fn age(&self) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let needed = free.bytes - free.least_bytes;
        free.shrink(needed);
        free.least_bytes = free.bytes;
    }
}

/// The bytes to allocate for so many: sizes that are nearly the same share their memory.
fn rounded(bytes: usize) -> usize {
    if bytes < POOLED_BYTES_MIN { bytes } else { bytes.next_multiple_of(bytes.next_power_of_two() / 8) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: usize = 4 << 20;

    fn idle_bytes(pool: &Pool) -> usize {
        pool.free.lock().unwrap().bytes
    }

    #[test]
    fn what_is_needed_again_and_again_is_kept() {
        let pool = Arc::<Pool>::default();
        for _ in 0..5 {
            let buffers: Vec<PageBuf> = (0..16).map(|_| pool.take(REQUEST)).collect();
            assert_eq!(idle_bytes(&pool), 0);
            drop(buffers);
            pool.age();
            assert_eq!(idle_bytes(&pool), 16 * REQUEST);
        }
    }

    #[test]
    fn what_nobody_needed_for_a_while_goes() {
        let pool = Arc::<Pool>::default();
        drop((0..16).map(|_| pool.take(REQUEST)).collect::<Vec<_>>());
        pool.age();
        // Two are in use at a time; the others stay idle.
        drop((pool.take(REQUEST), pool.take(REQUEST)));
        assert_eq!(idle_bytes(&pool), 16 * REQUEST);
        pool.age();
        assert_eq!(idle_bytes(&pool), 2 * REQUEST);
        pool.age();
        assert_eq!(idle_bytes(&pool), 0);
    }

    #[test]
    fn no_more_than_its_limit_is_kept() {
        let pool = Arc::<Pool>::default();
        drop((0..40).map(|_| pool.take(REQUEST)).collect::<Vec<_>>());
        assert_eq!(idle_bytes(&pool), POOL_BYTES_MAX);
    }
}
