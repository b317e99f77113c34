//! What the process holds of memory, as the kernel counts it.

use std::fs;

use rustix::param::page_size;

/// Bytes of the process in memory; `None` where the kernel does not tell.
pub fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}
