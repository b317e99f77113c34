//! The program's allocator: mimalloc, behind a few blocks that were freed lately, how eager it is to give memory back,
//! and memory that is made ready before it is used.
#![allow(
    unsafe_code,
    reason = "what mimalloc's crate does not wrap: functions without an alignment, options, and an arena"
)]

mod ahead;
mod recent;

use std::{
    alloc::{GlobalAlloc, Layout},
    ffi::{c_int, c_long, c_void},
    ptr,
};

use mimalloc::MiMalloc;

pub use ahead::keep_ready;

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
// asked for (see `ALIGN_ANYWAY_MAX`). What is aligned anyway and has at most `recent::BYTES_MAX` was allocated with
// `recent::block_bytes`, here or as the result of a `realloc`, so that it can be kept for all of that size.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_aligned_anyway(layout.size(), layout.align()) {
            return alloc(layout.size());
        }
        // SAFETY: as for this function.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !is_aligned_anyway(layout.size(), layout.align()) {
            // SAFETY: as for this function.
            return unsafe { MiMalloc.alloc_zeroed(layout) };
        }
        if layout.size() > recent::BYTES_MAX {
            return mi_zalloc(layout.size()).cast();
        }
        let memory = alloc(layout.size());
        if !memory.is_null() {
            // SAFETY: it is at least that large.
            unsafe { memory.write_bytes(0, layout.size()) };
        }
        memory
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if is_aligned_anyway(layout.size(), layout.align()) {
            // SAFETY: `alloc`, `alloc_zeroed` or `realloc` gave it for that size.
            unsafe { dealloc(memory, layout.size()) }
        } else {
            // SAFETY: as for this function.
            unsafe { MiMalloc.dealloc(memory, layout) }
        }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_aligned_anyway(size, layout.align()) {
            // SAFETY: as for this function.
            return unsafe { MiMalloc.realloc(memory, layout, size) };
        }
        if size > recent::BYTES_MAX {
            // SAFETY: it is mimalloc's memory, which the caller gives up.
            return unsafe { mi_realloc(memory.cast(), size) }.cast();
        }
        if !is_aligned_anyway(layout.size(), layout.align()) || layout.size() > recent::BYTES_MAX {
            // SAFETY: as above.
            return unsafe { mi_realloc(memory.cast(), recent::block_bytes(size)) }.cast();
        }
        if recent::block_bytes(size) == recent::block_bytes(layout.size()) {
            return memory;
        }
        let moved = alloc(size);
        if !moved.is_null() {
            // SAFETY: two blocks, each at least that large; the caller gives up the old one.
            unsafe {
                ptr::copy_nonoverlapping(memory, moved, size.min(layout.size()));
                dealloc(memory, layout.size());
            }
        }
        moved
    }
}

/// Memory for so many bytes that is aligned anyway.
#[inline]
fn alloc(bytes: usize) -> *mut u8 {
    if bytes > recent::BYTES_MAX {
        return mi_malloc(bytes).cast();
    }
    let kept = recent::take(bytes);
    if kept.is_null() { mi_malloc(recent::block_bytes(bytes)).cast() } else { kept }
}

