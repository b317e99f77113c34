//! Weight sets: weights besides those of the CRUSH map, for all pools or for one.

use crush::{Bucket, COMPAT_SET, CrushMap};
use types::{Errno, PoolId, Release};

use super::{
    Reply, Request, Row,
    crush_map::{fixed_weight, pending, text},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd crush weight-set create-compat",
        help: "create a default backward-compatible weight-set",
        module: "osd",
        perm: "rw",
        run: create_compat,
    },
    Row {
        sig: "osd crush weight-set create name=pool,type=CephPoolname name=mode,type=CephChoices,strings=flat|positional",
        help: "create a weight-set for a given pool",
        module: "osd",
        perm: "rw",
        run: |req| create(req).into(),
    },
    Row {
        sig: "osd crush weight-set rm name=pool,type=CephPoolname",
        help: "remove the weight-set for a given pool",
        module: "osd",
        perm: "rw",
        run: |req| rm(req).into(),
    },
    Row {
        sig: "osd crush weight-set rm-compat",
        help: "remove the backward-compatible weight-set",
        module: "osd",
        perm: "rw",
        run: rm_compat,
    },
    Row {
        sig: "osd crush weight-set reweight name=pool,type=CephPoolname name=item,type=CephString name=weight,type=CephFloat,range=0.0,n=N",
        help: "set weight for an item (bucket or osd) in a pool's weight-set",
        module: "osd",
        perm: "rw",
        run: |req| reweight(req).into(),
    },
    Row {
        sig: "osd crush weight-set reweight-compat name=item,type=CephString name=weight,type=CephFloat,range=0.0,n=N",
        help: "set weight for an item (bucket or osd) in the backward-compatible weight-set",
        module: "osd",
        perm: "rw",
        run: |req| reweight_compat(req).into(),
    },
];

/// The pool that is named, and how many copies it has.
fn pool_arg(req: &Request<'_>) -> Result<(PoolId, usize), Reply> {
    let name = text(req, "pool");
    match req.next_map().pool_by_name(&name) {
        Some((id, pool)) => Ok((id, usize::from(pool.size))),
        None => Err(Reply::fail(Errno::ENOENT, format!("pool '{name}' not found"))),
    }
}

fn create_compat(req: &mut Request<'_>) -> Reply {
    let mut crush = pending(req);
    if !crush.create_weight_set(COMPAT_SET, 1) {
        return Reply::done("compat weight-set already created");
    }
    req.mon.change_crush(req.wall, crush);
    Reply::done("")
}

fn create(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (pool, size) = pool_arg(req)?;
    if req.next_map().require_min_compat_client < Release::LUMINOUS {
        let why = "require_min_compat_client < luminous, which is required for per-pool weight-sets. Try 'ceph osd set-require-min-compat-client luminous' before using the new interface";
        return Err(Reply::fail(Errno::EPERM, why));
    }
    let mut crush = pending(req);
    let positions = if text(req, "mode") == "flat" { 1 } else { size };
    if !crush.create_weight_set(pool.0, positions) {
        return Ok(Reply::done(format!("weight-set for pool '{}' already created", text(req, "pool"))));
    }
    req.mon.change_crush(req.wall, crush);
    Ok(Reply::done(""))
}

fn rm(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (pool, _) = pool_arg(req)?;
    Ok(rm_set(req, pool.0))
}

fn rm_compat(req: &mut Request<'_>) -> Reply {
    rm_set(req, COMPAT_SET)
}

fn rm_set(req: &mut Request<'_>, set: i64) -> Reply {
    let mut crush = pending(req);
    if crush.choose_args.remove(&set).is_some() {
        req.mon.change_crush(req.wall, crush);
    }
    Reply::done("")
}

fn reweight(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let pool = pool_arg(req)?.0.0;
    let crush = pending(req);
    let Some(positions) = crush.weight_set_positions(pool) else {
        return Err(Reply::fail(Errno::ENOENT, format!("no weight-set for pool '{}'", text(req, "pool"))));
    };
    let weights = weights(req)?;
    if weights.len() != positions {
        return Err(Reply::fail(Errno::EINVAL, format!("must specify exact {positions} weight values")));
    }
    Ok(reweight_set(req, crush, pool, &weights))
}

fn reweight_compat(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let crush = pending(req);
    if crush.weight_set_positions(COMPAT_SET).is_none() {
        return Err(Reply::fail(Errno::ENOENT, "no backward-compatible weight-set"));
    }
    let weights = weights(req)?;
    Ok(reweight_set(req, crush, COMPAT_SET, &weights))
}

/// The weights that are given, as CRUSH maps count them.
fn weights(req: &Request<'_>) -> Result<Vec<u32>, Reply> {
    let given = req.args.list("weight");
    given.iter().filter_map(|text| text.parse::<f64>().ok()).map(fixed_weight).collect()
}

fn reweight_set(req: &mut Request<'_>, mut crush: CrushMap, set: i64, weights: &[u32]) -> Reply {
    let name = text(req, "item");
    let Some(item) = crush.id_of(&name) else {
        return Reply::fail(Errno::ENOENT, format!("item '{name}' does not exist"));
    };
    let count = weights.len();
    if crush.weight_set_positions(set) != Some(count) {
        // Ceph says this of every bucket that it looks into, and finds the item in none.
        let of = |bucket: &Bucket| format!("weight_set_positions != {count} for bucket {}", bucket.id);
        let buckets: String = crush.all_buckets().map(of).collect();
        return Reply::fail(Errno::ENOENT, format!("{buckets}item {item} not found in crush map"));
    }
    if !crush.reweigh_in_set(set, item, weights) {
        return Reply::fail(Errno::ENOENT, format!("item {item} not found in crush map"));
    }
    req.mon.change_crush(req.wall, crush);
    Reply::done("")
}
