//! An object in parts: what the next one holds, and where the one after it begins. Nearly all objects are one part.
//!
//! A part has its object's data first, then xattrs and the header of its omap, then that: so the last one completes
//! whatever the ones before have made. Nothing is kept between parts but the cursor, which the receiver sends back.
//!
//! Authority: `PrimaryLogPG::build_push_op` of `ReplicatedBackend` (16.2).

use std::ops::Bound;

use bytes::Bytes;
use messages::ObjectCursor;
use store::{NotCached, ObjectStore, OmapMost};
use types::{CollId, EVersion, HObject, IntervalSet, Mutation, Transaction};

use super::base::{self, Shared};
use crate::{
    RecoveryPolicy,
    exec::{self, Kept},
    replication::CHANGE_BYTES_MAX,
};

/// Entries of an omap that are read together.
const OMAP_PAGE: OmapMost = OmapMost::of(512);
/// Data is cut at multiples of this, so that pieces stay in blocks.
const CUT_BYTES: u64 = 64 << 10;

/// How long a part is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure {
    /// It ends with what reaches this many bytes.
    most: usize,
    /// It ends with so many where more of the index would have to be loaded: each load begins the part again.
    enough: usize,
}

/// A part ends where another load is needed and it has so many bytes.
const ENOUGH_BYTES: usize = 1 << 20;

impl Measure {
    /// Of the parts of an object that is recovered.
    pub(super) fn of_parts(policy: &RecoveryPolicy) -> Measure {
        let most = usize::try_from(policy.part_bytes).unwrap_or(usize::MAX).clamp(1, CHANGE_BYTES_MAX);
        Measure { most, enough: most.min(ENOUGH_BYTES) }
    }
}

/// What must be all of an object: that is to be part of a change.
pub(super) const WHOLE: Measure = Measure { most: CHANGE_BYTES_MAX, enough: usize::MAX };

/// What is sent of an object.
pub(super) struct Content {
    /// The version that is here; zero without one.
    pub(super) version: EVersion,
    /// What makes this part, the first one whatever was there before.
    pub(super) txn: Transaction,
    /// Where the next part begins; none behind the last one.
    pub(super) next: Option<ObjectCursor>,
    /// How long it is.
    pub(super) bytes: usize,
    /// How much data all of the object is, but for what it need not be sent of.
    pub(super) size: u64,
}

/// The part of an object that begins there. None where what is kept with it cannot be decoded.
pub(super) fn part_of(
    store: &dyn ObjectStore,
    coll: CollId,
    object: &HObject,
    begin: &ObjectCursor,
    measure: Measure,
    shared: Option<&Shared>,
) -> Result<Option<Content>, NotCached> {
    let version = match exec::info_at(store, coll, object)? {
        Kept::Known(info) => info.version,
        Kept::Absent => EVersion::ZERO,
        Kept::Undecodable => return Ok(None),
    };
    let mut txn = Transaction::new(coll);
    let Some(meta) = store.meta(coll, object)? else {
        if begin.is_begin() {
            txn.push(object, Mutation::Remove);
        }
        return Ok(Some(Content { version, txn, next: None, bytes: 0, size: 0 }));
    };
    match shared {
        Some(shared) if begin.is_begin() => base::begin(&mut txn, object, &shared.neighbour),
        None if begin.is_begin() => {
            txn.push(object, Mutation::Remove);
            txn.push(object, Mutation::Touch);
        }
        _ => {}
    }
    let at = ObjectCursor { base: shared.map(|shared| shared.base), ..begin.clone() };
    let mut draft = Draft { store, coll, object, measure, shared, bytes: 0, at, txn };
    let is_last = draft.put_data(meta.size)? && draft.put_xattrs()? && draft.put_omap()?;
    // An object without a version is sent no further: it is lost in any case.
    let has_next = !is_last && version != EVersion::ZERO;
    let bytes = draft.bytes;
    let size = meta.size.saturating_sub(shared.map_or(0, |shared| shared.ranges.size()));
    Ok(Some(Content { version, txn: draft.txn, next: has_next.then_some(draft.at), bytes, size }))
}

/// A part that is being made. Its methods return false where it is full before all is in it that they put there.
struct Draft<'a> {
    store: &'a dyn ObjectStore,
    coll: CollId,
    object: &'a HObject,
    measure: Measure,
    shared: Option<&'a Shared>,
    bytes: usize,
    at: ObjectCursor,
    txn: Transaction,
}

