//! Monitors and their quorum.

use std::collections::BTreeMap;

use codec::{Encode, Features};
use serde_json::{Map, Value, json};
use types::{AddrType, EntityAddr, EntityAddrVec, Errno, KeyType, MonMap};

use super::{Reply, Request, Row, status::ELECTION_EPOCH};

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
        sig: "mon feature ls name=with_value,type=CephChoices,strings=--with-value,req=false",
        help: "list available mon map features to be set/unset",
        module: "mon",
        perm: "r",
        run: feature_ls,
    },
    Row {
        sig: "mon ok-to-stop name=ids,type=CephString,n=N",
        help: "check whether mon(s) can be safely stopped without reducing immediate availability",
        module: "mon",
        perm: "r",
        run: ok_to_stop,
    },
    Row {
        sig: "mon ok-to-add-offline",
        help: "check whether adding a mon and not starting it would break quorum",
        module: "mon",
        perm: "r",
        run: ok_to_add,
    },
    Row {
        sig: "mon ok-to-rm name=id,type=CephString",
        help: "check whether removing the specified mon would break quorum",
        module: "mon",
        perm: "r",
        run: ok_to_rm,
    },
];

/// A vector of addresses.
pub(super) fn addrs_json(addrs: &EntityAddrVec) -> Value {
    json!({"addrvec": addrs.0.iter().map(EntityAddr::dump).collect::<Vec<_>>()})
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

/// What every monitor of a Pacific cluster knows.
pub(super) const MON_FEATURES: [&str; 8] =
    ["kraken", "luminous", "mimic", "osdmap-prune", "nautilus", "octopus", "pacific", "elector-pinging"];

/// `2026-11-20T22:32:38.326599Z`: these stamps have no offset.
fn zulu(stamp: types::UTime) -> String {
    stamp.to_string().replace("+0000", "Z")
}

/// The map as dumps have it.
pub(super) fn monmap_json(monmap: &MonMap) -> Value {
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
    let cipher = |kind: KeyType| json!({"name": kind.name(), "value": kind.number()});
    json!({
        "epoch": monmap.epoch.0,
        "auth_epoch": monmap.auth_epoch.0,
        "auth_service_cipher": cipher(monmap.service_key_type()),
        "auth_allowed_ciphers": monmap.allowed_key_types().map(cipher).collect::<Vec<_>>(),
        "auth_preferred_cipher": cipher(monmap.preferred_key_type()),
        "fsid": monmap.fsid.to_string(),
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
    if let Some(wanted) = req.args.int("epoch").filter(|wanted| *wanted != 0 && *wanted != i64::from(epoch)) {
        return Reply::fail(Errno::ENOENT, format!("there is no map for epoch {wanted}"));
    }
    let json = || {
        let mut out = monmap_json(monmap);
        out["quorum"] = (0..monmap.size()).collect();
        out
    };
    let text = || {
        let mut out = format!(
            "epoch {epoch}\nfsid {}\nlast_changed {}\ncreated {}\nmin_mon_release {} ({})\nelection_strategy: {}\n",
            monmap.fsid,
            monmap.last_changed,
            monmap.created,
            monmap.min_mon_release.0,
            monmap.min_mon_release,
            monmap.strategy
        );
        for (rank, mon) in monmap.mons().enumerate() {
            out.push_str(&format!("{rank}: {} mon.{}\n", mon.public_addrs, mon.name));
        }
        let allowed: Vec<&str> = monmap.allowed_key_types().map(KeyType::name).collect();
        out.push_str(&format!(
            "auth_epoch {}\nauth_service_cipher {}\nauth_allowed_ciphers {}\nauth_preferred_cipher {}\n",
            monmap.auth_epoch,
            monmap.service_key_type(),
            allowed.join(", "),
            monmap.preferred_key_type()
        ));
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

fn mon_metadata(req: &Request<'_>, name: &str) -> Map<String, Value> {
    let addrs = req.state().monmap.mon_info.get(name).map(|mon| bracketed(&mon.public_addrs));
    let options = &req.mon.options;
    let mut all: BTreeMap<String, String> = options.host.clone();
    for (key, value) in [
        ("addrs", addrs.unwrap_or_default()),
        ("ceph_release", "pacific".to_owned()),
        ("ceph_version", options.version()),
        ("ceph_version_short", types::DAEMON_VERSION.to_owned()),
        ("hostname", options.hostname.clone()),
    ] {
        all.insert(key.to_owned(), value);
    }
    all.into_iter().map(|(key, value)| (key, value.into())).collect()
}

fn metadata(req: &mut Request<'_>) -> Reply {
    let known = &req.state().monmap.ranks;
    let out = match req.args.text("id") {
        Some(name) if !known.contains(&name) => {
            return Reply::fail(Errno::ENOENT, "requested mon not found");
        }
        Some(name) => mon_metadata(req, &name).into(),
        None => {
            let named = |name: &String| {
                let mut out = Map::from_iter([("name".to_owned(), name.as_str().into())]);
                out.extend(mon_metadata(req, name));
                Value::from(out)
            };
            known.iter().map(named).collect()
        }
    };
    Reply::json(req.args, out)
}

fn versions(req: &mut Request<'_>) -> Reply {
    let out = json!({req.mon.options.version(): req.state().monmap.size()});
    Reply::json(req.args, out)
}

fn count_metadata(req: &mut Request<'_>) -> Reply {
    let property = req.args.text("property").unwrap_or_default();
    let mut counts = BTreeMap::<String, u64>::new();
    for name in &req.state().monmap.ranks {
        let value = mon_metadata(req, name);
        let value = value.get(&property).and_then(Value::as_str).unwrap_or("unknown").to_owned();
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

/// Names of the features, each with its bit where that was asked for.
fn feature_ls(req: &mut Request<'_>) -> Reply {
    let epoch = req.state().monmap.epoch;
    let is_numbered = req.args.has("with_value");
    let json = || {
        let all = json!({"supported": MON_FEATURES, "persistent": MON_FEATURES});
        let map = json!({"persistent": MON_FEATURES, "optional": [], "required": MON_FEATURES});
        json!({"all": all, "monmap": map})
    };
    let text = || {
        let name = |(at, name): (usize, &&str)| match is_numbered {
            true => format!("{name}({})", 1u64 << at),
            false => (*name).to_owned(),
        };
        let names = MON_FEATURES.iter().enumerate().map(name).collect::<Vec<_>>().join(",");
        format!(
            "all features\n\tsupported: [{names}]\n\tpersistent: [{names}]\non current monmap (epoch {epoch})\n\tpersistent: [{names}]\n\trequired: [{names}]\n"
        )
    };
    Reply::show(req.args, json, text)
}

/// Monitors that a majority of `total` needs.
fn majority(total: usize) -> usize {
    total / 2 + 1
}

fn ok_to_stop(req: &mut Request<'_>) -> Reply {
    let monmap = &req.state().monmap;
    let ids = req.args.list("ids");
    let left: Vec<&String> = monmap.ranks.iter().filter(|name| !ids.contains(name)).collect();
    let [ids, names] = [ids.join(","), left.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(",")];
    if left.len() >= majority(monmap.size()) {
        return Reply::done(format!("quorum should be preserved ({names}) after stopping [{ids}]"));
    }
    let why = format!("not enough monitors would be available ({names}) after stopping mons [{ids}]");
    Reply::fail(Errno::EBUSY, why)
}

fn ok_to_add(req: &mut Request<'_>) -> Reply {
    let total = req.state().monmap.size();
    if total >= majority(total + 1) {
        return Reply::done("adding another mon that is not yet started will not break quorum");
    }
    Reply::fail(Errno::EBUSY, "adding a monitor may break quorum (until that monitor starts)")
}

fn ok_to_rm(req: &mut Request<'_>) -> Reply {
    let name = req.args.text("id").unwrap_or_default();
    let monmap = &req.state().monmap;
    if !monmap.mon_info.contains_key(&name) {
        return Reply::done(format!("mon.{name} does not exist"));
    }
    // All monitors in the map are in quorum; removing the only one would leave none.
    if monmap.size() > 1 {
        return Reply::done(format!("safe to remove mon.{name}"));
    }
    Reply::fail(Errno::EBUSY, format!("removing mon.{name} would break quorum"))
}
