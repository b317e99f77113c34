//! One object as the ops of one request see it: what is stored, overlaid with what they changed.

mod chunks;
mod omap;
mod overlay;
mod stage;

use std::collections::BTreeMap;

use bytes::Bytes;
use classes::{CallContext, ObjectView, Stop};
use codec::{Decode, Payload};
use messages::{MOSDOp, MPgCopyData, OsdOp};
use store::{ObjectMeta, ObjectStore};
use types::{Chunk, ChunkMap, CollId, Errno, HObject, IntervalSet, Mutation, SnapContext, SnapId};

use super::{
    Blocked, OBJECT_BYTES_MAX, OpContext,
    copy::{self, CopySource},
    object_info::{CloneInfo, INFO_XATTR, ObjectInfo, SNAPSET_XATTR, SnapSet},
};

use omap::Omap;
pub(super) use stage::Change;

/// What the ops of a request may stage, all together: as much as a change of one object, less room for what goes with
/// it in a message to another OSD. Ops can stage many times the data that they bring, by repeating it, or by rewriting
/// much for a few changed bytes, again and again.
const STAGED_BYTES_MAX: u64 = OBJECT_BYTES_MAX - (1 << 20);

/// What each change counts that an op or a class method stages, beside its bytes: about what keeps it in memory. It
/// matters for methods, which can make many small ones for a few bytes; a request's 65,535 ops use up an eighth of what
/// may be staged.
const CHANGE_BYTES: u64 = 256;

/// What an entry of the omap counts that is set or removed, beside its bytes: about what keeps it in memory, with its
/// place in the index. Entries may be as short as a byte.
const ENTRY_BYTES: u64 = 160;

/// More entries than one op may set, remove or look for: they would be in memory before any of them is counted.
const COUNT_MAX: u64 = STAGED_BYTES_MAX / ENTRY_BYTES;

/// What the ops of a request may read and answer, all together: the largest object some times over, which no client
/// asks for. Ops can ask for the same again and again.
const OUTPUT_BYTES_MAX: u64 = 4 * OBJECT_BYTES_MAX;

/// What an op counts, whatever it reads and answers: the largest number of ops, 65,535, uses up half of the budget.
const OP_BYTES: u64 = 4 << 10;

/// What looking at an entry of the omap, at an xattr or at a watcher counts, beside its bytes. It takes more time than
/// its bytes let expect, and memory while a method holds it. So a request looks at a million of them, which takes about
/// a second.
const LOOK_BYTES: u64 = 512;

/// What looking at a change that the request has made counts, when it reads the object's data.
const PIECE_LOOK_BYTES: u64 = 16;

/// What an object's snapshots and clones may take in its record ([`SnapSet::memory`]): that is read, and written, as a
/// whole. Enough for eight million snapshots, or four million pieces that clones share with the head.
const SNAPS_BYTES_MAX: u64 = 64 << 20;

/// What an object's xattrs, with their names, and the header of its omap take, all together: the store keeps them in
/// one piece, in memory whenever the object is used.
const ATTRIBUTES_BYTES_MAX: u64 = 64 << 20;

/// Changed data, in the order of the changes.
#[derive(Clone, Debug)]
enum Piece {
    Data(u64, Bytes),
    Zero(u64, u64),
}

