//! OSDs in and out, down, new and gone.

use serde_json::json;
use types::{Errno, OsdId, OsdState, PgId, Uuid, WEIGHT_IN};

use super::{
    Reply, Request, Row,
    named::{invalid_osd_id, osd_arg, osd_id_arg, parse_osd},
    osd_secrets::{OsdParams, drop_secrets},
};
use crate::{
    ledger_keys,
    osdmap_service::{DownKind, take_down},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd in name=ids,type=CephString,n=N",
        help: "set osd(s) <id> [<id>...] in, can use <any|all> to automatically set all previously out osds in",
        module: "osd",
        perm: "rw",
        run: |req| mark_in(req).into(),
    },
    Row {
        sig: "osd out name=ids,type=CephString,n=N",
        help: "set osd(s) <id> [<id>...] out, or use <any|all> to set all osds out",
        module: "osd",
        perm: "rw",
        run: |req| mark_out(req).into(),
    },
    Row {
        sig: "osd down name=ids,type=CephString,n=N name=definitely_dead,type=CephBool,req=false",
        help: "set osd(s) <id> [<id>...] down, or use <any|all> to set all osds down",
        module: "osd",
        perm: "rw",
        run: |req| mark_down(req).into(),
    },
    Row {
        sig: "osd force-create-pg name=pgid,type=CephPgid name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "force creation of pg <pgid>",
        module: "osd",
        perm: "rw",
        run: force_create_pg,
    },
    Row {
        sig: "osd stop name=ids,type=CephString,n=N",
        help: "stop the corresponding osd daemons and mark them as down",
        module: "osd",
        perm: "rw",
        run: |req| stop(req).into(),
    },
    Row {
        sig: "osd new name=uuid,type=CephUUID name=id,type=CephOsdName,req=false",
        help: "Create a new OSD. If supplied, the `id` to be replaced needs to exist and have been previously destroyed.",
        module: "osd",
        perm: "rw",
        run: |req| new(req).into(),
    },
    Row {
        sig: "osd create name=uuid,type=CephUUID,req=false name=id,type=CephOsdName,req=false",
        help: "create new osd (with optional UUID and ID)",
        module: "osd",
        perm: "rw",
        run: |req| new(req).into(),
    },
    Row {
        sig: "osd rm name=ids,type=CephString,n=N",
        help: "remove osd(s) <id> [<id>...], or use <any|all> to remove all osds",
        module: "osd",
        perm: "rw",
        run: |req| rm(req).into(),
    },
    Row {
        sig: "osd lost name=id,type=CephOsdName name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "mark osd as permanently lost. THIS DESTROYS DATA IF NO MORE REPLICAS EXIST, BE CAREFUL",
        module: "osd",
        perm: "rw",
        run: |req| lost(req).into(),
    },
    Row {
        sig: "osd destroy name=id,type=CephOsdName name=force,type=CephBool,req=false name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "mark osd as being destroyed. Keeps the ID intact (allowing reuse), but removes cephx keys",
        module: "osd",
        perm: "rw",
        run: |req| destroy(req).into(),
    },
    Row {
        sig: "osd purge name=id,type=CephOsdName name=force,type=CephBool,req=false name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "purge all osd data from the monitors including the OSD id and CRUSH position",
        module: "osd",
        perm: "rw",
        run: |req| purge(req).into(),
    },
    Row {
        sig: "osd purge-new name=id,type=CephOsdName name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "purge all traces of an OSD that was partially created but never started",
        module: "osd",
        perm: "rw",
        run: |req| purge_new(req).into(),
    },
];

/// The OSDs of `ids`, each once; `any`, `all` and `*` are all of them. The second part says which do not exist.
fn ids_arg(req: &Request<'_>) -> Result<(Vec<OsdId>, String), Reply> {
    let map = req.next_map();
    let (mut osds, mut missing) = (Vec::new(), String::new());
    for text in req.args.list("ids") {
        if matches!(text.as_str(), "any" | "all" | "*") {
            return Ok((map.osds().collect(), missing));
        }
        let osd = parse_osd(&text).ok_or_else(|| {
            let why = format!("Expected option value to be integer, got '{text}'invalid osd id-1");
            Reply::fail(Errno::EINVAL, why)
        })?;
        if !map.exists(osd) {
            missing.push_str(&format!("osd.{osd} does not exist. "));
        } else if !osds.contains(&osd) {
            // Changes toggle bits of an OSD's state: a second change would undo the first.
            osds.push(osd);
        }
    }
    Ok((osds, missing))
}

