//! Parts of large objects are put together beside the copy that they replace, which stays what it is until the last
//! part puts them in its place: it may be an older version that the PG has to go back to.
//!
//! The receiver asks for a part when the one before is durable, so that one of each object is under way. What is put
//! together goes when its interval ends, or when the PG is loaded the next time: the PG's record names it from the
//! first part on.

use std::collections::BTreeMap;

use codec::{Encode, Features};
use messages::{MPgPull, ObjectCursor};
use types::{EVersion, HObject, Mutation, OsdId, PoolId, SnapId, Transaction, TxnOp};

use crate::{Ctx, Effect, Pg, meta::MetaChange, pg::Pending};

/// How far an object has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(super) from: OsdId,
    pub(super) object: HObject,
    pub(super) version: EVersion,
    /// Where the next part begins.
    pub(super) next: ObjectCursor,
    /// How much data has come.
    pub(super) bytes: u64,
}

/// Objects that are put together, each with the last part that came; none with one that is left over.
#[derive(Debug, Default)]
pub(crate) struct Gathered(BTreeMap<HObject, Option<Part>>);

impl Gathered {
    /// What was under way when the PG was loaded.
    pub(crate) fn left_over(objects: Vec<HObject>) -> Gathered {
        Gathered(objects.into_iter().map(|object| (object, None)).collect())
    }

    /// The objects.
    pub(crate) fn objects(&self) -> impl ExactSizeIterator<Item = &HObject> {
        self.0.keys()
    }

    /// How much data has come of an object, of which a part that begins there is next.
    pub(super) fn bytes_before(&self, object: &HObject, begin: &ObjectCursor) -> u64 {
        let last = self.0.get(object).and_then(Option::as_ref).filter(|_| !begin.is_begin());
        last.map_or(0, |last| last.bytes)
    }

    /// True for the part that follows the last one that came, or for one that begins anew.
    fn expects(&self, from: OsdId, object: &HObject, version: EVersion, begin: &ObjectCursor) -> bool {
        let last = self.0.get(object).and_then(Option::as_ref);
        let follows = |last: &Part| (last.from, last.version, &last.next) == (from, version, begin);
        begin.is_begin() || last.is_some_and(follows)
    }
}

/// Where an object is put together: behind all objects of pools, where no listing looks for heads. Objects without a
/// pool would stay in memory.
fn place_beside(object: &HObject) -> HObject {
    HObject {
        oid: object.to_bytes(Features::default()),
        hash: object.hash,
        pool: PoolId(i64::MAX),
        snap: SnapId(1),
        ..HObject::default()
    }
}

impl Pg {
    /// A part came of an object that this copy lacks: returns what makes the part durable; none for one that was not
    /// asked for.
    pub(super) fn gather(
        &mut self,
        from: OsdId,
        object: &HObject,
        version: EVersion,
        (begin, next): (&ObjectCursor, Option<ObjectCursor>),
        pushed: Transaction,
    ) -> Option<(Pending, Transaction)> {
        if !self.gathered.expects(from, object, version, begin) {
            return None;
        }
        let bytes = self.gathered.bytes_before(object, begin) + pushed.payload_bytes() as u64;
        let place = place_beside(object);
        let mut txn = Transaction::new(self.coll);
        txn.ops.extend(pushed.ops.into_iter().map(|op| match op {
            TxnOp::Object(_, mutation) => TxnOp::Object(place.clone(), mutation),
            other => other,
        }));
        let mut change = MetaChange::default();
        let pending = match next {
            Some(next) => {
                let part = Part { from, object: object.clone(), version, next, bytes };
                if self.gathered.0.insert(object.clone(), Some(part.clone())).is_none() {
                    change.gathered(object, true);
                }
                Pending::Gathered(Box::new(part))
            }
            None => {
                txn.append(self.placing(object));
                self.forget_gathered(object, &mut change, &mut txn);
                change.missing(object, None);
                Pending::Pushed { from, object: object.clone() }
            }
        };
        change.into_txn(&mut txn);
        Some((pending, txn))
    }

    /// What puts an object in its place when its last part has come.
    pub(super) fn placing(&self, object: &HObject) -> Transaction {
        let mut txn = Transaction::new(self.coll);
        txn.push(object, Mutation::CloneFrom { source: Box::new(place_beside(object)) });
        txn
    }

    /// A part is durable: the next one is asked for, unless another one has come since.
    pub(crate) fn on_part_durable(&mut self, part: Part, ctx: &mut Ctx<'_>) {
        if self.gathered.0.get(&part.object).and_then(Option::as_ref) == Some(&part) {
            let Part { from, object, version, next, .. } = part;
            let (pgid, epoch) = (self.pgid, ctx.map.epoch);
            // If the parts have to begin anew, the object is sent whole.
            let message = MPgPull { pgid, epoch, object, version, begin: next, lacks: None };
            ctx.effects.push(Effect::SendOsd(from, message.into()));
        }
    }

    /// Removes what was put together of an object, if there is anything.
    pub(crate) fn forget_gathered(
        &mut self,
        object: &HObject,
        change: &mut MetaChange,
        txn: &mut Transaction,
    ) {
        if self.gathered.0.remove(object).is_some() {
            txn.push(&place_beside(object), Mutation::Remove);
            change.gathered(object, false);
        }
    }

    /// Removes what was put together of all objects.
    pub(crate) fn forget_all_gathered(&mut self, change: &mut MetaChange, txn: &mut Transaction) {
        for object in self.gathered.0.keys().cloned().collect::<Vec<_>>() {
            self.forget_gathered(&object, change, txn);
        }
    }

    /// Ends all that is being put together: it does not go on.
    pub(crate) fn drop_gathered(&mut self, ctx: &mut Ctx<'_>) {
        if !self.gathered.0.is_empty() {
            let (mut change, mut txn) = (MetaChange::default(), Transaction::new(self.coll));
            self.forget_all_gathered(&mut change, &mut txn);
            change.into_txn(&mut txn);
            self.submit(Pending::Nothing, txn, ctx);
        }
    }
}

#[cfg(test)]
mod tests;
