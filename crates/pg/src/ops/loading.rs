//! Requests that lack data, or a part of the index: they are put aside while the store loads it, and begin anew.
//!
//! Each keeps what it has loaded until it ends, as it needs all of that at once. A client may ask for the largest
//! object several times over in one request, piece by piece, and send many such requests: few of them may keep much
//! while they load more ([`crate::ReadSlots`]), and none while it waits for anything else.

use store::{Completion, NotCached, ObjectStore, ReadError};
use types::HObject;

use super::{LoadId, WaitingOp};
use crate::{Ctx, Pg, exec, pg::Pending};

/// What any request may keep while it loads more, in bytes. Requests of RBD and others that are not made to be large
/// take less.
const KEPT_BYTES_MAX: u64 = 1 << 20;

/// How many things a request that lacks many has loaded at first. Then as many as it has, so that one of 10,000 parts
/// runs nine times.
const LOADS_AT_FIRST: usize = 64;

impl WaitingOp {
    /// How many things are loaded for it at once.
    pub(super) fn loads_most(&self) -> usize {
        self.loads.len().max(LOADS_AT_FIRST)
    }
}

/// Lets go of what was loaded for a request that waits for something else now, maybe for long, if that is much: it is
/// loaded again when the request runs. The slot goes, too, as what the request waits for may need one itself.
pub(crate) fn let_go_of_much(waiting: &mut WaitingOp, ctx: &mut Ctx<'_>) {
    if waiting.loaded_bytes > KEPT_BYTES_MAX || waiting.read_slot.is_some() {
        let_go(waiting, ctx);
    }
}

fn let_go(waiting: &mut WaitingOp, ctx: &mut Ctx<'_>) {
    waiting.loads.iter().for_each(|token| ctx.store.unload(*token));
    waiting.forget_loads();
}

impl Pg {
    pub(super) fn load_for(
        &mut self,
        head: &HObject,
        mut waiting: WaitingOp,
        lacking: Vec<NotCached>,
        ctx: &mut Ctx<'_>,
    ) {
        if waiting.loaded_bytes > KEPT_BYTES_MAX && waiting.read_slot.is_none() {
            waiting.read_slot = ctx.reading.take();
            if waiting.read_slot.is_none() {
                let_go(&mut waiting, ctx);
                let load = self.put_aside(head, waiting);
                self.ops.readers.push_back((head.clone(), load));
                return ctx.reading.wait(self.pgid);
            }
        }
        for missing in &lacking {
            waiting.loaded_bytes = waiting.loaded_bytes.saturating_add(ctx.store.load_bytes(missing));
        }
        waiting.loading = lacking.len();
        let load = self.put_aside(head, waiting);
        for missing in lacking {
            let wanted = missing.object().clone();
            let token = self.token(Pending::OpLoad { head: head.clone(), load, wanted });
            ctx.store.load(token, missing);
        }
    }

    /// What the reads of a request lack that does nothing else, as much of it as is loaded at once. Of a single one
    /// that was loaded it is known what it lacks: nothing.
    pub(super) fn lacked_by_reads(
        &self,
        head: &HObject,
        waiting: &WaitingOp,
        store: &dyn ObjectStore,
    ) -> Vec<NotCached> {
        let mut reads = exec::plain_reads(&waiting.op);
        if waiting.op.ops.len() == 1 {
            let read = reads.next().filter(|_| waiting.loads.is_empty());
            let missing = read.and_then(|(offset, len)| store.lacks(self.coll, head, offset, len));
            return missing.map_or_else(Vec::new, |missing| vec![missing]);
        }
        let lacking = reads.filter_map(|(offset, len)| store.lacks(self.coll, head, offset, len));
        let (most, mut bytes) = (waiting.loaded_bytes.max(KEPT_BYTES_MAX), 0u64);
        let is_within = |missing: &NotCached| {
            let is_within = bytes < most;
            bytes = bytes.saturating_add(store.load_bytes(missing));
            is_within
        };
        lacking.take(waiting.loads_most()).take_while(is_within).collect()
    }

