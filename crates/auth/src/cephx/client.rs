//! The client's side: our own daemons toward monitors and each other.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Decode, Encode, Features, Reader};
use rand::{Rng, RngCore};
use types::{EntityName, EntityType, UTime};

use super::types::{
    Authenticate, Authorize, AuthorizeReply, Challenge, GET_AUTH_SESSION_KEY, ServiceTicket, TicketBlob,
    fold_challenges,
};
use crate::{AuthError, CryptoKey, key::Usage};

#[derive(Clone, Debug)]
struct Ticket {
    session_key: CryptoKey,
    blob: TicketBlob,
    /// Three quarters of its life are over then.
    renew_after: UTime,
}

/// The key of an entity and the tickets that it was given.
#[derive(Clone, Debug)]
pub struct TicketKeeper {
    name: EntityName,
    key: CryptoKey,
    global_id: u64,
    tickets: BTreeMap<EntityType, Ticket>,
}

impl TicketKeeper {
    /// Without tickets yet.
    pub fn new(name: EntityName, key: CryptoKey) -> TicketKeeper {
        TicketKeeper { name, key, global_id: 0, tickets: BTreeMap::new() }
    }

    /// The owner's name.
    pub fn name(&self) -> &EntityName {
        &self.name
    }

    /// The id that the monitors gave; 0 before.
    pub fn global_id(&self) -> u64 {
        self.global_id
    }

    /// Auth `none`: a monitor gave this id, without a ticket that proves it.
    pub fn take_global_id(&mut self, global_id: u64) {
        self.global_id = global_id;
    }

    /// True when there is a ticket for `service`. The service decides how long it takes the ticket: this host's clock
    /// does not.
    pub fn has_ticket(&self, service: EntityType) -> bool {
        self.tickets.contains_key(&service)
    }

    /// Forgets the ticket by which the owner proves its global id to the monitors: the next handshake with one asks for
    /// another id. The tickets to services stay, with the id that they were given for.
    pub fn forget_auth_ticket(&mut self) {
        self.tickets.remove(&EntityType::AUTH);
    }

    /// The id to ask a monitor for; 0 for a new one, as a monitor refuses an id without the ticket that proves it.
    fn asked_global_id(&self) -> u64 {
        if self.has_ticket(EntityType::AUTH) { self.global_id } else { 0 }
    }

    /// True when a ticket is past three quarters of its life, or missing. The one for
    /// [`EntityType::AUTH`] is renewed by a new handshake with a monitor, all others with
    /// [`crate::mauth_request_tickets`].
    pub fn needs_renewal(&self, service: EntityType, now: UTime) -> bool {
        self.tickets.get(&service).is_none_or(|t| t.renew_after <= now)
    }

    /// The id of the service's secret that the ticket for `service` is sealed with, if there is a ticket.
    pub fn secret_id(&self, service: EntityType) -> Option<u64> {
        self.tickets.get(&service).map(|t| t.blob.secret_id)
    }

    /// The owner's secret key.
    pub(super) fn key(&self) -> &CryptoKey {
        &self.key
    }

    /// The session key and ticket for a service.
    pub(super) fn ticket(&self, service: EntityType) -> Option<(&CryptoKey, &TicketBlob)> {
        self.tickets.get(&service).map(|t| (&t.session_key, &t.blob))
    }

    /// Keeps the tickets of a reply whose session keys are sealed with `key`.
    pub(super) fn take_reply(
        &mut self,
        reader: &mut Reader,
        key: &CryptoKey,
        now: UTime,
    ) -> Result<(), AuthError> {
        let malformed = |_| AuthError::Malformed;
        let _version = u8::decode(reader).map_err(malformed)?;
        let count = u32::decode(reader).map_err(malformed)?;
        for _ in 0..count {
            let service = u32::decode(reader).map_err(malformed)?;
            let _version = u8::decode(reader).map_err(malformed)?;
            let sealed = Bytes::decode(reader).map_err(malformed)?;
            let learned: ServiceTicket =
                key.open(Usage::TicketSessionKey, &sealed).map_err(|_| AuthError::Denied)?;
            let is_sealed = bool::decode(reader).map_err(malformed)?;
            let mut blob = Bytes::decode(reader).map_err(malformed)?;
            let service = EntityType(u8::try_from(service).map_err(|_| AuthError::Malformed)?);
            if is_sealed {
                let (old, _) = self.ticket(service).ok_or(AuthError::Malformed)?;
                blob = old.open(Usage::TicketBlob, &blob).map_err(|_| AuthError::Denied)?;
            }
            let blob = TicketBlob::from_prefix(blob).map_err(malformed)?;
            let life = std::time::Duration::new(u64::from(learned.validity.sec), learned.validity.nsec);
            let renew_after = now.plus(life * 3 / 4);
            let ticket = Ticket { session_key: learned.session_key, blob, renew_after };
            self.tickets.insert(service, ticket);
        }
        Ok(())
    }
}

/// What comes next on the client's side.
#[derive(Debug)]
pub enum ClientStep {
    /// Send AUTH_REQUEST_MORE with this payload.
    More(Bytes),
    /// The server has proved to be the one that it should be.
    Done {
        /// Signs the handshake.
        session_key: CryptoKey,
        /// Key material of secure mode, empty in crc mode.
        connection_secret: Bytes,
    },
}

