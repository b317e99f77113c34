//! Heads and clones that begin with each other come out as they are at the sender, with few bytes sent.

use std::{collections::BTreeMap, ops::Bound};

use bytes::Bytes;
use codec::{Encode, Features};
use messages::{MPgPush, Message, OpCode, OpParams, OsdOp};
use proptest::{collection::vec, prelude::*};
use store::{MemStore, ObjectStore, OmapMost};
use types::{IntervalSet, SnapContext, Token};

use super::super::{
    base::choose,
    part::{WHOLE, part_of},
};
use super::*;
use crate::{Event, exec, test_world::World, watched_store::WatchedStore};

const KIB: u64 = 1 << 10;

fn step(code: OpCode, params: OpParams, data: impl Into<Bytes>) -> OsdOp {
    OsdOp { code, params, data: data.into(), ..OsdOp::default() }
}

/// A change of an object that has snapshots.
#[derive(Clone, Debug)]
enum Step {
    Write(u64, u64, u8),
    WriteFull(u64, u8),
    Truncate(u64),
    Zero(u64, u64),
    Rollback(usize),
    Delete,
    Snap,
    Trim(usize),
    Keys(u8),
    ClearKeys,
}

/// Makes an object's history on a primary.
struct History {
    world: World,
    tid: u64,
    seq: u64,
    snaps: Vec<u64>,
}

impl History {
    fn new() -> History {
        History { world: World::active(), tid: 0, seq: 0, snaps: Vec::new() }
    }

    fn of(steps: &[Step]) -> World {
        let mut history = History::new();
        steps.iter().for_each(|step| history.take(step));
        history.world
    }

    fn take(&mut self, of: &Step) {
        let ops = match *of {
            Step::Write(offset, len, byte) => {
                vec![step(OpCode::WRITE, OpParams::extent(offset, len), vec![byte; len as usize])]
            }
            Step::WriteFull(len, byte) => {
                vec![step(OpCode::WRITEFULL, OpParams::extent(0, len), vec![byte; len as usize])]
            }
            Step::Truncate(size) => vec![step(OpCode::TRUNCATE, OpParams::extent(size, 0), "")],
            Step::Zero(offset, len) => vec![step(OpCode::ZERO, OpParams::extent(offset, len), "")],
            Step::Rollback(at) => {
                let Some(snap) = self.snap(at) else { return };
                vec![step(OpCode::ROLLBACK, OpParams::from_parts(&[&snap.to_le_bytes()]), "")]
            }
            Step::Delete => vec![OsdOp::new(OpCode::DELETE)],
            Step::Snap => {
                self.seq += 1;
                return self.snaps.push(self.seq);
            }
            Step::Trim(at) => {
                let Some(snap) = self.snap(at) else { return };
                self.snaps.retain(|kept| *kept != snap);
                return self.trim(snap);
            }
            Step::Keys(byte) => {
                let (name, value) = (Bytes::from(vec![b'a' + byte % 5]), Bytes::from(vec![byte; 9]));
                let lens = [(name.len() as u32).to_le_bytes(), (value.len() as u32).to_le_bytes()];
                let params = OpParams::from_parts(&[&lens[0], &lens[1]]);
                let entries = BTreeMap::from([(name.clone(), value.clone())]).to_bytes(Features::default());
                let header = value.clone();
                vec![
                    step(OpCode::SETXATTR, params, [name, value].concat()),
                    step(OpCode::OMAPSETVALS, OpParams::default(), entries),
                    step(OpCode::OMAPSETHEADER, OpParams::default(), header),
                ]
            }
            Step::ClearKeys => vec![OsdOp::new(OpCode::OMAPCLEAR)],
        };
        self.tid += 1;
        let mut event = self.world.asking(1, self.tid, ops);
        if let Event::Op { op, .. } = &mut event {
            let snaps = self.snaps.iter().rev().map(|snap| SnapId(*snap)).collect();
            op.snapc = SnapContext { seq: SnapId(self.seq), snaps };
        }
        self.world.handle(event);
        self.world.confirm_all();
    }

    fn snap(&self, at: usize) -> Option<u64> {
        self.snaps.get(at % self.snaps.len().max(1)).copied()
    }

