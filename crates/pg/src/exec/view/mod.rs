//! One object as the ops of one request see it: what is stored, overlaid with what they changed.

use std::{collections::BTreeMap, ops::Bound};

use bytes::Bytes;
use classes::{CallContext, ObjectStat, ObjectView, Stop};
use codec::{Decode, Encode, Features};
use store::ObjectStore;
use types::{
    CollId, Errno, HObject, IntervalSet, LogEntry, Mutation, SnapContext, SnapId, Transaction, UTime,
};

use super::{
    Blocked, Delta, OBJECT_BYTES_MAX, OpContext, Staged,
    object_info::{CloneInfo, INFO_XATTR, ObjectInfo, SNAPSET_XATTR, SnapSet, USER_XATTR},
};

/// Changed data, in the order of the changes.
#[derive(Clone, Debug)]
enum Piece {
    Data(u64, Bytes),
    Zero(u64, u64),
}

/// See the module's page.
pub(super) struct View<'a> {
    store: &'a dyn ObjectStore,
    coll: CollId,
    /// The object that is changed.
    head: HObject,
    /// Where unchanged parts are read from: the head, or the clone that a snapshot read addresses, or
    /// the clone that the head was rolled back to.
    base: Option<HObject>,
    is_head: bool,
    call: CallContext,
    pub(super) info: ObjectInfo,
    pub(super) snapset: SnapSet,
    exists: bool,
    existed: bool,
    old_bytes: u64,
    size: u64,
    /// Below this, bytes of the base are still good.
    base_bytes: u64,
    pieces: Vec<Piece>,
    xattrs: BTreeMap<Bytes, Option<Bytes>>,
    are_xattrs_new: bool,
    omap: BTreeMap<Bytes, Option<Bytes>>,
    is_omap_new: bool,
    omap_head: Option<Bytes>,
    /// Ranges that differ from the newest clone now.
    changed: IntervalSet,
    mutations: Vec<Mutation>,
    /// Watchers changed, and nothing that users see.
    pub(super) is_info_changed: bool,
    missing: Option<store::Missing>,
}

fn decode_xattr<T: Decode>(bytes: Option<Bytes>) -> Result<Option<T>, Blocked> {
    bytes.map(T::from_bytes).transpose().map_err(|_| Blocked::Refused(Errno::EIO))
}

