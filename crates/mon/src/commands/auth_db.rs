//! The authentication database.

use std::collections::BTreeMap;

use auth::{CryptoKey, EntityAuth, Keyring, KeyringEntry, MonCaps, OsdCaps};
use serde_json::{Value, json};
use types::{EntityName, EntityType, Errno};

use super::{Reply, Request, Row};
use crate::keys;

pub(super) const ROWS: &[Row] = &[
    Row { sig: "auth ls", help: "list authentication state", module: "auth", perm: "rx", run: ls },
    Row { sig: "auth list", help: "list authentication state", module: "auth", perm: "rx", run: ls },
    Row {
        sig: "auth get name=entity,type=CephString",
        help: "write keyring file with requested key",
        module: "auth",
        perm: "rx",
        run: get,
    },
    Row {
        sig: "auth export name=entity,type=CephString,req=false",
        help: "write keyring for requested entity, or master keyring if none given",
        module: "auth",
        perm: "rx",
        run: export,
    },
    Row {
        sig: "auth get-key name=entity,type=CephString",
        help: "display requested key",
        module: "auth",
        perm: "rx",
        run: get_key,
    },
    Row {
        sig: "auth print-key name=entity,type=CephString",
        help: "display requested key",
        module: "auth",
        perm: "rx",
        run: get_key,
    },
    Row {
        sig: "auth print_key name=entity,type=CephString",
        help: "display requested key",
        module: "auth",
        perm: "rx",
        run: get_key,
    },
    Row {
        sig: "auth get-or-create name=entity,type=CephString name=caps,type=CephString,n=N,req=false",
        help: "create a key with the given capabilities, or return the existing one",
        module: "auth",
        perm: "rwx",
        run: get_or_create,
    },
    Row {
        sig: "auth get-or-create-key name=entity,type=CephString name=caps,type=CephString,n=N,req=false",
        help: "get, or create, a key for an entity with the given capabilities",
        module: "auth",
        perm: "rwx",
        run: get_or_create_key,
    },
    Row {
        sig: "auth add name=entity,type=CephString name=caps,type=CephString,n=N,req=false",
        help: "add auth info for <entity> from input file, or random key if no input is given, and/or any caps specified in the command",
        module: "auth",
        perm: "rwx",
        run: add,
    },
    Row {
        sig: "auth caps name=entity,type=CephString name=caps,type=CephString,n=N",
        help: "update caps for <entity> from caps specified in the command",
        module: "auth",
        perm: "rwx",
        run: set_caps,
    },
    Row {
        sig: "auth rm name=entity,type=CephString",
        help: "remove all caps for <entity>",
        module: "auth",
        perm: "rwx",
        run: rm,
    },
    Row {
        sig: "auth del name=entity,type=CephString",
        help: "delete all caps for <entity>",
        module: "auth",
        perm: "rwx",
        run: rm,
    },
    Row {
        sig: "auth rotate name=entity,type=CephString",
        help: "rotate entity key",
        module: "auth",
        perm: "rwx",
        run: rotate,
    },
    Row {
        sig: "auth import",
        help: "auth import: read keyring file from -i <file>",
        module: "auth",
        perm: "rwx",
        run: import,
    },
];

type Caps = BTreeMap<String, String>;

fn entity_json(name: &EntityName, entity: &EntityAuth) -> Value {
    json!({"entity": name.to_string(), "key": entity.key.to_base64(), "caps": entity.caps})
}

/// Entities with a key to show: the monitors' own is not in Ceph's database either.
fn listed<'a>(req: &'a Request<'_>) -> impl Iterator<Item = (&'a EntityName, &'a EntityAuth)> {
    req.state().entities.iter().filter(|(name, _)| name.kind != EntityType::MON)
}

fn ls(req: &mut Request<'_>) -> Reply {
    let json = || json!({"auth_dump": listed(req).map(|(n, e)| entity_json(n, e)).collect::<Vec<_>>()});
    let text = || {
        let mut out = String::new();
        for (name, entity) in listed(req) {
            out.push_str(&format!("{name}\n\tkey: {}\n", entity.key.to_base64()));
            for (service, caps) in &entity.caps {
                out.push_str(&format!("\tcaps: [{service}] {caps}\n"));
            }
        }
        out
    };
    Reply::show(req.args, json, text).with_status("installed auth entries:\n\n")
}

fn entity_arg(req: &Request<'_>) -> Result<EntityName, Reply> {
    let text = req.args.text("entity").unwrap_or_default();
    EntityName::parse(&text).ok_or_else(|| Reply::fail(Errno::EINVAL, "bad entity name"))
}