    fn trim(&mut self, snap: u64) {
        let (head, coll) = (self.world.object(1), self.world.pg.coll);
        let at = self.world.act(|pg, ctx| pg.next_version(ctx));
        let is_removed = |removed: SnapId| removed.0 == snap;
        let trimmed = exec::trim_object(&self.world.store, coll, &head, &is_removed, at).unwrap();
        if let Some((staged, _)) = trimmed {
            self.world.act(|pg, ctx| pg.replicate(staged, ctx));
            self.world.handle(Event::Tick);
            self.world.confirm_all();
        }
    }
}

/// The object and its clones, as a world's store has them.
fn family(world: &World) -> Vec<HObject> {
    let head = world.object(1);
    let all = world.store.list(world.pg.coll, &HObject::min(), usize::MAX).unwrap();
    all.into_iter().filter(|object| object.head() == head).collect()
}

type Pairs = Vec<(Bytes, Bytes)>;

fn content(world: &World, object: &HObject) -> (Option<u64>, Bytes, Pairs, Bytes, Pairs) {
    let (store, coll) = (&world.store, world.pg.coll);
    (
        store.meta(coll, object).unwrap().map(|meta| meta.size),
        store.read(coll, object, 0, u64::MAX).unwrap(),
        store.xattrs(coll, object).unwrap(),
        store.omap_header(coll, object).unwrap(),
        store.omap_range(coll, object, Bound::Unbounded, OmapMost::ALL).unwrap(),
    )
}

fn version(world: &World, object: &HObject) -> EVersion {
    crate::object_versions::object_version(&world.store, world.pg.coll, object).unwrap()
}

/// Gives a world's store an object of another one.
fn copy(from: &World, to: &mut World, object: &HObject) {
    let part = part_of(&from.store, from.pg.coll, object, &ObjectCursor::default(), WHOLE, None);
    to.store.submit(Token(0), part.unwrap().unwrap().txn);
}

/// What a copy has that lacks an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instead {
    Nothing,
    Older,
    Bad,
}

/// The first of two worlds is the primary; the one that lacks is `to`.
struct Pair {
    worlds: [World; 2],
    to: usize,
    /// What was sent: of which object, with how much data, and what it began with.
    sent: Vec<(HObject, usize, Option<SnapId>)>,
}

impl Pair {
    /// The source's object and clones are lacking at the other one where `instead` says so.
    fn new(source: World, is_pull: bool, part_bytes: u64, instead: &[Option<Instead>]) -> Pair {
        let (mut primary, mut replica) = (World::active(), World::replica());
        let last = source.pg.info.last_update;
        let all = family(&source);
        let mut lacking = Missing::new();
        let (whole, other) =
            if is_pull { (&mut replica, &mut primary) } else { (&mut primary, &mut replica) };
        for world in [&mut *whole, &mut *other] {
            let mut txn = Transaction::new(world.pg.coll);
            txn.push(&world.object(1), Mutation::Remove);
            world.store.submit(Token(0), txn);
            world.pg.info.last_update = last;
            world.recovery.part_bytes = part_bytes;
        }
        for (object, instead) in all.iter().zip(instead.iter().chain(std::iter::repeat(&None))) {
            copy(&source, whole, object);
            let Some(instead) = instead else {
                copy(&source, other, object);
                continue;
            };
            let need = version(&source, object);
            lacking.insert(object.clone(), need);
            let at = match instead {
                Instead::Nothing => continue,
                Instead::Older => 1,
                Instead::Bad => need.version,
            };
            let mut txn = other.content(1, at);
            let data = Bytes::from(vec![0xee; 300 << 10]).into();
            txn.push(&other.object(1), Mutation::Write { offset: 0, data });
            for op in &mut txn.ops {
                if let TxnOp::Object(of, _) = op {
                    *of = object.clone();
                }
            }
            other.store.submit(Token(0), txn);
        }
        primary.pg.is_clean = false;
        if is_pull {
            primary.pg.missing = lacking;
            let source = replica.pg.me;
            primary.pg.peer_info.retain(|osd, _| *osd == source);
        } else {
            replica.pg.missing = lacking.clone();
            primary.pg.peer_missing.insert(replica.pg.me, lacking);
        }
        primary.told();
        Pair { worlds: [primary, replica], to: usize::from(!is_pull), sent: Vec::new() }
    }

