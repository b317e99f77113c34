//! Recovery: whole objects go to copies that lack them, a few at a time, those first that ops wait for. Large ones go in
//! parts.

mod gather;
mod part;
mod policy;
mod toofull;
mod urgent;

use std::collections::{BTreeMap, BTreeSet};

use messages::{LogLevel, MPgPull, MPgPush, MPgPushReply, ObjectCursor};
use store::Completion;
use types::{
    EVersion, HObject, MapFlags, Missing, Mutation, OsdId, OsdMap, PgInfo, PgState, SnapId, Token,
    Transaction, TxnOp,
};

use part::{Content, Measure, WHOLE, part_of};
use urgent::Urgent;

pub(crate) use gather::{Gathered, Part};
pub use policy::RecoveryPolicy;

use crate::{
    Ctx, Effect, Pg, Place,
    errand::object_version,
    meta::MetaChange,
    pg::{Pending, Phase},
};

/// Objects of one PG on their way at once, as far as the OSD's `osd_recovery_max_active` has room for them.
const ACTIVE_MAX: usize = 8;
/// The same in a PG that an operator wants recovered before others: these go on as before.
const FORCED_ACTIVE_MAX: usize = 64;
/// Objects on their way that ops wait for: these do not wait for others, which may be large, to arrive.
const URGENT_ACTIVE_MAX: usize = 8;

/// What is on its way.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// From whom, and its share of what the OSD does.
    pulling: BTreeMap<HObject, (OsdId, Place)>,
    pushing: BTreeMap<(OsdId, HObject), Place>,
    urgent: Urgent,
    /// Copies here that are as good as none, until good ones have taken their places.
    bad: BTreeSet<HObject>,
    /// `FORCED_RECOVERY`, `FORCED_BACKFILL`: what an operator has said, until the PG is clean.
    forced: PgState,
    /// `RECOVERY_TOOFULL`, `BACKFILL_TOOFULL`: what waits for room on OSDs.
    put_off: PgState,
}

/// An object on its way to another OSD, or a part of it.
#[derive(Debug)]
pub(crate) struct Push {
    to: OsdId,
    object: HObject,
    /// The version that was asked for, or zero.
    need: EVersion,
    begin: ObjectCursor,
    measure: Measure,
    /// What is at hand for it.
    pub(crate) loads: Vec<Token>,
}

impl Recovery {
    pub(crate) fn clear(&mut self) {
        *self = Recovery::default();
    }

    /// The copy of the object here is bad.
    pub(crate) fn note_bad(&mut self, object: &HObject) {
        self.bad.insert(object.clone());
    }

    /// A change settled the object: no good copy of it is to come.
    pub(crate) fn forget_bad(&mut self, object: &HObject) {
        self.bad.remove(object);
    }

    fn is_pulled_from(&self, object: &HObject, osd: OsdId) -> bool {
        self.pulling.get(object).is_some_and(|(source, _)| *source == osd)
    }

    pub(crate) fn active(&self) -> usize {
        self.pulling.len() + self.pushing.len()
    }

    /// What an operator has said.
    pub(crate) fn forced(&self) -> PgState {
        self.forced
    }

    /// What waits for room on OSDs.
    pub(crate) fn put_off(&self) -> PgState {
        self.put_off
    }

    /// How many more objects may be on their way. What ops wait for waits for nothing else, and what an operator wants first
    /// for no other PG; one object of each PG always may.
    fn room(&self, is_urgent: bool, policy: &RecoveryPolicy) -> usize {
        if is_urgent {
            let active = self.pulling.keys().chain(self.pushing.keys().map(|(_, object)| object));
            let urgent = active.filter(|object| self.urgent.contains(&object.head())).count();
            return URGENT_ACTIVE_MAX.saturating_sub(urgent);
        }
        let is_forced = self.forced != PgState::default();
        let most = if is_forced { FORCED_ACTIVE_MAX } else { ACTIVE_MAX };
        let left = most.saturating_sub(self.active());
        if is_forced {
            return left;
        }
        left.min(policy.free().max(usize::from(self.active() == 0)))
    }
}

impl Pg {
    /// Those who are gone do not answer what they were asked for: it is asked for again, of whoever has it.
    pub(crate) fn forget_pulls(&mut self, is_gone: impl Fn(&OsdId) -> bool, cx: &mut Ctx<'_>) {
        self.recovery.pulling.retain(|_, (source, _)| !is_gone(source));
        self.recover(cx);
    }

