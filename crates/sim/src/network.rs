//! A network of byte streams that delays, divides and cuts.
//!
//! A stream keeps its order and loses nothing but its tail: what was under way when it was cut. Bytes
//! between hosts that are divided wait until the division is healed, as TCP's retransmissions would have
//! it; the machines have to give up by themselves.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use msgr::PartialFrame;
use net::{Wire, WireEvent};
use rand::{Rng, seq::IndexedRandom};
use rand::{SeedableRng, rngs::StdRng};
use types::{Instant, UTime};

use crate::schedule::{ProcessId, Schedule, Scheduled};

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndId(u64);

/// What reaches an end, in the order in which it was sent.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// The dialer's request reaches the address.
    Knock(SocketAddr),
    /// True if the connection was taken, false if no process listens.
    Answer(bool),
    Bytes(Bytes),
    Close,
    /// What waited may be taken now.
    Wake,
}

/// A frame that is wanted in one piece.
#[derive(Debug)]
struct Gather {
    have: BytesMut,
    bytes: usize,
}

#[derive(Debug)]
struct End {
    owner: ProcessId,
    /// None until the other side has accepted.
    peer: Option<EndId>,
    peer_process: Option<ProcessId>,
    /// Nothing sent to this end later may arrive earlier.
    last_arrival: Instant,
    is_paused: bool,
    /// Waits for the end of a division.
    held: VecDeque<Arrival>,
    /// Arrived and not taken.
    inbox: VecDeque<Arrival>,
    gather: Option<Gather>,
}

/// A network of byte streams that delays, divides and cuts.
pub(crate) struct Network {
    rng: StdRng,
    next: u64,
    ends: BTreeMap<EndId, End>,
    /// The process that listens at each address, and how many of its parts take connections in turns.
    listeners: BTreeMap<SocketAddr, (ProcessId, u16)>,
    /// Pairs of processes (the smaller id first) that do not hear each other.
    divided: BTreeSet<(ProcessId, ProcessId)>,
    /// Processes whose bytes take longer.
    slow: BTreeSet<ProcessId>,
    /// Processes that receive so many bytes in a second, and when the last ones of what is under way arrive.
    slow_links: BTreeMap<ProcessId, (u64, Instant)>,
}

fn pair(a: ProcessId, b: ProcessId) -> (ProcessId, ProcessId) {
    let (a, b) = (a.whole(), b.whole());
    (a.min(b), a.max(b))
}

impl Network {
    pub(crate) fn new(seed: u64) -> Network {
        Network {
            rng: StdRng::seed_from_u64(seed),
            next: 1,
            ends: BTreeMap::new(),
            listeners: BTreeMap::new(),
            divided: BTreeSet::new(),
            slow: BTreeSet::new(),
            slow_links: BTreeMap::new(),
        }
    }

    pub(crate) fn listen(&mut self, who: ProcessId, at: SocketAddr, parts: u16) {
        self.listeners.insert(at, (who, parts));
    }

    /// The process died: its ends are gone, their peers learn it.
    pub(crate) fn kill(&mut self, who: ProcessId, schedule: &mut Schedule) {
        self.listeners.retain(|_, (listener, _)| listener.whole() != who);
        let ends: Vec<EndId> =
            self.ends.iter().filter(|(_, end)| end.owner.whole() == who).map(|(id, _)| *id).collect();
        for end in ends {
            self.reset_peer(end, schedule);
            self.ends.remove(&end);
        }
    }

    /// Cuts one connection, any.
    pub(crate) fn cut(&mut self, schedule: &mut Schedule) {
        let ends: Vec<EndId> = self.ends.keys().copied().collect();
        let Some(&end) = ends.choose(&mut self.rng) else { return };
        // Both sides learn it, at a time of their own.
        self.reset_peer(end, schedule);
        if let Some(peer) = self.ends.get(&end).and_then(|end| end.peer) {
            self.reset_peer(peer, schedule);
        }
    }

    pub(crate) fn divide(&mut self, a: ProcessId, b: ProcessId) {
        self.divided.insert(pair(a, b));
    }

    pub(crate) fn slow_down(&mut self, who: ProcessId) {
        self.slow.insert(who);
    }

    /// From now on, all bytes that come to a process, from any other, share a link.
    pub(crate) fn limit_link(&mut self, who: ProcessId, bytes_per_second: u64) {
        self.slow_links.insert(who, (bytes_per_second, Instant(0)));
    }

