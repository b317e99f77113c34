//! Removing a collection that is too large to be taken into memory as a whole: some objects at a time.
//!
//! The transaction that removes it waits at the head of its collection's queue ([`super::deferred`]) while others are made
//! and applied that remove its first objects, each a transaction of its own in the journal; when little is left, it is
//! submitted itself. To readers the collection is gone from the start. A crash meanwhile leaves a part of it,
//! without its first objects: those that the OSD keeps for itself come first, so a collection without them was being
//! removed, and is to be removed again.

use types::{CollId, HObject, Mutation, Transaction, TxnOp};

use super::Store;
use crate::{Missing, index::Key};

/// Objects of a step.
const OBJECTS_MAX: usize = 256;
/// Pages that a step changes, unless one object has more.
const PAGES_MAX: usize = 64;

/// What a step is about.
enum Step {
    /// Pages have to be read to tell, or to do it.
    Read(Vec<Key>),
    /// Not all of the collection.
    Some(Vec<HObject>),
    /// All that is left.
    Rest,
}

impl Store {
    /// True if the transaction begins with the removal of more than a step.
    pub(super) fn is_large_removal(&self, txn: &Transaction) -> bool {
        txn.ops.first() == Some(&TxnOp::RemoveCollection)
            && !matches!(self.removal_step(txn.coll), Step::Rest)
    }

    /// A key of each page to be read before a transaction that waits, or its next step, can be applied.
    pub(super) fn absent_for_step(&self, txn: &Transaction) -> Vec<Key> {
        if txn.ops.first() == Some(&TxnOp::RemoveCollection) && !self.index.directory.is_whole() {
            match self.removal_step(txn.coll) {
                Step::Read(keys) => return keys,
                Step::Some(_) => return Vec::new(),
                Step::Rest => {}
            }
        }
        self.absent_for(txn)
    }

    fn removal_step(&self, coll: CollId) -> Step {
        let mut objects = match self.list_applied(coll, &HObject::min(), OBJECTS_MAX) {
            Ok(objects) => objects,
            Err(Missing::Index { coll, object, omap }) => {
                return Step::Read(vec![Key { coll, object, omap }]);
            }
            Err(Missing::Data { .. }) => unreachable!("a listing needs no data"),
        };
        let Some(first) = objects.first() else { return Step::Rest };
        let begin = Key::of(coll, first);
        let beyond = self.index.directory.pages_from(&begin).nth(PAGES_MAX);
        let beyond = beyond.map(|(first, _)| first).filter(|first| first.coll == coll);
        let is_rest = beyond.is_none() && objects.len() < OBJECTS_MAX;
        if let Some(beyond) = beyond {
            objects.truncate(objects.partition_point(|object| *object < beyond.object).max(1));
        }
        let mut absent = Vec::new();
        objects.iter().for_each(|object| self.index.absent_of_object(coll, object, &mut absent));
        absent.dedup();
        match (absent.is_empty(), is_rest) {
            (false, _) => Step::Read(absent),
            (true, true) => Step::Rest,
            (true, false) => Step::Some(objects),
        }
    }

    /// Goes a step on with the removal that is the first one waiting in a collection. False if it is none, or if the
    /// rest is to go with the transaction itself.
    pub(super) fn remove_some(&mut self, coll: CollId) -> bool {
        let is_removal =
            self.first_deferred(coll).is_some_and(|txn| txn.ops.first() == Some(&TxnOp::RemoveCollection));
        if !is_removal || self.index.directory.is_whole() {
            return false;
        }
        let Step::Some(objects) = self.removal_step(coll) else { return false };
        self.unpin_first_deferred(coll);
        let mut txn = Transaction::new(coll);
        objects.iter().for_each(|object| txn.push(object, Mutation::Remove));
        self.apply_now(txn);
        true
    }
}
