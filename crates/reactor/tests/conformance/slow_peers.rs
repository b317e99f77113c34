//! Peers that send or take little at a time, or nothing.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use reactor::{Config, ConnId, Event, spawn};
use rustix::{
    net::{AddressFamily, SocketType, sockopt},
    thread::gettid,
};

use super::{Harness, on_both, pattern};

/// More parts than one request of io_uring is woken for before a thread of the kernel takes it over (128).
const PARTS: usize = 300;

/// Runs `test` in a thread of its own, whose ring's kernel threads have its number in their names.
fn alone(config: &Config, test: impl FnOnce(Harness) + Send + 'static) {
    let config = config.clone();
    spawn("alone", None, move || test(Harness::new(config))).unwrap().join().unwrap();
}

/// The kernel's threads for requests of this thread's ring.
fn kernel_threads() -> usize {
    let name = format!("iou-wrk-{}", gettid().as_raw_pid());
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // A thread may end meanwhile.
    let names = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|found| found.trim() == name).count()
}

/// A connection that a peer made, which is the other end.
fn dialed(harness: &mut Harness, connect: impl FnOnce(SocketAddr) -> TcpStream) -> (ConnId, TcpStream) {
    let listener = harness.listen();
    let peer = connect(harness.reactor.local_addr(listener).unwrap());
    let conn = harness.wait(|_, event| match event {
        Event::Accepted { conn, .. } => Some(*conn),
        _ => None,
    });
    (conn, peer)
}

#[test]
fn a_large_frame_that_comes_in_many_parts_takes_no_thread_of_the_kernel() {
    on_both(|config| {
        alone(&config, |mut harness| {
            let (conn, mut peer) = dialed(&mut harness, |to| TcpStream::connect(to).unwrap());
            peer.set_nodelay(true).unwrap();
            let data = pattern(0, 1 << 20);
            harness.reactor.expect_aligned(conn, &[], data.len(), 0);
            for part in data[..PARTS].chunks(1) {
                peer.write_all(part).unwrap();
                harness.reactor.poll(Some(Duration::from_millis(1)), &mut harness.events).unwrap();
            }
            assert_eq!(kernel_threads(), 0);
            let sender = {
                let data = data.clone();
                spawn("peer", None, move || peer.write_all(&data[PARTS..])).unwrap()
            };
            assert!(harness.receive_some(conn) == data);
            sender.join().unwrap().unwrap();
        });
    });
}

/// A socket with a small receive buffer.
fn connect_narrow(to: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&socket, 8192).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    socket.into()
}

#[test]
fn a_long_answer_that_is_taken_in_many_parts_takes_no_thread_of_the_kernel() {
    on_both(|config| {
        alone(&config, |mut harness| {
            let (conn, mut peer) = dialed(&mut harness, connect_narrow);
            let data = pattern(0, 8 << 20);
            harness.reactor.send(conn, Bytes::from(data.clone()));
            harness.run_for(Duration::from_millis(5));
            let mut taken = vec![0; data.len()];
            for part in taken.chunks_mut(4096) {
                peer.read_exact(part).unwrap();
                harness.reactor.poll(Some(Duration::ZERO), &mut harness.events).unwrap();
                assert_eq!(kernel_threads(), 0);
            }
            assert!(taken == data);
        });
    });
}

/// Much memory, and a sign that it is in use.
struct Whole {
    bytes: Vec<u8>,
    _in_use: Arc<()>,
}

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[test]
fn what_waits_for_a_peer_keeps_no_memory_of_which_it_is_a_small_part() {
    on_both(|config| {
        let mut harness = Harness::new(config);
        let (conn, mut peer) = dialed(&mut harness, connect_narrow);
        let in_use = Arc::new(());
        let whole = Bytes::from_owner(Whole { bytes: pattern(0, 1 << 20), _in_use: Arc::clone(&in_use) });
        let mut sent = 0;
        let mut waiting = 0;
        // Once something waits, so does all that follows.
        while waiting < 10 {
            harness.reactor.send_vectored(conn, [whole.slice(..3000), whole.slice(3000..60_000)]);
            sent += 60_000;
            harness.reactor.poll(Some(Duration::from_millis(1)), &mut harness.events).unwrap();
            waiting += usize::from(harness.reactor.queued_bytes(conn) > 0);
        }
        drop(whole);
        assert_eq!(Arc::strong_count(&in_use), 1);
        let reader = spawn("peer", None, move || {
            let mut taken = vec![0; sent];
            peer.read_exact(&mut taken).map(|()| taken)
        })
        .unwrap();
        harness.until(|_| reader.is_finished());
        let taken = reader.join().unwrap().unwrap();
        assert!(taken.chunks(60_000).all(|part| part == pattern(0, 60_000)));
    });
}
