//! Reading: from memory at once, from the device by loads.

use std::{
    collections::BTreeSet,
    ops::{Bound, Range},
};

use bytes::Bytes;
use codec::{BLOCK_BYTES, Payload, crc32c, crc32c_of_blocks};
use types::{CollId, HObject, PoolId, PoolStatfs, Token, Transaction};

use super::{Store, checkpoint_room::makes_room, data_reads::DataRead, index_read::omap_place};
use crate::{
    Cached, Completion, DeviceError, DeviceWaits, MemoryUse, MetaWith, NotCached, ObjectMeta, ObjectStore,
    OmapMost, ReadError, StoreUsage, cache::Retention, device::BLOCK, extent_map::Mapped, index::Key,
    onode::Onode, space::Run,
};

/// Blocks of one device read.
const READ_BLOCKS_MAX: u64 = 1024;

/// What a load of more than so many bytes brought is not kept in the cache.
const KEPT_BYTES_MAX: u64 = 128 << 10;
/// Cached blocks that a large load reads once more rather than read in pieces.
const GAP_BLOCKS_MAX: usize = 16;

/// A load whose device reads are outstanding.
#[derive(Debug)]
pub(super) struct Load {
    token: Token,
    coll: CollId,
    object: HObject,
    /// How long the cache keeps what it brings.
    retention: Retention,
    reads: Vec<LoadRead>,
    reads_left: usize,
    result: Result<(), ReadError>,
}

/// Consecutive blocks of the object that are read as one.
#[derive(Debug)]
struct LoadRead {
    block: u64,
    device: u64,
    crcs: Vec<u32>,
}

impl LoadRead {
    /// True if it can go on with `block`, reading the few cached blocks of `gap` before it once more.
    fn reaches(&self, gap: &[(u64, u64, u32)], gap_max: usize, block: u64, device: u64) -> bool {
        let count = self.crcs.len() as u64;
        let follows = |at: usize, (block, device): (u64, u64)| {
            (block, device) == (self.block + count + at as u64, self.device + count + at as u64)
        };
        let is_gap_whole =
            gap.iter().enumerate().all(|(at, (block, device, _))| follows(at, (*block, *device)));
        is_gap_whole
            && follows(gap.len(), (block, device))
            && gap.len() <= gap_max
            && count + (gap.len() as u64) < READ_BLOCKS_MAX
    }
}

impl Onode {
    /// True if the device's bytes of the block do not show in `[from, to)`.
    fn hides(&self, block: u64, from: u64, to: u64) -> bool {
        let (low, high) = ((block * BLOCK).max(from), ((block + 1) * BLOCK).min(to));
        self.pending.covers(low, high)
    }
}

impl Store {
    fn read_range(&self, onode: &Onode, from: u64, to: u64) -> Option<Vec<Payload>> {
        let (mut out, mut at) = (Vec::new(), from);
        for (offset, part) in onode.pending.payloads(from, to) {
            self.read_mapped(onode, at, offset, &mut out)?;
            at = offset + part.len() as u64;
            out.push(part);
        }
        self.read_mapped(onode, at, to, &mut out)?;
        // A copy of little costs less than a piece.
        let is_many = out.len() > 1 && (out.len() * BLOCK_BYTES) as u64 > to - from;
        Some(if is_many { vec![Payload::joined(out)] } else { out })
    }

