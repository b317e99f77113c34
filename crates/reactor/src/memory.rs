//! What the process holds of memory, as the kernel counts it.

use std::{fs, path::Path};

use rustix::param::page_size;

/// Bytes of the process in memory; `None` where the kernel does not tell.
pub fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}

/// Bytes that the process' control group may hold; `None` where there is no limit.
pub fn memory_limit_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?.trim_start_matches('/').to_owned();
    let root = Path::new("/sys/fs/cgroup");
    let own = root.join(path);
    // The tightest limit on the way up; a container sees its own group as the root.
    let groups = own.ancestors().take_while(|group| group.starts_with(root));
    groups.filter_map(|group| fs::read_to_string(group.join("memory.max")).ok()?.trim().parse().ok()).min()
}
