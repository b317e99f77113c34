//! `MMonSubscribe` (15), version 3: what a client wants to be told.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Codec, Decode, DecodeError, DecodeLossy, Encode, Features, Reader};

use crate::{RawMessage, table::Body};

/// `ceph_mon_subscribe_item`.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscribeItem {
    /// The first version wanted; 0 asks for whatever is there.
    pub start: u64,
    /// [`SubscribeItem::ONETIME`] or 0 for every version from `start` on.
    pub flags: u8,
}

impl SubscribeItem {
    /// `CEPH_SUBSCRIBE_ONETIME`: the subscription ends with the first answer.
    pub const ONETIME: u8 = 1;

    /// True when one answer ends it.
    pub fn is_onetime(&self) -> bool {
        self.flags & SubscribeItem::ONETIME != 0
    }
}

/// Subscriptions by name (`osdmap`, `monmap`, `config`, …).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MMonSubscribe {
    /// What is wanted.
    pub what: BTreeMap<String, SubscribeItem>,
    /// The client's host name. Since version 3: the kernel's clients send version 2.
    pub hostname: String,
}

impl Body for MMonSubscribe {
    fn encode_body(&self, raw: &mut RawMessage) {
        raw.front = self.to_bytes(Features::PACIFIC);
    }

    fn decode_body(raw: RawMessage) -> Result<Self, DecodeError> {
        let mut front = Reader::new(raw.front);
        let what = BTreeMap::<Bytes, SubscribeItem>::decode(&mut front)?;
        // Whatever has another name is unknown, and nothing comes of it.
        let what =
            what.into_iter().filter_map(|(name, item)| Some((String::from_utf8(name.into()).ok()?, item)));
        let what = what.collect();
        let hostname = if raw.version < 3 { String::new() } else { String::decode_lossy(&mut front)? };
        Ok(MMonSubscribe { what, hostname })
    }
}
