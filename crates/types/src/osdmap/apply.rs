//! Which maps count, and `OSDMap::apply_incremental`: the next epoch from this one, by Ceph's rules to the letter, as
//! every holder of the map must come to the same bytes.

use bytes::Bytes;
use codec::Decode;
use thiserror::Error;

use super::{
    CrushBlob, Incremental, MapFlags, OSD_COUNT_MAX, OsdInfo, OsdMap, OsdState, OsdXInfo,
    PRIMARY_AFFINITY_DEFAULT, Release,
};
use crate::{EntityAddrVec, Epoch, OsdId, UTime, Uuid};

/// Why a map that was sent does not count. The map that it was for is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// It belongs to another cluster.
    #[error("the map belongs to another cluster")]
    WrongFsid,
    /// It is a full map of another epoch than the one that it was sent as.
    #[error("a map of epoch {found} in place of that of epoch {wanted}")]
    NotItsEpoch {
        /// The epoch that it was sent as.
        wanted: Epoch,
        /// Its own.
        found: Epoch,
    },
    /// It does not lead on from the map's epoch.
    #[error("an incremental to epoch {found} does not follow epoch {ours}")]
    WrongEpoch {
        /// The map's epoch.
        ours: Epoch,
        /// The incremental's.
        found: Epoch,
    },
    /// It speaks of an OSD that the map has no room for.
    #[error("osd.{osd} is not below max_osd {max_osd}")]
    NoSuchOsd {
        /// The OSD.
        osd: OsdId,
        /// How many ids there are.
        max_osd: i32,
    },
    /// It asks for more OSD ids than are supported.
    #[error("max_osd {max_osd} is not allowed")]
    BadOsdCount {
        /// The number asked for.
        max_osd: i32,
    },
    /// The full map, or the CRUSH map inside an incremental, cannot be read.
    #[error("a map that cannot be read: {0}")]
    Decode(#[from] codec::DecodeError),
}

impl OsdMap {
    /// The full map that was sent as that of `epoch` in the cluster `fsid`, if it is. A holder that took another one
    /// would go back in time, or wait for ever to get on.
    pub fn of_epoch(epoch: Epoch, fsid: Uuid, bytes: Bytes) -> Result<OsdMap, ApplyError> {
        let map = OsdMap::from_bytes(bytes)?;
        if map.fsid != fsid {
            return Err(ApplyError::WrongFsid);
        }
        if map.epoch != epoch {
            return Err(ApplyError::NotItsEpoch { wanted: epoch, found: map.epoch });
        }
        Ok(map)
    }

    /// Moves the map on by one epoch. On an error it is unchanged.
    pub fn apply(&mut self, inc: &Incremental) -> Result<(), ApplyError> {
        if inc.epoch.0 != 1 && inc.fsid != self.fsid {
            return Err(ApplyError::WrongFsid);
        }
        if self.epoch.0.checked_add(1) != Some(inc.epoch.0) {
            return Err(ApplyError::WrongEpoch { ours: self.epoch, found: inc.epoch });
        }
        if !inc.fullmap.is_empty() {
            *self = OsdMap::of_epoch(inc.epoch, inc.fsid, inc.fullmap.clone())?;
            return Ok(());
        }
        let max_osd = inc.new_max_osd.filter(|n| *n >= 0).unwrap_or(self.max_osd);
        if max_osd > OSD_COUNT_MAX {
            return Err(ApplyError::BadOsdCount { max_osd });
        }
        check_osds(inc, max_osd)?;
        let crush = CrushBlob::new(inc.crush.clone())?;
        self.fsid = inc.fsid;
        self.epoch = inc.epoch;
        self.modified = inc.modified;
        self.apply_cluster(inc, max_osd);
        self.apply_pools(inc);
        self.apply_weights(inc);
        self.apply_states(inc);
        self.apply_lives(inc);
        self.apply_placements(inc);
        self.apply_settings(inc);
        if !inc.crush.is_empty() {
            self.apply_crush(crush);
        }
        Ok(())
    }

    fn apply_cluster(&mut self, inc: &Incremental, max_osd: i32) {
        if let Some(flags) = inc.new_flags.filter(|flags| flags.0 as i32 >= 0) {
            self.flags = flags;
        }
        if max_osd != self.max_osd {
            self.set_max_osd(max_osd);
        }
        if let Some(pool_max) = inc.new_pool_max {
            self.pool_max = pool_max.0 as i32;
        }
        if inc.new_last_up_change != UTime::default() {
            self.last_up_change = inc.new_last_up_change;
        }
        if inc.new_last_in_change != UTime::default() {
            self.last_in_change = inc.new_last_in_change;
        }
    }

