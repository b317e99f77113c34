//! A server: primary of what clients ask of it, replica of what its peers pass on.

use std::{
    collections::{HashMap, VecDeque},
    fs,
    io::{self, BufRead, Write},
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::FileExt,
    path::Path,
};

use bytes::Bytes;
use codec::AlignedBuf;
use reactor::{Config, ConnId, Event, FileId, OpenOptions, Reactor};

use crate::frames::{BLOCK, Frame, FrameKind, Inboxes};

/// At the file's start, used round and round.
const JOURNAL_BYTES: u64 = 64 << 20;
/// Behind the journal: where blocks are read and put in place.
const DATA_BYTES: u64 = 128 << 20;
/// Bytes of a journal's record beside its blocks, for each of them.
const RECORD_BYTES: usize = 512;
/// Of the journal's write; those of reads are slots of `reads`.
const JOURNAL: u64 = u64::MAX;
/// Of writes in place, which nobody waits for.
const IN_PLACE: u64 = u64::MAX - 1;

/// A file whose every block is written.
pub fn make_file(path: &Path) -> io::Result<()> {
    const PIECE: usize = 4 << 20;
    let file = fs::File::create(path)?;
    for offset in (0..JOURNAL_BYTES + DATA_BYTES).step_by(PIECE) {
        file.write_all_at(&[1; PIECE], offset)?;
    }
    file.sync_all()
}

/// What waits for a block to be durable.
enum Waiter {
    /// A client's write, by its number here.
    Own(u64),
    /// A primary, with the write's number there.
    Primary(ConnId, u64),
}

/// A client's write that is under way.
struct ClientWrite {
    client: ConnId,
    number: u64,
    /// Replicas, this server among them, that have not made it durable.
    missing: usize,
}

struct Server {
    reactor: Reactor,
    file: FileId,
    peers: Vec<ConnId>,
    inboxes: Inboxes,
    writes: HashMap<u64, ClientWrite>,
    next_write: u64,
    /// Blocks for the next write of the journal, and whether they are put in place as well.
    waiting: Vec<(Waiter, Bytes, bool)>,
    /// Those that the write under way holds.
    committing: Vec<(Waiter, Bytes, bool)>,
    journal_at: u64,
    reads: VecDeque<(u64, ConnId, u64)>,
    next_read: u64,
    /// Where the next block is read or written; far from the last one.
    place: u64,
    memory: Bytes,
}

/// Serves until it is killed: says its port on standard output, and reads its peers' from standard input.
pub fn serve(path: &Path) -> io::Result<()> {
    let mut reactor = Reactor::new(Config::default())?;
    let listener = reactor.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let port = reactor.local_addr(listener).ok_or(io::ErrorKind::AddrNotAvailable)?.port();
    println!("{port}");
    io::stdout().flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let mut peers = Vec::new();
    for port in line.split_whitespace() {
        let port: u16 = port.parse().map_err(io::Error::other)?;
        peers.push(reactor.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?);
    }
    let file = reactor
        .open(path, OpenOptions { direct: true, ..OpenOptions::default() })
        .map_err(io::Error::other)?;
    let mut server = Server {
        reactor,
        file,
        peers,
        inboxes: Inboxes::default(),
        writes: HashMap::new(),
        next_write: 0,
        waiting: Vec::new(),
        committing: Vec::new(),
        journal_at: 0,
        reads: VecDeque::new(),
        next_read: 0,
        place: 0,
        memory: Bytes::from(AlignedBuf::zeroed(BLOCK)),
    };
    let mut events = Vec::new();
    loop {
        server.reactor.poll(None, &mut events)?;
        for event in events.drain(..) {
            server.handle(event)?;
        }
        server.commit();
    }
}

