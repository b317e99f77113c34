//! Objects with parts, called chunks, that are parts of other objects (`TYPE_CHUNKED`). The object itself also has a
//! chunk's data until the chunk is evicted; from then on it is read from the other object. A change of the object first
//! takes in what was evicted, and what it changes is a chunk no more.
//!
//! References are counted by the other object, in class `cas`. Along an object's clones and head, in their order, a
//! chunk counts once for as long as it is the same from one to the next: so a clone can be made, and removed, without
//! telling the other object.
//!
//! Authority: `do_osd_ops` (SET_CHUNK, TIER_EVICT, TIER_PROMOTE), `maybe_handle_manifest_detail`,
//! `object_manifest_t::calc_refs_to_*` (16.2, and of 18.2 that each chunk is evicted by itself).

use std::collections::BTreeMap;

use bytes::Bytes;
use classes::Stop;
use codec::{Decode, Payload, Reader};
use messages::{MPgCopyData, ObjectLocator, OpCode, OsdOp, op_flag};
use types::{Chunk, ChunkMap, Errno, HObject, Mutation, ObjectManifest, SnapId, TxnOp};

use super::{CopySource, Output, Run, copy, snap_context};

/// True for ops that leave an object's contents as they were, in whichever object these are kept: no snapshot needs to
/// keep them.
pub(super) fn keeps_contents(code: OpCode) -> bool {
    matches!(code, OpCode::SET_CHUNK | OpCode::TIER_PROMOTE | OpCode::TIER_FLUSH | OpCode::TIER_EVICT)
}

/// References of an object's head and clones, oldest first, by what they refer to.
pub(super) fn references<'a>(
    states: impl IntoIterator<Item = Option<&'a ChunkMap>>,
) -> BTreeMap<HObject, i64> {
    let mut counts = BTreeMap::new();
    let mut before: Option<&ChunkMap> = None;
    for state in states {
        for (offset, chunk) in state.into_iter().flatten() {
            let is_known =
                before.and_then(|chunks| chunks.get(offset)).is_some_and(|old| old.is_same_part(chunk));
            if chunk.has_reference && !is_known {
                *counts.entry(chunk.target.clone()).or_default() += 1;
            }
        }
        before = state;
    }
    counts
}

/// References that are lost; an object that loses several is named several times.
pub(super) fn lost(before: BTreeMap<HObject, i64>, after: &BTreeMap<HObject, i64>) -> Vec<HObject> {
    let lost = |(target, count): (HObject, i64)| {
        let fewer = count - after.get(&target).copied().unwrap_or(0);
        std::iter::repeat_n(target, usize::try_from(fewer).unwrap_or(0))
    };
    before.into_iter().flat_map(lost).collect()
}

/// A copy's bytes from `start` on, with zeros where it has none.
fn bytes_of(copied: &MPgCopyData, start: u32, length: u32) -> Payload {
    let (start, end) = (u64::from(start), u64::from(start) + u64::from(length));
    let mut content = vec![0; length as usize];
    for mutation in copy::mutations(copied) {
        let Mutation::Write { offset, data } = mutation else { continue };
        let (from, to) = ((*offset).max(start), (offset + data.len() as u64).min(end));
        if from < to {
            let source = &data[(from - offset) as usize..(to - offset) as usize];
            content[(from - start) as usize..(to - start) as usize].copy_from_slice(source);
        }
    }
    Bytes::from(content).into()
}

/// A chunk's content, from what its object has.
pub(super) fn content_of(chunk: &Chunk, copied: &MPgCopyData) -> Payload {
    bytes_of(copied, chunk.offset, chunk.length)
}

/// The object of a copy's changes, which are all of one.
fn object_of(copied: &MPgCopyData) -> Option<HObject> {
    copied.txn.ops.iter().find_map(|op| match op {
        TxnOp::Object(object, _) => Some(object.clone()),
        TxnOp::CreateCollection | TxnOp::RemoveCollection | TxnOp::Split(_) | TxnOp::Merge(_) => None,
    })
}

/// Puts into a copy the chunk at `offset`, from all that its object has.
pub(crate) fn put_chunk(whole: &mut MPgCopyData, offset: u64, chunk: &Chunk, copied: &MPgCopyData) {
    let write = Mutation::Write { offset, data: content_of(chunk, copied) };
    if let Some(object) = object_of(whole) {
        whole.txn.push(&object, write);
    }
}

