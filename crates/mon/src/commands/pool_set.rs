//! Settings of a pool: `osd pool set` and `osd pool get`.

use serde_json::{Map, Value};
use types::{AutoscaleMode, Errno, OsdMap, PgPool, PoolFlags, PoolId, PoolOptKey, PoolOptKind, PoolOptValue};

use super::{
    Reply, Request, Row,
    named::{no_pool, pool_arg},
    pool_change::{parse_scaled, pending_pool, put_pool},
};
use crate::{
    format,
    osdmap_service::{check_pg_num_range, check_pg_sum, fits, least_pg_num},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd pool set name=pool,type=CephPoolname name=var,type=CephChoices,strings=size|min_size|pg_num|pgp_num|pgp_num_actual|crush_rule|hashpspool|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|hit_set_type|hit_set_period|hit_set_count|hit_set_fpp|use_gmt_hitset|target_max_bytes|target_max_objects|cache_target_dirty_ratio|cache_target_dirty_high_ratio|cache_target_full_ratio|cache_min_flush_age|cache_min_evict_age|min_read_recency_for_promote|min_write_recency_for_promote|fast_read|hit_set_grade_decay_rate|hit_set_search_last_n|scrub_min_interval|scrub_max_interval|deep_scrub_interval|recovery_priority|recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|compression_required_ratio|compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|csum_max_block|allow_ec_overwrites|fingerprint_algorithm|pg_autoscale_mode|pg_autoscale_bias|pg_num_min|pg_num_max|target_size_bytes|target_size_ratio|dedup_tier|dedup_chunk_algorithm|dedup_cdc_chunk_size|eio|bulk name=val,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "set pool parameter <var> to <val>",
        module: "osd",
        perm: "rw",
        run: |req| set(req).into(),
    },
    Row {
        sig: "osd pool get name=pool,type=CephPoolname name=var,type=CephChoices,strings=size|min_size|pg_num|pgp_num|crush_rule|hashpspool|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|hit_set_type|hit_set_period|hit_set_count|hit_set_fpp|use_gmt_hitset|target_max_objects|target_max_bytes|cache_target_dirty_ratio|cache_target_dirty_high_ratio|cache_target_full_ratio|cache_min_flush_age|cache_min_evict_age|erasure_code_profile|min_read_recency_for_promote|all|min_write_recency_for_promote|fast_read|hit_set_grade_decay_rate|hit_set_search_last_n|scrub_min_interval|scrub_max_interval|deep_scrub_interval|recovery_priority|recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|compression_required_ratio|compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|csum_max_block|allow_ec_overwrites|fingerprint_algorithm|pg_autoscale_mode|pg_autoscale_bias|pg_num_min|pg_num_max|target_size_bytes|target_size_ratio|dedup_tier|dedup_chunk_algorithm|dedup_cdc_chunk_size|eio|bulk",
        help: "get pool parameter <var>",
        module: "osd",
        perm: "r",
        run: |req| get(req).into(),
    },
];

/// Flags of a pool that are settings, in the order of `get all`.
const FLAGS: [&str; 9] = [
    "hashpspool",
    "nodelete",
    "nopgchange",
    "nosizechange",
    "write_fadvise_dontneed",
    "noscrub",
    "nodeep-scrub",
    "eio",
    "bulk",
];

/// Settings of cache tiers, which no pool has but for the default of one.
const OF_TIERS: [&str; 16] = [
    "hit_set_type",
    "hit_set_period",
    "hit_set_count",
    "hit_set_fpp",
    "target_max_objects",
    "target_max_bytes",
    "cache_target_dirty_ratio",
    "cache_target_dirty_high_ratio",
    "cache_target_full_ratio",
    "cache_min_flush_age",
    "cache_min_evict_age",
    "min_read_recency_for_promote",
    "min_write_recency_for_promote",
    "hit_set_grade_decay_rate",
    "hit_set_search_last_n",
    "use_gmt_hitset",
];

/// The most copies of a pool.
const SIZE_MAX: i64 = 10;

type Refusal = (Errno, String);

fn set(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (id, _, mut pool) = pending_pool(req)?;
    let var = req.args.text("var").unwrap_or_default();
    let text = req.args.text("val").unwrap_or_default();
    change(req, id, &mut pool, &var, &text).map_err(|(errno, why)| Reply::fail(errno, why))?;
    put_pool(req, id, pool);
    let is_unset = text == "unset" && PoolOptKey::parse(&var).is_some();
    let what =
        if is_unset { format!("unset pool {id} {var}") } else { format!("set pool {id} {var} to {text}") };
    Ok(Reply::done(what))
}

