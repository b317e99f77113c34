//! Places of CRUSH items: in several buckets at once, taken out of one, swapped.

use crush::CrushMap;
use types::Errno;

use super::{
    Reply, Request, Row,
    crush_map::{pending, put_at, refused, text},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd crush link name=name,type=CephString name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]",
        help: "link existing entry for <name> under location <args>",
        module: "osd",
        perm: "rw",
        run: |req| link(req).into(),
    },
    Row {
        sig: "osd crush unlink name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=ancestor,type=CephString,goodchars=[A-Za-z0-9-_.],req=false",
        help: "unlink <name> from crush map (everywhere, or just at <ancestor>)",
        module: "osd",
        perm: "rw",
        run: unlink,
    },
    Row {
        sig: "osd crush rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=ancestor,type=CephString,goodchars=[A-Za-z0-9-_.],req=false",
        help: "remove <name> from crush map (everywhere, or just at <ancestor>)",
        module: "osd",
        perm: "rw",
        run: rm,
    },
    Row {
        sig: "osd crush remove name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=ancestor,type=CephString,goodchars=[A-Za-z0-9-_.],req=false",
        help: "remove <name> from crush map (everywhere, or just at <ancestor>)",
        module: "osd",
        perm: "rw",
        run: rm,
    },
    Row {
        sig: "osd crush swap-bucket name=source,type=CephString,goodchars=[A-Za-z0-9-_.] name=dest,type=CephString,goodchars=[A-Za-z0-9-_.] name=yes_i_really_mean_it,type=CephBool,req=false",
        help: "swap existing bucket contents from (orphan) bucket <source> and <target>",
        module: "osd",
        perm: "rw",
        run: swap,
    },
];

fn link(req: &mut Request<'_>) -> Result<Reply, Reply> {
    put_at(req, is_below_any, CrushMap::link_bucket, "linked")
}

/// True when the item is in one of the wanted buckets already.
fn is_below_any(crush: &CrushMap, id: i32, wanted: &[(String, String)]) -> bool {
    let parents = crush.parents_of(id);
    wanted.iter().any(|(_, bucket)| crush.id_of(bucket).is_some_and(|bucket| parents.contains(&bucket)))
}

fn unlink(req: &mut Request<'_>) -> Reply {
    take_out(req, false)
}

fn rm(req: &mut Request<'_>) -> Reply {
    take_out(req, true)
}

/// Takes an item out of its places, and with `is_rm` out of the map if nothing holds it any more.
fn take_out(req: &mut Request<'_>, is_rm: bool) -> Reply {
    let name = text(req, "name");
    let ancestor = req.args.text("ancestor").filter(|name| !name.is_empty());
    let mut crush = pending(req);
    let Some(id) = crush.id_of(&name) else {
        return Reply::done(format!("device '{name}' does not appear in the crush map"));
    };
    if let Some(ancestor) = ancestor.as_ref().filter(|name| crush.id_of(name).is_none()) {
        return Reply::fail(
            Errno::ENOENT,
            format!("ancestor item '{ancestor}' does not appear in the crush map"),
        );
    }
    if is_rm && crush.bucket(id).is_some_and(|bucket| !bucket.items.is_empty()) {
        return Reply::fail(Errno::ENOTEMPTY, "(39) Directory not empty");
    }
    if is_rm && crush.is_taken(id) {
        return Reply::fail(Errno::EBUSY, "(16) Device or resource busy");
    }
    match crush.unlink_item(&name, ancestor.as_deref()) {
        Ok(true) => {}
        Ok(false) => return Reply::done(format!("item {id} does not appear in that position")),
        Err(error) => return refused(&error),
    }
    if is_rm
        && id < 0
        && crush.parents_of(id).is_empty()
        && let Err(error) = crush.remove_item(&name)
    {
        return refused(&error);
    }
    req.mon.change_crush(req.wall, crush);
    Reply::done(format!("removed item id {id} name '{name}' from crush map"))
}

fn swap(req: &mut Request<'_>) -> Reply {
    let (source, dest) = (text(req, "source"), text(req, "dest"));
    let mut crush = pending(req);
    for (what, name) in [("source", &source), ("dest", &dest)] {
        if crush.id_of(name).is_none() {
            return Reply::fail(Errno::ENOENT, format!("{what} item {name} does not exist"));
        }
    }
    let is_orphan = crush.id_of(&source).is_some_and(|id| crush.parents_of(id).is_empty());
    if !is_orphan && !req.args.flag("yes_i_really_mean_it") {
        let why = format!(
            "source item {source} is not an orphan bucket; pass --yes-i-really-mean-it to proceed anyway"
        );
        return Reply::fail(Errno::EPERM, why);
    }
    match crush.swap_buckets(&source, &dest) {
        Ok(()) => {
            req.mon.change_crush(req.wall, crush);
            Reply::done(format!("swapped bucket of {source} to {dest}"))
        }
        Err(error) => refused(&error),
    }
}
