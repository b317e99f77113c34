//! `ceph -s`, health, versions and the like.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use types::{Errno, MapFlags, OsdMap, PgState, Release, UTime};

use super::{Reply, Request, Row, activity};
use crate::{
    Mon,
    format::{self, Align},
    health::Mute,
    ledger_keys,
    state::value,
};

pub(super) const ROWS: &[Row] = &[
    Row { sig: "status", help: "show cluster status", module: "mon", perm: "r", run: status },
    Row {
        sig: "health name=detail,type=CephChoices,strings=detail,req=false",
        help: "show cluster health",
        module: "mon",
        perm: "r",
        run: health,
    },
    Row {
        sig: "health mute name=code,type=CephString name=ttl,type=CephString,req=false name=sticky,type=CephBool,req=false",
        help: "mute health alert",
        module: "mon",
        perm: "w",
        run: mute,
    },
    Row {
        sig: "health unmute name=code,type=CephString,req=false",
        help: "unmute existing health alert mute(s)",
        module: "mon",
        perm: "w",
        run: unmute,
    },
    Row { sig: "version", help: "show mon daemon version", module: "mon", perm: "r", run: version },
    Row {
        sig: "versions",
        help: "check running versions of ceph daemons",
        module: "mon",
        perm: "r",
        run: versions,
    },
    Row { sig: "features", help: "report of connected features", module: "mon", perm: "r", run: features },
    Row { sig: "fsid", help: "show cluster FSID/UUID", module: "mon", perm: "r", run: fsid },
    Row { sig: "time-sync-status", help: "show time sync status", module: "mon", perm: "r", run: time_sync },
    Row {
        sig: "node ls name=type,type=CephChoices,strings=all|osd|mon|mds|mgr,req=false",
        help: "list all nodes in cluster [type]",
        module: "mon",
        perm: "r",
        run: node_ls,
    },
];

fn health(req: &mut Request<'_>) -> Reply {
    let health = req.mon.health();
    let with_detail = req.args.text("detail").as_deref() == Some("detail");
    Reply::show(req.args, || health.json(with_detail), || health.text(with_detail))
}

fn mute(req: &mut Request<'_>) -> Reply {
    let code = req.args.text("code").unwrap_or_default();
    if code.is_empty() {
        return Reply::fail(Errno::EINVAL, "must specify an alert code to mute");
    }
    let until = match req.args.text("ttl") {
        None => UTime::default(),
        Some(text) => match parse_ttl(&text) {
            Ok(secs) => req.wall.plus(std::time::Duration::from_secs(secs)),
            Err(why) => return Reply::fail(Errno::EINVAL, format!("invalid duration: {text} ({why})")),
        },
    };
    let mut mute = Mute { until, is_sticky: req.args.flag("sticky"), ..Mute::default() };
    if !mute.is_sticky {
        let Some(check) = req.mon.health().checks.remove(code.as_str()) else {
            return Reply::fail(Errno::ENOENT, format!("health alert {code} is not currently raised"));
        };
        (mute.summary, mute.count) = (check.summary, check.count as u64);
    }
    req.mon.put(ledger_keys::mute(&code), value(&mute));
    Reply::done("")
}

/// Seconds of `30s`, `5m`, `2h 30m`, `1day`: numbers, each with its unit; the last may do without one
/// (`parse_timespan`).
fn parse_ttl(text: &str) -> Result<u64, &'static str> {
    let mut rest = text.trim_ascii_start();
    let mut sum = 0u64;
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &rest[..rest.len() - number.len()];
        if digits.is_empty() {
            return Err("expected digit");
        }
        let unit_and_rest = number.trim_ascii_start();
        let after = unit_and_rest.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let seconds = match &unit_and_rest[..unit_and_rest.len() - after.len()] {
            "" if after.is_empty() => 1,
            "s" | "sec" | "second" | "seconds" => 1,
            "m" | "min" | "minute" | "minutes" => 60,
            "h" | "hr" | "hour" | "hours" => 3_600,
            "d" | "day" | "days" => 86_400,
            "w" | "wk" | "week" | "weeks" => 604_800,
            "mo" | "month" | "months" => 30 * 86_400,
            "y" | "yr" | "year" | "years" => 365 * 86_400,
            _ => return Err("unrecognized unit"),
        };
        let value = digits.parse::<u64>().ok().and_then(|value| value.checked_mul(seconds));
        sum = value.and_then(|value| sum.checked_add(value)).ok_or("too long")?;
        rest = after.trim_ascii_start();
    }
    if sum == 0 { Err("timespan = 0") } else { Ok(sum) }
}

