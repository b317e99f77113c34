//! What changes in a store as one: the unit that a primary replicates and a journal makes durable.

use bytes::Bytes;
use codec::{Decode, DecodeError, Encode, Features, Payload, Reader, Sums};

use crate::{CollId, HObject, Pairs, PoolId, SnapId};

/// A change to one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Makes the object exist, empty if it did not.
    Touch,
    /// Writes `data` at `offset`; the object grows as needed, a gap reads as zeros.
    Write {
        /// Byte offset in the object.
        offset: u64,
        /// The payload.
        data: Payload,
    },
    /// Makes `[offset, offset + len)` read as zeros, and frees its space; grows the object as needed.
    Zero {
        /// Byte offset in the object.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Sets the size; bytes that are cut off are gone, bytes that are added read as zeros.
    Truncate {
        /// New size in bytes.
        size: u64,
    },
    /// Removes the object with its data, xattrs and omap. No error if it is not there.
    Remove,
    /// Sets xattrs.
    SetXattrs(Pairs),
    /// Removes one xattr.
    RemoveXattr(Bytes),
    /// Removes all xattrs.
    ClearXattrs,
    /// Sets omap entries.
    OmapSet(Pairs),
    /// Removes omap entries.
    OmapRemove(Vec<Bytes>),
    /// Removes the omap entries with `first <= key < last`.
    OmapRemoveRange {
        /// The first key removed.
        first: Bytes,
        /// The first key kept.
        last: Bytes,
    },
    /// Removes all omap entries and the header.
    OmapClear,
    /// Sets the omap header.
    OmapSetHeader(Bytes),
    /// Makes this object a copy of `source` as it is at this point of the transaction: data, xattrs,
    /// omap. What this object held before is gone.
    CloneFrom {
        /// The object copied, in the same collection.
        source: Box<HObject>,
    },
}

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnOp {
    /// Makes the collection exist.
    CreateCollection,
    /// Removes the collection with all its objects.
    RemoveCollection,
    /// Moves objects of the collection to a new one, which this op makes.
    Split(Box<CollSplit>),
    /// Moves objects of another collection to this one, and removes the other collection.
    Merge(Box<CollMerge>),
    /// Changes an object, which is made if it does not exist.
    Object(HObject, Mutation),
}

/// A part of a collection that becomes one of its own: what a PG's child has when the PG is split. Nothing is
/// copied, and it happens as a whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollSplit {
    /// The collection that is made.
    pub child: CollId,
    /// The first object that moves, or where it would be.
    pub from: HObject,
    /// The first object that stays behind those.
    pub to: HObject,
    /// An object that the new collection gets besides, if it has an omap: what its PG keeps of itself.
    pub record: HObject,
    /// That object's omap.
    pub omap: Pairs,
}

impl CollSplit {
    /// True for what goes to the new collection.
    pub fn moves(&self, object: &HObject) -> bool {
        (&self.from..&self.to).contains(&object)
    }
}

/// A collection that becomes a part of another one: what a PG has that is merged into the PG it came of. Nothing is
/// copied, and it happens as a whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollMerge {
    /// The collection that goes.
    pub source: CollId,
    /// The first object that moves, or where it would be.
    pub from: HObject,
    /// The first object behind those that move. Objects outside of the range are removed with the collection.
    pub to: HObject,
}

impl CollMerge {
    /// True for an object that is moved from the other collection.
    pub fn moves(&self, object: &HObject) -> bool {
        (&self.from..&self.to).contains(&object)
    }
}

/// Changes to objects of one collection that become durable together or not at all. Only a split and a merge reach
/// into another collection, which they make or remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Where.
    pub coll: CollId,
    /// What, in order.
    pub ops: Vec<TxnOp>,
}

impl Transaction {
    /// A transaction without changes.
    pub fn new(coll: CollId) -> Transaction {
        Transaction { coll, ops: Vec::new() }
    }

    /// Appends a change of `object`.
    pub fn push(&mut self, object: &HObject, mutation: Mutation) {
        self.ops.push(TxnOp::Object(object.clone(), mutation));
    }

    /// Appends all of `other`, which is of the same collection.
    pub fn append(&mut self, other: Transaction) {
        assert_eq!(self.coll, other.coll, "a transaction stays in one collection");
        self.ops.extend(other.ops);
    }

