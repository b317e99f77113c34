//! `MGetPoolStats` (58) and `MGetPoolStatsReply` (59): statistics of pools.

use std::collections::BTreeMap;

use codec::Codec;
use types::Uuid;

use crate::{PaxosHeader, PoolStat, table::front_only};

/// Asks for the statistics of pools by name.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MGetPoolStats {
    /// See there.
    pub header: PaxosHeader,
    /// The cluster.
    pub fsid: Uuid,
    /// Names of pools.
    #[codec(lossy)]
    pub pools: Vec<String>,
}
front_only!(MGetPoolStats);

/// The answer. Version 2.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MGetPoolStatsReply {
    /// See there.
    pub header: PaxosHeader,
    /// The cluster.
    pub fsid: Uuid,
    /// By name; pools that do not exist are missing.
    pub pools: BTreeMap<String, PoolStat>,
    /// True when the space of each pool is known, not guessed from the sizes of objects.
    pub is_per_pool: bool,
}
front_only!(MGetPoolStatsReply);
