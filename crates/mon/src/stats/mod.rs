//! What OSDs report of their PGs and devices. Soft state: a new monitor learns it within seconds.

mod counters;
mod rates;
mod requests;
mod space;

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
};

use messages::{MPGStats, PeerPing, PerfValues};
use types::{
    Epoch, Instant, IntervalSet, OsdId, OsdMap, OsdStat, PgId, PgStat, PgStatSum, PgState, PgTimes, PoolId,
    PoolStatfs, UTime,
};

pub(crate) use counters::Counters;
pub(crate) use rates::Rates;
pub(crate) use requests::{signed, stat_sum};
pub(crate) use space::{PoolSpace, pool_space, rule_shares, rule_weights};

use crate::Mon;
use counters::{Counted, Reporter};
use rates::Activity;

/// Statistics as they came in.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    /// The last report on each PG. Its counters are those of all its primaries since the first report.
    pgs: BTreeMap<PgId, PgStat>,
    /// The counters in that report as the primary gave them.
    counted: BTreeMap<PgId, Counted>,
    /// PGs that no OSD has reported yet, and since when they are known.
    unreported: BTreeMap<PgId, UTime>,
    osds: BTreeMap<OsdId, OsdStat>,
    /// What pools take of each OSD.
    pool_statfs: BTreeMap<OsdId, BTreeMap<PoolId, PoolStatfs>>,
    /// Slow requests of each OSD that has any, and the age of the oldest in seconds.
    slow_ops: BTreeMap<OsdId, (u32, u32)>,
    /// What each OSD has counted.
    perf: BTreeMap<OsdId, PerfValues>,
    /// How long the heartbeat peers of each OSD take to answer.
    pings: BTreeMap<OsdId, Vec<PeerPing>>,
    /// The number of each OSD's last report.
    seqs: BTreeMap<OsdId, u64>,
    activity: Activity,
    samples: VecDeque<rates::Sample>,
    /// Counts reports: the version of the statistics.
    pub(crate) version: u64,
}

impl Mon {
    pub(crate) fn on_pg_stats(&mut self, now: Instant, wall: UTime, report: MPGStats) {
        // Of an older copy of the ledger, too, by which the OSD is not up.
        self.note_osd_epoch(now, wall, report.osd, report.epoch);
        if !self.committed.osdmap.is_up(report.osd) {
            return;
        }
        self.osds.note_report(report.osd, now);
        self.stats.version += 1;
        self.stats.osds.insert(report.osd, report.stat);
        self.stats.pool_statfs.insert(report.osd, report.pool_stat.into_iter().collect());
        self.stats.perf.insert(report.osd, report.perf);
        self.stats.pings.insert(report.osd, report.pings);
        self.stats.seqs.insert(report.osd, report.seq);
        match report.slow_ops {
            0 => self.stats.slow_ops.remove(&report.osd),
            count => self.stats.slow_ops.insert(report.osd, (count, report.oldest_slow_op_sec)),
        };
        let reporter = Reporter::new(report.osd, report.seq);
        let map = &self.committed.osdmap;
        for mut stat in report.pgs {
            // No OSD can know a later map than this. A report of one would hide all that follow, and have maps trimmed
            // that PGs still need.
            if !map.pg_exists(stat.pgid) || stat.reported_epoch > map.epoch {
                continue;
            }
            let age = |s: &PgStat| (s.reported_epoch, s.reported_seq);
            let known = self.stats.pgs.get(&stat.pgid);
            let counted = self.stats.counted.get(&stat.pgid);
            // The map is asked only for an OSD that was not heard of the PG last. It has to lead it; then its word
            // stands, whatever numbers the OSD gave its reports that led before.
            let is_newer = match known.filter(|_| counted.is_some_and(|it| it.is_of(report.osd))) {
                Some(known) => age(known) <= age(&stat),
                None => map.pg_to_up_acting(stat.pgid).acting_primary == report.osd,
            };
            if is_newer {
                let counted = Counted::new(reporter, &stat.sum);
                let before = self.stats.counted.insert(stat.pgid, counted);
                if let (Some(known), Some(before)) = (known, before) {
                    let done = counted.since(&before);
                    stat.sum = Counters::of(&known.sum).plus(done).in_sum(stat.sum);
                    self.stats.activity.note(stat.pgid.pool, report.osd, done);
                    // A new primary does not know which states the PG was in under its predecessor.
                    stat.last_active = stat.last_active.max(known.last_active);
                    stat.last_clean = stat.last_clean.max(known.last_clean);
                    stat.times = stat.times.max(known.times);
                }
                self.stats.unreported.remove(&stat.pgid);
                self.stats.pgs.insert(stat.pgid, stat);
            }
        }
    }
}

