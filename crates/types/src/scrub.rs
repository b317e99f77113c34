//! What is kept and told of scrubs: when a PG was scrubbed, and what a copy has of an object. Encodings are
//! ours.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::Codec;

use crate::{EVersion, HObject, UTime};

/// When a PG was scrubbed, and with what result (`pg_history_t`, `object_stat_sum_t`): copies agree on it.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub struct ScrubHistory {
    /// The PG's newest change at the last scrub.
    pub last_scrub: EVersion,
    /// When that was.
    pub last_scrub_stamp: UTime,
    /// The PG's newest change at the last deep scrub.
    pub last_deep_scrub: EVersion,
    /// When that was.
    pub last_deep_scrub_stamp: UTime,
    /// When a scrub last found nothing wrong.
    pub last_clean_scrub_stamp: UTime,
    /// Errors that the last scrub found by comparing what copies say of objects.
    pub shallow_errors: u64,
    /// Errors that the last deep scrub found in contents.
    pub deep_errors: u64,
    /// Bytes of omap values at the last deep scrub.
    pub omap_bytes: u64,
    /// Omap keys at the last deep scrub.
    pub omap_keys: u64,
    /// Objects with a large omap at the last deep scrub.
    #[codec(since = 2)]
    pub large_omap_objects: u64,
}

impl ScrubHistory {
    /// Of what two copies know, the newer.
    pub fn newer(self, other: ScrubHistory) -> ScrubHistory {
        let age = |h: &ScrubHistory| (h.last_scrub_stamp, h.last_deep_scrub_stamp);
        if age(&other) > age(&self) { other } else { self }
    }

    /// The scrub history of two PGs that become one: a scrub that is due for one of them is due.
    pub fn of_both(self, other: ScrubHistory) -> ScrubHistory {
        ScrubHistory {
            last_scrub: self.last_scrub.min(other.last_scrub),
            last_scrub_stamp: self.last_scrub_stamp.min(other.last_scrub_stamp),
            last_deep_scrub: self.last_deep_scrub.min(other.last_deep_scrub),
            last_deep_scrub_stamp: self.last_deep_scrub_stamp.min(other.last_deep_scrub_stamp),
            last_clean_scrub_stamp: self.last_clean_scrub_stamp.min(other.last_clean_scrub_stamp),
            shallow_errors: self.shallow_errors.saturating_add(other.shallow_errors),
            deep_errors: self.deep_errors.saturating_add(other.deep_errors),
            omap_bytes: self.omap_bytes.saturating_add(other.omap_bytes),
            omap_keys: self.omap_keys.saturating_add(other.omap_keys),
            large_omap_objects: self.large_omap_objects.saturating_add(other.large_omap_objects),
        }
    }

    /// Errors of both kinds.
    pub fn errors(&self) -> u64 {
        self.shallow_errors.saturating_add(self.deep_errors)
    }
}

/// What stands for xattrs that are too long to be told.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XattrSum {
    /// Their bytes.
    pub bytes: u64,
    /// crc32c of them, from all ones.
    pub crc: u32,
}

/// What one copy of a PG has of an object (`ScrubMap::object`).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub struct ScrubObject {
    /// Which.
    pub object: HObject,
    /// Bytes.
    pub size: u64,
    /// Xattrs, as they are stored.
    pub xattrs: BTreeMap<Bytes, Bytes>,
    /// True with omap keys.
    pub has_omap: bool,
    /// Deep: crc32c of the data, from all ones.
    pub data_digest: Option<u32>,
    /// Deep: crc32c of omap header, keys and values, from all ones.
    pub omap_digest: Option<u32>,
    /// Deep: part of the data cannot be read.
    pub is_unreadable: bool,
    /// Deep: omap keys.
    pub omap_keys: u64,
    /// Deep: bytes of omap values.
    pub omap_bytes: u64,
    /// Xattrs whose values are long, by their names.
    #[codec(since = 2)]
    pub long_xattrs: BTreeMap<Bytes, XattrSum>,
    /// All xattrs behind those, names and values, where there are very many.
    #[codec(since = 2)]
    pub more_xattrs: Option<XattrSum>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_another_osd_end_at_the_highest_number() {
        let many = ScrubHistory { shallow_errors: u64::MAX, deep_errors: 1, ..ScrubHistory::default() };
        assert_eq!(many.errors(), u64::MAX);
        let both = many.of_both(many);
        assert_eq!((both.shallow_errors, both.deep_errors), (u64::MAX, 2));
    }
}