    fn apply_pools(&mut self, inc: &Incremental) {
        for (id, pool) in &inc.new_pools {
            let mut pool = pool.clone();
            pool.last_change = self.epoch;
            self.pools.insert(*id, pool);
        }
        self.new_removed_snaps = inc.new_removed_snaps.clone();
        self.new_purged_snaps = inc.new_purged_snaps.clone();
        for (pool, snaps) in &inc.new_removed_snaps {
            self.removed_snaps_queue.entry(*pool).or_default().union_with(snaps);
        }
        for (pool, snaps) in &inc.new_purged_snaps {
            if let Some(queue) = self.removed_snaps_queue.get_mut(pool) {
                queue.subtract(snaps);
                if queue.is_empty() {
                    self.removed_snaps_queue.remove(pool);
                }
            }
        }
        for (id, name) in &inc.new_pool_names {
            self.pool_name.insert(*id, name.clone());
        }
        for id in &inc.old_pools {
            self.pools.remove(id);
            self.pool_name.remove(id);
        }
        for name in &inc.old_erasure_code_profiles {
            self.erasure_code_profiles.remove(name);
        }
        for (name, profile) in &inc.new_erasure_code_profiles {
            self.erasure_code_profiles.insert(name.clone(), profile.clone());
        }
    }

    fn apply_weights(&mut self, inc: &Incremental) {
        for (osd, weight) in &inc.new_weight {
            let at = osd.0 as usize;
            self.osd_weight[at] = *weight;
            // Marking in makes the OSD exist, as `OSDMap::set_weight` does.
            if *weight != 0 {
                let state = self.osd_state[at].without(OsdState::AUTOOUT | OsdState::NEW);
                self.osd_state[at] = state | OsdState::EXISTS;
                self.osd_xinfo[at].old_weight = 0;
            }
        }
        for (osd, affinity) in &inc.new_primary_affinity {
            self.set_primary_affinity(osd.0 as usize, *affinity);
        }
    }

    fn set_primary_affinity(&mut self, at: usize, affinity: u32) {
        // Once one OSD differs all have an entry, and keep it.
        if self.osd_primary_affinity.is_empty() {
            self.osd_primary_affinity = vec![PRIMARY_AFFINITY_DEFAULT; self.osd_state.len()];
        }
        self.osd_primary_affinity[at] = affinity;
    }

    fn apply_states(&mut self, inc: &Incremental) {
        for (osd, bits) in &inc.new_state {
            let at = osd.0 as usize;
            let bits = if *bits == OsdState(0) { OsdState::UP } else { *bits };
            let before = self.osd_state[at];
            if before.has(OsdState::UP) && bits.has(OsdState::UP) {
                self.osd_info[at].down_at = self.epoch;
                self.osd_xinfo[at].down_stamp = self.modified;
            }
            if before.has(OsdState::EXISTS) && bits.has(OsdState::EXISTS) {
                self.forget(at);
            } else {
                self.osd_state[at] = OsdState(before.0 ^ bits.0);
            }
        }
        for (osd, addrs) in &inc.new_up_client {
            let at = osd.0 as usize;
            self.osd_state[at] |= OsdState::EXISTS | OsdState::UP;
            self.osd_state[at] = self.osd_state[at].without(OsdState::STOP);
            self.osd_addrs[at] = addrs.clone();
            self.hb_back_addrs[at] = inc.new_hb_back_up.get(osd).cloned().unwrap_or_default();
            self.hb_front_addrs[at] = inc.new_hb_front_up.get(osd).cloned().unwrap_or_default();
            self.osd_info[at].up_from = self.epoch;
        }
        for (osd, addrs) in &inc.new_up_cluster {
            self.cluster_addrs[osd.0 as usize] = addrs.clone();
        }
    }

    /// The OSD was destroyed: nothing of it stays but its weight.
    fn forget(&mut self, at: usize) {
        self.osd_uuid[at] = Uuid::NIL;
        self.osd_info[at] = OsdInfo::default();
        self.osd_xinfo[at] = OsdXInfo::default();
        self.set_primary_affinity(at, PRIMARY_AFFINITY_DEFAULT);
        self.osd_addrs[at] = EntityAddrVec::default();
        self.cluster_addrs[at] = EntityAddrVec::default();
        self.hb_front_addrs[at] = EntityAddrVec::default();
        self.hb_back_addrs[at] = EntityAddrVec::default();
        self.osd_state[at] = OsdState::default();
    }

