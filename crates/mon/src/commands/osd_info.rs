//! OSDs and the map: small questions.

use std::collections::BTreeMap;

use codec::{Encode, Features};
use serde_json::{Map, Value, json};
use types::{Epoch, Errno, OsdId, UTime};

use super::{
    Reply, Request, Row,
    mon_info::addrs_json,
    named::osd_arg,
    status::{count_osds, flags_line, osd_line, remapped},
};
use crate::format::{self, Align, TextTable};

pub(super) const ROWS: &[Row] = &[
    Row { sig: "osd stat", help: "print summary of OSD map", module: "osd", perm: "r", run: stat },
    Row {
        sig: "osd ls name=epoch,type=CephInt,range=0,req=false",
        help: "show all OSD ids",
        module: "osd",
        perm: "r",
        run: |req| ls(req).into(),
    },
    Row {
        sig: "osd getmap name=epoch,type=CephInt,range=0,req=false",
        help: "get OSD map",
        module: "osd",
        perm: "r",
        run: getmap,
    },
    Row {
        sig: "osd getcrushmap name=epoch,type=CephInt,range=0,req=false",
        help: "get CRUSH map",
        module: "osd",
        perm: "r",
        run: getcrushmap,
    },
    Row { sig: "osd getmaxosd", help: "show largest OSD id", module: "osd", perm: "r", run: getmaxosd },
    Row {
        sig: "osd find name=id,type=CephOsdName",
        help: "find osd <id> in the CRUSH map and show its location",
        module: "osd",
        perm: "r",
        run: |req| find(req).into(),
    },
    Row {
        sig: "osd metadata name=id,type=CephOsdName,req=false",
        help: "fetch metadata for osd {id} (default all)",
        module: "osd",
        perm: "r",
        run: |req| metadata(req).into(),
    },
    Row {
        sig: "osd count-metadata name=property,type=CephString",
        help: "count OSDs by metadata field property",
        module: "osd",
        perm: "r",
        run: count_metadata,
    },
    Row {
        sig: "osd versions",
        help: "check running versions of OSDs",
        module: "osd",
        perm: "r",
        run: versions,
    },
    Row {
        sig: "osd map name=pool,type=CephPoolname name=object,type=CephObjectname name=nspace,type=CephString,req=false",
        help: "find pg for <object> in <pool> with [namespace]",
        module: "osd",
        perm: "r",
        run: map_object,
    },
    Row {
        sig: "osd perf",
        help: "print dump of OSD perf summary stats",
        module: "osd",
        perm: "r",
        run: perf,
    },
    Row { sig: "osd lspools", help: "list pools", module: "osd", perm: "r", run: lspools },
    Row {
        sig: "osd blocklist ls",
        help: "show blocklisted clients",
        module: "osd",
        perm: "r",
        run: blocklist_ls,
    },
    Row {
        sig: "osd blacklist ls",
        help: "show blacklisted clients",
        module: "osd",
        perm: "r",
        run: blocklist_ls,
    },
    Row {
        sig: "osd erasure-code-profile ls",
        help: "list all erasure code profiles",
        module: "osd",
        perm: "r",
        run: profile_ls,
    },
    Row {
        sig: "osd erasure-code-profile get name=name,type=CephString",
        help: "get erasure code profile <name>",
        module: "osd",
        perm: "r",
        run: profile_get,
    },
    Row {
        sig: "osd utilization",
        help: "get basic pg distribution stats",
        module: "osd",
        perm: "r",
        run: utilization,
    },
];

fn stat(req: &mut Request<'_>) -> Reply {
    let (map, wall) = (req.map(), req.wall);
    let json = || super::status::osdmap_summary(map);
    let text = || {
        format!("{}; epoch: e{}{}{}\n", osd_line(map, wall), map.epoch, remapped(map), flags_line(map, ""))
    };
    Reply::show(req.args, json, text)
}

fn ls(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let map = map_arg(req)?;
    let ids: Vec<i32> = map.osds().map(|osd| osd.0).collect();
    let text = || ids.iter().map(|id| format!("{id}\n")).collect();
    Ok(Reply::show(req.args, || json!(ids), text))
}

/// The map of the epoch that the caller names, or the newest.
pub(super) fn map_arg(req: &Request<'_>) -> Result<types::OsdMap, Reply> {
    let epoch = match req.args.int("epoch") {
        None => req.map().epoch,
        Some(epoch) => Epoch(u32::try_from(epoch).unwrap_or(u32::MAX)),
    };
    let found = req.state().full_map(epoch);
    found.ok_or_else(|| Reply::fail(Errno::ENOENT, format!("there is no map for epoch {epoch}")))
}

fn getmap(req: &mut Request<'_>) -> Reply {
    match map_arg(req) {
        Ok(map) => Reply::text(map.to_bytes(Features::PACIFIC))
            .with_status(format!("got osdmap epoch {}", map.epoch)),
        Err(reply) => reply,
    }
}

