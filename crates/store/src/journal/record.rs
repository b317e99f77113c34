//! One record: a header block that goes on with the transactions' descriptions, then payloads.

use bytes::Bytes;
use codec::{AlignedBuf, BLOCK_BYTES, Codec, Decode, DecodeError, Encode, Features, Payload, Reader, crc32c};
use types::{CollId, HObject, Mutation, Transaction, TxnOp};

use super::JournalKey;
use crate::{device::BLOCK, pending::Amount, space::Run, superblock::COUNTER_END};

const MAGIC: u32 = 0x4a4c_4f4c;
/// Bytes of the header; the descriptions follow at once.
const RECORD_HEADER_BYTES: usize = 76;
const CRC_AT: usize = 4;

const _: () = assert!(RECORD_HEADER_BYTES == 4 + 4 + 16 + 8 + 8 + 8 + 8 + 4 + 4 + 4 + 4 + 4);

/// The fixed front of a record.
#[derive(Codec, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    magic: u32,
    /// crc32c of the header from the next field on, and of the descriptions. What fills up blocks is anything.
    crc: u32,
    /// Whose record it is.
    key: JournalKey,
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) first_txn: u64,
    pub(crate) txn_count: u64,
    pub(crate) block_count: u32,
    meta_bytes: u32,
    payload_at: u32,
    payload_bytes: u32,
    /// crc32c of the payloads end to end.
    payload_crc: u32,
}

/// Data that went straight to new space, as the journal knows it.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Direct {
    /// The step goes before this op of the transaction.
    pub(crate) before_op: u32,
    pub(crate) object: HObject,
    /// The first block in the object.
    pub(crate) block: u64,
    pub(crate) runs: Vec<Run>,
    pub(crate) crcs: Vec<u32>,
}

impl Direct {
    /// True if it has a checksum for each of its blocks, and an object may have these blocks.
    fn is_measured(&self) -> bool {
        let count = self.runs.iter().map(|run| run.count).fold(0, u64::saturating_add);
        let end = self.block.checked_add(count).and_then(|end| end.checked_mul(BLOCK));
        count == self.crcs.len() as u64 && end.is_some() && self.runs.iter().all(|run| run.count > 0)
    }
}

/// A transaction as a record holds it.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) txn: Transaction,
    pub(crate) directs: Vec<Direct>,
}

/// A transaction encoded for a record.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) meta: Vec<u8>,
    pub(crate) payloads: Vec<Payload>,
    pub(crate) payload_bytes: usize,
    /// Pieces that it leaves pending, about.
    piece_count: u64,
}

/// A transaction that is being encoded, op by op, as [`Body`] is decoded.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) coll: CollId,
    pub(crate) op_count: u32,
    pub(crate) directs: Vec<Direct>,
    /// The object that was named last.
    last: Option<HObject>,
    /// An empty list of directs, and the transaction.
    meta: Vec<u8>,
    /// Where its number of ops ends.
    count_end: usize,
    payloads: Vec<Payload>,
    piece_count: u64,
}

/// Bytes of an empty list.
const NO_DIRECTS_BYTES: usize = 4;
/// Bytes of a transaction's number of ops, at the end of its front.
const OP_COUNT_BYTES: usize = 4;
/// Most descriptions are shorter.
const META_BYTES: usize = 768;

impl Draft {
    pub(crate) fn new(coll: CollId) -> Draft {
        let mut meta = Vec::with_capacity(META_BYTES);
        meta.extend_from_slice(&[0; NO_DIRECTS_BYTES]);
        Transaction::encode_front(coll, 0, &mut meta);
        let count_end = meta.len();
        Draft {
            coll,
            op_count: 0,
            directs: Vec::new(),
            last: None,
            meta,
            count_end,
            payloads: Vec::new(),
            piece_count: 0,
        }
    }

    pub(crate) fn push(&mut self, op: &TxnOp) {
        self.op_count += 1;
        self.piece_count += piece_count(op);
        let is_new = op.encode_split(self.last.as_ref(), &mut self.meta, &mut self.payloads);
        if is_new {
            self.last = op.object().cloned();
        }
    }

    pub(crate) fn finish(self) -> Encoded {
        let Draft { op_count, directs, count_end, mut meta, payloads, piece_count, .. } = self;
        meta[count_end - OP_COUNT_BYTES..count_end].copy_from_slice(&op_count.to_le_bytes());
        if !directs.is_empty() {
            drop(meta.splice(..NO_DIRECTS_BYTES, directs.to_bytes(Features::default())));
        }
        let payload_bytes = payloads.iter().map(|payload| payload.len()).sum();
        Encoded { meta, payloads, payload_bytes, piece_count }
    }
}

impl Encoded {
    pub(crate) fn bytes(&self) -> usize {
        self.meta.len() + self.payload_bytes
    }

    /// Memory that what it leaves pending takes in a mount that finds it, about.
    pub(crate) fn replay_memory(&self) -> u64 {
        Amount { bytes: self.payload_bytes as u64, pieces: self.piece_count }.memory()
    }
}

