//! Many PGs of one OSD recover at once.

use bytes::Bytes;
use messages::{MPgPull, MPgPushReply, Message};
use store::ObjectStore;
use types::{MapFlags, Mutation, OsdState, PgId, Token};

use super::*;
use crate::{Event, test_world::World};

const OBJECT_BYTES: usize = 256 << 10;
/// Takes an object with what is kept with it: two of them are under way to an OSD.
const PART_BYTES: u64 = OBJECT_BYTES as u64 + 4096;

/// PGs of one OSD. The same member of each lacks so many objects, each of them large.
struct Many {
    worlds: Vec<World>,
    /// What is on its way there: of which PG.
    sent: Vec<(usize, types::HObject)>,
    /// The PGs in the order in which they sent.
    order: Vec<usize>,
}

impl Many {
    fn new(count: usize, objects: u64, active_max: u64, part_bytes: u64) -> Many {
        let mut recovery = World::active().recovery;
        (recovery.active_max, recovery.part_bytes) = (active_max, part_bytes);
        let data = Bytes::from(vec![7; OBJECT_BYTES]);
        let world = |seed| {
            let mut world = World::active();
            world.recovery = recovery.clone();
            for at in 1..=objects {
                let mut txn = world.content(at, at);
                txn.push(&world.object(at), Mutation::Write { offset: 0, data: data.clone().into() });
                world.store.submit(Token(0), txn);
            }
            world.store.complete();
            world.told();
            // As the OSD knows it; what is stored is of the same PG everywhere.
            world.pg.pgid = PgId::new(world.pg.pgid.pool, seed);
            world
        };
        let worlds = (0..u32::try_from(count).unwrap()).map(world).collect();
        Many { worlds, sent: Vec::new(), order: Vec::new() }
    }

    fn target(&self) -> OsdId {
        self.worlds[0].peers[0]
    }

    /// All find out what is lacking.
    fn lack(&mut self, objects: u64) {
        let target = self.target();
        for at in 0..self.worlds.len() {
            let world = &mut self.worlds[at];
            let lacking = (1..=objects).map(|at| (world.object(at), world.version(at))).collect();
            world.pg.is_clean = false;
            world.pg.peer_missing.insert(target, lacking);
            self.handle(at, Event::Tick);
        }
    }

    /// Hands an event to one of them, and gives turns as the OSD does.
    fn handle(&mut self, at: usize, event: Event) {
        self.worlds[at].handle_alone(event);
        while let Some((pgid, osd)) = self.worlds[0].recovery.next_turn() {
            self.worlds[pgid.seed as usize].handle_alone(Event::RecoveryTurn(osd));
            self.note_sent();
        }
        self.note_sent();
    }

    fn note_sent(&mut self) {
        for (at, world) in self.worlds.iter_mut().enumerate() {
            for (_, message) in world.told() {
                if let Message::MPgPush(push) = message {
                    self.sent.push((at, push.object));
                    self.order.push(at);
                }
            }
        }
    }

    /// What was sent first arrives.
    fn arrive(&mut self) {
        let (at, object) = self.sent.remove(0);
        let (pgid, epoch) = (self.worlds[at].pg.pgid, self.worlds[at].map.epoch);
        let reply = MPgPushReply { pgid, epoch, object };
        self.handle(at, Event::Peer(self.target(), reply.into()));
    }

    fn taken(&self) -> u64 {
        self.worlds[0].recovery.active.taken()
    }

    fn bytes(&self) -> usize {
        self.worlds[0].recovery.active.bytes_to(self.target())
    }

    fn is_done(&self) -> bool {
        let target = self.target();
        let lacks =
            |world: &World| world.pg.peer_missing.get(&target).is_some_and(|missing| !missing.is_empty());
        !self.worlds.iter().any(lacks)
    }
}

#[test]
fn pgs_share_the_places_and_have_turns() {
    let mut many = Many::new(64, 3, 4, 8 << 20);
    many.lack(3);
    while !many.sent.is_empty() {
        assert!(many.taken() <= 4 && many.sent.len() <= 4);
        many.arrive();
    }
    assert!(many.is_done());
    assert_eq!((many.taken(), many.bytes(), many.order.len()), (0, 0, 64 * 3));
    // The first PGs took what was free; from then on no PG has two turns before another one has had one.
    let mut turns = [0; 64];
    many.order[4..].iter().for_each(|at| turns[*at] += 1);
    let early = many.order[4..4 + 63].iter().copied().collect::<BTreeSet<_>>();
    assert_eq!(early.len(), 63);
}

#[test]
fn few_bytes_are_under_way_to_one_osd() {
    let mut many = Many::new(16, 2, 10, PART_BYTES);
    many.lack(2);
    while !many.sent.is_empty() {
        assert!(many.sent.len() <= 2 && many.bytes() <= 2 * PART_BYTES as usize, "{:?}", many.sent);
        many.arrive();
    }
    assert!(many.is_done());
    assert_eq!((many.taken(), many.bytes()), (0, 0));
}

