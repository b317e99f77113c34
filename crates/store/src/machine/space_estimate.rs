//! What a transaction takes of the device, estimated before it is applied: a transaction for which there is no room
//! waits ([`super::checkpoint_room`]), however large it is.

use types::{CollId, HObject, Mutation, Pairs, Transaction, TxnOp};

use super::{
    Store,
    steps::{STEP_PAGES_MAX, is_stepwise},
    write::cloned_by,
};
use crate::{
    device::BLOCK,
    index::{Key, is_resident, piece_bytes},
};

/// Bytes of an entry beside what it holds, and of what it holds for each of so many bytes of data: checksums and runs.
const ENTRY_BYTES: u64 = 160;
const DATA_PART: u64 = 128;

/// What a transaction takes of the device at most, about. What the OSD keeps for itself does not count, as by itself it
/// never waits, but for what a move writes of it: a merge writes a whole log anew, and its checkpoint holds the old
/// ones as well. One that has begun has to end, so it waits before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SpaceEstimate {
    /// Whole blocks of large writes, in bytes: they take new space, or are pending where there is none.
    pub(super) direct_bytes: u64,
    /// What is pending of it in any case, as pages of pending bytes hold it.
    pub(super) pending_bytes: u64,
    /// What a checkpoint needs more for the index.
    pub(super) index_bytes: u64,
    /// What it needs, once, for what a move writes in its end of what the OSD keeps for itself.
    pub(super) own_bytes: u64,
    /// What the mark of a move takes until then.
    pub(super) mark_bytes: u64,
}

impl SpaceEstimate {
    /// Of a large write's whole blocks.
    pub(super) fn of_data(direct_bytes: u64) -> SpaceEstimate {
        SpaceEstimate { direct_bytes, ..SpaceEstimate::default() }
    }

    /// All of it.
    pub(super) fn bytes(self) -> u64 {
        self.direct_bytes + self.pending_bytes + self.index_bytes + self.own_bytes + self.mark_bytes
    }

    /// This growth with the data of large writes pending, which then takes no new space for itself.
    pub(super) fn as_pending(self) -> SpaceEstimate {
        let pending_bytes = self.pending_bytes + self.direct_bytes;
        SpaceEstimate { direct_bytes: 0, pending_bytes, ..self }
    }
}

/// Sums over a transaction's ops.
#[derive(Debug, Default)]
struct Sums {
    growth: SpaceEstimate,
    /// Bytes by which entries grow.
    grown_bytes: u64,
    /// What pages take that are written again elsewhere.
    page_bytes: u64,
    /// Keys whose pages it changes.
    key_count: u64,
}

impl Store {
    /// True if a transaction has to wait for room on the device. Mostly that is told without a look at the index.
    pub(super) fn finds_no_room(&self, txn: &Transaction) -> bool {
        if self.is_opening {
            return false;
        }
        let sums = self.sums_of(txn);
        let at_most = self.growth_at_most(&sums);
        self.is_short_of_room(&at_most) && {
            let exact = self.exact_growth(txn, &sums);
            debug_assert!(exact.bytes() <= at_most.bytes(), "{exact:?} is more than {at_most:?}");
            self.is_short_of_room(&exact)
        }
    }

    /// What the transaction takes.
    pub(super) fn growth_of(&self, txn: &Transaction) -> SpaceEstimate {
        self.exact_growth(txn, &self.sums_of(txn))
    }

    /// As if each key were in a page of its own.
    fn growth_at_most(&self, sums: &Sums) -> SpaceEstimate {
        let index_bytes = sums.growth.index_bytes + self.index.need_of_pages(sums.key_count);
        SpaceEstimate { index_bytes, ..sums.growth }
    }

    fn exact_growth(&self, txn: &Transaction, sums: &Sums) -> SpaceEstimate {
        let index_bytes = sums.growth.index_bytes + self.index.clean_need(keys_of(txn));
        SpaceEstimate { index_bytes, ..sums.growth }
    }

    fn sums_of(&self, txn: &Transaction) -> Sums {
        let mut sums = Sums::default();
        // What moves in steps takes no more than one of them before a checkpoint gives that back.
        let pages_max = || if is_stepwise(txn) { STEP_PAGES_MAX } else { usize::MAX };
        let (mut has_moved, cloned) = (false, cloned_by(txn));
        for op in &txn.ops {
            match op {
                TxnOp::CreateCollection | TxnOp::RemoveCollection => {}
                // Entries that move leave pages with nothing, and fill others.
                TxnOp::Split(split) => {
                    let (from, to) = (Key::of(txn.coll, &split.from), Key::of(txn.coll, &split.to));
                    sums.page_bytes += self.index.bytes_between(&from, &to, pages_max());
                    sums.growth.own_bytes += self.own_need(&split.omap);
                    has_moved = true;
                }
                TxnOp::Merge(merge) => {
                    let (from, to) = (Key::of(merge.source, &merge.from), Key::of(merge.source, &merge.to));
                    sums.page_bytes += self.index.bytes_between(&from, &to, pages_max());
                    has_moved = true;
                }
                TxnOp::Object(object, mutation) if !is_resident(object) => {
                    self.add_mutation(&mut sums, txn.coll, object, mutation, cloned);
                }
                TxnOp::Object(_, Mutation::OmapSet(pairs)) if has_moved => {
                    sums.growth.own_bytes += self.own_need(pairs);
                }
                TxnOp::Object(..) => {}
            }
        }
        if has_moved {
            let bytes = txn.bytes_at_most() as u64;
            // Its pieces are as large as a block, and each may have a page of its own.
            sums.growth.mark_bytes = self.index.grown_need(bytes).min(2 * bytes.next_multiple_of(BLOCK));
        }
        // Pages that are cut anew are three quarters full, about.
        let of_pages = sums.page_bytes + sums.page_bytes / 3;
        sums.growth.index_bytes = self.index.grown_need(sums.grown_bytes) + of_pages;
        sums
    }

