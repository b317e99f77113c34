//! How a world is made, and what is told of it.

use std::{collections::BTreeSet, time::Duration};

use rand::Rng;
use store::DeviceSizes;

use crate::canary::Canary;

/// How a world is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// True for disks that say that unflushed writes are durable: a world that must lose data.
    pub is_disk_lying: bool,
    /// True for a world whose pool begins with many PGs, and gets fewer, or more, again and again.
    pub is_resized: bool,
    /// Copies in a pool that takes writes with one of them, in a world where PGs move to other OSDs all the time, and
    /// no device fails. None for a pool of three that takes writes with two.
    pub copies: Option<u8>,
    /// True for a world with small devices, which clients fill: OSDs and pools become full.
    pub is_full: bool,
    /// True for a world whose clients also list the pool, watch objects and notify each other.
    pub has_watchers: bool,
    /// A fault that all OSDs have: such a world must lose data, or show the fault.
    pub canary: Option<Canary>,
}

impl Options {
    /// A world as most are.
    pub fn new(seed: u64) -> Options {
        Options {
            seed,
            is_disk_lying: false,
            is_resized: false,
            copies: None,
            is_full: false,
            has_watchers: false,
            canary: None,
        }
    }
}

/// Of each shard's main device, in bytes, unless the world is of another scale.
const DISK_BYTES: u64 = 64 << 20;
/// Of each shard's in a world whose devices become full: enough for all that clients make there at once, so that a
/// store does not have to wait for room where the monitor is not there to stop clients, nor a merge that writes a full
/// log. On the smallest ones, what cannot be removed may be more than the operator allows at first.
const SMALL_DISK_BYTES: [u64; 3] = [20 << 20, 22 << 20, 24 << 20];
/// Of a journal's device.
const JOURNAL_DEVICE_BYTES: u64 = 2 << 20;
/// Of an index's device: in some worlds the index outgrows it.
const INDEX_DEVICE_BYTES: u64 = 1 << 20;

/// How large a world is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) osds: usize,
    /// Of each OSD.
    pub(crate) shards: u16,
    /// Others compute on the OSDs' CPUs, too.
    pub(crate) is_busy: bool,
    /// Of each shard's main device, in bytes.
    pub(crate) disk_bytes: u64,
    /// Of the last OSD's, if those are others.
    pub(crate) last_disk_bytes: Option<u64>,
    /// A bit for each OSD whose journals have devices of their own.
    pub(crate) journal_devices: u8,
    /// A bit for each OSD whose indexes have devices of their own.
    pub(crate) index_devices: u8,
    pub(crate) store: store::Config,
    /// Changes that a PG's log tells other copies of, if these are few.
    pub(crate) log_entries: Option<u64>,
    /// Of the pool, at first.
    pub(crate) pg_num: u32,
}

impl Scale {
    /// OSDs of one shard and one device each, with CPUs of their own.
    pub(crate) fn new(osds: usize, store: store::Config, pg_num: u32) -> Scale {
        Scale {
            osds,
            shards: 1,
            is_busy: false,
            disk_bytes: DISK_BYTES,
            last_disk_bytes: None,
            journal_devices: 0,
            index_devices: 0,
            store,
            log_entries: None,
            pg_num,
        }
    }

    /// One whose devices become full.
    pub(crate) fn small(self, rng: &mut impl Rng) -> Scale {
        Scale { disk_bytes: SMALL_DISK_BYTES[rng.random_range(0..3)], shards: 1, ..self }
    }

    /// Of each shard of an OSD.
    pub(crate) fn device_sizes(&self, osd: usize) -> DeviceSizes {
        let of = |osds: u8, bytes: u64| (osds >> osd & 1 == 1).then_some(bytes);
        DeviceSizes {
            main: self.last_disk_bytes.filter(|_| osd + 1 == self.osds).unwrap_or(self.disk_bytes),
            journal: of(self.journal_devices, JOURNAL_DEVICE_BYTES),
            index: of(self.index_devices, INDEX_DEVICE_BYTES),
        }
    }
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
    /// What happened that does not happen in every world.
    pub seen: BTreeSet<&'static str>,
    /// Virtual time that passed.
    pub elapsed: Duration,
    /// Hash of all that happened, in order.
    pub fingerprint: u64,
    /// What broke, and when.
    pub story: Vec<String>,
}
