//! PGs: small questions.

use std::time::Duration;

use serde_json::{Value, json};
use types::{Errno, OsdId, PgId, PgStat, PgState, PoolId, UTime};

use super::{Reply, Request, Row, activity, named::parse_osd, pg_dump::pg_json, status::pgs_by_state};
use crate::{
    Mon,
    format::{self, Align, TextTable},
};

pub(super) const ROWS: &[Row] = &[
    Row { sig: "pg stat", help: "show placement group status.", module: "pg", perm: "r", run: stat },
    Row {
        sig: "pg map name=pgid,type=CephPgid",
        help: "show mapping of pg to osds",
        module: "pg",
        perm: "r",
        run: map_pg,
    },
    Row {
        sig: "pg ls name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false",
        help: "list pg with specific pool, osd, state",
        module: "pg",
        perm: "r",
        run: |req| ls(req).into(),
    },
    Row {
        sig: "pg ls-by-pool name=poolstr,type=CephString name=states,type=CephString,n=N,req=false",
        help: "list pg with pool = [poolname]",
        module: "pg",
        perm: "r",
        run: |req| ls_by_pool(req).into(),
    },
    Row {
        sig: "pg ls-by-osd name=osd,type=CephOsdName name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false",
        help: "list pg on osd [osd]",
        module: "pg",
        perm: "r",
        run: |req| ls_by_osd(req).into(),
    },
    Row {
        sig: "pg ls-by-primary name=osd,type=CephOsdName name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false",
        help: "list pg with primary = [osd]",
        module: "pg",
        perm: "r",
        run: |req| ls_by_primary(req).into(),
    },
    Row {
        sig: "pg dump_stuck name=stuckops,type=CephChoices,strings=inactive|unclean|stale|undersized|degraded,n=N,req=false name=threshold,type=CephInt,req=false",
        help: "show information about stuck pgs",
        module: "pg",
        perm: "r",
        run: dump_stuck,
    },
    Row {
        sig: "pg debug name=debugop,type=CephChoices,strings=unfound_objects_exist|degraded_pgs_exist",
        help: "show debug info about pgs",
        module: "pg",
        perm: "r",
        run: debug,
    },
];

fn stat(req: &mut Request<'_>) -> Reply {
    let mon = &*req.mon;
    let map = &mon.committed.osdmap;
    let devices = mon.stats.all_devices(map);
    let total = mon.stats.total();
    let states = pgs_by_state(mon);
    let json = || {
        let by_state: Vec<Value> =
            states.iter().map(|(name, num)| json!({"name": name, "num": num})).collect();
        let mut summary = json!({
            "num_pg_by_state": by_state,
            "num_pgs": map.pgs().count(),
            "num_bytes": total.bytes,
            "total_bytes": devices.kb << 10,
            "total_avail_bytes": devices.kb_avail << 10,
            "total_used_bytes": devices.kb_used << 10,
            "total_used_raw_bytes": devices.kb_used << 10,
        });
        let rates = mon.stats.rates(None);
        if let Some(out) = summary.as_object_mut() {
            let client = activity::client_bytes(&rates);
            let io = (!client.is_empty()).then(|| ("io_sec".to_owned(), rates.ops().into()));
            out.extend(client.into_iter().chain(io));
            out.extend(activity::recovery(&total));
            out.extend(activity::recovery_rate(&rates));
        }
        json!({"pg_ready": true, "pg_summary": summary})
    };
    Reply::show(req.args, json, || pgmap_line(mon) + "\n")
}

/// What `pg stat` prints, and what a session that debugs gets from the cluster log every two seconds.
pub(crate) fn pgmap_line(mon: &Mon) -> String {
    let map = &mon.committed.osdmap;
    let devices = mon.stats.all_devices(map);
    let total = mon.stats.total();
    let states: Vec<String> = pgs_by_state(mon).iter().map(|(name, num)| format!("{num} {name}")).collect();
    let mut out = format!(
        "{} pgs: {}; {} data, {} used, {} / {} avail",
        map.pgs().count(),
        states.join(", "),
        format::bytes(total.bytes),
        format::bytes(devices.kb_used << 10),
        format::bytes(devices.kb_avail << 10),
        format::bytes(devices.kb << 10)
    );
    let rates = mon.stats.rates(None);
    let client = activity::client_rate_text(&rates, activity::ops_together);
    let recovery = activity::recovery_rate_text(&rates).map(|text| format!("{text} recovering"));
    let parts = client.into_iter().chain(activity::recovery_lines(&total)).chain(recovery);
    out.extend(parts.map(|part| format!("; {part}")));
    out
}

