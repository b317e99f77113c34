//! cephx: tickets from the monitor for a shared secret, authorizers for tickets
//! (`auth/cephx/CephxProtocol.h`, `doc/dev/cephx_protocol.rst`).

mod client;
mod mauth;
mod server;
mod types;

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod damage;

pub use client::{ClientAuth, ClientStep, TicketKeeper};
pub use mauth::{answer_mauth, mauth_request_rotating, mauth_request_tickets};
pub(crate) use server::Server;
