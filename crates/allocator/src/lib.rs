//! The program's allocator, mimalloc, and how eager it is to give memory back.
#![allow(
    unsafe_code,
    reason = "what mimalloc's crate does not wrap: functions without an alignment, and options"
)]

use std::{
    alloc::{GlobalAlloc, Layout},
    ffi::{c_int, c_long, c_void},
};

use mimalloc::MiMalloc;

/// mimalloc, chosen by measurement (docs/dependencies.md). What needs no alignment of its own, which is nearly
/// everything, goes past the checks for one: with the crate's own `MiMalloc` a replicated write of 4 KiB takes 2 % more
/// instructions.
#[derive(Debug)]
pub struct Allocator;

/// `MI_MAX_ALIGN_SIZE`: what is at least as large as its alignment, which is at most this, is aligned anyway.
const ALIGN_ANYWAY_MAX: usize = 16;

fn is_aligned_anyway(size: usize, align: usize) -> bool {
    align <= ALIGN_ANYWAY_MAX && align <= size
}

// SAFETY: all memory comes from mimalloc, whose functions are exchangeable, with the size and the alignment that are
// asked for: see `ALIGN_ANYWAY_MAX`.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_aligned_anyway(layout.size(), layout.align()) {
            return mi_malloc(layout.size()).cast();
        }
        // SAFETY: as for this function.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_aligned_anyway(layout.size(), layout.align()) {
            return mi_zalloc(layout.size()).cast();
        }
        // SAFETY: as for this function.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as for this function.
        unsafe { MiMalloc.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_aligned_anyway(size, layout.align()) {
            // SAFETY: it is mimalloc's memory, which the caller gives up.
            return unsafe { mi_realloc(memory.cast(), size) }.cast();
        }
        // SAFETY: as for this function.
        unsafe { MiMalloc.realloc(memory, layout, size) }
    }
}

/// `mi_option_purge_delay`: for how many milliseconds free pages are kept.
const PURGE_DELAY: c_int = 15;
/// What mimalloc begins with.
const PURGE_DELAY_DEFAULT: c_long = 1000;
/// Long enough for memory that is allocated again at once, which is much of it: without any delay, page faults take a
/// third of the time.
const PURGE_DELAY_EAGER: c_long = 40;

unsafe extern "C" {
    safe fn mi_malloc(size: usize) -> *mut c_void;
    safe fn mi_zalloc(size: usize) -> *mut c_void;
    fn mi_realloc(memory: *mut c_void, size: usize) -> *mut c_void;
    safe fn mi_option_set(option: c_int, value: c_long);
    safe fn mi_collect(force: bool);
}

/// With `is_eager` all that is free goes back to the kernel, and what is freed later soon.
pub fn give_back(is_eager: bool) {
    mi_option_set(PURGE_DELAY, if is_eager { PURGE_DELAY_EAGER } else { PURGE_DELAY_DEFAULT });
    if is_eager {
        mi_collect(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_all_sizes_is_aligned_and_keeps_what_is_in_it() {
        for align in [1, 2, 8, 16, 32, 4096] {
            for size in [1, 7, 8, 9, 16, 24, 100, 1 << 10, 5 << 10, 1 << 20] {
                let layout = Layout::from_size_align(size, align).unwrap();
                let larger = Layout::from_size_align(3 * size, align).unwrap();
                // SAFETY: the memory is written within its size, and freed once, with the layout that it has.
                unsafe {
                    let zeros = Allocator.alloc_zeroed(layout);
                    assert!(std::slice::from_raw_parts(zeros, size).iter().all(|byte| *byte == 0));
                    let memory = Allocator.alloc(layout);
                    memory.write_bytes(7, size);
                    let grown = Allocator.realloc(memory, layout, larger.size());
                    for at in [zeros, grown] {
                        assert_eq!(at as usize % align, 0, "{size} bytes");
                    }
                    assert!(std::slice::from_raw_parts(grown, size).iter().all(|byte| *byte == 7));
                    Allocator.dealloc(zeros, layout);
                    Allocator.dealloc(grown, larger);
                }
            }
        }
    }

    unsafe extern "C" {
        safe fn mi_option_get(option: c_int) -> c_long;
    }

    #[test]
    fn the_option_is_the_one_that_is_meant() {
        assert_eq!(mi_option_get(PURGE_DELAY), PURGE_DELAY_DEFAULT, "what no other option begins with");
        give_back(true);
        assert_eq!(mi_option_get(PURGE_DELAY), PURGE_DELAY_EAGER);
        give_back(false);
        assert_eq!(mi_option_get(PURGE_DELAY), PURGE_DELAY_DEFAULT);
    }
}
