//! All connections of a process and the sessions on them.

use std::{collections::BTreeMap, time::Duration};

use auth::{Authority, RotatingSecrets, TicketKeeper};
use bytes::Bytes;
use messages::{MOSDOp, Message, RawMessage};
use msgr::{CloseReason, Config, ConnEvent, Connection, Ctx, Established, InSessions, Output, Role};
use rand::{SeedableRng, rngs::StdRng};
use types::{EntityAddrVec, EntityType, OsdId};

use self::{
    large_frames::{LargeFrame, LargeFrames},
    osd_sessions::OsdPeer,
    pressure::{Closing, QUEUED_BYTES_HIGH, Queued},
};
use crate::{Wire, WireEvent, handshakes::Handshakes};

mod large_frames;
mod mon_auth;
mod mon_reach;
mod osd_sessions;
mod pressure;
mod tick;

/// A handshake that takes longer than this is given up, and its connection closed.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two attempts to reach an OSD or a monitor.
const RETRY: Duration = Duration::from_millis(200);
/// Time between two requests for new tickets: a request may be lost with its connection, or the new ticket may be
/// refused, too.
const TICKETS_RETRY: Duration = Duration::from_secs(10);
/// Time between two warnings that a peer was not let in: strangers must not be able to fill the log.
const REFUSALS_LOGGED: Duration = Duration::from_secs(60);
/// Time between two warnings that no monitor is reached.
const UNREACHED_LOGGED: Duration = Duration::from_secs(60);
/// Time between two requests to the monitor for a sign of life.
const MON_KEEPALIVE: Duration = Duration::from_secs(10);
/// A monitor that has said nothing for so long since it was asked is given up, and dialed again
/// (`mon_client_ping_timeout`): if its host is gone, the connection does not close by itself.
const MON_SILENCE_MAX: Duration = Duration::from_secs(30);

/// Longest front of a client's message but for `MOSDOp`, whose memory is counted before it is received: what is typed
/// at a terminal, and maps by name. Some of that takes ten times the memory when it is read.
const CLIENT_FRONT_BYTES_MAX: usize = 1 << 20;

