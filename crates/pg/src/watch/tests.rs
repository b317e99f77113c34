//! Watches and notifications in virtual time.

use codec::Decode;
use messages::Message;
use store::MemStore;
use types::{CrushBlob, EntityNum, Epoch, OsdMap, UTime, Uuid};

use super::*;
use crate::{Leases, OpThrottle, ReadSlots, RecoveryPolicy, ScrubPolicy, Slots};

type Replies = (BTreeMap<WatcherKey, Bytes>, Vec<WatcherKey>);

struct World {
    watches: Watches,
    map: OsdMap,
    now: Instant,
    effects: Vec<Effect>,
    notifying: OpThrottle,
}

/// The session of a client has its number times ten.
fn client(gid: u64) -> Client {
    let addr = EntityAddr::parse(&format!("127.0.0.1:0/{gid}")).unwrap();
    Client { session: gid * 10, entity: EntityNum::client(gid), addr, features: 0 }
}

fn head() -> HObject {
    HObject { oid: "o".into(), ..HObject::default() }
}

fn known(gid: u64, cookie: u64, timeout_sec: u32) -> KnownWatch {
    KnownWatch { watcher: (gid, cookie), timeout_sec, addr: client(gid).addr }
}

impl World {
    fn new() -> World {
        let mut map = OsdMap::new(Uuid::NIL, UTime::default(), CrushBlob::default());
        map.epoch = Epoch(9);
        World {
            watches: Watches::default(),
            map,
            now: Instant(0),
            effects: Vec::new(),
            notifying: OpThrottle::default(),
        }
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Watches, &mut Ctx<'_>) -> T) -> T {
        let mut store = MemStore::new();
        let mut ctx = Ctx {
            now: self.now,
            wall: UTime::default(),
            store: &mut store,
            map: &self.map,
            rooms: &Default::default(),
            leases: &Leases::default(),
            scrub: &ScrubPolicy::default(),
            recovery: &RecoveryPolicy::default(),
            copying: &Slots::default(),
            reading: &ReadSlots::default(),
            notifying: &self.notifying,
            random: 0,
            effects: &mut self.effects,
        };
        act(&mut self.watches, &mut ctx)
    }

    fn apply(&mut self, client: &Client, change: WatchChange) {
        self.with(|watches, ctx| {
            watches.count(std::slice::from_ref(&change));
            watches.apply(&head(), client, change, ctx);
        });
    }

    fn watch(&mut self, gid: u64, cookie: u64) {
        self.apply(&client(gid), WatchChange::Watch { cookie, timeout_sec: 30, pings: true });
    }

    fn notify(&mut self, gid: u64) -> u64 {
        let payload = Bytes::from("hi");
        let id = self.with(|watches, ctx| watches.next_id(ctx));
        let change = WatchChange::Notify { id, cookie: 5, timeout_sec: 10, payload, user_version: 77 };
        self.apply(&client(gid), change);
        id
    }

    fn ack(&mut self, gid: u64, notify_id: u64, cookie: Option<u64>, reply: &'static str) {
        self.apply(&client(gid), WatchChange::Ack { notify_id, cookie, reply: reply.into() });
    }

    /// Messages since the last call, with their sessions.
    fn sent(&mut self) -> Vec<(u64, MWatchNotify)> {
        let messages = self.effects.drain(..).map(|effect| match effect {
            Effect::Tell(session, Message::MWatchNotify(message)) => (session, *message),
            other => panic!("{other:?}"),
        });
        messages.collect()
    }

    fn expired(&mut self) -> Vec<WatcherKey> {
        self.with(|watches, ctx| watches.expired(ctx)).into_iter().map(|(_, watcher)| watcher).collect()
    }

    fn tick(&mut self) {
        let ids: Vec<u64> = self.watches.notifies.keys().copied().collect();
        self.with(|watches, ctx| ids.iter().for_each(|id| watches.complete(*id, ctx)));
    }

    fn pass(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
    }
}

fn completion(sent: &[(u64, MWatchNotify)]) -> (u64, i32, Replies) {
    let [(session, message)] = sent else { panic!("one message, not {sent:?}") };
    assert_eq!((message.opcode, message.cookie), (WatchOpcode::NOTIFY_COMPLETE, 5));
    (*session, message.return_code, Replies::from_bytes(message.replies.clone()).unwrap())
}