/// Pieces that an op leaves pending, but for those that it cuts in two. Zeros are pieces at both ends of their range.
fn piece_count(op: &TxnOp) -> u64 {
    let is_piece = matches!(op, TxnOp::Object(_, Mutation::Write { .. } | Mutation::Truncate { .. }));
    let is_two = matches!(op, TxnOp::Object(_, Mutation::Zero { .. }));
    u64::from(is_piece) + 2 * u64::from(is_two)
}

/// Blocks of a record with so much in it, and the byte where its payloads begin: in the last block of
/// the descriptions if they fit there, at the next block otherwise.
pub(crate) fn shape(meta_bytes: usize, payload_bytes: usize) -> (usize, usize) {
    let meta_end = RECORD_HEADER_BYTES + meta_bytes;
    let meta_blocks = meta_end.div_ceil(BLOCK_BYTES);
    if meta_end + payload_bytes <= meta_blocks * BLOCK_BYTES {
        (meta_blocks, meta_end)
    } else {
        (meta_blocks + payload_bytes.div_ceil(BLOCK_BYTES), meta_blocks * BLOCK_BYTES)
    }
}

/// True for memory that a device takes as it is.
pub(crate) fn is_of_blocks(data: &Bytes) -> bool {
    data.len().is_multiple_of(BLOCK_BYTES) && (data.as_ptr() as usize).is_multiple_of(BLOCK_BYTES)
}

impl Header {
    /// Builds the record of `txns`; the caller has reserved `shape(…)` blocks. Payloads of whole blocks are
    /// not copied: they follow as they are.
    pub(crate) fn build<'a>(
        key: JournalKey,
        (epoch, sequence, first_txn): (u64, u64, u64),
        txns: impl Iterator<Item = &'a Encoded> + Clone,
    ) -> (Bytes, Vec<Bytes>) {
        let meta_bytes = txns.clone().map(|txn| txn.meta.len()).sum();
        let payload_bytes = txns.clone().map(|txn| txn.payload_bytes).sum();
        let (blocks, payload_at) = shape(meta_bytes, payload_bytes);
        let payloads = || txns.clone().flat_map(|txn| &txn.payloads);
        let header = Header {
            magic: MAGIC,
            crc: 0,
            key,
            epoch,
            sequence,
            first_txn,
            txn_count: txns.clone().count() as u64,
            block_count: blocks as u32,
            meta_bytes: meta_bytes as u32,
            payload_at: payload_at as u32,
            payload_bytes: payload_bytes as u32,
            payload_crc: Payload::crc_of_all(payloads()),
        };
        let mut front = Vec::with_capacity(RECORD_HEADER_BYTES + meta_bytes);
        header.encode(&mut front, Features::default());
        txns.clone().for_each(|txn| front.extend_from_slice(&txn.meta));
        let crc = crc32c(u32::MAX, &front[CRC_AT + 4..]);
        front[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        if payload_at == front.len() {
            let parts: Vec<&[u8]> =
                std::iter::once(&front[..]).chain(payloads().map(|payload| &payload[..])).collect();
            return (AlignedBuf::of_parts(&parts).into(), Vec::new());
        }
        let head = AlignedBuf::of_parts(&[&front]).into();
        if payloads().all(|payload| is_of_blocks(payload)) {
            return (head, payloads().map(|payload| Bytes::clone(payload)).collect());
        }
        let parts: Vec<&[u8]> = payloads().map(|payload| &payload[..]).collect();
        (head, vec![AlignedBuf::of_parts(&parts).into()])
    }

    /// Reads a header that claims to belong to this store and epoch; the record may still be torn.
    pub(crate) fn peek(bytes: &Bytes, key: JournalKey, epoch: u64) -> Option<Header> {
        Header::peek_any(bytes, key).filter(|header| header.epoch == epoch)
    }

    /// Reads a header that claims to belong to this store, of any epoch; the record may still be torn.
    pub(crate) fn peek_any(bytes: &Bytes, key: JournalKey) -> Option<Header> {
        let header = Header::from_prefix(bytes.clone()).ok()?;
        let is_ours = header.magic == MAGIC && header.key == key;
        (is_ours && header.is_shaped() && header.first_txn < COUNTER_END).then_some(header)
    }

    /// True if its lengths fit each other.
    fn is_shaped(&self) -> bool {
        let shape = shape(self.meta_bytes as usize, self.payload_bytes as usize);
        shape == (self.block_count as usize, self.payload_at as usize)
    }

    /// Blocks that hold the header and the descriptions. Their checksum covers the record's length, too.
    pub(crate) fn front_block_count(&self) -> u64 {
        (RECORD_HEADER_BYTES + self.meta_bytes as usize).div_ceil(BLOCK_BYTES) as u64
    }

    /// The descriptions, if they and the header are as they were written.
    pub(crate) fn open_front(&self, record: &Bytes) -> Option<Bytes> {
        let meta = part(record, RECORD_HEADER_BYTES, self.meta_bytes)?;
        let crc = crc32c(crc32c(u32::MAX, &record[CRC_AT + 4..RECORD_HEADER_BYTES]), &meta);
        (crc == self.crc).then_some(meta)
    }

    /// The record's transactions, if all that counts is as it was written. What was written and does not decode is no
    /// torn record: it may have been acknowledged, by another version.
    pub(crate) fn open(&self, record: &Bytes) -> Option<Result<Vec<Body>, DecodeError>> {
        let meta = self.open_front(record)?;
        let payload = part(record, self.payload_at as usize, self.payload_bytes)?;
        if crc32c(u32::MAX, &payload) != self.payload_crc {
            return None;
        }
        Some(self.decode(Reader::new(meta), Reader::new(payload)))
    }

    fn decode(&self, mut meta: Reader, mut payload: Reader) -> Result<Vec<Body>, DecodeError> {
        (0..self.txn_count)
            .map(|_| {
                let directs: Vec<Direct> = Decode::decode(&mut meta)?;
                if !directs.iter().all(Direct::is_measured) {
                    return Err(DecodeError::Invalid {
                        what: "blocks of direct data",
                        value: directs.len() as u64,
                    });
                }
                Ok(Body { txn: Transaction::decode_split(&mut meta, &mut payload)?, directs })
            })
            .collect()
    }
}

