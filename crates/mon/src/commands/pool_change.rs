//! Pools made, renamed, deleted; their applications, snapshots and quotas.

use types::{AutoscaleMode, Errno, PgPool, PoolId, PoolOptKey, PoolOptValue, PoolOpts};

use super::{
    Reply, Request, Row,
    named::{no_pool, pool_arg},
};
use crate::osdmap_service::{PoolParams, RuleRef};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd pool create name=pool,type=CephPoolname name=pg_num,type=CephInt,range=0,req=false name=pgp_num,type=CephInt,range=0,req=false name=pool_type,type=CephChoices,strings=replicated|erasure,req=false name=erasure_code_profile,type=CephString,goodchars=[A-Za-z0-9-_.],req=false name=rule,type=CephString,req=false name=expected_num_objects,type=CephInt,range=0,req=false name=size,type=CephInt,range=0,req=false name=pg_num_min,type=CephInt,range=0,req=false name=pg_num_max,type=CephInt,range=0,req=false name=autoscale_mode,type=CephChoices,strings=on|off|warn,req=false name=bulk,type=CephBool,req=false name=target_size_bytes,type=CephInt,range=0,req=false name=target_size_ratio,type=CephFloat,range=0.0,req=false",
        help: "create pool",
        module: "osd",
        perm: "rw",
        run: |req| create(req).into(),
    },
    Row {
        sig: "osd pool rm name=pool,type=CephPoolname name=pool2,type=CephPoolname,req=false name=yes_i_really_really_mean_it,type=CephBool,req=false name=yes_i_really_really_mean_it_not_faking,type=CephBool,req=false",
        help: "remove pool",
        module: "osd",
        perm: "rw",
        run: rm,
    },
    Row {
        sig: "osd pool delete name=pool,type=CephPoolname name=pool2,type=CephPoolname,req=false name=yes_i_really_really_mean_it,type=CephBool,req=false name=yes_i_really_really_mean_it_not_faking,type=CephBool,req=false",
        help: "delete pool",
        module: "osd",
        perm: "rw",
        run: rm,
    },
    Row {
        sig: "osd pool rename name=srcpool,type=CephPoolname name=destpool,type=CephPoolname",
        help: "rename <srcpool> to <destpool>",
        module: "osd",
        perm: "rw",
        run: rename,
    },
    Row {
        sig: "osd pool application enable name=pool,type=CephPoolname name=app,type=CephString,goodchars=[A-Za-z0-9-_.] name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "enable use of an application <app> [cephfs,rbd,rgw] on pool <poolname>",
        module: "osd",
        perm: "rw",
        run: |req| app_enable(req).into(),
    },
    Row {
        sig: "osd pool application disable name=pool,type=CephPoolname name=app,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "disables use of an application <app> on pool <poolname>",
        module: "osd",
        perm: "rw",
        run: |req| app_disable(req).into(),
    },
    Row {
        sig: "osd pool application set name=pool,type=CephPoolname name=app,type=CephString name=key,type=CephString,goodchars=[A-Za-z0-9-_.] name=value,type=CephString,goodchars=[A-Za-z0-9-_.=]",
        help: "sets application <app> metadata key <key> to <value> on pool <poolname>",
        module: "osd",
        perm: "rw",
        run: |req| app_set(req).into(),
    },
    Row {
        sig: "osd pool application rm name=pool,type=CephPoolname name=app,type=CephString name=key,type=CephString",
        help: "removes application <app> metadata key <key> on pool <poolname>",
        module: "osd",
        perm: "rw",
        run: |req| app_rm(req).into(),
    },
    Row {
        sig: "osd pool mksnap name=pool,type=CephPoolname name=snap,type=CephString",
        help: "make snapshot <snap> in <pool>",
        module: "osd",
        perm: "rw",
        run: |req| mksnap(req).into(),
    },
    Row {
        sig: "osd pool rmsnap name=pool,type=CephPoolname name=snap,type=CephString",
        help: "remove snapshot <snap> from <pool>",
        module: "osd",
        perm: "rw",
        run: |req| rmsnap(req).into(),
    },
    Row {
        sig: "osd pool set-quota name=pool,type=CephPoolname name=field,type=CephChoices,strings=max_objects|max_bytes name=val,type=CephString",
        help: "set object or byte limit on pool",
        module: "osd",
        perm: "rw",
        run: |req| set_quota(req).into(),
    },
];

