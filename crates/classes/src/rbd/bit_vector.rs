//! `BitVector<2>` (common/bit_vector.hpp): the object map, two bits an object.
//!
//! Layout: u32 length and a header (envelope 1/1 around the u64 count of elements); the data, four
//! elements a byte, the first in the highest bits; a u32 length and a footer: crc of the header, u32
//! count and a crc of each 4 KiB of data. The crcs are seeded with 0. An empty footer has no crcs.

use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, Encode, Features, Reader, crc32c};

const PER_BYTE: u64 = 4;
const BLOCK_BYTES: usize = 4096;
/// Length field, envelope, element count.
pub(super) const HEADER_BYTES: u64 = 4 + 6 + 8;

/// The largest object map, in elements (`MAX_OBJECT_MAP_OBJECT_COUNT`).
pub(super) const COUNT_MAX: u64 = 256_000_000;

#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct Header {
    count: u64,
}

/// A vector of two-bit elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BitVector {
    count: u64,
    data: Vec<u8>,
}

impl BitVector {
    pub(super) fn len(&self) -> u64 {
        self.count
    }

    pub(super) fn get(&self, index: u64) -> u8 {
        self.data[(index / PER_BYTE) as usize] >> shift(index) & 3
    }

    pub(super) fn set(&mut self, index: u64, value: u8) {
        let byte = &mut self.data[(index / PER_BYTE) as usize];
        *byte = *byte & !(3 << shift(index)) | (value & 3) << shift(index);
    }

    /// Makes it `count` long; new elements are `value`.
    pub(super) fn resize(&mut self, count: u64, value: u8) {
        let old = self.count;
        self.data.resize(count.div_ceil(PER_BYTE) as usize, 0);
        self.count = count;
        for index in old..count {
            self.set(index, value);
        }
    }

    fn header(&self) -> Bytes {
        Header { count: self.count }.to_bytes(Features::default())
    }

    /// The encoding with or without crcs.
    pub(super) fn to_bytes(&self, with_crcs: bool) -> Bytes {
        let f = Features::default();
        let mut out = Vec::with_capacity(self.data.len() + 64);
        self.header().encode(&mut out, f);
        out.extend_from_slice(&self.data);
        let mut footer = Vec::new();
        if with_crcs {
            crc32c(0, &self.header()).encode(&mut footer, f);
            let crcs: Vec<u32> = self.data.chunks(BLOCK_BYTES).map(|block| crc32c(0, block)).collect();
            crcs.encode(&mut footer, f);
        }
        Bytes::from(footer).encode(&mut out, f);
        Bytes::from(out)
    }

    /// The bytes of an encoded vector with crcs that elements `first..end` lie in, and their crcs:
    /// (offset, bytes) each.
    pub(super) fn changed(&self, first: u64, end: u64) -> [(u64, Bytes); 2] {
        let (from, to) =
            ((first / PER_BYTE) as usize, (end.div_ceil(PER_BYTE) as usize).min(self.data.len()));
        let (block, block_end) = (from / BLOCK_BYTES, to.div_ceil(BLOCK_BYTES));
        let blocks = self.data.chunks(BLOCK_BYTES).take(block_end).skip(block);
        let crcs: Vec<u8> = blocks.flat_map(|b| crc32c(0, b).to_le_bytes()).collect();
        // Behind the data: the footer's length, the header's crc, the count of crcs.
        let crcs_at = HEADER_BYTES + self.data.len() as u64 + 4 + 4 + 4 + block as u64 * 4;
        let data = Bytes::copy_from_slice(&self.data[from..to]);
        [(HEADER_BYTES + from as u64, data), (crcs_at, Bytes::from(crcs))]
    }
}

impl Decode for BitVector {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let header = Bytes::decode(input)?;
        let count = Header::from_prefix(header.clone())?.count;
        if count > COUNT_MAX {
            return Err(DecodeError::Invalid { what: "object map size", value: count });
        }
        let data = input.take(count.div_ceil(PER_BYTE) as usize)?;
        let mut footer = Reader::new(Bytes::decode(input)?);
        if footer.remaining() > 0 {
            check_crc(u32::decode(&mut footer)?, &header)?;
            let crcs: Vec<u32> = Vec::decode(&mut footer)?;
            for (crc, block) in crcs.iter().zip(data.chunks(BLOCK_BYTES)) {
                check_crc(*crc, block)?;
            }
        }
        Ok(BitVector { count, data: data.to_vec() })
    }
}

fn check_crc(expected: u32, bytes: &[u8]) -> Result<(), DecodeError> {
    match crc32c(0, bytes) {
        crc if crc == expected => Ok(()),
        crc => Err(DecodeError::Invalid { what: "object map crc", value: u64::from(crc) }),
    }
}

fn shift(index: u64) -> u64 {
    (PER_BYTE - 1 - index % PER_BYTE) * 2
}