    /// Recovers until nothing is said any more. `meddle` sees each message before it arrives.
    fn recover(&mut self, mut meddle: impl FnMut(&mut [World; 2], &mut Message)) {
        let ids = [self.worlds[0].pg.me, self.worlds[1].pg.me];
        self.worlds[0].handle(Event::Tick);
        loop {
            let mut has_spoken = false;
            for at in [0, 1] {
                for (osds, mut message) in self.worlds[at].told() {
                    if !osds.contains(&ids[1 - at]) {
                        continue;
                    }
                    has_spoken = true;
                    meddle(&mut self.worlds, &mut message);
                    let raw = message.encode(0);
                    let mut raw = messages::RawMessage::clone(&raw);
                    let more = std::mem::take(&mut raw.data_more);
                    if !more.is_empty() {
                        raw.data = codec::Payload::joined(more);
                    }
                    let message = Message::decode(raw).unwrap();
                    if let Message::MPgPush(push) = &message {
                        let base = push.begin.base.filter(|_| push.begin.is_begin()).map(|base| base.snap);
                        let bytes = push.txn.ops.iter().map(|op| match op {
                            TxnOp::Object(_, Mutation::Write { data, .. }) => data.len(),
                            _ => 0,
                        });
                        self.sent.push((push.object.clone(), bytes.sum(), base));
                    }
                    self.worlds[1 - at].say(ids[at], message);
                }
            }
            if !has_spoken {
                return;
            }
        }
    }

    fn check(&self, source: &World) {
        let world = &self.worlds[self.to];
        assert_eq!(world.missing(), []);
        let lacking = self.worlds[0].pg.peer_missing.get(&self.worlds[1].pg.me);
        assert!(self.to == 0 || lacking.is_some_and(Missing::is_empty));
        assert_eq!(family(world), family(source));
        for object in family(source) {
            let (is, should) = (content(world, &object), content(source, &object));
            assert!(is == should, "{object}: {:?} is not {:?}", (&is.0, &is.2), (&should.0, &should.2));
        }
        let beside = world.store.list(world.pg.coll, &HObject::min(), usize::MAX).unwrap();
        assert!(beside.iter().all(|object| object.pool.0 != i64::MAX));
    }

    fn bytes(&self) -> usize {
        self.sent.iter().map(|(_, bytes, _)| bytes).sum()
    }

    fn bases(&self) -> Vec<Option<SnapId>> {
        self.sent.iter().map(|(_, _, base)| *base).collect()
    }
}

fn none(_: &mut [World; 2], _: &mut Message) {}

/// An object of 512 KiB with three clones; between two states there are changes of 24 KiB, a hole, and other keys.
fn example() -> World {
    let mut steps = vec![Step::Write(0, 512 * KIB, 1), Step::Keys(1)];
    for at in 1..=3 {
        let (offset, byte) = (at * 100 * KIB + 50, 10 * at as u8);
        steps.extend([Step::Snap, Step::Write(offset, 20 * KIB, byte), Step::Keys(byte + 1)]);
        steps.push(Step::Zero(offset + 30 * KIB, 4 * KIB));
    }
    History::of(&steps)
}

#[test]
fn whatever_of_them_is_lacking_comes_with_few_bytes() {
    let source = example();
    assert_eq!(family(&source).len(), 4);
    for is_pull in [false, true] {
        for part_bytes in [16 * KIB, 8 << 20] {
            for lacking in 1..16 {
                let lacks = |at| (lacking & 1 << at != 0).then_some(Instead::Nothing);
                let instead: Vec<_> = (0..4).map(lacks).collect();
                let mut pair = Pair::new(example(), is_pull, part_bytes, &instead);
                pair.recover(none);
                pair.check(&source);
                let whole = if lacking == 15 { 512 } else { 0 };
                assert!(pair.bytes() as u64 <= (whole + 4 * 3 * 40) * KIB, "{lacking}: {:?}", pair.sent);
            }
        }
    }
}

#[test]
fn a_copy_that_may_be_bad_begins_with_nothing() {
    let source = example();
    for is_pull in [false, true] {
        for (instead, is_shared) in [(Instead::Bad, false), (Instead::Older, true)] {
            let mut pair = Pair::new(example(), is_pull, 8 << 20, &[None, None, None, Some(instead)]);
            pair.recover(none);
            pair.check(&source);
            assert_eq!(pair.bases().last().unwrap().is_some(), is_shared, "{instead:?}");
        }
    }
}