impl Server {
    fn handle(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Received { conn, bytes, more } => {
                for frame in self.inboxes.receive(conn, &bytes, &more) {
                    self.handle_frame(conn, frame);
                }
            }
            Event::FileDone { token, result, .. } => {
                let bytes = result.map_err(io::Error::other)?;
                match token {
                    JOURNAL => self.committed(),
                    IN_PLACE => {}
                    read => {
                        let slot = self.reads.iter().position(|(slot, ..)| *slot == read);
                        if let Some((_, client, number)) = slot.and_then(|slot| self.reads.remove(slot)) {
                            self.reactor.send_vectored(client, [FrameKind::Data.frame(number), bytes]);
                        }
                    }
                }
            }
            Event::Connected { result, .. } => {
                result?;
            }
            // Clients come and go; of a peer that is gone the measuring process hears.
            _ => {}
        }
        Ok(())
    }

    fn handle_frame(&mut self, conn: ConnId, frame: Frame) {
        let Frame { kind, number, block } = frame;
        match kind {
            FrameKind::Write => self.write(conn, number, block, FrameKind::Replicate),
            FrameKind::WriteInPlace => self.write(conn, number, block, FrameKind::ReplicateInPlace),
            FrameKind::Read => {
                let place = self.next_place();
                self.reactor.read(self.file, self.next_read, place, BLOCK);
                self.reads.push_back((self.next_read, conn, number));
                self.next_read += 1;
            }
            FrameKind::ReadFromMemory => {
                let answer = [FrameKind::Data.frame(number), self.memory.clone()];
                self.reactor.send_vectored(conn, answer);
            }
            FrameKind::Replicate | FrameKind::ReplicateInPlace => {
                let in_place = kind == FrameKind::ReplicateInPlace;
                self.waiting.push((Waiter::Primary(conn, number), block, in_place));
            }
            FrameKind::Replicated => self.durable_somewhere(number),
            FrameKind::Written | FrameKind::Data => {}
        }
    }

    fn write(&mut self, client: ConnId, number: u64, block: Bytes, replicate: FrameKind) {
        let own = self.next_write;
        self.next_write += 1;
        for peer in &self.peers {
            self.reactor.send_vectored(*peer, [replicate.frame(own), block.clone()]);
        }
        self.writes.insert(own, ClientWrite { client, number, missing: self.peers.len() + 1 });
        self.waiting.push((Waiter::Own(own), block, replicate == FrameKind::ReplicateInPlace));
    }

    /// Writes what waits to the journal, if it is not being written.
    fn commit(&mut self) {
        if !self.committing.is_empty() || self.waiting.is_empty() {
            return;
        }
        std::mem::swap(&mut self.waiting, &mut self.committing);
        let count = self.committing.len();
        let records = (count * RECORD_BYTES).next_multiple_of(BLOCK);
        let head = vec![1; records];
        let blocks = self.committing.iter().map(|(_, block, _)| &block[..]);
        let record =
            Bytes::from(AlignedBuf::of_parts(&[&head[..]].into_iter().chain(blocks).collect::<Vec<_>>()));
        let bytes = record.len() as u64;
        if self.journal_at + bytes > JOURNAL_BYTES {
            self.journal_at = 0;
        }
        self.reactor.write(self.file, JOURNAL, self.journal_at, vec![record.clone()], true);
        self.journal_at += bytes;
        for index in (0..count).filter(|index| self.committing[*index].2).collect::<Vec<_>>() {
            let at = records + index * BLOCK;
            let place = self.next_place();
            self.reactor.write(self.file, IN_PLACE, place, vec![record.slice(at..at + BLOCK)], false);
        }
    }

    fn committed(&mut self) {
        for (waiter, ..) in std::mem::take(&mut self.committing) {
            match waiter {
                Waiter::Own(number) => self.durable_somewhere(number),
                Waiter::Primary(primary, number) => {
                    self.reactor.send(primary, FrameKind::Replicated.frame(number));
                }
            }
        }
    }

    fn durable_somewhere(&mut self, number: u64) {
        let Some(write) = self.writes.get_mut(&number) else { return };
        write.missing -= 1;
        if write.missing == 0
            && let Some(write) = self.writes.remove(&number)
        {
            self.reactor.send(write.client, FrameKind::Written.frame(write.number));
        }
    }

    fn next_place(&mut self) -> u64 {
        /// Odd, so that every block has its turn.
        const STRIDE: u64 = 7919;
        self.place = (self.place + STRIDE) % (DATA_BYTES / BLOCK as u64);
        JOURNAL_BYTES + self.place * BLOCK as u64
    }
}
