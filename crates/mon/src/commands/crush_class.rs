//! Device classes and weight sets of the CRUSH map.

use crush::{ChooseArg, CrushMap};
use serde_json::{Map, Value, json};
use types::{Errno, OsdId, OsdMap};

use super::{
    Reply, Request, Row,
    crush_map::{pending, refused},
    named::parse_osd,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd crush set-device-class name=class,type=CephString name=ids,type=CephString,n=N",
        help: "set the <class> of the osd(s) <id> [<id>...],or use <all|any> to set all.",
        module: "osd",
        perm: "rw",
        run: |req| set_class(req).into(),
    },
    Row {
        sig: "osd crush rm-device-class name=ids,type=CephString,n=N",
        help: "remove class of the osd(s) <id> [<id>...],or use <all|any> to remove all.",
        module: "osd",
        perm: "rw",
        run: rm_class,
    },
    Row {
        sig: "osd crush class create name=class,type=CephString,goodchars=[A-Za-z0-9-_]",
        help: "create crush device class <class>",
        module: "osd",
        perm: "rw",
        run: create,
    },
    Row {
        sig: "osd crush class rm name=class,type=CephString,goodchars=[A-Za-z0-9-_]",
        help: "remove crush device class <class>",
        module: "osd",
        perm: "rw",
        run: rm,
    },
    Row {
        sig: "osd crush class rename name=srcname,type=CephString,goodchars=[A-Za-z0-9-_] name=dstname,type=CephString,goodchars=[A-Za-z0-9-_]",
        help: "rename crush device class <srcname> to <dstname>",
        module: "osd",
        perm: "rw",
        run: rename,
    },
    Row {
        sig: "osd crush weight-set ls",
        help: "list crush weight sets",
        module: "osd",
        perm: "r",
        run: weight_set_ls,
    },
    Row {
        sig: "osd crush weight-set dump",
        help: "dump crush weight sets",
        module: "osd",
        perm: "r",
        run: weight_set_dump,
    },
];

fn not_an_osd(text: &str) -> Reply {
    Reply::fail(Errno::EINVAL, format!("unable to parse osd id or osd does not exist: \"{text}\""))
}

fn devices_arg(req: &Request<'_>) -> Result<Vec<OsdId>, Reply> {
    let ids = req.args.list("ids");
    if ids.iter().any(|id| matches!(id.as_str(), "all" | "any" | "*")) {
        return Ok(req.next_map().osds().collect());
    }
    let parse = |text: &String| {
        let osd = parse_osd(text).filter(|osd| req.next_map().exists(*osd));
        osd.ok_or_else(|| not_an_osd(text))
    };
    ids.iter().map(parse).collect()
}

