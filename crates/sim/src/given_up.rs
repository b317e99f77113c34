//! Devices are destroyed beyond redundancy, and an operator gives up what no OSD has any more: that is lost then, and
//! nothing else.
//!
//! A pool has two copies and takes writes with one. One OSD is away while clients change objects; then the only OSD
//! that has these changes of the PGs of both is destroyed.

use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::StdRng};
use types::{OsdId, PgState, PoolId, SnapContext, SnapId};

use crate::{
    Options, World,
    numbered_objects::{Content, name},
    osd_process::{End, small_store},
    world::Scale,
};

const OSDS: usize = 3;
const OBJECTS: usize = 40;
/// The snapshot that is made before the OSD is away: there are more, but clients name none.
const SNAP: SnapId = SnapId(2);
/// After so long, what is given up is looked at again.
const LOOK: Duration = Duration::from_secs(20);
/// Orders to give up, at most.
const ORDERS_MAX: usize = 20;

/// How an operator gives up what is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// The OSD (`osd lost`): its PGs go on with what others have, and know of no later changes.
    Osd,
    /// Unfound objects, which become what they were before.
    Revert,
    /// Unfound objects, which are removed.
    Delete,
}

impl GivenUp {
    /// All there are.
    pub const ALL: [GivenUp; 3] = [GivenUp::Osd, GivenUp::Revert, GivenUp::Delete];
}

/// An object before the OSD was away, and after.
#[derive(Clone, Copy, Debug)]
struct Object {
    before: Content,
    after: Content,
    /// Only the OSD that is destroyed has what it is after.
    is_at_risk: bool,
}

impl Object {
    /// What may be found of it, as of the head.
    fn heads(&self, how: GivenUp) -> Vec<Content> {
        match (self.is_at_risk, how) {
            (false, _) => vec![self.after],
            (true, GivenUp::Osd | GivenUp::Revert) => vec![self.after, self.before],
            (true, GivenUp::Delete) => vec![self.after, None],
        }
    }

    /// As of the snapshot.
    fn snaps(&self) -> Vec<Content> {
        if self.is_at_risk { vec![self.before, None] } else { vec![self.before] }
    }
}

impl World {
    /// Lives through it. How many objects are not what they were after the changes, as they may be. With `loses_more`,
    /// another object disappears in addition, which must be told.
    pub fn given_up(how: GivenUp, seed: u64, loses_more: bool) -> Result<usize, String> {
        let mut rng = StdRng::seed_from_u64(seed);
        let shards = [1, 2][rng.random_range(0..2)];
        let scale = Scale { is_busy: true, shards, ..Scale::new(OSDS, small_store(&mut rng), 8) };
        let options = Options { copies: Some(2), ..Options::new(seed) };
        let mut world = World::of(options, scale, rng);
        let pool = world.set_up()?;
        world.make_snaps(pool)?;
        let mut objects: Vec<Object> = (0..OBJECTS)
            .map(|_| {
                let before = world.rng.random_bool(0.8).then_some(1);
                Object { before, after: before, is_at_risk: false }
            })
            .collect();
        for (at, object) in objects.iter().enumerate() {
            world.put(pool, at, None, object.before, SnapContext::default())?;
        }
        world.until("all PGs to be clean", World::is_clean)?;
        // The OSDs of some object.
        let acting = world.acting(pool, 0);
        let [one, other] = acting[..] else { return Err(format!("an object is on {acting:?}")) };
        let (one, other) = (one.0 as usize, other.0 as usize);
        let (lost, away) = if world.rng.random() { (one, other) } else { (other, one) };
        world.change_without(away, lost, pool, &mut objects)?;
        world.destroy(how, lost, away)?;
        if loses_more {
            let safe = objects.iter().position(|object| !object.is_at_risk && object.after.is_some());
            let safe = safe.ok_or("all objects are at risk")?;
            world.put(pool, safe, Some(1), None, SnapContext::default())?;
        }
        let lost = world.check_objects(how, pool, &objects)?;
        world.repair()?;
        world.compare_copies()?;
        Ok(lost)
    }

