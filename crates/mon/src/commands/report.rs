//! `ceph report`: all that is known of the cluster in one document, for operators to send when they ask for help.
//!
//! Its parts are what other commands answer; the line for the operator holds a checksum of the document.

use serde_json::{Map, Value, json};
use types::Errno;

use super::{Args, Reply, Request, Row, find_row};

pub(super) const ROWS: &[Row] = &[Row {
    sig: "report name=tags,type=CephString,n=N,req=false",
    help: "report full status of cluster, optional title tag strings",
    module: "mon",
    perm: "r",
    run: report,
}];

/// What the checksum starts with: the port of Ceph's monitors.
const CRC_SEED: u32 = 6789;

/// The document that another command answers; null where it has none.
fn part(req: &mut Request<'_>, command: &str) -> Value {
    let cmd = [json!({"prefix": command, "format": "json"}).to_string()];
    let (Some(args), Some(row)) = (Args::parse(&cmd), find_row(command)) else { return Value::Null };
    let (wall, peer, input) = (req.wall, req.peer, req.input);
    let reply = (row.run)(&mut Request { mon: req.mon, wall, peer, args: &args, input, caller: None });
    serde_json::from_slice(&reply.output).unwrap_or_default()
}

/// How many PGs each OSD has.
fn pgs_by_osd(stats: &[types::PgStat]) -> Value {
    let mut counts: std::collections::BTreeMap<i32, (u64, u64, u64)> = std::collections::BTreeMap::new();
    for stat in stats {
        counts.entry(stat.acting_primary.0).or_default().0 += 1;
        for osd in &stat.acting {
            counts.entry(osd.0).or_default().1 += 1;
        }
        for osd in stat.up.iter().filter(|osd| !stat.acting.contains(osd)) {
            counts.entry(osd.0).or_default().2 += 1;
        }
    }
    let one = |(osd, (primary, acting, up))| json!({"osd": osd, "num_primary_pg": primary, "num_acting_pg": acting, "num_up_not_acting_pg": up});
    counts.into_iter().filter(|(osd, _)| *osd >= 0).map(one).collect()
}

fn report(req: &mut Request<'_>) -> Reply {
    let stats = super::pg::all_stats(req.mon);
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.insert(key.to_owned(), value);
    put("cluster_fingerprint", req.state().monmap.fsid.to_string().into());
    put("version", types::DAEMON_VERSION.into());
    put("commit", req.mon.options.git_version.into());
    put("timestamp", req.wall.to_string().into());
    put("tag", req.args.list("tags").join(" ").into());
    put("health", req.mon.health().json(true));
    put("monmap_first_committed", 1.into());
    put("monmap_last_committed", req.state().monmap.epoch.0.into());
    put("monmap", part(req, "mon dump"));
    put("quorum", (0..req.state().monmap.size()).collect());
    put("osdmap", part(req, "osd dump"));
    put("osd_metadata", part(req, "osd metadata"));
    put("osdmap_first_committed", req.state().oldest_epoch().0.into());
    put("osdmap_last_committed", req.map().epoch.0.into());
    put("crushmap", part(req, "osd crush dump"));
    put("fsmap", part(req, "fs dump"));
    put("mdsmap_first_committed", 1.into());
    put("mdsmap_last_committed", 1.into());
    put("num_pg", stats.len().into());
    put("num_pg_active", stats.iter().filter(|s| s.state.has(types::PgState::ACTIVE)).count().into());
    put("num_pg_unknown", stats.iter().filter(|s| s.state == types::PgState::default()).count().into());
    put("num_osd", req.map().num_osds().into());
    let mut dump = part(req, "pg dump");
    for (key, from) in [
        ("pool_sum", "pg_stats_sum"),
        ("osd_sum", "osd_stats_sum"),
        ("pool_stats", "pool_stats"),
        ("osd_stats", "osd_stats"),
    ] {
        put(key, dump["pg_map"][from].take());
    }
    let states = super::status::pgs_by_state(req.mon).into_iter();
    put("num_pg_by_state", states.map(|(state, num)| json!({"state": state, "num": num})).collect());
    put("num_pg_by_osd", pgs_by_osd(&stats));
    put("servicemap", part(req, "service dump"));
    let reply = Reply::json(req.args, out.into());
    if reply.output.is_empty() {
        return Reply::fail(Errno::EINVAL, "report has no other form than JSON");
    }
    let crc = codec::crc32c(CRC_SEED, &reply.output);
    reply.with_status(format!("report {crc}"))
}
