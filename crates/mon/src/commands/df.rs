//! `ceph df`: space of the cluster, of device classes and of pools.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use types::{OsdId, OsdStat, PgPool, PoolId};

use super::{Reply, Request, Row};
use crate::{
    Mon,
    format::{self, Align, TextTable},
    stats::{PoolSpace, pool_space},
};

pub(super) const ROWS: &[Row] = &[Row {
    sig: "df name=detail,type=CephChoices,strings=detail,req=false",
    help: "show cluster free space stats",
    module: "mon",
    perm: "r",
    run: df,
}];

fn df(req: &mut Request<'_>) -> Reply {
    let detailed = req.args.has("detail");
    let mon = &*req.mon;
    Reply::show(req.args, || df_json(mon, detailed), || df_text(mon, detailed))
}

/// Devices summed up by class.
fn by_class(mon: &Mon) -> BTreeMap<String, OsdStat> {
    let map = &mon.committed.osdmap;
    let mut classes: BTreeMap<String, Vec<OsdId>> = BTreeMap::new();
    for osd in map.osds().filter(|osd| map.is_in(*osd)) {
        if let Some(class) = map.crush.map().device_class(osd.0) {
            classes.entry(class.to_owned()).or_default().push(osd);
        }
    }
    classes.into_iter().map(|(class, osds)| (class, mon.stats.devices(osds.into_iter()))).collect()
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A share in percent, as Ceph's `percentify` shows it.
fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent < 0.01 { "0".to_owned() } else { format!("{percent:.2}") }
}

fn device_json(stat: &OsdStat) -> Map<String, Value> {
    let used = stat.kb.saturating_sub(stat.kb_avail) << 10;
    let value = json!({
        "total_bytes": stat.kb << 10,
        "total_avail_bytes": stat.kb_avail << 10,
        "total_used_bytes": stat.kb_used << 10,
        "total_used_raw_bytes": used,
        "total_used_raw_ratio": format::number(ratio(used, stat.kb << 10)),
    });
    value.as_object().cloned().unwrap_or_default()
}

fn df_json(mon: &Mon, detailed: bool) -> Value {
    let map = &mon.committed.osdmap;
    let mut stats = device_json(&mon.stats.all_devices(map));
    for name in ["num_osds", "num_per_pool_osds", "num_per_pool_omap_osds"] {
        stats.insert(name.to_owned(), mon.stats.num_devices(map).into());
    }
    let classes: Map<String, Value> =
        by_class(mon).iter().map(|(class, stat)| (class.clone(), device_json(stat).into())).collect();
    let pools: Vec<Value> = map
        .pools
        .iter()
        .map(|(id, pool)| {
            let name = map.pool_name(*id).unwrap_or_default();
            json!({"name": name, "id": id.0, "stats": pool_json(mon, *id, pool, detailed)})
        })
        .collect();
    json!({"stats": stats, "stats_by_class": classes, "pools": pools})
}

fn pool_json(mon: &Mon, id: PoolId, pool: &PgPool, detailed: bool) -> Value {
    let space = pool_space(&mon.stats, &mon.committed.osdmap, id, pool);
    let sum = mon.stats.pool_sum(id);
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| out.insert(name.to_owned(), value);
    put("stored", space.stored.into());
    if detailed {
        put("stored_data", (space.stored - space.stored_omap).into());
        put("stored_omap", space.stored_omap.into());
    }
    put("objects", sum.objects.into());
    put("kb_used", (space.used.div_ceil(1024)).into());
    put("bytes_used", space.used.into());
    if detailed {
        put("data_bytes_used", (space.used - space.used_omap).into());
        put("omap_bytes_used", space.used_omap.into());
    }
    put("percent_used", format::number(space.used_ratio));
    put("max_avail", space.max_avail.into());
    if detailed {
        let rest: [(&str, u64); 11] = [
            ("quota_objects", pool.quota_objects_max),
            ("quota_bytes", pool.quota_bytes_max),
            ("dirty", 0),
            ("rd", sum.reads),
            ("rd_bytes", sum.read_bytes),
            ("wr", sum.writes),
            ("wr_bytes", sum.write_bytes),
            ("compress_bytes_used", 0),
            ("compress_under_bytes", 0),
            ("stored_raw", space.stored_raw),
            ("avail_raw", space.avail_raw),
        ];
        for (name, value) in rest {
            put(name, value.into());
        }
    }
    out.into()
}

