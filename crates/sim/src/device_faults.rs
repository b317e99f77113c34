//! Processes that stand still, and devices that answer late, wrongly or never. The OSDs that may end of it, and do.

use std::time::Duration;

use rand::{Rng, seq::IndexedRandom};
use types::{OsdId, PgState};

use crate::{
    osd_process::{End, OsdProcess},
    schedule::{ProcessId, Scheduled},
    slot::Slot,
    world::{MON, World},
};

/// An OSD that could not start tries again after so long.
const START_AGAIN: Duration = Duration::from_secs(5);
/// Of a thousand commands, how many a bad device fails.
const FAILING: [u32; 3] = [1, 10, 200];
/// An OSD that has ended by itself so often on one device gets another.
pub(crate) const ENDS_MAX: u32 = 3;

/// What a device may have lost by itself: each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loss {
    /// All that was stored is there, whatever commands may have failed.
    Nothing,
    /// Data of objects.
    Data,
    /// Any blocks, those of the store's own records among them.
    Any,
}

impl World {
    /// The device of an OSD that [`World::bad_osd`] has chosen is harmed, and no other OSD's will be.
    pub(crate) fn may_lose(&mut self, id: usize, loss: Loss) {
        self.rotten = Some(id);
        self.loss = self.loss.max(loss);
    }

    /// What the device that an OSD has may have lost.
    pub(crate) fn loss_of(&self, id: usize) -> Loss {
        if self.rotten == Some(id) { self.loss } else { Loss::Nothing }
    }

    /// The OSD whose device is bad gets another one, an empty one.
    pub(crate) fn give_new_device(&mut self, id: usize) {
        let Slot::Down(disk) = &self.osds[id] else { return };
        self.osds[id] = Slot::Down(self.new_disk(id, disk.key.clone()));
        self.forget_harm(id);
    }

    /// The OSD whose device is bad has another one by now, to which nothing has happened yet.
    pub(crate) fn forget_harm(&mut self, id: usize) {
        self.loss = Loss::Nothing;
        self.faulty.remove(&id);
        self.ends.remove(&id);
        self.schedule.end_silence(self.osd_process(id));
    }

    /// A process gets no CPU for some time: all of it, or one of its threads.
    pub(crate) fn stand_still(&mut self, process: ProcessId) {
        let parts = if process == MON { 1 } else { self.scale.shards };
        let index = if self.rng.random_bool(0.5) { 0 } else { self.rng.random_range(0..parts) };
        let who = process.part(index);
        let span = match self.rng.random_range(0..3) {
            0 => self.rng.random_range(0.1..5.0),
            1 => self.rng.random_range(5.0..40.0),
            // Others serve by then, and have written.
            _ => self.rng.random_range(20.0..60.0),
        };
        self.note(format!("{who:?} stands still for {span:.1} s"));
        self.schedule.stand_still(who, Duration::from_secs_f64(span));
    }

    /// The device of a shard answers nothing for some time. If that is long, the OSD ends.
    pub(crate) fn silence_device(&mut self, process: ProcessId) {
        let who = process.part(self.rng.random_range(0..self.scale.shards));
        let span = match self.rng.random_range(0..4) {
            0 => self.rng.random_range(0.1..10.0),
            1 | 2 => self.rng.random_range(10.0..60.0),
            _ => self.rng.random_range(100.0..250.0),
        };
        self.note(format!("the device of {who:?} does not answer for {span:.1} s"));
        self.faulty.insert(process.0 - 1);
        self.schedule.silence_device(who, Duration::from_secs_f64(span));
    }

    /// A device fails some commands. Reads that fail are bad copies, so they may happen to one OSD alone, while other
    /// copies are whole; where a write fails, the OSD ends.
    pub(crate) fn fail_commands(&mut self) {
        let id = self.bad_osd();
        if self.is_clean() {
            let per_thousand = *FAILING.choose(&mut self.rng).unwrap_or(&1);
            self.note(format!("the device of osd.{id} fails {per_thousand} of 1000 commands"));
            self.faulty.insert(id);
            self.may_lose(id, Loss::Nothing);
            if let Slot::Up(osd) = &mut self.osds[id] {
                osd.fail_commands(per_thousand);
            }
        }
    }

