//! OSDs that others cannot reach.
//!
//! Authority: `OSDMonitor::check_failure`, `can_mark_down` (16.2).

use std::{collections::BTreeSet, time::Duration};

use messages::MOSDFailure;
use types::{Epoch, Incremental, Instant, MapFlags, OsdId, OsdMap, OsdState, OsdXInfo, UTime};

use crate::Mon;

/// What is known of an OSD that is marked down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DownKind {
    /// It is not heard from any more. It may be alive and serve the clients that reach it.
    Silent,
    /// It no longer serves any client (`dead_epoch`): an OSD that takes over does not have to wait until it stops.
    Dead,
}

/// How long a report holds without being repeated: OSDs repeat theirs every 5 s, and the message that takes one back
/// may be lost.
const REPORT_HOLDS: Duration = Duration::from_secs(30);

/// One reporter's word on a silent OSD.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// When the silence began, on this monitor's clock.
    since: Instant,
    /// When it was said last.
    repeated: Instant,
    /// The reporter's life in which it said so (`up_from`): in its next life the reporter knows nothing of the report,
    /// and does not take it back.
    reporter_up_from: Epoch,
}

impl Report {
    /// True while the reporter is in the life in which it made the report.
    pub(super) fn counts(&self, map: &OsdMap, reporter: OsdId) -> bool {
        map.is_up(reporter) && map.up_from(reporter) == self.reporter_up_from
    }

    /// True while the report counts and was repeated lately.
    fn holds(&self, now: Instant, map: &OsdMap, reporter: OsdId) -> bool {
        self.counts(map, reporter) && now.since(self.repeated) < REPORT_HOLDS
    }
}

/// Where reporters are taken to fail together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// The bucket of this name.
    Bucket(String),
    /// An OSD below no bucket of the type that counts.
    Osd(OsdId),
}

impl Place {
    fn of(map: &OsdMap, osd: OsdId, level: &str) -> Place {
        let above = map.crush.map().location(osd.0);
        let bucket = above.into_iter().find(|(kind, _)| kind == level);
        bucket.map_or(Place::Osd(osd), |(_, name)| Place::Bucket(name))
    }
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
            if !self.may_mark_down() {
                return;
            }
            let (kind, what) = match failure.may_live {
                true => (DownKind::Silent, "takes no messages"),
                false => (DownKind::Dead, "connection refused"),
            };
            let why =
                format!("osd.{target} failed ({what}, reported immediately by osd.{})", failure.reporter);
            self.mark_down(wall, target, kind, why);
            return;
        }
        let since = Instant(now.0.saturating_sub(failure.failed_for_ms.saturating_mul(1_000_000)));
        let report = Report { since, repeated: now, reporter_up_from: map.up_from(failure.reporter) };
        let reports = self.osds.failures.entry(target).or_default();
        reports.retain(|reporter, report| report.holds(now, map, *reporter));
        // A repeated report says no more than the first, whose start of the silence stays.
        reports.entry(failure.reporter).or_insert(report).repeated = now;
        self.check_failure(now, wall, target);
    }

    /// Marks an OSD down when enough others have missed it for long enough.
    pub(super) fn check_failure(&mut self, now: Instant, wall: UTime, target: OsdId) {
        let map = &self.next.osdmap;
        let Some(reports) = self.osds.failures.get_mut(&target) else { return };
        reports.retain(|reporter, report| report.holds(now, map, *reporter));
        let Some(since) = reports.values().map(|report| report.since).min() else { return };
        if now.since(since) < self.options.osd_heartbeat_grace {
            return;
        }
        let reporters: Vec<OsdId> = reports.keys().copied().collect();
        if self.are_enough(&reporters, target) && self.may_mark_down() {
            let (count, silent) = (reporters.len(), now.since(since).as_secs());
            let why = format!("osd.{target} failed ({count} reporters, silent for {silent} s)");
            self.mark_down(wall, target, DownKind::Silent, why);
        }
    }

    /// True if there are enough reporters, in enough places, not to err together. All OSDs of a host miss the others
    /// when it is cut off, so it takes reporters of several hosts, as far as there are any besides the target's own.
    fn are_enough(&self, reporters: &[OsdId], target: OsdId) -> bool {
        let map = &self.next.osdmap;
        let least = self.options.osd_down_reporters_min.max(1);
        // Of two OSDs, only one is left to miss the other.
        let reporters_needed = if map.num_up() < 3 { 1 } else { least };
        if reporters.len() < reporters_needed {
            return false;
        }
        let place = |osd| Place::of(map, osd, &self.options.osd_reporter_subtree_level);
        let heard: BTreeSet<Place> = reporters.iter().map(|osd| place(*osd)).collect();
        if heard.len() >= least {
            return true;
        }
        let (own, mut others) = (place(target), BTreeSet::new());
        others.extend(map.osds().filter(|osd| map.is_up(*osd)).map(place).filter(|other| *other != own));
        others.is_subset(&heard)
    }

    /// False while few OSDs are up: it is more likely then that reports, or this monitor's network, are wrong than that
    /// more of them fail (`mon_osd_min_up_ratio`).
    pub(super) fn may_mark_down(&self) -> bool {
        let map = &self.next.osdmap;
        map.num_up() as f64 >= map.num_osds() as f64 * self.options.osd_up_ratio_min
    }

    /// Marks an OSD down unless an operator forbade it. True when it was.
    pub(crate) fn mark_down(&mut self, wall: UTime, osd: OsdId, kind: DownKind, why: String) -> bool {
        let map = &self.next.osdmap;
        if !map.is_up(osd) || map.has_flag(MapFlags::NODOWN) || map.group_flags(osd).has(OsdState::NODOWN) {
            return false;
        }
        self.log_info(wall, why);
        self.change_osdmap(wall, |map, inc| take_down(map, inc, osd, kind));
        self.osds.failures.remove(&osd);
        true
    }

    /// Judges all reports again, as time has passed.
    pub(super) fn tick_failures(&mut self, now: Instant, wall: UTime) {
        for target in self.osds.failures.keys().copied().collect::<Vec<_>>() {
            self.check_failure(now, wall, target);
        }
    }
}

/// Writes that an OSD goes down or, if it is down already, what is known of it now.
pub(crate) fn take_down(map: &OsdMap, inc: &mut Incremental, osd: OsdId, kind: DownKind) {
    let known = map.xinfo(osd);
    let is_up = map.is_up(osd);
    if is_up {
        inc.new_state.insert(osd, OsdState::UP);
    }
    if kind == DownKind::Dead {
        let down_stamp = if is_up { inc.modified } else { known.down_stamp };
        inc.new_xinfo.insert(osd, OsdXInfo { dead_epoch: inc.epoch, down_stamp, ..known });
    }
}
