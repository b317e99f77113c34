//! Threads for reactors: named, and pinned to a CPU if wanted.

use std::{io, thread::JoinHandle};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that this process may run on, in order: its affinity mask, which the kernel keeps
/// within the cgroup's cpuset.
pub fn available_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Starts a thread called `name` (the kernel keeps 15 bytes of it) that runs on `cpu` only. A pin
/// that fails is logged and the thread runs unpinned.
pub fn spawn<R: Send + 'static>(
    name: &str,
    cpu: Option<usize>,
    run: impl FnOnce() -> R + Send + 'static,
) -> io::Result<JoinHandle<R>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        if let Some(cpu) = cpu
            && let Err(error) = pin(cpu)
        {
            tracing::warn!(cpu, %error, "cannot pin the thread");
        }
        run()
    })
}

fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Reads of this descriptor, such as a child's output, give what is there instead of waiting for more.
pub fn set_nonblocking(fd: impl std::os::fd::AsFd) -> std::io::Result<()> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let flags = fcntl_getfl(&fd)?;
    Ok(fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?)
}
