//! `MMonGetOSDMap` (6): asks for maps of given epochs.

use codec::Codec;
use types::Epoch;

use crate::{PaxosHeader, table::front_only};

/// Asks for whole and incremental maps; 0 in either pair of epochs for none of that kind. A [`MOSDMap`](crate::MOSDMap)
/// answers.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MMonGetOSDMap {
    /// See there.
    pub header: PaxosHeader,
    /// The first whole map.
    pub full_first: Epoch,
    /// The last one.
    pub full_last: Epoch,
    /// The first incremental.
    pub inc_first: Epoch,
    /// The last one.
    pub inc_last: Epoch,
}
front_only!(MMonGetOSDMap);

impl MMonGetOSDMap {
    /// Asks for the whole map of one epoch.
    pub fn whole(epoch: Epoch) -> MMonGetOSDMap {
        MMonGetOSDMap { full_first: epoch, full_last: epoch, ..MMonGetOSDMap::default() }
    }
}