fn number(text: &str) -> Result<i64, Refusal> {
    number_called("integer", text)
}

/// A whole number; refusals call it so.
fn number_called(what: &str, text: &str) -> Result<i64, Refusal> {
    let why =
        || format!("error parsing {what} value '{text}': Expected option value to be integer, got '{text}'");
    text.parse().map_err(|_| (Errno::EINVAL, why()))
}

fn change(req: &Request<'_>, id: PoolId, pool: &mut PgPool, var: &str, text: &str) -> Result<(), Refusal> {
    match var {
        "size" => set_size(req, id, pool, number(text)?),
        "min_size" => {
            if pool.flags.has(PoolFlags::NOSIZECHANGE) {
                let text =
                    "pool min size change is disabled; you must unset nosizechange flag for the pool first";
                return Err((Errno::EPERM, text.to_owned()));
            }
            let n = number(text)?;
            if !(1..=i64::from(pool.size)).contains(&n) {
                return Err((
                    Errno::EINVAL,
                    format!("pool min_size must be between 1 and size, which is set to {}", pool.size),
                ));
            }
            pool.min_size = n as u8;
            Ok(())
        }
        "pg_num" => set_pg_num(req, id, pool, text),
        "pgp_num" => set_pgp_num(pool, text),
        "crush_rule" => {
            let crush = req.next_map().crush.map();
            let rule = crush.rule_of(text);
            let rule = rule.ok_or((Errno::ENOENT, format!("crush rule {text} does not exist")))?;
            fits(crush, rule, pool.kind, pool.size)?;
            pool.crush_rule = rule;
            Ok(())
        }
        "pg_autoscale_mode" => {
            let mode = AutoscaleMode::parse(text);
            pool.pg_autoscale_mode = mode.ok_or((Errno::EINVAL, format!("specified invalid mode {text}")))?;
            Ok(())
        }
        "fast_read" => Err((Errno::EINVAL, "fast read is not supported in replication pool".to_owned())),
        flag if FLAGS.contains(&flag) => {
            set_flag(pool, flag, truth(text)?, req.args.flag("yes_i_really_mean_it"))
        }
        "allow_ec_overwrites" => {
            Err((Errno::EINVAL, "ec overwrites can only be enabled for an erasure coded pool".to_owned()))
        }
        tier if OF_TIERS.contains(&tier) => Err((Errno::EACCES, "(13) Permission denied".to_owned())),
        "dedup_tier" => set_dedup_tier(req.next_map(), pool, text),
        "pgp_num_actual" => Err((Errno::EOPNOTSUPP, format!("{var} is not supported"))),
        option => {
            check_option(pool, option, text)?;
            set_option(pool, option, text)
        }
    }
}

fn may_change_pgs(pool: &PgPool, var: &str) -> Result<(), Refusal> {
    if pool.flags.has(PoolFlags::NOPGCHANGE) {
        let text =
            format!("pool {var} change is disabled; you must unset nopgchange flag for the pool first");
        return Err((Errno::EPERM, text));
    }
    Ok(())
}

/// Sets what `pg_num` moves to, and `pgp_num` with it unless that was set apart. PGs of different reactors are not
/// merged.
fn set_pg_num(req: &Request<'_>, id: PoolId, pool: &mut PgPool, text: &str) -> Result<(), Refusal> {
    may_change_pgs(pool, "pg_num")?;
    let n = number(text)?;
    if n == i64::from(pool.pg_num_target) {
        return Ok(());
    }
    let wanted = u32::try_from(n).unwrap_or(0);
    check_pg_num_range(wanted)?;
    // A pool with too many PGs may still get fewer.
    if wanted > pool.pg_num_target {
        check_pg_sum(req.next_map(), &req.mon.options, Some(id), wanted, pool.size)?;
    }
    let least = least_pg_num(req.next_map(), pool);
    if wanted < least.min(pool.pg_num) {
        let text =
            format!("specified pg_num {n} < {least}: PGs of different reactors of an OSD are not merged");
        return Err((Errno::EINVAL, text));
    }
    let bound = |name| match pool.opts.get(name) {
        Some(PoolOptValue::Int(bound)) if *bound != 0 => Some(*bound),
        Some(_) | None => None,
    };
    if let Some(min) = bound("pg_num_min").filter(|min| n < *min) {
        return Err((Errno::EINVAL, format!("specified pg_num {n} < pg_num_min {min}")));
    }
    if let Some(max) = bound("pg_num_max").filter(|max| n > *max) {
        return Err((Errno::EINVAL, format!("specified pg_num {n} > pg_num_max {max}")));
    }
    if pool.pgp_num_target == pool.pg_num_target {
        pool.pgp_num_target = wanted;
    }
    pool.pg_num_target = wanted;
    Ok(())
}