    /// An operator wants the PG recovered before others, or as others again.
    pub(crate) fn on_force(&mut self, is_backfill: bool, is_forced: bool, cx: &mut Ctx<'_>) {
        let bit = if is_backfill { PgState::FORCED_BACKFILL } else { PgState::FORCED_RECOVERY };
        if is_forced && self.phase == Phase::Active && !self.is_clean {
            self.recovery.forced = self.recovery.forced.with(bit);
            self.recover(cx);
        } else if !is_forced {
            self.recovery.forced = PgState(self.recovery.forced.0 & !bit.0);
        }
    }

    /// True when some copy lacks the object, or a clone of it.
    pub(crate) fn is_degraded(&self, head: &HObject) -> bool {
        let mut members = self.peer_missing.iter().filter(|(osd, _)| self.members.contains(**osd));
        self.is_missing(head) || members.any(|(_, missing)| lacks(missing, head))
    }

    /// True when this copy lacks the object, or a clone of it.
    pub(crate) fn is_missing(&self, head: &HObject) -> bool {
        lacks(&self.missing, head)
    }

    /// An op waits for the object.
    pub(crate) fn recover_soon(&mut self, head: &HObject, cx: &mut Ctx<'_>) {
        self.recovery.urgent.insert(head);
        self.recover(cx);
    }

    /// Starts what may be started; the PG is clean when nothing is left.
    pub(crate) fn recover(&mut self, cx: &mut Ctx<'_>) {
        if self.phase != Phase::Active || self.is_clean {
            return;
        }
        self.give_up_some(cx);
        self.recovery.put_off = self.put_off(cx.map);
        self.start(true, cx);
        self.start(false, cx);
        if self.missing.is_empty() && self.lacked_by(self.members.all()) == 0 {
            self.recovery.forced = PgState::default();
            if self.acts_as_wanted(cx) {
                self.become_clean(cx);
            }
        }
    }

    /// Starts what ops wait for, or anything.
    fn start(&mut self, is_urgent: bool, cx: &mut Ctx<'_>) {
        let room = self.recovery.room(is_urgent, cx.recovery);
        for (source, object, version) in self.next_pulls(room, is_urgent, cx) {
            if !self.recovery.pulling.contains_key(&object) {
                self.recovery.pulling.insert(object.clone(), (source, cx.recovery.active.take()));
                let begin = ObjectCursor::default();
                let message = MPgPull { pgid: self.pgid, epoch: cx.map.epoch, object, version, begin };
                cx.effects.push(Effect::SendOsd(source, message.into()));
            }
        }
        let room = self.recovery.room(is_urgent, cx.recovery);
        for push in self.next_pushes(room, is_urgent, cx.map) {
            if !self.recovery.pushing.contains_key(&push) {
                self.recovery.pushing.insert(push.clone(), cx.recovery.active.take());
                let ((to, object), need, begin) = (push, EVersion::ZERO, ObjectCursor::default());
                let measure = Measure::of_parts(cx.recovery);
                self.push(Push { to, object, need, begin, measure, loads: Vec::new() }, cx);
            }
        }
    }

    /// The next objects to pull, from whom, urgent ones first. Looks at no more than it must: a PG may
    /// lack a hundred thousand objects, and this runs after each that came.
    fn next_pulls(&self, count: usize, is_urgent: bool, cx: &Ctx<'_>) -> Vec<(OsdId, HObject, EVersion)> {
        let is_held = cx.map.has_flag(MapFlags::NORECOVER) || !toofull::may_recover(cx.map, self.me);
        let is_all = !is_urgent && !is_held;
        let urgent = self.recovery.urgent.iter().flat_map(|head| lacked(&self.missing, head));
        urgent
            .chain(is_all.then_some(&self.missing).into_iter().flatten())
            .filter(|(object, _)| !self.recovery.pulling.contains_key(*object))
            .filter_map(|(object, version)| {
                Some((self.source_of(object, *version, cx.map)?, object.clone(), *version))
            })
            .take(count)
            .collect()
    }

