//! `ceph tell osd.N injectfull`: the OSD reports a fuller device than it has, so that operators can see what happens
//! then.
//!
//! Authority: `OSDService::set_injectfull`, `OSDService::check_full_status` (16.2).

use serde_json::Value;
use types::OsdStat;

use super::{Answer, Call};
use crate::{Osd, osd::Cx};

/// A claim, and for how many more reports it holds; [`None`] for ever.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Claim {
    kind: Fullness,
    reports: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fullness {
    Near,
    Backfill,
    Full,
}

pub(super) fn run(osd: &mut Osd, call: &Call, cx: &mut Cx<'_>) -> Answer {
    let kind = match call.text("type").as_deref() {
        Some("none") => None,
        Some("nearfull") => Some(Fullness::Near),
        Some("backfillfull") => Some(Fullness::Backfill),
        // The monitors do not tell these two apart.
        Some("full" | "failsafe") | None => Some(Fullness::Full),
        Some(_) => {
            let text = "Invalid type use (none, nearfull, backfillfull, full, failsafe)";
            return Ok(Some(Value::from(text)));
        }
    };
    osd.claim = kind.map(|kind| Claim { kind, reports: call.int("count") });
    // At once, not with the next report.
    osd.stats_due = cx.now;
    osd.send_stats_if_due(cx);
    Ok(Some(Value::Null))
}

impl Osd {
    /// Makes a report say what is claimed.
    pub(crate) fn apply_claim(&mut self, stat: &mut OsdStat) {
        let Some(claim) = &mut self.claim else { return };
        if let Some(left) = &mut claim.reports {
            match left.checked_sub(1) {
                Some(rest) => *left = rest,
                None => {
                    self.claim = None;
                    return;
                }
            }
        }
        let (near, backfill, full) =
            (self.map.nearfull_ratio, self.map.backfillfull_ratio, self.map.full_ratio);
        // Between the ratio that is reached and the next one.
        let used = match claim.kind {
            Fullness::Near => near + (backfill - near).max(0.0) / 2.0,
            Fullness::Backfill => backfill + (full - backfill).max(0.0) / 2.0,
            Fullness::Full => full + (1.0 - full).max(0.0) / 2.0,
        };
        stat.kb_used = ((stat.kb as f64 * f64::from(used)) as u64).min(stat.kb);
        stat.kb_avail = stat.kb - stat.kb_used;
    }
}
