//! What a replica makes of its primary's log: which of its own contents are good.

use messages::{MOSDRepOp, MPgActivated, MPgBadCopy, MPgNotify, MPgPush, MPgQuery, Message};
use store::ObjectStore;
use types::{EVersion, Epoch, LogEntry, OsdId, PgInfo, PgInterval, PgTotals, Token};

use crate::{Event, log::PgLog, pg::Phase, test_world::World};

/// The primary has found that the replica's copy of an object, in the version of the same number, is bad.
fn spoil(world: &mut World, at: u64) {
    let (pgid, epoch, object, version) =
        (world.pg.pgid, world.map.epoch, world.object(at), world.version(at));
    world.say(world.peers[0], MPgBadCopy { pgid, epoch, object, version }.into());
}

#[test]
fn a_list_of_objects_does_not_make_a_bad_copy_good() {
    let mut world = World::replica();
    spoil(&mut world, 2);
    spoil(&mut world, 3);
    // Object 3 is gone meanwhile, and 1 was changed.
    let list = vec![(world.object(1), world.version(8)), (world.object(2), world.version(2))];
    world.activate(9, Vec::new(), 9, Some(list));
    assert_eq!(world.missing(), [(world.object(1), 8), (world.object(2), 2)]);
    assert_eq!((world.stored(2), world.stored(3)), (2, 0));
    // A copy that is good stays so.
    let list = vec![(world.object(2), world.version(2))];
    world.act(|pg, _| pg.missing.clear());
    world.activate(19, Vec::new(), 19, Some(list));
    assert_eq!(world.missing(), []);
}

#[test]
fn a_bad_copy_is_not_good_when_what_came_after_it_is_undone() {
    let mut world = World::replica();
    spoil(&mut world, 2);
    let change = world.entry(2, 4, 2);
    world.activate(3, vec![change], 4, None);
    assert_eq!((world.missing(), world.stored(2)), (vec![(world.object(2), 4)], 0));
    world.activate(3, Vec::new(), 3, None);
    assert_eq!(world.missing(), [(world.object(2), 2)]);
}

#[test]
fn contents_that_came_to_nothing_are_not_kept() {
    let mut world = World::replica();
    let (pgid, epoch, version) = (world.pg.pgid, world.map.epoch, world.version(4));
    let (log, trim_to, totals) = (vec![world.entry(3, 4, 3)], world.version(0), PgTotals::default());
    let txn = world.content(3, 4);
    let committed_to = world.version(0);
    let change = MOSDRepOp { pgid, epoch, version, log, trim_to, totals, txn, committed_to };
    world.say(world.peers[0], change.into());
    assert_eq!(world.stored(3), 4);
    world.activate(3, Vec::new(), 3, None);
    assert_eq!((world.missing(), world.stored(3)), (vec![(world.object(3), 3)], 0));
}

/// The primary cannot decode what it keeps with the objects, and a change of one came to nothing that the replica has,
/// and one of another that it lacks.
#[test]
fn what_is_newer_than_a_list_of_objects_is_not_good_where_the_list_names_no_version() {
    let mut world = World::replica();
    let change = world.entry(1, 4, 1);
    world.activate(3, vec![change], 4, None);
    let list = (1..=3).map(|at| (world.object(at), EVersion::ZERO)).collect();
    world.activate(2, Vec::new(), 2, Some(list));
    assert_eq!(world.missing(), [(world.object(1), 2), (world.object(3), 2)]);
    assert_eq!([1, 2, 3].map(|at| world.stored(at)), [1, 2, 0]);
}

