//! Orders to scrub single PGs, all that an OSD leads, or all of a pool. The OSDs that lead them are told.
//!
//! Authority: `DaemonServer::_handle_command` (16.2), for the words of the answers.

use std::collections::{BTreeMap, BTreeSet};

use messages::MOSDScrub;
use types::{Errno, OsdId, PgId};

use super::{
    Reply, Request, Row,
    named::{parse_osd, pool_named},
};
use crate::Mon;

/// A row of an order for PGs.
pub(super) const fn row(sig: &'static str, help: &'static str, run: fn(&mut Request<'_>) -> Reply) -> Row {
    let is_of_pg = matches!(sig.as_bytes(), [b'p', ..]);
    Row { sig, help, module: if is_of_pg { "pg" } else { "osd" }, perm: "rw", run }
}

pub(super) const ROWS: &[Row] = &[
    row("pg scrub name=pgid,type=CephPgid", "start scrub on <pgid>", pg_scrub),
    row("pg deep-scrub name=pgid,type=CephPgid", "start deep-scrub on <pgid>", pg_deep_scrub),
    row("pg repair name=pgid,type=CephPgid", "start repair on <pgid>", pg_repair),
    row(
        "osd scrub name=who,type=CephString",
        "initiate scrub on osd <who>, or use <all|any> to scrub all",
        osd_scrub,
    ),
    row(
        "osd deep-scrub name=who,type=CephString",
        "initiate deep scrub on osd <who>, or use <all|any> to deep scrub all",
        osd_deep_scrub,
    ),
    row(
        "osd repair name=who,type=CephString",
        "initiate repair on osd <who>, or use <all|any> to repair all",
        osd_repair,
    ),
    row("osd pool scrub name=who,type=CephPoolname,n=N", "initiate scrub on pool <who>", pool_scrub),
    row(
        "osd pool deep-scrub name=who,type=CephPoolname,n=N",
        "initiate deep-scrub on pool <who>",
        pool_deep_scrub,
    ),
    row("osd pool repair name=who,type=CephPoolname,n=N", "initiate repair on pool <who>", pool_repair),
];

/// What is ordered.
#[derive(Clone, Copy)]
enum Kind {
    Scrub,
    DeepScrub,
    Repair,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Scrub => "scrub",
            Kind::DeepScrub => "deep-scrub",
            Kind::Repair => "repair",
        }
    }
}

fn pg_scrub(req: &mut Request<'_>) -> Reply {
    one_pg(req, Kind::Scrub)
}

fn pg_deep_scrub(req: &mut Request<'_>) -> Reply {
    one_pg(req, Kind::DeepScrub)
}

fn pg_repair(req: &mut Request<'_>) -> Reply {
    one_pg(req, Kind::Repair)
}

fn osd_scrub(req: &mut Request<'_>) -> Reply {
    osds(req, Kind::Scrub)
}

fn osd_deep_scrub(req: &mut Request<'_>) -> Reply {
    osds(req, Kind::DeepScrub)
}

fn osd_repair(req: &mut Request<'_>) -> Reply {
    osds(req, Kind::Repair)
}

fn pool_scrub(req: &mut Request<'_>) -> Reply {
    pools(req, Kind::Scrub).into()
}

fn pool_deep_scrub(req: &mut Request<'_>) -> Reply {
    pools(req, Kind::DeepScrub).into()
}

fn pool_repair(req: &mut Request<'_>) -> Reply {
    pools(req, Kind::Repair).into()
}

impl Mon {
    /// Has the PGs scrubbed that have a primary which is up.
    fn order_scrub(&mut self, pgs: impl Iterator<Item = PgId>, kind: Kind) {
        let map = &self.committed.osdmap;
        let mut by_osd: BTreeMap<OsdId, Vec<PgId>> = BTreeMap::new();
        for pgid in pgs {
            by_osd.entry(map.pg_to_up_acting(pgid).acting_primary).or_default().push(pgid);
        }
        let (is_deep, is_repair) = (!matches!(kind, Kind::Scrub), matches!(kind, Kind::Repair));
        for (osd, pgs) in by_osd.into_iter().filter(|(osd, _)| map.is_up(*osd)) {
            let message = MOSDScrub { epoch: map.epoch, pgs, is_deep, is_repair };
            self.orders.push((osd, message.into()));
        }
    }
}

fn one_pg(req: &mut Request<'_>, kind: Kind) -> Reply {
    let text = req.args.text("pgid").unwrap_or_default();
    let Some(pgid) = PgId::parse(&text) else {
        return Reply::fail(Errno::EINVAL, format!("invalid pgid '{text}'"));
    };
    let map = req.map();
    if !map.pg_exists(pgid) {
        return Reply::fail(Errno::ENOENT, format!("pg {pgid} does not exist"));
    }
    let primary = map.pg_to_up_acting(pgid).acting_primary;
    if !primary.is_some() {
        return Reply::fail(Errno::EAGAIN, format!("pg {pgid} has no primary osd"));
    }
    if !map.is_up(primary) {
        return Reply::fail(
            Errno::EAGAIN,
            format!("pg {pgid} primary osd.{primary} is not currently connected"),
        );
    }
    req.mon.order_scrub(std::iter::once(pgid), kind);
    Reply::done(format!("instructing pg {pgid} on osd.{primary} to {}", kind.name()))
}

fn osds(req: &mut Request<'_>, kind: Kind) -> Reply {
    let who = req.args.text("who").unwrap_or_default();
    let map = req.map();
    let osds: BTreeSet<OsdId> = match who.as_str() {
        "*" | "all" | "any" => map.osds().filter(|osd| map.is_up(*osd)).collect(),
        _ => match parse_osd(&who) {
            None => {
                let why = format!("Expected option value to be integer, got '{who}'invalid osd '{who}'");
                return Reply::fail(Errno::EINVAL, why);
            }
            Some(osd) if !map.is_up(osd) => {
                return Reply::fail(Errno::EAGAIN, format!("osd.{osd} is not up"));
            }
            Some(osd) => [osd].into(),
        },
    };
    let led = |pgid: &PgId| osds.contains(&map.pg_to_up_acting(*pgid).acting_primary);
    let pgs: Vec<PgId> = map.pgs().filter(led).collect();
    let names: Vec<String> = osds.iter().map(ToString::to_string).collect();
    req.mon.order_scrub(pgs.into_iter(), kind);
    Reply::done(format!("instructed osd(s) {} to {}", names.join(","), kind.name()))
}

fn pools(req: &mut Request<'_>, kind: Kind) -> Result<Reply, Reply> {
    let map = req.map();
    let mut pgs = Vec::new();
    for name in req.args.list("who") {
        pgs.extend(map.pgs_of(pool_named(map, &name)?));
    }
    req.mon.order_scrub(pgs.into_iter(), kind);
    Ok(Reply::default())
}
