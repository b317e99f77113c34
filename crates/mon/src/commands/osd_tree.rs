//! The CRUSH hierarchy as a tree: `osd tree`, and the walk that `osd df tree` and `osd crush tree` share.

use std::collections::BTreeSet;

use crush::{COMPAT_SET, CrushMap, PLACES_MAX};
use serde_json::{Map, Value, json};
use types::{Errno, OsdId, OsdMap, OsdState, PRIMARY_AFFINITY_DEFAULT, PoolId};

use super::{Reply, Request, Row, osd_info::map_arg};
use crate::format::{self, Align, TextTable};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd tree name=epoch,type=CephInt,range=0,req=false name=states,type=CephChoices,strings=up|down|in|out|destroyed,n=N,req=false",
        help: "print OSD tree",
        module: "osd",
        perm: "r",
        run: |req| tree(req).into(),
    },
    Row {
        sig: "osd tree-from name=epoch,type=CephInt,range=0,req=false name=bucket,type=CephString name=states,type=CephChoices,strings=up|down|in|out|destroyed,n=N,req=false",
        help: "print OSD tree in bucket",
        module: "osd",
        perm: "r",
        run: |req| tree_from(req).into(),
    },
];

/// A bucket or device on the way through the tree.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) id: i32,
    /// The bucket because of which the node is listed here.
    pub(super) parent: Option<i32>,
    pub(super) depth: usize,
    /// CRUSH weight, 1.0 for a TiB.
    pub(super) weight: f64,
    /// Those below, in the order in which they are shown.
    pub(super) children: Vec<i32>,
}

const ONE: f64 = 65_536.0;

/// The tree from `roots` on, each node before those below it, and in each of its places. A map that an older version
/// took may have more places than can be listed.
pub(super) fn walk(crush: &CrushMap, roots: &[i32]) -> Result<Vec<Node>, Reply> {
    let mut out = Vec::new();
    for root in roots {
        let weight = crush.bucket(*root).map_or(0.0, |b| f64::from(b.weight) / ONE);
        visit(crush, *root, None, 0, weight, &mut out)?;
    }
    Ok(out)
}

fn visit(
    crush: &CrushMap,
    id: i32,
    parent: Option<i32>,
    depth: usize,
    weight: f64,
    out: &mut Vec<Node>,
) -> Result<(), Reply> {
    if out.len() >= PLACES_MAX {
        let why = format!("the items of the crush map have more than {PLACES_MAX} places: not listed");
        return Err(Reply::fail(Errno::EOVERFLOW, why));
    }
    let Some(bucket) = crush.bucket(id) else {
        out.push(Node { id, parent, depth, weight, children: Vec::new() });
        return Ok(());
    };
    let mut below: Vec<(i32, f64)> = (bucket.items.iter().enumerate())
        .map(|(at, item)| (*item, f64::from(bucket.item_weight(at)) / ONE))
        .collect();
    below.sort_by_key(|(id, _)| sort_key(crush, *id));
    out.push(Node { id, parent, depth, weight, children: below.iter().map(|(id, _)| *id).collect() });
    for (item, weight) in below {
        visit(crush, item, Some(id), depth + 1, weight, out)?;
    }
    Ok(())
}

/// What those below a bucket are sorted by (`CrushTreeDumper::Dumper`): devices by class and number, buckets by name.
fn sort_key(crush: &CrushMap, id: i32) -> String {
    match id {
        0.. => format!("{}_osd.{id:08}", crush.device_class(id).unwrap_or_default()),
        _ => format!("_{}", name_of(crush, id)),
    }
}

/// The name of a device or bucket.
pub(super) fn name_of(crush: &CrushMap, id: i32) -> String {
    crush.names.get(&id).cloned().unwrap_or_else(|| format!("osd.{id}"))
}

/// The type of a bucket, or that of devices.
pub(super) fn kind_of(crush: &CrushMap, id: i32) -> (i32, String) {
    let kind = crush.bucket(id).map_or(0, |bucket| i32::from(bucket.kind));
    (kind, crush.type_names.get(&kind).cloned().unwrap_or_default())
}

