//! Monitors, quorum, and the manager whose work the monitors do.

use codec::{Encode, Features};
use serde_json::{Value, json};
use types::{AddrType, EntityAddr, EntityAddrVec, Errno, MonMap};

use super::{Reply, Request, Row, status::ELECTION_EPOCH};
use crate::format;

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "mon dump name=epoch,type=CephInt,range=0,req=false",
        help: "dump formatted monmap (optionally from epoch)",
        module: "mon",
        perm: "r",
        run: dump,
    },
    Row { sig: "mon stat", help: "summarize monitor status", module: "mon", perm: "r", run: stat },
    Row {
        sig: "mon getmap name=epoch,type=CephInt,range=0,req=false",
        help: "get monmap",
        module: "mon",
        perm: "r",
        run: getmap,
    },
    Row {
        sig: "mon metadata name=id,type=CephString,req=false",
        help: "fetch metadata for mon <id>",
        module: "mon",
        perm: "r",
        run: metadata,
    },
    Row {
        sig: "mon versions",
        help: "check running versions of monitors",
        module: "mon",
        perm: "r",
        run: versions,
    },
    Row {
        sig: "mon count-metadata name=property,type=CephString",
        help: "count mons by metadata field property",
        module: "mon",
        perm: "r",
        run: count_metadata,
    },
    Row {
        sig: "quorum_status",
        help: "report status of monitor quorum",
        module: "mon",
        perm: "r",
        run: quorum_status,
    },
    Row {
        sig: "mgr dump name=epoch,type=CephInt,range=0,req=false",
        help: "dump the latest MgrMap",
        module: "mgr",
        perm: "r",
        run: mgr_dump,
    },
    Row {
        sig: "mgr stat",
        help: "dump basic info about the mgr cluster state",
        module: "mgr",
        perm: "r",
        run: mgr_stat,
    },
    Row { sig: "mgr module ls", help: "list active mgr modules", module: "mgr", perm: "r", run: mgr_modules },
    Row {
        sig: "mgr services",
        help: "list service endpoints provided by mgr modules",
        module: "mgr",
        perm: "r",
        run: mgr_services,
    },
];

/// One address of a vector.
pub(super) fn addr_json(addr: &EntityAddr) -> Value {
    let kind = match addr.kind {
        AddrType::LEGACY => "v1",
        AddrType::MSGR2 => "v2",
        AddrType::ANY => "any",
        AddrType(_) => "none",
    };
    let socket = addr.socket.map_or("(unrecognized address family 0)".to_owned(), |s| s.to_string());
    json!({"type": kind, "addr": socket, "nonce": addr.nonce})
}

/// A vector of addresses.
pub(super) fn addrs_json(addrs: &EntityAddrVec) -> Value {
    json!({"addrvec": addrs.0.iter().map(addr_json).collect::<Vec<_>>()})
}

/// The one address that old clients read.
pub(super) fn legacy_addr(addrs: &EntityAddrVec) -> String {
    let v1 = addrs.0.iter().find(|a| a.kind == AddrType::LEGACY).or(addrs.0.first());
    v1.map_or("(unrecognized address family 0)/0".to_owned(), EntityAddr::legacy_str)
}

