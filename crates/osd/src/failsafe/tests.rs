use bytes::Bytes;
use messages::{MCommand, MPgPush, Message, OpCode, OsdOp, osd_flag};
use store::MemStore;
use types::{
    CollId, EVersion, HObject, Instant, Mutation, OsdStat, PgPool, PoolId, PoolType, Transaction, UTime,
};

use super::*;
use crate::{Effect, Event, Peer, Shard, ShardMessage};

const POOL: PoolId = PoolId(3);
/// Connections of clients: the first two to this shard, the last one to another.
const OWN: ConnId = ConnId(1);
const IDLE: ConnId = ConnId(2);
const THEIRS: ConnId = ConnId(1 << 48 | 1);

/// A shard that leads no PG, whose store is half full.
struct Running {
    osd: Osd,
    store: MemStore,
    effects: Vec<Effect>,
}

impl Running {
    fn new() -> Running {
        let mut osd = Osd::alone();
        osd.map.pools.insert(POOL, PgPool::new(PoolType::REPLICATED, 3, 2, 0, 8));
        osd.config.shard = Shard { index: 0, count: 2 };
        let mut running = Running { osd, store: MemStore::new(), effects: Vec::new() };
        [OWN, IDLE, THEIRS].into_iter().for_each(|conn| running.open(conn));
        running
    }

    fn handle(&mut self, event: Event) {
        self.osd.handle(Instant(1), UTime::default(), event, &mut self.store, &mut self.effects);
    }

    fn open(&mut self, conn: ConnId) {
        self.handle(Event::ConnOpened(conn, Box::new(Peer::client())));
    }

    /// Says how full stores may be.
    fn set_ratio(&mut self, ratio: &str) {
        self.osd.settings.inject("osd_failsafe_full_ratio", ratio).unwrap();
        self.osd.follow_options();
        self.with(Osd::look_at_room);
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Osd, &mut Ctx<'_>) -> T) -> T {
        let (store, effects) = (&mut self.store, &mut self.effects);
        act(&mut self.osd, &mut Ctx { now: Instant(1), wall: UTime::default(), store, effects })
    }

    /// True if the op is dropped.
    fn drops(&mut self, conn: ConnId, op: &MOSDOp) -> bool {
        self.with(|osd, ctx| osd.drops_for_room(conn, op, op.held_bytes(), ctx))
    }

    /// The connections that a tick closes.
    fn closed(&mut self) -> Vec<ConnId> {
        self.effects.clear();
        self.with(Osd::end_dropping);
        let closed = self.effects.iter().filter_map(|effect| match effect {
            Effect::Close(conn) | Effect::ShardMessage(_, ShardMessage::Close(conn)) => Some(*conn),
            _ => None,
        });
        closed.collect()
    }
}

/// An op on an object of the PG.
fn op(seed: u32, code: OpCode, flags: u32) -> MOSDOp {
    let ops = vec![OsdOp::new(code)];
    MOSDOp { pgid: PgId::new(POOL, seed), hash: seed, flags, ops, ..MOSDOp::default() }
}

#[test]
fn changes_are_dropped_before_the_store_is_full_whatever_the_map_says() {
    let mut running = Running::new();
    let write = |flags: u32| op(5, OpCode::WRITEFULL, flags);
    assert!(!running.drops(OWN, &write(0)), "the store is half full");
    running.set_ratio("0.5");
    running.handle(Event::Received(OWN, 1, Message::MOSDOp(Box::new(write(0)))));
    assert_eq!(running.osd.sessions[&OWN].dropped.keys().collect::<Vec<_>>(), [&PgId::new(POOL, 5)]);
    assert!(running.drops(OWN, &write(0)));
    assert!(!running.drops(OWN, &op(5, OpCode::READ, 0)), "it takes no room");
    assert!(
        !running.drops(OWN, &write(osd_flag::FULL_TRY)) && !running.drops(OWN, &write(osd_flag::FULL_FORCE))
    );
    assert_eq!(running.closed(), [], "there is no room yet");
}

