//! Reading the index: what is in memory at once, and what is missing by name.

use std::ops::Bound;

use bytes::Bytes;
use types::{CollId, HObject};

use super::{Store, deferred::Listing, moves::mark};
use crate::{
    NotCached, ObjectStore, OmapMost,
    index::{Key, Value},
    onode::Onode,
};

impl From<Key> for NotCached {
    fn from(key: Key) -> NotCached {
        NotCached::Index { coll: key.coll, object: key.object, omap: key.omap }
    }
}

/// An omap entry.
type Pair = (Bytes, Bytes);

/// Where omap entries from a key on begin.
pub(super) fn omap_place(coll: CollId, object: &HObject, from: Bound<&[u8]>) -> Key {
    let first = match from {
        Bound::Included(key) | Bound::Excluded(key) => Bytes::copy_from_slice(key),
        Bound::Unbounded => Bytes::new(),
    };
    Key::of_omap(coll, object, &first)
}

impl Store {
    pub(super) fn is_waited_for(&self, coll: CollId, object: &HObject) -> bool {
        !self.waiting.is_empty() && self.waiting.changes(coll, object)
    }

    /// The object's entry, none if there is no such object.
    pub(super) fn onode_at(&self, coll: CollId, object: &HObject) -> Result<Option<&Onode>, NotCached> {
        let found = self.index.get(coll, object);
        let is_at_hand = found.is_some() || !self.index.is_hidden(&Key::of(coll, object));
        if !is_at_hand || self.is_waited_for(coll, object) {
            return Err(Key::of(coll, object).into());
        }
        Ok(found)
    }

    /// One attribute, read from its page's bytes if the object's entry is there: a caller that looks at many objects
    /// once need not have all their entries taken out of their pages.
    pub(super) fn xattr_at(
        &self,
        coll: CollId,
        object: &HObject,
        name: &[u8],
    ) -> Result<Option<Bytes>, NotCached> {
        let is_elsewhere = !self.index.directory.is_whole() && self.index.get(coll, object).is_none();
        if is_elsewhere
            && !self.is_waited_for(coll, object)
            && let Some(Value::Onode(onode)) = self.index.packed_value(&Key::of(coll, object))
        {
            return Ok(onode.xattrs.get(name).cloned());
        }
        Ok(self.onode_at(coll, object)?.and_then(|onode| onode.xattrs.get(name).cloned()))
    }

    /// One omap value.
    pub(super) fn omap_at(
        &self,
        coll: CollId,
        object: &HObject,
        key: &[u8],
    ) -> Result<Option<Bytes>, NotCached> {
        let found = self.index.omap(coll, object).and_then(|omap| omap.get(key).cloned());
        if !self.index.directory.is_whole() || !self.waiting.is_empty() {
            let place = Key::of_omap(coll, object, &Bytes::copy_from_slice(key));
            if self.index.is_absent(&place) || self.is_waited_for(coll, object) {
                return Err(place.into());
            }
            if found.is_none()
                && let Some(Value::Omap(value)) = self.index.packed_value(&place)
            {
                return Ok(Some(value));
            }
        }
        Ok(found)
    }

