//! Messages of other OSDs that are damaged and can be decoded all the same: they are heard or refused, and whatever
//! comes of it, the PG has its own collection and a record in it that can be read, and serves.

use codec::Payload;
use messages::{
    MOSDOp, MOSDRepScrub, MOSDRepScrubMap, MOSDScrubReserve, MPgClean, MPgCopyData, MPgCopyGet, MPgInfo,
    MPgProxyOp, MPgProxyReply, MPgPull, MPgPushRefused, MPgPushReply, MPgQuery, RawMessage, ScrubReserveStep,
};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};
use store::ObjectStore;
use types::{ChunkMap, EntityAddr, EntityNum, IntervalSet, PgInterval, ScrubHistory, ScrubObject, UTime};

use super::*;
use crate::{
    Event, GiveUp, ScrubRequest,
    damage::{Damage, damage, damaged},
    meta,
};

/// What a PG is when others speak to it.
#[derive(Clone, Copy, Debug)]
enum Part {
    Replica,
    /// A primary with a change under way, and a scrub.
    Active,
    /// A primary that has lost an object, and asks for older versions.
    GivesUp,
    /// A primary that asks what others have.
    Peers,
}

fn world(part: Part) -> World {
    match part {
        Part::Replica => World::replica(),
        Part::Active => {
            let mut world = World::active();
            world.handle(Event::Scrub(ScrubRequest { is_deep: true, is_repair: true }));
            world.handle(Event::Tick);
            let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
            for peer in world.peers.clone() {
                world
                    .say(peer, MOSDScrubReserve { pgid, epoch, id: 1, step: ScrubReserveStep::GRANT }.into());
            }
            assert!(world.pg.scrubs.is_under_way());
            world.write(9, 1);
            world
        }
        Part::GivesUp => {
            let mut world = World::active();
            world.lose(3);
            world.handle(Event::GiveUp(GiveUp::Revert));
            world
        }
        Part::Peers => {
            let mut world = World::active();
            world.act(|pg, ctx| pg.start_interval(ctx));
            world
        }
    }
}

fn info(world: &World, last: u64) -> PgInfo {
    let mut purged_snaps = IntervalSet::new();
    purged_snaps.insert(3, 2);
    let (last_update, epoch) = (world.version(last), world.map.epoch);
    PgInfo { last_update, epoch, since: epoch, created: Epoch(1), purged_snaps, ..PgInfo::default() }
}

/// What copies say while a PG peers.
fn of_peering(world: &World) -> Vec<Message> {
    let (pgid, epoch, before) = (world.pg.pgid, world.map.epoch, Epoch(world.map.epoch.0 - 1));
    let acting = world.peers.clone();
    let interval = PgInterval {
        first: before,
        last: before,
        primary: acting[0],
        acting,
        maybe_went_rw: true,
        forgotten_since: Epoch(0),
    };
    let leases = vec![PriorLease { osd: OsdId(2), left_ns: 5 }];
    let notify =
        |info| MPgNotify { pgid, epoch, info, intervals: vec![interval.clone()], leases: leases.clone() };
    let missing = Missing::from([(world.object(2), world.version(2))]);
    let entries = vec![world.entry(1, 4, 1), LogEntry { is_delete: true, ..world.entry(2, 5, 2) }];
    let objects = (1..4).map(|at| (world.object(at), world.version(at))).collect();
    let log = MPgLog {
        pgid,
        epoch,
        info: PgInfo { log_tail: world.version(3), ..info(world, 5) },
        entries,
        missing: missing.clone(),
        intervals: vec![interval.clone()],
        ..MPgLog::default()
    };
    let listed = MPgLog { objects: Some(objects), ..log.clone() };
    let query = MPgQuery { pgid, epoch, created: Epoch(1), since: world.version(1), ..MPgQuery::default() };
    vec![
        notify(info(world, 3)).into(),
        notify(info(world, 5)).into(),
        MPgLog { is_activation: true, ..log.clone() }.into(),
        MPgLog { is_activation: true, ..listed.clone() }.into(),
        log.into(),
        listed.into(),
        MPgActivated { pgid, epoch, missing, takes_clones: true }.into(),
        query.into(),
        MPgQuery { wants_log: true, ..query }.into(),
        MPgClean { pgid, epoch, remove: false }.into(),
    ]
}

