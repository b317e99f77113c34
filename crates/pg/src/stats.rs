//! The PG's state and totals, as monitors hear of them.

use types::{OsdId, OsdMap, PgStat, PgStatSum, PgState, PgTotals, UTime};

use crate::{CommitTimes, Ctx, Effect, OpCounts, OpHistograms, Pg, pg::Phase, state_history::state_name};

impl Pg {
    /// The state's bits.
    pub fn state(&self) -> PgState {
        let acting = self.members.acting_count();
        let is_remapped = self.members.is_remapped();
        let mut state = match &self.phase {
            Phase::Active if self.members.is_merging => PgState::PEERED.with(PgState::PREMERGE),
            Phase::Active => PgState::ACTIVE,
            Phase::Activating { .. } => PgState::ACTIVATING,
            Phase::Down => PgState::DOWN,
            Phase::WaitUpThru if !self.has_min_size() => PgState::PEERED,
            Phase::Idle
            | Phase::Replica
            | Phase::GetInfo { .. }
            | Phase::GetLog { .. }
            | Phase::WaitActing { .. }
            | Phase::WaitUpThru => PgState::PEERING,
        };
        let has_peered = matches!(self.phase, Phase::Activating { .. } | Phase::Active);
        if acting < usize::from(self.members.size) && (has_peered || state.has(PgState::PEERED)) {
            state = state.with(PgState::UNDERSIZED).with(PgState::DEGRADED);
        }
        if is_remapped {
            state = state.with(PgState::REMAPPED);
        }
        if self.phase == Phase::Active {
            // This runs after each event: if the up set acts, there is no other target to look at.
            let is_filling = is_remapped && self.lacked_by(self.targets()) > 0;
            let put_off = self.recovery.put_off();
            if is_filling {
                let is_put_off = put_off.has(PgState::BACKFILL_TOOFULL);
                let filling = if is_put_off { PgState::BACKFILL_TOOFULL } else { PgState::BACKFILLING };
                state = state.with(filling).with(self.recovery.forced());
            }
            if self.lacked_by_acting() > 0 {
                let is_stuck = self.unfound_count() > 0 && self.recovery.is_idle();
                let recovery = match () {
                    () if is_stuck => PgState::RECOVERY_UNFOUND,
                    () if put_off.has(PgState::RECOVERY_TOOFULL) => PgState::RECOVERY_TOOFULL,
                    () => PgState::RECOVERING,
                };
                state = state.with(PgState::DEGRADED).with(recovery).with(self.recovery.forced());
            } else if !is_filling && self.is_clean && acting >= usize::from(self.members.size) {
                state = state.with(PgState::CLEAN);
            }
            if self.lease.is_laggy {
                state = state.with(PgState::LAGGY);
            }
            if self.trimming.as_ref().is_some_and(|trimming| !trimming.is_held_back) {
                state = state.with(PgState::SNAPTRIM);
            }
            state = state.with(self.scrubs.state());
            if self.info.scrubs.errors() > 0 {
                state = state.with(PgState::INCONSISTENT);
            }
        }
        state
    }

    /// Notes a change of state and reports it.
    pub(crate) fn note_state(&mut self, ctx: &mut Ctx<'_>) {
        let state = self.state();
        if self.stats.stamps.enter(state, ctx.wall) {
            self.history.enter(state_name(&self.phase, state), ctx.map.epoch, ctx.wall);
            if self.is_primary() {
                ctx.effects.push(Effect::StatsChanged);
            }
        }
    }

    /// Counts copies of objects that are lacking (degraded), and those that are not where they belong (misplaced).
    fn degraded_and_misplaced(&self, objects: u64) -> (u64, u64) {
        let acting = self.acting_others().count() as u64 + u64::from(self.members.acting.contains(&self.me));
        let absent = u64::from(self.members.size).saturating_sub(acting);
        let strays = self.members.acting.iter().filter(|osd| !self.members.up.contains(osd)).count() as u64;
        let to_fill = self.lacked_by(self.targets());
        // Each OSD that acts without being up stands in for one that is filled; filling any others adds copies that do
        // not exist yet.
        let misplaced = to_fill.min(strays.saturating_mul(objects));
        let more = (self.targets().count() as u64).saturating_sub(strays);
        let absent = absent.saturating_sub(more).saturating_mul(objects).saturating_add(to_fill - misplaced);
        (self.lacked_by_acting().saturating_add(absent), misplaced)
    }

    /// OSDs that act and lack objects.
    fn lacking(&self) -> Vec<OsdId> {
        let own = (!self.missing.is_empty()).then_some(self.me);
        let lacks = |osd: &OsdId| self.peer_missing.get(osd).is_some_and(|missing| !missing.is_empty());
        own.into_iter().chain(self.acting_others().filter(lacks)).collect()
    }

    /// What it has done since it was loaded, whether it led or not.
    pub fn counters(&self) -> PgStatSum {
        self.stats.sum
    }

    /// How long its changes took to become durable here, since it was loaded.
    pub fn commit_times(&self) -> CommitTimes {
        self.stats.commit_times
    }

    /// Requests that it answered since it was loaded, whether it led or not.
    pub fn op_counts(&self) -> OpCounts {
        self.stats.ops
    }

    /// How long those took, by their size.
    pub fn histograms(&self) -> &OpHistograms {
        &self.stats.histograms
    }

    /// What the primary reports.
    pub fn stat(&mut self, map: &OsdMap, wall: UTime) -> PgStat {
        self.stats.reported_seq += 1;
        let state = self.state();
        self.stats.stamps.note(state, wall);
        let size = u64::from(self.members.size);
        let PgTotals { objects, clones, bytes } = self.info.totals;
        let mut sum = PgStatSum { objects, clones, bytes, ..self.stats.sum };
        sum.object_copies = sum.objects.saturating_mul(size);
        let scrubs = self.info.scrubs;
        (sum.shallow_scrub_errors, sum.deep_scrub_errors) = (scrubs.shallow_errors, scrubs.deep_errors);
        (sum.omap_keys, sum.omap_bytes) = (scrubs.omap_keys, scrubs.omap_bytes);
        sum.large_omap_objects = scrubs.large_omap_objects;
        sum.missing_on_primary = self.missing.len() as u64;
        sum.unfound = self.unfound_count() as u64;
        (sum.degraded, sum.misplaced) = self.degraded_and_misplaced(objects);
        PgStat {
            pgid: self.pgid,
            state,
            version: self.info.last_update,
            reported_epoch: map.epoch,
            reported_seq: self.stats.reported_seq,
            up: self.members.up.clone(),
            acting: self.members.acting.clone(),
            up_primary: self.members.up_primary,
            acting_primary: self.members.primary,
            log_start: self.info.log_tail,
            log_size: self.log.len_after(self.info.log_tail) as u64,
            created: self.info.created,
            last_epoch_clean: self.info.last_epoch_clean,
            mapping_epoch: self.info.since,
            last_fresh: wall,
            last_change: self.stats.stamps.change,
            last_active: self.stats.stamps.active,
            last_clean: self.stats.stamps.clean,
            snaptrimq_len: self.snaps_to_trim(map).size(),
            sum,
            scrubs,
            blocked_by: self.blocked_by(map),
            purged_snaps: self.trimmed_snaps(map),
            lacking: self.lacking(),
            times: self.stats.stamps.others,
        }
    }
}

#[cfg(test)]
mod tests;