fn set_pgp_num(pool: &mut PgPool, text: &str) -> Result<(), Refusal> {
    may_change_pgs(pool, "pgp_num")?;
    let n = number(text)?;
    match u32::try_from(n).ok().filter(|n| *n > 0) {
        None => Err((Errno::EINVAL, format!("specified pgp_num must > 0, but you set to {n}"))),
        Some(wanted) if wanted > pool.pg_num_target => {
            Err((Errno::EINVAL, format!("specified pgp_num {n} > pg_num {}", pool.pg_num_target)))
        }
        Some(wanted) => {
            pool.pgp_num_target = wanted;
            Ok(())
        }
    }
}

fn set_size(req: &Request<'_>, id: PoolId, pool: &mut PgPool, size: i64) -> Result<(), Refusal> {
    let (map, options) = (req.next_map(), &req.mon.options);
    if pool.flags.has(PoolFlags::NOSIZECHANGE) {
        let text = "pool size change is disabled; you must unset nosizechange flag for the pool first";
        return Err((Errno::EPERM, text.to_owned()));
    }
    if pool.is_erasure() {
        return Err((Errno::ENOTTY, "can not change the size of an erasure-coded pool".to_owned()));
    }
    if !(1..=SIZE_MAX).contains(&size) {
        return Err((Errno::EINVAL, "pool size must be between 1 and 10".to_owned()));
    }
    if size == 1 && !options.is_pool_size_one_allowed {
        return Err((Errno::EPERM, "configuring pool size as 1 is disabled by default.".to_owned()));
    }
    if size == 1 && !req.args.flag("yes_i_really_mean_it") {
        let text = "WARNING: setting pool size 1 could lead to data loss without recovery. If you are *ABSOLUTELY CERTAIN* that is what you want, pass the flag --yes-i-really-mean-it.";
        return Err((Errno::EPERM, text.to_owned()));
    }
    fits(map.crush.map(), pool.crush_rule, pool.kind, size as u8)?;
    if size > i64::from(pool.size) {
        check_pg_sum(map, options, Some(id), pool.pg_num, size as u8)?;
    }
    pool.size = size as u8;
    pool.min_size = options.min_size_of(pool.size);
    Ok(())
}

fn truth(text: &str) -> Result<bool, Refusal> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err((Errno::EINVAL, "expecting value 'true', 'false', '0', or '1'".to_owned())),
    }
}

fn set_flag(pool: &mut PgPool, name: &str, is_set: bool, is_sure: bool) -> Result<(), Refusal> {
    if name == "hashpspool" && !is_sure {
        let text = "are you SURE?  this will remap all placement groups in this pool, this triggers large data movement, pass --yes-i-really-mean-it if you really do.";
        return Err((Errno::EPERM, text.to_owned()));
    }
    let flag = PoolFlags::parse(name).ok_or((Errno::EINVAL, format!("unrecognized variable '{name}'")))?;
    pool.flags = pool.flags.with(flag, is_set);
    Ok(())
}

/// For options that are only kept for clients, refuses the values that Ceph refuses.
fn check_option(pool: &PgPool, name: &str, text: &str) -> Result<(), Refusal> {
    let refuse = |why: String| Err((Errno::EINVAL, why));
    let is_one_of = |known: &[&str]| text == "unset" || known.contains(&text);
    let number: Option<f64> = text.parse().ok();
    // While the pool grows or shrinks, what counts is the number that it will have.
    let pg_num = pool.pg_num_target;
    match name {
        "compression_mode" if !is_one_of(&["none", "passive", "aggressive", "force"]) => {
            refuse(format!("unrecognized compression mode '{text}'"))
        }
        "compression_algorithm" if !is_one_of(&["none", "snappy", "zlib", "zstd", "lz4", "brotli"]) => {
            refuse(format!("unrecognized compression_algorithm '{text}'"))
        }
        "compression_required_ratio" if number.is_some_and(|n| !(0.0..=1.0).contains(&n)) => {
            refuse(format!("compression_required_ratio is out of range (0-1): '{text}'"))
        }
        "csum_type" if !is_one_of(&CSUM_TYPES) => refuse(format!("unrecognized csum_type '{text}'")),
        "target_size_ratio" | "target_size_bytes" if number.is_some_and(|n| n < 0.0) => {
            refuse(format!("{name} cannot be negative"))
        }
        "recovery_priority" if number.is_some_and(|n| !(-10.0..=10.0).contains(&n)) => {
            refuse("pool recovery_priority must be between -10 and 10".to_owned())
        }
        "pg_autoscale_bias" if number.is_some_and(|n| !(0.0..=1000.0).contains(&n)) => {
            refuse("pg_autoscale_bias must be between 0 and 1000".to_owned())
        }
        "pg_num_min" if number.is_some_and(|n| n > f64::from(pg_num)) => {
            refuse(format!("specified pg_num_min {text} > pg_num {pg_num}"))
        }
        "pg_num_max" if number.is_some_and(|n| n > 0.0 && n < f64::from(pg_num)) => {
            refuse(format!("specified pg_num_max {text} < pg_num {pg_num}"))
        }
        _ => Ok(()),
    }
}

