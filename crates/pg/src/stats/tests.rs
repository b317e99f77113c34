//! Trimming of snapshots: when it is done, and who is told.

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{MOSDRepOpReply, MPgInfo, Message};
use store::ObjectStore;
use types::{IntervalSet, Mutation, OsdId, SnapId, Token, Transaction};

use super::*;
use crate::{
    Event,
    exec::{CloneInfo, SNAPSET_XATTR, SnapSet},
    test_world::World,
};

fn snaps(snap: u64) -> IntervalSet {
    let mut out = IntervalSet::new();
    out.insert(snap, 1);
    out
}

/// The snapshots that the members were told to be purged.
fn shared(world: &mut World) -> Vec<(Vec<OsdId>, IntervalSet)> {
    let told = world.told().into_iter();
    told.filter_map(|(osds, message)| match message {
        Message::MPgInfo(m) => Some((osds, m.purged_snaps)),
        _ => None,
    })
    .collect()
}

#[test]
fn a_snapshot_is_purged_when_all_members_have_its_clones_removed() {
    let mut world = World::active();
    let clone = CloneInfo { id: SnapId(5), snaps: vec![SnapId(5)], size: 1, overlap: IntervalSet::new() };
    let snapset = SnapSet { seq: SnapId(5), clones: vec![clone] };
    let mut txn = Transaction::new(world.pg.coll);
    let pair = (Bytes::from_static(SNAPSET_XATTR), snapset.to_bytes(Features::default()));
    txn.push(&world.object(1), Mutation::SetXattrs([pair].into()));
    txn.push(&world.object(1).with_snap(SnapId(5)), Mutation::Touch);
    world.store.submit(Token(0), txn);
    world.map.removed_snaps_queue.insert(world.pg.pgid.pool, snaps(5));
    let peers = world.peers.clone();
    world.handle(Event::Tick);
    let version = world.pg.info.last_update;
    assert!(version > world.version(3) && world.pg.state().has(PgState::SNAPTRIM));
    let reply = MOSDRepOpReply { pgid: world.pg.pgid, epoch: world.map.epoch, version };
    world.say(peers[0], reply.into());
    world.handle(Event::Tick);
    assert!(shared(&mut world).is_empty() && !world.pg.snaps_to_trim(&world.map).is_empty());
    world.say(peers[1], reply.into());
    world.handle(Event::Tick);
    assert_eq!(shared(&mut world), [(peers, snaps(5))]);
    assert!(world.pg.snaps_to_trim(&world.map).is_empty() && !world.pg.state().has(PgState::SNAPTRIM));
}

#[test]
fn replicas_learn_what_is_purged_from_the_primary_and_from_the_map() {
    let mut world = World::replica();
    let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
    let info = MPgInfo { pgid, epoch, purged_snaps: snaps(5), ..MPgInfo::default() };
    world.say(world.peers[0], info.into());
    // One who is of an older release says nothing of them.
    world.say(world.peers[0], MPgInfo { pgid, epoch, ..MPgInfo::default() }.into());
    assert_eq!(*world.pg.purged_snaps(), snaps(5));
    world.map.epoch = world.map.epoch.next();
    world.map.new_purged_snaps.insert(pgid.pool, snaps(7));
    world.handle(Event::NewMap);
    assert!(world.pg.purged_snaps().contains(5) && world.pg.purged_snaps().contains(7));
}
