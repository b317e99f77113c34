//! File systems: there are none, and dashboards and storage plugins that ask are told so. Commands that would make one
//! are not supported; commands that name one are answered as by a Ceph that has none of that name.

use serde_json::{Value, json};
use types::{EntityName, Errno};

use super::{Reply, Request, Row};

pub(super) const ROWS: &[Row] = &[
    Row { sig: "fs ls", help: "list filesystems", module: "fs", perm: "r", run: ls },
    Row {
        sig: "fs dump name=epoch,type=CephInt,range=0,req=false",
        help: "dump all CephFS status, optionally from epoch",
        module: "mds",
        perm: "r",
        run: dump,
    },
    Row {
        sig: "fs get name=fs_name,type=CephString",
        help: "get info about one filesystem",
        module: "fs",
        perm: "r",
        run: get,
    },
    Row {
        sig: "fs feature ls",
        help: "list features that clients may be required to have",
        module: "mds",
        perm: "r",
        run: features,
    },
    Row {
        sig: "fs compat show name=fs_name,type=CephString",
        help: "show what one filesystem is compatible with",
        module: "mds",
        perm: "r",
        run: get,
    },
    Row {
        sig: "fs new name=fs_name,type=CephString,goodchars=[A-Za-z0-9-_.] name=metadata,type=CephString name=data,type=CephString name=force,type=CephBool,req=false name=allow_dangerous_metadata_overlay,type=CephBool,req=false name=fscid,type=CephInt,range=0,req=false name=recover,type=CephBool,req=false",
        help: "make a filesystem of two pools",
        module: "fs",
        perm: "rw",
        run: new,
    },
    Row {
        sig: "fs rm name=fs_name,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "remove a filesystem",
        module: "fs",
        perm: "rw",
        run: rm,
    },
    Row {
        sig: "fs fail name=fs_name,type=CephString",
        help: "bring a filesystem down",
        module: "fs",
        perm: "rw",
        run: missing,
    },
    Row {
        sig: "fs reset name=fs_name,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "forget the state of a filesystem",
        module: "fs",
        perm: "rw",
        run: missing,
    },
    Row {
        sig: "fs set name=fs_name,type=CephString name=var,type=CephChoices,strings=max_mds|max_file_size|allow_new_snaps|inline_data|cluster_down|allow_dirfrags|balancer|standby_count_wanted|session_timeout|session_autoclose|allow_standby_replay|down|joinable|min_compat_client name=val,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false name=yes_i_really_really_mean_it,type=CephBool,req=false",
        help: "set a parameter of a filesystem",
        module: "mds",
        perm: "rw",
        run: missing,
    },
    Row {
        sig: "fs compat name=fs_name,type=CephString name=subop,type=CephChoices,strings=rm_compat|rm_incompat|add_compat|add_incompat name=feature,type=CephInt name=feature_str,type=CephString,req=false",
        help: "change what a filesystem is compatible with",
        module: "fs",
        perm: "rw",
        run: missing,
    },
    Row {
        sig: "fs required_client_features name=fs_name,type=CephString name=subop,type=CephChoices,strings=add|rm name=val,type=CephString",
        help: "change the features that clients must have",
        module: "mds",
        perm: "rw",
        run: missing,
    },
    Row {
        sig: "fs add_data_pool name=fs_name,type=CephString name=pool,type=CephString",
        help: "add a data pool",
        module: "mds",
        perm: "rw",
        run: missing,
    },
    Row {
        sig: "fs rm_data_pool name=fs_name,type=CephString name=pool,type=CephString",
        help: "remove a data pool",
        module: "mds",
        perm: "rw",
        run: missing,
    },
    Row {
        sig: "fs set_default name=fs_name,type=CephString",
        help: "choose the default filesystem",
        module: "fs",
        perm: "rw",
        run: missing,
    },
    Row {
        sig: "fs set-default name=fs_name,type=CephString",
        help: "choose the default filesystem",
        module: "fs",
        perm: "rw",
        run: missing,
    },
    Row {
        sig: "fs mirror enable name=fs_name,type=CephString",
        help: "enable mirroring of a filesystem",
        module: "mds",
        perm: "rw",
        run: missing,
    },
    Row {
        sig: "fs mirror disable name=fs_name,type=CephString",
        help: "disable mirroring of a filesystem",
        module: "mds",
        perm: "rw",
        run: missing,
    },
    Row {
        sig: "fs mirror peer_add name=fs_name,type=CephString name=uuid,type=CephString name=remote_cluster_spec,type=CephString name=remote_fs_name,type=CephString",
        help: "add a peer to mirror to",
        module: "mds",
        perm: "rw",
        run: missing,
    },
    Row {
        sig: "fs mirror peer_remove name=fs_name,type=CephString name=uuid,type=CephString",
        help: "remove a peer",
        module: "mds",
        perm: "rw",
        run: missing,
    },
    Row {
        sig: "fs flag set name=flag_name,type=CephChoices,strings=enable_multiple name=val,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "set a flag of all filesystems",
        module: "fs",
        perm: "rw",
        run: flag,
    },
    Row {
        sig: "fs authorize name=filesystem,type=CephString name=entity,type=CephString name=caps,type=CephString,n=N",
        help: "make a key for a directory of a filesystem",
        module: "auth",
        perm: "rwx",
        run: authorize,
    },
];

