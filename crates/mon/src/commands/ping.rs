//! What a monitor answers to a ping (`Monitor::handle_ping`): `ceph ping mon.a`.

use codec::Features;
use serde_json::json;
use types::UTime;

use super::{mon_info, status::ELECTION_EPOCH};
use crate::Mon;

/// Health and the monitor's own status.
pub(crate) fn pong(mon: &Mon, wall: UTime) -> String {
    let monmap = &mon.committed.monmap;
    let name = &mon.base_options.name;
    let quorum: Vec<usize> = (0..monmap.size()).collect();
    let pong = json!({
        "health": mon.health().json(false),
        "mon_status": {
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
        },
    });
    format!("{pong:#}")
}
