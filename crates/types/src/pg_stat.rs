//! What an OSD tells the monitors of its PGs and of itself. Encodings are ours: no client sees them.

use codec::Codec;

use crate::{EVersion, Epoch, IntervalSet, OsdId, PgId, ScrubHistory, UTime};

/// `PG_STATE_*` bits, with Ceph's names (osd/osd_types.h).
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PgState(pub u64);

macro_rules! pg_states {
    ($($name:ident = $bit:literal, $text:literal;)*) => {
        #[allow(missing_docs, reason = "Ceph's own names")]
        impl PgState { $(pub const $name: PgState = PgState(1 << $bit);)* }
        const NAMES: &[(PgState, &str)] = &[$((PgState::$name, $text),)*];
    };
}

// In the order in which Ceph joins the names.
pg_states! {
    STALE = 17, "stale";
    CREATING = 0, "creating";
    ACTIVE = 1, "active";
    ACTIVATING = 24, "activating";
    CLEAN = 2, "clean";
    RECOVERY_WAIT = 22, "recovery_wait";
    RECOVERY_TOOFULL = 28, "recovery_toofull";
    RECOVERING = 14, "recovering";
    FORCED_RECOVERY = 30, "forced_recovery";
    DOWN = 4, "down";
    RECOVERY_UNFOUND = 5, "recovery_unfound";
    UNDERSIZED = 23, "undersized";
    DEGRADED = 10, "degraded";
    REMAPPED = 18, "remapped";
    PREMERGE = 7, "premerge";
    SCRUBBING = 8, "scrubbing";
    DEEP_SCRUB = 9, "deep";
    INCONSISTENT = 11, "inconsistent";
    PEERING = 12, "peering";
    REPAIR = 13, "repair";
    BACKFILL_WAIT = 15, "backfill_wait";
    BACKFILLING = 20, "backfilling";
    FORCED_BACKFILL = 31, "forced_backfill";
    BACKFILL_TOOFULL = 21, "backfill_toofull";
    INCOMPLETE = 16, "incomplete";
    PEERED = 25, "peered";
    SNAPTRIM = 26, "snaptrim";
    SNAPTRIM_WAIT = 27, "snaptrim_wait";
    FAILED_REPAIR = 32, "failed_repair";
    LAGGY = 33, "laggy";
}

impl PgState {
    /// True when every bit of `other` is set.
    pub fn has(self, other: PgState) -> bool {
        self.0 & other.0 == other.0
    }

    /// This with the bits of `other`.
    pub fn with(self, other: PgState) -> PgState {
        PgState(self.0 | other.0)
    }
}

/// `active+clean`; `unknown` without any bit.
impl std::fmt::Display for PgState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == 0 {
            return f.write_str("unknown");
        }
        let names: Vec<&str> =
            NAMES.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, text)| *text).collect();
        f.write_str(&names.join("+"))
    }
}

/// What a PG holds and has done (`object_stat_sum_t`). Totals since the PG was made; rates are
/// differences of two reports.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 3, compat = 1)]
pub struct PgStatSum {
    /// Bytes of object data (heads and clones).
    pub bytes: u64,
    /// Objects, clones included.
    pub objects: u64,
    /// Clones.
    pub clones: u64,
    /// Copies that should exist: objects × size.
    pub object_copies: u64,
    /// Objects missing on the primary.
    pub missing_on_primary: u64,
    /// Missing copies.
    pub degraded: u64,
    /// Copies in the wrong place.
    pub misplaced: u64,
    /// Objects of which no copy was found.
    pub unfound: u64,
    /// Bytes of omap values at the last deep scrub.
    pub omap_bytes: u64,
    /// Omap keys.
    pub omap_keys: u64,
    /// Client reads.
    pub reads: u64,
    /// Bytes read by clients.
    pub read_bytes: u64,
    /// Client writes.
    pub writes: u64,
    /// Bytes written by clients.
    pub write_bytes: u64,
    /// Objects recovered.
    pub objects_recovered: u64,
    /// Bytes recovered.
    pub bytes_recovered: u64,
    /// Errors that the last scrub found by comparing what copies say of objects.
    #[codec(since = 2)]
    pub shallow_scrub_errors: u64,
    /// Errors that the last deep scrub found in contents.
    #[codec(since = 2)]
    pub deep_scrub_errors: u64,
    /// Objects of which a bad copy was replaced.
    #[codec(since = 2)]
    pub objects_repaired: u64,
    /// Objects with a large omap at the last deep scrub.
    #[codec(since = 3)]
    pub large_omap_objects: u64,
}

/// When a PG was last in other states than those that [`PgStat`] had from the start.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PgTimes {
    /// Last time active or peered.
    pub peered: UTime,
    /// Last time with all that its copies should have.
    pub undegraded: UTime,
    /// Last time with as many copies as its pool wants.
    pub fullsized: UTime,
    /// When it got active, the last time.
    pub became_active: UTime,
    /// When it got active or peered, the last time.
    pub became_peered: UTime,
}