#[test]
fn what_an_op_waits_for_needs_no_place_and_is_sent_before_what_is_held() {
    let mut many = Many::new(8, 5, 5, PART_BYTES);
    many.lack(5);
    assert_eq!((many.sent.len(), many.taken()), (2, 5));
    let object = many.worlds[7].object(3);
    many.worlds[7].act(|pg, ctx| pg.recover_soon(&object, ctx));
    assert_eq!((many.sent.len(), many.taken()), (2, 6));
    many.arrive();
    assert_eq!(many.sent[1..], [(7, object)]);
    // An op comes to wait for what is held: it goes before others that are.
    let object = many.worlds[0].object(5);
    assert_eq!(many.worlds[0].pg.recovery.held.len(), 3);
    many.worlds[0].act(|pg, ctx| pg.recover_soon(&object, ctx));
    many.arrive();
    assert_eq!(many.sent[1..], [(0, object)]);
    while !many.sent.is_empty() {
        many.arrive();
    }
    assert!(many.is_done());
    assert_eq!((many.taken(), many.bytes()), (0, 0));
}

#[test]
fn an_operators_pg_goes_before_others() {
    let mut many = Many::new(8, 3, 1, 8 << 20);
    many.lack(3);
    many.handle(6, Event::ForceRecovery { is_backfill: false, is_forced: true });
    (0..4).for_each(|_| many.arrive());
    assert_eq!(many.order[1..4], [6, 6, 6]);
}

#[test]
fn places_and_bytes_come_back_with_the_interval_and_with_the_pg() {
    let mut many = Many::new(4, 3, 3, PART_BYTES);
    many.lack(3);
    assert_eq!((many.taken(), many.sent.len()), (3, 2));
    // A PG goes, with what it has under way: others have their turns.
    let first = std::mem::take(&mut many.sent)[0].0;
    let gone = std::mem::replace(&mut many.worlds[first], World::active());
    many.worlds[first].recovery = gone.recovery.clone();
    drop(gone);
    many.handle(first, Event::Tick);
    assert_eq!((many.taken(), many.sent.len()), (3, 2));
    // The target goes down.
    let at = usize::try_from(many.target().0).unwrap();
    for world in &mut many.worlds {
        world.map.epoch = world.map.epoch.next();
        world.map.osd_state[at] = world.map.osd_state[at].with(OsdState::UP, false);
    }
    (0..4).for_each(|at| many.worlds[at].handle_alone(Event::NewMap));
    assert_eq!((many.taken(), many.bytes()), (0, 0));
    many.handle(0, Event::Tick);
    assert!(many.worlds[0].recovery.active.0.borrow().queues.is_empty());
}

#[test]
fn a_member_that_begins_a_new_life_is_sent_all_again() {
    let mut many = Many::new(1, 3, 3, PART_BYTES);
    many.lack(3);
    let target = many.target();
    assert_eq!((many.taken(), many.sent.len()), (3, 2));
    many.worlds[0].act(|pg, ctx| pg.forget_gone(|osd| *osd == target, ctx));
    many.handle(0, Event::Tick);
    assert_eq!((many.taken(), many.sent.len()), (3, 4));
}

#[test]
fn a_source_sends_what_it_is_asked_for_as_it_arrives() {
    let mut world = World::replica();
    let (pgid, epoch, primary) = (world.pg.pgid, world.map.epoch, world.peers[0]);
    world.recovery.part_bytes = 0;
    let pushed = |world: &mut World| {
        let told = world.told().into_iter();
        let pushes = told.filter_map(|(_, message)| match message {
            Message::MPgPush(push) => Some(push.object),
            _ => None,
        });
        pushes.collect::<Vec<_>>()
    };
    for at in [1, 2, 2, 3] {
        let (object, version) = (world.object(at), world.version(at));
        world.say(primary, MPgPull { pgid, epoch, object, version, ..MPgPull::default() }.into());
    }
    let objects = [1, 2, 3].map(|at| world.object(at));
    assert_eq!(pushed(&mut world), [objects[0].clone()]);
    for at in 0..3 {
        let object = objects[at].clone();
        world.say(primary, MPgPushReply { pgid, epoch, object }.into());
        assert_eq!(pushed(&mut world), objects.get(at + 1).cloned().into_iter().collect::<Vec<_>>());
    }
    assert_eq!(world.recovery.active.bytes_to(primary), 0);
}

#[test]
fn a_primary_says_at_once_that_what_it_asked_for_has_come() {
    let mut world = World::active();
    let object = world.object(1);
    world.act(|pg, ctx| pg.repair(&object, ctx));
    let source = world.pg.recovery.pulling[&object].0;
    let replies = |world: &mut World| {
        let told = world.told().into_iter();
        told.filter(|(osds, m)| *osds == [source] && matches!(m, Message::MPgPushReply(_))).count()
    };
    world.told();
    world.push(source, 1, 1);
    assert_eq!(replies(&mut world), 1);
    // An object that is no longer waited for does not keep the source from sending either.
    world.push(source, 1, 1);
    assert_eq!(replies(&mut world), 1);
}

#[test]
fn a_turn_that_is_for_nothing_is_passed_on() {
    let mut many = Many::new(3, 1, 1, 8 << 20);
    many.lack(1);
    // The next one may not go on when its turn comes.
    many.worlds[1].map.flags = MapFlags::NORECOVER;
    many.arrive();
    assert_eq!(many.sent, [(2, many.worlds[2].object(1))]);
    many.worlds[1].map.flags = MapFlags::default();
    many.arrive();
    many.handle(1, Event::Tick);
    assert_eq!(many.sent, [(1, many.worlds[1].object(1))]);
}
