//! A checkpoint: changed pages to new places, tables of them, the map of used space, a root, then the
//! superblock that makes them the truth.
//!
//! The state written is that of the moment in which the checkpoint began, pending bytes included, so that
//! it needs no record before that: applied transactions whose records are not written are made durable
//! by it too. Requests go on meanwhile. They find frozen pages rendered before they change them
//! ([`crate::index`]), and nothing takes longer than a page or two: each call renders a bounded part, and goes
//! on when the device has answered.
//!
//! Nothing that the last durable superblock refers to is written over or given back before the new one is
//! durable. A checkpoint that finds no room ends without a superblock: what it has placed stays in the
//! directory, as pages that no superblock refers to yet, and the next checkpoint goes on from there.

use std::collections::VecDeque;

use bytes::Bytes;
use codec::{AlignedBuf, BLOCK_BYTES, Encode, Features};
use types::{CollId, HObject, PoolId};

use super::{Background, Purpose, Store, Unmount};
use crate::{
    device::BLOCK,
    index::{PendingPage, PendingPiece, Place, ROOT_MAGIC, Root, blob_crc},
    pending::Pending,
    pool_usage::PoolUsage,
    space::{BlockSet, Run},
    superblock::{Blob, COPIES, ROOT_RUNS_MAX, Superblock},
};

/// Writes in flight at once: few, as requests go on meanwhile.
const WRITES_MAX: usize = 8;
/// Writes in flight at once while requests wait for the checkpoint.
const WRITES_MAX_URGENT: usize = 32;
/// Parts rendered in one call.
const STEPS_MAX: usize = 2;
/// Parts rendered in one call while requests wait for the checkpoint.
const STEPS_MAX_URGENT: usize = 8;
/// The part of the index' memory beyond which pages that are written stay as their bytes, and the part that entries by
/// themselves may have: an allocator keeps much of what they took at their most.
const PACKED_PART: u64 = 2;
const UNPACKED_PART: u64 = 8;
/// Runs given back in one call.
const RELEASES_MAX: usize = 256;
/// Pending bytes in one page of them.
pub(super) const PENDING_PAGE_BYTES: usize = 128 << 10;

#[derive(Debug)]
pub(super) struct Checkpoint {
    /// The one to be written, complete but for the root.
    superblock: Superblock,
    /// What the journal's records up to it leave pending in a mount, in memory.
    journal_memory: u64,
    colls: Vec<CollId>,
    /// What each pool takes, and bytes of omap.
    sums: (Vec<(PoolId, PoolUsage)>, u64),
    /// What was pending when the checkpoint began, and from which byte of the object on it is not rendered.
    pendings: VecDeque<(CollId, HObject, Pending, u64)>,
    pending_blobs: Vec<Blob>,
    /// Blocks that are to be given back.
    freed: BlockSet,
    /// Placed bytes that wait for their turn.
    writes: VecDeque<(Run, Bytes)>,
    writing_count: usize,
    /// True if the superblock goes, or went, to the other copy's place, too.
    is_in_both: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Pages,
    Pendings,
    Tables,
    SpaceMap,
    Root,
    /// All is rendered; the checkpoint waits for the writes under way.
    Wait,
    Flush,
    Superblock,
    /// The checkpoint is durable; blocks to which it does not refer are given back.
    Release,
    /// There was no room; the checkpoint waits for the writes under way.
    NoSpace,
}

impl Checkpoint {
    /// True if it is durable and has only blocks to give back.
    pub(super) fn is_durable(&self) -> bool {
        self.stage == Stage::Release
    }
}

/// There are not enough free blocks.
#[derive(Debug)]
pub(super) struct NoSpace;

/// What a blob is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlobKind {
    Index,
    /// The map of used space, which does not show its own blocks.
    Map,
    /// The root, of so many runs at most, as the superblock lists them; the map does not show its blocks either.
    Root(usize),
}

impl Store {
    /// Starts a checkpoint of the state as it is now.
    pub(super) fn start_checkpoint(&mut self) {
        self.index.freeze();
        let pendings = self.pending.objects.iter().filter_map(|(coll, object)| {
            Some((*coll, object.clone(), self.index.get(*coll, object)?.pending.clone(), 0))
        });
        let pendings = pendings.collect();
        let next = self.ring.head();
        let superblock = Superblock {
            sequence: self.superblock.sequence + 1,
            journal_position: next.position,
            journal_sequence: next.sequence,
            last_txn: self.last_txn,
            is_clean: u8::from(self.unmount == Unmount::Flushed),
            root: Blob::default(),
            ..self.superblock.clone()
        };
        self.space.freeze();
        self.background = Background::Checkpoint(Box::new(Checkpoint {
            superblock,
            journal_memory: self.ring.head_memory(),
            colls: self.index.colls.keys().copied().collect(),
            sums: (self.index.pools.iter().collect(), self.index.omap_bytes),
            pendings,
            pending_blobs: Vec::new(),
            freed: BlockSet::default(),
            writes: VecDeque::new(),
            writing_count: 0,
            is_in_both: false,
            stage: Stage::Pages,
        }));
        self.pump_checkpoint();
    }

