//! Changes to the CRUSH map.

use std::collections::BTreeMap;

use codec::Decode;
use crush::{CrushMap, EditError, LEVELS_MAX, RuleForm};
use types::{Errno, OsdId, OsdMap};

use super::{Reply, Request, Row, crush_smoke::endless_rule, named::osd_id_arg, osd_dump::min_compat_with};
use crate::osdmap_service::{RuleMismatch, drop_flags, is_in, rule_mismatch};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd crush add-bucket name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=type,type=CephString name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=],req=false",
        help: "add no-parent (probably root) crush bucket <name> of type <type> to location <args>",
        module: "osd",
        perm: "rw",
        run: |req| add_bucket(req).into(),
    },
    Row {
        sig: "osd crush rename-bucket name=srcname,type=CephString,goodchars=[A-Za-z0-9-_.] name=dstname,type=CephString,goodchars=[A-Za-z0-9-_.]",
        help: "rename bucket <srcname> to <dstname>",
        module: "osd",
        perm: "rw",
        run: rename_bucket,
    },
    Row {
        sig: "osd crush move name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        help: "move existing entry for <name> to location <args>",
        module: "osd",
        perm: "rw",
        run: |req| move_item(req).into(),
    },
    Row {
        sig: "osd crush add name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0 name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        help: "add or update crushmap position and weight for <name> with <weight> and location <args>",
        module: "osd",
        perm: "rw",
        run: |req| place(req).into(),
    },
    Row {
        sig: "osd crush set name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0 name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        help: "update crushmap position and weight for <name> to <weight> with location <args>",
        module: "osd",
        perm: "rw",
        run: |req| place(req).into(),
    },
    Row {
        sig: "osd crush create-or-move name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0 name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        help: "create entry or move existing entry for <name> <weight> at/to location <args>",
        module: "osd",
        perm: "rw",
        run: |req| create_or_move(req).into(),
    },
    Row {
        sig: "osd crush reweight name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=weight,type=CephFloat,range=0.0",
        help: "change <name>'s weight to <weight> in crush map",
        module: "osd",
        perm: "rw",
        run: |req| reweight(req).into(),
    },
    Row {
        sig: "osd crush reweight-subtree name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=weight,type=CephFloat,range=0.0",
        help: "change all leaf items beneath <name> to <weight> in crush map",
        module: "osd",
        perm: "rw",
        run: |req| reweight_subtree(req).into(),
    },
    Row {
        sig: "osd crush reweight-all",
        help: "recalculate the weights for the tree to ensure they sum correctly",
        module: "osd",
        perm: "rw",
        run: reweight_all,
    },
    Row {
        sig: "osd crush rule create-replicated name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=root,type=CephString,goodchars=[A-Za-z0-9-_.] name=type,type=CephString,goodchars=[A-Za-z0-9-_.] name=class,type=CephString,goodchars=[A-Za-z0-9-_.],req=false",
        help: "create crush rule <name> for replicated pool to start from <root>, replicate across buckets of type <type>, use devices of type <class> (ssd or hdd)",
        module: "osd",
        perm: "rw",
        run: rule_create,
    },
    Row {
        sig: "osd crush rule create-simple name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=root,type=CephString,goodchars=[A-Za-z0-9-_.] name=type,type=CephString,goodchars=[A-Za-z0-9-_.] name=mode,type=CephChoices,strings=firstn|indep,req=false",
        help: "create crush rule <name> to start from <root>, replicate across buckets of type <type>, using a choose mode of <firstn|indep>",
        module: "osd",
        perm: "rw",
        run: rule_create,
    },
    Row {
        sig: "osd crush rule rename name=srcname,type=CephString,goodchars=[A-Za-z0-9-_.] name=dstname,type=CephString,goodchars=[A-Za-z0-9-_.]",
        help: "rename crush rule <srcname> to <dstname>",
        module: "osd",
        perm: "rw",
        run: rule_rename,
    },
    Row {
        sig: "osd crush rule rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.]",
        help: "remove crush rule <name>",
        module: "osd",
        perm: "rw",
        run: rule_rm,
    },
    Row {
        sig: "osd setcrushmap name=prior_version,type=CephInt,req=false",
        help: "set crush map from input file",
        module: "osd",
        perm: "rw",
        run: setcrushmap,
    },
];

