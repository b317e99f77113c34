//! Bytes that carry their checksum with them.

use std::{ops::Deref, sync::Arc};

use bytes::Bytes;

use crate::{
    AlignedBuf, BLOCK_BYTES,
    crc::{crc32c, crc32c_concat, crc32c_of_blocks, crc32c_zeros, uncounted},
};

/// The seed of a payload's checksum: Ceph uses it for all checksums but those of preambles.
const SEED: u32 = u32::MAX;

/// What pieces of zeros are made of.
static ZEROS: [u8; 16 * BLOCK_BYTES] = [0; 16 * BLOCK_BYTES];

/// The checksums that are known of bytes, so that they need not be read again. All have all ones as the seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    crc: u32,
    /// Of each whole block from the first byte on, where they were summed by blocks.
    blocks: Option<Arc<[u32]>>,
}

impl Sums {
    /// Sums all bytes at once.
    pub fn of(bytes: &[u8]) -> Sums {
        Sums { crc: crc32c(SEED, bytes), blocks: None }
    }

    /// Sums block by block, which gives the checksum of all, too: for what is to be stored in blocks.
    pub fn by_block(bytes: &[u8]) -> Sums {
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        let blocks: Arc<[u32]> = blocks.iter().map(|block| crc32c(SEED, block)).collect();
        Sums { crc: crc32c(crc32c_of_blocks(&blocks), rest), blocks: Some(blocks) }
    }

    /// The checksum of all.
    pub fn crc(&self) -> u32 {
        self.crc
    }
}

/// Bytes and, once it has been computed, their crc32c: bytes that a connection has checked are not summed again on the
/// way to the journal, to the replicas and to their place on the device.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    bytes: Bytes,
    sums: Option<Sums>,
}

impl Payload {
    /// Bytes with their checksum, if it is known.
    pub fn new(bytes: Bytes, crc: Option<u32>) -> Payload {
        Payload::with_sums(bytes, crc.map(|crc| Sums { crc, blocks: None }))
    }

    /// Bytes with all that is known of them.
    pub fn with_sums(bytes: Bytes, sums: Option<Sums>) -> Payload {
        let crc = sums.as_ref().map(|sums| sums.crc);
        debug_assert!(crc.is_none_or(|crc| crc == uncounted(SEED, &bytes)), "a checksum of other bytes");
        Payload { bytes, sums }
    }

    /// The checksum, with all ones as the seed; computed if it is not known.
    pub fn crc(&self) -> u32 {
        self.known_crc().unwrap_or_else(|| crc32c(SEED, &self.bytes))
    }

    /// The checksum, if it is known.
    pub fn known_crc(&self) -> Option<u32> {
        self.sums.as_ref().map(|sums| sums.crc)
    }

    /// All that is known of the bytes.
    pub fn sums(&self) -> Option<&Sums> {
        self.sums.as_ref()
    }

    /// The checksums of each whole block from the first byte on, if they are known.
    pub fn block_crcs(&self) -> Option<&[u32]> {
        self.sums.as_ref()?.blocks.as_deref()
    }

    /// Computes the checksum if it is not known, and keeps it.
    pub fn seal(&mut self) -> u32 {
        self.sums.get_or_insert_with(|| Sums::of(&self.bytes)).crc
    }

