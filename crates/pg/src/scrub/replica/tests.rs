//! What a scan holds of a store whose index is larger than memory.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

use bytes::Bytes;
use codec::Payload;
use messages::Message;
use store::{Cached, MemStore, Missing, ObjectMeta, ObjectStore, StoreUsage};
use types::{CollId, HObject, Mutation, PoolId, PoolStatfs, Token, Transaction, UTime};

use super::*;
use crate::{Event, test_world::World};

/// A store whose omap entries are at hand only where they were loaded, in ranges that begin with a key.
struct Paged {
    store: MemStore,
    held: BTreeMap<Token, Missing>,
    loaded: VecDeque<Completion>,
    held_max: usize,
}

impl ObjectStore for Paged {
    fn submit(&mut self, token: Token, txn: Transaction) {
        self.store.submit(token, txn);
    }
    fn load(&mut self, token: Token, missing: Missing) {
        self.held.insert(token, missing);
        self.held_max = self.held_max.max(self.held.len());
        self.loaded.push_back(Completion::Loaded(token, Ok(())));
    }
    fn load_anew(&mut self, _token: Token, _coll: CollId, _object: &HObject, _offset: u64, _len: u64) {
        unreachable!("no object has data");
    }
    fn unload(&mut self, token: Token) {
        self.held.remove(&token);
    }
    fn meta(&self, coll: CollId, object: &HObject) -> Result<Option<ObjectMeta>, Missing> {
        self.store.meta(coll, object)
    }
    fn read_pieces(&self, coll: CollId, o: &HObject, offset: u64, len: u64) -> Result<Vec<Payload>, Missing> {
        self.store.read_pieces(coll, o, offset, len)
    }
    fn extents(&self, coll: CollId, o: &HObject, offset: u64, len: u64) -> Result<Vec<(u64, u64)>, Missing> {
        self.store.extents(coll, o, offset, len)
    }
    fn xattr(&self, coll: CollId, object: &HObject, name: &[u8]) -> Result<Option<Bytes>, Missing> {
        self.store.xattr(coll, object, name)
    }
    fn xattrs(&self, coll: CollId, object: &HObject) -> Result<Vec<(Bytes, Bytes)>, Missing> {
        self.store.xattrs(coll, object)
    }
    fn omap_header(&self, coll: CollId, object: &HObject) -> Result<Bytes, Missing> {
        self.store.omap_header(coll, object)
    }
    fn omap_get(&self, coll: CollId, object: &HObject, key: &[u8]) -> Result<Option<Bytes>, Missing> {
        self.store.omap_get(coll, object, key)
    }
    fn omap_range(
        &self,
        coll: CollId,
        object: &HObject,
        from: Bound<&[u8]>,
        count_max: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, Missing> {
        let omap = match from {
            Bound::Included(key) | Bound::Excluded(key) => Some(Bytes::copy_from_slice(key)),
            Bound::Unbounded => None,
        };
        let wanted = Missing::Index { coll, object: object.clone(), omap };
        let is_held = self.held.values().any(|held| *held == wanted);
        if is_held { self.store.omap_range(coll, object, from, count_max) } else { Err(wanted) }
    }
    fn list(&self, coll: CollId, from: &HObject, count_max: usize) -> Result<Vec<HObject>, Missing> {
        self.store.list(coll, from, count_max)
    }
    fn collections(&self) -> Vec<CollId> {
        self.store.collections()
    }
    fn collection_exists(&self, coll: CollId) -> bool {
        self.store.collection_exists(coll)
    }
    fn usage(&self) -> StoreUsage {
        self.store.usage()
    }
    fn cached(&self) -> Cached {
        self.store.cached()
    }
    fn drop_cache(&mut self) {}
    fn pool_usage(&self) -> Vec<(PoolId, PoolStatfs)> {
        self.store.pool_usage()
    }
}

#[test]
fn a_scan_holds_no_more_of_the_index_than_a_step_needs() {
    const OBJECTS: u64 = 10;
    let mut world = World::replica();
    let mut txn = Transaction::new(world.pg.coll);
    for at in 1..=OBJECTS {
        let pair = |key: u64| (Bytes::from(format!("{key:05}")), Bytes::from_static(b"value"));
        txn.push(&world.object(at), Mutation::Remove);
        txn.push(&world.object(at), Mutation::OmapSet((0..2_000).map(pair).collect()));
    }
    world.store.submit(Token(0), txn);
    let store = std::mem::replace(&mut world.store, MemStore::new());
    let mut store = Paged { store, held: BTreeMap::new(), loaded: VecDeque::new(), held_max: 0 };
    let (pgid, epoch, end) = (world.pg.pgid, world.map.epoch, HObject::max());
    let start = HObject::min();
    let request = MOSDRepScrub { pgid, epoch, id: 1, start, end, is_deep: true };
    let mut next = Some(Event::Peer(world.peers[0], request.into()));
    let mut loads = 0u64;
    while let Some(event) = next {
        let mut cx = Ctx {
            now: world.now,
            wall: UTime::default(),
            store: &mut store,
            map: &world.map,
            leases: &world.leases,
            scrub: &world.scrub,
            recovery: &world.recovery,
            copying: &world.copying,
            random: 0,
            effects: &mut world.effects,
        };
        world.pg.handle(event, &mut cx);
        next = store.loaded.pop_front().map(Event::Store);
        loads += u64::from(next.is_some());
    }
    let told = world.told();
    let [(_, Message::MOSDRepScrubMap(map))] = &told[..] else { panic!("{told:?}") };
    let keys: Vec<u64> = map.objects.iter().map(|object| object.omap_keys).collect();
    assert_eq!((keys, store.held_max, store.held.len()), (vec![2_000; OBJECTS as usize], 1, 0));
    assert_eq!(loads, 4 * OBJECTS);
}
