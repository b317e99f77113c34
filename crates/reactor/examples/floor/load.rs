//! The load: a client with a connection to each server and so many requests in flight.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use bytes::Bytes;
use codec::AlignedBuf;
use reactor::{Config, ConnId, Event, Reactor, clock};

use crate::frames::{BLOCK, FrameKind, Inboxes};

/// What is asked for.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Three durable copies.
    Write,
    /// Three durable copies, each also written to its place.
    WriteInPlace,
    /// One from the disk.
    Read,
    /// One that is in memory.
    ReadFromMemory,
}

impl Kind {
    /// As in the tables' rows.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Write => "w4k",
            Kind::WriteInPlace => "w4k_in_place",
            Kind::Read => "r4k",
            Kind::ReadFromMemory => "r4k_memory",
        }
    }

    fn frame(self) -> FrameKind {
        match self {
            Kind::Write => FrameKind::Write,
            Kind::WriteInPlace => FrameKind::WriteInPlace,
            Kind::Read => FrameKind::Read,
            Kind::ReadFromMemory => FrameKind::ReadFromMemory,
        }
    }
}

/// What was measured.
pub struct Round {
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Of all requests, in nanoseconds, the least first.
    pub latencies: Vec<u64>,
}

struct Load {
    reactor: Reactor,
    conns: Vec<ConnId>,
    kind: Kind,
    block: Bytes,
    /// When each request in flight was sent.
    in_flight: HashMap<u64, u64>,
    next: u64,
}

/// Keeps `depth` requests in flight for so long.
pub fn run(ports: &[u16], kind: Kind, depth: usize, duration: Duration) -> io::Result<Round> {
    let mut reactor = Reactor::new(Config::default())?;
    let addresses = ports.iter().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, *port)));
    let conns = addresses.map(|address| reactor.connect(address)).collect::<io::Result<Vec<_>>>()?;
    let block = Bytes::from(AlignedBuf::zeroed(BLOCK));
    let mut load = Load { reactor, conns, kind, block, in_flight: HashMap::new(), next: 0 };
    let (mut inboxes, mut events, mut latencies) = (Inboxes::default(), Vec::new(), Vec::new());
    let start = clock::now();
    let end = start + duration.as_nanos() as u64;
    (0..depth).for_each(|_| load.send());
    while !load.in_flight.is_empty() {
        load.reactor.poll(None, &mut events)?;
        for event in events.drain(..) {
            match event {
                Event::Received { conn, bytes, more } => {
                    let now = clock::now();
                    for frame in inboxes.receive(conn, &bytes, &more) {
                        latencies.extend(load.in_flight.remove(&frame.number).map(|sent| now - sent));
                        if now < end {
                            load.send();
                        }
                    }
                }
                Event::Closed { reason, .. } => return Err(io::Error::other(format!("{reason:?}"))),
                Event::Connected { result, .. } => drop(result?),
                _ => {}
            }
        }
    }
    let elapsed = Duration::from_nanos(clock::now() - start);
    latencies.sort_unstable();
    Ok(Round { elapsed, latencies })
}

impl Load {
    /// Sends the next request; the servers take turns.
    fn send(&mut self) {
        let number = self.next;
        self.next += 1;
        let conn = self.conns[number as usize % self.conns.len()];
        self.in_flight.insert(number, clock::now());
        self.reactor.send(conn, self.kind.frame().frame(number));
        if matches!(self.kind, Kind::Write | Kind::WriteInPlace) {
            self.reactor.send(conn, self.block.clone());
        }
    }
}