fn map_pg(req: &mut Request<'_>) -> Reply {
    let text = req.args.text("pgid").unwrap_or_default();
    let map = req.map();
    let Some(raw) = PgId::parse(&text) else {
        return Reply::fail(Errno::EINVAL, format!("invalid pgid '{text}'"));
    };
    let Some(pool) = map.pools.get(&raw.pool) else {
        return Reply::fail(Errno::ENOENT, format!("pg '{raw}' does not exist"));
    };
    let pg = pool.pg_of_hash(raw.pool, raw.seed);
    let at = map.pg_to_up_acting(pg);
    let ids = |osds: &[OsdId]| osds.iter().map(|osd| osd.0).collect::<Vec<_>>();
    let json = || {
        json!({
            "epoch": map.epoch.0,
            "raw_pgid": raw.to_string(),
            "pgid": pg.to_string(),
            "up": ids(&at.up),
            "acting": ids(&at.acting),
        })
    };
    let (up, acting) = (format::list(&at.up), format::list(&at.acting));
    Reply::show(req.args, json, || {
        format!("osdmap e{} pg {raw} ({pg}) -> up {up} acting {acting}\n", map.epoch)
    })
}

/// All PGs, with what is known of them.
pub(super) fn all_stats(mon: &Mon) -> Vec<PgStat> {
    let map = &mon.committed.osdmap;
    map.pgs().map(|pg| mon.stats.stat_of(map, pg, mon.is_creating(pg))).collect()
}

/// The states that the refusal of others names: Ceph's text has those of 32 bits.
const STATES: &str = "stale+creating+active+activating+clean+recovery_wait+recovery_toofull+recovering+forced_recovery+down+recovery_unfound+backfill_unfound+undersized+degraded+remapped+premerge+scrubbing+deep+inconsistent+peering+repair+backfill_wait+backfilling+forced_backfill+backfill_toofull+incomplete+peered+snaptrim+snaptrim_wait+snaptrim_error";

/// Further words for states that Ceph takes.
const MORE_STATES: [&str; 4] = ["unknown", "failed_repair", "laggy", "wait"];

/// The states that the caller asks for, none for all of them. As in Ceph, the words are read from the last one on, and
/// `all` ends that.
fn states_arg(req: &Request<'_>) -> Result<Vec<String>, Reply> {
    let states = req.args.list("states");
    let all = states.iter().rposition(|state| state == "all");
    let is_known =
        |state: &str| MORE_STATES.contains(&state) || STATES.split('+').any(|known| known == state);
    let mut read = states.iter().skip(all.map_or(0, |at| at + 1)).rev();
    if let Some(state) = read.find(|state| !is_known(state)) {
        let why = format!("'{state}' is not a valid pg state, available choices: {STATES}");
        return Err(Reply::fail(Errno::EINVAL, why));
    }
    Ok(if all.is_some() { Vec::new() } else { states })
}

fn has_states(stat: &PgStat, states: &[String]) -> bool {
    let text = stat.state.to_string();
    let has = |wanted: &String| text.split('+').any(|state| state == wanted);
    states.is_empty() || states.iter().any(has)
}

/// The PGs of a pool, or of all, that are wanted and in one of the states asked for.
fn list(req: &Request<'_>, pool: Option<PoolId>, wanted: impl Fn(&PgStat) -> bool) -> Result<Reply, Reply> {
    let states = states_arg(req)?;
    let mut stats = all_stats(req.mon);
    stats.retain(|stat| {
        pool.is_none_or(|pool| pool == stat.pgid.pool) && wanted(stat) && has_states(stat, &states)
    });
    let json = || json!({"pg_ready": true, "pg_stats": stats.iter().map(pg_json).collect::<Vec<_>>()});
    Ok(Reply::show(req.args, json, || list_text(&stats, req.wall)))
}

/// The pool of an id, where one is given.
fn pool_id_arg(req: &Request<'_>) -> Result<Option<PoolId>, Reply> {
    let pool = req.args.int("pool").map(PoolId);
    match pool.filter(|pool| !req.map().pools.contains_key(pool)) {
        Some(pool) => Err(Reply::fail(Errno::ENOENT, format!("pool {pool} does not exist"))),
        None => Ok(pool),
    }
}

fn ls(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let pool = pool_id_arg(req)?;
    list(req, pool, |_| true)
}

fn ls_by_pool(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let name = req.args.text("poolstr").unwrap_or_default();
    match req.map().pool_by_name(&name) {
        Some((id, _)) => list(req, Some(id), |_| true),
        None => Err(Reply::fail(Errno::ENOENT, format!("pool {name} does not exist"))),
    }
}

fn osd_arg(req: &Request<'_>) -> Result<OsdId, Reply> {
    let text = req.args.text("osd").unwrap_or_default();
    let osd = parse_osd(&text).filter(|osd| req.map().is_up(*osd));
    osd.ok_or_else(|| Reply::fail(Errno::EAGAIN, format!("osd {text} is not up")))
}

