//! The behaviour that both backends share, tried over real sockets, files and threads on loopback.
//! Each test runs on each backend; where io_uring is forbidden its half is skipped, loudly.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod files;
mod loops;
mod network;
mod slow_peers;

use std::{io::Write, time::Duration};

use bytes::Bytes;
use reactor::{BackendKind, Config, ConnId, Event, ListenerId, Reactor, clock};

/// Longer than anything here takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `test` on both backends.
fn on_both(test: impl Fn(Config)) {
    for backend in [BackendKind::Epoll, BackendKind::IoUring] {
        let config = Config { backend, ..Config::default() };
        match Reactor::new(config.clone()) {
            Ok(reactor) => drop(reactor),
            Err(error) => {
                assert_eq!(backend, BackendKind::IoUring, "epoll is everywhere: {error}");
                // Past the harness, which keeps to itself what a test prints that passes.
                let why = format!("SKIPPED: {backend:?}, which is not available here: {error}\n");
                std::io::stderr().write_all(why.as_bytes()).unwrap();
                continue;
            }
        }
        test(config);
    }
}

/// A reactor and the events that nobody has looked at.
struct Harness {
    reactor: Reactor,
    events: Vec<Event>,
}

impl Harness {
    fn new(config: Config) -> Harness {
        Harness { reactor: Reactor::new(config).unwrap(), events: Vec::new() }
    }

    /// Polls until an event makes `pick` give a value; other events are kept for later.
    fn wait<T>(&mut self, mut pick: impl FnMut(&mut Reactor, &Event) -> Option<T>) -> T {
        let deadline = clock::now() + PATIENCE.as_nanos() as u64;
        let mut seen = 0;
        loop {
            while seen < self.events.len() {
                if let Some(value) = pick(&mut self.reactor, &self.events[seen]) {
                    self.events.remove(seen);
                    return value;
                }
                seen += 1;
            }
            assert!(clock::now() < deadline, "waited too long; pending: {:?}", self.events);
            self.reactor.poll(Some(Duration::from_secs(1)), &mut self.events).unwrap();
        }
    }

    /// Lets `span` pass and returns all events of it.
    fn run_for(&mut self, span: Duration) -> &[Event] {
        let until = clock::now() + span.as_nanos() as u64;
        while clock::now() < until {
            self.reactor.poll(Some(Duration::from_millis(5)), &mut self.events).unwrap();
        }
        &self.events
    }

    /// Polls until `is_so` holds of the reactor.
    fn until(&mut self, is_so: impl Fn(&Reactor) -> bool) {
        let deadline = clock::now() + PATIENCE.as_nanos() as u64;
        while !is_so(&self.reactor) {
            assert!(clock::now() < deadline, "waited too long; pending: {:?}", self.events);
            self.reactor.poll(Some(Duration::from_millis(5)), &mut self.events).unwrap();
        }
    }

    /// Polls until no connection is left: nothing leaks.
    fn until_no_connection(&mut self) {
        self.until(|reactor| reactor.connection_count() == 0);
    }

    fn listen(&mut self) -> ListenerId {
        self.reactor.listen("127.0.0.1:0".parse().unwrap()).unwrap()
    }

    /// Two ends of a connection through this reactor: (connecting, accepted).
    fn pair(&mut self) -> (ConnId, ConnId) {
        let listener = self.listen();
        let address = self.reactor.local_addr(listener).unwrap();
        let client = self.reactor.connect(address).unwrap();
        let server = self.wait(|_, event| match event {
            Event::Accepted { conn, local, .. } if *local == address => Some(*conn),
            _ => None,
        });
        self.wait(|_, event| match event {
            Event::Connected { conn, result } if *conn == client => Some(result.as_ref().unwrap().port()),
            _ => None,
        });
        self.reactor.close_listener(listener);
        (client, server)
    }

    /// Two ends of a connection through which something has come; the accepted end then takes no more.
    fn paused_pair(&mut self) -> (ConnId, ConnId) {
        let (client, server) = self.pair();
        self.reactor.send(client, Bytes::from(pattern(0, 100)));
        self.receive(server, 100);
        self.reactor.pause_receive(server);
        (client, server)
    }

    /// Receives exactly `count` bytes of `conn`, in however many events.
    fn receive(&mut self, conn: ConnId, count: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < count {
            let bytes = self.receive_some(conn);
            all.extend_from_slice(&bytes);
        }
        assert_eq!(all.len(), count);
        all
    }

    fn receive_some(&mut self, wanted: ConnId) -> Bytes {
        self.wait(|_, event| match event {
            Event::Received { conn, bytes, more } if *conn == wanted => Some(joined(bytes, more)),
            Event::Closed { conn, reason } if *conn == wanted => panic!("closed: {reason:?}"),
            _ => None,
        })
    }

    /// Waits for the end of `wanted` and returns its reason as text.
    fn closed(&mut self, wanted: ConnId) -> String {
        self.wait(|_, event| match event {
            Event::Closed { conn, reason } if *conn == wanted => Some(format!("{reason:?}")),
            _ => None,
        })
    }
}

/// What an event brought, in one piece.
fn joined(bytes: &Bytes, more: &[Bytes]) -> Bytes {
    if more.is_empty() { bytes.clone() } else { [std::slice::from_ref(bytes), more].concat().concat().into() }
}

/// `count` bytes that differ from place to place, starting at `start` of an endless sequence.
fn pattern(start: usize, count: usize) -> Vec<u8> {
    (start..start + count).map(|at| ((at as u32).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}