#[test]
fn a_copy_knows_the_highest_version_that_users_saw_whatever_it_takes_over() {
    let mut world = World::replica();
    let change = LogEntry { user_version: 1_000, ..world.entry(2, 4, 2) };
    world.activate(3, vec![change], 4, None);
    assert_eq!(world.pg.info.last_user_version, 1_000);
    let (pgid, epoch, version) = (world.pg.pgid, world.map.epoch, world.version(5));
    let (log, trim_to) = (vec![LogEntry { user_version: 1_001, ..world.entry(3, 5, 3) }], world.version(0));
    let (txn, totals, committed_to) = (world.content(3, 5), PgTotals::default(), world.version(0));
    let change = MOSDRepOp { pgid, epoch, version, log, trim_to, totals, txn, committed_to };
    world.say(world.peers[0], change.into());
    assert_eq!(world.pg.info.last_user_version, 1_001);
    // What came to nothing may have been seen.
    world.activate(4, Vec::new(), 4, None);
    assert_eq!(world.pg.info.last_user_version, 1_001);
}

#[test]
fn an_older_copy_stays_until_a_newer_one_comes() {
    let mut world = World::replica();
    let change = world.entry(2, 4, 2);
    world.activate(3, vec![change], 4, None);
    assert_eq!((world.missing(), world.stored(2)), (vec![(world.object(2), 4)], 2));
    world.activate(3, Vec::new(), 3, None);
    assert_eq!(world.missing(), []);
}

#[test]
fn what_was_pushed_is_good_whether_it_is_durable_or_not_when_the_interval_ends() {
    let mut world = World::replica();
    let change = world.entry(2, 4, 2);
    world.activate(3, vec![change], 4, None);
    let (pgid, epoch, object) = (world.pg.pgid, world.map.epoch, world.object(2));
    let (version, txn, primary) = (world.version(4), world.content(2, 4), world.peers[0]);
    let push = MPgPush::whole((pgid, epoch), object, version, txn);
    world.act(|pg, ctx| pg.handle(Event::Peer(primary, push.into()), ctx));
    assert_eq!((world.missing().len(), world.stored(2)), (1, 4));
    // The primary begins a new life before the store has answered.
    world.map.epoch = world.map.epoch.next();
    world.map.osd_info[usize::try_from(primary.0).unwrap()].up_from = world.map.epoch;
    world.act(|pg, ctx| pg.handle(Event::NewMap, ctx));
    let list = vec![(world.object(2), version)];
    world.activate(9, Vec::new(), 9, Some(list));
    assert_eq!((world.missing(), world.stored(2)), (vec![], 4));
}

#[test]
fn a_source_that_lost_its_copy_does_not_keep_a_primary_waiting() {
    let mut world = World::active();
    let (pgid, epoch, peers) = (world.pg.pgid, world.map.epoch, world.peers.clone());
    let notify = |info: PgInfo| MPgNotify { pgid, epoch, info, intervals: Vec::new(), leases: Vec::new() };
    let mine = PgInfo { last_update: world.pg.info.last_update, ..PgInfo::default() };
    let newer = PgInfo { last_epoch_started: epoch, last_update: world.version(4), ..PgInfo::default() };
    world.act(|pg, ctx| pg.start_interval(ctx));
    world.say(peers[0], notify(newer.clone()).into());
    world.say(peers[1], notify(mine).into());
    assert_eq!(world.pg.phase, Phase::GetLog { from: peers[0] });
    // Said again, it changes nothing.
    world.told();
    world.say(peers[0], notify(newer).into());
    assert!(world.told().is_empty() && world.pg.phase == Phase::GetLog { from: peers[0] });
    world.say(peers[0], notify(PgInfo::default()).into());
    assert!(matches!(world.pg.phase, Phase::Activating { .. }), "{:?}", world.pg.phase);
}

/// A good copy is not given up for one of unknown version, nor is a copy of unknown version taken for good.
#[test]
fn versions_that_cannot_be_decoded_are_not_followed() {
    let mut world = World::replica();
    world.damage(2);
    let objects = [(1, 0), (2, 2), (3, 3)].map(|(at, version)| (world.object(at), world.version(version)));
    world.activate(9, Vec::new(), 9, Some(objects.to_vec()));
    assert_eq!((world.stored(1), world.stored(3)), (1, 3));
    assert_eq!(world.missing(), [(world.object(2), 2)]);
}

