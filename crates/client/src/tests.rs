//! The client against a map captured from Ceph 16.2 (three OSDs, pools 1 to 3), OSDs played by the test.

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::{
    BackoffOp, MMonGetVersionReply, MOSDBackoff, MOSDMap, MOSDOp, MOSDOpReply, Message, OpCode, OsdOp,
    osd_flag,
};
use types::{
    Epoch, Errno, HObject, Incremental, Instant, OsdId, OsdMap, OsdState, PoolId, SpgId, Token, UTime, Uuid,
};

use crate::{Client, ClientConfig, Effect, Event, REDIAL_AFTER, Request, SessionId, maps::ASK_AGAIN_AFTER};

const MAPS: &[u8] = include_bytes!("../../messages/testdata/osd_map_41_s2c_005.front.bin");

struct Bench {
    client: Client,
    map: OsdMap,
    now: Instant,
    effects: Vec<Effect>,
}

impl Bench {
    /// A client with the captured map, all OSDs up.
    fn new() -> Bench {
        let message = MOSDMap::from_bytes(Bytes::from_static(MAPS)).unwrap();
        let full = message.fulls.values().next_back().unwrap().clone();
        let mut bench = Bench {
            client: Client::new(ClientConfig::default()),
            map: OsdMap::from_bytes(full).unwrap(),
            now: Instant(1),
            effects: Vec::new(),
        };
        bench.handle(Event::MonOpened);
        assert!(matches!(bench.effects[..], [Effect::SendMon(0, Message::MMonSubscribe(_))]));
        bench.publish();
        bench
    }

    fn handle(&mut self, event: Event) {
        self.effects.clear();
        self.client.handle(self.now, event, &mut self.effects);
    }

    /// Sends the client `self.map` as its next epoch.
    fn publish(&mut self) {
        self.map.epoch = Epoch(self.map.epoch.0 + 1);
        let bytes = self.map.to_bytes(Features::PACIFIC);
        let (fsid, newest) = (self.map.fsid, self.map.epoch);
        let fulls = [(newest, bytes)].into();
        let message = MOSDMap { fsid, fulls, newest, ..MOSDMap::default() };
        self.handle(Event::FromMon(0, message.into()));
    }

    /// Sends the client an incremental to its next epoch, as the epoch after that of `self.map`, and says that there
    /// is one epoch more.
    fn send_incremental(&mut self, inc: &Incremental) {
        let epoch = self.map.epoch.next();
        let incrementals = [(epoch, inc.to_bytes(Features::PACIFIC))].into();
        let message =
            MOSDMap { fsid: self.map.fsid, incrementals, newest: epoch.next(), ..MOSDMap::default() };
        self.handle(Event::FromMon(0, message.into()));
    }

    /// From which epoch on the monitor was asked for maps.
    fn asked(&self) -> Vec<u64> {
        let start = |effect: &Effect| match effect {
            Effect::SendMon(0, Message::MMonSubscribe(message)) => Some(message.what.get("osdmap")?.start),
            _ => None,
        };
        self.effects.iter().filter_map(start).collect()
    }

    fn epoch(&self) -> Epoch {
        self.client.map().unwrap().epoch
    }

    /// Opens what was dialed, and returns what was sent last, then or before.
    fn connect_and_send(&mut self) -> (SessionId, u64, MOSDOp) {
        for session in self.dialed() {
            self.handle(Event::SessionOpened(session));
        }
        self.sent().pop().unwrap()
    }

    fn pool(&self) -> PoolId {
        *self.map.pools.keys().next().unwrap()
    }

    fn primary(&self, oid: &str) -> OsdId {
        let (_, pg) = self.map.object_to_pg(self.pool(), b"", b"", oid.as_bytes()).unwrap();
        self.map.pg_to_up_acting(pg).acting_primary
    }

    fn submit(&mut self, token: u64, pool: PoolId, oid: &'static str, code: OpCode) {
        self.effects.clear();
        let request = Request::new(pool, oid, vec![OsdOp::new(code)]);
        self.client.submit(self.now, UTime::new(9, 0), Token(token), request, &mut self.effects);
    }

    fn read(&mut self, token: u64, oid: &'static str) {
        self.submit(token, self.pool(), oid, OpCode::READ);
    }

