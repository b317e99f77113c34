//! Cache tiers: a pool may be named as another's, which librados shows. None caches: overlays, and the modes that need
//! one, are refused (`OSDMonitor::prepare_command_impl`).

use types::{Errno, OsdMap, PgPool, PoolFlags, PoolId};

use super::{
    Reply, Request, Row,
    named::{no_pool, pool_arg},
    pool_change::{pending_pool, put_pool},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd tier add name=pool,type=CephPoolname name=tierpool,type=CephPoolname name=force_nonempty,type=CephChoices,strings=--force-nonempty,req=false",
        help: "add the tier <tierpool> (the second one) to base pool <pool> (the first one)",
        module: "osd",
        perm: "rw",
        run: |req| add(req).into(),
    },
    Row {
        sig: "osd tier cache-mode name=pool,type=CephPoolname name=mode,type=CephChoices,strings=writeback|proxy|readproxy|readonly|none name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "specify the caching mode for cache tier <pool>",
        module: "osd",
        perm: "rw",
        run: |req| cache_mode(req).into(),
    },
    Row {
        sig: "osd tier set-overlay name=pool,type=CephPoolname name=overlaypool,type=CephPoolname",
        help: "set the overlay pool for base pool <pool> to be <overlaypool>",
        module: "osd",
        perm: "rw",
        run: set_overlay,
    },
    Row {
        sig: "osd tier rm name=pool,type=CephPoolname name=tierpool,type=CephPoolname",
        help: "remove the tier <tierpool> (the second one) from base pool <pool> (the first one)",
        module: "osd",
        perm: "rw",
        run: rm,
    },
    Row {
        sig: "osd tier remove name=pool,type=CephPoolname name=tierpool,type=CephPoolname",
        help: "remove the tier <tierpool> (the second one) from base pool <pool> (the first one)",
        module: "osd",
        perm: "rw",
        run: rm,
    },
    Row {
        sig: "osd tier rm-overlay name=pool,type=CephPoolname",
        help: "remove the overlay pool for base pool <pool>",
        module: "osd",
        perm: "rw",
        run: rm_overlay,
    },
    Row {
        sig: "osd tier remove-overlay name=pool,type=CephPoolname",
        help: "remove the overlay pool for base pool <pool>",
        module: "osd",
        perm: "rw",
        run: rm_overlay,
    },
];

/// `pg_pool_t::CACHEMODE_NONE`.
const MODE_NONE: u8 = 0;
/// `pg_pool_t::CACHEMODE_READONLY`: what is written goes to the base, so clients do not see whether it is cached.
const MODE_READONLY: u8 = 3;

/// The pool that an argument of the command names, with all that is pending.
fn tier_arg(req: &Request<'_>, arg: &str) -> Result<(PoolId, String, PgPool), Reply> {
    let name = req.args.text(arg).unwrap_or_default();
    let found = req.next_map().pool_by_name(&name).map(|(id, pool)| (id, name.clone(), pool.clone()));
    found.ok_or_else(|| Reply::fail(Errno::ENOENT, no_pool(&name)))
}

/// Refuses what would chain tiers, or make a tier of a pool that has snapshots of its own.
fn check_tier(
    map: &OsdMap,
    base: &(PoolId, String, PgPool),
    tier: &(PoolId, String, PgPool),
) -> Result<(), Reply> {
    let name = |id: &PoolId| map.pool_name(*id).unwrap_or_default();
    let refuse = |errno, text| Err(Reply::fail(errno, text));
    let chained = "multiple tiers are not yet supported.";
    if tier.2.is_tier() {
        let of = name(&tier.2.tier_of);
        return refuse(Errno::EINVAL, format!("tier pool '{}' is already a tier of '{of}'", tier.1));
    }
    if !tier.2.tiers.is_empty() {
        let tiers: Vec<&str> = tier.2.tiers.iter().map(name).collect();
        let tiers = tiers.join(",");
        return refuse(
            Errno::EINVAL,
            format!("pool '{}' has following tier(s) already:'{tiers}', {chained}", tier.1),
        );
    }
    if base.2.is_tier() {
        let of = name(&base.2.tier_of);
        return refuse(Errno::EINVAL, format!("pool '{}' is already a tier of '{of}', {chained}", base.1));
    }
    if base.0 == tier.0 {
        return refuse(Errno::EINVAL, format!("pool '{}' cannot be a tier of itself", base.1));
    }
    if !tier.2.snaps.is_empty() || !tier.2.removed_snaps.is_empty() {
        let text = "has snapshot state; it cannot be added as a tier without breaking the pool";
        return refuse(Errno::ENOTEMPTY, format!("tier pool '{}' {text}", tier.1));
    }
    Ok(())
}

