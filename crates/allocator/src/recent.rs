//! Blocks that were freed lately, kept by each thread to be given out again, the last one first.
//!
//! mimalloc goes through all blocks of a page, 64 KiB of each size, before it gives one of them out again, and a CPU's
//! cache has long forgotten it by then. An OSD frees nearly everything that it allocates for a request within some
//! turns: given out at once, it is still there.
//!
//! A thread that ends leaves what it kept, at most [`BLOCKS_MAX`] of each size: the program's threads last as long as
//! the program.

use std::{cell::Cell, ptr};

/// Sizes go up in these steps: what is kept of a size serves all that round up to it.
const STEP: usize = 16;
/// Larger blocks are mimalloc's alone.
pub(crate) const BYTES_MAX: usize = 1024;
const SIZES: usize = BYTES_MAX / STEP;
/// Kept of one size: some turns' worth, little beside the CPU's second cache.
const BLOCKS_MAX: u32 = 24;

/// What a block that is kept begins with: where the next one of its size is.
struct Kept {
    next: *mut Kept,
}

/// What is kept of one size.
struct Size {
    last: Cell<*mut Kept>,
    count: Cell<u32>,
}

impl Size {
    const fn empty() -> Size {
        Size { last: Cell::new(ptr::null_mut()), count: Cell::new(0) }
    }
}

thread_local! {
    // Nothing in it needs a destructor, so that its uses need no look at whether there is one to run.
    static KEPT: [Size; SIZES] = const { [const { Size::empty() }; SIZES] };
}

/// How large a block for `bytes` is, 1 to [`BYTES_MAX`], so that it can be kept.
pub(crate) fn block_bytes(bytes: usize) -> usize {
    bytes.next_multiple_of(STEP)
}

/// Of the sizes; an allocator is never asked for no bytes at all.
fn index(bytes: usize) -> usize {
    bytes.div_ceil(STEP) - 1
}

/// A kept block for `bytes`, 1 to [`BYTES_MAX`]: [`block_bytes`] of memory, or null if there is none.
#[inline]
pub(crate) fn take(bytes: usize) -> *mut u8 {
    KEPT.with(|kept| {
        let size = &kept[index(bytes)];
        let last = size.last.get();
        if !last.is_null() {
            // SAFETY: what a list leads to is free, is this thread's, and begins with a `Kept` (see `keep`).
            size.last.set(unsafe { (*last).next });
            size.count.set(size.count.get() - 1);
        }
        last.cast()
    })
}

/// Keeps a block for `bytes`, 1 to [`BYTES_MAX`], unless there are enough of its size: then it stays the caller's.
///
/// # Safety
///
/// `memory` is the caller's, aligned to 16 bytes and of [`block_bytes`]. If it is kept, nobody uses it any longer.
#[inline]
pub(crate) unsafe fn keep(memory: *mut u8, bytes: usize) -> bool {
    KEPT.with(|kept| {
        let size = &kept[index(bytes)];
        let count = size.count.get();
        if count >= BLOCKS_MAX {
            return false;
        }
        let block = memory.cast::<Kept>();
        // SAFETY: a `Kept` has room in any block, whose alignment is larger, and it is the caller's to give.
        unsafe { block.write(Kept { next: size.last.get() }) };
        size.last.set(block);
        size.count.set(count + 1);
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(16))]
    struct Block([u8; BYTES_MAX]);

    #[test]
    fn what_is_kept_comes_back_the_last_first_and_only_for_its_size() {
        let mut blocks = [const { Block([0; BYTES_MAX]) }; 3];
        let [a, b, c] = blocks.each_mut().map(|block| block.0.as_mut_ptr());
        // SAFETY: nobody else uses the blocks, which are larger than any size.
        let all_kept = unsafe { keep(a, 33) && keep(b, 48) && keep(c, 49) };
        assert!(all_kept);
        assert!(take(32).is_null());
        assert_eq!((take(40), take(48)), (b, a));
        assert!(take(48).is_null());
        assert_eq!((take(64), take(64).is_null()), (c, true));
    }

    #[test]
    fn no_more_is_kept_than_is_soon_wanted() {
        let mut blocks = [const { Block([0; BYTES_MAX]) }; BLOCKS_MAX as usize + 1];
        for (at, block) in blocks.iter_mut().enumerate() {
            // SAFETY: nobody else uses the blocks.
            let is_kept = unsafe { keep(block.0.as_mut_ptr(), BYTES_MAX) };
            assert_eq!(is_kept, at < BLOCKS_MAX as usize);
        }
        assert_eq!((0..100).filter(|_| !take(BYTES_MAX).is_null()).count(), BLOCKS_MAX as usize);
    }
}