impl Draft<'_> {
    fn is_full(&self) -> bool {
        self.bytes >= self.measure.most
    }

    fn put_data(&mut self, size: u64) -> Result<bool, NotCached> {
        if self.at.has_data {
            return Ok(true);
        }
        let left = (self.measure.most - self.bytes) as u64;
        let all =
            self.store.extents(self.coll, self.object, self.at.data, size.saturating_sub(self.at.data))?;
        let (all, holes) = match self.shared {
            Some(shared) => apart(all, (self.at.data, size), &shared.ranges),
            None => (all, Vec::new()),
        };
        // What lies between two ranges that are sent is read with them: of a hole that is nothing.
        let span_max = if self.shared.is_some() { left } else { u64::MAX };
        let (ranges, end) = cut(all, left, span_max);
        let end = end.unwrap_or(size);
        // The neighbour may have data where the object has none.
        for (offset, len) in holes.into_iter().filter(|(offset, _)| *offset < end) {
            self.txn.push(self.object, Mutation::Zero { offset, len: len.min(end - offset) });
        }
        for write in exec::data_writes(self.store, self.coll, self.object, ranges)? {
            if let Mutation::Write { data, .. } = &write {
                self.bytes += data.len();
            }
            self.txn.push(self.object, write);
        }
        self.at.data = end;
        if end < size {
            return Ok(false);
        }
        self.at.has_data = true;
        self.txn.push(self.object, Mutation::Truncate { size });
        Ok(true)
    }

    fn put_xattrs(&mut self) -> Result<bool, NotCached> {
        if self.at.has_xattrs {
            return Ok(true);
        }
        let mut pairs = Vec::new();
        for (name, value) in self.store.xattrs(self.coll, self.object)? {
            if self.at.xattr.as_ref().is_some_and(|last| name <= *last) {
                continue;
            }
            if self.is_full() {
                self.put(Mutation::SetXattrs, pairs);
                return Ok(false);
            }
            self.bytes += name.len() + value.len();
            self.at.xattr = Some(name.clone());
            pairs.push((name, value));
        }
        self.put(Mutation::SetXattrs, pairs);
        let header = self.store.omap_header(self.coll, self.object)?;
        if !header.is_empty() {
            self.bytes += header.len();
            self.txn.push(self.object, Mutation::OmapSetHeader(header));
        }
        self.at.has_xattrs = true;
        Ok(true)
    }

    fn put_omap(&mut self) -> Result<bool, NotCached> {
        let mut pairs = Vec::new();
        let is_last = loop {
            let from = self.at.omap.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let page = match self.store.omap_range(self.coll, self.object, from, OMAP_PAGE) {
                Ok(page) => page,
                Err(_) if self.bytes >= self.measure.enough => break false,
                Err(missing) => return Err(missing),
            };
            let is_end = !OMAP_PAGE.is_met_by(&page);
            let mut page = page.into_iter().peekable();
            while let Some((key, value)) = page.next_if(|_| !self.is_full()) {
                self.bytes += key.len() + value.len();
                self.at.omap = Some(key.clone());
                pairs.push((key, value));
            }
            if page.peek().is_some() {
                break false;
            }
            if is_end {
                break true;
            }
        };
        self.put(Mutation::OmapSet, pairs);
        Ok(is_last)
    }

    fn put(&mut self, mutation: fn(types::Pairs) -> Mutation, pairs: Vec<(Bytes, Bytes)>) {
        if !pairs.is_empty() {
            self.txn.push(self.object, mutation(pairs.into_iter().collect()));
        }
    }
}

/// What has to be sent of an object's data from `from` to before `to`, as it is not shared: ranges that hold data, and
/// holes.
fn apart(all: Vec<(u64, u64)>, (from, to): (u64, u64), shared: &IntervalSet) -> (Ranges, Ranges) {
    let (mut data, mut holes) = (IntervalSet::new(), IntervalSet::new());
    all.into_iter().for_each(|(offset, len)| data.insert(offset, len));
    holes.insert(from, to.saturating_sub(from));
    holes.subtract(&data);
    holes.subtract(shared);
    data.subtract(shared);
    (data.iter().collect(), holes.iter().collect())
}

/// Offsets with lengths.
type Ranges = Vec<(u64, u64)>;

/// The first `left` bytes of ranges (offset and length), of which none begins `span_max` behind the first, and where
/// they end; none if that is all.
fn cut(ranges: Ranges, mut left: u64, span_max: u64) -> (Ranges, Option<u64>) {
    let mut out = Ranges::new();
    for (offset, len) in ranges {
        let begin = out.first().map_or(offset, |(begin, _)| *begin);
        if left == 0 || offset - begin >= span_max {
            return (out, Some(offset));
        }
        if len > left {
            let end = (offset + left) / CUT_BYTES * CUT_BYTES;
            let end = if end > offset { end } else { offset + left };
            out.push((offset, end - offset));
            return (out, Some(end));
        }
        left -= len;
        out.push((offset, len));
    }
    (out, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_shared_is_sent() {
        let mut shared = IntervalSet::new();
        shared.insert(10, 20);
        shared.insert(50, 10);
        let check = |all: &[(u64, u64)], from, expect: [&[(u64, u64)]; 2]| {
            let (data, holes) = apart(all.to_vec(), (from, 100), &shared);
            assert_eq!([&data[..], &holes[..]], expect);
        };
        check(&[(0, 100)], 0, [&[(0, 10), (30, 20), (60, 40)], &[]]);
        check(&[(5, 30), (58, 4)], 0, [&[(5, 5), (30, 5), (60, 2)], &[(0, 5), (35, 15), (62, 38)]]);
        check(&[], 20, [&[], &[(30, 20), (60, 40)]]);
    }

    #[test]
    fn data_is_cut_at_blocks_where_it_can_be() {
        const K: u64 = 1 << 10;
        let ranges = vec![(0, 10), (128 * K, 256 * K), (512 * K, 1)];
        let check = |left, expect: &[(u64, u64)], end| {
            assert_eq!(cut(ranges.clone(), left, u64::MAX), (expect.to_vec(), end), "{left}");
        };
        check(1 << 30, &ranges, None);
        check(10, &[(0, 10)], Some(128 * K));
        check(3, &[(0, 3)], Some(3));
        check(100 * K, &[(0, 10), (128 * K, 64 * K)], Some(192 * K));
        check(20 * K, &[(0, 10), (128 * K, 20 * K - 10)], Some(148 * K - 10));
        check(10 + 256 * K, &[(0, 10), (128 * K, 256 * K)], Some(512 * K));
        assert_eq!(cut(ranges.clone(), 1 << 30, 128 * K), (ranges[..1].to_vec(), Some(128 * K)), "far apart");
        assert_eq!(cut(ranges.clone(), 1 << 30, 129 * K), (ranges[..2].to_vec(), Some(512 * K)), "far apart");
    }
}
