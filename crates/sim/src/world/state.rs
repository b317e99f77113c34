//! The state of the world, which these queries do not change.

use std::collections::BTreeSet;

use osd::Osd;
use store::ObjectStore;
use types::{OsdId, PgId, PgState};

use super::World;
use crate::{
    osd_process::{OsdProcess, Part},
    slot::Slot,
    workload::Workload,
};

impl World {
    /// Lines of the cluster log.
    pub(crate) fn cluster_log(&self) -> impl Iterator<Item = &str> {
        self.mon.up().into_iter().flat_map(|mon| mon.mon.cluster_log())
    }

    /// The shards of all OSDs that are up.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.osds.iter().filter_map(Slot::up).flat_map(OsdProcess::parts)
    }

    pub(crate) fn osdmap(&self) -> Option<&types::OsdMap> {
        self.mon.up().map(|mon| mon.mon.osdmap())
    }

    pub(crate) fn is_all_up(&self) -> bool {
        let Some(mon) = self.mon.up() else { return false };
        (0..self.osds.len()).all(|id| mon.mon.osdmap().is_up(OsdId(id as i32)))
    }

    /// True when the newest map says that the OSD is down.
    pub(crate) fn is_down(&self, id: usize) -> bool {
        self.osdmap().is_some_and(|map| map.is_down(OsdId(id as i32)))
    }

    /// True when the pools have as many PGs as they shall, and every PG's primary says that it is active and clean.
    pub(crate) fn is_clean(&self) -> bool {
        let Some(mon) = self.mon.up().filter(|_| self.is_all_up()) else { return false };
        let map = mon.mon.osdmap();
        let is_settled = map
            .pools
            .values()
            .all(|pool| (pool.pg_num, pool.pgp_num) == (pool.pg_num_target, pool.pgp_num_target));
        is_settled && self.are_all(PgState::ACTIVE.with(PgState::CLEAN))
    }

    /// True when every PG's primary has the newest map, and says that the PG is in the state `wanted`.
    pub(crate) fn are_all(&self, wanted: PgState) -> bool {
        let Some(map) = self.osdmap() else { return false };
        map.pgs().all(|pgid| {
            let primary = map.pg_to_up_acting(pgid).acting_primary;
            let osd = usize::try_from(primary.0).ok().and_then(|id| self.osds.get(id)?.up());
            let is_current = |part: &&Part| part.machine.osd.map().epoch == map.epoch;
            let mut parts = osd.into_iter().flat_map(OsdProcess::parts).filter(is_current);
            let state = parts.find_map(|part| part.machine.osd.led_state(pgid));
            state.is_some_and(|state| state.has(wanted))
        })
    }

    /// The PGs that their primaries say are in the state.
    pub(crate) fn pgs_in(&self, state: PgState) -> BTreeSet<PgId> {
        let states = self.parts().flat_map(|part| part.machine.osd.led_states());
        states.filter(|(_, its)| its.has(state)).map(|(pgid, _)| pgid).collect()
    }

    /// True when every PG serves, and has a member besides an OSD that lacks nothing. What clients are told of later is
    /// on another OSD, too: a pool takes writes with two copies where devices fail.
    pub(crate) fn is_whole_without(&self, id: usize) -> bool {
        let Some(map) = self.osdmap() else { return false };
        let is_whole = |osd: &Osd, pgid| {
            let mut copies = osd.pgs().filter(|pg| pg.pgid() == pgid);
            copies.any(|pg| pg.missing_count() == 0)
        };
        let has_whole = |pgid| {
            let acting = map.pg_to_up_acting(pgid).acting;
            let others = self
                .parts()
                .map(|part| &part.machine.osd)
                .filter(|osd| osd.whoami() != OsdId(id as i32) && acting.contains(&osd.whoami()));
            { others }.any(|osd| is_whole(osd, pgid))
        };
        self.are_all(PgState::ACTIVE) && map.pgs().all(has_whole)
    }

    /// The state as text, to find out why nothing happens.
    pub(crate) fn state(&self) -> String {
        let mut out = String::new();
        if let Some(mon) = self.mon.up() {
            let map = mon.mon.osdmap();
            let up = map.osds().filter(|osd| map.is_up(*osd)).map(|osd| osd.0).collect::<Vec<_>>();
            out += &format!("epoch {}, up {up:?}; ", map.epoch.0);
        }
        for (id, osd) in self.osds.iter().enumerate() {
            let Some(osd) = osd.up() else { continue };
            for part in osd.parts() {
                let states = part.machine.osd.led_states().map(|(pgid, state)| format!("{pgid} {state}"));
                let usage = part.machine.store.usage();
                out += &format!(
                    "osd.{id} (epoch {}, {} of {} KiB free; {} of data, {} of omap, {} of the index and the like): {}; ",
                    part.machine.osd.map().epoch.0,
                    usage.available_bytes >> 10,
                    usage.total_bytes >> 10,
                    usage.data_bytes >> 10,
                    usage.omap_bytes >> 10,
                    usage.meta_bytes >> 10,
                    states.collect::<Vec<_>>().join(", ")
                );
            }
        }
        let in_flight: Vec<usize> = self.workloads.iter().map(Workload::in_flight).collect();
        out + &format!("requests {in_flight:?}")
    }
}
