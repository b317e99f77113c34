//! `ceph tell osd.N injectfull`: the OSD reports a fuller device than it has, so that operators can see what happens
//! then; with `failsafe` it also drops what clients would hold back, as it does when there is no room.
//!
//! Authority: `OSDService::set_injectfull`, `OSDService::check_full_status`, `OSDService::check_failsafe_full` (16.2).

use serde_json::Value;
use types::OsdStat;

use super::{Answer, Call};
use crate::{Osd, osd::Ctx};

/// How full the OSD says it is, and for how many more reports; [`None`] for ever.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct InjectedFull {
    kind: FullLevel,
    reports: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum FullLevel {
    Near,
    Backfill,
    Full,
    Failsafe,
}

impl InjectedFull {
    pub(crate) fn is_failsafe(self) -> bool {
        self.kind == FullLevel::Failsafe
    }
}

pub(super) fn run(osd: &mut Osd, call: &Call, ctx: &mut Ctx<'_>) -> Answer {
    let kind = match call.text("type").as_deref() {
        Some("none") => None,
        Some("nearfull") => Some(FullLevel::Near),
        Some("backfillfull") => Some(FullLevel::Backfill),
        Some("full") | None => Some(FullLevel::Full),
        Some("failsafe") => Some(FullLevel::Failsafe),
        Some(_) => {
            let text = "Invalid type use (none, nearfull, backfillfull, full, failsafe)";
            return Ok(Some(Value::from(text)));
        }
    };
    osd.injected_full = kind.map(|kind| InjectedFull { kind, reports: call.int("count") });
    osd.follow_injected_full(ctx);
    // At once, not with the next report.
    osd.stats_report.at_once(ctx.now);
    osd.send_stats_if_due(ctx);
    Ok(Some(Value::Null))
}

impl Osd {
    /// Makes a report say what was injected.
    pub(crate) fn apply_injected_full(&mut self, stat: &mut OsdStat) {
        let Some(injected) = &mut self.injected_full else { return };
        if let Some(left) = &mut injected.reports {
            match left.checked_sub(1) {
                Some(rest) => *left = rest,
                None => {
                    self.injected_full = None;
                    return;
                }
            }
        }
        let (near, backfill, full) =
            (self.map.nearfull_ratio, self.map.backfillfull_ratio, self.map.full_ratio);
        // Between the ratio that is reached and the next one.
        let used = match injected.kind {
            FullLevel::Near => near + (backfill - near).max(0.0) / 2.0,
            FullLevel::Backfill => backfill + (full - backfill).max(0.0) / 2.0,
            // The monitors do not tell these two apart.
            FullLevel::Full | FullLevel::Failsafe => full + (1.0 - full).max(0.0) / 2.0,
        };
        stat.kb_used = ((stat.kb as f64 * f64::from(used)) as u64).min(stat.kb);
        stat.kb_avail = stat.kb - stat.kb_used;
    }
}