/// What came of an event, for the machine.
#[derive(Debug)]
pub enum NetEvent {
    /// A peer dialed us and finished the handshake.
    Opened(u64, Box<Established>),
    /// A connection that was opened is gone.
    Closed(u64),
    /// A message of such a connection.
    Received(u64, u64, Message),
    /// The monitor session is there.
    MonOpened,
    /// It is gone.
    MonClosed,
    /// The monitor says, under this tid.
    FromMon(u64, Message),
    /// The monitor gave new tickets; the keeper has them.
    Tickets,
    /// The monitor says which secrets open tickets for this service.
    Secrets(RotatingSecrets),
    /// An OSD's answer on a connection that we dialed, outside of sessions: if the connection is lost, so is the
    /// answer.
    FromOsd(OsdId, Message),
    /// No process listens at the OSD's address.
    OsdRefused(OsdId),
    /// The OSD takes nothing, or has forgotten what it was sent, and a message to it had to be dropped; or it sends one
    /// that does not decode or is not known, and all that it sends later waits behind that. Reported again and again
    /// until the OSD is forgotten.
    OsdStuck(OsdId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Inbound,
    Mon,
    Osd(OsdId),
    /// Dialed for a machine that keeps its own sessions.
    Outbound,
}

struct Link {
    id: u64,
    conn: Connection,
    purpose: Purpose,
    opened_ns: u64,
    /// True for a peer that is no OSD, once it has authenticated: what it sends may have to wait.
    is_client: bool,
    /// The OSD that dialed us, once it has authenticated.
    dialer: Option<OsdId>,
    /// It asks for more than the network takes: nothing is received from it meanwhile.
    is_choked: bool,
    /// The machine takes nothing more from this client.
    is_held: bool,
    /// What waits to be sent to a client, as far as known.
    queued_bytes: usize,
    /// When a client was last found to have taken some of that, or to have nothing to take.
    taken_at_ns: u64,
    /// A large frame that a client has begun to send.
    large: Option<LargeFrame>,
}

impl Link {
    /// True while nothing is received from it. `is_holding` says that no client is received from.
    fn waits(&self, is_holding: bool) -> bool {
        let is_waiting = matches!(self.large, Some(LargeFrame::Waiting(_)));
        self.is_held || self.is_choked || is_waiting || self.is_client && is_holding
    }
}

struct MonLink<C> {
    hosts: Vec<EntityAddrVec>,
    next: usize,
    link: Option<C>,
    retry_at_ns: u64,
    keepalive_at_ns: u64,
    /// When it was first asked for a sign of life after the last one; none if it has not been asked since.
    asked_at_ns: Option<u64>,
    /// Why the connection will come to nothing, where more is known than that it is gone.
    failure: Option<&'static str>,
    /// There since no monitor is reached: no sooner is the next failure a warning.
    warning_at_ns: Option<u64>,
    /// A monitor does not let this peer in, and none has done so since.
    is_refusing: bool,
}

/// All connections of a daemon.
pub struct Net<C> {
    config: Config,
    rng: StdRng,
    links: BTreeMap<C, Link>,
    by_id: BTreeMap<u64, C>,
    handshakes: Handshakes<C>,
    next_id: u64,
    sessions: InSessions,
    /// OSDs that sent what does not decode or is not known, with the sessions in which it waits.
    undecodable: BTreeMap<OsdId, u64>,
    osds: BTreeMap<OsdId, OsdPeer<C>>,
    mon: Option<MonLink<C>>,
    is_holding_clients: bool,
    part: usize,
    queued: Queued,
    closing: Closing<C>,
    large: LargeFrames<C>,
    /// What comes of connections that were closed while the machine was sending: it is told with the next tick.
    closed: Vec<NetEvent>,
    /// Memory for what a connection says.
    events: Vec<ConnEvent>,
    /// The daemon's own key and tickets.
    pub keeper: Option<TicketKeeper>,
    /// The tickets are of no use any more, however young they are.
    wants_tickets: bool,
    /// No sooner are tickets asked for again.
    tickets_at_ns: u64,
    /// No sooner is the next refusal a warning.
    refusal_at_ns: u64,
}

impl<C: Copy + Ord + std::fmt::Debug> Net<C> {
    /// No connections yet. `keeper` has the own key and tickets, where there is one; `seed` seeds what is
    /// drawn at random.
    pub fn new(config: Config, keeper: Option<TicketKeeper>, seed: [u8; 32]) -> Net<C> {
        Net {
            config,
            rng: StdRng::from_seed(seed),
            links: BTreeMap::new(),
            by_id: BTreeMap::new(),
            handshakes: Handshakes::new(),
            next_id: 1,
            sessions: InSessions::default(),
            undecodable: BTreeMap::new(),
            osds: BTreeMap::new(),
            mon: None,
            is_holding_clients: false,
            part: 0,
            queued: Queued::default(),
            closing: Closing::default(),
            large: LargeFrames::new(),
            closed: Vec::new(),
            events: Vec::new(),
            keeper,
            wants_tickets: false,
            tickets_at_ns: 0,
            refusal_at_ns: 0,
        }
    }

    /// Asks the monitor for new tickets with the next tick: services refuse the current ones.
    pub fn want_tickets(&mut self) {
        self.wants_tickets = true;
    }

    /// True, once, when services refuse the tickets and this part of the daemon keeps no session with a monitor: the
    /// one that does is to ask for new ones.
    pub fn pass_ticket_wish_on(&mut self) -> bool {
        self.mon.is_none() && std::mem::take(&mut self.wants_tickets)
    }

    /// Where the daemon listens, once it is known.
    pub fn set_addrs(&mut self, addrs: EntityAddrVec) {
        self.config.addrs = addrs;
    }

