//! The server's side: the monitor gives tickets for a proof of the key, other services take tickets.

use bytes::Bytes;
use codec::{Decode, Encode, Features, Reader};
use rand::{Rng, RngCore};
use types::{EntityName, EntityType, UTime};

use super::types::{
    Authenticate, Authorize, AuthorizeReply, Challenge, GET_AUTH_SESSION_KEY, SERVICES, ServiceTicket,
    TicketBlob, TicketInfo, fold_challenges,
};
use crate::{
    AuthError, AuthStep, Authenticated, Authority, CryptoKey, EntityAuth, Identity, con_mode, key::Usage,
    rotating::ticket_ttl,
};

/// Bytes of key material for secure mode.
const CONNECTION_SECRET_BYTES: usize = 64;

const MALFORMED: AuthError = AuthError::Malformed;

/// Where a handshake is.
#[derive(Debug)]
pub(crate) enum Server {
    /// The monitor sent its challenge.
    Mon { name: EntityName, asked_global_id: u64, challenge: u64 },
    /// A service sent its challenge to the owner of a ticket.
    Service { challenge: u64 },
}

impl Server {
    /// Takes the first request, without its mode byte.
    pub(crate) fn start(
        is_mon: bool,
        request: Bytes,
        rng: &mut dyn RngCore,
        authority: &mut dyn Authority,
    ) -> Result<(Server, AuthStep), AuthError> {
        let challenge: u64 = rng.random();
        let mut reader = Reader::new(request);
        if is_mon {
            let name = EntityName::decode(&mut reader).map_err(|_| MALFORMED)?;
            let asked_global_id = u64::decode(&mut reader).map_err(|_| MALFORMED)?;
            let payload = Challenge { server_challenge: challenge }.to_bytes(Features::default());
            return Ok((Server::Mon { name, asked_global_id, challenge }, AuthStep::More(payload)));
        }
        let (ticket, _) = open_authorizer(&mut reader, authority)?;
        let payload = ticket.session_key.seal(
            Usage::AuthorizeChallenge,
            &Challenge { server_challenge: challenge },
            rng,
        );
        Ok((Server::Service { challenge }, AuthStep::More(payload)))
    }

    /// Takes the answer to the challenge.
    pub(crate) fn more(
        &mut self,
        payload: Bytes,
        mode: u32,
        now: UTime,
        rng: &mut dyn RngCore,
        authority: &mut dyn Authority,
    ) -> Result<AuthStep, AuthError> {
        let mut reader = Reader::new(payload);
        match self {
            Server::Mon { name, asked_global_id, challenge } => {
                let (name, asked, challenge) = (name.clone(), *asked_global_id, *challenge);
                give_tickets(name, asked, challenge, &mut reader, mode, now, rng, authority)
            }
            Server::Service { challenge } => {
                let _mode = u8::decode(&mut reader.clone()).map_err(|_| MALFORMED)?;
                take_ticket(*challenge, &mut reader, mode, rng, authority)
            }
        }
    }
}

fn connection_secret(mode: u32, rng: &mut dyn RngCore) -> Bytes {
    if mode != con_mode::SECURE {
        return Bytes::new();
    }
    let mut secret = vec![0; CONNECTION_SECRET_BYTES];
    rng.fill_bytes(&mut secret);
    Bytes::from(secret)
}

#[allow(clippy::too_many_arguments, reason = "a handshake's facts, used once")]
fn give_tickets(
    name: EntityName,
    asked_global_id: u64,
    challenge: u64,
    reader: &mut Reader,
    mode: u32,
    now: UTime,
    rng: &mut dyn RngCore,
    authority: &mut dyn Authority,
) -> Result<AuthStep, AuthError> {
    let request = u16::decode(reader).map_err(|_| MALFORMED)?;
    if request != GET_AUTH_SESSION_KEY {
        return Err(MALFORMED);
    }
    let asked = Authenticate::decode(reader).map_err(|_| MALFORMED)?;
    // An unknown name gets the same answer as a wrong key.
    let mut entity = authority.entity(&name).ok_or(AuthError::Denied)?;
    let is_proof = |key: &CryptoKey| fold_challenges(key, challenge, asked.client_challenge) == asked.key;
    if !is_proof(&entity.key) {
        entity.key = authority.pending_key(&name).filter(is_proof).ok_or(AuthError::Denied)?;
        authority.note_pending_key_used(&name);
    }
    // As with Ceph, an entity without a capability on monitors is not let into the cluster.
    let caps = entity.caps.get("mon").filter(|caps| !caps.is_empty()).cloned().ok_or(AuthError::Denied)?;
    let old = open_ticket(&asked.old_ticket, EntityType::AUTH, authority).filter(|old| old.name == name);
    let global_id = match (&old, asked_global_id) {
        (_, 0) => authority.next_global_id(),
        // An expired ticket is proof enough while its secret is kept: a client that slept may go on.
        (Some(old), asked) if old.global_id == asked => asked,
        // A client cannot take over a global id without proof of its ticket (CVE-2021-20288).
        _ => return Err(AuthError::Denied),
    };
    let old_key = old.map(|old| old.session_key);
    let issue = Issue { name: &name, global_id, entity: &entity, now };
    let (auth_ticket, session_key) =
        issue.reply(&[EntityType::AUTH], &entity.key, old_key.as_ref(), rng, authority)?;
    let session_key = session_key.ok_or(AuthError::Denied)?;
    let secret = connection_secret(mode, rng);
    let wanted: Vec<EntityType> =
        SERVICES.into_iter().filter(|s| asked.other_keys & u32::from(s.0) != 0).collect();
    let extra = if wanted.is_empty() {
        Bytes::new()
    } else {
        issue.reply(&wanted, &session_key, None, rng, authority)?.0
    };
    let f = Features::default();
    let mut out = Vec::new();
    GET_AUTH_SESSION_KEY.encode(&mut out, f);
    0i32.encode(&mut out, f);
    out.extend_from_slice(&auth_ticket);
    session_key.seal(Usage::ConnectionSecret, &secret, rng).to_bytes(f).encode(&mut out, f);
    extra.encode(&mut out, f);
    Ok(AuthStep::Done(Box::new(Authenticated {
        identity: Identity { name, global_id, caps },
        session_key: Some(session_key),
        connection_secret: secret,
        payload: Bytes::from(out),
    })))
}

