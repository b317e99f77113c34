//! `pool_stat_t` and what is in it (osd/osd_types.h), as clients read it for `rados df`.

use std::collections::BTreeMap;

use codec::Codec;

/// `object_stat_sum_t`, version 20.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 20, compat = 14)]
#[allow(missing_docs, reason = "Ceph's own names say it")]
pub struct ObjectStatSum {
    pub num_bytes: i64,
    pub num_objects: i64,
    pub num_object_clones: i64,
    pub num_object_copies: i64,
    pub num_objects_missing_on_primary: i64,
    pub num_objects_degraded: i64,
    pub num_objects_unfound: i64,
    pub num_rd: i64,
    pub num_rd_kb: i64,
    pub num_wr: i64,
    pub num_wr_kb: i64,
    pub num_scrub_errors: i64,
    pub num_objects_recovered: i64,
    pub num_bytes_recovered: i64,
    pub num_keys_recovered: i64,
    pub num_shallow_scrub_errors: i64,
    pub num_deep_scrub_errors: i64,
    pub num_objects_dirty: i64,
    pub num_whiteouts: i64,
    pub num_objects_omap: i64,
    pub num_objects_hit_set_archive: i64,
    pub num_objects_misplaced: i64,
    pub num_bytes_hit_set_archive: i64,
    pub num_flush: i64,
    pub num_flush_kb: i64,
    pub num_evict: i64,
    pub num_evict_kb: i64,
    pub num_promote: i64,
    pub num_flush_mode_high: i32,
    pub num_flush_mode_low: i32,
    pub num_evict_mode_some: i32,
    pub num_evict_mode_full: i32,
    pub num_objects_pinned: i64,
    pub num_objects_missing: i64,
    pub num_legacy_snapsets: i64,
    pub num_large_omap_objects: i64,
    pub num_objects_manifest: i64,
    pub num_omap_bytes: i64,
    pub num_omap_keys: i64,
    pub num_objects_repaired: i64,
}

/// `object_stat_collection_t`, version 2.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 2)]
pub struct ObjectStatCollection {
    /// All objects.
    pub sum: ObjectStatSum,
    /// Retired: by category.
    pub by_category: BTreeMap<String, ObjectStatSum>,
}

/// `store_statfs_t`, version 1: bytes.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
#[allow(missing_docs, reason = "Ceph's own names say it")]
pub struct StoreStatfs {
    pub total: u64,
    pub available: u64,
    pub internally_reserved: u64,
    pub allocated: i64,
    pub data_stored: i64,
    pub data_compressed: i64,
    pub data_compressed_allocated: i64,
    pub data_compressed_original: i64,
    pub omap_allocated: i64,
    pub internal_metadata: i64,
}

/// `pool_stat_t`, version 7.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 7, compat = 5)]
pub struct PoolStat {
    /// Objects and activity.
    pub stats: ObjectStatCollection,
    /// Entries of the PG logs.
    pub log_size: i64,
    /// Entries of the PG logs on disk.
    pub ondisk_log_size: i64,
    /// Members of up sets.
    pub up: i32,
    /// Members of acting sets.
    pub acting: i32,
    /// Space.
    pub store_stats: StoreStatfs,
    /// OSDs that reported for the pool.
    pub num_store_stats: u32,
}
