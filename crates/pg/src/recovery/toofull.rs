//! OSDs that are too full to be given more: by the cluster's ratios, as the map shows it, or all but full by what they
//! tell ([`crate::Rooms`]).
//!
//! Authority: `backfill_toofull`, `recovery_toofull`, `OSDService::check_failsafe_full` (16.2). What an op
//! waits for is recovered all the same: it is one object, and the op is refused by itself if it would need more room.

use types::{OsdId, OsdState, PgState};

use crate::{Ctx, Pg};

/// True if the OSD may be given objects that it lacks where it acts.
pub(super) fn may_recover(ctx: &Ctx<'_>, osd: OsdId) -> bool {
    !ctx.map.state(osd).has(OsdState::FULL) && !ctx.rooms.is_full(osd)
}

/// True if the OSD may be filled with a PG in which it does not act.
pub(super) fn may_backfill(ctx: &Ctx<'_>, osd: OsdId) -> bool {
    may_recover(ctx, osd) && !ctx.map.state(osd).has(OsdState::BACKFILLFULL)
}

impl Pg {
    /// What is put off for OSDs that are too full, as the PG's state tells it.
    pub(super) fn put_off(&self, ctx: &Ctx<'_>) -> PgState {
        let lacks = |osd: &OsdId| self.peer_missing.get(osd).is_some_and(|missing| !missing.is_empty());
        let is_full_here = !self.missing.is_empty() && !may_recover(ctx, self.me);
        let mut out = PgState::default();
        if is_full_here || self.acting_others().any(|osd| lacks(&osd) && !may_recover(ctx, osd)) {
            out = out.with(PgState::RECOVERY_TOOFULL);
        }
        if self.targets().any(|osd| lacks(&osd) && !may_backfill(ctx, osd)) {
            out = out.with(PgState::BACKFILL_TOOFULL);
        }
        out
    }
}
