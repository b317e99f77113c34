//! Recovery: whole objects are sent to copies that lack them, a few at a time, those first that ops wait for. Large
//! ones are sent in parts. All PGs together share the limits on what is under way: see `throttle.rs`.

mod base;
mod cursor;
mod gather;
mod part;
mod policy;
mod start;
mod throttle;
mod toofull;
mod urgent;

use std::collections::{BTreeMap, BTreeSet};

use messages::{LogLevel, MPgPull, MPgPush, MPgPushReply, ObjectCursor};
use store::Completion;
use types::{
    EVersion, HObject, Missing, Mutation, OsdId, OsdMap, PgInfo, PgState, SnapId, Token, Transaction, TxnOp,
};

use base::{Base, Lacks};
use cursor::Cursor;
use part::{Content, Measure, WHOLE, part_of};
use throttle::{RecoveryBytes, RecoverySlot};
use urgent::Urgent;

pub(crate) use base::{Arrived, begins_as_said};
pub(crate) use gather::{Gathered, Part};
pub use policy::RecoveryPolicy;
pub use throttle::RecoveryThrottle;

use crate::{
    Ctx, Effect, Pg,
    meta::MetaChange,
    object_versions::object_version,
    pg::{Pending, Phase},
};

/// Objects of one PG on their way at once, as far as the OSD has slots for them.
const ACTIVE_MAX: usize = 8;
/// Objects of one PG on their way at once if an operator wants it recovered before others.
const FORCED_ACTIVE_MAX: usize = 64;
/// Objects on their way that ops wait for: these do not wait for others, which may be large, to arrive.
const URGENT_ACTIVE_MAX: usize = 8;

/// What is on its way.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// By object: the OSD that it is pulled from, and its slot among what this OSD recovers.
    pulling: BTreeMap<HObject, (OsdId, RecoverySlot)>,
    pushing: BTreeMap<(OsdId, HObject), RecoverySlot>,
    /// Where pulls that no op waits for go on, and pushes, by target.
    pulls_from: Cursor,
    pushes_from: BTreeMap<OsdId, Cursor>,
    /// By target and object: what was sent last, as a push or to answer a pull, and is not known to have arrived.
    sent: BTreeMap<(OsdId, HObject), RecoveryBytes>,
    /// Pushes that wait for other bytes to arrive at their OSD.
    held: Vec<Push>,
    /// Something could be started, and waits for its turn.
    is_waiting: bool,
    urgent: Urgent,
    /// Objects whose copies here are bad, until good ones have taken their places.
    bad: BTreeSet<HObject>,
    /// `FORCED_RECOVERY`, `FORCED_BACKFILL`: what an operator has said, until the PG is clean.
    forced: PgState,
    /// `RECOVERY_TOOFULL`, `BACKFILL_TOOFULL`: what waits for room on OSDs.
    put_off: PgState,
    /// OSDs that had no room for an object, with what it takes.
    short: BTreeMap<OsdId, u64>,
    /// Members that take objects that begin with a neighbour.
    takes_clones: BTreeSet<OsdId>,
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
    /// What it may not begin with.
    lacks: Lacks,
    /// What is being loaded tells what it begins with.
    reads_base: bool,
    /// What was loaded for it.
    pub(crate) loads: Vec<Token>,
    /// Its length, found when it had to wait; and whether its turn to be sent has come.
    bytes: usize,
    has_turn: bool,
}

impl Push {
    /// All of an object, or as much of it as goes at once, in whatever version there is.
    fn new(to: OsdId, object: HObject, measure: Measure) -> Push {
        let (need, begin, lacks) = (EVersion::ZERO, ObjectCursor::default(), Lacks::Unknown);
        let (loads, reads_base) = (Vec::new(), false);
        Push { to, object, need, begin, measure, lacks, reads_base, loads, bytes: 0, has_turn: false }
    }
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

    /// No op waits for the object any more: no copy lacks it.
    pub(crate) fn forget_urgent(&mut self, head: &HObject) {
        self.urgent.remove(head);
    }

    /// The member takes objects that begin with a neighbour, or not.
    pub(crate) fn note_takes_clones(&mut self, osd: OsdId, takes_clones: bool) {
        if takes_clones {
            self.takes_clones.insert(osd);
        } else {
            self.takes_clones.remove(&osd);
        }
    }

