//! The CRUSH map shown.

use std::collections::{BTreeMap, BTreeSet};

use crush::{Bucket, BucketAlg, CrushMap, Step, step};
use serde_json::{Value, json};
use types::{Errno, OsdId, Release};

use super::{
    Reply, Request, Row,
    crush_class::weight_sets_json,
    named::parse_osd,
    osd_tree::{
        class_cell, label, name_of, node_json, sorted_roots, walk, weight_cell, weight_set_name,
        weights_in_set,
    },
};
use crate::format::{Align, TextTable};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd crush tree name=shadow,type=CephChoices,req=false,strings=--show-shadow",
        help: "dump crush buckets and items in a tree view",
        module: "osd",
        perm: "r",
        run: |req| tree(req).into(),
    },
    Row { sig: "osd crush dump", help: "dump crush map", module: "osd", perm: "r", run: dump },
    Row {
        sig: "osd crush show-tunables",
        help: "show current crush tunables",
        module: "osd",
        perm: "r",
        run: show_tunables,
    },
    Row { sig: "osd crush rule ls", help: "list crush rules", module: "osd", perm: "r", run: rule_ls },
    Row { sig: "osd crush rule list", help: "list crush rules", module: "osd", perm: "r", run: rule_ls },
    Row {
        sig: "osd crush rule dump name=name,type=CephString,goodchars=[A-Za-z0-9-_.],req=false",
        help: "dump crush rule <name> (default all)",
        module: "osd",
        perm: "r",
        run: rule_dump,
    },
    Row {
        sig: "osd crush class ls",
        help: "list all crush device classes",
        module: "osd",
        perm: "r",
        run: class_ls,
    },
    Row {
        sig: "osd crush class ls-osd name=class,type=CephString,goodchars=[A-Za-z0-9-_]",
        help: "list all osds belonging to the specific <class>",
        module: "osd",
        perm: "r",
        run: class_osds,
    },
    Row {
        sig: "osd crush get-device-class name=ids,type=CephString,n=N",
        help: "get classes of specified osd(s) <id> [<id>...]",
        module: "osd",
        perm: "r",
        run: get_class,
    },
    Row {
        sig: "osd crush ls name=node,type=CephString,goodchars=[A-Za-z0-9-_.]",
        help: "list items beneath a node in the CRUSH tree",
        module: "osd",
        perm: "r",
        run: ls,
    },
    Row {
        sig: "osd crush rule ls-by-class name=class,type=CephString,goodchars=[A-Za-z0-9-_.]",
        help: "list all crush rules that reference the same <class>",
        module: "osd",
        perm: "r",
        run: rules_of_class,
    },
    Row {
        sig: "osd crush get-tunable name=tunable,type=CephChoices,strings=straw_calc_version",
        help: "get crush tunable <tunable>",
        module: "osd",
        perm: "r",
        run: get_tunable,
    },
];

fn tree(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let crush = req.map().crush.map();
    let mut roots = sorted_roots(crush);
    // Later releases have a flag.
    if req.args.text("shadow").is_some() || req.args.flag("show_shadow") {
        // A shadow root is below no bucket, shadow or not.
        let held: BTreeSet<i32> = crush.all_buckets().flat_map(|b| &b.items).copied().collect();
        let is_root = |b: &&Bucket| crush.is_shadow(b.id) && !held.contains(&b.id);
        roots.extend(crush.all_buckets().filter(is_root).map(|b| b.id));
        roots.sort_unstable();
    }
    let nodes = walk(crush, &roots)?;
    let json = || {
        let dump = |node: &super::osd_tree::Node| {
            let mut out = node_json(req.map(), node);
            if node.id < 0 {
                out.insert("children".to_owned(), node.children.iter().rev().copied().collect());
            }
            Value::from(out)
        };
        json!({"nodes": nodes.iter().map(dump).collect::<Vec<_>>(), "stray": []})
    };
    let text = || {
        let mut table = TextTable::default();
        let sets: Vec<i64> = crush.choose_args.keys().copied().collect();
        let names = sets.iter().map(|set| weight_set_name(req.map(), *set));
        for heading in ["ID", "CLASS", "WEIGHT"].map(str::to_owned).into_iter().chain(names) {
            table = table.column(&heading, Align::Left, Align::Right);
        }
        table = table.column("TYPE NAME", Align::Left, Align::Left);
        for node in &nodes {
            let mut row = vec![node.id.to_string(), class_cell(crush, node.id), weight_cell(node.weight)];
            let in_set = |set: &i64| weights_in_set(req.map(), *set, node).first().map(|w| weight_cell(*w));
            row.extend(sets.iter().map(|set| in_set(set).unwrap_or_default()));
            row.push(label(crush, node));
            table.row(row);
        }
        table.render()
    };
    Ok(Reply::show(req.args, json, text))
}