#[test]
fn a_notification_reaches_all_watchers_and_comes_back_with_their_replies() {
    let mut world = World::new();
    world.watch(1, 11);
    world.watch(2, 22);
    let id = world.notify(3);
    assert_eq!(id >> 32, 9, "the epoch keeps ids of primaries apart");
    let sent = world.sent();
    assert_eq!(
        sent.iter().map(|(session, m)| (*session, m.cookie)).collect::<Vec<_>>(),
        [(10, 11), (20, 22)]
    );
    for (_, message) in &sent {
        assert_eq!((message.opcode, message.notify_id), (WatchOpcode::NOTIFY, id));
        assert_eq!((message.payload.as_ref(), message.version, message.notifier_gid), (&b"hi"[..], 77, 3));
    }
    world.ack(1, id, Some(11), "one");
    assert!(world.sent().is_empty());
    world.ack(2, id, None, "");
    let (session, code, replies) = completion(&world.sent());
    assert_eq!((session, code), (30, 0));
    assert_eq!(replies, ([((1, 11), "one".into()), ((2, 22), Bytes::new())].into(), Vec::new()));
    world.ack(1, id, Some(11), "late");
    assert!(world.sent().is_empty());
}

#[test]
fn a_notification_without_watchers_is_complete_at_once() {
    let mut world = World::new();
    world.notify(3);
    assert_eq!(completion(&world.sent()), (30, 0, Replies::default()));
}

#[test]
fn those_who_do_not_answer_in_time_are_named() {
    let mut world = World::new();
    world.watch(1, 11);
    world.watch(2, 22);
    let id = world.notify(3);
    world.ack(1, id, Some(11), "one");
    world.sent();
    world.pass(9);
    world.tick();
    assert!(world.sent().is_empty());
    world.pass(1);
    world.tick();
    let (_, code, replies) = completion(&world.sent());
    assert_eq!((code, replies), (-110, ([((1, 11), "one".into())].into(), vec![(2, 22)])));
}

#[test]
fn nobody_waits_for_a_watch_that_ended() {
    let mut world = World::new();
    world.watch(1, 11);
    world.notify(3);
    world.sent();
    world.apply(&client(1), WatchChange::Unwatch { cookie: 11 });
    assert_eq!(completion(&world.sent()), (30, 0, Replies::default()));
}

#[test]
fn a_client_that_comes_back_hears_what_it_missed() {
    let mut world = World::new();
    world.watch(1, 11);
    world.watches.on_session_closed(10, world.now);
    assert!(world.watches.connected(&head(), &client(1)).is_empty());
    let id = world.notify(3);
    assert!(world.sent().is_empty());
    world.watch(1, 11);
    let sent = world.sent();
    assert_eq!((sent[0].0, sent[0].1.notify_id, sent[0].1.payload.as_ref()), (10, id, &b"hi"[..]));
    world.ack(1, id, Some(11), "");
    assert_eq!(completion(&world.sent()).1, 0);
}

#[test]
fn a_client_that_never_left_hears_it_once() {
    let mut world = World::new();
    world.watch(1, 11);
    world.notify(3);
    assert_eq!(world.sent().len(), 1);
    world.watch(1, 11);
    assert!(world.sent().is_empty());
}

#[test]
fn watches_end_without_a_sign_of_life() {
    let mut world = World::new();
    world.watch(1, 11);
    world.pass(29);
    assert!(world.expired().is_empty());
    world.apply(&client(1), WatchChange::Ping { cookie: 11 });
    world.pass(29);
    assert!(world.expired().is_empty());
    world.pass(1);
    assert_eq!(world.expired(), [(1, 11)]);
}

/// As with Ceph: the client has not said that it watches there, so it is not told there what it has missed.
#[test]
fn a_sign_of_life_leaves_the_watch_with_its_session() {
    let mut world = World::new();
    world.watch(1, 11);
    let elsewhere = Client { session: 99, ..client(1) };
    world.pass(29);
    world.apply(&elsewhere, WatchChange::Ping { cookie: 11 });
    world.pass(29);
    assert!(world.expired().is_empty());
    world.notify(3);
    assert_eq!(world.sent().iter().map(|(session, _)| *session).collect::<Vec<_>>(), [10]);
    // It ends with its session, and a sign of life does not bring it back.
    world.watches.on_session_closed(10, world.now);
    assert!(world.watches.connected(&head(), &elsewhere).is_empty());
    world.pass(29);
    world.apply(&elsewhere, WatchChange::Ping { cookie: 11 });
    world.pass(1);
    assert_eq!(world.expired(), [(1, 11)]);
}