    /// For one of several parts of a daemon, which have connections of their own: the part's index, the
    /// addresses besides the daemon's at which others reach a part, and the number of its first connection.
    ///
    /// OSDs list an address for each part. Part `n` dials the n-th address that another OSD lists (modulo their
    /// number), so that a session leads from one part to the same other one for as long as both live, which keeps
    /// messages in order.
    pub fn set_part(&mut self, part: usize, addrs: EntityAddrVec, first_id: u64) {
        self.part = part;
        self.config.more_addrs = addrs;
        self.next_id = first_id;
    }

    /// Keeps a session with one of the monitors from now on.
    pub fn keep_mon_session(&mut self, hosts: Vec<EntityAddrVec>) {
        self.mon = Some(MonLink {
            hosts,
            next: 0,
            link: None,
            retry_at_ns: 0,
            keepalive_at_ns: 0,
            asked_at_ns: None,
            failure: None,
            warning_at_ns: None,
            is_refusing: false,
        });
    }

    /// The random number generator, for callers that need one, too.
    pub fn rng(&mut self) -> &mut StdRng {
        &mut self.rng
    }

    /// True for a connection of this process that these sessions use, for one with several of them.
    pub fn owns(&self, conn: C) -> bool {
        self.links.contains_key(&conn)
    }

    /// Handles an event of the wire.
    pub fn on_event(
        &mut self,
        event: WireEvent<C>,
        wire: &mut impl Wire<Conn = C>,
        authority: &mut dyn Authority,
        out: &mut Vec<NetEvent>,
    ) {
        match event {
            WireEvent::Accepted(conn, peer) => {
                let id = self.add_link(conn, Purpose::Inbound, Role::Acceptor { peer }, wire);
                if let Some(oldest) = self.handshakes.begin(id, conn) {
                    tracing::debug!("too many handshakes at a time; closing the oldest");
                    wire.close(oldest);
                    self.drop_link(oldest, wire, out);
                }
                self.start(conn, wire, out);
            }
            WireEvent::Connected(conn) => self.start(conn, wire, out),
            WireEvent::Failed(conn, is_refused) => {
                match self.links.get(&conn).map(|link| link.purpose) {
                    Some(Purpose::Osd(osd)) if is_refused => out.push(NetEvent::OsdRefused(osd)),
                    Some(Purpose::Mon) if is_refused => self.note_mon_failure(conn, "nobody listens there"),
                    Some(Purpose::Mon) => self.note_mon_failure(conn, "it cannot be connected to"),
                    _ => {}
                }
                self.drop_link(conn, wire, out);
            }
            WireEvent::Received(conn, bytes, more) => {
                self.on_received(conn, std::iter::once(bytes).chain(more), wire, authority, out);
            }
            WireEvent::Drained(conn) => self.release(conn, wire),
            WireEvent::Closed(conn) => self.drop_link(conn, wire, out),
        }
    }

    fn start(&mut self, conn: C, wire: &mut impl Wire<Conn = C>, out: &mut Vec<NetEvent>) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        let mut output = Output::default();
        link.conn.start(&mut output);
        self.finish(conn, Ok(()), output, wire, out);
    }

    fn on_received(
        &mut self,
        conn: C,
        bytes: impl Iterator<Item = Bytes>,
        wire: &mut impl Wire<Conn = C>,
        authority: &mut dyn Authority,
        out: &mut Vec<NetEvent>,
    ) {
        let Some(mut link) = self.links.get_mut(&conn) else { return };
        let is_large = link.large.is_some();
        if is_large {
            self.go_on_with_frame(conn, wire);
            let Some(same) = self.links.get_mut(&conn) else { return };
            link = same;
        }
        if let (Purpose::Mon, Some(mon)) = (link.purpose, &mut self.mon) {
            mon.asked_at_ns = None;
        }
        let mut output = Output { events: std::mem::take(&mut self.events), ..Output::default() };
        let mut ctx = Ctx {
            wall: wire.wall(),
            rng: &mut self.rng,
            authority,
            keeper: self.keeper.as_mut(),
            sessions: &mut self.sessions,
        };
        let result = link.conn.receive(bytes, &mut ctx, &mut output);
        let (part, wanted) = (link.conn.take_partial(), link.conn.bytes_wanted());
        // It may say that the peer is a client.
        self.finish(conn, result, output, wire, out);
        match part {
            Some(part) => self.begin_frame(conn, part, wire),
            None => wire.expect(conn, wanted),
        }
        if is_large {
            self.admit_frames(wire);
        }
    }

