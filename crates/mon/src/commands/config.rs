//! The configuration database and the store of configuration keys.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};
use types::{EntityName, Errno};

use super::{Reply, Request, Row};
use crate::{
    config_service::{config_for, is_section, option_default, option_name},
    format::{Align, TextTable},
    keys,
    state::value,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "config set name=who,type=CephString name=name,type=CephString name=value,type=CephString name=force,type=CephBool,req=false",
        help: "Set a configuration option for one or more entities",
        module: "config",
        perm: "rw",
        run: set,
    },
    Row {
        sig: "config rm name=who,type=CephString name=name,type=CephString",
        help: "Clear a configuration option for one or more entities",
        module: "config",
        perm: "rw",
        run: rm,
    },
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
    Row {
        sig: "config-key set name=key,type=CephString name=val,type=CephString,req=false",
        help: "set <key> to value <val>",
        module: "config-key",
        perm: "rw",
        run: key_set,
    },
    Row {
        sig: "config-key put name=key,type=CephString name=val,type=CephString,req=false",
        help: "put <key>, value <val>",
        module: "config-key",
        perm: "rw",
        run: key_set,
    },
    Row {
        sig: "config-key get name=key,type=CephString",
        help: "get <key>",
        module: "config-key",
        perm: "r",
        run: key_get,
    },
    Row {
        sig: "config-key exists name=key,type=CephString",
        help: "check for <key>'s existence",
        module: "config-key",
        perm: "r",
        run: key_exists,
    },
    Row {
        sig: "config-key rm name=key,type=CephString",
        help: "rm <key>",
        module: "config-key",
        perm: "rw",
        run: key_rm,
    },
    Row {
        sig: "config-key del name=key,type=CephString",
        help: "delete <key>",
        module: "config-key",
        perm: "rw",
        run: key_rm,
    },
    Row { sig: "config-key list", help: "list keys", module: "config-key", perm: "r", run: key_ls },
    Row { sig: "config-key ls", help: "list keys", module: "config-key", perm: "r", run: key_ls },
    Row {
        sig: "config-key dump name=key,type=CephString,req=false",
        help: "dump keys and values (with optional prefix)",
        module: "config-key",
        perm: "r",
        run: key_dump,
    },
];

fn who_and_name(req: &Request<'_>) -> Result<(String, String), Reply> {
    let who = req.args.text("who").unwrap_or_default();
    let name = option_name(&req.args.text("name").unwrap_or_default());
    if !is_section(&who) {
        return Err(Reply::fail(Errno::EINVAL, format!("unrecognized config target '{who}'")));
    }
    if name.is_empty() || name.contains('/') {
        return Err(Reply::fail(Errno::ENOENT, format!("unrecognized config option '{name}'")));
    }
    Ok((who, name))
}

fn set(req: &mut Request<'_>) -> Reply {
    let (who, name) = match who_and_name(req) {
        Ok(pair) => pair,
        Err(reply) => return reply,
    };
    let text = req.args.text("value").unwrap_or_default();
    req.mon.put(keys::config(&who, &name), value(&text));
    Reply::done("")
}

fn rm(req: &mut Request<'_>) -> Reply {
    match who_and_name(req) {
        Ok((who, name)) => req.mon.put(keys::config(&who, &name), None),
        Err(reply) => return reply,
    }
    Reply::done("")
}

/// A row of a listing: section, option, value.
type Line = (String, String, String);

fn lines_json(lines: &[Line]) -> Value {
    let line = |(who, name, value): &Line| {
        json!({
            "section": who,
            "name": name,
            "value": value,
            "level": "advanced",
            "can_update_at_runtime": true,
            "mask": "",
            "location_type": "",
            "location_value": "",
        })
    };
    lines.iter().map(line).collect()
}

fn lines_text(lines: &[Line]) -> String {
    let headings = ["WHO", "MASK", "LEVEL", "OPTION", "VALUE", "RO"].map(|h| (h, Align::Left));
    let mut table = TextTable::default().columns(&headings);
    for (who, name, value) in lines {
        let cells = [who.as_str(), "", "advanced", name, value, ""];
        table.row(cells.map(str::to_owned).to_vec());
    }
    table.render()
}

fn dump(req: &mut Request<'_>) -> Reply {
    let mut lines: Vec<Line> = Vec::new();
    for (who, options) in req.state().config.iter() {
        lines.extend(options.iter().map(|(name, value)| (who.clone(), name.clone(), value.clone())));
    }
    // `global` is the widest section: it comes first.
    lines.sort_by_key(|(who, name, _)| (who != "global", who.clone(), name.clone()));
    Reply::show(req.args, || lines_json(&lines), || lines_text(&lines))
}

