//! Authentication and authorization: cephx (and auth `none`), keyrings, tickets, rotating keys, capabilities.
//!
//! Authority: Ceph's `src/auth` (16.2). Invariants: pure; time and randomness are arguments. This crate knows no
//! connection: `msgr` moves its payloads.

mod aes256k;
mod aes_cbc;
mod authority;
mod caps;
mod cephx;
mod key;
mod keyring;
mod rotating;

pub use authority::{
    AuthError, AuthStep, Authenticated, Authority, EntityAuth, Identity, ServerAuth, con_mode, method,
};
pub use caps::{
    CapsError, ClassCall, MgrAccess, MgrCaps, MonAccess, MonCaps, OsdAccess, OsdCaps, check_mds_caps,
};
pub use cephx::{
    ClientAuth, ClientStep, TicketKeeper, answer_mauth, mauth_request_rotating, mauth_request_tickets,
};
pub use key::{CryptoKey, KeyError, is_signature, signature};
pub use keyring::{Keyring, KeyringEntry};
pub use rotating::{RotatingSecrets, SERVICE_TICKET_TTL, ticket_ttl};

#[cfg(test)]
mod tests;