/// A number that fits its field; `None` when it was not given or is zero.
fn small<T: TryFrom<i64>>(req: &Request<'_>, name: &str) -> Result<Option<T>, Reply> {
    match req.args.int(name).filter(|value| *value != 0) {
        None => Ok(None),
        Some(value) => {
            let bad = |_| Reply::fail(Errno::EINVAL, format!("{name} {value} is out of range"));
            T::try_from(value).map(Some).map_err(bad)
        }
    }
}

fn params(req: &Request<'_>, name: &str) -> Result<PoolParams, Reply> {
    let profile = req.args.text("erasure_code_profile").filter(|p| !p.is_empty());
    // `create POOL PG PGP replicated RULE`: the rule then stands where a profile would.
    let rule = req.args.text("rule").filter(|r| !r.is_empty()).or(profile);
    Ok(PoolParams {
        name: name.to_owned(),
        pg_num: small(req, "pg_num")?,
        pgp_num: small(req, "pgp_num")?,
        size: small(req, "size")?,
        rule: rule.map(RuleRef::Name),
        autoscale: req.args.text("autoscale_mode").and_then(|text| AutoscaleMode::parse(&text)),
        is_bulk: req.args.flag("bulk"),
        opts: new_opts(req),
    })
}

/// Options that a pool can be made with; zero leaves one unset.
fn new_opts(req: &Request<'_>) -> PoolOpts {
    let ints = ["pg_num_min", "pg_num_max", "target_size_bytes"]
        .map(|name| (name, req.args.int(name).filter(|value| *value != 0).map(PoolOptValue::Int)));
    let ratio = req.args.float("target_size_ratio").filter(|ratio| *ratio > 0.0).map(PoolOptValue::Double);
    let given = ints.into_iter().chain([("target_size_ratio", ratio)]);
    PoolOpts(given.filter_map(|(name, value)| Some((PoolOptKey::parse(name)?.0, value?))).collect())
}

fn create(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let name = req.args.text("pool").unwrap_or_default();
    if req.args.text("pool_type").as_deref() == Some("erasure") {
        return Err(Reply::fail(Errno::EOPNOTSUPP, "erasure-coded pools are not supported yet"));
    }
    if req.next_map().pool_by_name(&name).is_some() {
        return Ok(Reply::done(format!("pool '{name}' already exists")));
    }
    let params = params(req, &name)?;
    match req.mon.create_pool(req.wall, &params) {
        Ok(_) => Ok(Reply::done(format!("pool '{name}' created"))),
        Err((errno, text)) => Err(Reply::fail(errno, text)),
    }
}

fn rm(req: &mut Request<'_>) -> Reply {
    let name = req.args.text("pool").unwrap_or_default();
    let Some((id, _)) = req.next_map().pool_by_name(&name) else {
        return Reply::done(format!("pool '{name}' does not exist"));
    };
    let is_sure = req.args.flag("yes_i_really_really_mean_it")
        || req.args.flag("yes_i_really_really_mean_it_not_faking");
    if req.args.text("pool2").as_deref() != Some(name.as_str()) || !is_sure {
        let text = format!(
            "WARNING: this will *PERMANENTLY DESTROY* all data stored in pool {name}.  If you are *ABSOLUTELY CERTAIN* that is what you want, pass the pool name *twice*, followed by --yes-i-really-really-mean-it."
        );
        return Reply::fail(Errno::EPERM, text);
    }
    if !req.mon.options.is_pool_delete_allowed {
        let text = "pool deletion is disabled; you must first set the mon_allow_pool_delete config option to true before you can destroy a pool";
        return Reply::fail(Errno::EPERM, text);
    }
    match req.mon.delete_pool(req.wall, id) {
        Ok(()) => Reply::done(format!("pool '{name}' removed")),
        Err((errno, text)) => Reply::fail(errno, text),
    }
}