/// Tickets to issue for one entity.
pub(super) struct Issue<'a> {
    pub(super) name: &'a EntityName,
    pub(super) global_id: u64,
    pub(super) entity: &'a EntityAuth,
    pub(super) now: UTime,
}

impl Issue<'_> {
    /// `cephx_build_service_ticket_reply`: tickets for `services`, their session keys sealed with `key`;
    /// with `old_key` the tickets themselves are sealed, too. The last session key is returned as well.
    pub(super) fn reply(
        &self,
        services: &[EntityType],
        key: &CryptoKey,
        old_key: Option<&CryptoKey>,
        rng: &mut dyn RngCore,
        authority: &dyn Authority,
    ) -> Result<(Bytes, Option<CryptoKey>), AuthError> {
        let f = Features::default();
        let mut out = vec![1u8];
        let known: Vec<_> =
            services.iter().filter_map(|s| Some((*s, authority.secrets(*s)?.current()?))).collect();
        (known.len() as u32).encode(&mut out, f);
        let mut last = None;
        for (service, (secret_id, secret)) in known {
            // Its owner knows keys of the type that it has.
            let session_key = CryptoKey::generate(self.entity.key.kind(), self.now, rng);
            let ttl = ticket_ttl(service);
            let validity = UTime::new(ttl.as_secs() as u32, 0);
            u32::from(service.0).encode(&mut out, f);
            out.push(1);
            let learned = ServiceTicket { session_key: session_key.clone(), validity };
            key.seal(Usage::TicketSessionKey, &learned, rng).encode(&mut out, f);
            let info = TicketInfo {
                name: self.name.clone(),
                global_id: self.global_id,
                created: self.now,
                expires: self.now.plus(ttl),
                caps: self.entity.caps.get(service.as_str()).cloned().unwrap_or_default(),
                session_key: session_key.clone(),
            };
            let blob = TicketBlob { secret_id, blob: secret.seal(Usage::TicketInfo, &info, rng) }.to_bytes(f);
            old_key.is_some().encode(&mut out, f);
            match old_key {
                Some(old) => old.seal(Usage::TicketBlob, &blob, rng).encode(&mut out, f),
                None => blob.encode(&mut out, f),
            }
            last = Some(session_key);
        }
        Ok((Bytes::from(out), last))
    }
}

/// Opens a ticket with the service's secrets.
pub(super) fn open_ticket(
    ticket: &TicketBlob,
    service: EntityType,
    authority: &dyn Authority,
) -> Option<TicketInfo> {
    authority.secrets(service)?.get(ticket.secret_id)?.open(Usage::TicketInfo, &ticket.blob).ok()
}

/// Reads an authorizer (behind its mode byte): the ticket's contents and the proof.
fn open_authorizer(
    reader: &mut Reader,
    authority: &dyn Authority,
) -> Result<(TicketInfo, Authorize), AuthError> {
    let global_id = u64::decode(reader).map_err(|_| MALFORMED)?;
    let service = u32::decode(reader).map_err(|_| MALFORMED)?;
    let ticket = TicketBlob::decode(reader).map_err(|_| MALFORMED)?;
    let sealed = Bytes::decode(reader).map_err(|_| MALFORMED)?;
    if service != u32::from(authority.service().0) {
        return Err(AuthError::Denied);
    }
    let info = open_ticket(&ticket, authority.service(), authority).ok_or(AuthError::Denied)?;
    if info.global_id != global_id {
        return Err(AuthError::Denied);
    }
    let authorize = info.session_key.open(Usage::Authorize, &sealed).map_err(|_| AuthError::Denied)?;
    Ok((info, authorize))
}

fn take_ticket(
    challenge: u64,
    reader: &mut Reader,
    mode: u32,
    rng: &mut dyn RngCore,
    authority: &mut dyn Authority,
) -> Result<AuthStep, AuthError> {
    let _mode = u8::decode(reader).map_err(|_| MALFORMED)?;
    let (info, authorize) = open_authorizer(reader, authority)?;
    // Without the challenge an authorizer could be replayed (CVE-2018-1128).
    if !authorize.have_challenge || authorize.server_challenge_plus_one != challenge.wrapping_add(1) {
        return Err(AuthError::Denied);
    }
    // As in Ceph, the ticket's expiry is not checked: the monitor wrote it by its own clock, and a host whose clock is
    // ahead would turn all clients away. The ticket ends with the secret that opened it.
    let secret = connection_secret(mode, rng);
    let nonce_plus_one = authorize.nonce.wrapping_add(1);
    let sealed = if secret.is_empty() {
        info.session_key.seal(Usage::AuthorizeReply, &(1u8, nonce_plus_one), rng)
    } else {
        let reply = AuthorizeReply { nonce_plus_one, connection_secret: secret.clone() };
        info.session_key.seal(Usage::AuthorizeReply, &reply, rng)
    };
    Ok(AuthStep::Done(Box::new(Authenticated {
        identity: Identity { name: info.name, global_id: info.global_id, caps: info.caps },
        session_key: Some(info.session_key),
        connection_secret: secret,
        payload: sealed.to_bytes(Features::default()),
    })))
}
