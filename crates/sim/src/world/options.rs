//! How a world is made, and what is told of it.

use std::time::Duration;

/// How a world is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// True for disks that say that unflushed writes are durable: a world that must lose data.
    pub is_disk_lying: bool,
    /// True for a world whose pool begins with many PGs, and gets fewer, or more, again and again.
    pub is_resized: bool,
}

/// How large a world is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) osds: usize,
    /// Of each OSD.
    pub(crate) shards: u16,
    /// Others compute on the OSDs' CPUs, too.
    pub(crate) is_busy: bool,
    /// Of each shard, in bytes.
    pub(crate) disk_bytes: u64,
    pub(crate) store: store::Config,
    /// Of the pool, at first.
    pub(crate) pg_num: u32,
}

/// What happened in a world where all went well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Events, in all.
    pub events: u64,
    /// Requests of clients.
    pub requests: u64,
    /// Those that replicas answered.
    pub replica_answers: u64,
    /// Virtual time that passed.
    pub elapsed: Duration,
    /// Hash of all that happened, in order.
    pub fingerprint: u64,
    /// What broke, and when.
    pub story: Vec<String>,
}
