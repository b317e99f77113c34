//! Copies of objects between PGs: the primary of the copy asks the primary of the source, which may be
//! this OSD, and holds the request until the contents come.
//!
//! Questions may be lost with a session or an interval: they are asked again when the source's PG changes, or the
//! source is another PG's, and after a while. An answer that no request waits for any more is dropped.
//!
//! The source is copied however much it is written: once a question had to wait, the source's next changes wait until
//! it is answered.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    time::Duration,
};

use messages::{MPgCopyData, MPgCopyGet};
use store::NotCached;
use types::{ChunkMap, CollId, Epoch, Errno, HObject, Instant, OsdId, PgId, Token, Transaction};

use crate::{
    Ctx, Effect, Pg, Slot, Slots,
    exec::{self, CopySource, MeasuredOmap},
    ops::LoadId,
    pg::{Pending, Phase},
    proxy::{Asked, REDIRECTS_MAX},
    replication::CHANGE_BYTES_MAX,
};

/// Until a question is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(15);
/// Questions of other PGs that wait here, at most: more are dropped, and asked again.
const ASKED_MAX: usize = 256;
/// Requests of all PGs of an OSD that may copy at a time, not counting one of each PG: each may hold as much as the
/// longest change, and small ones come and go in no time.
const COPYING_MAX: u64 = 8;

/// What a request waits for.
#[derive(Debug)]
struct Wanted {
    /// The request's object, and its number among the requests that are put aside there.
    head: HObject,
    load: LoadId,
    subop: u32,
    source: HObject,
    /// What of it is wanted, if not all.
    part: Option<(u32, u32)>,
    /// Its request's slot; without one the contents are not asked for.
    slot: Option<Box<CopySlot>>,
    asked: Option<(Instant, Asked)>,
    /// Objects that were only redirects.
    passed: usize,
    /// Contents with chunks that are other objects', the innermost last: the first chunk of each is asked for.
    partial: Vec<MPgCopyData>,
}

impl Wanted {
    /// Goes on with another object.
    fn ask_of(&mut self, target: HObject) {
        (self.source, self.asked) = (target, None);
    }

    /// What of the next answer is wanted, if not all.
    fn wanted_part(&self) -> Option<(u32, u32)> {
        match self.partial.last() {
            Some(whole) => whole.missing.values().next().map(|chunk| (chunk.offset, chunk.length)),
            None => self.part,
        }
    }

    /// Why these contents may not wait for a chunk of theirs.
    fn refusal(&self, data: &MPgCopyData) -> Option<Errno> {
        let copied = self.slot.as_ref().map_or(0, |slot| slot.bytes);
        let held = self.partial.iter().chain([data]).map(|held| exec::held_bytes(&held.txn)).sum::<usize>();
        match self.partial.len() {
            REDIRECTS_MAX.. => Some(Errno::ELOOP),
            _ if copied + held > CHANGE_BYTES_MAX => Some(Errno::EMSGSIZE),
            _ => None,
        }
    }

    /// What to do with an answer: the contents if they are complete, none if another object is to be asked.
    fn take(&mut self, mut data: Box<MPgCopyData>) -> Option<Box<MPgCopyData>> {
        if let Some(target) = data.elsewhere.take() {
            self.passed += 1;
            if self.passed <= REDIRECTS_MAX {
                self.ask_of(target);
                return None;
            }
            data.result = Errno::ELOOP.negated();
        }
        if !data.missing.is_empty()
            && let Some((start, length)) = self.wanted_part()
        {
            exec::keep_part(&mut data, start, length);
        }
        loop {
            let next = data.missing.values().next().map(|chunk| chunk.target.clone());
            if let Some(target) = next.filter(|_| data.result >= 0) {
                let Some(errno) = self.refusal(&data) else {
                    self.ask_of(target);
                    self.partial.push(*data);
                    return None;
                };
                data.result = errno.negated();
            }
            let Some(mut whole) = self.partial.pop() else { return Some(data) };
            match whole.missing.pop_first() {
                _ if data.result < 0 => whole.result = data.result,
                Some((offset, chunk)) => exec::put_chunk(&mut whole, offset, &chunk, &data),
                None => {}
            }
            data = Box::new(whole);
        }
    }
}

/// A request's slot among those that copy, from its first question until it is answered.
#[derive(Debug)]
pub(crate) struct CopySlot {
    _of_osd: Slot,
    _of_pg: Slot,
    /// What was copied for it.
    bytes: usize,
}