/// What every listing says of a node.
pub(super) fn node_json(map: &OsdMap, node: &Node) -> Map<String, Value> {
    let crush = map.crush.map();
    let mut out = Map::new();
    out.insert("id".to_owned(), node.id.into());
    // Shadow buckets have one, too.
    if let Some(class) = crush.device_class(node.id) {
        out.insert("device_class".to_owned(), class.into());
    }
    let (kind, kind_name) = kind_of(crush, node.id);
    out.insert("name".to_owned(), name_of(crush, node.id).into());
    out.insert("type".to_owned(), kind_name.into());
    out.insert("type_id".to_owned(), kind.into());
    if node.id >= 0 {
        out.insert("crush_weight".to_owned(), format::number(node.weight));
        out.insert("depth".to_owned(), node.depth.into());
    }
    if node.parent.is_some() {
        let sets = crush.choose_args.keys().map(|set| (*set, weights_in_set(map, *set, node)));
        let weights = sets.filter(|(_, weights)| !weights.is_empty()).map(|(set, weights)| {
            let weights: Vec<Value> = weights.into_iter().map(format::number).collect();
            (weight_set_name(map, set), weights.into())
        });
        out.insert("pool_weights".to_owned(), Value::Object(weights.collect()));
    }
    out
}

/// What a weight set is called: by its pool.
pub(super) fn weight_set_name(map: &OsdMap, set: i64) -> String {
    match set {
        COMPAT_SET => "(compat)".to_owned(),
        pool => map.pool_name(PoolId(pool)).map_or(pool.to_string(), str::to_owned),
    }
}

/// What a node weighs in a weight set, at each position; nothing if it has no weights for the bucket.
pub(super) fn weights_in_set(map: &OsdMap, set: i64, node: &Node) -> Vec<f64> {
    let crush = map.crush.map();
    let place = node.parent.and_then(|parent| {
        let at = crush.bucket(parent)?.items.iter().position(|id| *id == node.id)?;
        Some((u32::try_from(-1 - parent).ok()?, at))
    });
    let Some((slot, at)) = place else { return Vec::new() };
    let arg = crush.choose_args.get(&set).and_then(|args| args.get(&slot));
    let weights = arg.into_iter().flat_map(|arg| &arg.weight_set).filter_map(|position| position.get(at));
    weights.map(|weight| f64::from(*weight) / ONE).collect()
}

/// `    host vm` or `        osd.0`.
pub(super) fn label(crush: &CrushMap, node: &Node) -> String {
    let indent = "    ".repeat(node.depth);
    let name = name_of(crush, node.id);
    if node.id >= 0 {
        format!("{indent}{name}")
    } else {
        format!("{indent}{} {name}", kind_of(crush, node.id).1)
    }
}

/// The class of a device or of a shadow bucket for a table.
pub(super) fn class_cell(crush: &CrushMap, id: i32) -> String {
    crush.device_class(id).unwrap_or_default().to_owned()
}

/// A weight for a table (`weightf_t`).
pub(super) fn weight_cell(weight: f64) -> String {
    if weight < 0.000_001 { "0".to_owned() } else { format!("{weight:.5}") }
}

/// `up`, `down`, `destroyed`, or `DNE` for one that does not exist.
pub(super) fn status_of(map: &OsdMap, osd: OsdId) -> &'static str {
    if !map.exists(osd) {
        "DNE"
    } else if map.is_up(osd) {
        "up"
    } else if map.state(osd).has(OsdState::DESTROYED) {
        "destroyed"
    } else {
        "down"
    }
}

fn affinity(map: &OsdMap, osd: OsdId) -> f64 {
    f64::from(map.primary_affinity(osd)) / f64::from(PRIMARY_AFFINITY_DEFAULT)
}

/// Reweight of an OSD as a fraction.
pub(super) fn reweight(map: &OsdMap, osd: OsdId) -> f64 {
    f64::from(map.weight_fraction(osd))
}

/// True when the OSD is in one of the states asked for, or none is (`OSDTreePlainDumper::should_dump_leaf`). One that
/// only the CRUSH map has is down and out.
fn is_wanted(map: &OsdMap, osd: OsdId, states: &[String]) -> bool {
    let fits = |state: &str| match state {
        "up" => map.is_up(osd),
        "down" => map.is_down(osd),
        "in" => map.is_in(osd),
        "out" => map.is_out(osd),
        "destroyed" => map.state(osd).has(OsdState::DESTROYED),
        _ => false,
    };
    states.is_empty() || states.iter().any(|state| fits(state))
}

fn tree(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let map = map_arg(req)?;
    let roots = sorted_roots(map.crush.map());
    show(req, &map, &roots, true)
}

