//! Settings of a pool: `osd pool set` and `osd pool get`.

use serde_json::{Map, Value};
use types::{AutoscaleMode, Errno, OsdMap, PgPool, PoolFlags, PoolId, PoolOptKey, PoolOptKind, PoolOptValue};

use super::{
    Reply, Request, Row,
    osd_info::pool_arg,
    pool_change::{pending_pool, put_pool},
};
use crate::{format, osdmap_service::check_pg_num};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd pool set name=pool,type=CephPoolname name=var,type=CephChoices,strings=size|min_size|pg_num|pgp_num|crush_rule|hashpspool|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|use_gmt_hitset|fast_read|scrub_min_interval|scrub_max_interval|deep_scrub_interval|recovery_priority|recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|compression_required_ratio|compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|csum_max_block|pg_autoscale_mode|pg_num_min|pg_num_max|target_size_bytes|target_size_ratio|pg_autoscale_bias|read_lease_interval name=val,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "set pool parameter <var> to <val>",
        module: "osd",
        perm: "rw",
        run: set,
    },
    Row {
        sig: "osd pool get name=pool,type=CephPoolname name=var,type=CephChoices,strings=size|min_size|pg_num|pgp_num|crush_rule|hashpspool|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|use_gmt_hitset|fast_read|scrub_min_interval|scrub_max_interval|deep_scrub_interval|recovery_priority|recovery_op_priority|scrub_priority|compression_mode|compression_algorithm|compression_required_ratio|compression_max_blob_size|compression_min_blob_size|csum_type|csum_min_block|csum_max_block|pg_autoscale_mode|pg_num_min|pg_num_max|target_size_bytes|target_size_ratio|pg_autoscale_bias|read_lease_interval|erasure_code_profile|all",
        help: "get pool parameter <var>",
        module: "osd",
        perm: "r",
        run: get,
    },
];

/// Flags of a pool that are settings, in the order of `get all`.
const FLAGS: [&str; 7] = [
    "hashpspool",
    "nodelete",
    "nopgchange",
    "nosizechange",
    "write_fadvise_dontneed",
    "noscrub",
    "nodeep-scrub",
];

/// The most copies of a pool.
const SIZE_MAX: i64 = 10;

type Refusal = (Errno, String);

fn set(req: &mut Request<'_>) -> Reply {
    let (id, _, mut pool) = match pending_pool(req) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    let var = req.args.text("var").unwrap_or_default();
    let text = req.args.text("val").unwrap_or_default();
    match change(req, &mut pool, &var, &text) {
        Ok(()) => {
            put_pool(req, id, pool);
            Reply::done(format!("set pool {id} {var} to {text}"))
        }
        Err((errno, why)) => Reply::fail(errno, why),
    }
}

fn number(var: &str, text: &str) -> Result<i64, Refusal> {
    text.parse().map_err(|_| (Errno::EINVAL, format!("error parsing integer value '{text}' for {var}")))
}

fn change(req: &Request<'_>, pool: &mut PgPool, var: &str, text: &str) -> Result<(), Refusal> {
    match var {
        "size" => set_size(pool, number(var, text)?, req.args.flag("yes_i_really_mean_it")),
        "min_size" => {
            let n = number(var, text)?;
            if !(1..=i64::from(pool.size)).contains(&n) {
                return Err((
                    Errno::EINVAL,
                    format!("pool min_size must be between 1 and size, which is set to {}", pool.size),
                ));
            }
            pool.min_size = n as u8;
            Ok(())
        }
        "pg_num" => {
            let n = number(var, text)?;
            let wanted =
                u32::try_from(n).map_err(|_| (Errno::ERANGE, format!("pg_num {n} is out of range")))?;
            if wanted == pool.pg_num {
                return Ok(());
            }
            check_pg_num(req.next_map(), &req.mon.options, wanted, pool.size)?;
            Err((Errno::EOPNOTSUPP, "splitting and merging of PGs is not supported yet: create a pool with the pg_num that you want".to_owned()))
        }
        "pgp_num" => {
            let n = number(var, text)?;
            if !(1..=i64::from(pool.pg_num)).contains(&n) {
                return Err((Errno::EINVAL, format!("specified pgp_num {n} > pg_num {}", pool.pg_num)));
            }
            (pool.pgp_num, pool.pgp_num_target) = (n as u32, n as u32);
            Ok(())
        }
        "crush_rule" => {
            let rule = req.next_map().crush.map().rule_of(text);
            pool.crush_rule = rule.ok_or((Errno::ENOENT, format!("crush rule {text} does not exist")))?;
            Ok(())
        }
        "pg_autoscale_mode" => {
            let mode = AutoscaleMode::parse(text);
            pool.pg_autoscale_mode = mode.ok_or((Errno::EINVAL, format!("specified invalid mode {text}")))?;
            Ok(())
        }
        "fast_read" => Err((Errno::EINVAL, "fast read is not supported in replication pool".to_owned())),
        "use_gmt_hitset" => {
            pool.use_gmt_hitset = truth(text)?;
            Ok(())
        }
        flag if FLAGS.contains(&flag) => {
            set_flag(pool, flag, truth(text)?, req.args.flag("yes_i_really_mean_it"))
        }
        option => set_option(pool, option, text),
    }
}

