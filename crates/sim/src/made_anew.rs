//! An OSD whose device is gone: an operator destroys or purges it, and makes it anew under its id, with another store
//! and key.

use std::time::Duration;

use auth::{CryptoKey, Keyring};
use client::CommandReply;
use rand::Rng;
use types::{EntityName, EntityType, OsdId, OsdMap, OsdState};

use crate::{
    osd_process::End,
    schedule::{ProcessId, Scheduled},
    slot::Slot,
    world::World,
};

/// How often the operator looks whether the next order can be given.
const LOOK: Duration = Duration::from_secs(1);

/// What the operator does with the OSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// Its id and its place stay.
    Destroy,
    /// Nothing of it stays in the map.
    Purge,
}

impl Removal {
    fn order(self, osd: OsdId) -> String {
        let what = match self {
            Removal::Destroy => "destroy",
            Removal::Purge => "purge",
        };
        format!(r#"{{"prefix":"osd {what}","id":"{osd}","yes_i_really_mean_it":true}}"#)
    }

    fn is_done(self, map: &OsdMap, osd: OsdId) -> bool {
        match self {
            Removal::Destroy => map.state(osd).has(OsdState::DESTROYED),
            Removal::Purge => !map.exists(osd),
        }
    }
}

/// What the operator waits for.
#[derive(Clone, Copy, Debug)]
enum Wait {
    /// That the OSD is down for the monitor, too.
    Down,
    /// That it is destroyed, or purged.
    Removed,
    /// For its new key.
    Key,
}

/// An OSD that is made anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MadeAnew {
    id: usize,
    removal: Removal,
    wait: Wait,
}

impl World {
    /// An OSD loses its device while other copies are whole, and is made anew.
    pub(crate) fn remove_osd(&mut self, removal: Removal) {
        let id = self.bad_osd();
        if self.is_clean() && self.made_anew.is_none() {
            self.rotten = Some(id);
            self.lose_device(id, removal);
        }
    }

    /// An OSD loses its device, and is made anew.
    pub(crate) fn lose_device(&mut self, id: usize, removal: Removal) {
        let process = self.osd_process(id);
        self.note(format!("osd.{id} loses its device: {removal:?}"));
        self.end(process, End::PowerCut);
        self.made_anew = Some(MadeAnew { id, removal, wait: Wait::Down });
        self.schedule.after(LOOK, process, Scheduled::MakeAnew);
    }

    /// True while an OSD has no store to start on.
    pub(crate) fn is_removed(&self, id: usize) -> bool {
        self.made_anew.as_ref().is_some_and(|anew| anew.id == id)
    }

    /// The operator looks, and gives the next order if it is time for it.
    pub(crate) fn make_anew(&mut self, process: ProcessId) {
        let Some(MadeAnew { id, removal, wait }) = self.made_anew else { return };
        // While the monitor is down, too.
        self.schedule.after(LOOK, process, Scheduled::MakeAnew);
        let Some(map) = self.osdmap() else { return };
        let osd = OsdId(id as i32);
        let next = match wait {
            Wait::Down if map.is_down(osd) => Some((Wait::Removed, removal.order(osd))),
            Wait::Removed if removal.is_done(map, osd) => Some((
                Wait::Key,
                format!(
                    r#"{{"prefix":"auth get-or-create","entity":"osd.{osd}","caps":["mon","allow profile osd","osd","allow *"]}}"#
                ),
            )),
            Wait::Down | Wait::Removed | Wait::Key => None,
        };
        if let Some((wait, order)) = next {
            self.made_anew = Some(MadeAnew { id, removal, wait });
            self.command(order);
        }
    }

    /// The answer to an order may have the new key, with which the OSD starts on a new store.
    pub(crate) fn take_key(&mut self, reply: &CommandReply) {
        let Some(MadeAnew { id, wait: Wait::Key, .. }) = self.made_anew else { return };
        let Some(key) = key_in(&reply.output, id) else { return };
        self.made_anew = None;
        self.generations[id] += 1;
        self.osds[id] = Slot::Down(self.new_disk(id, key));
        self.forget_harm(id);
        self.note(format!("osd.{id} is made anew"));
        let down = Duration::from_secs_f64(self.rng.random_range(0.05..20.0));
        self.schedule.after(down, self.osd_process(id), Scheduled::Start);
    }
}

/// The key of an OSD in a keyring.
fn key_in(output: &[u8], id: usize) -> Option<CryptoKey> {
    let keyring = Keyring::parse(std::str::from_utf8(output).ok()?).ok()?;
    let who = EntityName::new(EntityType::OSD, id.to_string());
    Some(keyring.0.get(&who)?.key.clone())
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;
    use crate::{
        Options,
        osd_process::small_store,
        scrubs::fill,
        world::{MON, Scale},
    };

    #[test]
    fn an_osd_that_is_made_anew_gets_all_copies_again() {
        [Removal::Destroy, Removal::Purge].into_iter().for_each(make_anew);
    }

    fn make_anew(removal: Removal) {
        let mut rng = StdRng::seed_from_u64(1);
        let mut world = World::of(Options::new(1), Scale::new(3, small_store(&mut rng), 4), rng);
        let pool = world.set_up().unwrap();
        world.all((0..20).map(|at| fill(pool, at)), 8).unwrap();
        world.until("all PGs to be clean", World::is_clean).unwrap();
        // Only of a client with a workload outcomes are looked at.
        world.workloads.push(crate::workload::Workload::new(1, pool, StdRng::seed_from_u64(1)));
        world.remove_osd(removal);
        let id = world.rotten.expect("it has lost its device");
        // The operator finds no monitor for a while.
        world.end(MON, End::Killed);
        world.pass(3 * LOOK).unwrap();
        world.start(MON);
        world.until("the OSD to be made anew", |world| !world.is_removed(id)).unwrap();
        world.until("all PGs to be clean", World::is_clean).unwrap();
        let uuid = world.osdmap().unwrap().osd_uuid[id];
        assert_eq!(uuid.0, [[1].as_slice(), &[id as u8 + 1; 15]].concat()[..]);
        // Stores get the times of scrubs along with what else changes of a PG: all are scrubbed.
        world.repair().unwrap();
        world.settle().unwrap();
        world.compare_copies().unwrap_or_else(|why| panic!("{removal:?}: {why}"));
    }
}
