//! A RADOS client as a pure machine: maps from the monitor, requests to the primaries of their PGs,
//! resent when a map or a lost connection asks for it.
//!
//! Authority: Ceph's `osdc/Objecter.cc` for when a request is sent again. For our own tools, the load
//! generator and tests; users' programs bring their own librados.
//!
//! Invariants: no IO, no clock. This crate knows no OSD or monitor of ours: it serves against Ceph, too.

mod commands;
mod event;
mod machine;
mod maps;
mod requests;
mod sessions;

pub use event::{CommandReply, Effect, Event, Request, Response, SessionId};
pub use machine::{Client, ClientConfig};
pub use sessions::REDIAL_AFTER;

#[cfg(test)]
mod tests;