/// Why there is none.
pub(crate) const NO_FILE_SYSTEMS: &str = "there are no file systems here";

/// What metadata servers of 16.2 must understand.
const INCOMPAT: [(u32, &str); 9] = [
    (1, "base v0.20"),
    (2, "client writeable ranges"),
    (3, "default file layouts on dirs"),
    (4, "dir inode in separate object"),
    (5, "mds uses versioned encoding"),
    (6, "dirfrag is stored in omap"),
    (8, "no anchor table"),
    (9, "file layout v2"),
    (10, "snaprealm v2"),
];

/// Nothing ever changes in it.
const FSMAP_EPOCH: i64 = 1;

/// Features that clients may be required to have: the first ones are of releases before they were counted.
const CLIENT_FEATURES: [&str; 19] = [
    "reserved",
    "reserved",
    "reserved",
    "reserved",
    "reserved",
    "jewel",
    "kraken",
    "luminous",
    "mimic",
    "reply_encoding",
    "reclaim_client",
    "lazy_caps_wanted",
    "multi_reconnect",
    "deleg_ino",
    "metric_collect",
    "alternate_name",
    "notify_session_state",
    "op_getvxattr",
    "32bits_retry_fwd",
];

/// True for a feature that metadata servers must understand.
pub(super) fn is_incompat(feature: u32) -> bool {
    INCOMPAT.iter().any(|(at, _)| *at == feature)
}

/// What metadata servers must understand, as the monitor shows it.
pub(super) fn compat() -> Value {
    let incompat: serde_json::Map<String, Value> =
        INCOMPAT.iter().map(|(at, text)| (format!("feature_{at}"), json!(text))).collect();
    json!({"compat": {}, "ro_compat": {}, "incompat": incompat})
}

/// What metadata servers must understand, in one line.
pub(super) fn compat_text() -> String {
    let incompat: Vec<String> = INCOMPAT.iter().map(|(at, text)| format!("{at}={text}")).collect();
    format!("compat={{}},rocompat={{}},incompat={{{}}}", incompat.join(","))
}

/// The map of file systems of a new cluster.
pub(super) fn fsmap() -> Value {
    json!({
        "epoch": FSMAP_EPOCH,
        "default_fscid": -1,
        "compat": compat(),
        "feature_flags": {"enable_multiple": true, "ever_enabled_multiple": true},
        "standbys": [],
        "filesystems": [],
    })
}

fn ls(req: &mut Request<'_>) -> Reply {
    Reply::show(req.args, || json!([]), || "No filesystems enabled\n".to_owned())
}

fn dump(req: &mut Request<'_>) -> Reply {
    if req.args.int("epoch").is_some_and(|epoch| epoch != FSMAP_EPOCH) {
        return Reply::fail(Errno::ENOENT, "");
    }
    let text = || {
        format!(
            "e{FSMAP_EPOCH}\nenable_multiple, ever_enabled_multiple: 1,1\ndefault compat: {}\nlegacy client fscid: -1\n \n\
             No filesystems configured\n",
            compat_text()
        )
    };
    Reply::show(req.args, fsmap, text).with_status(format!("dumped fsmap epoch {FSMAP_EPOCH}"))
}

/// The file system that the command names.
fn name(req: &Request<'_>) -> String {
    req.args.text("fs_name").unwrap_or_default()
}

fn get(req: &mut Request<'_>) -> Reply {
    Reply::fail(Errno::ENOENT, format!("filesystem '{}' not found", name(req)))
}

fn missing(req: &mut Request<'_>) -> Reply {
    Reply::fail(Errno::ENOENT, format!("Filesystem not found: '{}'", name(req)))
}

/// Nothing to do.
fn rm(req: &mut Request<'_>) -> Reply {
    Reply::done(format!("filesystem '{}' does not exist", name(req)))
}

fn new(_: &mut Request<'_>) -> Reply {
    Reply::fail(Errno::EOPNOTSUPP, NO_FILE_SYSTEMS)
}

fn features(req: &mut Request<'_>) -> Reply {
    let all = || CLIENT_FEATURES.iter().enumerate();
    let json = || all().map(|(index, name)| json!({"index": index, "name": name})).collect();
    Reply::show(req.args, json, || all().map(|(index, name)| format!("{index} {name}\n")).collect())
}

/// Several file systems are allowed, as in a new Ceph.
fn flag(req: &mut Request<'_>) -> Reply {
    let value = req.args.text("val").unwrap_or_default();
    match value.as_str() {
        "true" | "yes" | "1" => Reply::default(),
        "false" | "no" | "0" => Reply::fail(Errno::EOPNOTSUPP, NO_FILE_SYSTEMS),
        _ => Reply::fail(Errno::EINVAL, format!("Invalid boolean value '{value}'")),
    }
}

fn authorize(req: &mut Request<'_>) -> Reply {
    let text = |name: &str| req.args.text(name).unwrap_or_default();
    if EntityName::parse(&text("entity")).is_none() {
        return Reply::fail(Errno::EINVAL, "bad entity name");
    }
    match text("filesystem").as_str() {
        "*" | "all" => Reply::fail(Errno::EOPNOTSUPP, NO_FILE_SYSTEMS),
        name => Reply::fail(Errno::EINVAL, format!("filesystem {name} does not exist.")),
    }
}
