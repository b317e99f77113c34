//! The way of a transaction: applied at once, data of large writes to new space, the rest into a record.

use bytes::Bytes;
use codec::{AlignedBuf, BLOCK_BYTES, Payload, crc32c, traffic};
use types::{HObject, Mutation, Token, Transaction, TxnOp};

use super::{Purpose, Store, space_estimate::whole_bytes};
use crate::{
    cache::Retention,
    device::BLOCK,
    journal::{Direct, Draft, Encoded, Header, is_of_blocks, shape},
    space::Run,
};

/// A transaction that waits for its record.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) txn: u64,
    encoded: Encoded,
    /// Writes of its data that the device has not answered.
    pub(super) directs_left: usize,
}

/// The object that a transaction makes as a clone before anything else.
pub(super) fn cloned_by(txn: &Transaction) -> Option<&HObject> {
    match txn.ops.first() {
        Some(TxnOp::Object(object, Mutation::CloneFrom { .. })) => Some(object),
        _ => None,
    }
}

impl Store {
    pub(super) fn submit_txn(&mut self, token: Token, txn: Transaction) {
        assert!(self.unmount == super::Unmount::No, "nothing is submitted to a store that unmounts");
        if self.must_defer(&txn) {
            self.defer(token, txn);
        } else {
            self.submit_now(token, txn);
        }
    }

    /// Applies a transaction whose index pages are in memory, for a caller that waits for its commit.
    pub(super) fn submit_now(&mut self, token: Token, txn: Transaction) {
        self.apply_now(txn);
        self.uncommitted.push_back((self.last_txn, token));
    }

    /// Applies a transaction whose index pages are in memory and for whose commit no caller waits: it is part of one
    /// that a caller waits for.
    pub(super) fn apply_now(&mut self, txn: Transaction) {
        self.last_txn += 1;
        let index = self.last_txn;
        self.index.txn = index;
        let mut draft = Draft::new(txn.coll);
        let cloned = cloned_by(&txn).cloned();
        let mut directs_left = 0;
        for op in txn.ops {
            self.submit_op(&mut draft, op, index, cloned.as_ref(), &mut directs_left);
        }
        self.queue.push_back(Queued { txn: index, encoded: draft.finish(), directs_left });
    }

    fn submit_op(
        &mut self,
        draft: &mut Draft,
        op: TxnOp,
        txn: u64,
        cloned: Option<&HObject>,
        directs_left: &mut usize,
    ) {
        match op {
            TxnOp::Object(object, Mutation::Write { offset, data })
                if self.goes_to_new_space(&object, offset, data.len() as u64, cloned) =>
            {
                self.submit_large(draft, object, (offset, data), txn, directs_left);
            }
            mut op => {
                keep(&mut op);
                self.submit_step(draft, op, txn);
            }
        }
    }

    /// True for a write whose whole blocks do not wait to be written in place: one that is large, or to an object that
    /// the same transaction makes as a clone ([`cloned_by`]). The next clone is made of that one, as where an object is
    /// recovered with its clones, and blocks that were pending then would be written for each of them.
    #[inline]
    pub(super) fn goes_to_new_space(
        &self,
        object: &HObject,
        offset: u64,
        len: u64,
        cloned: Option<&HObject>,
    ) -> bool {
        let is_large = len > self.config.small_write_bytes_max;
        is_large || cloned.is_some_and(|cloned| cloned == object) && whole_bytes(offset, len) > 0
    }

    fn submit_step(&mut self, draft: &mut Draft, op: TxnOp, txn: u64) {
        draft.push(&op);
        self.apply_op(draft.coll, op, txn);
    }

    /// Whole blocks go to new space, what is left at the ends by the journal. Without new space all of
    /// it goes by the journal.
    fn submit_large(
        &mut self,
        draft: &mut Draft,
        object: HObject,
        (offset, data): (u64, Payload),
        txn: u64,
        directs_left: &mut usize,
    ) {
        let end = offset + data.len() as u64;
        let (first, last) = (offset.div_ceil(BLOCK), end / BLOCK);
        let runs = (first < last).then(|| self.allocate_data(last - first)).flatten();
        let Some(runs) = runs else {
            let write = Mutation::Write { offset, data: kept(data) };
            return self.submit_step(draft, TxnOp::Object(object, write), txn);
        };
        let head = (first * BLOCK - offset) as usize;
        let middle = data.slice(head..head + ((last - first) * BLOCK) as usize);
        let known = data.block_crcs().filter(|_| head == 0).map(<[u32]>::to_vec);
        let tail = data.slice(head + middle.len()..);
        for (at, part) in [(offset, data.slice(..head)), (last * BLOCK, tail)] {
            if !part.is_empty() {
                let write = Mutation::Write { offset: at, data: kept(part.into()) };
                self.submit_step(draft, TxnOp::Object(object.clone(), write), txn);
            }
        }
        let aligned = align(middle);
        let sum = || aligned.chunks(BLOCK_BYTES).map(|block| crc32c(u32::MAX, block)).collect();
        let crcs: Vec<u32> = known.unwrap_or_else(sum);
        let mut at = 0;
        for &run in &runs {
            let part = aligned.slice(at * BLOCK_BYTES..(at + run.count as usize) * BLOCK_BYTES);
            let part_crcs = crcs[at..at + run.count as usize].to_vec();
            self.cache.insert(run.start, part.clone(), part_crcs, Retention::UntilWritten);
            self.write_device(run.start, part, true, Purpose::Direct { txn, run });
            *directs_left += 1;
            at += run.count as usize;
        }
        self.cache.evict();
        let before_op = draft.op_count;
        let direct = Direct { before_op, object, block: first, runs, crcs };
        self.apply_direct(draft.coll, &direct, txn);
        draft.directs.push(direct);
    }

