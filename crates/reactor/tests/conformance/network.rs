//! Connections.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    time::Duration,
};

use bytes::Bytes;
use rand::{Rng, SeedableRng, rngs::StdRng};
use reactor::{Config, ConnId, Event, Reactor, clock, spawn};

use super::{Harness, PATIENCE, joined, on_both, pattern};

const ECHO_BYTES: usize = 100 << 20;

#[test]
fn echoes_100_mb_in_chunks_of_any_size() {
    on_both(|config| {
        let waker = reactor::Waker::new().unwrap();
        let server_config = Config { waker: Some(waker.clone()), ..config.clone() };
        let (tell, told) = std::sync::mpsc::channel();
        let server = spawn("echo", None, move || {
            let mut harness = Harness::new(server_config);
            let listener = harness.listen();
            tell.send(harness.reactor.local_addr(listener).unwrap()).unwrap();
            serve_echo(&mut harness);
        })
        .unwrap();
        let address = told.recv().unwrap();
        let mut harness = Harness::new(config);
        let conn = harness.reactor.connect(address).unwrap();
        exchange(&mut harness, conn);
        waker.wake();
        server.join().unwrap();
    });
}

fn serve_echo(harness: &mut Harness) {
    loop {
        harness.reactor.poll(Some(PATIENCE), &mut harness.events).unwrap();
        for event in harness.events.drain(..) {
            match event {
                Event::Received { conn, bytes, more } => {
                    harness.reactor.send_vectored(conn, std::iter::once(bytes).chain(more));
                }
                Event::Woken => return,
                _ => {}
            }
        }
    }
}

/// Sends the pattern in random chunks with bounded queues, checks that it comes back: as it comes, or not before it is
/// so much, or as one buffer.
fn exchange(harness: &mut Harness, conn: ConnId) {
    let mut rng = StdRng::seed_from_u64(7);
    let data = Bytes::from(pattern(0, ECHO_BYTES));
    let (mut sent, mut received, mut expected, mut is_buffer) = (0, 0, 0, false);
    while received < ECHO_BYTES {
        while sent < ECHO_BYTES && sent - received < 16 << 20 {
            let chunk = 1usize << rng.random_range(0..22);
            let end = (sent + rng.random_range(1..=chunk)).min(ECHO_BYTES);
            harness.reactor.send(conn, data.slice(sent..end));
            sent = end;
        }
        harness.reactor.poll(Some(PATIENCE), &mut harness.events).unwrap();
        for event in harness.events.drain(..) {
            let Event::Received { bytes, more, .. } = event else { continue };
            let bytes = joined(&bytes, &more);
            assert!(bytes.len() >= expected, "{} instead of {expected}", bytes.len());
            assert!(!is_buffer || bytes.len() == expected && more.is_empty(), "more than the buffer");
            assert_eq!(bytes, data.slice(received..received + bytes.len()));
            received += bytes.len();
            let room = (sent - received).min(1 << rng.random_range(1..23));
            expected = if room > 0 && rng.random() { rng.random_range(1..=room) } else { 0 };
            is_buffer = expected > 0 && rng.random();
            if is_buffer {
                harness.reactor.expect_aligned(conn, &[], expected, 0);
            } else {
                harness.reactor.expect(conn, expected);
            }
        }
    }
    assert_eq!(harness.reactor.queued_bytes(conn), 0);
}

#[test]
fn nothing_comes_before_as_much_is_there_as_is_expected() {
    on_both(|config| {
        for expected in [1, 5_000, 100_000] {
            let mut harness = Harness::new(config.clone());
            let (client, server) = harness.pair();
            let data = Bytes::from(pattern(0, expected + 3));
            harness.reactor.expect(server, expected);
            harness.reactor.send(client, data.slice(..expected - 1));
            let early = harness.run_for(Duration::from_millis(5));
            assert!(early.iter().all(|event| !matches!(event, Event::Received { .. })));
            harness.reactor.send(client, data.slice(expected - 1..));
            let first = harness.receive_some(server);
            assert!(first.len() >= expected);
            assert_eq!(first, data[..first.len()]);
            assert_eq!(harness.receive(server, data.len() - first.len()), data[first.len()..]);
        }
    });
}

#[test]
fn a_large_frame_comes_whole_and_aligned_where_asked() {
    on_both(|config| {
        let mut harness = Harness::new(config);
        let (near, far) = harness.pair();
        let data = pattern(0, 400_000);
        harness.reactor.send(near, Bytes::from(data[..1000].to_vec()));
        let first = Bytes::from(harness.receive(far, 1000));
        let (bytes, align_at) = (300_000, 777);
        harness.reactor.expect_aligned(far, &[first.slice(..5), first.slice(5..)], bytes, align_at);
        harness.reactor.send(near, Bytes::from(data[1000..].to_vec()));
        let whole = harness.receive_some(far);
        assert_eq!(whole, data[..bytes]);
        assert!((whole.as_ptr() as usize + align_at).is_multiple_of(4096));
        // What follows is taken for the head of another one, of which there is no more than that.
        let head = harness.receive_some(far);
        assert!(head.len() <= 4096);
        let left = data.len() - bytes - head.len();
        harness.reactor.expect_aligned(far, &[], left, 0);
        let rest = harness.receive_some(far);
        assert_eq!([&head[..], &rest[..]].concat(), data[bytes..]);
        assert!((rest.as_ptr() as usize).is_multiple_of(4096));
    });
}

