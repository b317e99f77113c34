//! Files, opened as stores open them.

use std::{path::PathBuf, process};

use bytes::Bytes;
use codec::AlignedBuf;
use reactor::{Event, FileId, FileOperation, Lock, OpenOptions, Reactor};

use super::{Harness, on_both, pattern};

/// A file of its own for a test, removed at the end.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str) -> TempFile {
        TempFile(std::env::temp_dir().join(format!("reactor-{}-{name}", process::id())))
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const SIZE: u64 = 8 << 20;

/// Opens as stores do, with O_DIRECT where the file system has it.
fn open(reactor: &mut Reactor, file: &TempFile) -> FileId {
    std::fs::File::options().create(true).append(true).open(&file.0).unwrap();
    let options = OpenOptions { direct: true, claim: false, size: Some(SIZE), lock: Lock::Exclusive };
    match reactor.open(&file.0, options) {
        Err(error) if error.source.kind() == std::io::ErrorKind::Unsupported => {
            eprintln!("without O_DIRECT: {error}");
            reactor.open(&file.0, OpenOptions { direct: false, ..options }).unwrap()
        }
        result => result.unwrap(),
    }
}

fn done(harness: &mut Harness, wanted: u64) -> Result<Bytes, (FileOperation, std::io::ErrorKind)> {
    harness.wait(|_, event| match event {
        Event::FileDone { token, result, .. } if *token == wanted => Some(match result {
            Ok(bytes) => Ok(bytes.clone()),
            Err(error) => Err((error.operation, error.source.kind())),
        }),
        _ => None,
    })
}

#[test]
fn a_file_operation_that_ends_wakes_a_reactor_that_sleeps() {
    on_both(|config| {
        let file = TempFile::new("wakes");
        let mut harness = Harness::new(config);
        let id = open(&mut harness.reactor, &file);
        for token in 0..100 {
            harness.reactor.sync(id, token);
            while !harness.events.iter().any(|event| matches!(event, Event::FileDone { .. })) {
                harness.reactor.poll(None, &mut harness.events).unwrap();
            }
            harness.events.clear();
        }
    });
}

#[test]
fn reads_what_was_written_and_zeros_after_a_discard() {
    on_both(|config| {
        let file = TempFile::new("write");
        let mut harness = Harness::new(config);
        let id = open(&mut harness.reactor, &file);
        assert_eq!(harness.reactor.size(id).unwrap(), SIZE);
        let data = pattern(0, 1 << 20);
        let buffers: Vec<Bytes> =
            data.chunks(64 << 10).map(|chunk| AlignedBuf::from_slice(chunk).into()).collect();
        harness.reactor.write(id, 1, 4096, buffers, true);
        assert_eq!(done(&mut harness, 1), Ok(Bytes::new()));
        harness.reactor.write(id, 2, 0, vec![AlignedBuf::from_slice(b"head").into()], false);
        assert_eq!(done(&mut harness, 2), Ok(Bytes::new()));
        harness.reactor.sync(id, 3);
        assert_eq!(done(&mut harness, 3), Ok(Bytes::new()));
        harness.reactor.read(id, 4, 4096, 1 << 20);
        let read = done(&mut harness, 4).unwrap();
        assert!(read == data);
        assert_eq!(read.as_ptr() as usize % 4096, 0);
        harness.reactor.discard(id, 5, 4096, 8192);
        assert_eq!(done(&mut harness, 5), Ok(Bytes::new()));
        harness.reactor.read(id, 6, 0, 16384);
        let read = done(&mut harness, 6).unwrap();
        assert_eq!(read[..4], *b"head");
        assert_eq!(read[4096..12288], [0; 8192]);
        assert_eq!(read[12288..], data[8192..12288]);
    });
}

#[test]
fn many_writes_of_many_buffers_all_end() {
    on_both(|config| {
        let file = TempFile::new("many");
        let mut harness = Harness::new(config);
        let id = open(&mut harness.reactor, &file);
        // More buffers than the kernel takes in one call: the rest is sent again.
        let block: Bytes = AlignedBuf::from_slice(&pattern(3, 4096)).into();
        harness.reactor.write(id, 0, 0, vec![block.clone(); 1500], true);
        done(&mut harness, 0).unwrap();
        for token in 1..700 {
            harness.reactor.write(id, token, (token - 1) * 4096, vec![block.clone()], false);
        }
        (1..700).for_each(|token| assert!(done(&mut harness, token).is_ok()));
        harness.reactor.read(id, 1, 1499 * 4096, 4096);
        assert_eq!(done(&mut harness, 1).unwrap(), block);
    });
}

#[test]
fn errors_name_the_operation() {
    on_both(|config| {
        let file = TempFile::new("errors");
        let mut harness = Harness::new(config.clone());
        let id = open(&mut harness.reactor, &file);
        harness.reactor.read(id, 1, SIZE - 4096, 8192);
        let short = (FileOperation::Read, std::io::ErrorKind::UnexpectedEof);
        assert_eq!(done(&mut harness, 1), Err(short));
        let missing = harness.reactor.open("/nonexistent/file", OpenOptions::default()).unwrap_err();
        assert!(missing.to_string().starts_with("cannot open /nonexistent/file"), "{missing}");
        let options = OpenOptions { lock: Lock::Exclusive, ..OpenOptions::default() };
        let locked = harness.reactor.open(&file.0, options).unwrap_err();
        assert_eq!(
            (locked.operation, locked.source.kind()),
            (FileOperation::Lock, std::io::ErrorKind::WouldBlock)
        );
        drop(harness);
        let [mut one, mut other] = [(); 2].map(|()| Harness::new(config.clone()).reactor);
        let id = one.open(&file.0, options).expect("a reactor that ends gives its locks up");
        one.share_lock(id).unwrap();
        let shared = OpenOptions { lock: Lock::Shared, ..options };
        other.open(&file.0, shared).unwrap();
        drop(one);
        let mut third = Harness::new(config).reactor;
        third.open(&file.0, options).expect_err("each shared lock excludes an exclusive one");
        drop(other);
        third.open(&file.0, options).expect("both are gone");
    });
}

#[test]
fn drop_waits_for_writes_and_keeps_their_memory() {
    on_both(|config| {
        let file = TempFile::new("drop");
        let mut harness = Harness::new(config);
        let id = open(&mut harness.reactor, &file);
        for token in 0..64 {
            let block = AlignedBuf::from_slice(&pattern(token as usize, 65536));
            harness.reactor.write(id, token, token * 65536, vec![block.into()], token % 2 == 0);
            harness.reactor.read(id, 100 + token, token * 65536, 65536);
        }
        harness.reactor.poll(Some(std::time::Duration::ZERO), &mut harness.events).unwrap();
        drop(harness);
    });
}
