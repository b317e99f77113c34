//! A second key of an entity, which takes the first one's place as soon as it is used: `auth get-or-create-pending`.
//!
//! Authority: `AuthMonitor::prepare_command`, `KeyServer::note_used_pending_key` (17.2).

use auth::EntityAuth;
use types::{EntityName, Errno};

use super::{
    Reply, Request, Row,
    auth_db::{entity_arg, entity_json, keyring_text, show},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "auth get-or-create-pending name=entity,type=CephString",
        help: "generate and/or retrieve existing pending key (rotated into place on first use)",
        module: "auth",
        perm: "rwx",
        run: |req| get_or_create(req).into(),
    },
    Row {
        sig: "auth clear-pending name=entity,type=CephString",
        help: "clear pending key",
        module: "auth",
        perm: "rwx",
        run: clear,
    },
    Row {
        sig: "auth commit-pending name=entity,type=CephString",
        help: "rotate pending key into active position",
        module: "auth",
        perm: "rwx",
        run: commit,
    },
];

fn found(req: &Request<'_>) -> Result<(EntityName, EntityAuth), Reply> {
    let name = entity_arg(req)?;
    match req.mon.next.entities.get(&name).cloned() {
        Some(entity) => Ok((name, entity)),
        None => Err(Reply::fail(Errno::ENOENT, format!("entity {name} does not exist"))),
    }
}

fn get_or_create(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (name, entity) = found(req)?;
    if !req.mon.next.pending_keys.contains_key(&name) {
        let key = req.mon.new_key(entity.key.kind(), req.wall);
        req.mon.put_pending_key(&name, Some(&key));
    }
    let pending = req.mon.next.pending_keys.get(&name);
    // Capabilities are not shown, as with Ceph's `get-or-create`.
    let bare = EntityAuth { caps: Default::default(), ..entity };
    let json = || [entity_json(&name, &bare, pending)].into();
    Ok(show(req, json, || keyring_text(&name, &bare, pending)))
}

fn clear(req: &mut Request<'_>) -> Reply {
    match found(req) {
        Ok((name, _)) => {
            req.mon.put_pending_key(&name, None);
            Reply::done("")
        }
        Err(reply) => reply,
    }
}

fn commit(req: &mut Request<'_>) -> Reply {
    match found(req) {
        Ok((name, _)) if req.mon.commit_pending_key(&name) => Reply::done(""),
        Ok(_) => Reply::done("no pending key"),
        Err(reply) => reply,
    }
}
