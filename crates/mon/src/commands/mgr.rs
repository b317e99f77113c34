//! The manager, whose work this monitor does: what its map, its metadata and its modules look like.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use types::Errno;

use super::{
    Reply, Request, Row,
    mon_info::{addrs_json, legacy_addr},
};
use crate::manager::modules;

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "mgr dump name=epoch,type=CephInt,range=0,req=false",
        help: "dump the latest MgrMap",
        module: "mgr",
        perm: "r",
        run: dump,
    },
    Row {
        sig: "mgr stat",
        help: "dump basic info about the mgr cluster state",
        module: "mgr",
        perm: "r",
        run: stat,
    },
    Row {
        sig: "mgr services",
        help: "list service endpoints provided by mgr modules",
        module: "mgr",
        perm: "r",
        run: services,
    },
    Row { sig: "service dump", help: "dump service map", module: "service", perm: "r", run: service_dump },
    Row {
        sig: "service status",
        help: "dump service state",
        module: "service",
        perm: "r",
        run: service_status,
    },
    Row {
        sig: "mgr metadata name=who,type=CephString,req=false",
        help: "dump metadata for all daemons or a specific daemon",
        module: "mgr",
        perm: "r",
        run: metadata,
    },
    Row {
        sig: "mgr count-metadata name=property,type=CephString",
        help: "count ceph-mgr daemons by metadata field property",
        module: "mgr",
        perm: "r",
        run: count_metadata,
    },
    Row {
        sig: "mgr fail name=who,type=CephString,req=false",
        help: "treat the named manager daemon as failed",
        module: "mgr",
        perm: "rw",
        run: fail,
    },
    Row {
        sig: "mgr versions",
        help: "check running versions of ceph-mgr daemons",
        module: "mgr",
        perm: "r",
        run: versions,
    },
];

fn dump(req: &mut Request<'_>) -> Reply {
    let map = req.mon.mgrmap();
    // Only the latest is kept.
    if let Some(epoch) = req.args.int("epoch").filter(|epoch| *epoch > i64::from(map.epoch.0)) {
        return Reply::fail(Errno::ENOENT, format!("there is no map for epoch {epoch}"));
    }
    let out = json!({
        "epoch": map.epoch.0,
        "active_gid": map.active_gid,
        "active_name": map.active_name,
        "active_addrs": addrs_json(&map.active_addrs),
        "active_addr": legacy_addr(&map.active_addrs),
        "active_change": map.active_change.to_string(),
        "active_mgr_features": map.active_mgr_features,
        // The manager's part is played even where clients are told of no address.
        "available": true,
        "standbys": [],
        "modules": req.mon.committed.mgr_modules.as_ref(),
        "available_modules": modules::available().map(modules::shown).collect::<Vec<_>>(),
        "services": map.services,
        "always_on_modules": {"pacific": modules::always_on()},
        "last_failure_osd_epoch": map.last_failure_osd_epoch.0,
        "active_clients": active_clients(req.mon),
    });
    Reply::json(req.args, out)
}

/// Modules that are clients of the cluster: only one module works on objects.
fn active_clients(mon: &crate::Mon) -> Value {
    if mon.manager_client.0.is_empty() {
        return json!([]);
    }
    json!([{"name": "rbd_support", "addrvec": addrs_json(&mon.manager_client)["addrvec"]}])
}

fn stat(req: &mut Request<'_>) -> Reply {
    let map = req.mon.mgrmap();
    let out = json!({
        "epoch": map.epoch.0,
        "available": true,
        "active_name": map.active_name,
        "num_standby": map.standbys.len(),
    });
    Reply::json(req.args, out)
}

fn service_dump(req: &mut Request<'_>) -> Reply {
    Reply::json(req.args, req.mon.service_map.dump())
}

fn service_status(req: &mut Request<'_>) -> Reply {
    Reply::json(req.args, req.mon.service_map.status())
}

fn services(req: &mut Request<'_>) -> Reply {
    Reply::json(req.args, json!(req.mon.mgrmap().services))
}

/// The metadata of the one manager: the host's, for it is this process.
fn own_metadata(req: &Request<'_>) -> BTreeMap<String, Value> {
    let mut out: BTreeMap<String, Value> = BTreeMap::new();
    out.extend(req.mon.options.host.iter().map(|(key, value)| (key.clone(), value.as_str().into())));
    out.insert("addr".to_owned(), legacy_addr(&req.mon.manager).into());
    out.insert("addrs".to_owned(), req.mon.manager.to_string().into());
    out.insert("ceph_release".to_owned(), "pacific".into());
    out.insert("ceph_version_short".to_owned(), types::DAEMON_VERSION.into());
    out.insert("ceph_version".to_owned(), req.mon.options.version().into());
    out.insert("hostname".to_owned(), req.mon.options.hostname.as_str().into());
    out
}

fn metadata(req: &mut Request<'_>) -> Reply {
    let name = req.mon.options.name.clone();
    let mut out = json!({"name": name});
    for (key, value) in own_metadata(req) {
        out[key] = value;
    }
    match req.args.text("who") {
        Some(who) if who != name => Reply::fail(Errno::ENOENT, format!("mgr.{who} does not exist")),
        Some(_) => Reply::json(req.args, out),
        None => Reply::json(req.args, json!([out])),
    }
}

/// There is no other manager to take over: as in a Ceph with only one, it goes on as soon as it has failed.
fn fail(req: &mut Request<'_>) -> Reply {
    let name = req.mon.options.name.clone();
    match req.args.text("who").filter(|who| *who != name) {
        Some(who) => Reply::done(format!("Daemon not found '{who}', already failed?")),
        None => Reply::done(""),
    }
}

fn count_metadata(req: &mut Request<'_>) -> Reply {
    let property = req.args.text("property").unwrap_or_default();
    let value = own_metadata(req).get(&property).and_then(Value::as_str).unwrap_or("unknown").to_owned();
    Reply::json(req.args, json!({value: 1}))
}

fn versions(req: &mut Request<'_>) -> Reply {
    let out = json!({req.mon.options.version(): 1});
    Reply::json(req.args, out)
}
