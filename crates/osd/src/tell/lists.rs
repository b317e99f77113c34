//! What an OSD's part of the cluster looks like to it: watchers, blocklisted clients, pools, maps.
//!
//! Authority: `OSD::asok_command` (16.2).

use std::collections::BTreeSet;

use messages::LogLevel;
use serde_json::{Value, json};
use types::{EntityAddr, EntityType, Errno, UTime};

use super::{Answer, Call};
use crate::{Osd, osd::Ctx};

/// Runs a command to which every shard has a part of the answer, as a list.
pub(super) fn gather(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    osd.gather(call, ctx)
}

/// The watchers that this shard knows.
pub(super) fn watchers(osd: &Osd) -> Value {
    let mut out = Vec::new();
    for (object, watch) in osd.pgs.primaries().flat_map(pg::Pg::watchers) {
        out.push(json!({
            "namespace": object.nspace.escape_ascii().to_string(),
            "object": object.oid.escape_ascii().to_string(),
            "entity_name": {"type": EntityType::CLIENT.as_str(), "num": watch.client},
            "cookie": watch.cookie,
            "timeout": watch.timeout.as_secs(),
            "entity_addr_t": watch.addr.dump(),
        }));
    }
    out.into()
}

/// The pools whose PGs this shard has.
pub(super) fn mapped_pools(osd: &Osd) -> Value {
    let pools: BTreeSet<i64> = osd.pg_ids().map(|pgid| pgid.pool.0).collect();
    json!(pools)
}

/// The lists of all shards as one. An object has one shard, so that no watcher is twice in it.
pub(super) fn joined(parts: Vec<Value>) -> Vec<Value> {
    let list = |part| if let Value::Array(entries) = part { entries } else { Vec::new() };
    parts.into_iter().flat_map(list).collect()
}

/// The lists of pools of all shards as one: each pool once, in order, as more than one shard may have its PGs.
pub(super) fn merge_pools(parts: Vec<Value>) -> Value {
    let pools: BTreeSet<i64> = joined(parts).iter().filter_map(Value::as_i64).collect();
    json!(pools)
}

/// Two documents, one behind the other: addresses, then networks.
pub(super) fn blocklist(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    let entry = |(addr, until): (&EntityAddr, &UTime)| json!({"entity_addr_t": addr.dump(), "expire_time": until.to_string()});
    let addresses: Value = osd.map.blocklist.iter().map(entry).collect();
    let networks: Value = osd.map.range_blocklist.0.iter().map(entry).collect();
    let mut text = super::render(&call.args, &addresses);
    // If each document is one line, both are in the same line.
    if call.text("format").as_deref() == Some("json") {
        text.truncate(text.trim_end().len());
    }
    text.push_str(&super::render(&call.args, &networks));
    osd.answer_text(call, text, ctx);
    Ok(None)
}

/// Tells the monitor at once how it is.
pub(super) fn send_beacon(osd: &mut Osd, _: &Call, ctx: &mut Ctx<'_>) -> Answer {
    osd.stats_report.at_once(ctx.now);
    osd.send_stats_if_due(ctx);
    Ok(Some(Value::Null))
}

/// Nothing is to be done for the log: its lines are in the file when they are written, none are kept besides, and a
/// file that was moved away is made anew without a command.
pub(super) fn log_is_well(_: &mut Osd, _: &Call, _: &mut Ctx<'_>) -> Answer {
    Ok(Some(json!({})))
}

/// A line of an operator's in the cluster log.
pub(super) fn cluster_log(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    let message = call.list("message").join(" ");
    if message.is_empty() {
        return Err((Errno::EINVAL, "ignoring empty log message".to_owned()));
    }
    let level = match call.text("level").unwrap_or_default().as_str() {
        "error" => LogLevel::ERROR,
        "warning" => LogLevel::WARN,
        "info" => LogLevel::INFO,
        "debug" => LogLevel::DEBUG,
        other => return Err((Errno::EINVAL, format!("unknown level '{other}'"))),
    };
    osd.cluster_log(level, message, ctx);
    Ok(Some(Value::Null))
}