#[test]
fn the_log_knows_versions_that_cannot_be_decoded() {
    let mut world = World::active();
    world.damage(3);
    let lists = |world: &mut World| {
        world.act(|pg, ctx| pg.scan_objects(ctx.store)).unwrap();
        let all = world.pg.object_versions();
        world.pg.forget_versions();
        all.into_iter().map(|(_, version)| version.version).collect::<Vec<_>>()
    };
    assert_eq!(lists(&mut world), [1, 2, 3]);
    let end = world.version(3);
    world.pg.log.trim(end, 0);
    assert_eq!(lists(&mut world), [1, 2, 0]);
}

/// The logs that others were sent since it was asked last: whether an object list came along.
fn lists(world: &mut World) -> Vec<bool> {
    let told = world.told().into_iter();
    let logs = told.filter_map(|(_, message)| match message {
        Message::MPgLog(log) => Some(log.objects.is_some()),
        _ => None,
    });
    logs.collect()
}

#[test]
fn a_copy_whose_log_begins_with_what_nobody_knows_gets_a_list() {
    let mut world = World::active();
    let (pgid, epoch, peers) = (world.pg.pgid, world.map.epoch, world.peers.clone());
    // The other copy made many changes in an earlier epoch that came to nothing.
    let before = |at| EVersion::new(Epoch(epoch.0 - 1), at);
    let strange = PgInfo { log_tail: before(7), last_update: before(9), ..PgInfo::default() };
    let known = PgInfo { log_tail: world.version(2), last_update: before(9), ..PgInfo::default() };
    for (info, needs_list) in [(strange, true), (known, false)] {
        world.act(|pg, ctx| pg.start_interval(ctx));
        world.told();
        let same = PgInfo { last_update: world.version(3), ..PgInfo::default() };
        for (peer, info) in peers.iter().zip([info, same]) {
            let (intervals, leases) = (Vec::new(), Vec::new());
            world.say(*peer, MPgNotify { pgid, epoch, info, intervals, leases }.into());
        }
        // Lists go last.
        assert_eq!(lists(&mut world), [false, needs_list]);
    }
}

#[test]
fn a_replica_that_a_log_does_not_reach_asks_for_a_list_and_gets_it() {
    let mut replica = World::replica();
    let primary = replica.peers[0];
    replica.activate(9, Vec::new(), 9, None);
    // It is no replica yet: a change would be made to contents that the primary does not know.
    assert_eq!((&replica.pg.phase, replica.pg.info.last_update), (&Phase::Idle, replica.version(3)));
    let told = replica.told();
    let [(to, Message::MPgQuery(query))] = &told[..] else { panic!("it asks: {told:?}") };
    assert!(*to == [primary] && query.wants_log && query.since == replica.version(3));

    let mut world = World::active();
    let (pgid, epoch, peers) = (world.pg.pgid, world.map.epoch, world.peers.clone());
    world.act(|pg, ctx| pg.start_interval(ctx));
    world.told();
    let info = PgInfo { last_update: world.version(3), ..PgInfo::default() };
    for peer in &peers {
        let (info, intervals, leases) = (info.clone(), Vec::new(), Vec::new());
        world.say(*peer, MPgNotify { pgid, epoch, info, intervals, leases }.into());
    }
    assert_eq!(lists(&mut world), [false, false]);
    // Whoever is activated later is not later than the others.
    world.map.epoch = epoch.next();
    world.say(peers[0], Message::MPgQuery(query.clone()));
    world.map.epoch = epoch;
    let told = world.told();
    let [(to, Message::MPgLog(log))] = &told[..] else { panic!("it is answered: {told:?}") };
    let objects = log.objects.clone().unwrap();
    assert!(*to == [peers[0]] && log.is_activation && objects.len() == 3 && log.epoch == epoch);
    for peer in peers {
        world.say(peer, MPgActivated { pgid, epoch, ..MPgActivated::default() }.into());
    }
    assert_eq!(world.pg.phase, Phase::Active);

    // A map that it has, and the primary had not, makes it no better than others.
    replica.map.epoch = epoch.next();
    replica.say(primary, Message::MPgLog(log.clone()));
    assert_eq!((&replica.pg.phase, replica.missing()), (&Phase::Replica, vec![]));
    assert_eq!(replica.pg.info.last_epoch_started, epoch);
    assert!(matches!(&replica.told()[..], [(_, Message::MPgActivated(_))]));
}

