//! What scrubs found, and what was not scrubbed.
//!
//! Authority: `PGMap::get_health_checks` (16.2).

use std::time::Duration;

use types::{PgPool, PoolOptValue};

use super::{Health, PGS_SHOWN, Severity};
use crate::Mon;

/// `mon_osd_warn_num_repaired`.
const REPAIRS_MAX: u64 = 10;

impl Mon {
    pub(super) fn check_scrubs(&self, health: &mut Health) {
        let total = self.stats.total();
        let errors = total.shallow_scrub_errors.saturating_add(total.deep_scrub_errors);
        if errors > 0 {
            let text = format!("{errors} scrub errors");
            health.add("OSD_SCRUB_ERRORS", Severity::Err, text, errors as usize, Vec::new());
        }
        self.check_large_omaps(total.large_omap_objects, health);
        self.check_repairs(health);
        let [mut late, mut late_deep] = [Late::default(), Late::default()];
        let (age, deep_age) = (self.age_max(false), self.age_max(true));
        for stat in self.stats.pgs() {
            let Some(pool) = self.committed.osdmap.pools.get(&stat.pgid.pool) else { continue };
            let scrubs = &stat.scrubs;
            // A PG that was never scrubbed has no history to be judged by.
            if scrubs.last_scrub_stamp.sec == 0 {
                continue;
            }
            if age.of(pool).is_some_and(|max| self.wall.since(scrubs.last_scrub_stamp) > max) {
                let since = scrubs.last_scrub_stamp;
                late.note(|| format!("pg {} not scrubbed since {since}", stat.pgid));
            }
            if deep_age.of(pool).is_some_and(|max| self.wall.since(scrubs.last_deep_scrub_stamp) > max) {
                let since = scrubs.last_deep_scrub_stamp;
                late_deep.note(|| format!("pg {} not deep-scrubbed since {since}", stat.pgid));
            }
        }
        late.tell(health, "PG_NOT_SCRUBBED", "scrubbed");
        late_deep.tell(health, "PG_NOT_DEEP_SCRUBBED", "deep-scrubbed");
    }

    fn check_large_omaps(&self, count: u64, health: &mut Health) {
        if count == 0 {
            return;
        }
        let of_pools = self.committed.osdmap.pools.keys().filter_map(|id| {
            let count = self.stats.pool_sum(*id).large_omap_objects;
            let name = self.committed.osdmap.pool_name.get(id)?;
            (count > 0).then(|| format!("{count} large objects found in pool '{name}'"))
        });
        let tip = "Search the cluster log for 'Large omap object found' for more details.";
        let detail = of_pools.chain([tip.to_owned()]).collect();
        let text = format!("{count} large omap objects");
        health.add("LARGE_OMAP_OBJECTS", Severity::Warn, text, count as usize, detail);
    }

    fn check_repairs(&self, health: &mut Health) {
        let osds = self.committed.osdmap.osds();
        let repaired = osds.filter_map(|osd| Some((osd, self.stats.osd(osd)?.copies_repaired)));
        let many: Vec<String> = repaired
            .filter(|(_, count)| *count > REPAIRS_MAX)
            .map(|(osd, count)| format!("osd.{osd} had {count} reads repaired"))
            .collect();
        if !many.is_empty() {
            let count = many.len();
            let text = format!("Too many repaired reads on {count} OSDs");
            health.add("OSD_TOO_MANY_REPAIRS", Severity::Warn, text, count, many);
        }
    }

    fn age_max(&self, is_deep: bool) -> AgeMax {
        let (pool_option, option, ratio) = match is_deep {
            false => ("scrub_max_interval", "osd_scrub_max_interval", "mon_warn_pg_not_scrubbed_ratio"),
            true => ("deep_scrub_interval", "osd_deep_scrub_interval", "mon_warn_pg_not_deep_scrubbed_ratio"),
        };
        AgeMax { pool_option, interval: self.manager_number(option), ratio: self.manager_number(ratio) }
    }
}

/// How old a PG's last scrub may be.
struct AgeMax {
    pool_option: &'static str,
    /// In seconds.
    interval: f64,
    /// This part of the interval is added; 0 turns the warning off.
    ratio: f64,
}

impl AgeMax {
    fn of(&self, pool: &PgPool) -> Option<Duration> {
        let interval = match pool.opts.get(self.pool_option) {
            Some(PoolOptValue::Double(secs)) if *secs > 0.0 => *secs,
            Some(_) | None => self.interval,
        };
        let max = interval * (1.0 + self.ratio);
        (self.ratio > 0.0 && max > 0.0).then(|| Duration::try_from_secs_f64(max).ok())?
    }
}

/// PGs that were not scrubbed in time.
#[derive(Default)]
struct Late {
    count: usize,
    /// Those of the first PGs.
    lines: Vec<String>,
}

impl Late {
    fn note(&mut self, line: impl FnOnce() -> String) {
        self.count += 1;
        if self.lines.len() < PGS_SHOWN {
            self.lines.push(line());
        }
    }

    fn tell(self, health: &mut Health, code: &'static str, what: &str) {
        let Late { count, lines: mut detail } = self;
        if count == 0 {
            return;
        }
        if count > PGS_SHOWN {
            detail.push(format!("{} more pgs... ", count - PGS_SHOWN));
        }
        health.add(code, Severity::Warn, format!("{count} pgs not {what} in time"), count, detail);
    }
}