    /// Goes on with the checkpoint, as far as one call may take.
    pub(super) fn pump_checkpoint(&mut self) {
        let is_urgent = self.waiting.has_held();
        let writes_max = if is_urgent { WRITES_MAX_URGENT } else { WRITES_MAX };
        let steps_max = if is_urgent { STEPS_MAX_URGENT } else { STEPS_MAX };
        for step in 0.. {
            self.issue_checkpoint_writes(writes_max);
            let Background::Checkpoint(checkpoint) = &self.background else { return };
            let (stage, writing_count) = (checkpoint.stage, checkpoint.writing_count);
            match stage {
                // The checkpoint goes on when the writes in flight come back.
                Stage::Pages | Stage::Pendings | Stage::Tables | Stage::SpaceMap | Stage::Root => {
                    if writing_count >= writes_max || writing_count > 0 && step >= steps_max {
                        return;
                    }
                    if self.render_step(stage).is_err() {
                        tracing::error!("no room for a checkpoint");
                        self.set_checkpoint_stage(Stage::NoSpace);
                    }
                }
                Stage::Wait => {
                    if writing_count == 0 && !self.has_data_under_way() {
                        self.set_checkpoint_stage(Stage::Flush);
                        // Of all devices; the main one has most to do for it.
                        let token = self.token(Purpose::CheckpointFlush, 0);
                        self.commands.push(crate::DeviceCommand::Flush { token });
                    }
                    return;
                }
                Stage::NoSpace => {
                    if writing_count == 0 {
                        self.abandon_checkpoint();
                    }
                    return;
                }
                // While something is in flight there will be another turn.
                Stage::Release if step > 0 && self.unmount == Unmount::No && !self.outstanding.is_empty() => {
                    return;
                }
                Stage::Release => {
                    if !self.release_step() {
                        return self.end_checkpoint();
                    }
                }
                Stage::Flush | Stage::Superblock => return,
            }
        }
    }

    fn set_checkpoint_stage(&mut self, stage: Stage) {
        if let Background::Checkpoint(checkpoint) = &mut self.background {
            checkpoint.stage = stage;
        }
    }

    /// True while data is not durable that the checkpoint's state refers to.
    fn has_data_under_way(&self) -> bool {
        let Background::Checkpoint(checkpoint) = &self.background else { return false };
        let last = checkpoint.superblock.last_txn;
        self.queue.iter().any(|queued| queued.txn <= last && queued.directs_left > 0)
    }

    fn issue_checkpoint_writes(&mut self, writes_max: usize) {
        loop {
            let Background::Checkpoint(checkpoint) = &mut self.background else { return };
            if checkpoint.writing_count >= writes_max {
                return;
            }
            let Some((run, data)) = checkpoint.writes.pop_front() else { return };
            checkpoint.writing_count += 1;
            self.write_device(run.start, data, false, Purpose::CheckpointWrite);
        }
    }

    pub(super) fn checkpoint_write_done(&mut self) {
        if let Background::Checkpoint(checkpoint) = &mut self.background {
            checkpoint.writing_count -= 1;
        }
    }

    /// Renders and places one part, or goes on to the next stage.
    fn render_step(&mut self, stage: Stage) -> Result<(), NoSpace> {
        let next = match stage {
            Stage::Pages if self.render_page()? => return Ok(()),
            Stage::Pages => Stage::Pendings,
            Stage::Pendings if self.render_pending()? => return Ok(()),
            Stage::Pendings => Stage::Tables,
            Stage::Tables if self.render_table()? => return Ok(()),
            Stage::Tables => {
                // The map is to show them as free.
                let gone = std::mem::take(&mut self.pending.blobs);
                let runs = gone.into_iter().flat_map(|blob| blob.runs);
                runs.for_each(|run| self.space.release_index(run));
                Stage::SpaceMap
            }
            Stage::SpaceMap if self.render_region()? => return Ok(()),
            Stage::SpaceMap => Stage::Root,
            Stage::Root => {
                self.render_root()?;
                Stage::Wait
            }
            Stage::Wait | Stage::Flush | Stage::Superblock | Stage::Release | Stage::NoSpace => return Ok(()),
        };
        self.set_checkpoint_stage(next);
        Ok(())
    }