#[test]
fn serves_many_connections() {
    on_both(|config| {
        const COUNT: usize = 200;
        let mut harness = Harness::new(config);
        let listener = harness.listen();
        let address = harness.reactor.local_addr(listener).unwrap();
        let mut clients = Vec::new();
        for number in 0..COUNT {
            let conn = harness.reactor.connect(address).unwrap();
            harness.reactor.send(conn, Bytes::from(pattern(number, 5_000)));
            clients.push(conn);
        }
        let mut echoed = vec![Vec::new(); COUNT];
        while echoed.iter().any(|bytes| bytes.len() < 5_000) {
            harness.reactor.poll(Some(PATIENCE), &mut harness.events).unwrap();
            for event in harness.events.drain(..) {
                let Event::Received { conn, bytes, more } = event else { continue };
                let bytes = joined(&bytes, &more);
                match clients.iter().position(|client| *client == conn) {
                    Some(number) => echoed[number].extend_from_slice(&bytes),
                    None => harness.reactor.send(conn, bytes),
                }
            }
        }
        for (number, bytes) in echoed.iter().enumerate() {
            assert_eq!(*bytes, pattern(number, 5_000));
        }
        clients.iter().for_each(|conn| harness.reactor.close(*conn));
        let mut left = COUNT;
        while left > 0 {
            harness.wait(|_, event| matches!(event, Event::Closed { .. }).then_some(()));
            left -= 1;
        }
        harness.until_no_connection();
    });
}

#[test]
fn a_half_closed_peer_gets_its_answer() {
    on_both(|config| {
        let mut harness = Harness::new(config);
        let listener = harness.listen();
        let address = harness.reactor.local_addr(listener).unwrap();
        let peer = spawn("peer", None, move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&pattern(0, 3 << 20)).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            answer
        })
        .unwrap();
        let reason = loop {
            harness.reactor.poll(Some(PATIENCE), &mut harness.events).unwrap();
            let mut end = None;
            for event in harness.events.drain(..) {
                match event {
                    Event::Received { conn, bytes, more } => {
                        harness.reactor.send_vectored(conn, std::iter::once(bytes).chain(more));
                    }
                    Event::Closed { reason, .. } => end = Some(format!("{reason:?}")),
                    _ => {}
                }
            }
            if let Some(reason) = end {
                break reason;
            }
        };
        assert_eq!(reason, "Eof");
        harness.until(|_| peer.is_finished());
        assert!(peer.join().unwrap() == pattern(0, 3 << 20));
    });
}

#[test]
fn a_refused_connect_is_an_event() {
    on_both(|config| {
        let mut harness = Harness::new(config);
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let wanted = harness.reactor.connect(closed).unwrap();
        harness.reactor.send(wanted, Bytes::from_static(b"lost"));
        let kind = harness.wait(|_, event| match event {
            Event::Connected { conn, result } if *conn == wanted => Some(result.as_ref().unwrap_err().kind()),
            _ => None,
        });
        assert_eq!(kind, std::io::ErrorKind::ConnectionRefused);
        assert_eq!(harness.reactor.queued_bytes(wanted), 0);
        harness.until_no_connection();
        assert!(harness.run_for(Duration::from_millis(10)).is_empty());
    });
}

#[test]
fn close_with_requests_in_flight_is_silent_and_frees_all() {
    on_both(|config| {
        let mut harness = Harness::new(config);
        let (client, server) = harness.pair();
        harness.reactor.pause_receive(server);
        harness.reactor.send(client, Bytes::from(vec![1; 64 << 20]));
        harness.run_for(Duration::from_millis(20));
        assert!(harness.reactor.queued_bytes(client) > 0, "the peer does not read");
        harness.reactor.close(client);
        harness.reactor.close(client);
        harness.reactor.send(client, Bytes::from_static(b"stale"));
        harness.reactor.resume_receive(server);
        harness.closed(server);
        harness.until_no_connection();
        harness.run_for(Duration::from_millis(20));
        let quiet = harness.events.iter().all(|event| !matches!(event, Event::Closed { .. }));
        assert!(quiet, "{:?}", harness.events.len());
    });
}

