//! Cache tiers: no pool has one, so there is nothing to take away, which is no error.

use super::{Reply, Request, Row, osd_info::pool_arg};
use types::Errno;

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd tier rm name=pool,type=CephPoolname name=tierpool,type=CephPoolname",
        help: "remove the tier <tierpool> (the second one) from base pool <pool> (the first one)",
        module: "osd",
        perm: "rw",
        run: rm,
    },
    Row {
        sig: "osd tier remove name=pool,type=CephPoolname name=tierpool,type=CephPoolname",
        help: "remove the tier <tierpool> (the second one) from base pool <pool> (the first one)",
        module: "osd",
        perm: "rw",
        run: rm,
    },
    Row {
        sig: "osd tier rm-overlay name=pool,type=CephPoolname",
        help: "remove the overlay pool for base pool <pool>",
        module: "osd",
        perm: "rw",
        run: rm_overlay,
    },
    Row {
        sig: "osd tier remove-overlay name=pool,type=CephPoolname",
        help: "remove the overlay pool for base pool <pool>",
        module: "osd",
        perm: "rw",
        run: rm_overlay,
    },
];

fn rm(req: &mut Request<'_>) -> Reply {
    let pool = match pool_arg(req, req.map()) {
        Ok((_, pool)) => pool,
        Err(reply) => return reply,
    };
    let tier = req.args.text("tierpool").unwrap_or_default();
    match req.map().pool_by_name(&tier) {
        Some(_) => Reply::done(format!("pool '{tier}' is now (or already was) not a tier of '{pool}'")),
        None => Reply::fail(Errno::ENOENT, format!("unrecognized pool '{tier}'")),
    }
}

fn rm_overlay(req: &mut Request<'_>) -> Reply {
    match pool_arg(req, req.map()) {
        Ok((_, pool)) => Reply::done(format!("there is now (or already was) no overlay for '{pool}'")),
        Err(reply) => reply,
    }
}
