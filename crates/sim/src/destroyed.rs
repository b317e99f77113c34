//! An OSD is destroyed against advice: with one other, it alone has the newest changes, and that one is down. It is
//! made anew under its id. What its new store tells is nothing of what the one before had: the PGs wait for the other.

use std::time::Duration;

use rand::{SeedableRng, rngs::StdRng};
use types::{PgState, SnapContext, SnapId};

use crate::{
    Options, World,
    made_anew::Removal,
    osd_process::{End, small_store},
    workload::Workload,
    world::Scale,
};

const OSDS: usize = 3;
const OBJECTS: usize = 20;
/// After so long without the OSD that has all changes, it comes back.
const LOOK: Duration = Duration::from_secs(60);

impl World {
    /// Lives through it: nothing may be lost. The OSD is destroyed, or purged.
    pub fn destroyed(seed: u64) -> Result<(), String> {
        let mut rng = StdRng::seed_from_u64(seed);
        let scale = Scale { shards: 1 + (seed % 2) as u16, ..Scale::new(OSDS, small_store(&mut rng), 8) };
        let removal = if (seed / 2).is_multiple_of(2) { Removal::Destroy } else { Removal::Purge };
        let mut world = World::of(Options::new(seed), scale, rng);
        let pool = world.set_up()?;
        for at in 0..OBJECTS {
            world.put(pool, at, None, Some(1), SnapContext::default())?;
        }
        world.until("all PGs to be clean", World::is_clean)?;

        world.command(r#"{"prefix":"osd set","key":"noout"}"#.to_owned());
        let [behind, whole, anew] = [0, 1, 2].map(|nth| (nth + seed as usize / 4) % OSDS);
        world.end(world.osd_process(behind), End::Killed);
        world.until("an OSD to be down", move |w| w.is_down(behind))?;
        world.until("PGs to be active", |w| w.are_all(PgState::ACTIVE))?;
        for at in 0..OBJECTS {
            world.put(pool, at, Some(1), changed(at), SnapContext::default())?;
        }
        world.end(world.osd_process(whole), End::Killed);
        world.until("a second OSD to be down", move |w| w.is_down(whole))?;
        world.lose_device(anew, removal);
        // The key that the operator is given is an outcome, which is looked at only of clients with a workload.
        world.workloads.push(Workload::new(1, pool, StdRng::seed_from_u64(seed)));
        world.until("the OSD to be made anew", move |w| !w.is_removed(anew))?;
        world.workloads.clear();
        world.start(world.osd_process(behind));
        world.until("two OSDs to be up", move |w| !w.is_down(behind) && !w.is_down(anew))?;
        world.pass(LOOK)?;
        if !world.pgs_in(PgState::ACTIVE).is_empty() {
            return Err("PGs do without the changes that only an OSD has that is down".to_owned());
        }
        world.start(world.osd_process(whole));
        world.command(r#"{"prefix":"osd unset","key":"noout"}"#.to_owned());
        world.until("all PGs to be clean", World::is_clean)?;
        for at in 0..OBJECTS {
            let found = world.content(pool, at, SnapId::HEAD)?;
            if found != changed(at) {
                return Err(format!("object {at} is {found:?}, not {:?}", changed(at)));
            }
        }
        world.repair()?;
        world.compare_copies()
    }
}

/// What objects are changed to.
fn changed(at: usize) -> Option<u8> {
    (!at.is_multiple_of(4)).then_some(2)
}
