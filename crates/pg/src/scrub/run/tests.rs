//! Scrubs that meet changes, recovery, flags and what was given up.

use codec::{Decode, Encode, Features};
use messages::{MOSDOp, MOSDScrubReserve, MPgNotify, Message, OpCode, OpParams, OsdOp, ScrubReserveStep};
use store::ObjectStore;
use types::{EVersion, IntervalSet, MapFlags, PgInfo, PgTotals, ScrubHistory, Token, UTime};

use super::*;
use crate::{
    Event, GiveUp, Nonsense, meta,
    nonsense::tests::refused,
    scrub::{
        verdict::BadCopies,
        wire::{ScrubLsArg, ScrubLsResult},
    },
    test_world::World,
};

/// A repair has come to its end, and has found the first object bad on the primary and the first replica.
fn found_bad() -> World {
    let mut world = World::active();
    let request = ScrubRequest { is_deep: true, is_repair: true };
    world.act(|pg, ctx| pg.begin_scrub(Wanted { request, cause: Cause::Ordered }, ctx));
    let (object, version) = (world.object(1), world.version(1));
    let inconsistent = [world.pg.me, world.peers[0]].into();
    let run = world.pg.scrubs.run.as_mut().unwrap();
    run.at = HObject::max();
    run.verdict.bad.insert(object, BadCopies { inconsistent, version, ..BadCopies::default() });
    world
}

#[test]
fn what_is_too_much_to_be_told_is_left_out_and_said() {
    let mut world = World::active();
    let request = ScrubRequest { is_deep: false, is_repair: true };
    world.act(|pg, ctx| pg.begin_scrub(Wanted { request, cause: Cause::Ordered }, ctx));
    world.handle(Event::Wake);
    let asked = world.told().into_iter().find_map(|(_, message)| match message {
        Message::MOSDRepScrub(question) => Some(question.id),
        _ => None,
    });
    let (pgid, epoch, id, totals) = (world.pg.pgid, world.map.epoch, asked.unwrap(), world.pg.info.totals);
    for (peer, is_too_much) in world.peers.clone().into_iter().zip([true, false]) {
        let objects = Vec::new();
        world.say(peer, MOSDRepScrubMap { pgid, epoch, id, objects, is_too_much }.into());
    }
    assert!(!world.pg.scrubs.is_under_way());
    let said = |effect: &Effect| match effect {
        Effect::ClusterLog(LogLevel::ERROR, line) => Some(line.clone()),
        _ => None,
    };
    let said: Vec<_> = world.effects.iter().filter_map(said).collect();
    assert!(said.len() == 2 && said[0].contains("too much to be compared"), "{said:?}");
    // Copies that were not seen are not reported as wrong, nor is what the PG is said to hold.
    assert_eq!((world.pg.info.scrubs.shallow_errors, world.pg.info.totals), (1, totals));
    assert!(world.missing().is_empty() && told_bad(&mut world).is_empty());
}

/// What the PG would know of its scrubs after a restart, and what its replicas were told.
fn kept(world: &mut World) -> (ScrubHistory, Vec<ScrubHistory>) {
    let told = world.told().into_iter();
    let shared = told.filter_map(|(_, message)| match message {
        Message::MPgInfo(info) => Some(info.history),
        _ => None,
    });
    let shared = shared.collect();
    let loaded = meta::load(&world.store, world.pg.coll).unwrap().unwrap();
    (loaded.info.scrubs, shared)
}