    /// Omap entries from a key on, as many as the caller wants at once.
    pub(super) fn omap_from(
        &self,
        coll: CollId,
        object: &HObject,
        from: Bound<&[u8]>,
        most: OmapMost,
    ) -> Result<Vec<Pair>, NotCached> {
        if most == OmapMost::ALL {
            // Else the caller would look in vain, once for each missing page.
            self.omap_bytes(coll, object, from, b"", usize::MAX, u64::MAX)?;
        }
        let omap = self.index.omap(coll, object).into_iter();
        let range = omap.flat_map(|omap| omap.range(from, Bound::Unbounded));
        let mut found: Vec<Pair> = most.take(range.map(|(key, value)| (key.clone(), value.clone())));
        if self.index.directory.is_whole() && self.waiting.is_empty() {
            return Ok(found);
        }
        let start = omap_place(coll, object, from);
        let packed = self.index.directory.packed_from(&start).map(|raw| raw.entry());
        let packed = packed.take_while(|(key, _)| key.coll == coll && key.object == *object);
        let packed = packed.filter_map(|(key, value)| match (key.omap, value) {
            (Some(key), Value::Omap(value)) => Some((key, value)),
            (_, Value::Omap(_) | Value::Onode(_)) => None,
        });
        let is_asked_for = |key: &Bytes| from != Bound::Excluded(&**key);
        found.extend(most.take(packed.filter(|(key, _)| is_asked_for(key))));
        found.sort_unstable();
        let found = most.take(found.into_iter());
        let last = found.last().filter(|_| most.is_met_by(&found)).map(|(key, _)| key);
        let is_within = |first: &Key| {
            let is_before = last.is_none_or(|last| first.omap.as_ref().is_none_or(|omap| omap <= last));
            first.coll == coll && first.object == *object && is_before
        };
        if self.is_waited_for(coll, object) {
            return Err(start.into());
        }
        let absent = self.index.absent_in(&start, is_within).next();
        absent.map_or(Ok(found), |key| Err(key.into()))
    }

    /// Objects of a collection from one on, as they will be when all that was submitted is applied.
    pub(super) fn list_from(
        &self,
        coll: CollId,
        from: &HObject,
        count_max: usize,
    ) -> Result<Vec<HObject>, NotCached> {
        if self.waiting.is_empty() {
            return self.list_applied(coll, from, &HObject::max(), count_max);
        }
        if self.waiting.has_barrier(coll) {
            return Err(Key::of(coll, from).into());
        }
        if self.waiting.moves_objects(coll) {
            return Err(Key::of(coll, &mark()).into());
        }
        let Some(listing) = self.waiting.listing(coll) else {
            return self.list_applied(coll, from, &HObject::max(), count_max);
        };
        let Listing { objects, hides_rest } = &listing;
        let wanted = count_max.saturating_add(objects.len());
        let applied = match hides_rest {
            true => Vec::new(),
            false => self.list_applied(coll, from, &HObject::max(), wanted)?,
        };
        let end = applied.last().filter(|_| applied.len() == wanted).cloned();
        let coming = objects.iter().filter(|(object, is_there)| {
            **is_there && **object >= from && end.as_ref().is_none_or(|end| **object <= end)
        });
        let mut out: Vec<HObject> = coming.map(|(object, _)| (*object).clone()).collect();
        out.extend(applied.iter().filter(|object| listing.keeps(object)).cloned());
        out.sort_unstable();
        out.truncate(count_max);
        Ok(out)
    }

    /// Objects of a collection in `[from, to)`, without regard to transactions that are not applied yet.
    pub(super) fn list_applied(
        &self,
        coll: CollId,
        from: &HObject,
        to: &HObject,
        count_max: usize,
    ) -> Result<Vec<HObject>, NotCached> {
        if from >= to {
            return Ok(Vec::new());
        }
        let onodes = self.index.colls.get(&coll).into_iter();
        let found = onodes.flat_map(|objects| objects.onodes.range(from..to)).take(count_max);
        let mut found: Vec<HObject> = found.map(|(object, _)| object.clone()).collect();
        if self.index.directory.is_whole() {
            return Ok(found);
        }
        let start = Key::of(coll, from);
        let packed = self.index.directory.packed_from(&start).map(|raw| raw.key());
        let packed = packed.take_while(|key| key.coll == coll && key.object < *to);
        let packed = packed.filter(|key| key.omap.is_none());
        found.extend(packed.take(count_max).map(|key| key.object.detached()));
        found.sort_unstable();
        found.truncate(count_max);
        let last = found.last().filter(|_| found.len() == count_max).unwrap_or(to);
        let is_within = |first: &Key| first.coll == coll && first.object <= *last && first.object < *to;
        let absent = self.index.absent_listing(&start, is_within).next();
        absent.map_or(Ok(found), |key| Err(key.into()))
    }
}
