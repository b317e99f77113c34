//! A PG whose copies all have everything is clean: the past is settled, and copies that are no longer needed are
//! removed.
//!
//! Authority: `PeeringState` (Clean, `purge_strays`), 16.2.

use messages::MPgClean;
use types::{Epoch, OsdId};

use crate::{Ctx, Effect, Pg, pg::Pending};

impl Pg {
    pub(crate) fn has_all_members(&self) -> bool {
        self.members.acting_count() == usize::from(self.members.size)
    }

    /// True when as many copies as the pool wants have everything.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_clean && self.has_all_members()
    }

    /// Every copy has everything: the past is settled.
    pub(crate) fn become_clean(&mut self, ctx: &mut Ctx<'_>) {
        self.is_clean = true;
        self.end_repair();
        self.settle(ctx.map.epoch, ctx);
        let clean = MPgClean { pgid: self.pgid, epoch: ctx.map.epoch, remove: false };
        let members: Vec<OsdId> = self.others().collect();
        for osd in &members {
            ctx.effects.push(Effect::SendOsd(*osd, clean.into()));
        }
        // With less than all members other copies may still be needed.
        if self.has_all_members() {
            let strays = self.peer_info.keys().copied().filter(|osd| !members.contains(osd));
            strays.collect::<Vec<_>>().into_iter().for_each(|osd| self.purge_stray(osd, ctx));
        }
        ctx.effects.push(Effect::StatsChanged);
    }

    /// Has a copy removed that is no longer needed. It is no source for any object from here on
    /// (`PeeringState::purge_strays`).
    pub(crate) fn purge_stray(&mut self, osd: OsdId, ctx: &mut Ctx<'_>) {
        self.peer_info.remove(&osd);
        self.peer_missing.remove(&osd);
        let clean = MPgClean { pgid: self.pgid, epoch: ctx.map.epoch, remove: true };
        ctx.effects.push(Effect::SendOsd(osd, clean.into()));
    }

    fn settle(&mut self, epoch: Epoch, ctx: &mut Ctx<'_>) {
        // With less than all members the past may still be needed.
        if self.has_all_members() {
            self.info.last_epoch_clean = epoch;
            self.intervals.clear();
        }
        self.keep_info_and_intervals(Pending::Nothing, ctx);
    }

    pub(crate) fn on_clean(&mut self, from: OsdId, message: MPgClean, ctx: &mut Ctx<'_>) {
        if from != self.members.primary {
            return;
        }
        if !message.remove {
            self.settle(message.epoch, ctx);
        } else if !self.members.contains(self.me) {
            self.remove(ctx);
        }
    }
}
