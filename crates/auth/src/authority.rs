//! The server's side of authentication, as a machine that `msgr` feeds, and what it asks of the daemon.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Decode, Reader};
use rand::RngCore;
use thiserror::Error;
use types::{EntityName, EntityType, UTime};

use crate::{CryptoKey, RotatingSecrets, cephx};

/// `CEPH_AUTH_*`.
pub mod method {
    /// Peers prove nothing.
    pub const NONE: u32 = 1;
    /// Shared secrets and tickets.
    pub const CEPHX: u32 = 2;
}

/// `CEPH_CON_MODE_*`.
pub mod con_mode {
    /// Checksums.
    pub const CRC: u32 = 1;
    /// Encryption.
    pub const SECURE: u32 = 2;
}

/// Why a peer is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AuthError {
    /// The payload makes no sense.
    #[error("malformed authentication payload")]
    Malformed,
    /// No such entity, a wrong key, a ticket that does not open, a global_id without proof.
    #[error("access denied")]
    Denied,
    /// Only a new handshake can give what was asked for: close the connection.
    #[error("a new handshake is due")]
    HandshakeDue,
}

/// An entity of the auth database.
#[derive(Clone, Debug)]
pub struct EntityAuth {
    /// Its secret.
    pub key: CryptoKey,
    /// Capability by service.
    pub caps: BTreeMap<String, String>,
}

/// What a daemon must know to authenticate others.
pub trait Authority {
    /// The service that it is: mon or OSD.
    fn service(&self) -> EntityType;
    /// True when auth `none` is accepted.
    fn allows_none(&self) -> bool;
    /// An entity and its key; monitors only.
    fn entity(&self, name: &EntityName) -> Option<EntityAuth>;
    /// A second key of an entity, if it has one; monitors only.
    fn pending_key(&self, _name: &EntityName) -> Option<CryptoKey> {
        None
    }
    /// The entity has proved to have its second key.
    fn note_pending_key_used(&mut self, _name: &EntityName) {}
    /// A global id never given before; monitors only.
    fn next_global_id(&mut self) -> u64;
    /// The secrets of a service: a monitor has all, an OSD its own.
    fn secrets(&self, service: EntityType) -> Option<&RotatingSecrets>;
}

/// The peer, as it proved to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name.
    pub name: EntityName,
    /// Its global id.
    pub global_id: u64,
    /// Its capability for the service that it connected to; text of the auth database.
    pub caps: String,
}

/// The end of a successful authentication.
#[derive(Clone, Debug)]
pub struct Authenticated {
    /// The peer.
    pub identity: Identity,
    /// Signs the handshake; none with auth `none`.
    pub session_key: Option<CryptoKey>,
    /// Key material of secure mode, empty in crc mode.
    pub connection_secret: Bytes,
    /// Payload of AUTH_DONE.
    pub payload: Bytes,
}

/// What comes next.
#[derive(Debug)]
pub enum AuthStep {
    /// Send AUTH_REPLY_MORE with this payload and wait.
    More(Bytes),
    /// Send AUTH_DONE.
    Done(Box<Authenticated>),
}

/// `AUTH_MODE_*`: what the first byte of an authentication request says.
const MODE_AUTHORIZER: u8 = 1;
const MODE_MON: u8 = 10;

/// One connection's authentication, on the server's side.
#[derive(Debug)]
pub struct ServerAuth {
    method: u32,
    mode: u32,
    cephx: Option<cephx::Server>,
}

impl ServerAuth {
    /// Starts with the method and connection mode that were agreed on.
    pub fn new(method: u32, mode: u32) -> ServerAuth {
        ServerAuth { method, mode, cephx: None }
    }

    /// Takes the payload of AUTH_REQUEST or AUTH_REQUEST_MORE.
    pub fn step(
        &mut self,
        payload: Bytes,
        now: UTime,
        rng: &mut dyn RngCore,
        authority: &mut dyn Authority,
    ) -> Result<AuthStep, AuthError> {
        if let Some(server) = &mut self.cephx {
            return server.more(payload, self.mode, now, rng, authority);
        }
        let mut reader = Reader::new(payload.clone());
        let mode = u8::decode(&mut reader).map_err(|_| AuthError::Malformed)?;
        if !matches!(mode, MODE_AUTHORIZER | MODE_MON) {
            return Err(AuthError::Malformed);
        }
        match self.method {
            method::NONE if authority.allows_none() => none(&mut reader, authority),
            method::CEPHX => {
                let is_mon = authority.service() == EntityType::MON && mode == MODE_MON;
                let (server, step) = cephx::Server::start(is_mon, payload.slice(1..), rng, authority)?;
                self.cephx = Some(server);
                Ok(step)
            }
            _ => Err(AuthError::Denied),
        }
    }
}

/// Auth `none`: the name is believed, and everything is allowed.
fn none(reader: &mut Reader, authority: &mut dyn Authority) -> Result<AuthStep, AuthError> {
    let malformed = |_| AuthError::Malformed;
    let name = EntityName::decode(reader).map_err(malformed)?;
    let asked = u64::decode(reader).map_err(malformed)?;
    let global_id = if asked == 0 { authority.next_global_id() } else { asked };
    Ok(AuthStep::Done(Box::new(Authenticated {
        identity: Identity { name, global_id, caps: "allow *".to_owned() },
        session_key: None,
        connection_secret: Bytes::new(),
        payload: Bytes::new(),
    })))
}