fn df_text(mon: &Mon, detailed: bool) -> String {
    let map = &mon.committed.osdmap;
    let mut raw = TextTable::default().columns(&[
        ("CLASS", Align::Left),
        ("SIZE", Align::Right),
        ("AVAIL", Align::Right),
        ("USED", Align::Right),
        ("RAW USED", Align::Right),
        ("%RAW USED", Align::Right),
    ]);
    let mut add = |class: &str, stat: &OsdStat| {
        let used = stat.kb.saturating_sub(stat.kb_avail) << 10;
        raw.row(vec![
            class.to_owned(),
            format::bytes(stat.kb << 10),
            format::bytes(stat.kb_avail << 10),
            format::bytes(stat.kb_used << 10),
            format::bytes(used),
            percent(ratio(used, stat.kb << 10)),
        ]);
    };
    by_class(mon).iter().for_each(|(class, stat)| add(class, stat));
    add("TOTAL", &mon.stats.all_devices(map));
    format!("--- RAW STORAGE ---\n{} \n--- POOLS ---\n{}", raw.render(), pools_text(mon, detailed))
}

fn pools_text(mon: &Mon, detailed: bool) -> String {
    let map = &mon.committed.osdmap;
    let (l, r) = (Align::Left, Align::Right);
    let mut headings = vec![("POOL", l), ("ID", r), ("PGS", r), ("STORED", r)];
    if detailed {
        headings.extend([("(DATA)", r), ("(OMAP)", r)]);
    }
    headings.extend([("OBJECTS", r), ("USED", r)]);
    if detailed {
        headings.extend([("(DATA)", r), ("(OMAP)", r)]);
    }
    headings.extend([("%USED", r), ("MAX AVAIL", r)]);
    if detailed {
        headings.extend([
            ("QUOTA OBJECTS", r),
            ("QUOTA BYTES", r),
            ("DIRTY", r),
            ("USED COMPR", r),
            ("UNDER COMPR", r),
        ]);
    }
    let mut table = TextTable::default().columns(&headings);
    for (id, pool) in &map.pools {
        let space = pool_space(&mon.stats, map, *id, pool);
        table.row(pool_cells(mon, *id, pool, &space, detailed));
    }
    table.render()
}

fn pool_cells(mon: &Mon, id: PoolId, pool: &PgPool, space: &PoolSpace, detailed: bool) -> Vec<String> {
    let name = mon.committed.osdmap.pool_name(id).unwrap_or_default();
    let mut cells =
        vec![name.to_owned(), id.to_string(), pool.pg_num.to_string(), format::bytes(space.stored)];
    if detailed {
        cells.extend([format::bytes(space.stored - space.stored_omap), format::bytes(space.stored_omap)]);
    }
    cells.extend([format::count(mon.stats.pool_sum(id).objects), format::bytes(space.used)]);
    if detailed {
        cells.extend([format::bytes(space.used - space.used_omap), format::bytes(space.used_omap)]);
    }
    cells.extend([percent(space.used_ratio), format::bytes(space.max_avail)]);
    if detailed {
        let or_none = |value: u64, text: String| if value == 0 { "N/A".to_owned() } else { text };
        cells.extend([
            or_none(pool.quota_objects_max, format::count(pool.quota_objects_max)),
            or_none(pool.quota_bytes_max, format::bytes(pool.quota_bytes_max)),
            "N/A".to_owned(),
            "0 B".to_owned(),
            "0 B".to_owned(),
        ]);
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn shares_are_shown_in_percent() {
        for (ratio, text) in [
            (0.0, "0"),
            (0.000_06, "0"),
            (0.000_1, "0.01"),
            (0.1, "10.00"),
            (0.200_04, "20.00"),
            (0.123_4, "12.34"),
            (1.0, "100.00"),
        ] {
            assert_eq!(percent(ratio), text, "{ratio}");
        }
    }
}
