//! A RADOS client as a pure machine: gets maps from the monitor, sends requests to the primaries of their PGs, and
//! resends them after a map change or a lost connection.
//!
//! [`Client`] is the machine; [`ConnectedClient`] is the machine with its connections, over any wire.
//!
//! For our own tools, the load generator and tests; users' programs bring their own librados. Authority: Ceph's
//! `osdc/Objecter.cc` for when a request is sent again.
//!
//! Invariants: no IO, no clock. This crate knows no OSD or monitor of ours: it works with Ceph, too.

mod commands;
mod connected;
mod event;
mod machine;
mod maps;
mod places;
mod requests;
mod sessions;

pub use connected::{ConnectedClient, Outcome};
pub use event::{CommandReply, Effect, Event, Request, Response, SessionId};
pub use machine::{Client, ClientConfig};
pub use sessions::REDIAL_AFTER;

#[cfg(test)]
mod tests;
