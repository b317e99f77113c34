//! Ceph's binary encoding: little-endian integers, u32-counted containers and versioned envelopes
//! (`include/encoding.h`, `include/denc.h`), declared once per type with `#[derive(Codec)]`.
//!
//! Invariants: decoding never panics and never allocates more than the input could fill. Payloads
//! ([`bytes::Bytes`]) reference the input instead of copying it, unless they are to outlive it (`Reader::copy`).
//! This crate knows no Ceph struct: those live in `types`, `crush`, `auth` and `messages`.

extern crate self as codec;

mod aligned;
mod crc;
mod crc_short;
mod envelope;
mod features;
mod impls;
mod lossy;
mod payload;
mod reader;
mod scratch;
pub mod traffic;

pub use aligned::{AlignedBuf, BLOCK_BYTES};
pub use bytes::Bytes;
pub use codec_derive::Codec;
pub use crc::{crc32c, crc32c_of_blocks};
pub use envelope::{decode_envelope, encode_envelope};
pub use features::Features;
pub use lossy::DecodeLossy;
pub use payload::{Payload, Sums};
pub use reader::{DecodeError, Reader};

/// A value with one encoding on the wire or on disk.
pub trait Encode {
    /// Appends the value's bytes to `out`, in the form that a peer with `features` reads.
    fn encode(&self, out: &mut Vec<u8>, features: Features);

    /// The value's bytes on their own.
    fn to_bytes(&self, features: Features) -> Bytes {
        scratch::collect(|out| self.encode(out, features))
    }
}

/// A value that can be read back from its encoding.
pub trait Decode: Sized {
    /// Reads one value from the front of `input`.
    fn decode(input: &mut Reader) -> Result<Self, DecodeError>;

    /// Reads a value that fills `bytes` exactly.
    fn from_bytes(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        let value = Self::decode(&mut input)?;
        match input.remaining() {
            0 => Ok(value),
            extra => Err(DecodeError::TrailingBytes { extra }),
        }
    }

    /// Reads a value from the front of `bytes` and ignores what follows.
    fn from_prefix(bytes: Bytes) -> Result<Self, DecodeError> {
        Self::decode(&mut Reader::new(bytes))
    }
}

#[cfg(test)]
mod tests;
