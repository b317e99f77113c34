//! Where an object's blocks are on the device, with their checksums.

use codec::{Decode, DecodeError, Encode, Features, Reader};

use crate::{device::BLOCK, flat_map::FlatMap, space::Run};

/// Blocks of one extent at most, which bounds the cost of splitting one.
const EXTENT_BLOCKS_MAX: usize = 1024;
/// What an allocation costs beside its bytes, about.
const ALLOCATION_BYTES: usize = 16;

/// Consecutive blocks of an object that are consecutive on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first block on the device.
    pub(crate) device: u64,
    /// crc32c of each block.
    pub(crate) crcs: Vec<u32>,
}

impl Extent {
    fn count(&self) -> u64 {
        self.crcs.len() as u64
    }
}

/// One block as the map knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// Block on the device.
    pub(crate) device: u64,
    /// crc32c of its bytes.
    pub(crate) crc: u32,
}

/// Extents by the object's block number; they do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExtentMap {
    extents: FlatMap<u64, Extent>,
    /// Blocks mapped.
    count: u64,
}

impl ExtentMap {
    pub(crate) fn lookup(&self, block: u64) -> Option<Mapped> {
        let (start, extent) = self.extents.last_upto(&block)?;
        let at = block - start;
        (at < extent.count()).then(|| Mapped { device: extent.device + at, crc: extent.crcs[at as usize] })
    }

    /// Parts of extents in `[from, to)`: object block, device block, checksums.
    pub(crate) fn range(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64, &[u32])> {
        let first = self.extents.last_upto(&from).map_or(from, |(start, _)| *start);
        self.extents.range(&first..&to.max(first)).iter().filter_map(move |&(start, ref extent)| {
            let low = start.max(from);
            let high = (start + extent.count()).min(to);
            (low < high).then(|| {
                let crcs = &extent.crcs[(low - start) as usize..(high - start) as usize];
                (low, extent.device + (low - start), crcs)
            })
        })
    }

    /// Blocks mapped.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Blocks mapped in `[from, to)`.
    pub(crate) fn count_within(&self, from: u64, to: u64) -> u64 {
        self.range(from, to).map(|(_, _, crcs)| crcs.len() as u64).sum()
    }

    /// Bytes of memory, about.
    pub(crate) fn heap_bytes(&self) -> u64 {
        (self.extents.len() * (size_of::<(u64, Extent)>() + ALLOCATION_BYTES)) as u64
            + self.count * size_of::<u32>() as u64
    }

    /// Every extent as a run on the device.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.extents.iter().map(|(_, extent)| Run { start: extent.device, count: extent.count() })
    }

    /// Unmaps the blocks `[from, to)` and returns what it mapped.
    pub(crate) fn punch_blocks(&mut self, from: u64, to: u64) -> Vec<Run> {
        let mut out = Vec::new();
        if from >= to {
            return out;
        }
        let first = self.extents.last_upto(&from).map_or(from, |(start, _)| *start);
        let touched = self.extents.range(&first..&to).iter().map(|(start, extent)| (*start, extent.count()));
        let touched: Vec<(u64, u64)> = touched.collect();
        for (start, count) in touched {
            let end = start + count;
            let (low, high) = (start.max(from), end.min(to));
            if low >= high {
                continue;
            }
            let mut extent = self.extents.remove(&start).expect("the key was just seen");
            out.push(Run { start: extent.device + (low - start), count: high - low });
            self.count -= high - low;
            if high < end {
                let crcs = extent.crcs.split_off((high - start) as usize);
                self.extents.insert(high, Extent { device: extent.device + (high - start), crcs });
            }
            if start < low {
                extent.crcs.truncate((low - start) as usize);
                self.extents.insert(start, extent);
            }
        }
        out
    }

    /// Maps blocks from `block` on, which are unmapped, to `device` on.
    pub(crate) fn insert(&mut self, block: u64, device: u64, crcs: &[u32]) {
        self.count += crcs.len() as u64;
        if let Some((start, last)) = block.checked_sub(1).and_then(|at| self.extents.last_upto_mut(&at))
            && *start + last.count() == block
            && last.device + last.count() == device
            && last.crcs.len() + crcs.len() <= EXTENT_BLOCKS_MAX
        {
            last.crcs.extend_from_slice(crcs);
            return;
        }
        for (at, chunk) in crcs.chunks(EXTENT_BLOCKS_MAX).enumerate() {
            let skip = (at * EXTENT_BLOCKS_MAX) as u64;
            self.extents.insert(block + skip, Extent { device: device + skip, crcs: chunk.to_vec() });
        }
    }

    /// Gives a mapped block a new checksum.
    pub(crate) fn set_crc(&mut self, block: u64, crc: u32) {
        if let Some((start, extent)) = self.extents.last_upto_mut(&block)
            && let Some(slot) = extent.crcs.get_mut((block - *start) as usize)
        {
            *slot = crc;
        }
    }
}

impl Encode for ExtentMap {
    fn encode(&self, out: &mut Vec<u8>, f: Features) {
        (self.extents.len() as u32).encode(out, f);
        for (block, extent) in self.extents.iter() {
            (*block, extent.device).encode(out, f);
            extent.crcs.encode(out, f);
        }
    }
}

impl Decode for ExtentMap {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let mut extents = FlatMap::default();
        let (mut next, mut count) = (0, 0);
        for _ in 0..input.count(20)? {
            let (block, device) = <(u64, u64)>::decode(input)?;
            let crcs = Vec::<u32>::decode(input)?;
            let len = crcs.len() as u64;
            // Its last byte is one that an object may have.
            let end = block.checked_add(len).filter(|end| end.checked_mul(BLOCK).is_some());
            let Some(end) = end.filter(|_| block >= next && len > 0 && device.checked_add(len).is_some())
            else {
                return Err(DecodeError::Invalid { what: "extent", value: block });
            };
            next = end;
            count += len;
            extents.insert(block, Extent { device, crcs });
        }
        Ok(ExtentMap { extents, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_beyond_what_an_object_or_a_device_has_are_refused() {
        let opened = |extents: &[(u64, u64, usize)]| {
            let mut out = (extents.len() as u32).to_bytes(Features::default()).to_vec();
            for &(block, device, count) in extents {
                (block, device).encode(&mut out, Features::default());
                vec![7u32; count].encode(&mut out, Features::default());
            }
            ExtentMap::from_bytes(out.into()).map(|map| map.count())
        };
        let last = u64::MAX / BLOCK;
        assert_eq!(opened(&[(0, 5, 2), (2, 9, 1), (last - 1, 1, 1)]), Ok(4));
        for refused in [(last - 1, 1, 2), (last, 1, 1), (u64::MAX, 1, 1), (0, u64::MAX - 1, 2), (0, 5, 0)] {
            assert!(opened(&[refused]).is_err(), "{refused:?}");
        }
        assert!(opened(&[(0, 5, 2), (1, 9, 1)]).is_err());
    }
}