fn getcrushmap(req: &mut Request<'_>) -> Reply {
    match map_arg(req) {
        Ok(map) => Reply::text(map.crush.bytes().clone()).with_status(map.crush_version.to_string()),
        Err(reply) => reply,
    }
}

fn getmaxosd(req: &mut Request<'_>) -> Reply {
    let (epoch, max) = (req.map().epoch.0, req.map().max_osd);
    let text = || format!("max_osd = {max} in epoch {epoch}\n");
    Reply::show(req.args, || json!({"epoch": epoch, "max_osd": max}), text)
}

fn find(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let osd = osd_arg(req, req.map())?;
    let map = req.map();
    let at = osd.0 as usize;
    let mut out = json!({
        "osd": osd.0,
        "addrs": addrs_json(&map.osd_addrs[at]),
        "osd_fsid": map.osd_uuid[at].to_string(),
    });
    if let Some(host) = req.state().osd_metadata.get(&osd).and_then(|m| m.get("hostname")) {
        out["host"] = host.as_str().into();
    }
    for name in ["pod_name", "pod_namespace", "container_name"] {
        if let Some(value) = req.state().osd_metadata.get(&osd).and_then(|facts| facts.get(name)) {
            out[name] = value.as_str().into();
        }
    }
    let place: Map<String, Value> =
        map.crush.map().location(osd.0).into_iter().map(|(kind, name)| (kind, name.into())).collect();
    out["crush_location"] = place.into();
    Ok(Reply::json(req.args, out))
}

fn metadata_of(req: &Request<'_>, osd: OsdId) -> Value {
    let mut out = Map::new();
    out.insert("id".to_owned(), osd.0.into());
    let metadata = req.state().osd_metadata.get(&osd).into_iter().flatten();
    out.extend(metadata.map(|(name, value)| (name.clone(), value.as_str().into())));
    out.into()
}

fn metadata(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let out = if req.args.has("id") {
        let osd = osd_arg(req, req.map())?;
        if !req.state().osd_metadata.contains_key(&osd) {
            return Err(Reply::fail(Errno::ENOENT, format!("osd.{osd} was never up")));
        }
        metadata_of(req, osd)
    } else {
        req.map().osds().map(|osd| metadata_of(req, osd)).collect()
    };
    Ok(Reply::json(req.args, out))
}

fn count_metadata(req: &mut Request<'_>) -> Reply {
    let property = req.args.text("property").unwrap_or_default();
    let out = json!(count_osds(req.mon, &property));
    Reply::json(req.args, out)
}

fn versions(req: &mut Request<'_>) -> Reply {
    let out = json!(count_osds(req.mon, "ceph_version"));
    Reply::json(req.args, out)
}

fn map_object(req: &mut Request<'_>) -> Reply {
    let name = req.args.text("pool").unwrap_or_default();
    let map = req.map();
    let Some((pool, _)) = map.pool_by_name(&name) else {
        return Reply::fail(Errno::ENOENT, format!("pool {name} does not exist"));
    };
    let object = req.args.text("object").unwrap_or_default();
    let nspace = req.args.text("nspace").unwrap_or_default();
    let Some((hash, pg)) = map.object_to_pg(pool, nspace.as_bytes(), b"", object.as_bytes()) else {
        return Reply::fail(Errno::ENOENT, format!("pool {name} does not exist"));
    };
    let raw = format!("{pool}.{hash:x}");
    let at = map.pg_to_up_acting(pg);
    let full = if nspace.is_empty() { object.clone() } else { format!("{nspace}/{object}") };
    let ids = |osds: &[OsdId]| osds.iter().map(|osd| osd.0).collect::<Vec<_>>();
    let json = || {
        json!({
            "epoch": map.epoch.0,
            "pool": name,
            "pool_id": pool.0,
            "objname": full,
            "raw_pgid": raw,
            "pgid": pg.to_string(),
            "up": ids(&at.up),
            "up_primary": at.up_primary.0,
            "acting": ids(&at.acting),
            "acting_primary": at.acting_primary.0,
        })
    };
    let text = || {
        format!(
            "osdmap e{} pool '{name}' ({pool}) object '{full}' -> pg {raw} ({pg}) -> up ({}, p{}) acting ({}, p{})\n",
            map.epoch,
            format::list(&at.up),
            at.up_primary,
            format::list(&at.acting),
            at.acting_primary
        )
    };
    Reply::show(req.args, json, text)
}