/// Does `change` to each OSD that it applies to and says so.
fn for_each(
    req: &mut Request<'_>,
    is_done: fn(&types::OsdMap, OsdId) -> bool,
    word: &str,
    change: fn(&types::OsdMap, &mut types::Incremental, OsdId),
) -> Result<Reply, Reply> {
    let (osds, mut text) = ids_arg(req)?;
    let mut todo = Vec::new();
    for osd in osds {
        if is_done(req.next_map(), osd) {
            text.push_str(&format!("osd.{osd} is already {word}. "));
        } else {
            text.push_str(&format!("marked {word} osd.{osd}. "));
            todo.push(osd);
        }
    }
    if !todo.is_empty() {
        req.mon.change_osdmap(req.wall, |map, inc| todo.iter().for_each(|osd| change(map, inc, *osd)));
    }
    Ok(Reply::done(text))
}

fn mark_in(req: &mut Request<'_>) -> Result<Reply, Reply> {
    for_each(
        req,
        |map, osd| map.is_in(osd),
        "in",
        |map, inc, osd| {
            let known = map.osd_xinfo[osd.0 as usize].old_weight;
            inc.new_weight.insert(osd, if known > 0 { known } else { WEIGHT_IN });
        },
    )
}

fn mark_out(req: &mut Request<'_>) -> Result<Reply, Reply> {
    for_each(
        req,
        |map, osd| map.is_out(osd),
        "out",
        |map, inc, osd| {
            let mut xinfo = map.osd_xinfo[osd.0 as usize];
            xinfo.old_weight = map.weight(osd);
            inc.new_xinfo.insert(osd, xinfo);
            inc.new_weight.insert(osd, 0);
        },
    )
}

/// Marks OSDs down. One that is down already may still be declared dead, so that no OSD has to wait for it any longer.
fn mark_down(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let kind = if req.args.flag("definitely_dead") { DownKind::Dead } else { DownKind::Silent };
    let (osds, mut text) = ids_arg(req)?;
    let mut todo = Vec::new();
    for osd in osds {
        let is_down = req.next_map().is_down(osd);
        text.push_str(&match is_down {
            true => format!("osd.{osd} is already down. "),
            false => format!("marked down osd.{osd}. "),
        });
        if !is_down || kind == DownKind::Dead {
            todo.push(osd);
        }
    }
    if !todo.is_empty() {
        req.mon.change_osdmap(req.wall, |map, inc| {
            todo.iter().for_each(|osd| take_down(map, inc, *osd, kind));
        });
    }
    Ok(Reply::done(text))
}

/// Marks OSDs down for good: a running OSD ends when it learns of it.
fn stop(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (osds, mut text) = ids_arg(req)?;
    let mut todo = Vec::new();
    for osd in osds {
        let map = req.next_map();
        if map.state(osd).has(OsdState::STOP) {
            text.push_str(&format!("osd.{osd} is already stopped. "));
        } else if map.is_down(osd) {
            text.push_str(&format!("stop down osd.{osd}. "));
            todo.push((osd, OsdState::STOP));
        } else {
            text.push_str(&format!("stop osd.{osd}. "));
            todo.push((osd, OsdState::STOP | OsdState::UP));
        }
    }
    if !todo.is_empty() {
        req.mon.change_osdmap(req.wall, |_, inc| inc.new_state.extend(todo));
    }
    Ok(Reply::done(text))
}