    fn add_link(&mut self, conn: C, purpose: Purpose, role: Role, wire: &impl Wire<Conn = C>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let opened_ns = wire.now().0;
        let link = Link {
            id,
            conn: Connection::new(self.config.clone(), role),
            purpose,
            opened_ns,
            is_client: false,
            dialer: None,
            is_choked: false,
            is_held: false,
            queued_bytes: 0,
            taken_at_ns: opened_ns,
            large: None,
        };
        self.links.insert(conn, link);
        id
    }

    fn finish(
        &mut self,
        conn: C,
        result: Result<(), CloseReason>,
        mut output: Output,
        wire: &mut impl Wire<Conn = C>,
        out: &mut Vec<NetEvent>,
    ) {
        if !output.bytes.is_empty() {
            wire.send(conn, output.bytes);
        }
        let mut events = output.events.drain(..);
        while let Some(event) = events.next() {
            if !self.on_conn_event(conn, event, wire, out) {
                let later = events.as_slice().iter().filter(|event| matches!(event, ConnEvent::Message(_)));
                self.refuse_undecodable(conn, 1 + later.count() as u64, wire, out);
            }
        }
        drop(events);
        self.events = output.events;
        if output.is_ack_due
            && let Some(link) = self.links.get_mut(&conn)
        {
            let mut answer = Output::default();
            link.conn.acknowledge(&mut answer);
            wire.send(conn, answer.bytes);
        }
        if let Err(reason) = result {
            if let Some(link) = self.links.get(&conn) {
                let (purpose, peer) = (link.purpose, link.conn.socket());
                let (is_refusal, now) = (matches!(reason, CloseReason::Auth(_)), wire.now().0);
                if is_refusal && now >= self.refusal_at_ns {
                    self.refusal_at_ns = now + REFUSALS_LOGGED.as_nanos() as u64;
                    tracing::warn!(%reason, ?purpose, %peer, "not let in; others within a minute are logged as debug");
                } else {
                    tracing::debug!(%reason, ?purpose, %peer, "connection closed");
                }
                if is_refusal {
                    self.note_mon_failure(conn, "it does not let this daemon in");
                }
                if is_refusal && purpose == Purpose::Mon {
                    self.on_mon_refusal();
                }
                // The secret that a ticket is sealed with may be gone before the ticket expires.
                self.wants_tickets |= is_refusal && matches!(purpose, Purpose::Osd(_) | Purpose::Outbound);
            }
            let is_told = matches!(reason, CloseReason::Auth(_) | CloseReason::Features(_));
            if is_told {
                // What was said last may tell the peer why.
                wire.close_when_sent(conn);
            } else {
                // Answers that wait are counted no more: a peer must not be able to leave them behind.
                wire.close(conn);
            }
            let link = self.links.get(&conn).filter(|link| link.purpose == Purpose::Inbound);
            let stranger = link.filter(|_| is_told).map(|link| link.id);
            self.drop_link(conn, wire, out);
            // The peer may take its time, and must not have more of such connections for that.
            stranger.into_iter().for_each(|id| self.handshakes.refuse(id, conn));
        } else {
            let queued = wire.queued_bytes(conn);
            if queued > QUEUED_BYTES_HIGH {
                self.relieve(conn, queued, wire);
            }
        }
    }

