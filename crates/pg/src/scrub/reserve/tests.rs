//! Which members get a slot, which give it back, and when it is tried again.

use super::*;
use crate::{Event, ScrubRequest, test_world::World};

const ORDER: Event = Event::Scrub(ScrubRequest { is_deep: false, is_repair: false });

/// What is said of slots, to which OSDs, and the request's id.
fn said(world: &mut World) -> Vec<(Vec<OsdId>, ScrubReserveStep, u64)> {
    let told = world.told().into_iter();
    told.filter_map(|(osds, message)| match message {
        messages::Message::MOSDScrubReserve(m) => Some((osds, m.step, m.id)),
        _ => None,
    })
    .collect()
}

fn say(world: &mut World, from: OsdId, step: ScrubReserveStep, id: u64) {
    let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
    world.say(from, MOSDScrubReserve { pgid, epoch, id, step }.into());
}

fn is_scrubbing(world: &World) -> bool {
    world.pg.state().has(PgState::SCRUBBING)
}

#[test]
fn a_scrub_begins_when_every_member_has_a_slot_for_it() {
    let mut world = World::active();
    let peers = world.peers.clone();
    world.handle(ORDER);
    world.handle(Event::Tick);
    let asked = said(&mut world);
    assert_eq!(asked, [(peers.clone(), ScrubReserveStep::REQUEST, 1)]);
    assert_eq!(world.scrub.slots.taken(), 1);
    say(&mut world, peers[0], ScrubReserveStep::GRANT, 1);
    // One answer is not two.
    say(&mut world, peers[0], ScrubReserveStep::GRANT, 1);
    world.handle(Event::Tick);
    assert!(!is_scrubbing(&world) && said(&mut world).is_empty());
    say(&mut world, peers[1], ScrubReserveStep::GRANT, 1);
    assert!(is_scrubbing(&world) && !world.pg.scrubs.is_ordered());
}

#[test]
fn a_primary_that_is_refused_gives_back_what_it_has_and_tries_again_later() {
    let mut world = World::active();
    let peers = world.peers.clone();
    world.random = u64::MAX;
    world.handle(ORDER);
    world.handle(Event::Tick);
    said(&mut world);
    say(&mut world, peers[0], ScrubReserveStep::REJECT, 1);
    let wake = world.effects.iter().find_map(|effect| match effect {
        Effect::WakeAt(at) => Some(*at),
        _ => None,
    });
    let wake = wake.expect("it wants to try again");
    assert!(wake > world.now && wake < world.now + RETRY_MAX);
    assert_eq!(said(&mut world), [(peers.clone(), ScrubReserveStep::RELEASE, 1)]);
    assert_eq!(world.scrub.slots.taken(), 0);
    world.handle(Event::Tick);
    assert!(said(&mut world).is_empty(), "too early");
    world.now = wake;
    world.handle(Event::Wake);
    let asked = said(&mut world);
    assert!(matches!(&asked[..], [(_, ScrubReserveStep::REQUEST, id)] if *id > 1), "{asked:?}");
    // An answer to what was asked before.
    say(&mut world, peers[0], ScrubReserveStep::GRANT, 1);
    say(&mut world, peers[1], ScrubReserveStep::GRANT, asked[0].2);
    assert!(!is_scrubbing(&world) && world.pg.scrubs.is_ordered());
}

#[test]
fn a_primary_without_a_slot_of_its_own_or_with_objects_to_recover_asks_nobody() {
    let mut world = World::active();
    let taken = world.scrub.slots.take();
    world.handle(ORDER);
    world.handle(Event::Tick);
    assert!(said(&mut world).is_empty());
    drop(taken);
    world.scrub.is_recovering = true;
    world.handle(Event::Tick);
    assert!(said(&mut world).is_empty());
    world.scrub.is_during_recovery = true;
    world.handle(Event::Tick);
    assert_eq!(said(&mut world).len(), 1);
}

#[test]
fn a_replica_gives_what_it_has_and_no_more() {
    let mut world = World::replica();
    let (primary, other) = (world.peers[0], world.peers[1]);
    let answer = |world: &mut World, id| {
        say(world, primary, ScrubReserveStep::REQUEST, id);
        let [(osds, step, of)] = &said(world)[..] else { panic!("one answer") };
        assert_eq!((&osds[..], *of), (&[primary][..], id));
        *step
    };
    assert_eq!(answer(&mut world, 1), ScrubReserveStep::GRANT);
    // The same slot.
    assert_eq!(answer(&mut world, 2), ScrubReserveStep::GRANT);
    assert_eq!(world.scrub.slots.taken(), 1);
    say(&mut world, other, ScrubReserveStep::RELEASE, 2);
    assert_eq!(world.scrub.slots.taken(), 1, "it is not his");
    say(&mut world, primary, ScrubReserveStep::RELEASE, 2);
    assert_eq!(world.scrub.slots.taken(), 0);
    let taken = world.scrub.slots.take();
    assert_eq!(answer(&mut world, 3), ScrubReserveStep::REJECT);
    drop(taken);
    assert_eq!(answer(&mut world, 4), ScrubReserveStep::GRANT);
    // The primary begins a new life: what it had asked for is forgotten.
    world.map.epoch = world.map.epoch.next();
    world.map.osd_info[usize::try_from(primary.0).unwrap()].up_from = world.map.epoch;
    world.handle(Event::NewMap);
    assert_eq!(world.scrub.slots.taken(), 0);
}