    fn dialed(&self) -> Vec<SessionId> {
        let dial = |effect: &Effect| match effect {
            Effect::Dial(id, _) => Some(*id),
            _ => None,
        };
        self.effects.iter().filter_map(dial).collect()
    }

    fn sent(&self) -> Vec<(SessionId, u64, MOSDOp)> {
        let send = |effect: &Effect| match effect {
            Effect::Send(id, tid, Message::MOSDOp(op)) => Some((*id, *tid, MOSDOp::clone(op))),
            _ => None,
        };
        self.effects.iter().filter_map(send).collect()
    }

    fn reply(&mut self, (id, tid, op): &(SessionId, u64, MOSDOp)) {
        let reply = MOSDOpReply { result: 5, retry_attempt: op.retry_attempt, ..MOSDOpReply::default() };
        self.handle(Event::FromOsd(*id, *tid, reply.into()));
    }

    fn done(&self) -> Vec<(u64, i32)> {
        let done = |effect: &Effect| match effect {
            Effect::Done(token, response) => Some((token.0, response.result)),
            _ => None,
        };
        self.effects.iter().filter_map(done).collect()
    }
}

#[test]
fn a_listing_goes_to_the_pg_of_its_hash() {
    let map = Bench::new().map;
    let (pool, pg_num) =
        map.pools.iter().map(|(pool, its)| (*pool, its.pg_num)).max_by_key(|(_, pg_num)| *pg_num).unwrap();
    assert!(pg_num > 1 && pg_num.is_power_of_two());
    for hash in 0..2 * pg_num {
        let mut b = Bench::new();
        let request = Request::new(pool, Bytes::new(), vec![OsdOp::new(OpCode::PGNLS)]);
        let request = Request { hash: Some(hash), ..request };
        b.client.submit(b.now, UTime::new(9, 0), Token(1), request, &mut b.effects);
        let [session] = b.dialed()[..] else { panic!("{:?}", b.effects) };
        b.handle(Event::SessionOpened(session));
        let (_, _, op) = &b.sent()[0];
        assert_eq!((op.pgid.seed, op.hash), (hash % pg_num, hash));
    }
}

#[test]
fn a_request_dials_its_primary_and_goes_once_it_is_there() {
    let mut b = Bench::new();
    b.read(1, "a");
    let [session] = b.dialed()[..] else { panic!("{:?}", b.effects) };
    b.read(2, "a");
    assert!(b.effects.is_empty(), "the dial is under way");
    b.handle(Event::SessionOpened(session));
    let sent = b.sent();
    assert_eq!(sent.iter().map(|(id, ..)| *id).collect::<Vec<_>>(), [session, session]);
    let first = &sent[0].2;
    assert_eq!((first.epoch, first.retry_attempt), (b.map.epoch, 0));
    assert_eq!(first.flags, osd_flag::READ | osd_flag::ONDISK);
    b.reply(&sent[1]);
    assert_eq!(b.done(), [(2, 5)]);
    b.reply(&sent[0]);
    assert_eq!((b.done(), b.client.in_flight()), (vec![(1, 5)], 0));
    b.reply(&sent[0]);
    assert!(b.effects.is_empty(), "a second answer is of no use");
}

#[test]
fn a_lost_connection_is_dialed_again_and_requests_resent_in_order() {
    let mut b = Bench::new();
    b.read(1, "a");
    let session = b.dialed()[0];
    b.read(2, "a");
    b.handle(Event::SessionOpened(session));
    let old = b.sent();
    b.handle(Event::SessionClosed(session));
    let Effect::SetTimer(at) = b.effects[0] else { panic!("{:?}", b.effects) };
    assert_eq!(at, b.now + REDIAL_AFTER);
    b.now = at;
    b.handle(Event::Timer);
    let again = b.dialed()[0];
    assert_ne!(again, session);
    b.handle(Event::SessionOpened(again));
    let new = b.sent();
    assert_eq!(
        new.iter().map(|(_, tid, op)| (*tid, op.retry_attempt)).collect::<Vec<_>>(),
        [(old[0].1, 1), (old[1].1, 1)]
    );
    assert!(new[0].2.flags & osd_flag::RETRY != 0);
    b.reply(&old[0]);
    assert!(b.done().is_empty(), "an answer of the lost connection does not count");
    b.reply(&new[0]);
    assert_eq!(b.done(), [(1, 5)]);
}