    /// What the device has of `[from, to)`, from the cache; zeros for holes.
    fn read_mapped(&self, onode: &Onode, from: u64, to: u64, out: &mut Vec<Payload>) -> Option<()> {
        if from >= to {
            return Some(());
        }
        let mut at = from;
        for (first, device, crcs) in onode.extents.range(from / BLOCK, to.div_ceil(BLOCK)) {
            let (start, end) = ((first * BLOCK).max(at), ((first + crcs.len() as u64) * BLOCK).min(to));
            out.extend(Payload::zeros(start - at));
            at = start;
            while at < end {
                let index = (at / BLOCK - first) as usize;
                let bytes = self.cache.get(device + index as u64, &crcs[index..])?;
                let (begin, len) = (at % BLOCK, (bytes.len() as u64 - at % BLOCK).min(end - at));
                let is_whole = begin == 0 && len.is_multiple_of(BLOCK);
                let crc = is_whole.then(|| crc32c_of_blocks(&crcs[index..][..(len / BLOCK) as usize]));
                out.push(Payload::new(bytes.slice(begin as usize..(begin + len) as usize), crc));
                at += len;
            }
        }
        out.extend(Payload::zeros(to - at));
        Some(())
    }

    /// Loads `bytes` of an object; with `is_anew`, also what memory has and the device should have.
    fn start_load(&mut self, token: Token, coll: CollId, object: HObject, bytes: Range<u64>, is_anew: bool) {
        let from = bytes.start;
        // A request may reach beyond the end.
        let to = self.index.get(coll, &object).map_or(bytes.end, |onode| bytes.end.min(onode.size));
        let (retention, gap_max) = match to.saturating_sub(from) > KEPT_BYTES_MAX {
            true => (Retention::WhilePinned, GAP_BLOCKS_MAX),
            false => (Retention::Cached, 0),
        };
        let mut reads: Vec<LoadRead> = Vec::new();
        // Cached blocks since the last one that was not.
        let mut gap: Vec<(u64, u64, u32)> = Vec::new();
        let mut pinned = Vec::new();
        if let Some(onode) = self.index.get(coll, &object) {
            for (first, device, crcs) in
                onode.extents.range(from / BLOCK, to.div_ceil(BLOCK).max(from / BLOCK))
            {
                for (at, &crc) in crcs.iter().enumerate() {
                    let (block, device) = (first + at as u64, device + at as u64);
                    if onode.hides(block, from, to) {
                        continue;
                    }
                    if self.cache.has(device, crc) && (!is_anew || self.cache.is_writing(device)) {
                        pinned.push(Run { start: device, count: 1 });
                        match self.cache.is_writing(device) {
                            true => gap.clear(),
                            false => gap.push((block, device, crc)),
                        }
                        continue;
                    }
                    match reads.last_mut() {
                        Some(last) if last.reaches(&gap, gap_max, block, device) => {
                            last.crcs.extend(gap.iter().map(|(_, _, crc)| *crc).chain([crc]));
                        }
                        Some(_) | None => reads.push(LoadRead { block, device, crcs: vec![crc] }),
                    }
                    gap.clear();
                }
            }
        }
        for run in merged(pinned) {
            let runs = self.cache.pin(run);
            self.pins.entry(token).or_default().extend(runs);
        }
        if reads.is_empty() {
            self.completions.push(Completion::Loaded(token, Ok(())));
            return;
        }
        let load = self.next_token;
        self.next_token += 1;
        for (read, part) in reads.iter().enumerate() {
            let run = Run { start: part.device, count: part.crcs.len() as u64 };
            self.read_data(DataRead { load, read, run });
        }
        let reads_left = reads.len();
        self.loads.insert(load, Load { token, coll, object, retention, reads, reads_left, result: Ok(()) });
    }

    pub(super) fn load_done(
        &mut self,
        DataRead { load: id, read, .. }: DataRead,
        result: Result<Option<Bytes>, DeviceError>,
    ) {
        let Some(mut load) = self.loads.remove(&id) else { return };
        let part = &load.reads[read];
        match result {
            Ok(Some(data)) if data.len() == part.crcs.len() * BLOCK_BYTES => {
                let result = self.verify(load.coll, &load.object, part, &data);
                for (low, high) in result.good {
                    self.keep_loaded(&load, part, &data, low..high);
                }
                if let (Some(offset), Ok(())) = (result.corrupt, load.result) {
                    load.result = Err(ReadError::Corrupt { offset });
                }
            }
            Ok(_) | Err(_) => load.result = Err(ReadError::Device),
        }
        self.cache.evict();
        load.reads_left -= 1;
        if load.reads_left == 0 {
            self.completions.push(Completion::Loaded(load.token, load.result));
        } else {
            self.loads.insert(id, load);
        }
    }