impl<'a> View<'a> {
    /// Opens `head` at `snapid`; the object need not exist.
    pub(super) fn open(
        store: &'a dyn ObjectStore,
        coll: CollId,
        head: HObject,
        snapid: SnapId,
        mut call: CallContext,
    ) -> Result<View<'a>, Blocked> {
        let miss = Blocked::Missing;
        let mut info = decode_xattr(store.xattr(coll, &head, INFO_XATTR).map_err(miss)?)?;
        let snapset: SnapSet =
            decode_xattr(store.xattr(coll, &head, SNAPSET_XATTR).map_err(miss)?)?.unwrap_or_default();
        let mut base = Some(head.clone());
        let is_head = matches!(snapid, SnapId::HEAD | SnapId::DIR);
        let is_gone = info.as_ref().is_none_or(|i: &ObjectInfo| i.is_whiteout);
        if !is_head && snapid <= snapset.seq {
            base = snapset.clone_of(snapid).map(|clone| head.with_snap(clone));
            info = match &base {
                Some(clone) => decode_xattr(store.xattr(coll, clone, INFO_XATTR).map_err(miss)?)?,
                None => None,
            };
        } else if is_gone {
            base = None;
        }
        let meta = match &base {
            Some(base) => store.meta(coll, base).map_err(miss)?,
            None => None,
        };
        let exists = meta.is_some();
        let size = meta.map_or(0, |m| m.size);
        let info = info.unwrap_or_default();
        call.snapset_seq = snapset.seq;
        call.current_version = info.user_version;
        Ok(View {
            store,
            coll,
            head,
            base: base.filter(|_| exists),
            is_head,
            call,
            info,
            snapset,
            exists,
            existed: exists,
            old_bytes: size,
            size,
            base_bytes: size,
            pieces: Vec::new(),
            xattrs: BTreeMap::new(),
            are_xattrs_new: !exists,
            omap: BTreeMap::new(),
            is_omap_new: !exists,
            omap_head: None,
            changed: IntervalSet::new(),
            mutations: Vec::new(),
            is_info_changed: false,
            missing: None,
        })
    }

    pub(super) fn is_head(&self) -> bool {
        self.is_head
    }

    pub(super) fn exists(&self) -> bool {
        self.exists
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn user_version(&self) -> u64 {
        self.info.user_version
    }

    pub(super) fn snapset_seq(&self) -> SnapId {
        self.snapset.seq
    }

    pub(super) fn set_subop(&mut self, index: u32) {
        self.call.subop = index;
    }

    pub(super) fn is_changed(&self) -> bool {
        !self.mutations.is_empty() || self.is_info_changed || self.exists != self.existed
    }

    /// What a read said to be missing.
    pub(super) fn take_missing(&mut self) -> Blocked {
        self.missing.take().map_or(Blocked::Refused(Errno::EIO), Blocked::Missing)
    }

    fn need<T>(&mut self, result: Result<T, store::Missing>) -> Result<T, Stop> {
        result.map_err(|missing| {
            self.missing = Some(missing);
            Stop::Missing
        })
    }

    /// ENOENT unless the object exists.
    pub(super) fn check_exists(&self) -> Result<(), Stop> {
        if self.exists { Ok(()) } else { Err(Errno::ENOENT.into()) }
    }

    fn make_exist(&mut self) {
        if !self.exists {
            self.exists = true;
            self.mutations.push(Mutation::Touch);
        }
    }

    fn check_range(&self, offset: u64, len: u64) -> Result<(), Stop> {
        match offset.checked_add(len) {
            Some(end) if end <= OBJECT_BYTES_MAX => Ok(()),
            _ => Err(Errno::EFBIG.into()),
        }
    }

    /// Ranges with data, for sparse reads.
    pub(super) fn extents(&mut self, offset: u64, len: u64) -> Result<Vec<(u64, u64)>, Stop> {
        let end = offset.saturating_add(len).min(self.size);
        if offset >= end {
            return Ok(Vec::new());
        }
        if !self.pieces.is_empty() {
            return Ok(vec![(offset, end - offset)]);
        }
        match self.base.clone() {
            Some(base) => {
                let result = self.store.extents(self.coll, &base, offset, end - offset);
                self.need(result)
            }
            None => Ok(Vec::new()),
        }
    }

    /// Makes the head what `clone` is.
    pub(super) fn roll_back_to(&mut self, clone: SnapId) -> Result<(), Stop> {
        let source = self.head.with_snap(clone);
        let result = self.store.meta(self.coll, &source);
        let size = self.need(result)?.ok_or(Errno::ENOENT)?.size;
        self.changed.insert(0, self.size.max(size).max(1));
        self.mutations.clear();
        self.mutations.push(Mutation::CloneFrom { source: source.clone() });
        self.base = Some(source);
        (self.size, self.base_bytes, self.exists) = (size, size, true);
        self.pieces.clear();
        self.xattrs.clear();
        self.omap.clear();
        self.omap_head = None;
        (self.are_xattrs_new, self.is_omap_new) = (false, false);
        Ok(())
    }

    /// Removes omap keys in `[first, last)`.
    pub(super) fn omap_remove_range(&mut self, first: &Bytes, last: &Bytes) -> Result<(), Stop> {
        self.check_exists()?;
        let mut keys = Vec::new();
        if !self.is_omap_new
            && let Some(base) = self.base.clone()
        {
            let result = self.store.omap_range(self.coll, &base, Bound::Included(first), usize::MAX);
            keys = self.need(result)?.into_iter().map(|(k, _)| k).take_while(|k| k < last).collect();
        }
        keys.extend(self.omap.range(first.clone()..last.clone()).map(|(k, _)| k.clone()));
        keys.iter().for_each(|key| {
            self.omap.insert(key.clone(), None);
        });
        self.mutations.push(Mutation::OmapRemoveRange { first: first.clone(), last: last.clone() });
        Ok(())
    }

    /// Turns what was changed into a transaction with its log entries; clones first, where a snapshot
    /// needs the old state (`make_writeable`). The reply's user version comes with it.
    pub(super) fn stage(
        mut self,
        cx: &OpContext,
        snapc: &SnapContext,
        mtime: UTime,
        result: i32,
    ) -> Result<(Staged, u64), Blocked> {
        let mut txn = Transaction::new(self.coll);
        let mut log = Vec::new();
        let mut delta = Delta::default();
        let mut at = cx.next_version;
        let is_user_change = !self.mutations.is_empty() || self.exists != self.existed;
        if is_user_change && snapc.seq > self.snapset.seq {
            let snaps: Vec<SnapId> = snapc.snaps.iter().copied().filter(|s| *s > self.snapset.seq).collect();
            if self.existed && !snaps.is_empty() {
                self.clone_head(snapc.seq, snaps, &mut txn, &mut log, &mut delta, at, mtime);
                at.version += 1;
            }
            self.snapset.seq = snapc.seq;
        }
        if let Some(newest) = self.snapset.clones.last_mut() {
            newest.overlap.subtract(&self.changed);
        }
        let prior_version = self.info.version;
        let is_gone = !self.exists && self.snapset.clones.is_empty();
        if is_user_change {
            self.info.user_version = at.version;
            self.info.mtime = mtime;
        }
        let user_version = self.info.user_version;
        if self.exists || !is_gone {
            // A head without an object stays as a mark that its clones belong to.
            if !self.exists {
                self.mutations = vec![Mutation::Remove, Mutation::Touch];
                self.info.watchers.clear();
            }
            self.info.is_whiteout = !self.exists;
            self.info.prior_version = prior_version;
            self.info.version = at;
            for mutation in std::mem::take(&mut self.mutations) {
                txn.push(&self.head, mutation);
            }
            let f = Features::default();
            let system = [(INFO_XATTR, self.info.to_bytes(f)), (SNAPSET_XATTR, self.snapset.to_bytes(f))];
            let system = system.map(|(name, value)| (Bytes::from_static(name), value));
            txn.push(&self.head, Mutation::SetXattrs(system.into()));
        } else {
            txn.push(&self.head, Mutation::Remove);
        }
        delta.objects += i64::from(self.exists) - i64::from(self.existed);
        delta.bytes += self.size as i64 - self.old_bytes as i64;
        log.push(LogEntry {
            version: at,
            object: self.head.clone(),
            prior_version,
            is_delete: is_gone,
            reqid: cx.reqid,
            user_version,
            result,
            mtime,
        });
        Ok((Staged { txn, log, delta }, user_version))
    }

    #[allow(clippy::too_many_arguments, reason = "a part of stage, with its outputs")]
    fn clone_head(
        &mut self,
        id: SnapId,
        snaps: Vec<SnapId>,
        txn: &mut Transaction,
        log: &mut Vec<LogEntry>,
        delta: &mut Delta,
        at: types::EVersion,
        mtime: UTime,
    ) {
        let clone = self.head.with_snap(id);
        let info = ObjectInfo {
            version: at,
            prior_version: self.info.version,
            watchers: BTreeMap::new(),
            ..self.info.clone()
        };
        txn.push(&clone, Mutation::CloneFrom { source: self.head.clone() });
        txn.push(&clone, Mutation::RemoveXattr(Bytes::from_static(SNAPSET_XATTR)));
        let info_entry = (Bytes::from_static(INFO_XATTR), info.to_bytes(Features::default()));
        txn.push(&clone, Mutation::SetXattrs([info_entry].into()));
        let mut overlap = IntervalSet::new();
        overlap.insert(0, self.old_bytes);
        self.snapset.clones.push(CloneInfo { id, snaps, size: self.old_bytes, overlap });
        delta.objects += 1;
        delta.clones += 1;
        delta.bytes += self.old_bytes as i64;
        log.push(LogEntry {
            version: at,
            object: clone,
            user_version: info.user_version,
            mtime,
            ..LogEntry::default()
        });
    }
}

