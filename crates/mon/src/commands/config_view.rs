//! What shows the configuration database and the table of options.

use serde_json::{Map, Value, json};
use types::{EntityName, EntityType, Errno, OptionInfo, OptionKind, known_option, options};

use super::{
    Reply, Request, Row,
    config::{option_name, special},
};
use crate::{
    config_service::{Applied, ChangeSet, Place, Target, applied, load_changes, versions},
    format::{Align, TextTable},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "config get name=who,type=CephString name=key,type=CephString,req=false",
        help: "Show configuration option(s) for an entity",
        module: "config",
        perm: "r",
        run: get,
    },
    Row { sig: "config dump", help: "Show all configuration option(s)", module: "mon", perm: "r", run: dump },
    Row {
        sig: "config ls",
        help: "List available configuration options",
        module: "config",
        perm: "r",
        run: ls,
    },
    Row {
        sig: "config log name=num,type=CephInt,req=false",
        help: "Show recent history of config changes",
        module: "config",
        perm: "r",
        run: log,
    },
    Row {
        sig: "config generate-minimal-conf",
        help: "Generate a minimal ceph.conf file",
        module: "config",
        perm: "r",
        run: minimal_conf,
    },
    Row {
        sig: "config help name=key,type=CephString",
        help: "Describe a configuration option",
        module: "config",
        perm: "r",
        run: help,
    },
];

/// Change sets that `config log` shows unless told.
const LOG_DEFAULT: i64 = 10;

/// A row of a listing.
struct Line<'a> {
    target: Target,
    name: &'a str,
    value: &'a str,
}

impl Line<'_> {
    fn level(&self) -> &'static str {
        known_option(self.name).map_or("unknown", |info| info.level)
    }

    fn can_update(&self) -> bool {
        known_option(self.name).is_some_and(|info| info.can_update_at_runtime)
    }

    /// The mask's parts by their keys.
    fn mask(&self) -> Map<String, Value> {
        let mut out = Map::new();
        if let Some((kind, value)) = &self.target.location {
            out.insert("location_type".to_owned(), json!(kind));
            out.insert("location_value".to_owned(), json!(value));
        }
        if let Some(class) = &self.target.class {
            out.insert("device_class".to_owned(), json!(class));
        }
        out
    }
}

fn table(lines: &[Line<'_>], indent: impl Fn(&str) -> &'static str) -> String {
    let headings = ["WHO", "MASK", "LEVEL", "OPTION", "VALUE", "RO"].map(|h| (h, Align::Left));
    let mut table = TextTable::default().columns(&headings);
    for line in lines {
        let section = line.target.section();
        let who = format!("{}{section}", indent(section));
        let read_only = if line.can_update() { "" } else { "*" };
        let cells = [&who, &line.target.mask(), line.level(), line.name, line.value, read_only];
        table.row(cells.map(|cell: &str| cell.to_owned()).to_vec());
    }
    table.render()
}

/// The order of sections: global, then each kind of daemon with those of its names.
fn rank(section: &str) -> (usize, &str) {
    const KINDS: [&str; 6] = ["global", "mon", "mgr", "osd", "mds", "client"];
    let kind = section.split('.').next().unwrap_or_default();
    let rank = KINDS.iter().position(|known| *known == kind).unwrap_or(KINDS.len());
    (rank, if section == kind { "" } else { section })
}

fn dump(req: &mut Request<'_>) -> Reply {
    let mut lines = Vec::new();
    for (who, options) in req.state().config.iter() {
        let Some(target) = Target::parse(who) else { continue };
        lines.extend(options.iter().map(|(name, value)| Line { target: target.clone(), name, value }));
    }
    // Masks come before what has none, as the slash in the key does.
    lines.sort_by(|a, b| {
        let key = |l: &Line<'_>| (l.name.to_owned(), l.target.mask().is_empty(), l.target.mask());
        (rank(a.target.section()), key(a)).cmp(&(rank(b.target.section()), key(b)))
    });
    let one = |line: &Line<'_>| {
        let mut out = json!({
            "section": line.target.section(),
            "name": line.name,
            "value": line.value,
            "level": line.level(),
            "can_update_at_runtime": line.can_update(),
            "mask": line.target.mask(),
        });
        line.mask().into_iter().for_each(|(key, value)| out[key] = value);
        out
    };
    let indent = |section: &str| match section {
        "global" => "",
        named if named.contains('.') => "    ",
        _ => "  ",
    };
    Reply::show(req.args, || lines.iter().map(one).collect(), || table(&lines, indent))
}

/// True for the kinds of entities that Ceph's defaults for daemons are for.
fn is_daemon(kind: EntityType) -> bool {
    [EntityType::MON, EntityType::OSD, EntityType::MGR, EntityType::MDS].contains(&kind)
}

fn get(req: &mut Request<'_>) -> Reply {
    let who = req.args.text("who").unwrap_or_default();
    let name = if who.contains('.') { who.clone() } else { format!("{who}.") };
    let Some(name) = EntityName::parse(&name) else {
        return Reply::fail(Errno::EINVAL, format!("unrecognized entity '{who}'"));
    };
    let place = Place::of(req.map(), &name, "");
    let options = applied(&req.state().config, &name, &place, req.map().crush.map());
    if let Some(key) = req.args.text("key") {
        return get_one(req, &name, &option_name(&key), &options);
    }
    let lines: Vec<Line<'_>> = options
        .iter()
        .filter_map(|(name, Applied { who, value })| Some(Line { target: Target::parse(who)?, name, value }))
        .collect();
    let one = |line: &Line<'_>| {
        let entry = json!({
            "value": line.value,
            "section": line.target.section(),
            "mask": line.mask(),
            "can_update_at_runtime": line.can_update(),
        });
        (line.name.to_owned(), entry)
    };
    Reply::show(req.args, || Value::Object(lines.iter().map(one).collect()), || table(&lines, |_| ""))
}

