//! What is said where a PG is not.

use bytes::Bytes;
use codec::{Decode, Encode, Features};
use messages::{
    MOSDMap, MOSDPGCreate, MPgClean, MPgCopyData, MPgProxyOp, MPgPull, MPgQuery, ObjectLocator, OpCode, OsdOp,
};
use store::{MemStore, ObjectStore};
use types::{
    EntityAddr, EntityAddrVec, EntityNum, HObject, Incremental, Mutation, PgInterval, PgPool, PoolId, SnapId,
    TxnOp, UTime, Uuid,
};

use super::*;
use crate::{Event as OsdEvent, Fault, Peer, Shard, map_store::EPOCHS_KEPT, on_map::MapSource};

#[test]
fn who_asks_for_what_was_removed_is_told_that_it_is_not_here() {
    let pgid = PgId::new(PoolId(2), 5);
    let (asked, newest, born) = (Epoch(7), Epoch(9), Epoch(2));
    let query = MPgQuery { pgid, epoch: asked, created: Epoch(3), ..MPgQuery::default() };
    match answer_without_pg(query.into(), newest, born) {
        Some(Message::MPgNotify(told)) => {
            assert_eq!((told.pgid, told.epoch, told.info.created), (pgid, newest, Epoch(3)));
            assert_eq!((told.info.last_update, told.info.store_born), (EVersion::ZERO, born));
        }
        other => panic!("{other:?}"),
    }
    let pull = MPgPull { pgid, epoch: asked, ..MPgPull::default() };
    match answer_without_pg(pull.into(), newest, born) {
        Some(Message::MPgPush(told)) => {
            assert_eq!((told.pgid, told.epoch, told.version), (pgid, asked, EVersion::ZERO));
            assert!(told.txn.ops.is_empty());
        }
        other => panic!("{other:?}"),
    }
    assert!(answer_without_pg(MPgClean { pgid, epoch: asked, remove: true }.into(), newest, born).is_none());
}