/// One connection's authentication with cephx, on the client's side.
#[derive(Debug)]
pub struct ClientAuth {
    service: EntityType,
    nonce: u64,
    session_key: Option<CryptoKey>,
}

const MODE_AUTHORIZER: u8 = 1;
const MODE_MON: u8 = 10;

impl ClientAuth {
    /// Starts toward a service; the payload of AUTH_REQUEST. Denied without a ticket for it.
    pub fn start(
        service: EntityType,
        keeper: &TicketKeeper,
        rng: &mut dyn RngCore,
    ) -> Result<(ClientAuth, Bytes), AuthError> {
        let f = Features::default();
        let nonce: u64 = rng.random();
        let mut auth = ClientAuth { service, nonce, session_key: None };
        let mut out = Vec::new();
        if service == EntityType::MON {
            MODE_MON.encode(&mut out, f);
            keeper.name.encode(&mut out, f);
            keeper.asked_global_id().encode(&mut out, f);
        } else {
            auth.session_key = Some(keeper.ticket(service).ok_or(AuthError::Denied)?.0.clone());
            out = auth.authorizer(keeper, None, rng)?;
        }
        Ok((auth, Bytes::from(out)))
    }

    fn authorizer(
        &self,
        keeper: &TicketKeeper,
        challenge: Option<u64>,
        rng: &mut dyn RngCore,
    ) -> Result<Vec<u8>, AuthError> {
        let f = Features::default();
        let (session_key, blob) = keeper.ticket(self.service).ok_or(AuthError::Denied)?;
        let authorize = Authorize {
            nonce: self.nonce,
            have_challenge: challenge.is_some(),
            server_challenge_plus_one: challenge.map_or(0, |c| c.wrapping_add(1)),
        };
        let mut out = vec![MODE_AUTHORIZER];
        keeper.global_id.encode(&mut out, f);
        u32::from(self.service.0).encode(&mut out, f);
        blob.encode(&mut out, f);
        session_key.seal(Usage::Authorize, &authorize, rng).encode(&mut out, f);
        Ok(out)
    }

    /// Takes AUTH_REPLY_MORE.
    pub fn more(
        &mut self,
        payload: &Bytes,
        keeper: &TicketKeeper,
        rng: &mut dyn RngCore,
    ) -> Result<ClientStep, AuthError> {
        if self.service != EntityType::MON {
            let key = self.session_key.as_ref().ok_or(AuthError::Malformed)?;
            let challenge: Challenge =
                key.open(Usage::AuthorizeChallenge, payload).map_err(|_| AuthError::Denied)?;
            let again = self.authorizer(keeper, Some(challenge.server_challenge), rng)?;
            return Ok(ClientStep::More(Bytes::from(again)));
        }
        let challenge = Challenge::from_prefix(payload.clone()).map_err(|_| AuthError::Malformed)?;
        let client_challenge: u64 = rng.random();
        let old_ticket = keeper.ticket(EntityType::AUTH).map(|(_, blob)| blob.clone()).unwrap_or_default();
        let services = [EntityType::AUTH, EntityType::MON, EntityType::OSD];
        let request = Authenticate {
            client_challenge,
            key: fold_challenges(&keeper.key, challenge.server_challenge, client_challenge),
            old_ticket,
            other_keys: services.iter().map(|s| u32::from(s.0)).sum(),
        };
        let mut out = Vec::new();
        GET_AUTH_SESSION_KEY.encode(&mut out, Features::default());
        request.encode(&mut out, Features::default());
        Ok(ClientStep::More(Bytes::from(out)))
    }

    /// Takes AUTH_DONE; tickets go to the keeper.
    pub fn done(
        &mut self,
        global_id: u64,
        payload: Bytes,
        now: UTime,
        keeper: &mut TicketKeeper,
    ) -> Result<ClientStep, AuthError> {
        let malformed = |_| AuthError::Malformed;
        let mut reader = Reader::new(payload);
        if self.service != EntityType::MON {
            let session_key = self.session_key.clone().ok_or(AuthError::Malformed)?;
            let sealed = Bytes::decode(&mut reader).map_err(malformed)?;
            let reply: AuthorizeReply =
                session_key.open(Usage::AuthorizeReply, &sealed).map_err(|_| AuthError::Denied)?;
            if reply.nonce_plus_one != self.nonce.wrapping_add(1) {
                return Err(AuthError::Denied);
            }
            return Ok(ClientStep::Done { session_key, connection_secret: reply.connection_secret });
        }
        let _request = u16::decode(&mut reader).map_err(malformed)?;
        if i32::decode(&mut reader).map_err(malformed)? != 0 {
            return Err(AuthError::Denied);
        }
        let key = keeper.key.clone();
        keeper.take_reply(&mut reader, &key, now)?;
        keeper.global_id = global_id;
        let session_key = keeper.ticket(EntityType::AUTH).ok_or(AuthError::Malformed)?.0.clone();
        let sealed = Bytes::from_prefix(Bytes::decode(&mut reader).map_err(malformed)?).map_err(malformed)?;
        let connection_secret: Bytes =
            session_key.open(Usage::ConnectionSecret, &sealed).map_err(|_| AuthError::Denied)?;
        let extra = Bytes::decode(&mut reader).map_err(malformed)?;
        if !extra.is_empty() {
            keeper.take_reply(&mut Reader::new(extra), &session_key, now)?;
        }
        Ok(ClientStep::Done { session_key, connection_secret })
    }
}