    /// Puts good blocks of a read into the cache, and holds them. Those that are there already stay: others
    /// may hold them.
    fn keep_loaded(&mut self, load: &Load, part: &LoadRead, data: &Bytes, good: Range<usize>) {
        let pins = self.pins.entry(load.token).or_default();
        let mut at = good.start;
        while at < good.end {
            let is_here = |at: usize| self.cache.has(part.device + at as u64, part.crcs[at]);
            let was_here = is_here(at);
            let end = (at..good.end).find(|next| is_here(*next) != was_here).unwrap_or(good.end);
            let run = Run { start: part.device + at as u64, count: (end - at) as u64 };
            if !was_here {
                let blocks = data.slice(at * BLOCK_BYTES..end * BLOCK_BYTES);
                self.cache.insert_pinned(run.start, blocks, part.crcs[at..end].to_vec(), load.retention);
                pins.push(run);
            } else {
                pins.extend(self.cache.pin(run));
            }
            at = end;
        }
    }

    /// Which of the blocks read are as the object's map says.
    fn verify(&self, coll: CollId, object: &HObject, part: &LoadRead, data: &Bytes) -> Verified {
        let onode = self.index.get(coll, object);
        let mut out = Verified::default();
        for (at, &crc) in part.crcs.iter().enumerate() {
            let (block, device) = (part.block + at as u64, part.device + at as u64);
            // What changed since the load began is not this load's to judge: a read asks again.
            let is_current = onode.is_some_and(|onode| {
                onode.extents.lookup(block) == Some(Mapped { device, crc })
                    && !onode.pending.covers(block * BLOCK, (block + 1) * BLOCK)
            });
            if !is_current {
                continue;
            }
            if crc32c(u32::MAX, &data[at * BLOCK_BYTES..][..BLOCK_BYTES]) != crc {
                out.corrupt.get_or_insert(block * BLOCK);
                continue;
            }
            match out.good.last_mut() {
                Some(last) if last.1 == at => last.1 = at + 1,
                Some(_) | None => out.good.push((at, at + 1)),
            }
        }
        out
    }
}

/// What a read of a load brought: good blocks from and to, the first corrupt byte of the object.
#[derive(Default)]
struct Verified {
    good: Vec<(usize, usize)>,
    corrupt: Option<u64>,
}

/// Runs that follow each other as one.
fn merged(runs: Vec<Run>) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::new();
    for run in runs {
        match out.last_mut() {
            Some(last) if last.end() == run.start => last.count += run.count,
            Some(_) | None => out.push(run),
        }
    }
    out
}

impl ObjectStore for Store {
    fn submit(&mut self, token: Token, txn: Transaction) {
        self.is_stirred = true;
        self.submit_txn(token, txn);
    }

    fn load(&mut self, token: Token, missing: NotCached) {
        self.is_stirred = true;
        match missing {
            NotCached::Index { coll, object, omap } => self.load_index(token, Key { coll, object, omap }),
            // Without the object's entry it is not known where its data is: the caller asks again.
            NotCached::Data { coll, object, .. } if self.onode_at(coll, &object).is_err() => {
                self.load_index(token, Key::of(coll, &object));
            }
            NotCached::Data { coll, object, offset, len } => {
                self.pin_for(token, &Key::of(coll, &object));
                self.start_load(token, coll, object, offset..offset.saturating_add(len), false);
            }
        }
    }

    fn load_bytes(&self, missing: &NotCached) -> u64 {
        match missing {
            NotCached::Index { coll, object, omap } => {
                let key = Key { coll: *coll, object: object.clone(), omap: omap.clone() };
                self.index.page_bytes(&key)
            }
            NotCached::Data { len, .. } => *len,
        }
    }

