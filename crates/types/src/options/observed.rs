//! Which daemons go by which options while they run. `docs/compatibility.md` has the same list; a test compares the
//! two.

use crate::EntityType;

/// Options that a running OSD looks at.
pub(super) const OSD: [&str; 44] = [
    "bluestore_cache_size",
    "debug_ms",
    "debug_osd",
    // How long a heartbeat takes that `dump_osd_network` shows. What decides is fixed.
    "mon_warn_on_slow_ping_ratio",
    "mon_warn_on_slow_ping_time",
    "osd_aggregated_slow_ops_logging",
    "osd_async_recovery_min_cost",
    "osd_bench_duration",
    "osd_bench_large_size_max_throughput",
    "osd_bench_max_block_size",
    "osd_bench_small_size_max_iops",
    "osd_deep_scrub_interval",
    "osd_deep_scrub_large_omap_object_key_threshold",
    "osd_deep_scrub_large_omap_object_value_sum_threshold",
    "osd_deep_scrub_randomize_ratio",
    "osd_deep_scrub_stride",
    "osd_enable_op_tracker",
    "osd_heartbeat_grace",
    "osd_max_scrubs",
    "osd_memory_target",
    "osd_op_complaint_time",
    "osd_op_history_duration",
    "osd_op_history_size",
    "osd_op_history_slow_op_size",
    "osd_op_history_slow_op_threshold",
    "osd_op_log_threshold",
    "osd_recovery_max_active",
    "osd_recovery_max_active_ssd",
    "osd_recovery_max_chunk",
    "osd_scrub_auto_repair",
    "osd_scrub_auto_repair_num_errors",
    "osd_scrub_begin_hour",
    "osd_scrub_begin_week_day",
    "osd_scrub_chunk_max",
    "osd_scrub_chunk_min",
    "osd_scrub_during_recovery",
    "osd_scrub_end_hour",
    "osd_scrub_end_week_day",
    "osd_scrub_extended_sleep",
    "osd_scrub_interval_randomize_ratio",
    "osd_scrub_max_interval",
    "osd_scrub_max_preemptions",
    "osd_scrub_min_interval",
    "osd_scrub_sleep",
];

/// Options that a running monitor looks at.
pub(super) const MON: [&str; 37] = [
    "debug_mon",
    "debug_ms",
    "mon_allow_pool_delete",
    "mon_allow_pool_size_one",
    "mon_auth_allow_insecure_key",
    "mon_debug_deprecated_as_obsolete",
    "mon_max_pg_per_osd",
    "mon_min_osdmap_epochs",
    "mon_op_history_duration",
    "mon_op_history_size",
    "mon_op_history_slow_op_size",
    "mon_op_history_slow_op_threshold",
    "mon_osd_down_out_interval",
    "mon_osd_down_out_subtree_limit",
    "mon_osd_min_down_reporters",
    "mon_osd_min_in_ratio",
    "mon_osd_min_up_ratio",
    "mon_osd_report_timeout",
    "mon_osd_reporter_subtree_level",
    "mon_pg_stuck_threshold",
    "mon_pg_warn_max_object_skew",
    "mon_pg_warn_min_objects",
    "mon_pg_warn_min_pool_objects",
    "mon_warn_on_misplaced",
    "mon_warn_on_osd_down_out_interval_zero",
    "mon_warn_on_pool_no_redundancy",
    "mon_warn_on_pool_pg_num_not_power_of_two",
    "mon_warn_on_slow_ping_ratio",
    "mon_warn_on_slow_ping_time",
    "mon_warn_pg_not_deep_scrubbed_ratio",
    "mon_warn_pg_not_scrubbed_ratio",
    "osd_deep_scrub_interval",
    "osd_heartbeat_grace",
    "osd_pool_default_min_size",
    "osd_pool_default_pg_num",
    "osd_pool_default_size",
    "osd_scrub_max_interval",
];

/// True for an option that a running daemon of this kind goes by.
pub fn is_observed(who: EntityType, name: &str) -> bool {
    let names: &[&str] = match who {
        EntityType::OSD => &OSD,
        EntityType::MON => &MON,
        _ => &[],
    };
    names.contains(&name)
}
