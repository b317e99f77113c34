//! `ceph pg getmap`: all statistics in Ceph's own bytes.

use std::collections::BTreeMap;

use codec::{Encode, Features};
use messages::{CephOsdStat, CephPgStat, ObjectStatCollection, PgMap, StorePerfStat, StoreStatfs};
use types::{OsdStat, PgStat, PgState, PoolStatfs};

use super::{Reply, Request, Row, pg::all_stats};
use crate::stats::{signed, stat_sum};

pub(super) const ROWS: &[Row] =
    &[Row { sig: "pg getmap", help: "get binary pg map to -o/stdout", module: "pg", perm: "r", run: getmap }];

fn getmap(req: &mut Request<'_>) -> Reply {
    let mon = &*req.mon;
    let (map, stats) = (req.map(), &mon.stats);
    let of_pools = map.osds().flat_map(|osd| map.pools.keys().map(move |pool| (*pool, osd)));
    let out = PgMap {
        version: stats.version,
        pgs: all_stats(mon).iter().map(|stat| (stat.pgid, pg_stat(stat))).collect(),
        osds: map
            .osds()
            .filter_map(|osd| {
                let up_from = map.up_from(osd);
                let stat = CephOsdStat { up_from, seq: stats.seq(osd), ..osd_stat(stats.osd(osd)?) };
                Some((osd, stat))
            })
            .collect(),
        stamp: req.wall,
        pools: of_pools
            .filter(|(_, osd)| stats.osd(*osd).is_some())
            .map(|(pool, osd)| ((pool, osd), statfs(stats.pool_statfs(pool, osd))))
            .collect::<BTreeMap<_, _>>(),
        ..PgMap::default()
    };
    Reply::text(out.to_bytes(Features::PACIFIC)).with_status(format!("got pgmap version {}", stats.version))
}

fn statfs(of: PoolStatfs) -> StoreStatfs {
    StoreStatfs {
        allocated: signed(of.allocated),
        data_stored: signed(of.data_stored),
        omap_allocated: signed(of.omap_allocated),
        ..StoreStatfs::default()
    }
}

/// As `pg dump` has it.
fn pg_stat(stat: &PgStat) -> CephPgStat {
    let PgState(state) = stat.state;
    let (fresh, times) = (stat.last_fresh, &stat.times);
    CephPgStat {
        version: stat.version,
        reported_seq: stat.reported_seq,
        reported_epoch: stat.reported_epoch,
        state: (state & u64::from(u32::MAX)) as u32,
        log_start: stat.log_start,
        ondisk_log_start: stat.log_start,
        created: stat.created,
        last_epoch_clean: stat.last_epoch_clean,
        last_scrub: stat.scrubs.last_scrub,
        last_scrub_stamp: stat.scrubs.last_scrub_stamp,
        stats: ObjectStatCollection { sum: stat_sum(&stat.sum), ..ObjectStatCollection::default() },
        log_size: stat.log_size,
        ondisk_log_size: stat.log_size,
        up: stat.up.clone(),
        acting: stat.acting.clone(),
        last_fresh: fresh,
        last_change: stat.last_change,
        last_active: stat.last_active,
        last_clean: stat.last_clean,
        last_unstale: fresh,
        mapping_epoch: stat.mapping_epoch,
        last_deep_scrub: stat.scrubs.last_deep_scrub,
        last_deep_scrub_stamp: stat.scrubs.last_deep_scrub_stamp,
        last_clean_scrub_stamp: stat.scrubs.last_clean_scrub_stamp,
        last_became_active: times.became_active,
        up_primary: stat.up_primary,
        acting_primary: stat.acting_primary,
        blocked_by: stat.blocked_by.clone(),
        last_undegraded: times.undegraded,
        last_fullsized: times.fullsized,
        last_peered: times.peered,
        last_became_peered: times.became_peered,
        snaptrimq_len: u32::try_from(stat.snaptrimq_len).unwrap_or(u32::MAX),
        top_state: (state >> 32) as u32,
        purged_snaps: stat.purged_snaps.iter().collect(),
        ..CephPgStat::default()
    }
}

fn osd_stat(stat: &OsdStat) -> CephOsdStat {
    CephOsdStat {
        kb: stat.kb,
        kb_used: stat.kb_used,
        kb_avail: stat.kb_avail,
        hb_peers: stat.heartbeat_peers.clone(),
        perf_stat: StorePerfStat {
            commit_latency_ns: stat.commit_latency_ns,
            apply_latency_ns: stat.apply_latency_ns,
        },
        num_pgs: stat.pg_count,
        kb_used_data: stat.kb_used_data,
        kb_used_omap: stat.kb_used_omap,
        kb_used_meta: stat.kb_used_meta,
        statfs: StoreStatfs {
            total: stat.kb << 10,
            available: stat.kb_avail << 10,
            allocated: signed(stat.kb_used_data << 10),
            omap_allocated: signed(stat.kb_used_omap << 10),
            internal_metadata: signed(stat.kb_used_meta << 10),
            ..StoreStatfs::default()
        },
        num_shards_repaired: stat.copies_repaired,
        num_osds: 1,
        num_per_pool_osds: 1,
        num_per_pool_omap_osds: 1,
        ..CephOsdStat::default()
    }
}
