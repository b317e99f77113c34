//! The OSD as one machine: many PGs behind sessions, maps, heartbeats and capabilities.
//!
//! [`Osd::handle`] takes one event and appends effects; transactions go directly to the store that it is given. An
//! OSD may consist of several such machines, each a [`Shard`] with PGs, connections and a store of its own: what
//! concerns another one leaves as [`Effect::ShardMessage`] and arrives there as [`Event::ShardMessage`].
//!
//! Invariants: no IO, no clock, no randomness of its own; it knows no socket and no device.

mod acting;
mod admission;
mod boot;
mod caps_check;
mod cluster_log;
mod control;
mod event;
mod failsafe;
mod heartbeat;
mod held;
mod held_back;
mod map_store;
mod on_client;
mod on_map;
mod on_osd;
mod osd;
mod pgs;
mod ping_times;
mod rbd_perf;
mod recovery;
mod refused;
mod scrubs;
mod session;
mod shard;
mod shard_message;
mod slow_ops;
mod stats_report;
mod tell;
mod tick;
mod watchdog;

pub use event::{ConnId, Effect, Event, Fault, Peer};
pub use map_store::MapStore;
pub use osd::{OWN_TIMERS, Osd, OsdConfig};
pub use shard::{CONTROL, SHARDS_MAX, Shard};
pub use shard_message::{Report, ShardMessage};
pub use slow_ops::SlowOps;
pub use watchdog::PATIENCE_AT_MOST;