const ONE: f64 = 65_536.0;

/// What an edit of the map answers when it is refused.
pub(super) fn refused(error: &EditError) -> Reply {
    let errno = match error {
        EditError::NotFound(_) => Errno::ENOENT,
        EditError::Exists(_) => Errno::EEXIST,
        EditError::NotEmpty(_) => Errno::ENOTEMPTY,
        EditError::InUse(_) => Errno::EBUSY,
        _ => Errno::EINVAL,
    };
    Reply::fail(errno, error.to_string())
}

/// The CRUSH map with all pending changes, to be edited.
pub(super) fn pending(req: &Request<'_>) -> CrushMap {
    req.next_map().crush.map().clone()
}

pub(super) fn text(req: &Request<'_>, name: &str) -> String {
    req.args.text(name).unwrap_or_default()
}

/// Pairs of type and bucket, and the way they are printed.
type Shown = (Vec<(String, String)>, String);

/// Pairs of type and bucket of `args`, up to a word that is no such pair. The last of a type counts
/// (`CrushWrapper::parse_loc_map`).
fn location_arg(req: &Request<'_>) -> Result<Shown, Reply> {
    let args = req.args.list("args");
    // Clients split at spaces or leave that to the monitor.
    let words = args.iter().flat_map(|arg| arg.split_whitespace());
    let pair = |word: &str| {
        let (kind, name) = word.split_once('=').filter(|(_, name)| !name.is_empty())?;
        Some((kind.to_owned(), name.to_owned()))
    };
    let out: BTreeMap<String, String> = words.map_while(pair).collect();
    if out.len() > LEVELS_MAX {
        return Err(refused(&EditError::TooManyLevels));
    }
    let shown: Vec<String> = out.iter().map(|(kind, name)| format!("{kind}={name}")).collect();
    let shown = format!("{{{}}}", shown.join(","));
    Ok((out.into_iter().collect(), shown))
}

/// Pairs of type and bucket as `location_arg` reads them, for items that must have a place.
fn place_arg(req: &Request<'_>) -> Result<Shown, Reply> {
    let (location, shown) = location_arg(req)?;
    match location.is_empty() {
        false => Ok((location, shown)),
        true => Err(Reply::fail(Errno::EINVAL, "(22) Invalid argument")),
    }
}

fn add_bucket(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (name, kind) = (text(req, "name"), text(req, "type"));
    let (location, shown) = location_arg(req)?;
    let mut crush = pending(req);
    if crush.id_of(&name).is_some() {
        return Ok(Reply::done(format!("bucket '{name}' already exists")));
    }
    let wrong = match crush.type_of(&kind) {
        None => Some(format!("type '{kind}' does not exist")),
        Some(0) => Some(format!("type '{kind}' is for devices, not buckets")),
        Some(_) => None,
    };
    if let Some(why) = wrong {
        return Err(Reply::fail(Errno::EINVAL, why));
    }
    let made = crush.add_bucket(&name, &kind).and_then(|_| match location.is_empty() {
        true => Ok(()),
        false => crush.move_item(&name, &location),
    });
    made.map_err(|error| refused(&error))?;
    req.mon.change_crush(req.wall, crush);
    let to = if location.is_empty() { "crush map".to_owned() } else { format!("location {shown}") };
    Ok(Reply::done(format!("added bucket {name} type {kind} to {to}")))
}

fn rename_bucket(req: &mut Request<'_>) -> Reply {
    let (from, to) = (text(req, "srcname"), text(req, "dstname"));
    let mut crush = pending(req);
    if crush.id_of(&from).is_none() && crush.id_of(&to).is_some() {
        // Asked for again.
        return Reply::done(format!("srcname = '{from}' does not exist and dstname = '{to}' already exists"));
    }
    match crush.rename_bucket(&from, &to) {
        Err(EditError::NotFound(name)) if name == from => {
            Reply::fail(Errno::ENOENT, format!("srcname = '{from}' does not exist"))
        }
        Err(EditError::Exists(name)) if name == to => {
            Reply::fail(Errno::EEXIST, format!("dstname = '{to}' already exists"))
        }
        Err(EditError::NotBucket(_)) => {
            let id = crush.id_of(&from).unwrap_or_default();
            let why = format!("srcname = '{from}' is not a bucket because its id = {id} is >= 0");
            Reply::fail(Errno::ENOTDIR, why)
        }
        Ok(()) => {
            req.mon.change_crush(req.wall, crush);
            Reply::done(format!("renamed bucket {from} into {to}"))
        }
        Err(error) => refused(&error),
    }
}