impl Stats {
    /// The last report on a PG.
    pub(crate) fn pg(&self, pg: PgId) -> Option<&PgStat> {
        self.pgs.get(&pg)
    }

    /// The last report on an OSD's device.
    pub(crate) fn osd(&self, osd: OsdId) -> Option<&OsdStat> {
        self.osds.get(&osd)
    }

    /// The number of an OSD's last report; 0 without one.
    pub(crate) fn seq(&self, osd: OsdId) -> u64 {
        self.seqs.get(&osd).copied().unwrap_or(0)
    }

    /// What an OSD has counted.
    pub(crate) fn perf(&self, osd: OsdId) -> Option<&PerfValues> {
        self.perf.get(&osd)
    }

    /// How long the heartbeat peers of OSDs take to answer.
    pub(crate) fn pings(&self) -> impl Iterator<Item = (OsdId, &[PeerPing])> {
        self.pings.iter().map(|(osd, pings)| (*osd, pings.as_slice()))
    }

    /// Slow requests by OSD: how many, and the age of the oldest in seconds.
    pub(crate) fn slow_ops(&self) -> impl Iterator<Item = (OsdId, (u32, u32))> {
        self.slow_ops.iter().map(|(osd, slow)| (*osd, *slow))
    }

    /// All reports on PGs.
    pub(crate) fn pgs(&self) -> impl Iterator<Item = &PgStat> {
        self.pgs.values()
    }

    /// All reports on PGs, for tests to change.
    #[cfg(test)]
    pub(crate) fn pgs_mut(&mut self) -> impl Iterator<Item = &mut PgStat> {
        self.pgs.values_mut()
    }

    /// The state to show: `unknown` without a report, stale when the OSD that reported it is down.
    pub(crate) fn state_of(&self, map: &OsdMap, pg: PgId, is_creating: bool) -> PgState {
        match self.pgs.get(&pg) {
            Some(stat) if map.is_up(stat.acting_primary) => stat.state,
            Some(stat) => stat.state.with(PgState::STALE),
            None if is_creating => PgState::CREATING,
            None => PgState(0),
        }
    }

