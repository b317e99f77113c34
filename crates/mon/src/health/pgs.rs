//! PGs that cannot be used, or lack copies.

use std::collections::BTreeMap;

use types::{PgId, PgStat, PgState};

use super::{Health, Severity, plural, ratio_text};
use crate::Mon;

/// States that keep data from being read or written.
const AVAILABILITY: [(&str, PgState); 4] = [
    ("down", PgState::DOWN),
    ("incomplete", PgState::INCOMPLETE),
    ("peering", PgState::PEERING),
    ("stale", PgState::STALE),
];

/// States with fewer copies than there should be.
const DEGRADATION: [(&str, PgState); 2] =
    [("degraded", PgState::DEGRADED), ("undersized", PgState::UNDERSIZED)];

/// States of PGs that lost something.
const DAMAGE: [(&str, PgState); 2] =
    [("inconsistent", PgState::INCONSISTENT), ("recovery_unfound", PgState::RECOVERY_UNFOUND)];

/// States that wait for room on OSDs, and how that is told.
const HELD: [(&str, PgState, &str, Severity, &str); 2] = [
    (
        "backfill_toofull",
        PgState::BACKFILL_TOOFULL,
        "PG_BACKFILL_FULL",
        Severity::Warn,
        "Low space hindering backfill (add storage if this doesn't resolve itself)",
    ),
    (
        "recovery_toofull",
        PgState::RECOVERY_TOOFULL,
        "PG_RECOVERY_FULL",
        Severity::Err,
        "Full OSDs blocking recovery",
    ),
];

fn line_of(pg: PgId, stat: &PgStat) -> String {
    format!("pg {pg} is {}, acting {}", stat.state, crate::format::list(&stat.acting))
}

impl Mon {
    pub(super) fn check_pgs(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let mut by_word: BTreeMap<&'static str, usize> = BTreeMap::new();
        let (mut unavailable, mut degraded, mut damaged) = (Vec::new(), Vec::new(), Vec::new());
        let mut unfound = Vec::new();
        for pg in map.pgs() {
            let stat = self.stats.stat_of(map, pg, self.is_creating(pg));
            let mut line = line_of(pg, &stat);
            if stat.sum.unfound > 0 {
                line.push_str(&format!(", {} unfound", stat.sum.unfound));
                unfound.push(format!("pg {pg} has {} unfound objects", stat.sum.unfound));
            }
            let words: Vec<&'static str> =
                AVAILABILITY.iter().filter(|(_, bit)| stat.state.has(*bit)).map(|(w, _)| *w).collect();
            let is_inactive = !stat.state.has(PgState::ACTIVE);
            if is_inactive || !words.is_empty() {
                unavailable.push(line.clone());
            }
            words.into_iter().for_each(|word| *by_word.entry(word).or_default() += 1);
            if is_inactive {
                *by_word.entry("inactive").or_default() += 1;
                if stat.state.0 == 0 {
                    *by_word.entry("unknown").or_default() += 1;
                }
            }
            for (word, _) in DEGRADATION.iter().filter(|(_, bit)| stat.state.has(*bit)) {
                *by_word.entry(word).or_default() += 1;
                if degraded.last() != Some(&line) {
                    degraded.push(line.clone());
                }
            }
            let words = DAMAGE.iter().filter(|(_, bit)| stat.state.has(*bit)).map(|(word, _)| *word);
            for word in words {
                *by_word.entry(word).or_default() += 1;
                if damaged.last() != Some(&line) {
                    damaged.push(line.clone());
                }
            }
        }
        let words = |list: &[&'static str]| {
            let found = list.iter().filter_map(|word| Some((word, by_word.get(word)?)));
            found.map(|(word, n)| format!("{n} pg{} {word}", plural(*n))).collect::<Vec<_>>().join(", ")
        };
        if !unavailable.is_empty() {
            let text = words(&["inactive", "down", "incomplete", "peering", "stale", "unknown"]);
            let text = format!("Reduced data availability: {text}");
            health.add("PG_AVAILABILITY", Severity::Warn, text, unavailable);
        }
        let total = self.stats.total();
        if !degraded.is_empty() || total.degraded > 0 {
            let mut parts = Vec::new();
            if total.degraded > 0 {
                parts.push(ratio_text(total.degraded, total.object_copies, "degraded"));
            }
            let text = words(&["degraded", "undersized"]);
            parts.extend((!text.is_empty()).then_some(text));
            health.add(
                "PG_DEGRADED",
                Severity::Warn,
                format!("Degraded data redundancy: {}", parts.join(", ")),
                degraded,
            );
        }
        if !damaged.is_empty() {
            let text = format!("Possible data damage: {}", words(&["inconsistent", "recovery_unfound"]));
            health.add("PG_DAMAGED", Severity::Err, text, damaged);
        }
        self.check_held(health);
        self.check_objects(unfound, health);
    }

    /// PGs that wait for room on OSDs.
    fn check_held(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let mut held: [Vec<String>; HELD.len()] = Default::default();
        for pg in map.pgs() {
            let stat = self.stats.stat_of(map, pg, self.is_creating(pg));
            for ((_, bit, ..), lines) in HELD.iter().zip(&mut held) {
                lines.extend(stat.state.has(*bit).then(|| line_of(pg, &stat)));
            }
        }
        for ((word, _, code, severity, text), lines) in HELD.into_iter().zip(held) {
            if !lines.is_empty() {
                let text = format!("{text}: {} pg{} {word}", lines.len(), plural(lines.len()));
                health.add(code, severity, text, lines);
            }
        }
    }

    /// Objects in the wrong place, and those that are nowhere: `unfound` says in which PGs.
    fn check_objects(&self, unfound: Vec<String>, health: &mut Health) {
        let total = self.stats.total();
        if total.misplaced > 0 && self.warns("mon_warn_on_misplaced") {
            let text = ratio_text(total.misplaced, total.object_copies, "misplaced");
            health.add("OBJECT_MISPLACED", Severity::Warn, text, Vec::new());
        }
        if total.unfound > 0 {
            let text = ratio_text(total.unfound, total.objects, "unfound");
            health.add("OBJECT_UNFOUND", Severity::Warn, text, unfound);
        }
    }

    /// True for a PG that waits to be made.
    pub(crate) fn is_creating(&self, pg: PgId) -> bool {
        self.committed.creating.get(&pg.pool).is_some_and(|c| c.seeds.contains(&pg.seed))
    }
}