#[test]
fn a_primary_whose_log_begins_with_what_nobody_knows_asks_for_a_list_and_gets_it() {
    let mut world = World::active();
    let (pgid, epoch, peers) = (world.pg.pgid, world.map.epoch, world.peers.clone());
    let tail = EVersion::new(Epoch(epoch.0 - 1), 7);
    world.pg.info.log_tail = tail;
    world.act(|pg, ctx| pg.start_interval(ctx));
    world.told();
    for (peer, last_epoch_started) in peers.into_iter().zip([epoch, Epoch(0)]) {
        let info = PgInfo { last_epoch_started, last_update: world.version(4), ..PgInfo::default() };
        let (intervals, leases) = (Vec::new(), Vec::new());
        world.say(peer, MPgNotify { pgid, epoch, info, intervals, leases }.into());
    }
    let asked = world.told().into_iter().find_map(|(_, message)| match message {
        Message::MPgQuery(query) if query.wants_log => Some(*query),
        _ => None,
    });
    assert_eq!(asked.map(|query| (query.since, query.tail)), Some((world.version(3), tail)));

    let mut world = World::replica();
    let since = EVersion::new(Epoch(epoch.0 - 1), 9);
    for (tail, needs_list) in [(tail, true), (world.version(3), false), (EVersion::ZERO, false)] {
        let query = MPgQuery { pgid, epoch, wants_log: true, since, tail, ..MPgQuery::default() };
        world.say(world.peers[0], query.into());
        assert_eq!(lists(&mut world), [needs_list]);
    }
}

/// An object is made in the epoch before: what is logged of that.
fn make_earlier(world: &mut World, at: u64, version: u64) -> LogEntry {
    let epoch = world.map.epoch;
    world.map.epoch = Epoch(epoch.0 - 1);
    let (entry, txn) = (world.entry(at, version, 0), world.content(at, version));
    world.map.epoch = epoch;
    world.store.submit(Token(0), txn);
    entry
}

/// The others had made a change that it has not seen, and were given up when they failed. It went on alone, and failed
/// as well; then it was given up, and they went on. Their newest change is older than its own ones.
#[test]
fn a_primary_that_had_gone_on_alone_undoes_all_that_others_have_done_without() {
    for is_trimmed in [false, true] {
        let mut world = World::active();
        let (pgid, epoch, peers) = (world.pg.pgid, world.map.epoch, world.peers.clone());
        let common = make_earlier(&mut world, 1, 1);
        let alone = [world.entry(2, 2, 0), world.entry(3, 3, 0)];
        world.pg.log = PgLog::from_entries([std::slice::from_ref(&common), &alone[..]].concat());
        world.pg.info.last_epoch_started = Epoch(epoch.0 - 1);

        let mut source = World::replica();
        make_earlier(&mut source, 1, 1);
        let theirs = make_earlier(&mut source, 3, 2);
        let mut gone = types::Transaction::new(source.pg.coll);
        gone.push(&source.object(2), types::Mutation::Remove);
        source.store.submit(Token(0), gone);
        let last_update = theirs.version;
        source.pg.log = PgLog::from_entries(vec![common, theirs]);
        source.pg.info.last_update = last_update;
        if is_trimmed {
            source.pg.log.trim(last_update, 0);
            source.pg.info.log_tail = last_update;
        }

        world.act(|pg, ctx| pg.start_interval(ctx));
        for (peer, last_epoch_started) in peers.iter().zip([epoch, Epoch(0)]) {
            let info = PgInfo { last_epoch_started, last_update, ..PgInfo::default() };
            let (intervals, leases) = (Vec::new(), Vec::new());
            world.say(*peer, MPgNotify { pgid, epoch, info, intervals, leases }.into());
        }
        let mut asked = Vec::new();
        while world.pg.phase == (Phase::GetLog { from: peers[0] }) {
            let told = world.told().into_iter().find_map(|(_, message)| match message {
                Message::MPgQuery(query) if query.wants_log => Some(query),
                _ => None,
            });
            let query = told.expect("it asks until it has the log");
            asked.push(query.since);
            source.say(world.pg.me, Message::MPgQuery(query));
            source.told().into_iter().for_each(|(_, log)| world.say(peers[0], log));
        }
        let all = [world.version(3), EVersion::ZERO];
        assert_eq!(asked, all[..if is_trimmed { 2 } else { 1 }], "a log may begin with what it has not seen");
        assert_eq!((world.missing(), world.stored(2)), (vec![(world.object(3), 2)], 0));
        assert!(world.pg.log.iter().all(|entry| entry.version <= last_update));
        assert!(matches!(world.pg.phase, Phase::Activating { .. }), "{:?}", world.pg.phase);
    }
}

