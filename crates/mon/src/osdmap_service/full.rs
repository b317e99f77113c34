//! OSDs and pools that run out of space (`OSDMap::get_full_pools`): writers of a pool stop when one of its
//! OSDs is full.

use std::collections::BTreeMap;

use types::{OsdId, OsdState, PoolFlags, PoolId, UTime};

use crate::{Mon, stats::rule_weights};

const OSD_STATES: OsdState = OsdState(OsdState::FULL.0 | OsdState::BACKFILLFULL.0 | OsdState::NEARFULL.0);

impl Mon {
    /// Brings the states of OSDs, and then the flags of pools, in line with what OSDs say of their devices.
    pub(crate) fn tick_full(&mut self, wall: UTime) {
        let map = self.next.osdmap.clone();
        let mut changes = BTreeMap::new();
        let mut now = BTreeMap::new();
        for osd in map.osds() {
            // An OSD that has reported nothing yet is as full as it was.
            let known = OsdState(map.state(osd).0 & OSD_STATES.0);
            let state = if map.is_up(osd) { self.fullness(osd).unwrap_or(known) } else { OsdState(0) };
            let changed = OsdState((map.state(osd).0 ^ state.0) & OSD_STATES.0);
            if changed != OsdState(0) {
                changes.insert(osd, changed);
            }
            // An OSD that is out gets no data of any pool, and holds no writer back.
            if map.is_in(osd) {
                now.insert(osd, state);
            }
        }
        if !changes.is_empty() {
            self.change_osdmap(wall, |_, inc| inc.new_state.extend(changes));
        }
        let mut of_rules = BTreeMap::new();
        for (id, pool) in &map.pools {
            let of_rule = |rule| rule_weights(map.crush.map(), rule, &map);
            let osds = of_rules.entry(pool.crush_rule).or_insert_with_key(|rule| of_rule(*rule));
            let has = |state| osds.keys().any(|osd| now.get(osd) == Some(&state));
            let flag = match () {
                () if has(OsdState::FULL) => PoolFlags::FULL,
                () if has(OsdState::BACKFILLFULL) => PoolFlags::BACKFILLFULL,
                () if has(OsdState::NEARFULL) => PoolFlags::NEARFULL,
                () => PoolFlags(0),
            };
            self.flag_pool(wall, *id, flag);
        }
    }

    /// How full an OSD's device is, by the ratios of the map: one of the three states, or none of them; nothing without
    /// a report.
    fn fullness(&self, osd: OsdId) -> Option<OsdState> {
        let map = &self.next.osdmap;
        let stat = self.stats.osd(osd).filter(|stat| stat.kb > 0)?;
        let used = (stat.kb - stat.kb_avail.min(stat.kb)) as f32 / stat.kb as f32;
        Some(match () {
            () if used >= map.full_ratio => OsdState::FULL,
            () if used >= map.backfillfull_ratio => OsdState::BACKFILLFULL,
            () if used >= map.nearfull_ratio => OsdState::NEARFULL,
            () => OsdState(0),
        })
    }

    /// Sets one of a pool's three flags and clears the others; a quota's flag is not touched.
    fn flag_pool(&mut self, wall: UTime, id: PoolId, flag: PoolFlags) {
        let Some(pool) = self.next.osdmap.pools.get(&id) else { return };
        if pool.flags.has(PoolFlags::FULL_QUOTA) {
            return;
        }
        let mut pool = pool.clone();
        let before = pool.flags;
        for one in [PoolFlags::FULL, PoolFlags::BACKFILLFULL, PoolFlags::NEARFULL] {
            pool.flags = pool.flags.with(one, one == flag);
        }
        if pool.flags == before {
            return;
        }
        let name = self.next.osdmap.pool_name(id).unwrap_or_default().to_owned();
        if pool.flags.has(PoolFlags::FULL) {
            self.log_warn(wall, format!("pool '{name}' is full (no space)"));
        }
        self.change_osdmap(wall, |_, inc| {
            inc.new_pools.insert(id, pool);
        });
    }
}
