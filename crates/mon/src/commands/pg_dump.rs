//! `ceph pg dump`: all statistics.

use serde_json::{Map, Value, json};
use types::{OsdId, OsdStat, PgStat, PgStatSum, PoolId, UTime};

use super::{
    Reply, Request, Row,
    pg::{OMAP_NOTE, all_stats},
};
use crate::{
    Mon,
    format::{self, Align, TextTable},
};

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

/// `object_stat_sum_t` as dumps have it.
fn sum_json(sum: &PgStatSum) -> Value {
    let mut out = Map::new();
    let known = [
        ("num_bytes", sum.bytes),
        ("num_objects", sum.objects),
        ("num_object_clones", sum.clones),
        ("num_object_copies", sum.object_copies),
        ("num_objects_missing_on_primary", sum.missing_on_primary),
        ("num_objects_missing", 0),
        ("num_objects_degraded", sum.degraded),
        ("num_objects_misplaced", sum.misplaced),
        ("num_objects_unfound", sum.unfound),
        ("num_objects_dirty", 0),
        ("num_whiteouts", 0),
        ("num_read", sum.reads),
        ("num_read_kb", sum.read_bytes >> 10),
        ("num_write", sum.writes),
        ("num_write_kb", sum.write_bytes >> 10),
        ("num_scrub_errors", 0),
        ("num_shallow_scrub_errors", 0),
        ("num_deep_scrub_errors", 0),
        ("num_objects_recovered", sum.objects_recovered),
        ("num_bytes_recovered", sum.bytes_recovered),
        ("num_keys_recovered", 0),
        ("num_objects_omap", 0),
    ];
    out.extend(known.map(|(name, value)| (name.to_owned(), value.into())));
    // Cache tiers and the like, which do not exist here.
    let unused = [
        "num_objects_hit_set_archive",
        "num_bytes_hit_set_archive",
        "num_flush",
        "num_flush_kb",
        "num_evict",
        "num_evict_kb",
        "num_promote",
        "num_flush_mode_high",
        "num_flush_mode_low",
        "num_evict_mode_some",
        "num_evict_mode_full",
        "num_objects_pinned",
        "num_legacy_snapsets",
        "num_large_omap_objects",
        "num_objects_manifest",
    ];
    out.extend(unused.map(|name| (name.to_owned(), 0.into())));
    out.insert("num_omap_bytes".to_owned(), sum.omap_bytes.into());
    out.insert("num_omap_keys".to_owned(), sum.omap_keys.into());
    out.insert("num_objects_repaired".to_owned(), 0.into());
    out.into()
}

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
    let ids = |osds: &[OsdId]| osds.iter().map(|osd| osd.0).collect::<Vec<_>>();
    let never = UTime::default().to_string();
    let fresh = stat.last_fresh.to_string();
    let active = stat.last_active.to_string();
    let mut out = json!({
        "pgid": stat.pgid.to_string(),
        "version": stat.version.to_string(),
        "reported_seq": stat.reported_seq,
        "reported_epoch": stat.reported_epoch.0,
        "state": stat.state.to_string(),
        "last_fresh": fresh,
        "last_change": stat.last_change.to_string(),
        "last_active": active,
        "last_peered": active,
        "last_clean": stat.last_clean.to_string(),
        "last_became_active": active,
        "last_became_peered": active,
        "last_unstale": fresh,
        "last_undegraded": fresh,
        "last_fullsized": fresh,
        "mapping_epoch": stat.mapping_epoch.0,
        "log_start": stat.log_start.to_string(),
        "ondisk_log_start": stat.log_start.to_string(),
        "created": stat.created.0,
        "last_epoch_clean": stat.last_epoch_clean.0,
        "parent": "0.0",
        "parent_split_bits": 0,
    });
    let rest = json!({
        "last_scrub": "0'0",
        "last_scrub_stamp": never,
        "last_deep_scrub": "0'0",
        "last_deep_scrub_stamp": never,
        "last_clean_scrub_stamp": never,
        "log_size": stat.log_size,
        "ondisk_log_size": stat.log_size,
        "stats_invalid": false,
        "dirty_stats_invalid": false,
        "omap_stats_invalid": false,
        "hitset_stats_invalid": false,
        "hitset_bytes_stats_invalid": false,
        "pin_stats_invalid": false,
        "manifest_stats_invalid": false,
        "snaptrimq_len": stat.snaptrimq_len,
        "stat_sum": sum_json(&stat.sum),
        "up": ids(&stat.up),
        "acting": ids(&stat.acting),
        "avail_no_missing": [],
        "object_location_counts": [],
        "blocked_by": [],
        "up_primary": stat.up_primary.0,
        "acting_primary": stat.acting_primary.0,
        "purged_snaps": [],
    });
    if let (Value::Object(all), Value::Object(rest)) = (&mut out, rest) {
        all.extend(rest);
    }
    out
}

