//! PGs that cannot be used, lack copies, or lost something.

use std::{collections::BTreeMap, time::Duration};

use types::{OsdMap, PgId, PgStat, PgState, UTime};

use super::{Health, PGS_SHOWN, Severity, plural, ratio_text};
use crate::{Mon, format};

/// What a PG state means, and how long a PG has to be in it to be reported.
struct Response {
    check: PgHealthCheck,
    word: &'static str,
    state: PgState,
    /// When the PG was last not in this state; without it, the state is reported at once.
    last_otherwise: Option<fn(&PgStat) -> UTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PgHealthCheck {
    /// Requests may wait.
    Unavailable,
    /// Fewer copies than there should be.
    Degraded,
    BackfillFull,
    Damaged,
    RecoveryFull,
}

impl PgHealthCheck {
    fn summary(self) -> (&'static str, Severity, &'static str) {
        match self {
            PgHealthCheck::Unavailable => ("PG_AVAILABILITY", Severity::Warn, "Reduced data availability"),
            PgHealthCheck::Degraded => ("PG_DEGRADED", Severity::Warn, "Degraded data redundancy"),
            PgHealthCheck::BackfillFull => (
                "PG_BACKFILL_FULL",
                Severity::Warn,
                "Low space hindering backfill (add storage if this doesn't resolve itself)",
            ),
            PgHealthCheck::Damaged => ("PG_DAMAGED", Severity::Err, "Possible data damage"),
            PgHealthCheck::RecoveryFull => ("PG_RECOVERY_FULL", Severity::Err, "Full OSDs blocking recovery"),
        }
    }
}

/// A state that matters at once.
const fn at_once(check: PgHealthCheck, word: &'static str, state: PgState) -> Response {
    Response { check, word, state, last_otherwise: None }
}

/// One that matters when a PG is stuck in it.
const fn stuck(
    check: PgHealthCheck,
    word: &'static str,
    state: PgState,
    since: fn(&PgStat) -> UTime,
) -> Response {
    Response { check, word, state, last_otherwise: Some(since) }
}

/// States that matter (`PGMap::get_health_checks`), in the order of their bits, in which Ceph names them.
const RESPONSES: [Response; 11] = {
    use PgHealthCheck::{BackfillFull, Damaged, Degraded, RecoveryFull, Unavailable};
    [
        // The one state that matters when a PG is not in it.
        stuck(Unavailable, "inactive", PgState::ACTIVE, |stat| stat.last_active),
        at_once(Unavailable, "down", PgState::DOWN),
        at_once(Damaged, "recovery_unfound", PgState::RECOVERY_UNFOUND),
        at_once(Degraded, "degraded", PgState::DEGRADED),
        at_once(Damaged, "inconsistent", PgState::INCONSISTENT),
        stuck(Unavailable, "peering", PgState::PEERING, |stat| stat.times.peered),
        at_once(Unavailable, "incomplete", PgState::INCOMPLETE),
        stuck(Unavailable, "stale", PgState::STALE, |stat| stat.last_fresh),
        at_once(BackfillFull, "backfill_toofull", PgState::BACKFILL_TOOFULL),
        stuck(Degraded, "undersized", PgState::UNDERSIZED, |stat| stat.times.fullsized),
        at_once(RecoveryFull, "recovery_toofull", PgState::RECOVERY_TOOFULL),
    ]
};

impl Response {
    /// True for a PG, now in `state`, for which this matters.
    fn concerns(&self, state: PgState, stat: &PgStat, now: UTime, threshold: Duration) -> bool {
        let is_inverted = self.state == PgState::ACTIVE;
        let is_stuck = |last: fn(&PgStat) -> UTime| now.since(last(stat)) > threshold;
        state.has(self.state) != is_inverted && self.last_otherwise.is_none_or(is_stuck)
    }

