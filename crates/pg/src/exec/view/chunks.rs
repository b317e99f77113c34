//! An object's chunks under the ops of a request (see `exec::chunks`).

use std::collections::BTreeMap;

use classes::Stop;
use codec::Payload;
use messages::MOSDOp;
use types::{Chunk, ChunkMap, Errno, HObject, Mutation, ObjectManifest, SnapContext};

use super::{Piece, View, decode_xattr};
use crate::exec::{
    Blocked,
    chunks::{content_of, keeps_contents, lost, references},
    object_info::{INFO_XATTR, ObjectInfo},
};

/// Copies for chunks are told from those for ops by this bit. Below it are how often the object was rolled back, as the
/// chunks are others then, and the chunk's offset, which is lower than the largest object: 2^27.
const CHUNK_COPY: u32 = 1 << 31;
const ROLLBACK_SHIFT: u32 = 27;
const ROLLBACKS_MAX: u32 = 15;

/// True if a chunk at `at` has any of the bytes from `offset` to before `end`.
fn overlaps(at: u64, chunk: &Chunk, offset: u64, end: u64) -> bool {
    at < end && offset < at + u64::from(chunk.length)
}

impl View<'_> {
    /// The contents of the chunk at `at`, from the other object.
    fn chunk_content(&mut self, at: u64, chunk: &Chunk) -> Result<Payload, Stop> {
        if self.rollbacks > ROLLBACKS_MAX {
            return Err(self.refuse(Errno::EOPNOTSUPP));
        }
        let id = CHUNK_COPY | self.rollbacks << ROLLBACK_SHIFT | at as u32;
        match self.copied.get(&id) {
            None => Err(self.want_chunk(id, chunk)),
            Some(copied) if copied.result < 0 => Err(self.refuse(Errno::of_result(copied.result))),
            Some(copied) => {
                self.spend(chunk.length.into())?;
                Ok(content_of(chunk, copied))
            }
        }
    }

    /// Brings what was evicted from `offset` to before `end`, as the object does not have it, so that ops can read it.
    pub(super) fn bring_chunks(&mut self, offset: u64, end: u64) -> Result<(), Stop> {
        let Some(chunks) = self.info.chunks() else { return Ok(()) };
        let is_wanted = |(at, chunk): &(&u64, &Chunk)| chunk.is_missing && overlaps(**at, chunk, offset, end);
        let wanted: ChunkMap =
            chunks.iter().filter(is_wanted).map(|(at, chunk)| (*at, chunk.clone())).collect();
        for (at, chunk) in wanted {
            let content = self.chunk_content(at, &chunk)?.into_bytes();
            self.pieces.push(Piece::Data(at, content));
        }
        Ok(())
    }

    /// Writes the contents of the chunk at `at` to the object.
    pub(in crate::exec) fn take_in(&mut self, at: u64, chunk: &Chunk) -> Result<(), Stop> {
        let data = self.chunk_content(at, chunk)?;
        self.changed.insert(at, data.len() as u64);
        self.pieces.push(Piece::Data(at, data.clone().into_bytes()));
        self.mutations.push(Mutation::Write { offset: at, data });
        Ok(())
    }

    /// To be called before bytes change: chunks that they touch are chunks no more. An evicted chunk of which only a
    /// part changes is taken in first.
    pub(super) fn own(&mut self, offset: u64, len: u64) -> Result<(), Stop> {
        let Some(chunks) = self.info.chunks() else { return Ok(()) };
        let end = offset.saturating_add(len);
        let (touched, rest): (ChunkMap, ChunkMap) =
            chunks.clone().into_iter().partition(|(at, chunk)| overlaps(*at, chunk, offset, end));
        if touched.is_empty() {
            return Ok(());
        }
        for (at, chunk) in touched {
            let is_covered = offset <= at && at + u64::from(chunk.length) <= end;
            if chunk.is_missing && !is_covered {
                self.take_in(at, &chunk)?;
            }
        }
        self.info.set_chunks(rest);
        Ok(())
    }

    /// Forgets all chunks, as all of the object is about to change.
    pub(super) fn drop_chunks(&mut self) {
        if self.info.chunks().is_some() {
            self.info.manifest = None;
        }
    }

    /// Drops the object's own bytes of a chunk.
    pub(in crate::exec) fn evict(&mut self, offset: u64, len: u64) {
        self.changed.insert(offset, len);
        self.mutations.push(Mutation::Zero { offset, len });
    }

    fn chunks_of(&self, object: &HObject) -> Result<Option<ChunkMap>, Blocked> {
        let info = self.store.xattr(self.coll, object, INFO_XATTR).map_err(Blocked::from)?;
        let info: Option<ObjectInfo> = decode_xattr(info)?;
        Ok(info.and_then(|info| info.chunks().cloned()))
    }

    /// Remembers why an op stops.
    pub(super) fn stopped<T>(&mut self, result: Result<T, Blocked>) -> Result<T, Stop> {
        result.map_err(|blocked| {
            self.missing = Some(blocked);
            Stop::Missing
        })
    }

    /// How often the object's states refer to objects with this name.
    pub(super) fn count_references(&mut self, oid: &[u8]) -> Result<i32, Stop> {
        let clones = self.snapset.clones.iter().map(|clone| self.chunks_of(&self.head.with_snap(clone.id)));
        let mut states: Vec<Option<ChunkMap>> = self.stopped(clones.collect())?;
        states.push(self.info.chunks().cloned());
        let references = references(states.iter().map(Option::as_ref));
        let counts = references.iter().filter(|(target, _)| target.oid == oid).map(|(_, count)| count);
        Ok(i32::try_from(counts.sum::<i64>()).unwrap_or(i32::MAX))
    }

    /// The chunks of the states before and after the one that the request is for: of a clone, or of the head.
    fn neighbours(&self) -> Result<[Option<ChunkMap>; 2], Blocked> {
        let clones = &self.snapset.clones;
        let own = self.clone_info().and_then(|own| clones.iter().position(|clone| clone.id == own.id));
        let clone_at = |at: usize| clones.get(at).map(|clone| self.head.with_snap(clone.id));
        let older = own.unwrap_or(clones.len()).checked_sub(1).and_then(clone_at);
        let newer = own.map(|own| clone_at(own + 1).unwrap_or_else(|| self.head.clone()));
        let chunks_of = |object: Option<HObject>| object.map_or(Ok(None), |object| self.chunks_of(&object));
        Ok([chunks_of(older)?, chunks_of(newer)?])
    }

    /// References of all states that the object has beside each other, if it had these chunks after the request.
    fn references_with(
        &self,
        chunks: Option<&ChunkMap>,
        has_clone: bool,
    ) -> Result<BTreeMap<HObject, i64>, Blocked> {
        let [older, newer] = self.neighbours()?;
        let cloned = if has_clone { vec![self.old_info.chunks()] } else { Vec::new() };
        let states = [older.as_ref()].into_iter().chain(cloned).chain([chunks, newer.as_ref()]);
        Ok(references(states))
    }

    /// The objects that this one would refer to more often with `chunks` than with the chunks `before`: each as often
    /// as it gains references.
    pub(in crate::exec) fn new_references(
        &mut self,
        before: &ChunkMap,
        chunks: &ChunkMap,
        has_clone: bool,
    ) -> Result<Vec<HObject>, Stop> {
        if chunks == before {
            return Ok(Vec::new());
        }
        let references = |chunks| self.references_with(Some(chunks), has_clone);
        let new = references(chunks).and_then(|after| Ok(lost(after, &references(before)?)));
        self.stopped(new)
    }

    /// Notes that the object refers to `target` once more than before the request.
    pub(in crate::exec) fn note_reference(&mut self, target: HObject) {
        *self.taken.entry(target).or_default() += 1;
    }

    /// To be called after all ops: notes which objects the object's states do not refer to any more, as these are to be
    /// told.
    pub(in crate::exec) fn settle_chunks(&mut self, has_clone: bool) -> Result<(), Blocked> {
        let (old, new) = (self.old_info.chunks(), self.info.chunks().filter(|_| self.exists));
        if old == new && self.taken.is_empty() {
            return Ok(());
        }
        let mut before = self.references_with(old, false)?;
        for (target, count) in std::mem::take(&mut self.taken) {
            *before.entry(target).or_default() += count;
        }
        let after = self.references_with(new, has_clone)?;
        self.given_back.extend(lost(before, &after));
        Ok(())
    }

    /// True if a snapshot has to keep the head as it was.
    pub(in crate::exec) fn needs_clone(&self, op: &MOSDOp, snapc: &SnapContext) -> bool {
        self.existed
            && !self.is_same_for_snaps(op)
            && snapc.snaps.first().is_some_and(|s| *s > self.snapset.seq)
    }

    /// True if the head's contents stay the same, in whichever object they are kept.
    pub(in crate::exec) fn is_same_for_snaps(&self, op: &MOSDOp) -> bool {
        let was_redirect = self
            .old_info
            .manifest
            .as_ref()
            .is_some_and(|m| matches!(m.manifest, ObjectManifest::Redirect(_)));
        !was_redirect && op.ops.iter().all(|step| keeps_contents(step.code))
    }
}