fn new(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let is_new = req.args.prefix() == "osd new";
    let invalid = |text: &str| Reply::fail(Errno::EINVAL, format!("invalid uuid value '{text}'"));
    let uuid: Option<Uuid> =
        req.args.text("uuid").map(|text| text.parse().map_err(|_| invalid(&text))).transpose()?;
    let wanted = match req.args.text("id").map(|text| (parse_osd(&text), text)) {
        None => None,
        Some((Some(osd), _)) => Some(osd),
        Some((None, text)) => return Err(invalid_osd_id(&text)),
    };
    let OsdParams { secrets, device_class } =
        if is_new { OsdParams::parse(req.input)? } else { OsdParams::default() };
    let map = req.next_map();
    let same = |osd: &OsdId| uuid.is_some() && map.osd_uuid.get(osd.0 as usize).copied() == uuid;
    let shown = || req.args.text("uuid").unwrap_or_default();
    let id = match (map.osds().find(same), wanted) {
        (Some(osd), Some(id)) if osd != id => {
            let why = format!("uuid {} already in use for different id {osd}", shown());
            return Err(Reply::fail(Errno::EEXIST, why));
        }
        // Asked for again: the same answer.
        (Some(osd), _) => {
            return match secrets.is_none_or(|secrets| secrets.are_known(req, osd)) {
                true => Ok(id_reply(req, osd)),
                false => {
                    Err(Reply::fail(Errno::EEXIST, format!("osd.{osd} exists but its secrets do not match")))
                }
            };
        }
        (None, Some(osd)) => osd,
        (None, None) => {
            (0..=map.max_osd).map(OsdId).find(|osd| !map.exists(*osd)).unwrap_or(OsdId(map.max_osd))
        }
    };
    let ids = req.mon.options.osd_ids();
    if id.0 >= map.max_osd && !ids.contains(&id.0) {
        let why = format!("osd id {id} is not below mon_max_osd ({})", ids.end);
        return Err(Reply::fail(Errno::ERANGE, why));
    }
    if map.exists(id) && !map.state(id).has(OsdState::DESTROYED) {
        let why = format!("id {id} already in use and does not match uuid {}", shown());
        return Err(Reply::fail(Errno::EINVAL, why));
    }
    if let Some(secrets) = secrets {
        // In the form in which it is looked up later: `shown` may have other letters.
        let uuid = uuid.map(|uuid| uuid.to_string()).unwrap_or_default();
        secrets.write(req, id, &uuid)?;
    }
    req.mon.change_osdmap(req.wall, |map, inc| {
        if id.0 >= map.max_osd {
            inc.new_max_osd = Some(id.0 + 1);
        }
        // Bits are toggled: an OSD that was never up before it was destroyed is new already.
        let wanted = OsdState::EXISTS | OsdState::NEW;
        inc.new_state.insert(id, OsdState(map.state(id).0 ^ wanted.0));
        if let Some(uuid) = uuid {
            inc.new_uuid.insert(id, uuid);
        }
    });
    if let Some(class) = device_class {
        set_first_class(req, id, &class);
    }
    Ok(id_reply(req, id))
}

/// Gives a new OSD a device class, which it keeps when it starts. One that takes the place of another keeps that one's
/// class, as with `osd crush set-device-class`. As in Ceph, a class that cannot be had is no reason to refuse the OSD.
fn set_first_class(req: &mut Request<'_>, osd: OsdId, class: &str) {
    let mut crush = req.next_map().crush.map().clone();
    if crush.device_class(osd.0).is_none() && crush.set_device_classes(&[osd.0], Some(class)).is_ok() {
        req.mon.change_crush(req.wall, crush);
    }
}

fn id_reply(req: &Request<'_>, osd: OsdId) -> Reply {
    Reply::show(req.args, || json!({"osdid": osd.0}), || format!("{osd}\n"))
}

fn rm(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (osds, mut text) = ids_arg(req)?;
    if let Some(osd) = osds.iter().find(|osd| req.next_map().is_up(**osd)) {
        return Err(Reply::fail(
            Errno::EBUSY,
            format!("osd.{osd} is still up; must be down before removal. "),
        ));
    }
    for osd in osds {
        forget(req, osd);
        text.push_str(&format!("removed osd.{osd}"));
    }
    Ok(Reply::done(text))
}

/// Takes an OSD out of the map; its place in CRUSH stays.
fn forget(req: &mut Request<'_>, osd: OsdId) {
    req.mon.change_osdmap(req.wall, |map, inc| {
        // Bits are toggled: EXISTS goes, and every other bit that is set goes with it.
        inc.new_state.insert(osd, map.state(osd));
        inc.new_weight.insert(osd, 0);
    });
    req.mon.put(ledger_keys::osd_metadata(osd), None);
}

