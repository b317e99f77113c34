//! Commands to one PG; its primary answers.

use std::time::Duration;

use pg::{GiveUp, ScrubRequest};
use serde_json::json;
use types::{Errno, PgId};

use super::{Answer, Call, Refusal};
use crate::{Osd, osd::Ctx};

/// The PG that the call names, which this OSD must lead.
fn pg_of(osd: &Osd, call: &Call) -> Result<PgId, Refusal> {
    let Some(text) = call.text("pgid") else {
        return Err((Errno::EINVAL, "no pgid specified".to_owned()));
    };
    let Some(pgid) = PgId::parse(&text) else {
        return Err((Errno::EINVAL, format!("couldn't parse pgid '{text}'")));
    };
    match osd.pgs.get(pgid) {
        None => Err((Errno::ENOENT, format!("i don't have pgid {pgid}"))),
        // Clients ask the next primary for themselves when they get this.
        Some(pg) if !pg.is_primary() => Err((Errno::EAGAIN, format!("not primary for pgid {pgid}"))),
        Some(_) => Ok(pgid),
    }
}

pub(super) fn query(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    let pgid = pg_of(osd, call)?;
    let map = &osd.map;
    Ok(osd.pgs.get_mut(pgid).map(|pg| pg.query(map, ctx.wall)))
}

pub(super) fn list_unfound(osd: &mut Osd, call: &Call, _: &mut Ctx<'_>) -> Answer {
    let pgid = pg_of(osd, call)?;
    Ok(osd.pgs.get(pgid).map(|pg| pg.list_unfound(&osd.map)))
}

/// Gives up the objects that no OSD can supply (`PrimaryLogPG::do_command`).
pub(super) fn mark_unfound_lost(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    let pgid = pg_of(osd, call)?;
    let how = match call.text("mulcmd").as_deref() {
        Some("revert") => GiveUp::Revert,
        Some("delete") => GiveUp::Delete,
        _ => {
            let why = "mode must be 'revert' or 'delete'; mark not yet implemented";
            return Err((Errno::EINVAL, why.to_owned()));
        }
    };
    let status = osd.give_up(pgid, how, ctx).map_err(|why| (Errno::EINVAL, why))?;
    osd.answer_line(call, status, ctx);
    Ok(None)
}

/// `tell PGID scrub` and its like.
fn scrub(osd: &mut Osd, call: &Call, is_deep: bool, ctx: &mut Ctx<'_>) -> Answer {
    let pgid = pg_of(osd, call)?;
    osd.scrub_pg(pgid, ScrubRequest { is_deep, is_repair: false }, ctx);
    let stamp = osd.pgs.get(pgid).map(|pg| pg.scrub_history()).unwrap_or_default();
    let stamp = if is_deep { stamp.last_deep_scrub_stamp } else { stamp.last_scrub_stamp };
    Ok(Some(json!({"deep": is_deep, "must": true, "stamp": stamp.to_string()})))
}

pub(super) fn shallow_scrub(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    scrub(osd, call, false, ctx)
}

pub(super) fn deep_scrub(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    scrub(osd, call, true, ctx)
}

/// The age that a PG's last scrub is given: a little more than the interval, so that random delays do not put the next
/// one off. Seconds and interval may be as long as a number gets.
pub(super) fn age(seconds: Option<u64>, interval: Duration) -> Duration {
    seconds.map_or(interval, Duration::from_secs).saturating_add(Duration::from_secs(100))
}

/// `tell PGID schedule-scrub` and its like.
fn schedule(osd: &mut Osd, call: &Call, is_deep: bool, ctx: &mut Ctx<'_>) -> Answer {
    let pgid = pg_of(osd, call)?;
    let policy = &osd.scrub_policy;
    let usual = if is_deep { policy.deep_interval } else { policy.max_interval };
    let ago = age(call.int("time"), usual);
    let mut stamp = None;
    osd.with_pg(pgid, ctx, |pg, pg_ctx| stamp = Some(pg.schedule_scrub(is_deep, ago, pg_ctx)));
    Ok(stamp.map(|stamp| json!({"deep": is_deep, "must": false, "stamp": stamp.to_string()})))
}

pub(super) fn schedule_shallow(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    schedule(osd, call, false, ctx)
}

pub(super) fn schedule_deep(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    schedule(osd, call, true, ctx)
}

/// `pg ID query`, with the command's word in `cmd`.
pub(super) fn by_word(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    match call.text("cmd").as_deref() {
        Some("query") => query(osd, call, ctx),
        Some("list_unfound") => list_unfound(osd, call, ctx),
        Some("mark_unfound_lost") => mark_unfound_lost(osd, call, ctx),
        Some("scrub") => shallow_scrub(osd, call, ctx),
        Some("deep-scrub" | "deep_scrub") => deep_scrub(osd, call, ctx),
        word => Err((Errno::EINVAL, format!("unknown command prefix {}", word.unwrap_or_default()))),
    }
}