fn ls_by_osd(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (pool, osd) = (pool_id_arg(req)?, osd_arg(req)?);
    list(req, pool, |stat| stat.acting.contains(&osd))
}

fn ls_by_primary(req: &mut Request<'_>) -> Result<Reply, Reply> {
    let (pool, osd) = (pool_id_arg(req)?, osd_arg(req)?);
    list(req, pool, |stat| stat.acting_primary == osd)
}

/// What dumps say of omap statistics.
pub(super) const OMAP_NOTE: &str = "\n* NOTE: Omap statistics are gathered during deep scrub and may be inaccurate soon afterwards depending on utilization. See http://docs.ceph.com/en/latest/dev/placement-group/#omap-statistics for further details.\n";

fn list_text(stats: &[PgStat], wall: UTime) -> String {
    let (l, r) = (Align::Left, Align::Right);
    let headings = [
        ("PG", l),
        ("OBJECTS", r),
        ("DEGRADED", r),
        ("MISPLACED", r),
        ("UNFOUND", r),
        ("BYTES", r),
        ("OMAP_BYTES*", r),
        ("OMAP_KEYS*", r),
        ("LOG", r),
        ("STATE", l),
        ("SINCE", r),
        ("VERSION", r),
        ("REPORTED", r),
        ("UP", r),
        ("ACTING", r),
        ("SCRUB_STAMP", r),
        ("DEEP_SCRUB_STAMP", r),
    ];
    let mut table = TextTable::default();
    for (heading, align) in headings {
        table = table.column(heading, l, align);
    }
    for stat in stats {
        let sum = &stat.sum;
        let mut cells = vec![stat.pgid.to_string()];
        let numbers = [
            sum.objects,
            sum.degraded,
            sum.misplaced,
            sum.unfound,
            sum.bytes,
            sum.omap_bytes,
            sum.omap_keys,
            stat.log_size,
        ];
        cells.extend(numbers.map(|n| n.to_string()));
        cells.extend([
            stat.state.to_string(),
            format::timespan(wall.since(stat.last_change)),
            stat.version.to_string(),
            format!("{}:{}", stat.reported_epoch, stat.reported_seq),
            format!("{}p{}", format::list(&stat.up), stat.up_primary),
            format!("{}p{}", format::list(&stat.acting), stat.acting_primary),
            stat.scrubs.last_scrub_stamp.to_string(),
            stat.scrubs.last_deep_scrub_stamp.to_string(),
        ]);
        table.row(cells);
    }
    table.render() + OMAP_NOTE
}

fn dump_stuck(req: &mut Request<'_>) -> Reply {
    let kinds = match req.args.list("stuckops") {
        kinds if kinds.is_empty() => vec!["unclean".to_owned()],
        kinds => kinds,
    };
    let threshold = req.args.int("threshold").and_then(|secs| u64::try_from(secs).ok());
    let threshold = threshold.map_or_else(|| req.mon.stuck_threshold(), Duration::from_secs);
    let is_stuck = |stat: &PgStat| {
        kinds.iter().any(|kind| {
            // When the PG was last in another state.
            let (is_so, last) = match kind.as_str() {
                "inactive" => (!stat.state.has(PgState::ACTIVE), stat.last_active),
                "unclean" => (!stat.state.has(PgState::CLEAN), stat.last_clean),
                "stale" => (stat.state.has(PgState::STALE), stat.last_fresh),
                "undersized" => (stat.state.has(PgState::UNDERSIZED), stat.times.fullsized),
                _ => (stat.state.has(PgState::DEGRADED), stat.times.undegraded),
            };
            is_so && req.wall.since(last) > threshold
        })
    };
    let mut stats = all_stats(req.mon);
    stats.retain(is_stuck);
    let json = || {
        let all: Vec<Value> = stats.iter().map(pg_json).collect();
        json!({"pg_ready": true, "stuck_pg_stats": all})
    };
    let text = || if stats.is_empty() { String::new() } else { super::pg_dump_text::brief_text(&stats) };
    Reply::show(req.args, json, text).with_status("ok")
}

/// A question with one word for an answer.
fn debug(req: &mut Request<'_>) -> Reply {
    let is_so = match req.args.text("debugop").as_deref() {
        Some("unfound_objects_exist") => req.mon.stats.total().unfound > 0,
        _ => all_stats(req.mon).iter().any(|stat| stat.state.has(PgState::DEGRADED)),
    };
    let text = if is_so { "TRUE\n" } else { "FALSE\n" };
    // As with 16.2, a document follows where one is asked for, but does not hold the answer.
    let document = Reply::show(req.args, || json!({"pg_ready": true}), String::new).output;
    Reply::text([text.as_bytes(), &document].concat())
}