#[test]
fn a_new_interval_sends_a_request_to_its_new_primary() {
    let mut b = Bench::new();
    b.read(1, "a");
    let session = b.dialed()[0];
    b.handle(Event::SessionOpened(session));
    let old = b.sent();
    let primary = b.primary("a");
    b.map.osd_state[primary.0 as usize] = OsdState(b.map.osd_state[primary.0 as usize].0 & !OsdState::UP.0);
    b.publish();
    assert!(matches!(b.effects[0], Effect::Close(id) if id == session));
    let new_session = b.dialed()[0];
    b.handle(Event::SessionOpened(new_session));
    let new = b.sent();
    assert_ne!(b.primary("a"), primary);
    assert_eq!((new[0].1, new[0].2.epoch), (old[0].1, b.map.epoch));
    b.reply(&new[0]);
    assert_eq!(b.done(), [(1, 5)]);
}

#[test]
fn an_interval_that_came_and_went_makes_a_request_go_again() {
    let mut b = Bench::new();
    b.read(1, "a");
    let session = b.dialed()[0];
    b.handle(Event::SessionOpened(session));
    // A member goes down and comes back, both in one message.
    let primary = b.primary("a");
    let (_, pg) = b.map.object_to_pg(b.pool(), b"", b"", b"a").unwrap();
    let acting = b.map.pg_to_up_acting(pg).acting;
    let member = *acting.iter().find(|osd| **osd != primary).unwrap();
    let mut message = MOSDMap { fsid: b.map.fsid, ..MOSDMap::default() };
    for _ in 0..2 {
        let mut inc = Incremental::new(b.map.fsid, b.map.epoch.next());
        inc.new_state.insert(member, OsdState::UP);
        b.map.apply(&inc).unwrap();
        message.incrementals.insert(inc.epoch, inc.to_bytes(Features::PACIFIC));
    }
    assert_eq!(b.map.pg_to_up_acting(pg).acting, acting);
    message.newest = b.map.epoch;
    b.handle(Event::FromMon(0, message.into()));
    let again = b.sent();
    assert_eq!(again.last().unwrap().2.epoch, b.map.epoch);
    b.reply(again.last().unwrap());
    assert_eq!(b.done(), [(1, 5)]);
}

#[test]
fn epochs_that_nobody_saw_make_a_request_go_again() {
    let mut b = Bench::new();
    b.read(1, "a");
    let session = b.dialed()[0];
    b.handle(Event::SessionOpened(session));
    b.map.epoch = b.map.epoch.next();
    b.publish();
    assert_eq!(b.sent().len(), 1);
}

#[test]
fn an_unknown_pool_is_enoent_only_when_the_map_is_the_newest() {
    let mut b = Bench::new();
    b.submit(1, PoolId(77), "a", OpCode::READ);
    let [Effect::SendMon(handle, Message::MMonGetVersion(_))] = b.effects[..] else {
        panic!("{:?}", b.effects)
    };
    let newer = u64::from(b.map.epoch.0) + 1;
    b.handle(Event::FromMon(handle, MMonGetVersionReply { handle, version: newer, oldest: 1 }.into()));
    assert!(b.done().is_empty());
    b.publish();
    let [Effect::SendMon(handle, Message::MMonGetVersion(_))] = b.effects[..] else {
        panic!("{:?}", b.effects)
    };
    b.handle(Event::FromMon(handle, MMonGetVersionReply { handle, version: newer, oldest: 1 }.into()));
    assert_eq!(b.done(), [(1, -Errno::ENOENT.0)]);
}

#[test]
fn writes_wait_while_the_cluster_is_paused() {
    let mut b = Bench::new();
    b.map.flags.0 |= types::MapFlags::PAUSEWR.0;
    b.publish();
    b.submit(1, b.pool(), "a", OpCode::CREATE);
    assert!(b.effects.is_empty());
    b.read(2, "a");
    assert_eq!(b.dialed().len(), 1);
    b.map.flags.0 &= !types::MapFlags::PAUSEWR.0;
    b.publish();
    b.handle(Event::SessionOpened(SessionId(1)));
    assert_eq!(b.sent().len(), 2);
}