    /// The line of detail on a PG that this concerns.
    fn line(&self, state: PgState, stat: &PgStat, now: UTime) -> String {
        let (pg, acting) = (stat.pgid, format::list(&stat.acting));
        let Some(last_otherwise) = self.last_otherwise else {
            let unfound = match stat.sum.unfound {
                0 => String::new(),
                unfound => format!(", {unfound} unfound"),
            };
            return format!("pg {pg} is {state}, acting {acting}{unfound}");
        };
        let last = last_otherwise(stat);
        let since = match last == UTime::default() {
            true => "since forever".to_owned(),
            false => format!("for {}", format::timespan(now.since(last))),
        };
        format!("pg {pg} is stuck {} {since}, current state {state}, last acting {acting}", self.word)
    }
}

/// What may help a PG that is incomplete, behind its line of detail.
fn incomplete_hint(map: &OsdMap, pg: PgId, state: PgState) -> Option<String> {
    let min_size = map.pools.get(&pg.pool).map(|pool| pool.min_size).filter(|size| *size > 1)?;
    let name = map.pool_name(pg.pool).unwrap_or_default();
    state.has(PgState::INCOMPLETE).then(|| {
        format!(
            " (reducing pool {name} min_size from {min_size} may help; search ceph.com/docs for 'incomplete')"
        )
    })
}

/// PGs that one check reports.
#[derive(Default)]
struct Causes {
    /// How many PGs are in each state, by the state's index in [`RESPONSES`].
    counts: BTreeMap<usize, usize>,
    /// The line of detail on each of the first PGs, by the last of its states.
    lines: BTreeMap<PgId, String>,
}

impl Mon {
    pub(super) fn check_pgs(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let threshold = self.stuck_threshold();
        let mut causes: BTreeMap<PgHealthCheck, Causes> = BTreeMap::new();
        let mut unfound = Vec::new();
        for pg in map.pgs() {
            let state = self.stats.state_of(map, pg, self.is_creating(pg));
            let stat = self.stats.report_on(map, pg);
            for (at, response) in RESPONSES.iter().enumerate() {
                if !response.concerns(state, &stat, self.wall, threshold) {
                    continue;
                }
                let causes = causes.entry(response.check).or_default();
                *causes.counts.entry(at).or_default() += 1;
                if causes.lines.len() < PGS_SHOWN || causes.lines.contains_key(&pg) {
                    let hint = incomplete_hint(map, pg, state).unwrap_or_default();
                    causes.lines.insert(pg, response.line(state, &stat, self.wall) + &hint);
                }
            }
            match stat.sum.unfound {
                0 => {}
                _ if unfound.len() > PGS_SHOWN => {}
                _ if unfound.len() == PGS_SHOWN => {
                    unfound.push("(additional pgs left out for brevity)".to_owned());
                }
                objects => unfound.push(format!("pg {pg} has {objects} unfound objects")),
            }
        }
        let total = self.stats.total();
        for (check, causes) in causes {
            let (code, severity, text) = check.summary();
            let copies = (check == PgHealthCheck::Degraded && total.degraded > 0)
                .then(|| ratio_text(total.degraded, total.object_copies, "degraded"));
            let states =
                causes.counts.iter().map(|(at, n)| format!("{n} pg{} {}", plural(*n), RESPONSES[*at].word));
            let parts: Vec<String> = copies.into_iter().chain(states).collect();
            let text = format!("{text}: {}", parts.join(", "));
            let count = causes.counts.values().sum();
            health.add(code, severity, text, count, causes.lines.into_values().collect());
        }
        self.check_objects(unfound, health);
    }

    /// How long a PG has to be in a state to count as stuck.
    pub(crate) fn stuck_threshold(&self) -> Duration {
        let secs = self.manager_number("mon_pg_stuck_threshold");
        Duration::try_from_secs_f64(secs).unwrap_or_default()
    }

    /// Objects in the wrong place, and those that are nowhere: `unfound` says in which PGs.
    fn check_objects(&self, unfound: Vec<String>, health: &mut Health) {
        let total = self.stats.total();
        if total.misplaced > 0 && self.manager_option("mon_warn_on_misplaced").as_deref() == Some("true") {
            let text = ratio_text(total.misplaced, total.object_copies, "misplaced");
            health.add("OBJECT_MISPLACED", Severity::Warn, text, total.misplaced as usize, Vec::new());
        }
        if total.unfound > 0 {
            let text = ratio_text(total.unfound, total.objects, "unfound");
            health.add("OBJECT_UNFOUND", Severity::Warn, text, total.unfound as usize, unfound);
        }
    }

    /// True for a PG that waits to be made.
    pub(crate) fn is_creating(&self, pg: PgId) -> bool {
        self.committed.creating.get(&pg.pool).is_some_and(|c| c.seeds.contains(&pg.seed))
    }
}
