//! OSDs that others cannot reach.

use messages::MOSDFailure;
use types::{Instant, MapFlags, OsdId, OsdState, UTime};

use crate::Mon;

/// One reporter's word on a silent OSD.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// When the silence began, on this monitor's clock.
    since: Instant,
}

impl Mon {
    pub(crate) fn on_osd_failure(&mut self, now: Instant, wall: UTime, failure: &MOSDFailure) {
        let target = failure.target;
        let map = &self.next.osdmap;
        // Reports on an earlier life, or by an OSD that is not trusted itself, mean nothing.
        let is_current = map.is_up(target) && map.up_from(target) == failure.target_up_from;
        if !is_current || !map.is_up(failure.reporter) {
            return;
        }
        if !failure.is_failed {
            if let Some(reports) = self.osds.failures.get_mut(&target) {
                reports.remove(&failure.reporter);
            }
            return;
        }
        if failure.is_immediate {
            self.mark_down(
                wall,
                target,
                format!(
                    "osd.{target} failed (connection refused, reported immediately by osd.{})",
                    failure.reporter
                ),
            );
            return;
        }
        let since = Instant(now.0.saturating_sub(failure.failed_for_ms.saturating_mul(1_000_000)));
        let reports = self.osds.failures.entry(target).or_default();
        reports.entry(failure.reporter).or_insert(Report { since });
        self.check_failure(now, wall, target);
    }

    /// Marks an OSD down when enough others have missed it for long enough.
    pub(super) fn check_failure(&mut self, now: Instant, wall: UTime, target: OsdId) {
        let map = &self.next.osdmap;
        let Some(reports) = self.osds.failures.get(&target) else { return };
        let count = reports.keys().filter(|reporter| map.is_up(**reporter)).count();
        let needed = if map.num_up() < 3 { 1 } else { self.options.osd_down_reporters_min };
        let Some(since) = reports.values().map(|report| report.since).min() else { return };
        if count >= needed.max(1) && now.since(since) >= self.options.osd_heartbeat_grace {
            let silent = now.since(since).as_secs();
            self.mark_down(
                wall,
                target,
                format!("osd.{target} failed ({count} reporters, silent for {silent} s)"),
            );
        }
    }

    /// Marks an OSD down unless an operator forbade it. True when it was.
    pub(crate) fn mark_down(&mut self, wall: UTime, osd: OsdId, why: String) -> bool {
        let map = &self.next.osdmap;
        if !map.is_up(osd) || map.has_flag(MapFlags::NODOWN) || map.state(osd).has(OsdState::NODOWN) {
            return false;
        }
        self.log_info(wall, why);
        self.change_osdmap(wall, |_, inc| {
            inc.new_state.insert(osd, OsdState::UP);
        });
        self.osds.failures.remove(&osd);
        true
    }

    /// Looks at all reports again: time has passed.
    pub(super) fn tick_failures(&mut self, now: Instant, wall: UTime) {
        for target in self.osds.failures.keys().copied().collect::<Vec<_>>() {
            self.check_failure(now, wall, target);
        }
    }
}