#[test]
fn what_is_not_as_the_sender_has_it_is_no_beginning() {
    let source = example();
    let clone = source.object(1).with_snap(SnapId(3));
    for is_pull in [false, true] {
        for part_bytes in [16 * KIB, 8 << 20] {
            for is_gone in [false, true] {
                let instead = [None, None, None, Some(Instead::Nothing)];
                let mut pair = Pair::new(example(), is_pull, part_bytes, &instead);
                let to = pair.to;
                let mut has_begun = false;
                pair.recover(|worlds, message| {
                    let Message::MPgPush(push) = message else { return };
                    if push.begin.base.is_none() || std::mem::replace(&mut has_begun, true) {
                        return;
                    }
                    let mut txn = Transaction::new(worlds[to].pg.coll);
                    if is_gone {
                        txn.push(&clone, Mutation::Remove);
                    } else {
                        txn = worlds[to].content(1, 1);
                        txn.ops.retain(|op| !matches!(op, TxnOp::Object(_, Mutation::Remove)));
                        for op in &mut txn.ops {
                            if let TxnOp::Object(of, _) = op {
                                *of = clone.clone();
                            }
                        }
                    }
                    worlds[to].store.submit(Token(0), txn);
                });
                assert!(has_begun);
                copy(&source, &mut pair.worlds[to], &clone);
                pair.check(&source);
            }
        }
    }
}

/// The first part has all that is needed of a neighbour. If the head changes, it is not known any more what was left
/// out.
#[test]
fn a_neighbour_may_go_while_parts_are_under_way() {
    let source = example();
    let clone = source.object(1).with_snap(SnapId(1));
    for is_at_sender in [false, true] {
        let instead = [None, Some(Instead::Nothing), None, None];
        let mut pair = Pair::new(example(), false, 16 * KIB, &instead);
        let mut parts = 0;
        pair.recover(|worlds, message| {
            let Message::MPgPush(push) = message else { return };
            parts += 1;
            if parts == 2 {
                assert!(!push.begin.is_begin() && push.begin.base.is_some());
                let world = &mut worlds[usize::from(!is_at_sender)];
                let head = world.object(1);
                let mut txn = Transaction::new(world.pg.coll);
                if is_at_sender {
                    let mut info = exec::ObjectInfo { version: world.version(99), ..Default::default() };
                    info.prior_version = world.version(98);
                    let pair = (Bytes::from_static(exec::INFO_XATTR), info.to_bytes(Features::default()));
                    txn.push(&head, Mutation::SetXattrs([pair].into()));
                } else {
                    for object in [clone.clone(), head.with_snap(SnapId(3)), head] {
                        txn.push(
                            &object,
                            Mutation::Write { offset: 0, data: Bytes::from(vec![9; 99]).into() },
                        );
                    }
                }
                world.store.submit(Token(0), txn);
            }
        });
        let object = source.object(1).with_snap(SnapId(2));
        assert!(parts > 2 && content(&pair.worlds[1], &object) == content(&source, &object));
        let begun = pair.sent.iter().filter(|(_, bytes, _)| *bytes > 0).count();
        assert_eq!(pair.bytes() > 512 << 10, is_at_sender, "{begun}");
    }
}

#[test]
fn a_member_that_does_not_know_of_it_is_sent_all() {
    let source = example();
    let mut pair = Pair::new(example(), false, 8 << 20, &[Some(Instead::Nothing), None, None, None]);
    let me = pair.worlds[1].pg.me;
    pair.worlds[0].pg.recovery.note_takes_clones(me, false);
    pair.recover(none);
    pair.check(&source);
    assert_eq!(pair.bases(), [None]);
    let mut pair = Pair::new(example(), true, 8 << 20, &[Some(Instead::Nothing), None, None, None]);
    pair.recover(|_, message| {
        if let Message::MPgPull(pull) = message {
            pull.lacks = None;
        }
    });
    pair.check(&source);
    assert_eq!(pair.bases(), [None]);
}

/// Each has its neighbour when its turn comes, as the others wait.
#[test]
fn one_of_a_family_is_under_way_at_a_time() {
    for is_pull in [false, true] {
        let mut pair = Pair::new(example(), is_pull, 8 << 20, &[Some(Instead::Nothing); 4]);
        pair.recover(|worlds, _| assert!(worlds[0].pg.recovery.active() <= 1));
        pair.check(&example());
        assert_eq!(pair.bases(), [None, Some(SnapId(1)), Some(SnapId(2)), Some(SnapId(3))]);
    }
}

