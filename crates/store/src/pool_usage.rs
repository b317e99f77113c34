//! What each pool takes of a store: counted as it changes, kept in each checkpoint's root.
//!
//! Invariant: the count is a function of the entries, and of which blocks they share. A block of an object is occupied
//! if it is mapped, or if bytes of it are pending, which will have a block of their own; a block of the device that
//! several objects of the pool share counts once. So a flush changes the count only where it moves a shared block, a
//! crash restores the count together with the entries, and a walk over them can check it (`fsck`).

use std::{collections::BTreeMap, ops::Range};

use codec::Codec;
use types::{CollId, HObject, PoolId, PoolStatfs};

use crate::{device::BLOCK, index::is_resident, onode::Onode};

/// What a pool's objects take, or by how much that has changed: what is less wraps.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolUsage {
    /// Blocks of the device, those that pending bytes will need included.
    pub(crate) blocks: u64,
    /// Bytes in occupied blocks, up to the objects' ends; what is shared counts for each.
    pub(crate) stored_bytes: u64,
    /// Bytes of omap, keys and values, but for what the OSD keeps for itself.
    pub(crate) omap_bytes: u64,
}

impl PoolUsage {
    /// An object's data, as if it shared none.
    pub(crate) fn of(onode: &Onode) -> PoolUsage {
        PoolUsage::within(onode, 0..u64::MAX)
    }

    /// An object's data, as if it shared none, with the pending bytes of these blocks only: enough to tell by how much
    /// a change of those blocks changes the count.
    pub(crate) fn within(onode: &Onode, blocks: Range<u64>) -> PoolUsage {
        let occupied = onode.extents.count() + loose_blocks(onode, blocks);
        let stored_bytes = (occupied * BLOCK).wrapping_sub(bytes_behind_end(onode));
        PoolUsage { blocks: occupied, stored_bytes, omap_bytes: 0 }
    }

    pub(crate) fn plus(self, other: PoolUsage) -> PoolUsage {
        PoolUsage {
            blocks: self.blocks.wrapping_add(other.blocks),
            stored_bytes: self.stored_bytes.wrapping_add(other.stored_bytes),
            omap_bytes: self.omap_bytes.wrapping_add(other.omap_bytes),
        }
    }

    pub(crate) fn minus(self, other: PoolUsage) -> PoolUsage {
        PoolUsage {
            blocks: self.blocks.wrapping_sub(other.blocks),
            stored_bytes: self.stored_bytes.wrapping_sub(other.stored_bytes),
            omap_bytes: self.omap_bytes.wrapping_sub(other.omap_bytes),
        }
    }

    /// In bytes, as it is reported.
    pub(crate) fn statfs(self) -> PoolStatfs {
        PoolStatfs {
            allocated: self.blocks.saturating_mul(BLOCK),
            data_stored: self.stored_bytes,
            omap_allocated: self.omap_bytes,
        }
    }
}

/// Blocks with pending bytes and without a place.
fn loose_blocks(onode: &Onode, blocks: Range<u64>) -> u64 {
    if onode.pending.is_empty() {
        return 0;
    }
    let unmapped = |from: u64, to: u64| to - from - onode.extents.count_within(from, to);
    // What is written over, mostly.
    let span = blocks.end.saturating_sub(blocks.start);
    if span <= onode.extents.count() && unmapped(blocks.start, blocks.end) == 0 {
        return 0;
    }
    let (mut count, mut next) = (0, blocks.start);
    let bytes = blocks.start.saturating_mul(BLOCK)..blocks.end.saturating_mul(BLOCK);
    for (offset, part, _) in onode.pending.range(bytes.start, bytes.end) {
        let (from, to) = ((offset / BLOCK).max(next), (offset + part.len() as u64).div_ceil(BLOCK));
        if from < to {
            count += unmapped(from, to);
            next = to;
        }
    }
    count
}

/// The part of the object's last block that is behind its end, if that block is occupied.
fn bytes_behind_end(onode: &Onode) -> u64 {
    let within = onode.size % BLOCK;
    let begin = onode.size - within;
    let is_occupied = within > 0
        && (onode.extents.lookup(begin / BLOCK).is_some()
            || onode.pending.range(begin, onode.size).next().is_some());
    if is_occupied { BLOCK - within } else { 0 }
}

/// All pools of a store, and as pools of negative numbers what the OSD keeps for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolUsages {
    pools: BTreeMap<PoolId, PoolUsage>,
}

