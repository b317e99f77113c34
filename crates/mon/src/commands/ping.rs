//! What a monitor answers to a ping (`Monitor::handle_ping`): `ceph ping mon.a`.

use serde_json::json;
use types::UTime;

use super::tell::status_json;
use crate::Mon;

/// Health and the monitor's own status.
pub(crate) fn pong(mon: &Mon, wall: UTime) -> String {
    let pong = json!({"health": mon.health().json(false), "mon_status": status_json(mon, wall)});
    format!("{pong:#}")
}