fn get(req: &mut Request<'_>) -> Reply {
    let who = req.args.text("who").unwrap_or_default();
    let name = if who.contains('.') { who.clone() } else { format!("{who}.") };
    let Some(name) = EntityName::parse(&name) else {
        return Reply::fail(Errno::EINVAL, format!("unrecognized entity '{who}'"));
    };
    let options = config_for(&req.state().config, &name);
    if let Some(key) = req.args.text("key") {
        let key = option_name(&key);
        let found = match key.as_str() {
            "fsid" => Some(crate::format::uuid(&req.state().monmap.fsid)),
            _ => options.get(&key).cloned().or_else(|| option_default(&key).map(str::to_owned)),
        };
        return match found {
            Some(value) => Reply::show(req.args, || json!(value), || format!("{value}\n")),
            None => Reply::fail(Errno::ENOENT, format!("unrecognized key '{key}'")),
        };
    }
    let section_of = |option: &str| {
        let holds = |section: &str| req.state().config.get(section).is_some_and(|o| o.contains_key(option));
        [who.as_str(), name.kind.as_str(), "global"]
            .into_iter()
            .find(|s| holds(s))
            .unwrap_or("global")
            .to_owned()
    };
    let lines: Vec<Line> =
        options.iter().map(|(name, value)| (section_of(name), name.clone(), value.clone())).collect();
    let json = || {
        let entry = |(who, name, value): &Line| {
            (name.clone(), json!({"value": value, "section": who, "mask": {}, "can_update_at_runtime": true}))
        };
        Value::Object(lines.iter().map(entry).collect())
    };
    Reply::show(req.args, json, || lines_text(&lines))
}

/// What a client needs to find the cluster, whatever format is asked for.
fn minimal_conf(req: &mut Request<'_>) -> Reply {
    let monmap = &req.state().monmap;
    let fsid = crate::format::uuid(&monmap.fsid);
    let hosts: Vec<String> = monmap.mons().map(|mon| super::mon_info::bracketed(&mon.public_addrs)).collect();
    Reply::text(format!(
        "# minimal ceph.conf for {fsid}\n[global]\n\tfsid = {fsid}\n\tmon_host = {}\n",
        hosts.join(" ")
    ))
}

fn ls(req: &mut Request<'_>) -> Reply {
    let mut names: Vec<&str> = crate::config_service::known_options().collect();
    names.sort_unstable();
    let text = names.iter().map(|name| format!("{name}\n")).collect();
    Reply::show(req.args, || json!(names), || text)
}

fn help(req: &mut Request<'_>) -> Reply {
    let key = option_name(&req.args.text("key").unwrap_or_default());
    let Some(default) = option_default(&key) else {
        return Reply::fail(Errno::ENOENT, format!("configuration option '{key}' not recognized"));
    };
    let text = format!("{key}\n  (default: {default})\n  Can update at runtime: true\n");
    Reply::show(req.args, || json!({"name": key, "default": default}), || text)
}

fn key_set(req: &mut Request<'_>) -> Reply {
    let key = req.args.text("key").unwrap_or_default();
    let data = match req.args.text("val") {
        Some(text) => Bytes::from(text),
        None => req.input.clone(),
    };
    if data.len() > KEY_BYTES_MAX {
        let text = format!(
            "error: entry size limited to {KEY_BYTES_MAX} bytes. Use 'mon config key max entry size' to manually adjust"
        );
        return Reply::fail(Errno::EFBIG, text);
    }
    req.mon.put(keys::config_key(&key), Some(data));
    Reply::done(format!("set {key}"))
}

/// `mon_config_key_max_entry_size`.
const KEY_BYTES_MAX: usize = 64 << 10;

fn key_get(req: &mut Request<'_>) -> Reply {
    let key = req.args.text("key").unwrap_or_default();
    match req.state().config_keys.get(&key) {
        Some(data) => Reply::text(data.clone()),
        None => Reply::fail(Errno::ENOENT, format!("no such key '{key}'")).with_status(""),
    }
}

fn key_exists(req: &mut Request<'_>) -> Reply {
    let key = req.args.text("key").unwrap_or_default();
    match req.state().config_keys.contains_key(&key) {
        true => Reply::done(format!("key '{key}' exists")),
        false => Reply::fail(Errno::ENOENT, format!("key '{key}' doesn't exist")),
    }
}

fn key_rm(req: &mut Request<'_>) -> Reply {
    let key = req.args.text("key").unwrap_or_default();
    if req.mon.next.config_keys.contains_key(&key) {
        req.mon.put(keys::config_key(&key), None);
    }
    Reply::done("key deleted")
}

fn key_ls(req: &mut Request<'_>) -> Reply {
    let keys: Vec<&String> = req.state().config_keys.keys().collect();
    Reply::json(req.args, json!(keys))
}

fn key_dump(req: &mut Request<'_>) -> Reply {
    let prefix = req.args.text("key").unwrap_or_default();
    let all = req.state().config_keys.iter().filter(|(key, _)| key.starts_with(&prefix));
    let text = |data: &Bytes| match std::str::from_utf8(data) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("<<< binary blob of length {} >>>", data.len()),
    };
    let out: BTreeMap<&String, String> = all.map(|(key, data)| (key, text(data))).collect();
    Reply::json(req.args, json!(out))
}
