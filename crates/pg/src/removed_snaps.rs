//! Snapshots as the map has them: those that are removed, and those of the pool itself.

use std::sync::Arc;

use types::{IntervalSet, OsdMap, SnapId};

use crate::{Ctx, Pg};

impl Pg {
    /// Removed snapshots, of which there may still be clones here.
    pub(crate) fn snaps_to_trim(&self, map: &OsdMap) -> IntervalSet {
        let mut removed = map.removed_snaps_queue.get(&self.pgid.pool).cloned().unwrap_or_default();
        removed.subtract(&self.info.purged_snaps);
        removed
    }

    /// Removed snapshots that the map still has, and of which there are no clones here any more.
    pub(crate) fn trimmed_snaps(&self, map: &OsdMap) -> IntervalSet {
        let queue = map.removed_snaps_queue.get(&self.pgid.pool);
        queue.map_or_else(IntervalSet::new, |queue| queue.intersection(&self.info.purged_snaps))
    }

    /// All removed snapshots. The map forgets one when all PGs have purged it; a client that has not heard of
    /// it may still name it.
    pub(crate) fn removed_snaps(&mut self, ctx: &Ctx<'_>) -> Arc<IntervalSet> {
        if let Some((epoch, removed)) = &self.removed_snaps
            && *epoch == ctx.map.epoch
        {
            return removed.clone();
        }
        let mut removed = self.info.purged_snaps.clone();
        if let Some(queue) = ctx.map.removed_snaps_queue.get(&self.pgid.pool) {
            removed.union_with(queue);
        }
        let removed = Arc::new(removed);
        self.removed_snaps = Some((ctx.map.epoch, removed.clone()));
        removed
    }

    /// Another copy knows that these snapshots are purged. Then they are for every copy: each later primary has the
    /// changes that removed their clones. Snapshots that only this copy knows of stay purged, as the map may have
    /// forgotten them.
    pub(crate) fn learn_purged_snaps(&mut self, purged: &IntervalSet) {
        self.info.purged_snaps.union_with(purged);
        self.removed_snaps = None;
    }

    /// The snapshots of the pool, where it has them itself.
    pub(crate) fn pool_snapc(&self, ctx: &Ctx<'_>) -> Option<types::SnapContext> {
        let pool = ctx.map.pools.get(&self.pgid.pool)?;
        if !pool.is_pool_snaps_mode() {
            return None;
        }
        let snaps: Vec<SnapId> = pool.snaps.keys().rev().copied().collect();
        Some(types::SnapContext { seq: pool.snap_seq, snaps })
    }
}
