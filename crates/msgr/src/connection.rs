//! One connection as a machine: bytes and messages in, bytes and messages out.

use std::net::SocketAddr;

use auth::{Authority, ClientAuth, CryptoKey, Identity, ServerAuth, TicketKeeper};
use bytes::Bytes;
use codec::{Decode, Encode, Features, Payload};
use messages::RawMessage;
use rand::RngCore;
use thiserror::Error;
use types::{EntityAddr, EntityAddrVec, EntityType, UTime};

use crate::{
    control::{HEADER_FLAGS, Header, Keepalive},
    frame::{Frame, FrameError, FrameReader, FrameWriter, PartialFrame, Tag},
    lossless::{Arrival, InSessions, Resume},
};

/// What a daemon says of itself on all its connections.
#[derive(Clone, Debug)]
pub struct Config {
    /// What it is.
    pub entity_type: EntityType,
    /// Where it listens, as others know it.
    pub addrs: EntityAddrVec,
    /// Where else it listens, for peers that learned of these addresses in other ways.
    pub more_addrs: EntityAddrVec,
    /// OSD id or monitor rank. A client says the global id that it authenticated as instead.
    pub gid: i64,
    /// `CEPH_AUTH_*` methods accepted, and used when dialing, best first.
    pub methods: Vec<u32>,
    /// `CEPH_CON_MODE_*` allowed, and asked for when dialing, best first.
    pub modes: Vec<u32>,
}

/// Features announced: what a Pacific daemon announces.
pub(crate) const FEATURES_SUPPORTED: u64 = Features::PACIFIC.0;
/// Features demanded: `MSG_ADDR2`. All clients since Nautilus have everything else that we rely on.
pub(crate) const FEATURES_REQUIRED: u64 = Features::MSG_ADDR2;

/// So many messages of a lossless session are acknowledged at once; fewer wait for [`Connection::acknowledge`]. An
/// acknowledgement wakes the peer only to free messages that it keeps in case it has to send them again.
const ACK_MESSAGES: u32 = 32;
/// So many bytes of messages are acknowledged at once: the peer keeps them until then.
const ACK_BYTES: usize = 1 << 20;

/// Why a connection ends.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CloseReason {
    /// The peer's bytes are no frame.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// The peer does not speak msgr2.
    #[error("not a msgr2 peer")]
    Banner,
    /// A frame came that does not belong here, or makes no sense.
    #[error("unexpected or malformed frame, tag {0}")]
    Protocol(u8),
    /// The peer is not what it claims to be, or takes us for an impostor.
    #[error("authentication failed: {0}")]
    Auth(#[from] auth::AuthError),
    /// The signature over the handshake is wrong: the handshake was changed on the way.
    #[error("the handshake's signature is wrong")]
    Signature,
    /// The peer lacks features, or demands some.
    #[error("features are missing: {0:#x}")]
    Features(u64),
    /// The peer dialed another address than ours.
    #[error("the peer meant another address")]
    WrongAddress,
}

/// What is known of the peer after the handshake.
#[derive(Clone, Debug)]
pub struct Established {
    /// As authentication proved; for a dialer, what the peer says it is.
    pub identity: Identity,
    /// What kind of entity it is.
    pub entity_type: EntityType,
    /// Its address: for a client with its nonce, as blocklists name it. It is the one that the peer says.
    pub addr: EntityAddr,
    /// The peer's end of the transport: for capabilities that hold for some networks only.
    pub socket: SocketAddr,
    /// Features of both.
    pub features: u64,
    /// For the dialer of a lossless session: what the acceptor has received, and its cookie.
    pub resumed: Option<(u64, u64)>,
}

/// What the owner of a connection learns.
#[derive(Debug)]
pub enum ConnEvent {
    /// The handshake is over.
    Established(Box<Established>),
    /// A message.
    Message(RawMessage),
    /// A message from whoever has dialed, without its payload, which is longer than what is taken.
    TooLong(RawMessage),
    /// The peer has everything up to this number.
    Acked(u64),
    /// The acceptor of a lossless session does not know it: begin a new one.
    SessionReset,
}