/// What copies say of objects.
fn of_objects(world: &World) -> Vec<Message> {
    let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
    let (object, version) = (world.object(3), world.version(1));
    let push = MPgPush::whole((pgid, epoch), object.clone(), version, world.content(3, 1));
    let part =
        MPgPush { next: Some(messages::ObjectCursor { data: 4, ..Default::default() }), ..push.clone() };
    let told = ScrubObject { object: world.object(1), size: 10, ..ScrubObject::default() };
    let (start, end) = (HObject::min(), HObject::max());
    vec![
        change(world, 1).into(),
        MOSDRepOpReply { pgid, epoch, version: world.pg.info.last_update }.into(),
        MPgCommitted { pgid, epoch, committed_to: version }.into(),
        MPgInfo { pgid, epoch, history: ScrubHistory::default(), ..MPgInfo::default() }.into(),
        MPgPull { pgid, epoch, object: object.clone(), version, ..MPgPull::default() }.into(),
        push.into(),
        part.into(),
        MPgPushReply { pgid, epoch, object: object.clone() }.into(),
        MPgPushRefused { pgid, epoch, object: object.clone(), bytes: 1 }.into(),
        MPgBadCopy { pgid, epoch, object, version }.into(),
        MOSDRepScrub { pgid, epoch, id: 2, start, end, is_deep: true }.into(),
        MOSDRepScrubMap { pgid, epoch, id: 2, objects: vec![told], is_too_much: false }.into(),
        MOSDScrubReserve { pgid, epoch, id: 1, step: ScrubReserveStep::REQUEST }.into(),
    ]
}

/// What PGs ask of each other.
fn of_requests(world: &World) -> Vec<Message> {
    let (pgid, epoch, asker, id) = (world.pg.pgid, world.map.epoch, world.pg.pgid, 7);
    let object = world.object(1);
    let op = MOSDOp { pgid, epoch, hash: pgid.seed, ..MOSDOp::default() };
    let (client, addr) = (EntityNum::client(4), EntityAddr::default());
    let data = MPgCopyData {
        pgid,
        epoch,
        id,
        result: 0,
        user_version: 1,
        truncate_seq: 0,
        truncate_size: 0,
        txn: world.content(1, 1),
        elsewhere: None,
        missing: ChunkMap::new(),
        mtime: Some(UTime::default()),
    };
    vec![
        MPgCopyGet { pgid, epoch, object: object.clone(), asker, id }.into(),
        data.into(),
        MPgProxyOp { pgid, epoch, asker, id, client, addr, tid: 1, path: vec![object], op }.into(),
        MPgProxyReply { pgid, epoch, id, reply: Default::default() }.into(),
    ]
}

/// As it arrives, if it can be decoded.
fn arriving(message: &Message, of_front: &[Damage], of_data: &[Damage]) -> Option<Message> {
    let mut raw = message.encode(1);
    let data = Payload::joined(std::mem::take(&mut raw.data_more)).into_bytes();
    let (front, data) = (damaged(&raw.front, of_front), damaged(&data, of_data));
    let raw = RawMessage { front, data: Payload::from(data), ..raw };
    Message::decode(raw).ok().filter(|message| !matches!(message, Message::Unknown(_)))
}

/// What there is can be read, and is of this PG.
fn check_store(world: &World) {
    assert_eq!(world.store.collections(), [world.pg.coll]);
    let kept = meta::load(&world.store, world.pg.coll).unwrap().expect("the PG is there");
    assert!(kept.log.is_sorted_by(|one, next| one.version.version < next.version.version));
    assert!(world.pg.log.iter().is_sorted_by(|one, next| one.version.version < next.version.version));
    let last = world.pg.log.iter().next_back().map_or(EVersion::ZERO, |entry| entry.version);
    assert!(is_upto(last, world.pg.info.last_update) && last.epoch <= world.map.epoch);
}

proptest! {
    #![proptest_config(::damage::cases(600))]

    #[test]
    fn whatever_other_osds_say_the_pg_goes_on(
        part in select(vec![Part::Replica, Part::Active, Part::GivesUp, Part::Peers]),
        said in vec((any::<Index>(), 0usize..3, vec(damage(), 0..3), vec(damage(), 0..2)), 1..6),
    ) {
        let mut world = world(part);
        let mut silenced = Vec::new();
        for (at, who, of_front, of_data) in said {
            let mut all = of_peering(&world);
            all.extend(of_objects(&world));
            all.extend(of_requests(&world));
            // One of the others is no member.
            let from = world.peers.get(who).copied().unwrap_or(OsdId(77));
            let message = arriving(at.get(&all), &of_front, &of_data);
            if let Some(message) = message.filter(|_| !silenced.contains(&from)) {
                world.say(from, message);
            }
            silenced.extend(refused(&mut world).into_iter().map(|(osd, _)| osd));
            check_store(&world);
            world.told();
        }
        for tid in 2..4 {
            world.now = world.now + LEASE_AT_MOST;
            world.hear_all();
            world.handle(Event::Tick);
            world.write(tid, tid);
        }
        world.act(|pg, ctx| {
            pg.query(ctx.map, ctx.wall);
            pg.stat(ctx.map, ctx.wall);
            pg.list_unfound(ctx.map);
        });
        check_store(&world);
        // In the next interval, too.
        world.act(|pg, ctx| pg.start_interval(ctx));
        if world.pg.is_primary() {
            world.activate_all();
            world.write(1, 9);
        }
        check_store(&world);
    }
}