fn bucket_json(crush: &CrushMap, bucket: &Bucket) -> Value {
    let items: Vec<Value> = (bucket.items.iter().enumerate())
        .map(|(pos, id)| json!({"id": id, "weight": bucket.item_weight(pos), "pos": pos}))
        .collect();
    json!({
        "id": bucket.id,
        "name": name_of(crush, bucket.id),
        "type_id": bucket.kind,
        "type_name": crush.type_names.get(&i32::from(bucket.kind)),
        "weight": bucket.weight,
        "alg": bucket.alg.name(),
        "hash": "rjenkins1",
        "items": items,
    })
}

fn dump(req: &mut Request<'_>) -> Reply {
    let crush = req.map().crush.map();
    let devices: Vec<Value> = (0..crush.max_devices)
        .filter(|id| crush.names.contains_key(id))
        .map(|id| match crush.device_class(id) {
            Some(class) => json!({"id": id, "name": name_of(crush, id), "class": class}),
            None => json!({"id": id, "name": name_of(crush, id)}),
        })
        .collect();
    let types: Vec<Value> =
        crush.type_names.iter().map(|(id, name)| json!({"type_id": id, "name": name})).collect();
    let out = json!({
        "devices": devices,
        "types": types,
        "buckets": crush.all_buckets().map(|b| bucket_json(crush, b)).collect::<Vec<_>>(),
        "rules": rule_ids(crush).map(|id| rule_json(crush, id)).collect::<Vec<_>>(),
        "tunables": tunables_json(crush),
        "choose_args": weight_sets_json(req.map()),
    });
    Reply::json(req.args, out)
}

/// The oldest clients that understand the map.
pub(super) fn minimum_version(crush: &CrushMap) -> Release {
    if crush.tunables.chooseleaf_stable != 0 {
        Release::JEWEL
    } else if crush.all_buckets().any(|bucket| matches!(bucket.alg, BucketAlg::Straw2 { .. })) {
        Release::HAMMER
    } else if crush.tunables.chooseleaf_vary_r != 0 {
        Release::FIREFLY
    } else {
        Release::BOBTAIL
    }
}

fn tunables_json(crush: &CrushMap) -> Value {
    let t = &crush.tunables;
    let profile = t.profile();
    let has_straw2 = crush.all_buckets().any(|bucket| matches!(bucket.alg, BucketAlg::Straw2 { .. }));
    let is_first = (t.choose_local_tries, t.choose_local_fallback_tries, t.choose_total_tries) == (2, 5, 19);
    json!({
        "choose_local_tries": t.choose_local_tries,
        "choose_local_fallback_tries": t.choose_local_fallback_tries,
        "choose_total_tries": t.choose_total_tries,
        "chooseleaf_descend_once": t.chooseleaf_descend_once,
        "chooseleaf_vary_r": t.chooseleaf_vary_r,
        "chooseleaf_stable": t.chooseleaf_stable,
        "straw_calc_version": t.straw_calc_version,
        "allowed_bucket_algs": t.allowed_bucket_algs,
        "profile": profile,
        "optimal_tunables": i32::from(profile == "jewel"),
        "legacy_tunables": i32::from(profile == "argonaut"),
        "minimum_required_version": minimum_version(crush).name(),
        "require_feature_tunables": i32::from(!is_first),
        "require_feature_tunables2": i32::from(t.chooseleaf_descend_once != 0),
        "has_v2_rules": 0,
        "require_feature_tunables3": i32::from(t.chooseleaf_vary_r != 0),
        "has_v3_rules": 0,
        "has_v4_buckets": i32::from(has_straw2),
        "require_feature_tunables5": i32::from(t.chooseleaf_stable != 0),
        "has_v5_rules": 0,
    })
}

fn show_tunables(req: &mut Request<'_>) -> Reply {
    let out = tunables_json(req.map().crush.map());
    Reply::json(req.args, out).padded()
}

fn rule_ids(crush: &CrushMap) -> impl Iterator<Item = u8> + '_ {
    (0..=u8::MAX).filter(|id| crush.rule(*id).is_some())
}

fn step_json(crush: &CrushMap, s: &Step) -> Value {
    let kind = || crush.type_names.get(&s.arg2).cloned().unwrap_or_default();
    let choose = |op: &str| json!({"op": op, "num": s.arg1, "type": kind()});
    let tries = |op: &str| json!({"op": op, "num": s.arg1});
    match s.op {
        step::NOOP => json!({"op": "noop"}),
        step::TAKE => json!({"op": "take", "item": s.arg1, "item_name": name_of(crush, s.arg1)}),
        step::EMIT => json!({"op": "emit"}),
        step::CHOOSE_FIRSTN => choose("choose_firstn"),
        step::CHOOSE_INDEP => choose("choose_indep"),
        step::CHOOSELEAF_FIRSTN => choose("chooseleaf_firstn"),
        step::CHOOSELEAF_INDEP => choose("chooseleaf_indep"),
        step::SET_CHOOSE_TRIES => tries("set_choose_tries"),
        step::SET_CHOOSELEAF_TRIES => tries("set_chooseleaf_tries"),
        step::SET_CHOOSE_LOCAL_TRIES => tries("set_choose_local_tries"),
        step::SET_CHOOSE_LOCAL_FALLBACK_TRIES => tries("set_choose_local_fallback_tries"),
        step::SET_CHOOSELEAF_VARY_R => tries("set_chooseleaf_vary_r"),
        step::SET_CHOOSELEAF_STABLE => tries("set_chooseleaf_stable"),
        other => json!({"opcode": other, "arg1": s.arg1, "arg2": s.arg2}),
    }
}

