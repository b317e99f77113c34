//! What is refused of other OSDs, and that nothing of it is done.

mod damage;

use messages::{MOSDRepOpReply, MPgActivated, MPgBadCopy, MPgCommitted, MPgPull, PriorLease};
use types::{CollMerge, Missing, PgId, PgTotals, PoolId};

use super::*;
use crate::test_world::World;

/// What was refused since it was asked last, and of whom.
pub(crate) fn refused(world: &mut World) -> Vec<(OsdId, Nonsense)> {
    let effects = world.effects.extract_if(.., |effect| matches!(effect, Effect::Refused(..)));
    let refused = effects.filter_map(|effect| match effect {
        Effect::Refused(osd, nonsense) => Some((osd, nonsense)),
        _ => None,
    });
    refused.collect()
}

/// The primary's next change of an object of a replica that has three, which is to write it anew.
pub(crate) fn change(world: &World, at: u64) -> MOSDRepOp {
    let entry = LogEntry { prior_version: world.version(at), ..world.entry(at, 4, at) };
    MOSDRepOp {
        pgid: world.pg.pgid,
        epoch: world.map.epoch,
        version: entry.version,
        log: vec![entry],
        trim_to: EVersion::ZERO,
        totals: PgTotals::default(),
        txn: world.content(at, 4),
        committed_to: world.version(3),
    }
}

/// Of the first peer: `message` is refused for this, and leaves all as it was.
#[track_caller]
fn is_refused(world: &mut World, message: Message, expected: Nonsense) {
    let (peer, name, last) = (world.peers[0], message.name(), world.pg.info.last_update);
    let before = format!("{:?}", world.store);
    world.say(peer, message);
    assert_eq!(refused(world), [(peer, expected)], "{name}");
    assert!(world.pg.info.last_update == last && format!("{:?}", world.store) == before, "{name}");
}

#[test]
fn a_change_of_anything_but_the_pgs_objects_is_refused() {
    let mut world = World::replica();
    world.map.pools.get_mut(&world.pg.pgid.pool).unwrap().set_pg_num(4);
    let elsewhere = PgId::new(world.pg.pgid.pool, world.pg.pgid.seed + 1);
    let check = |world: &mut World, spoil: &dyn Fn(&mut MOSDRepOp), expected| {
        let mut change = change(world, 1);
        spoil(&mut change);
        is_refused(world, change.into(), expected);
    };
    check(&mut world, &|op| op.txn.coll = CollId::pg(elsewhere), Nonsense::OtherPlace);
    check(&mut world, &|op| op.txn.ops.push(TxnOp::RemoveCollection), Nonsense::OtherPlace);
    let (from, to) = (HObject::min(), HObject::max());
    let merge = TxnOp::Merge(Box::new(CollMerge { source: CollId::pg(elsewhere), from, to }));
    check(&mut world, &|op| op.txn.ops.push(merge.clone()), Nonsense::OtherPlace);
    let object = world.object(1);
    let strangers = [
        // What the PG keeps of itself, and what the OSD does.
        crate::meta::object(),
        HObject { pool: PoolId(-1), ..object.clone() },
        HObject { hash: 1, ..object.clone() },
        object.with_snap(SnapId::DIR),
        HObject { is_max: true, ..object.clone() },
    ];
    for other in strangers {
        let touch = |op: &mut MOSDRepOp| op.txn.push(&other, Mutation::Touch);
        check(&mut world, &touch, Nonsense::OtherPlace);
        let source = Box::new(other.clone());
        let clone = Mutation::CloneFrom { source };
        check(&mut world, &|op| op.txn.push(&object, clone.clone()), Nonsense::OtherPlace);
        check(&mut world, &|op| op.log[0].object = other.clone(), Nonsense::OtherPlace);
    }
    let size = OBJECT_BYTES_MAX + 1;
    check(&mut world, &|op| op.txn.push(&object, Mutation::Truncate { size }), Nonsense::Extent);
    let zero = Mutation::Zero { offset: size - 1, len: u64::MAX };
    check(&mut world, &|op| op.txn.push(&object, zero.clone()), Nonsense::Extent);
    let (peer, sound) = (world.peers[0], change(&world, 1));
    world.say(peer, sound.into());
    assert_eq!((refused(&mut world), world.stored(1)), (vec![], 4));
}

