//! Copies of objects between PGs: the primary of the copy asks the primary of the source, which may be
//! this OSD, and holds the request until the contents come.
//!
//! Questions may be lost with a session or an interval: they are asked again when the source's PG
//! changes, and after a while. An answer to a question that nobody waits for any more is dropped.

use std::{collections::BTreeMap, time::Duration};

use messages::{MPgCopyData, MPgCopyGet};
use types::{ChunkMap, Epoch, Errno, HObject, Instant, OsdId, PgId, Token, Transaction, UpActing};

use crate::{
    Ctx, Effect, Pg,
    exec::{self, CopySource, MeasuredOmap},
    pg::{Pending, Phase},
    proxy::REDIRECTS_MAX,
    replica::CHANGE_BYTES_MAX,
};

/// Until a question is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(15);
/// Questions of others that wait here, at most: they ask again.
const ASKED_MAX: usize = 256;

/// What a request waits for.
#[derive(Debug)]
struct Wanted {
    /// Object and number of the request, among those that wait for something to be loaded.
    head: HObject,
    load: u64,
    subop: u32,
    source: HObject,
    source_pg: PgId,
    asked: Option<(Instant, UpActing, Epoch)>,
    /// Objects that were only redirects.
    passed: usize,
    /// Contents with chunks that are other objects', the innermost last: the first chunk of each is asked for.
    partial: Vec<MPgCopyData>,
}

impl Wanted {
    /// The contents are those of another object.
    fn turn_to(&mut self, target: HObject, cx: &Ctx<'_>) -> Result<(), Errno> {
        self.passed += 1;
        if self.passed > REDIRECTS_MAX {
            return Err(Errno::ELOOP);
        }
        self.ask_of(target, cx)
    }

    /// Goes on with another object.
    fn ask_of(&mut self, target: HObject, cx: &Ctx<'_>) -> Result<(), Errno> {
        let placed = cx.map.object_to_pg(target.pool, &target.nspace, &target.key, &target.oid);
        let (_, source_pg) = placed.ok_or(Errno::ENOENT)?;
        (self.source, self.source_pg, self.asked) = (target, source_pg, None);
        Ok(())
    }