    fn is_pulled_from(&self, object: &HObject, osd: OsdId) -> bool {
        self.pulling.get(object).is_some_and(|(source, _)| *source == osd)
    }

    /// Objects that this PG has on their way.
    pub(crate) fn active(&self) -> usize {
        self.pulling.len() + self.pushing.len()
    }

    /// Objects on their way or that wait for that, and bad copies.
    pub(crate) fn count(&self) -> usize {
        self.active() + self.sent.len() + self.held.len() + self.urgent.iter().count() + self.bad.len()
    }

    /// What an operator has said.
    pub(crate) fn forced(&self) -> PgState {
        self.forced
    }

    /// What waits for room on OSDs.
    pub(crate) fn put_off(&self) -> PgState {
        self.put_off
    }

    /// True while nothing is on its way, nor could be.
    pub(crate) fn is_idle(&self) -> bool {
        self.active() == 0 && !self.is_waiting
    }

    fn is_forced(&self) -> bool {
        self.forced != PgState::default()
    }

    /// How many more objects of this PG may be on their way.
    fn room(&self) -> usize {
        let most = if self.is_forced() { FORCED_ACTIVE_MAX } else { ACTIVE_MAX };
        most.saturating_sub(self.active())
    }

    /// How many more objects that ops wait for may be on their way: these wait for no others.
    fn urgent_room(&self) -> usize {
        let active = self.pulling.keys().chain(self.pushing.keys().map(|(_, object)| object));
        let urgent = active.filter(|object| self.urgent.contains(&object.head())).count();
        URGENT_ACTIVE_MAX.saturating_sub(urgent)
    }

    /// There may be something new to do for the object: to pull it, or to push it. Clones may have waited for a head.
    pub(crate) fn look_again(&mut self, object: &HObject) {
        let first = if object.is_head() { object.with_snap(SnapId(0)) } else { object.clone() };
        self.pulls_from.go_back_to(&first);
        self.pushes_from.values_mut().for_each(|cursor| cursor.go_back_to(&first));
    }

    /// The same for all objects.
    pub(crate) fn look_at_all_again(&mut self) {
        self.pulls_from = Cursor::default();
        self.pushes_from.clear();
    }

    /// The object is not on its way to the OSD any more. It has arrived, or this copy turned out to be bad: then it is
    /// looked at again when a good one has come.
    fn forget_push(&mut self, to: OsdId, object: &HObject) {
        let push = (to, object.clone());
        self.pushing.remove(&push);
        self.sent.remove(&push);
        self.held.retain(|push| push.to != to || push.object != *object);
    }

    /// The next push of those held for the OSD: one that an op waits for, or else the one that has waited longest.
    fn take_held(&mut self, to: OsdId) -> Option<Push> {
        let is_urgent = |push: &Push| push.to == to && self.urgent.contains(&push.object.head());
        let urgent = self.held.iter().position(is_urgent);
        let at = urgent.or_else(|| self.held.iter().position(|push| push.to == to))?;
        Some(self.held.remove(at))
    }
}

impl Pg {
    /// OSDs that are gone do not answer pulls: the objects are pulled again, from any OSD that has them. Nor do they
    /// confirm what they were sent: it is sent again.
    pub(crate) fn forget_gone(&mut self, is_gone: impl Fn(&OsdId) -> bool, ctx: &mut Ctx<'_>) {
        self.recovery.pulling.retain(|_, (source, _)| !is_gone(source));
        self.recovery.pushing.retain(|(to, _), _| !is_gone(to));
        self.recovery.sent.retain(|(to, _), _| !is_gone(to));
        self.recovery.held.retain(|push| !is_gone(&push.to));
        self.recovery.short.retain(|osd, _| !is_gone(osd));
        self.recovery.look_at_all_again();
        self.recover(ctx);
    }

    /// The PG's turn has come to send to an OSD what it holds for it, or to begin with another object; with the id of
    /// its own OSD, to pull an object from others.
    pub(crate) fn on_recovery_turn(&mut self, osd: OsdId, ctx: &mut Ctx<'_>) {
        if let Some(push) = self.recovery.take_held(osd) {
            self.push(Push { has_turn: true, ..push }, ctx);
        } else if self.phase == Phase::Active && !self.is_clean {
            self.start(Some(osd), ctx);
        }
    }