impl CopySlot {
    /// Counts what was copied; false if that takes more than any change is long.
    pub(crate) fn has_room_for(&mut self, data: &MPgCopyData) -> bool {
        self.bytes = self.bytes.saturating_add(exec::held_bytes(&data.txn));
        self.bytes <= CHANGE_BYTES_MAX
    }
}

/// A question of another PG's primary.
#[derive(Debug)]
pub(crate) struct CopyQuestion {
    from: OsdId,
    message: MPgCopyGet,
    /// What was loaded for it.
    pub(crate) loads: Vec<Token>,
    /// How much of the object's omap was measured.
    measured: MeasuredOmap,
    /// It had to wait for changes, or for data that they may have changed since. From then on, the object's next
    /// changes wait for what is loaded for it.
    has_waited: bool,
    /// The object's changes do wait now.
    holds_changes: bool,
}

impl CopyQuestion {
    fn new(from: OsdId, message: MPgCopyGet) -> CopyQuestion {
        let (loads, measured) = (Vec::new(), MeasuredOmap::default());
        CopyQuestion { from, message, loads, measured, has_waited: false, holds_changes: false }
    }

    fn name(&self) -> CopyName {
        (self.from, self.message.asker, self.message.id)
    }
}

/// A question that is put once more keeps its name: who asks, for which PG, by which number.
type CopyName = (OsdId, PgId, u64);

/// The answer about an object that is not there.
pub(crate) fn nothing(asker: PgId, id: u64, ctx: &Ctx<'_>) -> MPgCopyData {
    MPgCopyData {
        pgid: asker,
        epoch: ctx.map.epoch,
        id,
        result: Errno::ENOENT.negated(),
        user_version: 0,
        truncate_seq: 0,
        truncate_size: 0,
        txn: Transaction::new(CollId::pg(asker)),
        elsewhere: None,
        missing: ChunkMap::new(),
        mtime: None,
    }
}

/// The copies that a PG asks for, and those that it is asked for.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    wanted: BTreeMap<u64, Wanted>,
    /// Of these, what waits for a slot.
    without_slot: BTreeSet<u64>,
    /// Requests that have a slot.
    slots: Slots,
    /// Questions that nothing is loaded for now, each with what was loaded for it.
    asked: Vec<CopyQuestion>,
    /// All questions that are not answered: when each was put last.
    known: BTreeMap<CopyName, Instant>,
    count: u64,
}

impl Copies {
    /// Its number.
    fn want(&mut self, wanted: Wanted, epoch: Epoch) -> u64 {
        self.count += 1;
        // Ids begin with the epoch: before a restart they were counted from 1 as well, and a late answer must match no
        // new question.
        let id = (u64::from(epoch.0) << 32) + self.count;
        self.wanted.insert(id, wanted);
        id
    }

    fn take_wanted(&mut self, id: u64) -> Option<Wanted> {
        self.without_slot.remove(&id);
        self.wanted.remove(&id)
    }

    fn has_slot(&self, ctx: &Ctx<'_>) -> bool {
        self.slots.taken() == 0 || ctx.copying.taken() < COPYING_MAX
    }

    /// Copies that are asked for, here and elsewhere, and slots.
    pub(crate) fn count(&self) -> usize {
        self.wanted.len() + self.asked.len() + self.slots.taken() as usize
    }

    /// An interval ends: returns what was loaded for questions, which is not needed any more.
    pub(crate) fn on_new_interval(&mut self) -> Vec<Token> {
        self.wanted.clear();
        self.without_slot.clear();
        self.known.clear();
        self.asked.drain(..).flat_map(|asked| asked.loads).collect()
    }
}

impl Pg {
    /// Has op or chunk `subop` of a request, number `load` of those that wait at `head`, wait for the contents of
    /// `source`, or for part of them.
    pub(crate) fn fetch_copy(
        &mut self,
        (head, load, subop): (&HObject, LoadId, u32),
        (source, part): (CopySource, Option<(u32, u32)>),
        slot: Option<Box<CopySlot>>,
        ctx: &mut Ctx<'_>,
    ) {
        let (head, source, partial) = (head.clone(), source.into_object(), Vec::new());
        let wanted = Wanted { head, load, subop, source, part, slot, asked: None, passed: 0, partial };
        let needs_slot = wanted.slot.is_none();
        let id = self.copies.want(wanted, ctx.map.epoch);
        if needs_slot && !self.copies.without_slot.is_empty() {
            // Others have waited longer.
            self.copies.without_slot.insert(id);
            return self.ask_for_waiting_copies(ctx);
        }
        self.ask_for_copies(vec![id], ctx);
    }

