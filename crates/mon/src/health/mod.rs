//! Health checks, with Ceph's codes.

use std::{borrow::Cow, collections::BTreeMap};

use types::UTime;

use crate::Mon;

mod disk;
mod keys;
mod modules;
mod mute;
mod osds;
mod pg_nums;
mod pgs;
mod pings;
mod pools;
mod report;
mod scrubs;
mod slow_ops;

pub use disk::DataSpace;
pub(crate) use mute::Mute;
pub(crate) use report::{Check, Health, Severity, ratio_text};

/// PGs named in the details of a check (`mon_health_max_detail`).
const PGS_SHOWN: usize = 50;
/// Crashes in the details of the check.
const CRASHES_SHOWN: usize = 30;

impl Mon {
    /// Everything that is wrong at this moment.
    pub(crate) fn health(&self) -> Health {
        let mut health = Health::default();
        self.check_osds(&mut health);
        self.check_flags(&mut health);
        self.check_group_flags(&mut health);
        self.check_scrub_flags(&mut health);
        self.check_ratios(&mut health);
        self.check_space(&mut health);
        self.check_pools(&mut health);
        self.check_pool_space(&mut health);
        self.check_pg_nums(&mut health);
        self.check_targets(&mut health);
        self.check_pgs_per_osd(&mut health);
        self.check_object_skew(&mut health);
        self.check_down_out(&mut health);
        self.check_pgs(&mut health);
        self.check_scrubs(&mut health);
        self.check_slow_ops(&mut health);
        self.check_pings(&mut health);
        self.check_crashes(&mut health);
        self.check_keys(&mut health);
        self.check_modules(&mut health);
        self.check_disk(&mut health);
        health.muted = self.committed.mutes.as_ref().clone();
        health.at = self.wall;
        health
    }

    /// True where an option of the monitor says so.
    fn warns(&self, option: &str) -> bool {
        self.settings.get(option).is_some_and(|value| value == "true")
    }

    fn check_crashes(&self, health: &mut Health) {
        let mut detail = self.recent_crashes(self.wall);
        if detail.is_empty() {
            return;
        }
        let count = detail.len();
        if count > CRASHES_SHOWN {
            detail.truncate(CRASHES_SHOWN);
            detail.push(format!("and {} more", count - CRASHES_SHOWN));
        }
        let summary = format!("{count} daemons have recently crashed");
        health.add("RECENT_CRASH", Severity::Warn, summary, count, detail);
    }

    /// Writes to the cluster log which checks were raised or changed, and which ones cleared, and keeps them in the
    /// manager's record.
    pub(crate) fn tick_health_log(&mut self, wall: UTime) {
        let checks = self.health().checks;
        self.keep_health_history(wall, &checks);
        let log = |mon: &mut Mon, code: &str, line: String| match checks.get(code).map(|c| c.severity) {
            Some(Severity::Err) => mon.log_error(wall, line),
            Some(_) | None => mon.log_warn(wall, line),
        };
        let found: BTreeMap<Cow<'static, str>, String> =
            checks.iter().map(|(code, check)| (code.clone(), check.summary.clone())).collect();
        let before = std::mem::replace(&mut self.health_logged, found.clone());
        for (code, summary) in &found {
            match before.get(code) {
                None => log(self, code, format!("Health check failed: {summary} ({code})")),
                Some(old) if old != summary => {
                    log(self, code, format!("Health check update: {summary} ({code})"));
                }
                Some(_) => {}
            }
        }
        for (code, summary) in before.iter().filter(|(code, _)| !found.contains_key(code.as_ref())) {
            self.log_info(wall, format!("Health check cleared: {code} (was: {summary})"));
        }
        if found.is_empty() && !before.is_empty() {
            self.log_info(wall, "Cluster is now healthy".to_owned());
        }
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
