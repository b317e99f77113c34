//! Numbers of PGs move to what is wanted: first `pg_num`, when all PGs of the pool are there to be split, then
//! `pgp_num`, a little at a time, since that moves data.
//!
//! Authority: `DaemonServer::adjust_pgs`, which Ceph's manager runs.

use types::{OsdMap, PgPool, PgState, PoolId, UTime};

use crate::Mon;

/// PGs that may be added at once (`mon_osd_max_creating_pgs`).
const ADDED_MAX: u32 = 1_024;
/// The part of a pool's PGs that may move at once: half of `target_max_misplaced_ratio`.
const MOVED_PART: f64 = 0.05 / 2.0;

impl Mon {
    /// Takes the next step of each pool that is not where it should be.
    pub(super) fn tick_pg_num(&mut self, wall: UTime) {
        let map = self.next.osdmap.clone();
        let stepped: Vec<(PoolId, PgPool)> = map
            .pools
            .iter()
            .filter_map(|(id, pool)| Some((*id, self.pg_num_step(&map, *id, pool)?)))
            .collect();
        if !stepped.is_empty() {
            self.change_osdmap(wall, |_, inc| inc.new_pools.extend(stepped));
        }
    }

    fn pg_num_step(&self, map: &OsdMap, id: PoolId, pool: &PgPool) -> Option<PgPool> {
        let pgp_num_wanted = pool.pgp_num_target.min(pool.pg_num);
        if pool.pg_num_target > pool.pg_num {
            // What its OSDs have not made yet they could not split.
            let is_made = !self.next.creating.contains_key(&id);
            return (is_made && self.are_all(map, id, PgState::ACTIVE)).then(|| split(map, pool));
        }
        if pgp_num_wanted == pool.pgp_num
            || !self.are_all(map, id, PgState::ACTIVE)
            || !self.are_all(map, id, PgState::CLEAN)
        {
            return None;
        }
        let is_small = self.stats.pool_sum(id).objects <= u64::from(pgp_num_wanted);
        let step = if is_small { u32::MAX } else { ((f64::from(pool.pg_num) * MOVED_PART) as u32).max(1) };
        let (low, high) = (pool.pgp_num.saturating_sub(step), pool.pgp_num.saturating_add(step));
        Some(PgPool { pgp_num: pgp_num_wanted.clamp(low, high), ..pool.clone() })
    }

    /// True if all PGs of the pool were reported to be in that state, by OSDs that are up.
    fn are_all(&self, map: &OsdMap, id: PoolId, state: PgState) -> bool {
        map.pgs_of(id).all(|pg| {
            self.stats.pg(pg).is_some_and(|stat| {
                stat.state.has(state)
                    && stat.reported_epoch >= self.last_step(map, id)
                    && map.is_up(stat.acting_primary)
            })
        })
    }

    /// What was reported before the pool changed last is not of the pool as it is.
    fn last_step(&self, map: &OsdMap, id: PoolId) -> types::Epoch {
        map.pools.get(&id).map_or(map.epoch, |pool| pool.last_change)
    }
}

/// The pool with as many more PGs as it may get at once.
fn split(map: &OsdMap, pool: &PgPool) -> PgPool {
    let mut pool = pool.clone();
    pool.set_pg_num(pool.pg_num_target.min(pool.pg_num + ADDED_MAX));
    pool.last_force_op_resend_preluminous = map.epoch.next();
    pool
}
