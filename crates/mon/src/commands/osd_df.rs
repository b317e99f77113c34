//! `ceph osd df`: how full each OSD is.

use std::collections::{BTreeMap, BTreeSet};

use crush::{CrushMap, step};
use serde_json::{Map, Value, json};
use types::{OsdId, OsdMap, OsdStat};

use super::{
    Reply, Request, Row,
    osd_info::pgs_per_osd,
    osd_tree::{
        Node, class_cell, label, node_json, reweight, sorted_roots, status_of, stray, walk, weight_cell,
    },
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
    run: |req| df(req).into(),
}];

/// The parts of a listing.
struct Listing {
    lines: Vec<(Node, OsdStat)>,
    /// OSDs that are in no bucket.
    stray: Vec<(Node, OsdStat)>,
    total: OsdStat,
    /// How full the OSDs are that take part.
    mean: f64,
    pgs: BTreeMap<OsdId, u64>,
    /// The share of the data that each of the listed OSDs is to have.
    reweights: Vec<(f64, f64)>,
}

/// What a listing is narrowed down to.
enum Wanted {
    All,
    /// These buckets and devices: those at and below a bucket, or what a pool's rule takes.
    Nodes(BTreeSet<i32>),
    /// Devices of a class, and all buckets.
    Class(String),
}

impl Wanted {
    /// What a name stands for: a bucket or device, else a class, else a pool; none if it is none of these.
    fn parse(map: &OsdMap, name: &str) -> Option<Wanted> {
        let crush = map.crush.map();
        let mut nodes = BTreeSet::new();
        if let Some(id) = crush.id_of(name) {
            crush.items_below(id, &mut nodes);
            return Some(Wanted::Nodes(nodes));
        }
        if crush.class_of(name).is_some() {
            return Some(Wanted::Class(name.to_owned()));
        }
        let (_, pool) = map.pool_by_name(name)?;
        let rule = crush.rule(pool.crush_rule)?;
        let takes: BTreeSet<i32> =
            rule.steps.iter().filter(|each| each.op == step::TAKE).map(|each| each.arg1).collect();
        takes.into_iter().for_each(|root| crush.items_below(root, &mut nodes));
        Some(Wanted::Nodes(nodes))
    }

    fn has(&self, crush: &CrushMap, id: i32) -> bool {
        match self {
            Wanted::All => true,
            Wanted::Nodes(nodes) => nodes.contains(&id),
            Wanted::Class(class) => id < 0 || crush.device_class(id) == Some(class),
        }
    }
}

fn percent(stat: &OsdStat) -> f64 {
    if stat.kb == 0 { 0.0 } else { stat.kb_used as f64 * 100.0 / stat.kb as f64 }
}

/// Two digits behind the point, nothing but 0 for what is less than a thousandth, a dash for less than nothing
/// (`lowprecision_t`).
fn low(value: f64) -> String {
    match value {
        value if value < -0.01 => "-".to_owned(),
        value if value < 0.001 => "0".to_owned(),
        value => format!("{value:.2}"),
    }
}

impl Listing {
    fn new(mon: &Mon, wanted: &Wanted, is_tree: bool) -> Result<Listing, Reply> {
        let map = &mon.committed.osdmap;
        let crush = map.crush.map();
        let takes_part = |osd: &OsdId| map.is_in(*osd) && wanted.has(crush, osd.0);
        let with_stat = |node: Node| {
            let mut below = Vec::new();
            crush.devices_below(node.id, &mut below);
            let stat = mon.stats.devices(below.into_iter().map(OsdId).filter(takes_part));
            (node, stat)
        };
        let mut nodes = walk(crush, &sorted_roots(crush))?;
        nodes.retain(|node| (is_tree || node.id >= 0) && wanted.has(crush, node.id));
        if !is_tree {
            nodes.sort_by_key(|node| (class_cell(crush, node.id), node.id));
            nodes.dedup_by_key(|node| node.id);
        }
        let stray = stray(map).into_iter().filter(|node| wanted.has(crush, node.id));
        let lines: Vec<(Node, OsdStat)> = nodes.into_iter().map(with_stat).collect();
        let stray: Vec<(Node, OsdStat)> = stray.map(with_stat).collect();
        let devices = || lines.iter().chain(&stray).filter(|(node, _)| node.id >= 0);
        let total = match wanted {
            Wanted::All => mon.stats.all_devices(map),
            Wanted::Nodes(_) | Wanted::Class(_) => {
                mon.stats.devices(devices().map(|(node, _)| OsdId(node.id)).filter(|osd| map.is_in(*osd)))
            }
        };
        let mean = percent(&mon.stats.devices(map.osds().filter(takes_part)));
        let reweights =
            devices().map(|(node, stat)| (reweight(map, OsdId(node.id)), percent(stat))).collect();
        Ok(Listing { mean, total, pgs: pgs_per_osd(map), reweights, lines, stray })
    }

