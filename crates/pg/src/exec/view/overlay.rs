//! What ops and class methods see and change: the stored state under the changes made so far.

use std::{collections::BTreeMap, ops::Bound};

use bytes::Bytes;
use classes::{CallContext, ObjectStat, ObjectView, Stop};
use codec::Payload;
use store::{NotCached, OmapMost};
use types::{EntityAddr, EntityNum, Errno, Mutation, SnapId};

use super::{ENTRY_BYTES, OUTPUT_BYTES_MAX, PIECE_LOOK_BYTES, Piece, View, omap::Omap};
use crate::exec::{Blocked, object_info::USER_XATTR};

/// `osd_max_attr_name_len`, of what clients and class methods set.
const XATTR_NAME_BYTES_MAX: usize = 100;
/// Of what clients and class methods set. The store keeps some of them in memory, and whole where they begin alike.
const OMAP_KEY_BYTES_MAX: usize = 64 << 10;
/// Entries that are read at once behind some that do not count any more.
const OMAP_PAGE: usize = 256;
/// Entries that are listed at once where bytes count.
const OMAP_STEP: usize = 64;
/// Bytes that a list of stored entries has before it ends.
const LIST_BYTES: usize = 1 << 20;

fn user_name(name: &[u8]) -> Bytes {
    Bytes::from([&[USER_XATTR], name].concat())
}

/// Where the entries with a prefix behind a key begin: with the prefix itself, where that lies behind the key.
fn begin_of<'a>(after: &'a [u8], prefix: &'a [u8]) -> Bound<&'a [u8]> {
    if prefix > after { Bound::Included(prefix) } else { Bound::Excluded(after) }
}