    /// Everything is as it should be.
    pub(crate) fn heal(&mut self, schedule: &mut Schedule) {
        self.divided.clear();
        self.slow.clear();
        let holding = self.ends.iter_mut().filter(|(_, end)| !end.held.is_empty());
        let held: Vec<_> = holding.map(|(id, end)| (*id, std::mem::take(&mut end.held))).collect();
        for (id, arrivals) in held {
            for what in arrivals {
                self.accept(id, what, schedule);
            }
            self.wake(id, schedule);
        }
    }

    fn wake(&self, id: EndId, schedule: &mut Schedule) {
        if let Some(end) = self.ends.get(&id) {
            schedule.after(Duration::ZERO, end.owner, Scheduled::Arrival(id, Arrival::Wake));
        }
    }

    fn delay(&mut self, from: ProcessId, to: Option<ProcessId>) -> Duration {
        let is_slow =
            self.slow.contains(&from.whole()) || to.is_some_and(|to| self.slow.contains(&to.whole()));
        let us = match self.rng.random_range(0..100) {
            0 => self.rng.random_range(0..20_000),
            _ => self.rng.random_range(20..300),
        };
        let more = if is_slow { self.rng.random_range(0..400_000) } else { 0 };
        Duration::from_micros(us + more)
    }

    /// Sends `what` to the end `to`, behind all that is under way there.
    fn deliver(&mut self, to: EndId, what: Arrival, schedule: &mut Schedule) {
        let Some(end) = self.ends.get(&to) else { return };
        let (owner, peer) = (end.owner, end.peer_process);
        let mut at = schedule.now() + self.delay(owner, peer);
        if let (Some((rate, free)), Arrival::Bytes(bytes)) = (self.slow_links.get_mut(&owner.whole()), &what)
        {
            at = at.max(*free) + Duration::from_nanos(bytes.len() as u64 * 1_000_000_000 / *rate);
            *free = at;
        }
        let Some(end) = self.ends.get_mut(&to) else { return };
        let at = at.max(end.last_arrival);
        end.last_arrival = at;
        schedule.at(at, owner, Scheduled::Arrival(to, what));
    }

    /// The connection breaks; what was under way may be lost.
    fn reset_peer(&mut self, end: EndId, schedule: &mut Schedule) {
        let Some(peer) = self.ends.get(&end).and_then(|end| end.peer) else { return };
        if self.rng.random_bool(0.5)
            && let Some(peer) = self.ends.get_mut(&peer)
        {
            // The close overtakes the bytes under way, which are lost.
            peer.last_arrival = schedule.now();
        }
        self.deliver(peer, Arrival::Close, schedule);
    }

    fn close(&mut self, end: EndId, schedule: &mut Schedule) {
        let peer = self.ends.remove(&end).and_then(|end| end.peer);
        if let Some(peer) = peer {
            self.deliver(peer, Arrival::Close, schedule);
        }
    }

    /// Something reaches an end. The owner picks up what came of it with [`Network::take`].
    pub(crate) fn arrive(&mut self, id: EndId, what: Arrival, schedule: &mut Schedule) {
        let Some(end) = self.ends.get(&id) else { return };
        let peer = match &what {
            Arrival::Knock(to) => self.listeners.get(to).map(|(listener, _)| *listener),
            _ => end.peer_process,
        };
        let is_divided = peer.is_some_and(|peer| self.divided.contains(&pair(end.owner, peer)));
        match self.ends.get_mut(&id).filter(|_| is_divided) {
            Some(end) => end.held.push_back(what),
            None => self.accept(id, what, schedule),
        }
    }

    fn accept(&mut self, id: EndId, what: Arrival, schedule: &mut Schedule) {
        match what {
            Arrival::Knock(to) => self.knock(id, to, schedule),
            Arrival::Wake => {}
            what => {
                if let Some(end) = self.ends.get_mut(&id) {
                    end.inbox.push_back(what);
                }
            }
        }
    }

    fn knock(&mut self, dialer: EndId, to: SocketAddr, schedule: &mut Schedule) {
        let listener = self.listeners.get(&to).copied();
        let listener = listener.map(|(who, parts)| match parts {
            1 => who,
            parts => who.part(self.rng.random_range(0..parts)),
        });
        if let Some(listener) = listener {
            let accepted = self.add_end(listener, schedule);
            let Some(end) = self.ends.get_mut(&dialer) else { return };
            end.peer = Some(accepted);
            end.peer_process = Some(listener);
            let from = end.owner;
            if let Some(end) = self.ends.get_mut(&accepted) {
                end.peer = Some(dialer);
                end.peer_process = Some(from);
            }
            schedule.after(Duration::ZERO, listener, Scheduled::Arrival(accepted, Arrival::Answer(true)));
        }
        self.deliver(dialer, Arrival::Answer(listener.is_some()), schedule);
    }

