//! What an OSD says of itself.

use serde_json::{Value, json};
use types::{DAEMON_VERSION, Errno};

use super::{Answer, Call};
use crate::{Osd, osd::Ctx};

pub(super) fn version(_: &mut Osd, _: &Call, _: &mut Ctx<'_>) -> Answer {
    Ok(Some(json!({"version": DAEMON_VERSION, "release": "pacific", "release_type": "stable"})))
}

/// Every command with what it does.
pub(super) fn help(_: &mut Osd, _: &Call, _: &mut Ctx<'_>) -> Answer {
    let shown = super::rows().filter(|row| !row.help.is_empty());
    Ok(Some(Value::Object(shown.map(|row| (row.prefix().to_owned(), row.help.into())).collect())))
}

/// Refuses in the words of a Ceph that is built without tcmalloc, with the errno that Ceph's own tests know.
pub(super) fn heap(_: &mut Osd, _: &Call, _: &mut Ctx<'_>) -> Answer {
    Err((Errno::EINVAL, "tcmalloc not enabled, can't use heap profiler commands\n".to_owned()))
}

/// Answers as a Ceph that is built without the profiler for CPUs.
pub(super) fn cpu_profiler(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    osd.answer_text(call, "cpu_profiler support not linked in".to_owned(), ctx);
    Ok(None)
}

pub(super) fn git_version(osd: &mut Osd, _: &Call, _: &mut Ctx<'_>) -> Answer {
    Ok(Some(json!({"git_version": osd.config.git_version})))
}

/// `CEPH_ADMIN_SOCK_VERSION`: what admin sockets speak.
pub(super) fn socket_version(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    osd.answer_text(call, "2".to_owned(), ctx);
    Ok(None)
}

/// Answers as a stock OSD on a machine without `smartctl`, the program that asks the devices.
pub(super) fn smart(_: &mut Osd, _: &Call, _: &mut Ctx<'_>) -> Answer {
    Ok(Some(json!({})))
}

/// An OSD is no client: what it asks of others, its PGs ask (`copy.rs`, `proxy.rs`).
pub(super) fn objecter_requests(_: &mut Osd, _: &Call, _: &mut Ctx<'_>) -> Answer {
    Ok(Some(json!({
        "ops": [],
        "linger_ops": [],
        "pool_ops": [],
        "pool_stat_ops": [],
        "statfs_ops": [],
        "command_ops": [],
    })))
}

/// Ops wait in their PGs, never in a queue of a shard.
pub(super) fn op_queues(osd: &mut Osd, _: &Call, _: &mut Ctx<'_>) -> Answer {
    let queue = |shard| (format!("OSD:ShardedOpWQ:{shard}"), json!({"high_queues": [], "queues": []}));
    Ok(Some(Value::Object((0..osd.config.shard.count).map(queue).collect())))
}

/// PGs reserve nothing before they recover: they have turns, as far as `osd_recovery_max_active` goes.
pub(super) fn recovery_reservations(osd: &mut Osd, _: &Call, _: &mut Ctx<'_>) -> Answer {
    let max: u64 = osd.settings.get("osd_max_backfills").and_then(|value| value.parse().ok()).unwrap_or(1);
    let none = json!({"max_allowed": max, "min_priority": 0, "queues": [], "in_progress": []});
    Ok(Some(json!({"local_reservations": none, "remote_reservations": none})))
}

/// What was acknowledged is durable: there is nothing to wait for.
pub(super) fn flush_journal(_: &mut Osd, _: &Call, _: &mut Ctx<'_>) -> Answer {
    Ok(Some(Value::Null))
}

/// There is nothing to do: checkpoints write the index pages that changed whole.
pub(super) fn compact(_: &mut Osd, _: &Call, _: &mut Ctx<'_>) -> Answer {
    Ok(Some(json!({"elapsed_time": 0.0})))
}

pub(super) fn status(osd: &mut Osd, _: &Call, _: &mut Ctx<'_>) -> Answer {
    Ok(Some(json!({
        "cluster_fsid": osd.config.fsid.to_string(),
        "osd_fsid": osd.config.uuid.to_string(),
        "whoami": osd.config.whoami.0,
        "state": osd.boot.name(),
        "oldest_map": osd.maps.oldest.0,
        "cluster_osdmap_trim_lower_bound": osd.maps.oldest.0,
        "newest_map": osd.maps.newest.0,
        "num_pgs": osd.pg_count(),
    })))
}

/// Reports at once, and answers the number of the report, with which a caller asks the monitor whether it has come
/// (`osd last-stat-seq`).
pub(super) fn flush_pg_stats(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    if osd.config.shard.count > 1 {
        osd.flush_shards(call.clone(), ctx);
        return Ok(None);
    }
    osd.finish_flush(call, ctx);
    Ok(None)
}

impl Osd {
    /// All shards have reported: so does the OSD, and answers.
    pub(crate) fn finish_flush(&mut self, call: &Call, ctx: &mut Ctx<'_>) {
        self.stats_report.at_once(ctx.now);
        self.send_stats_if_due(ctx);
        self.answer_text(call, self.report_seq().to_string(), ctx);
    }
}
