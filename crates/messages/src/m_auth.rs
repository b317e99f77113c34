//! `MAuth` (17) and `MAuthReply` (18): renewal of tickets on a session that is open.

use bytes::Bytes;
use codec::Codec;
use types::GlobalId;

use crate::{PaxosHeader, table::front_only};

/// Asks for new tickets.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MAuth {
    /// See there.
    pub header: PaxosHeader,
    /// The authentication method: 2 for cephx.
    pub protocol: u32,
    /// The method's request.
    pub payload: Bytes,
    /// The client's monitor map.
    pub monmap_epoch: u32,
}
front_only!(MAuth);

/// The answer.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MAuthReply {
    /// The authentication method.
    pub protocol: u32,
    /// 0 or a negative errno.
    pub result: i32,
    /// The client's global id.
    pub global_id: GlobalId,
    /// The method's answer.
    pub payload: Bytes,
    /// Why it failed.
    pub message: String,
}
front_only!(MAuthReply);