fn keyring_text(name: &EntityName, entity: &EntityAuth) -> String {
    let entry = KeyringEntry { key: entity.key.clone(), caps: entity.caps.clone() };
    Keyring([(name.clone(), entry)].into()).to_string()
}

/// Finds the entity and shows it.
fn with_entity(req: &Request<'_>, show: impl FnOnce(&EntityName, &EntityAuth) -> Reply) -> Reply {
    let name = match entity_arg(req) {
        Ok(name) => name,
        Err(reply) => return reply,
    };
    match req.state().entities.get(&name) {
        Some(entity) => show(&name, entity),
        None => Reply::fail(Errno::ENOENT, format!("failed to find {name} in keyring")),
    }
}

fn get(req: &mut Request<'_>) -> Reply {
    with_entity(req, |name, entity| {
        let reply =
            Reply::show(req.args, || json!([entity_json(name, entity)]), || keyring_text(name, entity));
        // Here the stock monitor ends without a line break.
        let is_json = req.args.has("format");
        let output = if is_json { reply.output.slice(..reply.output.len() - 1) } else { reply.output };
        Reply { output, ..Reply::default() }.with_status(format!("exported keyring for {name}"))
    })
}

fn export(req: &mut Request<'_>) -> Reply {
    if req.args.has("entity") {
        return get(req);
    }
    let json = || json!(listed(req).map(|(n, e)| entity_json(n, e)).collect::<Vec<_>>());
    let text = || listed(req).map(|(name, entity)| keyring_text(name, entity)).collect();
    Reply::show(req.args, json, text).with_status("exported master keyring")
}

fn get_key(req: &mut Request<'_>) -> Reply {
    let name = match entity_arg(req) {
        Ok(name) => name,
        Err(reply) => return reply,
    };
    let Some(entity) = req.state().entities.get(&name) else {
        return Reply::fail(Errno::ENOENT, format!("don't have {name}"));
    };
    let key = entity.key.to_base64();
    let mut reply = Reply::show(req.args, || json!({"key": key}), || key.clone());
    // Some callers compare it as it is: no line ends behind it in either form.
    let text = reply.output.trim_ascii_end().len();
    reply.output.truncate(text);
    reply
}

/// Pairs of service and capability, checked.
fn caps_arg(req: &Request<'_>) -> Result<Caps, Reply> {
    let list = req.args.list("caps");
    if !list.len().is_multiple_of(2) {
        return Err(Reply::fail(Errno::EINVAL, "bad capabilities request; odd number of arguments"));
    }
    let mut out = Caps::new();
    for pair in list.chunks(2) {
        check_caps(&pair[0], &pair[1])?;
        out.insert(pair[0].clone(), pair[1].clone());
    }
    Ok(out)
}

fn check_caps(service: &str, text: &str) -> Result<(), Reply> {
    let parsed = match service {
        "mon" => MonCaps::parse(text).map(|_| ()),
        "osd" => OsdCaps::parse(text).map(|_| ()),
        "mgr" | "mds" => Ok(()),
        other => return Err(Reply::fail(Errno::EINVAL, format!("unknown cap type '{other}'"))),
    };
    parsed.map_err(|error| {
        let text = format!("{service} capability parse failed, stopped at '{}' of '{text}'", error.at);
        Reply::fail(Errno::EINVAL, text)
    })
}

/// The entity, made if it does not exist; refused when it has other capabilities.
fn find_or_create(req: &mut Request<'_>) -> Result<(EntityName, EntityAuth), Reply> {
    let name = entity_arg(req)?;
    let caps = caps_arg(req)?;
    if let Some(entity) = req.mon.next.entities.get(&name) {
        let differing = caps.iter().find(|(service, text)| entity.caps.get(*service) != Some(text));
        if let Some((service, _)) = differing {
            let text = format!("key for {name} exists but cap {service} does not match");
            return Err(Reply::fail(Errno::EINVAL, text));
        }
        return Ok((name, entity.clone()));
    }
    let entity = match keyring_input(req)?.and_then(|ring| ring.0.get(&name).cloned()) {
        Some(entry) => EntityAuth { key: entry.key, caps },
        None => EntityAuth { key: req.mon.new_key(req.wall), caps },
    };
    req.mon.put_entity(&name, &entity);
    Ok((name, entity))
}

fn get_or_create(req: &mut Request<'_>) -> Reply {
    let (name, entity) = match find_or_create(req) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    let json = || json!([{"entity": name.to_string(), "key": entity.key.to_base64(), "caps": entity.caps}]);
    Reply::show(req.args, json, || format!("[{name}]\n\tkey = {}\n", entity.key.to_base64()))
}

