//! Metadata servers: there are none; commands answer as a Ceph's that has none.

use serde_json::json;
use types::Errno;

use super::{
    Reply, Request, Row,
    fs::{NO_FILE_SYSTEMS, compat, compat_text, fsmap, is_incompat},
};

pub(super) const ROWS: &[Row] = &[
    Row { sig: "mds stat", help: "show MDS status", module: "mds", perm: "r", run: stat },
    Row {
        sig: "mds metadata name=who,type=CephString,req=false",
        help: "fetch metadata for mds <role>",
        module: "mds",
        perm: "r",
        run: metadata,
    },
    Row {
        sig: "mds count-metadata name=property,type=CephString",
        help: "count MDSs by metadata field property",
        module: "mds",
        perm: "r",
        run: counted,
    },
    Row {
        sig: "mds versions",
        help: "check running versions of MDSs",
        module: "mds",
        perm: "r",
        run: counted,
    },
    Row {
        sig: "mds ok-to-stop name=ids,type=CephString,n=N",
        help: "check whether stopping MDSs would interrupt anybody",
        module: "mds",
        perm: "r",
        run: ok_to_stop,
    },
    Row {
        sig: "mds compat show",
        help: "show what MDSs must understand",
        module: "mds",
        perm: "r",
        run: compat_show,
    },
    Row {
        sig: "mds compat rm_compat name=feature,type=CephInt,range=0",
        help: "remove a compatible feature",
        module: "mds",
        perm: "rw",
        run: rm_compat,
    },
    Row {
        sig: "mds compat rm_incompat name=feature,type=CephInt,range=0",
        help: "remove an incompatible feature",
        module: "mds",
        perm: "rw",
        run: rm_incompat,
    },
    Row {
        sig: "mds freeze name=role_or_gid,type=CephString name=val,type=CephString",
        help: "freeze an MDS",
        module: "mds",
        perm: "rw",
        run: freeze,
    },
    Row {
        sig: "mds set_state name=gid,type=CephInt,range=0 name=state,type=CephInt,range=0|20",
        help: "set the state of an MDS",
        module: "mds",
        perm: "rw",
        run: set_state,
    },
    Row {
        sig: "mds fail name=role_or_gid,type=CephString",
        help: "mark an MDS failed",
        module: "mds",
        perm: "rw",
        run: fail,
    },
    Row {
        sig: "mds repaired name=role,type=CephString",
        help: "mark a rank repaired",
        module: "mds",
        perm: "rw",
        run: repaired,
    },
    Row {
        sig: "mds rm name=gid,type=CephInt,range=0",
        help: "remove an MDS that is not active",
        module: "mds",
        perm: "rw",
        run: rm,
    },
    Row {
        sig: "mds rmfailed name=role,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "remove a failed rank",
        module: "mds",
        perm: "rw",
        run: rmfailed,
    },
];

fn stat(req: &mut Request<'_>) -> Reply {
    let json = || json!({"fsmap": fsmap(), "mdsmap_first_committed": 1, "mdsmap_last_committed": 1});
    Reply::show(req.args, json, String::new)
}

fn metadata(req: &mut Request<'_>) -> Reply {
    match req.args.text("who") {
        Some(who) => {
            let nothing = Reply::json(req.args, json!({})).with_status(not_there(&who));
            Reply { result: Errno::EINVAL.negated(), ..nothing }
        }
        None => Reply::json(req.args, json!([])),
    }
}

fn not_there(who: &str) -> String {
    format!("MDS named '{who}' does not exist, or is not up")
}

/// Counts over metadata servers, of which there are none.
fn counted(req: &mut Request<'_>) -> Reply {
    Reply::json(req.args, json!({}))
}

/// Any server may be stopped, as there are none.
fn ok_to_stop(req: &mut Request<'_>) -> Reply {
    Reply::done(format!("should be safe to stop [{}]", req.args.list("ids").join(",")))
}

fn compat_show(req: &mut Request<'_>) -> Reply {
    Reply::show(req.args, compat, || compat_text() + "\n")
}

fn rm_compat(req: &mut Request<'_>) -> Reply {
    let feature = req.args.text("feature").unwrap_or_default();
    Reply::done(format!("compat feature {feature} not present in {}", compat_text()))
}

fn rm_incompat(req: &mut Request<'_>) -> Reply {
    let feature = req.args.text("feature").unwrap_or_default();
    if feature.parse().is_ok_and(is_incompat) {
        return Reply::fail(Errno::EOPNOTSUPP, NO_FILE_SYSTEMS);
    }
    Reply::done(format!("incompat feature {feature} not present in {}", compat_text()))
}

/// `mds fail`, `freeze`, `repaired` and `rmfailed` name a server, or its place in a file system.
fn role(req: &Request<'_>) -> String {
    req.args.text("role_or_gid").or_else(|| req.args.text("role")).unwrap_or_default()
}

fn freeze(req: &mut Request<'_>) -> Reply {
    Reply::fail(Errno::EINVAL, not_there(&role(req)))
}

/// Sets the state of no server.
fn set_state(_: &mut Request<'_>) -> Reply {
    Reply::default()
}

/// A server that does not exist cannot fail.
fn fail(req: &mut Request<'_>) -> Reply {
    let who = role(req);
    Reply::done(format!("MDS named '{who}' does not exist, is not up or you lack the permission to see."))
}

/// Why no server has a role.
fn no_role(role: &str) -> &'static str {
    if role.contains(':') { "Invalid filesystem" } else { "No filesystem selected" }
}

fn repaired(req: &mut Request<'_>) -> Reply {
    Reply::fail(Errno::ENOENT, no_role(&role(req)))
}

fn rm(req: &mut Request<'_>) -> Reply {
    Reply::done(format!("mds gid {} does not exist", req.args.text("gid").unwrap_or_default()))
}

fn rmfailed(req: &mut Request<'_>) -> Reply {
    if !req.args.flag("yes_i_really_mean_it") {
        let text = "WARNING: this can make your filesystem inaccessible! Add --yes-i-really-mean-it if you are sure you \
                    wish to continue.";
        return Reply::fail(Errno::EPERM, text);
    }
    let role = role(req);
    Reply::fail(Errno::EINVAL, format!("{}, invalid role '{role}'", no_role(&role)))
}