    /// Blocks of a device cannot be read any more, while there are whole copies besides.
    pub(crate) fn lose_blocks(&mut self) {
        let id = self.bad_osd();
        if self.is_whole_without(id) {
            let is_any = self.rng.random_bool(0.4);
            self.note(format!(
                "blocks of osd.{id} are not readable, {}",
                if is_any { "any" } else { "of data" }
            ));
            if is_any {
                self.faulty.insert(id);
            }
            self.may_lose(id, if is_any { Loss::Any } else { Loss::Data });
            if let Slot::Up(osd) = &mut self.osds[id] {
                osd.lose_blocks(is_any);
            }
        }
    }

    /// Checks whether an OSD has ended by itself, and has it started again.
    pub(crate) fn look_after(&mut self, id: usize) {
        let Some(why) = self.osds[id].up().and_then(OsdProcess::failure).map(str::to_owned) else { return };
        let process = self.osd_process(id);
        self.note(format!("osd.{id} ends: {why}"));
        if !self.faulty.contains(&id) {
            self.broken.get_or_insert(format!("osd.{id}: {why}"));
        }
        *self.ends.entry(id).or_default() += 1;
        self.end(process, End::Killed);
        let down = Duration::from_secs_f64(self.rng.random_range(0.05..20.0));
        self.schedule.after(down, process, Scheduled::Start);
    }

    /// An OSD finds its store unusable, which its device must be the cause of.
    pub(crate) fn cannot_start(&mut self, id: usize, why: &str) {
        if self.loss_of(id) < Loss::Any {
            self.broken.get_or_insert(format!("osd.{id} cannot start: {why}"));
            return;
        }
        self.renew_device(id, why);
    }

    /// An OSD is not started on its bad device. It gets another one as soon as the others do without it.
    pub(crate) fn renew_device(&mut self, id: usize, why: &str) {
        if self.is_dispensable(id) {
            self.give_new_device(id);
            self.note(format!("osd.{id} cannot start: {why}; it gets another device"));
        }
        self.schedule.after(START_AGAIN, self.osd_process(id), Scheduled::Start);
    }

    /// True for an OSD that the operator does not start any more on the device that it has.
    pub(crate) fn is_worn(&self, id: usize) -> bool {
        self.rotten == Some(id) && self.ends.get(&id).is_some_and(|ends| *ends >= ENDS_MAX)
    }

    /// True when all PGs are active without an OSD, and all others are up.
    fn is_dispensable(&self, id: usize) -> bool {
        let Some(map) = self.osdmap() else { return false };
        let is_up = |osd: usize| map.is_up(OsdId(osd as i32));
        (0..self.osds.len()).all(|osd| is_up(osd) != (osd == id)) && self.are_all(PgState::ACTIVE)
    }
}

#[cfg(test)]
mod tests {
    use auth::CryptoKey;
    use rand::{SeedableRng, rngs::StdRng};
    use types::{KeyType, UTime};

    use super::*;
    use crate::{Options, world::Scale};

    #[test]
    fn only_a_harmed_device_is_excused_and_only_until_it_is_replaced() {
        let mut rng = StdRng::seed_from_u64(1);
        let key = CryptoKey::generate(KeyType::Aes, UTime::default(), &mut rng);
        let mut world = World::of(Options::new(1), Scale::new(3, store::Config::default(), 1), rng);
        let id = world.bad_osd();
        assert_eq!((world.rotten, world.loss_of(id)), (None, Loss::Nothing), "to be chosen does no harm");
        world.may_lose(id, Loss::Any);
        world.may_lose(id, Loss::Data);
        world.faulty.insert(id);
        assert_eq!(world.bad_osd(), id, "the one that is harmed stays the only one");
        assert_eq!(world.loss_of(id), Loss::Any);
        assert_eq!(world.loss_of((id + 1) % 3), Loss::Nothing);
        world.osds[id] = Slot::Down(world.new_disk(id, key));
        world.give_new_device(id);
        assert_eq!(world.loss_of(id), Loss::Nothing);
        assert!(!world.faulty.contains(&id));
    }

    #[test]
    fn a_store_that_an_unharmed_device_has_lost_is_told() {
        let mut rng = StdRng::seed_from_u64(1);
        let key = CryptoKey::generate(KeyType::Aes, UTime::default(), &mut rng);
        for loss in [Loss::Data, Loss::Any] {
            let scale = Scale::new(3, store::Config::default(), 1);
            let mut world = World::of(Options::new(1), scale, StdRng::seed_from_u64(1));
            world.osds[0] = Slot::Down(world.new_disk(0, key.clone()));
            world.faulty.insert(0);
            world.may_lose(0, loss);
            world.cannot_start(0, "its superblock is gone");
            assert_eq!(world.broken.is_none(), loss == Loss::Any, "{:?}", world.broken);
        }
    }
}
