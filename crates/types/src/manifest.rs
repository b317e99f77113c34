//! What an object refers to instead of having it (`object_manifest_t`).

use std::collections::BTreeMap;

use codec::{Decode, DecodeError, Encode, Features, Reader};

use crate::HObject;

/// `object_manifest_t`: where an object's contents are. The encoding is Ceph's; an object without a manifest has no
/// value of this type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectManifest {
    /// `TYPE_REDIRECT`: all contents are in this object, in whatever pool; requests are passed on to it.
    Redirect(HObject),
    /// `TYPE_CHUNKED`: these parts of it, by their offset in bytes, are parts of other objects.
    Chunked(ChunkMap),
}

/// Parts of an object by their offset in bytes; none overlap.
pub type ChunkMap = BTreeMap<u64, Chunk>;

/// No object gets larger (`osd_max_object_size`).
const OBJECT_BYTES_MAX: u64 = 128 << 20;

/// Reads the parts of an object. Refused are parts that no object can have: an OSD that believed them would make room
/// for their contents.
pub fn decode_chunks(input: &mut Reader) -> Result<ChunkMap, DecodeError> {
    let chunks = ChunkMap::decode(input)?;
    let end_of = |(at, chunk): (&u64, &Chunk)| at.saturating_add(chunk.length.into());
    match chunks.iter().map(end_of).find(|end| *end > OBJECT_BYTES_MAX) {
        Some(end) => Err(DecodeError::Invalid { what: "end of a chunk", value: end }),
        None => Ok(chunks),
    }
}

/// `chunk_info_t`: a part of an object that is also a part of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Where that begins in the other object, in bytes.
    pub offset: u32,
    /// Bytes.
    pub length: u32,
    /// The other object.
    pub target: HObject,
    /// `FLAG_MISSING`: only the other object has it. Otherwise this one has it, too.
    pub is_missing: bool,
    /// `FLAG_HAS_REFERENCE`: the other object counts the reference.
    pub has_reference: bool,
}

const TYPE_REDIRECT: u8 = 1;
const TYPE_CHUNKED: u8 = 2;

const FLAG_MISSING: u32 = 2;
const FLAG_HAS_REFERENCE: u32 = 4;

impl Chunk {
    /// True if both are the same part of the same object, wherever it is kept.
    pub fn is_same_part(&self, other: &Chunk) -> bool {
        (self.offset, self.length, &self.target) == (other.offset, other.length, &other.target)
    }
}

impl Encode for Chunk {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        codec::encode_envelope(out, 1, 1, |out| {
            self.offset.encode(out, features);
            self.length.encode(out, features);
            self.target.encode(out, features);
            let missing = if self.is_missing { FLAG_MISSING } else { 0 };
            let reference = if self.has_reference { FLAG_HAS_REFERENCE } else { 0 };
            (missing | reference).encode(out, features);
        });
    }
}

impl Decode for Chunk {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        codec::decode_envelope(input, 1, "chunk_info_t", |input, _| {
            let (offset, length) = (u32::decode(input)?, u32::decode(input)?);
            let target = HObject::decode(input)?;
            let flags = u32::decode(input)?;
            let (is_missing, has_reference) = (flags & FLAG_MISSING != 0, flags & FLAG_HAS_REFERENCE != 0);
            Ok(Chunk { offset, length, target, is_missing, has_reference })
        })
    }
}

impl Encode for ObjectManifest {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        codec::encode_envelope(out, 1, 1, |out| match self {
            ObjectManifest::Redirect(target) => {
                TYPE_REDIRECT.encode(out, features);
                target.encode(out, features);
            }
            ObjectManifest::Chunked(chunks) => {
                TYPE_CHUNKED.encode(out, features);
                chunks.encode(out, features);
            }
        });
    }
}

impl Decode for ObjectManifest {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        codec::decode_envelope(input, 1, "object_manifest_t", |input, _| match u8::decode(input)? {
            TYPE_REDIRECT => Ok(ObjectManifest::Redirect(HObject::decode(input)?)),
            TYPE_CHUNKED => Ok(ObjectManifest::Chunked(decode_chunks(input)?)),
            other => Err(DecodeError::Invalid { what: "object_manifest_t type", value: u64::from(other) }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_that_no_object_has_is_refused() {
        let decoded = |at: u64, length: u32| {
            let target = HObject::default();
            let chunk = Chunk { offset: u32::MAX, length, target, is_missing: true, has_reference: false };
            let manifest = ObjectManifest::Chunked([(at, chunk)].into());
            ObjectManifest::from_bytes(manifest.to_bytes(Features::default())).map(|back| back == manifest)
        };
        let size = u32::try_from(OBJECT_BYTES_MAX).unwrap();
        assert_eq!((decoded(0, size), decoded(OBJECT_BYTES_MAX - 1, 1)), (Ok(true), Ok(true)));
        for (at, length) in [(1, size), (0, size + 1), (0, u32::MAX), (OBJECT_BYTES_MAX, 1), (u64::MAX, 9)] {
            let found = decoded(at, length);
            let is_refused = matches!(found, Err(DecodeError::Invalid { what: "end of a chunk", .. }));
            assert!(is_refused, "{at} {length}: {found:?}");
        }
    }
}