#[test]
fn an_osd_whose_pg_has_an_unreadable_record_does_not_begin() {
    let pgid = PgId::new(PoolId(2), 5);
    let mut txn = Transaction::new(CollId::pg(pgid));
    txn.ops.push(TxnOp::CreateCollection);
    // As the PG names its own object (`pg::meta`).
    let record = HObject { oid: "pgmeta".into(), pool: PoolId(-2), snap: SnapId::HEAD, ..HObject::default() };
    txn.push(&record, Mutation::OmapSet([("info".into(), "?".into())].into()));
    let mut store = MemStore::new();
    store.submit(Token(0), txn);
    let mut osd = Osd::alone();
    let (addrs, mut effects) = (EntityAddrVec::default(), Vec::new());
    let started = OsdEvent::Started { public_addrs: addrs.clone(), cluster_addrs: addrs };
    osd.handle(Instant(1), UTime::default(), started, &mut store, &mut effects);
    match effects.as_slice() {
        [Effect::Failed(Fault::PgRecord { pgid: named, .. })] => assert_eq!(*named, pgid),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_is_left_of_a_pg_that_goes() {
    let (mut osd, mut store, mut effects) = (Osd::alone(), MemStore::new(), Vec::new());
    let mut ctx = Ctx { now: Instant(1), wall: UTime::default(), store: &mut store, effects: &mut effects };
    let pgid = PgId::new(PoolId(2), 5);
    osd.make_pg(PgCreation { pgid, created: Epoch(1), intervals: Vec::new() }, Epoch(9), &mut ctx);
    assert_eq!((osd.pgs.len(), osd.pgs.ids.len()), (1, 1));
    let token = Token(u64::from(osd.pgs.last_id) << 32);
    // Its pool is not there.
    osd.pg_event(pgid, Event::NewMap, &mut ctx);
    assert_eq!((osd.pgs.len(), osd.pgs.ids.len()), (0, 0));
    osd.pg_completion(Completion::Committed(token), &mut ctx);
}

#[test]
fn what_pgs_here_tell_each_other_is_heard_when_the_call_has_ended() {
    let (mut osd, mut store, mut effects) = (Osd::alone(), MemStore::new(), Vec::new());
    let mut ctx = Ctx { now: Instant(1), wall: UTime::default(), store: &mut store, effects: &mut effects };
    let pgid = PgId::new(PoolId(2), 5);
    osd.make_pg(PgCreation { pgid, created: Epoch(1), intervals: Vec::new() }, Epoch(9), &mut ctx);
    let me = osd.config.whoami;
    let query = MPgQuery { pgid, epoch: Epoch(9), ..MPgQuery::default() };
    osd.pg_effect(pgid, pg::Effect::SendOsd(me, query.into()), &mut ctx);
    // Else each answer would be heard inside of the call that asked.
    assert_eq!(osd.pgs.own_messages.len(), 1);
    osd.pg_event(pgid, Event::Tick, &mut ctx);
    assert!(osd.pgs.own_messages.is_empty() && !osd.pgs.is_holding);
}

#[test]
fn what_pgs_here_say_to_each_other_overtakes_nothing() {
    let [me, other] = [OsdId(0), OsdId(1)];
    let addrs_of = |osd: OsdId| EntityAddrVec::msgr2(([127, 0, 0, 1], 6_800 + osd.0 as u16).into(), 7);
    let mut osd = Osd::alone();
    let mut up = Incremental::new(Uuid([1; 16]), Epoch(1));
    up.new_max_osd = Some(2);
    up.new_up_client = [me, other].map(|osd| (osd, addrs_of(osd))).into();
    up.new_up_cluster = up.new_up_client.clone();
    osd.map.apply(&up).unwrap();
    let (pgid, epoch) = (PgId::new(PoolId(2), 5), Epoch(1));
    let (mut store, mut effects) = (MemStore::new(), Vec::new());
    let ctx = &mut Ctx { now: Instant(1), wall: UTime::default(), store: &mut store, effects: &mut effects };
    // The answer to the first goes to this OSD, too.
    let pull = pg::Effect::SendOsd(me, MPgPull { pgid, epoch, ..MPgPull::default() }.into());
    let change = pg::Effect::SendOsd(other, MPgClean { pgid, epoch, remove: false }.into());
    osd.carry_out(pgid, &mut vec![pull, change], ctx);
    osd.deliver_own_messages(ctx);
    let told: Vec<OsdId> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::SendOsd { osd, .. } => Some(*osd),
            _ => None,
        })
        .collect();
    assert_eq!(told, [other, me]);
}

/// An OSD, by a map in which it is to have a PG alone that it does not have; and another OSD that is up.
fn without_its_pg() -> (Osd, PgId, OsdId) {
    const MAPS: &[u8] = include_bytes!("../../../messages/testdata/osd_map_41_s2c_005.front.bin");
    let maps = MOSDMap::from_bytes(Bytes::from_static(MAPS)).unwrap();
    let mut osd = Osd::alone();
    osd.map = Osd::decode_full(maps.fulls.values().next_back().unwrap().clone()).unwrap();
    let pool = *osd.map.pools.keys().next().unwrap();
    osd.map.pools.get_mut(&pool).unwrap().size = 1;
    let pgid = PgId::new(pool, 0);
    let me = osd.map.pg_to_up_acting(pgid).acting_primary;
    osd.config.whoami = me;
    // A map says that it lives: without a past, the PG would serve at once, empty.
    let epoch = osd.map.epoch;
    osd.map.osd_info[me.0 as usize].up_thru = epoch;
    let other = osd.map.osds().find(|other| osd.map.is_up(*other) && *other != me).unwrap();
    (osd, pgid, other)
}

