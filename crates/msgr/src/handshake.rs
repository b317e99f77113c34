//! The handshake: banner, hello, authentication, signatures, identification.

use auth::{
    AuthStep, Authenticated, ClientAuth, ClientStep, Identity, ServerAuth, con_mode, is_signature, method,
    signature,
};
use bytes::Bytes;
use codec::{Decode, Encode, Features};
use types::{AddrType, EntityAddr, EntityAddrVec, EntityName, EntityType};

use crate::{
    connection::{
        AuthState, CloseReason, ConnEvent, Connection, Ctx, Established, FEATURES_REQUIRED,
        FEATURES_SUPPORTED, Output, Role, State,
    },
    control::{
        AuthBadMethod, AuthDone, AuthMore, AuthRequest, BANNER, BANNER_FIXED_BYTES, ClientIdent, FLAG_LOSSY,
        Hello, ServerIdent, SessionReconnect,
    },
    crypto::Cipher,
    frame::{Frame, Limits, Tag},
};

fn bytes<T: Encode>(value: &T) -> Bytes {
    value.to_bytes(Features::default())
}

/// Reads a control frame's payload.
fn payload<T: Decode>(frame: &Frame) -> Result<T, CloseReason> {
    T::from_prefix(frame.segments[0].clone()).map_err(|_| CloseReason::Protocol(frame.tag.0))
}

/// EOPNOTSUPP, as AUTH_BAD_METHOD says it.
const BAD_METHOD: i32 = -95;
/// EACCES.
const DENIED: i32 = -13;

/// Limit of the bytes received before a peer is authenticated. A handshake takes some 500; a stranger must not be able
/// to fill memory with requests that are refused one after the other.
const TRANSCRIPT_BYTES_MAX: usize = 256 << 10;