    fn load_anew(&mut self, token: Token, coll: CollId, object: &HObject, offset: u64, len: u64) {
        self.is_stirred = true;
        let key = Key::of(coll, object);
        self.index.fetch(coll, object);
        if self.onode_at(coll, object).is_err() {
            return self.load_index(token, key);
        }
        self.pin_for(token, &key);
        self.start_load(token, coll, object.clone(), offset..offset.saturating_add(len), true);
    }

    fn unload(&mut self, token: Token) {
        self.is_stirred = true;
        for run in self.pins.remove(&token).unwrap_or_default() {
            self.cache.unpin(run);
        }
        self.unpin_pages(token);
        self.cache.evict();
    }

    fn meta(&self, coll: CollId, object: &HObject) -> Result<Option<ObjectMeta>, NotCached> {
        Ok(self.onode_at(coll, object)?.map(|onode| ObjectMeta { size: onode.size }))
    }

    fn read_pieces(
        &self,
        coll: CollId,
        object: &HObject,
        offset: u64,
        len: u64,
    ) -> Result<Vec<Payload>, NotCached> {
        let Some(onode) = self.onode_at(coll, object)? else { return Ok(Vec::new()) };
        let end = offset.saturating_add(len).min(onode.size);
        let missing = || NotCached::Data { coll, object: object.clone(), offset, len };
        self.read_range(onode, offset.min(end), end).ok_or_else(missing)
    }

    fn lacks(&self, coll: CollId, object: &HObject, offset: u64, len: u64) -> Option<NotCached> {
        let onode = match self.onode_at(coll, object) {
            Ok(onode) => onode?,
            Err(missing) => return Some(missing),
        };
        let (block, end) = (offset / BLOCK, offset.saturating_add(len).min(onode.size));
        let Mapped { device, crc } = onode.extents.lookup(block).filter(|_| offset < end)?;
        let is_at_hand = onode.hides(block, offset, end) || self.cache.has(device, crc);
        (!is_at_hand).then(|| NotCached::Data { coll, object: object.clone(), offset, len })
    }

    fn extents(
        &self,
        coll: CollId,
        object: &HObject,
        offset: u64,
        len: u64,
    ) -> Result<Vec<(u64, u64)>, NotCached> {
        let Some(onode) = self.onode_at(coll, object)? else { return Ok(Vec::new()) };
        let end = offset.saturating_add(len).min(onode.size);
        if offset >= end {
            return Ok(Vec::new());
        }
        let mapped = onode.extents.range(offset / BLOCK, end.div_ceil(BLOCK));
        let mut parts: Vec<(u64, u64)> = mapped
            .map(|(block, _, crcs)| (block * BLOCK, (block + crcs.len() as u64) * BLOCK))
            .chain(onode.pending.range(offset, end).map(|(at, part, _)| (at, at + part.len() as u64)))
            .map(|(low, high)| (low.max(offset), high.min(end)))
            .collect();
        parts.sort_unstable();
        let mut out: Vec<(u64, u64)> = Vec::new();
        for (low, high) in parts {
            match out.last_mut() {
                Some(last) if low <= last.0 + last.1 => last.1 = last.1.max(high - last.0),
                Some(_) | None => out.push((low, high - low)),
            }
        }
        Ok(out)
    }

    fn xattr(&self, coll: CollId, object: &HObject, name: &[u8]) -> Result<Option<Bytes>, NotCached> {
        self.xattr_at(coll, object, name)
    }

    fn meta_with(
        &self,
        coll: CollId,
        object: &HObject,
        names: [&[u8]; 2],
    ) -> Result<Option<MetaWith>, NotCached> {
        let Some(onode) = self.onode_at(coll, object)? else { return Ok(None) };
        let xattrs = names.map(|name| onode.xattrs.get(name).cloned());
        Ok(Some((ObjectMeta { size: onode.size }, xattrs)))
    }

