//! Files on which the device is slow: a pipe that is full stands for one that does not answer.

use std::{
    io::{PipeReader, PipeWriter, Write, pipe},
    os::fd::{AsFd, AsRawFd},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, memfd_create};

use super::*;
use crate::{
    BackendKind, Config, FileId,
    backend::{Backend, batch::Batch},
    buffer_pool::Pool,
    slab::SlotId,
};

/// The kernel takes this for the file's own position, which is the only one that a pipe has.
const OWN_POSITION: u64 = u64::MAX;

fn owner(token: u64) -> Owner {
    Owner::File { file: FileId(SlotId { index: 0, generation: 0 }), token }
}

/// A pipe that takes no more: both of its ends.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[0; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

fn write(offset: u64, data: &Bytes) -> FileRequest {
    FileRequest::Write { offset, batch: Batch::new([data.clone()]), durable: false }
}

fn backend(kind: BackendKind) -> io::Result<Backend> {
    Backend::new(&Config { backend: kind, ..Config::default() }, &Waker::new()?)
}

/// Polls until a request has ended.
fn ended(backend: &mut Backend) -> (u64, Completion) {
    let mut out = Vec::new();
    while out.is_empty() {
        backend.poll(Some(Duration::from_millis(1)), &mut out).unwrap();
    }
    assert_eq!(out.len(), 1);
    let completion = out.pop().unwrap();
    let Owner::File { token, .. } = completion.owner else { panic!("only files were asked for") };
    (token, completion)
}

#[test]
fn a_read_is_served_while_a_write_is_under_way() {
    let mut epoll = backend(BackendKind::Epoll).unwrap();
    let (reader, slow) = full_pipe();
    let quick = memfd_create("quick", MemfdFlags::CLOEXEC).unwrap();
    rustix::io::write(&quick, b"contents").unwrap();
    epoll.add_file(slow.as_fd()).unwrap();
    epoll.add_file(quick.as_fd()).unwrap();
    epoll.submit_file(owner(1), slow.as_raw_fd(), write(OWN_POSITION, &Bytes::from_static(b"more")));
    let buffer = Arc::new(Pool::default()).take(8);
    epoll.submit_file(owner(2), quick.as_raw_fd(), FileRequest::Read { offset: 0, buffer });
    let (token, completion) = ended(&mut epoll);
    assert_eq!((token, completion.result), (2, Ok(8)));
    let Some(Request::File { request: FileRequest::Read { buffer, .. }, .. }) = completion.request else {
        panic!("it is the read's");
    };
    assert_eq!(&buffer.freeze()[..], b"contents");
    drop(reader);
    let (token, completion) = ended(&mut epoll);
    assert_eq!((token, completion.result), (1, Err(Errno::PIPE)));
}

#[test]
fn who_abandons_a_device_does_not_wait_for_it_and_what_has_not_begun_never_does() {
    let mut epoll = backend(BackendKind::Epoll).unwrap();
    let (_reader, slow) = full_pipe();
    epoll.add_file(slow.as_fd()).unwrap();
    let data = Bytes::from(vec![1; 4096]);
    // More than there are threads.
    for token in 0..100 {
        epoll.submit_file(owner(token), slow.as_raw_fd(), write(OWN_POSITION, &Bytes::from_static(b"more")));
    }
    epoll.submit_file(owner(100), slow.as_raw_fd(), write(OWN_POSITION, &data));
    epoll.poll(Some(Duration::ZERO), &mut Vec::new()).unwrap();
    assert!(!data.is_unique());
    epoll.abandon();
    drop(epoll);
    assert!(data.is_unique());
}

#[test]
fn threads_discard_for_io_uring_too() {
    for kind in [BackendKind::Epoll, BackendKind::IoUring] {
        let mut backend = match backend(kind) {
            Ok(backend) => backend,
            Err(error) => return eprintln!("SKIPPED: io_uring is not available here: {error}"),
        };
        // It knows no BLKDISCARD, and says so.
        let file = memfd_create("file", MemfdFlags::CLOEXEC).unwrap();
        backend.add_file(file.as_fd()).unwrap();
        // The second time the file is known.
        for token in [1, 2] {
            backend.add_to_threads(file.as_fd()).unwrap();
            let request = FileRequest::DiscardAny { offset: 0, bytes: 4096 };
            backend.submit_file(owner(token), file.as_raw_fd(), request);
            let (ended, completion) = ended(&mut backend);
            assert_eq!((ended, completion.result), (token, Err(Errno::NOTTY)));
        }
    }
}