fn lost(req: &mut Request<'_>) -> Result<Reply, Reply> {
    if !req.args.flag("yes_i_really_mean_it") {
        let text = "are you SURE?  this might mean real, permanent data loss.  pass --yes-i-really-mean-it if you really do.";
        return Err(Reply::fail(Errno::EPERM, text));
    }
    let osd = osd_arg(req, req.next_map())?;
    if req.next_map().is_up(osd) {
        return Err(Reply::fail(Errno::EBUSY, format!("osd.{osd} is not down")));
    }
    let at = req.next_map().info(osd).down_at;
    req.mon.change_osdmap(req.wall, |_, inc| {
        inc.new_lost.insert(osd, at);
    });
    Ok(Reply::done(format!("marked osd lost in epoch {at}")))
}

fn force_create_pg(req: &mut Request<'_>) -> Reply {
    let text = req.args.text("pgid").unwrap_or_default();
    let Some(pg) = PgId::parse(&text) else {
        return Reply::fail(Errno::EINVAL, format!("invalid pgid '{text}'"));
    };
    if !req.next_map().pg_exists(pg) {
        return Reply::fail(Errno::ENOENT, format!("pg {pg} should not exist"));
    }
    if !req.args.flag("yes_i_really_mean_it") {
        let text = "This command will recreate a lost (as in data lost) PG with data in it, such that the cluster will give up ever trying to recover the lost data.  Do this only if you are certain that all copies of the PG are in fact lost and you are willing to accept that the data is permanently destroyed.  Pass --yes-i-really-mean-it to proceed.";
        return Reply::fail(Errno::EPERM, text);
    }
    match req.mon.force_create(pg) {
        true => Reply::done(format!("pg {pg} now creating, ok")),
        false => Reply::done(format!("pg {pg} already creating")),
    }
}

/// Unless forced, only an OSD that nothing needs any more may be removed; and it has to be down.
fn is_sure(req: &Request<'_>, osd: OsdId) -> Result<(), Reply> {
    let is_forced = req.args.flag("yes_i_really_mean_it") || req.args.flag("force");
    if !is_forced && let Some(refusal) = super::osd_safety::why_not_destroy(req, osd) {
        let why = format!(
            "{}\nYou can proceed by passing --force, but be warned that this will likely mean real, permanent data loss.",
            refusal.status
        );
        return Err(refusal.with_status(why));
    }
    if req.next_map().is_up(osd) {
        return Err(Reply::fail(Errno::EBUSY, format!("osd.{osd} is not `down`.")));
    }
    Ok(())
}

fn destroy(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let osd = osd_id_arg(req)?;
    if !req.next_map().exists(osd) {
        return Ok(Reply::done(format!("osd.{osd} does not exist")));
    }
    is_sure(req, osd)?;
    if !req.next_map().state(osd).has(OsdState::DESTROYED) {
        drop_secrets(req, osd);
        req.mon.change_osdmap(req.wall, |_, inc| {
            inc.new_state.insert(osd, OsdState::DESTROYED);
            inc.new_uuid.insert(osd, Uuid::NIL);
        });
    }
    Ok(Reply::done(format!("destroyed osd.{osd}")))
}

/// An OSD that was never up may be removed without further conditions.
fn purge_new(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let osd = osd_id_arg(req)?;
    if !req.args.flag("yes_i_really_mean_it") {
        let why = "Are you SURE?  Did you verify with 'ceph osd safe-to-destroy'?  This will mean real, permanent data loss, as well as deletion of cephx and lockbox keys. Pass --yes-i-really-mean-it if you really do.";
        return Err(Reply::fail(Errno::EPERM, why));
    }
    if req.next_map().exists(osd) && !req.next_map().state(osd).has(OsdState::NEW) {
        return Err(Reply::fail(Errno::EPERM, format!("osd.{osd} is not new")));
    }
    purge(req)
}

fn purge(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let osd = osd_id_arg(req)?;
    if !req.next_map().exists(osd) {
        return Ok(Reply::done(format!("osd.{osd} does not exist")));
    }
    is_sure(req, osd)?;
    drop_secrets(req, osd);
    forget(req, osd);
    let mut crush = req.next_map().crush.map().clone();
    let mut is_changed = crush.remove_item(&format!("osd.{osd}")).is_ok();
    // One that never started may have a class and no place yet.
    if crush.device_class(osd.0).is_some() {
        is_changed |= crush.set_device_classes(&[osd.0], None).is_ok();
    }
    if is_changed {
        req.mon.change_crush(req.wall, crush);
    }
    Ok(Reply::done(format!("purged osd.{osd}")))
}
