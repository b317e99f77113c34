//! The blocks of a stored object map that a change touches, with their crcs. A map has up to 61 MiB, and changes each
//! time when a data object is written first: the rest of it is not read for that.

use std::ops::Range;

use bytes::Bytes;
use codec::{Decode, DecodeError, Reader};
use types::Errno;

use super::bit_vector::{BLOCK_BYTES, BitVector, HEADER_BYTES, PER_BYTE, check_crc, decode_header};
use crate::{ObjectView, Stop};

/// Elements of a block.
const BLOCK_ELEMENTS: u64 = BLOCK_BYTES as u64 * PER_BYTE;
/// The footer before the blocks' crcs: its length, the header's crc, the count of crcs.
const FOOTER_BYTES: u64 = 4 + 4 + 4;

/// Some blocks, beside each other.
pub(super) struct Blocks {
    /// The first element.
    start: u64,
    elements: BitVector,
    /// Where their crcs are; none if the map has none.
    crcs_at: Option<u64>,
}

fn decoded<T>(result: Result<T, DecodeError>) -> Result<T, Stop> {
    result.map_err(|_| Errno::EINVAL.into())
}

impl Blocks {
    /// The blocks with the elements `first..end`; ERANGE without elements, or if the map ends before. EINVAL if it is
    /// damaged there. The header's crc is not looked at: Ceph goes on if it is wrong.
    pub(super) fn read(view: &mut dyn ObjectView, first: u64, end: u64) -> Result<Blocks, Stop> {
        let (count, _) = decoded(decode_header(&mut Reader::new(view.read(0, HEADER_BYTES)?)))?;
        if first >= end || end > count {
            return Err(Errno::ERANGE.into());
        }
        let data_bytes = count.div_ceil(PER_BYTE);
        let footer_at = HEADER_BYTES + data_bytes;
        let mut footer = Reader::new(view.read(footer_at, FOOTER_BYTES)?);
        let has_crcs = decoded(u32::decode(&mut footer))? > 0;
        let (block, block_end) = (first / BLOCK_ELEMENTS, end.div_ceil(BLOCK_ELEMENTS));
        let from = block * BLOCK_BYTES as u64;
        let to = (block_end * BLOCK_BYTES as u64).min(data_bytes);
        let data = view.read(HEADER_BYTES + from, to - from)?;
        let mut crcs_at = None;
        if has_crcs {
            decoded(u32::decode(&mut footer))?;
            if block_end > u64::from(decoded(u32::decode(&mut footer))?) {
                return Err(Errno::EINVAL.into());
            }
            let at = footer_at + FOOTER_BYTES + block * 4;
            let mut crcs = Reader::new(view.read(at, (block_end - block) * 4)?);
            for block in data.chunks(BLOCK_BYTES) {
                decoded(u32::decode(&mut crcs).and_then(|crc| check_crc(crc, block)))?;
            }
            crcs_at = Some(at);
        }
        Ok(Blocks { start: block * BLOCK_ELEMENTS, elements: BitVector::of_blocks(data.to_vec()), crcs_at })
    }

    /// As [`BitVector::set_where`], by the byte alone.
    pub(super) fn set_where(&mut self, elements: Range<u64>, value: u8, which: impl Fn(u8) -> u8) -> bool {
        let elements = elements.start - self.start..elements.end - self.start;
        self.elements.set_where(elements, value, |_, byte| which(byte))
    }

    /// Writes the elements `first..end`, and the crcs.
    pub(super) fn write(&self, view: &mut dyn ObjectView, first: u64, end: u64) -> Result<(), Stop> {
        let (from, to) = ((first - self.start) / PER_BYTE, (end - self.start).div_ceil(PER_BYTE));
        let data = Bytes::copy_from_slice(&self.elements.data()[from as usize..to as usize]);
        view.write(HEADER_BYTES + self.start / PER_BYTE + from, data)?;
        match self.crcs_at {
            Some(at) => {
                let crcs: Vec<u8> = self.elements.crcs().flat_map(u32::to_le_bytes).collect();
                view.write(at, crcs.into())
            }
            None => Ok(()),
        }
    }
}