/// `Checksummer::CSumType` by name; the first is number 1.
const CSUM_TYPES: [&str; 6] = ["none", "xxhash32", "xxhash64", "crc32c", "crc32c_16", "crc32c_8"];

/// Options that take units.
const OF_BYTES: [&str; 5] = [
    "target_size_bytes",
    "compression_max_blob_size",
    "compression_min_blob_size",
    "csum_max_block",
    "csum_min_block",
];

/// A number of bytes: `4096`, `4K`, `4Ki`. Refusals call it so.
fn bytes_called(what: &str, text: &str) -> Result<i64, Refusal> {
    let value = parse_scaled(text, 1024).and_then(|value| i64::try_from(value).ok());
    let why = || {
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+'));
        let wrong = if unit.len() > 2 { "illegal prefix (length > 2)" } else { "unit prefix not recognized" };
        format!("error parsing {what} value '{text}': strict_iecstrtoll: {wrong}")
    };
    value.ok_or_else(|| (Errno::EINVAL, why()))
}

/// What Ceph calls the kind of an option's value where it refuses one.
fn kind_called(name: &str, kind: PoolOptKind) -> &'static str {
    match (name, kind) {
        ("target_size_bytes", _) => "unit",
        ("compression_required_ratio", _) => "float",
        ("recovery_priority" | "pg_num_min" | "pg_num_max" | "dedup_cdc_chunk_size", _) => "int",
        (bytes, _) if OF_BYTES.contains(&bytes) => "int",
        (_, PoolOptKind::Double) => "floating point",
        (_, PoolOptKind::Int | PoolOptKind::Str) => "integer",
    }
}

fn csum_number(text: &str) -> Option<i64> {
    let at = CSUM_TYPES.iter().position(|name| *name == text)?;
    i64::try_from(at).ok().map(|at| at + 1)
}

/// Sets the pool to which clients that split objects write the chunks, by its name; OSDs here split no objects.
fn set_dedup_tier(map: &OsdMap, pool: &mut PgPool, text: &str) -> Result<(), Refusal> {
    if number(text).is_ok() {
        return Err((Errno::EINVAL, "expecting value 'pool name'".to_owned()));
    }
    let (id, _) = map.pool_by_name(text).ok_or_else(|| (Errno::ENOENT, no_pool(text)))?;
    set_option(pool, "dedup_tier", &id.0.to_string())
}

fn set_option(pool: &mut PgPool, name: &str, text: &str) -> Result<(), Refusal> {
    let Some((key, kind)) = PoolOptKey::parse(name) else {
        return Err((Errno::EINVAL, format!("unrecognized variable '{name}'")));
    };
    let called = kind_called(name, kind);
    let value = match kind {
        PoolOptKind::Str => PoolOptValue::Str(text.to_owned()),
        PoolOptKind::Int if name == "csum_type" => PoolOptValue::Int(csum_number(text).unwrap_or(0)),
        PoolOptKind::Int if OF_BYTES.contains(&name) => PoolOptValue::Int(bytes_called(called, text)?),
        PoolOptKind::Int => PoolOptValue::Int(number_called(called, text)?),
        PoolOptKind::Double => {
            // Ceph takes `nan` and `inf`, too; no JSON document has a word for them.
            let value = text.parse().ok().filter(|value: &f64| value.is_finite());
            let why = || {
                format!(
                    "error parsing {called} value '{text}': strict_strtod: expected double, got: '{text}'"
                )
            };
            PoolOptValue::Double(value.ok_or_else(|| (Errno::EINVAL, why()))?)
        }
    };
    // Zero takes a number away, `unset` what has names for its values. As in Ceph, it is no number.
    let is_none = match &value {
        PoolOptValue::Str(text) => text == "unset" || text.is_empty(),
        PoolOptValue::Int(n) => *n == 0,
        PoolOptValue::Double(n) => *n == 0.0,
    };
    if is_none {
        pool.opts.0.remove(&key);
    } else {
        pool.opts.0.insert(key, value);
    }
    Ok(())
}

