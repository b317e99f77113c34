//! What the monitors may not do with single OSDs, with all below a CRUSH node, or with a device class: `noup`,
//! `nodown`, `noin`, `noout`.
//!
//! Authority: `OSDMonitor::prepare_command_impl` of `osd set-group` and `osd add-noup` (16.2).

use std::collections::BTreeSet;

use types::{Errno, OsdId, OsdState};

use super::{Reply, Request, Row, named::parse_osd};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd set-group name=flags,type=CephString name=who,type=CephString,n=N",
        help: "set <flags> for batch osds or crush nodes, <flags> must be a comma-separated subset of {noup,nodown,noin,noout}",
        module: "osd",
        perm: "rw",
        run: set_group,
    },
    Row {
        sig: "osd unset-group name=flags,type=CephString name=who,type=CephString,n=N",
        help: "unset <flags> for batch osds or crush nodes, <flags> must be a comma-separated subset of {noup,nodown,noin,noout}",
        module: "osd",
        perm: "rw",
        run: set_group,
    },
    single(
        "osd add-noup name=ids,type=CephString,n=N",
        "mark osd(s) <id> [<id>...] as noup, or use <all|any> to mark all osds as noup",
    ),
    single(
        "osd add-nodown name=ids,type=CephString,n=N",
        "mark osd(s) <id> [<id>...] as nodown, or use <all|any> to mark all osds as nodown",
    ),
    single(
        "osd add-noin name=ids,type=CephString,n=N",
        "mark osd(s) <id> [<id>...] as noin, or use <all|any> to mark all osds as noin",
    ),
    single(
        "osd add-noout name=ids,type=CephString,n=N",
        "mark osd(s) <id> [<id>...] as noout, or use <all|any> to mark all osds as noout",
    ),
    single(
        "osd rm-noup name=ids,type=CephString,n=N",
        "allow osd(s) <id> [<id>...] to be marked up (if they are currently marked as noup), can use <all|any> to automatically filter out all noup osds",
    ),
    single(
        "osd rm-nodown name=ids,type=CephString,n=N",
        "allow osd(s) <id> [<id>...] to be marked down (if they are currently marked as nodown), can use <all|any> to automatically filter out all nodown osds",
    ),
    single(
        "osd rm-noin name=ids,type=CephString,n=N",
        "allow osd(s) <id> [<id>...] to be marked in (if they are currently marked as noin), can use <all|any> to automatically filter out all noin osds",
    ),
    single(
        "osd rm-noout name=ids,type=CephString,n=N",
        "allow osd(s) <id> [<id>...] to be marked out (if they are currently marked as noout), can use <all|any> to automatically filter out all noout osds",
    ),
];

const fn single(sig: &'static str, help: &'static str) -> Row {
    Row { sig, help, module: "osd", perm: "rw", run: one_flag }
}

/// `noup,noout`.
fn flags_arg(text: &str) -> Result<OsdState, Reply> {
    let mut flags = OsdState::default();
    for word in text.split([',', ' ', '=']).filter(|word| !word.is_empty()) {
        match OsdState::parse(word).filter(|flag| OsdState::GROUP.has(*flag)) {
            Some(flag) => flags |= flag,
            None => {
                let text = format!("unrecognized flag '{word}', must be one of {{noup,nodown,noin,noout}}");
                return Err(Reply::fail(Errno::EINVAL, text));
            }
        }
    }
    Ok(flags)
}

fn set_group(req: &mut Request<'_>) -> Reply {
    let text = req.args.text("flags").unwrap_or_default();
    let who = req.args.list("who");
    match flags_arg(&text) {
        Ok(flags) => change(req, flags, &who, req.args.prefix() == "osd set-group"),
        Err(reply) => reply,
    }
}

/// `osd add-noup`, `osd rm-noout`, …: the flag is in the command's name.
fn one_flag(req: &mut Request<'_>) -> Reply {
    let who = req.args.list("ids");
    let prefix = req.args.prefix();
    let (verb, flag) = prefix.trim_start_matches("osd ").split_once('-').unwrap_or_default();
    let is_set = verb == "add";
    match flags_arg(flag) {
        Ok(flags) => change(req, flags, &who, is_set),
        Err(reply) => reply,
    }
}

/// Sets or clears the flags of OSDs, CRUSH nodes and device classes; the answer names those that cannot be found.
fn change(req: &mut Request<'_>, flags: OsdState, who: &[String], is_set: bool) -> Reply {
    let (mut osds, mut nodes, mut classes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut told = String::new();
    let map = req.next_map();
    let crush = map.crush.map();
    for name in who {
        if matches!(name.as_str(), "any" | "all" | "*") {
            osds = map.osds().collect();
            (nodes, classes) = Default::default();
            break;
        }
        if let Some(osd) = parse_osd(name).filter(|osd| osd.0 < types::OSD_COUNT_MAX) {
            osds.insert(osd);
        } else if let Some(node) = crush.id_of(name) {
            nodes.insert(node);
        } else if let Some(class) = crush.class_of(name) {
            classes.insert(class);
        } else {
            told.push_str(&format!("unable to parse osd id or crush node or device class: \"{name}\". "));
        }
    }
    if osds.is_empty() && nodes.is_empty() && classes.is_empty() {
        return Reply::fail(Errno::EINVAL, told);
    }
    for osd in osds.iter().filter(|osd| !map.exists(**osd)) {
        told.push_str(&format!("osd.{osd} does not exist. "));
    }
    req.mon.change_osdmap(req.wall, |map, inc| {
        // An incremental holds the state bits that toggle.
        let toggled = |osd: &OsdId| {
            let now = map.state(*osd);
            OsdState(now.0 ^ now.with(flags, is_set).0)
        };
        let osds = osds.into_iter().filter(|osd| map.exists(*osd));
        inc.new_state = osds.map(|osd| (osd, toggled(&osd))).filter(|(_, bits)| bits.0 != 0).collect();
        let of = |known: &std::collections::BTreeMap<i32, OsdState>, ids: BTreeSet<i32>| {
            let now = |id: &i32| known.get(id).copied().unwrap_or_default();
            let changed = ids.into_iter().map(|id| (id, now(&id).with(flags, is_set), now(&id)));
            changed.filter(|(_, new, old)| new != old).map(|(id, new, _)| (id, new)).collect()
        };
        inc.new_crush_node_flags = of(&map.crush_node_flags, nodes);
        inc.new_device_class_flags = of(&map.device_class_flags, classes);
    });
    Reply::done(told)
}
