//! Threads that work on files, for [`epoll`](super::epoll) and for what io_uring cannot do: a plain system call on a
//! file holds its thread up until the device answers, and the reactor's thread has others to serve meanwhile.
//!
//! As with io_uring, requests may end in any order; one that must follow another is made when that has ended. A request
//! that ended is handed to the reactor with its waker.
#![allow(unsafe_code, reason = "fills uninitialised buffers; BLKDISCARD has no safe wrapper")]

use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    io, mem,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use rustix::{
    fs::FallocateFlags,
    io::{Errno, ReadWriteFlags},
};

use crate::{
    Waker,
    backend::{Completion, FileRequest, Owner, Request},
    spawn,
};

/// So many requests are under way at a time. While one flushes or discards, which may take long, others read and write;
/// more threads would mostly wait for the same device.
const THREADS: usize = 4;

/// The threads, and the files that they work on.
pub(crate) struct FileThreads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Descriptors of the threads' own, by the reactor's: a request that outlives the reactor, which does not wait for
    /// it when it was abandoned, must not find another file under the same number.
    files: BTreeMap<RawFd, Arc<OwnedFd>>,
    is_abandoned: bool,
}

/// What threads and reactor pass to each other.
struct Shared {
    queue: Mutex<Queue>,
    /// Told when the queue has changed.
    changed: Condvar,
    done: Mutex<Vec<Completion>>,
    waker: Waker,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// The threads are to end.
    is_closed: bool,
}

struct Job {
    owner: Owner,
    /// The reactor's descriptor, and the threads' own.
    file: RawFd,
    own: Arc<OwnedFd>,
    request: FileRequest,
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FileThreads {
    /// Threads without files; the reactor that has `waker` is told of what they have done.
    pub(crate) fn start(waker: Waker) -> io::Result<FileThreads> {
        let shared =
            Shared { queue: Mutex::default(), changed: Condvar::new(), done: Mutex::default(), waker };
        let shared = Arc::new(shared);
        // Those that there are end with this if there cannot be more.
        let mut started =
            FileThreads { shared, threads: Vec::new(), files: BTreeMap::new(), is_abandoned: false };
        for _ in 0..THREADS {
            let shared = Arc::clone(&started.shared);
            started.threads.push(spawn("file-io", None, move || work(&shared))?);
        }
        Ok(started)
    }

    /// A file that the reactor has opened, and keeps open.
    pub(crate) fn add(&mut self, file: BorrowedFd<'_>) -> io::Result<()> {
        if let Entry::Vacant(new) = self.files.entry(file.as_raw_fd()) {
            new.insert(Arc::new(file.try_clone_to_owned()?));
        }
        Ok(())
    }

    /// Has a request done, on a file that was added.
    pub(crate) fn submit(&mut self, owner: Owner, file: RawFd, request: FileRequest) {
        let own = Arc::clone(self.files.get(&file).expect("added before it is worked on"));
        locked(&self.shared.queue).jobs.push_back(Job { owner, file, own, request });
        self.shared.changed.notify_one();
    }

    /// Takes what is done. What is done later wakes the reactor.
    pub(crate) fn take_done(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut locked(&self.shared.done));
    }

    /// At drop, requests under way are not waited for.
    pub(crate) fn abandon(&mut self) {
        self.is_abandoned = true;
    }
}

impl Drop for FileThreads {
    /// Drops what has not begun and waits for what has.
    fn drop(&mut self) {
        let waiting = {
            let mut queue = locked(&self.shared.queue);
            queue.is_closed = true;
            mem::take(&mut queue.jobs)
        };
        drop(waiting);
        self.shared.changed.notify_all();
        if self.is_abandoned {
            return;
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread for file operations has panicked");
            }
        }
    }
}

/// The life of a thread.
fn work(shared: &Shared) {
    while let Some(Job { owner, file, own, mut request }) = next(shared) {
        let result = run(&own, &mut request).map(|count| count as u32);
        let request = Some(Request::File { file, request });
        locked(&shared.done).push(Completion { owner, result, data: None, request });
        shared.waker.wake();
    }
}

/// Waits for a request; none when the threads are to end.
fn next(shared: &Shared) -> Option<Job> {
    let mut queue = locked(&shared.queue);
    while !queue.is_closed {
        if let Some(job) = queue.jobs.pop_front() {
            return Some(job);
        }
        queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
    None
}

/// Does a request, or a part of it. Trying again is left to the reactor.
fn run(file: &OwnedFd, request: &mut FileRequest) -> Result<usize, Errno> {
    match request {
        FileRequest::Read { offset, buffer } => {
            let at = *offset + buffer.filled() as u64;
            let count = rustix::io::pread(file, buffer.spare(), at).map(|(read, _)| read.len())?;
            // SAFETY: read into the tail.
            unsafe { buffer.advance(count) };
            Ok(count)
        }
        FileRequest::Write { offset, batch, durable } => {
            let flags = if *durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
            let count = rustix::io::pwritev2(file, &batch.slices(), *offset, flags)?;
            batch.advance(count);
            *offset += count as u64;
            Ok(count)
        }
        FileRequest::Sync => rustix::fs::fdatasync(file).map(|()| 0),
        FileRequest::Discard { offset, bytes } => {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(file, flags, *offset, *bytes).map(|()| 0)
        }
        FileRequest::DiscardAny { offset, bytes } => discard_any(file, *offset, *bytes).map(|()| 0),
    }
}

fn discard_any(device: &OwnedFd, offset: u64, bytes: u64) -> Result<(), Errno> {
    /// `_IO(0x12, 119)`.
    const BLKDISCARD: libc::c_ulong = 0x1277;
    let range = [offset, bytes];
    // SAFETY: the request reads two u64 at the address, which outlive the call.
    match unsafe { libc::ioctl(device.as_raw_fd(), BLKDISCARD as _, range.as_ptr()) } {
        -1 => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
