//! Configuration keys: any text by name. Those below `config/` are the configuration database.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::json;
use types::Errno;

use super::{Reply, Request, Row};
use crate::{config_service::kept_key, ledger_keys};

/// `mon_config_key_max_entry_size`.
const KEY_BYTES_MAX: usize = 64 << 10;

const fn row(sig: &'static str, help: &'static str, perm: &'static str, run: super::Run) -> Row {
    Row { sig, help, module: "config-key", perm, run }
}

pub(super) const ROWS: &[Row] = &[
    row(
        "config-key set name=key,type=CephString name=val,type=CephString,req=false",
        "set <key> to value <val>",
        "rw",
        set,
    ),
    row(
        "config-key put name=key,type=CephString name=val,type=CephString,req=false",
        "put <key>, value <val>",
        "rw",
        set,
    ),
    row("config-key get name=key,type=CephString", "get <key>", "r", get),
    row("config-key exists name=key,type=CephString", "check for <key>'s existence", "r", exists),
    row("config-key rm name=key,type=CephString", "rm <key>", "rw", rm),
    row("config-key del name=key,type=CephString", "delete <key>", "rw", rm),
    row("config-key list", "list keys", "r", ls),
    row("config-key ls", "list keys", "r", ls),
    row(
        "config-key dump name=key,type=CephString,req=false",
        "dump keys and values (with optional prefix)",
        "r",
        dump,
    ),
];

fn set(req: &mut Request<'_>) -> Reply {
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
    if ledger_keys::is_config(&key) && std::str::from_utf8(&data).is_err() {
        return Reply::fail(Errno::EINVAL, "the value of an option is text");
    }
    req.mon.put_config_key(&key, Some(data));
    Reply::done(format!("set {key}"))
}

fn get(req: &mut Request<'_>) -> Reply {
    let key = req.args.text("key").unwrap_or_default();
    match req.state().config_keys.get(kept_key(&key).as_ref()) {
        Some(data) => Reply::text(data.clone()),
        None => Reply::fail(Errno::ENOENT, ""),
    }
}

fn exists(req: &mut Request<'_>) -> Reply {
    let key = req.args.text("key").unwrap_or_default();
    match req.state().config_keys.contains_key(kept_key(&key).as_ref()) {
        true => Reply::done(format!("key '{key}' exists")),
        false => Reply::fail(Errno::ENOENT, format!("key '{key}' doesn't exist")),
    }
}

fn rm(req: &mut Request<'_>) -> Reply {
    let key = req.args.text("key").unwrap_or_default();
    if req.mon.next.config_keys.contains_key(kept_key(&key).as_ref()) {
        req.mon.put_config_key(&key, None);
    }
    Reply::done("key deleted")
}

fn ls(req: &mut Request<'_>) -> Reply {
    let keys: Vec<&String> = req.state().config_keys.keys().collect();
    Reply::json(req.args, json!(keys))
}

fn dump(req: &mut Request<'_>) -> Reply {
    let prefix = req.args.text("key").unwrap_or_default();
    let all = req.state().config_keys.iter().filter(|(key, _)| key.starts_with(&prefix));
    let text = |data: &Bytes| match std::str::from_utf8(data) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("<<< binary blob of length {} >>>", data.len()),
    };
    let out: BTreeMap<&String, String> = all.map(|(key, data)| (key, text(data))).collect();
    Reply::json(req.args, json!(out))
}