fn list(osds: &[OsdId]) -> String {
    osds.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn ids(osds: &[OsdId]) -> Vec<i32> {
    osds.iter().map(|osd| osd.0).collect()
}

fn set_class(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let class = req.args.text("class").unwrap_or_default();
    let osds = devices_arg(req)?;
    let mut crush = pending(req);
    for osd in &osds {
        if let Some(known) = crush.device_class(osd.0).filter(|known| *known != class) {
            let why = format!(
                "osd.{osd} has already bound to class '{known}', can not reset class to '{class}'; use 'ceph osd crush rm-device-class <id>' to remove old class first"
            );
            return Err(Reply::fail(Errno::EBUSY, why));
        }
    }
    crush.set_device_classes(&ids(&osds), Some(&class)).map_err(|error| refused(&error))?;
    req.mon.change_crush(req.wall, crush);
    Ok(Reply::done(format!("set osd(s) {} to class '{class}'", list(&osds))))
}

/// OSDs that do not exist are skipped, and named in the answer.
fn rm_class(req: &mut Request<'_>) -> Reply {
    let (mut osds, mut unknown) = (Vec::new(), String::new());
    for text in req.args.list("ids") {
        match parse_osd(&text) {
            _ if matches!(text.as_str(), "all" | "any" | "*") => osds = req.next_map().osds().collect(),
            Some(osd) if req.next_map().exists(osd) => osds.push(osd),
            Some(osd) => unknown += &format!("osd.{osd} does not exist. "),
            None => {
                return Reply::fail(
                    Errno::EINVAL,
                    format!(
                        "Expected option value to be integer, got '{text}', unable to parse osd id:\"{text}\". "
                    ),
                );
            }
        }
    }
    let mut crush = pending(req);
    if let Err(error) = crush.set_device_classes(&ids(&osds), None) {
        return refused(&error);
    }
    req.mon.change_crush(req.wall, crush);
    Reply::done(format!("{unknown}done removing class of osd(s): {}", list(&osds)))
}

fn create(req: &mut Request<'_>) -> Reply {
    let class = req.args.text("class").unwrap_or_default();
    let mut crush = pending(req);
    if crush.class_of(&class).is_some() {
        return Reply::done(format!("class '{class}' already exists"));
    }
    match crush.create_class(&class) {
        Ok(id) => {
            req.mon.change_crush(req.wall, crush);
            Reply::done(format!("created class {class} with id {id} to crush map"))
        }
        Err(error) => refused(&error),
    }
}

fn rm(req: &mut Request<'_>) -> Reply {
    let class = req.args.text("class").unwrap_or_default();
    let mut crush = pending(req);
    let Some(id) = crush.class_of(&class) else { return Reply::done("") };
    let rules = crush.rules_of_class(id);
    if !rules.is_empty() {
        let names = rules.iter().filter_map(|rule| crush.rule_names.get(&i32::from(*rule)));
        let names = names.map(|name| format!("'{name}'")).collect::<Vec<_>>().join(",");
        let why = format!("class '{class}' still referenced by crush_rule(s): {names}");
        return Reply::fail(Errno::EBUSY, why);
    }
    if let Err(error) = crush.remove_class(id) {
        return refused(&error);
    }
    req.mon.change_crush(req.wall, crush);
    Reply::done(format!("removed class {class} with id {id} from crush map"))
}

fn rename(req: &mut Request<'_>) -> Reply {
    let [from, to] = ["srcname", "dstname"].map(|name| req.args.text(name).unwrap_or_default());
    let mut crush = pending(req);
    let failed = |errno, why| Reply::fail(errno, format!("fail to rename '{from}' to '{to}' : {why}"));
    let Some(id) = crush.class_of(&from) else {
        return match crush.class_of(&to) {
            // Asked for again.
            Some(_) => Reply::done(""),
            None => failed(Errno::ENOENT, "(2) No such file or directory"),
        };
    };
    if crush.class_of(&to).is_some() {
        return failed(Errno::EEXIST, "(17) File exists");
    }
    crush.rename_class(id, &to);
    req.mon.change_crush(req.wall, crush);
    Reply::done(format!("rename class '{from}' to '{to}'"))
}

/// The set that holds for all pools without one of their own.
const COMPAT: i64 = -1;

fn weight_set_ls(req: &mut Request<'_>) -> Reply {
    let map = req.map();
    let name = |id: &i64| match *id {
        COMPAT => "(compat)".to_owned(),
        id => map.pool_name(types::PoolId(id)).map_or(id.to_string(), str::to_owned),
    };
    let names: Vec<String> = map.crush.map().choose_args.keys().map(name).collect();
    Reply::show(req.args, || json!(names), || names.iter().map(|name| format!("{name}\n")).collect())
}

fn weight_set_dump(req: &mut Request<'_>) -> Reply {
    let out = weight_sets_json(req.map());
    Reply::json(req.args, out)
}

/// All weight sets: their weights, by bucket.
pub(super) fn weight_sets_json(map: &OsdMap) -> Value {
    let crush: &CrushMap = map.crush.map();
    let bucket = |(slot, arg): (&u32, &ChooseArg)| {
        let weights = |set: &Vec<u32>| -> Vec<Value> {
            set.iter().map(|weight| crate::format::number(f64::from(*weight) / 65_536.0)).collect()
        };
        let mut out = json!({"bucket_id": -1 - i64::from(*slot)});
        if !arg.weight_set.is_empty() {
            out["weight_set"] = arg.weight_set.iter().map(weights).collect();
        }
        if !arg.ids.is_empty() {
            out["ids"] = json!(arg.ids);
        }
        out
    };
    let set = |(id, args): (&i64, &std::collections::BTreeMap<u32, ChooseArg>)| {
        (id.to_string(), args.iter().map(bucket).collect())
    };
    Value::Object(crush.choose_args.iter().map(set).collect::<Map<String, Value>>())
}
