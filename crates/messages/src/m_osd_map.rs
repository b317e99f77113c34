//! `MOSDMap` (41), version 4: full and incremental maps, still encoded.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::Codec;
use types::{Epoch, IntervalSet, PoolId, Uuid};

use crate::table::front_only;

/// Maps for a subscriber. Incrementals apply in epoch order upon what the receiver has, or upon a
/// full map of this message.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MOSDMap {
    /// The cluster.
    pub fsid: Uuid,
    /// Encoded `OSDMap::Incremental`s by epoch.
    pub incrementals: BTreeMap<Epoch, Bytes>,
    /// Encoded `OSDMap`s by epoch.
    pub fulls: BTreeMap<Epoch, Bytes>,
    /// The oldest epoch that the sender can still give.
    pub oldest: Epoch,
    /// The newest epoch that the sender has.
    pub newest: Epoch,
    /// Snapshots removed in a gap of the incrementals, by pool. Since version 4.
    pub gap_removed_snaps: BTreeMap<PoolId, IntervalSet>,
}
front_only!(MOSDMap);
