//! Modules of which only the answer for a plain cluster is needed: no orchestrator, no file systems, no telemetry,
//! and one line of what clients do.

use serde_json::json;
use types::Errno;

use crate::{
    commands::{Reply, Request, Row},
    format::{self, python_sorted},
};

macro_rules! rows {
    ($($sig:literal $perm:literal $help:literal $run:ident)*) => {
        pub(crate) const ROWS: &[Row] =
            &[$(Row { sig: $sig, help: $help, module: "mgr", perm: $perm, run: $run }),*];
    };
}

rows! {
    "orch status name=detail,type=CephBool,req=false" "r" "Report configured backend and its status" orch
    "orch host ls" "r" "List hosts" orch
    "orch ls" "r" "List services known to orchestrator" orch
    "orch ps" "r" "List daemons known to orchestrator" orch
    "orch device ls" "r" "List devices on a host" orch
    "fs volume ls" "r" "List volumes" volumes
    "telemetry status" "r" "Show current configuration" telemetry_status
    "telemetry on name=license,type=CephString,req=false" "rw" "Enable telemetry reports from this cluster" telemetry_on
    "telemetry off" "rw" "Disable telemetry reports from this cluster" telemetry_off
    "telemetry send name=endpoint,type=CephString,req=false" "rw" "Force sending data to Ceph telemetry" telemetry_on
    "telemetry show" "r" "Show report of all channels" telemetry_show
    "iostat name=width,type=CephInt,req=false name=print_header,type=CephBool,req=false" "r" "Get IO rates" iostat
}

fn orch(_: &mut Request<'_>) -> Reply {
    Reply::fail(Errno::ENOENT, "No orchestrator configured (try `ceph orch set backend`)")
}

fn volumes(_: &mut Request<'_>) -> Reply {
    Reply::module("[]".to_owned())
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

/// Columns of rates, for a terminal of some width.
fn iostat(req: &mut Request<'_>) -> Reply {
    const COLUMNS: usize = 6;
    let rates = req.mon.stats.rates(None);
    let bytes = |value: u64| format!("{}/s", format::bytes(value));
    let cells = [
        ("Read", bytes(rates.read_bytes)),
        ("Write", bytes(rates.write_bytes)),
        ("Total", bytes(rates.read_bytes + rates.write_bytes)),
        ("Read IOPS", rates.reads.to_string()),
        ("Write IOPS", rates.writes.to_string()),
        ("Total IOPS", (rates.reads + rates.writes).to_string()),
    ];
    let width = usize::try_from(req.args.int("width").unwrap_or(80)).unwrap_or(80).clamp(80, 1_000) / COLUMNS;
    let border = format!("+{}\n", format!("{}+", "-".repeat(width)).repeat(COLUMNS));
    let line = |texts: Vec<&str>| {
        let cells: String = texts.iter().map(|text| format!("{text:>width$} |")).collect();
        format!("|{cells}\n")
    };
    let mut out = String::new();
    if req.args.flag("print_header") {
        out.push_str(&border);
        out.push_str(&line(cells.iter().map(|(heading, _)| *heading).collect()));
        out.push_str(&border);
    }
    out.push_str(&line(cells.iter().map(|(_, text)| text.as_str()).collect()));
    Reply::text(out)
}
