//! `PGMap`: all statistics as `ceph pg getmap` gives them to Ceph's own tools. Our OSDs report them in a form of their
//! own.
//!
//! Authority: `PGMap::encode`, `pg_stat_t`, `object_stat_sum_t`, `osd_stat_t`, `store_statfs_t` (16.2), and
//! `testdata/pg_map.bin`.

use std::collections::BTreeMap;

use codec::Codec;
use types::{EVersion, Epoch, OsdId, PgId, PoolId, UTime};

use crate::{ObjectStatCollection, StoreStatfs};

/// `PGMap`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 8, compat = 8)]
pub struct PgMap {
    /// Counts reports.
    pub version: u64,
    /// Every PG.
    pub pgs: BTreeMap<PgId, CephPgStat>,
    /// Every OSD that has reported.
    pub osds: BTreeMap<OsdId, CephOsdStat>,
    /// Zero: the monitors' part that used it is gone.
    pub last_osdmap_epoch: Epoch,
    /// Zero, too.
    pub last_pg_scan: Epoch,
    /// When the map was made.
    pub stamp: UTime,
    /// What pools take of OSDs.
    pub pools: BTreeMap<(PoolId, OsdId), StoreStatfs>,
}

/// `pg_stat_t`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 26, compat = 22)]
#[allow(missing_docs, reason = "Ceph's own names")]
pub struct CephPgStat {
    pub version: EVersion,
    pub reported_seq: u64,
    pub reported_epoch: Epoch,
    /// The lower half of the state's bits.
    pub state: u32,
    pub log_start: EVersion,
    pub ondisk_log_start: EVersion,
    pub created: Epoch,
    pub last_epoch_clean: Epoch,
    pub parent: PgId,
    pub parent_split_bits: u32,
    pub last_scrub: EVersion,
    pub last_scrub_stamp: UTime,
    pub stats: ObjectStatCollection,
    pub log_size: u64,
    pub ondisk_log_size: u64,
    pub up: Vec<OsdId>,
    pub acting: Vec<OsdId>,
    pub last_fresh: UTime,
    pub last_change: UTime,
    pub last_active: UTime,
    pub last_clean: UTime,
    pub last_unstale: UTime,
    pub mapping_epoch: Epoch,
    pub last_deep_scrub: EVersion,
    pub last_deep_scrub_stamp: UTime,
    pub stats_invalid: bool,
    pub last_clean_scrub_stamp: UTime,
    pub last_became_active: UTime,
    pub dirty_stats_invalid: bool,
    pub up_primary: OsdId,
    pub acting_primary: OsdId,
    pub omap_stats_invalid: bool,
    pub hitset_stats_invalid: bool,
    pub blocked_by: Vec<OsdId>,
    pub last_undegraded: UTime,
    pub last_fullsized: UTime,
    pub hitset_bytes_stats_invalid: bool,
    pub last_peered: UTime,
    pub last_became_peered: UTime,
    pub pin_stats_invalid: bool,
    pub snaptrimq_len: u32,
    /// The upper half of the state's bits.
    pub top_state: u32,
    pub purged_snaps: Vec<(u64, u64)>,
    pub manifest_stats_invalid: bool,
    /// Of replicated pools, neither this nor the next one says anything.
    pub avail_no_missing: u32,
    pub object_location_counts: u32,
}

/// `pow2_hist_t`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct Pow2Hist {
    /// Counts by power of two.
    pub counts: Vec<u32>,
}

/// `objectstore_perf_stat_t`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 2)]
#[allow(missing_docs, reason = "Ceph's own names")]
pub struct StorePerfStat {
    pub commit_latency_ns: u64,
    pub apply_latency_ns: u64,
}

/// `osd_stat_t`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 14, compat = 2)]
#[allow(missing_docs, reason = "Ceph's own names")]
pub struct CephOsdStat {
    pub kb: u64,
    pub kb_used: u64,
    pub kb_avail: u64,
    pub snap_trim_queue_len: u32,
    pub num_snap_trimming: u32,
    pub hb_peers: Vec<OsdId>,
    /// Of releases that pinged others than those.
    pub old_hb_out: u32,
    pub op_queue_age_hist: Pow2Hist,
    pub perf_stat: StorePerfStat,
    pub up_from: Epoch,
    pub seq: u64,
    pub num_pgs: u32,
    pub kb_used_data: u64,
    pub kb_used_omap: u64,
    pub kb_used_meta: u64,
    pub statfs: StoreStatfs,
    pub os_alerts: BTreeMap<u32, BTreeMap<String, String>>,
    pub num_shards_repaired: u64,
    pub num_osds: u32,
    pub num_per_pool_osds: u32,
    pub num_per_pool_omap_osds: u32,
    /// Measured pings: `dump_osd_network` has them.
    pub hb_pingtime: u32,
}

#[cfg(test)]
mod tests {
    use codec::{Decode, Encode, Features};
    use types::PgState;

    use super::*;

    #[test]
    fn the_map_of_a_stock_cluster_is_understood() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/pg_map.bin");
        let bytes = bytes::Bytes::from(std::fs::read(path).unwrap());
        let map = PgMap::from_bytes(bytes.clone()).unwrap();
        assert_eq!((map.version, map.pgs.len(), map.osds.len()), (596, 32, 1));
        assert!(map.pgs.values().all(|pg| PgState(pg.state.into()).has(PgState::CLEAN)));
        assert_eq!(map.osds[&OsdId(0)].kb, 6 << 20);
        // Stock monitors keep PGs in no order; all else is the same, byte for byte.
        let again = map.to_bytes(Features::PACIFIC);
        let pgs = bytes.len() - 379;
        assert!(again.len() == bytes.len() && again[pgs..] == bytes[pgs..], "another encoding");
        assert!(PgMap::from_bytes(again).is_ok_and(|again| again == map), "another map");
        for end in (0..bytes.len()).step_by(7) {
            assert!(PgMap::from_bytes(bytes.slice(..end)).is_err(), "{end} bytes");
        }
    }
}