    /// The last report on a PG, made up from the map where none came in. The state to show is [`Stats::state_of`].
    pub(crate) fn report_on(&self, map: &OsdMap, pg: PgId) -> Cow<'_, PgStat> {
        if let Some(stat) = self.pgs.get(&pg) {
            return Cow::Borrowed(stat);
        }
        let at = map.pg_to_up_acting(pg);
        let since = self.unreported.get(&pg).copied().unwrap_or_default();
        Cow::Owned(PgStat {
            pgid: pg,
            up: at.up,
            acting: at.acting,
            up_primary: at.up_primary,
            acting_primary: at.acting_primary,
            last_fresh: since,
            last_change: since,
            last_active: since,
            last_clean: since,
            times: PgTimes::at(since),
            ..PgStat::default()
        })
    }

    /// The report on a PG, with the state to show.
    pub(crate) fn stat_of(&self, map: &OsdMap, pg: PgId, is_creating: bool) -> PgStat {
        PgStat { state: self.state_of(map, pg, is_creating), ..self.report_on(map, pg).into_owned() }
    }

    /// Sum over a pool's PGs.
    pub(crate) fn pool_sum(&self, pool: PoolId) -> PgStatSum {
        let range = PgId::new(pool, 0)..=PgId::new(pool, u32::MAX);
        self.pgs.range(range).fold(PgStatSum::default(), |sum, (_, stat)| add(sum, stat.sum))
    }

    /// True when every PG of the pool was reported: before that, sums over it may be too small.
    pub(crate) fn knows_pool(&self, map: &OsdMap, pool: PoolId) -> bool {
        map.pgs_of(pool).all(|pg| self.pgs.contains_key(&pg))
    }

    /// True when every PG and every OSD that is up was reported.
    pub(crate) fn knows_all(&self, map: &OsdMap) -> bool {
        map.osds().all(|osd| !map.is_up(osd) || self.osds.contains_key(&osd))
            && map.pgs().all(|pg| self.pgs.contains_key(&pg))
    }

    /// What a pool takes of an OSD.
    pub(crate) fn pool_statfs(&self, pool: PoolId, osd: OsdId) -> PoolStatfs {
        self.pool_statfs.get(&osd).and_then(|pools| pools.get(&pool)).copied().unwrap_or_default()
    }

    /// What a pool takes of all OSDs.
    pub(crate) fn pool_statfs_sum(&self, pool: PoolId) -> PoolStatfs {
        let all = self.pool_statfs.values().filter_map(|pools| pools.get(&pool));
        all.fold(PoolStatfs::default(), |sum, statfs| sum.plus(*statfs))
    }

    /// Sum over all PGs.
    pub(crate) fn total(&self) -> PgStatSum {
        self.pgs.values().fold(PgStatSum::default(), |sum, stat| add(sum, stat.sum))
    }

    /// The removed snapshots in `queue` that every PG of the pool has trimmed, as it was reported in map `since` or
    /// later.
    pub(crate) fn trimmed(
        &self,
        map: &OsdMap,
        pool: PoolId,
        queue: &IntervalSet,
        since: Epoch,
    ) -> IntervalSet {
        let is_sound = |stat: &&PgStat| {
            stat.reported_epoch >= since && stat.state.has(PgState::ACTIVE) && stat.state.has(PgState::CLEAN)
        };
        let mut left = queue.clone();
        for pg in map.pgs_of(pool) {
            let Some(stat) = self.pgs.get(&pg).filter(is_sound) else { return IntervalSet::new() };
            left = left.intersection(&stat.purged_snaps);
            if left.is_empty() {
                break;
            }
        }
        left
    }

    /// Drops the PGs that the map no longer has, and notes those that are new. What a PG that was merged has done
    /// counts for the one that it was merged into.
    pub(crate) fn follow(&mut self, map: &OsdMap, wall: UTime) {
        let gone: Vec<PgId> = self.pgs.keys().copied().filter(|pg| !map.pg_exists(*pg)).collect();
        for pg in gone {
            let Some(gone) = self.pgs.remove(&pg) else { continue };
            let target = map.pools.get(&pg.pool).map(|pool| pool.pg_of_hash(pg.pool, pg.seed));
            if let Some(into) = target.and_then(|target| self.pgs.get_mut(&target)) {
                into.sum = Counters::of(&into.sum).plus(Counters::of(&gone.sum)).in_sum(into.sum);
            }
        }
        self.counted.retain(|pg, _| map.pg_exists(*pg));
        self.activity.follow(map);
        self.unreported.retain(|pg, _| map.pg_exists(*pg));
        for pg in map.pgs().filter(|pg| !self.pgs.contains_key(pg)) {
            self.unreported.entry(pg).or_insert(wall);
        }
    }

    pub(crate) fn forget_osd(&mut self, osd: OsdId) {
        self.osds.remove(&osd);
        self.activity.forget_osd(osd);
        self.pool_statfs.remove(&osd);
        self.slow_ops.remove(&osd);
        self.perf.remove(&osd);
        self.pings.remove(&osd);
        self.seqs.remove(&osd);
    }
}

/// Sum of two. An OSD may report any number.
fn add(a: PgStatSum, b: PgStatSum) -> PgStatSum {
    PgStatSum {
        bytes: a.bytes.saturating_add(b.bytes),
        objects: a.objects.saturating_add(b.objects),
        clones: a.clones.saturating_add(b.clones),
        object_copies: a.object_copies.saturating_add(b.object_copies),
        missing_on_primary: a.missing_on_primary.saturating_add(b.missing_on_primary),
        degraded: a.degraded.saturating_add(b.degraded),
        misplaced: a.misplaced.saturating_add(b.misplaced),
        unfound: a.unfound.saturating_add(b.unfound),
        omap_bytes: a.omap_bytes.saturating_add(b.omap_bytes),
        omap_keys: a.omap_keys.saturating_add(b.omap_keys),
        reads: a.reads.saturating_add(b.reads),
        read_bytes: a.read_bytes.saturating_add(b.read_bytes),
        writes: a.writes.saturating_add(b.writes),
        write_bytes: a.write_bytes.saturating_add(b.write_bytes),
        objects_recovered: a.objects_recovered.saturating_add(b.objects_recovered),
        bytes_recovered: a.bytes_recovered.saturating_add(b.bytes_recovered),
        shallow_scrub_errors: a.shallow_scrub_errors.saturating_add(b.shallow_scrub_errors),
        deep_scrub_errors: a.deep_scrub_errors.saturating_add(b.deep_scrub_errors),
        objects_repaired: a.objects_repaired.saturating_add(b.objects_repaired),
        large_omap_objects: a.large_omap_objects.saturating_add(b.large_omap_objects),
    }
}