/// A primary that has heard all members, and waits for the map to say that it lives.
fn waiting_for_the_map() -> World {
    let mut world = World::of(2);
    world.map.epoch = Epoch(world.map.epoch.0 + 5);
    // It begins anew.
    world.map.osd_info[usize::try_from(world.peers[0].0).unwrap()].up_from = world.map.epoch;
    world.handle(Event::NewMap);
    world.pg.intervals.clear();
    let (pgid, epoch, peers) = (world.pg.pgid, world.map.epoch, world.peers.clone());
    for peer in peers {
        let info = PgInfo { last_update: world.pg.info.last_update, ..PgInfo::default() };
        let (intervals, leases) = (Vec::new(), Vec::new());
        world.say(peer, MPgNotify { pgid, epoch, info, intervals, leases }.into());
    }
    assert_eq!(world.pg.phase, Phase::WaitUpThru);
    world.told();
    world
}

/// The map says that the primary lives.
fn show_alive(world: &mut World) {
    world.map.epoch = world.map.epoch.next();
    world.map.osd_info[usize::try_from(world.pg.me.0).unwrap()].up_thru = world.map.epoch;
    world.handle(Event::NewMap);
}

/// In the epoch before the present interval, these took writes alone.
fn led_by(world: &World, acting: Vec<OsdId>) -> PgInterval {
    let first = Epoch(world.pg.info.since.0 - 1);
    let primary = acting[0];
    PgInterval { first, last: first, acting, primary, maybe_went_rw: true, forgotten_since: Epoch(0) }
}

fn up_stray(world: &World) -> OsdId {
    let is_stray = |osd: &OsdId| world.map.is_up(*osd) && !world.pg.members.contains(*osd);
    world.map.osds().find(is_stray).expect("a map with more OSDs than copies")
}

#[test]
fn a_log_that_is_heard_of_late_is_still_the_best() {
    for is_told_of_by_map in [true, false] {
        let mut world = waiting_for_the_map();
        let stray = up_stray(&world);
        let (pgid, epoch, leases) = (world.pg.pgid, world.map.epoch, Vec::new());
        let interval = led_by(&world, vec![stray]);
        let info = PgInfo {
            last_epoch_started: interval.first,
            last_update: EVersion::new(interval.first, 4),
            ..PgInfo::default()
        };
        let intervals = if is_told_of_by_map { vec![interval] } else { Vec::new() };
        world.say(stray, MPgNotify { pgid, epoch, info, intervals, leases }.into());
        assert_eq!(world.pg.phase, Phase::GetLog { from: stray });
        show_alive(&mut world);
        assert_eq!(world.pg.phase, Phase::GetLog { from: stray });
    }
}

