//! `dump_scrubs`, `dump_scrub_reservations`: which PGs are to be scrubbed when, and which scrub slots are taken.
//!
//! Authority: `OSD::asok_command`, `OSD::dumps_scrub_jobs` (16.2).

use serde_json::{Value, json};

use crate::Osd;

/// The scrubs to come of the PGs that this shard leads.
pub(super) fn jobs(osd: &Osd) -> Value {
    let jobs = osd.pgs.primaries().filter_map(|pg| {
        let (times, is_forced) = pg.scrub_times(&osd.scrub_policy, &osd.map)?;
        Some(json!({
            "pgid": pg.pgid().to_string(),
            "sched_time": times.due.to_string(),
            "deadline": times.deadline.unwrap_or_default().to_string(),
            "forced": is_forced,
        }))
    });
    jobs.collect()
}

/// The jobs of all shards, the next one first.
pub(super) fn merge_jobs(parts: Vec<Value>) -> Value {
    let mut all: Vec<Value> =
        parts.into_iter().filter_map(|part| part.as_array().cloned()).flatten().collect();
    all.sort_by_key(|job| job["sched_time"].as_str().unwrap_or_default().to_owned());
    all.into()
}

/// The slots that this shard's PGs have, as primaries and as replicas.
pub(super) fn reservations(osd: &Osd) -> Value {
    let (local, remote) =
        osd.pgs.all().map(pg::Pg::scrub_slots).fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    json!({"scrubs_local": local, "scrubs_remote": remote, "osd_max_scrubs": osd.scrub_policy.max_scrubs})
}

/// The slots of all shards.
pub(super) fn merge_reservations(parts: Vec<Value>) -> Value {
    let sum = |name: &str| parts.iter().filter_map(|part| part[name].as_u64()).sum::<u64>();
    let max = parts.first().map_or(Value::Null, |part| part["osd_max_scrubs"].clone());
    json!({"scrubs_local": sum("scrubs_local"), "scrubs_remote": sum("scrubs_remote"), "osd_max_scrubs": max})
}
