//! `ceph osd dump`: the map in full.

use std::collections::BTreeMap;

use crush::CrushMap;
use serde_json::{Value, json};
use types::{Epoch, OsdId, OsdMap, OsdState, PRIMARY_AFFINITY_DEFAULT, Release, Uuid};

use super::{
    Reply, Request, Row,
    crush_show::minimum_version,
    mon_info::{addrs_json, legacy_addr},
    osd_info::map_arg,
    pool_show::{pool_json, pool_line},
};
use crate::format;

pub(super) const ROWS: &[Row] = &[Row {
    sig: "osd dump name=epoch,type=CephInt,range=0,req=false",
    help: "print summary of OSD map",
    module: "osd",
    perm: "r",
    run: dump,
}];

fn dump(req: &mut Request<'_>) -> Reply {
    match map_arg(req) {
        Ok(map) => Reply::show(req.args, || map_json(&map), || map_text(&map)),
        Err(reply) => reply,
    }
}

/// The oldest clients that understand the map: what is in use decides.
pub(super) fn min_compat_client(map: &OsdMap) -> Release {
    min_compat_with(map, map.crush.map())
}

/// The same if the map had this CRUSH map.
pub(super) fn min_compat_with(map: &OsdMap, crush: &CrushMap) -> Release {
    if !map.pg_upmap.is_empty() || !map.pg_upmap_items.is_empty() || !crush.choose_args.is_empty() {
        return Release::LUMINOUS;
    }
    minimum_version(crush)
}

/// Flags of CRUSH nodes or of device classes, by name.
fn group_flags(flags: &BTreeMap<i32, OsdState>, names: &BTreeMap<i32, String>) -> Value {
    let name = |id: &i32| names.get(id).cloned().unwrap_or_default();
    let flags = flags.iter().map(|(id, flags)| (name(id), json!(flags.names().collect::<Vec<_>>())));
    Value::Object(flags.collect())
}

fn ratio(value: f32) -> Value {
    f64::from(value).into()
}

fn map_json(map: &OsdMap) -> Value {
    let ids = |osds: &[OsdId]| osds.iter().map(|osd| osd.0).collect::<Vec<_>>();
    let mut flags: Vec<&str> = map.flags.names().collect();
    flags.sort_unstable();
    let upmaps: Vec<Value> =
        map.pg_upmap.iter().map(|(pg, osds)| json!({"pgid": pg.to_string(), "osds": ids(osds)})).collect();
    let items: Vec<Value> = map
        .pg_upmap_items
        .iter()
        .map(|(pg, items)| {
            let pairs: Vec<Value> =
                items.iter().map(|(from, to)| json!({"from": from.0, "to": to.0})).collect();
            json!({"pgid": pg.to_string(), "mappings": pairs})
        })
        .collect();
    let temps: Vec<Value> =
        map.pg_temp.iter().map(|(pg, osds)| json!({"pgid": pg.to_string(), "osds": ids(osds)})).collect();
    let primaries: Vec<Value> =
        map.primary_temp.iter().map(|(pg, osd)| json!({"pgid": pg.to_string(), "osd": osd.0})).collect();
    let blocklist: serde_json::Map<String, Value> =
        map.blocklist.iter().map(|(addr, until)| (addr.legacy_str(), until.to_string().into())).collect();
    let ranges = map.range_blocklist.0.iter();
    let ranges: serde_json::Map<String, Value> =
        ranges.map(|(range, until)| (range.to_string(), until.to_string().into())).collect();
    let snaps = |all: &std::collections::BTreeMap<types::PoolId, types::IntervalSet>| {
        let pool = |(id, set): (&types::PoolId, &types::IntervalSet)| {
            let ranges: Vec<Value> =
                set.iter().map(|(begin, len)| json!({"begin": begin, "length": len})).collect();
            json!({"pool": id.0, "snaps": ranges})
        };
        all.iter().map(pool).collect::<Vec<_>>()
    };
    json!({
        "epoch": map.epoch.0,
        "fsid": map.fsid.to_string(),
        "created": map.created.to_string(),
        "modified": map.modified.to_string(),
        "last_up_change": map.last_up_change.to_string(),
        "last_in_change": map.last_in_change.to_string(),
        "flags": map.flags.to_string(),
        "flags_num": map.flags.0,
        "flags_set": flags,
        "crush_version": map.crush_version,
        "full_ratio": ratio(map.full_ratio),
        "backfillfull_ratio": ratio(map.backfillfull_ratio),
        "nearfull_ratio": ratio(map.nearfull_ratio),
        "cluster_snapshot": map.cluster_snapshot,
        "pool_max": map.pool_max,
        "max_osd": map.max_osd,
        "require_min_compat_client": map.require_min_compat_client.name(),
        "min_compat_client": min_compat_client(map).name(),
        "require_osd_release": map.require_osd_release.name(),
        "pools": map.pools.iter().map(|(id, pool)| pool_json(map, *id, pool)).collect::<Vec<_>>(),
        "osds": map.osds().map(|osd| osd_json(map, osd)).collect::<Vec<_>>(),
        "osd_xinfo": map.osds().map(|osd| xinfo_json(map, osd)).collect::<Vec<_>>(),
        "pg_upmap": upmaps,
        "pg_upmap_items": items,
        "pg_temp": temps,
        "primary_temp": primaries,
        "blocklist": blocklist,
        "range_blocklist": ranges,
        "erasure_code_profiles": map.erasure_code_profiles,
        "removed_snaps_queue": snaps(&map.removed_snaps_queue),
        "new_removed_snaps": snaps(&map.new_removed_snaps),
        "new_purged_snaps": snaps(&map.new_purged_snaps),
        "crush_node_flags": group_flags(&map.crush_node_flags, &map.crush.map().names),
        "device_class_flags": group_flags(&map.device_class_flags, &map.crush.map().class_names),
        "stretch_mode": {
            "stretch_mode_enabled": false,
            "stretch_bucket_count": 0,
            "degraded_stretch_mode": 0,
            "recovering_stretch_mode": 0,
            "stretch_mode_bucket": 0,
        },
    })
}

