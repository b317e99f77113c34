//! A cluster in one thread on virtual time, network and disks, driven by a seed.
//!
//! The monitor, the OSDs with their stores, and the clients are the machines that production runs; only the
//! execution of their effects is virtual. While clients write and read, connections are cut, hosts are partitioned,
//! processes stand still, are killed, or crash with unflushed writes lost, devices fail or fall silent, OSDs are
//! destroyed or purged and made anew, and bits rot.
//! Each process has a clock of its own. [`World::run`] checks that
//!
//! - a client reads what it wrote, snapshots included, at any time;
//! - a record that one of several clients appends is there exactly once, and never disappears for anyone who has
//!   seen it or had it acknowledged;
//! - what several clients are told of changes that they make under conditions fits to one order;
//! - what a client has read that takes over from another one is not changed by that one any more;
//! - what is refused for want of room is not done, and what waits for room is, once there is some;
//! - a listing names what is there all the time, and nothing else that does not come or go meanwhile;
//! - a notification reaches all that watch, or says which ones it does not reach;
//! - everything ends: requests, those for a pool that is deleted among them, peering, recovery;
//! - a scrub finds only what rotted, and a repair mends it;
//! - in the end nothing is held any more, and no copy is left where none is needed;
//! - what the disks have then is sound when the power fails: all copies are equal, to the last bit on every device, so
//!   are their logs, which tell the truth about the objects, and the stores' accounting is right.
//!
//! [`hostile`] has what any peer may send, for tests and for fuzzing.
//!
//! [`World::given_up`] is about what an operator gives up when devices are gone beyond redundancy,
//! [`World::destroyed`] about an OSD that is made anew while another one is down that has more,
//! [`World::hung_device`] about a device that falls silent for good, [`World::held_change`] about a change that a
//! device does not take before a crash, [`World::filled_up`] about devices that fill up while the monitor is away,
//! [`World::too_small`] about one that is too small for what its OSD has missed.
//! [`Canary`] and [`Remnant`] are faults that are made on purpose, to be found.
//!
//! [`World::shared_clones`] is a world in which an OSD is filled with clones, [`World::slow_link`] one with a slow
//! link, [`World::steady`] one in which nothing fails, for counting what a request costs.
//!
//! The same seed gives the same run, to the last event: [`Report::fingerprint`].
//!
//! Invariants: no IO, no clock, no randomness but the seed's.

mod bulk;
mod canary;
mod change;
mod check;
mod client_process;
mod clocks;
mod conditional_objects;
mod crowding;
mod destroyed;
mod device_faults;
mod faults;
mod fenced;
mod filled_up;
mod given_up;
mod held_change;
pub mod hostile;
mod hung_device;
mod listing;
mod made_anew;
mod model;
mod mon_process;
mod network;
mod numbered_objects;
mod operator;
mod osd_process;
mod process;
mod records;
mod remnants;
mod resting;
mod schedule;
mod scrubs;
mod shared;
mod shared_clones;
mod slot;
mod slow_link;
mod steady;
mod watching;
mod workload;
mod world;

pub use canary::Canary;
pub use filled_up::Filling;
pub use given_up::GivenUp;
pub use remnants::Remnant;
pub use scrubs::Damage;
pub use steady::Load;
pub use world::{Options, Report, World};
