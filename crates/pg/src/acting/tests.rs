//! The acting set that is wanted, by what every copy has.

use types::{EVersion, OsdId, PgInfo};

use crate::{Effect, pg::Phase, test_world::World};

/// A primary with three changes, another OSD that has them, and one that has nothing. A copy that lacks more than two
/// changes is filled before it acts.
fn primary() -> (World, OsdId, OsdId) {
    let mut world = World::of(2);
    let (me, whole) = (world.pg.me, world.peers[0]);
    let new = (0..3).map(OsdId).find(|osd| *osd != me && *osd != whole).unwrap();
    world.recovery.fill_first = 2;
    let all = PgInfo { last_update: world.pg.info.last_update, ..PgInfo::default() };
    world.pg.peer_info = [(whole, all), (new, PgInfo::default())].into();
    world.pg.phase = Phase::WaitActing;
    world.effects.clear();
    (world, whole, new)
}

/// The acting set that is wanted for this up set while `acting` acts.
fn wanted(world: &mut World, up: &[OsdId], acting: &[OsdId]) -> Vec<OsdId> {
    (world.pg.members.up, world.pg.members.acting) = (up.to_vec(), acting.to_vec());
    (world.pg.members.up_primary, world.pg.members.primary) = (up[0], acting[0]);
    let fill_first = world.recovery.fill_first;
    world.act(|pg, ctx| pg.wanted_acting(fill_first, ctx.map))
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
