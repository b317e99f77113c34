//! Where an operator or a balancer places PGs: upmaps.
//!
//! Authority: `OSDMonitor::prepare_command_impl` (`osd pg-upmap`, `osd pg-upmap-items`), 16.2.

use types::{Errno, Incremental, PgId, Release};

use super::{Reply, Request, Row, named::placed_osd};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd pg-upmap-items name=pgid,type=CephPgid name=id,type=CephOsdName,n=N",
        help: "set pg_upmap_items mapping <pgid>:{<id> to <id>, [...]} (developers only)",
        module: "osd",
        perm: "rw",
        run: |req| upmap_items(req).into(),
    },
    Row {
        sig: "osd rm-pg-upmap-items name=pgid,type=CephPgid",
        help: "clear pg_upmap_items mapping for <pgid> (developers only)",
        module: "osd",
        perm: "rw",
        run: |req| rm_upmap_items(req).into(),
    },
    Row {
        sig: "osd pg-upmap name=pgid,type=CephPgid name=id,type=CephOsdName,n=N",
        help: "set pg_upmap mapping <pgid>:[<id> [<id>...]] (developers only)",
        module: "osd",
        perm: "rw",
        run: |req| upmap(req).into(),
    },
    Row {
        sig: "osd rm-pg-upmap name=pgid,type=CephPgid",
        help: "clear pg_upmap mapping for <pgid> (developers only)",
        module: "osd",
        perm: "rw",
        run: |req| rm_upmap(req).into(),
    },
];

/// The PG of an upmap, which clients must know.
fn upmap_pg(req: &Request<'_>) -> Result<PgId, Reply> {
    let text = req.args.text("pgid").unwrap_or_default();
    let pg =
        PgId::parse(&text).ok_or_else(|| Reply::fail(Errno::EINVAL, format!("invalid pgid '{text}'")))?;
    let map = req.next_map();
    if !map.pg_exists(pg) {
        return Err(Reply::fail(Errno::ENOENT, format!("pg {pg} does not exist")));
    }
    if map.require_min_compat_client < Release::LUMINOUS {
        let text = "min_compat_client < luminous, which is required for pg-upmap. Try 'ceph osd set-require-min-compat-client luminous' before using the new interface";
        return Err(Reply::fail(Errno::EPERM, text));
    }
    Ok(pg)
}

/// How many copies the pool of an upmap wants, and how many it needs.
fn sizes(req: &Request<'_>, pg: PgId) -> (usize, usize) {
    let pool = req.next_map().pools.get(&pg.pool);
    pool.map_or((0, 0), |pool| (pool.size.into(), pool.min_size.into()))
}

fn refuse_empty() -> Reply {
    Reply::fail(Errno::EINVAL, "no valid upmap items(pairs) is specified")
}

fn upmap_items(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let pg = upmap_pg(req)?;
    let ids = req.args.list("id");
    if ids.is_empty() || !ids.len().is_multiple_of(2) {
        return Err(Reply::fail(Errno::EINVAL, "you must specify pairs of osd ids to be remapped"));
    }
    let (count, (size, _)) = (ids.len() / 2, sizes(req, pg));
    if count > size {
        let why = format!("num of osd pairs ({count}) > pool size ({size})");
        return Err(Reply::fail(Errno::EINVAL, why));
    }
    let (mut items, mut skipped) = (Vec::new(), String::new());
    for pair in ids.chunks_exact(2) {
        let (from, to) = (placed_osd(req.next_map(), &pair[0])?, placed_osd(req.next_map(), &pair[1])?);
        if from == to {
            skipped.push_str(&format!("from osd.{from} == to osd.{to}, "));
        } else if items.contains(&(from, to)) {
            skipped.push_str(&format!("osd.{from} -> osd.{to} already exists, "));
        } else {
            items.push((from, to));
        }
    }
    if items.is_empty() {
        return Err(refuse_empty());
    }
    let text: Vec<String> = items.iter().map(|(from, to)| format!("{from}->{to}")).collect();
    req.mon.change_osdmap(req.wall, |_, inc| {
        inc.new_pg_upmap_items.insert(pg, items);
    });
    Ok(Reply::done(format!("{skipped}set {pg} pg_upmap_items mapping to [{}]", text.join(","))))
}

fn rm_upmap_items(req: &mut Request<'_>) -> Result<Reply, Reply> {
    clear(req, "pg_upmap_items", |inc, pg| inc.old_pg_upmap_items.insert(pg))
}

/// Takes an upmap of this kind away.
fn clear(
    req: &mut Request<'_>,
    kind: &str,
    remove: fn(&mut Incremental, PgId) -> bool,
) -> Result<Reply, Reply> {
    let pg = upmap_pg(req)?;
    req.mon.change_osdmap(req.wall, |_, inc| {
        remove(inc, pg);
    });
    Ok(Reply::done(format!("clear {pg} {kind} mapping")))
}

fn upmap(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let pg = upmap_pg(req)?;
    let ids = req.args.list("id");
    let (count, (size, min_size)) = (ids.len(), sizes(req, pg));
    let bound = match () {
        () if count < min_size => format!("< pool min size ({min_size})"),
        () if count > size => format!("> pool size ({size})"),
        () => String::new(),
    };
    if !bound.is_empty() {
        return Err(Reply::fail(Errno::EINVAL, format!("num of osds ({count}) {bound}")));
    }
    let (mut osds, mut skipped) = (Vec::new(), String::new());
    for text in ids {
        let osd = placed_osd(req.next_map(), &text)?;
        if osds.contains(&osd) {
            skipped.push_str(&format!("osd.{osd} already exists, "));
        } else {
            osds.push(osd);
        }
    }
    if osds.is_empty() {
        return Err(refuse_empty());
    }
    let text = crate::format::list(&osds);
    req.mon.change_osdmap(req.wall, |_, inc| {
        inc.new_pg_upmap.insert(pg, osds);
    });
    Ok(Reply::done(format!("{skipped}set {pg} pg_upmap mapping to {text}")))
}

fn rm_upmap(req: &mut Request<'_>) -> Result<Reply, Reply> {
    clear(req, "pg_upmap", |inc, pg| inc.old_pg_upmap.insert(pg))
}