/// What a copy tells that took writes alone before the present interval.
fn told(osd: &Osd, pgid: PgId, by: OsdId, epoch: Epoch) -> MPgNotify {
    let (first, last) = (Epoch(osd.map.epoch.0 - 2), Epoch(osd.map.epoch.0 - 1));
    let interval = PgInterval {
        first,
        last,
        acting: vec![by],
        primary: by,
        maybe_went_rw: true,
        forgotten_since: Epoch(0),
    };
    let info = PgInfo {
        since: epoch,
        last_epoch_started: first,
        last_update: EVersion::new(first, 5),
        ..PgInfo::default()
    };
    MPgNotify { pgid, epoch, info, intervals: vec![interval], leases: Vec::new() }
}

fn asked_for_log(effects: &[Effect]) -> Vec<OsdId> {
    let sent = effects.iter().filter_map(|effect| match effect {
        Effect::SendOsd { osd, message, .. } => Some((*osd, Message::decode((**message).clone()).unwrap())),
        _ => None,
    });
    let is_asked = |message: &Message| matches!(message, Message::MPgQuery(query) if query.wants_log);
    sent.filter(|(_, message)| is_asked(message)).map(|(osd, _)| osd).collect()
}

#[test]
fn a_pg_that_a_copy_tells_of_knows_its_past_from_the_first_moment() {
    let (mut osd, pgid, other) = without_its_pg();
    let (mut store, mut effects) = (MemStore::new(), Vec::new());
    let mut ctx = Ctx { now: Instant(1), wall: UTime::default(), store: &mut store, effects: &mut effects };
    let notify = told(&osd, pgid, other, osd.map.epoch);
    osd.pg_peer_message(other, notify.into(), &mut ctx);
    assert_eq!(asked_for_log(&effects), [other]);
}

#[test]
fn a_pg_is_made_in_its_own_shard_only() {
    let (mut osd, pgid, other) = without_its_pg();
    let (mut store, mut effects) = (MemStore::new(), Vec::new());
    let mut ctx = Ctx { now: Instant(1), wall: UTime::default(), store: &mut store, effects: &mut effects };
    let own = Shard { index: 0, count: 2 }.owner(pgid, &osd.map);
    for (index, count) in [(1 - own, 0), (own, 1)] {
        osd.config.shard = Shard { index, count: 2 };
        let notify = told(&osd, pgid, other, osd.map.epoch);
        osd.pg_peer_message(other, notify.into(), &mut ctx);
        assert_eq!((osd.pgs.len(), osd.pgs.ids.len()), (count, count));
    }
}

#[test]
fn who_stops_sends_no_content_that_other_osds_copy_for_their_clients() {
    let (mut osd, pgid, other) = without_its_pg();
    let (mut store, mut effects) = (MemStore::new(), Vec::new());
    let mut ctx = Ctx { now: Instant(1), wall: UTime::default(), store: &mut store, effects: &mut effects };
    for (boot, sent) in [(Boot::Active, 1), (Boot::Stopping { deadline: Instant(9) }, 0)] {
        osd.boot = boot;
        let data = MPgCopyData {
            pgid,
            epoch: osd.map.epoch,
            id: 1,
            result: 0,
            user_version: 0,
            truncate_seq: 0,
            truncate_size: 0,
            txn: Transaction::new(CollId::pg(pgid)),
            elsewhere: None,
            missing: Default::default(),
            mtime: None,
        };
        osd.pg_effect(pgid, pg::Effect::SendOsd(other, data.into()), &mut ctx);
        assert_eq!(ctx.effects.drain(..).count(), sent);
    }
}

