//! File systems: there are none and no metadata servers, which is what dashboards and storage plugins are told
//! when they ask.

use serde_json::{Value, json};
use types::Errno;

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
];

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

/// The map of file systems of a new cluster.
fn fsmap() -> Value {
    let incompat: serde_json::Map<String, Value> =
        INCOMPAT.iter().map(|(at, text)| (format!("feature_{at}"), json!(text))).collect();
    json!({
        "epoch": 1,
        "default_fscid": -1,
        "compat": {"compat": {}, "ro_compat": {}, "incompat": incompat},
        "feature_flags": {"enable_multiple": true, "ever_enabled_multiple": true},
        "standbys": [],
        "filesystems": [],
    })
}

fn ls(req: &mut Request<'_>) -> Reply {
    Reply::show(req.args, || json!([]), || "No filesystems enabled\n".to_owned())
}

fn dump(req: &mut Request<'_>) -> Reply {
    let text = || {
        let incompat: Vec<String> = INCOMPAT.iter().map(|(at, text)| format!("{at}={text}")).collect();
        format!(
            "e1\nenable_multiple, ever_enabled_multiple: 1,1\ndefault compat: \
             compat={{}},rocompat={{}},incompat={{{}}}\nlegacy client fscid: -1\n \nNo filesystems configured\n",
            incompat.join(",")
        )
    };
    Reply::show(req.args, fsmap, text).with_status("dumped fsmap epoch 1")
}

fn get(req: &mut Request<'_>) -> Reply {
    let name = req.args.text("fs_name").unwrap_or_default();
    Reply::fail(Errno::ENOENT, format!("filesystem '{name}' not found"))
}

fn stat(req: &mut Request<'_>) -> Reply {
    let json = || json!({"fsmap": fsmap(), "mdsmap_first_committed": 1, "mdsmap_last_committed": 1});
    Reply::show(req.args, json, String::new)
}

fn metadata(req: &mut Request<'_>) -> Reply {
    match req.args.text("who") {
        Some(who) => Reply::fail(Errno::EINVAL, format!("MDS named '{who}' does not exist, or is not up")),
        None => Reply::json(req.args, json!([])),
    }
}

/// Of nobody.
fn counted(req: &mut Request<'_>) -> Reply {
    Reply::json(req.args, json!({}))
}