fn rule_json(crush: &CrushMap, id: u8) -> Value {
    let Some(rule) = crush.rule(id) else { return Value::Null };
    json!({
        "rule_id": id,
        "rule_name": crush.rule_names.get(&i32::from(id)),
        "ruleset": rule.ruleset,
        "type": rule.kind,
        "min_size": rule.min_size,
        "max_size": rule.max_size,
        "steps": rule.steps.iter().map(|s| step_json(crush, s)).collect::<Vec<_>>(),
    })
}

fn rule_ls(req: &mut Request<'_>) -> Reply {
    let crush = req.map().crush.map();
    let names: Vec<&String> = rule_ids(crush).filter_map(|id| crush.rule_names.get(&i32::from(id))).collect();
    Reply::show(req.args, || json!(names), || names.iter().map(|name| format!("{name}\n")).collect())
}

fn rule_dump(req: &mut Request<'_>) -> Reply {
    let crush = req.map().crush.map();
    let out = match req.args.text("name") {
        None => rule_ids(crush).map(|id| rule_json(crush, id)).collect(),
        Some(name) => match crush.rule_of(&name) {
            Some(id) => rule_json(crush, id),
            None => return Reply::fail(Errno::ENOENT, format!("unknown crush rule '{name}'")),
        },
    };
    Reply::json(req.args, out).padded()
}

fn class_ls(req: &mut Request<'_>) -> Reply {
    let names: Vec<&String> = req.map().crush.map().class_names.values().collect();
    Reply::json(req.args, json!(names))
}

fn class_osds(req: &mut Request<'_>) -> Reply {
    let crush = req.map().crush.map();
    let class = req.args.text("class").unwrap_or_default();
    // A class that is not there has no OSDs.
    let wanted = crush.class_of(&class);
    let is_wanted = |(id, class): &(&i32, &i32)| **id >= 0 && Some(**class) == wanted;
    let ids: Vec<i32> = crush.classes.iter().filter(is_wanted).map(|(id, _)| *id).collect();
    Reply::show(req.args, || json!(ids), || ids.iter().map(|id| format!("{id}\n")).collect())
}

fn get_class(req: &mut Request<'_>) -> Reply {
    let mut out = BTreeMap::new();
    for text in req.args.list("ids") {
        let Some(osd) = parse_osd(&text) else {
            return Reply::fail(Errno::EINVAL, format!("unable to parse osd id:'{text}'"));
        };
        out.insert(osd, req.map().crush.map().device_class(osd.0).unwrap_or_default().to_owned());
    }
    let json = || out.iter().map(|(osd, class)| json!({"osd": osd.0, "device_class": class})).collect();
    let line = |(osd, class): (&OsdId, &String)| match out.len() {
        1 => format!("{class}\n"),
        _ => format!("osd.{osd} {class}\n"),
    };
    let text = || out.iter().map(line).collect();
    Reply::show(req.args, json, text)
}

fn ls(req: &mut Request<'_>) -> Reply {
    let crush = req.map().crush.map();
    let node = req.args.text("node").unwrap_or_default();
    let Some(id) = crush.id_of(&node) else {
        return Reply::fail(Errno::ENOENT, format!("node '{node}' does not exist"));
    };
    let names: Vec<String> = match crush.bucket(id) {
        Some(bucket) => bucket.items.iter().map(|item| name_of(crush, *item)).collect(),
        None => vec![node],
    };
    Reply::show(req.args, || json!(names), || names.iter().map(|name| format!("{name}\n")).collect())
}

fn rules_of_class(req: &mut Request<'_>) -> Reply {
    let crush = req.map().crush.map();
    let class = req.args.text("class").unwrap_or_default();
    let Some(id) = crush.class_of(&class) else {
        return Reply::fail(Errno::ENOENT, format!("failed to get rules by class '{class}'"));
    };
    let ids = crush.rules_of_class(id);
    let names: Vec<&String> = ids.iter().filter_map(|id| crush.rule_names.get(&i32::from(*id))).collect();
    Reply::show(req.args, || json!(names), || names.iter().map(|name| format!("{name}\n")).collect())
}

/// The one tunable that can be asked for alone.
fn get_tunable(req: &mut Request<'_>) -> Reply {
    let version = req.map().crush.map().tunables.straw_calc_version;
    Reply::show(req.args, || json!({"straw_calc_version": version}), || format!("{version}\n"))
}
