//! The connections of a daemon or a client: bytes of a [`Wire`] on one side, messages on the other.
//!
//! This crate decides when to reconnect and to whom, what to resend, and which peers have to wait. The machines
//! decide what to send, and to whom.
//!
//! Invariants: no IO, no clock, no hidden randomness. It knows no monitor, OSD or client machine.

mod handshakes;
mod net;
mod no_authority;
mod peer_event;
mod service_auth;
mod wire;

pub use net::{Net, NetEvent};
pub use no_authority::NoAuthority;
pub use peer_event::PeerEvent;
pub use service_auth::ServiceAuth;
pub use wire::{Wire, WireEvent};
