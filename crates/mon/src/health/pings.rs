//! Heartbeats that take long (`PGMap::get_health_checks` of 16.2).

use std::{collections::BTreeSet, time::Duration};

use types::OsdId;

use super::{Health, Severity};
use crate::Mon;

/// Pairs of OSDs named in the details.
const PAIRS_SHOWN: usize = 10;

impl Mon {
    /// Heartbeats share the cluster's connection, which is `back`: there is no `OSD_SLOW_PING_TIME_FRONT`.
    pub(super) fn check_pings(&self, health: &mut Health) {
        let map = &self.committed.osdmap;
        let threshold_us = self.slow_ping().as_micros();
        let mut slow: BTreeSet<(u32, OsdId, OsdId, bool)> = BTreeSet::new();
        for (from, pings) in self.stats.pings().filter(|(from, _)| map.is_up(*from)) {
            for ping in pings {
                let (one, five, fifteen) = (ping.mean_1min_us, ping.mean_5min_us, ping.mean_15min_us);
                let slowest = one.max(five).max(fifteen);
                if u128::from(slowest) > threshold_us {
                    slow.insert((slowest, from, ping.osd, one < five && five < fifteen));
                }
            }
        }
        let Some((longest, ..)) = slow.last() else { return };
        let summary = format!("Slow OSD heartbeats on back (longest {}ms)", millis(*longest));
        let subtree = self.manager_option("mon_osd_reporter_subtree_level").unwrap_or_default();
        let place = |osd: OsdId| {
            let parents = map.crush.map().location(osd.0).into_iter();
            let names = parents.filter(|(kind, _)| kind != "root" && *kind != subtree).map(|(_, name)| name);
            let names = names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(",");
            format!("osd.{osd} [{names}]{}", if map.is_down(osd) { " (down)" } else { "" })
        };
        let shown = slow.iter().rev().take(PAIRS_SHOWN).map(|(us, from, to, is_improving)| {
            let improving = if *is_improving { " possibly improving" } else { "" };
            let (from, to) = (place(*from), place(*to));
            format!("Slow OSD heartbeats on back from {from} to {to} {} msec{improving}", millis(*us))
        });
        let mut detail: Vec<String> = shown.collect();
        if slow.len() > PAIRS_SHOWN {
            detail.push(
                "Truncated long network list.  Use ceph daemon mgr.# dump_osd_network for more information"
                    .to_owned(),
            );
        }
        health.add("OSD_SLOW_PING_TIME_BACK", Severity::Warn, summary, slow.len(), detail);
    }

    /// What is slow by the options: `mon_warn_on_slow_ping_time` (milliseconds) or, where that is 0,
    /// `mon_warn_on_slow_ping_ratio` of `osd_heartbeat_grace` (seconds).
    fn slow_ping(&self) -> Duration {
        let time = self.manager_number("mon_warn_on_slow_ping_time");
        let ratio = self.manager_number("mon_warn_on_slow_ping_ratio");
        let ratio = ratio * self.manager_number("osd_heartbeat_grace") * 1e3;
        let millis = if time > 0.0 { time } else { ratio };
        Duration::try_from_secs_f64(millis / 1e3).unwrap_or(Duration::MAX)
    }
}

/// Microseconds as milliseconds with three digits.
fn millis(us: u32) -> String {
    format!("{}.{:03}", us / 1_000, us % 1_000)
}