#[test]
fn nothing_more_is_heard_of_an_osd_that_says_what_cannot_be_so_until_its_life_is_over() {
    let (mut osd, pgid, other) = without_its_pg();
    let (mut store, mut effects) = (MemStore::new(), Vec::new());
    let mut ctx = Ctx { now: Instant(1), wall: UTime::default(), store: &mut store, effects: &mut effects };
    osd.set_heartbeat_peers();
    let sound = told(&osd, pgid, other, osd.map.epoch);
    let info = PgInfo { last_epoch_clean: Epoch(u32::MAX), ..sound.info.clone() };
    osd.pg_peer_message(other, MPgNotify { info, ..sound.clone() }.into(), &mut ctx);
    osd.pg_peer_message(other, sound.clone().into(), &mut ctx);
    assert_eq!(osd.pgs.len(), 0);
    let reports = |ctx: &mut Ctx<'_>| {
        let reports = ctx.effects.extract_if(.., |effect| matches!(effect, Effect::SendMon(_)));
        let is_of = |effect: &Effect| match effect {
            Effect::SendMon(Message::MOSDFailure(report)) => report.target == other && report.may_live,
            _ => false,
        };
        reports.filter(is_of).count()
    };
    assert_eq!(reports(&mut ctx), 1);
    ctx.now = Instant(2_000_000_000);
    osd.report_refused(&mut ctx);
    assert_eq!(reports(&mut ctx), 1, "the first one may be lost");
    osd.map.osd_info[other.0 as usize].up_from = osd.map.epoch;
    osd.set_heartbeat_peers();
    osd.report_refused(&mut ctx);
    osd.pg_peer_message(other, sound.into(), &mut ctx);
    assert_eq!((reports(&mut ctx), osd.pgs.len()), (0, 1));
}

#[test]
fn a_pg_is_not_made_by_what_does_not_know_its_past() {
    let (mut osd, pgid, other) = without_its_pg();
    let (mut store, mut effects) = (MemStore::new(), Vec::new());
    let mut ctx = Ctx { now: Instant(1), wall: UTime::default(), store: &mut store, effects: &mut effects };
    let newest = osd.map.epoch;
    let query = Message::from(MPgQuery { pgid, epoch: newest, ..MPgQuery::default() });
    // The answer of an OSD without a copy, and what a copy tells that has not come to this interval.
    let empty = answer_without_pg(query.clone(), newest, Epoch(0)).unwrap();
    let stale = told(&osd, pgid, other, Epoch(newest.0 - 1));
    for message in [query, empty, stale.into()] {
        osd.pg_peer_message(other, message, &mut ctx);
        assert_eq!((osd.pgs.len(), osd.pgs.ids.len()), (0, 0));
    }
    let creation = PgCreation { pgid, created: Epoch(1), intervals: Vec::new() };
    for (epoch, count) in [(Epoch(newest.0 - 1), 0), (newest, 1)] {
        osd.on_pg_create(MOSDPGCreate { epoch, pgs: vec![creation.clone()] }, &mut ctx);
        assert_eq!(osd.pgs.len(), count);
    }
    // The question was answered.
    assert!(matches!(&effects[..], [Effect::SendOsd { osd, .. }, ..] if *osd == other));
}

/// What another PG of this OSD asks a PG by the newest map.
fn question_to(osd: &Osd, pgid: PgId) -> Message {
    let (epoch, asker) = (osd.map.epoch, PgId::new(PoolId(1), 0));
    let (client, addr, path) = (EntityNum::client(4), EntityAddr::default(), Vec::new());
    let locator = ObjectLocator { pool: pgid.pool, ..ObjectLocator::default() };
    let op = MOSDOp { pgid, epoch, locator, hash: pgid.seed, ..MOSDOp::default() };
    MPgProxyOp { pgid, epoch, asker, id: 1, client, addr, tid: 1, path, op }.into()
}

/// True while the PG has such a question to answer.
fn has_question(osd: &Osd, pgid: PgId) -> bool {
    osd.pgs.get(pgid).unwrap().held().any(|(kind, _)| kind == "requests passed on")
}

