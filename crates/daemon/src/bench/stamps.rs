//! What the blocks of a bench hold: random bytes, and in front of each a stamp that says which block it is. So no two
//! blocks are the same, and a read that returns zeros, another block or an old one is found out.

use bytes::{Bytes, BytesMut};
use rand::{RngCore, rngs::StdRng};

/// The numbers of a [`Stamp`].
const STAMP_BYTES: usize = 32;
/// From one stamp to the next: what a store has at least a checksum for, and not more than a request has.
const UNIT_BYTES_MAX: u64 = 4096;

/// Who wrote a block, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writer {
    /// The bench.
    pub(super) run: u64,
    /// Of the bench; 0 writes the objects.
    pub(super) round: u64,
    /// From one stamp to the next.
    unit_bytes: u64,
}

/// A part of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) object: u64,
    pub(super) offset: u64,
}

impl Writer {
    pub(super) fn new(run: u64, round: u64, block_bytes: u64) -> Writer {
        Writer { run, round, unit_bytes: block_bytes.min(UNIT_BYTES_MAX) }
    }

    /// The stamps in so many bytes, and where they are there.
    fn stamps(self, place: Place, bytes: usize) -> impl Iterator<Item = (usize, [u8; STAMP_BYTES])> {
        let Writer { run, round, unit_bytes } = self;
        let first = place.offset.div_ceil(unit_bytes);
        let blocks = (first..).take_while(move |block| block * unit_bytes < place.offset + bytes as u64);
        blocks.map(move |block| {
            let mut stamp = [0; STAMP_BYTES];
            for (bytes, number) in stamp.chunks_exact_mut(8).zip([run, place.object, block, round]) {
                bytes.copy_from_slice(&number.to_le_bytes());
            }
            ((block * unit_bytes - place.offset) as usize, stamp)
        })
    }

    /// Bytes that a stamp has there: not all where blocks are small.
    fn stamp_bytes(self, at: usize, bytes: usize) -> usize {
        STAMP_BYTES.min(bytes - at).min(self.unit_bytes as usize)
    }

    /// Stamps what is to be written.
    fn stamp(self, place: Place, data: &mut [u8]) {
        for (at, stamp) in self.stamps(place, data.len()) {
            let len = self.stamp_bytes(at, data.len());
            data[at..at + len].copy_from_slice(&stamp[..len]);
        }
    }

    /// True for what this writer wrote there.
    pub(super) fn has_written(self, place: Place, data: &[u8]) -> bool {
        self.stamps(place, data.len()).all(|(at, stamp)| {
            let len = self.stamp_bytes(at, data.len());
            data[at..at + len] == stamp[..len]
        })
    }
}

/// Makes what requests write. All have the same random bytes, copied before the time is taken; a buffer that comes back
/// only gets new stamps.
pub(super) struct Payloads {
    writer: Writer,
    random: Bytes,
    free: Vec<BytesMut>,
}

impl Payloads {
    /// Some ahead, of so many bytes each.
    pub(super) fn new(writer: Writer, bytes: u64, ahead: usize, rng: &mut StdRng) -> Payloads {
        // Bytes that do not compress.
        let mut random = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        rng.fill_bytes(&mut random);
        let free = (0..ahead).map(|_| BytesMut::from(&random[..])).collect();
        Payloads { writer, random: random.into(), free }
    }

    /// What is written to a place.
    pub(super) fn take(&mut self, place: Place) -> Bytes {
        let mut data = self.free.pop().unwrap_or_else(|| BytesMut::from(&self.random[..]));
        self.writer.stamp(place, &mut data);
        data.freeze()
    }

    /// Takes it back once it was written.
    pub(super) fn give_back(&mut self, data: Bytes) {
        // The connection may still hold it, as when the request was sent twice.
        self.free.extend(data.try_into_mut());
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn payloads(writer: Writer, bytes: u64) -> Payloads {
        Payloads::new(writer, bytes, 1, &mut StdRng::seed_from_u64(1))
    }

    #[test]
    fn a_block_is_told_from_all_others() {
        for (block, bytes) in
            [(4096, 4096), (4096, 1 << 16), (1 << 20, 1 << 20), (512, 512), (6144, 6144), (100, 100)]
        {
            let writer = Writer::new(7, 0, block);
            let place = Place { object: 3, offset: 5 * block };
            let data = payloads(writer, bytes).take(place);
            assert_eq!(data.len() as u64, bytes);
            assert!(writer.has_written(place, &data));
            assert!(!writer.has_written(place, &vec![0; data.len()]));
            assert!(!writer.has_written(Place { object: 4, ..place }, &data));
            assert!(!writer.has_written(Place { offset: 6 * block, ..place }, &data), "{block}");
            assert!(!Writer::new(7, 1, block).has_written(place, &data));
            assert!(!Writer::new(8, 0, block).has_written(place, &data));
        }
        // As requests read what was written as a whole.
        let writer = Writer::new(7, 0, 8192);
        let data = payloads(writer, 1 << 16).take(Place { object: 3, offset: 0 });
        let place = Place { object: 3, offset: 8192 };
        assert!(writer.has_written(place, &data[8192..16384]));
        let mut bad = data[8192..16384].to_vec();
        bad[4096..].fill(0);
        assert!(!writer.has_written(place, &bad));
        // An object that is smaller than a stamp.
        let writer = Writer::new(7, 0, 8);
        assert_eq!(payloads(writer, 8).take(place), 7u64.to_le_bytes()[..]);
    }

    #[test]
    fn a_buffer_is_used_again_once_nobody_has_it() {
        let mut payloads = payloads(Writer::new(7, 0, 4096), 4096);
        let place = Place { object: 0, offset: 0 };
        let first = payloads.take(place);
        let (at, still_sent) = (first.as_ptr(), first.clone());
        payloads.give_back(first);
        let second = payloads.take(place);
        assert_eq!(second, still_sent);
        assert_ne!(second.as_ptr(), at);
        let at = second.as_ptr();
        payloads.give_back(second);
        assert_eq!(payloads.take(place).as_ptr(), at);
    }
}