/// Buckets to be below: the type and the name of each.
type Location = [(String, String)];

/// Puts the item `name` where the location says, by `put`, unless it `is_there`; `done` says what that was.
pub(super) fn put_at(
    req: &mut Request<'_>,
    is_there: fn(&CrushMap, i32, &Location) -> bool,
    put: fn(&mut CrushMap, &str, &Location) -> Result<(), EditError>,
    done: &str,
) -> Result<Reply, Reply> {
    let name = text(req, "name");
    let mut crush = pending(req);
    let Some(id) = crush.id_of(&name) else {
        return Err(Reply::fail(Errno::ENOENT, format!("item {name} does not exist")));
    };
    let (location, shown) = place_arg(req)?;
    let what = format!("item id {id} name '{name}' to location {shown} in crush map");
    if is_there(&crush, id, &location) {
        return Ok(Reply::done(format!("no need to move {what}")));
    }
    put(&mut crush, &name, &location).map_err(|error| refused(&error))?;
    req.mon.change_crush(req.wall, crush);
    Ok(Reply::done(format!("{done} {what}")))
}

fn move_item(req: &mut Request<'_>) -> Result<Reply, Reply> {
    put_at(req, is_in, CrushMap::move_item, "moved")
}

/// A weight that fits into the map: clients take it for a signed number.
fn weight_arg(req: &Request<'_>) -> Result<f64, Reply> {
    let weight = req.args.float("weight").unwrap_or(0.0);
    fixed_weight(weight).map(|_| weight)
}

/// The weight as maps have it, if they can.
pub(super) fn fixed_weight(weight: f64) -> Result<u32, Reply> {
    let fixed = (weight * ONE) as u32;
    match i32::try_from(fixed) {
        Ok(_) => Ok(fixed),
        Err(_) => Err(Reply::fail(Errno::EOVERFLOW, "(75) Value too large for defined data type")),
    }
}

/// The OSD, its weight and its place.
type Placement = (OsdId, f64, Vec<(String, String)>, String);

fn placement(req: &Request<'_>) -> Result<Placement, Reply> {
    let osd = osd_id_arg(req)?;
    if !req.next_map().exists(osd) {
        let create = match req.args.prefix() {
            "osd crush create-or-move" => " create",
            _ => "Create",
        };
        let why = format!("osd.{osd} does not exist. {create} it before updating the crush map");
        return Err(Reply::fail(Errno::ENOENT, why));
    }
    let (location, shown) = place_arg(req)?;
    Ok((osd, weight_arg(req)?, location, shown))
}

fn place(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (osd, weight, location, shown) = placement(req)?;
    let is_add = req.args.prefix() == "osd crush add";
    let mut crush = pending(req);
    let name = format!("osd.{osd}");
    if !is_add && crush.parent_of(osd.0).is_none() {
        let why = format!(
            "unable to set item id {osd} name '{name}' weight {weight} at location {shown}: does not exist"
        );
        return Err(Reply::fail(Errno::ENOENT, why));
    }
    crush.place_device(osd.0, &name, (weight * ONE) as u32, &location).map_err(|error| refused(&error))?;
    req.mon.change_crush(req.wall, crush);
    let verb = if is_add { "add" } else { "set" };
    Ok(Reply::done(format!(
        "{verb} item id {osd} name '{name}' weight {weight} at location {shown} to crush map"
    )))
}

