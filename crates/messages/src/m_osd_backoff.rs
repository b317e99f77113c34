//! `MOSDBackoff` (61): an OSD asks a client to hold its operations on a range of objects.

use codec::Codec;
use types::{Epoch, HObject, SpgId};

use crate::table::front_only;

/// `CEPH_OSD_BACKOFF_OP_*`.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackoffOp(pub u8);

impl BackoffOp {
    /// Hold.
    pub const BLOCK: BackoffOp = BackoffOp(1);
    /// The client holds.
    pub const ACK_BLOCK: BackoffOp = BackoffOp(2);
    /// Go on.
    pub const UNBLOCK: BackoffOp = BackoffOp(3);
}

/// Hold or go on with operations on `[begin, end)` of a PG.
#[derive(Codec, Clone, Debug, PartialEq, Eq)]
pub struct MOSDBackoff {
    /// The PG.
    pub pgid: SpgId,
    /// Map epoch of the sender.
    pub epoch: Epoch,
    /// What to do.
    pub op: BackoffOp,
    /// Names the backoff in its session.
    pub id: u64,
    /// First object.
    pub begin: HObject,
    /// The first object behind.
    pub end: HObject,
}
front_only!(MOSDBackoff);
