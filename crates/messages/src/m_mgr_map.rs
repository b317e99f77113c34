//! `MMgrMap` (0x704): the manager map, still encoded.

use bytes::Bytes;
use codec::DecodeError;

use crate::{RawMessage, table::Body};

/// Where the active manager is. The monitors do the manager's work here, so nobody sends it; a captured
/// one passes through unread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MMgrMap {
    /// An encoded `MgrMap`, without a length in front.
    pub mgrmap: Bytes,
}

impl Body for MMgrMap {
    fn encode_body(&self, raw: &mut RawMessage) {
        raw.front = self.mgrmap.clone();
    }

    fn decode_body(raw: &RawMessage) -> Result<Self, DecodeError> {
        Ok(MMgrMap { mgrmap: raw.front.clone() })
    }
}
