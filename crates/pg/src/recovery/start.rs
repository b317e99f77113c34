//! The choice of the next pulls and pushes, as far as the limits of this PG, and of all PGs of the OSD together, allow
//! more.

use std::collections::btree_map::Entry;

use messages::{MPgPull, ObjectCursor};
use types::{EVersion, HObject, MapFlags, OsdId, OsdMap};

use super::{Measure, Push, Recovery, lacked};
use crate::{Ctx, Effect, Pg};

impl Pg {
    /// Starts what ops wait for.
    pub(super) fn start_urgent(&mut self, ctx: &mut Ctx<'_>) {
        for (source, object, version) in self.next_pulls(self.recovery.urgent_room(), true, ctx) {
            self.start_pull(source, object, version, ctx);
        }
        for (to, object) in self.next_urgent_pushes(self.recovery.urgent_room(), ctx) {
            self.start_push(to, object, ctx);
        }
    }

    /// Starts anything, or only what goes to the OSD whose turn it is. What may not be started yet waits for a turn.
    pub(super) fn start(&mut self, turn: Option<OsdId>, ctx: &mut Ctx<'_>) {
        let limits = ctx.recovery.limits();
        let (me, room) = (self.me, self.recovery.room());
        if turn.is_none_or(|osd| osd == me) {
            let pulls = ctx.recovery.active.room(me, turn.is_some(), limits).min(room);
            // One more than may be started tells whether there is more.
            let next = self.next_pulls(room.min(pulls + 1), false, ctx);
            self.wait_if(next.len() > pulls, me, ctx);
            for (source, object, version) in next.into_iter().take(pulls) {
                self.start_pull(source, object, version, ctx);
            }
        }
        for (to, is_all) in self.push_targets(ctx) {
            if turn.is_none_or(|osd| osd == to) {
                let room = self.recovery.room();
                let pushes = ctx.recovery.active.room(to, turn.is_some(), limits).min(room);
                let next = self.next_pushes(to, is_all, room.min(pushes + 1));
                self.wait_if(next.len() > pushes, to, ctx);
                for object in next.into_iter().take(pushes) {
                    self.start_push(to, object, ctx);
                }
            }
        }
    }

    fn wait_if(&mut self, has_more: bool, osd: OsdId, ctx: &Ctx<'_>) {
        if has_more {
            self.recovery.is_waiting = true;
            ctx.recovery.active.wait(osd, self.pgid, self.recovery.is_forced());
        }
    }

    fn start_pull(&mut self, source: OsdId, object: HObject, version: EVersion, ctx: &mut Ctx<'_>) {
        if !self.recovery.pulling.contains_key(&object) {
            self.recovery.pulling.insert(object.clone(), (source, ctx.recovery.active.take()));
            let begin = ObjectCursor::default();
            let message = MPgPull { pgid: self.pgid, epoch: ctx.map.epoch, object, version, begin };
            ctx.effects.push(Effect::SendOsd(source, message.into()));
        }
    }

    fn start_push(&mut self, to: OsdId, object: HObject, ctx: &mut Ctx<'_>) {
        if let Entry::Vacant(place) = self.recovery.pushing.entry((to, object.clone())) {
            place.insert(ctx.recovery.active.take());
            self.push(Push::new(to, object, Measure::of_parts(ctx.recovery)), ctx);
        }
    }