fn add(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (mut base, mut tier) = (tier_arg(req, "pool")?, tier_arg(req, "tierpool")?);
    let done = format!("pool '{}' is now (or already was) a tier of '{}'", tier.1, base.1);
    if tier.2.tier_of == base.0 {
        return Ok(Reply::done(done));
    }
    check_tier(req.next_map(), &base, &tier)?;
    let is_forced = req.args.text("force_nonempty").as_deref() == Some("--force-nonempty");
    if req.mon.stats.pool_sum(tier.0).objects > 0 && !is_forced {
        let text = format!("tier pool '{}' is not empty; --force-nonempty to force", tier.1);
        return Err(Reply::fail(Errno::ENOTEMPTY, text));
    }
    base.2.tiers.insert(tier.0);
    tier.2.tier_of = base.0;
    put_pool(req, base.0, base.2);
    put_pool(req, tier.0, tier.2);
    Ok(Reply::done(done))
}

fn cache_mode(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (id, name, mut pool) = pending_pool(req)?;
    if !pool.is_tier() {
        return Err(Reply::fail(Errno::EINVAL, format!("pool '{name}' is not a tier")));
    }
    let mode = req.args.text("mode").unwrap_or_default();
    pool.cache_mode = match mode.as_str() {
        "none" => MODE_NONE,
        "readonly" if req.args.flag("yes_i_really_mean_it") => MODE_READONLY,
        "readonly" => {
            let text = "'readonly' is not a well-supported cache mode and may corrupt your data.  pass --yes-i-really-mean-it to force.";
            return Err(Reply::fail(Errno::EPERM, text));
        }
        "writeback" | "proxy" | "readproxy" => return Err(not_cached()),
        _ => return Err(Reply::fail(Errno::EINVAL, format!("'{mode}' is not a valid cache mode"))),
    };
    pool.flags = pool.flags.with(PoolFlags::INCOMPLETE_CLONES, true);
    put_pool(req, id, pool);
    Ok(Reply::done(format!("set cache-mode for pool '{name}' to {mode}")))
}

fn not_cached() -> Reply {
    Reply::fail(Errno::EOPNOTSUPP, "cache tiers that clients use are not supported")
}

fn set_overlay(req: &mut Request<'_>) -> Reply {
    match (tier_arg(req, "pool"), tier_arg(req, "overlaypool")) {
        (Err(reply), _) | (_, Err(reply)) => reply,
        (Ok(base), Ok(tier)) if tier.2.tier_of != base.0 => {
            Reply::fail(Errno::EINVAL, format!("tier pool '{}' is not a tier of '{}'", tier.1, base.1))
        }
        (Ok(_), Ok(_)) => not_cached(),
    }
}

fn rm(req: &mut Request<'_>) -> Reply {
    let (mut base, mut tier) = match (tier_arg(req, "pool"), tier_arg(req, "tierpool")) {
        (Ok(base), Ok(tier)) => (base, tier),
        (Err(reply), _) | (_, Err(reply)) => return reply,
    };
    if tier.2.tier_of == base.0 {
        base.2.tiers.remove(&tier.0);
        (tier.2.tier_of, tier.2.cache_mode) = (PoolId(-1), MODE_NONE);
        put_pool(req, base.0, base.2);
        put_pool(req, tier.0, tier.2);
    }
    Reply::done(format!("pool '{}' is now (or already was) not a tier of '{}'", tier.1, base.1))
}

fn rm_overlay(req: &mut Request<'_>) -> Reply {
    match pool_arg(req, req.map()) {
        Ok((_, pool)) => Reply::done(format!("there is now (or already was) no overlay for '{pool}'")),
        Err(reply) => reply,
    }
}
