//! Bytes that carry their checksum with them.

use std::ops::Deref;

use bytes::Bytes;

use crate::{
    AlignedBuf, BLOCK_BYTES,
    crc::{crc32c, crc32c_concat, crc32c_zeros, uncounted},
};

/// The seed of a payload's checksum, as of all that Ceph sums but preambles.
const SEED: u32 = u32::MAX;

/// What pieces of zeros are made of.
static ZEROS: [u8; 16 * BLOCK_BYTES] = [0; 16 * BLOCK_BYTES];

/// Bytes and, once somebody has computed it, their crc32c: what a connection has checked is not summed again
/// on the way to the journal, to the replicas and to the bytes' place on the device.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    bytes: Bytes,
    crc: Option<u32>,
}

impl Payload {
    /// Bytes with their checksum, if it is known.
    pub fn new(bytes: Bytes, crc: Option<u32>) -> Payload {
        debug_assert!(crc.is_none_or(|crc| crc == uncounted(SEED, &bytes)), "a checksum of other bytes");
        Payload { bytes, crc }
    }

    /// The checksum, with all ones as the seed; computed if it is not known.
    pub fn crc(&self) -> u32 {
        self.crc.unwrap_or_else(|| crc32c(SEED, &self.bytes))
    }

    /// The checksum, if it is known.
    pub fn known_crc(&self) -> Option<u32> {
        self.crc
    }

    /// Computes the checksum if it is not known, and keeps it.
    pub fn seal(&mut self) -> u32 {
        *self.crc.get_or_insert_with(|| crc32c(SEED, &self.bytes))
    }

    /// Keeps the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        if len < self.bytes.len() {
            self.bytes.truncate(len);
            self.crc = None;
        }
    }

    /// `bytes` zeros, in as many pieces as that takes.
    pub fn zeros(bytes: u64) -> impl Iterator<Item = Payload> {
        let step = ZEROS.len() as u64;
        (0..bytes).step_by(ZEROS.len()).map(move |at| {
            let count = step.min(bytes - at) as usize;
            Payload { bytes: Bytes::from_static(&ZEROS[..count]), crc: Some(crc32c_zeros(SEED, count)) }
        })
    }

    /// Payloads end to end as one: copied, unless it is one already.
    pub fn joined(mut payloads: Vec<Payload>) -> Payload {
        if payloads.len() <= 1 {
            return payloads.pop().unwrap_or_default();
        }
        let is_known = payloads.iter().all(|payload| payload.crc.is_some());
        let crc = is_known.then(|| Payload::crc_of_all(&payloads));
        let parts: Vec<&[u8]> = payloads.iter().map(|payload| &payload[..]).collect();
        let mut bytes = Bytes::from(AlignedBuf::of_parts(&parts));
        bytes.truncate(payloads.iter().map(|payload| payload.len()).sum());
        Payload { bytes, crc }
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
        Payload { bytes, crc: None }
    }
}

/// The same bytes, whatever is known of them.
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
    fn what_is_cut_has_no_checksum() {
        let mut payload = Payload::from(Bytes::from_static(b"payload"));
        payload.seal();
        payload.truncate(7);
        assert!(payload.known_crc().is_some());
        payload.truncate(3);
        assert_eq!((payload.known_crc(), payload.crc()), (None, crc32c(SEED, b"pay")));
    }
}
