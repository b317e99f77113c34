//! msgr2.1: frames, the handshake, sessions. Bytes in, messages out.
//!
//! Authority: Ceph's `msg/async/ProtocolV2.cc`, `frames_v2.h` and `doc/dev/msgr2.rst` (16.2).
//!
//! Invariants: pure; nothing is allocated for a length that the peer merely claims; this crate decodes no message.

mod connection;
mod control;
mod crypto;
mod frame;
mod handshake;
mod lossless;
mod rope;

pub use connection::{CloseReason, Config, ConnEvent, Connection, Ctx, Established, Output, Role};
pub use frame::{FrameError, PartialFrame, Tag};
pub use lossless::{InSessions, OutSession, PushError, Resume};

#[cfg(test)]
mod tests;