#[test]
fn changes_out_of_order_are_refused() {
    let mut world = World::replica();
    let to_come = world.map.epoch.next();
    let check = |world: &mut World, spoil: &dyn Fn(&mut MOSDRepOp), expected| {
        let mut change = change(world, 1);
        spoil(&mut change);
        is_refused(world, change.into(), expected);
    };
    let numbered = |op: &mut MOSDRepOp, version: EVersion| {
        (op.version, op.log[0].version) = (version, version);
    };
    let epoch = world.map.epoch;
    let at = |version: u64| EVersion::new(epoch, version);
    for (version, expected) in [
        (at(3), Nonsense::Order),
        (at(0), Nonsense::Order),
        (at(VERSION_END), Nonsense::Order),
        (at(u64::MAX), Nonsense::Order),
        (EVersion::new(Epoch(1), 4), Nonsense::Unmade),
        (EVersion::new(to_come, 4), Nonsense::Epoch),
        (EVersion::MAX, Nonsense::Epoch),
    ] {
        check(&mut world, &|op| numbered(op, version), expected);
    }
    check(&mut world, &|op| op.version.version += 1, Nonsense::Order);
    check(&mut world, &|op| op.log.push(op.log[0].clone()), Nonsense::Order);
    check(&mut world, &|op| op.trim_to = at(5), Nonsense::Unmade);
    check(&mut world, &|op| op.trim_to = EVersion::MAX, Nonsense::Unmade);
    check(&mut world, &|op| op.committed_to = EVersion::MAX, Nonsense::Unmade);
    check(&mut world, &|op| op.log.clear(), Nonsense::Unmade);
    check(&mut world, &|op| op.epoch = to_come, Nonsense::Epoch);
    let (pgid, committed_to) = (world.pg.pgid, world.version(4));
    is_refused(&mut world, MPgCommitted { pgid, epoch, committed_to }.into(), Nonsense::Unmade);
}

/// Of a push that names another PG, and of one that another object comes with.
#[test]
fn a_push_makes_the_object_that_it_names_and_nothing_else() {
    for is_part in [false, true] {
        let mut world = World::replica();
        let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
        let (object, version) = (world.object(1), world.version(1));
        let bad = MPgBadCopy { pgid, epoch, object: object.clone(), version };
        world.say(world.peers[0], bad.into());
        let push = |txn: Transaction| {
            let mut push = MPgPush::whole((pgid, epoch), object.clone(), version, txn);
            push.next = is_part.then(Default::default);
            push
        };
        let mut txn = world.content(1, 1);
        txn.coll = CollId::pg(PgId::new(pgid.pool, pgid.seed + 1));
        is_refused(&mut world, push(txn).into(), Nonsense::OtherPlace);
        for op in [TxnOp::RemoveCollection, TxnOp::Object(world.object(2), Mutation::Remove)] {
            let mut txn = world.content(1, 1);
            txn.ops.push(op);
            is_refused(&mut world, push(txn).into(), Nonsense::OtherPlace);
        }
        let mut txn = world.content(1, 1);
        txn.push(&object, Mutation::CloneFrom { source: Box::new(object.clone()) });
        is_refused(&mut world, push(txn).into(), Nonsense::OtherPlace);
        assert_eq!(world.missing(), [(object.clone(), 1)]);
    }
}

fn notify(world: &World, spoil: impl FnOnce(&mut MPgNotify)) -> Message {
    let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
    let (info, intervals, leases) = (PgInfo::default(), Vec::new(), Vec::new());
    let mut notify = MPgNotify { pgid, epoch, info, intervals, leases };
    spoil(&mut notify);
    notify.into()
}

#[test]
fn a_copy_that_tells_of_what_is_to_come_is_refused() {
    let mut world = World::active();
    let (clean, to_come) = (world.pg.info.last_epoch_clean, world.map.epoch.next());
    let epochs: [fn(&mut PgInfo) -> &mut Epoch; 9] = [
        |info| &mut info.last_epoch_started,
        |info| &mut info.last_epoch_clean,
        |info| &mut info.last_epoch_split,
        |info| &mut info.created,
        |info| &mut info.epoch,
        |info| &mut info.since,
        |info| &mut info.primary_since,
        |info| &mut info.last_update.epoch,
        |info| &mut info.log_tail.epoch,
    ];
    for epoch in epochs {
        for spoilt in [to_come, Epoch(u32::MAX)] {
            let told = notify(&world, |notify| *epoch(&mut notify.info) = spoilt);
            is_refused(&mut world, told, Nonsense::Epoch);
        }
    }
    let told = notify(&world, |notify| notify.info.last_update.version = u64::MAX);
    is_refused(&mut world, told, Nonsense::Order);
    let told = notify(&world, |notify| notify.info.log_tail.version = u64::MAX);
    is_refused(&mut world, told, Nonsense::Order);
    let past = |first: Epoch, last: Epoch| vec![PgInterval { first, last, ..PgInterval::default() }];
    let now = world.map.epoch;
    for (first, last, expected) in [
        (now, to_come, Nonsense::Epoch),
        (Epoch(1), Epoch(u32::MAX), Nonsense::Epoch),
        (now, Epoch(now.0 - 1), Nonsense::Order),
    ] {
        let told = notify(&world, |notify| notify.intervals = past(first, last));
        is_refused(&mut world, told, expected);
    }
    let lease = |left_ns| vec![PriorLease { osd: OsdId(2), left_ns }];
    let longest = LEASE_AT_MOST.as_nanos() as u64;
    for left_ns in [longest + 1, u64::MAX] {
        let told = notify(&world, |notify| notify.leases = lease(left_ns));
        is_refused(&mut world, told, Nonsense::Lease);
    }
    assert_eq!(world.pg.info.last_epoch_clean, clean);
    let (peer, told) = (world.peers[0], notify(&world, |notify| notify.leases = lease(longest)));
    world.say(peer, told);
    assert_eq!(refused(&mut world), []);
}

