//! The authentication database.

use std::collections::BTreeMap;

use auth::{
    CapsError, CryptoKey, EntityAuth, Keyring, KeyringEntry, MgrCaps, MonCaps, OsdCaps, check_mds_caps,
};
use serde_json::{Value, json};
use types::{EntityName, EntityType, Errno, KeyType};

use super::{Reply, Request, Row};

pub(super) const ROWS: &[Row] = &[
    Row { sig: "auth ls", help: "list authentication state", module: "auth", perm: "rx", run: ls },
    Row { sig: "auth list", help: "list authentication state", module: "auth", perm: "rx", run: ls },
    Row {
        sig: "auth get name=entity,type=CephString",
        help: "write keyring file with requested key",
        module: "auth",
        perm: "rx",
        run: |req| get(req).into(),
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
        run: |req| get_key(req).into(),
    },
    Row {
        sig: "auth print-key name=entity,type=CephString",
        help: "display requested key",
        module: "auth",
        perm: "rx",
        run: |req| get_key(req).into(),
    },
    Row {
        sig: "auth print_key name=entity,type=CephString",
        help: "display requested key",
        module: "auth",
        perm: "rx",
        run: |req| get_key(req).into(),
    },
    Row {
        sig: "auth get-or-create name=entity,type=CephString name=caps,type=CephString,n=N,req=false name=key_type,type=CephString,req=false",
        help: "add auth info for <entity> from input file, or random key if no input given, and/or any caps specified in the command",
        module: "auth",
        perm: "rwx",
        run: |req| get_or_create(req).into(),
    },
    Row {
        sig: "auth get-or-create-key name=entity,type=CephString name=caps,type=CephString,n=N,req=false name=key_type,type=CephString,req=false",
        help: "get, or add, key for <name> from system/caps pairs specified in the command.  If key already exists, any given caps must match the existing caps for that key.",
        module: "auth",
        perm: "rwx",
        run: get_or_create_key,
    },
    Row {
        sig: "auth add name=entity,type=CephString name=caps,type=CephString,n=N,req=false name=key_type,type=CephString,req=false",
        help: "add auth info for <entity> from input file, or random key if no input is given, and/or any caps specified in the command",
        module: "auth",
        perm: "rwx",
        run: |req| add(req).into(),
    },
    Row {
        sig: "auth caps name=entity,type=CephString name=caps,type=CephString,n=N",
        help: "update caps for <name> from caps specified in the command",
        module: "auth",
        perm: "rwx",
        run: |req| set_caps(req).into(),
    },
    Row {
        sig: "auth rm name=entity,type=CephString",
        help: "remove all caps for <name>",
        module: "auth",
        perm: "rwx",
        run: |req| rm(req).into(),
    },
    Row {
        sig: "auth del name=entity,type=CephString",
        help: "delete all caps for <name>",
        module: "auth",
        perm: "rwx",
        run: |req| rm(req).into(),
    },
    Row {
        sig: "auth rotate name=entity,type=CephString name=key_type,type=CephString,req=false",
        help: "rotate entity key",
        module: "auth",
        perm: "rwx",
        run: |req| rotate(req).into(),
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

pub(super) fn entity_json(name: &EntityName, entity: &EntityAuth, pending: Option<&CryptoKey>) -> Value {
    let mut out = json!({"entity": name.to_string(), "key": entity.key.to_base64(), "caps": entity.caps});
    if let Some(key) = pending {
        out["pending_key"] = key.to_base64().into();
    }
    out
}

fn pending_key<'a>(req: &'a Request<'_>, name: &EntityName) -> Option<&'a CryptoKey> {
    req.state().pending_keys.get(name)
}

/// Entities with a key to show: the monitors' own is not in Ceph's database either.
fn listed<'a>(req: &'a Request<'_>) -> impl Iterator<Item = (&'a EntityName, &'a EntityAuth)> {
    req.state().entities.iter().filter(|(name, _)| name.kind != EntityType::MON || !name.id.is_empty())
}

/// A key as JSON or as text. Some callers compare the output as it is: JSON on one line has no line break behind it.
pub(super) fn show(req: &Request<'_>, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> Reply {
    let mut reply = Reply::show(req.args, json, text);
    if req.args.text("format").as_deref() == Some("json") {
        reply.output.truncate(reply.output.len() - 1);
    }
    reply
}

fn ls(req: &mut Request<'_>) -> Reply {
    let json = || json!({"auth_dump": listed(req).map(|(n, e)| entity_json(n, e, pending_key(req, n))).collect::<Vec<_>>()});
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
    let status = if req.args.has_format() { "" } else { "installed auth entries:\n" };
    show(req, json, text).with_status(status)
}

pub(super) fn entity_arg(req: &Request<'_>) -> Result<EntityName, Reply> {
    let text = req.args.text("entity").unwrap_or_default();
    EntityName::parse(&text).ok_or_else(|| Reply::fail(Errno::EINVAL, "bad entity name"))
}

/// Refuses to make an entity whose name no keyring can have: its lines in an export would be read as those of another.
fn check_new(name: &EntityName) -> Result<(), Reply> {
    match Keyring::can_name(name) {
        true => Ok(()),
        false => Err(Reply::fail(Errno::EINVAL, "bad entity name")),
    }
}

/// An entity as in a keyring. The pending key has its line behind the key, where it does not stand for the key itself.
pub(super) fn keyring_text(name: &EntityName, entity: &EntityAuth, pending: Option<&CryptoKey>) -> String {
    let entry = KeyringEntry { key: entity.key.clone(), caps: entity.caps.clone() };
    let text = Keyring([(name.clone(), entry)].into()).to_string();
    let Some(pending) = pending else { return text };
    let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
    lines.insert(2.min(lines.len()), format!("\tpending key = {}\n", pending.to_base64()));
    lines.concat()
}

/// The entity to show, and what is known of it.
fn shown<'a>(req: &'a Request<'_>) -> Result<(EntityName, Option<&'a EntityAuth>), Reply> {
    let text = req.args.text("entity").unwrap_or_default();
    let Some(name) = EntityName::parse(&text) else {
        return Err(Reply::fail(Errno::EINVAL, format!("invalid entity_auth {text}")));
    };
    let found = req.state().entities.get(&name);
    Ok((name, found))
}

