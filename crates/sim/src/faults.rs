//! What breaks, and when it is whole again.

use std::time::Duration;

use messages::PoolOpCode;
use rand::Rng;
use types::{OsdMap, PgId, PgState, SnapId};

use crate::{
    canary::Canary,
    device_faults::{ENDS_MAX, Loss},
    made_anew::Removal,
    model::SNAP_LAST,
    osd_process::End,
    schedule::{ProcessId, Scheduled},
    slot::Slot,
    world::{MON, POOL, World},
};

/// A pool that comes and goes.
pub(crate) const OTHER_POOL: &str = "other";
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
        if self.options.canary == Some(Canary::LongLease) {
            return self.strand(self.osd_process(0));
        }
        let osd = self.any_osd();
        if self.options.copies.is_some() {
            return self.strike_whole_devices(osd);
        }
        if self.options.is_full && self.rng.random_bool(0.6) {
            return self.crowd(osd);
        }
        match self.rng.random_range(0..71) {
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
                self.schedule.after(heal, MON, Scheduled::Heal);
            }
            14..16 => self.toggle_in(osd),
            16..18 => self.split(),
            18..20 => self.order_scrub(),
            20..24 => self.resize(),
            24..28 => self.spoil(),
            28..30 => self.replace_device(),
            30 => self.remove_osd(Removal::Destroy),
            31..34 | 68..71 => self.toggle_pool(),
            34..37 => self.remove_snap(),
            37..40 => self.part(),
            40..43 => self.strand(osd),
            43..47 => self.stand_still(osd),
            47 => self.stand_still(MON),
            48..52 => self.silence_device(osd),
            52..54 => self.fail_commands(),
            54..60 => self.lose_blocks(),
            60..62 => self.remove_osd(Removal::Purge),
            62..65 => self.place_anew(),
            _ => self.fence(),
        }
    }

    /// What may happen where one device may have the only copy of what clients were told of.
    fn strike_whole_devices(&mut self, osd: ProcessId) {
        match self.rng.random_range(0..25) {
            0..6 => self.crash_for_a_while(&[osd]),
            6..9 => self.toggle_in(osd),
            9..16 => self.move_pgs(osd),
            16 => self.part(),
            17 => self.isolate(osd),
            18 => self.split(),
            19 => self.stand_still(osd),
            20..23 => self.place_anew(),
            _ => self.fence(),
        }
    }

    /// An OSD crashes, or not, and others go on alone; these are taken out, and others in, so that PGs move with all
    /// their members.
    fn move_pgs(&mut self, osd: ProcessId) {
        if self.rng.random_bool(0.6) {
            self.crash_for_a_while(&[osd]);
        }
        for id in 0..self.osds.len() {
            if self.rng.random_bool(0.5) {
                self.toggle_in(self.osd_process(id));
            }
        }
        if self.is_out.iter().all(|is_out| *is_out) {
            self.toggle_in(osd);
        }
    }

    fn crash_for_a_while(&mut self, processes: &[ProcessId]) {
        for process in processes {
            // Where a process is killed alone, the caches of its devices have what was not flushed.
            let end = [End::PowerCut, End::Killed][self.rng.random_range(0..2)];
            self.note(format!("{process:?} crashes: {end:?}"));
            self.end(*process, end);
        }
        for process in processes {
            let down = match self.rng.random_bool(0.5) {
                true => secs(&mut self.rng, 0.05, 3.0),
                false => secs(&mut self.rng, 3.0, 45.0),
            };
            self.schedule.after(down, *process, Scheduled::Start);
        }
    }

    /// Cuts a process off from all others, in both directions.
    fn isolate(&mut self, process: ProcessId) {
        self.note(format!("{process:?} is cut off"));
        for other in (0..self.process_count()).map(ProcessId).filter(|other| *other != process) {
            self.network.divide(process, other);
        }
        let heal = secs(&mut self.rng, 0.5, 45.0);
        self.schedule.after(heal, MON, Scheduled::Heal);
    }

    /// Two OSDs do not hear each other; all other processes hear both.
    fn part(&mut self) {
        let (one, other) = (self.any_osd(), self.any_osd());
        if one != other {
            self.note(format!("{one:?} and {other:?} do not hear each other"));
            self.network.divide(one, other);
            let heal = secs(&mut self.rng, 0.5, 45.0);
            self.schedule.after(heal, MON, Scheduled::Heal);
        }
    }

    /// An OSD and a client hear only each other: no other OSD can correct what this one answers the client.
    fn strand(&mut self, osd: ProcessId) {
        let clients = 1 + self.osds.len()..self.process_count();
        let client = ProcessId(self.rng.random_range(clients));
        self.note(format!("{osd:?} and {client:?} hear nobody else"));
        for other in (0..self.process_count()).map(ProcessId).filter(|other| ![osd, client].contains(other)) {
            self.network.divide(osd, other);
            self.network.divide(client, other);
        }
        let heal = secs(&mut self.rng, 20.0, 60.0);
        self.schedule.after(heal, MON, Scheduled::Heal);
    }

    /// The OSD whose device is bad. It is always the same one, since two bad devices may be more than the copies can
    /// stand.
    pub(crate) fn bad_osd(&mut self) -> usize {
        let any = self.rng.random_range(0..self.osds.len());
        self.rotten.unwrap_or(any)
    }

    /// An OSD loses its device while there are whole copies besides, and comes back with an empty one. Where some other
    /// copies are not whole, it has to wait until the others do without it: the empty copy would tell nothing of what
    /// it wrote together with one that is down.
    fn replace_device(&mut self) {
        let id = self.bad_osd();
        let is_clean = self.is_clean();
        if self.made_anew.is_none() && (is_clean || self.is_whole_without(id)) {
            let process = self.osd_process(id);
            self.note(format!("osd.{id} loses its device{}", if is_clean { "" } else { " for good" }));
            self.end(process, End::PowerCut);
            self.rotten = Some(id);
            if is_clean {
                self.give_new_device(id);
            } else {
                self.ends.insert(id, ENDS_MAX);
            }
            let down = secs(&mut self.rng, 0.05, 45.0);
            self.schedule.after(down, process, Scheduled::Start);
        }
    }

    /// Makes or deletes a pool that clients use as well, so that PGs come and go. Mostly it goes soon after it came.
    pub(crate) fn toggle_pool(&mut self) {
        let Some(map) = self.osdmap() else { return };
        let Some((pool, _)) = map.pool_by_name(OTHER_POOL) else {
            let pg_num = self.rng.random_range(1..9);
            self.note(format!("another pool is made, of {pg_num} PGs"));
            self.command(format!(
                r#"{{"prefix":"osd pool create","pool":"{OTHER_POOL}","pg_num":{pg_num}}}"#
            ));
            if self.rng.random_bool(0.8) {
                let there = secs(&mut self.rng, 0.5, 15.0);
                self.schedule.after(there, MON, Scheduled::OtherPool);
            }
            return;
        };
        self.note("the other pool is deleted".to_owned());
        self.shared.deleted.insert(pool);
        self.command(format!(
            r#"{{"prefix":"osd pool delete","pool":"{OTHER_POOL}","pool2":"{OTHER_POOL}","yes_i_really_really_mean_it":true}}"#
        ));
    }

    /// An operator removes a snapshot, which some objects may have been written with.
    fn remove_snap(&mut self) {
        let snap = SnapId(self.rng.random_range(1..=SNAP_LAST.0));
        self.note(format!("snapshot {} is removed", snap.0));
        self.workloads.iter_mut().for_each(|work| work.forget_snap(snap));
        self.pool_op(PoolOpCode::DELETE_UNMANAGED_SNAP, snap);
    }

    /// Data rots, while there are whole copies besides.
    fn spoil(&mut self) {
        let id = self.bad_osd();
        if self.is_whole_without(id) {
            self.note(format!("data of osd.{id} rots"));
            self.may_lose(id, Loss::Data);
            if let Slot::Up(osd) = &mut self.osds[id] {
                osd.rot();
            }
        }
    }

    /// Gives up objects that no OSD can supply, once all OSDs are up. By the rules of [`World::spoil`], no client was
    /// told of what is given up: anything that a client was told of is also on an OSD that does not rot.
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
            let states = self.parts().flat_map(|part| part.machine.osd.led_states());
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
        self.schedule.after(heal, MON, Scheduled::Heal);
    }

    /// An operator wants more PGs, or fewer; they are split and then moved, or moved and then merged, while other
    /// things break.
    pub(crate) fn resize(&mut self) {
        let numbers = |map: &OsdMap| {
            let (_, pool) = map.pool_by_name(POOL)?;
            Some((pool.pg_num_target, pool.first_pg_num()))
        };
        let Some((is, first)) = self.osdmap().and_then(numbers) else { return };
        // Each reactor keeps PGs of its own.
        let least = first.min(u32::from(self.scale.shards));
        let pg_num = match least < is && self.rng.random_bool(0.6) {
            true => self.rng.random_range(least..is),
            false => (is + self.rng.random_range(1..=2 * is)).min(PG_NUM_MAX),
        };
        // With the placement that is there already, or with one of its own.
        let vars = if self.rng.random_bool(0.8) { &["pg_num"][..] } else { &["pgp_num", "pg_num"] };
        self.note(format!("the pool is to have {pg_num} PGs"));
        for var in vars {
            let val = if *var == "pg_num" { pg_num } else { 1 };
            self.command(format!(
                r#"{{"prefix":"osd pool set","pool":"{POOL}","var":"{var}","val":"{val}"}}"#
            ));
        }
        let osd = self.any_osd();
        if self.options.is_resized && self.osds.len() > 3 && self.rng.random_bool(0.4) {
            self.miss_it(osd);
        } else if self.rng.random_bool(0.7) {
            self.crash_for_a_while(&[osd]);
        }
    }

    /// An OSD is taken out and stays away for so long that PGs are split, moved and merged without it.
    fn miss_it(&mut self, process: ProcessId) {
        let id = process.0 - 1;
        if !self.is_out[id] {
            self.toggle_in(process);
        }
        self.note(format!("{process:?} crashes for long"));
        self.end(process, End::PowerCut);
        let down = secs(&mut self.rng, 30.0, 120.0);
        self.schedule.after(down, process, Scheduled::Start);
    }

    /// An operator takes an OSD out, or in again.
    pub(crate) fn toggle_in(&mut self, process: ProcessId) {
        let id = process.0 - 1;
        self.is_out[id] = !self.is_out[id];
        let what = if self.is_out[id] { "out" } else { "in" };
        self.note(format!("osd.{id} is taken {what}"));
        self.command(format!(r#"{{"prefix":"osd {what}","ids":["{id}"]}}"#));
    }
}
