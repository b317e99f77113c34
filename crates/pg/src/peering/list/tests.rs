use bytes::Bytes;
use messages::{MPgActivated, MPgNotify, Message};
use types::PgInfo;

use super::*;
use crate::test_world::World;

/// As it comes from the wire, and the memory that it came in.
fn received(message: Message) -> (Message, Bytes) {
    let raw = message.encode(0);
    let front = Bytes::from(raw.front.to_vec());
    let raw = messages::RawMessage { front: front.clone(), ..raw };
    (Message::decode(raw).expect("what is encoded can be decoded"), front)
}

/// Begins an interval in which the others have these.
fn peer(world: &mut World, infos: &[PgInfo]) {
    let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
    world.act(|pg, ctx| pg.start_interval(ctx));
    world.told();
    for (peer, info) in world.peers.clone().into_iter().zip(infos) {
        let (info, intervals, leases) = (info.clone(), Vec::new(), Vec::new());
        world.say(peer, MPgNotify { pgid, epoch, info, intervals, leases }.into());
    }
}

#[test]
fn what_a_copy_lacks_keeps_nothing_of_the_message_that_told_of_it() {
    let mut world = World::active();
    let (pgid, epoch, from) = (world.pg.pgid, world.map.epoch, world.peers[0]);
    let same = PgInfo { last_update: world.version(3), ..PgInfo::default() };
    peer(&mut world, &[same.clone(), same]);
    let missing: Missing = [(world.object(2), world.version(2))].into();
    let activated = MPgActivated { pgid, epoch, missing: missing.clone(), ..MPgActivated::default() };
    let (message, front) = received(activated.into());
    world.say(from, message);
    assert_eq!(world.pg.peer_missing[&from], missing);
    assert!(front.is_unique());

    let mut world = World::replica();
    let primary = world.peers[0];
    let objects = [(1, 1), (2, 2), (3, 8)].map(|(at, version)| (world.object(at), world.version(version)));
    let info = PgInfo { last_update: world.version(9), log_tail: world.version(9), ..PgInfo::default() };
    let (objects, is_activation) = (Some(objects.to_vec()), true);
    let log = MPgLog { pgid, epoch, info, objects, is_activation, ..MPgLog::default() };
    let (message, front) = received(log.into());
    world.say(primary, message);
    assert_eq!(world.missing(), [(world.object(3), 8)]);
    world.effects.clear();
    assert!(front.is_unique());
}

/// It may be long: it is made once.
#[test]
fn all_copies_that_need_a_list_get_the_same_one() {
    let mut world = World::active();
    let tail = world.version(2);
    world.pg.log.trim(tail, 0);
    world.pg.info.log_tail = tail;
    peer(&mut world, &[PgInfo::default(), PgInfo::default()]);
    let lines: Vec<String> = world
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::ClusterLog(LogLevel::DEBUG, line) => Some(line.clone()),
            _ => None,
        })
        .collect();
    let (pg, last) = (world.pg.pgid, world.pg.info.last_update);
    let line = |osd: &OsdId| format!("{pg} starting backfill to osd.{osd} from (0'0,0'0] MIN to {last}");
    let peers = world.peers.clone();
    assert_eq!(lines, peers.iter().map(line).collect::<Vec<_>>());
    let told = world.told();
    let [(osds, Message::MPgLog(log))] = &told[..] else { panic!("one message: {told:?}") };
    let objects = log.objects.as_ref().map(Vec::len);
    assert_eq!((osds, objects, log.entries.len(), log.info.log_tail), (&peers, Some(3), 1, tail));
}

/// A log had an object looked up that is not here, and its source is gone before it was taken over.
#[test]
fn what_was_looked_up_for_a_log_is_in_no_list() {
    let mut world = World::active();
    let gone = world.object(7);
    world.act(|pg, ctx| pg.look_up([&gone], ctx.store)).unwrap();
    world.act(|pg, ctx| pg.get_info(ctx));
    world.act(|pg, ctx| pg.scan_objects(ctx.store)).unwrap();
    let listed = world.pg.object_versions();
    assert_eq!((listed.len(), listed.iter().any(|(object, _)| *object == gone)), (3, false));
}
