//! The acting set that is wanted, by what every copy has.

use messages::{MPgNotify, Message};
use types::{EVersion, OsdId, PgInfo};

use crate::{Effect, Event, pg::Phase, test_world::World};

/// A primary with three changes, another OSD that has them, and one that has nothing. A copy that lacks more than two
/// changes is filled before it acts.
fn primary() -> (World, OsdId, OsdId) {
    let mut world = World::of(2);
    let (me, whole) = (world.pg.me, world.peers[0]);
    let new = (0..3).map(OsdId).find(|osd| *osd != me && *osd != whole).unwrap();
    world.recovery.fill_first = 2;
    let all = PgInfo { last_update: world.pg.info.last_update, ..PgInfo::default() };
    world.pg.peer_info = [(whole, all), (new, PgInfo::default())].into();
    world.pg.phase = Phase::WaitActing { has_log: true };
    world.effects.clear();
    (world, whole, new)
}

/// The acting set that is wanted for this up set while `acting` acts.
fn wanted(world: &mut World, up: &[OsdId], acting: &[OsdId]) -> Vec<OsdId> {
    (world.pg.members.up, world.pg.members.acting) = (up.to_vec(), acting.to_vec());
    (world.pg.members.up_primary, world.pg.members.primary) = (up[0], acting[0]);
    let fill_first = world.recovery.fill_first;
    world.act(|pg, ctx| {
        let leaders = [pg.members.up_primary, pg.members.primary];
        pg.wanted_acting(|osd| pg.is_whole(osd, fill_first, ctx.map), &leaders)
    })
}

#[test]
fn who_has_everything_stands_for_who_has_not() {
    let (mut world, whole, new) = primary();
    let me = world.pg.me;
    assert_eq!(wanted(&mut world, &[me, new], &[me, new]), [me, whole]);
    // The acting set stays so under its primary, even where the up set has another primary.
    assert_eq!(wanted(&mut world, &[me, new], &[me, whole]), [me, whole]);
    assert_eq!(wanted(&mut world, &[new, me], &[me, whole]), [me, whole]);
    assert_eq!(wanted(&mut world, &[new, whole], &[me, whole]), [me, whole]);
    assert_eq!(wanted(&mut world, &[new, whole], &[whole, me]), [whole, me]);
}

#[test]
fn those_act_who_are_up_when_they_have_nearly_everything() {
    let (mut world, _, new) = primary();
    let me = world.pg.me;
    world.recovery.fill_first = 3;
    assert_eq!(wanted(&mut world, &[new, me], &[me, new]), [new, me]);
    // The log does not reach it.
    world.pg.info.log_tail = world.version(1);
    assert_ne!(wanted(&mut world, &[new, me], &[me, new]), [new, me]);
    world.pg.info.log_tail = EVersion::ZERO;
    world.pg.peer_info.get_mut(&new).unwrap().missing_count = 1;
    assert_ne!(wanted(&mut world, &[new, me], &[me, new]), [new, me]);
}

#[test]
fn who_cannot_be_replaced_acts_and_does_not_lead() {
    let (mut world, whole, new) = primary();
    let me = world.pg.me;
    world.pg.peer_info.remove(&whole);
    assert_eq!(wanted(&mut world, &[me, new], &[me, new]), [me, new]);
    assert_eq!(wanted(&mut world, &[new, me], &[new, me]), [me, new]);
    // No copy has everything.
    let lacking: Vec<_> = (1..=3).map(|at| (world.object(at), world.version(at))).collect();
    world.pg.missing.extend(lacking);
    assert_eq!(wanted(&mut world, &[new, me], &[new, me]), [new, me]);
}

#[test]
fn who_is_not_up_stays_while_too_few_are() {
    let (mut world, whole, _) = primary();
    let me = world.pg.me;
    assert_eq!(wanted(&mut world, &[me], &[me]), [me, whole]);
    world.pg.members.size = 1;
    assert_eq!(wanted(&mut world, &[me], &[me, whole]), [me]);
}

