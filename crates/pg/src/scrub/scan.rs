//! What this copy has of the objects in a range, put together step by step as the store reads it.
//!
//! Authority: `PGBackend::be_scan_list`, `ReplicatedBackend::be_deep_scrub` (16.2): the digests are Ceph's.

use std::{collections::VecDeque, ops::Bound};

use bytes::Bytes;
use codec::{Encode, Features, crc32c};
use store::{NotCached, ObjectStore, OmapMost};
use types::{CollId, HObject, OsdId, PoolId, ScrubObject, Token, XattrSum};

use crate::exec::USER_XATTR;

/// Objects listed at once.
const LIST_STEP: usize = 64;
/// Omap entries hashed at once.
const OMAP_STEP: OmapMost = OmapMost::of(512);
/// An xattr's value that is longer is told by its checksum: what all objects of a chunk have goes in one message, and
/// values may be as long as requests.
const XATTR_BYTES_MAX: usize = 4 << 10;
/// Of an object's xattrs so many bytes are told; the rest is told by one checksum.
const XATTRS_BYTES_MAX: usize = 256 << 10;
/// Of a clone's xattrs fewer bytes are told: an object may have thousands of clones, and all of them are in one chunk.
const CLONE_XATTRS_BYTES_MAX: usize = 8 << 10;
/// What a copy tells of a chunk, at most: the primary holds as much of every copy, and messages are limited. There is
/// room for some 15,000 clones with xattrs that long.
const MAP_BYTES_MAX: usize = 128 << 20;
/// What an object takes in a message at most, besides its name and its xattrs.
const OBJECT_BYTES: usize = 200;

/// What a scan waits for.
#[derive(Debug)]
pub(super) enum Step {
    /// Load this, then go on.
    Load(NotCached),
    /// Load this part of the object's data from the device, then go on.
    LoadAnew(HObject, u64, u64),
    /// [`Scan::take`] has all.
    Done,
}

/// A scan of the objects in a range: what this copy has of them.
#[derive(Debug)]
pub(crate) struct Scan {
    /// The primary, and its name for the request.
    pub(super) asker: OsdId,
    pub(super) id: u64,
    at: HObject,
    end: HObject,
    is_deep: bool,
    /// Bytes read at once (`osd_deep_scrub_stride`).
    stride: u64,
    is_listed: bool,
    queue: VecDeque<HObject>,
    current: Option<Partial>,
    done: Vec<ScrubObject>,
    /// What there is to tell, in bytes.
    told: usize,
    /// The load under way; an answer to another one is of a scan that ended.
    pub(super) waiting: Option<Token>,
    /// What was loaded and is needed until the scan gets on.
    pub(super) held: Vec<Token>,
    has_got_on: bool,
}

/// An object that is not done.
#[derive(Debug)]
struct Partial {
    out: ScrubObject,
    data_crc: u32,
    offset: u64,
    /// The device has just brought what comes next.
    is_fresh: bool,
    omap_crc: u32,
    omap_at: Option<Bytes>,
    is_header_done: bool,
}

impl Scan {
    pub(super) fn new(asker: OsdId, id: u64, start: HObject, end: HObject, deep_stride: Option<u64>) -> Scan {
        Scan {
            asker,
            id,
            at: start,
            end,
            is_deep: deep_stride.is_some(),
            stride: deep_stride.unwrap_or(1),
            is_listed: false,
            queue: VecDeque::new(),
            current: None,
            done: Vec::new(),
            told: 0,
            waiting: None,
            held: Vec::new(),
            has_got_on: false,
        }
    }

    /// The part of the data that was to come from the device is there, or cannot be read.
    pub(super) fn on_loaded_anew(&mut self, is_readable: bool) {
        if let Some(current) = &mut self.current {
            current.is_fresh = true;
            if !is_readable {
                current.out.is_unreadable = true;
                self.finish_object();
            }
        }
    }

    /// True when it has got on since it was asked last.
    pub(super) fn take_got_on(&mut self) -> bool {
        std::mem::take(&mut self.has_got_on)
    }

    /// The objects of the range; none if they are too much to be told.
    pub(super) fn take(&mut self) -> Option<Vec<ScrubObject>> {
        let done = std::mem::take(&mut self.done);
        (!self.is_too_much()).then_some(done)
    }

    fn is_too_much(&self) -> bool {
        self.told > MAP_BYTES_MAX
    }

    /// Goes on as far as it can. `pool` is that of clients' objects: the PG's own record is not among them.
    pub(super) fn step(&mut self, store: &dyn ObjectStore, coll: CollId, pool: PoolId) -> Step {
        while !self.is_too_much() {
            let step = match self.current.is_some() {
                true => self.step_object(store, coll),
                false => self.next_object(store, coll, pool),
            };
            match step {
                Ok(true) => self.has_got_on = true,
                Ok(false) => break,
                Err(step) => return step,
            }
        }
        Step::Done
    }

