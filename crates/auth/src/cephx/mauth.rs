//! Tickets and rotating keys over an authenticated monitor session (`MAuth`): renewal without a new
//! handshake, and the service secrets that OSDs need to open tickets.

use bytes::Bytes;
use codec::{Decode, Encode, Features, Reader};
use rand::{Rng, RngCore};
use types::{EntityName, EntityType, UTime};

use super::{
    server::{Issue, open_ticket},
    types::{
        Authorize, GET_AUTH_SESSION_KEY, GET_PRINCIPAL_SESSION_KEY, GET_ROTATING_KEY, SERVICES,
        ServiceTicketRequest, TicketBlob,
    },
};
use crate::{AuthError, Authority, RotatingSecrets, TicketKeeper, key::Usage};

/// The monitor's answer to an `MAuth` payload of the session's owner. [`AuthError::HandshakeDue`] asks
/// for the connection to be closed: the client dials again, keeps its global id with its old ticket, and
/// gets a new one.
pub fn answer_mauth(
    name: &EntityName,
    global_id: u64,
    payload: Bytes,
    now: UTime,
    rng: &mut dyn RngCore,
    authority: &dyn Authority,
) -> Result<Bytes, AuthError> {
    let malformed = |_| AuthError::Malformed;
    let f = Features::default();
    let mut reader = Reader::new(payload);
    let request = u16::decode(&mut reader).map_err(malformed)?;
    let entity = authority.entity(name).ok_or(AuthError::Denied)?;
    let mut out = Vec::new();
    request.encode(&mut out, f);
    0i32.encode(&mut out, f);
    match request {
        GET_PRINCIPAL_SESSION_KEY => {
            let _version = u8::decode(&mut reader).map_err(malformed)?;
            let asked_id = u64::decode(&mut reader).map_err(malformed)?;
            let service = u32::decode(&mut reader).map_err(malformed)?;
            let ticket = TicketBlob::decode(&mut reader).map_err(malformed)?;
            let sealed = Bytes::decode(&mut reader).map_err(malformed)?;
            let asked = ServiceTicketRequest::decode(&mut reader).map_err(malformed)?;
            // Refused on a session that goes on, a ticket would be shown again and again: stock clients connect anew
            // only when they must. Its secret may have been wiped, or a clock set.
            let old = open_ticket(&ticket, EntityType::AUTH, authority).ok_or(AuthError::HandshakeDue)?;
            let is_own = old.name == *name && old.global_id == global_id && asked_id == global_id;
            if service != u32::from(EntityType::AUTH.0) || !is_own {
                return Err(AuthError::Denied);
            }
            if old.expires <= now {
                return Err(AuthError::HandshakeDue);
            }
            let _proof: Authorize =
                old.session_key.open(Usage::Authorize, &sealed).map_err(|_| AuthError::Denied)?;
            let wanted: Vec<EntityType> =
                SERVICES.into_iter().filter(|s| asked.keys & u32::from(s.0) != 0).collect();
            let issue = Issue { name, global_id, entity: &entity, now };
            out.extend_from_slice(&issue.reply(&wanted, &old.session_key, None, rng, authority)?.0);
        }
        // The ticket that proves the client grows old. Only a handshake gives a new one.
        GET_AUTH_SESSION_KEY => return Err(AuthError::HandshakeDue),
        // Only a daemon may have its own service's secrets.
        GET_ROTATING_KEY if matches!(name.kind, EntityType::OSD | EntityType::MGR | EntityType::MDS) => {
            let secrets = authority.secrets(name.kind).ok_or(AuthError::Denied)?;
            entity.key.seal(Usage::RotatingSecret, secrets, rng).encode(&mut out, f);
        }
        _ => return Err(AuthError::Denied),
    }
    Ok(Bytes::from(out))
}

/// The payload that asks for new tickets.
pub fn mauth_request_tickets(keeper: &TicketKeeper, rng: &mut dyn RngCore) -> Option<Bytes> {
    let f = Features::default();
    let (session_key, blob) = keeper.ticket(EntityType::AUTH)?;
    let authorize = Authorize { nonce: rng.random(), have_challenge: false, server_challenge_plus_one: 0 };
    let mut out = Vec::new();
    GET_PRINCIPAL_SESSION_KEY.encode(&mut out, f);
    out.push(1);
    keeper.global_id().encode(&mut out, f);
    u32::from(EntityType::AUTH.0).encode(&mut out, f);
    blob.encode(&mut out, f);
    session_key.seal(Usage::Authorize, &authorize, rng).encode(&mut out, f);
    let services = [EntityType::MON, EntityType::OSD];
    ServiceTicketRequest { keys: services.iter().map(|s| u32::from(s.0)).sum() }.encode(&mut out, f);
    Some(Bytes::from(out))
}

/// The payload that asks for the own service's rotating secrets.
pub fn mauth_request_rotating() -> Bytes {
    GET_ROTATING_KEY.to_bytes(Features::default())
}

impl TicketKeeper {
    /// Takes the answer to one of the requests: tickets are kept, secrets returned.
    pub fn take_mauth_reply(
        &mut self,
        payload: Bytes,
        now: UTime,
    ) -> Result<Option<RotatingSecrets>, AuthError> {
        let malformed = |_| AuthError::Malformed;
        let mut reader = Reader::new(payload);
        let request = u16::decode(&mut reader).map_err(malformed)?;
        if i32::decode(&mut reader).map_err(malformed)? != 0 {
            return Err(AuthError::Denied);
        }
        match request {
            GET_PRINCIPAL_SESSION_KEY => {
                let key = self.ticket(EntityType::AUTH).ok_or(AuthError::Denied)?.0.clone();
                self.take_reply(&mut reader, &key, now)?;
                Ok(None)
            }
            GET_ROTATING_KEY => {
                let sealed = Bytes::decode(&mut reader).map_err(malformed)?;
                self.key().open(Usage::RotatingSecret, &sealed).map(Some).map_err(|_| AuthError::Denied)
            }
            _ => Err(AuthError::Malformed),
        }
    }
}
