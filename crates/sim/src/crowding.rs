//! Devices that become full: an operator sets how full they may be, and PGs move to where there is less room.

use rand::{Rng, seq::IndexedRandom};
use types::{OsdState, PgState, PoolFlags};

use crate::{
    schedule::ProcessId,
    workload::Workload,
    world::{POOL, World},
};

/// Parts of a device that may be in use: far from all of it, so that what clients send until they know of it still
/// finds room.
pub(crate) const NEARFULL: f64 = 0.25;
pub(crate) const BACKFILLFULL: f64 = 0.33;
pub(crate) const FULL: f64 = 0.4;
/// What they are unless an operator says something else.
const DEFAULT_RATIOS: [f64; 3] = [0.85, 0.9, 0.95];

/// What the map says of the pool, and what a test wants to have seen.
const FLAGS: [(PoolFlags, &str); 3] = [
    (PoolFlags::NEARFULL, "a pool was nearly full"),
    (PoolFlags::BACKFILLFULL, "a pool was too full to be filled"),
    (PoolFlags::FULL, "a pool was full"),
];

/// What primaries say of PGs.
const STATES: [(PgState, &str); 2] = [
    (PgState::BACKFILL_TOOFULL, "a PG was not filled for want of room"),
    (PgState::RECOVERY_TOOFULL, "a PG was not recovered for want of room"),
];

impl World {
    /// An operator sets how full OSDs may be.
    pub(crate) fn set_ratios(&mut self, ratios: [f64; 3]) {
        for (name, ratio) in ["nearfull", "backfillfull", "full"].into_iter().zip(ratios) {
            self.command(format!(r#"{{"prefix":"osd set-{name}-ratio","ratio":{ratio}}}"#));
        }
    }

    /// PGs move from an OSD that is taken out, or back to it; or an operator finds that OSDs may be fuller, or less
    /// full, than before.
    pub(crate) fn crowd(&mut self, osd: ProcessId) {
        if self.rng.random_bool(0.7) {
            return self.toggle_in(osd);
        }
        let by = *[-0.05, 0.0, 0.05].choose(&mut self.rng).unwrap_or(&0.0);
        self.note(format!("OSDs are full at {:.2}", FULL + by));
        self.set_ratios([NEARFULL, BACKFILLFULL, FULL].map(|ratio| ratio + by));
    }

    /// True while some OSD is too full to be filled, or seems so.
    pub(crate) fn lacks_room(&self) -> bool {
        let Some(map) = self.osdmap() else { return false };
        let is_crowded = |state: OsdState| state.has(OsdState::FULL) || state.has(OsdState::BACKFILLFULL);
        map.osds().any(|osd| is_crowded(map.state(osd)))
    }

    /// Clients have removed all that they can, and OSDs are too full all the same: with what is left, and with copies
    /// that move nowhere for want of room. An operator lets them be fuller, as there is no other way.
    pub(crate) fn give_way(&mut self) {
        if !self.has_given_way && !self.workloads.iter().any(Workload::can_make_room) {
            self.has_given_way = true;
            self.note("OSDs may be as full as they are by default".to_owned());
            self.saw(["OSDs were full of what could not be removed"]);
            self.set_ratios(DEFAULT_RATIOS);
        }
    }

    /// Remembers what is seen of OSDs without room.
    pub(crate) fn look_at_room(&mut self) {
        let flags = self.osdmap().and_then(|map| Some(map.pool_by_name(POOL)?.1.flags)).unwrap_or_default();
        let flagged = FLAGS.into_iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, what)| what);
        let mut seen: Vec<&'static str> = flagged.collect();
        for (_, state) in self.parts().flat_map(|part| part.machine.osd.led_states()) {
            seen.extend(STATES.into_iter().filter(|(wanted, _)| state.has(*wanted)).map(|(_, what)| what));
        }
        self.saw(seen);
    }
}
