//! Which index pages a transaction needs that are not in memory.

use types::{CollId, HObject, Mutation, Transaction, TxnOp};

use super::Store;
use crate::{
    index::{Key, is_resident},
    journal::Body,
};

impl Store {
    /// A key of each page that the transaction needs and that is not in memory.
    pub(super) fn absent_for(&self, txn: &Transaction) -> Vec<Key> {
        let mut out = Vec::new();
        if !self.index.directory.is_whole() {
            txn.ops.iter().for_each(|op| self.absent_for_op(txn.coll, op, &mut out));
            out.sort_unstable();
            out.dedup();
        }
        out
    }

    /// A key of each page that a transaction out of the journal needs and that is not in memory.
    pub(super) fn absent_for_body(&self, body: &Body) -> Vec<Key> {
        let mut out = self.absent_for(&body.txn);
        let keys = body.directs.iter().map(|direct| Key::of(body.txn.coll, &direct.object));
        out.extend(keys.filter(|key| self.index.is_absent(key)));
        out
    }

    fn absent_between(&self, coll: CollId, from: &HObject, to: &HObject, out: &mut Vec<Key>) {
        let begin = Key::of(coll, from);
        out.extend(self.index.absent_in(&begin, |first| first.coll == coll && first.object < *to));
    }

    fn absent_for_op(&self, coll: CollId, op: &TxnOp, out: &mut Vec<Key>) {
        let (object, mutation) = match op {
            TxnOp::Object(object, mutation) => (object, mutation),
            TxnOp::CreateCollection => return,
            TxnOp::RemoveCollection => {
                let from = Key::of(coll, &HObject::min());
                return out.extend(self.index.absent_in(&from, |first| first.coll == coll));
            }
            TxnOp::Split(split) => {
                self.absent_between(coll, &split.from, &split.to, out);
                return self.absent_between(split.child, &split.from, &split.to, out);
            }
            TxnOp::Merge(merge) => {
                let from = Key::of(merge.source, &HObject::min());
                out.extend(self.index.absent_in(&from, |first| first.coll == merge.source));
                return self.absent_between(coll, &merge.from, &merge.to, out);
            }
        };
        if is_resident(object) {
            return;
        }
        let own = |object: &HObject| {
            let key = Key::of(coll, object);
            (self.index.get(coll, object).is_none() && self.index.is_absent(&key)).then_some(key)
        };
        let omap = |key: &_| {
            let key = Key::of_omap(coll, object, key);
            self.index.is_absent(&key).then_some(key)
        };
        out.extend(own(object));
        match mutation {
            Mutation::Remove | Mutation::OmapClear => self.index.absent_of_object(coll, object, out),
            Mutation::CloneFrom { source } => {
                self.index.absent_of_object(coll, object, out);
                self.index.absent_of_object(coll, source, out);
            }
            Mutation::OmapSet(map) => out.extend(map.keys().filter_map(omap)),
            Mutation::OmapRemove(keys) => out.extend(keys.iter().filter_map(omap)),
            Mutation::OmapRemoveRange { first, last } if first < last => {
                let from = Key::of_omap(coll, object, first);
                let to = Key::of_omap(coll, object, last);
                out.extend(self.index.absent_in(&from, |page| *page < to));
            }
            Mutation::OmapRemoveRange { .. }
            | Mutation::Touch
            | Mutation::Write { .. }
            | Mutation::Zero { .. }
            | Mutation::Truncate { .. }
            | Mutation::SetXattrs(_)
            | Mutation::RemoveXattr(_)
            | Mutation::ClearXattrs
            | Mutation::OmapSetHeader(_) => {}
        }
    }
}