fn create_or_move(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (osd, weight, location, shown) = placement(req)?;
    let mut crush = pending(req);
    let name = format!("osd.{osd}");
    if is_in(&crush, osd.0, &location) {
        return Ok(Reply::done(format!(
            "create-or-move updated item name '{name}' weight {weight} at location {shown} to crush map"
        )));
    }
    // An entry that is there keeps its weight.
    let fixed = crush.item_weight(osd.0).unwrap_or((weight * ONE) as u32);
    crush.place_device(osd.0, &name, fixed, &location).map_err(|error| refused(&error))?;
    req.mon.change_crush(req.wall, crush);
    Ok(Reply::done(format!(
        "create-or-move updating item name '{name}' weight {weight} at location {shown} to crush map"
    )))
}

fn reweight(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let name = text(req, "name");
    let weight = weight_arg(req)?;
    let mut crush = pending(req);
    let Some(id) = crush.id_of(&name) else {
        return Err(Reply::fail(Errno::ENOENT, format!("device '{name}' does not appear in the crush map")));
    };
    if id < 0 {
        return Err(Reply::fail(Errno::EINVAL, format!("device '{name}' is not a leaf in the crush map")));
    }
    crush.reweight(&name, (weight * ONE) as u32).map_err(|error| refused(&error))?;
    req.mon.change_crush(req.wall, crush);
    Ok(Reply::done(format!("reweighted item id {id} name '{name}' to {weight} in crush map")))
}

fn reweight_subtree(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let name = text(req, "name");
    let weight = weight_arg(req)?;
    let mut crush = pending(req);
    let Some(id) = crush.id_of(&name) else {
        return Err(Reply::fail(Errno::ENOENT, format!("device '{name}' does not appear in the crush map")));
    };
    if id >= 0 {
        return Err(Reply::fail(Errno::EINVAL, format!("device '{name}' is not a subtree in the crush map")));
    }
    crush.reweight(&name, (weight * ONE) as u32).map_err(|error| refused(&error))?;
    req.mon.change_crush(req.wall, crush);
    Ok(Reply::done(format!("reweighted subtree id {id} name '{name}' to {weight} in crush map")))
}

fn reweight_all(req: &mut Request<'_>) -> Reply {
    let mut crush = pending(req);
    if let Err(error) = crush.reweight_all() {
        return refused(&error);
    }
    req.mon.change_crush(req.wall, crush);
    Reply::done("reweighted crush hierarchy")
}

fn rule_create(req: &mut Request<'_>) -> Reply {
    let name = text(req, "name");
    let mut crush = pending(req);
    if crush.rule_of(&name).is_some() {
        return Reply::done(format!("rule {name} already exists"));
    }
    let form = RuleForm { is_indep: text(req, "mode") == "indep", ..RuleForm::REPLICATED };
    let (root, kind) = (text(req, "root"), text(req, "type"));
    if crush.id_of(&root).is_none() {
        return Reply::fail(Errno::ENOENT, format!("root item {root} does not exist"));
    }
    if crush.type_of(&kind).is_none() {
        return Reply::fail(Errno::EINVAL, format!("unknown type {kind}"));
    }
    let class = req.args.text("class").filter(|class| !class.is_empty());
    if let Some(class) = class.as_ref().filter(|class| crush.class_of(class).is_none()) {
        return Reply::fail(Errno::EINVAL, format!("device class {class} does not exist"));
    }
    match crush.add_simple_rule(&name, &root, &kind, class.as_deref(), form) {
        Ok(_) => {
            req.mon.change_crush(req.wall, crush);
            Reply::done("")
        }
        Err(error) => refused(&error),
    }
}

fn rule_rename(req: &mut Request<'_>) -> Reply {
    let (from, to) = (text(req, "srcname"), text(req, "dstname"));
    let mut crush = pending(req);
    match (crush.rule_of(&from), crush.rule_of(&to)) {
        (Some(_), Some(_)) => {
            Reply::fail(Errno::EEXIST, format!("destination rule name '{to}' already exists"))
        }
        // Asked for again.
        (None, Some(_)) => Reply::done(format!("already renamed to '{to}'")),
        (None, None) => Reply::fail(Errno::ENOENT, format!("source rule name '{from}' does not exist")),
        (Some(rule), None) => {
            crush.rename_rule(rule, &to);
            req.mon.change_crush(req.wall, crush);
            Reply::done("")
        }
    }
}