impl PgTimes {
    /// As if it had been in all states at one moment.
    pub fn at(moment: UTime) -> PgTimes {
        PgTimes {
            peered: moment,
            undegraded: moment,
            fullsized: moment,
            became_active: moment,
            became_peered: moment,
        }
    }

    /// The later ones of both.
    #[must_use]
    pub fn max(self, other: PgTimes) -> PgTimes {
        PgTimes {
            peered: self.peered.max(other.peered),
            undegraded: self.undegraded.max(other.undegraded),
            fullsized: self.fullsized.max(other.fullsized),
            became_active: self.became_active.max(other.became_active),
            became_peered: self.became_peered.max(other.became_peered),
        }
    }
}

/// One PG as its primary reports it (`pg_stat_t`).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 6, compat = 1)]
pub struct PgStat {
    /// The PG.
    pub pgid: PgId,
    /// Its state.
    pub state: PgState,
    /// The newest change.
    pub version: EVersion,
    /// Map epoch of the report.
    pub reported_epoch: Epoch,
    /// Counts reports within an epoch.
    pub reported_seq: u64,
    /// Up set.
    pub up: Vec<OsdId>,
    /// Acting set.
    pub acting: Vec<OsdId>,
    /// First of `up`.
    pub up_primary: OsdId,
    /// First of `acting`.
    pub acting_primary: OsdId,
    /// The oldest log entry's version.
    pub log_start: EVersion,
    /// Log entries.
    pub log_size: u64,
    /// Epoch of the pool's creation for this PG.
    pub created: Epoch,
    /// Last epoch in which it was clean.
    pub last_epoch_clean: Epoch,
    /// When the current interval started.
    pub mapping_epoch: Epoch,
    /// Time of the report.
    pub last_fresh: UTime,
    /// Last change of state.
    pub last_change: UTime,
    /// Last time active.
    pub last_active: UTime,
    /// Last time clean.
    pub last_clean: UTime,
    /// Snapshots waiting to be trimmed.
    pub snaptrimq_len: u64,
    /// Contents and activity.
    pub sum: PgStatSum,
    /// When it was scrubbed.
    #[codec(since = 2)]
    pub scrubs: ScrubHistory,
    /// OSDs that it waits for while it peers.
    #[codec(since = 3)]
    pub blocked_by: Vec<OsdId>,
    /// Removed snapshots of the map's queue that it has trimmed.
    #[codec(since = 4)]
    pub purged_snaps: IntervalSet,
    /// Members of the acting set that lack objects.
    #[codec(since = 5)]
    pub lacking: Vec<OsdId>,
    /// When it was last in other states.
    #[codec(since = 6)]
    pub times: PgTimes,
}

impl PgStat {
    /// No map before this epoch matters to the PG any more (`pg_stat_t::get_effective_last_epoch_clean`).
    pub fn effective_last_epoch_clean(&self) -> Epoch {
        if self.state.has(PgState::CLEAN) { self.reported_epoch } else { self.last_epoch_clean }
    }
}

impl Default for OsdId {
    fn default() -> Self {
        OsdId::NONE
    }
}

/// What a pool takes of an OSD, in bytes: the part of `store_statfs_t` that is counted pool by pool.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStatfs {
    /// Allocated on the device; what objects share counts once.
    pub allocated: u64,
    /// Data that objects have: without holes, what they share once for each.
    pub data_stored: u64,
    /// Held by omap.
    pub omap_allocated: u64,
}

impl PoolStatfs {
    /// Sum of two. An OSD may report any number.
    pub fn plus(self, other: PoolStatfs) -> PoolStatfs {
        PoolStatfs {
            allocated: self.allocated.saturating_add(other.allocated),
            data_stored: self.data_stored.saturating_add(other.data_stored),
            omap_allocated: self.omap_allocated.saturating_add(other.omap_allocated),
        }
    }
}

/// An OSD's device and its latencies (`osd_stat_t`).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub struct OsdStat {
    /// Device size in KiB.
    pub kb: u64,
    /// KiB used by anything.
    pub kb_used: u64,
    /// KiB used by object data.
    pub kb_used_data: u64,
    /// KiB used by omap.
    pub kb_used_omap: u64,
    /// KiB used by journal and index.
    pub kb_used_meta: u64,
    /// KiB free.
    pub kb_avail: u64,
    /// Mean commit latency since the last report, in ns.
    pub commit_latency_ns: u64,
    /// Mean apply latency since the last report, in ns.
    pub apply_latency_ns: u64,
    /// PGs that it holds.
    pub pg_count: u32,
    /// PGs that it leads.
    pub primary_pg_count: u32,
    /// OSDs that it exchanges heartbeats with.
    pub heartbeat_peers: Vec<OsdId>,
    /// Unreadable copies that were replaced from another OSD's, since it started.
    #[codec(since = 2)]
    pub copies_repaired: u64,
}
