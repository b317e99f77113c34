//! May OSDs be stopped or destroyed? Answers that orchestration tools wait for before they act.
//!
//! Authority: `DaemonServer::_handle_command` (`osd safe-to-destroy`, `osd ok-to-stop`), 16.2.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use types::{Errno, OsdId, OsdMap, PgStat, PgState};

use super::{Reply, Request, Row, named::parse_osd, pg::all_stats};

pub(super) const ROWS: &[Row] = &[
    Row {
        sig: "osd ok-to-stop name=ids,type=CephString,n=N name=max,type=CephInt,req=false",
        help: "check whether osd(s) can be safely stopped without reducing immediate data availability",
        module: "osd",
        perm: "r",
        run: |req| ok_to_stop(req).into(),
    },
    Row {
        sig: "osd safe-to-destroy name=ids,type=CephString,n=N",
        help: "check whether osd(s) can be safely destroyed without reducing data durability",
        module: "osd",
        perm: "r",
        run: |req| safe_to_destroy(req).into(),
    },
];

/// The ids asked for, existing or not.
fn ids_arg(req: &Request<'_>) -> Result<BTreeSet<OsdId>, Reply> {
    let mut out = BTreeSet::new();
    for text in req.args.list("ids") {
        if matches!(text.as_str(), "any" | "all" | "*") {
            out.extend(req.map().osds());
            break;
        }
        let Some(osd) = parse_osd(&text) else {
            let why = format!("Expected option value to be integer, got '{text}'invalid osd id '{text}'");
            return Err(Reply::fail(Errno::EINVAL, why));
        };
        out.insert(osd);
    }
    match out.is_empty() {
        true => Err(Reply::fail(Errno::EINVAL, "must specify one or more OSDs")),
        false => Ok(out),
    }
}

/// The refusal to say anything while no OSD has reported some PGs.
fn unknown_pgs(count: usize) -> Reply {
    Reply::fail(Errno::EAGAIN, format!("{count} pgs have unknown state; cannot draw any conclusions"))
}

fn ids<'a>(osds: impl IntoIterator<Item = &'a OsdId>) -> Vec<i32> {
    osds.into_iter().map(|osd| osd.0).collect()
}

/// True for a member that can serve alone: it is not known to lack an object, of which the OSDs that are to be stopped
/// may have the last copy. Where copies are lacking and the report does not say which members lack them, only the
/// primary is relied on.
fn has_all(stat: &PgStat, osd: OsdId) -> bool {
    let is_lacking = [PgState::RECOVERING, PgState::RECOVERY_TOOFULL, PgState::RECOVERY_UNFOUND]
        .iter()
        .any(|state| stat.state.has(*state));
    match stat.lacking.is_empty() && is_lacking {
        true => osd == stat.acting_primary && stat.sum.missing_on_primary == 0,
        false => !stat.lacking.contains(&osd),
    }
}

/// True where a PG would not be active without these of its OSDs. Those that have everything are needed until
/// `min_size` others have everything, too; those that are known to lack objects, only where no other member has all.
/// Ceph does not look at the latter at all, though the PG may be left with too few members. Nor does it look at which
/// members are down already: a report from before still names them.
fn ends_activity(map: &OsdMap, stat: &PgStat, osds: &BTreeSet<OsdId>, min_size: usize) -> bool {
    let left = || stat.acting.iter().filter(|osd| map.is_up(**osd) && !osds.contains(osd));
    let whole = left().filter(|osd| has_all(stat, **osd)).count();
    let may_stop_whole = stat.acting.iter().any(|osd| osds.contains(osd) && !stat.lacking.contains(osd));
    left().count() < min_size || whole < if may_stop_whole { min_size } else { 1 }
}

/// What a stop of some OSDs would do to PGs.
#[derive(Default)]
struct StopReport {
    /// PGs with a copy on one of them.
    touched: usize,
    unknown: Vec<String>,
    no_pool: Vec<String>,
    inactive_now: Vec<String>,
    inactive_then: Vec<String>,
    degraded: Vec<String>,
    more_degraded: Vec<String>,
}