/// Forgets all of a copy but these bytes, which are in memory of their own then, and the chunks among them.
pub(crate) fn keep_part(copied: &mut MPgCopyData, start: u32, length: u32) {
    let (from, to) = (u64::from(start), u64::from(start) + u64::from(length));
    copied.missing.retain(|at, chunk| *at < to && from < at + u64::from(chunk.length));
    let write = Mutation::Write { offset: start.into(), data: bytes_of(copied, start, length) };
    let object = object_of(copied);
    copied.txn.ops.clear();
    if let Some(object) = object {
        copied.txn.push(&object, write);
    }
}

/// A chunk as SET_CHUNK names it: where it is in the object, and what it is.
fn parse(step: &OsdOp) -> Result<(u64, u64, CopySource, u64), Errno> {
    let mut input = Reader::new(step.data.clone());
    let mut all = || {
        let (offset, length) = (u64::decode(&mut input)?, u64::decode(&mut input)?);
        let locator = ObjectLocator::decode(&mut input)?;
        let oid = Bytes::decode(&mut input)?;
        let target = CopySource { locator: locator.of(&oid), oid, snap: SnapId::HEAD };
        Ok((offset, length, target, u64::decode(&mut input)?))
    };
    all().map_err(|_: codec::DecodeError| Errno::EINVAL)
}

impl Run<'_, '_> {
    pub(super) fn set_chunk(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.check_exists()?;
        let info = &self.view.info;
        if info.manifest.as_ref().is_some_and(|m| matches!(m.manifest, ObjectManifest::Redirect(_))) {
            return Err(Errno::EINVAL.into());
        }
        let (offset, length, target, target_offset) = parse(step)?;
        if length == 0 {
            return Err(Errno::EINVAL.into());
        }
        if self.view.is_head_of(&target) {
            // The object would wait for itself.
            return Err(Errno::EINVAL.into());
        }
        let end = offset.checked_add(length).filter(|end| *end <= self.view.size()).ok_or(Errno::ERANGE)?;
        let before = info.chunks().cloned().unwrap_or_default();
        let overlaps = |(at, chunk): (&u64, &Chunk)| *at < end && offset < at + u64::from(chunk.length);
        if step.flags & op_flag::WITH_REFERENCE == 0 || before.iter().any(overlaps) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let target_offset = u32::try_from(target_offset).map_err(|_| Errno::EINVAL)?;
        let length = u32::try_from(length).map_err(|_| Errno::EINVAL)?;
        let (target, is_missing, has_reference) = (target.into_object(), false, true);
        let mut chunks = before.clone();
        chunks.insert(offset, Chunk { offset: target_offset, length, target, is_missing, has_reference });
        self.refer_to(&before, chunks)?;
        self.view.touch();
        Ok(Output::default())
    }

    /// Makes `chunks` the object's chunks instead of those `before`, once the objects that they are parts of know of
    /// the references.
    pub(super) fn refer_to(&mut self, before: &ChunkMap, chunks: ChunkMap) -> Result<(), Stop> {
        if before.is_empty() && chunks.is_empty() {
            return Ok(());
        }
        let has_clone = self.view.needs_clone(self.op, &snap_context(self.ctx, self.op));
        let new = self.view.new_references(before, &chunks, has_clone)?;
        for (number, target) in (0..).zip(new) {
            let result = self.ask(number, &target)?;
            if result < 0 {
                return Err(self.view.refuse(Errno::of_result(result)));
            }
            self.view.note_reference(target);
        }
        self.view.forget_manifest();
        self.view.info.set_chunks(chunks);
        Ok(())
    }

    /// Takes in what the other objects have, instead of what the object had itself; the parts stay its chunks.
    pub(super) fn promote_chunks(&mut self, mut chunks: ChunkMap) -> Result<Output, Stop> {
        for (offset, chunk) in &mut chunks {
            self.view.take_in(*offset, chunk)?;
            chunk.is_missing = false;
        }
        self.view.info.set_chunks(chunks);
        self.view.touch();
        Ok(Output::default())
    }

    /// Evicts all chunks: only the other objects have their data then.
    pub(super) fn tier_evict(&mut self) -> Result<Output, Stop> {
        self.view.check_exists()?;
        let Some(mut chunks) = self.view.info.chunks().cloned() else { return Err(Errno::EINVAL.into()) };
        for (offset, chunk) in &mut chunks {
            if !chunk.is_missing {
                chunk.is_missing = true;
                self.view.evict(*offset, u64::from(chunk.length));
            }
        }
        self.view.info.set_chunks(chunks);
        self.view.touch();
        Ok(Output::default())
    }
}