    /// False when there are no more.
    fn render_page(&mut self) -> Result<bool, NoSpace> {
        let max = self.config.index_bytes_max;
        let packs =
            self.index.memory() > max / PACKED_PART || self.index.unpacked_memory() > max / UNPACKED_PART;
        let Some(image) = self.index.next_image(packs) else { return Ok(false) };
        let blob = match self.place_blob(&image.bytes, BlobKind::Index) {
            Ok(blob) => blob,
            Err(error) => {
                self.index.put_back(image);
                return Err(error);
            }
        };
        let is_empty = blob.runs.is_empty();
        let (place, mut gone) = (self.new_place(blob), Vec::new());
        self.index.directory.set_page(&image.first, place, &mut gone);
        if is_empty && !self.index.is_dirty(&image.first) {
            self.index.directory.drop_page(&image.first, &mut gone);
        }
        self.retire(gone);
        Ok(true)
    }

    fn render_pending(&mut self) -> Result<bool, NoSpace> {
        let Background::Checkpoint(checkpoint) = &mut self.background else { return Ok(false) };
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        while bytes < PENDING_PAGE_BYTES
            && let Some((coll, object, pending, from)) = checkpoint.pendings.front_mut()
        {
            match pending.piece_from(*from) {
                Some((offset, data)) => {
                    bytes += data.len();
                    *from = offset + data.len() as u64;
                    let data = data.clone();
                    pieces.push(PendingPiece { coll: *coll, object: object.clone(), offset, data });
                }
                None => {
                    checkpoint.pendings.pop_front();
                }
            }
        }
        if pieces.is_empty() {
            return Ok(false);
        }
        let page = PendingPage::new(pieces).to_bytes(Features::default());
        let blob = self.place_blob(&page, BlobKind::Index)?;
        if let Background::Checkpoint(checkpoint) = &mut self.background {
            checkpoint.pending_blobs.push(blob);
        }
        Ok(true)
    }

    fn render_table(&mut self) -> Result<bool, NoSpace> {
        let Some((first, table)) = self.index.directory.take_dirty_table() else { return Ok(false) };
        match self.place_blob(&table.to_bytes(Features::default()), BlobKind::Index) {
            Ok(blob) => {
                let (place, mut gone) = (self.new_place(blob), Vec::new());
                self.index.directory.set_table(&first, place, &mut gone);
                self.retire(gone);
                Ok(true)
            }
            Err(error) => {
                self.index.directory.keep_dirty(&first);
                Err(error)
            }
        }
    }

    /// False when there are no more. The blocks of the record itself were free or are the map's own: no
    /// record shows them, whether it is rendered before or after this one is placed.
    fn render_region(&mut self) -> Result<bool, NoSpace> {
        let Some(region) = self.space.changes.next_region() else { return Ok(false) };
        let record = self.space.render_region(region, self.discards.runs());
        let blob = self.place_blob(&record, BlobKind::Map)?;
        let place = self.new_place(blob);
        let at = region as usize;
        if at >= self.regions.len() {
            self.regions.resize_with(at + 1, Place::default);
        }
        let old = std::mem::replace(&mut self.regions[at], place);
        let is_durable = old.sequence <= self.superblock.sequence;
        for run in old.blob.runs {
            if is_durable {
                self.space.release_map(run);
            } else {
                self.space.free_map(run);
            }
        }
        Ok(true)
    }

    fn render_root(&mut self) -> Result<(), NoSpace> {
        let Background::Checkpoint(checkpoint) = &self.background else { return Ok(()) };
        let regions = self.regions.iter().map(|place| place.blob.clone()).collect();
        let (pools, omap_bytes) = checkpoint.sums.clone();
        let root = Root {
            magic: ROOT_MAGIC,
            colls: checkpoint.colls.clone(),
            pools,
            omap_bytes,
            pendings: checkpoint.pending_blobs.clone(),
            regions,
            tables: self.index.directory.tables(),
        };
        let blob = self.place_blob(&root.to_bytes(Features::default()), BlobKind::Root(ROOT_RUNS_MAX))?;
        // From here on nothing fails but the device.
        let old = std::mem::take(&mut self.superblock.root);
        old.runs.into_iter().for_each(|run| self.space.release_map(run));
        if let Background::Checkpoint(checkpoint) = &mut self.background {
            checkpoint.superblock.root = blob;
        }
        Ok(())
    }

    fn new_place(&self, blob: Blob) -> Place {
        Place { blob, sequence: self.superblock.sequence + 1 }
    }