fn rename(req: &mut Request<'_>) -> Reply {
    let from = req.args.text("srcpool").unwrap_or_default();
    let to = req.args.text("destpool").unwrap_or_default();
    let Some((id, _)) = req.next_map().pool_by_name(&from) else {
        return match req.next_map().pool_by_name(&to) {
            // Asked for again.
            Some(_) => Reply::done(format!(
                "pool '{from}' does not exist; pool '{to}' does -- assuming successful rename"
            )),
            None => Reply::fail(Errno::ENOENT, no_pool(&from)),
        };
    };
    if to.is_empty() || req.next_map().pool_by_name(&to).is_some() {
        return Reply::fail(Errno::EEXIST, format!("pool '{to}' already exists"));
    }
    req.mon.change_osdmap(req.wall, |_, inc| {
        inc.new_pool_names.insert(id, to.clone());
    });
    Reply::done(format!("pool '{from}' renamed to '{to}'"))
}

/// The pool that the command names, as it is with all that is pending.
pub(super) fn pending_pool(req: &Request<'_>) -> Result<(PoolId, String, PgPool), Reply> {
    let (id, name) = pool_arg(req, req.next_map())?;
    let pool = req.next_map().pools.get(&id).cloned();
    pool.map(|pool| (id, name, pool)).ok_or_else(|| Reply::fail(Errno::ENOENT, "no such pool"))
}

/// Makes `pool` the next version of the pool.
pub(super) fn put_pool(req: &mut Request<'_>, id: PoolId, pool: PgPool) {
    req.mon.change_osdmap(req.wall, |_, inc| {
        inc.new_pools.insert(id, pool);
    });
}

fn app_arg(req: &Request<'_>) -> String {
    req.args.text("app").unwrap_or_default()
}

/// `MAX_POOL_APPLICATIONS`.
const APPLICATIONS_MAX: usize = 4;
/// `MAX_POOL_APPLICATION_LENGTH`.
const APPLICATION_BYTES_MAX: usize = 128;
/// `MAX_POOL_APPLICATION_KEYS`.
const APPLICATION_KEYS_MAX: usize = 64;

fn app_enable(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (id, name, mut pool) = pending_pool(req)?;
    let app = app_arg(req);
    if app.is_empty() || app.len() > APPLICATION_BYTES_MAX {
        return Err(Reply::fail(
            Errno::EINVAL,
            format!("application name '{app}' too long; max length {APPLICATION_BYTES_MAX}"),
        ));
    }
    let known = &pool.application_metadata;
    if !known.contains_key(&app) {
        if !known.is_empty() && !req.args.flag("yes_i_really_mean_it") {
            let text = format!(
                "Are you SURE? Pool '{name}' already has an enabled application; pass --yes-i-really-mean-it to proceed anyway"
            );
            return Err(Reply::fail(Errno::EPERM, text));
        }
        if known.len() >= APPLICATIONS_MAX {
            return Err(Reply::fail(
                Errno::EINVAL,
                format!("too many enabled applications on pool '{name}'; max {APPLICATIONS_MAX}"),
            ));
        }
        pool.application_metadata.insert(app.clone(), Default::default());
        put_pool(req, id, pool);
    }
    Ok(Reply::done(format!("enabled application '{app}' on pool '{name}'")))
}

fn app_disable(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (id, name, mut pool) = pending_pool(req)?;
    let app = app_arg(req);
    if !req.args.flag("yes_i_really_mean_it") {
        let text = "Are you SURE? Disabling an application within a pool might result in loss of application functionality; pass --yes-i-really-mean-it to proceed anyway";
        return Err(Reply::fail(Errno::EPERM, text));
    }
    if pool.application_metadata.remove(&app).is_none() {
        return Ok(Reply::done(format!("application '{app}' is not enabled on pool '{name}'")));
    }
    put_pool(req, id, pool);
    Ok(Reply::done(format!("disable application '{app}' on pool '{name}'")))
}

