//! Scrub: the copies of a PG are compared, a few objects at a time, on order or when it is due; what is wrong is
//! said, kept to be listed, and, where that was asked for, mended from a good copy.
//!
//! The primary takes the PG in chunks. While a chunk is looked at, changes of its objects wait, so that all copies
//! are seen at one version: what was ordered before reaches a replica before the question does. A change that has
//! to wait makes the chunk give way a few times, and come back smaller.
//!
//! Authority: `PgScrubber`, `PrimaryLogScrub` (16.2). Simpler in one point: a chunk ends at a head, so that an object's
//! clones are always seen together.

mod compare;
mod finish;
mod listing;
mod policy;
mod repair;
mod replica;
mod reserve;
mod run;
mod scan;
mod snapsets;
#[cfg(test)]
mod tests;
mod verdict;
mod wire;

use std::time::Duration;

use messages::MOSDRepScrubMap;
use types::{HObject, LogEntry, OsdId, OsdMap, PgState, Token, UTime};

pub use policy::{ScrubPolicy, ScrubRequest, ScrubTimes};

use crate::{Ctx, Pg, exec::Delta};
use listing::Results;
pub(crate) use listing::is_listing;
use reserve::Reservations;
use run::Run;
use scan::Scan;

/// The scrubs of a PG, as its primary and as a replica.
#[derive(Debug, Default)]
pub(crate) struct Scrubs {
    /// What an operator asked for, or a repair.
    wanted: Option<Wanted>,
    /// Primary: the scrub under way.
    run: Option<Run>,
    /// What this copy is looking through, for itself or for the primary.
    scan: Option<Scan>,
    /// Primary: what the last scrub of this interval found.
    results: Option<Results>,
    reservations: Reservations,
    next_id: u64,
    /// True from a repair until what it replaces is replaced.
    is_repairing: bool,
    /// A repair has not mended everything.
    has_failed: bool,
}

/// A scrub that is to begin.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    request: ScrubRequest,
    cause: Cause,
}

/// Why a PG is scrubbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Its time has come.
    Due,
    /// An operator asked for it.
    Ordered,
    /// It checks whether a repair has helped.
    CheckAfterRepair,
    /// It repairs what a scrub that was due has found (`osd_scrub_auto_repair`).
    AutoRepair,
}

impl Scrubs {
    /// True while one that was asked for has not begun.
    pub(crate) fn is_ordered(&self) -> bool {
        self.wanted.is_some()
    }

    /// True for an object whose changes have to wait.
    pub(crate) fn holds(&self, head: &HObject) -> bool {
        self.run.as_ref().is_some_and(|run| run.holds(head))
    }

    /// False for a map that a scrub waits for and that names objects outside of what was asked for.
    pub(crate) fn may_hear(&self, from: OsdId, map: &MOSDRepScrubMap) -> bool {
        self.run.as_ref().is_none_or(|run| run.may_hear(from, map))
    }

    /// A change waits for a chunk.
    pub(crate) fn hinders(&mut self) {
        if let Some(run) = &mut self.run {
            run.is_hindering = true;
        }
    }

    /// What was ordered and has not begun, what is under way from here, and what is held for it.
    pub(crate) fn count(&self) -> usize {
        let held = self.scan.as_ref().map_or(0, |scan| scan.held.len());
        usize::from(self.wanted.is_some()) + usize::from(self.run.is_some()) + held
    }

    /// What was ordered, and has not begun or is under way.
    fn ordered(&self) -> Option<Wanted> {
        self.wanted.or_else(|| {
            let run = self.run.as_ref().filter(|run| run.cause != Cause::Due)?;
            Some(Wanted { request: run.request, cause: run.cause })
        })
    }

    /// True while the PG is scrubbed from here.
    pub(crate) fn is_under_way(&self) -> bool {
        self.run.is_some()
    }

    /// Takes note of a change: it is counted if its object was already looked at, and what was found of that object is
    /// told of what the object is then.
    pub(crate) fn on_change(&mut self, head: &HObject, log: &[LogEntry], delta: Delta) {
        if let Some(run) = &mut self.run {
            run.on_change(head, log, delta);
        }
    }

    /// An object changes by an amount that is not known, so the scrub under way cannot tell what the PG holds.
    pub(crate) fn lose_count(&mut self) {
        if let Some(run) = &mut self.run {
            run.verdict.is_partial = true;
        }
    }

    /// The state's bits of it.
    pub(crate) fn state(&self) -> PgState {
        let mut state = PgState::default();
        let mut add = |is_so: bool, bit| {
            if is_so {
                state = state.with(bit);
            }
        };
        let request = self.run.as_ref().map(|run| run.request);
        add(request.is_some(), PgState::SCRUBBING);
        add(request.is_some_and(|request| request.is_deep), PgState::DEEP_SCRUB);
        add(self.is_repairing || request.is_some_and(|request| request.is_repair), PgState::REPAIR);
        add(self.has_failed, PgState::FAILED_REPAIR);
        state
    }

    /// Ends what is under way, with what was loaded for it. What a primary was ordered stays ordered while it leads:
    /// one that leads again later would begin what nobody waits for any more.
    #[must_use]
    pub(crate) fn on_new_interval(&mut self, is_primary: bool) -> Vec<Token> {
        let (scan, wanted) = (self.scan.take(), self.ordered().filter(|_| is_primary));
        *self = Scrubs { wanted, next_id: self.next_id, ..Scrubs::default() };
        scan.map_or_else(Vec::new, |scan| scan.held)
    }
}

impl Pg {
    /// An operator wants a scrub; the strongest of several is done.
    pub(crate) fn on_scrub_request(&mut self, request: ScrubRequest) {
        if self.is_primary() {
            let before = self.scrubs.wanted.map(|wanted| wanted.request).unwrap_or_default();
            let request = ScrubRequest {
                is_deep: request.is_deep || request.is_repair || before.is_deep,
                is_repair: request.is_repair || before.is_repair,
            };
            self.scrubs.wanted = Some(Wanted { request, cause: Cause::Ordered });
        }
    }

    /// Has a scrub be due as if the last one had been so long `ago`; when that would have been.
    pub fn schedule_scrub(&mut self, is_deep: bool, ago: Duration, ctx: &mut Ctx<'_>) -> UTime {
        let now = ctx.wall.since(UTime::default()).saturating_sub(ago);
        let stamp = UTime::default().plus(now);
        self.info.scrubs.last_scrub_stamp = stamp;
        if is_deep {
            self.info.scrubs.last_deep_scrub_stamp = stamp;
        }
        self.keep_learned(ctx);
        stamp
    }

    /// When it is scrubbed next, as its primary has it, and whether a scrub of it was ordered; [`None`] elsewhere.
    pub fn scrub_times(&self, policy: &ScrubPolicy, map: &OsdMap) -> Option<(ScrubTimes, bool)> {
        let pool = map.pools.get(&self.pgid.pool).filter(|_| self.is_primary())?;
        Some((policy.times(&self.info.scrubs, self.pgid, pool), self.scrubs.is_ordered()))
    }

    /// Begins a scrub that was ordered, or that is due.
    pub(crate) fn tick_scrub(&mut self, ctx: &mut Ctx<'_>) {
        if !self.is_serving() {
            return;
        }
        if self.info.scrubs == types::ScrubHistory::default() {
            let begun = policy::begun(types::EVersion::ZERO, ctx.wall);
            if std::mem::replace(&mut self.info.scrubs, begun) != begun {
                // Else each restart, and each other primary, would put the first scrub off.
                self.keep_learned(ctx);
                self.share_info(ctx);
            }
        }
        self.prepare_scrub(ctx);
    }
}