#[test]
fn an_interval_that_is_heard_of_late_is_asked_about() {
    let mut world = waiting_for_the_map();
    let (pgid, epoch, peer) = (world.pg.pgid, world.map.epoch, world.peers[0]);
    let away = world.add_down_osd();
    let tell = |world: &mut World, intervals: Vec<PgInterval>| {
        let info = PgInfo { last_update: world.pg.info.last_update, ..PgInfo::default() };
        world.say(peer, MPgNotify { pgid, epoch, info, intervals, leases: Vec::new() }.into());
    };
    // Members have told what they know of this one.
    let known = led_by(&world, vec![peer]);
    tell(&mut world, vec![known]);
    assert_eq!(world.pg.phase, Phase::WaitUpThru);
    let first = Epoch(world.pg.info.since.0 - 2);
    let unknown = PgInterval { first, last: first, ..led_by(&world, vec![away]) };
    tell(&mut world, vec![unknown]);
    assert_eq!(world.pg.phase, Phase::Down);
    show_alive(&mut world);
    assert_eq!((&world.pg.phase, world.pg.blocked_by(&world.map)), (&Phase::Down, vec![away]));
}

#[test]
fn what_any_copy_knows_to_be_purged_stays_purged() {
    let snaps = |snap: u64| {
        let mut snaps = types::IntervalSet::new();
        snaps.insert(snap, 1);
        snaps
    };
    let mut world = World::replica();
    world.pg.info.purged_snaps = snaps(5);
    // The primary has not heard of it.
    world.activate(3, Vec::new(), 3, None);
    assert_eq!(*world.pg.purged_snaps(), snaps(5));

    let mut world = World::active();
    let (pgid, epoch, peer) = (world.pg.pgid, world.map.epoch, world.peers[0]);
    let info = PgInfo { purged_snaps: snaps(7), ..world.pg.info.clone() };
    let (intervals, leases) = (Vec::new(), Vec::new());
    world.say(peer, MPgNotify { pgid, epoch, info, intervals, leases }.into());
    assert_eq!(*world.pg.purged_snaps(), snaps(7));
}

#[test]
fn other_messages_do_not_make_the_scan_for_an_activation_begin_anew() {
    let mut world = World::active();
    let (pgid, epoch, peers) = (world.pg.pgid, world.map.epoch, world.peers.clone());
    world.act(|pg, ctx| pg.scan_objects(ctx.store)).unwrap();
    let query = MPgQuery { pgid, epoch, ..MPgQuery::default() };
    world.say(peers[0], query.into());
    assert_eq!(world.pg.known_objects().count(), 3);
    world.say(peers[0], MPgQuery { wants_log: true, ..query }.into());
    assert_eq!(world.pg.known_objects().count(), 0, "what was read is of one moment");
}

#[test]
fn a_copy_that_is_no_member_tells_the_primary_of_itself_in_each_life_of_its_osd() {
    let mut world = World::replica();
    world.map.pools.get_mut(&world.pg.pgid.pool).unwrap().size = 2;
    world.pg.members = types::Membership::of(&world.map, world.pg.pgid);
    world.pg.me = up_stray(&world);
    world.pg.phase = Phase::Idle;
    let lives_on = |world: &mut World, is_new_life: bool| {
        world.map.epoch = world.map.epoch.next();
        if is_new_life {
            let me = usize::try_from(world.pg.me.0).unwrap();
            world.map.osd_info[me].up_from = world.map.epoch;
        }
        world.handle(Event::NewMap);
        let told = world.told().into_iter();
        told.filter(|(_, message)| matches!(message, Message::MPgNotify(_))).map(|(osds, _)| osds).collect()
    };
    let told: Vec<Vec<OsdId>> = lives_on(&mut world, false);
    assert!(told.is_empty(), "the primary knows it");
    let told: Vec<Vec<OsdId>> = lives_on(&mut world, true);
    assert_eq!(told, [vec![world.pg.members.primary]]);
}