fn get(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (name, entity) = shown(req)?;
    let missing = || Reply::fail(Errno::ENOENT, format!("failed to find {name} in keyring"));
    let entity = entity.ok_or_else(missing)?;
    let pending = pending_key(req, &name);
    let reply =
        show(req, || json!([entity_json(&name, entity, pending)]), || keyring_text(&name, entity, pending));
    Ok(reply.with_status(format!("exported keyring for {name}")))
}

fn export(req: &mut Request<'_>) -> Reply {
    if req.args.has("entity") {
        return match shown(req) {
            Ok((name, Some(entity))) => {
                let pending = pending_key(req, &name);
                show(
                    req,
                    || json!([entity_json(&name, entity, pending)]),
                    || keyring_text(&name, entity, pending),
                )
                .with_status(format!("export auth(key={})", entity.key.to_base64()))
            }
            // The stock monitor shows an empty key.
            Ok((_, None)) => Reply::fail(Errno::ENOENT, "no key for auth(key=AAAAAAAAAAAAAAAA)"),
            Err(reply) => reply,
        };
    }
    let json = || json!(listed(req).map(|(n, e)| entity_json(n, e, pending_key(req, n))).collect::<Vec<_>>());
    let text =
        || listed(req).map(|(name, entity)| keyring_text(name, entity, pending_key(req, name))).collect();
    Reply::show(req.args, json, text).with_status("exported master keyring")
}

fn get_key(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (name, entity) = shown(req)?;
    let entity = entity.ok_or_else(|| Reply::fail(Errno::ENOENT, format!("don't have {name}")))?;
    let key = entity.key.to_base64();
    Ok(show(req, || json!({"key": key}), || key.clone()))
}

/// A new key of the type that is asked for, or of the preferred one.
fn new_key(req: &mut Request<'_>) -> Result<CryptoKey, Reply> {
    let refused = |text: String| Err(Reply::fail(Errno::EINVAL, text));
    let monmap = &req.mon.next.monmap;
    let (kind, shown) = match req.args.text("key_type") {
        Some(name) => match KeyType::parse(&name) {
            Some(kind) => (kind, kind.to_string()),
            None => return refused(format!("invalid key type: {name}")),
        },
        None => {
            let kind = monmap.preferred_key_type();
            (kind, format!("`preferred' AKA {kind}"))
        }
    };
    if !kind.is_secure() && !req.mon.options.is_insecure_key_allowed {
        return refused(format!("creating key with insecure key type (\"{shown}\") not allowed"));
    }
    if !monmap.allows_key_type(kind) {
        return refused(format!(
            "refusing to create key with type ({kind}) that cannot be used for auth (auth_allowed_ciphers)"
        ));
    }
    Ok(req.mon.new_key(kind, req.wall))
}

/// Every service needs a capability.
fn check_pairs(list: &[String]) -> Result<(), Reply> {
    match list.len().is_multiple_of(2) {
        true => Ok(()),
        false => Err(Reply::fail(Errno::EINVAL, "bad capabilities request; odd number of arguments")),
    }
}

