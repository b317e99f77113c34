//! Pools listed and described.

use serde_json::{Map, Value, json};
use types::{Errno, OsdMap, PgPool, PoolId};

use super::{
    Reply, Request, Row, activity,
    named::{pool_arg, pool_named},
};
use crate::format;

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd pool ls name=detail,type=CephChoices,strings=detail,req=false",
        help: "list pools",
        module: "osd",
        perm: "r",
        run: ls,
    },
    Row {
        sig: "osd pool stats name=pool_name,type=CephPoolname,req=false",
        help: "obtain stats from all pools, or from specified pool",
        module: "osd",
        perm: "r",
        run: |req| stats(req).into(),
    },
    Row {
        sig: "osd pool get-quota name=pool,type=CephPoolname",
        help: "obtain object or byte limits for pool",
        module: "osd",
        perm: "r",
        run: |req| get_quota(req).into(),
    },
    Row {
        sig: "osd pool application get name=pool,type=CephPoolname,req=false name=app,type=CephString,req=false name=key,type=CephString,req=false",
        help: "get value of key of application <app> on pool <poolname>",
        module: "osd",
        perm: "r",
        run: |req| app_get(req).into(),
    },
];

/// `CEPH_NOSTRETCH`: the mark of pools outside of stretch mode.
const NO_MANDATORY_MEMBER: i32 = i32::MAX;

/// A pool as dumps have it.
pub(super) fn pool_json(map: &OsdMap, id: PoolId, pool: &PgPool) -> Value {
    let snaps: Vec<Value> = pool
        .snaps
        .values()
        .map(|s| json!({"snapid": s.snapid.0, "stamp": s.stamp.to_string(), "name": s.name}))
        .collect();
    let removed: Vec<String> =
        pool.removed_snaps.iter().map(|(start, len)| format!("{start:x}~{len:x}")).collect();
    let options: Map<String, Value> = pool
        .opts
        .0
        .iter()
        .filter_map(|(key, value)| {
            let value = match value {
                types::PoolOptValue::Str(text) => text.as_str().into(),
                types::PoolOptValue::Int(n) => (*n).into(),
                types::PoolOptValue::Double(n) => format::number(*n),
            };
            Some((key.name()?.to_owned(), value))
        })
        .collect();
    let merge = &pool.last_pg_merge_meta;
    let mode = if pool.is_pool_snaps_mode() { "pool" } else { "selfmanaged" };
    let mut out = json!({
        "pool": id.0,
        "pool_name": map.pool_name(id).unwrap_or_default(),
        "create_time": pool.create_time.to_string(),
        "flags": pool.flags.0,
        "flags_names": pool.flags.to_string(),
        "type": pool.kind.0,
        "size": pool.size,
        "min_size": pool.min_size,
        "crush_rule": pool.crush_rule,
        "peering_crush_bucket_count": 0,
        "peering_crush_bucket_target": 0,
        "peering_crush_bucket_barrier": 0,
        "peering_crush_bucket_mandatory_member": NO_MANDATORY_MEMBER,
        "object_hash": pool.object_hash,
        "pg_autoscale_mode": pool.pg_autoscale_mode.name(),
        "pg_num": pool.pg_num,
        "pg_placement_num": pool.pgp_num,
        "pg_placement_num_target": pool.pgp_num_target,
        "pg_num_target": pool.pg_num_target,
        "pg_num_pending": pool.pg_num_pending,
        "last_pg_merge_meta": {
            "source_pgid": merge.source_pgid.to_string(),
            "ready_epoch": merge.ready_epoch.0,
            "last_epoch_started": merge.last_epoch_started.0,
            "last_epoch_clean": merge.last_epoch_clean.0,
            "source_version": merge.source_version.to_string(),
            "target_version": merge.target_version.to_string(),
        },
        "last_change": pool.last_change.to_string(),
        "last_force_op_resend": pool.last_force_op_resend.to_string(),
        "last_force_op_resend_prenautilus": pool.last_force_op_resend_prenautilus.to_string(),
        "last_force_op_resend_preluminous": pool.last_force_op_resend_preluminous.to_string(),
        "auid": pool.auid,
        "snap_mode": mode,
        "snap_seq": pool.snap_seq.0,
        "snap_epoch": pool.snap_epoch.0,
        "pool_snaps": snaps,
        "removed_snaps": format!("[{}]", removed.join(",")),
        "quota_max_bytes": pool.quota_bytes_max,
        "quota_max_objects": pool.quota_objects_max,
    });
    out["tiers"] = pool.tiers.iter().map(|tier| tier.0).collect();
    if let (Value::Object(all), Value::Object(rest)) = (&mut out, tier_json(pool)) {
        all.extend(rest);
    }
    out["options"] = options.into();
    out["application_metadata"] = json!(pool.application_metadata);
    out
}

/// `pg_pool_t::get_cache_mode_name`; other modes cannot be set.
fn cache_mode(pool: &PgPool) -> &'static str {
    match pool.cache_mode {
        0 => "none",
        3 => "readonly",
        _ => "unknown",
    }
}