impl PoolUsages {
    /// As a root has them.
    pub(crate) fn open(pools: &[(PoolId, PoolUsage)]) -> PoolUsages {
        PoolUsages { pools: pools.iter().copied().collect() }
    }

    /// Those that take anything, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PoolId, PoolUsage)> {
        let all = self.pools.iter().map(|(pool, usage)| (*pool, *usage));
        all.filter(|(_, usage)| *usage != PoolUsage::default())
    }

    pub(crate) fn get(&self, pool: PoolId) -> PoolUsage {
        self.pools.get(&pool).copied().unwrap_or_default()
    }

    /// Blocks of all of them.
    pub(crate) fn blocks(&self) -> u64 {
        self.pools.values().fold(0, |sum, usage| sum.wrapping_add(usage.blocks))
    }

    /// Adds what has come, or by how much it has changed.
    pub(crate) fn add(&mut self, coll: CollId, change: PoolUsage) {
        if change != PoolUsage::default() {
            let usage = self.pools.entry(coll.0.pool).or_default();
            *usage = usage.plus(change);
        }
    }

    pub(crate) fn remove(&mut self, coll: CollId, gone: PoolUsage) {
        self.add(coll, PoolUsage::default().minus(gone));
    }

    /// So many blocks that an object has are others', too, and counted with those.
    pub(crate) fn share(&mut self, coll: CollId, count: u64) {
        self.remove(coll, PoolUsage { blocks: count, ..PoolUsage::default() });
    }

    /// So many blocks stayed with others that share them when an object let go of them.
    pub(crate) fn unshare(&mut self, coll: CollId, count: u64) {
        self.add(coll, PoolUsage { blocks: count, ..PoolUsage::default() });
    }

    /// An object's omap grew by so many bytes, or less if that is negative.
    pub(crate) fn add_omap(&mut self, coll: CollId, object: &HObject, bytes: u64) {
        if !is_resident(object) {
            self.add(coll, PoolUsage { omap_bytes: bytes, ..PoolUsage::default() });
        }
    }

    /// An object's omap shrank by so many bytes.
    pub(crate) fn remove_omap(&mut self, coll: CollId, object: &HObject, bytes: u64) {
        self.add_omap(coll, object, bytes.wrapping_neg());
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Blocks 0, 1 and 4 have a place.
    fn onode(size: u64, pending: &[(u64, usize)]) -> Onode {
        let mut onode = Onode { size, ..Onode::default() };
        onode.extents.insert(0, 100, &[0, 0]);
        onode.extents.insert(4, 200, &[0]);
        for &(offset, len) in pending {
            onode.pending.insert(offset, Bytes::from(vec![1; len]).into(), 1);
        }
        onode
    }

    fn check(size: u64, pending: &[(u64, usize)], blocks: u64, stored_bytes: u64) {
        let found = PoolUsage::of(&onode(size, pending));
        assert_eq!(found, PoolUsage { blocks, stored_bytes, omap_bytes: 0 }, "{size} {pending:?}");
    }

    #[test]
    fn holes_take_nothing_and_pending_bytes_a_block() {
        check(5 * BLOCK, &[], 3, 3 * BLOCK);
        check(5 * BLOCK - 96, &[], 3, 3 * BLOCK - 96);
        check(100 * BLOCK - 96, &[], 3, 3 * BLOCK);
        // Over mapped blocks, in a hole, twice in the same block, and across both.
        check(5 * BLOCK, &[(BLOCK, 10)], 3, 3 * BLOCK);
        check(5 * BLOCK, &[(2 * BLOCK, 10)], 4, 4 * BLOCK);
        check(5 * BLOCK, &[(2 * BLOCK, 10), (2 * BLOCK + 20, 10)], 4, 4 * BLOCK);
        check(5 * BLOCK, &[(BLOCK + 10, 3 * 4096)], 5, 5 * BLOCK);
        check(9 * BLOCK + 10, &[(9 * BLOCK, 10)], 4, 3 * BLOCK + 10);
    }

    #[test]
    fn a_change_of_some_blocks_shows_in_their_part() {
        let (before, after) =
            (onode(5 * BLOCK, &[(3 * BLOCK, 8)]), onode(8 * BLOCK, &[(3 * BLOCK, 8), (7 * BLOCK, 4096)]));
        let part = PoolUsage::within(&after, 7..8).minus(PoolUsage::within(&before, 7..8));
        assert_eq!(part, PoolUsage::of(&after).minus(PoolUsage::of(&before)));
        assert_eq!(part, PoolUsage { blocks: 1, stored_bytes: BLOCK, omap_bytes: 0 });
    }
}