/// Names of the bits, all of them lower case, sorted as Ceph's set of names is.
pub(crate) fn state_names(state: OsdState) -> Vec<&'static str> {
    let mut names: Vec<&str> = state.names().collect();
    names.sort_unstable();
    names
}

/// An OSD as dumps have it.
pub(super) fn osd_json(map: &OsdMap, osd: OsdId) -> Value {
    let at = osd.0 as usize;
    let info = map.info(osd);
    let affinity = f64::from(map.primary_affinity(osd)) / f64::from(PRIMARY_AFFINITY_DEFAULT);
    let epoch = |e: Epoch| e.0;
    json!({
        "osd": osd.0,
        "uuid": map.osd_uuid[at].to_string(),
        "up": i32::from(map.is_up(osd)),
        "in": i32::from(map.is_in(osd)),
        "weight": format::number(f64::from(map.weight_fraction(osd))),
        "primary_affinity": format::number(affinity),
        "last_clean_begin": epoch(info.last_clean_begin),
        "last_clean_end": epoch(info.last_clean_end),
        "up_from": epoch(info.up_from),
        "up_thru": epoch(info.up_thru),
        "down_at": epoch(info.down_at),
        "lost_at": epoch(info.lost_at),
        "public_addrs": addrs_json(&map.osd_addrs[at]),
        "cluster_addrs": addrs_json(&map.cluster_addrs[at]),
        "heartbeat_back_addrs": addrs_json(&map.hb_back_addrs[at]),
        "heartbeat_front_addrs": addrs_json(&map.hb_front_addrs[at]),
        "public_addr": legacy_addr(&map.osd_addrs[at]),
        "cluster_addr": legacy_addr(&map.cluster_addrs[at]),
        "heartbeat_back_addr": legacy_addr(&map.hb_back_addrs[at]),
        "heartbeat_front_addr": legacy_addr(&map.hb_front_addrs[at]),
        "state": state_names(map.state(osd)),
    })
}

fn xinfo_json(map: &OsdMap, osd: OsdId) -> Value {
    let xinfo = map.osd_xinfo[osd.0 as usize];
    json!({
        "osd": osd.0,
        "down_stamp": xinfo.down_stamp.to_string(),
        "laggy_probability": format::number(f64::from(xinfo.laggy_probability())),
        "laggy_interval": xinfo.laggy_interval,
        "features": xinfo.features,
        "old_weight": format::number(f64::from(xinfo.old_weight) / 65_536.0),
        "last_purged_snaps_scrub": xinfo.last_purged_snaps_scrub.to_string(),
        "dead_epoch": xinfo.dead_epoch.0,
    })
}