    /// The next objects to pull, with the OSDs to pull them from, urgent ones first. Looks at no more than it must: a
    /// PG may lack a hundred thousand objects, and this runs after each that came.
    fn next_pulls(
        &mut self,
        count: usize,
        is_urgent: bool,
        ctx: &Ctx<'_>,
    ) -> Vec<(OsdId, HObject, EVersion)> {
        if !self.recovery.has_room(self.me, ctx) {
            return Vec::new();
        }
        let is_held = ctx.map.has_flag(MapFlags::NORECOVER) || !self.recovery.may_recover(self.me, ctx);
        let is_all = !is_urgent && !is_held;
        if is_all {
            let Recovery { pulling, pulls_from, .. } = &mut self.recovery;
            let is_passed = |object: &HObject| self.unfound.has(object) || pulling.contains_key(object);
            pulls_from.pass(&self.missing, is_passed);
        }
        let all = is_all.then(|| self.recovery.pulls_from.rest(&self.missing));
        let urgent = self.recovery.urgent.iter().flat_map(|head| lacked(&self.missing, head));
        urgent
            .chain(all.into_iter().flatten())
            .filter(|(object, _)| !self.recovery.pulling.contains_key(*object) && !self.unfound.has(object))
            .filter_map(|(object, version)| {
                Some((self.source_of(object, *version, ctx.map)?, object.clone(), *version))
            })
            .take(count)
            .collect()
    }

    /// The next objects to push that ops wait for, each to all members that lack it. What this copy lacks itself is
    /// pulled before.
    fn next_urgent_pushes(&self, count: usize, ctx: &Ctx<'_>) -> Vec<(OsdId, HObject)> {
        let members = self.acting_others().chain(self.targets());
        let members = members.filter(|osd| self.recovery.has_room(*osd, ctx));
        let lacking: Vec<_> = members.filter_map(|osd| Some((osd, self.peer_missing.get(&osd)?))).collect();
        let urgent = self.recovery.urgent.iter().flat_map(|head| {
            let of = move |(osd, missing)| lacked(missing, head).map(move |(object, _)| (osd, object));
            lacking.iter().copied().flat_map(of)
        });
        urgent
            .map(|(osd, object)| (osd, object.clone()))
            .filter(|push| !self.missing.contains_key(&push.1) && !self.recovery.pushing.contains_key(push))
            .take(count)
            .collect()
    }

    /// Members that lack objects and have room, and whether they are sent more than what ops wait for.
    fn push_targets(&self, ctx: &Ctx<'_>) -> Vec<(OsdId, bool)> {
        let recovers = !ctx.map.has_flag(MapFlags::NORECOVER);
        let fills = recovers && self.may_fill(ctx.map);
        let acting = self.acting_others().map(|osd| (osd, recovers && self.recovery.may_recover(osd, ctx)));
        let targets = self.targets().map(|osd| (osd, fills && self.recovery.may_backfill(osd, ctx)));
        let takes_some = |osd| self.lacked_by([osd].into_iter()) > 0 && self.recovery.has_room(osd, ctx);
        acting.chain(targets).filter(|(osd, _)| takes_some(*osd)).collect()
    }

    /// The next objects to push to a member, urgent ones first.
    fn next_pushes(&mut self, to: OsdId, is_all: bool, count: usize) -> Vec<HObject> {
        let Some(missing) = self.peer_missing.get(&to) else { return Vec::new() };
        let Recovery { pushing, pushes_from, urgent, .. } = &mut self.recovery;
        let is_passed = |object: &HObject| {
            self.missing.contains_key(object) || pushing.contains_key(&(to, object.clone()))
        };
        let all = is_all.then(|| {
            let from = pushes_from.entry(to).or_default();
            from.pass(missing, is_passed);
            from.rest(missing)
        });
        let urgent = urgent.iter().flat_map(|head| lacked(missing, head));
        let next = urgent.chain(all.into_iter().flatten()).map(|(object, _)| object);
        next.filter(|object| !is_passed(object)).take(count).cloned().collect()
    }

    /// Whether the operator's flags allow filling members that do not act: `nobackfill`, and `norebalance` where no
    /// copy is lacking.
    fn may_fill(&self, map: &OsdMap) -> bool {
        let is_degraded = self.members.acting_count() < usize::from(self.members.size);
        !map.has_flag(MapFlags::NOBACKFILL) && (is_degraded || !map.has_flag(MapFlags::NOREBALANCE))
    }
}
