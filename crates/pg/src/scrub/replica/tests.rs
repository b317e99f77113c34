//! What a scan holds of a store whose index is larger than memory.

use bytes::Bytes;
use messages::Message;
use store::{MemStore, ObjectStore};
use types::{HObject, Mutation, Token, Transaction};

use super::*;
use crate::{Event, test_world::World, watched_store::WatchedStore};

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
    let mut store = WatchedStore::paged(store);
    let (pgid, epoch, end) = (world.pg.pgid, world.map.epoch, HObject::max());
    let start = HObject::min();
    let request = MOSDRepScrub { pgid, epoch, id: 1, start, end, is_deep: true };
    let mut next = Some(Event::Peer(world.peers[0], request.into()));
    let mut loads = 0u64;
    while let Some(event) = next {
        world.act_on(&mut store, |pg, ctx| pg.handle(event, ctx));
        next = store.loaded.pop_front().map(Event::Store);
        loads += u64::from(next.is_some());
    }
    let told = world.told();
    let [(_, Message::MOSDRepScrubMap(map))] = &told[..] else { panic!("{told:?}") };
    let keys: Vec<u64> = map.objects.iter().map(|object| object.omap_keys).collect();
    assert_eq!((keys, store.held_max, store.held_count()), (vec![2_000; OBJECTS as usize], 1, 0));
    assert_eq!(loads, 4 * OBJECTS);
}