    /// The next objects to push, urgent ones first, each of these to all who lack it. What this copy lacks itself is pulled
    /// before.
    fn next_pushes(&self, count: usize, is_urgent: bool, map: &OsdMap) -> Vec<(OsdId, HObject)> {
        let (recovers, fills) =
            (!is_urgent && !map.has_flag(MapFlags::NORECOVER), !is_urgent && self.may_fill(map));
        let acting = self.acting_others().map(|osd| (osd, recovers && toofull::may_recover(map, osd)));
        let targets = self.targets().map(|osd| (osd, fills && toofull::may_backfill(map, osd)));
        let members = acting.chain(targets);
        let lacking: Vec<_> =
            members.filter_map(|(osd, is_all)| Some((osd, is_all, self.peer_missing.get(&osd)?))).collect();
        let urgent = self.recovery.urgent.iter().flat_map(|head| {
            let of = move |(osd, missing)| lacked(missing, head).map(move |(object, _)| (osd, object));
            lacking.iter().map(|(osd, _, missing)| (*osd, *missing)).flat_map(of)
        });
        let all = lacking.iter().filter(|(_, is_all, _)| *is_all);
        let all = all.flat_map(|(osd, _, missing)| missing.keys().map(|object| (*osd, object)));
        urgent
            .chain(all)
            .map(|(osd, object)| (osd, object.clone()))
            .filter(|push| !self.missing.contains_key(&push.1) && !self.recovery.pushing.contains_key(push))
            .take(count)
            .collect()
    }

    /// Whether an operator lets those be filled who do not act: `nobackfill`, and `norebalance` where no copy is lacking.
    fn may_fill(&self, map: &OsdMap) -> bool {
        let is_degraded = self.members.acting_count() < usize::from(self.members.size);
        !map.has_flag(MapFlags::NOBACKFILL) && (is_degraded || !map.has_flag(MapFlags::NOREBALANCE))
    }

    /// An OSD that has this version of the object. Members have all that they are not known to lack.
    pub(crate) fn source_of(&self, object: &HObject, version: EVersion, map: &OsdMap) -> Option<OsdId> {
        let has_it = |(osd, info): &(&OsdId, &PgInfo)| {
            let reaches = self.members.contains(**osd) || info.last_update >= version;
            let lacks = self.peer_missing.get(osd).is_some_and(|m| m.contains_key(object));
            **osd != self.me && map.is_up(**osd) && reaches && !lacks
        };
        self.peer_info.iter().find(has_it).map(|(osd, _)| *osd)
    }

    /// This copy of the object cannot be read: another one is to take its place. False where it is not known, or not at hand,
    /// which version that has to be.
    fn lose(&mut self, object: &HObject, cx: &mut Ctx<'_>) -> bool {
        if self.missing.contains_key(object) {
            // It was an older version that somebody asked for.
            return true;
        }
        match object_version(cx.store, self.coll, object) {
            // There is none that has no version, nor could any copy be the right one.
            Ok(EVersion::ZERO) | Err(_) => false,
            Ok(version) => {
                self.declare_missing(object.clone(), version, cx);
                cx.effects.push(Effect::StatsChanged);
                true
            }
        }
    }

    /// Who reads for a client, or for another PG, found the object unreadable: it waits for another copy. Only a
    /// primary that serves reads for them, and what was under way ends with its interval.
    pub(crate) fn repair(&mut self, object: &HObject, cx: &mut Ctx<'_>) {
        // Where its version is not at hand, who reads finds the object unreadable once more.
        if self.lose(object, cx) {
            let others = self.peer_info.keys().filter(|osd| self.members.contains(**osd));
            let others: Vec<String> = others.map(ToString::to_string).collect();
            let (pgid, others) = (self.pgid, others.join(","));
            let what_now = match self.is_unfound(&object.head()) {
                true => "unfound".to_owned(),
                false => format!("will try copies on {others}"),
            };
            let line = format!("{pgid} missing primary copy of {object}, {what_now}");
            cx.effects.push(Effect::ClusterLog(LogLevel::ERROR, line));
            self.counters.objects_repaired += 1;
            self.recover_soon(&object.head(), cx);
        }
    }

    /// An object is where it belongs on one more copy.
    fn after_recovered(&mut self, object: &HObject, cx: &mut Ctx<'_>) {
        let head = object.head();
        self.counters.objects_recovered += 1;
        if !self.is_degraded(&head) {
            self.recovery.urgent.remove(&head);
        }
        self.recover(cx);
        self.run_object(&head, cx);
    }

    /// Primary: that much data goes to a copy that lacks it, or came for the own one.
    fn note_recovered_bytes(&mut self, pushed: &Transaction) {
        if self.is_primary() {
            let data = pushed.ops.iter().map(|op| match op {
                TxnOp::Object(_, Mutation::Write { data, .. }) => data.len() as u64,
                _ => 0,
            });
            self.counters.bytes_recovered += data.sum::<u64>();
        }
    }