    /// Bytes of object data that it carries.
    pub fn payload_bytes(&self) -> usize {
        self.ops.iter().map(|op| op.payload().map_or(0, |data| data.len())).sum()
    }

    /// Bytes that [`Transaction::encode_split`] makes of it, payloads included, or somewhat more.
    pub fn bytes_at_most(&self) -> usize {
        let (mut last, mut bytes) = (None, FRONT_BYTES);
        for op in &self.ops {
            let is_named = op.object().is_some_and(|object| last != Some(object));
            bytes += op.bytes_at_most(is_named);
            last = op.object().or(last);
        }
        bytes
    }

    /// True if it makes an object a copy of another one.
    pub fn has_clone(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, TxnOp::Object(_, Mutation::CloneFrom { .. })))
    }

    /// Notes what is known of all payloads end to end: it is of the only one, where there is one.
    pub fn set_payload_sums(&mut self, sums: &Sums) {
        let mut payloads = self.ops.iter_mut().filter_map(|op| match op {
            TxnOp::Object(_, Mutation::Write { data, .. }) => Some(data),
            TxnOp::Object(..)
            | TxnOp::CreateCollection
            | TxnOp::RemoveCollection
            | TxnOp::Split(_)
            | TxnOp::Merge(_) => None,
        });
        if let (Some(only), None) = (payloads.next(), payloads.next()) {
            *only = Payload::with_sums(std::mem::take(only).into_bytes(), Some(sums.clone()));
        }
    }

    /// Encodes everything but the payloads of writes into `meta`, and hands those over, uncopied, in
    /// order in `payloads`. The format is ours, of messages between OSDs and of the journal.
    pub fn encode_split(&self, meta: &mut Vec<u8>, payloads: &mut Vec<Payload>) {
        Transaction::encode_front(self.coll, self.ops.len() as u32, meta);
        let mut last = None;
        for op in &self.ops {
            if op.encode_split(last, meta, payloads) {
                last = op.object();
            }
        }
    }

    /// Encodes the part of a transaction before its ops, for a caller that encodes the ops one by one. The last four
    /// bytes are the number of ops, little-endian.
    pub fn encode_front(coll: CollId, op_count: u32, meta: &mut Vec<u8>) {
        let f = Features::default();
        FORMAT.encode(meta, f);
        coll.encode(meta, f);
        op_count.encode(meta, f);
    }

    /// Decodes what [`Transaction::encode_split`] wrote; `payload` holds the payloads end to end.
    pub fn decode_split(meta: &mut Reader, payload: &mut Reader) -> Result<Transaction, DecodeError> {
        let format = u8::decode(meta)?;
        if format != FORMAT {
            return Err(DecodeError::Invalid { what: "transaction format", value: u64::from(format) });
        }
        let coll = CollId::decode(meta)?;
        let count = meta.count(1)?;
        let mut last = None;
        let mut ops = Vec::with_capacity(count.min(OPS_ROOM) + OPS_ADDED);
        for _ in 0..count {
            ops.push(TxnOp::decode_meta(&mut last, meta, payload)?);
        }
        Ok(Transaction { coll, ops })
    }
}

/// Room for ops: few changes have more. An OSD adds some to those that it gets.
const OPS_ROOM: usize = 8;
const OPS_ADDED: usize = 2;
/// Room for pairs: few have more.
const PAIRS_ROOM: usize = 64;

/// More than the bytes before the ops.
const FRONT_BYTES: usize = 64;
/// More than the bytes of an op's fields of fixed length.
const FIXED_BYTES: usize = 64;
/// More than the bytes of an object name's fields of fixed length.
const NAME_FIXED_BYTES: usize = 64;
/// The lengths of a key and its value.
const PAIR_BYTES: usize = 8;
/// Where an extent may end: far beyond any object, and so that what is computed from it does not overflow.
const OBJECT_END_MAX: u64 = 1 << 62;

fn name_bytes(object: &HObject) -> usize {
    NAME_FIXED_BYTES + object.oid.len() + object.key.len() + object.nspace.len()
}

fn pairs_bytes(pairs: &Pairs) -> usize {
    pairs.iter().map(|(key, value)| PAIR_BYTES + key.len() + value.len()).sum()
}