/// One value, without a document around it in any format.
fn get_one(
    req: &Request<'_>,
    name: &EntityName,
    key: &str,
    options: &std::collections::BTreeMap<&str, Applied<'_>>,
) -> Reply {
    if key == "fsid" {
        return Reply::text(format!("{}\n", req.state().monmap.fsid));
    }
    let Some(info) = known_option(key) else {
        return Reply::fail(Errno::ENOENT, format!("unrecognized key '{key}'"));
    };
    if info.is_local() {
        return Reply::fail(Errno::EINVAL, special(key));
    }
    let value = options.get(key).map(|applied| applied.value.to_owned());
    Reply::text(format!("{}\n", value.unwrap_or_else(|| info.default_for(is_daemon(name.kind)))))
}

/// What a client needs to find the cluster, whatever format is asked for.
fn minimal_conf(req: &mut Request<'_>) -> Reply {
    let monmap = &req.state().monmap;
    let fsid = monmap.fsid;
    let hosts: Vec<String> = monmap.mons().map(|mon| super::mon_info::bracketed(&mon.public_addrs)).collect();
    Reply::text(format!(
        "# minimal ceph.conf for {fsid}\n[global]\n\tfsid = {fsid}\n\tmon_host = {}\n",
        hosts.join(" ")
    ))
}

fn ls(req: &mut Request<'_>) -> Reply {
    let names = || options().map(|info| info.name);
    let text = || names().map(|name| format!("{name}\n")).collect();
    Reply::show(req.args, || names().map(Value::from).collect(), text)
}

fn log(req: &mut Request<'_>) -> Reply {
    let wanted = usize::try_from(req.args.int("num").unwrap_or(LOG_DEFAULT)).unwrap_or(0);
    // Nothing is known of the first version, nor of those that were trimmed.
    let versions = versions(req.state()).into_iter().rev().take(wanted);
    let of =
        |version| load_changes(req.state(), version).unwrap_or(ChangeSet { version, ..ChangeSet::default() });
    let sets: Vec<ChangeSet> = versions.map(of).collect();
    let json = |set: &ChangeSet| {
        let changes = set.changes.iter().map(|(key, change)| {
            let mut out = json!({"name": key});
            for (field, value) in [("previous_value", &change.before), ("new_value", &change.after)] {
                if let Some(value) = value {
                    out[field] = json!(value);
                }
            }
            out
        });
        json!({
            "version": set.version,
            "timestamp": set.stamp.to_string(),
            "name": set.name,
            "changes": changes.collect::<Vec<_>>(),
        })
    };
    let text = |set: &ChangeSet| {
        let name = if set.name.is_empty() { String::new() } else { format!(" {} ---", set.name) };
        let mut out = format!("--- {} --- {} ---{name}\n", set.version, set.stamp);
        for (key, change) in &set.changes {
            for (sign, value) in [('-', &change.before), ('+', &change.after)] {
                if let Some(value) = value {
                    out.push_str(&format!("{sign} {key} = {value}\n"));
                }
            }
        }
        out
    };
    Reply::show(req.args, || sets.iter().map(json).collect(), || sets.iter().map(text).collect())
}

fn help(req: &mut Request<'_>) -> Reply {
    let key = option_name(&req.args.text("key").unwrap_or_default());
    let Some(info) = known_option(&key) else {
        return Reply::fail(Errno::ENOENT, "");
    };
    let mut reply = Reply::show(req.args, || types::option_json(info), || help_text(info));
    if req.args.has_format() {
        // Here the stock monitor ends without a line break.
        reply.output.truncate(reply.output.trim_ascii_end().len());
    }
    reply
}

fn help_text(info: &OptionInfo) -> String {
    let mut out = format!("{} - \n  ({}, {})\n", info.name, info.kind.as_str(), info.level);
    let number = |text: &str| match info.kind {
        OptionKind::Float => text.parse().map_or_else(|_| text.to_owned(), |n: f64| format!("{n:.6}")),
        _ => text.to_owned(),
    };
    if info.daemon_default.is_empty() {
        out.push_str(&format!("  Default: {}\n", number(info.default)));
    } else {
        out.push_str(&format!("  Default (non-daemon): {}\n", number(info.default)));
        out.push_str(&format!("  Default (daemon): {}\n", number(info.daemon_default)));
    }
    let choices: Vec<&str> = info.choices().collect();
    if !choices.is_empty() {
        out.push_str(&format!("  Possible values:  {}\n", choices.join(" ")));
    }
    if !info.min.is_empty() || !info.max.is_empty() {
        out.push_str(&format!("  Minimum: {}\n  Maximum: {}\n", number(info.min), number(info.max)));
    }
    out.push_str(&format!("  Can update at runtime: {}\n", info.can_update_at_runtime));
    for (heading, words) in [
        ("Services", info.services().collect::<Vec<_>>()),
        ("Tags", info.tags().collect()),
        ("See also", info.see_also().collect()),
    ] {
        if !words.is_empty() {
            out.push_str(&format!("  {heading}: [{}]\n", words.join(",")));
        }
    }
    out
}
