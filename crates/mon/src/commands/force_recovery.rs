//! PGs that operators want recovered before others. The OSDs that lead them are told.
//!
//! Authority: `DaemonServer::_handle_command` (16.2). Nothing is backfilled here; what Ceph calls backfill is recovery
//! here, of PGs in need of it.

use std::collections::BTreeMap;

use messages::MOSDForceRecovery;
use types::{Errno, OsdId, PgId, PgStat, PgState};

use super::{Reply, Request, Row, named::pool_named, pg::all_stats, scrub::row};

pub(super) const ROWS: &[Row] = &[
    row("pg force-recovery name=pgid,type=CephPgid,n=N", "force recovery of <pgid> first", force_recovery),
    row("pg force-backfill name=pgid,type=CephPgid,n=N", "force backfill of <pgid> first", force_backfill),
    row(
        "pg cancel-force-recovery name=pgid,type=CephPgid,n=N",
        "restore normal recovery priority of <pgid>",
        cancel_recovery,
    ),
    row(
        "pg cancel-force-backfill name=pgid,type=CephPgid,n=N",
        "restore normal backfill priority of <pgid>",
        cancel_backfill,
    ),
    row(
        "osd pool force-recovery name=who,type=CephPoolname,n=N",
        "force recovery of specified pool <who> first",
        force_recovery,
    ),
    row(
        "osd pool force-backfill name=who,type=CephPoolname,n=N",
        "force backfill of specified pool <who> first",
        force_backfill,
    ),
    row(
        "osd pool cancel-force-recovery name=who,type=CephPoolname,n=N",
        "restore normal recovery priority of specified pool <who>",
        cancel_recovery,
    ),
    row(
        "osd pool cancel-force-backfill name=who,type=CephPoolname,n=N",
        "restore normal recovery priority of specified pool <who>",
        cancel_backfill,
    ),
];

/// What is wanted.
#[derive(Clone, Copy)]
struct Order {
    is_backfill: bool,
    is_forced: bool,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Order { is_backfill: false, is_forced: true } => "force-recovery",
            Order { is_backfill: true, is_forced: true } => "force-backfill",
            Order { is_backfill: false, is_forced: false } => "cancel-force-recovery",
            Order { is_backfill: true, is_forced: false } => "cancel-force-backfill",
        }
    }

    /// Why the order makes no sense for a PG, if it does not.
    fn objection(self, stat: &PgStat) -> Option<String> {
        let (what, doing, bit, busy) = match self.is_backfill {
            false => (
                "recovery",
                "recovery",
                PgState::FORCED_RECOVERY,
                [PgState::DEGRADED, PgState::RECOVERY_WAIT, PgState::RECOVERING],
            ),
            true => (
                "backfill",
                "backfilling",
                PgState::FORCED_BACKFILL,
                [PgState::DEGRADED, PgState::BACKFILL_WAIT, PgState::BACKFILLING],
            ),
        };
        let is_busy = busy.iter().any(|state| stat.state.has(*state));
        match (self.is_forced, stat.state.has(bit)) {
            (true, _) if !is_busy => Some(format!("doesn't require {doing}")),
            (true, true) => Some(format!("{what} already forced")),
            (false, false) => Some(format!("{what} not forced")),
            (true, false) | (false, true) => None,
        }
    }
}

fn force_recovery(req: &mut Request<'_>) -> Reply {
    run(req, Order { is_backfill: false, is_forced: true }).into()
}

fn force_backfill(req: &mut Request<'_>) -> Reply {
    run(req, Order { is_backfill: true, is_forced: true }).into()
}

fn cancel_recovery(req: &mut Request<'_>) -> Reply {
    run(req, Order { is_backfill: false, is_forced: false }).into()
}

fn cancel_backfill(req: &mut Request<'_>) -> Reply {
    run(req, Order { is_backfill: true, is_forced: false }).into()
}

/// The PGs that the request names, and a text on those that do not exist.
fn named(req: &Request<'_>) -> Result<(Vec<PgId>, String), Reply> {
    let map = req.map();
    let mut pgs = Vec::new();
    for name in req.args.list("who") {
        pgs.extend(map.pgs_of(pool_named(map, &name)?));
    }
    let mut unknown = String::new();
    for text in req.args.list("pgid") {
        match PgId::parse(&text) {
            Some(pgid) if map.pg_exists(pgid) => pgs.push(pgid),
            Some(pgid) => unknown.push_str(&format!("pg {pgid} does not exist; ")),
            None => return Err(Reply::fail(Errno::EINVAL, format!("invalid pgid '{text}'"))),
        }
    }
    pgs.sort_unstable();
    pgs.dedup();
    Ok((pgs, unknown))
}

fn run(req: &mut Request<'_>, order: Order) -> Result<Reply, Reply> {
    let (pgs, unknown) = named(req)?;
    let mut text = String::new();
    let mut by_osd: BTreeMap<OsdId, Vec<PgId>> = BTreeMap::new();
    for stat in all_stats(req.mon).into_iter().filter(|stat| pgs.contains(&stat.pgid)) {
        match order.objection(&stat) {
            Some(why) => text.push_str(&format!("pg {} {why}; ", stat.pgid)),
            None => by_osd.entry(stat.acting_primary).or_default().push(stat.pgid),
        }
    }
    text.push_str(&unknown);
    if by_osd.is_empty() && !unknown.is_empty() {
        return Err(Reply::fail(Errno::ENOENT, text + "\n"));
    }
    let epoch = req.map().epoch;
    for (osd, pgs) in by_osd {
        if !req.map().is_up(osd) {
            continue;
        }
        let names: Vec<String> = pgs.iter().map(ToString::to_string).collect();
        text.push_str(&format!("instructing pg(s) [{}] on osd.{osd} to {}; ", names.join(","), order.name()));
        let Order { is_backfill, is_forced } = order;
        let message = MOSDForceRecovery { epoch, pgs, is_backfill, is_forced };
        req.mon.orders.push((osd, message.into()));
    }
    text.push('\n');
    Ok(Reply::done(text))
}
