//! Snapshot contexts.

use codec::Codec;

use crate::SnapId;

/// `SnapContext`: the newest snapshot that a writer knows and all that exist, newest first.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapContext {
    /// The newest snapshot id, at most [`SnapId::MAX`].
    pub seq: SnapId,
    /// Existing snapshots, strictly descending, none above `seq`.
    pub snaps: Vec<SnapId>,
}

impl SnapContext {
    /// True when `seq` is the number of a snapshot, and `snaps` strictly descends from at most `seq`
    /// (`SnapContext::is_valid`).
    pub fn is_valid(&self) -> bool {
        self.seq <= SnapId::MAX
            && self.snaps.first().is_none_or(|s| *s <= self.seq)
            && self.snaps.windows(2).all(|w| w[0] > w[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_descend_from_the_newest_one_which_is_no_head() {
        let is_valid = |seq, snaps: &[u64]| {
            SnapContext { seq: SnapId(seq), snaps: snaps.iter().copied().map(SnapId).collect() }.is_valid()
        };
        assert!(is_valid(0, &[]) && is_valid(0, &[0]) && is_valid(5, &[5, 0]) && is_valid(7, &[5, 4, 1]));
        assert!(is_valid(SnapId::MAX.0, &[SnapId::MAX.0, 1]));
        assert!(!is_valid(SnapId::HEAD.0, &[]) && !is_valid(SnapId::DIR.0, &[1]));
        assert!(
            !is_valid(3, &[4]) && !is_valid(5, &[4, 4]) && !is_valid(5, &[1, 4]) && !is_valid(5, &[0, 0])
        );
    }
}
