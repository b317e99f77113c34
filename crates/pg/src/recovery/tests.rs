//! What a primary asks for, and when it has done with it.

use messages::Message;

use super::*;
use crate::{Event, test_world::World};

fn pulls(world: &mut World) -> usize {
    world.told().iter().filter(|(_, message)| matches!(message, Message::MPgPull(_))).count()
}

#[test]
fn an_object_is_pulled_once() {
    let mut world = World::active();
    let (pgid, epoch, object) = (world.pg.pgid, world.map.epoch, world.object(1));
    let (version, txn, peer) = (world.version(1), world.content(1, 1), world.peers[0]);
    world.act(|pg, cx| pg.repair(&object, cx));
    assert_eq!(pulls(&mut world), 1);
    // It came, and is not durable.
    let push = MPgPush { pgid, epoch, object, version, txn };
    world.act(|pg, cx| pg.handle(Event::Peer(peer, push.into()), cx));
    world.act(|pg, cx| pg.handle(Event::Tick, cx));
    assert_eq!((pulls(&mut world), world.missing().len()), (0, 1));
    world.handle(Event::Tick);
    assert!(
        world.missing().is_empty() && world.pg.recovery.active() == 0 && world.pg.state().has(PgState::CLEAN)
    );
}