    fn add_end(&mut self, owner: ProcessId, schedule: &Schedule) -> EndId {
        let id = EndId(self.next);
        self.next += 1;
        let end = End {
            owner,
            peer: None,
            peer_process: None,
            last_arrival: schedule.now(),
            is_paused: false,
            held: VecDeque::new(),
            inbox: VecDeque::new(),
            gather: None,
        };
        self.ends.insert(id, end);
        id
    }

    /// The next event of an end for its owner.
    pub(crate) fn take(&mut self, id: EndId) -> Option<WireEvent<EndId>> {
        loop {
            let end = self.ends.get_mut(&id)?;
            if end.is_paused && matches!(end.inbox.front(), Some(Arrival::Bytes(_))) {
                return None;
            }
            match end.inbox.pop_front()? {
                Arrival::Bytes(bytes) => match &mut end.gather {
                    None => return Some(WireEvent::Received(id, bytes, Vec::new())),
                    Some(gather) => {
                        gather.have.extend_from_slice(&bytes);
                        if gather.have.len() >= gather.bytes {
                            let frame = gather.have.split_to(gather.bytes).freeze();
                            let rest = std::mem::take(&mut gather.have).freeze();
                            end.gather = None;
                            if !rest.is_empty() {
                                end.inbox.push_front(Arrival::Bytes(rest));
                            }
                            return Some(WireEvent::Received(id, frame, Vec::new()));
                        }
                    }
                },
                Arrival::Close => {
                    self.ends.remove(&id);
                    return Some(WireEvent::Closed(id));
                }
                Arrival::Answer(true) => return Some(self.opened(id)),
                Arrival::Answer(false) => {
                    self.ends.remove(&id);
                    return Some(WireEvent::Failed(id, true));
                }
                Arrival::Knock(_) | Arrival::Wake => {}
            }
        }
    }

    fn opened(&self, id: EndId) -> WireEvent<EndId> {
        // The accepting side's end is the younger one.
        let dialer = self.ends.get(&id).and_then(|end| end.peer).filter(|peer| *peer < id);
        match dialer {
            Some(dialer) => {
                let port = 20_000 + (dialer.0 % 40_000) as u16;
                WireEvent::Accepted(id, SocketAddr::from(([127, 0, 0, 1], port)))
            }
            None => WireEvent::Connected(id),
        }
    }
}

/// The network as one process sees it. Its work for the process is never inlined, as `bench/instructions` subtracts it.
pub(crate) struct SimWire<'a> {
    pub(crate) who: ProcessId,
    pub(crate) schedule: &'a mut Schedule,
    pub(crate) network: &'a mut Network,
}

impl Wire for SimWire<'_> {
    type Conn = EndId;

    fn now(&self) -> Instant {
        self.schedule.now_of(self.who)
    }

    fn wall(&self) -> UTime {
        self.schedule.wall_of(self.who)
    }

    #[inline(never)]
    fn connect(&mut self, to: SocketAddr) -> Option<EndId> {
        let end = self.network.add_end(self.who, self.schedule);
        self.network.deliver(end, Arrival::Knock(to), self.schedule);
        Some(end)
    }

    #[inline(never)]
    fn send(&mut self, conn: EndId, buffers: Vec<Bytes>) {
        let Some(peer) = self.network.ends.get(&conn).and_then(|end| end.peer) else { return };
        let mut all = Bytes::from(buffers.concat());
        if all.len() > 1 && self.network.rng.random_bool(0.1) {
            let cut = self.network.rng.random_range(1..all.len());
            self.network.deliver(peer, Arrival::Bytes(all.split_to(cut)), self.schedule);
        }
        if !all.is_empty() {
            self.network.deliver(peer, Arrival::Bytes(all), self.schedule);
        }
    }

    fn queued_bytes(&self, _: EndId) -> usize {
        0
    }

    fn expect(&mut self, _: EndId, _: usize) {}

    #[inline(never)]
    fn expect_frame(&mut self, conn: EndId, part: PartialFrame) {
        if let Some(end) = self.network.ends.get_mut(&conn) {
            let have = BytesMut::from(&part.have.concat()[..]);
            end.gather = Some(Gather { have, bytes: part.bytes });
        }
    }

    fn pause_receive(&mut self, conn: EndId, pause: bool) {
        if let Some(end) = self.network.ends.get_mut(&conn) {
            end.is_paused = pause;
            self.network.wake(conn, self.schedule);
        }
    }

    fn close(&mut self, conn: EndId) {
        self.network.close(conn, self.schedule);
    }

    fn close_when_sent(&mut self, conn: EndId) {
        self.network.close(conn, self.schedule);
    }

    fn is_gone(&self, conn: EndId) -> bool {
        !self.network.ends.contains_key(&conn)
    }
}