    /// Takes up the next object; false behind the last one.
    fn next_object(&mut self, store: &dyn ObjectStore, coll: CollId, pool: PoolId) -> Result<bool, Step> {
        let Some(object) = self.queue.pop_front() else {
            if self.is_listed {
                return Ok(false);
            }
            let objects = store.list(coll, &self.at, LIST_STEP).map_err(Step::Load)?;
            self.is_listed =
                objects.len() < LIST_STEP || objects.last().is_some_and(|last| *last >= self.end);
            if let Some(last) = objects.last() {
                self.at = last.with_snap(types::SnapId(last.snap.0.saturating_add(1)));
            }
            let end = &self.end;
            self.queue.extend(objects.into_iter().filter(|object| object < end && object.pool == pool));
            return Ok(true);
        };
        match begin(store, coll, &object) {
            Ok(Some(out)) => {
                self.current = Some(Partial {
                    out,
                    data_crc: u32::MAX,
                    offset: 0,
                    is_fresh: false,
                    omap_crc: u32::MAX,
                    omap_at: None,
                    is_header_done: false,
                });
                if !self.is_deep {
                    self.finish_object();
                }
                Ok(true)
            }
            // It went meanwhile.
            Ok(None) => Ok(true),
            Err(missing) => {
                self.queue.push_front(object);
                Err(Step::Load(missing))
            }
        }
    }

    fn finish_object(&mut self) {
        if let Some(Partial { out, .. }) = self.current.take() {
            self.told += bytes_told(&out);
            self.done.push(out);
        }
    }

    fn step_object(&mut self, store: &dyn ObjectStore, coll: CollId) -> Result<bool, Step> {
        let Some(current) = &mut self.current else { return Ok(true) };
        let object = current.out.object.clone();
        if current.offset < current.out.size {
            let len = self.stride.min(current.out.size - current.offset);
            if !current.is_fresh {
                return Err(Step::LoadAnew(object, current.offset, len));
            }
            let data = store.read(coll, &object, current.offset, len).map_err(|missing| match missing {
                NotCached::Data { .. } => Step::LoadAnew(object.clone(), current.offset, len),
                NotCached::Index { .. } => Step::Load(missing),
            })?;
            current.data_crc = crc32c(current.data_crc, &data);
            current.offset += len;
            current.is_fresh = false;
            return Ok(true);
        }
        let is_end = current.hash_omap(store, coll, &object).map_err(Step::Load)?;
        if is_end {
            current.out.data_digest = Some(current.data_crc);
            current.out.omap_digest = Some(current.omap_crc);
            self.finish_object();
        }
        Ok(true)
    }
}

impl Partial {
    /// Hashes the next part of the omap; true behind the last.
    fn hash_omap(
        &mut self,
        store: &dyn ObjectStore,
        coll: CollId,
        object: &HObject,
    ) -> Result<bool, NotCached> {
        if !self.is_header_done {
            let header = store.omap_header(coll, object)?;
            self.omap_crc = crc32c(self.omap_crc, &header);
            self.is_header_done = true;
        }
        let from = self.omap_at.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let page = store.omap_range(coll, object, from, OMAP_STEP)?;
        let mut bytes = Vec::new();
        for entry in &page {
            bytes.clear();
            entry.encode(&mut bytes, Features::default());
            self.omap_crc = crc32c(self.omap_crc, &bytes);
            self.out.omap_keys += 1;
            // As in Ceph, keys are counted by number alone.
            self.out.omap_bytes += entry.1.len() as u64;
        }
        self.omap_at = page.last().map(|(key, _)| key.clone());
        Ok(!OMAP_STEP.is_met_by(&page))
    }
}

/// What the index says of an object; none if there is no such.
fn begin(store: &dyn ObjectStore, coll: CollId, object: &HObject) -> Result<Option<ScrubObject>, NotCached> {
    let Some(meta) = store.meta(coll, object)? else { return Ok(None) };
    let mut out = ScrubObject {
        object: object.clone(),
        size: meta.size,
        has_omap: !store.omap_range(coll, object, Bound::Unbounded, OmapMost::of(1))?.is_empty(),
        ..ScrubObject::default()
    };
    put_xattrs(&mut out, store.xattrs(coll, object)?);
    Ok(Some(out))
}

/// What it takes to tell of an object, or somewhat more.
fn bytes_told(object: &ScrubObject) -> usize {
    let HObject { oid, key, nspace, .. } = &object.object;
    let whole = object.xattrs.iter().map(|(name, value)| 8 + name.len() + value.len());
    let long = object.long_xattrs.keys().map(|name| 8 + name.len() + size_of::<XattrSum>());
    OBJECT_BYTES + oid.len() + key.len() + nspace.len() + whole.chain(long).sum::<usize>()
}

/// Tells xattrs, in the order of their names: equal ones in the same way. What the PG keeps with the object is told
/// as it is.
fn put_xattrs(out: &mut ScrubObject, xattrs: Vec<(Bytes, Bytes)>) {
    let bytes_max = if out.object.is_head() { XATTRS_BYTES_MAX } else { CLONE_XATTRS_BYTES_MAX };
    let mut told = 0;
    for (name, value) in xattrs {
        if name.first() != Some(&USER_XATTR) {
            out.xattrs.insert(name, value);
            continue;
        }
        let bytes = value.len() as u64;
        let is_long = value.len() > XATTR_BYTES_MAX;
        told += name.len() + if is_long { size_of::<XattrSum>() } else { value.len() };
        if told > bytes_max {
            let more = out.more_xattrs.get_or_insert(XattrSum { bytes: 0, crc: u32::MAX });
            more.bytes += name.len() as u64 + bytes;
            let lengths = (name.len() as u64, bytes).to_bytes(Features::default());
            more.crc = [lengths, name, value].iter().fold(more.crc, |crc, piece| crc32c(crc, piece));
        } else if is_long {
            out.long_xattrs.insert(name, XattrSum { bytes, crc: crc32c(u32::MAX, &value) });
        } else {
            out.xattrs.insert(name, value);
        }
    }
}