    /// There is a slot for the request that has waited longest for one. Those that an interval has ended are gone.
    pub(crate) fn on_read_turn(&mut self, ctx: &mut Ctx<'_>) {
        while let Some((head, load)) = self.ops.readers.pop_front() {
            if let Some(mut waiting) = self.take_back(&head, load) {
                waiting.read_slot = Some(ctx.reading.take_in_turn());
                self.go_on(&head, waiting, ctx);
                return self.run_object(&head, ctx);
            }
        }
    }

    pub(crate) fn on_op_loaded(
        &mut self,
        head: &HObject,
        load: LoadId,
        wanted: &HObject,
        completion: Completion,
        ctx: &mut Ctx<'_>,
    ) {
        let Completion::Loaded(token, result) = completion else { return };
        let mut is_there = false;
        let waiting = self.take_back_if(head, load, |waiting| {
            is_there = true;
            waiting.loads.push(token);
            waiting.loading = waiting.loading.saturating_sub(1);
            if let Err(error) = result {
                waiting.unloadable.get_or_insert_with(|| Box::new((wanted.clone(), error)));
            }
            waiting.loading == 0
        });
        let Some(mut waiting) = waiting else {
            if !is_there {
                ctx.store.unload(token);
            }
            return;
        };
        match waiting.unloadable.take().map(|unloadable| *unloadable) {
            None => self.go_on(head, waiting, ctx),
            Some((wanted, error)) => {
                let what = if matches!(error, ReadError::Corrupt { .. }) { "corrupt" } else { "unreadable" };
                tracing::error!(pg = %self.pgid, object = %wanted, %error, "{what} data");
                if !self.is_primary() {
                    self.complain_of_copy(&waiting, &wanted, ctx);
                    return self.forget_idle(head);
                }
                let_go(&mut waiting, ctx);
                waiting.forget_copies();
                self.repair(&wanted, ctx);
                self.ops.objects.entry(head.clone()).or_default().queue.push_front(waiting);
            }
        }
        self.run_object(head, ctx);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bytes::Bytes;
    use codec::{Encode, Features};
    use messages::{MOSDOp, ObjectLocator, OpCode, OsdOp};
    use store::MemStore;
    use types::{EntityAddr, EntityNum, Mutation, SnapId, Token, Transaction};

    use super::*;
    use crate::{
        Client, Effect, Event, OpThrottle,
        test_world::World,
        watched_store::{PAGE_BYTES, WatchedStore},
    };

    const LARGE: u64 = 64 << 20;

    fn reader(world: &World, tid: u64) -> WaitingOp {
        request(world, tid, vec![OsdOp::new(OpCode::STAT)])
    }

    fn request(world: &World, tid: u64, ops: Vec<OsdOp>) -> WaitingOp {
        let op = MOSDOp {
            pgid: world.pg.pgid,
            epoch: world.map.epoch,
            locator: ObjectLocator { pool: world.pg.pgid.pool, ..ObjectLocator::default() },
            oid: world.object(1).oid,
            ops,
            snapid: SnapId::HEAD,
            ..MOSDOp::default()
        };
        let (entity, addr) = (EntityNum::client(1), EntityAddr::default());
        let client = Client { session: 1, entity, addr, features: 0 };
        WaitingOp::new(client, tid, Box::new(op), OpThrottle::default().take(0), world.now)
    }

    fn data(world: &World, len: u64) -> NotCached {
        NotCached::Data { coll: world.pg.coll, object: world.object(1), offset: 0, len }
    }

    fn index(world: &World) -> NotCached {
        NotCached::Index { coll: world.pg.coll, object: world.object(1), omap: Some("k".into()) }
    }

    /// So many requests load this much twice. What is held of the first loads while the second ones are under way.
    fn load_twice(world: &mut World, store: &mut WatchedStore, count: u64, len: u64) -> usize {
        let both = [data(world, len), data(world, len)];
        load_both(world, store, count, both)
    }

    /// So many requests load one and then the other.
    fn load_both(
        world: &mut World,
        store: &mut WatchedStore,
        count: u64,
        [first, second]: [NotCached; 2],
    ) -> usize {
        let head = world.object(1);
        for tid in 1..=count {
            let (waiting, first, second) = (reader(world, tid), first.clone(), second.clone());
            world.act_on(store, |pg, ctx| pg.load_for(&head, waiting, vec![first], ctx));
            let Some(Completion::Loaded(token, _)) = store.loaded.pop_back() else { panic!("a load") };
            world.act_on(store, |pg, ctx| {
                let load = pg.ops.last_load();
                let mut waiting = pg.take_back(&head, load).unwrap();
                waiting.loads.push(token);
                pg.load_for(&head, waiting, vec![second], ctx);
            });
        }
        store.held_count() - store.loaded.len()
    }

    fn answered(world: &mut World) -> usize {
        let effects = std::mem::take(&mut world.effects).into_iter();
        effects.filter(|effect| matches!(effect, Effect::Reply { .. })).count()
    }

    /// Everything that was loaded comes.
    fn finish_loads(world: &mut World, store: &mut WatchedStore) {
        while let Some(completion) = store.loaded.pop_front() {
            world.act_on(store, |pg, ctx| pg.handle(Event::Store(completion), ctx));
        }
    }

    fn cold(world: &mut World) -> WatchedStore {
        WatchedStore::over(std::mem::replace(&mut world.store, MemStore::new()))
    }

    #[test]
    fn few_requests_keep_much_while_they_load_more_and_all_are_answered() {
        let mut world = World::active();
        let mut store = cold(&mut world);
        assert_eq!(load_twice(&mut world, &mut store, 9, LARGE), 4);
        assert_eq!((world.reading.taken(), world.reading.next_turn()), (4, None));
        finish_loads(&mut world, &mut store);
        assert_eq!((answered(&mut world), store.held_count(), world.reading.taken()), (4, 0, 0));
        while world.reading.next_turn().is_some() {
            world.act_on(&mut store, |pg, ctx| pg.handle(Event::ReadTurn, ctx));
        }
        assert_eq!((answered(&mut world), store.held_count(), world.reading.taken()), (5, 0, 0));
        assert!(world.pg.is_object_idle(&world.object(1)));
    }

    #[test]
    fn requests_that_keep_little_need_no_slot() {
        let mut world = World::active();
        let mut store = cold(&mut world);
        assert_eq!(load_twice(&mut world, &mut store, 9, KEPT_BYTES_MAX / 2), 9);
        assert_eq!(world.reading.taken(), 0);
        finish_loads(&mut world, &mut store);
        assert_eq!((answered(&mut world), store.held_count()), (9, 0));
    }

    /// As where a request reads data, and behind that many omap entries, of which each has to be loaded.
    #[test]
    fn few_requests_keep_much_while_they_load_parts_of_the_index() {
        let mut world = World::active();
        let mut store = cold(&mut world);
        let both = [data(&world, LARGE), index(&world)];
        assert_eq!(load_both(&mut world, &mut store, 9, both), 4);
        assert_eq!(world.reading.taken(), 4);
        finish_loads(&mut world, &mut store);
        while world.reading.next_turn().is_some() {
            world.act_on(&mut store, |pg, ctx| pg.handle(Event::ReadTurn, ctx));
        }
        assert_eq!((answered(&mut world), store.held_count(), world.reading.taken()), (9, 0, 0));
    }

    #[test]
    fn of_many_things_that_a_request_lacks_some_are_loaded_at_once() {
        let mut world = World::active();
        let (coll, head) = (world.pg.coll, world.object(1));
        let keys: BTreeSet<Bytes> = (0..500).map(|at| Bytes::from(format!("k{at:03}"))).collect();
        let entries = keys.iter().map(|key| (key.clone(), key.clone())).collect();
        let mut txn = Transaction::new(coll);
        txn.push(&head, Mutation::OmapSet(entries));
        world.store.submit(Token(u64::MAX), txn);

        let ask = OsdOp { data: keys.to_bytes(Features::default()), ..OsdOp::new(OpCode::OMAPGETVALSBYKEYS) };
        let mut store = WatchedStore::keyed(std::mem::replace(&mut world.store, MemStore::new()));
        let waiting = request(&world, 1, vec![ask]);
        world.act_on(&mut store, |pg, ctx| pg.run(&head, waiting, ctx));
        assert_eq!(store.held_count(), LOADS_AT_FIRST);
        finish_loads(&mut world, &mut store);
        // Runs with none, 64, 128 and 256 of them, which end where they lack as many again, and with all.
        assert_eq!((answered(&mut world), store.omap_read.get()), (1, 64 + 128 + 256 + 500 + 500));
        assert_eq!((store.held_count(), store.held_max), (0, 500));
    }

    #[test]
    fn what_reads_of_one_request_lack_is_loaded_at_once_as_long_as_it_is_little() {
        for (len, loads) in [(1, LOADS_AT_FIRST), (KEPT_BYTES_MAX / 4, 4), (LARGE, 1)] {
            let mut world = World::active();
            let mut store = WatchedStore::cold(std::mem::replace(&mut world.store, MemStore::new()));
            let mut read = OsdOp::new(OpCode::READ);
            read.params.0[8..16].copy_from_slice(&len.to_le_bytes());
            let (head, waiting) = (world.object(1), request(&world, 1, vec![read; 100]));
            world.act_on(&mut store, |pg, ctx| pg.run(&head, waiting, ctx));
            assert_eq!((answered(&mut world), store.held_count()), (0, loads), "{len} bytes");
            finish_loads(&mut world, &mut store);
            assert_eq!((answered(&mut world), store.held_count()), (1, 0), "{len} bytes");
        }
    }

    /// The first of several loads that fails counts, when all have ended.
    #[test]
    fn a_request_waits_for_all_of_its_loads() {
        let mut world = World::active();
        let mut store = cold(&mut world);
        let (head, waiting) = (world.object(1), reader(&world, 1));
        let both = vec![data(&world, 1), index(&world)];
        world.act_on(&mut store, |pg, ctx| pg.load_for(&head, waiting, both, ctx));
        let Some(Completion::Loaded(token, _)) = store.loaded.pop_front() else { panic!("a load") };
        let failed = Completion::Loaded(token, Err(ReadError::Device));
        world.act_on(&mut store, |pg, ctx| pg.handle(Event::Store(failed), ctx));
        assert!(!world.pg.missing.contains_key(&head));
        finish_loads(&mut world, &mut store);
        assert!(world.pg.missing.contains_key(&head));
        assert_eq!((answered(&mut world), store.held_count()), (0, 0));
    }

    #[test]
    fn parts_of_the_index_count_where_they_are_many() {
        let mut world = World::active();
        let mut store = cold(&mut world);
        let (head, part) = (world.object(1), index(&world));
        let mut load = |count: u64| {
            let mut waiting = reader(&world, count);
            waiting.loaded_bytes = (count - 1) * PAGE_BYTES;
            let part = part.clone();
            world.act_on(&mut store, |pg, ctx| pg.load_for(&head, waiting, vec![part], ctx));
            world.reading.taken()
        };
        let most = KEPT_BYTES_MAX / PAGE_BYTES + 1;
        assert_eq!((load(1), load(most), load(most + 1)), (0, 0, 1));
    }

    #[test]
    fn a_large_read_needs_no_slot_for_the_entry_of_its_object() {
        let mut world = World::active();
        let mut store = cold(&mut world);
        let both = [index(&world), data(&world, LARGE)];
        assert_eq!(load_both(&mut world, &mut store, 9, both), 9);
        assert_eq!(world.reading.taken(), 0);
        finish_loads(&mut world, &mut store);
        assert_eq!((answered(&mut world), store.held_count()), (9, 0));
    }

    #[test]
    fn what_waits_for_a_lease_or_another_interval_keeps_little() {
        let mut world = World::active();
        let mut store = cold(&mut world);
        load_twice(&mut world, &mut store, 5, LARGE);
        // Without a lease nothing runs.
        world.now = world.now + std::time::Duration::from_secs(60);
        finish_loads(&mut world, &mut store);
        assert_eq!((answered(&mut world), store.held_count(), world.reading.taken()), (0, 0, 0));

        let mut world = World::active();
        let mut store = cold(&mut world);
        load_twice(&mut world, &mut store, 5, LARGE);
        world.act_on(&mut store, |pg, ctx| pg.start_interval(ctx));
        // What arrives now is for no request any more.
        finish_loads(&mut world, &mut store);
        assert_eq!((store.held_count(), world.reading.taken()), (0, 0));
        assert!(world.reading.next_turn().is_some(), "the turn of the one that waited");
        world.act_on(&mut store, |pg, ctx| pg.handle(Event::ReadTurn, ctx));
        assert_eq!(world.reading.taken(), 0);
    }
}
