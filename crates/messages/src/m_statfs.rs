//! `MStatfs` (13) and `MStatfsReply` (14): how full is the cluster?

use codec::Codec;
use types::{PoolId, Uuid};

use crate::{PaxosHeader, table::front_only};

/// Asks for the space of the cluster, or of one pool. Version 2.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MStatfs {
    /// See there.
    pub header: PaxosHeader,
    /// The cluster.
    pub fsid: Uuid,
    /// Only this pool.
    pub data_pool: Option<PoolId>,
}
front_only!(MStatfs);

/// The answer (`ceph_mon_statfs_reply`).
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MStatfsReply {
    /// The cluster.
    pub fsid: Uuid,
    /// Version of the statistics.
    pub version: u64,
    /// Size in KiB.
    pub kb: u64,
    /// KiB used.
    pub kb_used: u64,
    /// KiB free.
    pub kb_avail: u64,
    /// Objects.
    pub num_objects: u64,
}
front_only!(MStatfsReply);