impl View<'_> {
    /// As `read`, in the pieces in which memory has the data.
    pub(in crate::exec) fn read_pieces(&mut self, offset: u64, len: u64) -> Result<Vec<Payload>, Stop> {
        let end = offset.saturating_add(len).min(self.size);
        if offset >= end {
            return Ok(Vec::new());
        }
        self.spend(end - offset)?;
        self.bring_chunks(offset, end)?;
        let base_end = end.min(self.base_bytes);
        let mut below = Vec::new();
        if let Some(base) = self.base.clone()
            && offset < base_end
        {
            let result = self.store.read_pieces(self.coll, &base, offset, base_end - offset);
            below = self.need(result)?;
        }
        if self.pieces.is_empty() {
            let there: u64 = below.iter().map(|piece| piece.len() as u64).sum();
            below.extend(Payload::zeros(end - offset - there));
            return Ok(below);
        }
        self.spend(PIECE_LOOK_BYTES * self.pieces.len() as u64)?;
        let mut out = vec![0u8; (end - offset) as usize];
        let below = Payload::joined(below);
        out[..below.len()].copy_from_slice(&below);
        for piece in &self.pieces {
            let (at, bytes) = match piece {
                Piece::Data(at, data) => (*at, data.len() as u64),
                Piece::Zero(at, len) => (*at, *len),
            };
            let (from, to) = (at.max(offset), (at + bytes).min(end));
            if from < to {
                let target = &mut out[(from - offset) as usize..(to - offset) as usize];
                match piece {
                    Piece::Data(at, data) => {
                        target.copy_from_slice(&data[(from - at) as usize..(to - at) as usize]);
                    }
                    Piece::Zero(..) => target.fill(0),
                }
            }
        }
        Ok(vec![Bytes::from(out).into()])
    }

    /// Sets an xattr that an object has had, whatever its name.
    pub(in crate::exec) fn put_xattr(&mut self, name: &[u8], value: Bytes) {
        self.make_exist();
        let name = user_name(name);
        self.xattrs.insert(name.clone(), Some(value.clone()));
        self.mutations.push(Mutation::SetXattrs([(name, value)].into()));
    }

    /// Sets omap entries.
    pub(super) fn put_omap(&mut self, entries: BTreeMap<Bytes, Bytes>) {
        self.make_exist();
        self.omap.set(&entries);
        self.mutations.push(Mutation::OmapSet(entries.into()));
    }

    /// Sets the omap header.
    pub(super) fn put_omap_header(&mut self, header: Bytes) {
        self.make_exist();
        self.omap_head = Some(header.clone());
        self.mutations.push(Mutation::OmapSetHeader(header));
    }

    /// Up to `wanted` stored omap entries with a prefix, from a place on, that the request has left alone, in order,
    /// and whether they are all. Fewer come if they have [`LIST_BYTES`], but not one fewer: who asks for one more than
    /// it lists learns whether there is one. What the request removed is not read, or passed over in bounded steps.
    fn stored_omap(
        &mut self,
        from: Bound<&[u8]>,
        prefix: &[u8],
        wanted: usize,
    ) -> Result<(Vec<(Bytes, Bytes)>, bool), Stop> {
        let (mut out, mut bytes) = (Vec::new(), 0);
        let Some(base) = self.base.clone().filter(|_| !self.omap.is_new()) else { return Ok((out, true)) };
        let (mut from, mut count) = (from.map(Bytes::copy_from_slice), wanted);
        loop {
            from = self.omap.past_removed(from);
            let most = OmapMost::of(count);
            let result = self.store.omap_range(self.coll, &base, from.as_ref().map(|key| &key[..]), most);
            let page = self.need(result)?;
            // Of those behind the prefix, the first one tells.
            let looks = page.iter().take_while(|(key, _)| key.starts_with(prefix)).count() + 1;
            self.spend_looks(looks)?;
            let is_last = !most.is_met_by(&page);
            for (key, value) in page {
                if !key.starts_with(prefix) {
                    return Ok((out, true));
                }
                from = Bound::Excluded(key.clone());
                if self.omap.known(&key).is_none() {
                    bytes += key.len() + value.len();
                    out.push((key, value));
                }
            }
            if is_last || out.len() >= wanted || (bytes >= LIST_BYTES && out.len() + 1 < wanted) {
                return Ok((out, is_last));
            }
            count = (wanted - out.len()).max(OMAP_PAGE);
        }
    }

    /// Up to `count_max` entries with a prefix behind a key, in order, and whether there may be more. Fewer come if
    /// they are large. Counts the entries that it looks at, those that the request removed included.
    pub(in crate::exec) fn omap_page(
        &mut self,
        after: &[u8],
        prefix: &[u8],
        count_max: usize,
    ) -> Result<(Vec<(Bytes, Bytes)>, bool), Stop> {
        let from = begin_of(after, prefix);
        let wanted = count_max.saturating_add(1);
        let (stored, is_whole) = self.stored_omap(from, prefix, wanted)?;
        let is_cut = !is_whole && stored.len() < wanted;
        let mut all: BTreeMap<Bytes, Bytes> = stored.into_iter().collect();
        // Behind the last stored entry of a list that is as long as it may be, changes do not matter.
        let is_full = is_cut || all.len() >= wanted;
        let end = all.last_key_value().filter(|_| is_full).map(|(key, _)| key.clone());
        let is_within = |key: &Bytes| key.starts_with(prefix) && end.as_ref().is_none_or(|end| key <= end);
        let (mut looks, mut set_count) = (0, 0);
        for (key, value) in self.omap.changes_from(from).take_while(|(key, _)| is_within(key)) {
            looks += 1;
            if let Some(value) = value {
                all.insert(key.clone(), value.clone());
                set_count += 1;
            }
            if set_count == wanted {
                break;
            }
        }
        self.spend_looks(looks)?;
        let mut out: Vec<(Bytes, Bytes)> = all.into_iter().take(wanted).collect();
        let has_more = is_cut || out.len() > count_max;
        out.truncate(count_max);
        Ok((out, has_more))
    }

    /// The value at a key.
    fn omap_at(&self, key: &[u8]) -> Result<Option<Bytes>, NotCached> {
        match (self.omap.known(key), self.base.as_ref()) {
            (Some(known), _) => Ok(known),
            (None, Some(base)) => self.store.omap_get(self.coll, base, key),
            (None, None) => Ok(None),
        }
    }

    /// The values at these keys, in their order. Of what is not at hand, as much is loaded at once as may be: the
    /// request runs anew each time.
    pub(in crate::exec) fn omap_get_all<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k Bytes>,
    ) -> Result<Vec<Option<Bytes>>, Stop> {
        let (mut found, mut lacking) = (Vec::new(), Vec::new());
        for key in keys {
            match self.omap_at(key) {
                Ok(value) if lacking.is_empty() => {
                    self.spend_looks(1)?;
                    self.spend(value.as_ref().map_or(0, Bytes::len) as u64)?;
                    found.push(value);
                }
                Ok(_) => {}
                Err(missing) => lacking.push(missing),
            }
            if lacking.len() >= self.loads_most {
                break;
            }
        }
        if lacking.is_empty() {
            return Ok(found);
        }
        self.missing = Some(Blocked::NotCached(lacking));
        Err(Stop::Missing)
    }

    /// As `omap_page`, and stops behind the entry with which it has `bytes_max`.
    pub(in crate::exec) fn omap_list_within(
        &mut self,
        after: &[u8],
        prefix: &[u8],
        count_max: usize,
        bytes_max: usize,
    ) -> Result<(Vec<(Bytes, Bytes)>, bool), Stop> {
        let (mut out, mut bytes) = (Vec::new(), 0);
        let mut after = Bytes::copy_from_slice(after);
        loop {
            let (page, has_more) = self.omap_page(&after, prefix, OMAP_STEP.min(count_max - out.len()))?;
            for (key, value) in page {
                if bytes >= bytes_max {
                    return Ok((out, true));
                }
                bytes += key.len() + value.len();
                after = key.clone();
                out.push((key, value));
            }
            if !has_more || out.len() >= count_max {
                return Ok((out, has_more));
            }
        }
    }
}