/// What a call of a connection brings.
#[derive(Debug, Default)]
pub struct Output {
    /// To send, in order.
    pub bytes: Vec<Bytes>,
    /// To learn, in order.
    pub events: Vec<ConnEvent>,
    /// Much was received that is not acknowledged: [`Connection::acknowledge`] is to be called once the owner of the
    /// connection has taken the events.
    pub is_ack_due: bool,
}

/// What a connection may use during a call.
pub struct Ctx<'a> {
    /// Wall clock.
    pub wall: UTime,
    /// Challenges and nonces.
    pub rng: &'a mut dyn RngCore,
    /// Of the own daemon; asked when others dial.
    pub authority: &'a mut dyn Authority,
    /// The own tickets; used when dialing with cephx.
    pub keeper: Option<&'a mut TicketKeeper>,
    /// Receiving sides of lossless sessions.
    pub sessions: &'a mut InSessions,
}

/// Which end this is.
#[derive(Clone, Debug)]
pub enum Role {
    /// The peer dialed us.
    Acceptor {
        /// The dialer's socket.
        peer: SocketAddr,
    },
    /// We dial.
    Dialer {
        /// The peer's address, as the map says.
        target: EntityAddr,
        /// What it is.
        service: EntityType,
        /// Set for a session that outlives connections.
        resume: Option<Resume>,
    },
}

/// Where a handshake is. Names say what is awaited.
#[derive(Debug)]
pub(crate) enum State {
    Banner,
    Hello,
    /// Acceptor: a request. Dialer: the answer to it.
    Auth(AuthState),
    Signature(Box<Identity>),
    Ident(Box<Identity>),
    Ready,
}

#[derive(Debug)]
pub(crate) enum AuthState {
    AcceptorStart,
    Acceptor(ServerAuth),
    Dialer(Option<ClientAuth>),
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    pub(crate) config: Config,
    pub(crate) role: Role,
    pub(crate) state: State,
    pub(crate) reader: FrameReader,
    pub(crate) writer: FrameWriter,
    /// All that was received and sent until AUTH_DONE: what signatures cover.
    pub(crate) received: Vec<u8>,
    pub(crate) sent: Vec<u8>,
    pub(crate) session_key: Option<CryptoKey>,
    pub(crate) mode: u32,
    pub(crate) peer_type: EntityType,
    /// Our own address, as the peer sees it; what a dialer calls itself.
    pub(crate) seen_as: EntityAddr,
    /// Of a lossless session.
    pub(crate) cookie: Option<u64>,
    /// The peer has been told that a session is not known.
    pub(crate) was_reset: bool,
    pub(crate) in_seq: u64,
    pub(crate) out_seq: u64,
    /// Messages received and not acknowledged, and their bytes.
    unacked_count: u32,
    unacked_bytes: usize,
    /// Memory for the header of a message to be sent.
    header: Vec<u8>,
}

impl Connection {
    /// A connection whose transport is there. [`Connection::start`] is next.
    pub fn new(config: Config, role: Role) -> Connection {
        let peer_type = match &role {
            Role::Dialer { service, .. } => *service,
            Role::Acceptor { .. } => EntityType::default(),
        };
        Connection {
            config,
            role,
            state: State::Banner,
            reader: FrameReader::default(),
            writer: FrameWriter::default(),
            received: Vec::new(),
            sent: Vec::new(),
            session_key: None,
            mode: auth::con_mode::CRC,
            peer_type,
            seen_as: EntityAddr::default(),
            cookie: None,
            was_reset: false,
            in_seq: 0,
            out_seq: 0,
            unacked_count: 0,
            unacked_bytes: 0,
            header: Vec::new(),
        }
    }

