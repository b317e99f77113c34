//! A checkpoint: changed pages to new places, a root, then the superblock that makes them the truth.
//!
//! The state written is that of one moment, pending bytes included, so that it needs no record before
//! it: applied transactions whose records are not written are made durable by it too.

use std::collections::VecDeque;

use bytes::Bytes;
use codec::{AlignedBuf, BLOCK_BYTES, Encode, Features};

use super::{Background, Purpose, Store, Unmount};
use crate::{
    allocator::Run,
    device::BLOCK,
    index::{Key, PageImage, Root, blob_crc},
    superblock::{Blob, COPIES, ROOT_RUNS_MAX, Superblock},
};

/// Page writes in flight at once: few, as requests go on meanwhile.
const WRITES_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Checkpoint {
    superblock: Superblock,
    /// What may be used again when the checkpoint is durable.
    freed: Vec<Run>,
    /// Pages that wait for their turn.
    writes: VecDeque<(Run, Bytes)>,
    writing_count: usize,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Pages,
    Flush,
    Superblock,
}

impl Store {
    /// Takes the state as it is. Without room for it nothing happens; a later one may find some.
    pub(super) fn start_checkpoint(&mut self) {
        self.background = Background::Idle;
        let (olds, images) = self.index.render_dirty();
        let Some(placed) = self.place_pages(&olds, images) else {
            tracing::error!("no room for a checkpoint");
            return;
        };
        let Placed { pages, root, writes, taken: _ } = placed;
        for old in &olds {
            if let Some(blob) = self.index.pages.remove(old) {
                blob.runs.into_iter().for_each(|run| self.space.release(run));
            }
        }
        let old_root = std::mem::take(&mut self.superblock.root.runs);
        old_root.into_iter().for_each(|run| self.space.release(run));
        self.index.pages.extend(pages);
        self.index.mark_clean();
        let (journal_position, journal_sequence) = self.ring.head();
        let superblock = Superblock {
            sequence: self.superblock.sequence + 1,
            journal_position,
            journal_sequence,
            last_txn: self.last_txn,
            is_clean: u8::from(self.unmount == Unmount::Flushed),
            root,
            ..self.superblock.clone()
        };
        let freed = self.space.take_quarantine();
        let writes = writes.into();
        let checkpoint = Checkpoint { superblock, freed, writes, writing_count: 0, stage: Stage::Pages };
        self.background = Background::Checkpoint(Box::new(checkpoint));
        self.pump_checkpoint();
    }

    fn place_pages(&mut self, olds: &[Key], images: Vec<PageImage>) -> Option<Placed> {
        let mut placed = Placed::default();
        let ok = self.try_place(olds, images, &mut placed);
        if !ok {
            placed.taken.iter().for_each(|&run| self.space.free(run));
        }
        ok.then_some(placed)
    }

    fn try_place(&mut self, olds: &[Key], images: Vec<PageImage>, placed: &mut Placed) -> bool {
        for image in images {
            let Some(blob) = self.place_blob(image.bytes, placed) else { return false };
            placed.pages.push((image.first, blob));
        }
        let kept = self.index.pages.iter().filter(|(key, _)| olds.binary_search(key).is_err());
        let mut all: Vec<(Key, Blob)> = kept.map(|(key, blob)| (key.clone(), blob.clone())).collect();
        all.extend(placed.pages.iter().cloned());
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let root = Root::new(self.index.colls.keys().copied().collect(), all);
        let Some(blob) = self.place_blob(root.to_bytes(Features::default()).to_vec(), placed) else {
            return false;
        };
        placed.root = blob;
        placed.root.runs.len() <= ROOT_RUNS_MAX
    }

    fn place_blob(&mut self, bytes: Vec<u8>, placed: &mut Placed) -> Option<Blob> {
        let runs = self.space.allocate_index(bytes.len().div_ceil(BLOCK_BYTES) as u64)?;
        placed.taken.extend(&runs);
        let data = Bytes::from(AlignedBuf::from_slice(&bytes));
        let mut at = 0;
        for &run in &runs {
            let end = at + (run.count * BLOCK) as usize;
            placed.writes.push((run, data.slice(at..end)));
            at = end;
        }
        Some(Blob { runs, bytes: u32::try_from(bytes.len()).ok()?, crc: blob_crc(&bytes) })
    }

    pub(super) fn checkpoint_page_done(&mut self) {
        if let Background::Checkpoint(checkpoint) = &mut self.background {
            checkpoint.writing_count -= 1;
        }
    }

    /// Goes on when the pages and the data that they refer to are written.
    pub(super) fn pump_checkpoint(&mut self) {
        self.issue_page_writes();
        let Background::Checkpoint(checkpoint) = &mut self.background else { return };
        let last = checkpoint.superblock.last_txn;
        let waits = |queued: &super::Queued| queued.txn <= last && queued.directs_left > 0;
        if checkpoint.stage != Stage::Pages || checkpoint.writing_count > 0 || self.queue.iter().any(waits) {
            return;
        }
        checkpoint.stage = Stage::Flush;
        let token = self.token(Purpose::CheckpointFlush);
        self.commands.push(crate::DeviceCommand::Flush { token });
    }

    fn issue_page_writes(&mut self) {
        loop {
            let Background::Checkpoint(checkpoint) = &mut self.background else { return };
            if checkpoint.writing_count >= WRITES_MAX {
                return;
            }
            let Some((run, data)) = checkpoint.writes.pop_front() else { return };
            checkpoint.writing_count += 1;
            self.write_device(run.start, data, false, Purpose::CheckpointPage);
        }
    }

    pub(super) fn checkpoint_flushed(&mut self) {
        let Background::Checkpoint(checkpoint) = &mut self.background else { return };
        checkpoint.stage = Stage::Superblock;
        let block = COPIES[(checkpoint.superblock.sequence % COPIES.len() as u64) as usize];
        let data = Bytes::from(AlignedBuf::from_slice(&checkpoint.superblock.to_block()));
        self.write_device(block, data, true, Purpose::CheckpointSuperblock);
    }

    pub(super) fn checkpoint_done(&mut self) {
        let Background::Checkpoint(checkpoint) = std::mem::replace(&mut self.background, Background::Idle)
        else {
            return;
        };
        self.superblock = checkpoint.superblock;
        self.ring.trim(self.superblock.journal_position);
        self.is_journal_full = false;
        for run in checkpoint.freed {
            self.cache.remove(run);
            self.space.leave_quarantine(run);
            self.space.free(run);
            self.queue_discard(run);
        }
        self.pump_discards();
        let last = self.superblock.last_txn;
        while self.queue.front().is_some_and(|queued| queued.txn <= last) {
            self.queue.pop_front();
        }
        self.commit(last);
        if self.unmount == Unmount::Flushed {
            self.unmount = Unmount::Done;
        }
    }
}

/// Where a checkpoint's bytes go.
#[derive(Default)]
struct Placed {
    pages: Vec<(Key, Blob)>,
    root: Blob,
    writes: Vec<(Run, Bytes)>,
    taken: Vec<Run>,
}