/// Addresses in brackets, even a lone one.
pub(super) fn bracketed(addrs: &EntityAddrVec) -> String {
    format!("[{}]", addrs.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}

const MON_FEATURES: [&str; 8] =
    ["kraken", "luminous", "mimic", "osdmap-prune", "nautilus", "octopus", "pacific", "elector-pinging"];

/// `2026-11-20T22:32:38.326599Z`: these stamps have no offset.
fn zulu(stamp: types::UTime) -> String {
    stamp.to_string().replace("+0000", "Z")
}

fn monmap_json(monmap: &MonMap) -> Value {
    let mons: Vec<Value> = monmap
        .mons()
        .enumerate()
        .map(|(rank, mon)| {
            let addr = legacy_addr(&mon.public_addrs);
            json!({
                "rank": rank,
                "name": mon.name,
                "public_addrs": addrs_json(&mon.public_addrs),
                "addr": addr,
                "public_addr": addr,
                "priority": mon.priority,
                "weight": mon.weight,
                "crush_location": "{}",
            })
        })
        .collect();
    json!({
        "epoch": monmap.epoch.0,
        "fsid": format::uuid(&monmap.fsid),
        "modified": zulu(monmap.last_changed),
        "created": zulu(monmap.created),
        "min_mon_release": monmap.min_mon_release.0,
        "min_mon_release_name": monmap.min_mon_release.name(),
        "election_strategy": monmap.strategy,
        "disallowed_leaders: ": "",
        "stretch_mode": false,
        "tiebreaker_mon": "",
        "removed_ranks: ": "",
        "features": {"persistent": MON_FEATURES, "optional": []},
        "mons": mons,
    })
}

fn dump(req: &mut Request<'_>) -> Reply {
    let monmap = &req.state().monmap;
    let epoch = monmap.epoch.0;
    if req.args.int("epoch").is_some_and(|wanted| wanted != 0 && wanted != i64::from(epoch)) {
        return Reply::fail(Errno::ENOENT, "");
    }
    let json = || {
        let mut out = monmap_json(monmap);
        out["quorum"] = (0..monmap.size()).collect();
        out
    };
    let text = || {
        let mut out = format!(
            "epoch {epoch}\nfsid {}\nlast_changed {}\ncreated {}\nmin_mon_release {} ({})\nelection_strategy: {}\n",
            format::uuid(&monmap.fsid),
            monmap.last_changed,
            monmap.created,
            monmap.min_mon_release.0,
            monmap.min_mon_release,
            monmap.strategy
        );
        for (rank, mon) in monmap.mons().enumerate() {
            out.push_str(&format!("{rank}: {} mon.{}\n", mon.public_addrs, mon.name));
        }
        out
    };
    Reply::show(req.args, json, text).with_status(format!("dumped monmap epoch {epoch}"))
}

fn stat(req: &mut Request<'_>) -> Reply {
    let monmap = &req.state().monmap;
    let mons: Vec<String> = monmap.mons().map(|m| format!("{}={}", m.name, m.public_addrs)).collect();
    let ranks: Vec<String> = (0..monmap.size()).map(|rank| rank.to_string()).collect();
    let leader = monmap.ranks.first().cloned().unwrap_or_default();
    let json = || {
        let quorum: Vec<Value> =
            monmap.ranks.iter().enumerate().map(|(rank, name)| json!({"rank": rank, "name": name})).collect();
        json!({
            "epoch": monmap.epoch.0,
            "min_mon_release": monmap.min_mon_release.0,
            "min_mon_release_name": monmap.min_mon_release.name(),
            "num_mons": monmap.size(),
            "leader": leader,
            "quorum": quorum,
        })
    };
    let text = || {
        format!(
            "e{}: {} mons at {{{}}} removed_ranks: {{}}, election epoch {ELECTION_EPOCH}, leader 0 {leader}, quorum {} {}\n",
            monmap.epoch,
            monmap.size(),
            mons.join(","),
            ranks.join(","),
            monmap.ranks.join(",")
        )
    };
    Reply::show(req.args, json, text)
}

fn getmap(req: &mut Request<'_>) -> Reply {
    let monmap = &req.state().monmap;
    Reply::text(monmap.to_bytes(Features::PACIFIC)).with_status(format!("got monmap epoch {}", monmap.epoch))
}

fn mon_metadata(req: &Request<'_>, name: &str) -> Value {
    let addrs = req.state().monmap.mon_info.get(name).map(|mon| bracketed(&mon.public_addrs));
    let options = &req.mon.options;
    json!({
        "name": name,
        "addrs": addrs.unwrap_or_default(),
        "arch": std::env::consts::ARCH,
        "ceph_release": "pacific",
        "ceph_version": options.version,
        "ceph_version_short": env!("CARGO_PKG_VERSION"),
        "hostname": options.hostname,
        "os": "Linux",
    })
}

fn metadata(req: &mut Request<'_>) -> Reply {
    let out = match req.args.text("id") {
        Some(name) if !req.state().monmap.mon_info.contains_key(&name) => {
            return Reply::fail(Errno::ENOENT, "");
        }
        Some(name) => mon_metadata(req, &name),
        None => req.state().monmap.ranks.iter().map(|name| mon_metadata(req, name)).collect(),
    };
    Reply::json(req.args, out)
}

fn versions(req: &mut Request<'_>) -> Reply {
    let out = json!({req.mon.options.version.clone(): req.state().monmap.size()});
    Reply::json(req.args, out)
}

fn count_metadata(req: &mut Request<'_>) -> Reply {
    let property = req.args.text("property").unwrap_or_default();
    let mut counts = std::collections::BTreeMap::<String, u64>::new();
    for name in &req.state().monmap.ranks {
        let value = mon_metadata(req, name)[&property].as_str().unwrap_or("unknown").to_owned();
        *counts.entry(value).or_default() += 1;
    }
    Reply::json(req.args, json!(counts))
}

fn quorum_status(req: &mut Request<'_>) -> Reply {
    let monmap = &req.state().monmap;
    let out = json!({
        "election_epoch": ELECTION_EPOCH,
        "quorum": (0..monmap.size()).collect::<Vec<_>>(),
        "quorum_names": monmap.ranks,
        "quorum_leader_name": monmap.ranks.first(),
        "quorum_age": req.wall.since(req.mon.started).as_secs(),
        "features": {"quorum_con": Features::PACIFIC.0.to_string(), "quorum_mon": MON_FEATURES},
        "monmap": monmap_json(monmap),
    });
    // One line in both forms, as the stock monitor prints it.
    let plain = out.to_string() + "\n";
    Reply::show(req.args, || out, || plain)
}

fn mgr_dump(req: &mut Request<'_>) -> Reply {
    let empty: EntityAddrVec = EntityAddrVec::default();
    let out = json!({
        "epoch": 1,
        "active_gid": 0,
        "active_name": req.mon.options.name,
        "active_addrs": addrs_json(&empty),
        "active_addr": legacy_addr(&empty),
        "active_change": req.mon.started.to_string(),
        "active_mgr_features": Features::PACIFIC.0,
        "available": true,
        "standbys": [],
        "modules": [],
        "available_modules": [],
        "services": {},
        "always_on_modules": {},
        "last_failure_osd_epoch": 0,
        "active_clients": [],
    });
    Reply::json(req.args, out)
}

fn mgr_stat(req: &mut Request<'_>) -> Reply {
    let out = json!({"epoch": 1, "available": true, "active_name": req.mon.options.name, "num_standby": 0});
    Reply::json(req.args, out)
}

fn mgr_modules(req: &mut Request<'_>) -> Reply {
    let out = json!({"always_on_modules": [], "enabled_modules": [], "disabled_modules": []});
    Reply::json(req.args, out)
}

fn mgr_services(req: &mut Request<'_>) -> Reply {
    Reply::json(req.args, json!({}))
}
