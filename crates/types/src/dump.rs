//! PG statistics as JSON, under Ceph's keys: monitors and OSDs show the same documents.
//!
//! Authority: `object_stat_sum_t::dump`, `pg_stat_t::dump`, `pg_info_t::dump` (16.2).

use serde_json::{Map, Value, json};

use crate::{EVersion, IntervalSet, OsdId, PgId, PgInfo, PgStat, PgStatSum};

/// Four spaces a level, as `json-pretty` is.
pub fn pretty(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    // Line breaks inside of strings are escaped, so spaces at the start of a line are indentation.
    let widen = |line: &str| {
        let body = line.trim_start_matches(' ');
        format!("{}{body}", " ".repeat((line.len() - body.len()) * 2))
    };
    text.lines().map(widen).collect::<Vec<_>>().join("\n")
}

fn ids(osds: &[OsdId]) -> Vec<i32> {
    osds.iter().map(|osd| osd.0).collect()
}

impl PgStatSum {
    /// `object_stat_sum_t`.
    pub fn dump(&self) -> Value {
        let mut out = Map::new();
        let known = [
            ("num_bytes", self.bytes),
            ("num_objects", self.objects),
            ("num_object_clones", self.clones),
            ("num_object_copies", self.object_copies),
            ("num_objects_missing_on_primary", self.missing_on_primary),
            ("num_objects_missing", 0),
            ("num_objects_degraded", self.degraded),
            ("num_objects_misplaced", self.misplaced),
            ("num_objects_unfound", self.unfound),
            ("num_objects_dirty", 0),
            ("num_whiteouts", 0),
            ("num_read", self.reads),
            ("num_read_kb", self.read_bytes >> 10),
            ("num_write", self.writes),
            ("num_write_kb", self.write_bytes >> 10),
            ("num_scrub_errors", self.shallow_scrub_errors.saturating_add(self.deep_scrub_errors)),
            ("num_shallow_scrub_errors", self.shallow_scrub_errors),
            ("num_deep_scrub_errors", self.deep_scrub_errors),
            ("num_objects_recovered", self.objects_recovered),
            ("num_bytes_recovered", self.bytes_recovered),
            ("num_keys_recovered", 0),
            ("num_objects_omap", 0),
        ];
        out.extend(known.map(|(name, value)| (name.to_owned(), value.into())));
        // Cache tiers and the like, which do not exist here.
        let unused = [
            "num_objects_hit_set_archive",
            "num_bytes_hit_set_archive",
            "num_flush",
            "num_flush_kb",
            "num_evict",
            "num_evict_kb",
            "num_promote",
            "num_flush_mode_high",
            "num_flush_mode_low",
            "num_evict_mode_some",
            "num_evict_mode_full",
            "num_objects_pinned",
            "num_legacy_snapsets",
            "num_objects_manifest",
        ];
        out.extend(unused.map(|name| (name.to_owned(), 0.into())));
        out.insert("num_large_omap_objects".to_owned(), self.large_omap_objects.into());
        out.insert("num_omap_bytes".to_owned(), self.omap_bytes.into());
        out.insert("num_omap_keys".to_owned(), self.omap_keys.into());
        out.insert("num_objects_repaired".to_owned(), self.objects_repaired.into());
        out.into()
    }
}