impl SnapSet {
    /// The clone that serves a snapshot at or below `seq`; none if the object did not exist then.
    pub(super) fn clone_of(&self, snap: SnapId) -> Option<SnapId> {
        let clone = self.clones.iter().find(|c| c.id >= snap)?;
        clone.snaps.contains(&snap).then_some(clone.id)
    }
}

fn user_name(name: &[u8]) -> Bytes {
    Bytes::from([&[USER_XATTR], name].concat())
}

impl ObjectView for View<'_> {
    fn context(&self) -> &CallContext {
        &self.call
    }

    fn stat(&mut self) -> Result<Option<ObjectStat>, Stop> {
        Ok(self.exists.then_some(ObjectStat { size: self.size, mtime: self.info.mtime }))
    }

    fn read(&mut self, offset: u64, len: u64) -> Result<Bytes, Stop> {
        let end = offset.saturating_add(len).min(self.size);
        if offset >= end {
            return Ok(Bytes::new());
        }
        let base_end = end.min(self.base_bytes);
        let mut below = Bytes::new();
        if let Some(base) = self.base.clone()
            && offset < base_end
        {
            let result = self.store.read(self.coll, &base, offset, base_end - offset);
            below = self.need(result)?;
        }
        if self.pieces.is_empty() && below.len() as u64 == end - offset {
            return Ok(below);
        }
        let mut out = vec![0u8; (end - offset) as usize];
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
        Ok(Bytes::from(out))
    }

    fn xattr(&mut self, name: &[u8]) -> Result<Option<Bytes>, Stop> {
        let name = user_name(name);
        if let Some(value) = self.xattrs.get(&name) {
            return Ok(value.clone());
        }
        match self.base.clone().filter(|_| !self.are_xattrs_new) {
            Some(base) => {
                let result = self.store.xattr(self.coll, &base, &name);
                self.need(result)
            }
            None => Ok(None),
        }
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
        let users = all.into_iter().filter(|(name, _)| name.first() == Some(&USER_XATTR));
        Ok(users.map(|(name, value)| (name.slice(1..), value)).collect())
    }

    fn omap_header(&mut self) -> Result<Bytes, Stop> {
        if let Some(header) = &self.omap_head {
            return Ok(header.clone());
        }
        match self.base.clone().filter(|_| !self.is_omap_new) {
            Some(base) => {
                let result = self.store.omap_header(self.coll, &base);
                self.need(result)
            }
            None => Ok(Bytes::new()),
        }
    }

    fn omap_get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Stop> {
        if let Some(value) = self.omap.get(key) {
            return Ok(value.clone());
        }
        match self.base.clone().filter(|_| !self.is_omap_new) {
            Some(base) => {
                let result = self.store.omap_get(self.coll, &base, key);
                self.need(result)
            }
            None => Ok(None),
        }
    }

    fn omap_list(
        &mut self,
        after: &[u8],
        prefix: &[u8],
        count_max: usize,
    ) -> Result<(Vec<(Bytes, Bytes)>, bool), Stop> {
        // From the prefix itself on, where that lies behind `after`.
        let from = if prefix > after { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let wanted = count_max.saturating_add(1);
        let removed = self.omap.values().filter(|v| v.is_none()).count();
        let mut all: BTreeMap<Bytes, Bytes> = BTreeMap::new();
        if let Some(base) = self.base.clone().filter(|_| !self.is_omap_new) {
            let result = self.store.omap_range(self.coll, &base, from, wanted.saturating_add(removed));
            all.extend(self.need(result)?);
        }
        let overlay = self.omap.range::<[u8], _>((from, Bound::Unbounded));
        for (key, value) in overlay {
            match value {
                Some(value) => all.insert(key.clone(), value.clone()),
                None => all.remove(key),
            };
        }
        let mut out: Vec<(Bytes, Bytes)> =
            all.into_iter().take_while(|(k, _)| k.starts_with(prefix)).take(wanted).collect();
        let has_more = out.len() > count_max;
        out.truncate(count_max);
        Ok((out, has_more))
    }

    fn create(&mut self, exclusive: bool) -> Result<(), Stop> {
        if self.exists && exclusive {
            return Err(Errno::EEXIST.into());
        }
        self.make_exist();
        Ok(())
    }

    fn write(&mut self, offset: u64, data: Bytes) -> Result<(), Stop> {
        self.check_range(offset, data.len() as u64)?;
        self.make_exist();
        if data.is_empty() {
            return Ok(());
        }
        self.changed.insert(offset, data.len() as u64);
        self.size = self.size.max(offset + data.len() as u64);
        self.pieces.push(Piece::Data(offset, data.clone()));
        self.mutations.push(Mutation::Write { offset, data });
        Ok(())
    }

    fn write_full(&mut self, data: Bytes) -> Result<(), Stop> {
        self.check_range(0, data.len() as u64)?;
        let size = data.len() as u64;
        self.make_exist();
        if size < self.size {
            self.truncate(size)?;
        }
        self.write(0, data)
    }

    fn truncate(&mut self, size: u64) -> Result<(), Stop> {
        self.check_range(size, 0)?;
        self.make_exist();
        if size < self.size {
            self.changed.insert(size, self.size - size);
            self.base_bytes = self.base_bytes.min(size);
            // Pieces beyond must not come back when the object grows again.
            self.pieces.push(Piece::Zero(size, self.size - size));
        }
        self.size = size;
        self.mutations.push(Mutation::Truncate { size });
        Ok(())
    }

    fn zero(&mut self, offset: u64, len: u64) -> Result<(), Stop> {
        let end = offset.saturating_add(len).min(self.size);
        if !self.exists || offset >= end {
            return Ok(());
        }
        let len = end - offset;
        self.changed.insert(offset, len);
        self.pieces.push(Piece::Zero(offset, len));
        self.mutations.push(Mutation::Zero { offset, len });
        Ok(())
    }

    fn remove(&mut self) -> Result<(), Stop> {
        self.check_exists()?;
        self.changed.insert(0, self.size.max(1));
        self.exists = false;
        self.base = None;
        (self.size, self.base_bytes) = (0, 0);
        self.pieces.clear();
        self.xattrs.clear();
        self.omap.clear();
        self.omap_head = None;
        (self.are_xattrs_new, self.is_omap_new) = (true, true);
        self.mutations = vec![Mutation::Remove];
        Ok(())
    }

    fn set_xattr(&mut self, name: &[u8], value: Bytes) -> Result<(), Stop> {
        self.make_exist();
        let name = user_name(name);
        self.xattrs.insert(name.clone(), Some(value.clone()));
        self.mutations.push(Mutation::SetXattrs([(name, value)].into()));
        Ok(())
    }

    fn remove_xattr(&mut self, name: &[u8]) -> Result<(), Stop> {
        self.check_exists()?;
        let name = user_name(name);
        self.xattrs.insert(name.clone(), None);
        self.mutations.push(Mutation::RemoveXattr(name));
        Ok(())
    }

    fn omap_set(&mut self, entries: BTreeMap<Bytes, Bytes>) -> Result<(), Stop> {
        self.make_exist();
        self.omap.extend(entries.iter().map(|(k, v)| (k.clone(), Some(v.clone()))));
        self.mutations.push(Mutation::OmapSet(entries));
        Ok(())
    }

    fn omap_remove(&mut self, keys: Vec<Bytes>) -> Result<(), Stop> {
        self.check_exists()?;
        self.omap.extend(keys.iter().map(|k| (k.clone(), None)));
        self.mutations.push(Mutation::OmapRemove(keys));
        Ok(())
    }

    fn omap_clear(&mut self) -> Result<(), Stop> {
        self.check_exists()?;
        self.omap.clear();
        self.is_omap_new = true;
        self.omap_head = Some(Bytes::new());
        self.mutations.push(Mutation::OmapClear);
        Ok(())
    }

    fn omap_set_header(&mut self, header: Bytes) -> Result<(), Stop> {
        self.make_exist();
        self.omap_head = Some(header.clone());
        self.mutations.push(Mutation::OmapSetHeader(header));
        Ok(())
    }
}
