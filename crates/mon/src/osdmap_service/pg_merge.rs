//! A pool gets fewer PGs, one at a time. The last PG is merged into the one that it was split from: a first map
//! (`pg_num_pending`) has both begin an interval in which they change nothing; when both are clean in it, on the same
//! OSDs, a second map takes the last PG away. If that does not come about soon, another map lets both go on as before.
//!
//! The merge loses nothing because of what the second map rests on ([`Mon::merged`]): every member of both PGs had
//! everything, at the versions that the map names, and none of them can have got a newer one since.
//!
//! Authority: `OSDMonitor::prepare_pg_ready_to_merge`, `DaemonServer::adjust_pgs`. In Ceph the OSDs send a message when
//! they are ready; here the monitor sees it in what they report anyway.

use std::time::Duration;

use types::{Instant, OsdId, OsdMap, PgId, PgMergeMeta, PgPool, PgStat, PgState, PoolId};

use super::pg_num::Step;
use crate::Mon;

/// How long PGs that are to be merged may take to be ready: clients wait for them.
const PATIENCE: Duration = Duration::from_secs(30);

impl Mon {
    /// Notes since when pools wait for a merge.
    pub(super) fn note_merges(&mut self, map: &OsdMap, now: Instant) {
        let is_merging =
            |id: &PoolId| map.pools.get(id).is_some_and(|pool| pool.pg_num_pending < pool.pg_num);
        self.osds.merging_since.retain(|id, _| is_merging(id));
        for id in map.pools.keys().filter(|id| is_merging(id)) {
            self.osds.merging_since.entry(*id).or_insert(now);
        }
    }

    /// PGs are placed as they are to be: two of them prepare to be merged, if there are too many.
    pub(super) fn begin_merge(&self, map: &OsdMap, id: PoolId, pool: &PgPool) -> Option<Step> {
        let (source, target) = pool.next_merge(id)?;
        if pool.pg_num_target >= pool.pg_num
            || pool.pgp_num > source.seed
            || source.seed < least_pg_num(map, pool)
        {
            return None;
        }
        let is_placed = |pg: &PgId| map.pg_upmap.contains_key(pg) || map.pg_upmap_items.contains_key(pg);
        if is_placed(&source) || is_placed(&target) {
            return Some(Step::Place(vec![source, target]));
        }
        let is_whole = |pg| self.is_now(map, pg, PgState::ACTIVE.with(PgState::CLEAN));
        if !is_whole(source) || !is_whole(target) {
            return None;
        }
        members_of_both(map, pool, source, target)?;
        let mut pool = pool.clone();
        pool.pg_num_pending = source.seed;
        (pool.last_force_op_resend_prenautilus, pool.last_force_op_resend_preluminous) =
            (map.epoch.next(), map.epoch.next());
        Some(Step::Change(pool))
    }

    /// The next step for two PGs of the pool that wait to be merged: they are merged, or go on as before.
    pub(super) fn merge_step(&self, map: &OsdMap, id: PoolId, pool: &PgPool, now: Instant) -> Option<Step> {
        let (source, target) = pool.next_merge(id)?;
        // An OSD with more reactors may have come since the beginning.
        let is_wanted = pool.pg_num_target < pool.pg_num
            && pool.pg_num_pending == source.seed
            && source.seed >= least_pg_num(map, pool);
        let members = members_of_both(map, pool, source, target).filter(|_| is_wanted);
        if let Some(members) = &members
            && let Some(merged) = self.merged(map, pool, members, source, target)
        {
            return Some(Step::Change(merged));
        }
        let since = self.osds.merging_since.get(&id).copied().unwrap_or(now);
        if members.is_some() && now.since(since) < PATIENCE {
            return None;
        }
        let (mut pool, epoch) = (pool.clone(), map.epoch.next());
        pool.pg_num_pending = pool.pg_num;
        pool.last_force_op_resend_prenautilus = epoch;
        Some(Step::Change(pool))
    }

    /// The pool after the merge, if both PGs were reported clean and waiting since the pool's last change, which began
    /// the merge, and if their members have been the same, and alive, since then.
    fn merged(
        &self,
        map: &OsdMap,
        pool: &PgPool,
        members: &[OsdId],
        source: PgId,
        target: PgId,
    ) -> Option<PgPool> {
        let ready = PgState::CLEAN.with(PgState::PREMERGE).with(PgState::PEERED);
        let is_ready = |stat: &&PgStat| {
            stat.state.has(ready)
                && stat.reported_epoch >= pool.last_change
                && stat.acting == members
                && stat.up == members
                && members.iter().all(|osd| map.up_from(*osd) <= stat.reported_epoch)
        };
        let (ours, theirs) =
            (self.stats.pg(target).filter(is_ready)?, self.stats.pg(source).filter(is_ready)?);
        let (ready_epoch, epoch) = (ours.reported_epoch.min(theirs.reported_epoch), map.epoch.next());
        let mut pool = pool.clone();
        pool.set_pg_num(source.seed);
        pool.last_pg_merge_meta = PgMergeMeta {
            source_pgid: source,
            ready_epoch,
            last_epoch_started: ready_epoch,
            last_epoch_clean: ready_epoch,
            source_version: theirs.version,
            target_version: ours.version,
        };
        pool.last_force_op_resend = epoch;
        pool.last_force_op_resend_prenautilus = epoch;
        pool.last_force_op_resend_preluminous = epoch;
        Some(pool)
    }
}

/// The OSDs that have both PGs, if they are as many as the pool wants and no others act in their place.
fn members_of_both(map: &OsdMap, pool: &PgPool, source: PgId, target: PgId) -> Option<Vec<OsdId>> {
    let (one, other) = (map.pg_to_up_acting(source), map.pg_to_up_acting(target));
    let is_settled = one.up == one.acting
        && one.up.len() == usize::from(pool.size)
        && one.up.iter().all(|osd| osd.is_some() && map.is_up(*osd));
    (is_settled && one == other).then_some(one.acting)
}

/// How many PGs the pool has to keep, given the OSD with the most reactors: each reactor has PGs of its own.
pub(crate) fn least_pg_num(map: &OsdMap, pool: &PgPool) -> u32 {
    let reactors = |osd| map.osd_cluster_addrs(osd).map_or(1, |addrs| addrs.0.len() as u32);
    map.osds().map(reactors).max().unwrap_or(1).min(pool.first_pg_num()).max(1)
}
