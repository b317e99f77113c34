//! What monitors and operators hear of a PG.

use super::*;
use crate::{op_histogram::W_IN, test_world::World};

#[test]
fn states_are_told_by_the_names_of_ceph() {
    let world = World::active();
    assert_eq!(world.pg.peering_state(), "Started/Primary/Active/Clean");
    let times = world.pg.state_times();
    let waited = times["Started/Primary/Peering/GetInfo"];
    assert_eq!((waited.enter, waited.exit, waited.events), (1, 1, 2));
    assert_eq!(times["Started/Primary/Active/Clean"].exit, 0);
    assert_eq!(world.pg.past_states().count(), 2, "its beginning, and the interval's");
    assert_eq!(World::replica().pg.peering_state(), "Started/ReplicaActive/RepNotRecovering");
}

#[test]
fn requests_are_counted_by_their_time_and_size() {
    let mut world = World::active();
    world.write(1, 1);
    world.confirm_all();
    // Three bytes, however long they took.
    let rows = world.pg.histograms().rows(usize::from(W_IN));
    assert_eq!(rows.iter().map(|row| row[1]).sum::<u64>(), 1);
}

#[test]
fn monitors_hear_which_members_lack_objects() {
    let mut world = World::active();
    let (map, wall) = (world.map.clone(), UTime::default());
    assert_eq!(world.pg.stat(&map, wall).lacking, []);
    let (object, version, last) = (world.object(1), world.version(1), world.peers[1]);
    world.act(|pg, _| {
        pg.peer_missing.entry(last).or_default().insert(object, version);
    });
    assert_eq!(world.pg.stat(&map, wall).lacking, [last]);
    let (object, me) = (world.object(2), world.pg.me);
    world.act(|pg, _| {
        pg.missing.insert(object, version);
    });
    assert_eq!(world.pg.stat(&map, wall).lacking, [me, last]);
}