/// There are many, and most are small.
const _: () = assert!(size_of::<Mutation>() <= 72);

/// The version of the encoding.
const FORMAT: u8 = 2;

mod tag {
    /// Set where the object is the one that was named last, which is left out.
    pub(super) const SAME: u8 = 0x80;
    pub(super) const CREATE_COLLECTION: u8 = 1;
    pub(super) const REMOVE_COLLECTION: u8 = 2;
    pub(super) const SPLIT: u8 = 3;
    pub(super) const MERGE: u8 = 4;
    pub(super) const TOUCH: u8 = 10;
    pub(super) const WRITE: u8 = 11;
    pub(super) const ZERO: u8 = 12;
    pub(super) const TRUNCATE: u8 = 13;
    pub(super) const REMOVE: u8 = 14;
    pub(super) const SET_XATTRS: u8 = 20;
    pub(super) const REMOVE_XATTR: u8 = 21;
    pub(super) const CLEAR_XATTRS: u8 = 22;
    pub(super) const OMAP_SET: u8 = 30;
    pub(super) const OMAP_REMOVE: u8 = 31;
    pub(super) const OMAP_REMOVE_RANGE: u8 = 32;
    pub(super) const OMAP_CLEAR: u8 = 33;
    pub(super) const OMAP_SET_HEADER: u8 = 34;
    pub(super) const CLONE_FROM: u8 = 40;
    // 41 is taken by what no build makes any more.
}

impl TxnOp {
    /// One op of [`Transaction::encode_split`], behind ops of which `last` is the last object. True if it names
    /// another one.
    pub fn encode_split(
        &self,
        last: Option<&HObject>,
        meta: &mut Vec<u8>,
        payloads: &mut Vec<Payload>,
    ) -> bool {
        payloads.extend(self.payload().cloned());
        self.encode_meta(last, meta)
    }

    /// The object that it changes, if it changes one.
    pub fn object(&self) -> Option<&HObject> {
        match self {
            TxnOp::Object(object, _) => Some(object),
            TxnOp::CreateCollection | TxnOp::RemoveCollection | TxnOp::Split(_) | TxnOp::Merge(_) => None,
        }
    }

    fn payload(&self) -> Option<&Payload> {
        match self {
            TxnOp::Object(_, Mutation::Write { data, .. }) => Some(data),
            TxnOp::Object(..)
            | TxnOp::CreateCollection
            | TxnOp::RemoveCollection
            | TxnOp::Split(_)
            | TxnOp::Merge(_) => None,
        }
    }

    fn bytes_at_most(&self, is_named: bool) -> usize {
        FIXED_BYTES
            + match self {
                TxnOp::CreateCollection | TxnOp::RemoveCollection => 0,
                TxnOp::Split(split) => {
                    name_bytes(&split.from)
                        + name_bytes(&split.to)
                        + name_bytes(&split.record)
                        + pairs_bytes(&split.omap)
                }
                TxnOp::Merge(merge) => name_bytes(&merge.from) + name_bytes(&merge.to),
                TxnOp::Object(object, mutation) => {
                    mutation.bytes() + if is_named { name_bytes(object) } else { 0 }
                }
            }
    }

    fn encode_meta(&self, last: Option<&HObject>, out: &mut Vec<u8>) -> bool {
        let f = Features::default();
        match self {
            TxnOp::CreateCollection => tag::CREATE_COLLECTION.encode(out, f),
            TxnOp::RemoveCollection => tag::REMOVE_COLLECTION.encode(out, f),
            TxnOp::Split(split) => {
                tag::SPLIT.encode(out, f);
                split.child.encode(out, f);
                split.from.encode(out, f);
                split.to.encode(out, f);
                split.record.encode(out, f);
                encode_pairs(&split.omap, out);
            }
            TxnOp::Merge(merge) => {
                tag::MERGE.encode(out, f);
                merge.source.encode(out, f);
                merge.from.encode(out, f);
                merge.to.encode(out, f);
            }
            TxnOp::Object(object, mutation) => {
                let is_new = last != Some(object);
                if is_new {
                    mutation.tag().encode(out, f);
                    encode_name(object, out);
                } else {
                    (mutation.tag() | tag::SAME).encode(out, f);
                }
                mutation.encode_fields(out);
                return is_new;
            }
        }
        false
    }

