//! The connections of a daemon or a client: bytes of a [`Wire`] on one side, messages on the other. Whom
//! to dial again and when, what is sent again, and which peers have to wait is decided here; what to say
//! and to whom, the machines decide.
//!
//! Invariants: no IO, no clock, no hidden randomness. It knows no monitor, OSD or client machine.

mod handshakes;
mod net;
mod no_authority;
mod service_auth;
mod wire;

pub use net::{Net, NetEvent};
pub use no_authority::NoAuthority;
pub use service_auth::ServiceAuth;
pub use wire::{Wire, WireEvent};