    /// Of these, asks for contents that were not asked for yet, or not of the present primary, or too long ago; first
    /// come, first served. A request that gets no answer for long, or whose source has no primary, lets others go
    /// before.
    fn ask_for_copies(&mut self, ids: Vec<u64>, ctx: &mut Ctx<'_>) {
        let (mut nowhere, mut late) = (Vec::new(), Vec::new());
        let has_waiting = !self.copies.without_slot.is_empty();
        for id in ids {
            let has_slot = self.copies.has_slot(ctx);
            self.copies.without_slot.remove(&id);
            let Some(wanted) = self.copies.wanted.get_mut(&id) else { continue };
            let Some(asked) = Asked::of(&wanted.source, ctx.map) else {
                nowhere.extend(self.copies.wanted.remove(&id));
                continue;
            };
            let (pgid, primary) = (asked.pgid, asked.primary());
            let before = wanted.asked.as_ref().filter(|(_, before)| *before == asked);
            if before.is_some_and(|(at, _)| ctx.now < *at + ASK_AGAIN) {
                continue;
            }
            let is_late = before.is_some() && has_waiting;
            if wanted.slot.is_some() && (is_late || !primary.is_some()) {
                // Its slot is free at once.
                late.extend(self.copies.wanted.remove(&id).map(|wanted| (wanted.head, wanted.load)));
                continue;
            }
            if !primary.is_some() {
                continue;
            }
            if wanted.slot.is_none() && !has_slot {
                self.copies.without_slot.insert(id);
                continue;
            }
            let slot =
                || CopySlot { _of_osd: ctx.copying.take(), _of_pg: self.copies.slots.take(), bytes: 0 };
            wanted.slot.get_or_insert_with(|| Box::new(slot()));
            wanted.asked = Some((ctx.now, asked));
            let object = wanted.source.clone();
            let message = MPgCopyGet { pgid, epoch: ctx.map.epoch, object, asker: self.pgid, id };
            ctx.effects.push(Effect::SendOsd(primary, message.into()));
        }
        for wanted in nowhere {
            self.take_copy(wanted, Box::new(nothing(self.pgid, 0, ctx)), ctx);
        }
        for (head, load) in late {
            self.copy_anew(&head, load, ctx);
        }
    }

    /// Asks for what waits for a slot, as long as there is one.
    pub(crate) fn ask_for_waiting_copies(&mut self, ctx: &mut Ctx<'_>) {
        while self.copies.has_slot(ctx)
            && let Some(next) = self.copies.without_slot.first().copied()
        {
            self.ask_for_copies(vec![next], ctx);
        }
    }

    /// The contents came that a request waits for.
    pub(crate) fn on_copy_data(&mut self, data: Box<MPgCopyData>, ctx: &mut Ctx<'_>) {
        if let Some(wanted) = self.copies.take_wanted(data.id) {
            self.take_copy(wanted, data, ctx);
            self.ask_for_waiting_copies(ctx);
        }
    }

    fn take_copy(&mut self, mut wanted: Wanted, data: Box<MPgCopyData>, ctx: &mut Ctx<'_>) {
        let Some(mut data) = wanted.take(data) else {
            // Under a new id: the question before may be answered twice.
            let id = self.copies.want(wanted, ctx.map.epoch);
            return self.ask_for_copies(vec![id], ctx);
        };
        let Wanted { head, load, subop, part, slot, .. } = wanted;
        if let Some((start, length)) = part {
            exec::keep_part(&mut data, start, length);
        }
        self.resume_with_copy((&head, load, subop), data, slot, ctx);
    }

    /// Another PG's primary copies an object of this one. By this OSD's map the object may belong to yet another PG:
    /// the question is dropped then, and the asking primary learns of that by its own map.
    pub(crate) fn on_copy_get(&mut self, from: OsdId, message: MPgCopyGet, ctx: &mut Ctx<'_>) {
        let HObject { pool, hash, .. } = message.object;
        let is_here = ctx.map.pools.get(&pool).is_some_and(|its| its.pg_of_hash(pool, hash) == self.pgid);
        if !is_here || !self.is_primary() {
            return;
        }
        let question = CopyQuestion::new(from, message);
        let has_room = self.copies.asked.len() < ASKED_MAX;
        match self.copies.known.entry(question.name()) {
            Entry::Occupied(mut at) => *at.get_mut() = ctx.now,
            Entry::Vacant(place) if has_room => {
                place.insert(ctx.now);
                self.copies.asked.push(question);
            }
            Entry::Vacant(_) => {}
        }
        self.answer_copies(ctx);
    }