#[test]
fn watchers_from_before_this_primary_have_their_time_to_come_back() {
    let mut world = World::new();
    world.watches.learn(&head(), &[known(1, 11, 5), known(2, 22, 60)], world.now);
    assert!(world.watches.connected(&head(), &client(1)).is_empty());
    world.watch(2, 22);
    // What is known better already stays.
    world.watches.learn(&head(), &[known(2, 22, 5)], world.now);
    assert_eq!(world.watches.connected(&head(), &client(2)), [22].into());
    let id = world.notify(3);
    world.sent();
    world.ack(2, id, Some(22), "");
    assert!(world.sent().is_empty(), "it waits for the one that may come back");
    world.pass(5);
    assert_eq!(world.expired(), [(1, 11)]);
    world.with(|watches, ctx| watches.end((1, 11), &head(), true, ctx));
    assert_eq!(completion(&world.sent()).1, 0);
}

#[test]
fn clients_on_the_blocklist_watch_no_more() {
    let mut world = World::new();
    world.watch(1, 11);
    world.watch(2, 22);
    world.map.blocklist.insert(client(1).addr, UTime { sec: u32::MAX, nsec: 0 });
    assert_eq!(world.expired(), [(1, 11)]);
}

#[test]
fn watchers_of_a_deleted_object_are_disconnected() {
    let mut world = World::new();
    world.watch(1, 11);
    world.watch(2, 22);
    world.watches.on_session_closed(20, world.now);
    let id = world.notify(3);
    world.sent();
    world.apply(&client(4), WatchChange::Disconnect((1, 11)));
    let sent = world.sent();
    assert_eq!((sent[0].0, sent[0].1.opcode, sent[0].1.cookie), (10, WatchOpcode::DISCONNECT, 11));
    // The one that is away is not told, and the notification is over with it.
    world.apply(&client(4), WatchChange::Disconnect((2, 22)));
    assert_eq!(completion(&world.sent()).0, 30);
    assert!(world.watches.watches.is_empty() && world.watches.notifies.is_empty(), "{id}");
}

#[test]
fn a_new_interval_forgets_everything() {
    let mut world = World::new();
    world.watch(1, 11);
    world.notify(3);
    world.sent();
    world.watches.on_new_interval();
    world.pass(100);
    world.tick();
    assert!(world.sent().is_empty() && world.expired().is_empty());
}

#[test]
fn a_client_that_does_not_ping_watches_for_as_long_as_it_is_connected() {
    let mut world = World::new();
    world.apply(&client(1), WatchChange::Watch { cookie: 11, timeout_sec: 30, pings: false });
    world.watch(2, 22);
    world.pass(31);
    assert_eq!(world.expired(), [(2, 22)]);
    let now = world.now;
    world.with(|watches, _| watches.on_session_closed(10, now));
    world.pass(29);
    assert_eq!(world.expired(), [(2, 22)]);
    world.pass(1);
    assert_eq!(world.expired(), [(1, 11), (2, 22)]);
}

#[test]
fn what_notifications_hold_is_counted_until_they_are_over() {
    let mut world = World::new();
    world.watch(1, 11);
    world.watch(2, 22);
    let first = world.notify(3);
    let held = world.notifying.bytes();
    assert_eq!(held, 512 + 2 * (32 + 2), "the payload once for each");
    world.ack(1, first, None, "one");
    assert_eq!(world.notifying.bytes(), held + 3);
    // No second time, nor for what is not known.
    world.ack(1, first, None, "one");
    world.ack(1, 7, None, "one");
    assert_eq!(world.notifying.bytes(), held + 3);
    world.notify(3);
    world.ack(2, first, None, "");
    assert_eq!(world.notifying.bytes(), held);
    world.with(|watches, _| watches.on_new_interval());
    assert_eq!(world.notifying.bytes(), 0);
}