fn rule_rm(req: &mut Request<'_>) -> Reply {
    let name = text(req, "name");
    let mut crush = pending(req);
    let Some(id) = crush.rule_of(&name) else {
        return Reply::done(format!("rule {name} does not exist"));
    };
    if req.next_map().pools.values().any(|pool| pool.crush_rule == id) {
        return Reply::fail(Errno::EBUSY, format!("crush ruleset {name} {id} is in use"));
    }
    match crush.remove_rule(&name) {
        Ok(()) => {
            req.mon.change_crush(req.wall, crush);
            Reply::done("")
        }
        Err(error) => refused(&error),
    }
}

/// Refuses a CRUSH map that is not for the oldest clients that are to be served
/// (`OSDMonitor::validate_crush_against_features`).
pub(super) fn check_clients(map: &OsdMap, crush: &CrushMap) -> Result<(), Reply> {
    let (needed, served) = (min_compat_with(map, crush), map.require_min_compat_client);
    // 0: no release is required.
    if served.0 == 0 || needed <= served {
        return Ok(());
    }
    let why =
        format!("new crush map requires client version {needed} but require_min_compat_client is {served}");
    Err(Reply::fail(Errno::EINVAL, why))
}

/// A pool that this map would not place any more, and why (`OSDMap::validate_crush_rules`).
fn why_not_placed(crush: &CrushMap, map: &OsdMap) -> Option<String> {
    let (id, pool, why) = map.pools.iter().find_map(|(id, pool)| {
        Some((id, pool, rule_mismatch(crush, pool.crush_rule, pool.kind, pool.size)?))
    })?;
    let (rule, size) = (pool.crush_rule, pool.size);
    Some(match why {
        RuleMismatch::NoRule => format!("pool {id} references crush_rule {rule} but it is not present"),
        RuleMismatch::OtherRuleset => format!("rule {rule} mask ruleset does not match rule id"),
        RuleMismatch::OtherKind => format!("pool {id} type does not match rule {rule}"),
        RuleMismatch::TooSmall | RuleMismatch::TooLarge => {
            let (least, most) = crush.rule(rule).map_or((0, 0), |rule| (rule.min_size, rule.max_size));
            format!(
                "pool {id} size {size} does not fall within rule {rule} min_size {least} and max_size {most}"
            )
        }
    })
}

fn setcrushmap(req: &mut Request<'_>) -> Reply {
    let Ok(crush) = CrushMap::from_prefix(req.input.clone()) else {
        return Reply::fail(Errno::EINVAL, "Failed to parse crushmap: not a crush map");
    };
    let version = req.next_map().crush_version;
    let prior = req.args.int("prior_version");
    if prior == Some(i64::from(version) - 1) && *req.input == *req.next_map().crush.bytes() {
        // Asked for again.
        return Reply::done(version.to_string());
    }
    if prior.is_some_and(|prior| prior != i64::from(version)) {
        return Reply::fail(
            Errno::EPERM,
            format!("prior_version {} != crush version {version}", text(req, "prior_version")),
        );
    }
    if let Err(error) = crush.check_places() {
        return refused(&error);
    }
    if let Err(error) = crush.check_for_clients() {
        return Reply::fail(Errno::EINVAL, format!("Failed to parse crushmap: {error}"));
    }
    if let Err(refusal) = check_clients(req.next_map(), &crush) {
        return refusal;
    }
    if let Some(why) = why_not_placed(&crush, req.next_map()) {
        return Reply::fail(Errno::EINVAL, why);
    }
    let is_tried = req.mon.option("mon_osd_crush_smoke_test").is_none_or(|value| value == "true");
    if is_tried && let Some(rule) = endless_rule(&crush, req.next_map()) {
        let why = format!("crush smoke test failed with -110: rule {rule} takes too long");
        return Reply::fail(Errno::ETIMEDOUT, why);
    }
    // The bytes are kept as they came: they may hold parts that this version does not know.
    let bytes = req.input.clone();
    req.mon.change_osdmap(req.wall, |map, inc| {
        inc.crush = bytes;
        drop_flags(map, inc, &crush);
    });
    Reply::done((version + 1).to_string())
}