#[test]
fn what_pgs_ask_on_the_way_into_a_map_is_heard_by_those_that_the_map_splits() {
    let (mut osd, pgid, _) = without_its_pg();
    let (mut store, mut effects) = (MemStore::new(), Vec::new());
    let mut ctx = Ctx { now: Instant(1), wall: UTime::default(), store: &mut store, effects: &mut effects };
    let (me, epoch) = (osd.config.whoami, osd.map.epoch);
    osd.make_pg(PgCreation { pgid, created: Epoch(1), intervals: Vec::new() }, epoch, &mut ctx);
    osd.pg_peer_message(me, question_to(&osd, pgid), &mut ctx);
    assert!(has_question(&osd, pgid));
    let pool = osd.map.pools.get_mut(&pgid.pool).unwrap();
    let before = pool.pg_num;
    pool.set_pg_num(2 * before);
    let child = PgPool::children_of(pgid, before, 2 * before).next().unwrap();
    osd.map.pg_temp.insert(child, vec![me]);
    osd.map.epoch = osd.map.epoch.next();
    // As if a PG that comes first had asked: the one what it had asked before, the other what is its own now.
    for pgid in [pgid, child] {
        let question = question_to(&osd, pgid);
        osd.pgs.own_messages.push_back(question);
    }
    osd.advance_pgs(&mut ctx);
    assert_eq!((has_question(&osd, pgid), has_question(&osd, child), osd.pgs.early_count()), (true, true, 0));
}

#[test]
fn what_pgs_ask_on_the_way_into_a_map_is_heard_by_those_that_lead_by_it() {
    let (mut osd, first, other) = without_its_pg();
    let (mut store, mut effects) = (MemStore::new(), Vec::new());
    let mut ctx = Ctx { now: Instant(1), wall: UTime::default(), store: &mut store, effects: &mut effects };
    let (me, epoch) = (osd.config.whoami, osd.map.epoch);
    let second = PgId::new(PoolId(first.pool.0 + 100), 0);
    osd.map.pools.insert(second.pool, osd.map.pools[&first.pool].clone());
    osd.map.pg_temp.insert(second, vec![other]);
    for pgid in [first, second] {
        osd.make_pg(PgCreation { pgid, created: Epoch(1), intervals: Vec::new() }, epoch, &mut ctx);
    }
    osd.map.pg_temp.insert(second, vec![me]);
    osd.map.epoch = osd.map.epoch.next();
    let question = question_to(&osd, second);
    osd.pgs.own_messages.push_back(question);
    osd.advance_pgs(&mut ctx);
    assert!(has_question(&osd, second));
}

#[test]
fn what_was_passed_on_and_waits_for_its_pg_ends_with_the_life_of_the_osd_that_sent_it() {
    let (mut osd, pgid, other) = without_its_pg();
    let (mut store, mut effects) = (MemStore::new(), Vec::new());
    let mut ctx = Ctx { now: Instant(1), wall: UTime::default(), store: &mut store, effects: &mut effects };
    osd.pg_peer_message(other, question_to(&osd, pgid), &mut ctx);
    for (up_from, kept) in [(osd.map.epoch, 1), (osd.map.epoch.next(), 0)] {
        osd.map.osd_info[other.0 as usize].up_from = up_from;
        osd.advance_pgs(&mut ctx);
        assert_eq!(osd.pgs.early_count(), kept);
    }
}

/// What holds a client's connection, or holds it no more.
fn holds(effects: &[Effect]) -> Vec<(ConnId, bool)> {
    let holds = effects.iter().filter_map(|effect| match effect {
        Effect::Hold(conn, hold) => Some((*conn, *hold)),
        _ => None,
    });
    holds.collect()
}

