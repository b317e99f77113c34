//! Modules for things that a Loligo cluster never has: an orchestrator, telemetry. They answer as Ceph's modules do
//! where none is set up.

use serde_json::json;
use types::Errno;

use crate::{
    commands::{Reply, Request},
    format::python_sorted,
};

module_rows! {
    "orch status name=detail,type=CephBool,req=false" "r" "Report configured backend and its status" orch
    "orch host ls" "r" "List hosts" orch
    "orch ls" "r" "List services known to orchestrator" orch
    "orch ps" "r" "List daemons known to orchestrator" orch
    "orch device ls" "r" "List devices on a host" orch
    "telemetry status" "r" "Show current configuration" telemetry_status
    "telemetry on name=license,type=CephString,req=false" "rw" "Enable telemetry reports from this cluster" telemetry_on
    "telemetry off" "rw" "Disable telemetry reports from this cluster" telemetry_off
    "telemetry send name=endpoint,type=CephString,req=false" "rw" "Force sending data to Ceph telemetry" telemetry_on
    "telemetry show name=channels,type=CephString,n=N,req=false" "r" "Show report of specified channels, or of all" telemetry_show
}

fn orch(_: &mut Request<'_>) -> Reply {
    Reply::fail(Errno::ENOENT, "No orchestrator configured (try `ceph orch set backend`)")
}

fn telemetry_status(_: &mut Request<'_>) -> Reply {
    let out = json!({
        "channel_basic": false,
        "channel_crash": false,
        "channel_device": false,
        "channel_ident": false,
        "contact": null,
        "description": null,
        "enabled": false,
        "interval": 24,
        "last_upload": null,
        "leaderboard": false,
        "organization": null,
        "proxy": null,
        "url": null,
    });
    Reply::module(python_sorted(&out))
}

/// Nothing ever calls home.
fn telemetry_on(_: &mut Request<'_>) -> Reply {
    Reply::fail(Errno::EPERM, "nothing is reported to anybody: there is no telemetry here")
}

fn telemetry_off(_: &mut Request<'_>) -> Reply {
    Reply::default()
}

fn telemetry_show(_: &mut Request<'_>) -> Reply {
    Reply::module("{}".to_owned())
}