#[test]
fn close_when_sent_sends_all_first() {
    on_both(|config| {
        let mut harness = Harness::new(config);
        let (client, server) = harness.pair();
        harness.reactor.send(client, Bytes::from(pattern(0, 5 << 20)));
        harness.reactor.close_when_sent(client);
        // Bytes that the closing side never reads must not reset the connection.
        harness.reactor.send(server, Bytes::from(vec![0; 100_000]));
        assert!(harness.receive(server, 5 << 20) == pattern(0, 5 << 20));
        assert_eq!(harness.closed(server), "Eof");
        assert_eq!(harness.closed(client), "Flushed");
        harness.until_no_connection();
    });
}

#[test]
fn a_connection_that_was_closed_and_waits_for_its_peer_can_be_ended() {
    on_both(|config| {
        let mut harness = Harness::new(config);
        let (client, _server) = harness.paused_pair();
        harness.reactor.close_when_sent(client);
        assert_eq!(harness.closed(client), "Flushed");
        assert!(!harness.reactor.is_gone(client));
        harness.reactor.close(client);
        // Few turns, which take less time than the peer has by itself.
        let mut turns = 0..100;
        while turns.next().is_some() && !harness.reactor.is_gone(client) {
            harness.reactor.poll(Some(Duration::ZERO), &mut harness.events).unwrap();
        }
        assert!(harness.reactor.is_gone(client));
    });
}

#[test]
fn who_never_reads_cannot_keep_a_connection_that_is_to_be_closed() {
    on_both(|config| {
        let mut harness = Harness::new(Config { close_patience: Duration::from_millis(50), ..config });
        let (client, server) = harness.paused_pair();
        harness.reactor.send(client, Bytes::from(vec![1; 64 << 20]));
        harness.run_for(Duration::from_millis(20));
        assert!(harness.reactor.queued_bytes(client) > 0, "the peer does not read");
        harness.reactor.close_when_sent(client);
        // To ask again gives no more time: with it, this would never end.
        let deadline = clock::now() + PATIENCE.as_nanos() as u64;
        while !harness
            .run_for(Duration::from_millis(5))
            .iter()
            .any(|event| matches!(event, Event::Closed { .. }))
        {
            assert!(clock::now() < deadline, "it waits for as long as it is asked to close");
            harness.reactor.close_when_sent(client);
        }
        assert_eq!(harness.closed(client), "Error(Kind(TimedOut))");
        assert_eq!(harness.reactor.queued_bytes(client), 0);
        harness.reactor.close(server);
        harness.until_no_connection();
    });
}

#[test]
fn a_paused_connection_delivers_nothing_and_holds_the_peer_back() {
    on_both(|config| {
        let mut harness = Harness::new(config);
        let (client, server) = harness.paused_pair();
        harness.reactor.send(client, Bytes::from(pattern(0, 40 << 20)));
        let events = harness.run_for(Duration::from_millis(50));
        assert!(events.iter().all(|event| !matches!(event, Event::Received { .. })));
        assert!(harness.reactor.queued_bytes(client) > Reactor::SEND_HIGH_BYTES);
        harness.reactor.resume_receive(server);
        assert!(harness.receive(server, 40 << 20) == pattern(0, 40 << 20));
        harness.wait(|_, event| matches!(event, Event::Drained { conn } if *conn == client).then_some(()));
    });
}

#[test]
fn small_sends_that_meet_a_full_socket_arrive_in_order() {
    const SEND_BYTES: usize = 48_000;
    // 72 MB: more than the sockets' buffers take where they were tuned.
    const SENDS: usize = 1_500;
    on_both(|config| {
        let mut harness = Harness::new(config);
        let (client, server) = harness.paused_pair();
        // Each one by itself, as a turn with one answer does, and the last ones at once.
        for at in 0..SENDS {
            harness.reactor.send(client, Bytes::from(pattern(at * SEND_BYTES, SEND_BYTES)));
            if at < SENDS - 10 {
                harness.reactor.poll(Some(Duration::from_millis(1)), &mut harness.events).unwrap();
            }
        }
        assert!(harness.reactor.queued_bytes(client) > 0);
        harness.reactor.resume_receive(server);
        assert!(harness.receive(server, SENDS * SEND_BYTES) == pattern(0, SENDS * SEND_BYTES));
        harness.until(|reactor| reactor.queued_bytes(client) == 0);
    });
}

#[test]
fn drop_with_everything_in_flight() {
    on_both(|config| {
        let mut harness = Harness::new(config);
        let (client, server) = harness.pair();
        harness.reactor.pause_receive(server);
        harness.reactor.send(client, Bytes::from(vec![1; 32 << 20]));
        harness.run_for(Duration::from_millis(10));
        let (_, other) = harness.pair();
        harness.reactor.expect_aligned(other, &[], 1 << 20, 0);
        harness.listen();
        harness.run_for(Duration::from_millis(10));
        drop(harness);
    });
}