    fn xattrs(&self, coll: CollId, object: &HObject) -> Result<Vec<(Bytes, Bytes)>, NotCached> {
        let pairs = |onode: &Onode| onode.xattrs.iter().cloned().collect();
        Ok(self.onode_at(coll, object)?.map_or_else(Vec::new, pairs))
    }

    fn omap_header(&self, coll: CollId, object: &HObject) -> Result<Bytes, NotCached> {
        Ok(self.onode_at(coll, object)?.map(|onode| onode.omap_header.clone()).unwrap_or_default())
    }

    fn omap_get(&self, coll: CollId, object: &HObject, key: &[u8]) -> Result<Option<Bytes>, NotCached> {
        self.omap_at(coll, object, key)
    }

    fn omap_range(
        &self,
        coll: CollId,
        object: &HObject,
        from: Bound<&[u8]>,
        most: OmapMost,
    ) -> Result<Vec<(Bytes, Bytes)>, NotCached> {
        self.omap_from(coll, object, from, most)
    }

    fn omap_bytes(
        &self,
        coll: CollId,
        object: &HObject,
        from: Bound<&[u8]>,
        prefix: &[u8],
        pages_max: usize,
        bytes_max: u64,
    ) -> Result<u64, NotCached> {
        if self.index.directory.is_whole() && self.waiting.is_empty() {
            return Ok(0);
        }
        let start = omap_place(coll, object, from);
        if self.is_waited_for(coll, object) {
            return Err(start.into());
        }
        let is_before_end = |omap: &Bytes| **omap < *prefix || omap.starts_with(prefix);
        let is_within = |first: &Key| {
            first.coll == coll && first.object == *object && first.omap.as_ref().is_none_or(is_before_end)
        };
        Ok(self.index.bytes_in(&start, is_within, pages_max, bytes_max)?)
    }

    fn list(&self, coll: CollId, from: &HObject, count_max: usize) -> Result<Vec<HObject>, NotCached> {
        self.list_from(coll, from, count_max)
    }

    fn collections(&self) -> Vec<CollId> {
        let waiting = self.waiting.colls().filter(|coll| !self.index.colls.contains_key(coll));
        let all: BTreeSet<CollId> = self.index.colls.keys().copied().chain(waiting).collect();
        all.into_iter().filter(|coll| self.collection_exists(*coll)).collect()
    }

    fn collection_exists(&self, coll: CollId) -> bool {
        self.waiting.makes_coll(coll).unwrap_or_else(|| self.index.colls.contains_key(&coll))
    }

    fn usage(&self) -> StoreUsage {
        StoreUsage {
            total_bytes: self.superblock.device_bytes,
            available_bytes: (self.space.available_count() * BLOCK).saturating_sub(self.pending.bytes),
            data_bytes: self.index.pools.blocks().saturating_mul(BLOCK),
            omap_bytes: self.index.omap_bytes,
            meta_bytes: self.superblock.area.start * BLOCK + self.index.directory.bytes(),
        }
    }

    fn growth_bytes(&self, txn: &Transaction) -> u64 {
        if makes_room(txn) { 0 } else { self.growth_of(txn).bytes() }
    }

    fn has_room_for(&self, txn: &Transaction) -> bool {
        makes_room(txn) || !self.finds_no_room(txn)
    }

    fn cached(&self) -> Cached {
        let data = MemoryUse { items: self.cache.count() as u64, bytes: self.cache.bytes() };
        Cached { data, ..self.index.cached() }
    }

    fn drop_cache(&mut self) {
        self.drop_at_turn_end();
    }

    fn pool_usage(&self) -> Vec<(PoolId, PoolStatfs)> {
        let pools = self.index.pools.iter().filter(|(pool, _)| pool.0 >= 0);
        pools.map(|(pool, usage)| (pool, usage.statfs())).collect()
    }

    fn device_waits(&self) -> DeviceWaits {
        self.outstanding.waits()
    }
}