#[test]
fn when_a_pg_counts_as_scrubbed_outlives_restarts() {
    let mut world = World::active();
    world.wall = UTime::new(1_000_000, 0);
    world.handle(Event::Tick);
    let begun = world.pg.info.scrubs;
    assert_eq!((begun.last_scrub_stamp, kept(&mut world)), (world.wall, (begun, vec![begun])));
    world.handle(Event::Tick);
    assert_eq!(kept(&mut world), (begun, vec![]), "nothing is new");
    let stamp = world.act(|pg, ctx| pg.schedule_scrub(false, Duration::from_secs(9), ctx));
    assert_eq!(kept(&mut world).0, ScrubHistory { last_scrub_stamp: stamp, ..begun });
    // A copy that is not needed any more tells of a scrub.
    let (pgid, epoch, scrubs) = (world.pg.pgid, world.map.epoch, ScrubHistory { shallow_errors: 3, ..begun });
    let mut purged_snaps = IntervalSet::new();
    purged_snaps.insert(4, 1);
    let info = PgInfo { scrubs, purged_snaps, ..PgInfo::default() };
    let (intervals, leases) = (Vec::new(), Vec::new());
    world.say(OsdId(77), MPgNotify { pgid, epoch, info: info.clone(), intervals, leases }.into());
    let loaded = meta::load(&world.store, world.pg.coll).unwrap().unwrap().info;
    assert_eq!((loaded.scrubs, loaded.purged_snaps), (scrubs, info.purged_snaps));
}

#[test]
fn a_map_of_what_was_not_asked_for_is_refused() {
    let mut world = World::active();
    world.act(|pg, ctx| {
        let request = ScrubRequest::default();
        pg.begin_scrub(Wanted { request, cause: Cause::Ordered }, ctx);
    });
    world.handle(Event::Wake);
    let end = world.object(2);
    let chunk = world.pg.scrubs.run.as_mut().and_then(|run| run.chunk.as_mut()).unwrap();
    let id = chunk.id;
    chunk.end = end;
    let (pgid, epoch, peer) = (world.pg.pgid, world.map.epoch, world.peers[0]);
    let map = |world: &World, id| {
        let objects = [1, 2].map(|at| ScrubObject { object: world.object(at), ..ScrubObject::default() });
        MOSDRepScrubMap { pgid, epoch, id, objects: objects.into(), is_too_much: false }
    };
    for (id, expected) in [(id + 1, vec![]), (id, vec![(peer, Nonsense::OtherPlace)])] {
        let map = map(&world, id);
        world.say(peer, map.into());
        assert_eq!(refused(&mut world), expected);
    }
}

/// Which version of what the replicas were told to be bad there.
fn told_bad(world: &mut World) -> Vec<(Vec<OsdId>, HObject, EVersion)> {
    let told = world.told().into_iter();
    let bad = told.filter_map(|(osds, message)| match message {
        Message::MPgBadCopy(bad) => Some((osds, bad.object, bad.version)),
        _ => None,
    });
    bad.collect()
}

#[test]
fn a_bad_object_that_was_written_since_is_replaced_by_what_it_is_then() {
    let mut world = found_bad();
    world.write(1, 1);
    assert!(!world.pg.scrubs.is_under_way());
    let (object, version) = (world.object(1), world.version(4));
    assert_eq!(world.missing(), [(object.clone(), 4)]);
    assert_eq!(told_bad(&mut world), [(vec![world.peers[0]], object.clone(), version)]);
    // The replica that has it sends it as it is.
    world.push(world.peers[1], 1, 4);
    assert_eq!((world.missing(), world.pg.unfound_count(), world.stored(1)), (vec![], 0, 4));
    assert_eq!(world.pg.peer_missing[&world.peers[0]].get(&object), Some(&version));
}

#[test]
fn a_bad_object_that_was_deleted_since_is_lacking_nowhere() {
    let mut world = found_bad();
    world.ask(1, 1, vec![OsdOp { params: OpParams::default(), ..OsdOp::new(OpCode::DELETE) }]);
    assert!(!world.pg.scrubs.is_under_way() && world.stored(1) == 0);
    assert_eq!((world.missing(), told_bad(&mut world)), (vec![], vec![]));
    assert!(world.pg.peer_missing.values().all(types::Missing::is_empty));
}

#[test]
fn a_repair_whose_bad_object_was_deleted_has_not_failed() {
    let mut world = found_bad();
    // Two copies of one object are one error: whether all are mended the next scrub tells.
    world.pg.scrubs.run.as_mut().unwrap().verdict.deep_errors = 1;
    world.ask(1, 1, vec![OsdOp { params: OpParams::default(), ..OsdOp::new(OpCode::DELETE) }]);
    assert!(!world.pg.scrubs.is_under_way() && !world.pg.scrubs.has_failed);
    assert!(world.pg.scrubs.wanted.as_ref().is_some_and(|wanted| wanted.cause == Cause::CheckAfterRepair));
}

