//! `ceph osd df`: how full each OSD is.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use types::{OsdId, OsdStat};

use super::{
    Reply, Request, Row,
    osd_info::pgs_per_osd,
    osd_tree::{Node, class_cell, label, node_json, reweight, sorted_roots, status_of, walk},
};
use crate::{
    Mon,
    format::{self, Align, TextTable},
};

pub(super) const ROWS: &[Row] = &[Row {
    sig: "osd df name=output_method,type=CephChoices,strings=plain|tree,req=false name=filter_by,type=CephChoices,strings=class|name,req=false name=filter,type=CephString,req=false",
    help: "show OSD utilization",
    module: "osd",
    perm: "r",
    run: df,
}];

/// The parts of a listing.
struct Listing {
    lines: Vec<(Node, OsdStat)>,
    total: OsdStat,
    pgs: BTreeMap<OsdId, u64>,
}

fn percent(stat: &OsdStat) -> f64 {
    if stat.kb == 0 { 0.0 } else { stat.kb_used as f64 * 100.0 / stat.kb as f64 }
}

/// Two digits behind the point, and nothing but 0 for what is less (`lowprecision_t`).
fn low(value: f64) -> String {
    if value.abs() < 0.01 { "0".to_owned() } else { format!("{value:.2}") }
}

impl Listing {
    /// How full in terms of the mean.
    fn var(&self, stat: &OsdStat) -> f64 {
        let mean = percent(&self.total);
        if mean == 0.0 { 0.0 } else { percent(stat) / mean }
    }

    fn osds(&self) -> impl Iterator<Item = &OsdStat> {
        self.lines.iter().filter(|(node, stat)| node.id >= 0 && stat.kb > 0).map(|(_, stat)| stat)
    }

    /// Smallest and largest variation, and the standard deviation of the percentages.
    fn spread(&self) -> (f64, f64, f64) {
        let vars: Vec<f64> = self.osds().map(|stat| self.var(stat)).collect();
        let min = vars.iter().copied().reduce(f64::min).unwrap_or(0.0);
        let max = vars.iter().copied().reduce(f64::max).unwrap_or(0.0);
        let mean = percent(&self.total);
        let sum: f64 = self.osds().map(|stat| (percent(stat) - mean).powi(2)).sum();
        (min, max, if vars.is_empty() { 0.0 } else { (sum / vars.len() as f64).sqrt() })
    }
}

fn listing(mon: &Mon, req_filter: Option<(String, String)>, is_tree: bool) -> Listing {
    let map = &mon.committed.osdmap;
    let crush = map.crush.map();
    let wanted = |id: i32| match &req_filter {
        None => true,
        Some((by, what)) if by == "class" => crush.device_class(id) == Some(what.as_str()),
        Some((_, what)) => {
            let above = crush.location(id).iter().any(|(_, name)| name == what);
            above || *what == format!("osd.{id}")
        }
    };
    let below = |id: i32| {
        let mut devices = Vec::new();
        crush.devices_below(id, &mut devices);
        devices.into_iter().filter(|id| wanted(*id)).map(OsdId).collect::<Vec<_>>()
    };
    let nodes = walk(crush, &sorted_roots(crush));
    let lines: Vec<(Node, OsdStat)> = nodes
        .into_iter()
        .filter(|node| (is_tree || node.id >= 0) && !below(node.id).is_empty())
        .map(|node| {
            let stat = mon.stats.devices(below(node.id).into_iter());
            (node, stat)
        })
        .collect();
    let total = mon.stats.devices(map.osds().filter(|osd| wanted(osd.0)));
    Listing { lines, total, pgs: pgs_per_osd(map) }
}

fn df(req: &mut Request<'_>) -> Reply {
    let is_tree = req.args.text("output_method").as_deref() == Some("tree");
    let filter = req.args.text("filter_by").zip(req.args.text("filter"));
    let mon = &*req.mon;
    if let Some((_, what)) = &filter {
        let map = &mon.committed.osdmap;
        let crush = map.crush.map();
        if crush.id_of(what).is_none() && crush.class_of(what).is_none() && map.pool_by_name(what).is_none() {
            let why = format!("'{what}' not a pool, crush node or device class name");
            return Reply::fail(types::Errno::EINVAL, why);
        }
    }
    let mut listing = listing(mon, filter, is_tree);
    if !is_tree {
        listing
            .lines
            .sort_by_key(|(node, _)| (class_cell(mon.committed.osdmap.crush.map(), node.id), node.id));
    }
    Reply::show(req.args, || df_json(mon, &listing, is_tree), || df_text(mon, &listing, is_tree))
}