/// A monitor takes no acting set that names an OSD twice, as some rules do.
#[test]
fn who_is_named_twice_acts_once() {
    let (mut world, whole, new) = primary();
    let me = world.pg.me;
    world.pg.members.size = 3;
    assert_eq!(wanted(&mut world, &[new, new, me], &[new, new, me]), [me, whole, new]);
    world.pg.peer_info.remove(&whole);
    assert_eq!(wanted(&mut world, &[new, new, me], &[new, new, me]), [me, new]);
    assert_eq!(wanted(&mut world, &[new, new, me], &[me, new]), [me, new]);
    // The same OSDs with the same primary are the up set.
    assert_eq!(wanted(&mut world, &[me, new, new], &[me, new, new]), [me, new, new]);
    world.recovery.fill_first = 3;
    assert_eq!(wanted(&mut world, &[new, new, me], &[me, new]), [new, new, me]);
}

#[test]
fn those_who_are_up_take_over_when_they_have_everything() {
    let (mut world, whole, new) = primary();
    let me = world.pg.me;
    wanted(&mut world, &[new, me], &[me, whole]);
    world.pg.phase = Phase::Active;
    world.pg.is_clean = false;
    let lacking = (world.object(1), world.version(1));
    world.pg.peer_missing.entry(new).or_default().extend([lacking]);
    let asked = |world: &mut World| {
        world.act(|pg, ctx| pg.recover(ctx));
        let effects = std::mem::take(&mut world.effects).into_iter();
        effects.filter_map(|e| if let Effect::WantActing(osds) = e { Some(osds) } else { None }).next()
    };
    assert_eq!(asked(&mut world), None);
    assert_eq!(world.pg.state().to_string(), "active+remapped+backfilling");
    let object = world.object(1);
    world.pg.peer_missing.get_mut(&new).unwrap().remove(&object);
    assert_eq!(asked(&mut world), Some(Vec::new()));
    assert!(!world.pg.is_clean, "only with those who are up");
    assert_eq!(world.pg.state().to_string(), "active+remapped");
}

/// A primary with three changes; the others tell this.
fn peered(fill_first: u64, infos: [PgInfo; 2]) -> World {
    let mut world = World::of(2);
    world.pg.members.size = 3;
    let new = (0..3).map(OsdId).find(|osd| *osd != world.pg.me && *osd != world.peers[0]).unwrap();
    let peers = [world.peers[0], new];
    world.recovery.fill_first = fill_first;
    let up = vec![world.pg.me, peers[0], peers[1]];
    (world.pg.members.up, world.pg.members.acting) = (up.clone(), up);
    world.act(|pg, ctx| pg.start_interval(ctx));
    for (peer, info) in peers.into_iter().zip(infos) {
        tell(&mut world, peer, info);
    }
    world
}

fn tell(world: &mut World, peer: OsdId, info: PgInfo) {
    let (pgid, epoch, intervals, leases) = (world.pg.pgid, world.map.epoch, Vec::new(), Vec::new());
    world.say(peer, MPgNotify { pgid, epoch, info, intervals, leases }.into());
}

/// The acting sets that it has asked for since, and whether it has asked for a log.
fn asked(world: &mut World) -> (Vec<Vec<OsdId>>, bool) {
    let acting = world.effects.iter().filter_map(|effect| match effect {
        Effect::WantActing(osds) => Some(osds.clone()),
        _ => None,
    });
    let acting = acting.collect();
    let wants_log = |message: &Message| matches!(message, Message::MPgQuery(query) if query.wants_log);
    (acting, world.told().iter().any(|(_, message)| wants_log(message)))
}

/// A copy whose log has the changes after `tail` up to `last`, and that was active later than all others.
fn active(world: &World, tail: u64, last: u64) -> PgInfo {
    PgInfo {
        log_tail: world.version(tail),
        last_update: world.version(last),
        last_epoch_started: world.map.epoch,
        ..PgInfo::default()
    }
}

/// It would need a list of all objects only to give way then.
#[test]
fn who_is_out_of_reach_of_the_best_log_gives_way_without_it() {
    let world = World::of(2);
    let best = active(&world, 5, 9);
    let same = PgInfo { last_update: world.version(9), ..PgInfo::default() };
    let near = PgInfo { last_update: world.version(7), ..PgInfo::default() };
    let lacking = PgInfo { missing_count: 1, ..near.clone() };
    for (other, in_order) in
        [(same, [1, 2, 0]), (near, [1, 2, 0]), (lacking, [1, 0, 2]), (PgInfo::default(), [1, 0, 2])]
    {
        let mut world = peered(2, [best.clone(), other]);
        assert_eq!(world.pg.phase, Phase::WaitActing { has_log: false });
        let osds = in_order.map(|at| world.pg.members.up[at]);
        assert_eq!(asked(&mut world), (vec![osds.to_vec()], false));
        assert!(world.pg.peer_missing.is_empty() && world.pg.missing.is_empty());
        // What the monitor was asked for may have been lost.
        world.act(|pg, ctx| pg.handle(Event::Tick, ctx));
        assert_eq!(asked(&mut world), (vec![osds.to_vec()], false));
    }
}

