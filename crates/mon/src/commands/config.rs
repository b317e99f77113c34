//! What changes the configuration database.

use std::{collections::BTreeMap, ops::Bound};

use types::{ConfParseError, Errno, known_option, parse_conf};

use super::{Reply, Request, Row};
use crate::{
    config_service::{Change, Target, changes_from, last_version, load_changes, versions},
    manager::{balancer, prometheus},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "config set name=who,type=CephString name=name,type=CephString name=value,type=CephString name=force,type=CephBool,req=false",
        help: "Set a configuration option for one or more entities",
        module: "config",
        perm: "rw",
        run: |req| set(req).into(),
    },
    Row {
        sig: "config rm name=who,type=CephString name=name,type=CephString",
        help: "Clear a configuration option for one or more entities",
        module: "config",
        perm: "rw",
        run: |req| rm(req).into(),
    },
    Row {
        sig: "config reset name=num,type=CephInt,range=0",
        help: "Revert configuration to a historical version specified by <num>",
        module: "config",
        perm: "rw",
        run: reset,
    },
    Row {
        sig: "config assimilate-conf",
        help: "Assimilate options from a conf, and return a new, minimal conf file",
        module: "config",
        perm: "rw",
        run: assimilate,
    },
];

/// Spaces and underscores are one in the names of options; dashes are not.
pub(super) fn option_name(text: &str) -> String {
    text.replace(' ', "_")
}

/// The value as it is kept, or why it is refused.
fn checked_value(name: &str, text: &str) -> Result<String, Reply> {
    let Some(info) = known_option(name) else {
        return Err(Reply::fail(Errno::EINVAL, format!("unrecognized config option '{name}'")));
    };
    let value = info
        .normalize(text)
        .map_err(|error| Reply::fail(error.errno, format!("error parsing value: {}", error.text)))?;
    if info.is_local() {
        return Err(Reply::fail(Errno::EINVAL, special(name)));
    }
    // Modules take less than the table says.
    if !balancer::may_be(info.name, &value) || !prometheus::may_be(info.name, &value) {
        return Err(Reply::fail(Errno::EINVAL, format!("error parsing value: '{text}'")));
    }
    Ok(value)
}

/// Ceph's words for options that lead to the monitors.
pub(super) fn special(name: &str) -> String {
    format!("{name} is special and cannot be stored by the mon")
}

fn target(req: &Request<'_>) -> Result<Target, Reply> {
    let who = req.args.text("who").unwrap_or_default();
    Target::parse(&who)
        .ok_or_else(|| Reply::fail(Errno::EINVAL, format!("unrecognized config target '{who}'")))
}

fn change(req: &mut Request<'_>, name: &str, value: Option<String>) -> Result<Reply, Reply> {
    let target = target(req)?;
    let changes = changes_from(&req.mon.next, [(format!("{target}/{name}"), value)]);
    req.mon.change_config(req.wall, "", changes);
    Ok(Reply::default())
}

fn set(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let name = option_name(&req.args.text("name").unwrap_or_default());
    let text = req.args.text("value").unwrap_or_default();
    let value = match checked_value(&name, &text) {
        Ok(value) => value,
        Err(_) if req.args.flag("force") && !name.is_empty() => text,
        Err(reply) => return Err(reply),
    };
    change(req, &name, Some(value))
}

fn rm(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let name = option_name(&req.args.text("name").unwrap_or_default());
    change(req, &name, None)
}

fn reset(req: &mut Request<'_>) -> Reply {
    let newest = last_version(&req.mon.next);
    let wanted = req.args.int("num").and_then(|num| u64::try_from(num).ok());
    let Some(wanted) = wanted.filter(|num| *num <= newest) else {
        let text = "must specify a valid historical version to revert to; see 'ceph config log' for a list of \
                    avialable configuration historical versions";
        return Reply::fail(Errno::EINVAL, text);
    };
    if wanted == newest {
        return Reply::default();
    }
    let mut back: BTreeMap<String, Option<String>> = BTreeMap::new();
    let after = (Bound::Excluded(wanted), Bound::Unbounded);
    for version in versions(&req.mon.next).range(after).rev() {
        // Change sets that were trimmed cannot be undone; Ceph's versions start from an empty database.
        let Some(set) = load_changes(&req.mon.next, *version) else { continue };
        back.extend(set.changes.into_iter().map(|(key, Change { before, .. })| (key, before)));
    }
    let changes = changes_from(&req.mon.next, back);
    req.mon.change_config(req.wall, &format!("reset to {wanted}"), changes);
    Reply::default()
}

/// Takes over a file's options for which the database has no other value; gives the rest back.
fn assimilate(req: &mut Request<'_>) -> Reply {
    let text = String::from_utf8_lossy(req.input).into_owned();
    let conf = match parse_conf(&text) {
        Ok(conf) => conf,
        Err(ConfParseError { line, column }) => {
            let text =
                format!("parse error: expected a section or an option in line {line} at position {column}");
            return Reply::fail(Errno::EINVAL, text);
        }
    };
    let mut wanted = Vec::new();
    let mut rest = String::new();
    for (section, options) in conf {
        let target = Target::parse(&section);
        let mut kept = String::new();
        for (name, text) in options {
            let value = checked_value(&name, &text).ok();
            let (Some(target), Some(value)) = (&target, value) else {
                kept.push_str(&format!("\t{name} = {text}\n"));
                continue;
            };
            let options = req.mon.next.config.get(&target.to_string());
            match options.and_then(|options| options.get(&name)) {
                Some(known) if *known != value => kept.push_str(&format!("\t{name} = {text}\n")),
                Some(_) => {}
                None => wanted.push((format!("{target}/{name}"), Some(value))),
            }
        }
        if !kept.is_empty() {
            rest.push_str(&format!("\n[{section}]\n{kept}"));
        }
    }
    if !wanted.is_empty() {
        let changes = changes_from(&req.mon.next, wanted);
        req.mon.change_config(req.wall, "", changes);
    }
    Reply::text(rest)
}
