//! Snapshot contexts.

use codec::Codec;

use crate::SnapId;

/// `SnapContext`: the newest snapshot that a writer knows and all that exist, newest first.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapContext {
    /// The newest snapshot id.
    pub seq: SnapId,
    /// Existing snapshots, strictly descending, none above `seq`.
    pub snaps: Vec<SnapId>,
}

impl SnapContext {
    /// True when `snaps` strictly descends from at most `seq` (`SnapContext::is_valid`).
    pub fn is_valid(&self) -> bool {
        self.snaps.first().is_none_or(|s| *s <= self.seq)
            && self.snaps.windows(2).all(|w| w[0] > w[1])
            && self.snaps.last().is_none_or(|s| s.0 > 0)
    }
}