#[test]
fn a_log_out_of_order_or_of_other_objects_is_refused() {
    let mut world = World::replica();
    let log = |world: &World, spoil: &dyn Fn(&mut MPgLog)| {
        let entries = vec![world.entry(1, 4, 1), world.entry(2, 5, 2)];
        let (last_update, log_tail) = (world.version(5), world.version(3));
        let info = PgInfo { last_update, log_tail, ..PgInfo::default() };
        let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
        let mut log = MPgLog { pgid, epoch, info, entries, is_activation: true, ..MPgLog::default() };
        spoil(&mut log);
        Message::from(log)
    };
    let object = HObject { pool: PoolId(-2), ..world.object(1) };
    let version = world.version(1);
    let past = PgInterval { first: Epoch(1), last: Epoch(1), ..PgInterval::default() };
    let (of_pg, unmade) = (world.object(1), world.version(6));
    type Spoil<'a> = &'a dyn Fn(&mut MPgLog);
    let cases: [(Spoil<'_>, Nonsense); 13] = [
        (&|log| log.entries.reverse(), Nonsense::Order),
        (&|log| log.entries[0].version.version = 0, Nonsense::Order),
        (&|log| log.entries[1].version.version = u64::MAX, Nonsense::Order),
        (&|log| log.entries[1].version.version = 6, Nonsense::Order),
        (&|log| log.entries[0].version.epoch = Epoch(u32::MAX), Nonsense::Order),
        (&|log| log.info.last_update.version = u64::MAX, Nonsense::Order),
        (&|log| log.entries[0].object = object.clone(), Nonsense::OtherPlace),
        (&|log| log.objects = Some(vec![(object.clone(), version)]), Nonsense::OtherPlace),
        (&|log| log.missing = Missing::from([(object.clone(), version)]), Nonsense::OtherPlace),
        (&|log| log.intervals = vec![PgInterval { last: Epoch(u32::MAX), ..past.clone() }], Nonsense::Epoch),
        (&|log| log.intervals = vec![PgInterval { last: Epoch(0), ..past.clone() }], Nonsense::Order),
        (&|log| log.objects = Some(vec![(of_pg.clone(), unmade)]), Nonsense::Unmade),
        (&|log| log.missing = Missing::from([(of_pg.clone(), unmade)]), Nonsense::Unmade),
    ];
    for (spoil, expected) in cases {
        let spoilt = log(&world, spoil);
        is_refused(&mut world, spoilt, expected);
    }
    let (peer, sound) = (world.peers[0], log(&world, &|_| ()));
    world.say(peer, sound);
    assert_eq!((refused(&mut world), world.pg.info.last_update), (vec![], world.version(5)));
}

#[test]
fn what_was_not_made_is_durable_nowhere() {
    let mut world = World::active();
    let (pgid, epoch, version) = (world.pg.pgid, world.map.epoch, world.version(9));
    is_refused(&mut world, MOSDRepOpReply { pgid, epoch, version }.into(), Nonsense::Unmade);
    let missing = Missing::from([(crate::meta::object(), version)]);
    is_refused(
        &mut world,
        MPgActivated { pgid, epoch, missing, takes_clones: true }.into(),
        Nonsense::OtherPlace,
    );
}

/// What the primary has would be refused as too old, and then the primary would hold its own copy for bad.
#[test]
fn no_copy_lacks_what_was_not_made() {
    let mut world = World::active();
    world.act(|pg, ctx| pg.start_interval(ctx));
    let (pgid, epoch, object) = (world.pg.pgid, world.map.epoch, world.object(1));
    for peer in world.peers.clone() {
        let told = notify(&world, |told| told.info.last_update = world.version(3));
        world.say(peer, told);
    }
    let lacks = |version| {
        let missing = Missing::from([(object.clone(), version)]);
        Message::from(MPgActivated { pgid, epoch, missing, takes_clones: true })
    };
    let (peer, unmade) = (world.peers[0], world.version(4));
    is_refused(&mut world, lacks(unmade), Nonsense::Unmade);
    assert!(world.pg.is_activating(peer) && !world.pg.peer_missing.contains_key(&peer));
    world.say(peer, lacks(world.version(3)));
    assert_eq!((refused(&mut world), world.pg.is_activating(peer)), (vec![], false));

    let mut world = World::replica();
    let bad = MPgBadCopy { pgid, epoch, object: world.object(1), version: unmade };
    is_refused(&mut world, bad.into(), Nonsense::Unmade);
    let pull = MPgPull { pgid, epoch, object, version: unmade, ..MPgPull::default() };
    is_refused(&mut world, pull.into(), Nonsense::Unmade);
}

/// Object 1, which the replica has lacked since its second change, is pushed as it was before and after. Nothing of the
/// versions that no change made is kept.
#[test]
fn a_push_is_of_a_version_that_was_made() {
    let mut world = World::replica();
    let changes = vec![world.entry(1, 4, 1), world.entry(2, 5, 2)];
    world.activate(3, changes, 5, None);
    assert_eq!(world.missing(), [(world.object(1), 4), (world.object(2), 5)]);
    let (peer, pgid, epoch) = (world.peers[0], world.pg.pgid, world.map.epoch);
    let push = |world: &World, at: u64, version: u64, of_info: u64| {
        let (object, txn) = (world.object(at), world.content(at, of_info));
        Message::from(MPgPush::whole((pgid, epoch), object, world.version(version), txn))
    };
    for (at, version, of_info) in [
        (1, 6, 6),
        (1, u64::MAX, u64::MAX),
        // Of objects that are here, too.
        (3, 6, 6),
        // It was made of another object.
        (1, 5, 5),
        (1, 4, 6),
        (1, 4, 3),
    ] {
        for is_part in [false, true] {
            let mut message = push(&world, at, version, of_info);
            if let Message::MPgPush(push) = &mut message {
                push.next = is_part.then(Default::default);
            }
            is_refused(&mut world, message, Nonsense::Unmade);
        }
    }
    let epoch_to_come = EVersion::new(epoch.next(), 4);
    let part = MPgPush::whole((pgid, epoch), world.object(1), epoch_to_come, Transaction::new(world.pg.coll));
    is_refused(&mut world, part.into(), Nonsense::Unmade);
    // The primary has lost its second change: that is damage, and told.
    world.told();
    let older = push(&world, 1, 1, 1);
    world.say(peer, older);
    assert!(matches!(&world.told()[..], [(_, Message::MPgPush(word))] if word.version == EVersion::ZERO));
    // A change that has come since is sent as well.
    let mut change = change(&world, 1);
    change.version = world.version(6);
    change.log[0] = world.entry(1, 6, 4);
    change.txn = Transaction::new(world.pg.coll);
    world.say(peer, change.into());
    for (at, version) in [(1, 6), (2, 5)] {
        let sound = push(&world, at, version, version);
        world.say(peer, sound);
    }
    assert_eq!((refused(&mut world), world.missing()), (vec![], vec![]));
    assert_eq!([1, 2].map(|at| world.stored(at)), [6, 5]);
}

/// Counts are believed, as nothing tells that they are wrong.
#[test]
fn counts_of_another_osd_end_at_the_highest_number() {
    const ALL: u64 = u64::MAX;
    let mut world = World::active();
    world.pg.info.totals = PgTotals { objects: ALL, clones: ALL, bytes: ALL };
    world.pg.members.size = 5;
    let sum = world.act(|pg, ctx| pg.stat(ctx.map, ctx.wall)).sum;
    assert_eq!((sum.object_copies, sum.degraded), (ALL, ALL));
    world.pg.members.size = 3;
    world.act(|pg, ctx| pg.start_interval(ctx));
    let last_update = world.version(1);
    for peer in world.peers.clone() {
        let told = notify(&world, |told| {
            told.info = PgInfo { last_update, missing_count: ALL, ..PgInfo::default() };
        });
        world.say(peer, told);
    }
    assert!(refused(&mut world).is_empty());
}