#[test]
fn who_may_catch_up_with_the_best_log_asks_for_it() {
    let world = World::of(2);
    let reaches = active(&world, 3, 9);
    let lacking = PgInfo { missing_count: 3, ..active(&world, 5, 9) };
    for best in [reaches, lacking] {
        let mut world = peered(2, [best, PgInfo::default()]);
        assert_eq!(world.pg.phase, Phase::GetLog { from: world.peers[0] });
        assert_eq!(asked(&mut world), (vec![], true));
    }
}

/// It has no log to go on with: whatever comes, it looks again at what all have told.
#[test]
fn who_gives_way_does_not_go_on_alone() {
    let world = World::of(2);
    let (best, better, reached) = (active(&world, 5, 9), active(&world, 6, 10), active(&world, 3, 9));
    let mut world = peered(2, [best, PgInfo::default()]);
    let [_, first, second] = world.pg.members.up[..] else { panic!("three") };
    asked(&mut world);
    tell(&mut world, second, better);
    let me = world.pg.me;
    assert_eq!(asked(&mut world), (vec![vec![second, first, me]], false));
    // Both begin new lives, the second one without what it had.
    let next = world.map.epoch.next();
    world.map.epoch = next;
    for osd in [first, second] {
        world.map.osd_info[usize::try_from(osd.0).unwrap()].up_from = next;
    }
    world.act(|pg, ctx| pg.on_map(ctx));
    assert!(matches!(world.pg.phase, Phase::GetInfo { .. }), "{:?}", world.pg.phase);
    tell(&mut world, second, PgInfo::default());
    tell(&mut world, first, reached);
    assert_eq!(world.pg.phase, Phase::GetLog { from: first });
}

/// Whoever was given way to does not hand back: that would go on for ever.
#[test]
fn who_was_given_way_to_goes_on_leading() {
    let (mut world, whole, new) = primary();
    let me = world.pg.me;
    world.pg.info.log_tail = world.version(2);
    for up in [[new, me], [new, whole]] {
        assert_eq!(wanted(&mut world, &up, &[me, whole])[0], me);
        assert_eq!(wanted(&mut world, &up, &[me, new])[0], me);
    }
}

/// Of copies that have the same changes, one that is being filled itself is no help, nor is one with a shorter log.
#[test]
fn of_copies_that_have_the_same_the_one_that_has_everything_leads() {
    let world = World::of(2);
    let whole = active(&world, 5, 9);
    let filled = PgInfo { missing_count: 50, ..whole.clone() };
    let reaches = active(&world, 2, 9);
    for (infos, to) in [([whole.clone(), filled.clone()], 1), ([filled, whole.clone()], 2)] {
        let mut world = peered(2, infos);
        let (acting, wants_log) = asked(&mut world);
        assert_eq!((acting[0][0], wants_log), (world.pg.members.up[to], false));
    }
    for (infos, from) in [([whole.clone(), reaches.clone()], 2), ([reaches, whole], 1)] {
        let world = peered(2, infos);
        assert_eq!(world.pg.phase, Phase::GetLog { from: world.pg.members.up[from] });
    }
}

/// OSDs may have other limits of what is nearly everything.
#[test]
fn who_lacks_something_goes_on_leading_where_the_other_would_give_way() {
    let (mut world, _, new) = primary();
    let me = world.pg.me;
    world.pg.peer_info.retain(|osd, _| *osd == new);
    let lacking: Vec<_> = (1..=3).map(|at| (world.object(at), world.version(at))).collect();
    world.pg.missing.extend(lacking);
    assert_eq!(wanted(&mut world, &[new, me], &[me, new]), [new, me]);
    world.pg.info.log_tail = world.version(2);
    assert_eq!(wanted(&mut world, &[new, me], &[me, new]), [me, new]);
    // Others act with it, where these are too few.
    assert_eq!(wanted(&mut world, &[new, me], &[me]), [me, new]);
}
