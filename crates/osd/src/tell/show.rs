//! What an OSD says of itself.

use serde_json::{Value, json};
use types::Errno;

use super::{Answer, Call};
use crate::{OpCounts, Osd, osd::Cx};

/// What this OSD calls itself: Ceph's form, so that clients read a version.
const VERSION: &str = concat!("16.2.15-loligo-", env!("CARGO_PKG_VERSION"));

pub(super) fn uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

pub(super) fn version(_: &mut Osd, _: &Call, _: &mut Cx<'_>) -> Answer {
    Ok(Some(json!({"version": VERSION, "release": "pacific", "release_type": "stable"})))
}

/// Every command with what it does.
pub(super) fn help(_: &mut Osd, _: &Call, _: &mut Cx<'_>) -> Answer {
    let shown = super::rows().filter(|row| !row.help.is_empty());
    Ok(Some(Value::Object(shown.map(|row| (row.prefix().to_owned(), row.help.into())).collect())))
}

/// As a Ceph that is built without tcmalloc.
pub(super) fn heap(_: &mut Osd, _: &Call, _: &mut Cx<'_>) -> Answer {
    Err((Errno::EINVAL, "tcmalloc not enabled, can't use heap profiler commands\n".to_owned()))
}

/// There is nothing to do: checkpoints write the index pages that changed whole.
pub(super) fn compact(_: &mut Osd, _: &Call, _: &mut Cx<'_>) -> Answer {
    Ok(Some(json!({"elapsed_time": 0.0})))
}

pub(super) fn status(osd: &mut Osd, _: &Call, _: &mut Cx<'_>) -> Answer {
    Ok(Some(json!({
        "cluster_fsid": uuid(&osd.config.fsid),
        "osd_fsid": uuid(&osd.config.uuid),
        "whoami": osd.config.whoami.0,
        "state": osd.boot.name(),
        "oldest_map": osd.maps.oldest.0,
        "cluster_osdmap_trim_lower_bound": osd.maps.oldest.0,
        "newest_map": osd.maps.newest.0,
        "num_pgs": osd.pg_count(),
    })))
}

pub(super) fn perf_dump(osd: &mut Osd, call: &Call, cx: &mut Cx<'_>) -> Answer {
    let usage = osd.usage(cx);
    let reports = osd.control.reports().map(|report| report.served);
    let served: OpCounts = reports.chain([osd.pgs.served()]).sum();
    let mut all = json!({
        "osd": {
            "op": served.reads + served.writes,
            "op_in_bytes": served.write_bytes,
            "op_out_bytes": served.read_bytes,
            "op_r": served.reads,
            "op_r_out_bytes": served.read_bytes,
            "op_w": served.writes,
            "op_w_in_bytes": served.write_bytes,
            "op_wip": osd.held.ops() + osd.control.reports().map(|report| report.ops).sum::<u64>(),
            "numpg": osd.pg_count(),
            "numpg_primary": osd.primary_pg_count(),
            "heartbeat_to_peers": osd.heartbeat.peers().count(),
            "stat_bytes": usage.total_bytes,
            "stat_bytes_used": usage.total_bytes.saturating_sub(usage.available_bytes),
            "stat_bytes_avail": usage.available_bytes,
        },
    });
    keep_asked(&mut all, call.text("logger").as_deref(), call.text("counter").as_deref());
    Ok(Some(all))
}

/// Leaves of all counters those that were asked for (`PerfCountersCollectionImpl::dump_formatted_generic`).
fn keep_asked(all: &mut Value, logger: Option<&str>, counter: Option<&str>) {
    let Some(loggers) = all.as_object_mut() else { return };
    loggers.retain(|name, _| logger.is_none_or(|wanted| wanted.is_empty() || wanted == name));
    for counters in loggers.values_mut().filter_map(Value::as_object_mut) {
        counters.retain(|name, _| counter.is_none_or(|wanted| wanted.is_empty() || wanted == name));
    }
}

/// Reports at once. Ceph answers the number of the report, with which a caller asks the monitor whether it
/// has come; reports have no numbers here, and are sent before the answer.
pub(super) fn flush_pg_stats(osd: &mut Osd, call: &Call, cx: &mut Cx<'_>) -> Answer {
    if osd.config.shard.count > 1 {
        osd.flush_shards(call.clone(), cx);
        return Ok(None);
    }
    osd.stats_due = cx.now;
    osd.send_stats_if_due(cx);
    Ok(Some(Value::Null))
}

impl Osd {
    /// All shards have reported: so does the OSD, and answers.
    pub(crate) fn finish_flush(&mut self, call: Call, cx: &mut Cx<'_>) {
        self.stats_due = cx.now;
        self.send_stats_if_due(cx);
        self.answer_tell(&call, Ok(Some(Value::Null)), cx);
    }
}
