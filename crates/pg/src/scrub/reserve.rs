//! Slots: a scrub takes one on every member before it begins, so that an OSD has no more to do with scrubs at a time
//! than `osd_max_scrubs`, whether it leads them or not. A member that has none left says so at once; the primary then
//! gives back what it has and tries again later, after a time left to chance, so that primaries that want the same
//! slots do not meet again.
//!
//! Authority: `LocalReservation`, `ReplicaReservations`, `ReservedByRemotePrimary` (16.2).

use std::{collections::BTreeSet, time::Duration};

use messages::{MOSDScrubReserve, ScrubReserveStep};
use types::{Instant, OsdId, PgState};

use super::{Cause, Wanted};
use crate::{Ctx, Effect, Pg, Slot, pg::Phase};

/// A scrub that was refused a slot tries again within this time.
const RETRY_MAX: Duration = Duration::from_secs(1);

/// The slots of one scrub, as its primary has them.
#[derive(Debug)]
pub(super) struct Reservation {
    id: u64,
    /// Members that have not answered.
    waiting: BTreeSet<OsdId>,
    _own: Slot,
}

/// What a PG has to do with slots.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    /// Primary: for the scrub under way, or for one that is to begin.
    slots: Option<Reservation>,
    /// Replica: for the primary's scrub.
    granted: Option<Slot>,
    /// Primary: it was refused, and does not try before then.
    retry_at: Instant,
}

impl Pg {
    /// Slots of its OSD's that it has: as primary, and as replica.
    pub fn scrub_slots(&self) -> (usize, usize) {
        let reservations = &self.scrubs.reservations;
        (usize::from(reservations.slots.is_some()), usize::from(reservations.granted.is_some()))
    }

    /// Begins a scrub that was ordered, or that is due: with its slots.
    pub(super) fn prepare_scrub(&mut self, ctx: &mut Ctx<'_>) {
        let reservations = &self.scrubs.reservations;
        if reservations.slots.is_some()
            || ctx.now < reservations.retry_at
            || !ctx.scrub.has_slot()
            || self.next_scrub(ctx).is_none()
        {
            return;
        }
        self.scrubs.next_id += 1;
        let waiting: BTreeSet<OsdId> = self.acting_others().collect();
        let slots =
            Reservation { id: self.scrubs.next_id, waiting: waiting.clone(), _own: ctx.scrub.slots.take() };
        self.tell_slots(&slots, waiting, ScrubReserveStep::REQUEST, ctx);
        self.scrubs.reservations.slots = Some(slots);
        self.begin_if_reserved(ctx);
    }

    /// The scrub to do next; none in a PG that is not clean.
    fn next_scrub(&self, ctx: &Ctx<'_>) -> Option<Wanted> {
        if !self.is_serving() || !self.state().has(PgState::CLEAN) {
            return None;
        }
        self.scrubs.wanted.or_else(|| {
            let request = ctx.scrub.due(&self.info.scrubs, self.pgid, ctx.map, ctx.wall)?;
            Some(Wanted { request, cause: Cause::Due })
        })
    }

    fn begin_if_reserved(&mut self, ctx: &mut Ctx<'_>) {
        if self.scrubs.reservations.slots.as_ref().is_some_and(|slots| slots.waiting.is_empty()) {
            match self.next_scrub(ctx) {
                Some(next) => {
                    self.scrubs.wanted = None;
                    self.begin_scrub(next, ctx);
                }
                None => self.release_slots(ctx),
            }
        }
    }

    /// Gives back what the scrub has, or has asked for.
    pub(super) fn release_slots(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(slots) = self.scrubs.reservations.slots.take() {
            self.tell_slots(&slots, self.acting_others().collect(), ScrubReserveStep::RELEASE, ctx);
        }
    }

    fn tell_slots(
        &self,
        slots: &Reservation,
        to: BTreeSet<OsdId>,
        step: ScrubReserveStep,
        ctx: &mut Ctx<'_>,
    ) {
        if !to.is_empty() {
            let message = MOSDScrubReserve { pgid: self.pgid, epoch: ctx.map.epoch, id: slots.id, step };
            ctx.effects.push(Effect::SendOsds(to.into_iter().collect(), message.into()));
        }
    }

    pub(crate) fn on_scrub_reserve(&mut self, from: OsdId, message: MOSDScrubReserve, ctx: &mut Ctx<'_>) {
        match message.step {
            ScrubReserveStep::REQUEST | ScrubReserveStep::RELEASE => {
                self.on_slot_wanted(from, message, ctx);
            }
            ScrubReserveStep::GRANT | ScrubReserveStep::REJECT => self.on_slot_answer(from, message, ctx),
            _ => {}
        }
    }

    /// Replica: the primary wants a slot, or none any more.
    fn on_slot_wanted(&mut self, from: OsdId, message: MOSDScrubReserve, ctx: &mut Ctx<'_>) {
        if from != self.members.primary || self.phase != Phase::Replica {
            return;
        }
        self.scrubs.reservations.granted = None;
        if message.step == ScrubReserveStep::REQUEST {
            let granted = ctx.scrub.has_slot().then(|| ctx.scrub.slots.take());
            let step = if granted.is_some() { ScrubReserveStep::GRANT } else { ScrubReserveStep::REJECT };
            self.scrubs.reservations.granted = granted;
            let reply = MOSDScrubReserve { epoch: ctx.map.epoch, step, ..message };
            ctx.effects.push(Effect::SendOsd(from, reply.into()));
        }
    }

    /// Primary: a replica has a slot, or none.
    fn on_slot_answer(&mut self, from: OsdId, message: MOSDScrubReserve, ctx: &mut Ctx<'_>) {
        let reservations = &mut self.scrubs.reservations;
        let Some(slots) = reservations.slots.as_mut().filter(|slots| slots.id == message.id) else { return };
        if !slots.waiting.remove(&from) {
            return;
        }
        if message.step == ScrubReserveStep::GRANT {
            return self.begin_if_reserved(ctx);
        }
        reservations.retry_at = ctx.now + Duration::from_nanos(ctx.random % RETRY_MAX.as_nanos() as u64);
        ctx.effects.push(Effect::WakeAt(reservations.retry_at));
        self.release_slots(ctx);
    }
}

#[cfg(test)]
mod tests;