    /// Another OSD asks for an object, or for its next part.
    pub(crate) fn on_pull(&mut self, from: OsdId, message: MPgPull, cx: &mut Ctx<'_>) {
        let MPgPull { object, version: need, begin, .. } = message;
        // What there is in whatever version is to be part of a change.
        let measure = if need == EVersion::ZERO { WHOLE } else { Measure::of_parts(cx.recovery) };
        self.push(Push { to: from, object, need, begin, measure, loads: Vec::new() }, cx);
    }

    /// Sends an object, or a part of it, once that is at hand.
    fn push(&mut self, mut push: Push, cx: &mut Ctx<'_>) {
        let part = part_of(cx.store, self.coll, &push.object, &push.begin, push.measure);
        let Content { version, txn, next } = match part {
            Ok(Some(part)) if self.missing.get(&push.object) != Some(&part.version) => part,
            // It is known to be bad.
            Ok(Some(_)) => {
                push.loads.into_iter().for_each(|token| cx.store.unload(token));
                self.recovery.pushing.remove(&(push.to, push.object.clone()));
                return self.on_push_unreadable(push.to, push.object, cx);
            }
            Ok(None) => {
                push.loads.into_iter().for_each(|token| cx.store.unload(token));
                return self.on_push_damaged(push.to, push.object, push.need, cx);
            }
            Err(missing) => {
                let token = self.token(Pending::PushRead(Box::new(push)));
                return cx.store.load(token, missing);
            }
        };
        if !push.begin.is_begin() && version != push.need {
            // It has changed since the part before: all of it is sent again.
            push.begin = ObjectCursor::default();
            return self.push(push, cx);
        }
        let Push { to, object, begin, loads, .. } = push;
        loads.into_iter().for_each(|token| cx.store.unload(token));
        self.note_recovered_bytes(&txn);
        let message = MPgPush { pgid: self.pgid, epoch: cx.map.epoch, object, version, txn, begin, next };
        cx.effects.push(Effect::SendOsd(to, message.into()));
    }

    pub(crate) fn on_push_read(&mut self, push: Push, completion: Completion, cx: &mut Ctx<'_>) {
        if let Completion::Loaded(_, Err(error)) = completion {
            tracing::error!(pg = %self.pgid, object = %push.object, %error, "an object to push cannot be read");
            if self.lose(&push.object, cx) {
                push.loads.into_iter().for_each(|token| cx.store.unload(token));
                self.recovery.pushing.remove(&(push.to, push.object.clone()));
                return self.on_push_unreadable(push.to, push.object, cx);
            }
        }
        self.push(push, cx);
    }

    /// What this copy keeps with the object cannot be decoded, so it is as bad as one that cannot be read: it is not spread,
    /// and a good one is to take its place.
    fn on_push_damaged(&mut self, to: OsdId, object: HObject, need: EVersion, cx: &mut Ctx<'_>) {
        tracing::error!(pg = %self.pgid, %object, "what is kept with an object to push cannot be decoded");
        self.recovery.pushing.remove(&(to, object.clone()));
        let lacked = || self.peer_missing.get(&to)?.get(&object).copied();
        let wanted = Some(need).filter(|need| *need != EVersion::ZERO).or_else(lacked);
        if let Some(wanted) = wanted.filter(|_| !self.missing.contains_key(&object)) {
            self.declare_missing(object.clone(), wanted, cx);
            cx.effects.push(Effect::StatsChanged);
        }
        // A primary that pushes of its own accord pulls with its next turn.
        if !self.is_primary() || to == self.me {
            self.on_push_unreadable(to, object, cx);
        }
    }

    /// Primary: what it pushed is older than what the other one lacks, as the log has it, so this copy is no good either.
    fn on_push_refused(&mut self, to: OsdId, object: HObject, cx: &mut Ctx<'_>) {
        self.recovery.pushing.remove(&(to, object.clone()));
        let need = self.peer_missing.get(&to).and_then(|missing| missing.get(&object)).copied();
        if let Some(need) = need.filter(|_| !self.missing.contains_key(&object)) {
            tracing::error!(pg = %self.pgid, %object, %need, "the copy here is none of this version");
            self.declare_missing(object, need, cx);
            cx.effects.push(Effect::StatsChanged);
        }
        self.recover(cx);
    }

    /// What was to be pushed is lost here: its primary looks for another copy.
    fn on_push_unreadable(&mut self, to: OsdId, object: HObject, cx: &mut Ctx<'_>) {
        if self.is_primary() && to != self.me {
            return self.recover(cx);
        }
        let (version, txn) = (EVersion::ZERO, Transaction::new(self.coll));
        let message = MPgPush::whole((self.pgid, cx.map.epoch), object, version, txn);
        cx.effects.push(Effect::SendOsd(to, message.into()));
    }

