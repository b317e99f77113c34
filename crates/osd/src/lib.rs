//! The OSD as one machine: many PGs behind sessions, maps, heartbeats and capabilities.
//!
//! [`Osd::handle`] takes one event and appends effects; transactions go straight to the store it is
//! handed. Invariants: no IO, no clock, no randomness of its own; it knows no socket and no device.

mod boot;
mod caps_check;
mod event;
mod heartbeat;
mod map_store;
mod on_client;
mod on_map;
mod on_osd;
mod osd;
mod pgs;
mod session;
mod tell;
mod tick;

pub use event::{ConnId, Effect, Event, Peer};
pub use osd::{Osd, OsdConfig};