/// Where all copies are down, clients that want nothing of them would wait as well.
#[test]
fn ops_for_a_pg_that_is_not_here_keep_no_client_waiting_but_who_sends_too_many() {
    let (mut osd, pgid, _) = without_its_pg();
    let (mut store, conn) = (MemStore::new(), ConnId(1));
    let mut tell = |osd: &mut Osd, now: Instant, event| {
        let mut effects = Vec::new();
        osd.handle(now, UTime::default(), event, &mut store, &mut effects);
        effects
    };
    let op = |osd: &Osd, tid| {
        let locator = ObjectLocator { pool: pgid.pool, ..ObjectLocator::default() };
        let ops = vec![OsdOp::new(OpCode::STAT)];
        let op = MOSDOp { pgid, epoch: osd.map.epoch, locator, hash: pgid.seed, ops, ..MOSDOp::default() };
        OsdEvent::Received(conn, tid, Message::MOSDOp(Box::new(op)))
    };
    let open = |osd: &mut Osd, tell: &mut dyn FnMut(&mut Osd, Instant, OsdEvent) -> Vec<Effect>| {
        tell(osd, Instant(1), OsdEvent::ConnOpened(conn, Box::new(Peer::client())));
        (0..1_023).for_each(|tid| {
            let event = op(osd, tid);
            assert_eq!(holds(&tell(osd, Instant(1), event)), [], "{tid}");
        });
        let event = op(osd, 1_023);
        assert_eq!(holds(&tell(osd, Instant(1), event)), [(conn, true)]);
        assert_eq!((osd.pgs.early.len(), osd.is_saturated()), (1_024, false));
    };
    open(&mut osd, &mut tell);
    let late = Instant(1) + crate::on_map::MAP_PATIENCE;
    let effects = tell(&mut osd, late, OsdEvent::Timer(crate::osd::TICK));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Close(closed) if *closed == conn)));
    assert_eq!(osd.admission.ops(), 0);
    open(&mut osd, &mut tell);
    let mut effects = Vec::new();
    let mut ctx = Ctx { now: late, wall: UTime::default(), store: &mut store, effects: &mut effects };
    let epoch = osd.map.epoch;
    osd.make_pg(PgCreation { pgid, created: Epoch(1), intervals: Vec::new() }, epoch, &mut ctx);
    assert_eq!((holds(&effects), osd.pgs.early.len()), (vec![(conn, false)], 0));
    assert!(osd.is_saturated(), "the PG has them now");
}

#[test]
fn clients_of_a_pg_that_is_not_here_fill_no_memory_however_many_they_are() {
    let (mut osd, pgid, _) = without_its_pg();
    let mut store = MemStore::new();
    let mut tell = |osd: &mut Osd, now: Instant, event| {
        let mut effects = Vec::new();
        osd.handle(now, UTime::default(), event, &mut store, &mut effects);
        effects.iter().filter(|effect| matches!(effect, Effect::Close(_))).count()
    };
    let op = |osd: &Osd| {
        let locator = ObjectLocator { pool: pgid.pool, ..ObjectLocator::default() };
        let ops = vec![OsdOp { data: Bytes::from(vec![0; 4 << 20]), ..OsdOp::new(OpCode::WRITEFULL) }];
        MOSDOp { pgid, epoch: osd.map.epoch, locator, hash: pgid.seed, ops, ..MOSDOp::default() }
    };
    for number in 0..200 {
        let conn = ConnId(1 + number);
        let came = OsdEvent::Received(conn, 1, op(&osd).into());
        for event in [OsdEvent::ConnOpened(conn, Box::new(Peer::client())), came] {
            assert_eq!(tell(&mut osd, Instant(1), event), 0, "it would send all again at once");
        }
    }
    assert!(osd.admission.early.bytes() < 520 << 20);
    let kept = osd.pgs.early.len();
    assert!(kept < 150);
    // There is room now, but nothing goes ahead of what was dropped.
    for number in 0..kept as u64 {
        tell(&mut osd, Instant(1), OsdEvent::ConnClosed(ConnId(1 + number)));
    }
    let next = op(&osd).into();
    assert_eq!(tell(&mut osd, Instant(1), OsdEvent::Received(ConnId(200), 2, next)), 0);
    assert_eq!(osd.pgs.early.len(), 0);
    assert_eq!(tell(&mut osd, Instant(2), OsdEvent::Timer(crate::osd::TICK)), 200 - kept);
}

