//! What breaks, and when it is whole again.

use std::time::Duration;

use rand::Rng;
use types::{PgId, PgState};

use crate::{
    schedule::{ProcessId, What},
    slot::Slot,
    world::{MON, POOL, World},
};

/// A pool grows no further.
const PG_NUM_MAX: u32 = 40;

fn secs(rng: &mut impl Rng, low: f64, high: f64) -> Duration {
    Duration::from_secs_f64(rng.random_range(low..high))
}

impl World {
    fn any_osd(&mut self) -> ProcessId {
        let id = self.rng.random_range(0..self.osds.len());
        self.osd_process(id)
    }

    /// Something breaks; it is whole again by itself, later.
    pub(crate) fn strike(&mut self) {
        let osd = self.any_osd();
        match self.rng.random_range(0..28) {
            0..3 => {
                let count = self.rng.random_range(1..6);
                self.note(format!("{count} connections are cut"));
                (0..count).for_each(|_| self.network.cut(&mut self.schedule));
            }
            3..7 => self.crash_for_a_while(&[osd]),
            7 => {
                let other = self.any_osd();
                self.crash_for_a_while(&[osd, other]);
            }
            8 => {
                let all: Vec<ProcessId> = (0..=self.osds.len()).map(ProcessId).collect();
                self.crash_for_a_while(&all);
            }
            9 => self.crash_for_a_while(&[MON]),
            10..12 => self.isolate(osd),
            12 => self.isolate(MON),
            13 => {
                self.note(format!("{osd:?} is slow"));
                self.network.slow_down(osd);
                let heal = secs(&mut self.rng, 0.5, 20.0);
                self.schedule.after(heal, MON, What::Heal);
            }
            14..16 => self.toggle_in(osd),
            16..18 => self.split(),
            18..20 => self.order_scrub(),
            20..24 => self.grow(),
            _ => self.spoil(),
        }
    }

    fn crash_for_a_while(&mut self, processes: &[ProcessId]) {
        for process in processes {
            self.note(format!("{process:?} crashes"));
            self.crash(*process);
        }
        for process in processes {
            let down = match self.rng.random_bool(0.5) {
                true => secs(&mut self.rng, 0.05, 3.0),
                false => secs(&mut self.rng, 3.0, 45.0),
            };
            self.schedule.after(down, *process, What::Start);
        }
    }

    /// Nobody hears a process, nor it anybody.
    fn isolate(&mut self, process: ProcessId) {
        self.note(format!("{process:?} is cut off"));
        for other in (0..self.process_count()).map(ProcessId).filter(|other| *other != process) {
            self.network.divide(process, other);
        }
        let heal = secs(&mut self.rng, 0.5, 45.0);
        self.schedule.after(heal, MON, What::Heal);
    }

    /// Data rots, on the same OSD each time and while other copies are whole.
    fn spoil(&mut self) {
        let id = *self.rotten.get_or_insert(self.rng.random_range(0..self.osds.len()));
        if self.is_clean() {
            self.note(format!("data of osd.{id} rots"));
            if let Slot::Up(osd) = &mut self.osds[id] {
                osd.rot();
            }
        }
    }

    /// What nobody can supply is given up, once everybody is up: by the rules of [`World::spoil`] it is what no client
    /// was told of, since whoever was told had it on an OSD that does not rot.
    pub(crate) fn give_up_unfound(&mut self) -> Result<(), String> {
        /// Time for PGs to find out what they lack.
        const LOOKING: Duration = Duration::from_secs(60);
        /// Orders, at most: what an object was before may be lost as well.
        const ORDERS_MAX: usize = 8;
        if self.rotten.is_none() {
            return Ok(());
        }
        for _ in 0..ORDERS_MAX {
            self.pass(LOOKING)?;
            let stuck = PgState::RECOVERY_UNFOUND;
            let states = self.parts().flat_map(|part| part.osd.led_states());
            let pgs: Vec<PgId> = states.filter(|(_, state)| state.has(stuck)).map(|(pgid, _)| pgid).collect();
            if pgs.is_empty() {
                break;
            }
            for pgid in pgs {
                self.note(format!("what is unfound in {pgid} is given up"));
                let primary = self.osdmap().map(|map| map.pg_to_up_acting(pgid).acting_primary.0);
                let Some(id) = primary.and_then(|id| usize::try_from(id).ok()) else { continue };
                let prefix = "mark_unfound_lost";
                self.osd_command(id, format!(r#"{{"prefix":"{prefix}","pgid":"{pgid}","mulcmd":"revert"}}"#));
            }
        }
        Ok(())
    }

    /// The network falls into two halves that do not hear each other.
    fn split(&mut self) {
        let all = (0..self.process_count()).map(ProcessId);
        let (here, there): (Vec<_>, Vec<_>) = all.partition(|_| self.rng.random_bool(0.5));
        self.note(format!("{here:?} and {there:?} do not hear each other"));
        for (one, other) in here.iter().flat_map(|one| there.iter().map(move |other| (*one, *other))) {
            self.network.divide(one, other);
        }
        let heal = secs(&mut self.rng, 0.5, 60.0);
        self.schedule.after(heal, MON, What::Heal);
    }

    /// An operator wants more PGs; they are split, and then moved, while other things break.
    fn grow(&mut self) {
        let Some(pool) = self.osdmap().and_then(|map| Some(map.pool_by_name(POOL)?.1.pg_num_target)) else {
            return;
        };
        let pg_num = (pool + self.rng.random_range(1..=2 * pool)).min(PG_NUM_MAX);
        // With the placement that there is, or with one of its own.
        let vars = if self.rng.random_bool(0.8) { &["pg_num"][..] } else { &["pgp_num", "pg_num"] };
        self.note(format!("the pool is to have {pg_num} PGs"));
        for var in vars {
            let val = if *var == "pg_num" { pg_num } else { 1 };
            self.command(format!(
                r#"{{"prefix":"osd pool set","pool":"{POOL}","var":"{var}","val":"{val}"}}"#
            ));
        }
        let osd = self.any_osd();
        if self.rng.random_bool(0.7) {
            self.crash_for_a_while(&[osd]);
        }
    }

    /// An operator takes an OSD out, or in again.
    fn toggle_in(&mut self, process: ProcessId) {
        let id = process.0 - 1;
        self.is_out[id] = !self.is_out[id];
        let what = if self.is_out[id] { "out" } else { "in" };
        self.note(format!("osd.{id} is taken {what}"));
        self.command(format!(r#"{{"prefix":"osd {what}","ids":["{id}"]}}"#));
    }
}