    /// Answers the questions whose object is here and has no change under way. Only a primary that may serve reads to
    /// clients answers: not one that others may have taken over from, nor one that rests before a merge.
    pub(crate) fn answer_copies(&mut self, ctx: &mut Ctx<'_>) {
        if self.copies.asked.is_empty() || !self.is_serving() || !self.has_lease(ctx) {
            return;
        }
        for mut asked in std::mem::take(&mut self.copies.asked) {
            let head = asked.message.object.head();
            if self.is_missing(&head) {
                self.recover_soon(&head, ctx);
                self.copies.asked.push(asked);
            } else if self.hold_changes_for_copy(&head) {
                asked.has_waited = true;
                self.copies.asked.push(asked);
            } else {
                self.answer_copy(asked, ctx);
            }
        }
    }

    fn answer_copy(&mut self, mut asked: CopyQuestion, ctx: &mut Ctx<'_>) {
        let message = &asked.message;
        let mut data = nothing(message.asker, message.id, ctx);
        let is_removed = self.removed_snaps(ctx).contains(message.object.snap.0);
        let measured = &mut asked.measured;
        if let Err(missing) =
            exec::copy_out(ctx.store, self.coll, &message.object, is_removed, measured, &mut data)
        {
            // Data that changes while it is loaded has to be loaded again.
            asked.holds_changes = asked.has_waited;
            asked.has_waited |= matches!(missing, NotCached::Data { .. });
            if asked.holds_changes {
                self.hold_changes_for_read(&asked.message.object.head());
            }
            let (asked, wanted) = (Box::new(asked), missing.object().clone());
            let token = self.token(Pending::CopyRead { asked, wanted });
            return ctx.store.load(token, missing);
        }
        self.copies.known.remove(&asked.name());
        let CopyQuestion { from, loads, .. } = asked;
        loads.into_iter().for_each(|token| ctx.store.unload(token));
        if exec::held_bytes(&data.txn) > CHANGE_BYTES_MAX {
            // The request that it is for would be refused, and it may be longer than any message.
            data = MPgCopyData { result: Errno::EMSGSIZE.negated(), ..nothing(data.pgid, data.id, ctx) };
        }
        ctx.effects.push(Effect::SendOsd(from, data.into()));
    }

    /// What a question needed is loaded, or cannot be: of the object, or of the clone that is read in its place.
    pub(crate) fn on_copy_read(
        &mut self,
        mut asked: CopyQuestion,
        wanted: &HObject,
        is_loaded: bool,
        ctx: &mut Ctx<'_>,
    ) {
        let head = asked.message.object.head();
        let held_changes = std::mem::take(&mut asked.holds_changes);
        if is_loaded {
            self.copies.asked.push(asked);
            self.answer_copies(ctx);
        } else {
            asked.loads.drain(..).for_each(|token| ctx.store.unload(token));
            tracing::error!(pg = %self.pgid, object = %wanted, "an object to copy cannot be read");
            self.repair(wanted, ctx);
            // The question waits until a good copy is here.
            self.copies.asked.push(asked);
        }
        if held_changes {
            self.release_changes_for_read(&head, ctx);
        }
    }

    /// Asks and answers again what is due.
    pub(crate) fn tick_copies(&mut self, ctx: &mut Ctx<'_>) {
        if self.phase == Phase::Active {
            // A primary that still wants the answer asks again.
            let Copies { asked, known, .. } = &mut self.copies;
            let is_old = |at: &Instant| ctx.now >= *at + 2 * ASK_AGAIN;
            let is_asked_no_more = |asked: &mut CopyQuestion| known.get(&asked.name()).is_some_and(is_old);
            let old: Vec<CopyQuestion> = asked.extract_if(.., is_asked_no_more).collect();
            for asked in old {
                known.remove(&asked.name());
                asked.loads.into_iter().for_each(|token| ctx.store.unload(token));
            }
            self.ask_for_copies(self.copies.wanted.keys().copied().collect(), ctx);
            self.answer_copies(ctx);
        }
    }
}

#[cfg(test)]
mod tests;