impl ObjectView for View<'_> {
    fn context(&self) -> &CallContext {
        &self.call
    }

    fn snapset_seq(&self) -> Option<SnapId> {
        (self.exists || !self.snapset.clones.is_empty()).then_some(self.snapset.seq)
    }

    fn stat(&mut self) -> Result<Option<ObjectStat>, Stop> {
        Ok(self.exists.then_some(ObjectStat { size: self.size, mtime: self.info.mtime }))
    }

    fn read(&mut self, offset: u64, len: u64) -> Result<Bytes, Stop> {
        Ok(Payload::joined(self.read_pieces(offset, len)?).into_bytes())
    }

    fn xattr(&mut self, name: &[u8]) -> Result<Option<Bytes>, Stop> {
        let name = user_name(name);
        let value = match (self.xattrs.get(&name), self.base.as_ref().filter(|_| !self.are_xattrs_new)) {
            (Some(value), _) => value.clone(),
            (None, Some(base)) => {
                let result = self.store.xattr(self.coll, base, &name);
                self.need(result)?
            }
            (None, None) => None,
        };
        self.spend(value.as_ref().map_or(0, Bytes::len) as u64)?;
        Ok(value)
    }

    fn xattrs(&mut self) -> Result<BTreeMap<Bytes, Bytes>, Stop> {
        let mut all = BTreeMap::new();
        if let Some(base) = self.base.clone().filter(|_| !self.are_xattrs_new) {
            let result = self.store.xattrs(self.coll, &base);
            all.extend(self.need(result)?);
        }
        for (name, value) in &self.xattrs {
            match value {
                Some(value) => all.insert(name.clone(), value.clone()),
                None => all.remove(name),
            };
        }
        self.spend_looks(all.len())?;
        self.spend(all.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum())?;
        let users = all.into_iter().filter(|(name, _)| name.first() == Some(&USER_XATTR));
        Ok(users.map(|(name, value)| (name.slice(1..), value)).collect())
    }

    fn omap_header(&mut self) -> Result<Bytes, Stop> {
        let header = match (&self.omap_head, self.base.as_ref().filter(|_| !self.omap.is_new())) {
            (Some(header), _) => header.clone(),
            (None, Some(base)) => {
                let result = self.store.omap_header(self.coll, base);
                self.need(result)?
            }
            (None, None) => Bytes::new(),
        };
        self.spend(header.len() as u64)?;
        Ok(header)
    }

    fn omap_get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Stop> {
        let result = self.omap_at(key);
        let value = self.need(result)?;
        self.spend_looks(1)?;
        self.spend(value.as_ref().map_or(0, Bytes::len) as u64)?;
        Ok(value)
    }

    fn watchers(&self) -> Vec<(EntityNum, EntityAddr)> {
        let watchers = self.info.watchers.iter();
        watchers.map(|((gid, _), info)| (EntityNum::client(*gid), info.addr)).collect()
    }

    fn chunk_references(&mut self, oid: &[u8]) -> Result<i32, Stop> {
        self.count_references(oid)
    }

    fn set_result(&mut self, result: i32) {
        self.method_result = result;
    }

    /// Counts the bytes of what it lists, too: a method holds all of it, which may be much more than what it answers.
    fn omap_list(
        &mut self,
        after: &[u8],
        prefix: &[u8],
        count_max: usize,
    ) -> Result<(Vec<(Bytes, Bytes)>, bool), Stop> {
        let mut out: Vec<(Bytes, Bytes)> = Vec::new();
        loop {
            let after = out.last().map_or(after, |(last, _)| last);
            let (page, has_more) = self.omap_page(after, prefix, OMAP_STEP.min(count_max - out.len()))?;
            self.spend(page.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum())?;
            out.extend(page);
            if !has_more || out.len() >= count_max {
                return Ok((out, has_more));
            }
        }
    }

    /// Counts what it brings, too: that stays in memory until the request ends, whatever of it the method looks at. If
    /// that is too much, nothing more is brought.
    fn omap_bring(&mut self, after: &[u8], prefix: &[u8], count_max: u64) -> Result<(), Stop> {
        let Some(base) = self.base.as_ref().filter(|_| !self.omap.is_new()) else { return Ok(()) };
        // The first page may have nothing but entries before, and each of the others has an entry at least.
        let pages_max = usize::try_from(count_max.saturating_add(1)).unwrap_or(usize::MAX);
        let left = OUTPUT_BYTES_MAX.saturating_sub(self.output_bytes);
        let from = begin_of(after, prefix);
        let result = self.store.omap_bytes(self.coll, base, from, prefix, pages_max, left);
        let bytes = self.need(result)?;
        self.spend(bytes)
    }

    fn create(&mut self, exclusive: bool) -> Result<(), Stop> {
        if self.exists && exclusive {
            return Err(Errno::EEXIST.into());
        }
        self.make_exist();
        self.touch();
        Ok(())
    }

    fn write(&mut self, offset: u64, data: Bytes) -> Result<(), Stop> {
        self.put(offset, data.into())
    }

    fn write_full(&mut self, data: Bytes) -> Result<(), Stop> {
        self.put_full(data.into())
    }

    fn truncate(&mut self, size: u64) -> Result<(), Stop> {
        self.check_range(size, 0)?;
        self.charge(0)?;
        self.make_exist();
        self.cut(size)
    }

    fn zero(&mut self, offset: u64, len: u64) -> Result<(), Stop> {
        self.check_range(offset, len)?;
        if !self.exists || len == 0 || offset >= self.size {
            return Ok(());
        }
        self.charge(0)?;
        if offset + len >= self.size {
            // Zeros at the end are cut off, as Ceph does.
            return self.cut(offset);
        }
        self.own(offset, len)?;
        self.changed.insert(offset, len);
        self.pieces.push(Piece::Zero(offset, len));
        self.mutations.push(Mutation::Zero { offset, len });
        Ok(())
    }

    fn remove(&mut self) -> Result<(), Stop> {
        self.check_exists()?;
        self.changed.insert(0, self.size);
        self.exists = false;
        self.base = None;
        (self.size, self.base_bytes) = (0, 0);
        self.pieces.clear();
        self.xattrs.clear();
        (self.are_xattrs_new, self.omap) = (true, Omap::new(true));
        self.omap_head = None;
        self.disconnected.extend(std::mem::take(&mut self.info.watchers).into_keys());
        self.forget_manifest();
        self.mutations = vec![Mutation::Remove];
        Ok(())
    }

    fn set_xattr(&mut self, name: &[u8], value: Bytes) -> Result<(), Stop> {
        if name.len() > XATTR_NAME_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        self.charge(name.len() + value.len())?;
        self.put_xattr(name, value);
        Ok(())
    }

    fn remove_xattr(&mut self, name: &[u8]) -> Result<(), Stop> {
        self.check_exists()?;
        self.charge(0)?;
        let name = user_name(name);
        self.xattrs.insert(name.clone(), None);
        self.mutations.push(Mutation::RemoveXattr(name));
        Ok(())
    }

    fn omap_set(&mut self, entries: BTreeMap<Bytes, Bytes>) -> Result<(), Stop> {
        if entries.keys().any(|key| key.len() > OMAP_KEY_BYTES_MAX) {
            return Err(Errno::ENAMETOOLONG.into());
        }
        let taken = |(key, value): (&Bytes, &Bytes)| key.len() + value.len() + ENTRY_BYTES as usize;
        self.charge(entries.iter().map(taken).sum())?;
        self.put_omap(entries);
        Ok(())
    }

    fn omap_remove(&mut self, keys: Vec<Bytes>) -> Result<(), Stop> {
        self.check_exists()?;
        self.charge(keys.iter().map(|key| key.len() + ENTRY_BYTES as usize).sum())?;
        self.omap.remove(&keys);
        self.mutations.push(Mutation::OmapRemove(keys));
        Ok(())
    }

    fn omap_remove_range(&mut self, first: &Bytes, last: &Bytes) -> Result<(), Stop> {
        self.check_exists()?;
        if first >= last {
            self.touch();
            return Ok(());
        }
        self.charge(0)?;
        self.omap.remove_range(first, last);
        self.mutations.push(Mutation::OmapRemoveRange { first: first.clone(), last: last.clone() });
        Ok(())
    }

    fn omap_clear(&mut self) -> Result<(), Stop> {
        self.check_exists()?;
        if self.omap_header()?.is_empty()
            && self.omap_page(b"", b"", 1)?.0.is_empty()
            && self.omap_get(b"")?.is_none()
        {
            return Ok(());
        }
        self.omap = Omap::new(true);
        self.omap_head = Some(Bytes::new());
        self.mutations.push(Mutation::OmapClear);
        Ok(())
    }

    fn omap_set_header(&mut self, header: Bytes) -> Result<(), Stop> {
        self.charge(header.len())?;
        self.put_omap_header(header);
        Ok(())
    }
}