/// The value of a setting; none where the pool does not have it set.
fn value_of(map: &OsdMap, pool: &PgPool, var: &str) -> Option<Value> {
    Some(match var {
        "size" => pool.size.into(),
        "min_size" => pool.min_size.into(),
        "pg_num" => pool.pg_num.into(),
        "pgp_num" => pool.pgp_num.into(),
        "crush_rule" => {
            let name = map.crush.map().rule_names.get(&i32::from(pool.crush_rule));
            name.cloned().unwrap_or_else(|| pool.crush_rule.to_string()).into()
        }
        "use_gmt_hitset" => pool.use_gmt_hitset.into(),
        "fast_read" => i32::from(pool.fast_read).into(),
        "pg_autoscale_mode" => pool.pg_autoscale_mode.name().into(),
        "erasure_code_profile" if pool.is_erasure() => pool.erasure_code_profile.as_str().into(),
        flag if FLAGS.contains(&flag) => pool.flags.has(PoolFlags::parse(flag)?).into(),
        option => match pool.opts.get(option)? {
            PoolOptValue::Str(text) => text.as_str().into(),
            PoolOptValue::Int(n) if option == "csum_type" => {
                let index = usize::try_from(n - 1).ok();
                index.and_then(|at| CSUM_TYPES.get(at)).map_or("unknown".into(), |name| (*name).into())
            }
            PoolOptValue::Int(n) => (*n).into(),
            PoolOptValue::Double(n) => format::number(*n),
        },
    })
}

/// All settings of `get all`, with the options that are set at the end.
fn all_vars(pool: &PgPool) -> Vec<&str> {
    let mut vars = vec!["size", "min_size", "pg_num", "pgp_num", "crush_rule"];
    vars.extend(FLAGS);
    vars.extend(["use_gmt_hitset", "fast_read"]);
    vars.extend(pool.opts.0.keys().filter_map(|key| key.name()));
    vars.push("pg_autoscale_mode");
    vars
}

fn get(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let map = req.map();
    let (id, name) = pool_arg(req, map)?;
    let Some(pool) = map.pools.get(&id) else { return Err(Reply::fail(Errno::ENOENT, "no such pool")) };
    let var = req.args.text("var").unwrap_or_default();
    let vars = if var == "all" { all_vars(pool) } else { vec![var.as_str()] };
    let found: Vec<(&str, Value)> =
        vars.iter().filter_map(|var| Some((*var, value_of(map, pool, var)?))).collect();
    if found.is_empty() {
        let kind = match var.as_str() {
            "erasure_code_profile" | "allow_ec_overwrites" => Some("erasure"),
            var if OF_TIERS.contains(&var) => Some("tier"),
            _ => None,
        };
        if let Some(kind) = kind {
            let why = format!("pool '{name}' is not a {kind} pool: variable not applicable");
            return Err(Reply::fail(Errno::EACCES, why));
        }
        return Err(Reply::fail(Errno::ENOENT, format!("option '{var}' is not set on pool '{name}'")));
    }
    Ok(Reply::show(req.args, || values_json(&name, id, &found), || values_text(&found)))
}

fn values_json(name: &str, id: PoolId, found: &[(&str, Value)]) -> Value {
    let mut out = Map::new();
    out.insert("pool".to_owned(), name.into());
    out.insert("pool_id".to_owned(), id.0.into());
    out.extend(found.iter().map(|(var, value)| ((*var).to_owned(), value.clone())));
    out.into()
}

fn values_text(found: &[(&str, Value)]) -> String {
    let line = |(var, value): &(&str, Value)| match value {
        Value::String(text) => format!("{var}: {text}\n"),
        // The one switch that is printed as a number.
        Value::Bool(is_set) if *var == "use_gmt_hitset" => format!("{var}: {}\n", i32::from(*is_set)),
        other => format!("{var}: {other}\n"),
    };
    found.iter().map(line).collect()
}