    fn decode_meta(
        last: &mut Option<HObject>,
        meta: &mut Reader,
        payload: &mut Reader,
    ) -> Result<TxnOp, DecodeError> {
        Ok(match u8::decode(meta)? {
            tag::CREATE_COLLECTION => TxnOp::CreateCollection,
            tag::REMOVE_COLLECTION => TxnOp::RemoveCollection,
            tag::SPLIT => {
                let child = Decode::decode(meta)?;
                let (from, to) = decode_range(meta)?;
                let (record, omap) = (Decode::decode(meta)?, decode_pairs(meta, Reader::copy)?);
                TxnOp::Split(Box::new(CollSplit { child, from, to, record, omap }))
            }
            tag::MERGE => {
                let source = Decode::decode(meta)?;
                let (from, to) = decode_range(meta)?;
                TxnOp::Merge(Box::new(CollMerge { source, from, to }))
            }
            tag => {
                if tag & tag::SAME == 0 {
                    *last = Some(decode_name(meta)?);
                }
                let no_object = DecodeError::Invalid { what: "mutation", value: u64::from(tag) };
                let object = last.clone().ok_or(no_object)?;
                TxnOp::Object(object, Mutation::decode_fields(tag & !tag::SAME, meta, payload)?)
            }
        })
    }
}

/// What a name has of what most have not.
mod name_part {
    pub(super) const KEY: u8 = 1;
    pub(super) const NSPACE: u8 = 2;
    pub(super) const SNAP: u8 = 4;
    pub(super) const MAX: u8 = 8;
    pub(super) const ALL: u8 = KEY | NSPACE | SNAP | MAX;
}

/// The object's name without the fields that most names do not have: every transaction holds at least one name.
fn encode_name(object: &HObject, out: &mut Vec<u8>) {
    use name_part::*;
    let f = Features::default();
    let part = |is_there: bool, part: u8| if is_there { part } else { 0 };
    let parts = part(!object.key.is_empty(), KEY)
        | part(!object.nspace.is_empty(), NSPACE)
        | part(!object.is_head(), SNAP)
        | part(object.is_max, MAX);
    (parts, object.hash, object.pool).encode(out, f);
    object.oid.encode(out, f);
    if parts & KEY != 0 {
        object.key.encode(out, f);
    }
    if parts & NSPACE != 0 {
        object.nspace.encode(out, f);
    }
    if parts & SNAP != 0 {
        object.snap.encode(out, f);
    }
}

fn decode_name(meta: &mut Reader) -> Result<HObject, DecodeError> {
    use name_part::*;
    let (parts, hash, pool) = <(u8, u32, PoolId)>::decode(meta)?;
    if parts & !ALL != 0 {
        return Err(DecodeError::Invalid { what: "parts of a name", value: u64::from(parts) });
    }
    Ok(HObject {
        hash,
        pool,
        oid: Decode::decode(meta)?,
        key: if parts & KEY != 0 { Decode::decode(meta)? } else { Bytes::new() },
        nspace: if parts & NSPACE != 0 { Decode::decode(meta)? } else { Bytes::new() },
        snap: if parts & SNAP != 0 { Decode::decode(meta)? } else { SnapId::HEAD },
        is_max: parts & MAX != 0,
    })
}

/// The first object of a range and the first one behind it.
fn decode_range(meta: &mut Reader) -> Result<(HObject, HObject), DecodeError> {
    let (from, to) = (HObject::decode(meta)?, HObject::decode(meta)?);
    if from > to {
        return Err(DecodeError::Invalid { what: "range of objects", value: u64::from(from.hash) });
    }
    Ok((from, to))
}

/// Bytes in memory of their own: they stay for long, and would otherwise keep everything alive that they came with.
fn decode_own(meta: &mut Reader) -> Result<Bytes, DecodeError> {
    let count = meta.count(1)?;
    meta.copy(count)
}

fn encode_pairs(pairs: &Pairs, out: &mut Vec<u8>) {
    let f = Features::default();
    (pairs.len() as u32).encode(out, f);
    for (key, value) in pairs {
        key.encode(out, f);
        value.encode(out, f);
    }
}