    /// Finds room for bytes and queues their writes. No bytes need no room.
    pub(super) fn place_blob(&mut self, bytes: &[u8], part_of: BlobKind) -> Result<Blob, NoSpace> {
        if bytes.is_empty() {
            return Ok(Blob::default());
        }
        let count = u32::try_from(bytes.len()).map_err(|_| NoSpace)?;
        let blocks = bytes.len().div_ceil(BLOCK_BYTES) as u64;
        let runs = match part_of {
            BlobKind::Index => self.space.allocate_index(blocks),
            BlobKind::Map => self.space.allocate_map(blocks, usize::MAX),
            BlobKind::Root(runs_max) => self.space.allocate_map(blocks, runs_max),
        };
        let runs = runs.ok_or(NoSpace)?;
        let data = Bytes::from(AlignedBuf::from_slice(bytes));
        let mut at = 0;
        for &run in &runs {
            let end = at + (run.count * BLOCK) as usize;
            if let Background::Checkpoint(checkpoint) = &mut self.background {
                checkpoint.writes.push_back((run, data.slice(at..end)));
            }
            at = end;
        }
        Ok(Blob { runs: runs.into(), bytes: count, crc: blob_crc(bytes) })
    }

    /// Pages and tables that the checkpoint replaces. No superblock refers to what an abandoned one placed:
    /// its blocks are free at once.
    fn retire(&mut self, gone: Vec<Place>) {
        for place in gone {
            let is_durable = place.sequence <= self.superblock.sequence;
            for run in place.blob.runs {
                if is_durable {
                    self.space.release_index(run);
                } else {
                    self.space.free(run);
                }
            }
        }
    }

    /// Ends a checkpoint that found no room, when nothing of it is on its way any more.
    fn abandon_checkpoint(&mut self) {
        let Background::Checkpoint(checkpoint) = std::mem::replace(&mut self.background, Background::Idle)
        else {
            return;
        };
        self.index.thaw();
        self.space.keep_mount_reserve(false);
        let runs = checkpoint.pending_blobs.into_iter().flat_map(|blob| blob.runs);
        runs.for_each(|run| self.space.free(run));
        self.space.thaw();
        self.note_no_room();
        // Nothing more can be made durable in order: the records hold what is committed.
        let is_stuck = self.is_journal_full || self.waiting.has_held();
        if self.unmount == Unmount::Flushed || self.unmount == Unmount::Wanted && is_stuck {
            self.unmount = Unmount::Done;
        }
    }

    pub(super) fn checkpoint_flushed(&mut self) {
        let Background::Checkpoint(checkpoint) = &mut self.background else { return };
        checkpoint.stage = Stage::Superblock;
        self.write_superblock(0);
    }

    /// Writes the checkpoint's superblock to the place of the older copy, or to the one after that.
    fn write_superblock(&mut self, copy: u64) {
        let Background::Checkpoint(checkpoint) = &self.background else { return };
        let block = COPIES[((checkpoint.superblock.sequence + copy) % COPIES.len() as u64) as usize];
        let data = Bytes::from(AlignedBuf::from_slice(&checkpoint.superblock.to_block()));
        self.write_device(block, data, true, Purpose::CheckpointSuperblock);
    }

    /// The superblock is durable: what it says is the truth. Where nothing else tells of transactions that it commits,
    /// the other copy has to do so before it does: a mount that cannot read this one goes by that one. So it is at a
    /// clean end, which nothing follows.
    pub(super) fn checkpoint_done(&mut self) {
        let Background::Checkpoint(checkpoint) = &mut self.background else { return };
        let superblock = &checkpoint.superblock;
        let is_alone = superblock.last_txn > self.committed_txn || superblock.is_clean == 1;
        if is_alone && !std::mem::replace(&mut checkpoint.is_in_both, true) {
            return self.write_superblock(1);
        }
        checkpoint.stage = Stage::Release;
        self.ring.trim(checkpoint.superblock.journal_position, checkpoint.journal_memory);
        checkpoint.freed = self.space.changes.finish();
        self.superblock = checkpoint.superblock.clone();
        self.pending.blobs = std::mem::take(&mut checkpoint.pending_blobs);
        self.index.checkpointed();
        self.no_room = None;
        self.space.keep_mount_reserve(true);
        self.is_journal_full = false;
        let last = self.superblock.last_txn;
        while self.queue.front().is_some_and(|queued| queued.txn <= last) {
            self.queue.pop_front();
        }
        self.commit(last);
        self.look_again();
        self.pump_checkpoint();
    }

    /// Gives some blocks back; false when there are no more.
    fn release_step(&mut self) -> bool {
        for _ in 0..RELEASES_MAX {
            let Background::Checkpoint(checkpoint) = &mut self.background else { return false };
            let Some(run) = checkpoint.freed.pop_first() else { return false };
            self.cache.remove(run);
            self.space.leave_quarantine(run);
            self.space.free(run);
            self.queue_discard(run);
        }
        true
    }

    fn end_checkpoint(&mut self) {
        self.background = Background::Idle;
        self.pending.has_room_again = std::mem::take(&mut self.pending.lacks_room);
        if self.unmount == Unmount::Flushed {
            self.unmount = Unmount::Done;
        }
    }
}
