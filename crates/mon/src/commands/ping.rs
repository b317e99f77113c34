//! What a monitor says of itself, to a ping (`Monitor::handle_ping`) and to `ceph tell mon.a mon_status`.

use codec::Features;
use serde_json::{Value, json};
use types::UTime;

use super::{Reply, Row, mon_info, status::ELECTION_EPOCH};
use crate::Mon;

/// Commands that only `tell` reaches.
pub(super) const TELL_ROWS: &[Row] = &[Row {
    sig: "mon_status",
    help: "report status of monitors",
    module: "mon",
    perm: "r",
    run: |req| Reply::json(req.args, mon_status(req.mon, req.wall)),
}];

/// Health and the monitor's own status.
pub(crate) fn pong(mon: &Mon, wall: UTime) -> String {
    let pong = json!({"health": mon.health().json(false), "mon_status": mon_status(mon, wall)});
    format!("{pong:#}")
}

fn mon_status(mon: &Mon, wall: UTime) -> Value {
    let monmap = &mon.committed.monmap;
    let name = &mon.base_options.name;
    let quorum: Vec<usize> = (0..monmap.size()).collect();
    json!({
        "name": name,
        "rank": monmap.ranks.iter().position(|rank| rank == name),
        "state": "leader",
        "election_epoch": ELECTION_EPOCH,
        "quorum": quorum,
        "quorum_age": wall.since(mon.started).as_secs(),
        "features": {
            "required_con": Features::PACIFIC.0.to_string(),
            "required_mon": mon_info::MON_FEATURES,
            "quorum_con": Features::PACIFIC.0.to_string(),
            "quorum_mon": mon_info::MON_FEATURES,
        },
        "outside_quorum": [],
        "extra_probe_peers": [],
        "sync_provider": [],
        "monmap": mon_info::monmap_json(monmap),
        "stretch_mode": false,
    })
}