/// An OSD answers what it was sent before the pause.
#[test]
fn a_request_that_a_pause_meets_in_flight_takes_its_answer() {
    for is_answered in [true, false] {
        let mut b = Bench::new();
        b.submit(1, b.pool(), "a", OpCode::CREATE);
        b.handle(Event::SessionOpened(SessionId(1)));
        let sent = b.sent();
        b.map.flags.0 |= types::MapFlags::PAUSEWR.0;
        b.publish();
        assert!(b.sent().is_empty());
        if is_answered {
            b.reply(&sent[0]);
            assert_eq!(b.done(), [(1, 5)]);
            continue;
        }
        b.handle(Event::SessionClosed(SessionId(1)));
        b.now = b.now + REDIAL_AFTER;
        b.handle(Event::Timer);
        assert!(b.dialed().is_empty(), "it waits");
        b.map.flags.0 &= !types::MapFlags::PAUSEWR.0;
        b.publish();
        let [session] = b.dialed()[..] else { panic!("{:?}", b.effects) };
        b.handle(Event::SessionOpened(session));
        assert_eq!(b.sent()[0].2.retry_attempt, 1);
        b.reply(&b.sent()[0].clone());
        assert_eq!(b.done(), [(1, 5)]);
    }
}

/// The interval in which it was asked is over.
#[test]
fn a_paused_request_takes_no_answer_of_an_earlier_interval() {
    let mut b = Bench::new();
    b.submit(1, b.pool(), "a", OpCode::CREATE);
    b.handle(Event::SessionOpened(SessionId(1)));
    let sent = b.sent();
    b.map.flags.0 |= types::MapFlags::PAUSEWR.0;
    b.publish();
    let primary = b.primary("a");
    let (_, pg) = b.map.object_to_pg(b.pool(), b"", b"", b"a").unwrap();
    let member = *b.map.pg_to_up_acting(pg).acting.iter().find(|osd| **osd != primary).unwrap();
    b.map.osd_state[member.0 as usize] = OsdState(b.map.osd_state[member.0 as usize].0 & !OsdState::UP.0);
    b.publish();
    b.reply(&sent[0]);
    assert!(b.done().is_empty());
    b.map.flags.0 &= !types::MapFlags::PAUSEWR.0;
    b.publish();
    let again = b.sent();
    b.reply(&again[0]);
    assert_eq!(b.done(), [(1, 5)]);
}

#[test]
fn a_backoff_holds_requests_until_it_is_lifted() {
    let mut b = Bench::new();
    b.read(1, "a");
    let session = b.dialed()[0];
    b.handle(Event::SessionOpened(session));
    let pg = b.sent()[0].2.pgid;
    let mut backoff = MOSDBackoff {
        pgid: SpgId { pg, shard: -1 },
        epoch: b.map.epoch,
        op: BackoffOp::BLOCK,
        id: 3,
        begin: HObject::min(),
        end: HObject::max(),
    };
    b.handle(Event::FromOsd(session, 0, backoff.clone().into()));
    assert!(
        matches!(&b.effects[..], [Effect::Send(_, 0, Message::MOSDBackoff(ack))] if ack.op == BackoffOp::ACK_BLOCK)
    );
    b.read(2, "a");
    assert!(b.effects.is_empty());
    backoff.op = BackoffOp::UNBLOCK;
    b.handle(Event::FromOsd(session, 0, backoff.into()));
    let tids: Vec<u64> = b.sent().iter().map(|(_, tid, _)| *tid).collect();
    assert_eq!(tids.len(), 2);
}

#[test]
fn a_backoff_of_one_object_holds_no_other() {
    let mut b = Bench::new();
    b.read(1, "a");
    let session = b.dialed()[0];
    b.handle(Event::SessionOpened(session));
    let (pg, hash) = b.sent().iter().map(|(_, _, op)| (op.pgid, op.hash)).next().unwrap();
    let object =
        HObject { oid: "a".into(), pool: pg.pool, hash, snap: types::SnapId::HEAD, ..HObject::default() };
    let (begin, end) = (object.clone(), object.clone());
    let pgid = SpgId { pg, shard: -1 };
    let mut backoff = MOSDBackoff { pgid, epoch: b.map.epoch, op: BackoffOp::BLOCK, id: 3, begin, end };
    b.handle(Event::FromOsd(session, 0, backoff.clone().into()));
    // Another object of the PG, for which there is no request.
    let elsewhere = HObject { oid: "z".into(), ..object };
    let other = MOSDBackoff { id: 4, begin: elsewhere.clone(), end: elsewhere, ..backoff.clone() };
    b.handle(Event::FromOsd(session, 0, other.into()));
    b.effects.clear();
    b.read(2, "a");
    assert!(b.effects.is_empty());
    let names = ["b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q"];
    let is_neighbour = |name: &&&str| {
        let placed = b.map.object_to_pg(pg.pool, b"", b"", name.as_bytes());
        placed.is_some_and(|(_, placed)| placed == pg)
    };
    let neighbour = names.iter().find(is_neighbour).expect("a pool of few PGs");
    b.read(3, neighbour);
    assert_eq!(b.sent().len(), 1);
    b.effects.clear();
    backoff.op = BackoffOp::UNBLOCK;
    b.handle(Event::FromOsd(session, 0, backoff.into()));
    assert_eq!(b.sent().len(), 2, "what was held");
}