    /// How full an OSD is, relative to the mean.
    fn var(&self, percent: f64) -> f64 {
        if self.mean == 0.0 { 1.0 } else { percent / self.mean }
    }

    /// Smallest and largest variation, and the standard deviation of the percentages.
    fn spread(&self) -> (f64, f64, f64) {
        let in_use = || self.reweights.iter().filter(|(reweight, _)| *reweight > 0.0);
        let vars: Vec<f64> = in_use().map(|(_, percent)| self.var(*percent)).collect();
        // Ceph's numbers of no OSD at all.
        let min = vars.iter().copied().reduce(f64::min).unwrap_or(-1.0);
        let max = vars.iter().copied().reduce(f64::max).unwrap_or(-1.0);
        let squares: f64 = in_use().map(|(reweight, percent)| reweight * (percent - self.mean).powi(2)).sum();
        let sum: f64 = in_use().map(|(reweight, _)| reweight).sum();
        (min, max, if sum > 0.0 { (squares / sum).sqrt() } else { 0.0 })
    }
}

/// The operator need not say which kind of name the listing is filtered by.
fn df(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let is_tree = req.args.text("output_method").as_deref() == Some("tree");
    let mon = &*req.mon;
    let wanted = match req.args.text("filter").filter(|name| !name.is_empty()) {
        None => Wanted::All,
        Some(name) => match Wanted::parse(&mon.committed.osdmap, &name) {
            Some(wanted) => wanted,
            None => {
                let why = format!("'{name}' not a pool, crush node or device class name");
                return Err(Reply::fail(types::Errno::EINVAL, why));
            }
        },
    };
    let listing = Listing::new(mon, &wanted, is_tree)?;
    Ok(Reply::show(req.args, || df_json(mon, &listing), || df_text(mon, &listing, is_tree)))
}

fn df_json(mon: &Mon, listing: &Listing) -> Value {
    let line = |(node, stat): &(Node, OsdStat)| Value::from(line_json(mon, listing, node, stat));
    let shown = |lines: &[(Node, OsdStat)]| -> Vec<Value> { lines.iter().map(line).collect() };
    let (min, max, dev) = listing.spread();
    let total = &listing.total;
    json!({
        "nodes": shown(&listing.lines),
        "stray": shown(&listing.stray),
        "summary": {
            "total_kb": total.kb,
            "total_kb_used": total.kb_used,
            "total_kb_used_data": total.kb_used_data,
            "total_kb_used_omap": total.kb_used_omap,
            "total_kb_used_meta": total.kb_used_meta,
            "total_kb_avail": total.kb_avail,
            "average_utilization": format::number(listing.mean),
            "min_var": format::number(min),
            "max_var": format::number(max),
            "dev": format::number(dev),
        },
    })
}

fn line_json(mon: &Mon, listing: &Listing, node: &Node, stat: &OsdStat) -> Map<String, Value> {
    let map = &mon.committed.osdmap;
    let osd = OsdId(node.id);
    let mut out = node_json(map, node);
    let mut put = |name: &str, value: Value| out.insert(name.to_owned(), value);
    put("reweight", if node.id >= 0 { format::number(reweight(map, osd)) } else { (-1).into() });
    put("kb", stat.kb.into());
    put("kb_used", stat.kb_used.into());
    put("kb_used_data", stat.kb_used_data.into());
    put("kb_used_omap", stat.kb_used_omap.into());
    put("kb_used_meta", stat.kb_used_meta.into());
    put("kb_avail", stat.kb_avail.into());
    put("utilization", format::number(percent(stat)));
    put("var", format::number(listing.var(percent(stat))));
    put("pgs", listing.pgs.get(&osd).copied().unwrap_or(0).into());
    if node.id >= 0 {
        put("status", status_of(map, osd).to_lowercase().into());
    } else {
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
    for (node, stat) in listing.lines.iter().chain(&listing.stray) {
        let osd = OsdId(node.id);
        let is_osd = node.id >= 0;
        let only_osd = |text: String| if is_osd { text } else { "-".to_owned() };
        let mut cells = vec![node.id.to_string(), class_cell(crush, node.id), weight_cell(node.weight)];
        cells.push(only_osd(weight_cell(reweight(map, osd))));
        cells.extend(sizes(stat));
        cells.extend([low(percent(stat)), low(listing.var(percent(stat)))]);
        cells.push(only_osd(listing.pgs.get(&osd).copied().unwrap_or(0).to_string()));
        cells.push(if is_osd { status_of(map, osd).to_lowercase() } else { String::new() });
        if is_tree {
            cells.push(label(crush, node));
        }
        table.row(cells);
    }
    let mut cells = ["", "", "", "TOTAL"].map(str::to_owned).to_vec();
    cells.extend(sizes(&listing.total));
    cells.push(low(listing.mean));
    cells.resize(headings.len() + usize::from(is_tree), String::new());
    table.row(cells);
    let (min, max, dev) = listing.spread();
    format!("{}MIN/MAX VAR: {}/{}  STDDEV: {}\n", table.render(), low(min), low(max), low(dev))
}