/// Pairs of service and capability, checked.
fn caps_arg(req: &Request<'_>) -> Result<Caps, Reply> {
    let list = req.args.list("caps");
    check_pairs(&list)?;
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
        "mgr" => MgrCaps::check(text),
        "mds" => check_mds_caps(text),
        other => return Err(Reply::fail(Errno::EINVAL, format!("unknown cap type '{other}'"))),
    };
    parsed.map_err(|error| {
        let why = match (error, service) {
            (CapsError::Profile(why), _) => format!(" during profile evaluation: {why}"),
            (CapsError::Syntax { at }, "mon" | "mgr") if at.is_empty() => {
                format!(", stopped at end of '{text}'")
            }
            (CapsError::Syntax { at }, _) => format!(", stopped at '{at}' of '{text}'"),
        };
        Reply::fail(Errno::EINVAL, format!("{service} capability parse failed{why}"))
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
    check_new(&name)?;
    // A keyring that came with the command is not looked at, whatever Ceph's help says.
    let entity = EntityAuth { key: new_key(req)?, caps };
    req.mon.put_entity(&name, &entity);
    Ok((name, entity))
}

fn get_or_create(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (name, entity) = find_or_create(req)?;
    let json = || json!([{"entity": name.to_string(), "key": entity.key.to_base64(), "caps": entity.caps}]);
    Ok(show(req, json, || format!("[{name}]\n\tkey = {}\n", entity.key.to_base64())))
}

fn get_or_create_key(req: &mut Request<'_>) -> Reply {
    match find_or_create(req) {
        Ok((_, entity)) => {
            let key = entity.key.to_base64();
            show(req, || json!({"key": key}), || format!("{key}\n"))
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

fn add(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (name, mut caps, ring) = (entity_arg(req)?, caps_arg(req)?, keyring_input(req)?);
    let given: Option<CryptoKey> = match ring.map(|ring| ring.0.get(&name).cloned()) {
        None => None,
        Some(Some(entry)) if !caps.is_empty() && !entry.caps.is_empty() => {
            return Err(Reply::fail(
                Errno::EINVAL,
                "caps cannot be specified both in keyring and in command",
            ));
        }
        Some(Some(entry)) => {
            caps.extend(entry.caps);
            Some(entry.key)
        }
        Some(None) => {
            let why = format!("key for {name} not found in provided keyring");
            return Err(Reply::fail(Errno::EINVAL, why));
        }
    };
    if let Some(known) = req.mon.next.entities.get(&name) {
        let same_key = given.as_ref().is_none_or(|key| *key == known.key);
        return match (same_key, known.caps == caps) {
            (true, true) => Ok(Reply::done("")),
            (false, _) => {
                Err(Reply::fail(Errno::EEXIST, format!("entity {name} exists but key does not match")))
            }
            (true, false) => {
                Err(Reply::fail(Errno::EINVAL, format!("entity {name} exists but caps do not match")))
            }
        };
    }
    check_new(&name)?;
    let key = given.map_or_else(|| new_key(req), Ok)?;
    req.mon.put_entity(&name, &EntityAuth { key, caps });
    Ok(Reply::done(format!("added key for {name}")))
}

fn set_caps(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let name = entity_arg(req)?;
    check_pairs(&req.args.list("caps"))?;
    let Some(known) = req.mon.next.entities.get(&name).cloned() else {
        return Err(Reply::fail(Errno::ENOENT, format!("couldn't find entry {name}")));
    };
    let caps = caps_arg(req)?;
    req.mon.put_entity(&name, &EntityAuth { caps, ..known });
    Ok(Reply::done(format!("updated caps for {name}")))
}

/// Gives an entity a new key with the same capabilities, the only one; tickets that were got with another one live on
/// until they expire.
fn rotate(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let name = entity_arg(req)?;
    let Some(known) = req.mon.next.entities.get(&name).cloned() else {
        return Err(Reply::fail(Errno::ENOENT, "entity does not exist"));
    };
    let key = new_key(req)?;
    let entity = EntityAuth { key, ..known };
    req.mon.put_pending_key(&name, None);
    req.mon.put_entity(&name, &entity);
    Ok(Reply::show(
        req.args,
        || json!([entity_json(&name, &entity, None)]),
        || keyring_text(&name, &entity, None),
    ))
}

fn rm(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let name = entity_arg(req)?;
    if !req.mon.next.entities.contains_key(&name) {
        return Ok(Reply::done(format!("entity {name} does not exist")));
    }
    req.mon.drop_entity(&name);
    Ok(Reply::done("updated"))
}

fn import(req: &mut Request<'_>) -> Reply {
    let ring = match keyring_input(req) {
        Ok(Some(ring)) => ring,
        Ok(None) => return Reply::fail(Errno::EINVAL, "auth import: no data supplied"),
        Err(reply) => {
            let status = format!("{} cannot parse buffer: Malformed input", reply.status);
            return reply.with_status(status);
        }
    };
    // The text of capabilities is not checked, as in Ceph: those that make no sense give no rights.
    if ring.0.values().any(|entry| entry.caps.is_empty()) {
        return Reply::fail(Errno::EINVAL, "auth import: no caps supplied");
    }
    for (name, entry) in ring.0 {
        // The file says everything about an entity, so a second key goes.
        req.mon.put_pending_key(&name, None);
        req.mon.put_entity(&name, &EntityAuth { key: entry.key, caps: entry.caps });
    }
    Reply::done("imported keyring")
}
