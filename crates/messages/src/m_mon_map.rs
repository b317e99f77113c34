//! `MMonMap` (4): the monitor map, still encoded.

use bytes::Bytes;
use codec::Codec;

use crate::table::front_only;

/// The monitor map for a client.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MMonMap {
    /// An encoded `MonMap`.
    pub monmap: Bytes,
}
front_only!(MMonMap);
