//! A cluster in one thread on virtual time, network and disks, driven by a seed.
//!
//! The monitor, the OSDs with their stores, and the clients are the machines that production runs; only the
//! execution of their effects is virtual. While clients write and read, connections are cut, hosts are partitioned,
//! processes crash with unflushed writes lost, and bits rot. [`World::run`] checks that
//!
//! - a client reads what it wrote, snapshots included, at any time;
//! - a record that one of several clients appends is there exactly once, and never disappears for anyone who has
//!   seen it or had it acknowledged;
//! - everything ends: requests, peering, recovery;
//! - a scrub finds only what rotted, and a repair mends it;
//! - in the end all copies are equal, to the last bit on every device, and the stores' accounting is right.
//!
//! [`hostile`] has what anybody may send, for tests and for fuzzing.
//!
//! [`World::steady`] is a world in which nothing fails, for counting what a request costs.
//!
//! The same seed gives the same run, to the last event: [`Report::fingerprint`].
//!
//! Invariants: no IO, no clock, no randomness but the seed's.

mod check;
mod client_process;
mod faults;
pub mod hostile;
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