/// The settings of cache tiers and of erasure codes, neither of which is used here.
fn tier_json(pool: &PgPool) -> Value {
    json!({
        "tier_of": pool.tier_of.0,
        "read_tier": pool.read_tier.0,
        "write_tier": pool.write_tier.0,
        "cache_mode": cache_mode(pool),
        "target_max_bytes": pool.target_bytes_max,
        "target_max_objects": pool.target_objects_max,
        "cache_target_dirty_ratio_micro": pool.cache_target_dirty_ratio_micro,
        "cache_target_dirty_high_ratio_micro": pool.cache_target_dirty_high_ratio_micro,
        "cache_target_full_ratio_micro": pool.cache_target_full_ratio_micro,
        "cache_min_flush_age": pool.cache_flush_age_min,
        "cache_min_evict_age": pool.cache_evict_age_min,
        "erasure_code_profile": pool.erasure_code_profile,
        "hit_set_params": {"type": "none"},
        "hit_set_period": pool.hit_set_period,
        "hit_set_count": pool.hit_set_count,
        "use_gmt_hitset": pool.use_gmt_hitset,
        "min_read_recency_for_promote": pool.read_recency_for_promote_min,
        "min_write_recency_for_promote": pool.write_recency_for_promote_min,
        "hit_set_grade_decay_rate": pool.hit_set_grade_decay_rate,
        "hit_set_search_last_n": pool.hit_set_search_last_n,
        "grade_table": [],
        "stripe_width": pool.stripe_width,
        "expected_num_objects": pool.expected_num_objects,
        "fast_read": pool.fast_read,
    })
}

/// ` pg_num_target 64`, where the target differs from the number that the pool has.
fn target(name: &str, wanted: u32, found: u32) -> String {
    if wanted == found { String::new() } else { format!(" {name} {wanted}") }
}

/// ` lfor 0/0/12`: the epochs before which clients send again, by their age.
fn resends(pool: &PgPool) -> String {
    let epochs = [
        pool.last_force_op_resend,
        pool.last_force_op_resend_prenautilus,
        pool.last_force_op_resend_preluminous,
    ];
    if epochs.iter().all(|epoch| epoch.0 == 0) {
        return String::new();
    }
    format!(" lfor {}/{}/{}", epochs[0], epochs[1], epochs[2])
}

/// `pool 1 'rbd' replicated size 3 …`.
pub(super) fn pool_line(map: &OsdMap, id: PoolId, pool: &PgPool) -> String {
    let profile = match pool.is_erasure() {
        true => format!(" profile {}", pool.erasure_code_profile),
        false => String::new(),
    };
    let mut out = format!(
        "pool {id} '{}' {}{profile} size {} min_size {} crush_rule {} object_hash rjenkins pg_num {} pgp_num {}{}{}{} autoscale_mode {} last_change {}{}",
        map.pool_name(id).unwrap_or_default(),
        pool.kind,
        pool.size,
        pool.min_size,
        pool.crush_rule,
        pool.pg_num,
        pool.pgp_num,
        target("pg_num_target", pool.pg_num_target, pool.pg_num),
        target("pgp_num_target", pool.pgp_num_target, pool.pgp_num),
        target("pg_num_pending", pool.pg_num_pending, pool.pg_num),
        pool.pg_autoscale_mode.name(),
        pool.last_change,
        resends(pool),
    );
    if pool.flags.0 != 0 {
        out.push_str(&format!(" flags {}", pool.flags));
    }
    if pool.quota_bytes_max > 0 {
        out.push_str(&format!(" max_bytes {}", pool.quota_bytes_max));
    }
    if pool.quota_objects_max > 0 {
        out.push_str(&format!(" max_objects {}", pool.quota_objects_max));
    }
    if !pool.tiers.is_empty() {
        let tiers: Vec<String> = pool.tiers.iter().map(PoolId::to_string).collect();
        out.push_str(&format!(" tiers {}", tiers.join(",")));
    }
    if pool.is_tier() {
        out.push_str(&format!(" tier_of {}", pool.tier_of));
    }
    if pool.cache_mode != 0 {
        out.push_str(&format!(" cache_mode {}", cache_mode(pool)));
    }
    out.push_str(&format!(" stripe_width {}", pool.stripe_width));
    // The greater the option's number the earlier it was set last; Ceph prints them in that order.
    for (name, value) in pool.opts.0.iter().rev().filter_map(|(key, value)| Some((key.name()?, value))) {
        out.push_str(&format!(" {name} {value}"));
    }
    if !pool.application_metadata.is_empty() {
        let apps: Vec<&str> = pool.application_metadata.keys().map(String::as_str).collect();
        out.push_str(&format!(" application {}", apps.join(",")));
    }
    out.push('\n');
    for snap in pool.snaps.values() {
        out.push_str(&format!("\tsnap {} '{}' {}\n", snap.snapid.0, snap.name, snap.stamp));
    }
    out
}

/// A pool as [`pool_json`] shows it, but this listing calls the id `pool_id`.
fn detail_json(map: &OsdMap, id: PoolId, pool: &PgPool) -> Value {
    let rename = |(key, value)| if key == "pool" { ("pool_id".to_owned(), value) } else { (key, value) };
    match pool_json(map, id, pool) {
        Value::Object(all) => Value::Object(all.into_iter().map(rename).collect()),
        other => other,
    }
}

