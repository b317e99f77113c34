//! OSDs that are too full to be given more: by the cluster's ratios, as the map shows it, or all but full, or without
//! room for an object, by what they tell ([`crate::Rooms`]).
//!
//! What an op waits for is recovered though the map shows the OSD as full: it is one object. But no store gets an
//! object for which there might be no room: it would hold it, and all that comes later for the PG. The primary does not
//! send it, and an OSD that gets it all the same refuses it. Then nothing more of the PG goes to that OSD, until a tick
//! finds that there is room for the object.
//!
//! Authority: `backfill_toofull`, `recovery_toofull`, `OSDService::check_failsafe_full` (16.2).

use messages::{MPgPushRefused, ObjectCursor};
use types::{HObject, OsdId, OsdState, PgState, Transaction};

use super::{Push, Recovery};
use crate::{CHANGE_BYTES, Ctx, Effect, Pg, Rooms, meta::MetaChange, pg::Pending};

impl Recovery {
    /// True if the OSD may be given what ops wait for.
    pub(super) fn has_room(&self, osd: OsdId, ctx: &Ctx<'_>) -> bool {
        !ctx.rooms.is_full(osd) && !self.short.contains_key(&osd)
    }

    /// True if the OSD may be given objects that it lacks where it acts.
    pub(super) fn may_recover(&self, osd: OsdId, ctx: &Ctx<'_>) -> bool {
        !ctx.map.state(osd).has(OsdState::FULL) && self.has_room(osd, ctx)
    }

    /// True if the OSD may be filled with a PG in which it does not act.
    pub(super) fn may_backfill(&self, osd: OsdId, ctx: &Ctx<'_>) -> bool {
        self.may_recover(osd, ctx) && !ctx.map.state(osd).has(OsdState::BACKFILLFULL)
    }

    /// OSDs that had no room may have some again.
    pub(crate) fn look_for_room(&mut self, rooms: &Rooms) {
        self.short.retain(|osd, bytes| rooms.are_short([*osd].into_iter(), *bytes));
    }
}

impl Pg {
    /// What is put off for OSDs that are too full, as the PG's state tells it.
    pub(super) fn put_off(&self, ctx: &Ctx<'_>) -> PgState {
        let lacks = |osd: &OsdId| self.peer_missing.get(osd).is_some_and(|missing| !missing.is_empty());
        let waits = |osd: OsdId| !self.recovery.may_recover(osd, ctx);
        let mut out = PgState::default();
        if !self.missing.is_empty() && waits(self.me)
            || self.acting_others().any(|osd| lacks(&osd) && waits(osd))
        {
            out = out.with(PgState::RECOVERY_TOOFULL);
        }
        if self.targets().any(|osd| lacks(&osd) && !self.recovery.may_backfill(osd, ctx)) {
            out = out.with(PgState::BACKFILL_TOOFULL);
        }
        out
    }

    /// True if an OSD might have no room for an object that is about to be pushed: then it is not.
    /// `size` of its data will be written there.
    pub(super) fn finds_no_room(&mut self, push: &Push, size: u64, bytes: usize, ctx: &mut Ctx<'_>) -> bool {
        let is_own = self.recovery.pushing.contains_key(&(push.to, push.object.clone()));
        if !is_own || !push.begin.is_begin() {
            return false;
        }
        let bytes = size.max(bytes as u64) + CHANGE_BYTES;
        let under_way = ctx.recovery.active.bytes_to(push.to) as u64;
        let is_short = ctx.rooms.are_short([push.to].into_iter(), under_way + bytes);
        if is_short {
            self.put_off_for(push.to, &push.object, bytes, ctx);
        }
        is_short
    }

    /// An OSD has no room for an object: it does not get it for now.
    fn put_off_for(&mut self, osd: OsdId, object: &HObject, bytes: u64, ctx: &mut Ctx<'_>) {
        self.recovery.forget_push(osd, object);
        self.recovery.look_again(object);
        let needed = self.recovery.short.entry(osd).or_default();
        *needed = bytes.max(*needed);
        self.recovery.put_off = self.put_off(ctx);
        ctx.effects.push(Effect::StatsChanged);
    }

    /// What a pushed object, or as much of it as has come with this part, takes here, if there might be no room for it.
    pub(super) fn lacks_room_for(
        &self,
        object: &HObject,
        (begin, is_last): (&ObjectCursor, bool),
        pushed: &Transaction,
        ctx: &Ctx<'_>,
    ) -> Option<u64> {
        let placing = is_last.then(|| self.placing(object));
        let all = || [pushed].into_iter().chain(&placing);
        let growth: u64 = all().map(|txn| ctx.store.growth_bytes(txn)).sum();
        let bytes = self.gathered.bytes_before(object, begin).saturating_add(growth);
        let has_room = || ctx.rooms.takes(self.me, bytes) && all().all(|txn| ctx.store.has_room_for(txn));
        (growth > 0 && !has_room()).then_some(bytes)
    }

    /// Does not take an object for which there is no room, nor keep what came of it before.
    pub(super) fn refuse_push(&mut self, from: OsdId, object: HObject, bytes: u64, ctx: &mut Ctx<'_>) {
        let (mut change, mut txn) = (MetaChange::default(), Transaction::new(self.coll));
        self.forget_gathered(&object, &mut change, &mut txn);
        if !txn.ops.is_empty() {
            change.into_txn(&mut txn);
            self.submit(Pending::Nothing, txn, ctx);
        }
        if self.is_primary() {
            self.recovery.pulling.remove(&object);
            return self.put_off_for(self.me, &object, bytes, ctx);
        }
        let message = MPgPushRefused { pgid: self.pgid, epoch: ctx.map.epoch, object, bytes };
        ctx.effects.push(Effect::SendOsd(from, message.into()));
    }

    /// An OSD has no room for what was pushed there.
    pub(crate) fn on_no_room(&mut self, from: OsdId, message: &MPgPushRefused, ctx: &mut Ctx<'_>) {
        let MPgPushRefused { object, bytes, .. } = message;
        if self.recovery.pushing.contains_key(&(from, object.clone())) {
            self.put_off_for(from, object, *bytes, ctx);
        }
    }
}