fn df_json(mon: &Mon, listing: &Listing, is_tree: bool) -> Value {
    let nodes: Vec<Value> = listing
        .lines
        .iter()
        .map(|(node, stat)| line_json(mon, listing, node, stat, is_tree).into())
        .collect();
    let (min, max, dev) = listing.spread();
    let total = &listing.total;
    json!({
        "nodes": nodes,
        "stray": [],
        "summary": {
            "total_kb": total.kb,
            "total_kb_used": total.kb_used,
            "total_kb_used_data": total.kb_used_data,
            "total_kb_used_omap": total.kb_used_omap,
            "total_kb_used_meta": total.kb_used_meta,
            "total_kb_avail": total.kb_avail,
            "average_utilization": format::number(percent(total)),
            "min_var": format::number(min),
            "max_var": format::number(max),
            "dev": format::number(dev),
        },
    })
}

fn line_json(mon: &Mon, listing: &Listing, node: &Node, stat: &OsdStat, is_tree: bool) -> Map<String, Value> {
    let map = &mon.committed.osdmap;
    let osd = OsdId(node.id);
    let mut out = node_json(map.crush.map(), node);
    let mut put = |name: &str, value: Value| out.insert(name.to_owned(), value);
    put("reweight", if node.id >= 0 { format::number(reweight(map, osd)) } else { (-1).into() });
    put("kb", stat.kb.into());
    put("kb_used", stat.kb_used.into());
    put("kb_used_data", stat.kb_used_data.into());
    put("kb_used_omap", stat.kb_used_omap.into());
    put("kb_used_meta", stat.kb_used_meta.into());
    put("kb_avail", stat.kb_avail.into());
    put("utilization", format::number(percent(stat)));
    put("var", format::number(listing.var(stat)));
    put("pgs", listing.pgs.get(&osd).copied().unwrap_or(0).into());
    if node.id >= 0 {
        put("status", status_of(map, osd).to_lowercase().into());
    }
    if is_tree && node.id < 0 {
        put("children", node.children.iter().rev().copied().collect());
    }
    out
}

fn df_text(mon: &Mon, listing: &Listing, is_tree: bool) -> String {
    let map = &mon.committed.osdmap;
    let crush = map.crush.map();
    let mut table = TextTable::default();
    let headings = [
        "ID", "CLASS", "WEIGHT", "REWEIGHT", "SIZE", "RAW USE", "DATA", "OMAP", "META", "AVAIL", "%USE",
        "VAR", "PGS", "STATUS",
    ];
    for heading in headings {
        table = table.column(heading, Align::Left, Align::Right);
    }
    if is_tree {
        table = table.column("TYPE NAME", Align::Left, Align::Left);
    }
    let sizes = |stat: &OsdStat| {
        [stat.kb, stat.kb_used, stat.kb_used_data, stat.kb_used_omap, stat.kb_used_meta, stat.kb_avail]
            .map(|kb| format::bytes(kb << 10))
    };
    for (node, stat) in &listing.lines {
        let osd = OsdId(node.id);
        let is_osd = node.id >= 0;
        let only_osd = |text: String| if is_osd { text } else { "-".to_owned() };
        let mut cells = vec![node.id.to_string(), class_cell(crush, node.id), format!("{:.5}", node.weight)];
        cells.push(only_osd(format!("{:.5}", reweight(map, osd))));
        cells.extend(sizes(stat));
        cells.extend([low(percent(stat)), low(listing.var(stat))]);
        cells.push(only_osd(listing.pgs.get(&osd).copied().unwrap_or(0).to_string()));
        cells.push(if is_osd { status_of(map, osd).to_lowercase() } else { String::new() });
        if is_tree {
            cells.push(label(crush, node));
        }
        table.row(cells);
    }
    let mut cells = ["", "", "", "TOTAL"].map(str::to_owned).to_vec();
    cells.extend(sizes(&listing.total));
    cells.push(low(percent(&listing.total)));
    cells.resize(headings.len() + usize::from(is_tree), String::new());
    table.row(cells);
    let (min, max, dev) = listing.spread();
    format!("{}MIN/MAX VAR: {}/{}  STDDEV: {}\n", table.render(), low(min), low(max), low(dev))
}
