//! `MStatfs` and `MGetPoolStats`: statistics for librados.

use messages::{
    MGetPoolStats, MGetPoolStatsReply, MStatfs, MStatfsReply, ObjectStatCollection, ObjectStatSum,
    PaxosHeader, PoolStat, StoreStatfs,
};
use types::{OsdMap, PgStatSum, PoolId};

use super::{Stats, pool_space};
use crate::{ConnId, Effect, Effects, Mon};

impl Mon {
    pub(crate) fn on_statfs(&self, conn: ConnId, tid: u64, question: &MStatfs, effects: &mut Effects) {
        let map = &self.committed.osdmap;
        let mut reply = MStatfsReply {
            fsid: self.committed.monmap.fsid,
            version: self.stats.version,
            ..MStatfsReply::default()
        };
        match question.data_pool.and_then(|id| Some((id, map.pools.get(&id)?))) {
            Some((id, pool)) => {
                let space = pool_space(&self.stats, map, id, pool);
                reply.kb_used = self.stats.pool_sum(id).bytes >> 10;
                reply.kb_avail = space.max_avail >> 10;
                reply.kb = reply.kb_used.saturating_add(reply.kb_avail);
                reply.num_objects = self.stats.pool_sum(id).objects;
            }
            None => {
                let all = self.stats.all_devices(map);
                (reply.kb, reply.kb_used, reply.kb_avail) = (all.kb, all.kb_used, all.kb_avail);
                reply.num_objects = self.stats.total().objects;
            }
        }
        effects.push(Effect::Send { conn, tid, message: reply.into() });
    }

    pub(crate) fn on_get_pool_stats(
        &self,
        conn: ConnId,
        tid: u64,
        question: &MGetPoolStats,
        effects: &mut Effects,
    ) {
        let map = &self.committed.osdmap;
        let pools = question
            .pools
            .iter()
            .filter_map(|name| Some((name.clone(), pool_stat(&self.stats, map, map.pool_by_name(name)?.0))))
            .collect();
        let reply = MGetPoolStatsReply {
            header: PaxosHeader::new(self.stats.version),
            fsid: self.committed.monmap.fsid,
            pools,
            is_per_pool: true,
        };
        effects.push(Effect::Send { conn, tid, message: reply.into() });
    }
}

/// As Ceph has numbers that do not fall below zero.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// `object_stat_sum_t` of what our OSDs count.
pub(crate) fn stat_sum(sum: &PgStatSum) -> ObjectStatSum {
    ObjectStatSum {
        num_bytes: signed(sum.bytes),
        num_objects: signed(sum.objects),
        num_object_clones: signed(sum.clones),
        num_object_copies: signed(sum.object_copies),
        num_objects_missing_on_primary: signed(sum.missing_on_primary),
        num_objects_degraded: signed(sum.degraded),
        num_objects_unfound: signed(sum.unfound),
        num_rd: signed(sum.reads),
        num_rd_kb: signed(sum.read_bytes >> 10),
        num_wr: signed(sum.writes),
        num_wr_kb: signed(sum.write_bytes >> 10),
        num_objects_recovered: signed(sum.objects_recovered),
        num_bytes_recovered: signed(sum.bytes_recovered),
        num_scrub_errors: signed(sum.shallow_scrub_errors.saturating_add(sum.deep_scrub_errors)),
        num_shallow_scrub_errors: signed(sum.shallow_scrub_errors),
        num_deep_scrub_errors: signed(sum.deep_scrub_errors),
        num_objects_misplaced: signed(sum.misplaced),
        num_large_omap_objects: signed(sum.large_omap_objects),
        num_omap_bytes: signed(sum.omap_bytes),
        num_omap_keys: signed(sum.omap_keys),
        num_objects_repaired: signed(sum.objects_repaired),
        ..ObjectStatSum::default()
    }
}

fn pool_stat(stats: &Stats, map: &OsdMap, id: PoolId) -> PoolStat {
    let sum = stats.pool_sum(id);
    let pgs = stats.pgs().filter(|stat| stat.pgid.pool == id);
    let (mut log_size, mut up, mut acting) = (0i64, 0, 0);
    for stat in pgs {
        log_size = log_size.saturating_add(signed(stat.log_size));
        up += i32::try_from(stat.up.len()).unwrap_or(0);
        acting += i32::try_from(stat.acting.len()).unwrap_or(0);
    }
    let statfs = stats.pool_statfs_sum(id);
    let store_stats = StoreStatfs {
        allocated: signed(statfs.allocated),
        data_stored: signed(statfs.data_stored),
        omap_allocated: signed(statfs.omap_allocated),
        ..StoreStatfs::default()
    };
    PoolStat {
        stats: ObjectStatCollection { sum: stat_sum(&sum), ..ObjectStatCollection::default() },
        log_size,
        ondisk_log_size: log_size,
        up,
        acting,
        store_stats,
        num_store_stats: u32::try_from(map.num_osds()).unwrap_or(0),
    }
}