    fn apply_lives(&mut self, inc: &Incremental) {
        for (osd, epoch) in &inc.new_up_thru {
            self.osd_info[osd.0 as usize].up_thru = *epoch;
        }
        for (osd, (begin, end)) in &inc.new_last_clean_interval {
            let info = &mut self.osd_info[osd.0 as usize];
            (info.last_clean_begin, info.last_clean_end) = (*begin, *end);
        }
        for (osd, epoch) in &inc.new_lost {
            self.osd_info[osd.0 as usize].lost_at = *epoch;
        }
        for (osd, xinfo) in &inc.new_xinfo {
            self.osd_xinfo[osd.0 as usize] = *xinfo;
        }
        for (osd, uuid) in &inc.new_uuid {
            self.osd_uuid[osd.0 as usize] = *uuid;
        }
    }

    fn apply_placements(&mut self, inc: &Incremental) {
        for (pg, osds) in &inc.new_pg_temp {
            if osds.is_empty() {
                self.pg_temp.remove(pg);
            } else {
                self.pg_temp.insert(*pg, osds.clone());
            }
        }
        for (pg, osd) in &inc.new_primary_temp {
            if *osd == OsdId::NONE {
                self.primary_temp.remove(pg);
            } else {
                self.primary_temp.insert(*pg, *osd);
            }
        }
        self.pg_upmap.extend(inc.new_pg_upmap.iter().map(|(pg, osds)| (*pg, osds.clone())));
        for pg in &inc.old_pg_upmap {
            self.pg_upmap.remove(pg);
        }
        self.pg_upmap_items.extend(inc.new_pg_upmap_items.iter().map(|(pg, items)| (*pg, items.clone())));
        for pg in &inc.old_pg_upmap_items {
            self.pg_upmap_items.remove(pg);
        }
    }

    fn apply_settings(&mut self, inc: &Incremental) {
        // An address that is listed already stays for longer, or as long as it was to. In Ceph its time never changes,
        // so that who lists it again is told of a time that does not hold; clients ask only for what is listed.
        for (addr, until) in &inc.new_blocklist {
            let listed = self.blocklist.entry(*addr).or_insert(*until);
            *listed = (*listed).max(*until);
        }
        for addr in &inc.old_blocklist {
            self.blocklist.remove(addr);
        }
        self.range_blocklist.apply(&inc.ranges);
        for (ours, new) in [
            (&mut self.crush_node_flags, &inc.new_crush_node_flags),
            (&mut self.device_class_flags, &inc.new_device_class_flags),
        ] {
            for (id, bits) in new {
                if *bits == OsdState(0) {
                    ours.remove(id);
                } else {
                    ours.insert(*id, *bits);
                }
            }
        }
        self.cluster_snapshot_epoch = if inc.cluster_snapshot.is_empty() { Epoch(0) } else { inc.epoch };
        self.cluster_snapshot.clone_from(&inc.cluster_snapshot);
        for (ours, new) in [
            (&mut self.nearfull_ratio, inc.new_nearfull_ratio),
            (&mut self.backfillfull_ratio, inc.new_backfillfull_ratio),
            (&mut self.full_ratio, inc.new_full_ratio),
        ] {
            if let Some(ratio) = new.filter(|ratio| *ratio >= 0.0) {
                *ours = ratio;
            }
        }
        if let Some(release) = inc.new_require_min_compat_client.filter(|release| release.0 > 0) {
            self.require_min_compat_client = release;
        }
        if let Some(release) = inc.new_require_osd_release {
            self.require_osd_release = release;
            if release >= Release::LUMINOUS {
                const RETIRED: MapFlags = MapFlags(
                    MapFlags::REQUIRE_JEWEL.0 | MapFlags::REQUIRE_KRAKEN.0 | MapFlags::REQUIRE_LUMINOUS.0,
                );
                self.flags = self.flags.without(RETIRED) | MapFlags::RECOVERY_DELETES;
            }
        }
    }

    /// Last, as Ceph does: the counter depends on the release that was just set.
    fn apply_crush(&mut self, crush: CrushBlob) {
        self.crush = crush;
        if self.require_osd_release >= Release::LUMINOUS {
            self.crush_version = self.crush_version.wrapping_add(1);
        }
    }
}

/// Refuses OSD ids that have no place in the map's vectors.
fn check_osds(inc: &Incremental, max_osd: i32) -> Result<(), ApplyError> {
    let osds = (inc.new_up_client.keys())
        .chain(inc.new_state.keys())
        .chain(inc.new_weight.keys())
        .chain(inc.new_primary_affinity.keys())
        .chain(inc.new_up_thru.keys())
        .chain(inc.new_last_clean_interval.keys())
        .chain(inc.new_lost.keys())
        .chain(inc.new_up_cluster.keys())
        .chain(inc.new_uuid.keys())
        .chain(inc.new_xinfo.keys());
    for osd in osds {
        if !(0..max_osd).contains(&osd.0) {
            return Err(ApplyError::NoSuchOsd { osd: *osd, max_osd });
        }
    }
    Ok(())
}