impl Connection {
    /// Takes the peer's banner, once it is whole, and says hello.
    pub(crate) fn take_banner(&mut self, out: &mut Output) -> Result<bool, CloseReason> {
        let Some(banner) = self.reader.take_raw(BANNER.len()) else { return Ok(false) };
        let required = banner.last_chunk::<8>().map_or(u64::MAX, |b| u64::from_le_bytes(*b));
        let supported = banner[10..18].first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b));
        // Revision 1 is all that we speak.
        let is_banner = banner.starts_with(&BANNER[..BANNER_FIXED_BYTES]);
        if !is_banner || supported & 1 == 0 || required & !1 != 0 {
            return Err(CloseReason::Banner);
        }
        self.received.extend_from_slice(&banner);
        let peer_addr = match &self.role {
            Role::Acceptor { peer } => EntityAddr::msgr2(*peer, 0),
            Role::Dialer { target, .. } => *target,
        };
        let hello = Hello { entity_type: self.config.entity_type.0, peer_addr };
        self.control(Tag::HELLO, &bytes(&hello), out);
        self.state = State::Hello;
        Ok(true)
    }

    pub(crate) fn on_handshake(
        &mut self,
        frame: Frame,
        ctx: &mut Ctx<'_>,
        out: &mut Output,
    ) -> Result<(), CloseReason> {
        let unexpected = CloseReason::Protocol(frame.tag.0);
        if self.received.len() > TRANSCRIPT_BYTES_MAX || !self.may_send(frame.tag) {
            return Err(unexpected);
        }
        match (&self.state, frame.tag) {
            (State::Hello, Tag::HELLO) => self.on_hello(&frame, ctx, out),
            (State::Auth(AuthState::AcceptorStart), Tag::AUTH_REQUEST) => {
                self.on_auth_request(&frame, ctx, out)
            }
            (State::Auth(AuthState::Acceptor(_)), Tag::AUTH_REQUEST_MORE) => {
                let more: AuthMore = payload(&frame)?;
                self.auth_step(more.payload, ctx, out)
            }
            (State::Auth(AuthState::Dialer(_)), Tag::AUTH_REPLY_MORE) => {
                self.on_auth_reply_more(&frame, ctx, out)
            }
            (State::Auth(AuthState::Dialer(_)), Tag::AUTH_DONE) => self.on_auth_done(&frame, ctx, out),
            (State::Auth(AuthState::Dialer(_)), Tag::AUTH_BAD_METHOD) => {
                self.on_auth_bad_method(&frame, ctx, out)
            }
            (State::Signature(_), Tag::AUTH_SIGNATURE) => self.on_signature(&frame, out),
            (State::Ident(_), Tag::CLIENT_IDENT) => self.on_client_ident(&frame, ctx, out),
            (State::Ident(_), Tag::SESSION_RECONNECT) => self.on_reconnect(&frame, ctx, out),
            (State::Ident(_), Tag::SERVER_IDENT) => self.on_server_ident(&frame, out),
            (State::Ident(_), Tag::SESSION_RECONNECT_OK) => self.on_reconnect_ok(&frame, out),
            (State::Ident(_), Tag::SESSION_RESET) => {
                out.events.push(ConnEvent::SessionReset);
                Err(unexpected)
            }
            (State::Ident(_), Tag::IDENT_MISSING_FEATURES) => Err(CloseReason::Features(payload(&frame)?)),
            _ => Err(unexpected),
        }
    }

    /// True for a frame that the peer may send in a handshake, by its role.
    fn may_send(&self, tag: Tag) -> bool {
        let is_dialer_only = matches!(
            tag,
            Tag::AUTH_REQUEST | Tag::AUTH_REQUEST_MORE | Tag::CLIENT_IDENT | Tag::SESSION_RECONNECT
        );
        let is_either = matches!(tag, Tag::HELLO | Tag::AUTH_SIGNATURE);
        is_either || is_dialer_only == matches!(self.role, Role::Acceptor { .. })
    }

    fn on_hello(&mut self, frame: &Frame, ctx: &mut Ctx<'_>, out: &mut Output) -> Result<(), CloseReason> {
        let hello: Hello = payload(frame)?;
        self.seen_as = hello.peer_addr;
        let Role::Dialer { service, .. } = self.role else {
            self.peer_type = EntityType(hello.entity_type);
            self.state = State::Auth(AuthState::AcceptorStart);
            return Ok(());
        };
        if hello.entity_type != service.0 {
            return Err(CloseReason::WrongAddress);
        }
        let wanted = self.config.methods.first().copied().unwrap_or(method::CEPHX);
        self.request_auth(wanted, service, ctx, out)
    }

    fn request_auth(
        &mut self,
        wanted: u32,
        service: EntityType,
        ctx: &mut Ctx<'_>,
        out: &mut Output,
    ) -> Result<(), CloseReason> {
        let (auth, request) = if wanted == method::CEPHX {
            let keeper = ctx.keeper.as_deref().ok_or(auth::AuthError::Denied)?;
            let (auth, request) = ClientAuth::start(service, keeper, ctx.rng)?;
            (Some(auth), request)
        } else {
            (None, self.none_request(service, ctx))
        };
        let request =
            AuthRequest { method: wanted, preferred_modes: self.config.modes.clone(), payload: request };
        self.state = State::Auth(AuthState::Dialer(auth));
        self.control(Tag::AUTH_REQUEST, &bytes(&request), out);
        Ok(())
    }

    /// Goes on with the next method of ours that the peer has; a refusal of the method it has is final.
    fn on_auth_bad_method(
        &mut self,
        frame: &Frame,
        ctx: &mut Ctx<'_>,
        out: &mut Output,
    ) -> Result<(), CloseReason> {
        let bad: AuthBadMethod = payload(frame)?;
        let denied = CloseReason::Auth(auth::AuthError::Denied);
        let Role::Dialer { service, .. } = self.role else { return Err(denied) };
        let later = self.config.methods.iter().skip_while(|m| **m != bad.method).skip(1);
        match later.copied().find(|m| bad.allowed_methods.contains(m)) {
            Some(next) if bad.result == BAD_METHOD => self.request_auth(next, service, ctx, out),
            _ => Err(denied),
        }
    }

    /// Auth `none`: a mode byte, the name, and a global id.
    fn none_request(&self, service: EntityType, ctx: &Ctx<'_>) -> Bytes {
        let keeper = ctx.keeper.as_deref();
        let name = keeper.map(|k| k.name().clone()).unwrap_or_default();
        let mode: u8 = if service == EntityType::MON { 10 } else { 1 };
        let mut out = vec![mode];
        name.encode(&mut out, Features::default());
        keeper.map_or(0, |k| k.global_id()).encode(&mut out, Features::default());
        Bytes::from(out)
    }

    fn on_auth_request(
        &mut self,
        frame: &Frame,
        ctx: &mut Ctx<'_>,
        out: &mut Output,
    ) -> Result<(), CloseReason> {
        let request: AuthRequest = payload(frame)?;
        // Without a session key there is nothing to encrypt with.
        let fits = |mode: u32| request.method != method::NONE || mode == con_mode::CRC;
        let mode = request.preferred_modes.iter().find(|m| self.config.modes.contains(m) && fits(**m));
        let (true, Some(mode)) = (self.config.methods.contains(&request.method), mode) else {
            self.bad_method(request.method, BAD_METHOD, out);
            return Ok(());
        };
        self.mode = *mode;
        self.state = State::Auth(AuthState::Acceptor(ServerAuth::new(request.method, *mode)));
        self.auth_step(request.payload, ctx, out)
    }

    fn bad_method(&mut self, method: u32, result: i32, out: &mut Output) {
        let reply = AuthBadMethod {
            method,
            result,
            allowed_methods: self.config.methods.clone(),
            allowed_modes: self.config.modes.clone(),
        };
        self.control(Tag::AUTH_BAD_METHOD, &bytes(&reply), out);
    }

    fn auth_step(&mut self, payload: Bytes, ctx: &mut Ctx<'_>, out: &mut Output) -> Result<(), CloseReason> {
        let State::Auth(AuthState::Acceptor(server)) = &mut self.state else {
            return Err(CloseReason::Protocol(Tag::AUTH_REQUEST_MORE.0));
        };
        match server.step(payload, ctx.wall, ctx.rng, ctx.authority) {
            Ok(AuthStep::More(payload)) => {
                self.control(Tag::AUTH_REPLY_MORE, &bytes(&AuthMore { payload }), out);
                Ok(())
            }
            Ok(AuthStep::Done(authenticated)) => self.send_auth_done(*authenticated, out),
            Err(error) => {
                // From this the client tells its user "permission denied".
                self.bad_method(method::CEPHX, DENIED, out);
                Err(error.into())
            }
        }
    }

    fn send_auth_done(&mut self, authenticated: Authenticated, out: &mut Output) -> Result<(), CloseReason> {
        // The type that the peer calls itself decides what its session may do: it is believed only with a daemon's key.
        if !matches!(self.peer_type, EntityType::CLIENT) && self.peer_type != authenticated.identity.name.kind
        {
            self.bad_method(method::CEPHX, DENIED, out);
            return Err(CloseReason::Auth(auth::AuthError::Denied));
        }
        let done = AuthDone {
            global_id: authenticated.identity.global_id,
            con_mode: self.mode,
            payload: authenticated.payload,
        };
        self.control(Tag::AUTH_DONE, &bytes(&done), out);
        self.session_key = authenticated.session_key;
        self.state = State::Signature(Box::new(authenticated.identity));
        if self.mode == con_mode::SECURE {
            let pair = Cipher::pair(&authenticated.connection_secret).ok_or(auth::AuthError::Malformed)?;
            self.writer.secure(pair.0);
            self.reader.secure(pair.1);
        }
        self.send_signature(out);
        Ok(())
    }

    fn send_signature(&mut self, out: &mut Output) {
        let own = signature(self.session_key.as_ref(), &self.received);
        self.control(Tag::AUTH_SIGNATURE, &own, out);
    }

    fn on_auth_reply_more(
        &mut self,
        frame: &Frame,
        ctx: &mut Ctx<'_>,
        out: &mut Output,
    ) -> Result<(), CloseReason> {
        let more: AuthMore = payload(frame)?;
        let State::Auth(AuthState::Dialer(Some(auth))) = &mut self.state else {
            return Err(CloseReason::Protocol(frame.tag.0));
        };
        let keeper = ctx.keeper.as_deref().ok_or(auth::AuthError::Denied)?;
        if let ClientStep::More(payload) = auth.more(&more.payload, keeper, ctx.rng)? {
            self.control(Tag::AUTH_REQUEST_MORE, &bytes(&AuthMore { payload }), out);
        }
        Ok(())
    }

    fn on_auth_done(
        &mut self,
        frame: &Frame,
        ctx: &mut Ctx<'_>,
        out: &mut Output,
    ) -> Result<(), CloseReason> {
        let done: AuthDone = payload(frame)?;
        if !self.config.modes.contains(&done.con_mode) {
            return Err(CloseReason::Protocol(frame.tag.0));
        }
        self.mode = done.con_mode;
        let mut secret = Bytes::new();
        if let State::Auth(AuthState::Dialer(Some(auth))) = &mut self.state {
            let keeper = ctx.keeper.as_deref_mut().ok_or(auth::AuthError::Denied)?;
            if let ClientStep::Done { session_key, connection_secret } =
                auth.done(done.global_id, done.payload, ctx.wall, keeper)?
            {
                self.session_key = Some(session_key);
                secret = connection_secret;
            }
        } else if let (Role::Dialer { service: EntityType::MON, .. }, Some(keeper)) =
            (&self.role, ctx.keeper.as_deref_mut())
        {
            // OSDs take it from the client: requests of two clients with one number would pass for each other's.
            keeper.take_global_id(done.global_id);
        }
        let name = EntityName::new(self.peer_type, "");
        let identity = Identity { name, global_id: done.global_id, caps: String::new() };
        self.state = State::Signature(Box::new(identity));
        if self.mode == con_mode::SECURE {
            let pair = Cipher::pair(&secret).ok_or(auth::AuthError::Malformed)?;
            self.reader.secure(pair.0);
            self.writer.secure(pair.1);
        }
        self.send_signature(out);
        Ok(())
    }

    /// The peer's signature covers all that we sent; it was made with the session's key.
    fn on_signature(&mut self, frame: &Frame, out: &mut Output) -> Result<(), CloseReason> {
        if !is_signature(self.session_key.as_ref(), &self.sent, &frame.segments[0]) {
            return Err(CloseReason::Signature);
        }
        (self.sent, self.received) = (Vec::new(), Vec::new());
        let State::Signature(identity) = std::mem::replace(&mut self.state, State::Banner) else {
            return Err(CloseReason::Protocol(frame.tag.0));
        };
        let gid = match self.config.entity_type {
            // An OSD names the client's requests by it: a number that two clients share makes the requests
            // of the second one duplicates of the first one's.
            EntityType::CLIENT => identity.global_id.cast_signed(),
            _ => self.config.gid,
        };
        self.state = State::Ident(identity);
        if let Role::Dialer { target, resume, .. } = self.role {
            match resume {
                Some(resume) if resume.server_cookie != 0 => {
                    let reconnect = SessionReconnect {
                        addrs: self.config.addrs.clone(),
                        client_cookie: resume.client_cookie,
                        server_cookie: resume.server_cookie,
                        global_seq: resume.connect_seq,
                        connect_seq: resume.connect_seq,
                        msg_seq: 0,
                    };
                    self.control(Tag::SESSION_RECONNECT, &bytes(&reconnect), out);
                }
                resume => {
                    let ident = ClientIdent {
                        addrs: self.own_addrs(),
                        target_addr: target,
                        gid,
                        global_seq: 1,
                        features_supported: FEATURES_SUPPORTED,
                        features_required: FEATURES_REQUIRED,
                        flags: if resume.is_some() { 0 } else { FLAG_LOSSY },
                        cookie: resume.map_or(0, |r| r.client_cookie),
                    };
                    self.control(Tag::CLIENT_IDENT, &bytes(&ident), out);
                }
            }
        }
        Ok(())
    }

    fn own_addrs(&self) -> EntityAddrVec {
        if self.config.addrs.0.is_empty() {
            EntityAddrVec(vec![self.seen_as])
        } else {
            self.config.addrs.clone()
        }
    }

    fn established(
        &mut self,
        addr: EntityAddr,
        features: u64,
        resumed: Option<(u64, u64)>,
        out: &mut Output,
    ) {
        let State::Ident(identity) = std::mem::replace(&mut self.state, State::Ready) else { return };
        let is_acceptor = matches!(self.role, Role::Acceptor { .. });
        let is_commanded =
            is_acceptor && matches!(self.config.entity_type, EntityType::MON | EntityType::MGR);
        self.reader.ready(match self.peer_type {
            // Only a peer in a session of OSDs has both proved and said that it is an OSD.
            _ if self.cookie.is_some() => Limits::Osd,
            // What it reports grows with its PGs.
            EntityType::OSD => Limits::Any,
            _ if is_commanded => Limits::Command,
            _ => Limits::Any,
        });
        out.events.push(ConnEvent::Established(Box::new(Established {
            identity: *identity,
            entity_type: self.peer_type,
            addr,
            socket: self.socket(),
            features,
            resumed,
        })));
    }

    fn on_client_ident(
        &mut self,
        frame: &Frame,
        ctx: &mut Ctx<'_>,
        out: &mut Output,
    ) -> Result<(), CloseReason> {
        let ident: ClientIdent = payload(frame)?;
        let Role::Acceptor { peer } = self.role else { return Err(CloseReason::Protocol(frame.tag.0)) };
        // The nonce tells this process from earlier ones at the same port. A nonce that is not known yet, that of a
        // monitor in a configuration file, is 0.
        let target = ident.target_addr;
        let mut all = self.config.addrs.0.iter().chain(&self.config.more_addrs.0);
        let is_ours =
            all.any(|own| own.socket == target.socket && (target.nonce == 0 || target.nonce == own.nonce));
        if !is_ours {
            return Err(CloseReason::WrongAddress);
        }
        let missing = FEATURES_REQUIRED & !ident.features_supported;
        if missing != 0 {
            self.control(Tag::IDENT_MISSING_FEATURES, &missing.to_le_bytes(), out);
            return Err(CloseReason::Features(missing));
        }
        let features = FEATURES_SUPPORTED & ident.features_supported;
        // Sessions of daemons outlive their connections; a client that asks for one is told no.
        let is_lossless =
            ident.flags & FLAG_LOSSY == 0 && self.peer_type == EntityType::OSD && ident.cookie != 0;
        if is_lossless {
            // A dialer that has sent anything in a session knows that the session exists, and resumes it. So this
            // request for a new session is an old one that comes late, from a connection that its dialer has given up:
            // to begin anew would take messages twice, or none.
            if !ctx.sessions.open(ident.cookie) {
                return Err(CloseReason::Protocol(frame.tag.0));
            }
            self.cookie = Some(ident.cookie);
        }
        let reply = ServerIdent {
            addrs: self.config.addrs.clone(),
            gid: self.config.gid,
            global_seq: ident.global_seq,
            features_supported: FEATURES_SUPPORTED,
            features_required: FEATURES_REQUIRED,
            flags: if is_lossless { 0 } else { FLAG_LOSSY },
            cookie: if is_lossless { ident.cookie } else { 0 },
        };
        self.control(Tag::SERVER_IDENT, &bytes(&reply), out);
        let mut addr = ident.addrs.0.first().copied().unwrap_or_default();
        // All daemons must know a client by one address, or a blocklist stops it on some of them only: it
        // is the one that the client says, though it may have another on the way to us.
        if addr.socket.is_none_or(|own| own.ip().is_unspecified()) {
            addr.socket = Some(std::net::SocketAddr::new(peer.ip(), 0));
        }
        if self.peer_type == EntityType::CLIENT {
            addr.kind = AddrType::ANY;
        }
        self.established(addr, features, None, out);
        Ok(())
    }

    fn on_reconnect(
        &mut self,
        frame: &Frame,
        ctx: &mut Ctx<'_>,
        out: &mut Output,
    ) -> Result<(), CloseReason> {
        let asked: SessionReconnect = payload(frame)?;
        let known = (self.peer_type == EntityType::OSD).then(|| ctx.sessions.resume(asked.client_cookie));
        let Some(last) = known.flatten() else {
            // The peer may begin a new session over the same connection. One that asks again and again, and reads none
            // of the answers, would have them fill the memory.
            if std::mem::replace(&mut self.was_reset, true) {
                return Err(CloseReason::Protocol(frame.tag.0));
            }
            self.control(Tag::SESSION_RESET, &[1], out);
            return Ok(());
        };
        self.cookie = Some(asked.client_cookie);
        self.in_seq = last;
        self.control(Tag::SESSION_RECONNECT_OK, &last.to_le_bytes(), out);
        let addr = asked.addrs.0.first().copied().unwrap_or_default();
        self.established(addr, FEATURES_SUPPORTED, None, out);
        Ok(())
    }

    fn on_server_ident(&mut self, frame: &Frame, out: &mut Output) -> Result<(), CloseReason> {
        let ident: ServerIdent = payload(frame)?;
        let missing =
            (FEATURES_REQUIRED & !ident.features_supported) | (ident.features_required & !FEATURES_SUPPORTED);
        if missing != 0 {
            return Err(CloseReason::Features(missing));
        }
        let is_lossless = matches!(self.role, Role::Dialer { resume: Some(_), .. });
        let addr = ident.addrs.msgr2_addr().copied().unwrap_or_default();
        let resumed = is_lossless.then_some((0, ident.cookie));
        self.established(addr, FEATURES_SUPPORTED & ident.features_supported, resumed, out);
        Ok(())
    }

    fn on_reconnect_ok(&mut self, frame: &Frame, out: &mut Output) -> Result<(), CloseReason> {
        let last: u64 = payload(frame)?;
        let Role::Dialer { target, resume: Some(resume), .. } = self.role else {
            return Err(CloseReason::Protocol(frame.tag.0));
        };
        self.established(target, FEATURES_SUPPORTED, Some((last, resume.server_cookie)), out);
        Ok(())
    }
}