#[test]
fn an_operator_may_have_it_believe_that_it_is_full() {
    let mut running = Running::new();
    let write = op(5, OpCode::WRITEFULL, 0);
    let tell = |running: &mut Running, kind: &str, count: u64| {
        running.effects.clear();
        let cmd = vec![format!(r#"{{"prefix": "injectfull", "type": "{kind}", "count": {count}}}"#)];
        let command = MCommand { cmd, ..MCommand::default() };
        running.with(|osd, ctx| osd.on_tell(OWN, 1, &command, ctx));
        let told = running.effects.iter().find_map(|effect| match effect {
            Effect::ShardMessage(1, ShardMessage::InjectFailsafe(is_injected)) => Some(*is_injected),
            _ => None,
        });
        (told, running.drops(OWN, &write))
    };
    assert_eq!(tell(&mut running, "full", 9), (None, false), "the monitor's word counts");
    assert_eq!(tell(&mut running, "failsafe", 9), (Some(true), true));
    assert_eq!(running.closed(), []);
    assert_eq!(tell(&mut running, "none", 9), (Some(false), true), "it would overtake the one before");
    assert_eq!(running.closed(), [OWN]);
    // For so many reports.
    running.open(OWN);
    assert_eq!(tell(&mut running, "failsafe", 1), (Some(true), true));
    for is_over in [false, true] {
        running.with(|osd, ctx| {
            osd.apply_injected_full(&mut OsdStat::default());
            osd.follow_injected_full(ctx);
        });
        assert_eq!(running.closed().is_empty(), !is_over);
    }
    // As another shard hears of it.
    running.osd.config.shard.index = 1;
    running.handle(Event::ShardMessage(0, ShardMessage::InjectFailsafe(true)));
    assert!(running.drops(IDLE, &write));
}

#[test]
fn clients_send_again_in_order_what_was_dropped() {
    let mut running = Running::new();
    let write = |seed: u32| op(seed, OpCode::WRITEFULL, 0);
    running.set_ratio("0.5");
    assert!(running.drops(OWN, &write(5)) && running.drops(THEIRS, &write(5)));
    running.set_ratio("0.97");
    for conn in [OWN, THEIRS] {
        assert!(running.drops(conn, &write(5)), "it would overtake the one before");
        assert!(!running.drops(conn, &write(6)), "none of that PG was dropped");
    }
    assert!(!running.drops(IDLE, &write(5)), "none of its own was dropped");
    assert_eq!(running.closed(), [OWN, THEIRS]);
    // The other shard says when it is closed.
    assert!(running.drops(THEIRS, &write(5)));
    running.handle(Event::ShardMessage(1, ShardMessage::Closed(THEIRS)));
    assert_eq!(running.closed(), []);
    for conn in [OWN, THEIRS] {
        running.open(conn);
        assert!(!running.drops(conn, &write(5)));
    }
}

#[test]
fn what_a_pg_has_dropped_is_sent_again_when_there_is_room() {
    let mut running = Running::new();
    let pgid = PgId::new(POOL, 5);
    running.set_ratio("0.5");
    for conn in [OWN, ConnId(77)] {
        running.with(|osd, _| osd.note_dropped(conn, pgid, 1 << 20));
    }
    assert_eq!(running.closed(), []);
    assert!(running.drops(OWN, &op(5, OpCode::WRITEFULL, 0)));
    running.set_ratio("0.97");
    assert!(running.drops(OWN, &op(5, OpCode::WRITEFULL, 0)), "it would overtake the one before");
    assert_eq!(running.closed(), [OWN]);
}

#[test]
fn what_is_pushed_here_counts_as_written() {
    let mut running = Running::new();
    running.with(Osd::look_at_room);
    let before = running.osd.failsafe.until_look;
    let (pgid, epoch) = (PgId::new(POOL, 5), running.osd.map.epoch);
    let mut txn = Transaction::new(CollId::pg(pgid));
    let data = Bytes::from(vec![0; 1 << 20]).into();
    txn.push(&HObject::default(), Mutation::Write { offset: 0, data });
    let push = MPgPush::whole((pgid, epoch), HObject::default(), EVersion::ZERO, txn);
    running.with(|osd, ctx| osd.on_osd_message((OWN, OsdId(1)), 0, push.into(), ctx));
    assert_eq!(before - running.osd.failsafe.until_look, (1 << 20) + CHANGE_BYTES);
}