impl StopReport {
    fn of(map: &OsdMap, stats: &[PgStat], osds: &BTreeSet<OsdId>) -> StopReport {
        let mut out = StopReport::default();
        for stat in stats {
            let is_touched = stat.acting.iter().any(|osd| osds.contains(osd));
            // A PG whose primary is down may lack more members than its report tells.
            if stat.state == PgState::default() || is_touched && stat.state.has(PgState::STALE) {
                out.unknown.push(stat.pgid.to_string());
                continue;
            }
            if !is_touched {
                continue;
            }
            out.touched += 1;
            let group = match map.pools.get(&stat.pgid.pool) {
                None => &mut out.no_pool,
                Some(_) if !stat.state.has(PgState::ACTIVE) => &mut out.inactive_now,
                Some(pool) if ends_activity(map, stat, osds, pool.min_size.into()) => &mut out.inactive_then,
                Some(_) if stat.state.has(PgState::DEGRADED) => &mut out.more_degraded,
                Some(_) => &mut out.degraded,
            };
            group.push(stat.pgid.to_string());
        }
        out
    }

    fn is_ok(&self) -> bool {
        self.bad_count() == 0 && self.unknown.is_empty()
    }

    /// PGs that would be offline.
    fn bad_count(&self) -> usize {
        self.no_pool.len() + self.inactive_now.len() + self.inactive_then.len()
    }

    fn to_json(&self, osds: &BTreeSet<OsdId>) -> Value {
        let mut out = Map::new();
        let bad = self.bad_count();
        out.insert("ok_to_stop".to_owned(), self.is_ok().into());
        out.insert("osds".to_owned(), json!(ids(osds)));
        out.insert("num_ok_pgs".to_owned(), (self.touched - bad).into());
        out.insert("num_not_ok_pgs".to_owned(), bad.into());
        for (group, pgs) in [
            ("unknown_pgs", &self.unknown),
            ("bad_no_pool_pgs", &self.no_pool),
            ("bad_already_inactive", &self.inactive_now),
            ("bad_become_inactive", &self.inactive_then),
            ("ok_become_degraded", &self.degraded),
            ("ok_become_more_degraded", &self.more_degraded),
        ] {
            if !pgs.is_empty() {
                out.insert(group.to_owned(), json!(pgs));
            }
        }
        out.into()
    }
}

/// Adds OSDs near the first one, bucket by bucket upwards, up to `max` OSDs that may all be stopped at once. As soon as
/// an OSD in a bucket may not be stopped, wider buckets are not looked at.
fn widen(map: &OsdMap, stats: &[PgStat], osds: &mut BTreeSet<OsdId>, max: usize) {
    let crush = map.crush.map();
    let Some(mut at) = osds.first().map(|osd| osd.0) else { return };
    // A CRUSH tree has no more levels than buckets.
    for _ in crush.all_buckets() {
        let Some(parent) = crush.parent_of(at) else { return };
        at = parent;
        let mut near = Vec::new();
        crush.devices_below(parent, &mut near);
        near.sort_unstable();
        let mut is_refused = false;
        for osd in near.into_iter().map(OsdId) {
            if osds.len() >= max {
                return;
            }
            if !map.is_up(osd) || !osds.insert(osd) {
                continue;
            }
            if !StopReport::of(map, stats, osds).is_ok() {
                osds.remove(&osd);
                is_refused = true;
            }
        }
        if is_refused {
            return;
        }
    }
}

fn ok_to_stop(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let mut osds = ids_arg(req)?;
    let max = req.args.int("max").and_then(|max| usize::try_from(max).ok()).unwrap_or(1);
    let (map, stats) = (req.map(), all_stats(req.mon));
    let mut report = StopReport::of(map, &stats, &osds);
    if report.is_ok() && osds.len() < max {
        widen(map, &stats, &mut osds, max);
        report = StopReport::of(map, &stats, &osds);
    }
    let bad = report.bad_count();
    let out = report.to_json(&osds);
    // One line in both forms, as the stock manager prints it.
    let plain = out.to_string() + "\n";
    let reply = Reply::show(req.args, || out, || plain);
    if report.is_ok() {
        return Ok(reply);
    }
    if !report.unknown.is_empty() {
        return Err(Reply { output: reply.output, ..unknown_pgs(report.unknown.len()) });
    }
    let why = format!("unsafe to stop osd(s) at this time ({bad} PGs are or would become offline)");
    Err(Reply { result: Errno::EBUSY.negated(), ..reply }.with_status(why))
}

