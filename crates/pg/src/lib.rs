//! One placement group as a machine: the order of ops, the log, peering, replication, recovery, scrub, watches.
//!
//! [`Pg::handle`] takes one event and appends effects; transactions go directly to the store that it is given.
//!
//! Invariants: no IO, no clock, no randomness; it knows no other PG and no connection.

mod acting;
mod backoff;
mod commit_times;
mod copy;
#[cfg(test)]
mod damage;
mod event;
mod exec;
pub mod export;
mod going_clean;
mod held;
mod index_wait;
mod interval;
mod lease;
mod log;
mod merge;
mod meta;
mod nonsense;
mod object_versions;
mod op_counts;
mod op_histogram;
mod op_throttle;
mod op_tracker;
mod ops;
mod past_intervals;
mod peer_queue;
mod peering;
mod pg;
mod pg_stats;
mod proxy;
mod query;
mod read_slots;
mod recount;
mod recovery;
mod removed_snaps;
mod replica_read;
mod replication;
mod rooms;
mod scrub;
mod slots;
mod split;
mod state_history;
mod stats;
#[cfg(test)]
mod test_world;
mod trim;
mod unfound;
mod watch;
#[cfg(test)]
mod watched_store;
mod window;

pub use commit_times::CommitTimes;
pub use event::{Client, Ctx, Effect, Event};
pub use held::PgRecord;
pub use interval::IntervalStart;
pub use lease::{LEASE, LEASE_AT_MOST, Leases};
pub use meta::LoadError;
pub use nonsense::{Nonsense, check_message};
pub use object_versions::object_version;
pub use op_counts::{OpCounts, Served};
pub use op_histogram::{BUCKETS, BYTES_QUANT, HISTOGRAMS, NANOS_QUANT, OpHistograms};
pub use op_throttle::{OpThrottle, Permit};
pub use op_tracker::{OpHistory, OpRecord, wall_at};
pub use pg::Pg;
pub use read_slots::ReadSlots;
pub use recovery::{RecoveryPolicy, RecoveryThrottle};
pub use rooms::{CHANGE_BYTES, Room, Rooms, STALE_PART};
pub use scrub::{ScrubPolicy, ScrubRequest, ScrubTimes};
pub use slots::{Slot, Slots};
pub use state_history::{AllStateTimes, Instance, PastState, StateTimes, add_state_times};
pub use unfound::GiveUp;
pub use watch::Watcher;
