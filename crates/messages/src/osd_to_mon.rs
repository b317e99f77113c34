//! What OSDs and monitors say to each other. Encodings are ours; names are those of the Ceph messages
//! that play the same part.

use std::collections::BTreeMap;

use codec::Codec;
use types::{EntityAddrVec, Epoch, OsdId, OsdStat, PgId, PgInterval, PgStat, PoolId, PoolStatfs, Uuid};

use crate::{PerfValues, table::front_only};

/// An OSD is up and asks to be marked so.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MOSDBoot {
    /// The sender.
    pub osd: OsdId,
    /// The store's uuid; the OSD map must have it for this id.
    pub uuid: Uuid,
    /// Where clients reach it.
    pub public_addrs: EntityAddrVec,
    /// Where OSDs reach it.
    pub cluster_addrs: EntityAddrVec,
    /// Newest map that it has.
    pub newest_map: Epoch,
    /// Size of the device in bytes: the initial CRUSH weight is its TiB.
    pub device_bytes: u64,
    /// `ceph osd metadata`: hostname, arch, kernel, ….
    pub metadata: BTreeMap<String, String>,
    /// Message features.
    pub features: u64,
}
front_only!(MOSDBoot);

/// A primary that starts an interval asks that the map record that it was alive in it: no interval
/// counts as one that may have taken writes unless `up_thru` reached it.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MOSDAlive {
    /// The sender.
    pub osd: OsdId,
    /// The epoch that `up_thru` should reach.
    pub want: Epoch,
}
front_only!(MOSDAlive);

/// A primary names the OSDs that are to act in its PGs for a while; none where the up set is to act.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MOSDPGTemp {
    /// The OSD that asks.
    pub osd: OsdId,
    /// The acting sets.
    pub acting: BTreeMap<PgId, Vec<OsdId>>,
}
front_only!(MOSDPGTemp);

/// A heartbeat peer has not answered in time, or answers again.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub struct MOSDFailure {
    /// The OSD that reports.
    pub reporter: OsdId,
    /// The OSD that failed.
    pub target: OsdId,
    /// The `up_from` of the incarnation that failed.
    pub target_up_from: Epoch,
    /// False takes an earlier report back.
    pub is_failed: bool,
    /// True when no grace is needed: its socket refuses connections, or what was sent to it had to be dropped.
    pub is_immediate: bool,
    /// For how long, in milliseconds.
    pub failed_for_ms: u64,
    /// Newest map of the reporter.
    pub epoch: Epoch,
    /// With `is_immediate`: true if it may live and serve others. A socket that refuses connections is proof that it
    /// does not.
    #[codec(since = 2)]
    pub may_live: bool,
}
front_only!(MOSDFailure);

/// An OSD that stops in order asks to be marked down, or a monitor confirms it (`is_ack`).
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MOSDMarkMeDown {
    /// The sender.
    pub osd: OsdId,
    /// Newest map that it has.
    pub epoch: Epoch,
    /// True on the way back.
    pub is_ack: bool,
}
front_only!(MOSDMarkMeDown);

/// How long a heartbeat peer takes to answer.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerPing {
    /// The peer.
    pub osd: OsdId,
    /// The mean of the last minute, in microseconds.
    pub mean_1min_us: u32,
    /// Of the last 5 minutes.
    pub mean_5min_us: u32,
    /// Of the last 15 minutes.
    pub mean_15min_us: u32,
}

/// PG and device statistics, every few seconds and at each change of a PG's state. Also the beacon.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 6, compat = 1)]
pub struct MPGStats {
    /// The sender.
    pub osd: OsdId,
    /// Newest map that it has.
    pub epoch: Epoch,
    /// Its device.
    pub stat: OsdStat,
    /// PGs that it leads.
    pub pgs: Vec<PgStat>,
    /// What pools take of its device.
    #[codec(since = 2)]
    pub pool_stat: Vec<(PoolId, PoolStatfs)>,
    /// Requests that take longer than `osd_op_complaint_time`.
    #[codec(since = 3)]
    pub slow_ops: u32,
    /// For how many seconds the oldest of them has been there.
    #[codec(since = 3)]
    pub oldest_slow_op_sec: u32,
    /// What it has counted since its start or the last reset, by name: the useful ones of [`crate::OSD_PERF`].
    #[codec(since = 4)]
    pub perf: PerfValues,
    /// Which report this is: the epoch in which the OSD came up in the upper half, and below it how many reports
    /// it has made.
    #[codec(since = 5)]
    pub seq: u64,
    /// Its heartbeat peers, as far as they answered lately.
    #[codec(since = 6)]
    pub pings: Vec<PeerPing>,
}
front_only!(MPGStats);

/// A PG to be made.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct PgCreation {
    /// Which one.
    pub pgid: PgId,
    /// The epoch in which its pool came to be, or in which an operator had it made anew.
    pub created: Epoch,
    /// Intervals since then that may have taken writes: an OSD may have made the PG, and not have reported it.
    pub intervals: Vec<PgInterval>,
}

/// To the primary of PGs that are not known to exist: make them. Repeated until a report shows them active.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 2)]
pub struct MOSDPGCreate {
    /// Map epoch that the receiver needs first.
    pub epoch: Epoch,
    /// The PGs.
    pub pgs: Vec<PgCreation>,
}
front_only!(MOSDPGCreate);

/// Monitor to OSD: recover these PGs, which it leads, before others, or as others again (`MOSDForceRecovery`).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MOSDForceRecovery {
    /// Map epoch in which the receiver leads them.
    pub epoch: Epoch,
    /// Which.
    pub pgs: Vec<PgId>,
    /// True where an operator calls it backfill.
    pub is_backfill: bool,
    /// False to take it back.
    pub is_forced: bool,
}
front_only!(MOSDForceRecovery);

/// The monitor wants to know what clients do with each RBD image. Sent again and again while it does.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MOSDImageQuery {
    /// For so long from now on.
    pub seconds: u32,
}
front_only!(MOSDImageQuery);

/// An RBD image.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[codec(version = 1, compat = 1)]
pub struct ImageKey {
    /// The pool of its header.
    pub pool: PoolId,
    /// The namespace.
    pub nspace: String,
    /// Its id.
    pub id: String,
}

/// What clients did with its data objects.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct ImageCounts {
    /// Requests that may change something.
    pub writes: u64,
    /// Requests that only read.
    pub reads: u64,
    /// Bytes that came with writes.
    pub write_bytes: u64,
    /// Bytes that reads gave.
    pub read_bytes: u64,
    /// Nanoseconds from a write's arrival to its answer, all together.
    pub write_ns: u64,
    /// Nanoseconds from a read's arrival to its answer, all together.
    pub read_ns: u64,
}

/// What an OSD has counted since its last report.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MOSDImageStats {
    /// The sender.
    pub osd: OsdId,
    /// By image.
    pub images: BTreeMap<ImageKey, ImageCounts>,
}
front_only!(MOSDImageStats);