#[test]
fn a_scrub_of_a_lone_copy_gives_way_to_what_has_come() {
    let (mut osd, pgid, _) = without_its_pg();
    osd.map.pools.get_mut(&pgid.pool).expect("it is its pool").min_size = 1;
    let mut store = MemStore::new();
    let mut act = |osd: &mut Osd, what: &mut dyn FnMut(&mut Osd, &mut Ctx<'_>)| {
        let mut effects = Vec::new();
        let mut ctx =
            Ctx { now: Instant(1), wall: UTime::default(), store: &mut store, effects: &mut effects };
        what(osd, &mut ctx);
        loop {
            let done = store.complete();
            if done.is_empty() {
                return effects;
            }
            for completion in done {
                let event = OsdEvent::Store(completion);
                osd.handle(Instant(1), UTime::default(), event, &mut store, &mut effects);
            }
        }
    };
    let epoch = osd.map.epoch;
    let creation = PgCreation { pgid, created: epoch, intervals: Vec::new() };
    act(&mut osd, &mut |osd, ctx| osd.make_pg(creation.clone(), epoch, ctx));
    let conn = ConnId(1);
    act(&mut osd, &mut |osd, _| osd.on_conn_opened(conn, Peer::client()));
    for number in 0..200 {
        let locator = ObjectLocator { pool: pgid.pool, ..ObjectLocator::default() };
        let ops = vec![OsdOp::new(OpCode::CREATE)];
        let oid = Bytes::from(format!("{number}"));
        let (hash, snapid) = (pgid.seed, SnapId::HEAD);
        let op = MOSDOp { pgid, epoch, locator, hash, oid, ops, snapid, ..MOSDOp::default() };
        act(&mut osd, &mut |osd, ctx| osd.on_received(conn, number, op.clone().into(), ctx));
    }
    let request = pg::ScrubRequest { is_deep: false, is_repair: false };
    act(&mut osd, &mut |osd, ctx| osd.scrub_pg(pgid, request, ctx));
    let mut last = act(&mut osd, &mut |osd, ctx| osd.tick_pgs(ctx));
    let goes_on = |effects: &[Effect]| {
        effects.iter().any(|effect| matches!(effect, Effect::SetTimer(WAKE, at) if *at <= Instant(1)))
    };
    let mut turns = 0;
    while goes_on(&last) {
        turns += 1;
        last = act(&mut osd, &mut |osd, ctx| osd.wake_pgs(ctx));
    }
    assert!(turns >= 8, "200 objects, 25 in a chunk: {turns}");
}

#[test]
fn an_event_for_a_pg_that_is_gone_costs_no_memory() {
    let (mut osd, mut store, mut effects) = (Osd::alone(), MemStore::new(), Vec::new());
    let mut ctx = Ctx { now: Instant(1), wall: UTime::default(), store: &mut store, effects: &mut effects };
    osd.pgs.effects.reserve(100);
    osd.pg_event(PgId::new(PoolId(2), 5), Event::Tick, &mut ctx);
    assert!(osd.pgs.effects.capacity() >= 100);
}

