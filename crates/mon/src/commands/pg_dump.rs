//! `ceph pg dump`: all statistics.

use serde_json::{Map, Value, json};
use types::{OsdId, OsdStat, PgStat, PgStatSum, PoolId, PoolStatfs, UTime};

use super::{
    Reply, Request, Row,
    pg::all_stats,
    pg_dump_text::{brief_text, parts_text},
};
use crate::Mon;

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "pg dump name=dumpcontents,type=CephChoices,strings=all|summary|sum|delta|pools|osds|pgs|pgs_brief,n=N,req=false",
        help: "show human-readable versions of pg map (only 'all' valid with plain)",
        module: "pg",
        perm: "r",
        run: dump,
    },
    Row {
        sig: "pg dump_json name=dumpcontents,type=CephChoices,strings=all|summary|sum|pools|osds|pgs,n=N,req=false",
        help: "show human-readable version of pg map in json only",
        module: "pg",
        perm: "r",
        run: dump_json,
    },
    Row {
        sig: "pg dump_pools_json",
        help: "show pg pools info in json only",
        module: "pg",
        perm: "r",
        run: dump_pools,
    },
];

/// `store_statfs_t` as dumps have it.
fn statfs_json(total: u64, available: u64, allocated: u64, stored: u64, omap: u64, meta: u64) -> Value {
    json!({
        "total": total,
        "available": available,
        "internally_reserved": 0,
        "allocated": allocated,
        "data_stored": stored,
        "data_compressed": 0,
        "data_compressed_allocated": 0,
        "data_compressed_original": 0,
        "omap_allocated": omap,
        "internal_metadata": meta,
    })
}

/// A PG as dumps have it.
pub(super) fn pg_json(stat: &PgStat) -> Value {
    with_first("pgid", stat.pgid.to_string().into(), stat.dump())
}

/// Entries of the logs of these PGs.
pub(super) fn log_size<'a>(stats: impl Iterator<Item = &'a PgStat>) -> u64 {
    stats.fold(0, |sum, stat| sum.saturating_add(stat.log_size))
}

fn sums_json<'a>(
    mon: &Mon,
    stats: impl Iterator<Item = &'a PgStat> + Clone,
    pool: Option<PoolId>,
) -> Map<String, Value> {
    let log = log_size(stats.clone());
    let (up, acting) = stats.fold((0, 0), |sum, stat| (sum.0 + stat.up.len(), sum.1 + stat.acting.len()));
    let map = &mon.committed.osdmap;
    let (sum, statfs) = match pool {
        Some(id) => (mon.stats.pool_sum(id), mon.stats.pool_statfs_sum(id)),
        None => (mon.stats.total(), PoolStatfs::default()),
    };
    let out = json!({
        "stat_sum": sum.dump(),
        "store_stats": pool_json(statfs),
        "log_size": log,
        "ondisk_log_size": log,
        "up": up,
        "acting": acting,
        "num_store_stats": if pool.is_some() { map.num_osds() } else { 0 },
    });
    out.as_object().cloned().unwrap_or_default()
}

fn osd_json(stat: &OsdStat, osds: usize, pgs: u64) -> Map<String, Value> {
    const NS_PER_MS: u64 = 1_000_000;
    let out = json!({
        "up_from": 0,
        "seq": 0,
        "num_pgs": pgs,
        "num_osds": osds,
        "num_per_pool_osds": osds,
        "num_per_pool_omap_osds": osds,
        "kb": stat.kb,
        "kb_used": stat.kb_used,
        "kb_used_data": stat.kb_used_data,
        "kb_used_omap": stat.kb_used_omap,
        "kb_used_meta": stat.kb_used_meta,
        "kb_avail": stat.kb_avail,
        "statfs": statfs_json(
            stat.kb << 10, stat.kb_avail << 10, stat.kb_used_data << 10, stat.kb_used_data << 10,
            stat.kb_used_omap << 10, stat.kb_used_meta << 10,
        ),
        "hb_peers": stat.heartbeat_peers.iter().map(|osd| osd.0).collect::<Vec<_>>(),
        "snap_trim_queue_len": 0,
        "num_snap_trimming": 0,
        "num_shards_repaired": stat.copies_repaired,
        "op_queue_age_hist": {"histogram": [], "upper_bound": 1},
        "perf_stat": {
            "commit_latency_ms": stat.commit_latency_ns / NS_PER_MS,
            "apply_latency_ms": stat.apply_latency_ns / NS_PER_MS,
            "commit_latency_ns": stat.commit_latency_ns,
            "apply_latency_ns": stat.apply_latency_ns,
        },
        "alerts": [],
        "network_ping_times": [],
    });
    out.as_object().cloned().unwrap_or_default()
}

fn with_first(name: &str, value: Value, rest: Map<String, Value>) -> Value {
    let mut out = Map::new();
    out.insert(name.to_owned(), value);
    out.extend(rest);
    out.into()
}

fn pools_json(mon: &Mon, stats: &[PgStat]) -> Value {
    let pool = |(id, pool): (&PoolId, &types::PgPool)| {
        let mut rest = Map::new();
        rest.insert("num_pg".to_owned(), pool.pg_num.into());
        rest.extend(sums_json(mon, stats.iter().filter(|s| s.pgid.pool == *id), Some(*id)));
        with_first("poolid", id.0.into(), rest)
    };
    mon.committed.osdmap.pools.iter().map(pool).collect()
}

/// Version and time, which begin the whole and the sums.
fn head_json(mon: &Mon, wall: UTime) -> Value {
    json!({
        "version": mon.stats.version,
        "stamp": wall.to_string(),
        "last_osdmap_epoch": 0,
        "last_pg_scan": 0,
    })
}