    /// What to do with an answer: the contents if they are complete, none if another object is to be asked.
    fn take(&mut self, mut data: Box<MPgCopyData>, cx: &Ctx<'_>) -> Option<Box<MPgCopyData>> {
        if let Some(target) = data.elsewhere.take() {
            match self.turn_to(target, cx) {
                Ok(()) => return None,
                Err(errno) => data.result = errno.negated(),
            }
        }
        loop {
            let next = data.missing.values().next().map(|chunk| chunk.target.clone());
            if let Some(target) = next.filter(|_| data.result >= 0) {
                let is_deep = self.partial.len() >= REDIRECTS_MAX;
                let asked = if is_deep { Err(Errno::ELOOP) } else { self.ask_of(target, cx) };
                match asked {
                    Ok(()) => {
                        self.partial.push(*data);
                        return None;
                    }
                    Err(errno) => data.result = errno.negated(),
                }
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

/// A question of another PG's primary.
#[derive(Debug)]
pub(crate) struct Asked {
    from: OsdId,
    message: MPgCopyGet,
    /// What was loaded for it.
    pub(crate) loads: Vec<Token>,
    /// How much of the object's omap was measured.
    measured: MeasuredOmap,
}

/// The copies of a PG, as the one that asks and the one that is asked.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    wanted: BTreeMap<u64, Wanted>,
    /// Questions, each with what was loaded for it.
    asked: Vec<Asked>,
    count: u64,
}

impl Copies {
    /// What was loaded for questions is not needed any more.
    pub(crate) fn on_new_interval(&mut self) -> Vec<Token> {
        self.wanted.clear();
        self.asked.drain(..).flat_map(|asked| asked.loads).collect()
    }
}

impl Pg {
    /// Has a request, number `load` of those that wait at `head`, wait for the contents of `source`.
    /// None if there is no such pool.
    pub(crate) fn fetch_copy(
        &mut self,
        head: &HObject,
        load: u64,
        subop: u32,
        source: CopySource,
        cx: &mut Ctx<'_>,
    ) -> Option<()> {
        let CopySource { locator, oid, snap } = source;
        let (hash, source_pg) = cx.map.object_to_pg(locator.pool, &locator.nspace, &locator.key, &oid)?;
        let (pool, is_max) = (locator.pool, false);
        let source = HObject { oid, key: locator.key, nspace: locator.nspace, pool, hash, snap, is_max };
        self.copies.count += 1;
        let partial = Vec::new();
        let wanted =
            Wanted { head: head.clone(), load, subop, source, source_pg, asked: None, passed: 0, partial };
        self.copies.wanted.insert(self.copies.count, wanted);
        self.ask_for_copies(cx);
        Some(())
    }

    /// Asks what was not asked, or not of those who are in charge now.
    fn ask_for_copies(&mut self, cx: &mut Ctx<'_>) {
        for (id, wanted) in &mut self.copies.wanted {
            let placed = cx.map.pg_to_up_acting(wanted.source_pg);
            let primary = placed.acting_primary;
            let now = (cx.now, placed, cx.map.up_from(primary));
            let is_asked = wanted.asked.as_ref().is_some_and(|(at, placed, up_from)| {
                cx.now < *at + ASK_AGAIN && (placed, up_from) == (&now.1, &now.2)
            });
            if is_asked || !primary.is_some() {
                continue;
            }
            wanted.asked = Some(now);
            let message = MPgCopyGet {
                pgid: wanted.source_pg,
                epoch: cx.map.epoch,
                object: wanted.source.clone(),
                asker: self.pgid,
                id: *id,
            };
            cx.effects.push(Effect::SendOsd(primary, message.into()));
        }
    }

    /// The contents that a request waits for.
    pub(crate) fn on_copy_data(&mut self, data: Box<MPgCopyData>, cx: &mut Ctx<'_>) {
        let Some(mut wanted) = self.copies.wanted.remove(&data.id) else { return };
        match wanted.take(data, cx) {
            Some(data) => self.resume_with_copy(&wanted.head, wanted.load, wanted.subop, data, cx),
            None => {
                // Under a new name: what was asked before may be answered twice.
                self.copies.count += 1;
                self.copies.wanted.insert(self.copies.count, wanted);
                self.ask_for_copies(cx);
            }
        }
    }

    /// Another PG's primary copies an object of this one.
    pub(crate) fn on_copy_get(&mut self, from: OsdId, message: MPgCopyGet, cx: &mut Ctx<'_>) {
        if self.is_primary() && self.copies.asked.len() < ASKED_MAX {
            let again = |asked: &Asked| {
                (asked.from, asked.message.asker, asked.message.id) == (from, message.asker, message.id)
            };
            let known = self.copies.asked.iter().position(again).map(|at| self.copies.asked.remove(at));
            let (loads, measured) =
                known.map_or_else(Default::default, |known| (known.loads, known.measured));
            self.copies.asked.push(Asked { from, message, loads, measured });
            self.answer_copies(cx);
        }
    }

    /// Answers those questions whose object is here, and has no change under way. It may be answered what a client may read:
    /// not by one that others may have taken over from, nor at rest before a merge.
    pub(crate) fn answer_copies(&mut self, cx: &mut Ctx<'_>) {
        if self.copies.asked.is_empty() || !self.is_serving() || !self.has_lease(cx) {
            return;
        }
        for asked in std::mem::take(&mut self.copies.asked) {
            let head = asked.message.object.head();
            if self.is_missing(&head) {
                self.recover_soon(&head, cx);
                self.copies.asked.push(asked);
            } else if self.has_change_under_way(&head) {
                self.copies.asked.push(asked);
            } else {
                self.answer_copy(asked, cx);
            }
        }
    }

    fn answer_copy(&mut self, mut asked: Asked, cx: &mut Ctx<'_>) {
        let message = &asked.message;
        let mut data = MPgCopyData {
            pgid: message.asker,
            epoch: cx.map.epoch,
            id: message.id,
            result: Errno::ENOENT.negated(),
            user_version: 0,
            truncate_seq: 0,
            truncate_size: 0,
            txn: Transaction::new(self.coll),
            elsewhere: None,
            missing: ChunkMap::new(),
        };
        let is_removed = self.removed_snaps(cx).contains(message.object.snap.0);
        if !is_removed
            && let Err(missing) =
                exec::copy_out(cx.store, self.coll, &message.object, &mut asked.measured, &mut data)
        {
            let (asked, wanted) = (Box::new(asked), missing.object().clone());
            let token = self.token(Pending::CopyRead { asked, wanted });
            return cx.store.load(token, missing);
        }
        let Asked { from, loads, .. } = asked;
        loads.into_iter().for_each(|token| cx.store.unload(token));
        if data.txn.bytes_at_most() > CHANGE_BYTES_MAX {
            // The change that it is for would be refused, and it may be longer than any message.
            (data.txn, data.result) = (Transaction::new(self.coll), Errno::EMSGSIZE.negated());
        }
        cx.effects.push(Effect::SendOsd(from, data.into()));
    }

    /// What a question needed is loaded, or cannot be: of the object, or of the clone that is read in its place.
    pub(crate) fn on_copy_read(
        &mut self,
        mut asked: Asked,
        wanted: &HObject,
        is_loaded: bool,
        cx: &mut Ctx<'_>,
    ) {
        if is_loaded {
            self.copies.asked.push(asked);
            return self.answer_copies(cx);
        }
        asked.loads.drain(..).for_each(|token| cx.store.unload(token));
        tracing::error!(pg = %self.pgid, object = %wanted, "an object to copy cannot be read");
        self.repair(wanted, cx);
        // It waits until a good copy is here.
        self.copies.asked.push(asked);
    }

    /// Asks and answers again what is due.
    pub(crate) fn tick_copies(&mut self, cx: &mut Ctx<'_>) {
        if self.phase == Phase::Active {
            self.ask_for_copies(cx);
            self.answer_copies(cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use codec::{Encode, Features};
    use messages::{MPgPush, Message};
    use store::{Completion, ObjectStore, ReadError};
    use types::{IntervalSet, Mutation, SnapId};

    use super::*;
    use crate::{
        Event, LEASE,
        exec::{CloneInfo, INFO_XATTR, ObjectInfo, SNAPSET_XATTR, SnapSet},
        test_world::World,
    };

    fn question(world: &World, object: HObject) -> MPgCopyGet {
        MPgCopyGet { pgid: world.pg.pgid, epoch: world.map.epoch, object, asker: world.pg.pgid, id: 7 }
    }

    /// The answers since it was asked last: their results.
    fn answers(world: &mut World) -> Vec<i32> {
        let told = world.told().into_iter();
        let data = told.filter_map(|(_, message)| match message {
            Message::MPgCopyData(data) => Some(data.result),
            _ => None,
        });
        data.collect()
    }

    /// What makes the clone of the first object that is read at snapshot 4.
    fn clone_of(world: &World) -> (HObject, Transaction) {
        let clone = world.object(1).with_snap(SnapId(5));
        let info = ObjectInfo { version: world.version(1), ..ObjectInfo::default() };
        let mut txn = Transaction::new(world.pg.coll);
        txn.push(&clone, Mutation::Write { offset: 0, data: Bytes::from_static(b"old").into() });
        let pair = (Bytes::from_static(INFO_XATTR), info.to_bytes(Features::default()));
        txn.push(&clone, Mutation::SetXattrs([pair].into()));
        (clone, txn)
    }

    #[test]
    fn a_clone_that_cannot_be_copied_is_replaced_under_its_own_name() {
        let mut world = World::active();
        let (clone, txn) = clone_of(&world);
        world.store.submit(Token(0), txn.clone());
        let (id, snaps, overlap) = (SnapId(5), vec![SnapId(4), SnapId(5)], IntervalSet::new());
        let snapset = SnapSet { seq: SnapId(5), clones: vec![CloneInfo { id, snaps, size: 3, overlap }] };
        let pair = (Bytes::from_static(SNAPSET_XATTR), snapset.to_bytes(Features::default()));
        let mut head = Transaction::new(world.pg.coll);
        head.push(&world.object(1), Mutation::SetXattrs([pair].into()));
        world.store.submit(Token(0), head);

        let message = question(&world, world.object(1).with_snap(SnapId(4)));
        let (from, wanted) = (world.peers[0], clone.clone());
        let asked = Asked { from, message, loads: Vec::new(), measured: MeasuredOmap::default() };
        let pending = Pending::CopyRead { asked: Box::new(asked), wanted };
        let token = world.act(|pg, _| pg.token(pending));
        world.handle(Event::Store(Completion::Loaded(token, Err(ReadError::Corrupt { offset: 0 }))));
        assert_eq!((world.missing(), answers(&mut world)), (vec![(clone.clone(), 1)], vec![]));
        let (pgid, epoch, version) = (world.pg.pgid, world.map.epoch, world.version(1));
        world.say(from, MPgPush::whole((pgid, epoch), clone, version, txn).into());
        assert_eq!((world.missing(), answers(&mut world)), (vec![], vec![]));
        world.handle(Event::Tick);
        assert_eq!(answers(&mut world), [0]);
    }

    #[test]
    fn what_is_too_large_for_a_change_is_refused_to_who_copies_it() {
        let mut world = World::active();
        let value = Bytes::from(vec![0; 50 << 20]);
        let pairs = (0..6).map(|at| (Bytes::from(format!("k{at}")), value.clone()));
        let mut txn = world.content(1, 1);
        txn.push(&world.object(1), Mutation::OmapSet(pairs.collect()));
        world.store.submit(Token(0), txn);
        let message = question(&world, world.object(1));
        world.say(world.peers[0], message.into());
        assert_eq!(answers(&mut world), [Errno::EMSGSIZE.negated()]);
    }

    #[test]
    fn what_is_not_there_cannot_be_lacking() {
        let mut world = World::active();
        let object = world.object(9);
        world.act(|pg, cx| pg.repair(&object, cx));
        assert_eq!((world.missing(), world.pg.counters.objects_repaired), (vec![], 0));
    }

    #[test]
    fn copies_are_answered_with_a_lease_and_not_at_rest() {
        let mut world = World::active();
        world.now = world.now + 2 * LEASE;
        let message = question(&world, world.object(1));
        world.say(world.peers[0], message.into());
        world.handle(Event::Tick);
        assert!(answers(&mut world).is_empty());
        world.pg.members.is_merging = true;
        world.hear_all();
        world.handle(Event::Tick);
        assert!(answers(&mut world).is_empty());
        world.pg.members.is_merging = false;
        world.handle(Event::Tick);
        assert_eq!(answers(&mut world), [0]);
    }
}