fn unmute(req: &mut Request<'_>) -> Reply {
    let codes = match req.args.text("code") {
        Some(code) => vec![code],
        None => req.mon.next.mutes.keys().cloned().collect(),
    };
    for code in codes {
        req.mon.put(ledger_keys::mute(&code), None);
    }
    Reply::done("")
}

fn version(req: &mut Request<'_>) -> Reply {
    let version = req.mon.options.version();
    Reply::show(req.args, || json!({"version": version}), || format!("{version}\n"))
}

fn fsid(req: &mut Request<'_>) -> Reply {
    let fsid = req.state().monmap.fsid.to_string();
    Reply::show(req.args, || json!({"fsid": fsid}), || format!("{fsid}\n"))
}

/// How many OSDs that are up have each value of a property.
pub(super) fn count_osds(mon: &Mon, property: &str) -> BTreeMap<String, u64> {
    let map = &mon.committed.osdmap;
    let mut out = BTreeMap::new();
    for osd in map.osds().filter(|osd| map.is_up(*osd)) {
        let value = mon.committed.osd_metadata.get(&osd).and_then(|facts| facts.get(property)).cloned();
        *out.entry(value.unwrap_or_else(|| "unknown".to_owned())).or_default() += 1;
    }
    out
}

fn versions(req: &mut Request<'_>) -> Reply {
    let mons = BTreeMap::from([(req.mon.options.version(), req.state().monmap.size() as u64)]);
    let mgrs = BTreeMap::from([(req.mon.options.version(), 1)]);
    let osds = count_osds(req.mon, "ceph_version");
    let mut overall = mons.clone();
    let mut count_all = |versions: &BTreeMap<String, u64>| {
        for (version, count) in versions {
            *overall.entry(version.clone()).or_default() += count;
        }
    };
    count_all(&mgrs);
    count_all(&osds);
    let mut out = json!({"mon": mons, "mgr": mgrs, "osd": osds, "mds": {}});
    for (service, versions) in req.mon.service_map.versions() {
        count_all(&versions);
        out[service] = json!(versions);
    }
    out["overall"] = json!(overall);
    Reply::json(req.args, out)
}

fn features(req: &mut Request<'_>) -> Reply {
    let out = feature_map(req.mon);
    Reply::json(req.args, out)
}

/// How many daemons and clients of each kind have which features.
pub(super) fn feature_map(mon: &Mon) -> Value {
    let mut by_kind: BTreeMap<&str, BTreeMap<u64, u64>> = BTreeMap::new();
    for kind in ["mon", "mgr"] {
        by_kind.entry(kind).or_default().insert(codec::Features::PACIFIC.0, 1);
    }
    for session in mon.sessions.values() {
        let groups = by_kind.entry(session.peer.name.kind.as_str()).or_default();
        *groups.entry(session.peer.features).or_default() += 1;
    }
    let mut out = Map::new();
    for kind in ["mon", "mds", "osd", "client", "mgr"] {
        let Some(groups) = by_kind.get(kind) else { continue };
        let entry = |(features, num): (&u64, &u64)| {
            let release = Release::of_features(*features).name();
            json!({"features": format!("{features:#x}"), "release": release, "num": num})
        };
        out.insert(kind.to_owned(), groups.iter().map(entry).collect());
    }
    out.into()
}

fn time_sync(req: &mut Request<'_>) -> Reply {
    let out = json!({"timechecks": {"epoch": ELECTION_EPOCH, "round": 0, "round_status": "finished"}});
    Reply::json(req.args, out)
}

/// Monitors do not hold elections here: the holder of the lease leads.
pub(super) const ELECTION_EPOCH: u64 = 3;

fn node_ls(req: &mut Request<'_>) -> Reply {
    let mut osds: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for osd in req.map().osds() {
        // An OSD that was never up has no host.
        if let Some(host) = req.state().osd_metadata.get(&osd).and_then(|facts| facts.get("hostname")) {
            osds.entry(host.clone()).or_default().push(osd.0);
        }
    }
    let mons = json!({req.mon.options.hostname.clone(): req.state().monmap.ranks});
    let mgrs = json!({req.mon.options.hostname.clone(): [req.mon.options.name]});
    let osds = json!(osds);
    let out = match req.args.text("type").as_deref() {
        Some("osd") => osds,
        Some("mon") => mons,
        Some("mgr") => mgrs,
        // As with 16.2, not even an empty document.
        Some("mds") => return Reply::default(),
        Some(_) | None => json!({"mon": mons, "osd": osds, "mgr": mgrs}),
    };
    Reply::json(req.args, out)
}