#[test]
fn what_ops_wait_for_is_under_way_at_once_when_the_head_is_there() {
    for is_pull in [false, true] {
        let mut pair = Pair::new(example(), is_pull, 8 << 20, &[Some(Instead::Nothing); 4]);
        pair.worlds[0].pg.recovery.urgent.insert(&example().object(1));
        let mut active = Vec::new();
        pair.recover(|worlds, message| {
            if matches!(message, Message::MPgPush(_)) {
                active.push(worlds[0].pg.recovery.active());
            }
        });
        pair.check(&example());
        assert_eq!(pair.bases(), [None, Some(SnapId::HEAD), Some(SnapId::HEAD), Some(SnapId::HEAD)]);
        assert_eq!(active[..2], [1, 3], "pull: {is_pull}");
    }
}

/// The primary lacks the head, and waits for a third OSD's.
#[test]
fn clones_are_not_sent_before_what_tells_what_they_share() {
    let mut pair = Pair::new(example(), false, 8 << 20, &[Some(Instead::Nothing); 4]);
    let head = example().object(1);
    let version = version(&pair.worlds[0], &head);
    pair.worlds[0].pg.missing.insert(head.clone(), version);
    assert!(pair.worlds[0].pg.source_of(&head, version, &pair.worlds[0].map).is_some());
    pair.recover(none);
    assert_eq!(pair.bases(), []);
    pair.worlds[0].pg.missing.remove(&head);
    pair.worlds[0].pg.recovery.look_again(&head);
    pair.recover(none);
    pair.check(&example());
    assert_eq!(pair.bases(), [None, Some(SnapId(1)), Some(SnapId(2)), Some(SnapId(3))]);
}

#[test]
fn an_object_is_pulled_from_an_osd_that_has_its_head() {
    let mut world = World::of(4);
    let (head, version) = (world.object(1), world.version(1));
    let clone = head.with_snap(SnapId(1));
    let source = |world: &World| world.pg.source_of(&clone, version, &world.map);
    let first = source(&world).unwrap();
    world.pg.peer_missing.entry(first).or_default().insert(head.clone(), version);
    let second = source(&world).unwrap();
    assert_ne!(second, first);
    for osd in world.peers.clone() {
        world.pg.peer_missing.entry(osd).or_default().insert(head.clone(), version);
    }
    assert_eq!(source(&world), Some(first), "none has it");
}

#[test]
fn a_push_that_begins_with_something_else_is_nonsense() {
    let instead = [None, None, None, Some(Instead::Nothing)];
    let mut pushes: Vec<MPgPush> = Vec::new();
    let mut pair = Pair::new(example(), false, 8 << 20, &instead);
    pair.recover(|_, message| {
        if let Message::MPgPush(push) = message {
            pushes.push(MPgPush::clone(push));
        }
    });
    let push = pushes.remove(0);
    let check = |push: &MPgPush| crate::nonsense::check_message(&push.clone().into()).is_ok();
    assert!(push.begin.base.is_some() && check(&push));
    let mut unsaid = push.clone();
    unsaid.begin.base = None;
    let mut other = push.clone();
    other.begin.base.as_mut().unwrap().snap = SnapId(2);
    let mut late = push.clone();
    late.begin.data = 1;
    let mut absent = push.clone();
    absent.txn.ops.remove(0);
    let mut twice = push.clone();
    twice.txn.ops.push(push.txn.ops[0].clone());
    let mut own = push.clone();
    own.begin.base.as_mut().unwrap().snap = SnapId::HEAD;
    own.txn.ops[0] =
        TxnOp::Object(push.object.clone(), Mutation::CloneFrom { source: Box::new(push.object.clone()) });
    for wrong in [unsaid, other, late, absent, twice, own] {
        assert!(!check(&wrong), "{:?}", wrong.begin);
    }
}

