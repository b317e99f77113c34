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

/// Gives free memory back to the kernel: glibc's allocator keeps large buffers that were freed in its heap where
/// small things that live longer lie behind them. Takes some milliseconds at most.
pub fn return_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it touches no memory that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