    /// What new omap entries take in pages, of which each has an entry at least.
    fn own_need(&self, pairs: &Pairs) -> u64 {
        let needs = pairs.iter().map(|(name, value)| {
            let bytes = ENTRY_BYTES + (name.len() + value.len()) as u64;
            self.index.grown_need(bytes).min(bytes.next_multiple_of(BLOCK))
        });
        needs.sum()
    }

    fn add_mutation(
        &self,
        sums: &mut Sums,
        coll: CollId,
        object: &HObject,
        mutation: &Mutation,
        cloned: Option<&HObject>,
    ) {
        let growth = &mut sums.growth;
        sums.key_count += 1;
        sums.grown_bytes += ENTRY_BYTES;
        match mutation {
            Mutation::Write { offset, data } => {
                let len = data.len() as u64;
                let is_direct = self.goes_to_new_space(object, *offset, len, cloned);
                let whole = if is_direct { whole_bytes(*offset, len) } else { 0 };
                growth.direct_bytes += whole;
                growth.pending_bytes += len - whole + 2 * piece_bytes(object);
                sums.grown_bytes += len / DATA_PART;
            }
            Mutation::Zero { offset, len } => {
                growth.pending_bytes += len - whole_bytes(*offset, *len) + 2 * piece_bytes(object);
            }
            Mutation::Truncate { size } => {
                growth.pending_bytes += size.next_multiple_of(BLOCK) - size + piece_bytes(object);
            }
            Mutation::SetXattrs(pairs) => sums.grown_bytes += bytes_of(pairs),
            Mutation::OmapSet(pairs) => {
                sums.key_count += pairs.len() as u64;
                sums.grown_bytes += pairs.len() as u64 * ENTRY_BYTES + bytes_of(pairs);
            }
            Mutation::OmapSetHeader(header) => sums.grown_bytes += header.len() as u64,
            Mutation::OmapRemove(keys) => sums.key_count += keys.len() as u64,
            Mutation::CloneFrom { source } => self.add_clone(sums, coll, source, object),
            Mutation::Touch
            | Mutation::Remove
            | Mutation::RemoveXattr(_)
            | Mutation::ClearXattrs
            | Mutation::OmapRemoveRange { .. }
            | Mutation::OmapClear => {}
        }
    }

    /// What is pending of the source is so of the copy, and its entries are written again.
    fn add_clone(&self, sums: &mut Sums, coll: CollId, source: &HObject, object: &HObject) {
        if let Some(onode) = self.index.get(coll, source) {
            let amount = onode.pending.amount();
            sums.growth.pending_bytes += amount.bytes + amount.pieces * piece_bytes(object);
            sums.grown_bytes += onode.heap_bytes();
        }
        let omap = self.index.omap(coll, source).into_iter().flat_map(|omap| omap.iter());
        let in_memory: u64 = omap.map(|(key, value)| ENTRY_BYTES + (key.len() + value.len()) as u64).sum();
        sums.grown_bytes += in_memory;
        sums.page_bytes += self.index.bytes_of_object(coll, source);
    }
}

/// Bytes of the whole blocks among so many from `offset` on.
pub(super) fn whole_bytes(offset: u64, len: u64) -> u64 {
    let end = offset.saturating_add(len) / BLOCK * BLOCK;
    end.saturating_sub(offset.div_ceil(BLOCK) * BLOCK)
}

fn bytes_of(pairs: &Pairs) -> u64 {
    pairs.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum()
}

/// The keys of what the transaction changes, but for what the OSD keeps for itself: an object's next to each other.
fn keys_of(txn: &Transaction) -> impl Iterator<Item = Key> + '_ {
    let objects = txn.ops.iter().filter_map(|op| match op {
        TxnOp::Object(object, mutation) if !is_resident(object) => Some((object, mutation)),
        TxnOp::CreateCollection
        | TxnOp::RemoveCollection
        | TxnOp::Split(_)
        | TxnOp::Merge(_)
        | TxnOp::Object(..) => None,
    });
    objects.flat_map(|(object, mutation)| {
        let names: Box<dyn Iterator<Item = &_>> = match mutation {
            Mutation::OmapSet(pairs) => Box::new(pairs.keys()),
            Mutation::OmapRemove(keys) => Box::new(keys.iter()),
            Mutation::Touch
            | Mutation::Write { .. }
            | Mutation::Zero { .. }
            | Mutation::Truncate { .. }
            | Mutation::Remove
            | Mutation::SetXattrs(_)
            | Mutation::RemoveXattr(_)
            | Mutation::ClearXattrs
            | Mutation::OmapRemoveRange { .. }
            | Mutation::OmapClear
            | Mutation::OmapSetHeader(_)
            | Mutation::CloneFrom { .. } => Box::new([].iter()),
        };
        let own = std::iter::once(Key::of(txn.coll, object));
        own.chain(names.map(|name| Key::of_omap(txn.coll, object, name)))
    })
}