/// The sums over all PGs and all OSDs, and what changed lately.
fn put_sums(mon: &Mon, stats: &[PgStat], out: &mut Value) {
    let map = &mon.committed.osdmap;
    let total_pgs = stats.iter().map(|s| s.acting.len() as u64).sum();
    out["pg_stats_sum"] = sums_json(mon, stats.iter(), None).into();
    out["osd_stats_sum"] =
        osd_json(&mon.stats.all_devices(map), mon.stats.num_devices(map), total_pgs).into();
    out["pg_stats_delta"] = delta_json(mon);
}

fn delta_json(mon: &Mon) -> Value {
    let mut delta = sums_json(mon, [].iter(), None);
    delta.insert("stat_sum".to_owned(), PgStatSum::default().dump());
    delta.insert("stamp_delta".to_owned(), "0.000000".into());
    delta.into()
}

fn osds_json(mon: &Mon) -> Value {
    let map = &mon.committed.osdmap;
    let osd = |(osd, stat): (OsdId, &OsdStat)| {
        let mut rest = osd_json(stat, 1, u64::from(stat.pg_count));
        rest.insert("up_from".to_owned(), map.up_from(osd).0.into());
        with_first("osd", osd.0.into(), rest)
    };
    map.osds().filter_map(|osd| Some((osd, mon.stats.osd(osd)?))).map(osd).collect()
}

fn pool_json(statfs: PoolStatfs) -> Value {
    statfs_json(0, 0, statfs.allocated, statfs.data_stored, statfs.omap_allocated, 0)
}

/// What each pool takes of each OSD.
fn pool_statfs_json(mon: &Mon) -> Value {
    let map = &mon.committed.osdmap;
    let statfs = map.pools.keys().flat_map(|pool| map.osds().map(move |osd| (pool, osd)));
    let one = |(pool, osd): (&PoolId, OsdId)| {
        let rest = pool_json(mon.stats.pool_statfs(*pool, osd)).as_object().cloned().unwrap_or_default();
        let tail = with_first("osd", osd.0.into(), rest).as_object().cloned().unwrap_or_default();
        with_first("poolid", pool.0.into(), tail)
    };
    statfs.map(one).collect()
}

fn all_json(mon: &Mon, wall: UTime) -> Value {
    let stats = all_stats(mon);
    let mut out = head_json(mon, wall);
    put_sums(mon, &stats, &mut out);
    out["pg_stats"] = stats.iter().map(pg_json).collect();
    out["pool_stats"] = pools_json(mon, &stats);
    out["osd_stats"] = osds_json(mon);
    out["pool_statfs"] = pool_statfs_json(mon);
    json!({"pg_ready": true, "pg_map": out})
}

/// The parts asked for. The whole comes as one, and so do the sums; other parts stand side by side.
fn parts_json(mon: &Mon, wall: UTime, wanted: &[String]) -> Value {
    let wants = |name: &str| wanted.iter().any(|w| w == name);
    if wanted.is_empty() || wants("all") {
        return all_json(mon, wall);
    }
    let stats = all_stats(mon);
    if wants("summary") || wants("sum") {
        let mut out = head_json(mon, wall);
        put_sums(mon, &stats, &mut out);
        return json!({"pg_ready": true, "pg_map": out});
    }
    let mut out = json!({"pg_ready": true});
    if wants("pools") {
        out["pool_stats"] = pools_json(mon, &stats);
    }
    if wants("osds") {
        out["osd_stats"] = osds_json(mon);
        out["pool_statfs"] = pool_statfs_json(mon);
    }
    if wants("pgs") {
        out["pg_stats"] = stats.iter().map(pg_json).collect();
    }
    if wants("delta") {
        out["delta"] = json!({"pg_stats_delta": delta_json(mon)});
    }
    out
}

fn dump(req: &mut Request<'_>) -> Reply {
    let wanted = req.args.list("dumpcontents");
    let (mon, wall) = (&*req.mon, req.wall);
    if wanted.first().is_some_and(|w| w == "pgs_brief") {
        let stats = all_stats(mon);
        let brief = |s: &PgStat| {
            let full = pg_json(s);
            let keys = ["pgid", "state", "up", "acting", "up_primary", "acting_primary"];
            Value::from(keys.iter().map(|k| ((*k).to_owned(), full[*k].clone())).collect::<Map<_, _>>())
        };
        let json = || json!({"pg_ready": true, "pg_stats": stats.iter().map(brief).collect::<Vec<_>>()});
        return Reply::show(req.args, json, || brief_text(&stats)).with_status("dumped pgs_brief");
    }
    let mut names = if wanted.is_empty() { vec!["all".to_owned()] } else { wanted.clone() };
    names.sort_unstable();
    names.dedup();
    let json = || parts_json(mon, wall, &wanted);
    let reply = Reply::show(req.args, json, || parts_text(mon, wall, &wanted));
    reply.with_status(format!("dumped {}", names.join(",")))
}

/// The whole, whatever parts are named: JSON on one line in the plain form, too.
fn dump_json(req: &mut Request<'_>) -> Reply {
    let out = all_json(req.mon, req.wall);
    let plain = out.to_string() + "\n";
    Reply::show(req.args, || out, || plain).with_status("dumped all")
}

fn dump_pools(req: &mut Request<'_>) -> Reply {
    let out = json!({"pg_ready": true, "pool_stats": pools_json(req.mon, &all_stats(req.mon))});
    let plain = out.to_string() + "\n";
    Reply::show(req.args, || out, || plain).with_status("dumped pools")
}