fn ls(req: &mut Request<'_>) -> Reply {
    let map = req.map();
    if req.args.has("detail") {
        let json = || map.pools.iter().map(|(id, pool)| detail_json(map, *id, pool)).collect();
        let text = || map.pools.iter().map(|(id, pool)| pool_line(map, *id, pool)).collect::<String>() + "\n";
        return Reply::show(req.args, json, text);
    }
    let names: Vec<&String> = map.pool_name.values().collect();
    Reply::show(req.args, || json!(names), || names.iter().map(|name| format!("{name}\n")).collect())
}

fn stats(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let map = req.map();
    let wanted = req.args.text("pool_name").filter(|name| !name.is_empty());
    let pools: Vec<(PoolId, String)> = match &wanted {
        None => map.pool_name.iter().map(|(id, name)| (*id, name.clone())).collect(),
        Some(name) => vec![(pool_named(map, name)?, name.clone())],
    };
    let mon = &*req.mon;
    let json = || pools.iter().map(|(id, name)| stats_json(mon, *id, name)).collect();
    let text = || {
        let mut out = String::new();
        for (id, name) in &pools {
            out.push_str(&format!("pool {name} id {id}\n"));
            let sum = mon.stats.pool_sum(*id);
            let rates = mon.stats.rates(Some(*id));
            let mut lines = activity::recovery_lines(&sum);
            let recovery = activity::recovery_rate_text(&rates);
            lines.extend(recovery.map(|text| format!("recovery io {text}")));
            let client = activity::client_rate_text(&rates, activity::ops_apart);
            lines.extend(client.map(|text| format!("client io {text}")));
            if lines.is_empty() {
                lines.push("nothing is going on".to_owned());
            }
            out.extend(lines.iter().map(|line| format!("  {line}\n")));
            out.push('\n');
        }
        out
    };
    Ok(Reply::show(req.args, json, text))
}

fn stats_json(mon: &crate::Mon, id: PoolId, name: &str) -> Value {
    let sum = mon.stats.pool_sum(id);
    let rates = mon.stats.rates(Some(id));
    json!({
        "pool_name": name,
        "pool_id": id.0,
        "recovery": activity::recovery(&sum),
        "recovery_rate": activity::recovery_rate(&rates),
        "client_io_rate": activity::client_rate(&rates),
    })
}

fn get_quota(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let map = req.map();
    let (id, name) = pool_arg(req, map)?;
    let Some(pool) = map.pools.get(&id) else { return Err(Reply::fail(Errno::ENOENT, "no such pool")) };
    let sum = req.mon.stats.pool_sum(id);
    let json = || {
        json!({
            "pool_name": name,
            "pool_id": id.0,
            "quota_max_objects": pool.quota_objects_max,
            "current_num_objects": sum.objects,
            "quota_max_bytes": pool.quota_bytes_max,
            "current_num_bytes": sum.bytes,
        })
    };
    let line = |max: u64, limit: String, now: String| match max {
        0 => "N/A".to_owned(),
        _ => format!("{limit}  (current num {now})"),
    };
    let text = || {
        let objects = line(
            pool.quota_objects_max,
            format!("{} objects", format::count(pool.quota_objects_max)),
            format!("objects: {} objects", sum.objects),
        );
        let bytes = line(
            pool.quota_bytes_max,
            format::bytes(pool.quota_bytes_max),
            format!("bytes: {} bytes", sum.bytes),
        );
        format!("quotas for pool '{name}':\n  max objects: {objects}\n  max bytes  : {bytes}\n")
    };
    Ok(Reply::show(req.args, json, text))
}

fn app_get(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let map = req.map();
    if req.args.text("pool").is_none_or(|name| name.is_empty()) {
        let all: Map<String, Value> = map
            .pools
            .iter()
            .map(|(id, p)| (map.pool_name(*id).unwrap_or_default().to_owned(), json!(p.application_metadata)))
            .collect();
        return Ok(Reply::json(req.args, all.into()));
    }
    let (id, name) = pool_arg(req, map)?;
    let Some(pool) = map.pools.get(&id) else { return Err(Reply::fail(Errno::ENOENT, "no such pool")) };
    let Some(app) = req.args.text("app") else {
        return Ok(Reply::json(req.args, json!(pool.application_metadata)));
    };
    let Some(pairs) = pool.application_metadata.get(&app) else {
        return Err(Reply::fail(Errno::ENOENT, format!("pool '{name}' has no application '{app}'")));
    };
    match req.args.text("key") {
        None => Ok(Reply::json(req.args, json!(pairs))),
        Some(key) => match pairs.get(&key) {
            Some(value) => Ok(Reply::show(req.args, || json!(value), || format!("{value}\n"))),
            None => {
                let why = format!("application '{app}' on pool '{name}' does not have key '{key}'");
                Err(Reply::fail(Errno::ENOENT, why))
            }
        },
    }
}
