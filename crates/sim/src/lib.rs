//! A cluster in one thread on virtual time, network and disks, driven by a seed.
//!
//! The monitor, the OSDs with their stores, and the clients are the machines that production runs; only
//! what carries their effects out is virtual. While clients write and read, connections are cut, hosts are
//! divided, processes crash with unflushed writes lost, blocks rot. [`World::run`] checks that
//!
//! - a client reads what it wrote, snapshots included, at any time;
//! - a record appended by one of several clients is there once, and never goes again for whoever has seen
//!   it or had it acknowledged;
//! - everything ends: requests, peering, recovery;
//! - a scrub finds nothing but what rotted, and a repair mends that;
//! - afterwards all copies are equal, to the last bit on every device, and the stores' books agree.
//!
//! [`World::steady`] is a world in which nothing breaks, for counting what a request costs.
//!
//! The same seed gives the same run, to the last event: [`Report::fingerprint`].
//!
//! Invariants: no IO, no clock, no randomness but the seed's.

mod check;
mod client_process;
mod faults;
mod model;
mod mon_process;
mod network;
mod osd_process;
mod process;
mod schedule;
mod scrubs;
mod shared;
mod slot;
mod steady;
mod workload;
mod world;

pub use scrubs::Damage;
pub use steady::Load;
pub use world::{Options, Report, World};