fn tree_from(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let map = map_arg(req)?;
    let name = req.args.text("bucket").unwrap_or_default();
    match map.crush.map().id_of(&name) {
        Some(id) if id < 0 => show(req, &map, &[id], false),
        Some(_) => Err(Reply::fail(Errno::EINVAL, format!("\"{name}\" is not a bucket"))),
        None => Err(Reply::fail(Errno::ENOENT, format!("bucket '{name}' does not exist"))),
    }
}

/// Roots in the order of the listings: lowest id first.
pub(super) fn sorted_roots(crush: &CrushMap) -> Vec<i32> {
    let mut roots = crush.roots();
    roots.sort_unstable();
    roots
}

fn show(req: &Request<'_>, map: &OsdMap, roots: &[i32], with_stray: bool) -> Result<Reply, Reply> {
    let crush = map.crush.map();
    let states = req.args.list("states");
    let count =
        |words: &[&str]| words.iter().filter(|word| states.iter().any(|state| state == *word)).count();
    if count(&["in", "out"]) > 1 {
        return Err(Reply::fail(Errno::EINVAL, "cannot specify both 'in' and 'out'"));
    }
    if count(&["up", "down", "destroyed"]) > 1 {
        return Err(Reply::fail(Errno::EINVAL, "can specify only one of 'up', 'down' and 'destroyed'"));
    }
    let mut nodes = walk(crush, roots)?;
    if !states.is_empty() {
        let keep = |node: &Node| {
            let mut below = Vec::new();
            crush.devices_below(node.id, &mut below);
            below.iter().any(|id| is_wanted(map, OsdId(*id), &states))
        };
        nodes.retain(keep);
        let shown: BTreeSet<i32> = nodes.iter().map(|node| node.id).collect();
        nodes.iter_mut().for_each(|node| node.children.retain(|child| shown.contains(child)));
    }
    let mut stray = if with_stray { stray(map) } else { Vec::new() };
    stray.retain(|node| is_wanted(map, OsdId(node.id), &states));
    let json = || {
        let dump = |node: &Node| Value::from(osd_node_json(map, node));
        let mut out = json!({"nodes": nodes.iter().map(dump).collect::<Vec<_>>()});
        if with_stray {
            out["stray"] = stray.iter().map(dump).collect();
        }
        out
    };
    Ok(Reply::show(req.args, json, || tree_text(map, nodes.iter().chain(&stray))))
}

/// OSDs that are in no bucket.
pub(super) fn stray(map: &OsdMap) -> Vec<Node> {
    let holders = map.crush.map().holders();
    let stray = map.osds().filter(|osd| !holders.contains_key(&osd.0));
    stray.map(|osd| Node { id: osd.0, parent: None, depth: 0, weight: 0.0, children: Vec::new() }).collect()
}

fn osd_node_json(map: &OsdMap, node: &Node) -> Map<String, Value> {
    let mut out = node_json(map, node);
    if node.id < 0 {
        out.insert("children".to_owned(), node.children.iter().rev().copied().collect());
        return out;
    }
    let osd = OsdId(node.id);
    out.insert("exists".to_owned(), i32::from(map.exists(osd)).into());
    let status = if map.exists(osd) { status_of(map, osd) } else { "down" };
    out.insert("status".to_owned(), status.into());
    out.insert("reweight".to_owned(), format::number(reweight(map, osd)));
    out.insert("primary_affinity".to_owned(), format::number(affinity(map, osd)));
    out
}

fn tree_text<'a>(map: &OsdMap, nodes: impl Iterator<Item = &'a Node>) -> String {
    let crush = map.crush.map();
    let mut table = TextTable::default();
    for (heading, align) in [
        ("ID", Align::Right),
        ("CLASS", Align::Right),
        ("WEIGHT", Align::Right),
        ("TYPE NAME", Align::Left),
        ("STATUS", Align::Right),
        ("REWEIGHT", Align::Right),
        ("PRI-AFF", Align::Right),
    ] {
        table = table.column(heading, Align::Left, align);
    }
    for node in nodes {
        let mut cells = vec![
            node.id.to_string(),
            class_cell(crush, node.id),
            weight_cell(node.weight),
            label(crush, node),
        ];
        let osd = OsdId(node.id);
        match (node.id >= 0, map.exists(osd)) {
            (true, true) => cells.extend([
                status_of(map, osd).to_owned(),
                weight_cell(reweight(map, osd)),
                weight_cell(affinity(map, osd)),
            ]),
            (true, false) => cells.extend(["DNE", "0", ""].map(str::to_owned)),
            (false, _) => cells.extend(["", "", ""].map(str::to_owned)),
        }
        table.row(cells);
    }
    table.render()
}
