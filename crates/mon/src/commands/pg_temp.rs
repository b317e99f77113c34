//! Temporary acting sets and primaries, set by hand, and PGs that peer anew.

use types::{Errno, OsdId, PgId};

use super::{Reply, Request, Row, named::placed_osd};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd pg-temp name=pgid,type=CephPgid name=id,type=CephOsdName,n=N,req=false",
        help: "set pg_temp mapping pgid:[<id> [<id>...]] (developers only)",
        module: "osd",
        perm: "rw",
        run: |req| pg_temp(req).into(),
    },
    Row {
        sig: "osd primary-temp name=pgid,type=CephPgid name=id,type=CephOsdName",
        help: "set primary_temp mapping pgid:<id>|-1 (developers only)",
        module: "osd",
        perm: "rw",
        run: |req| primary_temp(req).into(),
    },
    Row {
        sig: "osd rm-primary-temp name=pgid,type=CephPgid",
        help: "clear primary_temp mapping pgid (developers only)",
        module: "osd",
        perm: "rw",
        run: |req| rm_primary_temp(req).into(),
    },
    Row {
        sig: "pg repeer name=pgid,type=CephPgid",
        help: "force a PG to repeer",
        module: "osd",
        perm: "rw",
        run: |req| repeer(req).into(),
    },
];

/// The PG that is meant. Two commands have their own words for one that does not exist; `quote` is what is around it.
fn pg_arg(req: &Request<'_>, quote: &str) -> Result<PgId, Reply> {
    let text = req.args.text("pgid").unwrap_or_default();
    let pg =
        PgId::parse(&text).ok_or_else(|| Reply::fail(Errno::EINVAL, format!("invalid pgid '{text}'")))?;
    match req.next_map().pg_exists(pg) {
        true => Ok(pg),
        false => Err(Reply::fail(Errno::ENOENT, format!("pg {quote}{pg}{quote} does not exist"))),
    }
}

/// Writes a temporary acting set; an empty one ends it.
fn set_temp(req: &mut Request<'_>, pg: PgId, osds: Vec<OsdId>) {
    req.mon.change_osdmap(req.wall, |_, inc| {
        inc.new_pg_temp.insert(pg, osds);
    });
}

fn pg_temp(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let pg = pg_arg(req, "")?;
    let ids = req.args.list("id");
    let osds = ids.iter().map(|text| placed_osd(req.next_map(), text)).collect::<Result<Vec<_>, _>>()?;
    if osds.is_empty() {
        set_temp(req, pg, osds);
        return Ok(Reply::done(format!("done cleaning up pg_temp of {pg}")));
    }
    let pool = req.next_map().pools.get(&pg.pool);
    let (size, min_size) = pool.map_or((0, 0), |pool| (usize::from(pool.size), usize::from(pool.min_size)));
    if osds.len() < min_size {
        let why = format!("num of osds ({}) < pool min size ({min_size})", osds.len());
        return Err(Reply::fail(Errno::EINVAL, why));
    }
    if osds.len() > size {
        let why = format!("num of osds ({}) > pool size ({size})", osds.len());
        return Err(Reply::fail(Errno::EINVAL, why));
    }
    let shown = crate::format::list(&osds);
    set_temp(req, pg, osds);
    Ok(Reply::done(format!("set {pg} pg_temp mapping to {shown}")))
}

fn primary_temp(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let text = req.args.text("id").unwrap_or_default();
    let (pg, osd) = (pg_arg(req, "")?, placed_osd(req.next_map(), &text)?);
    Ok(set_primary(req, pg, osd))
}

fn rm_primary_temp(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let pg = pg_arg(req, "")?;
    Ok(set_primary(req, pg, OsdId::NONE))
}

fn set_primary(req: &mut Request<'_>, pg: PgId, osd: OsdId) -> Reply {
    req.mon.change_osdmap(req.wall, |_, inc| {
        inc.new_primary_temp.insert(pg, osd);
    });
    Reply::done(format!("set {pg} primary_temp mapping to {osd}"))
}

/// Sets another acting set, until the PG asks for the right one: that begins an interval.
fn repeer(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let pg = pg_arg(req, "'")?;
    let map = req.next_map();
    let now = map.pg_to_up_acting(pg);
    let primary = now.acting_primary;
    if primary == OsdId::NONE {
        return Err(Reply::fail(Errno::EAGAIN, "pg currently has no primary"));
    }
    let another = map.osds().find(|osd| *osd != primary && map.is_up(*osd));
    let wanted = match (now.acting.len() > 1, another) {
        (true, _) => vec![primary],
        (false, Some(another)) => vec![primary, another],
        (false, None) => {
            return Err(Reply::fail(Errno::EAGAIN, "not enough up OSDs in the cluster to force repeer"));
        }
    };
    set_temp(req, pg, wanted);
    Ok(Reply::done(""))
}