    pub(super) fn direct_done(&mut self, txn: u64, run: Run) {
        self.cache.written(run);
        if let Ok(at) = self.queue.binary_search_by_key(&txn, |queued| queued.txn) {
            self.queue[at].directs_left -= 1;
        }
    }

    /// Writes records while there is something to write, room, and few are in flight. A transaction
    /// whose data is still on its way holds up those behind it: commits keep their order.
    pub(super) fn write_records(&mut self) {
        self.stop_on_contradiction();
        while self.fault.is_none() && self.ring.writing_count() < self.config.journal_writes_max {
            let (mut count, mut meta_bytes, mut payload_bytes, mut memory) = (0, 0, 0, 0);
            for queued in self.queue.iter().take_while(|queued| queued.directs_left == 0) {
                if count > 0
                    && meta_bytes + payload_bytes + queued.encoded.bytes() > self.config.record_bytes_max
                {
                    break;
                }
                count += 1;
                meta_bytes += queued.encoded.meta.len();
                payload_bytes += queued.encoded.payload_bytes;
                memory += queued.encoded.replay_memory();
            }
            if count == 0 {
                return;
            }
            let blocks = shape(meta_bytes, payload_bytes).0 as u64;
            if self.ring.waits_for_zeros(blocks) {
                return;
            }
            let first_txn = self.queue[0].txn;
            let Some(place) = self.ring.reserve(blocks, first_txn + count as u64 - 1, memory) else {
                // A checkpoint makes room, and commits what is applied without a record.
                self.is_journal_full = true;
                return;
            };
            let batch = self.queue.range(..count).map(|queued| &queued.encoded);
            let ids = (self.superblock.epoch, place.sequence, first_txn);
            let record = Header::build(self.superblock.record_key(), ids, batch);
            self.queue.drain(..count);
            let journal = self.superblock.journal.start;
            let block = journal + self.ring.block_at(place.position);
            self.write_pieces(block, record, true, Purpose::Journal { sequence: place.sequence });
            if let Some(blocks) = self.ring.wants_zeros() {
                let zeros = self.ring.zeros(blocks.end - blocks.start);
                self.write_pieces(journal + blocks.start, zeros, true, Purpose::JournalZeros);
            }
        }
    }

    pub(super) fn record_done(&mut self, sequence: u64) {
        if let Some(last) = self.ring.done(sequence) {
            self.commit(last);
        }
    }
}

/// The bytes as a device takes them: whole blocks in aligned memory, copied only if they are not there yet.
fn align(data: Bytes) -> Bytes {
    if is_of_blocks(&data) { data } else { AlignedBuf::from_slice(&data).into() }
}

/// Puts the data of an op that is to be applied into memory that may be kept: it stays there until it is flushed, and
/// must not keep the buffer that it came in.
pub(super) fn keep(op: &mut TxnOp) {
    if let TxnOp::Object(_, Mutation::Write { data, .. }) = op {
        *data = kept(std::mem::take(data));
    }
}

/// The data in memory that may be kept: of just its size, and in whole blocks where there are any, so that it goes to
/// the journal, and to its place, as it is. What came with its checksum was alone in its message and has
/// such memory already. The journal needs the checksum of all.
fn kept(mut data: Payload) -> Payload {
    if data.known_crc().is_some() && is_of_blocks(&data) {
        return data;
    }
    let crc = data.seal();
    let bytes = if data.len().is_multiple_of(BLOCK_BYTES) {
        AlignedBuf::from_slice(&data).into()
    } else {
        traffic::copied(data.len());
        Bytes::copy_from_slice(&data)
    };
    Payload::new(bytes, Some(crc))
}
