//! Types of secret keys: which types are accepted and made, and those of the services.

use auth::{CryptoKey, RotatingSecrets};
use serde_json::{Value, json};
use types::{EntityName, EntityType, Errno, KeyType, MonMap, UTime};

use super::{Reply, Request, Row};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "mon set name=name,type=CephChoices,strings=auth_service_cipher|auth_allowed_ciphers|auth_preferred_cipher name=value,type=CephString",
        help: "set mon configuration",
        module: "mon",
        perm: "rw",
        run: set,
    },
    Row { sig: "auth dump-keys", help: "dump keys", module: "auth", perm: "rwx", run: dump_keys },
    Row {
        sig: "auth wipe-rotating-service-keys",
        help: "wipe rotating keys",
        module: "auth",
        perm: "rwx",
        run: wipe,
    },
];

/// `mon set auth_… VALUE`. A value that would lock out the caller, or an OSD, is refused.
fn set(req: &mut Request<'_>) -> Reply {
    let (name, text) =
        (req.args.text("name").unwrap_or_default(), req.args.text("value").unwrap_or_default());
    let words = text.split([',', ' ', ';', '=', '\t']).filter(|word| !word.is_empty());
    let Some(kinds) = words.map(KeyType::parse).collect::<Option<Vec<_>>>().filter(|k| !k.is_empty()) else {
        return Reply::fail(Errno::EINVAL, "(22) Invalid argument");
    };
    let mut monmap = MonMap::clone(&req.mon.next.monmap);
    if name == "auth_allowed_ciphers" {
        let mut needed = req
            .mon
            .next
            .entities
            .iter()
            .filter(|(name, _)| **name == req.peer.name || name.kind == EntityType::OSD);
        if let Some((name, entity)) = needed.find(|(_, entity)| !kinds.contains(&entity.key.kind())) {
            let why = format!("{name} has a key of type {}: rotate it first", entity.key.kind());
            return Reply::fail(Errno::EINVAL, why);
        }
        let allowed = KeyType::ALL.into_iter().filter(|kind| kinds.contains(kind));
        monmap.auth_allowed_ciphers = allowed.map(|kind| kind.number().into()).collect();
    } else {
        let [kind] = kinds[..] else { return Reply::fail(Errno::EINVAL, "(22) Invalid argument") };
        let slot = match name.as_str() {
            "auth_service_cipher" => &mut monmap.auth_service_cipher,
            _ => &mut monmap.auth_preferred_cipher,
        };
        *slot = kind.number().into();
    }
    if monmap == *req.mon.next.monmap {
        return Reply::done("already set");
    }
    req.mon.put_monmap(monmap, req.wall);
    Reply::done("")
}

fn key_json(key: &CryptoKey) -> Value {
    json!({"type": key.kind().number(), "type_str": key.kind().name(), "created": key.created().to_string()})
}

fn entity_json(kind: EntityType, id: &str) -> Value {
    json!({"type": kind.0, "type_str": kind.as_str(), "id": id})
}

fn secrets_json(service: EntityType, secrets: &RotatingSecrets) -> Value {
    let expiring = |(id, key, expires): (u64, &CryptoKey, UTime)| json!({"id": id, "expiring_key": {"key": key_json(key), "expiration": expires.to_string()}});
    let newest = secrets.all().map(|(id, ..)| id).max().unwrap_or(0);
    let keys: Vec<Value> = secrets.all().map(expiring).collect();
    json!({"entity": entity_json(service, "*"), "secrets": {"max_ver": newest, "keys": keys}})
}

/// The types of keys of entities and services; the secrets themselves are not shown.
fn dump_keys(req: &mut Request<'_>) -> Reply {
    if !req.args.has_format() {
        let why = "format type \"plain\" not supported by this command; try json";
        return Reply::fail(Errno::EINVAL, why);
    }
    let state = req.state();
    let listed = state.entities.iter().filter(|(name, _)| name.kind != EntityType::MON);
    let secret = |(name, entity): (&EntityName, &auth::EntityAuth)| {
        let caps =
            entity.caps.iter().map(|(service, text)| json!({"service_name": service, "access_spec": text}));
        let none = json!({"type": 0, "type_str": "none", "created": UTime::default().to_string()});
        let (key, caps) = (key_json(&entity.key), caps.collect::<Vec<_>>());
        json!({
            "entity": entity_json(name.kind, &name.id),
            "auth": {"key": key, "pending_key": none, "caps": caps},
        })
    };
    let rotating: Vec<Value> = state.rotating.iter().map(|(s, secrets)| secrets_json(*s, secrets)).collect();
    let out = json!({"data": {
        "version": state.monmap.auth_epoch.0,
        "rotating_version": state.monmap.auth_epoch.0,
        "secrets": listed.map(secret).collect::<Vec<_>>(),
        "rotating_secrets": rotating,
    }});
    Reply::json(req.args, out)
}

fn wipe(req: &mut Request<'_>) -> Reply {
    req.mon.wipe_secrets(req.wall);
    Reply::done("wiped rotating service keys!")
}