fn safe_to_destroy(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let osds = ids_arg(req)?;
    // Whether a format is asked for or not.
    let judged = judge(req, &osds)?;
    if req.args.has_format() {
        // Where a format is asked for, the answer is in the document, not in the result.
        let out = json!({
            "safe_to_destroy": judged.safe,
            "active": judged.active,
            "missing_stats": judged.missing,
            "stored_pgs": judged.stored,
        });
        return Ok(Reply::json(req.args, out));
    }
    Ok(verdict(&judged))
}

/// OSDs by what can be said of them.
#[derive(Default)]
struct Judged {
    safe: Vec<i32>,
    active: Vec<i32>,
    /// PGs on the active ones.
    affected: usize,
    missing: Vec<i32>,
    stored: Vec<i32>,
}

fn judge(req: &Request<'_>, osds: &BTreeSet<OsdId>) -> Result<Judged, Reply> {
    let map = req.map();
    let stats = all_stats(req.mon);
    let unknown = stats.iter().filter(|stat| stat.state == PgState::default()).count();
    if unknown > 0 {
        return Err(unknown_pgs(unknown));
    }
    let is_clean = |state: PgState| state.has(PgState::ACTIVE) && state.has(PgState::CLEAN);
    let are_all_clean = stats.iter().all(|stat| is_clean(stat.state));
    let mut out = Judged::default();
    for osd in osds {
        let pgs = stats.iter().filter(|s| s.acting.contains(osd) || s.up.contains(osd)).count();
        let stat = req.mon.stats.osd(*osd).filter(|_| map.is_up(*osd));
        let list = if !map.exists(*osd) {
            &mut out.safe
        } else if pgs > 0 {
            out.affected += pgs;
            &mut out.active
        } else if are_all_clean {
            &mut out.safe
        } else if let Some(stat) = stat {
            if stat.pg_count > 0 { &mut out.stored } else { &mut out.safe }
        } else {
            &mut out.missing
        };
        list.push(osd.0);
    }
    Ok(out)
}

/// The refusal to destroy an OSD, unless nothing needs it.
pub(super) fn why_not_destroy(req: &Request<'_>, osd: OsdId) -> Option<Reply> {
    let reply = judge(req, &BTreeSet::from([osd])).map_or_else(|refusal| refusal, |judged| verdict(&judged));
    (reply.result != 0).then_some(reply)
}

/// The answer in words: `EBUSY` while PGs are there, `EAGAIN` while the state of some is not known.
fn verdict(judged: &Judged) -> Reply {
    let Judged { safe, active, affected, missing, stored } = judged;
    let list = |ids: &[i32]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let is_safe = format!("OSD(s) {} are safe to destroy without reducing data durability.", list(safe));
    let (mut errno, mut why) = (None, Vec::new());
    if !safe.is_empty() {
        why.push(format!("{is_safe} "));
    }
    if !active.is_empty() {
        why.push(format!("OSD(s) {} have {affected} pgs currently mapped to them. ", list(active)));
        errno = Some(Errno::EBUSY);
    }
    if !missing.is_empty() {
        why.push(format!(
            "OSD(s) {} have no reported stats, and not all PGs are active+clean; we cannot draw any conclusions. ",
            list(missing)
        ));
        errno = errno.or(Some(Errno::EAGAIN));
    }
    if !stored.is_empty() {
        why.push(format!(
            "OSD(s) {} last reported they still store some PG data, and not all PGs are active+clean; we cannot be sure they aren't still needed. ",
            list(stored)
        ));
        errno = Some(Errno::EBUSY);
    }
    match errno {
        Some(errno) => Reply::fail(errno, why.concat()),
        None => Reply::done(is_safe),
    }
}