/// How many PGs are in each state, the most frequent first.
pub(super) fn pgs_by_state(mon: &Mon) -> Vec<(String, usize)> {
    let map = &mon.committed.osdmap;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for pg in map.pgs() {
        let state = mon.stats.state_of(map, pg, mon.is_creating(pg));
        *counts.entry(state.to_string()).or_default() += 1;
    }
    let mut out: Vec<(String, usize)> = counts.into_iter().collect();
    out.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    out
}

/// The parts of all PGs that are unknown, and that are known and not active (`PGMapDigest::print_summary`).
fn unavailable_ratios(mon: &Mon) -> [f64; 2] {
    let map = &mon.committed.osdmap;
    let (mut all, mut unknown, mut inactive) = (0u32, 0u32, 0u32);
    for pg in map.pgs() {
        all += 1;
        match mon.stats.state_of(map, pg, mon.is_creating(pg)) {
            PgState(0) => unknown += 1,
            state => inactive += u32::from(!state.has(PgState::ACTIVE)),
        }
    }
    [unknown, inactive].map(|part| if all == 0 { 0.0 } else { f64::from(part) / f64::from(all) })
}

/// Seconds of the last change, as `status` gives it.
fn since(stamp: UTime) -> u32 {
    stamp.sec
}

/// The `osdmap` part of `status`.
pub(super) fn osdmap_summary(map: &OsdMap) -> Value {
    let remapped = map.pgs().filter(|pg| {
        let at = map.pg_to_up_acting(*pg);
        at.up != at.acting
    });
    json!({
        "epoch": map.epoch.0,
        "num_osds": map.num_osds(),
        "num_up_osds": map.num_up(),
        "osd_up_since": since(map.last_up_change),
        "num_in_osds": map.num_in(),
        "osd_in_since": since(map.last_in_change),
        "num_remapped_pgs": remapped.count(),
    })
}

/// The `pgmap` part of `status`.
pub(super) fn pgmap_summary(mon: &Mon) -> Value {
    let map = &mon.committed.osdmap;
    let states = pgs_by_state(mon);
    let states: Vec<Value> =
        states.iter().map(|(name, count)| json!({"state_name": name, "count": count})).collect();
    let devices = mon.stats.all_devices(map);
    let total = mon.stats.total();
    let rates = mon.stats.rates(None);
    let mut out = json!({
        "pgs_by_state": states,
        "num_pgs": map.pgs().count(),
        "num_pools": map.pools.len(),
        "num_objects": total.objects,
        "data_bytes": total.bytes,
        "bytes_used": devices.kb_used << 10,
        "bytes_avail": devices.kb_avail << 10,
        "bytes_total": devices.kb << 10,
    });
    for (name, ratio) in ["unknown_pgs_ratio", "inactive_pgs_ratio"].into_iter().zip(unavailable_ratios(mon))
    {
        if ratio > 0.0 {
            out[name] = format::number(ratio);
        }
    }
    if let Some(out) = out.as_object_mut() {
        out.extend(activity::recovery(&total));
        out.extend(activity::recovery_rate(&rates));
        out.extend(activity::client_rate(&rates));
    }
    out
}

fn status(req: &mut Request<'_>) -> Reply {
    let (mon, wall) = (&*req.mon, req.wall);
    Reply::show(req.args, || status_json(mon, wall), || status_text(mon, wall))
}

fn status_json(mon: &Mon, wall: UTime) -> Value {
    let monmap = &mon.committed.monmap;
    let mgrmap = mon.mgrmap();
    json!({
        "fsid": monmap.fsid.to_string(),
        "health": mon.health().json(false),
        "election_epoch": ELECTION_EPOCH,
        "quorum": (0..monmap.size()).collect::<Vec<_>>(),
        "quorum_names": monmap.ranks,
        "quorum_age": wall.since(mon.started).as_secs(),
        "monmap": {
            "epoch": monmap.epoch.0,
            "min_mon_release_name": monmap.min_mon_release.name(),
            "num_mons": monmap.size(),
        },
        "osdmap": osdmap_summary(&mon.committed.osdmap),
        "pgmap": pgmap_summary(mon),
        "fsmap": {"epoch": 1, "by_rank": [], "up:standby": 0},
        "mgrmap": {"available": true, "num_standbys": 0, "modules": mgrmap.modules, "services": mgrmap.services},
        "servicemap": mon.service_map.dump(),
        "progress_events": mon.progress.shown(wall),
    })
}