#[test]
fn a_command_outlives_the_monitor_session() {
    let mut b = Bench::new();
    b.effects.clear();
    b.client.command(b.now, Token(4), "{}".into(), Bytes::new(), &mut b.effects);
    let [Effect::SendMon(tid, Message::MMonCommand(_))] = b.effects[..] else { panic!("{:?}", b.effects) };
    b.handle(Event::MonOpened);
    assert!(matches!(b.effects[1], Effect::SendMon(again, Message::MMonCommand(_)) if again == tid));
    let ack = messages::MMonCommandAck { result: -2, ..messages::MMonCommandAck::default() };
    b.handle(Event::FromMon(tid, ack.into()));
    assert!(matches!(&b.effects[..], [Effect::CommandDone(Token(4), reply)] if reply.result == -2));
}

#[test]
fn notifications_reach_whoever_runs_the_client() {
    let mut b = Bench::new();
    b.read(1, "a");
    let session = b.dialed()[0];
    b.handle(Event::SessionOpened(session));
    let notify = messages::MWatchNotify { cookie: 7, ..messages::MWatchNotify::default() };
    b.handle(Event::FromOsd(session, 0, notify.into()));
    assert!(matches!(&b.effects[..], [Effect::Notified(notify)] if notify.cookie == 7));
}

#[test]
fn reads_that_any_copy_may_answer_are_spread_and_end_at_the_primary() {
    let mut b = Bench::new();
    let (primary, pool) = (b.primary("a"), b.pool());
    let mut to_others = 0;
    for token in 0..12 {
        b.effects.clear();
        let flags = osd_flag::BALANCE_READS;
        let request = Request { flags, ..Request::new(pool, "a", vec![OsdOp::new(OpCode::READ)]) };
        b.client.submit(b.now, UTime::new(9, 0), Token(token), request, &mut b.effects);
        for session in b.dialed() {
            b.handle(Event::SessionOpened(session));
        }
        let sent = b.sent().pop().unwrap();
        assert!(sent.2.flags & flags != 0);
        let is_primary = |b: &Bench, session| b.client.is_open(session, primary);
        let refusal = MOSDOpReply { result: Errno::EAGAIN.negated(), ..MOSDOpReply::default() };
        if is_primary(&b, sent.0) {
            b.reply(&sent);
            assert_eq!(b.done(), [(token, 5)]);
            continue;
        }
        to_others += 1;
        b.handle(Event::FromOsd(sent.0, sent.1, refusal.into()));
        for session in b.dialed() {
            b.handle(Event::SessionOpened(session));
        }
        let again = b.sent().pop().unwrap();
        assert!(is_primary(&b, again.0) && again.2.flags & flags == 0);
        b.reply(&again);
        assert_eq!(b.done(), [(token, 5)]);
    }
    assert!(0 < to_others && to_others < 12, "{to_others}");
    assert_eq!(b.client.replica_answers(), 0);
}

#[test]
fn requests_whose_ops_may_change_the_object_say_so_and_go_to_the_primary() {
    let request = |flags, code| Request { flags, ..Request::new(PoolId(1), "a", vec![OsdOp::new(code)]) };
    for (flags, code, writes) in [
        (0, OpCode::READ, false),
        (0, OpCode::CALL, false),
        (osd_flag::WRITE, OpCode::CALL, true),
        (0, OpCode::WRITE, true),
        // Their modes do not say it.
        (0, OpCode::SET_CHUNK, true),
        (0, OpCode::TIER_EVICT, true),
    ] {
        let request = request(flags | osd_flag::BALANCE_READS, code);
        assert_eq!(request.all_flags() & osd_flag::WRITE != 0, writes, "{code:?}");
        assert_eq!(request.is_for_any_copy(), !writes, "{code:?}");
    }
}

