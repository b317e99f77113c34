//! Splits and merges in steps ([`super::steps`]): what makes them one change, whenever the power may fail.
//!
//! The first step does what comes before the first move in the transaction. With it, it writes the rest of the
//! transaction into the omap of an object of the collection that is used for nothing else, the *mark*. From then on the
//! transaction has happened, though not all of it is done: a mount that finds a mark goes on with it before the store
//! serves. Each step moves a range of objects and begins where the last one ended; the last one is the transaction
//! itself with the rest of the range, and removes the mark. A mount begins at the range's start, where nothing is left.

use std::collections::BTreeSet;

use bytes::{Buf, Bytes};
use codec::{Decode, DecodeError, Encode, Features, Reader};
use types::{CollId, CollSplit, HObject, Mutation, Pairs, PoolId, Transaction, TxnOp};

use super::{
    Store,
    steps::{Part, is_move, is_stepwise},
};

/// Bytes of one omap value of a mark, so that it takes pages like others.
const MARK_VALUE_BYTES: usize = 4 << 10;

/// An object that a collection has while objects are moved from it or to it.
pub(crate) fn mark() -> HObject {
    HObject { oid: Bytes::from_static(b"store_move"), pool: PoolId(i64::MIN + 1), ..HObject::default() }
}

/// The omap of a mark: the transaction in pieces.
fn mark_pairs(txn: &Transaction) -> Pairs {
    let (mut meta, mut payloads) = (Vec::new(), Vec::new());
    txn.encode_split(&mut meta, &mut payloads);
    let mut bytes = Vec::new();
    (meta.len() as u32).encode(&mut bytes, Features::default());
    bytes.extend(meta);
    payloads.iter().for_each(|payload| bytes.extend_from_slice(payload));
    let pieces = bytes.chunks(MARK_VALUE_BYTES).zip(0u32..);
    pieces.map(|(piece, at)| (key_of(at), Bytes::copy_from_slice(piece))).collect()
}

fn key_of(piece: u32) -> Bytes {
    Bytes::copy_from_slice(&piece.to_be_bytes())
}

/// The transaction of a collection's mark, whose omap values these are, end to end.
///
/// # Errors
/// If it is none that was under way in that collection.
pub(crate) fn marked_txn(coll: CollId, mut bytes: Bytes) -> Result<Transaction, DecodeError> {
    let len = u32::decode(&mut Reader::new(bytes.clone()))? as usize;
    bytes.advance(size_of::<u32>());
    if len > bytes.len() {
        return Err(DecodeError::Invalid { what: "length of a marked transaction", value: len as u64 });
    }
    let payload = bytes.split_off(len);
    let txn = Transaction::decode_split(&mut Reader::new(bytes), &mut Reader::new(payload))?;
    if txn.coll != coll || !txn.ops.first().is_some_and(is_move) || !is_stepwise(&txn) {
        return Err(DecodeError::Invalid { what: "marked transaction", value: txn.ops.len() as u64 });
    }
    Ok(txn)
}

impl Store {
    /// Moves some objects for the transaction that is the first one waiting in a collection, or marks it as begun.
    pub(super) fn move_part(&mut self, coll: CollId, number: u64, part: &Part) {
        let Some(mut txn) = self.take_first_txn(coll) else { return };
        if !self.waiting.is_first_begun(coll) {
            return self.begin_moves(coll, number, txn);
        }
        match &mut txn.ops[part.op] {
            TxnOp::Split(split) => split.from = part.end.clone(),
            TxnOp::Merge(merge) => merge.from = part.end.clone(),
            TxnOp::CreateCollection | TxnOp::RemoveCollection | TxnOp::Object(..) => {}
        }
        self.put_first_txn(coll, txn);
        self.unpin_first_deferred(coll);
        let Some(target) = part.target else { return };
        let mut step = Transaction::new(part.coll);
        step.ops.push(TxnOp::Split(Box::new(CollSplit {
            child: target,
            from: part.from.clone(),
            to: part.end.clone(),
            record: mark(),
            omap: Pairs::default(),
        })));
        self.apply_now(step);
    }

    fn begin_moves(&mut self, coll: CollId, number: u64, mut txn: Transaction) {
        let first = txn.ops.iter().position(is_move).unwrap_or(0);
        let mut rest = Transaction::new(coll);
        rest.ops = txn.ops.split_off(first);
        let absent = self.absent_for(&txn);
        if !absent.is_empty() {
            txn.ops.append(&mut rest.ops);
            self.put_first_txn(coll, txn);
            return self.read_for_deferred(coll, number, &absent);
        }
        txn.push(&mark(), Mutation::OmapSet(mark_pairs(&rest)));
        self.put_first_txn(coll, rest);
        self.waiting.set_first_begun(coll);
        self.apply_now(txn);
    }

    /// Goes on with what a crash interrupted. False if there is nothing.
    ///
    /// # Errors
    /// If a mark makes no sense.
    pub(super) fn resume_moves(&mut self) -> Result<bool, DecodeError> {
        for txn in self.marked()? {
            self.defer_begun(txn);
        }
        Ok(!self.waiting.is_empty())
    }

    /// The collections that objects are moved between, or were when a crash interrupted it.
    ///
    /// # Errors
    /// If a mark makes no sense.
    pub(super) fn moved_between(&self) -> Result<BTreeSet<CollId>, DecodeError> {
        let mut colls = BTreeSet::new();
        for txn in self.marked()? {
            colls.insert(txn.coll);
            colls.extend(txn.ops.iter().filter_map(|op| match op {
                TxnOp::Split(split) => Some(split.child),
                TxnOp::Merge(merge) => Some(merge.source),
                TxnOp::CreateCollection | TxnOp::RemoveCollection | TxnOp::Object(..) => None,
            }));
        }
        Ok(colls)
    }

    /// The transactions of all marks.
    fn marked(&self) -> Result<Vec<Transaction>, DecodeError> {
        let mark = mark();
        let colls = self.index.colls.keys().filter(|coll| self.index.get(**coll, &mark).is_some());
        let marked = colls.map(|&coll| {
            let values = self.index.omap(coll, &mark).into_iter().flat_map(|omap| omap.iter());
            let bytes = values.fold(Vec::new(), |mut bytes, (_, value)| {
                bytes.extend_from_slice(value);
                bytes
            });
            marked_txn(coll, bytes.into())
        });
        marked.collect()
    }
}