#[test]
fn what_was_ordered_stays_ordered_as_long_as_its_primary_leads() {
    let mut world = World::active();
    world.pg.on_scrub_request(ScrubRequest::default());
    world.act(|pg, ctx| pg.start_interval(ctx));
    assert!(world.pg.scrubs.wanted.is_some());
    let others = world.peers.clone();
    world.map.pg_temp.insert(world.pg.pgid, others);
    world.map.epoch = world.map.epoch.next();
    world.handle(Event::NewMap);
    assert!(!world.pg.is_primary() && world.pg.scrubs.wanted.is_none());
}

#[test]
fn a_change_that_waits_for_another_pg_keeps_no_scrub_waiting() {
    let mut world = World::active();
    let (head, waiting) = (world.object(1), world.waiting(1, 9));
    let load = world.act(|pg, _| pg.put_aside(&head, waiting));
    let request = ScrubRequest::default();
    world.act(|pg, ctx| pg.begin_scrub(Wanted { request, cause: Cause::Ordered }, ctx));
    world.handle(Event::Wake);
    let told = world.told();
    assert!(told.iter().any(|(_, message)| matches!(message, Message::MOSDRepScrub(_))), "{told:?}");
    // What the change waited for comes: now it waits for the chunk, which gives way.
    world.act(|pg, ctx| pg.resume_with_answer(&head, load, 0, 0, ctx));
    assert_eq!((world.replicated().len(), world.stored(1)), (0, 1));
    world.handle(Event::Wake);
    assert_eq!((world.replicated().len(), world.stored(1)), (1, 4));
}

#[test]
fn a_clone_of_a_bad_copy_is_replaced_too() {
    let mut world = found_bad();
    let (head, clone) = (world.object(1), world.object(1).with_snap(types::SnapId(5)));
    let entries = [LogEntry { object: clone.clone(), ..world.entry(1, 4, 1) }, world.entry(1, 5, 1)];
    let run = world.pg.scrubs.run.as_mut().unwrap();
    entries.iter().for_each(|entry| run.verdict.on_change(entry));
    let bad: Vec<_> =
        run.verdict.bad.iter().map(|(object, bad)| (object.clone(), bad.version, bad.count())).collect();
    let [of_clone, of_head] = entries.map(|entry| entry.version);
    let mut expected = vec![(head, of_head, 2), (clone, of_clone, 2)];
    expected.sort();
    assert_eq!(bad, expected);
}

/// A scrub has begun, with its slots, and is between two chunks.
fn between_chunks(cause: Cause) -> World {
    let mut world = World::active();
    world.handle(Event::Scrub(ScrubRequest::default()));
    world.handle(Event::Tick);
    let (pgid, epoch, step) = (world.pg.pgid, world.map.epoch, ScrubReserveStep::GRANT);
    for peer in world.peers.clone() {
        world.say(peer, MOSDScrubReserve { pgid, epoch, id: 1, step }.into());
    }
    world.act(|pg, ctx| pg.release_chunk(false, ctx));
    world.pg.scrubs.run.as_mut().unwrap().cause = cause;
    assert_eq!(world.pg.scrub_slots(), (1, 0));
    world.told();
    world
}

#[test]
fn a_scrub_whose_pg_is_not_clean_for_long_gives_back_its_slots_and_begins_anew() {
    let mut world = between_chunks(Cause::Ordered);
    world.lose(3);
    world.handle(Event::Tick);
    assert!(world.pg.unfound_count() == 1 && world.pg.scrubs.is_under_way());
    world.told();
    world.now = world.now + UNCLEAN_MAX;
    world.hear_all();
    world.handle(Event::Tick);
    assert_eq!((world.pg.scrubs.is_under_way(), world.pg.scrub_slots()), (false, (0, 0)));
    let is_release = |message: &Message| match message {
        Message::MOSDScrubReserve(m) => m.step == ScrubReserveStep::RELEASE,
        _ => false,
    };
    assert!(world.told().iter().any(|(osds, message)| *osds == world.peers && is_release(message)));
    world.handle(Event::GiveUp(GiveUp::Delete));
    world.confirm_all();
    world.handle(Event::Tick);
    assert_eq!(world.pg.scrub_slots(), (1, 0));
}