    /// False for a message that cannot be taken.
    fn on_conn_event(
        &mut self,
        conn: C,
        event: ConnEvent,
        wire: &mut impl Wire<Conn = C>,
        out: &mut Vec<NetEvent>,
    ) -> bool {
        let Some(link) = self.links.get_mut(&conn) else { return true };
        let (id, purpose) = (link.id, link.purpose);
        match (event, purpose) {
            (ConnEvent::Established(end), Purpose::Inbound | Purpose::Outbound) => {
                link.is_client = end.entity_type != EntityType::OSD && purpose == Purpose::Inbound;
                link.dialer = osd_of(&end).filter(|_| purpose == Purpose::Inbound);
                if let (Some(osd), Some(cookie)) = (link.dialer, link.conn.session())
                    && self.undecodable.get(&osd).is_some_and(|stuck| *stuck != cookie)
                {
                    // The OSD, or this part of it, has begun anew. If another part of it is stuck still, it dials
                    // again and is noted again.
                    self.undecodable.remove(&osd);
                }
                if link.is_client && self.is_holding_clients {
                    wire.pause_receive(conn, true);
                }
                self.handshakes.end(id);
                self.by_id.insert(id, conn);
                out.push(NetEvent::Opened(id, end));
            }
            (ConnEvent::Established(_), Purpose::Mon) => {
                self.on_mon_reached();
                // With new tickets.
                self.wants_tickets = false;
                out.push(NetEvent::MonOpened);
            }
            (ConnEvent::Established(end), Purpose::Osd(osd)) => self.resume_osd(osd, conn, &end, wire),
            (ConnEvent::Message(raw), purpose) => {
                return self.on_message(conn, (id, purpose), raw, wire, out);
            }
            (ConnEvent::TooLong(raw), _) => return self.refuse_too_long(conn, raw, wire),
            (ConnEvent::Acked(seq), Purpose::Osd(osd)) => {
                if let Some(peer) = self.osds.get_mut(&osd) {
                    peer.session.acked(seq);
                }
            }
            (ConnEvent::SessionReset, Purpose::Osd(osd)) => self.on_session_reset(osd),
            (ConnEvent::Acked(_) | ConnEvent::SessionReset, _) => {}
        }
        true
    }

    /// False for a message that cannot be taken.
    fn on_message(
        &mut self,
        conn: C,
        (id, purpose): (u64, Purpose),
        raw: RawMessage,
        wire: &mut impl Wire<Conn = C>,
        out: &mut Vec<NetEvent>,
    ) -> bool {
        let (kind, tid) = (raw.kind, raw.tid);
        let decoded = if self.links.get(&conn).is_some_and(|link| link.is_client) {
            if kind != MOSDOp::KIND && raw.front.len() > CLIENT_FRONT_BYTES_MAX {
                let bytes = raw.front.len();
                tracing::warn!(kind, bytes, "a client's message is too long; closing its connection");
                return false;
            }
            Message::decode_from_client(raw)
        } else {
            Message::decode(raw)
        };
        match (decoded, purpose) {
            (Ok(Message::MAuthReply(reply)), Purpose::Mon) => self.on_auth_reply(conn, *reply, wire, out),
            // As in any message, there may be something in it that later ones rely on.
            (Ok(Message::Unknown(raw)), Purpose::Inbound) if self.is_in_session(conn) => {
                let (version, compat) = (raw.version, raw.compat);
                tracing::warn!(
                    kind,
                    version,
                    compat,
                    "an OSD's message is not known; closing its connection"
                );
                return false;
            }
            (Ok(message), Purpose::Mon) => out.push(NetEvent::FromMon(tid, message)),
            (Ok(message), Purpose::Osd(osd)) => out.push(NetEvent::FromOsd(osd, message)),
            (Ok(message), Purpose::Inbound | Purpose::Outbound) => {
                out.push(NetEvent::Received(id, tid, message))
            }
            (Err(error), _) => {
                tracing::warn!(kind, %error, "a message does not decode; closing its connection");
                return false;
            }
        }
        true
    }

    /// What was counted of the connection is counted no more.
    fn remove_link(&mut self, conn: C) -> Option<Link> {
        let link = self.links.remove(&conn)?;
        self.queued.forget(link.queued_bytes);
        if let Some(frame) = &link.large {
            self.large.end(&conn, frame);
        }
        Some(link)
    }