/// `3 osds: 3 up (since 10m), 3 in (since 14m)`.
pub(super) fn osd_line(map: &OsdMap, wall: UTime) -> String {
    let ago = |stamp: UTime| match stamp.sec {
        0 => String::new(),
        _ => format!(" (since {})", format::timespan(wall.since(stamp))),
    };
    format!(
        "{} osds: {} up{}, {} in{}",
        map.num_osds(),
        map.num_up(),
        ago(map.last_up_change),
        map.num_in(),
        ago(map.last_in_change)
    )
}

/// `; 3 remapped pgs`, if there are any.
pub(super) fn remapped(map: &OsdMap) -> String {
    match map.pgs().filter(|pg| map.pg_temp.contains_key(pg)).count() {
        0 => String::new(),
        count => format!("; {count} remapped pgs"),
    }
}

/// A further line with the flags that are not always there, behind so much space.
pub(super) fn flags_line(map: &OsdMap, indent: &str) -> String {
    // `CEPH_OSDMAP_SEMIHIDDEN_FLAGS`.
    let hidden = MapFlags::REQUIRE_JEWEL
        | MapFlags::REQUIRE_KRAKEN
        | MapFlags::REQUIRE_LUMINOUS
        | MapFlags::RECOVERY_DELETES
        | MapFlags::SORTBITWISE
        | MapFlags::PURGED_SNAPDIRS
        | MapFlags::PGLOG_HARDLIMIT;
    let shown = map.flags.without(hidden);
    if shown == MapFlags::default() { String::new() } else { format!("\n{indent}flags {shown}") }
}

fn status_text(mon: &Mon, wall: UTime) -> String {
    let monmap = &mon.committed.monmap;
    let map = &mon.committed.osdmap;
    let age = format::timespan(wall.since(mon.started));
    let names = monmap.ranks.join(",");
    let mut out = format!("  cluster:\n    id:     {}\n    health: ", monmap.fsid);
    out.push_str(&mon.health().summary_lines().join("\n            "));
    let mut services = vec![
        ("mon".to_owned(), format!("{} daemons, quorum {names} (age {age})", monmap.size())),
        ("mgr".to_owned(), format!("{}(active, since {age})", mon.options.name)),
        ("osd".to_owned(), osd_line(map, wall) + &remapped(map)),
    ];
    services.extend(mon.service_map.lines());
    let width = services.iter().map(|(name, _)| name.len() + 1).max().unwrap_or_default();
    services[2].1.push_str(&flags_line(map, &" ".repeat(4 + width + 1)));
    let name = |name: &str| format::pad(&format!("{name}:"), width, Align::Left);
    let lines = services.iter().map(|(of, line)| format!("\n    {} {line}", name(of)));
    out.push_str("\n \n  services:");
    out.extend(lines);
    let total = mon.stats.total();
    let devices = mon.stats.all_devices(map);
    out.push_str(&format!(
        "\n \n  data:\n    pools:   {} pools, {} pgs\n    objects: {} objects, {}\n    usage:   {} used, {} / {} avail\n    pgs:     ",
        map.pools.len(),
        map.pgs().count(),
        format::count(total.objects),
        format::bytes(total.bytes),
        format::bytes(devices.kb_used << 10),
        format::bytes(devices.kb_avail << 10),
        format::bytes(devices.kb << 10),
    ));
    out.push_str(&pg_lines(mon).join("\n             "));
    out.push_str("\n \n");
    let io = io_lines(mon);
    if !io.is_empty() {
        out.push_str(&format!("  io:\n{} \n", io.iter().map(|l| format!("    {l}\n")).collect::<String>()));
    }
    out
}

fn pg_lines(mon: &Mon) -> Vec<String> {
    let mut out = Vec::new();
    for (what, ratio) in ["unknown", "not active"].into_iter().zip(unavailable_ratios(mon)) {
        if ratio > 0.0 {
            out.push(format!("{:.3}% pgs {what}", ratio * 100.0));
        }
    }
    out.extend(activity::recovery_lines(&mon.stats.total()));
    let states = pgs_by_state(mon);
    let width = states.iter().map(|(_, n)| n.to_string().len()).max().unwrap_or(0);
    out.extend(states.iter().map(|(name, n)| format!("{n:<width$} {name}")));
    out
}

/// `client:   1.3 MiB/s rd, 18 op/s rd, 0 op/s wr` and the like; none while nothing goes on.
fn io_lines(mon: &Mon) -> Vec<String> {
    let rates = mon.stats.rates(None);
    let client = activity::client_rate_text(&rates, activity::ops_apart);
    let recovery = activity::recovery_rate_text(&rates);
    let lines =
        [client.map(|text| format!("client:   {text}")), recovery.map(|text| format!("recovery: {text}"))];
    lines.into_iter().flatten().collect()
}