/// What it is when it has been looked up decides, whatever came meanwhile.
#[test]
fn what_is_not_known_of_a_neighbour_is_looked_up() {
    let source = example();
    let head = source.object(1);
    for changes in [false, true] {
        let instead = [None, None, None, Some(Instead::Nothing)];
        let Pair { worlds: [mut primary, mut replica], .. } = Pair::new(example(), false, 8 << 20, &instead);
        primary.handle(Event::Tick);
        let from = primary.pg.me;
        let is_push = |message: &Message| matches!(message, Message::MPgPush(_));
        let push = primary.told().into_iter().map(|(_, message)| message).find(is_push).unwrap();
        let neighbour = head.with_snap(SnapId(3));
        let store = std::mem::replace(&mut replica.store, MemStore::new());
        let mut store = WatchedStore::lacking(store, neighbour.clone());
        replica.told();
        replica.act_on(&mut store, |pg, ctx| pg.handle(Event::Peer(from, push), ctx));
        assert!(replica.told().is_empty() && store.held_count() == 1);
        if changes {
            let mut txn = Transaction::new(replica.pg.coll);
            txn.push(&neighbour, Mutation::Remove);
            store.submit(Token(0), txn);
        }
        let loaded = store.loaded.pop_front().unwrap();
        replica.act_on(&mut store, |pg, ctx| pg.handle(Event::Store(loaded), ctx));
        for done in store.committed() {
            replica.act_on(&mut store, |pg, ctx| pg.handle(Event::Store(done), ctx));
        }
        let told = replica.told();
        let [(_, answer)] = &told[..] else { panic!("{told:?}") };
        match answer {
            Message::MPgPull(pull) => assert!(changes && pull.lacks.is_none() && pull.begin.is_begin()),
            answer => assert!(!changes && matches!(answer, Message::MPgPushReply(_))),
        }
        assert_eq!((store.held_count(), replica.missing().len()), (0, usize::from(changes)));
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let at = || (0u64..100).prop_map(|at| at * 4_000);
    let len = || prop_oneof![1u64..9_000, Just(4 * KIB), 60_000u64..200_000];
    prop_oneof![
        6 => (at(), len(), 1u8..).prop_map(|(offset, len, byte)| Step::Write(offset, len, byte)),
        1 => (0u64..400_000, 1u8..).prop_map(|(len, byte)| Step::WriteFull(len, byte)),
        2 => at().prop_map(Step::Truncate),
        2 => (at(), len()).prop_map(|(offset, len)| Step::Zero(offset, len)),
        1 => (0usize..9).prop_map(Step::Rollback),
        1 => Just(Step::Delete),
        6 => Just(Step::Snap),
        1 => (0usize..9).prop_map(Step::Trim),
        2 => (0u8..).prop_map(Step::Keys),
        1 => Just(Step::ClearKeys),
    ]
}

fn any_instead() -> impl Strategy<Value = Option<Instead>> {
    prop_oneof![
        4 => Just(None),
        4 => Just(Some(Instead::Nothing)),
        1 => Just(Some(Instead::Older)),
        1 => Just(Some(Instead::Bad)),
    ]
}

proptest! {
    #![proptest_config(::damage::cases(200))]

    #[test]
    fn what_is_recovered_is_what_the_sender_has(
        steps in vec(any_step(), 1..30),
        instead in vec(any_instead(), 0..12),
        is_empty in any::<bool>(),
        is_pull in any::<bool>(),
        is_urgent in any::<bool>(),
        part_bytes in prop_oneof![Just(20_000u64), Just(8 << 20)],
    ) {
        let first = [Step::Write(0, 400_000, 7), Step::Snap];
        let steps: Vec<Step> = first.into_iter().chain(steps).collect();
        let source = History::of(&steps);
        let instead = if is_empty { vec![Some(Instead::Nothing); 40] } else { instead };
        let mut pair = Pair::new(History::of(&steps), is_pull, part_bytes, &instead);
        if is_urgent {
            pair.worlds[0].pg.recovery.urgent.insert(&source.object(1));
        }
        pair.recover(none);
        pair.check(&source);
    }

    /// What two states are said to share is the same in them.
    #[test]
    fn what_is_said_to_be_shared_is(steps in vec(any_step(), 1..30)) {
        let world = History::of(&steps);
        for object in family(&world) {
            for has in family(&world) {
                let shared = choose(&world.store, world.pg.coll, &object, &|other| *other == has).unwrap();
                let ranges = shared.map_or_else(IntervalSet::new, |shared| shared.ranges);
                for (offset, len) in ranges.iter() {
                    let read = |object| world.store.read(world.pg.coll, object, offset, len).unwrap();
                    assert!(read(&object) == read(&has) && read(&object).len() as u64 == len);
                }
            }
        }
    }
}
