//! `BitVector<2>` (common/bit_vector.hpp): the object map, two bits an object.
//!
//! Layout: u32 length and a header (envelope 1/1 around the u64 count of elements); the data, four
//! elements a byte, the first in the highest bits; a u32 length and a footer: crc of the header, u32
//! count and a crc of each 4 KiB of data. The crcs are seeded with 0. An empty footer has no crcs.

use std::ops::Range;

use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, Encode, Features, Reader, crc32c};

pub(super) const PER_BYTE: u64 = 4;
pub(super) const BLOCK_BYTES: usize = 4096;
/// An element's value times this is a byte of four such elements.
const EACH: u8 = 0x55;
/// Length field, envelope, element count.
pub(super) const HEADER_BYTES: u64 = 4 + 6 + 8;

/// The largest object map, in elements (`MAX_OBJECT_MAP_OBJECT_COUNT`).
pub(super) const COUNT_MAX: u64 = 256_000_000;

#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct Header {
    count: u64,
}

/// For each byte, the bits of its elements of which `is_wanted` holds.
pub(super) fn those_that(is_wanted: impl Fn(u8) -> bool) -> [u8; 256] {
    std::array::from_fn(|byte| {
        let shifts = (0..PER_BYTE).map(shift);
        shifts.filter(|shift| is_wanted(byte as u8 >> shift & 3)).fold(0, |bits, shift| bits | 3 << shift)
    })
}

/// A vector of two-bit elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BitVector {
    count: u64,
    data: Vec<u8>,
}

impl BitVector {
    /// A part of a vector that begins with a block.
    pub(super) fn of_blocks(data: Vec<u8>) -> BitVector {
        BitVector { count: data.len() as u64 * PER_BYTE, data }
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    /// The crc of each block.
    pub(super) fn crcs(&self) -> impl Iterator<Item = u32> {
        self.data.chunks(BLOCK_BYTES).map(|block| crc32c(0, block))
    }

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

    /// Sets those of `elements` to `value` whose bits `which` names, of the byte at that place; true if there are any.
    pub(super) fn set_where(
        &mut self,
        elements: Range<u64>,
        value: u8,
        which: impl Fn(usize, u8) -> u8,
    ) -> bool {
        let from = (elements.start / PER_BYTE) as usize;
        let to = elements.end.div_ceil(PER_BYTE) as usize;
        let fill = (value & 3) * EACH;
        let mut is_any = false;
        for (at, byte) in self.data[from..to].iter_mut().enumerate() {
            let mut bits = which(from + at, *byte);
            if at == 0 {
                bits &= u8::MAX >> (elements.start % PER_BYTE * 2);
            }
            if from + at + 1 == to {
                bits &= u8::MAX << shift(elements.end - 1);
            }
            *byte = *byte & !bits | fill & bits;
            is_any |= bits != 0;
        }
        is_any
    }

    /// Makes it `count` long; new elements are `value`.
    pub(super) fn resize(&mut self, count: u64, value: u8) {
        let old = self.count;
        self.data.resize(count.div_ceil(PER_BYTE) as usize, 0);
        self.count = count;
        let (bytes, others) = self.elements_from(old);
        self.data[bytes].fill((value & 3) * EACH);
        others.for_each(|index| self.set(index, value));
    }

    /// True if all elements from `first` on are `value`.
    pub(super) fn are_all(&self, first: u64, value: u8) -> bool {
        let (bytes, mut others) = self.elements_from(first);
        // None for what does not fit in two bits.
        let wanted = value.checked_mul(EACH);
        self.data[bytes].iter().all(|byte| Some(*byte) == wanted)
            && others.all(|index| self.get(index) == value)
    }

    /// The elements from `first` on: the bytes that have no others, as there may be very many, and those that lie in
    /// bytes with others.
    fn elements_from(&self, first: u64) -> (Range<usize>, impl Iterator<Item = u64> + use<>) {
        let first = first.min(self.count);
        let start = first.div_ceil(PER_BYTE);
        let end = (self.count / PER_BYTE).max(start);
        let others = (first..self.count.min(start * PER_BYTE)).chain(end * PER_BYTE..self.count);
        (start as usize..end as usize, others)
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
            self.crcs().collect::<Vec<u32>>().encode(&mut footer, f);
        }
        Bytes::from(footer).encode(&mut out, f);
        Bytes::from(out)
    }
}

impl Decode for BitVector {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let (count, header) = decode_header(input)?;
        let data = input.take(count.div_ceil(PER_BYTE) as usize)?;
        let mut footer = Reader::new(Bytes::decode(input)?);
        if footer.remaining() > 0 {
            check_crc(u32::decode(&mut footer)?, &header)?;
            let crcs: Vec<u32> = Vec::decode(&mut footer)?;
            let blocks = data.chunks(BLOCK_BYTES);
            if crcs.len() != blocks.len() {
                return Err(DecodeError::Invalid { what: "object map crcs", value: crcs.len() as u64 });
            }
            for (crc, block) in crcs.iter().zip(blocks) {
                check_crc(*crc, block)?;
            }
        }
        Ok(BitVector { count, data: data.to_vec() })
    }
}

/// The count of elements, and what the header's crc is of.
pub(super) fn decode_header(input: &mut Reader) -> Result<(u64, Bytes), DecodeError> {
    let header = Bytes::decode(input)?;
    match Header::from_prefix(header.clone())?.count {
        count if count > COUNT_MAX => Err(DecodeError::Invalid { what: "object map size", value: count }),
        count => Ok((count, header)),
    }
}

pub(super) fn check_crc(expected: u32, bytes: &[u8]) -> Result<(), DecodeError> {
    match crc32c(0, bytes) {
        crc if crc == expected => Ok(()),
        crc => Err(DecodeError::Invalid { what: "object map crc", value: u64::from(crc) }),
    }
}

fn shift(index: u64) -> u64 {
    (PER_BYTE - 1 - index % PER_BYTE) * 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn elements_are_set_as_one_after_the_other(
            data in prop::collection::vec(any::<u8>(), 1..40),
            (start, end) in (0u64..160, 0u64..160),
            wanted: u8,
            value: u8,
        ) {
            let vector = BitVector::of_blocks(data);
            let elements = start.min(end).min(vector.len())..start.max(end).min(vector.len());
            let is_wanted = |old: u8| wanted >> old & 1 == 1;
            let (mut slow, mut is_any) = (vector.clone(), false);
            for index in elements.clone() {
                if is_wanted(slow.get(index)) {
                    slow.set(index, value);
                    is_any = true;
                }
            }
            let table = those_that(is_wanted);
            let mut fast = vector;
            prop_assert_eq!(fast.set_where(elements, value, |_, byte| table[usize::from(byte)]), is_any);
            prop_assert_eq!(fast, slow);
        }
    }
}