    /// Sends the banner.
    pub fn start(&mut self, out: &mut Output) {
        self.sent.extend_from_slice(crate::control::BANNER);
        out.bytes.push(Bytes::from_static(crate::control::BANNER));
    }

    /// True when messages flow.
    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready)
    }

    /// The peer's end of the transport; what a dialer dials.
    pub fn socket(&self) -> SocketAddr {
        match &self.role {
            Role::Acceptor { peer } => *peer,
            Role::Dialer { target, .. } => {
                target.socket.unwrap_or((std::net::Ipv4Addr::UNSPECIFIED, 0).into())
            }
        }
    }

    /// Bytes that the frame under way still needs, 0 when unknown.
    pub fn bytes_wanted(&self) -> usize {
        self.reader.bytes_wanted()
    }

    /// Takes back what was received of a large frame: the next call of [`Connection::receive`] brings all
    /// of it in one piece. `None` if the frame under way is small or unknown.
    pub fn take_partial(&mut self) -> Option<PartialFrame> {
        self.reader.take_partial()
    }

    /// Gives that back: the next call of [`Connection::receive`] brings what follows.
    pub fn put_back(&mut self, part: PartialFrame) {
        part.have.into_iter().for_each(|piece| self.reader.push(piece));
    }

    /// Takes received bytes. On an error the connection is to be closed; what is in `out` may still be sent.
    pub fn receive(
        &mut self,
        pieces: impl IntoIterator<Item = Bytes>,
        ctx: &mut Ctx<'_>,
        out: &mut Output,
    ) -> Result<(), CloseReason> {
        pieces.into_iter().for_each(|piece| self.reader.push(piece));
        if matches!(self.state, State::Banner) && !self.take_banner(out)? {
            self.reader.wait();
            return Ok(());
        }
        loop {
            let is_open = matches!(self.state, State::Hello | State::Auth(_));
            let transcript = is_open.then_some(&mut self.received);
            let Some(frame) = self.reader.next(transcript)? else { break };
            if self.is_ready() {
                self.on_frame(frame, ctx, out)?;
            } else {
                self.on_handshake(frame, ctx, out)?;
            }
        }
        self.reader.wait();
        out.is_ack_due = self.unacked_count >= ACK_MESSAGES || self.unacked_bytes >= ACK_BYTES;
        Ok(())
    }

    /// The cookie of the lossless session in which the peer sends, if it is one.
    pub fn session(&self) -> Option<u64> {
        self.cookie.filter(|_| matches!(self.role, Role::Acceptor { .. }))
    }

    /// The owner could not take the last `count` messages: if they are of a lossless session, whose cookie is returned,
    /// they count as not received, and the peer sends them again over its next connection. This one is to be closed.
    pub fn take_back(&mut self, count: u64, sessions: &mut InSessions) -> Option<u64> {
        let cookie = self.session()?;
        sessions.take_back(cookie, count);
        Some(cookie)
    }

    /// Acknowledges what was received of a lossless session and is not acknowledged yet; to be called
    /// several times a second.
    pub fn acknowledge(&mut self, out: &mut Output) {
        if self.unacked_count > 0 {
            (self.unacked_count, self.unacked_bytes) = (0, 0);
            self.control(Tag::ACK, &self.in_seq.to_le_bytes(), out);
        }
    }

    /// Sends a message; only when [`Connection::is_ready`]. `seq` is the number of a lossless session's
    /// message, none lets the connection count.
    pub fn send(&mut self, raw: &RawMessage, seq: Option<u64>, out: &mut Output) {
        self.out_seq = seq.unwrap_or(self.out_seq + 1);
        let header = Header {
            seq: self.out_seq,
            tid: raw.tid,
            kind: raw.kind,
            priority: raw.priority,
            version: raw.version,
            ack_seq: self.in_seq,
            flags: HEADER_FLAGS,
            compat: raw.compat,
            ..Header::default()
        };
        self.header.clear();
        header.encode(&mut self.header, Features::default());
        let all;
        let data = match (raw.data.is_empty(), raw.data_more.is_empty()) {
            (true, _) => &raw.data_more[..],
            (false, true) => std::slice::from_ref(&raw.data),
            (false, false) => {
                all = [std::slice::from_ref(&raw.data), &raw.data_more[..]].concat();
                &all[..]
            }
        };
        let front = (&raw.front, raw.front_crc);
        self.writer.frame(Tag::MESSAGE, &self.header, front, data, &mut out.bytes);
    }

    /// Asks the peer for a sign of life.
    pub fn keepalive(&mut self, wall: UTime, out: &mut Output) {
        self.control(Tag::KEEPALIVE2, &Keepalive { stamp: wall }.to_bytes(Features::default()), out);
    }

    pub(crate) fn control(&mut self, tag: Tag, payload: &[u8], out: &mut Output) {
        let first = out.bytes.len();
        self.writer.control(tag, payload, &mut out.bytes);
        if matches!(self.state, State::Banner | State::Hello | State::Auth(_)) {
            out.bytes[first..].iter().for_each(|piece| self.sent.extend_from_slice(piece));
        }
    }

    fn on_frame(&mut self, frame: Frame, ctx: &mut Ctx<'_>, out: &mut Output) -> Result<(), CloseReason> {
        let Frame { segments: [first, front, middle, data], data_sums, tag, is_cut } = frame;
        let malformed = CloseReason::Protocol(tag.0);
        match tag {
            Tag::MESSAGE => {
                let header = Header::from_prefix(first).map_err(|_| malformed)?;
                if is_cut && matches!(self.role, Role::Dialer { .. }) {
                    return Err(CloseReason::Protocol(tag.0));
                }
                // Only the dialer keeps messages until they are acknowledged.
                if header.ack_seq > 0 && matches!(self.role, Role::Dialer { .. }) {
                    out.events.push(ConnEvent::Acked(header.ack_seq));
                }
                match self.accept_seq(header.seq, front.len() + data.len(), ctx) {
                    Arrival::New => {}
                    Arrival::Again => return Ok(()),
                    Arrival::Gap => return Err(CloseReason::Protocol(tag.0)),
                }
                let message = RawMessage {
                    kind: header.kind,
                    version: header.version,
                    compat: header.compat,
                    priority: header.priority,
                    tid: header.tid,
                    front,
                    front_crc: None,
                    middle,
                    data: Payload::with_sums(data, data_sums),
                    data_more: Vec::new(),
                };
                out.events.push(match is_cut {
                    true => ConnEvent::TooLong(message),
                    false => ConnEvent::Message(message),
                });
            }
            Tag::KEEPALIVE2 => {
                // The stamp alone: whatever else there is would be sent back at our cost.
                let asked = Keepalive::from_prefix(first).map_err(|_| malformed)?;
                self.control(Tag::KEEPALIVE2_ACK, &asked.to_bytes(Features::default()), out);
            }
            Tag::KEEPALIVE2_ACK => {}
            Tag::ACK => {
                let seq = u64::from_prefix(first).map_err(|_| malformed)?;
                out.events.push(ConnEvent::Acked(seq));
            }
            _ => return Err(malformed),
        }
        Ok(())
    }

    /// Counts a message.
    fn accept_seq(&mut self, seq: u64, bytes: usize, ctx: &mut Ctx<'_>) -> Arrival {
        let is_acceptor = matches!(self.role, Role::Acceptor { .. });
        match self.cookie {
            Some(cookie) if is_acceptor => {
                self.unacked_count += 1;
                self.unacked_bytes += bytes;
                let arrival = ctx.sessions.receive(cookie, seq);
                match arrival {
                    Arrival::New => self.in_seq = seq,
                    // It may have come over an older connection of the session after this one began.
                    Arrival::Again => self.in_seq = self.in_seq.max(seq),
                    Arrival::Gap => {}
                }
                arrival
            }
            _ => {
                self.in_seq = seq;
                Arrival::New
            }
        }
    }
}