    /// An OSD is away while some objects change.
    fn change_without(
        &mut self,
        away: usize,
        lost: usize,
        pool: PoolId,
        objects: &mut [Object],
    ) -> Result<(), String> {
        self.command(r#"{"prefix":"osd set","key":"noout"}"#.to_owned());
        self.end(self.osd_process(away), End::Killed);
        self.until("the OSD to be down", move |w| w.is_down(away))?;
        self.until("PGs to be active", |w| w.are_all(PgState::ACTIVE))?;
        let snapc = SnapContext { seq: SNAP, snaps: vec![SNAP] };
        for (at, object) in objects.iter_mut().enumerate() {
            object.after = match self.rng.random_range(0..4) {
                0 => continue,
                1 => None,
                _ => Some(2),
            };
            object.is_at_risk = self.acting(pool, at) == [OsdId(lost as i32)];
            self.put(pool, at, object.before, object.after, snapc.clone())?;
        }
        Ok(())
    }

    /// The OSDs that have an object now.
    fn acting(&self, pool: PoolId, at: usize) -> Vec<OsdId> {
        let Some(map) = self.osdmap() else { return Vec::new() };
        let Some((_, pgid)) = map.object_to_pg(pool, b"", b"", &name(at)) else { return Vec::new() };
        let mut acting = map.pg_to_up_acting(pgid).acting;
        acting.retain(|osd| osd.is_some() && !map.is_down(*osd));
        acting
    }

    /// The OSD that was away comes back; another one is destroyed, before or after the first one knows what it lacks.
    /// When that was given up, it is made anew, or turns out to be whole.
    fn destroy(&mut self, how: GivenUp, lost: usize, away: usize) -> Result<(), String> {
        let gone = self.osd_process(lost);
        if how == GivenUp::Osd {
            self.end(gone, End::PowerCut);
            self.until("the OSD to be down", move |w| w.is_down(lost))?;
            self.start(self.osd_process(away));
            self.until("the OSD to be up", move |w| !w.is_down(away))?;
        } else {
            self.command(r#"{"prefix":"osd set","key":"norecover"}"#.to_owned());
            self.command(r#"{"prefix":"osd set","key":"nobackfill"}"#.to_owned());
            self.start(self.osd_process(away));
            self.until("the OSD to be up", move |w| !w.is_down(away))?;
            self.until("PGs to be active", |w| w.are_all(PgState::ACTIVE))?;
            self.end(gone, End::PowerCut);
            self.until("the OSD to be down", move |w| w.is_down(lost))?;
            self.command(r#"{"prefix":"osd unset","key":"norecover"}"#.to_owned());
            self.command(r#"{"prefix":"osd unset","key":"nobackfill"}"#.to_owned());
        }
        self.pass(LOOK)?;
        if how == GivenUp::Osd && self.pgs_in(PgState::DOWN).is_empty() {
            return Err("PGs do without the only copy of some changes".to_owned());
        }
        self.command(format!(r#"{{"prefix":"osd lost","id":"{lost}","yes_i_really_mean_it":true}}"#));
        self.until("PGs to be active", |w| w.are_all(PgState::ACTIVE))?;
        if how != GivenUp::Osd {
            self.give_up_objects(how)?;
        }
        // Or it has all that it had, of which the others know nothing, or that was given up.
        if self.rng.random() {
            self.give_new_device(lost);
        }
        self.start(gone);
        self.command(r#"{"prefix":"osd unset","key":"noout"}"#.to_owned());
        self.until("all PGs to be clean", World::is_clean)
    }

    /// Gives up all objects that are unfound; some OSDs crash meanwhile.
    fn give_up_objects(&mut self, how: GivenUp) -> Result<(), String> {
        let mulcmd = if how == GivenUp::Revert { "revert" } else { "delete" };
        for _ in 0..ORDERS_MAX {
            self.pass(LOOK)?;
            let pgs = self.pgs_in(PgState::RECOVERY_UNFOUND);
            if pgs.is_empty() {
                return Ok(());
            }
            for pgid in pgs {
                let primary = self.osdmap().map(|map| map.pg_to_up_acting(pgid).acting_primary.0);
                let Some(id) = primary.and_then(|id| usize::try_from(id).ok()) else { continue };
                let prefix = "mark_unfound_lost";
                self.osd_command(
                    id,
                    format!(r#"{{"prefix":"{prefix}","pgid":"{pgid}","mulcmd":"{mulcmd}"}}"#),
                );
                if self.rng.random_bool(0.3) {
                    let process = self.osd_process(id);
                    let pause = Duration::from_micros(self.rng.random_range(0..20_000));
                    self.pass(pause)?;
                    self.end(process, End::Killed);
                    self.start(process);
                }
            }
        }
        Err(format!("objects are unfound that were given up: {}", self.state()))
    }

    /// All objects are what they may be. How many are not what they were last.
    fn check_objects(&mut self, how: GivenUp, pool: PoolId, objects: &[Object]) -> Result<usize, String> {
        let mut lost = 0;
        for (at, object) in objects.iter().enumerate() {
            let views = [(SnapId::HEAD, object.heads(how)), (SNAP, object.snaps())];
            for (snapid, right) in views {
                let found = self.content(pool, at, snapid)?;
                if !right.contains(&found) {
                    return Err(format!(
                        "object {at} at {snapid:?} is {found:?}, it was not given up: {object:?}"
                    ));
                }
                lost += usize::from(snapid == SnapId::HEAD && found != object.after);
            }
        }
        Ok(lost)
    }
}
