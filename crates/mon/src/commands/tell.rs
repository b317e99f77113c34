//! `ceph tell mon.X …`: commands to this one monitor, which Ceph keeps apart from those to the cluster.
//!
//! Authority: `Monitor::do_admin_command`, `MonClient::start_mon_command` (16.2).

use bytes::Bytes;
use codec::Features;
use serde_json::{Value, json};
use types::{CONFIG_COMMANDS, ConfigOwner, EntityType, Errno, Release, UTime};

use super::{Reply, Request, Row, mon_info, status, tell_daemon, tell_perf};
use crate::{ConnId, Mon};

pub(super) const ROWS: &[Row] = &[
    VERSION_ROW,
    Row { sig: "mon_status", help: "report status of monitors", module: "mon", perm: "r", run: mon_status },
    Row { sig: "sessions", help: "list existing sessions", module: "mon", perm: "r", run: sessions },
    Row { sig: "help", help: "list available commands", module: "mon", perm: "r", run: help },
    Row { sig: "ops", help: "show the ops currently in flight", module: "mon", perm: "r", run: ops },
    Row {
        sig: "log dump",
        help: "dump recent log entries to log file",
        module: "mon",
        perm: "rw",
        run: log_is_well,
    },
    Row {
        sig: "log flush",
        help: "flush log entries to log file",
        module: "mon",
        perm: "rw",
        run: log_is_well,
    },
    Row { sig: "log reopen", help: "reopen log file", module: "mon", perm: "rw", run: log_is_well },
    Row {
        sig: "heap name=heapcmd,type=CephChoices,strings=dump|start_profiler|stop_profiler|release|stats name=value,type=CephString,req=false",
        help: "show heap usage info (available only if compiled with tcmalloc)",
        module: "mon",
        perm: "rw",
        run: heap,
    },
    Row {
        sig: "quorum enter",
        help: "force monitor back into quorum",
        module: "mon",
        perm: "rw",
        run: quorum_enter,
    },
    Row {
        sig: "quorum exit",
        help: "force monitor out of the quorum",
        module: "mon",
        perm: "rw",
        run: needs_others,
    },
    Row {
        sig: "sync_force name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "force sync of and clear monitor store",
        module: "mon",
        perm: "rw",
        run: needs_others,
    },
    config_row(0),
    config_row(1),
    config_row(2),
    config_row(3),
    config_row(4),
    config_row(5),
    config_row(6),
    config_row(7),
];

/// All commands to one monitor.
fn rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().chain(&tell_perf::ROWS).chain(&tell_daemon::ROWS)
}

/// The manager's part has it, too.
pub(crate) const VERSION_ROW: Row =
    Row { sig: "version", help: "get ceph version", module: "mon", perm: "r", run: version };

const fn config_row(at: usize) -> Row {
    Row { sig: CONFIG_COMMANDS[at].0, help: CONFIG_COMMANDS[at].1, module: "mon", perm: "rw", run: config }
}

fn version(req: &mut Request<'_>) -> Reply {
    req.mon.tell_version(req.args)
}

/// Every command with what it does.
fn help(req: &mut Request<'_>) -> Reply {
    let rows = rows().map(|row| (row.prefix_text().to_owned(), Value::from(row.help)));
    Reply::json(req.args, Value::Object(rows.collect()))
}

/// Shows the requests that wait for the ledger.
fn ops(req: &mut Request<'_>) -> Reply {
    let out = req.mon.op_history.dump_waiting(req.mon.now);
    Reply::json(req.args, out)
}

/// Nothing to flush or reopen: lines are in the log as soon as they are written, no recent ones are kept besides, and a
/// log that was moved away is silently made anew.
fn log_is_well(req: &mut Request<'_>) -> Reply {
    Reply::json(req.args, json!({}))
}

/// As a Ceph that is built without tcmalloc.
fn heap(_: &mut Request<'_>) -> Reply {
    Reply::fail(Errno::EOPNOTSUPP, "could not issue heap profiler command -- not using tcmalloc!")
}

/// The monitor never left the quorum.
fn quorum_enter(_: &mut Request<'_>) -> Reply {
    Reply::text("started responding to quorum, initiated new election\n")
}

/// What makes sense only where there are other monitors.
fn needs_others(_: &mut Request<'_>) -> Reply {
    Reply::fail(Errno::EOPNOTSUPP, "there is no other monitor")
}