    /// An object came that this copy lacks; with version zero, word that the sender lacks it as well, and could do nothing
    /// with what was pushed there, if that was so.
    pub(crate) fn on_push(&mut self, from: OsdId, message: MPgPush, cx: &mut Ctx<'_>) {
        let is_part = message.is_part();
        let MPgPush { object, version, txn: pushed, begin, next, .. } = message;
        let mut offer = (version, pushed);
        if self.on_offer(from, &object, &mut offer, is_part, cx) {
            return;
        }
        let pushed = offer.1;
        if version == EVersion::ZERO && self.recovery.pushing.contains_key(&(from, object.clone())) {
            return self.on_push_refused(from, object, cx);
        }
        // A primary takes nothing but what it is pulling from there. Others answer late what they were asked for before:
        // what there is in whatever version, or what is pulled from somebody else by now.
        if self.is_primary() && !self.recovery.is_pulled_from(&object, from) {
            return;
        }
        // A replica takes what its primary has. A primary takes what the log names and nothing else: a
        // newer version is of a history that came to nothing.
        let suits = |need: &EVersion| *need == version || *need < version && !self.is_primary();
        let is_needed = self.missing.get(&object).is_some_and(suits);
        if !is_needed {
            self.recovery.pulling.remove(&object);
            if let Some(need) = self.missing.get(&object).copied() {
                if !self.is_primary() {
                    tracing::error!(pg = %self.pgid, %object, %need, %version, "what the primary has is not what is lacking");
                    return self.on_push_unreadable(from, object, cx);
                }
                tracing::error!(pg = %self.pgid, %object, "a copy that should have the object does not");
                self.peer_missing.entry(from).or_default().insert(object.clone(), need);
                self.look_for(&object, cx);
                return self.recover(cx);
            }
            return self.on_push_durable(from, object, cx);
        }
        self.note_recovered_bytes(&pushed);
        if is_part {
            if let Some((pending, txn)) = self.gather(from, &object, version, (&begin, next), pushed) {
                self.submit(pending, txn, cx);
            }
            return;
        }
        let mut txn = Transaction::new(self.coll);
        txn.append(pushed);
        let mut change = MetaChange::default();
        change.missing(&object, None);
        self.forget_gathered(&object, &mut change, &mut txn);
        change.into_txn(&mut txn);
        self.submit(Pending::Pushed { from, object }, txn, cx);
    }

    pub(crate) fn on_push_durable(&mut self, from: OsdId, object: HObject, cx: &mut Ctx<'_>) {
        self.missing.remove(&object);
        self.unfound.remove(&object);
        if self.recovery.bad.remove(&object) {
            self.copies_repaired += 1;
            cx.effects.push(Effect::StatsChanged);
        }
        // Only now: what is missing and not being pulled is pulled.
        self.recovery.pulling.remove(&object);
        if self.is_primary() {
            self.after_recovered(&object, cx);
        } else {
            let reply = MPgPushReply { pgid: self.pgid, epoch: cx.map.epoch, object };
            cx.effects.push(Effect::SendOsd(from, reply.into()));
        }
    }

    pub(crate) fn on_push_reply(&mut self, from: OsdId, message: MPgPushReply, cx: &mut Ctx<'_>) {
        let object = message.object;
        self.recovery.pushing.remove(&(from, object.clone()));
        if let Some(missing) = self.peer_missing.get_mut(&from) {
            missing.remove(&object);
        }
        self.after_recovered(&object, cx);
    }

    /// Objects that those of these OSDs lack who are others than this one.
    pub(crate) fn lacked_by(&self, osds: impl Iterator<Item = OsdId>) -> u64 {
        osds.filter_map(|osd| self.peer_missing.get(&osd)).map(|missing| missing.len() as u64).sum()
    }

    /// Objects that this copy and the others that act lack.
    pub(crate) fn lacked_by_acting(&self) -> u64 {
        self.missing.len() as u64 + self.lacked_by(self.acting_others())
    }
}

/// True if the object, or a clone of it, is missing.
fn lacks(missing: &Missing, head: &HObject) -> bool {
    !missing.is_empty() && lacked(missing, head).next().is_some()
}

/// The object and its clones, as far as they are missing: they are neighbours in the order.
fn lacked<'a>(missing: &'a Missing, head: &HObject) -> impl Iterator<Item = (&'a HObject, &'a EVersion)> {
    missing.range(head.with_snap(SnapId(0))..=head.head())
}

#[cfg(test)]
mod tests;
