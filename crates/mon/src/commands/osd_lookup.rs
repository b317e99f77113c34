//! OSDs one by one: their line of the map, which OSDs are below a bucket, which ones block peering, where they run.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use types::{Errno, OsdId};

use super::{
    Reply, Request, Row,
    named::{osd_id_arg, parse_osd},
    osd_dump::{osd_json, osd_line},
    osd_info::map_arg,
};
use crate::format::{Align, TextTable};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd info name=id,type=CephOsdName,req=false",
        help: "print osd's {id} information (instead of all osds from map)",
        module: "osd",
        perm: "r",
        run: info,
    },
    Row {
        sig: "osd ls-tree name=epoch,type=CephInt,range=0,req=false name=name,type=CephString,req=true",
        help: "show OSD ids under bucket <name> in the CRUSH map",
        module: "osd",
        perm: "r",
        run: |req| ls_tree(req).into(),
    },
    Row {
        sig: "osd last-stat-seq name=id,type=CephOsdName",
        help: "get the last pg stats sequence number reported for this osd",
        module: "osd",
        perm: "r",
        run: |req| last_stat_seq(req).into(),
    },
    Row {
        sig: "osd blocked-by",
        help: "print histogram of which OSDs are blocking their peers",
        module: "osd",
        perm: "r",
        run: blocked_by,
    },
    Row {
        sig: "osd numa-status",
        help: "show NUMA status of OSDs",
        module: "osd",
        perm: "r",
        run: numa_status,
    },
    Row {
        sig: "osd get-require-min-compat-client",
        help: "get the minimum client version we will maintain compatibility with",
        module: "osd",
        perm: "r",
        run: min_compat_client,
    },
];

fn info(req: &mut Request<'_>) -> Reply {
    let map = req.map();
    if let Some(text) = req.args.text("id") {
        // Ceph's errno here is EINVAL, not ENOENT.
        let Some(osd) = parse_osd(&text).filter(|osd| map.exists(*osd)) else {
            return Reply::fail(Errno::EINVAL, format!("osd.{text} does not exist"));
        };
        return Reply::show(req.args, || osd_json(map, osd), || osd_line(map, osd));
    }
    let json = || map.osds().map(|osd| osd_json(map, osd)).collect();
    Reply::show(req.args, json, || map.osds().map(|osd| osd_line(map, osd)).collect())
}

/// The number of the report that an OSD's statistics are from. As in Ceph, nothing where a document is asked for, and 0
/// for an OSD that has not reported.
fn last_stat_seq(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let osd = osd_id_arg(req)?;
    Ok(match req.args.has_format() {
        true => Reply::default(),
        false => Reply::text(format!("{}\n", req.mon.stats.seq(osd))),
    })
}

fn ls_tree(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let map = map_arg(req)?;
    let name = req.args.text("name").unwrap_or_default();
    let crush = map.crush.map();
    let Some(id) = crush.id_of(&name) else {
        return Err(Reply::fail(Errno::ENOENT, format!("\"{name}\" does not exist")));
    };
    let mut devices = Vec::new();
    crush.devices_below(id, &mut devices);
    devices.sort_unstable();
    devices.dedup();
    devices.retain(|id| map.exists(OsdId(*id)));
    Ok(Reply::show(req.args, || json!(devices), || devices.iter().map(|id| format!("{id}\n")).collect()))
}

/// How many peering PGs wait for each OSD.
fn blocked_by(req: &mut Request<'_>) -> Reply {
    let mut counts: BTreeMap<OsdId, u64> = BTreeMap::new();
    for osd in super::pg::all_stats(req.mon).iter().flat_map(|stat| &stat.blocked_by) {
        *counts.entry(*osd).or_default() += 1;
    }
    let json = || {
        let one = |(osd, num): (&OsdId, &u64)| json!({"id": osd.0, "num_blocked": num});
        let infos: Vec<Value> = counts.iter().map(one).collect();
        json!({"pg_ready": true, "osd_blocked_by": {"osd_blocked_by_infos": infos}})
    };
    let text = || {
        let mut table = TextTable::default().columns(&[("osd", Align::Right), ("num_blocked", Align::Right)]);
        counts.iter().for_each(|(osd, num)| table.row(vec![osd.to_string(), num.to_string()]));
        table.render()
    };
    Reply::show(req.args, json, text)
}

/// What the OSDs' metadata say of NUMA nodes; absent where an OSD told none.
fn numa_status(req: &mut Request<'_>) -> Reply {
    const PARTS: [&str; 4] = ["network_numa_node", "objectstore_numa_node", "numa_node", "numa_node_cpus"];
    let state = req.state();
    let known: Vec<(OsdId, &BTreeMap<String, String>)> =
        req.map().osds().filter_map(|osd| Some((osd, state.osd_metadata.get(&osd)?))).collect();
    let host = |data: &BTreeMap<String, String>| data.get("hostname").cloned().unwrap_or_default();
    let json = || {
        let one = |(osd, data): &(OsdId, &BTreeMap<String, String>)| {
            let mut out = json!({"osd": osd.0, "host": host(data)});
            for key in PARTS {
                if let Some(value) = data.get(key) {
                    out[key] = value.as_str().into();
                }
            }
            out
        };
        known.iter().map(one).collect()
    };
    let text = || {
        let (l, r) = (Align::Left, Align::Right);
        let mut table = TextTable::default().columns(&[
            ("OSD", r),
            ("HOST", l),
            ("NETWORK", r),
            ("STORAGE", r),
            ("AFFINITY", r),
            ("CPUS", l),
        ]);
        for (osd, data) in &known {
            let cells = PARTS.map(|key| data.get(key).cloned().unwrap_or_else(|| "-".to_owned()));
            table.row([vec![osd.to_string(), host(data)], cells.to_vec()].concat());
        }
        table.render()
    };
    Reply::show(req.args, json, text)
}

/// The release alone, whatever format is asked for.
fn min_compat_client(req: &mut Request<'_>) -> Reply {
    Reply::text(format!("{}\n", req.map().require_min_compat_client))
}
