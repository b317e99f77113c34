//! Temporary acting sets: primaries ask for them while copies are filled, and for their end. Temporary primaries, which
//! operators set.
//!
//! Authority: `OSDMonitor::prepare_pgtemp`, `OSDMap::clean_temps` (16.2).

use std::collections::BTreeSet;

use messages::MOSDPGTemp;
use types::{OsdId, OsdMap, PgId, UTime};

use crate::Mon;

impl Mon {
    /// A primary names the OSDs that are to act for its PG. A primary that does not know the newest members yet asks
    /// again when it does.
    pub(crate) fn on_pg_temp(&mut self, wall: UTime, temp: MOSDPGTemp) {
        let map = self.next.osdmap.clone();
        let changed: Vec<(PgId, Vec<OsdId>)> = temp
            .acting
            .into_iter()
            .filter(|(pg, osds)| leads(&map, *pg, temp.osd) && may_act(&map, *pg, osds))
            .map(|(pg, osds)| (pg, if osds == map.pg_to_up_acting(pg).up { Vec::new() } else { osds }))
            .filter(|(pg, osds)| map.pg_temp.get(pg).map_or(&[][..], Vec::as_slice) != osds)
            .collect();
        self.change_pg_temp(wall, changed);
    }

    /// Ends temporary acting sets that have no effect any more: the PG is gone, none of the OSDs is up, or the set is
    /// the same as the up set.
    pub(super) fn tick_pg_temp(&mut self, wall: UTime) {
        let map = self.next.osdmap.clone();
        let is_over = |pg: &PgId, osds: &[OsdId]| {
            !map.pg_exists(*pg)
                || !osds.iter().any(|osd| map.is_up(*osd))
                || osds == map.pg_to_up_acting(*pg).up
        };
        let over = map.pg_temp.iter().filter(|(pg, osds)| is_over(pg, osds));
        let over = over.map(|(pg, _)| (*pg, Vec::new())).collect();
        self.change_pg_temp(wall, over);
    }

    fn change_pg_temp(&mut self, wall: UTime, changed: Vec<(PgId, Vec<OsdId>)>) {
        if !changed.is_empty() {
            self.change_osdmap(wall, |_, inc| inc.new_pg_temp.extend(changed));
        }
    }
}

/// Temporary primaries, set by hand, that are to end in `map`: the PG is gone, the OSD is not up and so the PG would
/// have no primary, or the OSD leads anyway.
pub(super) fn primaries_over(map: &OsdMap) -> Vec<PgId> {
    if map.primary_temp.is_empty() {
        return Vec::new();
    }
    let mut without = map.clone();
    without.primary_temp.clear();
    let is_over = |pg: &PgId, osd: OsdId| !map.pg_exists(*pg) || !map.is_up(osd) || leads(&without, *pg, osd);
    let over = map.primary_temp.iter().filter(|(pg, osd)| is_over(pg, **osd));
    over.map(|(pg, _)| *pg).collect()
}

/// True if the OSD is the PG's acting primary: an earlier primary knows less.
fn leads(map: &OsdMap, pg: PgId, osd: OsdId) -> bool {
    map.pg_to_up_acting(pg).acting_primary == osd
}

/// True if the PG exists and the OSDs are up, each named once, and no more than the PG has copies: every client gets
/// the list with each map.
fn may_act(map: &OsdMap, pg: PgId, osds: &[OsdId]) -> bool {
    let Some(pool) = map.pools.get(&pg.pool).filter(|_| map.pg_exists(pg)) else { return false };
    let distinct: BTreeSet<OsdId> = osds.iter().copied().collect();
    osds.len() <= usize::from(pool.size)
        && distinct.len() == osds.len()
        && osds.iter().all(|osd| map.is_up(*osd))
}