fn sums_json<'a>(
    mon: &Mon,
    stats: impl Iterator<Item = &'a PgStat>,
    pool: Option<PoolId>,
) -> Map<String, Value> {
    let (mut log, mut up, mut acting) = (0u64, 0usize, 0usize);
    for stat in stats {
        log += stat.log_size;
        up += stat.up.len();
        acting += stat.acting.len();
    }
    let map = &mon.committed.osdmap;
    let (sum, stored, omap) = match pool {
        Some(id) => {
            let sum = mon.stats.pool_sum(id);
            let size = map.pools.get(&id).map_or(1, |p| u64::from(p.size));
            (sum, sum.bytes * size, sum.omap_bytes * size)
        }
        None => (mon.stats.total(), 0, 0),
    };
    let out = json!({
        "stat_sum": sum_json(&sum),
        "store_stats": statfs_json(0, 0, stored, stored, omap, 0),
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
        "num_shards_repaired": 0,
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

fn all_json(mon: &Mon, wall: UTime, wanted: &[String]) -> Value {
    let stats = all_stats(mon);
    let map = &mon.committed.osdmap;
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == "all" || w == name);
    let devices = mon.stats.devices(map.osds());
    let osds_with_stats: Vec<_> = map.osds().filter_map(|osd| Some((osd, mon.stats.osd(osd)?))).collect();
    let mut out = json!({
        "version": mon.stats.version,
        "stamp": wall.to_string(),
        "last_osdmap_epoch": 0,
        "last_pg_scan": 0,
    });
    if wants("summary") || wants("sum") {
        let total_pgs = stats.iter().map(|s| s.acting.len() as u64).sum();
        out["pg_stats_sum"] = sums_json(mon, stats.iter(), None).into();
        out["osd_stats_sum"] = osd_json(&devices, map.num_osds(), total_pgs).into();
    }
    if wants("delta") || wanted.is_empty() {
        let mut delta = sums_json(mon, [].iter(), None);
        delta.insert("stat_sum".to_owned(), sum_json(&PgStatSum::default()));
        delta.insert("stamp_delta".to_owned(), "0.000000".into());
        out["pg_stats_delta"] = delta.into();
    }
    if wants("pgs") {
        out["pg_stats"] = stats.iter().map(pg_json).collect();
    }
    if wants("pools") {
        out["pool_stats"] = pools_json(mon, &stats);
    }
    if wants("osds") {
        let osd = |(osd, stat): (OsdId, &OsdStat)| {
            let mut rest = osd_json(stat, 1, u64::from(stat.pg_count));
            rest.insert("up_from".to_owned(), map.up_from(osd).0.into());
            with_first("osd", osd.0.into(), rest)
        };
        out["osd_stats"] = osds_with_stats.into_iter().map(osd).collect();
        let statfs = map.pools.keys().flat_map(|pool| map.osds().map(move |osd| (pool, osd)));
        let one = |(pool, osd): (&PoolId, OsdId)| {
            let rest = statfs_json(0, 0, 0, 0, 0, 0).as_object().cloned().unwrap_or_default();
            let tail = with_first("osd", osd.0.into(), rest).as_object().cloned().unwrap_or_default();
            with_first("poolid", pool.0.into(), tail)
        };
        out["pool_statfs"] = statfs.map(one).collect();
    }
    json!({"pg_ready": true, "pg_map": out})
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
    let what = if wanted.is_empty() { "all".to_owned() } else { wanted.join(",") };
    let json = || all_json(mon, wall, &wanted);
    Reply::show(req.args, json, || all_text(mon, wall, &wanted)).with_status(format!("dumped {what}"))
}

fn dump_json(req: &mut Request<'_>) -> Reply {
    let wanted = req.args.list("dumpcontents");
    let out = all_json(req.mon, req.wall, &wanted);
    Reply::json(req.args, out).with_status("dumped all")
}

fn dump_pools(req: &mut Request<'_>) -> Reply {
    let out = pools_json(req.mon, &all_stats(req.mon));
    Reply::json(req.args, out)
}

/// `pg dump pgs_brief`.
pub(super) fn brief_text(stats: &[PgStat]) -> String {
    let (l, r) = (Align::Left, Align::Right);
    let mut table = TextTable::default();
    for (heading, align) in
        [("PG_STAT", l), ("STATE", l), ("UP", l), ("UP_PRIMARY", r), ("ACTING", l), ("ACTING_PRIMARY", r)]
    {
        table = table.column(heading, l, align);
    }
    for stat in stats {
        table.row(vec![
            stat.pgid.to_string(),
            stat.state.to_string(),
            format::list(&stat.up),
            stat.up_primary.to_string(),
            format::list(&stat.acting),
            stat.acting_primary.to_string(),
        ]);
    }
    table.render()
}

fn all_text(mon: &Mon, wall: UTime, wanted: &[String]) -> String {
    let stats = all_stats(mon);
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == "all" || w == name);
    let mut out =
        format!("version {}\nstamp {wall}\nlast_osdmap_epoch 0\nlast_pg_scan 0\n", mon.stats.version);
    if wants("pgs") {
        out.push_str(&pgs_text(&stats));
    }
    if wants("pools") {
        let rows = mon.committed.osdmap.pools.keys().map(|id| {
            let log = stats.iter().filter(|s| s.pgid.pool == *id).map(|s| s.log_size).sum();
            (id.to_string(), mon.stats.pool_sum(*id), log)
        });
        out.push_str(&sums_text(rows.collect()));
    }
    if wants("summary") || wants("sum") {
        let log = stats.iter().map(|s| s.log_size).sum();
        out.push_str(&sums_text(vec![("sum".to_owned(), mon.stats.total(), log)]));
    }
    if wants("osds") {
        out.push_str(&osds_text(mon));
    }
    out + OMAP_NOTE
}

fn pgs_text(stats: &[PgStat]) -> String {
    let (l, r) = (Align::Left, Align::Right);
    let headings = [
        ("PG_STAT", l),
        ("OBJECTS", r),
        ("MISSING_ON_PRIMARY", r),
        ("DEGRADED", r),
        ("MISPLACED", r),
        ("UNFOUND", r),
        ("BYTES", r),
        ("OMAP_BYTES*", r),
        ("OMAP_KEYS*", r),
        ("LOG", r),
        ("DISK_LOG", r),
        ("STATE", l),
        ("STATE_STAMP", l),
        ("VERSION", r),
        ("REPORTED", r),
        ("UP", l),
        ("UP_PRIMARY", r),
        ("ACTING", l),
        ("ACTING_PRIMARY", r),
        ("LAST_SCRUB", r),
        ("SCRUB_STAMP", l),
        ("LAST_DEEP_SCRUB", r),
        ("DEEP_SCRUB_STAMP", l),
        ("SNAPTRIMQ_LEN", r),
    ];
    let mut table = TextTable::default();
    for (heading, align) in headings {
        table = table.column(heading, l, align);
    }
    let never = UTime::default().to_string();
    for stat in stats {
        let sum = &stat.sum;
        let numbers = [
            sum.objects,
            sum.missing_on_primary,
            sum.degraded,
            sum.misplaced,
            sum.unfound,
            sum.bytes,
            sum.omap_bytes,
            sum.omap_keys,
            stat.log_size,
            stat.log_size,
        ];
        let mut cells = vec![stat.pgid.to_string()];
        cells.extend(numbers.map(|n| n.to_string()));
        cells.extend([
            stat.state.to_string(),
            stat.last_change.to_string(),
            stat.version.to_string(),
            format!("{}:{}", stat.reported_epoch, stat.reported_seq),
            format::list(&stat.up),
            stat.up_primary.to_string(),
            format::list(&stat.acting),
            stat.acting_primary.to_string(),
            "0'0".to_owned(),
            never.clone(),
            "0'0".to_owned(),
            never.clone(),
            stat.snaptrimq_len.to_string(),
        ]);
        table.row(cells);
    }
    table.render()
}

/// Lines of sums, under an empty heading as the stock dump has them.
fn sums_text(rows: Vec<(String, PgStatSum, u64)>) -> String {
    let mut table = TextTable::default().columns(&[("", Align::Left); 1]).columns(&[("", Align::Right); 10]);
    for (name, sum, log) in rows {
        let numbers = [
            sum.objects,
            sum.missing_on_primary,
            sum.degraded,
            sum.misplaced,
            sum.unfound,
            sum.bytes,
            sum.omap_bytes,
            sum.omap_keys,
            log,
            log,
        ];
        table.row([vec![name], numbers.map(|n| n.to_string()).to_vec()].concat());
    }
    table.render()
}

fn osds_text(mon: &Mon) -> String {
    let map = &mon.committed.osdmap;
    let mut table = TextTable::default();
    let headings = ["OSD_STAT", "USED", "AVAIL", "USED_RAW", "TOTAL", "HB_PEERS", "PG_SUM", "PRIMARY_PG_SUM"];
    for (at, heading) in headings.into_iter().enumerate() {
        table = table.column(heading, Align::Left, if at == 0 { Align::Left } else { Align::Right });
    }
    let sizes = |stat: &OsdStat| {
        [stat.kb_used, stat.kb_avail, stat.kb_used, stat.kb].map(|kb| format::bytes(kb << 10))
    };
    for (osd, stat) in map.osds().filter_map(|osd| Some((osd, mon.stats.osd(osd)?))) {
        let mut cells = vec![osd.to_string()];
        cells.extend(sizes(stat));
        cells.push(format::list(&stat.heartbeat_peers));
        cells.extend([stat.pg_count.to_string(), stat.primary_pg_count.to_string()]);
        table.row(cells);
    }
    let mut cells = vec!["sum".to_owned()];
    cells.extend(sizes(&mon.stats.devices(map.osds())));
    cells.extend(["", "", ""].map(str::to_owned));
    table.row(cells);
    table.render()
}
