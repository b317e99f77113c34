//! What time alone decides: OSDs that fell silent, that stay down, blocklist entries that expire, full flags and quotas
//! of pools, snapshots that are purged. Pools' numbers of PGs are moved by `pg_num.rs`.

use std::collections::BTreeMap;

use types::{EntityAddr, Instant, MapFlags, OsdId, OsdMap, OsdState, PgPool, PoolFlags, PoolId, UTime};

use super::failure::DownKind;
use crate::Mon;

impl Mon {
    pub(crate) fn tick_osds(&mut self, now: Instant, wall: UTime) {
        self.tick_failures(now, wall);
        self.tick_silent(now, wall);
        self.tick_down_out(now, wall);
        self.tick_pg_temp(wall);
        self.tick_upmaps(wall);
        let expired: Vec<EntityAddr> =
            self.next.osdmap.blocklist.iter().filter(|(_, until)| **until <= wall).map(|(a, _)| *a).collect();
        let ranges = self.next.osdmap.range_blocklist.0.iter();
        let ranges: Vec<EntityAddr> = ranges.filter(|(_, until)| **until <= wall).map(|(r, _)| *r).collect();
        if !expired.is_empty() || !ranges.is_empty() {
            self.change_osdmap(wall, |_, inc| {
                inc.old_blocklist = expired;
                inc.ranges.old = ranges;
            });
        }
    }

    /// Marks down OSDs that have not reported for too long: there may be no other OSD left to miss them.
    fn tick_silent(&mut self, now: Instant, wall: UTime) {
        let timeout = self.options.osd_report_timeout;
        let silent: Vec<OsdId> = self
            .osds
            .last_report
            .iter()
            .filter(|(osd, at)| self.next.osdmap.is_up(**osd) && now.since(**at) >= timeout)
            .map(|(osd, _)| *osd)
            .collect();
        for osd in silent {
            if !self.may_mark_down() {
                return;
            }
            let secs = timeout.as_secs();
            self.mark_down(
                wall,
                osd,
                DownKind::Silent,
                format!("osd.{osd} marked down after no report for {secs} seconds"),
            );
        }
    }

    fn tick_down_out(&mut self, now: Instant, wall: UTime) {
        let interval = self.options.osd_down_out_interval;
        let map = self.next.osdmap.clone();
        // The interval begins anew when an OSD is taken in again, or is no longer kept in by a flag of its group: the
        // operator knew that it was down.
        for (osd, since) in &mut self.osds.down_since {
            if map.is_out(*osd) || map.group_flags(*osd).has(OsdState::NOOUT) {
                *since = now;
            }
        }
        if interval.is_zero() || map.has_flag(MapFlags::NOOUT) {
            return;
        }
        for (osd, since) in self.osds.down_since.clone() {
            if !map.exists(osd) || map.is_up(osd) || now.since(since) < interval {
                continue;
            }
            // As in Ceph, the OSDs that are in are counted before this one goes, without those that just went.
            let in_before = self.next.osdmap.num_in() as f64;
            let is_floor = in_before / (map.num_osds().max(1) as f64) < self.options.osd_in_ratio_min;
            if is_floor {
                continue;
            }
            // An OSD that goes out, too: it may be taken in before the next look.
            self.osds.down_since.insert(osd, now);
            if self.is_subtree_down(&map, osd) {
                continue;
            }
            self.log_info(
                wall,
                format!("Marking osd.{osd} out (has been down for {} seconds)", now.since(since).as_secs()),
            );
            self.change_osdmap(wall, |map, inc| {
                let mut xinfo = map.osd_xinfo[osd.0 as usize];
                xinfo.old_weight = map.weight(osd);
                inc.new_xinfo.insert(osd, xinfo);
                inc.new_weight.insert(osd, 0);
                inc.new_state.insert(osd, OsdState::AUTOOUT);
            });
        }
    }

    /// True if the OSD is below a bucket of the type `mon_osd_down_out_subtree_limit`, or a larger one, in which all
    /// OSDs are down: it comes back as a whole, or an operator has to decide what becomes of it
    /// (`OSDMap::containing_subtree_is_down`).
    fn is_subtree_down(&self, map: &OsdMap, osd: OsdId) -> bool {
        let crush = map.crush.map();
        let limit = crush.type_of(&self.options.osd_down_out_subtree_limit);
        let Some(limit) = limit.filter(|kind| *kind > 0) else { return false };
        let mut at = osd.0;
        while let Some(above) = crush.parent_of(at) {
            let mut devices = Vec::new();
            crush.devices_below(above, &mut devices);
            if devices.iter().any(|device| map.is_up(OsdId(*device))) {
                return false;
            }
            if crush.bucket(above).is_some_and(|bucket| i32::from(bucket.kind) >= limit) {
                return true;
            }
            at = above;
        }
        false
    }

    /// Quotas and purged snapshots.
    pub(crate) fn tick_pools(&mut self, now: Instant, wall: UTime) {
        for (id, pool) in &self.next.osdmap.clone().pools {
            self.check_quota(wall, *id, pool);
        }
        self.tick_pg_autoscaler(wall);
        self.tick_pg_num(now, wall);
        self.tick_full(wall);
        self.tick_purge(wall);
    }

    fn check_quota(&mut self, wall: UTime, id: PoolId, pool: &PgPool) {
        let sum = self.stats.pool_sum(id);
        let is_over = (pool.quota_bytes_max > 0 && sum.bytes >= pool.quota_bytes_max)
            || (pool.quota_objects_max > 0 && sum.objects >= pool.quota_objects_max);
        let both = PoolFlags::FULL | PoolFlags::FULL_QUOTA;
        // What was reported can prove that a quota is reached; only reports on all PGs prove that it is not. But some
        // PGs may have no OSD that could report.
        let has_quota = pool.quota_bytes_max > 0 || pool.quota_objects_max > 0;
        let is_known = self.has_settled(wall) || self.stats.knows_pool(&self.next.osdmap, id);
        if has_quota && !is_over && !is_known {
            return;
        }
        if is_over != pool.flags.has(PoolFlags::FULL_QUOTA) {
            let name = self.next.osdmap.pool_name(id).unwrap_or_default().to_owned();
            if is_over {
                self.log_warn(wall, format!("pool '{name}' is full (reached quota)"));
            } else {
                self.log_info(wall, format!("pool '{name}' no longer out of quota; removing NO_QUOTA flag"));
            }
            let mut pool = pool.clone();
            pool.flags = pool.flags.with(both, is_over);
            self.change_osdmap(wall, |_, inc| {
                inc.new_pools.insert(id, pool);
            });
        }
    }

    /// Removed snapshots are purged when every PG of the pool has trimmed them, however many more are removed
    /// meanwhile.
    fn tick_purge(&mut self, wall: UTime) {
        let map = self.next.osdmap.clone();
        let mut purged = BTreeMap::new();
        for (id, queue) in &map.removed_snaps_queue {
            let trimmed = match map.pools.get(id) {
                // A PG that another one was merged into has more to trim than was reported before.
                Some(pool) => self.stats.trimmed(&map, *id, queue, pool.last_force_op_resend),
                None => queue.clone(),
            };
            if !trimmed.is_empty() {
                purged.insert(*id, trimmed);
            }
        }
        if !purged.is_empty() {
            self.change_osdmap(wall, |_, inc| inc.new_purged_snaps = purged);
        }
    }
}
