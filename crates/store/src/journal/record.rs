//! One record: a header block that goes on with the transactions' descriptions, then payloads.

use bytes::Bytes;
use codec::{
    AlignedBuf, BLOCK_BYTES, Codec, Decode, DecodeError, Encode, Features, Payload, Reader, crc32c,
    crc32c_concat, crc32c_zeros,
};
use types::{CollId, HObject, Transaction, TxnOp};

use crate::allocator::Run;

const MAGIC: u32 = 0x4a4c_4f4c;
/// Bytes of the header; the descriptions follow at once.
const RECORD_HEADER_BYTES: usize = 72;
const CRC_AT: usize = 4;

const _: () = assert!(RECORD_HEADER_BYTES == 4 + 4 + 16 + 8 + 8 + 8 + 8 + 4 + 4 + 4 + 4);

/// The fixed front of a record.
#[derive(Codec, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    magic: u32,
    /// crc32c of the whole record from the next field on, padding included.
    crc: u32,
    pub(crate) store_uuid: [u8; 16],
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) first_txn: u64,
    pub(crate) txn_count: u64,
    pub(crate) block_count: u32,
    meta_bytes: u32,
    payload_at: u32,
    payload_bytes: u32,
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
}

/// A transaction that is being encoded, op by op, as [`Body`] is decoded.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) coll: CollId,
    pub(crate) op_count: u32,
    pub(crate) directs: Vec<Direct>,
    /// An empty list of directs, and the transaction.
    meta: Vec<u8>,
    payloads: Vec<Payload>,
}

/// Bytes of an empty list.
const NO_DIRECTS_BYTES: usize = 4;
/// Most descriptions are shorter.
const META_BYTES: usize = 768;

impl Draft {
    pub(crate) fn new(coll: CollId) -> Draft {
        let mut meta = Vec::with_capacity(META_BYTES);
        meta.extend_from_slice(&[0; NO_DIRECTS_BYTES]);
        Transaction::encode_front(coll, 0, &mut meta);
        Draft { coll, op_count: 0, directs: Vec::new(), meta, payloads: Vec::new() }
    }

    pub(crate) fn push(&mut self, op: &TxnOp) {
        self.op_count += 1;
        op.encode_split(&mut self.meta, &mut self.payloads);
    }

    pub(crate) fn finish(self) -> Encoded {
        let Draft { coll, op_count, directs, mut meta, payloads } = self;
        let mut front = Vec::new();
        directs.encode(&mut front, Features::default());
        let directs_bytes = front.len();
        Transaction::encode_front(coll, op_count, &mut front);
        let same = NO_DIRECTS_BYTES + front.len() - directs_bytes;
        drop(meta.splice(..same, front));
        let payload_bytes = payloads.iter().map(|payload| payload.len()).sum();
        Encoded { meta, payloads, payload_bytes }
    }
}

impl Encoded {
    pub(crate) fn bytes(&self) -> usize {
        self.meta.len() + self.payload_bytes
    }
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
        store_uuid: [u8; 16],
        (epoch, sequence, first_txn): (u64, u64, u64),
        txns: impl Iterator<Item = &'a Encoded> + Clone,
    ) -> (Bytes, Vec<Bytes>) {
        let meta_bytes = txns.clone().map(|txn| txn.meta.len()).sum();
        let payload_bytes = txns.clone().map(|txn| txn.payload_bytes).sum();
        let (blocks, payload_at) = shape(meta_bytes, payload_bytes);
        let mut header = Header {
            magic: MAGIC,
            crc: 0,
            store_uuid,
            epoch,
            sequence,
            first_txn,
            txn_count: txns.clone().count() as u64,
            block_count: blocks as u32,
            meta_bytes: meta_bytes as u32,
            payload_at: payload_at as u32,
            payload_bytes: payload_bytes as u32,
        };
        let payloads = || txns.clone().flat_map(|txn| &txn.payloads);
        let mut front = header.to_array();
        let meta_crc = crc32c(u32::MAX, &front[CRC_AT + 4..]);
        let meta_crc = txns.clone().fold(meta_crc, |crc, txn| crc32c(crc, &txn.meta));
        let gap = payload_at - RECORD_HEADER_BYTES - meta_bytes;
        let rest = blocks * BLOCK_BYTES - payload_at - payload_bytes;
        let crc = crc32c_concat(crc32c_zeros(meta_crc, gap), Payload::crc_of_all(payloads()), payload_bytes);
        header.crc = crc32c_zeros(crc, rest);
        front[CRC_AT..CRC_AT + 4].copy_from_slice(&header.crc.to_le_bytes());
        let mut parts: Vec<&[u8]> = vec![&front];
        parts.extend(txns.clone().map(|txn| &txn.meta[..]));
        if payload_at == RECORD_HEADER_BYTES + meta_bytes {
            parts.extend(payloads().map(|payload| &payload[..]));
            return (AlignedBuf::from_parts(&parts).into(), Vec::new());
        }
        let head = AlignedBuf::from_parts(&parts).into();
        if payloads().all(|payload| is_of_blocks(payload)) {
            return (head, payloads().map(|payload| Bytes::clone(payload)).collect());
        }
        let parts: Vec<&[u8]> = payloads().map(|payload| &payload[..]).collect();
        (head, vec![AlignedBuf::from_parts(&parts).into()])
    }

    fn to_array(self) -> [u8; RECORD_HEADER_BYTES] {
        let mut out = [0; RECORD_HEADER_BYTES];
        out.copy_from_slice(&self.to_bytes(Features::default()));
        out
    }

    /// Reads a header that claims to belong to this store and epoch; the record may still be torn.
    pub(crate) fn peek(bytes: &Bytes, store_uuid: [u8; 16], epoch: u64) -> Option<Header> {
        Header::peek_any(bytes, store_uuid).filter(|header| header.epoch == epoch)
    }

    /// The same for a record of any epoch.
    pub(crate) fn peek_any(bytes: &Bytes, store_uuid: [u8; 16]) -> Option<Header> {
        let header = Header::from_prefix(bytes.clone()).ok()?;
        let is_ours = header.magic == MAGIC && header.store_uuid == store_uuid;
        (is_ours && header.block_count > 0).then_some(header)
    }

    /// The record's transactions, if every byte is as it was written.
    pub(crate) fn open(&self, record: &Bytes) -> Option<Vec<Body>> {
        let record =
            record.get(..self.block_count as usize * BLOCK_BYTES).map(|part| record.slice_ref(part))?;
        if crc32c(u32::MAX, &record[CRC_AT + 4..]) != self.crc {
            return None;
        }
        self.decode(record).ok()
    }

    fn decode(&self, record: Bytes) -> Result<Vec<Body>, DecodeError> {
        let mut meta = Reader::new(record.clone());
        meta.take(RECORD_HEADER_BYTES)?;
        let mut meta = Reader::new(meta.take(self.meta_bytes as usize)?);
        let mut payload = Reader::new(record);
        payload.take(self.payload_at as usize)?;
        let mut payload = Reader::new(payload.take(self.payload_bytes as usize)?);
        (0..self.txn_count)
            .map(|_| {
                let directs = Decode::decode(&mut meta)?;
                Ok(Body { txn: Transaction::decode_split(&mut meta, &mut payload)?, directs })
            })
            .collect()
    }
}
