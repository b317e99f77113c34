//! `MPoolOp` (49) and `MPoolOpReply` (48): changes to pools and their snapshots by librados.

use bytes::Bytes;
use codec::Codec;
use types::{Epoch, SnapId, Uuid};

use crate::{PaxosHeader, table::front_only};

/// `POOL_OP_*`.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolOpCode(pub u32);

impl PoolOpCode {
    /// Make a pool.
    pub const CREATE: PoolOpCode = PoolOpCode(0x01);
    /// Delete a pool.
    pub const DELETE: PoolOpCode = PoolOpCode(0x02);
    /// Retired.
    pub const AUID_CHANGE: PoolOpCode = PoolOpCode(0x03);
    /// Make a pool snapshot.
    pub const CREATE_SNAP: PoolOpCode = PoolOpCode(0x11);
    /// Delete a pool snapshot.
    pub const DELETE_SNAP: PoolOpCode = PoolOpCode(0x12);
    /// Give out a snapshot id that the client manages.
    pub const CREATE_UNMANAGED_SNAP: PoolOpCode = PoolOpCode(0x21);
    /// Delete a snapshot id that the client manages.
    pub const DELETE_UNMANAGED_SNAP: PoolOpCode = PoolOpCode(0x22);
}

/// A change to a pool. Version 4.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MPoolOp {
    /// See there.
    pub header: PaxosHeader,
    /// The cluster.
    pub fsid: Uuid,
    /// The pool's id; 0 for a new pool.
    pub pool: u32,
    /// What to do.
    pub op: PoolOpCode,
    /// Retired.
    pub auid: u64,
    /// For DELETE_UNMANAGED_SNAP.
    pub snapid: SnapId,
    /// Name of the pool or of the pool snapshot: any bytes.
    pub name: Bytes,
    /// Retired.
    pub pad: u8,
    /// For CREATE.
    pub crush_rule: i16,
}
front_only!(MPoolOp);

/// The answer.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MPoolOpReply {
    /// See there.
    pub header: PaxosHeader,
    /// The cluster.
    pub fsid: Uuid,
    /// 0 or a negative errno.
    pub reply_code: i32,
    /// The OSD map that has the change; the client waits for it.
    pub epoch: Epoch,
    /// For CREATE_UNMANAGED_SNAP: the id, a u64.
    pub response: Option<Bytes>,
}
front_only!(MPoolOpReply);
