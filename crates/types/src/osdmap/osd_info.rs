//! What the map remembers of an OSD's life (`osd_info_t`, `osd_xinfo_t`, osd/OSDMap.h).

use codec::Codec;

use crate::{Epoch, UTime};

/// `osd_info_t`: the epochs of an OSD's life. Peering decides from them which OSDs may have seen writes.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version_byte = 1)]
pub struct OsdInfo {
    /// First epoch of the last interval that ended with an orderly stop.
    pub last_clean_begin: Epoch,
    /// Last epoch of it.
    pub last_clean_end: Epoch,
    /// The epoch that marked it up.
    pub up_from: Epoch,
    /// The last epoch in which it is known to have been alive.
    pub up_thru: Epoch,
    /// The epoch that marked it down.
    pub down_at: Epoch,
    /// The epoch in which an operator declared it lost.
    pub lost_at: Epoch,
}

/// `osd_xinfo_t`, version 4: how reliable the OSD has been, and its features.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 4, compat = 1)]
pub struct OsdXInfo {
    /// When it was marked down.
    pub down_stamp: UTime,
    /// The probability that it is only slow, times 2^32 - 1; see [`OsdXInfo::laggy_probability`].
    pub laggy_probability_raw: u32,
    /// Mean time, in seconds, between being marked down and coming back.
    pub laggy_interval: u32,
    /// The features it announced.
    pub features: u64,
    /// Its weight before it was marked out automatically.
    pub old_weight: u32,
    /// When it scrubbed purged snapshots last.
    pub last_purged_snaps_scrub: UTime,
    /// The last epoch in which it is known to have died.
    pub dead_epoch: Epoch,
}

impl OsdXInfo {
    /// The probability that the OSD is only slow when it is reported as failed.
    pub fn laggy_probability(&self) -> f32 {
        self.laggy_probability_raw as f32 / u32::MAX as f32
    }
}