    fn drop_link(&mut self, conn: C, wire: &impl Wire<Conn = C>, out: &mut Vec<NetEvent>) {
        let Some(link) = self.remove_link(conn) else { return };
        let retry_at_ns = wire.now().0 + RETRY.as_nanos() as u64;
        match link.purpose {
            Purpose::Inbound => {
                self.handshakes.end(link.id);
                if self.by_id.remove(&link.id).is_some() {
                    out.push(NetEvent::Closed(link.id));
                }
            }
            Purpose::Outbound => {
                self.by_id.remove(&link.id);
                out.push(NetEvent::Closed(link.id));
            }
            Purpose::Mon => {
                if link.conn.is_ready() {
                    out.push(NetEvent::MonClosed);
                } else {
                    self.on_mon_unreached(wire.now());
                }
                if let Some(mon) = &mut self.mon {
                    mon.link = None;
                    mon.retry_at_ns = retry_at_ns;
                    mon.next += 1;
                }
            }
            Purpose::Osd(osd) => {
                if let Some(peer) = self.osds.get_mut(&osd).filter(|p| p.link == Some(conn)) {
                    peer.link = None;
                    peer.retry_at_ns = retry_at_ns;
                }
            }
        }
    }

    /// Answers or tells a peer that dialed us.
    pub fn send(&mut self, id: u64, tid: u64, message: &Message, wire: &mut impl Wire<Conn = C>) {
        let Some(conn) = self.by_id.get(&id).copied() else { return };
        let Some(link) = self.links.get_mut(&conn).filter(|l| l.conn.is_ready()) else { return };
        let mut output = Output::default();
        link.conn.send(&message.encode(tid), None, &mut output);
        wire.send(conn, output.bytes);
        let queued = wire.queued_bytes(conn);
        if link.is_client {
            self.queued.note(&mut link.queued_bytes, queued);
        }
        if queued > QUEUED_BYTES_HIGH || self.queued.is_high() {
            self.relieve(conn, queued, wire);
        }
    }

    /// Tells the monitor in session; dropped without one.
    pub fn send_mon(&mut self, tid: u64, message: &Message, wire: &mut impl Wire<Conn = C>) {
        let Some(conn) = self.mon.as_ref().and_then(|m| m.link) else { return };
        let Some(link) = self.links.get_mut(&conn).filter(|l| l.conn.is_ready()) else { return };
        let mut output = Output::default();
        link.conn.send(&message.encode(tid), None, &mut output);
        wire.send(conn, output.bytes);
    }

    /// Dials an OSD without a session that outlives the connection. Returns the connection's id, which the events that
    /// follow carry; none if there is no address to dial.
    pub fn dial(&mut self, addrs: &EntityAddrVec, wire: &mut impl Wire<Conn = C>) -> Option<u64> {
        let target = *addrs.msgr2_addr()?;
        let conn = wire.connect(target.socket?)?;
        let role = Role::Dialer { target, service: EntityType::OSD, resume: None };
        let id = self.add_link(conn, Purpose::Outbound, role, wire);
        self.by_id.insert(id, conn);
        Some(id)
    }

    /// Closes all connections.
    pub fn close_all(self, wire: &mut impl Wire<Conn = C>) {
        self.links.into_keys().for_each(|conn| wire.close(conn));
    }

    /// Closes a connection that a peer dialed; what waits to be sent is sent first, if it is little, and not much waits
    /// in others that were closed.
    pub fn close(&mut self, id: u64, wire: &mut impl Wire<Conn = C>) {
        if let Some(conn) = self.by_id.remove(&id) {
            self.remove_link(conn);
            if self.closing.admit(conn, wire.queued_bytes(conn)) {
                wire.close_when_sent(conn);
            } else {
                wire.close(conn);
            }
        }
    }
}

/// The OSD at the other end, if it is one.
fn osd_of(end: &Established) -> Option<OsdId> {
    let name = &end.identity.name;
    let is_osd = end.entity_type == EntityType::OSD && name.kind == EntityType::OSD;
    is_osd.then(|| name.id.parse().ok().map(OsdId)).flatten()
}

#[cfg(test)]
mod tests;