/// One object as the ops of one request see it: what is stored, overlaid with what they changed.
pub(super) struct View<'a> {
    store: &'a dyn ObjectStore,
    coll: CollId,
    /// The object that is changed.
    head: HObject,
    /// Where unchanged parts are read from: the head, or the clone that a snapshot read addresses, or
    /// the clone that the head was rolled back to.
    base: Option<HObject>,
    call: CallContext,
    pub(super) info: ObjectInfo,
    /// As it was before the request.
    old_info: ObjectInfo,
    pub(super) snapset: SnapSet,
    /// As the head in the store has it.
    kept_snapset: Option<SnapSet>,
    exists: bool,
    existed: bool,
    old_bytes: u64,
    size: u64,
    /// Below this, bytes of the base are still good.
    base_bytes: u64,
    pieces: Vec<Piece>,
    xattrs: BTreeMap<Bytes, Option<Bytes>>,
    are_xattrs_new: bool,
    omap: Omap,
    omap_head: Option<Bytes>,
    /// Ranges that differ from the newest clone now.
    changed: IntervalSet,
    mutations: Vec<Mutation>,
    /// Data, xattrs, omap and changes that were staged so far, copies left out: a copy is one object and never
    /// repeated.
    staged_bytes: u64,
    /// Data, omap entries and xattrs that were read, chunks that were brought, and what was answered besides.
    output_bytes: u64,
    /// Something counts as a change, though the contents are the same.
    is_touched: bool,
    /// The mtime came with a copy: the client's clock does not count.
    has_copied_mtime: bool,
    /// Watchers that lost the object.
    disconnected: Vec<(u64, u64)>,
    /// Objects that this one does not refer to any more.
    given_back: Vec<HObject>,
    /// What it refers to since the request began, by its ops; each as often.
    taken: BTreeMap<HObject, i64>,
    /// What was copied for the request.
    copied: &'a BTreeMap<u32, Box<MPgCopyData>>,
    /// What the class method that runs answers besides its output.
    method_result: i32,
    /// How often the object was rolled back.
    rollbacks: u32,
    missing: Option<Blocked>,
    /// How many of the things that an op lacks are loaded at once.
    loads_most: usize,
}

fn decode_xattr<T: Decode>(bytes: Option<Bytes>) -> Result<Option<T>, Blocked> {
    bytes.map(T::from_bytes).transpose().map_err(|_| Blocked::Refused(Errno::EIO))
}

type HeadParts = (Option<ObjectMeta>, Option<ObjectInfo>, Option<SnapSet>);

/// What the store has of a head, besides contents.
fn look_at_head(store: &dyn ObjectStore, coll: CollId, head: &HObject) -> Result<HeadParts, Blocked> {
    let found = store.meta_with(coll, head, [INFO_XATTR, SNAPSET_XATTR]).map_err(Blocked::from)?;
    let Some((meta, [info, snapset])) = found else { return Ok((None, None, None)) };
    Ok((Some(meta), decode_xattr(info)?, decode_xattr(snapset)?))
}