/// So many bytes of a record, if it has them.
fn part(record: &Bytes, at: usize, bytes: u32) -> Option<Bytes> {
    let end = at.checked_add(bytes as usize)?;
    record.get(at..end).map(|part| record.slice_ref(part))
}

#[cfg(test)]
mod tests {
    use types::{PgId, PoolId};

    use super::*;

    const KEY: JournalKey = JournalKey::new([3; 16]);

    /// A record of a write of so many bytes, and how many of its own bytes count.
    fn record(bytes: usize) -> (Vec<u8>, Vec<bool>) {
        let mut draft = Draft::new(CollId::pg(PgId::new(PoolId(1), 0)));
        let object = HObject { oid: Bytes::from_static(b"o"), ..HObject::default() };
        let data = Bytes::from(AlignedBuf::from_slice(&vec![7; bytes])).slice(..bytes);
        draft.push(&TxnOp::Object(object.clone(), Mutation::Write { offset: 0, data: data.into() }));
        draft.push(&TxnOp::Object(object, Mutation::Touch));
        let encoded = draft.finish();
        let (_, payload_at) = shape(encoded.meta.len(), bytes);
        let (first, more) = Header::build(KEY, (1, 2, 3), std::iter::once(&encoded));
        let record = [&first[..], &more.concat()].concat();
        let meta_end = RECORD_HEADER_BYTES + encoded.meta.len();
        let counts = |at: usize| at < meta_end || (payload_at..payload_at + bytes).contains(&at);
        let counts = (0..record.len()).map(counts).collect();
        (record, counts)
    }

    fn opened(record: Vec<u8>) -> Option<Vec<Body>> {
        let record = Bytes::from(record);
        Header::peek(&record, KEY, 1)?.open(&record)?.ok()
    }

    #[test]
    fn direct_data_without_a_checksum_for_each_block_does_not_decode() {
        let opened_with = |block: u64, counts: &[u64], crc_count: usize| {
            let mut draft = Draft::new(CollId::pg(PgId::new(PoolId(1), 0)));
            let object = HObject { oid: Bytes::from_static(b"o"), ..HObject::default() };
            let runs = counts.iter().map(|&count| Run { start: 1_000, count }).collect();
            draft.directs.push(Direct { before_op: 0, object, block, runs, crcs: vec![7; crc_count] });
            let (record, _) = Header::build(KEY, (1, 2, 3), std::iter::once(&draft.finish()));
            opened(record.to_vec()).is_some()
        };
        assert!(opened_with(5, &[2, 1], 3));
        assert!(!opened_with(5, &[2, 1], 2) && !opened_with(5, &[2, 1], 4));
        assert!(!opened_with(5, &[3, 0], 3) && !opened_with(5, &[u64::MAX, 4], 3));
        assert!(!opened_with(u64::MAX - 1, &[3], 3) && !opened_with(u64::MAX / BLOCK, &[3], 3));
    }

    #[test]
    fn a_number_from_which_no_transaction_counts_on_is_no_record() {
        let encoded = Draft::new(CollId::META).finish();
        for (first_txn, is_read) in [(COUNTER_END - 1, true), (COUNTER_END, false), (u64::MAX, false)] {
            let (record, _) = Header::build(KEY, (1, 2, first_txn), std::iter::once(&encoded));
            assert_eq!(opened(record.to_vec()).is_some(), is_read, "{first_txn}");
        }
    }

    #[test]
    fn what_counts_is_summed_and_what_fills_up_is_not() {
        for bytes in [0, 100, 4096, 5000, 8192] {
            let (record, counts) = record(bytes);
            assert_eq!(opened(record.clone()).map(|bodies| bodies[0].txn.ops.len()), Some(2));
            for at in (0..record.len()).step_by(7) {
                let mut spoiled = record.clone();
                spoiled[at] ^= 0x10;
                assert_eq!(opened(spoiled).is_none(), counts[at], "byte {at} of a write of {bytes}");
            }
        }
    }
}
