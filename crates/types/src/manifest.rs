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
            TYPE_CHUNKED => Ok(ObjectManifest::Chunked(ChunkMap::decode(input)?)),
            other => Err(DecodeError::Invalid { what: "object_manifest_t type", value: u64::from(other) }),
        })
    }
}
