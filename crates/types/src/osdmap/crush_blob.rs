//! The CRUSH map inside an OSD map: its bytes, which the checksum covers, and what they mean.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use codec::{Decode, DecodeError, Encode, Features, Reader};
use crush::CrushMap;

/// An encoded CRUSH map with its decoded form; clones share both.
#[derive(Clone, Default)]
pub struct CrushBlob {
    bytes: Bytes,
    map: Arc<CrushMap>,
}

impl CrushBlob {
    /// Decodes `bytes`; none are an empty map.
    pub fn new(bytes: Bytes) -> Result<CrushBlob, DecodeError> {
        if bytes.is_empty() {
            return Ok(CrushBlob::default());
        }
        let map = Arc::new(CrushMap::from_prefix(bytes.clone())?);
        Ok(CrushBlob { bytes, map })
    }

    /// The encoded form.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The map.
    pub fn map(&self) -> &CrushMap {
        &self.map
    }
}

impl From<CrushMap> for CrushBlob {
    fn from(map: CrushMap) -> CrushBlob {
        CrushBlob { bytes: map.to_bytes(Features::PACIFIC), map: Arc::new(map) }
    }
}

impl PartialEq for CrushBlob {
    fn eq(&self, other: &CrushBlob) -> bool {
        self.bytes == other.bytes
    }
}

impl fmt::Debug for CrushBlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CrushBlob({} bytes)", self.bytes.len())
    }
}

impl Encode for CrushBlob {
    fn encode(&self, out: &mut Vec<u8>, features: Features) {
        self.bytes.encode(out, features);
    }
}

impl Decode for CrushBlob {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        CrushBlob::new(Bytes::decode(input)?)
    }
}