#[test]
fn a_primary_that_sends_a_read_for_any_copy_on_is_asked_as_primary() {
    let mut b = Bench::new();
    let (primary, pool) = (b.primary("a"), b.pool());
    let flags = osd_flag::BALANCE_READS;
    let mut asked = 0;
    for token in 0..12 {
        b.effects.clear();
        let request = Request { flags, ..Request::new(pool, "a", vec![OsdOp::new(OpCode::READ)]) };
        b.client.submit(b.now, UTime::new(9, 0), Token(token), request, &mut b.effects);
        for session in b.dialed() {
            b.handle(Event::SessionOpened(session));
        }
        let sent = b.sent().pop().unwrap();
        if !b.client.is_open(sent.0, primary) {
            continue;
        }
        asked += 1;
        let refusal = MOSDOpReply { result: Errno::EAGAIN.negated(), ..MOSDOpReply::default() };
        b.handle(Event::FromOsd(sent.0, sent.1, refusal.clone().into()));
        assert_eq!(b.done(), []);
        let again = b.sent().pop().unwrap();
        assert!(b.client.is_open(again.0, primary) && again.2.flags & flags == 0);
        let refusal = MOSDOpReply { retry_attempt: again.2.retry_attempt, ..refusal };
        b.handle(Event::FromOsd(again.0, again.1, refusal.into()));
        assert_eq!(b.done(), []);
        let last = b.sent().pop().unwrap();
        assert!(b.client.is_open(last.0, primary));
        b.reply(&last);
        assert_eq!(b.done(), [(token, 5)]);
    }
    assert!(0 < asked && asked < 12, "{asked}");
}

/// Such a map would take the client back in time, or have it take the same map for ever.
#[test]
fn a_map_that_is_not_of_its_epoch_or_cluster_does_not_count() {
    let mut b = Bench::new();
    let (epoch, next) = (b.map.epoch, b.map.epoch.next());
    let other = Uuid([8; 16]);
    for (its_epoch, fsid) in [(epoch, b.map.fsid), (Epoch(1), b.map.fsid), (next, other)] {
        let map = OsdMap { epoch: its_epoch, fsid, ..b.map.clone() };
        let bytes = map.to_bytes(Features::PACIFIC);
        let fulls = [(next, bytes.clone())].into();
        let message = MOSDMap { fsid: b.map.fsid, fulls, newest: next, ..MOSDMap::default() };
        b.handle(Event::FromMon(0, message.into()));
        assert_eq!(b.client.map(), Some(&b.map));
        b.send_incremental(&Incremental { fullmap: bytes, ..Incremental::new(b.map.fsid, next) });
        assert_eq!(b.client.map(), Some(&b.map));
    }
}

/// Asked for again, it would come as it came, and without a pause as fast as the network carries it.
#[test]
fn where_an_incremental_does_not_apply_a_whole_map_is_asked_for_and_not_at_once_again() {
    let mut b = Bench::new();
    let mut bad = Incremental::new(b.map.fsid, b.map.epoch.next());
    bad.new_weight.insert(OsdId(1_000), 0);
    b.send_incremental(&bad);
    assert_eq!(b.asked(), [0]);
    let due = b.now + ASK_AGAIN_AFTER;
    assert!(
        matches!(b.effects[..], [Effect::SetTimer(at), Effect::SendMon(..)] if at == due),
        "{:?}",
        b.effects
    );
    b.send_incremental(&bad);
    assert!(b.asked().is_empty());
    b.now = due;
    b.handle(Event::Timer);
    assert_eq!(b.asked(), [0]);
    b.handle(Event::MonOpened);
    assert_eq!(b.asked(), [0]);
    b.publish();
    assert_eq!(b.epoch(), b.map.epoch);
    b.now = b.now + ASK_AGAIN_AFTER;
    b.handle(Event::Timer);
    assert!(b.asked().is_empty());
    b.handle(Event::MonOpened);
    assert_eq!(b.asked(), [u64::from(b.map.epoch.next().0)], "incrementals do again");
}