    /// Keeps the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        if len < self.bytes.len() {
            self.bytes.truncate(len);
            self.sums = None;
        }
    }

    /// `bytes` zeros, in as many pieces as that takes.
    pub fn zeros(bytes: u64) -> impl Iterator<Item = Payload> {
        let step = ZEROS.len() as u64;
        (0..bytes).step_by(ZEROS.len()).map(move |at| {
            let count = step.min(bytes - at) as usize;
            Payload::new(Bytes::from_static(&ZEROS[..count]), Some(crc32c_zeros(SEED, count)))
        })
    }

    /// Payloads end to end as one: copied, unless it is one already.
    pub fn joined(mut payloads: Vec<Payload>) -> Payload {
        if payloads.len() <= 1 {
            return payloads.pop().unwrap_or_default();
        }
        let is_known = payloads.iter().all(|payload| payload.sums.is_some());
        let crc = is_known.then(|| Payload::crc_of_all(&payloads));
        let parts: Vec<&[u8]> = payloads.iter().map(|payload| &payload[..]).collect();
        let mut bytes = Bytes::from(AlignedBuf::of_parts(&parts));
        bytes.truncate(payloads.iter().map(|payload| payload.len()).sum());
        Payload::new(bytes, crc)
    }

    /// The checksum of payloads end to end.
    pub fn crc_of_all<'a>(payloads: impl IntoIterator<Item = &'a Payload>) -> u32 {
        let join = |crc, payload: &Payload| crc32c_concat(crc, payload.crc(), payload.len());
        let mut payloads = payloads.into_iter();
        let first = payloads.next().map_or(SEED, Payload::crc);
        payloads.fold(first, join)
    }

    /// The bytes alone.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

impl Deref for Payload {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Payload {
        Payload { bytes, sums: None }
    }
}

/// Payloads with the same bytes are equal, whatever checksums are known of them.
impl PartialEq for Payload {
    fn eq(&self, other: &Payload) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Payload {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_parts_give_that_of_the_whole() {
        for cut in [0, 1, 15, 16, 255, 4096, 9_000] {
            let whole: Vec<u8> = (0..9_000u32).map(|at| ((at * at) >> 3) as u8).collect();
            let whole = Bytes::from(whole);
            let mut parts = [Payload::from(whole.slice(..cut)), Payload::from(whole.slice(cut..))];
            assert_eq!(Payload::crc_of_all(&parts), crc32c(SEED, &whole), "{cut}");
            parts[1].seal();
            assert_eq!(Payload::crc_of_all(&parts), crc32c(SEED, &whole), "{cut}");
        }
        assert_eq!(Payload::crc_of_all(&[]), SEED);
    }

    #[test]
    fn parts_are_joined_with_what_is_known_of_them() {
        let whole = [&[0; 200_000][..], b"and the rest"].concat();
        let mut parts: Vec<Payload> = Payload::zeros(200_000).collect();
        parts.push(Bytes::from_static(b"and the rest").into());
        let joined = Payload::joined(parts.clone());
        assert_eq!((&joined[..], joined.known_crc()), (&whole[..], None));
        for part in &mut parts {
            part.seal();
        }
        assert_eq!(Payload::joined(parts).known_crc(), Some(crc32c(SEED, &whole)));
        assert!(Payload::joined(Vec::new()).is_empty() && Payload::zeros(0).next().is_none());
    }

    #[test]
    fn sums_by_block_give_that_of_all() {
        for bytes in [0, 9, BLOCK_BYTES, 3 * BLOCK_BYTES, 3 * BLOCK_BYTES + 9] {
            let data: Vec<u8> = (0..bytes as u32).map(|at| ((at * at) >> 3) as u8).collect();
            let payload = Payload::with_sums(data.clone().into(), Some(Sums::by_block(&data)));
            assert_eq!(payload.crc(), crc32c(SEED, &data), "{bytes}");
            let blocks: Vec<u32> =
                data.as_chunks::<BLOCK_BYTES>().0.iter().map(|b| crc32c(SEED, b)).collect();
            assert_eq!(payload.block_crcs(), Some(&blocks[..]), "{bytes}");
        }
    }

    #[test]
    fn what_is_cut_has_no_checksum() {
        let mut payload = Payload::from(Bytes::from_static(b"payload"));
        payload.seal();
        payload.truncate(7);
        assert!(payload.known_crc().is_some());
        payload.truncate(3);
        assert_eq!((payload.known_crc(), payload.crc()), (None, crc32c(SEED, b"pay")));
    }
}