/// One of the commands that every daemon has.
fn config(req: &mut Request<'_>) -> Reply {
    let name = format!("mon.{}", req.mon.base_options.name);
    let fsid = req.mon.committed.monmap.fsid.to_string();
    let is_observed = |name: &str| types::is_observed(EntityType::MON, name);
    let owner = ConfigOwner { name: &name, fsid: &fsid, is_observed: &is_observed };
    let args = |name: &str| req.args.list(name);
    match owner.run(&mut req.mon.settings, req.args.prefix(), &args) {
        Some(Ok(reply)) => {
            if reply.is_changed {
                req.mon.apply_config();
            }
            Reply::json(req.args, reply.output).with_status(reply.status)
        }
        Some(Err((errno, text))) => Reply::fail(errno, text),
        None => Reply::fail(Errno::EINVAL, "command not understood"),
    }
}

fn mon_status(req: &mut Request<'_>) -> Reply {
    let out = status_json(req.mon, req.wall);
    Reply::json(req.args, out)
}

/// How this monitor stands.
pub(super) fn status_json(mon: &Mon, wall: UTime) -> Value {
    let monmap = &mon.committed.monmap;
    let name = &mon.base_options.name;
    let features = json!({
        "required_con": Features::PACIFIC.0.to_string(),
        "required_mon": mon_info::MON_FEATURES,
        "quorum_con": Features::PACIFIC.0.to_string(),
        "quorum_mon": mon_info::MON_FEATURES,
    });
    json!({
        "name": name,
        "rank": monmap.ranks.iter().position(|rank| rank == name),
        "state": "leader",
        "election_epoch": status::ELECTION_EPOCH,
        "quorum": (0..monmap.size()).collect::<Vec<_>>(),
        "quorum_age": wall.since(mon.started).as_secs(),
        "features": features,
        "outside_quorum": [],
        "extra_probe_peers": [],
        "sync_provider": [],
        "monmap": mon_info::monmap_json(monmap),
        "feature_map": status::feature_map(mon),
        "stretch_mode": false,
    })
}

fn sessions(req: &mut Request<'_>) -> Reply {
    let one = |session: &crate::session::Session| {
        let peer = &session.peer;
        let kind = peer.name.kind.as_str();
        // Clients are named by their session, daemons by their number.
        let name = match peer.name.kind {
            EntityType::CLIENT => format!("{kind}.{}", peer.global_id.0),
            _ => peer.name.to_string(),
        };
        json!({
            "name": name,
            "entity_name": peer.name.to_string(),
            "addrs": {"addrvec": [peer.addr.dump()]},
            "socket_addr": peer.addr.dump(),
            "con_type": kind,
            "con_features": peer.features,
            "con_features_hex": format!("{:x}", peer.features),
            "con_features_release": Release::of_features(peer.features).name(),
            "open": true,
            "caps": {"text": req.mon.caps_of(peer, "mon")},
            "authenticated": true,
            "global_id": peer.global_id.0,
            // A handshake is refused unless it reclaims its id with proof, or asks for a new one.
            "global_id_status": "reclaim_ok",
            "osd_epoch": session.subs.get("osdmap").map_or(0, |sub| sub.next.saturating_sub(1)),
            "remote_host": session.hostname,
        })
    };
    let out: Vec<Value> = req.mon.sessions.values().map(one).collect();
    Reply::json(req.args, json!(out))
}

impl Mon {
    /// What `tell … version` answers, for the monitor and for the manager's part.
    pub(crate) fn tell_version(&self, args: &super::Args) -> Reply {
        Reply::json(
            args,
            json!({"version": types::DAEMON_VERSION, "release": "pacific", "release_type": "stable"}),
        )
    }

    /// Runs a command of this table, for peers that may do everything, as in Ceph.
    pub(super) fn run_tell(&mut self, wall: UTime, conn: ConnId, cmd: &[String], input: &Bytes) -> Reply {
        let Some(peer) = self.sessions.get(&conn).map(|s| s.peer.clone()) else {
            return Reply::fail(Errno::EACCES, "access denied");
        };
        // This comes first: not even the table of commands is for every peer.
        if !self.may_do_everything(&peer) {
            return Reply::fail(Errno::EACCES, "insufficient caps");
        }
        let Some(args) = super::Args::parse(cmd) else {
            return Reply::fail(Errno::EINVAL, "command not understood");
        };
        let prefix = args.prefix();
        if prefix == "get_command_descriptions" {
            return Reply::text(super::describe(rows()));
        }
        let Some(row) = rows().find(|row| row.prefix_text() == prefix) else {
            return Reply::fail(Errno::EINVAL, format!("unknown command prefix {prefix}"));
        };
        if let Err(text) = row.check(&args) {
            return Reply::fail(Errno::EINVAL, text);
        }
        (row.run)(&mut Request { mon: self, wall, peer: &peer, args: &args, input, caller: None })
    }
}
