//! What the process holds of memory, as the kernel counts it, and what it gives back.
#![allow(unsafe_code, reason = "the allocator's options have no safe wrapper")]

use std::fs;

use rustix::param::page_size;

/// Bytes of the process in memory; `None` where the kernel does not tell.
pub fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}

/// Allocations of so many bytes get memory of their own from the kernel.
#[cfg(target_env = "gnu")]
const OWN_BYTES_MIN: libc::c_int = 1 << 20;
/// Free bytes at the heap's end that are kept.
#[cfg(target_env = "gnu")]
const KEPT_BYTES_MAX: libc::c_int = 16 << 20;

/// Has large buffers go back to the kernel when they are freed. By default glibc's allocator keeps them in its heap
/// after it has seen the first of them, and small things that live longer come to lie between them.
pub fn return_large_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: both calls set a number.
    let is_set = unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_BYTES_MIN) == 1
            && libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES_MAX) == 1
    };
    #[cfg(target_env = "gnu")]
    if !is_set {
        tracing::warn!("the allocator does not take its options");
    }
}
