//! What an object refers to instead of having it (`object_manifest_t`).

use codec::{Decode, DecodeError, Encode, Features, Reader};

use crate::HObject;

/// `object_manifest_t`: the object is another one, whose requests it passes on. Encoded as Ceph does; an object without a
/// manifest has none here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectManifest {
    /// `TYPE_REDIRECT`: all of it is this object, in whatever pool.
    Redirect(HObject),
}

const TYPE_REDIRECT: u8 = 1;

impl Encode for ObjectManifest {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        codec::encode_envelope(out, 1, 1, |out| match self {
            ObjectManifest::Redirect(target) => {
                TYPE_REDIRECT.encode(out, features);
                target.encode(out, features);
            }
        });
    }
}

impl Decode for ObjectManifest {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        codec::decode_envelope(input, 1, "object_manifest_t", |input, _| match u8::decode(input)? {
            TYPE_REDIRECT => Ok(ObjectManifest::Redirect(HObject::decode(input)?)),
            other => Err(DecodeError::Invalid { what: "object_manifest_t type", value: u64::from(other) }),
        })
    }
}