fn app_set(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (id, name, mut pool) = pending_pool(req)?;
    let (app, key, value) =
        (app_arg(req), req.args.text("key").unwrap_or_default(), req.args.text("value").unwrap_or_default());
    let Some(pairs) = pool.application_metadata.get_mut(&app) else {
        return Err(Reply::fail(
            Errno::ENOENT,
            format!("application '{app}' is not enabled on pool '{name}'"),
        ));
    };
    if key.is_empty()
        || [&key, &value].iter().any(|t| t.len() > APPLICATION_BYTES_MAX)
        || pairs.len() >= APPLICATION_KEYS_MAX
    {
        return Err(Reply::fail(
            Errno::EINVAL,
            format!("key or value of application '{app}' too long, or too many keys"),
        ));
    }
    pairs.insert(key.clone(), value.clone());
    put_pool(req, id, pool);
    Ok(Reply::done(format!("set application '{app}' key '{key}' to '{value}' on pool '{name}'")))
}

fn app_rm(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (id, name, mut pool) = pending_pool(req)?;
    let (app, key) = (app_arg(req), req.args.text("key").unwrap_or_default());
    let Some(pairs) = pool.application_metadata.get_mut(&app) else {
        return Err(Reply::fail(
            Errno::ENOENT,
            format!("application '{app}' is not enabled on pool '{name}'"),
        ));
    };
    if pairs.remove(&key).is_none() {
        return Ok(Reply::done(format!("application '{app}' on pool '{name}' does not have key '{key}'")));
    }
    put_pool(req, id, pool);
    Ok(Reply::done(format!("removed application '{app}' key '{key}' on pool '{name}'")))
}

fn mksnap(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (id, name, pool) = pending_pool(req)?;
    let snap = req.args.text("snap").unwrap_or_default();
    if snap.is_empty() {
        return Err(Reply::fail(Errno::EINVAL, format!("unable to parse snap name '{snap}'")));
    }
    if pool.is_tier() {
        return Err(Reply::fail(Errno::EINVAL, format!("pool {name} is a cache tier")));
    }
    if pool.snap_by_name(&snap).is_some() {
        return Ok(Reply::done(format!("pool {name} snap {snap} already exists")));
    }
    match req.mon.make_pool_snap(req.wall, id, pool, &snap) {
        Ok(_) => Ok(Reply::done(format!("created pool {name} snap {snap}"))),
        Err(errno) => Err(Reply::fail(errno, format!("pool {name} is in unmanaged snaps mode"))),
    }
}

fn rmsnap(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (id, name, pool) = pending_pool(req)?;
    let snap = req.args.text("snap").unwrap_or_default();
    if pool.snap_by_name(&snap).is_none() && !pool.is_unmanaged_snaps_mode() {
        return Ok(Reply::done(format!("pool {name} snap {snap} does not exist")));
    }
    match req.mon.remove_pool_snap(req.wall, id, pool, &snap) {
        Ok(_) => Ok(Reply::done(format!("removed pool {name} snap {snap}"))),
        Err(errno) => Err(Reply::fail(errno, format!("pool {name} is in unmanaged snaps mode"))),
    }
}

/// `10`, `10K`, `5Mi`, `1T`: K, M, G, T are powers of 1024 for bytes and of 1000 for counts.
pub(super) fn parse_scaled(text: &str, base: u64) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].trim_end_matches(['B', 'i']);
    let power = match unit {
        "" => 0,
        "K" | "k" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        "E" => 6,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(base.pow(power))
}

fn set_quota(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (id, name, mut pool) = pending_pool(req)?;
    let field = req.args.text("field").unwrap_or_default();
    let text = req.args.text("val").unwrap_or_default();
    let base = if field == "max_bytes" { 1024 } else { 1000 };
    let Some(value) = parse_scaled(&text, base) else {
        let parser = if base == 1024 { "strict_iecstrtoll" } else { "strict_sistrtoll" };
        let why = match text.starts_with('-') {
            true => "value should not be negative",
            false => "unit prefix not recognized",
        };
        return Err(Reply::fail(Errno::EINVAL, format!("error parsing value '{text}': {parser}: {why}")));
    };
    if field == "max_bytes" {
        pool.quota_bytes_max = value;
    } else {
        pool.quota_objects_max = value;
    }
    put_pool(req, id, pool);
    Ok(Reply::done(format!("set-quota {field} = {value} for pool {name}")))
}