/// `len`, if so many bytes from `offset` on are where an object may have data.
fn within_reach(offset: u64, len: u64) -> Result<u64, DecodeError> {
    match offset.checked_add(len) {
        Some(end) if end <= OBJECT_END_MAX => Ok(len),
        end => Err(DecodeError::Invalid { what: "extent of an object", value: end.unwrap_or(u64::MAX) }),
    }
}

/// Keys are got by `key`; values are in memory of their own.
fn decode_pairs(
    meta: &mut Reader,
    key: impl Fn(&mut Reader, usize) -> Result<Bytes, DecodeError>,
) -> Result<Pairs, DecodeError> {
    let count = meta.count(8)?;
    let mut pairs = Vec::with_capacity(count.min(PAIRS_ROOM));
    for _ in 0..count {
        let key_bytes = meta.count(1)?;
        pairs.push((key(meta, key_bytes)?, decode_own(meta)?));
    }
    Ok(pairs.into())
}

impl Mutation {
    fn tag(&self) -> u8 {
        match self {
            Mutation::Touch => tag::TOUCH,
            Mutation::Write { .. } => tag::WRITE,
            Mutation::Zero { .. } => tag::ZERO,
            Mutation::Truncate { .. } => tag::TRUNCATE,
            Mutation::Remove => tag::REMOVE,
            Mutation::SetXattrs(_) => tag::SET_XATTRS,
            Mutation::RemoveXattr(_) => tag::REMOVE_XATTR,
            Mutation::ClearXattrs => tag::CLEAR_XATTRS,
            Mutation::OmapSet(_) => tag::OMAP_SET,
            Mutation::OmapRemove(_) => tag::OMAP_REMOVE,
            Mutation::OmapRemoveRange { .. } => tag::OMAP_REMOVE_RANGE,
            Mutation::OmapClear => tag::OMAP_CLEAR,
            Mutation::OmapSetHeader(_) => tag::OMAP_SET_HEADER,
            Mutation::CloneFrom { .. } => tag::CLONE_FROM,
        }
    }

    /// Bytes of what has no fixed length.
    fn bytes(&self) -> usize {
        match self {
            Mutation::Touch
            | Mutation::Remove
            | Mutation::ClearXattrs
            | Mutation::OmapClear
            | Mutation::Zero { .. }
            | Mutation::Truncate { .. } => 0,
            Mutation::Write { data, .. } => data.len(),
            Mutation::SetXattrs(pairs) | Mutation::OmapSet(pairs) => pairs_bytes(pairs),
            Mutation::OmapRemove(keys) => keys.iter().map(|key| PAIR_BYTES + key.len()).sum(),
            Mutation::OmapRemoveRange { first, last } => first.len() + last.len(),
            Mutation::RemoveXattr(bytes) | Mutation::OmapSetHeader(bytes) => bytes.len(),
            Mutation::CloneFrom { source } => name_bytes(source),
        }
    }

    fn encode_fields(&self, out: &mut Vec<u8>) {
        let f = Features::default();
        match self {
            Mutation::Touch | Mutation::Remove | Mutation::ClearXattrs | Mutation::OmapClear => {}
            Mutation::Write { offset, data } => (*offset, data.len() as u64).encode(out, f),
            Mutation::Zero { offset, len } => (*offset, *len).encode(out, f),
            Mutation::Truncate { size } => size.encode(out, f),
            Mutation::SetXattrs(pairs) | Mutation::OmapSet(pairs) => encode_pairs(pairs, out),
            Mutation::RemoveXattr(name) => name.encode(out, f),
            Mutation::OmapRemove(keys) => keys.encode(out, f),
            Mutation::OmapRemoveRange { first, last } => {
                first.encode(out, f);
                last.encode(out, f);
            }
            Mutation::OmapSetHeader(header) => header.encode(out, f),
            Mutation::CloneFrom { source } => source.encode(out, f),
        }
    }

