//! `ceph tell mon.X …`: commands that every daemon of Ceph has, and what is left of them in a cluster of one monitor.
//!
//! Authority: `CephContextHook::call`, `Monitor::do_admin_command`, `ConnectionTracker::dump`, `mempool::dump` (16.2).

use codec::{Encode, Features};
use messages::{CLUSTER_PERF, MON_PERF};
use serde_json::{Map, Value, json};
use types::PgStat;

use super::{Reply, Request, Row, status, tell_perf};

const fn row(sig: &'static str, help: &'static str, perm: &'static str, run: super::Run) -> Row {
    Row { sig, help, module: "mon", perm, run }
}

pub(super) const ROWS: [Row; 17] = [
    row("git_version", "get git sha1", "r", git_version),
    row(
        "smart name=devid,type=CephString,req=false",
        "Query health metrics for underlying device",
        "rw",
        smart,
    ),
    row(
        "perf histogram dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        "dump perf histogram values",
        "r",
        histograms,
    ),
    row("perf histogram schema", "dump perf histogram schema", "r", histograms),
    row(
        "perfcounters_dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        "",
        "r",
        tell_perf::dump,
    ),
    row(
        "1 name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
        "",
        "r",
        tell_perf::dump,
    ),
    row("perfcounters_schema", "", "r", tell_perf::schema),
    row("2", "", "r", tell_perf::schema),
    row("0", "", "r", socket_version),
    row("connection scores dump", "show the scores used in connectivity-based elections", "rwx", scores),
    row(
        "connection scores reset",
        "reset the scores used in connectivity-based elections",
        "rwx",
        reset_scores,
    ),
    row(
        "add_bootstrap_peer_hint name=addr,type=CephIPAddr",
        "add peer address as potential bootstrap peer for cluster bringup",
        "rwx",
        peer_hint,
    ),
    row(
        "add_bootstrap_peer_hintv name=addrv,type=CephString",
        "add peer address vector as potential bootstrap peer for cluster bringup",
        "rwx",
        peer_hint,
    ),
    row("compact", "cause compaction of monitor storage", "rwx", compact),
    row("dump_mempools", "get mempool stats", "r", mempools),
    row("dump_historic_ops", "show recent ops", "r", historic_ops),
    row("dump_historic_slow_ops", "show recent slow ops", "r", historic_slow_ops),
];

fn git_version(req: &mut Request<'_>) -> Reply {
    Reply::json(req.args, json!({"git_version": req.mon.base_options.git_version}))
}

/// `CEPH_ADMIN_SOCK_VERSION`: what admin sockets speak.
fn socket_version(_: &mut Request<'_>) -> Reply {
    Reply::text("2")
}

/// Answers as a stock monitor does on a machine without `smartctl`, the tool that asks the device.
fn smart(req: &mut Request<'_>) -> Reply {
    Reply::json(req.args, json!({}))
}

/// Monitors here keep no histograms; their sections are shown all the same.
fn histograms(req: &mut Request<'_>) -> Reply {
    let wanted = req.args.text("logger").filter(|name| !name.is_empty());
    let sections = [&CLUSTER_PERF, &MON_PERF].map(|logger| logger.name);
    let shown = sections.iter().filter(|name| wanted.as_ref().is_none_or(|wanted| wanted == **name));
    let out: Map<String, Value> = shown.map(|name| ((*name).to_owned(), json!({}))).collect();
    Reply::json(req.args, out.into())
}

/// A monitor scores its connections to other monitors: there are none.
fn scores(req: &mut Request<'_>) -> Reply {
    let number = |name: &str| req.mon.settings.get(name).and_then(|value| value.parse::<u64>().ok());
    let (rank, epoch) = (0, status::ELECTION_EPOCH);
    let out = json!({
        "rank": rank,
        "epoch": epoch,
        "version": 0,
        "half_life": number("mon_con_tracker_score_halflife").unwrap_or(43_200),
        "persist_interval": number("mon_con_tracker_persist_interval").unwrap_or(10),
        "reports": {"report": {"rank": rank, "epoch": epoch, "version": 0, "peer_scores": {}}},
    });
    Reply::json(req.args, out)
}

fn reset_scores(_: &mut Request<'_>) -> Reply {
    Reply::default()
}

/// A monitor here never has to look for others.
fn peer_hint(_: &mut Request<'_>) -> Reply {
    Reply::text("mon already active; ignoring bootstrap hint\n")
}

/// Compacts the ledger, which takes a while.
fn compact(_: &mut Request<'_>) -> Reply {
    Reply::later()
}

/// What is accounted for: the OSD map and the statistics of PGs.
fn mempools(req: &mut Request<'_>) -> Reply {
    let map = req.map();
    let map_items = map.osds().count() + map.pools.len();
    let map_bytes = map.to_bytes(Features::PACIFIC).len();
    let pgs = req.mon.stats.pgs().count();
    let pools = [("osdmap", map_items, map_bytes), ("pgmap", pgs, pgs * size_of::<PgStat>())];
    let show = |items: usize, bytes: usize| json!({"items": items, "bytes": bytes});
    let by_pool: Map<String, Value> =
        pools.iter().map(|(name, items, bytes)| ((*name).to_owned(), show(*items, *bytes))).collect();
    let total = show(pools.iter().map(|pool| pool.1).sum(), pools.iter().map(|pool| pool.2).sum());
    Reply::json(req.args, json!({"mempool": {"by_pool": by_pool, "total": total}}))
}

fn historic_ops(req: &mut Request<'_>) -> Reply {
    let out = req.mon.op_history.dump(req.mon.now);
    Reply::json(req.args, out)
}

fn historic_slow_ops(req: &mut Request<'_>) -> Reply {
    let out = req.mon.op_history.dump_slow(req.mon.now);
    Reply::json(req.args, out)
}