fn get_or_create_key(req: &mut Request<'_>) -> Reply {
    match find_or_create(req) {
        Ok((_, entity)) => {
            let key = entity.key.to_base64();
            Reply::show(req.args, || json!({"key": key}), || key.clone())
        }
        Err(reply) => reply,
    }
}

/// The keyring given with `-i`, if any.
fn keyring_input(req: &Request<'_>) -> Result<Option<Keyring>, Reply> {
    if req.input.is_empty() {
        return Ok(None);
    }
    let text =
        std::str::from_utf8(req.input).map_err(|_| Reply::fail(Errno::EINVAL, "error decoding keyring"))?;
    Keyring::parse(text).map(Some).map_err(|_| Reply::fail(Errno::EINVAL, "error decoding keyring"))
}

fn add(req: &mut Request<'_>) -> Reply {
    let (name, mut caps, ring) = match (entity_arg(req), caps_arg(req), keyring_input(req)) {
        (Ok(name), Ok(caps), Ok(ring)) => (name, caps, ring),
        (Err(reply), ..) | (_, Err(reply), _) | (_, _, Err(reply)) => return reply,
    };
    let given: Option<CryptoKey> = match ring.map(|ring| ring.0.get(&name).cloned()) {
        None => None,
        Some(Some(entry)) => {
            entry.caps.into_iter().for_each(|(service, text)| {
                caps.entry(service).or_insert(text);
            });
            Some(entry.key)
        }
        Some(None) => return Reply::fail(Errno::ENOENT, format!("input does not contain key for {name}")),
    };
    if let Some(known) = req.mon.next.entities.get(&name) {
        let same_key = given.as_ref().is_none_or(|key| *key == known.key);
        return match (same_key, known.caps == caps) {
            (true, true) => Reply::done(format!("added key for {name}")),
            (false, _) => Reply::fail(Errno::EINVAL, format!("entity {name} exists but key does not match")),
            (true, false) => {
                Reply::fail(Errno::EINVAL, format!("entity {name} exists but caps do not match"))
            }
        };
    }
    let key = given.unwrap_or_else(|| req.mon.new_key(req.wall));
    req.mon.put_entity(&name, &EntityAuth { key, caps });
    Reply::done(format!("added key for {name}"))
}

fn set_caps(req: &mut Request<'_>) -> Reply {
    let (name, caps) = match (entity_arg(req), caps_arg(req)) {
        (Ok(name), Ok(caps)) => (name, caps),
        (Err(reply), _) | (_, Err(reply)) => return reply,
    };
    let Some(known) = req.mon.next.entities.get(&name).cloned() else {
        return Reply::fail(Errno::ENOENT, format!("couldn't find entry {name}"));
    };
    req.mon.put_entity(&name, &EntityAuth { caps, ..known });
    Reply::done(format!("updated caps for {name}"))
}

/// A new key with the same capabilities; tickets that the old one got live on until they expire.
fn rotate(req: &mut Request<'_>) -> Reply {
    let name = match entity_arg(req) {
        Ok(name) => name,
        Err(reply) => return reply,
    };
    let Some(known) = req.mon.next.entities.get(&name).cloned() else {
        return Reply::fail(Errno::ENOENT, "entity does not exist");
    };
    let entity = EntityAuth { key: req.mon.new_key(req.wall), ..known };
    req.mon.put_entity(&name, &entity);
    Reply::show(req.args, || json!([entity_json(&name, &entity)]), || keyring_text(&name, &entity))
}

fn rm(req: &mut Request<'_>) -> Reply {
    let name = match entity_arg(req) {
        Ok(name) => name,
        Err(reply) => return reply,
    };
    if !req.mon.next.entities.contains_key(&name) {
        return Reply::done(format!("entity {name} does not exist"));
    }
    req.mon.put(keys::auth(&name), None);
    Reply::done("updated")
}

fn import(req: &mut Request<'_>) -> Reply {
    let ring = match keyring_input(req) {
        Ok(Some(ring)) => ring,
        Ok(None) => return Reply::fail(Errno::EINVAL, "auth import: no data supplied"),
        Err(reply) => return reply,
    };
    for entry in ring.0.values() {
        for (service, text) in &entry.caps {
            if let Err(reply) = check_caps(service, text) {
                return reply;
            }
        }
    }
    for (name, entry) in ring.0 {
        req.mon.put_entity(&name, &EntityAuth { key: entry.key, caps: entry.caps });
    }
    Reply::done("imported keyring")
}