/// The map moves on by the good one, which is no reason to wait for the bad one.
#[test]
fn a_whole_map_is_asked_for_where_only_the_second_incremental_does_not_apply() {
    let mut b = Bench::new();
    let good = Incremental::new(b.map.fsid, b.map.epoch.next());
    let bad = Incremental::new(Uuid([8; 16]), good.epoch.next());
    let incrementals =
        [&good, &bad].into_iter().map(|inc| (inc.epoch, inc.to_bytes(Features::PACIFIC))).collect();
    let message = MOSDMap { fsid: b.map.fsid, incrementals, newest: bad.epoch, ..MOSDMap::default() };
    b.handle(Event::FromMon(0, message.into()));
    assert_eq!((b.epoch(), b.asked()), (good.epoch, vec![0]));
}

#[test]
fn a_redial_and_a_question_for_maps_both_come_though_there_is_one_timer() {
    let mut b = Bench::new();
    b.send_incremental(&Incremental::new(Uuid([8; 16]), b.map.epoch.next()));
    let asked_again = b.now + ASK_AGAIN_AFTER;
    b.read(1, "a");
    let session = b.dialed()[0];
    b.handle(Event::SessionClosed(session));
    let redialed = b.now + REDIAL_AFTER;
    assert!(matches!(b.effects[..], [Effect::SetTimer(at)] if at == redialed), "{:?}", b.effects);
    b.now = redialed;
    b.handle(Event::Timer);
    assert!(b.dialed().len() == 1 && b.asked().is_empty());
    assert!(b.effects.iter().any(|effect| matches!(effect, Effect::SetTimer(at) if *at == asked_again)));
    b.now = asked_again;
    b.handle(Event::Timer);
    assert_eq!(b.asked(), [0]);
}

/// As Ceph's clients do: the OSD has not carried it out, and knows the new one for another request.
#[test]
fn a_request_that_an_osd_is_not_ready_for_goes_again_as_a_new_one() {
    let mut b = Bench::new();
    b.submit(1, b.pool(), "a", OpCode::CREATE);
    let (session, tid, _) = b.connect_and_send();
    let refusal = MOSDOpReply { result: Errno::EAGAIN.negated(), ..MOSDOpReply::default() };
    b.handle(Event::FromOsd(session, tid, refusal.into()));
    assert_eq!(b.done(), []);
    let again = b.sent().pop().unwrap();
    assert!(again.0 == session && again.1 != tid && again.2.mtime == UTime::new(9, 0));
    b.reply(&again);
    assert_eq!((b.done(), b.client.in_flight()), (vec![(1, 5)], 0));
}

/// OSDs drop what they were sent before, whether the PG's interval has changed or not.
#[test]
fn requests_go_again_when_their_pool_says_so() {
    let mut b = Bench::new();
    b.read(1, "a");
    b.connect_and_send();
    b.publish();
    assert!(b.sent().is_empty());
    let (pool, epoch) = (b.pool(), b.map.epoch.next());
    b.map.pools.get_mut(&pool).unwrap().last_force_op_resend = epoch;
    b.publish();
    assert_eq!(b.sent().len(), 1);
    b.publish();
    assert!(b.sent().is_empty());
}

#[test]
fn an_answer_to_an_attempt_that_never_was_does_not_count() {
    let mut b = Bench::new();
    b.read(1, "a");
    let (session, tid, _) = b.connect_and_send();
    for retry_attempt in [1, i32::MAX] {
        let reply = MOSDOpReply { retry_attempt, ..MOSDOpReply::default() };
        b.handle(Event::FromOsd(session, tid, reply.into()));
        assert_eq!(b.done(), []);
    }
}

#[test]
fn a_request_that_is_forgotten_is_sent_no_more_and_does_not_end() {
    let mut b = Bench::new();
    b.read(1, "a");
    b.read(2, "a");
    let session = SessionId(1);
    b.handle(Event::SessionOpened(session));
    let sent = b.sent();
    b.client.forget(Token(1));
    b.reply(&sent[0]);
    assert_eq!((b.done(), b.client.in_flight()), (vec![], 1));
    b.handle(Event::SessionClosed(session));
    b.now = b.now + REDIAL_AFTER;
    b.handle(Event::Timer);
    assert_eq!(b.connect_and_send().1, sent[1].1);
    assert_eq!(b.sent().len(), 1);
}
