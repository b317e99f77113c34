//! What must hold after every event.

use std::collections::BTreeMap;

use super::{Background, Store};
use crate::{allocator::Run, device::BLOCK};

impl Store {
    /// Where on the device data lies, in bytes: for tests that spoil some.
    pub fn data_offsets(&self) -> Vec<u64> {
        let onodes = self.index.colls.values().flat_map(|objects| objects.values());
        let runs = onodes.flat_map(|onode| onode.extents.runs());
        runs.flat_map(|run| run.start..run.end()).map(|block| block * BLOCK).collect()
    }

    /// Asserts that the books agree: every block is referred to as often as the allocator thinks, none
    /// is free and in use at once, and the counters match the index. Walks everything; for tests.
    pub fn check_invariants(&self) {
        let mut refs: BTreeMap<u64, u32> = BTreeMap::new();
        let mut count = |run: Run| {
            for block in run.start..run.end() {
                *refs.entry(block).or_default() += 1;
            }
        };
        let onodes = || self.index.colls.values().flat_map(|objects| objects.values());
        onodes().flat_map(|onode| onode.extents.runs()).for_each(&mut count);
        let (free, shared, quarantine) = self.space.parts();
        for (block, &extra) in shared {
            assert_eq!(refs.get(block).copied(), Some(extra + 1), "references to block {block}");
        }
        for (block, &found) in &refs {
            assert!(found == 1 || shared.contains_key(block), "block {block} is used {found} times");
        }
        let mut owners: BTreeMap<u64, &str> = refs.keys().map(|&block| (block, "data")).collect();
        let pages = self.index.pages.values().flat_map(|blob| &blob.runs);
        let mut own = |run: Run, owner: &'static str| {
            for block in run.start..run.end() {
                let other = owners.insert(block, owner);
                assert_eq!(other, None, "block {block} is {owner} too");
            }
        };
        pages.for_each(|&run| own(run, "page"));
        free.iter().for_each(|(&start, &count)| own(Run { start, count }, "free"));
        quarantine.iter().for_each(|&run| own(run, "quarantine"));
        if matches!(self.background, Background::Idle) {
            self.superblock.root.runs.iter().for_each(|&run| own(run, "root"));
            assert_eq!(owners.len() as u64, self.space.total_count(), "every block has its place");
        }
        let pending: u64 = onodes().map(|onode| onode.pending.bytes()).sum();
        assert_eq!(pending, self.pending_bytes, "pending bytes");
        let data: u64 = onodes().map(|onode| onode.size).sum();
        assert_eq!(data, self.data_bytes, "data bytes");
        let with_pending = onodes().filter(|onode| !onode.pending.is_empty()).count();
        assert_eq!(with_pending, self.pending_objects.len(), "objects with pending bytes");
        let omap =
            onodes().flat_map(|onode| &onode.omap).map(|(k, v)| (k.len() + v.len()) as u64).sum::<u64>();
        assert_eq!(omap, self.index.omap_bytes, "omap bytes");
    }
}
