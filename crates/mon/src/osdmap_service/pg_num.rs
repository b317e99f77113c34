//! Pools' numbers of PGs move to what is wanted: first `pg_num`, when all PGs of the pool exist and can be split, then
//! `pgp_num`, a little at a time, since that moves data. When a pool is to have fewer PGs, `pgp_num` goes first, so
//! that each PG lies where the PG is that it is merged with (`pg_merge.rs`).
//!
//! Authority: `DaemonServer::adjust_pgs`, which Ceph's manager runs.

use std::collections::BTreeSet;

use types::{Instant, OsdMap, PgId, PgPool, PgState, PoolId, UTime};

use crate::Mon;

/// PGs that may be added at once (`mon_osd_max_creating_pgs`).
const ADDED_MAX: u32 = 1_024;
/// The part of a pool's PGs that may move at once: half of `target_max_misplaced_ratio`.
const MOVED_PART: f64 = 0.05 / 2.0;

/// What is done next about a pool's number of PGs.
pub(super) enum Step {
    /// The pool becomes this.
    Change(PgPool),
    /// These are placed as the pool places them, and not by themselves any more.
    Place(Vec<PgId>),
}

impl Mon {
    /// Takes the next step of each pool that is not where it should be.
    pub(super) fn tick_pg_num(&mut self, now: Instant, wall: UTime) {
        let map = self.next.osdmap.clone();
        self.note_merges(&map, now);
        let (mut stepped, mut placed) = (Vec::new(), BTreeSet::new());
        for (id, pool) in &map.pools {
            match self.pg_num_step(&map, *id, pool, now) {
                Some(Step::Change(pool)) => stepped.push((*id, pool)),
                Some(Step::Place(pgs)) => placed.extend(pgs),
                None => {}
            }
        }
        if !stepped.is_empty() || !placed.is_empty() {
            self.change_osdmap(wall, |map, inc| {
                inc.new_pools.extend(stepped);
                let is_placed = |pg: &&PgId| placed.contains(*pg);
                inc.old_pg_upmap.extend(map.pg_upmap.keys().filter(is_placed));
                inc.old_pg_upmap_items.extend(map.pg_upmap_items.keys().filter(is_placed));
            });
        }
    }

    fn pg_num_step(&self, map: &OsdMap, id: PoolId, pool: &PgPool, now: Instant) -> Option<Step> {
        if pool.pg_num_pending < pool.pg_num {
            return self.merge_step(map, id, pool, now);
        }
        if pool.pg_num_target > pool.pg_num {
            // The OSDs could not split PGs that they have not made yet.
            let is_made = !self.next.creating.contains_key(&id);
            let is_ready = is_made && map.pgs_of(id).all(|pg| self.is_now(map, pg, PgState::ACTIVE));
            return is_ready.then(|| Step::Change(split(map, pool)));
        }
        let pgp_num_wanted = pool.pgp_num_target.min(pool.pg_num_target);
        if pgp_num_wanted == pool.pgp_num {
            return self.begin_merge(map, id, pool);
        }
        if !map.pgs_of(id).all(|pg| self.is_now(map, pg, PgState::ACTIVE.with(PgState::CLEAN))) {
            return None;
        }
        let is_small = self.stats.pool_sum(id).objects <= u64::from(pgp_num_wanted);
        let step = if is_small { u32::MAX } else { ((f64::from(pool.pg_num) * MOVED_PART) as u32).max(1) };
        let (low, high) = (pool.pgp_num.saturating_sub(step), pool.pgp_num.saturating_add(step));
        Some(Step::Change(PgPool { pgp_num: pgp_num_wanted.clamp(low, high), ..pool.clone() }))
    }

    /// True if the PG was reported to be in that state, by an OSD that is up. Reports from before the pool's last
    /// change do not count.
    pub(super) fn is_now(&self, map: &OsdMap, pg: PgId, state: PgState) -> bool {
        let last_step = map.pools.get(&pg.pool).map_or(map.epoch, |pool| pool.last_change);
        self.stats.pg(pg).is_some_and(|stat| {
            stat.state.has(state) && stat.reported_epoch >= last_step && map.is_up(stat.acting_primary)
        })
    }
}

/// The pool with as many more PGs as it may get at once.
fn split(map: &OsdMap, pool: &PgPool) -> PgPool {
    let mut pool = pool.clone();
    pool.set_pg_num(pool.pg_num_target.min(pool.pg_num + ADDED_MAX));
    pool.last_force_op_resend_preluminous = map.epoch.next();
    pool
}