/// The store ends a split that it has begun, whatever became of the interval that begins with it.
#[test]
fn a_crash_in_the_midst_of_a_split_costs_no_copy() {
    let (mut osd, pgid, other) = without_its_pg();
    let (mut store, mut effects) = (MemStore::new(), Vec::new());
    let mut ctx = Ctx { now: Instant(1), wall: UTime::default(), store: &mut store, effects: &mut effects };
    let before = osd.map.clone();
    osd.map.pools.get_mut(&pgid.pool).unwrap().size = 2;
    osd.map.pg_temp.insert(pgid, vec![other, osd.config.whoami]);
    osd.make_pg(PgCreation { pgid, created: Epoch(1), intervals: Vec::new() }, before.epoch, &mut ctx);
    let old = osd.map.clone();
    osd.map.epoch = before.epoch.next();
    let pool = osd.map.pools.get_mut(&pgid.pool).unwrap();
    let pg_num = pool.pg_num;
    pool.set_pg_num(2 * pg_num);
    let children = osd.split_pg(pgid, &mut ctx);
    assert!(!children.is_empty());

    let (mut again, _, _) = without_its_pg();
    let mut txn = crate::MapStore::transaction(ctx.store);
    for map in [&old, &osd.map] {
        again.maps.push(&mut txn, map.epoch, map.to_bytes_and_crc().0, None, None);
    }
    ctx.store.submit(Token(0), txn);
    ctx.effects.clear();
    again.load_pgs(&mut ctx).unwrap();
    for copy in children.into_iter().chain([pgid]) {
        assert_eq!(again.pgs.get(copy).map(Pg::epoch), Some(osd.map.epoch), "{copy}");
    }
    // What is told then is what can be so.
    let sent = effects.iter().filter_map(|effect| match effect {
        Effect::SendOsd { message, .. } => Some(Message::decode((**message).clone()).unwrap()),
        _ => None,
    });
    let told: Vec<_> = sent.map(|message| pg::check_message(&message)).collect();
    assert!(!told.is_empty() && told.iter().all(Result::is_ok), "{told:?}");
}

/// The store has not come to the record of an interval: it is behind a split's steps, or lacks room.
#[test]
fn maps_stay_that_a_pg_would_walk_through_after_a_crash() {
    let (mut osd, pgid, other) = without_its_pg();
    let (mut store, first, me) = (MemStore::new(), osd.map.epoch, osd.config.whoami);
    osd.config.fsid = osd.map.fsid;
    let mut txn = crate::MapStore::transaction(&store);
    osd.maps.push(&mut txn, first, osd.map.to_bytes_and_crc().0, None, None);
    store.submit(Token(0), txn);
    let act = |osd: &mut Osd, store: &mut MemStore, act: &mut dyn FnMut(&mut Osd, &mut Ctx<'_>)| {
        act(osd, &mut Ctx { now: Instant(1), wall: UTime::default(), store, effects: &mut Vec::new() });
    };
    let commit = |osd: &mut Osd, store: &mut MemStore| {
        for done in store.complete() {
            act(osd, store, &mut |osd, ctx| osd.pg_completion(done, ctx));
        }
    };
    // Each map follows the one before it, and names those who act instead of the PG's OSD.
    let next = |osd: &mut Osd, store: &mut MemStore, acting: Option<OsdId>| {
        let (mut map, fsid) = (osd.map.clone(), osd.map.fsid);
        let mut inc = Incremental::new(fsid, map.epoch.next());
        inc.new_pg_temp.extend(acting.map(|osd| (pgid, vec![osd])));
        map.apply(&inc).unwrap();
        inc.full_crc = map.to_bytes_and_crc().1;
        let incrementals = [(inc.epoch, inc.to_bytes(Features::PACIFIC))].into();
        let message = MOSDMap { fsid, incrementals, newest: inc.epoch, ..MOSDMap::default() };
        act(osd, store, &mut |osd, ctx| osd.on_osd_map(MapSource::Monitor, message.clone(), ctx));
        assert_eq!(osd.map.epoch, inc.epoch);
    };
    let creation = PgCreation { pgid, created: first, intervals: Vec::new() };
    act(&mut osd, &mut store, &mut |osd, ctx| osd.make_pg(creation.clone(), first, ctx));
    commit(&mut osd, &mut store);
    next(&mut osd, &mut store, None);
    // Others lead, one after the other, and the store comes to neither.
    let last = osd.map.epoch;
    for osds in [other, me] {
        next(&mut osd, &mut store, Some(osds));
    }
    for _ in 0..EPOCHS_KEPT + last.0 {
        next(&mut osd, &mut store, None);
    }
    assert_eq!(osd.maps.oldest, last);
    // It has come to them.
    commit(&mut osd, &mut store);
    let newest = osd.map.epoch;
    next(&mut osd, &mut store, None);
    assert_eq!(osd.maps.oldest, Epoch(newest.next().0 - EPOCHS_KEPT));
}
