//! The choice of the acting set while copies are filled.
//!
//! Placement gives the up set. An OSD of it may be new to the PG, or lack much: as long as other OSDs have everything,
//! they act in its place (`pg_temp`), serve clients, and fill its copy. Meanwhile it takes part in every change; once
//! it has everything, it acts. So a PG that moves has as many whole copies as before, and a primary that reads from its
//! own copy.
//!
//! Authority: `PeeringState::choose_acting`, `calc_replicated_acting`, `choose_async_recovery_replicated` (16.2).
//! Simpler in one point: an OSD of the up set that no whole copy can replace acts, however much it lacks.

use std::cmp::Reverse;

use types::{OsdId, OsdMap, PgInfo, distinct_osds};

use crate::{Ctx, Effect, Pg, log::Span, pg::Phase};

impl Pg {
    /// The other members of the acting set, each once.
    pub(crate) fn acting_others(&self) -> impl Iterator<Item = OsdId> + '_ {
        distinct_osds(&self.members.acting).filter(|osd| *osd != self.me)
    }

    /// Members that do not act: their copies are filled.
    pub(crate) fn targets(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.members.all().filter(|osd| !self.members.acting.contains(osd))
    }

    /// True if the OSD has nearly everything, as far as it has told: the log tells what it lacks, and recovering that
    /// does not take long.
    fn is_whole(&self, osd: OsdId, fill_first: u64, map: &OsdMap) -> bool {
        if osd == self.me {
            return self.missing.len() as u64 <= fill_first;
        }
        if let Some(missing) = self.peer_missing.get(&osd).filter(|_| self.phase == Phase::Active) {
            return missing.len() as u64 <= fill_first;
        }
        let Some(info) = self.peer_info.get(&osd).filter(|_| map.is_up(osd)) else { return false };
        let behind = self.log.after(info.last_update).count() as u64;
        !self.needs_list(Span::of(info)) && info.missing_count.saturating_add(behind) <= fill_first
    }

    /// The acting set that the PG should have: the up set, but with whole copies in the place of those that are not, as
    /// far as there are any. The first of `leaders` that is whole leads. A CRUSH rule may name an OSD twice; only in
    /// the up set itself does it stay twice, as monitors refuse it in another acting set.
    fn wanted_acting(&self, is_whole: impl Fn(OsdId) -> bool, leaders: &[OsdId]) -> Vec<OsdId> {
        let (up, acting) = (&self.members.up, &self.members.acting);
        let is_whole = |osd: &OsdId| osd.is_some() && is_whole(*osd);
        let size = usize::from(self.members.size);
        let (whole, lacking): (Vec<OsdId>, Vec<OsdId>) = distinct_osds(up).partition(is_whole);
        if lacking.is_empty() && up.len() >= size {
            return up.clone();
        }
        // OSDs that act already come first: every change of the acting set begins a new interval.
        let mut strays: Vec<OsdId> = self.peer_info.keys().copied().chain([self.me]).collect();
        strays.retain(|osd| !up.contains(osd) && is_whole(osd));
        let newest = |osd: &OsdId| self.peer_info.get(osd).map_or(self.info.last_update, |i| i.last_update);
        let place = |osd: &OsdId| acting.iter().position(|a| a == osd).unwrap_or(usize::MAX);
        strays.sort_by_key(|osd| (place(osd), Reverse(newest(osd)), *osd));
        let mut wanted: Vec<OsdId> = whole.into_iter().chain(strays).collect();
        let leader = leaders.iter().find(|osd| wanted.contains(osd)).copied();
        if let Some(at) = leader.and_then(|osd| wanted.iter().position(|o| *o == osd)) {
            wanted[..=at].rotate_right(1);
        }
        if wanted.is_empty() {
            let info = self.peer_info.get(&self.members.up_primary);
            if !info.is_some_and(|info| self.needs_list(Span::of(info))) {
                return up.clone();
            }
            // This log does not reach who would lead by the up set: by other limits than ours, that one might only give
            // way again.
            wanted.extend([self.me].into_iter().chain(self.acting_others()));
        }
        let more: Vec<OsdId> = lacking.into_iter().filter(|osd| !wanted.contains(osd)).collect();
        wanted.extend(more);
        wanted.truncate(size.max(1));
        // With the members and the primary of the up set, it is the up set itself, in its order.
        let is_up = wanted.len() == distinct_osds(up).count() && wanted.iter().all(|osd| up.contains(osd));
        if is_up && wanted.first() == Some(&self.members.up_primary) { up.clone() } else { wanted }
    }

    /// True if the acting set is the wanted one, once it is known what every copy has. Otherwise the monitor is asked
    /// for the wanted one, and the next map begins another interval.
    pub(crate) fn acts_as_wanted(&self, ctx: &mut Ctx<'_>) -> bool {
        let is_whole = |osd| self.is_whole(osd, ctx.recovery.fill_first, ctx.map);
        let wanted = self.wanted_acting(is_whole, &[self.members.up_primary, self.members.primary]);
        if wanted == self.members.acting {
            return true;
        }
        self.want_acting(wanted, ctx);
        false
    }

    fn want_acting(&self, wanted: Vec<OsdId>, ctx: &mut Ctx<'_>) {
        let temporary = if wanted == self.members.up { Vec::new() } else { wanted };
        ctx.effects.push(Effect::WantActing(temporary));
    }

    /// True if another OSD is to lead, which has the best log, and one that does not reach this copy: to lead, this
    /// copy would need a list of all objects, and then it would be filled before it acts anyway. It need not know the
    /// log for that. By the best copy's own log this one is not whole: it is not handed back.
    pub(crate) fn gives_way_to(&self, best: OsdId, ctx: &mut Ctx<'_>) -> bool {
        let fill_first = ctx.recovery.fill_first;
        let Some(PgInfo { log_tail, last_update, .. }) = self.peer_info.get(&best) else { return false };
        // Versions are numbered one by one, so that as many changes are behind at most.
        let is_whole = |osd: OsdId| {
            self.peer_info
                .get(&osd)
                .filter(|info| ctx.map.is_up(osd) && info.last_update >= *log_tail)
                .is_some_and(|info| {
                    let behind = last_update.version.saturating_sub(info.last_update.version);
                    info.missing_count.saturating_add(behind) <= fill_first
                })
        };
        if *log_tail <= self.info.last_update || !is_whole(best) {
            return false;
        }
        let wanted = self.wanted_acting(is_whole, &[best]);
        let is_another = wanted != self.members.acting;
        if is_another {
            tracing::debug!(pg = %self.pgid, best = best.0, "gives way to a copy whose log does not reach this one");
            self.want_acting(wanted, ctx);
        }
        is_another
    }
}

#[cfg(test)]
mod tests;