impl PgStat {
    /// `pg_stat_t`, without the PG's id.
    pub fn dump(&self) -> Map<String, Value> {
        let fresh = self.last_fresh.to_string();
        let times = &self.times;
        let history = json!({
            "version": self.version.to_string(),
            "reported_seq": self.reported_seq,
            "reported_epoch": self.reported_epoch.0,
            "state": self.state.to_string(),
            "last_fresh": fresh,
            "last_change": self.last_change.to_string(),
            "last_active": self.last_active.to_string(),
            "last_peered": times.peered.to_string(),
            "last_clean": self.last_clean.to_string(),
            "last_became_active": times.became_active.to_string(),
            "last_became_peered": times.became_peered.to_string(),
            "last_unstale": fresh,
            "last_undegraded": times.undegraded.to_string(),
            "last_fullsized": times.fullsized.to_string(),
            "mapping_epoch": self.mapping_epoch.0,
            "log_start": self.log_start.to_string(),
            "ondisk_log_start": self.log_start.to_string(),
            "created": self.created.0,
            "last_epoch_clean": self.last_epoch_clean.0,
            "parent": "0.0",
            "parent_split_bits": 0,
        });
        let rest = json!({
            "last_scrub": self.scrubs.last_scrub.to_string(),
            "last_scrub_stamp": self.scrubs.last_scrub_stamp.to_string(),
            "last_deep_scrub": self.scrubs.last_deep_scrub.to_string(),
            "last_deep_scrub_stamp": self.scrubs.last_deep_scrub_stamp.to_string(),
            "last_clean_scrub_stamp": self.scrubs.last_clean_scrub_stamp.to_string(),
            "log_size": self.log_size,
            "ondisk_log_size": self.log_size,
            "stats_invalid": false,
            "dirty_stats_invalid": false,
            "omap_stats_invalid": false,
            "hitset_stats_invalid": false,
            "hitset_bytes_stats_invalid": false,
            "pin_stats_invalid": false,
            "manifest_stats_invalid": false,
            "snaptrimq_len": self.snaptrimq_len,
            "stat_sum": self.sum.dump(),
            "up": ids(&self.up),
            "acting": ids(&self.acting),
            "avail_no_missing": [],
            "object_location_counts": [],
            "blocked_by": ids(&self.blocked_by),
            "up_primary": self.up_primary.0,
            "acting_primary": self.acting_primary.0,
            "purged_snaps": snaps(&self.purged_snaps),
        });
        let parts = [history, rest].into_iter().filter_map(|part| part.as_object().cloned());
        parts.flatten().collect()
    }
}

/// Snapshots as `[{start, length}]`.
fn snaps(set: &IntervalSet) -> Vec<Value> {
    set.iter()
        .map(|(start, length)| json!({"start": start.to_string(), "length": length.to_string()}))
        .collect()
}

/// What [`PgInfo::dump`] shows beside the info itself.
#[derive(Clone, Copy, Debug)]
pub struct PgInfoContext<'a> {
    /// The PG.
    pub pgid: PgId,
    /// Statistics of this copy; none of a peer's are known.
    pub stat: &'a PgStat,
    /// The first epoch of the current interval (`same_interval_since`).
    pub since: u32,
    /// Since when the primary leads (`same_primary_since`).
    pub primary_since: u32,
}

impl PgInfo {
    /// `pg_info_t`.
    pub fn dump(&self, context: &PgInfoContext<'_>) -> Map<String, Value> {
        // A copy that lacks nothing is complete up to its newest change.
        let complete = if self.missing_count == 0 { self.last_update } else { EVersion::ZERO };
        let history = json!({
            "epoch_created": self.created.0,
            "epoch_pool_created": self.created.0,
            "last_epoch_started": self.last_epoch_started.0,
            "last_interval_started": self.last_epoch_started.0,
            "last_epoch_clean": self.last_epoch_clean.0,
            "last_interval_clean": self.last_epoch_clean.0,
            "last_epoch_split": self.last_epoch_split.0,
            "last_epoch_marked_full": 0,
            "same_up_since": context.since,
            "same_interval_since": context.since,
            "same_primary_since": context.primary_since,
            "last_scrub": self.scrubs.last_scrub.to_string(),
            "last_scrub_stamp": self.scrubs.last_scrub_stamp.to_string(),
            "last_deep_scrub": self.scrubs.last_deep_scrub.to_string(),
            "last_deep_scrub_stamp": self.scrubs.last_deep_scrub_stamp.to_string(),
            "last_clean_scrub_stamp": self.scrubs.last_clean_scrub_stamp.to_string(),
            "prior_readable_until_ub": 0,
        });
        let out = json!({
            "pgid": context.pgid.to_string(),
            "last_update": self.last_update.to_string(),
            "last_complete": complete.to_string(),
            "log_tail": self.log_tail.to_string(),
            "last_user_version": self.last_user_version,
            "last_backfill": "MAX",
            "purged_snaps": snaps(&self.purged_snaps),
            "history": history,
            "stats": context.stat.dump(),
            "empty": i32::from(self.last_update == EVersion::ZERO),
            "dne": i32::from(self.created.0 == 0),
            "incomplete": 0,
            "last_epoch_started": self.last_epoch_started.0,
            "hit_set_history": {"current_last_update": "0'0", "history": []},
        });
        out.as_object().cloned().unwrap_or_default()
    }
}
