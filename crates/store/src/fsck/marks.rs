//! What collections say of moves of objects that are under way ([`crate::machine`]): a mount goes on with these, so
//! they have to make sense.

use std::collections::{BTreeMap, BTreeSet};

use types::{CollId, HObject};

use super::Problem;
use crate::{
    MountError,
    index::Entry,
    machine::{mark, marked_txn},
};

/// The marks of a store, put together from the entries of its index.
#[derive(Debug)]
pub(super) struct Marks {
    object: HObject,
    /// Collections that have one.
    colls: BTreeSet<CollId>,
    /// Their values, end to end.
    values: BTreeMap<CollId, Vec<u8>>,
}

impl Marks {
    pub(super) fn new() -> Marks {
        Marks { object: mark(), colls: BTreeSet::new(), values: BTreeMap::new() }
    }

    /// Notes an entry if it is a mark's; they come in order.
    pub(super) fn note(&mut self, coll: CollId, object: &HObject, entry: Entry<'_>) {
        if *object != self.object {
            return;
        }
        match entry {
            Entry::Onode(_) => _ = self.colls.insert(coll),
            Entry::Omap(_, value) => self.values.entry(coll).or_default().extend_from_slice(value),
        }
    }

    /// What a mount says of marks that make no sense, once for all of them.
    pub(super) fn problem(mut self) -> Option<Problem> {
        let is_bad = |coll: &CollId| {
            let values = self.values.remove(coll).unwrap_or_default();
            marked_txn(*coll, values.into()).is_err()
        };
        let refusal = MountError::Corrupt { what: "move under way" };
        self.colls.iter().any(is_bad).then_some(Problem::Unmountable(refusal))
    }
}