impl<'a> View<'a> {
    /// Opens `head` at `snapid`; the object need not exist (`find_object_context`).
    pub(super) fn open(
        store: &'a dyn ObjectStore,
        ctx: &'a OpContext,
        head: HObject,
        snapid: SnapId,
        mut call: CallContext,
    ) -> Result<View<'a>, Blocked> {
        let (coll, miss) = (ctx.coll, Blocked::from);
        let (mut meta, mut info, kept_snapset) = look_at_head(store, coll, &head)?;
        let snapset = kept_snapset.clone().unwrap_or_default();
        let mut base = None;
        let is_head = matches!(snapid, SnapId::HEAD | SnapId::DIR);
        let is_gone = info.as_ref().is_none_or(|i: &ObjectInfo| i.is_whiteout);
        if !is_head && snapid <= snapset.seq {
            // Clones do not serve a removed snapshot any more. (The head does: readers at a removed snapshot that is
            // newer than the head's last change still see it.)
            let clone = snapset.clone_of(snapid).filter(|_| !ctx.removed_snaps.contains(snapid.0));
            base = clone.map(|clone| head.with_snap(clone));
            info = match &base {
                Some(clone) => decode_xattr(store.xattr(coll, clone, INFO_XATTR).map_err(miss)?)?,
                None => None,
            };
        } else if !is_gone {
            base = Some(head.clone());
        }
        match &base {
            Some(base) if base.is_head() => {}
            Some(base) => meta = store.meta(coll, base).map_err(miss)?,
            None => meta = None,
        }
        let exists = meta.is_some();
        let size = meta.map_or(0, |m| m.size);
        let info = info.unwrap_or_default();
        call.current_version = ctx.next_version.version.saturating_sub(1);
        Ok(View {
            store,
            coll,
            head,
            base: base.filter(|_| exists),
            call,
            old_info: info.clone(),
            info,
            snapset,
            kept_snapset,
            exists,
            existed: exists,
            old_bytes: size,
            size,
            base_bytes: size,
            pieces: Vec::new(),
            xattrs: BTreeMap::new(),
            are_xattrs_new: !exists,
            omap: Omap::new(!exists),
            omap_head: None,
            changed: IntervalSet::new(),
            mutations: Vec::new(),
            staged_bytes: 0,
            output_bytes: 0,
            is_touched: false,
            has_copied_mtime: false,
            disconnected: Vec::new(),
            given_back: Vec::new(),
            taken: BTreeMap::new(),
            copied: &ctx.copied,
            method_result: 0,
            rollbacks: 0,
            missing: None,
            loads_most: ctx.loads_most,
        })
    }

    pub(super) fn exists(&self) -> bool {
        self.exists
    }

    /// The clone that a snapshot's request goes to; none for the head.
    pub(super) fn clone_info(&self) -> Option<&CloneInfo> {
        let base = self.base.as_ref().filter(|_| self.rollbacks == 0)?;
        self.snapset.clones.iter().find(|clone| clone.id == base.snap)
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn user_version(&self) -> u64 {
        self.info.user_version
    }

    /// Begins the next op. A method may look at all watchers.
    pub(super) fn begin_op(&mut self, index: u32, is_call: bool) -> Result<(), Stop> {
        self.call.subop = index;
        self.spend(OP_BYTES)?;
        self.spend_looks(if is_call { self.info.watchers.len() } else { 0 })
    }

    pub(super) fn is_changed(&self) -> bool {
        !self.mutations.is_empty() || self.is_touched
    }

    /// Counts as a change of the object, whatever becomes of its contents.
    pub(super) fn touch(&mut self) {
        self.is_touched = true;
    }

    /// Watchers that lost the object since the last call.
    pub(super) fn take_disconnected(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.disconnected)
    }

    /// True for a head that is gone but for its clones.
    pub(super) fn is_whiteout(&self) -> bool {
        self.old_info.is_whiteout
    }

    /// Which op of the request runs.
    pub(super) fn subop(&self) -> u32 {
        self.call.subop
    }

    /// What a read, or a copy, said to be missing.
    pub(super) fn take_missing(&mut self) -> Blocked {
        self.missing.take().unwrap_or(Blocked::Refused(Errno::EIO))
    }

    /// True when the source of a copy is this object itself.
    pub(super) fn is_head_of(&self, source: &CopySource) -> bool {
        let (head, locator) = (&self.head, &source.locator);
        source.snap == SnapId::HEAD
            && (locator.pool, &locator.nspace, &locator.key) == (head.pool, &head.nspace, &head.key)
            && source.oid == head.oid
    }

    /// Stops for the contents of another object.
    pub(super) fn want_copy(&mut self, subop: u32, source: CopySource) -> Stop {
        self.missing = Some(Blocked::Copy { subop, source, part: None });
        Stop::Missing
    }

    /// Stops for the part of another object that a chunk refers to.
    fn want_chunk(&mut self, id: u32, chunk: &Chunk) -> Stop {
        let (source, part) = (CopySource::of(&chunk.target), Some((chunk.offset, chunk.length)));
        self.missing = Some(Blocked::Copy { subop: id, source, part });
        Stop::Missing
    }

    /// The object refers to nothing any more.
    pub(super) fn forget_manifest(&mut self) {
        self.given_back.extend(self.info.manifest.take().and_then(|manifest| manifest.counted()));
    }

    /// Objects that this one does not refer to any more, since the last call.
    pub(super) fn take_given_back(&mut self) -> Vec<HObject> {
        std::mem::take(&mut self.given_back)
    }

    /// Stops for another object's answer.
    pub(super) fn want_answer(&mut self, question: u32, target: HObject, step: OsdOp) -> Stop {
        self.missing = Some(Blocked::Ask { question, target, step: Box::new(step) });
        Stop::Missing
    }

    /// Stops, and has the whole request refused, whatever its ops may.
    pub(super) fn refuse(&mut self, errno: Errno) -> Stop {
        self.missing = Some(Blocked::Refused(errno));
        Stop::Missing
    }

    /// What the last class method answers besides its output, if it said so.
    pub(super) fn take_method_result(&mut self) -> i32 {
        std::mem::take(&mut self.method_result)
    }

    /// The object that is changed.
    pub(super) fn head(&self) -> &HObject {
        &self.head
    }

    /// Loses data and omap; xattrs, watchers and what is known of truncations stay.
    pub(super) fn become_empty(&mut self) -> Result<(), Stop> {
        let xattrs = self.xattrs()?;
        self.begin_anew();
        for (name, value) in xattrs {
            self.put_xattr(&name, value);
        }
        Ok(())
    }

    /// Exists, and has nothing.
    fn begin_anew(&mut self) {
        self.changed.insert(0, self.size);
        self.drop_chunks();
        self.base = None;
        (self.size, self.base_bytes, self.exists) = (0, 0, true);
        self.pieces.clear();
        self.xattrs.clear();
        (self.are_xattrs_new, self.omap) = (true, Omap::new(true));
        self.omap_head = None;
        self.mutations = vec![Mutation::Remove, Mutation::Touch];
    }

    /// Takes over another object's contents, and what is known of its changes; watchers stay.
    pub(super) fn become_copy(&mut self, copied: &MPgCopyData) -> Result<(), Stop> {
        self.begin_anew();
        for mutation in copy::mutations(copied) {
            match mutation.clone() {
                Mutation::Write { offset, data } => {
                    self.check_range(offset, data.len() as u64)?;
                    self.place(offset, data)?;
                }
                Mutation::Truncate { size } => self.resize(size)?,
                Mutation::SetXattrs(xattrs) => {
                    xattrs.into_iter().for_each(|(name, value)| self.put_xattr(&name, value));
                }
                Mutation::OmapSetHeader(header) => self.put_omap_header(header),
                Mutation::OmapSet(entries) => self.put_omap(entries.into_iter().collect()),
                _ => return Err(Errno::EIO.into()),
            }
        }
        self.info.user_version = copied.user_version;
        (self.info.truncate_seq, self.info.truncate_size) = (copied.truncate_seq, copied.truncate_size);
        if let Some(mtime) = copied.mtime {
            (self.info.mtime, self.has_copied_mtime) = (mtime, true);
        }
        Ok(())
    }

    fn need<T>(&mut self, result: Result<T, store::NotCached>) -> Result<T, Stop> {
        result.map_err(|missing| {
            self.missing = Some(missing.into());
            Stop::Missing
        })
    }

    /// ENOENT unless the object exists.
    pub(super) fn check_exists(&self) -> Result<(), Stop> {
        if self.exists { Ok(()) } else { Err(Errno::ENOENT.into()) }
    }

    pub(super) fn make_exist(&mut self) {
        if !self.exists {
            self.exists = true;
            self.mutations.push(Mutation::Touch);
        }
    }

    /// EFBIG for what reaches beyond the largest object, or begins there.
    pub(super) fn check_range(&self, offset: u64, len: u64) -> Result<(), Stop> {
        match offset.checked_add(len) {
            Some(end) if offset < OBJECT_BYTES_MAX && end <= OBJECT_BYTES_MAX => Ok(()),
            Some(_) | None => Err(Errno::EFBIG.into()),
        }
    }

    /// Counts a change with so many bytes that an op is about to stage; if that is too much for one request, the whole
    /// request is refused with EMSGSIZE. If only the op failed, and it may fail, the rest would go on, and a class
    /// method has worked for what it wants to stage: one op after another would work in vain.
    fn charge(&mut self, bytes: usize) -> Result<(), Stop> {
        self.staged_bytes = self.staged_bytes.saturating_add(CHANGE_BYTES).saturating_add(bytes as u64);
        if self.staged_bytes > STAGED_BYTES_MAX { Err(self.refuse(Errno::EMSGSIZE)) } else { Ok(()) }
    }

    /// Refuses a list of entries with so many that they could not be counted one by one, by the number that it begins
    /// with.
    pub(super) fn check_count(&mut self, list: &Bytes) -> Result<(), Stop> {
        let count = list.first_chunk().map_or(0, |count| u32::from_le_bytes(*count));
        if u64::from(count) > COUNT_MAX { Err(self.refuse(Errno::EMSGSIZE)) } else { Ok(()) }
    }

    /// True if the change adds a clone to an object with as many snapshots as may be told of, or makes such an object
    /// anew. One that deletes the object may go on.
    pub(super) fn has_too_many_snaps(&self, op: &MOSDOp, snapc: &SnapContext) -> bool {
        let added = match self.needs_clone(op, snapc) {
            true => snapc.snaps.iter().take_while(|snap| **snap > self.snapset.seq).count() as u64,
            false => 0,
        };
        let may_grow = self.exists && (added > 0 || !self.existed);
        may_grow && self.snapset.memory() + size_of::<SnapId>() as u64 * added > SNAPS_BYTES_MAX
    }

    /// True if the request set an xattr, or the omap header, and leaves the object more of them than an object may
    /// have. A request that only removes some may go on.
    pub(super) fn has_too_many_attributes(&self) -> Result<bool, Blocked> {
        let header = self.omap_head.as_ref().filter(|header| !header.is_empty());
        if header.is_none() && self.xattrs.values().all(Option::is_none) {
            return Ok(false);
        }
        let bytes = |name: &Bytes, value: &Bytes| (name.len() + value.len()) as u64;
        let given = self.xattrs.iter().filter_map(|(name, value)| Some(bytes(name, value.as_ref()?)));
        let mut sum: u64 = given.sum();
        if let Some(base) = self.base.as_ref().filter(|_| !self.are_xattrs_new) {
            let kept = self.store.xattrs(self.coll, base).map_err(Blocked::from)?;
            let kept = kept.iter().filter(|(name, _)| !self.xattrs.contains_key(name));
            sum += kept.map(|(name, value)| bytes(name, value)).sum::<u64>();
        }
        sum += match (&self.omap_head, &self.base) {
            (Some(header), _) => header.len() as u64,
            (None, Some(base)) if !self.omap.is_new() => {
                self.store.omap_header(self.coll, base).map_err(Blocked::from)?.len() as u64
            }
            (None, _) => 0,
        };
        Ok(sum > ATTRIBUTES_BYTES_MAX)
    }

    /// Counts what an op reads, or puts into memory for its answer; if that is too much for one request, the whole
    /// request is refused with EMSGSIZE: if only the op failed, and it may fail, the rest would go on.
    pub(super) fn spend(&mut self, bytes: u64) -> Result<(), Stop> {
        self.output_bytes = self.output_bytes.saturating_add(bytes);
        if self.output_bytes > OUTPUT_BYTES_MAX { Err(self.refuse(Errno::EMSGSIZE)) } else { Ok(()) }
    }

    /// Counts entries that an op looks at.
    fn spend_looks(&mut self, count: usize) -> Result<(), Stop> {
        self.spend((count as u64).saturating_mul(LOOK_BYTES))
    }

    /// Writes `data`, with what is known of it.
    pub(super) fn put(&mut self, offset: u64, data: Payload) -> Result<(), Stop> {
        self.check_range(offset, data.len() as u64)?;
        self.charge(data.len())?;
        self.place(offset, data)
    }

    /// Writes `data` as often as it takes to fill `len` bytes, which are a multiple of its length. It is not multiplied
    /// in memory, but put into several writes.
    pub(super) fn put_repeated(&mut self, offset: u64, len: u64, data: &Bytes) -> Result<(), Stop> {
        /// The length of one write: more than clients usually fill, so that such a fill stays one write.
        const RUN_BYTES: usize = 4 << 20;
        self.check_range(offset, len)?;
        self.charge(usize::try_from(len).unwrap_or(usize::MAX))?;
        let (unit, mut at, mut left) = (data.len().max(1), offset, len as usize);
        let repeated = Bytes::from(data.repeat((RUN_BYTES / unit).min(left.div_ceil(unit)).max(1)));
        while left > 0 {
            let part = repeated.slice(..repeated.len().min(left));
            (at, left) = (at + part.len() as u64, left - part.len());
            self.place(at - part.len() as u64, part.into())?;
        }
        Ok(())
    }

    fn place(&mut self, offset: u64, data: Payload) -> Result<(), Stop> {
        self.make_exist();
        if data.is_empty() {
            self.touch();
            if offset > self.size {
                self.cut(offset)?;
            }
            return Ok(());
        }
        self.own(offset, data.len() as u64)?;
        self.changed.insert(offset, data.len() as u64);
        self.size = self.size.max(offset + data.len() as u64);
        self.pieces.push(Piece::Data(offset, Bytes::clone(&data)));
        self.mutations.push(Mutation::Write { offset, data });
        Ok(())
    }

    /// Makes `data` all that the object has.
    pub(super) fn put_full(&mut self, data: Payload) -> Result<(), Stop> {
        let size = data.len() as u64;
        self.check_range(0, size)?;
        self.charge(data.len())?;
        if self.exists && size == 0 && self.size == 0 {
            // Ceph has nothing to do here, and counts no change.
            return Ok(());
        }
        self.make_exist();
        self.drop_chunks();
        self.changed.insert(0, self.size);
        if size < self.size {
            self.cut(size)?;
        }
        self.place(0, data)
    }

    /// Sets the size to one that an object may have. A truncation that a client asks for may not even be to the largest
    /// size.
    pub(super) fn resize(&mut self, size: u64) -> Result<(), Stop> {
        if size > OBJECT_BYTES_MAX {
            return Err(Errno::EFBIG.into());
        }
        self.make_exist();
        self.cut(size)
    }

    /// Sets the size; the caller checked it.
    fn cut(&mut self, size: u64) -> Result<(), Stop> {
        if size < self.size {
            self.own(size, self.size - size)?;
            self.changed.insert(size, self.size - size);
            self.base_bytes = self.base_bytes.min(size);
            // Pieces beyond must not come back when the object grows again.
            self.pieces.push(Piece::Zero(size, self.size - size));
        }
        self.size = size;
        self.mutations.push(Mutation::Truncate { size });
        Ok(())
    }

    /// Ranges with data, for sparse reads.
    pub(super) fn extents(&mut self, offset: u64, len: u64) -> Result<Vec<(u64, u64)>, Stop> {
        let end = offset.saturating_add(len).min(self.size);
        if offset >= end {
            return Ok(Vec::new());
        }
        self.bring_chunks(offset, end)?;
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

    /// Makes the head what `clone` is, and returns the clone's chunks; the head has none.
    pub(super) fn roll_back_to(&mut self, clone: SnapId) -> Result<ChunkMap, Stop> {
        let source = self.head.with_snap(clone);
        let result = self.store.meta(self.coll, &source);
        let size = self.need(result)?.ok_or(Errno::ENOENT)?.size;
        let result = self.store.xattr(self.coll, &source, INFO_XATTR);
        let bytes = self.need(result)?;
        let info: Option<ObjectInfo> = self.stopped(decode_xattr(bytes))?;
        let chunks = info.as_ref().and_then(ObjectInfo::chunks).cloned();
        if chunks.is_none() && info.is_some_and(|info| info.manifest.is_some()) {
            // The clone has no contents of its own to go back to.
            return Err(Errno::EOPNOTSUPP.into());
        }
        let newer = self.snapset.clones.iter().skip_while(|c| c.id != clone);
        let looks = newer.map(|newer| 1 + newer.overlap.count()).sum();
        self.spend_looks(looks)?;
        self.drop_chunks();
        self.rollbacks += 1;
        // What all newer clones share with this one is in the head already.
        let mut newer = self.snapset.clones.iter().skip_while(|c| c.id != clone).map(|c| &c.overlap);
        let same = newer.next().cloned().unwrap_or_default();
        let same = newer.fold(same, |same, overlap| same.intersection(overlap));
        // A clone's chunks may have been promoted or evicted since it was made, of which no other state knows.
        let same = if chunks.is_some() { IntervalSet::new() } else { same };
        let mut different = IntervalSet::new();
        different.insert(0, self.size);
        different.subtract(&same);
        self.changed.union_with(&different);
        self.mutations.clear();
        self.mutations.push(Mutation::CloneFrom { source: source.clone().into() });
        self.base = Some(source);
        (self.size, self.base_bytes, self.exists) = (size, size, true);
        self.pieces.clear();
        self.xattrs.clear();
        (self.are_xattrs_new, self.omap) = (false, Omap::new(false));
        self.omap_head = None;
        Ok(chunks.unwrap_or_default())
    }
}

impl SnapSet {
    /// About what it takes in memory, and no less than what it takes encoded.
    pub(super) fn memory(&self) -> u64 {
        let of_clone = |clone: &CloneInfo| {
            size_of::<CloneInfo>() + clone.snaps.len() * size_of::<SnapId>() + 16 * clone.overlap.count()
        };
        self.clones.iter().map(of_clone).sum::<usize>() as u64
    }

    /// The clone that serves a snapshot at or below `seq`; none if the object did not exist then.
    pub(super) fn clone_of(&self, snap: SnapId) -> Option<SnapId> {
        let clone = self.clones.iter().find(|c| c.id >= snap)?;
        clone.snaps.contains(&snap).then_some(clone.id)
    }
}
