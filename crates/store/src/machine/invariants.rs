//! What must hold after every event.

use super::{Background, Store};
use crate::{Owner, Problem, device::BLOCK, fsck::Totals, index::Entry};

/// What was seen of a store's entries before its books are compared with what they come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Those in memory: sums over all cannot be checked.
    InMemory,
    /// All that could be read: what the rest of the space holds is unknown.
    Readable,
    /// All.
    All,
}

impl Store {
    /// Where on the device data lies, in bytes: for tests that spoil some.
    pub fn data_offsets(&self) -> Vec<u64> {
        let mut out = Vec::new();
        self.index.each_entry(|_, _, entry| {
            if let Entry::Onode(onode) = entry {
                let blocks = onode.extents.runs().flat_map(|run| run.start..run.end());
                out.extend(blocks.map(|block| block * BLOCK));
            }
        });
        out
    }

    /// Asserts that the books agree; walks everything, for tests.
    pub fn check_invariants(&self) {
        self.assert_consistent();
        self.index.check_pages();
        let mut totals = self.totals();
        self.index.each_entry(|coll, object, entry| totals.add(coll, object, entry));
        let seen = if self.index.directory.is_loaded() { Seen::All } else { Seen::InMemory };
        let problems = self.problems(&totals, seen);
        assert!(problems.is_empty(), "the store's books do not agree: {problems:?}");
    }

    /// Asserts that no block was let go of that was free: for tests that damage no index.
    pub fn assert_consistent(&self) {
        assert_eq!(self.space.contradiction(), None, "a block was let go of that was free");
    }

    /// To count this store's entries with.
    pub(crate) fn totals(&self) -> Totals {
        Totals::new(self.superblock.area)
    }

    /// Where the books do not agree with what entries come to: every block is referred to as often as the allocator
    /// thinks, none is free and in use at once, none is lost, and the counters match; as far as can be told from what
    /// was `seen` of the entries.
    pub(super) fn problems(&self, totals: &Totals, seen: Seen) -> Vec<Problem> {
        let mut out = Vec::new();
        let mut claims = Vec::new();
        let pages = self.index.directory.blobs().chain(&self.pending.blobs).flat_map(|blob| &blob.runs);
        let records = self.regions.iter().flat_map(|place| &place.blob.runs);
        claims.extend(pages.chain(records).map(|&run| (run, Owner::Page)));
        claims.extend(self.space.quarantined().map(|run| (run, Owner::Quarantine)));
        claims.extend(self.discards.runs().map(|run| (run, Owner::Discard)));
        claims.extend(self.superblock.root.runs.iter().map(|&run| (run, Owner::Root)));
        // A checkpoint under way holds blocks that the index does not name yet, or any more.
        let is_idle = matches!(self.background, Background::Idle);
        let areas = [self.superblock.area, self.superblock.index_area];
        for area in areas.into_iter().filter(|area| area.count > 0 && seen != Seen::InMemory) {
            let free = self.space.free_within(area);
            totals.overlaps(area, &claims, free, is_idle && seen == Seen::All, &mut out);
        }
        if seen != Seen::InMemory {
            totals.references(&self.space.shared, seen == Seen::All, &mut out);
        }
        for (what, expected, found) in [
            ("pending bytes", self.pending.bytes, totals.counts.pending_bytes),
            ("pending pieces", self.pending.pieces, totals.pending_pieces),
            ("names of pending pieces", self.pending.names_bytes, totals.pending_names),
            ("objects with pending bytes", self.pending.objects.len() as u64, totals.pending_objects),
        ] {
            if expected != found {
                out.push(Problem::Count { what, expected, found });
            }
        }
        // Sums of everything can be checked where everything is.
        if seen == Seen::All {
            let (what, expected, found) = ("omap bytes", self.index.omap_bytes, totals.omap_bytes);
            if expected != found {
                out.push(Problem::Count { what, expected, found });
            }
            totals.pool_usages(&self.index.pools, &mut out);
        }
        out
    }
}