    /// An operator wants the PG recovered before others, or takes that back.
    pub(crate) fn on_force(&mut self, is_backfill: bool, is_forced: bool, ctx: &mut Ctx<'_>) {
        let bit = if is_backfill { PgState::FORCED_BACKFILL } else { PgState::FORCED_RECOVERY };
        if is_forced && self.phase == Phase::Active && !self.is_clean {
            self.recovery.forced = self.recovery.forced.with(bit);
            self.recover(ctx);
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
    pub(crate) fn recover_soon(&mut self, head: &HObject, ctx: &mut Ctx<'_>) {
        if self.recovery.urgent.insert(head) {
            // What is held of it goes before the rest.
            for push in self.recovery.held.iter().filter(|push| push.object.head() == *head) {
                ctx.recovery.active.hold(push.to, self.pgid, push.bytes, true);
            }
        }
        self.recover(ctx);
    }

    /// Starts what may be started; the PG is clean when nothing is left.
    pub(crate) fn recover(&mut self, ctx: &mut Ctx<'_>) {
        if self.phase != Phase::Active || self.is_clean {
            return;
        }
        self.give_up_some(ctx);
        self.recovery.put_off = self.put_off(ctx);
        self.recovery.is_waiting = false;
        self.start_urgent(ctx);
        self.start(None, ctx);
        if self.missing.is_empty() && self.lacked_by(self.members.all()) == 0 {
            self.recovery.forced = PgState::default();
            if self.acts_as_wanted(ctx) {
                self.become_clean(ctx);
            }
        }
    }

    /// An OSD that has this version of the object. Members have all that they are not known to lack.
    pub(crate) fn source_of(&self, object: &HObject, version: EVersion, map: &OsdMap) -> Option<OsdId> {
        let has_it = |(osd, info): &(&OsdId, &PgInfo)| {
            let reaches = self.members.contains(**osd) || info.last_update >= version;
            let lacks = self.peer_missing.get(osd).is_some_and(|m| m.contains_key(object));
            **osd != self.me && map.is_up(**osd) && reaches && !lacks
        };
        let head = object.head();
        let lacks_head =
            |osd: &OsdId| self.peer_missing.get(osd).is_some_and(|missing| missing.contains_key(&head));
        let sources = self.peer_info.iter().filter(has_it).map(|(osd, _)| *osd);
        // The head tells what the object shares with others, which need not be sent.
        sources.min_by_key(lacks_head)
    }

    /// Counts this copy of an object as missing, as it is bad.
    pub(crate) fn declare_missing(&mut self, object: HObject, version: EVersion, ctx: &mut Ctx<'_>) {
        let mut change = MetaChange::default();
        change.missing(&object, Some(version));
        let mut txn = Transaction::new(self.coll);
        change.into_txn(&mut txn);
        self.submit(Pending::Nothing, txn, ctx);
        self.missing.insert(object.clone(), version);
        self.recovery.note_bad(&object);
        self.is_clean = false;
        self.look_for(&object, ctx);
    }

    /// This copy of the object cannot be read: a good copy has to take its place. False if the version that this has to
    /// be is not known, or not at hand.
    fn lose(&mut self, object: &HObject, ctx: &mut Ctx<'_>) -> bool {
        if self.missing.contains_key(object) {
            // The object is missing already: another OSD asked for an older version.
            return true;
        }
        match object_version(ctx.store, self.coll, object) {
            // An object without a version does not exist, nor could any copy of it be the right one.
            Ok(EVersion::ZERO) | Err(_) => false,
            Ok(version) => {
                self.declare_missing(object.clone(), version, ctx);
                ctx.effects.push(Effect::StatsChanged);
                true
            }
        }
    }

    /// A read for a client or for another PG found this copy unreadable: the request waits until a good copy has been
    /// recovered. Only a primary that serves does such reads, and those under way end with its interval.
    pub(crate) fn repair(&mut self, object: &HObject, ctx: &mut Ctx<'_>) {
        // If the version is not at hand, the next read finds the object unreadable once more.
        if self.lose(object, ctx) {
            let others = self.peer_info.keys().filter(|osd| self.members.contains(**osd));
            let others: Vec<String> = others.map(ToString::to_string).collect();
            let (pgid, others) = (self.pgid, others.join(","));
            let what_now = match self.is_unfound(&object.head()) {
                true => "unfound".to_owned(),
                false => format!("will try copies on {others}"),
            };
            let line = format!("{pgid} missing primary copy of {object}, {what_now}");
            ctx.effects.push(Effect::ClusterLog(LogLevel::ERROR, line));
            self.stats.sum.objects_repaired += 1;
            self.recover_soon(&object.head(), ctx);
        }
    }

    /// One more copy has the object now.
    fn after_recovered(&mut self, object: &HObject, ctx: &mut Ctx<'_>) {
        let head = object.head();
        self.stats.sum.objects_recovered += 1;
        if !self.is_degraded(&head) {
            self.recovery.forget_urgent(&head);
        }
        self.recover(ctx);
        self.run_object(&head, ctx);
    }

    /// Primary: counts the data that goes to a copy that lacks it, or that came for its own copy.
    fn note_recovered_bytes(&mut self, pushed: &Transaction) {
        if self.is_primary() {
            let data = pushed.ops.iter().map(|op| match op {
                TxnOp::Object(_, Mutation::Write { data, .. }) => data.len() as u64,
                _ => 0,
            });
            self.stats.sum.bytes_recovered += data.sum::<u64>();
        }
    }

    /// Another OSD asks for an object, or for its next part.
    pub(crate) fn on_pull(&mut self, from: OsdId, message: MPgPull, ctx: &mut Ctx<'_>) {
        let MPgPull { object, version: need, begin, lacks, .. } = message;
        // The part before has arrived. What is still held for an earlier pull of the object is not sent as well.
        self.recovery.sent.remove(&(from, object.clone()));
        self.recovery.held.retain(|push| push.to != from || push.object != object);
        // A pull of whatever version there is wants the whole object, to make it part of a change.
        let measure = if need == EVersion::ZERO { WHOLE } else { Measure::of_parts(ctx.recovery) };
        let lacks = Lacks::of_pull(lacks);
        self.push(Push { need, begin, lacks, ..Push::new(from, object, measure) }, ctx);
    }

    /// Sends an object, or a part of it, once that is at hand.
    fn push(&mut self, mut push: Push, ctx: &mut Ctx<'_>) {
        let base = self.base_of(&push, ctx.store);
        let shared = match &base {
            Ok(Base::With(shared)) => Some(shared),
            Ok(Base::Outdated) => {
                push.begin = ObjectCursor::default();
                return self.push(push, ctx);
            }
            Ok(Base::Nothing) | Err(_) => None,
        };
        let part = match &base {
            Err(missing) => Err(missing.clone()),
            Ok(_) => part_of(ctx.store, self.coll, &push.object, &push.begin, push.measure, shared),
        };
        let Content { version, txn, next, bytes, size } = match part {
            Ok(Some(part)) if self.missing.get(&push.object) != Some(&part.version) => part,
            // It is known to be bad.
            Ok(Some(_)) => {
                push.loads.into_iter().for_each(|token| ctx.store.unload(token));
                self.recovery.forget_push(push.to, &push.object);
                return self.on_push_unreadable(push.to, push.object, ctx);
            }
            Ok(None) => {
                push.loads.into_iter().for_each(|token| ctx.store.unload(token));
                return self.on_push_damaged(push.to, push.object, push.need, ctx);
            }
            Err(missing) => {
                push.reads_base = base.is_err();
                let token = self.token(Pending::PushRead(Box::new(push)));
                return ctx.store.load(token, missing);
            }
        };
        if !push.begin.is_begin() && version != push.need {
            // It has changed since the part before: all of it is sent again.
            push.begin = ObjectCursor::default();
            return self.push(push, ctx);
        }
        if shared.is_some() && push.need != EVersion::ZERO && version != push.need {
            // The receiver has said what it lacks beside another version.
            push.lacks = Lacks::Unknown;
            return self.push(push, ctx);
        }
        push.loads.drain(..).for_each(|token| ctx.store.unload(token));
        if self.finds_no_room(&push, size, bytes, ctx) {
            return;
        }
        if push.to != self.me {
            let goes_first = push.has_turn || self.recovery.urgent.contains(&push.object.head());
            let throttle = &ctx.recovery.active;
            if !throttle.may_send(push.to, bytes, goes_first, ctx.recovery.limits()) {
                throttle.hold(push.to, self.pgid, bytes, goes_first);
                // It is chosen anew what it begins with: that may be gone by then.
                self.recovery.held.push(Push { bytes, has_turn: false, ..push });
                return;
            }
            let sent = throttle.send(push.to, bytes);
            self.recovery.sent.insert((push.to, push.object.clone()), sent);
        }
        let Push { to, object, begin, .. } = push;
        let begin = ObjectCursor { base: shared.map(|shared| shared.base), ..begin };
        self.note_recovered_bytes(&txn);
        let message = MPgPush { pgid: self.pgid, epoch: ctx.map.epoch, object, version, txn, begin, next };
        ctx.effects.push(Effect::SendOsd(to, message.into()));
    }

    pub(crate) fn on_push_read(&mut self, mut push: Push, completion: Completion, ctx: &mut Ctx<'_>) {
        if push.reads_base && matches!(completion, Completion::Loaded(_, Err(_))) {
            // That is no fault of the object's: it is sent whole.
            (push.begin, push.lacks) = (ObjectCursor::default(), Lacks::Unknown);
        } else if let Completion::Loaded(_, Err(error)) = completion {
            tracing::error!(pg = %self.pgid, object = %push.object, %error, "an object to push cannot be read");
            if self.lose(&push.object, ctx) {
                push.loads.into_iter().for_each(|token| ctx.store.unload(token));
                self.recovery.forget_push(push.to, &push.object);
                return self.on_push_unreadable(push.to, push.object, ctx);
            }
        }
        self.push(push, ctx);
    }

    /// What this copy keeps with the object cannot be decoded, so it is as bad as one that cannot be read: it is not
    /// sent to others, and a good copy has to take its place.
    fn on_push_damaged(&mut self, to: OsdId, object: HObject, need: EVersion, ctx: &mut Ctx<'_>) {
        tracing::error!(pg = %self.pgid, %object, "what is kept with an object to push cannot be decoded");
        self.recovery.forget_push(to, &object);
        let lacked = || self.peer_missing.get(&to)?.get(&object).copied();
        let wanted = Some(need).filter(|need| *need != EVersion::ZERO).or_else(lacked);
        if let Some(wanted) = wanted.filter(|_| !self.missing.contains_key(&object)) {
            self.declare_missing(object.clone(), wanted, ctx);
            ctx.effects.push(Effect::StatsChanged);
        }
        // A primary that pushes of its own accord pulls a good copy with its next turn.
        if !self.is_primary() || to == self.me {
            self.on_push_unreadable(to, object, ctx);
        }
    }

    /// Primary: what it pushed is older than the version that the replica lacks by the log, so the primary's own copy
    /// is no good either.
    fn on_push_refused(&mut self, to: OsdId, object: HObject, ctx: &mut Ctx<'_>) {
        self.recovery.forget_push(to, &object);
        let need = self.peer_missing.get(&to).and_then(|missing| missing.get(&object)).copied();
        if let Some(need) = need.filter(|_| !self.missing.contains_key(&object)) {
            tracing::error!(pg = %self.pgid, %object, %need, "the copy here is none of this version");
            self.declare_missing(object, need, ctx);
            ctx.effects.push(Effect::StatsChanged);
        }
        self.recover(ctx);
    }

    /// The object to be pushed is lost here: the primary looks for another copy.
    fn on_push_unreadable(&mut self, to: OsdId, object: HObject, ctx: &mut Ctx<'_>) {
        if self.is_primary() && to != self.me {
            return self.recover(ctx);
        }
        let (version, txn) = (EVersion::ZERO, Transaction::new(self.coll));
        let message = MPgPush::whole((self.pgid, ctx.map.epoch), object, version, txn);
        ctx.effects.push(Effect::SendOsd(to, message.into()));
    }

    /// An object came that this copy lacks. Version zero says that the sender lacks it as well, and could not use what
    /// was pushed there, if anything was. `has_waited`: other messages may have come since.
    fn take_push(&mut self, from: OsdId, message: MPgPush, has_waited: bool, ctx: &mut Ctx<'_>) {
        // A replica takes what its primary has, once it has taken over the log that says what it lacks.
        let is_replica = from == self.members.primary && self.phase == Phase::Replica;
        if !self.is_primary() && !is_replica {
            return;
        }
        let is_part = message.is_part();
        let may_take = self.may_take(&message, ctx.store).unwrap_or(false);
        let MPgPush { object, version, txn: pushed, begin, next, .. } = message;
        if self.is_primary() && version != EVersion::ZERO && from != self.me {
            // The sender may send more, whatever becomes of this.
            let reply = MPgPushReply { pgid: self.pgid, epoch: ctx.map.epoch, object: object.clone() };
            ctx.effects.push(Effect::SendOsd(from, reply.into()));
        }
        let mut offer = (version, pushed);
        // What begins with a neighbour answers an earlier question: an offer is all of an object.
        if begin.base.is_none() && self.on_offer(from, &object, &mut offer, is_part, ctx) {
            return;
        }
        let pushed = offer.1;
        if version == EVersion::ZERO && self.recovery.pushing.contains_key(&(from, object.clone())) {
            return self.on_push_refused(from, object, ctx);
        }
        // A primary takes only what it is pulling from the sender. Anything else is a late answer: whatever version
        // there was, or an object that is pulled from another OSD by now.
        if self.is_primary() && !self.recovery.is_pulled_from(&object, from) {
            return;
        }
        // A replica may get a version that is newer than what it lacks. A primary takes what the log names and nothing
        // else: a newer version is of a history that came to nothing.
        let suits = |need: &EVersion| *need == version || *need < version && !self.is_primary();
        let is_needed = self.missing.get(&object).is_some_and(suits);
        if !is_needed {
            if let Some(need) = self.missing.get(&object).copied().filter(|_| has_waited) {
                // It did suit when it came, perhaps.
                return self.ask_whole(from, object, need, ctx);
            }
            self.recovery.pulling.remove(&object);
            if let Some(need) = self.missing.get(&object).copied() {
                if !self.is_primary() {
                    tracing::error!(pg = %self.pgid, %object, %need, %version, "what the primary has is not what is lacking");
                    return self.on_push_unreadable(from, object, ctx);
                }
                tracing::error!(pg = %self.pgid, %object, "a copy that should have the object does not");
                self.peer_missing.entry(from).or_default().insert(object.clone(), need);
                self.look_for(&object, ctx);
                return self.recover(ctx);
            }
            return self.on_push_durable(from, object, ctx);
        }
        if !may_take {
            return self.ask_whole(from, object, version, ctx);
        }
        if let Some(bytes) = self.lacks_room_for(&object, (&begin, is_part && next.is_none()), &pushed, ctx) {
            return self.refuse_push(from, object, bytes, ctx);
        }
        self.note_recovered_bytes(&pushed);
        if is_part {
            if let Some((pending, txn)) = self.gather(from, &object, version, (&begin, next), pushed) {
                self.submit(pending, txn, ctx);
            }
            return;
        }
        let mut txn = Transaction::new(self.coll);
        txn.append(pushed);
        let mut change = MetaChange::default();
        change.missing(&object, None);
        self.forget_gathered(&object, &mut change, &mut txn);
        change.into_txn(&mut txn);
        self.submit(Pending::Pushed { from, object }, txn, ctx);
    }

    pub(crate) fn on_push_durable(&mut self, from: OsdId, object: HObject, ctx: &mut Ctx<'_>) {
        self.missing.remove(&object);
        self.unfound.remove(&object);
        self.recovery.look_again(&object);
        if self.recovery.bad.remove(&object) {
            self.stats.copies_repaired += 1;
            ctx.effects.push(Effect::StatsChanged);
        }
        // Only now: an object that is missing and not being pulled would be pulled again.
        self.recovery.pulling.remove(&object);
        if self.is_primary() {
            self.after_recovered(&object, ctx);
        } else {
            let reply = MPgPushReply { pgid: self.pgid, epoch: ctx.map.epoch, object };
            ctx.effects.push(Effect::SendOsd(from, reply.into()));
        }
    }

    pub(crate) fn on_push_reply(&mut self, from: OsdId, message: MPgPushReply, ctx: &mut Ctx<'_>) {
        let object = message.object;
        self.recovery.forget_push(from, &object);
        if !self.is_primary() {
            // What was pulled from this copy has arrived.
            return;
        }
        if let Some(missing) = self.peer_missing.get_mut(&from) {
            missing.remove(&object);
        }
        // The good copy that it was sent may be the only one by now.
        self.look_for(&object, ctx);
        self.after_recovered(&object, ctx);
    }

    /// Objects that these OSDs lack, not counting this one.
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