fn set_size(pool: &mut PgPool, size: i64, is_sure: bool) -> Result<(), Refusal> {
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
    if size == 1 && !is_sure {
        let text = "WARNING: setting pool size 1 could lead to data loss without recovery. If you are *ABSOLUTELY CERTAIN* that is what you want, pass the flag --yes-i-really-mean-it.";
        return Err((Errno::EPERM, text.to_owned()));
    }
    pool.size = size as u8;
    pool.min_size = pool.size - pool.size / 2;
    Ok(())
}

fn truth(text: &str) -> Result<bool, Refusal> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err((Errno::EINVAL, format!("expecting value 'true', 'false', '0', or '1', got '{text}'"))),
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

fn set_option(pool: &mut PgPool, name: &str, text: &str) -> Result<(), Refusal> {
    let Some((key, kind)) = PoolOptKey::parse(name) else {
        return Err((Errno::EINVAL, format!("unrecognized variable '{name}'")));
    };
    let value = match kind {
        PoolOptKind::Str => PoolOptValue::Str(text.to_owned()),
        PoolOptKind::Int => PoolOptValue::Int(number(name, text)?),
        PoolOptKind::Double => {
            let value = text.parse();
            PoolOptValue::Double(
                value.map_err(|_| (Errno::EINVAL, format!("error parsing floating point value '{text}'")))?,
            )
        }
    };
    // Zero and `unset` take the option away.
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
        "bulk" => false.into(),
        "erasure_code_profile" if pool.is_erasure() => pool.erasure_code_profile.as_str().into(),
        flag if FLAGS.contains(&flag) => pool.flags.has(PoolFlags::parse(flag)?).into(),
        option => match pool.opts.get(option)? {
            PoolOptValue::Str(text) => text.as_str().into(),
            PoolOptValue::Int(n) => (*n).into(),
            PoolOptValue::Double(n) => format::number(*n),
        },
    })
}

/// All settings of `get all`, options that are set behind.
fn all_vars(pool: &PgPool) -> Vec<&str> {
    let mut vars = vec!["size", "min_size", "pg_num", "pgp_num", "crush_rule"];
    vars.extend(FLAGS);
    vars.extend(["use_gmt_hitset", "fast_read"]);
    vars.extend(pool.opts.0.keys().filter_map(|key| key.name()));
    vars.extend(["pg_autoscale_mode", "bulk"]);
    vars
}

fn get(req: &mut Request<'_>) -> Reply {
    let map = req.map();
    let (id, name) = match pool_arg(req, map) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    let Some(pool) = map.pools.get(&id) else { return Reply::fail(Errno::ENOENT, "no such pool") };
    let var = req.args.text("var").unwrap_or_default();
    let vars = if var == "all" { all_vars(pool) } else { vec![var.as_str()] };
    let found: Vec<(&str, Value)> =
        vars.iter().filter_map(|var| Some((*var, value_of(map, pool, var)?))).collect();
    if found.is_empty() {
        if var == "erasure_code_profile" {
            return Reply::fail(
                Errno::EACCES,
                format!("pool '{name}' is not a erasure pool: variable not applicable"),
            );
        }
        return Reply::fail(Errno::ENOENT, format!("option '{var}' is not set on pool '{name}'"));
    }
    Reply::show(req.args, || values_json(&name, id, &found), || values_text(&found))
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