#[test]
fn a_scrub_that_was_due_ends_when_a_flag_holds_it_back() {
    for (cause, is_deep, flag, goes_on) in [
        (Cause::Due, false, MapFlags::NOSCRUB, false),
        (Cause::Due, true, MapFlags::NODEEP_SCRUB, false),
        (Cause::Due, true, MapFlags::NOSCRUB, true),
        (Cause::Ordered, false, MapFlags::NOSCRUB, true),
    ] {
        let mut world = between_chunks(cause);
        world.pg.scrubs.run.as_mut().unwrap().request.is_deep = is_deep;
        world.map.flags = flag;
        world.handle(Event::Wake);
        let scrubs = &world.pg.scrubs;
        assert_eq!((scrubs.is_under_way(), scrubs.is_ordered()), (goes_on, false), "{cause:?} {is_deep}");
        assert_eq!(world.pg.scrub_slots(), (usize::from(goes_on), 0));
    }
}

/// How many results `rados list-inconsistent-obj` gets.
fn listed(world: &World) -> usize {
    let arg = ScrubLsArg { max_return: 99, ..ScrubLsArg::default() };
    let step = OsdOp { data: arg.to_bytes(Features::PACIFIC), ..OsdOp::new(OpCode::SCRUBLS) };
    let (result, ops) = world.pg.list_scrub_results(&MOSDOp { ops: vec![step], ..MOSDOp::default() });
    assert_eq!(result, 0);
    ScrubLsResult::from_bytes(ops[0].data.clone()).unwrap().values.len()
}

#[test]
fn what_a_repair_finds_is_not_listed() {
    for is_repair in [false, true] {
        let mut world = World::active();
        let request = ScrubRequest { is_deep: false, is_repair };
        world.act(|pg, ctx| pg.begin_scrub(Wanted { request, cause: Cause::Ordered }, ctx));
        world.handle(Event::Wake);
        let (pgid, epoch, id) = (world.pg.pgid, world.map.epoch, world.pg.scrubs.next_id);
        // The replicas have none of the objects.
        for peer in world.peers.clone() {
            let (objects, is_too_much) = (Vec::new(), false);
            world.say(peer, MOSDRepScrubMap { pgid, epoch, id, objects, is_too_much }.into());
        }
        assert!(!world.pg.scrubs.is_under_way());
        assert_eq!(listed(&world) == 0, is_repair);
    }
}

#[test]
fn an_object_that_is_given_up_during_a_scrub_makes_no_count_of_it() {
    let mut world = between_chunks(Cause::Ordered);
    world.lose(3);
    let run = world.pg.scrubs.run.as_mut().unwrap();
    run.at = HObject::max();
    run.verdict.totals = PgTotals { objects: 99, ..PgTotals::default() };
    world.handle(Event::GiveUp(GiveUp::Delete));
    world.confirm_all();
    assert!(!world.pg.scrubs.is_under_way());
    // It is counted anew.
    assert!(world.pg.info.is_estimated && world.pg.info.totals.objects != 99);
}

/// Else an OSD would answer nothing else until all of a PG is looked at.
#[test]
fn a_scrub_that_waits_for_no_other_copy_goes_on_in_the_next_event() {
    let mut world = World::active();
    world.pg.members.acting = vec![world.pg.me];
    for at in 4..=10 {
        let content = world.content(at, at);
        world.store.submit(Token(0), content);
    }
    world.scrub.chunk = (3, 3);
    world.effects.clear();
    let wanted = Wanted { request: ScrubRequest::default(), cause: Cause::Ordered };
    world.act(|pg, ctx| pg.begin_scrub(wanted, ctx));
    let mut events = 0;
    while world.pg.scrubs.run.is_some() && events < 10 {
        world.act(|pg, ctx| pg.drive_scrub(ctx));
        events += 1;
    }
    assert_eq!(events, 5, "ten objects in four chunks, and the end");
    let wakes = world.effects.iter().filter(|effect| matches!(effect, Effect::WakeAt(_)));
    assert_eq!(wakes.count(), 4);
}