fn perf(req: &mut Request<'_>) -> Reply {
    const NS_PER_MS: u64 = 1_000_000;
    let stats = || req.map().osds().filter_map(|osd| Some((osd, req.mon.stats.osd(osd)?)));
    let json = || {
        let infos: Vec<Value> = stats()
            .map(|(osd, stat)| {
                json!({"id": osd.0, "perf_stats": {
                    "commit_latency_ms": stat.commit_latency_ns / NS_PER_MS,
                    "apply_latency_ms": stat.apply_latency_ns / NS_PER_MS,
                    "commit_latency_ns": stat.commit_latency_ns,
                    "apply_latency_ns": stat.apply_latency_ns,
                }})
            })
            .collect();
        json!({"pg_ready": true, "osdstats": {"osd_perf_infos": infos}})
    };
    let text = || {
        let headings = ["osd", "commit_latency(ms)", "apply_latency(ms)"].map(|h| (h, Align::Right));
        let mut table = TextTable::default().columns(&headings);
        for (osd, stat) in stats() {
            let ms = [stat.commit_latency_ns, stat.apply_latency_ns].map(|ns| (ns / NS_PER_MS).to_string());
            table.row([vec![osd.to_string()], ms.to_vec()].concat());
        }
        table.render()
    };
    Reply::show(req.args, json, text)
}

fn lspools(req: &mut Request<'_>) -> Reply {
    let pools = &req.map().pool_name;
    let json = || pools.iter().map(|(id, name)| json!({"poolnum": id.0, "poolname": name})).collect();
    let text = || pools.iter().map(|(id, name)| format!("{id} {name}\n")).collect();
    Reply::show(req.args, json, text)
}

fn blocklist_ls(req: &mut Request<'_>) -> Reply {
    let (list, ranges) = (&req.map().blocklist, &req.map().range_blocklist.0);
    let entry = |key: &str, what: String, until: &UTime| json!({key: what, "until": until.to_string()});
    let json = || list.iter().map(|(addr, until)| entry("addr", addr.legacy_str(), until)).collect();
    let text = || {
        let addrs = list.iter().map(|(addr, until)| format!("{} {until}\n", addr.legacy_str()));
        addrs.chain(ranges.iter().map(|(range, until)| format!("{range} {until}\n"))).collect()
    };
    let mut reply = Reply::show(req.args, json, text);
    if req.args.has_format() && !ranges.is_empty() {
        // A second document follows the first, as in Ceph.
        let json = || ranges.iter().map(|(range, until)| entry("range", range.legacy_str(), until)).collect();
        let second = Reply::show(req.args, json, String::new);
        let first = reply.output.trim_ascii_end().len();
        reply.output = [&reply.output[..first], &second.output[..]].concat().into();
    }
    reply.with_status(format!("listed {} entries", list.len() + ranges.len()))
}

fn profile_ls(req: &mut Request<'_>) -> Reply {
    let names: Vec<&String> = req.map().erasure_code_profiles.keys().collect();
    let text = || names.iter().map(|name| format!("{name}\n")).collect();
    Reply::show(req.args, || json!(names), text)
}

fn profile_get(req: &mut Request<'_>) -> Reply {
    let name = req.args.text("name").unwrap_or_default();
    let Some(profile) = req.map().erasure_code_profiles.get(&name) else {
        return Reply::fail(Errno::ENOENT, format!("unknown erasure code profile '{name}'"));
    };
    let text = || profile.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    Reply::show(req.args, || json!(profile), text)
}

/// PGs that each OSD holds, by the map.
pub(super) fn pgs_per_osd(map: &types::OsdMap) -> BTreeMap<OsdId, u64> {
    let mut out: BTreeMap<OsdId, u64> = map.osds().map(|osd| (osd, 0)).collect();
    for pg in map.pgs() {
        for osd in map.pg_to_up_acting(pg).acting {
            if let Some(count) = out.get_mut(&osd) {
                *count += 1;
            }
        }
    }
    out
}

fn utilization(req: &mut Request<'_>) -> Reply {
    let counts = pgs_per_osd(req.map());
    let n = counts.len().max(1) as f64;
    let mean = counts.values().sum::<u64>() as f64 / n;
    let dev = (counts.values().map(|c| (*c as f64 - mean).powi(2)).sum::<f64>() / n).sqrt();
    let expected = (mean * (1.0 - 1.0 / n)).max(0.0).sqrt();
    let min = counts.iter().min_by_key(|(_, c)| **c).map(|(o, c)| (*o, *c)).unwrap_or((OsdId(0), 0));
    let max = counts.iter().max_by_key(|(o, c)| (**c, -o.0)).map(|(o, c)| (*o, *c)).unwrap_or((OsdId(0), 0));
    let json = || {
        json!({
            "avg_pgs": format::number(mean),
            "std_dev": format::number(dev),
            "expected_baseline_std_dev": format::number(expected),
            "min_osd": min.0.0,
            "min_osd_pgs": min.1,
            "max_osd": max.0.0,
            "max_osd_pgs": max.1,
        })
    };
    let of_mean = |count: u64| if mean == 0.0 { 0.0 } else { count as f64 / mean };
    let text = || {
        format!(
            "avg {}\nstddev {} (expected baseline {})\nmin osd.{} with {} pgs ({} * mean)\nmax osd.{} with {} pgs ({} * mean)\n",
            format::decimal(mean),
            format::decimal(dev),
            format::decimal(expected),
            min.0,
            min.1,
            format::decimal(of_mean(min.1)),
            max.0,
            max.1,
            format::decimal(of_mean(max.1))
        )
    };
    Reply::show(req.args, json, text)
}