/// Gives back what is aligned anyway.
///
/// # Safety
///
/// The memory was allocated for so many bytes, and nobody uses it any longer.
#[inline]
unsafe fn dealloc(memory: *mut u8, bytes: usize) {
    // SAFETY: what has so few bytes has a whole block.
    if bytes > recent::BYTES_MAX || !unsafe { recent::keep(memory, bytes) } {
        // SAFETY: it is mimalloc's memory, and not kept.
        unsafe { mi_free(memory.cast()) }
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
    fn mi_free(memory: *mut c_void);
    fn mi_realloc(memory: *mut c_void, size: usize) -> *mut c_void;
    safe fn mi_option_set(option: c_int, value: c_long);
    safe fn mi_collect(force: bool);
}

/// With `is_eager` all that is free goes back to the kernel, what is freed later soon, and nothing is made ready ahead.
pub fn give_back(is_eager: bool) {
    ahead::pause(is_eager);
    mi_option_set(PURGE_DELAY, if is_eager { PURGE_DELAY_EAGER } else { PURGE_DELAY_DEFAULT });
    if is_eager {
        mi_collect(true);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Held by tests that say how eager the allocator of this process is.
    pub(crate) static EAGERNESS: Mutex<()> = Mutex::new(());

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

    /// What a program does with its memory: any sizes and alignments, grown and shrunk, freed in any order and by other
    /// threads. Everything that lives is apart from everything else and keeps what is in it.
    #[test]
    fn what_lives_at_once_never_overlaps() {
        let mut random = 7u64;
        let mut number = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % below
        };
        let mut living: Vec<Owned> = Vec::new();
        for step in 0..100_000 {
            let most = [16, 200, 1 << 10, 3 << 10][number(4)];
            let size = 1 + number(most);
            match number(8) {
                0..3 => living.push(Owned::new(size, 1 << number(7), step as u8, number(2) == 0)),
                3..5 if !living.is_empty() => {
                    let at = number(living.len());
                    living[at].resize(size);
                }
                5 if living.len() > 400 => {
                    let other = living.split_off(200);
                    std::thread::spawn(move || drop(other)).join().expect("all of them are whole");
                }
                _ if !living.is_empty() => drop(living.swap_remove(number(living.len()))),
                _ => {}
            }
        }
    }

    /// Memory with a byte all over, which is looked at when it ends or changes.
    struct Owned {
        memory: *mut u8,
        layout: Layout,
        byte: u8,
    }

    // SAFETY: it is the only one that has the memory.
    unsafe impl Send for Owned {}

    impl Owned {
        fn new(size: usize, align: usize, byte: u8, is_zeroed: bool) -> Owned {
            let layout = Layout::from_size_align(size, align).unwrap();
            // SAFETY: a size of at least 1; what is zeroed can be read.
            let memory = unsafe {
                if is_zeroed {
                    let memory = Allocator.alloc_zeroed(layout);
                    assert!(std::slice::from_raw_parts(memory, size).iter().all(|byte| *byte == 0));
                    memory
                } else {
                    Allocator.alloc(layout)
                }
            };
            let owned = Owned { memory, layout, byte };
            owned.fill();
            owned
        }

        fn fill(&self) {
            assert_eq!(self.memory as usize % self.layout.align(), 0);
            // SAFETY: it is as large.
            unsafe { self.memory.write_bytes(self.byte, self.layout.size()) };
        }

        fn check(&self, bytes: usize) {
            // SAFETY: it is as large, and all of it was written.
            let filled = unsafe { std::slice::from_raw_parts(self.memory, bytes) };
            assert!(filled.iter().all(|byte| *byte == self.byte), "{:?}", self.layout);
        }

        fn resize(&mut self, size: usize) {
            let old = self.layout.size();
            self.check(old);
            // SAFETY: its own memory and layout; the size is at least 1.
            self.memory = unsafe { Allocator.realloc(self.memory, self.layout, size) };
            self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
            self.check(old.min(size));
            self.fill();
        }
    }

    impl Drop for Owned {
        fn drop(&mut self) {
            self.check(self.layout.size());
            // SAFETY: its own memory and layout, used no longer.
            unsafe { Allocator.dealloc(self.memory, self.layout) };
        }
    }

    unsafe extern "C" {
        safe fn mi_option_get(option: c_int) -> c_long;
    }

    #[test]
    fn the_option_is_the_one_that_is_meant() {
        let _eagerness = EAGERNESS.lock();
        assert_eq!(mi_option_get(PURGE_DELAY), PURGE_DELAY_DEFAULT, "what no other option begins with");
        give_back(true);
        assert_eq!(mi_option_get(PURGE_DELAY), PURGE_DELAY_EAGER);
        give_back(false);
        assert_eq!(mi_option_get(PURGE_DELAY), PURGE_DELAY_DEFAULT);
    }
}
