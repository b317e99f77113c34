//! What must hold after every event.

use super::{Background, Store};
use crate::{Owner, Problem, allocator::Run, device::BLOCK, fsck::Claims};

impl Store {
    /// Where on the device data lies, in bytes: for tests that spoil some.
    pub fn data_offsets(&self) -> Vec<u64> {
        let mut out = Vec::new();
        self.each_onode(|_, _, onode| {
            out.extend(onode.extents.runs().flat_map(|run| run.start..run.end()).map(|block| block * BLOCK));
        });
        out
    }

    /// Asserts that the books agree; walks everything, for tests.
    pub fn check_invariants(&self) {
        self.index.check_pages();
        let problems = self.problems(true);
        assert!(problems.is_empty(), "the store's books do not agree: {problems:?}");
    }

    /// Where the books do not agree: every block is referred to as often as the allocator thinks, none is
    /// free and in use at once, none is lost if `is_complete`, and the counters match the index.
    pub(super) fn problems(&self, is_complete: bool) -> Vec<Problem> {
        let mut out = Vec::new();
        let is_whole = self.index.directory.is_loaded();
        let mut claims = Claims::default();
        let (mut pending, mut data, mut with_pending) = (0, 0, 0);
        self.each_onode(|_, _, onode| {
            onode.extents.runs().for_each(|run| claims.add(run, Owner::Data));
            pending += onode.pending.bytes();
            data += onode.size;
            with_pending += u64::from(!onode.pending.is_empty());
        });
        let (free, shared, quarantine) = (&self.space.free, &self.space.shared, self.space.quarantined());
        let (_, omap) = self.index.omap_sums();
        let pages = self.index.directory.blobs().chain(&self.pending_blobs).flat_map(|blob| &blob.runs);
        let records = self.regions.iter().flat_map(|place| &place.blob.runs);
        pages.chain(records).for_each(|&run| claims.add(run, Owner::Page));
        free.iter().for_each(|(&start, &count)| claims.add(Run { start, count }, Owner::Free));
        quarantine.iter().for_each(|(&start, &count)| claims.add(Run { start, count }, Owner::Quarantine));
        self.discards.runs().for_each(|run| claims.add(run, Owner::Discard));
        self.superblock.root.runs.iter().for_each(|&run| claims.add(run, Owner::Root));
        // A checkpoint under way holds blocks that the index does not name yet, or any more.
        let is_idle = matches!(self.background, Background::Idle);
        let areas = [self.superblock.area, self.superblock.index_area];
        for area in areas.into_iter().filter(|area| area.count > 0 && is_whole) {
            claims.problems(area, shared, is_idle && is_complete, &mut out);
        }
        for (what, expected, found) in [
            ("pending bytes", self.pending_bytes, pending),
            ("objects with pending bytes", self.pending_objects.len() as u64, with_pending),
        ] {
            if expected != found {
                out.push(Problem::Count { what, expected, found });
            }
        }
        // Sums of everything can be checked where everything is.
        for (what, expected, found) in
            [("data bytes", self.data_bytes, data), ("omap bytes", self.index.omap_bytes, omap)]
        {
            if is_whole && is_complete && expected != found {
                out.push(Problem::Count { what, expected, found });
            }
        }
        out
    }
}
