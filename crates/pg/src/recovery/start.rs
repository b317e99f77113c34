//! The choice of the next pulls and pushes, as far as the limits of this PG, and of all PGs of the OSD together, allow
//! more.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Bound,
};

use messages::{MPgPull, ObjectCursor};
use types::{EVersion, HObject, MapFlags, Missing, OsdId, OsdMap, SnapId};

use super::{Measure, Push, Recovery, base::Lacks, lacked};
use crate::{Ctx, Effect, Pg};

impl Recovery {
    /// True while the object or a clone of it is being pulled: others of them wait, as they may begin with it then
    /// (`base.rs`), each with its neighbour.
    fn is_pulling_any(&self, head: &HObject) -> bool {
        self.pulling.range(head.with_snap(SnapId(0))..=head.head()).next().is_some()
    }
}

/// The same of pushes to an OSD.
fn is_pushing_any<T>(pushing: &BTreeMap<(OsdId, HObject), T>, to: OsdId, head: &HObject) -> bool {
    pushing.range((to, head.with_snap(SnapId(0)))..=(to, head.head())).next().is_some()
}

/// Of each object with its clones the first one that can be chosen, unless one is on its way.
fn one_of_each<T>(
    missing: &Missing,
    mut from: Bound<HObject>,
    is_busy: impl Fn(&HObject) -> bool,
    choose: impl Fn(&HObject, &EVersion) -> Option<T>,
) -> impl Iterator<Item = T> {
    std::iter::from_fn(move || {
        loop {
            let next = missing.range::<HObject, _>((from.as_ref(), Bound::Unbounded)).next();
            let (object, version) = next?;
            let head = object.head();
            let chosen = if is_busy(&head) { None } else { choose(object, version) };
            let is_over = chosen.is_some() || is_busy(&head);
            from = Bound::Excluded(if is_over { head } else { object.clone() });
            if chosen.is_some() {
                return chosen;
            }
        }
    })
}

/// Of an object with its clones, for which ops wait: the head alone, as all others may begin with it then, and those at
/// once when it is there, or cannot be chosen. `choose` chooses nothing that is on its way.
fn head_first<'a, T: 'a>(
    missing: &'a Missing,
    head: &'a HObject,
    is_head_busy: bool,
    choose: impl Fn(&HObject, &EVersion) -> Option<T> + 'a,
) -> impl Iterator<Item = T> + 'a {
    let first = missing.get(head).and_then(|version| choose(head, version));
    let is_alone = is_head_busy || first.is_some();
    let others = lacked(missing, head).take_while(move |_| !is_alone);
    first.into_iter().chain(others.filter_map(move |(object, version)| choose(object, version)))
}

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
            let (pgid, epoch, begin) = (self.pgid, ctx.map.epoch, ObjectCursor::default());
            let lacks = self.lacks_beside(&object, version, ctx.store);
            let message = MPgPull { pgid, epoch, object, version, begin, lacks };
            ctx.effects.push(Effect::SendOsd(source, message.into()));
        }
    }

    fn start_push(&mut self, to: OsdId, object: HObject, ctx: &mut Ctx<'_>) {
        if let Entry::Vacant(place) = self.recovery.pushing.entry((to, object.clone())) {
            place.insert(ctx.recovery.active.take());
            let push = Push::new(to, object, Measure::of_parts(ctx.recovery));
            self.push(Push { lacks: Lacks::OfMember, ..push }, ctx);
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
        let pulling = &self.recovery.pulling;
        let chosen = |object: &HObject, version: &EVersion| {
            let may_come = !self.unfound.has(object) && !pulling.contains_key(object);
            let source = may_come.then(|| self.source_of(object, *version, ctx.map)).flatten();
            source.map(|source| (source, object.clone(), *version))
        };
        let is_busy = |head: &HObject| self.recovery.is_pulling_any(head);
        let all = is_all.then(|| self.recovery.pulls_from.begin());
        let all = all.map(|from| one_of_each(&self.missing, from, &is_busy, &chosen));
        let urgent = self.recovery.urgent.iter();
        let urgent = urgent.flat_map(|head| {
            let is_head_busy = pulling.contains_key(head);
            head_first(&self.missing, head, is_head_busy, chosen)
        });
        urgent.chain(all.into_iter().flatten()).take(count).collect()
    }

    /// True while this copy lacks the object's head, which is to come: what the object shares with others is told by
    /// that, so it is sent afterwards.
    fn waits_for_head(&self, object: &HObject) -> bool {
        let head = object.head();
        !object.is_head() && self.missing.contains_key(&head) && !self.unfound.has(&head)
    }

    /// True if the object can be pushed.
    fn is_at_hand(&self, object: &HObject) -> bool {
        !self.missing.contains_key(object) && !self.waits_for_head(object)
    }

    /// The next objects to push that ops wait for, each to all members that lack it. What this copy lacks itself is
    /// pulled before.
    fn next_urgent_pushes(&self, count: usize, ctx: &Ctx<'_>) -> Vec<(OsdId, HObject)> {
        let members = self.acting_others().chain(self.targets());
        let members = members.filter(|osd| self.recovery.has_room(*osd, ctx));
        let lacking: Vec<_> = members.filter_map(|osd| Some((osd, self.peer_missing.get(&osd)?))).collect();
        let pushing = &self.recovery.pushing;
        let next = |osd: OsdId, missing, head| {
            let choose = move |object: &HObject, _: &EVersion| {
                let push = (osd, object.clone());
                (self.is_at_hand(object) && !pushing.contains_key(&push)).then_some(push)
            };
            head_first(missing, head, pushing.contains_key(&(osd, HObject::clone(head))), choose)
        };
        let urgent = self.recovery.urgent.iter();
        let urgent =
            urgent.flat_map(|head| lacking.iter().flat_map(move |(osd, missing)| next(*osd, *missing, head)));
        urgent.take(count).collect()
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
        let mut from = self.recovery.pushes_from.remove(&to).unwrap_or_default();
        let is_on_its_way = |object: &HObject| self.recovery.pushing.contains_key(&(to, object.clone()));
        let may_go = |object: &HObject| self.is_at_hand(object) && !is_on_its_way(object);
        if is_all {
            from.pass(missing, |object| !may_go(object));
        }
        let all = is_all.then(|| from.begin());
        // One that takes nothing but whole objects has no reason to wait for others.
        let waits = self.recovery.takes_clones.contains(&to);
        let is_busy = |head: &HObject| waits && is_pushing_any(&self.recovery.pushing, to, head);
        let chosen = |object: &HObject, _: &EVersion| may_go(object).then(|| object.clone());
        let all = all.map(|from| one_of_each(missing, from, &is_busy, &chosen));
        let urgent = self.recovery.urgent.iter();
        let urgent = urgent.flat_map(|head| head_first(missing, head, is_on_its_way(head), chosen));
        let next = urgent.chain(all.into_iter().flatten()).take(count).collect();
        self.recovery.pushes_from.insert(to, from);
        next
    }

    /// Whether the operator's flags allow filling members that do not act: `nobackfill`, and `norebalance` where no
    /// copy is lacking.
    fn may_fill(&self, map: &OsdMap) -> bool {
        let is_degraded = self.members.acting_count() < usize::from(self.members.size);
        !map.has_flag(MapFlags::NOBACKFILL) && (is_degraded || !map.has_flag(MapFlags::NOREBALANCE))
    }
}