fn map_text(map: &OsdMap) -> String {
    let mut out = format!(
        "epoch {}\nfsid {}\ncreated {}\nmodified {}\nflags {}\ncrush_version {}\nfull_ratio {}\nbackfillfull_ratio {}\nnearfull_ratio {}\nrequire_min_compat_client {}\nmin_compat_client {}\nrequire_osd_release {}\nstretch_mode_enabled false\n\n",
        map.epoch,
        map.fsid,
        map.created,
        map.modified,
        map.flags,
        map.crush_version,
        format::decimal(map.full_ratio.into()),
        format::decimal(map.backfillfull_ratio.into()),
        format::decimal(map.nearfull_ratio.into()),
        map.require_min_compat_client,
        min_compat_client(map),
        map.require_osd_release,
    );
    for (id, pool) in &map.pools {
        out.push_str(&pool_line(map, *id, pool));
    }
    out.push_str(&format!("\nmax_osd {}\n", map.max_osd));
    for osd in map.osds() {
        out.push_str(&osd_line(map, osd));
    }
    out.push('\n');
    for (pg, osds) in &map.pg_upmap {
        out.push_str(&format!("pg_upmap {pg} {}\n", format::list(osds)));
    }
    for (pg, items) in &map.pg_upmap_items {
        let pairs: Vec<String> =
            items.iter().flat_map(|(from, to)| [from.to_string(), to.to_string()]).collect();
        out.push_str(&format!("pg_upmap_items {pg} [{}]\n", pairs.join(",")));
    }
    for (pg, osds) in &map.pg_temp {
        out.push_str(&format!("pg_temp {pg} {}\n", format::list(osds)));
    }
    for (pg, osd) in &map.primary_temp {
        out.push_str(&format!("primary_temp {pg} {osd}\n"));
    }
    for (addr, until) in &map.blocklist {
        out.push_str(&format!("blocklist {} expires {until}\n", addr.legacy_str()));
    }
    for (range, until) in &map.range_blocklist.0 {
        out.push_str(&format!("range blocklist {range} expires {until}\n"));
    }
    out
}

/// An OSD's line of the plain dump.
pub(super) fn osd_line(map: &OsdMap, osd: OsdId) -> String {
    let at = osd.0 as usize;
    let info = map.info(osd);
    let mut out = format!(
        "osd.{osd} {} {} weight {}",
        if map.is_up(osd) { "up  " } else { "down" },
        if map.is_in(osd) { "in " } else { "out" },
        format::decimal(map.weight_fraction(osd).into()),
    );
    let affinity = map.primary_affinity(osd);
    if affinity != PRIMARY_AFFINITY_DEFAULT {
        out.push_str(&format!(
            " primary_affinity {}",
            format::decimal(f64::from(affinity) / f64::from(PRIMARY_AFFINITY_DEFAULT))
        ));
    }
    out.push_str(&format!(
        " up_from {} up_thru {} down_at {} last_clean_interval [{},{})",
        info.up_from, info.up_thru, info.down_at, info.last_clean_begin, info.last_clean_end
    ));
    if info.lost_at.0 > 0 {
        out.push_str(&format!(" lost_at {}", info.lost_at));
    }
    out.push_str(&format!(" {} {} {}", map.osd_addrs[at], map.cluster_addrs[at], map.state(osd)));
    if map.osd_uuid[at] != Uuid::NIL {
        out.push_str(&format!(" {}", map.osd_uuid[at]));
    }
    out + "\n"
}

#[cfg(test)]
mod tests {
    use codec::Decode;

    use super::*;

    /// But for the order of the blocklist, which is that of a hash table.
    #[test]
    fn a_map_is_shown_as_by_ceph() {
        let bytes = include_bytes!("../../../types/testdata/osdmap/seq/full.124");
        let map = OsdMap::from_bytes(bytes.as_slice().into()).expect("it was captured");
        let sorted = |text: &str| {
            let (head, blocklist) = text.split_once("blocklist ").expect("it has entries");
            let mut entries: Vec<String> =
                blocklist.lines().map(|line| line.replace("blocklist ", "")).collect();
            entries.sort_unstable();
            (head.to_owned(), entries)
        };
        let expected = include_str!("../../testdata/osd_dump.txt");
        assert_eq!(sorted(&map_text(&map)), sorted(expected));
    }
}