    fn decode_fields(tag: u8, meta: &mut Reader, payload: &mut Reader) -> Result<Mutation, DecodeError> {
        Ok(match tag {
            tag::TOUCH => Mutation::Touch,
            tag::WRITE => {
                let (offset, len) = <(u64, u64)>::decode(meta)?;
                let len = usize::try_from(within_reach(offset, len)?)
                    .map_err(|_| DecodeError::Invalid { what: "write length", value: len })?;
                Mutation::Write { offset, data: payload.take(len)?.into() }
            }
            tag::ZERO => {
                let (offset, len) = Decode::decode(meta)?;
                Mutation::Zero { offset, len: within_reach(offset, len)? }
            }
            tag::TRUNCATE => Mutation::Truncate { size: within_reach(0, Decode::decode(meta)?)? },
            tag::REMOVE => Mutation::Remove,
            // Most names are known where they come.
            tag::SET_XATTRS => Mutation::SetXattrs(decode_pairs(meta, Reader::take)?),
            tag::REMOVE_XATTR => Mutation::RemoveXattr(Decode::decode(meta)?),
            tag::CLEAR_XATTRS => Mutation::ClearXattrs,
            tag::OMAP_SET => Mutation::OmapSet(decode_pairs(meta, Reader::copy)?),
            tag::OMAP_REMOVE => Mutation::OmapRemove(Decode::decode(meta)?),
            tag::OMAP_REMOVE_RANGE => {
                Mutation::OmapRemoveRange { first: Decode::decode(meta)?, last: Decode::decode(meta)? }
            }
            tag::OMAP_CLEAR => Mutation::OmapClear,
            tag::OMAP_SET_HEADER => Mutation::OmapSetHeader(decode_own(meta)?),
            tag::CLONE_FROM => Mutation::CloneFrom { source: Decode::decode(meta)? },
            other => return Err(DecodeError::Invalid { what: "mutation", value: u64::from(other) }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_that_no_object_has_is_refused() {
        let decode = |tag: u8, fields: &[u64]| {
            let meta = fields.iter().flat_map(|field| field.to_le_bytes()).collect::<Vec<u8>>();
            let payload = Bytes::from_static(&[1; 16]);
            Mutation::decode_fields(tag, &mut Reader::new(meta.into()), &mut Reader::new(payload))
        };
        let end = OBJECT_END_MAX;
        for (tag, fields) in [
            (tag::WRITE, vec![end - 15, 16]),
            (tag::WRITE, vec![u64::MAX, 16]),
            (tag::ZERO, vec![end, 1]),
            (tag::ZERO, vec![1, u64::MAX]),
            (tag::TRUNCATE, vec![end + 1]),
        ] {
            let found = decode(tag, &fields);
            let is_refused = matches!(found, Err(DecodeError::Invalid { what: "extent of an object", .. }));
            assert!(is_refused, "{tag} {fields:?}: {found:?}");
        }
        assert!(decode(tag::WRITE, &[end - 16, 16]).is_ok());
        assert_eq!(decode(tag::ZERO, &[0, end]), Ok(Mutation::Zero { offset: 0, len: end }));
        assert_eq!(decode(tag::TRUNCATE, &[end]), Ok(Mutation::Truncate { size: end }));
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_refused() {
        let object = |hash: u32| HObject { pool: PoolId(1), hash, ..HObject::default() };
        let (coll, omap) = (CollId::META, Pairs::default());
        // Hashes compare by their bits reversed.
        for (from, to, is_refused) in [(1, 2, true), (2, 1, false), (1, 1, false)] {
            let (from, to, record) = (object(from), object(to), HObject::default());
            let merge = CollMerge { source: coll, from: from.clone(), to: to.clone() };
            let split = CollSplit { child: coll, from, to, record, omap: omap.clone() };
            for op in [TxnOp::Merge(Box::new(merge)), TxnOp::Split(Box::new(split))] {
                let txn = Transaction { coll, ops: vec![op] };
                let mut meta = Vec::new();
                txn.encode_split(&mut meta, &mut Vec::new());
                let found =
                    Transaction::decode_split(&mut Reader::new(meta.into()), &mut Reader::new(Bytes::new()));
                assert_eq!(found.is_err(), is_refused, "{txn:?}: {found:?}");
                assert!(is_refused || found == Ok(txn));
            }
        }
    }

    #[test]
    fn an_unknown_mutation_is_refused() {
        for tag in [0, 9, 15, 41, 0x7f] {
            let bytes = || Reader::new(Bytes::from(vec![0; 256]));
            let found = Mutation::decode_fields(tag, &mut bytes(), &mut bytes());
            assert!(matches!(found, Err(DecodeError::Invalid { what: "mutation", .. })), "{tag}: {found:?}");
        }
    }
}
