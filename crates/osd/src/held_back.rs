//! Since when clients hold changes back for want of room, by the map.
//!
//! Changes that come meanwhile are dropped, and their clients send them again once the flag goes. A later change of the
//! same client may be on its way all that time. It is dropped as well, even if it comes when the flag is gone: carried
//! out now, it would be overwritten by the earlier one. So all that was sent by a map from before the flag is dropped
//! (as in Ceph, by `last_epoch_marked_full`).
//!
//! A restart ends all sessions, and clients send again, in order, all that is not answered: what was dropped before is
//! of no account any more, and a flag that holds then counts as one that begins.

use std::collections::BTreeMap;

use messages::MOSDOp;
use types::{Epoch, OsdMap, PoolId};

/// The epochs in which pools last began to be full.
#[derive(Debug, Default)]
pub(crate) struct HeldBack {
    full: BTreeMap<PoolId, Epoch>,
    /// The newest of all.
    newest: Epoch,
}

impl HeldBack {
    /// The newest map is `map`, after `before`; none after a restart.
    pub(crate) fn follow(&mut self, before: Option<&OsdMap>, map: &OsdMap) {
        // Where maps were skipped, a flag may have gone and come back.
        let before = before.filter(|before| map.epoch == before.epoch.next());
        self.full.retain(|pool, _| map.pools.contains_key(pool));
        for pool in map.pools.keys() {
            if map.is_full(*pool) && !before.is_some_and(|before| before.is_full(*pool)) {
                self.full.insert(*pool, map.epoch);
                self.newest = map.epoch;
            }
        }
    }

    /// True for a change that its client sends again: it was sent before the client knew that it has to hold it.
    pub(crate) fn drops(&self, op: &MOSDOp) -> bool {
        op.epoch < self.newest
            && op.says_it_writes()
            && !op.tries_when_full()
            && self.full.get(&op.pgid.pool).is_some_and(|began| op.epoch < *began)
    }
}

#[cfg(test)]
mod tests {
    use messages::{OpCode, OsdOp, osd_flag};
    use types::{CrushBlob, PgId, PgPool, PoolFlags, PoolType, UTime, Uuid};

    use super::*;

    const POOL: PoolId = PoolId(3);

    fn map(epoch: u32, is_full: bool) -> OsdMap {
        let mut map = OsdMap::new(Uuid([1; 16]), UTime::default(), CrushBlob::default());
        map.epoch = Epoch(epoch);
        let mut pool = PgPool::new(PoolType::REPLICATED, 3, 2, 0, 8);
        if is_full {
            pool.flags = PoolFlags::FULL;
        }
        map.pools.insert(POOL, pool);
        map
    }

    fn op(epoch: u32, pool: PoolId, flags: u32) -> MOSDOp {
        let ops = vec![OsdOp::new(if flags & osd_flag::READ == 0 { OpCode::WRITE } else { OpCode::READ })];
        MOSDOp { pgid: PgId::new(pool, 0), epoch: Epoch(epoch), flags, ops, ..MOSDOp::default() }
    }

    fn after(maps: &[OsdMap]) -> HeldBack {
        let mut held = HeldBack::default();
        maps.windows(2).for_each(|pair| held.follow(Some(&pair[0]), &pair[1]));
        held
    }

    #[test]
    fn changes_from_before_their_pool_was_full_are_dropped_when_it_has_room_too() {
        let held = after(&[map(5, false), map(6, true), map(7, true), map(8, false)]);
        assert!(held.drops(&op(5, POOL, 0)));
        assert!(!held.drops(&op(5, PoolId(4), 0)), "another pool's");
        assert!(!held.drops(&op(6, POOL, 0)), "its client knew");
        assert!(!held.drops(&op(5, POOL, osd_flag::READ)), "reads change nothing");
        assert!(
            !held.drops(&op(5, POOL, osd_flag::FULL_TRY)) && !held.drops(&op(5, POOL, osd_flag::FULL_FORCE))
        );
        // What may have been between two maps.
        assert!(after(&[map(5, true), map(8, true), map(9, false)]).drops(&op(7, POOL, 0)));
        let mut restarted = HeldBack::default();
        restarted.follow(None, &map(8, true));
        assert!(restarted.drops(&op(7, POOL, 0)));
    }
}
