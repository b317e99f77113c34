//! The monitor map (`MonMap`, mon/MonMap.h), version 9: which monitors there are and where they listen.

use std::collections::{BTreeMap, BTreeSet};

use codec::Codec;

use crate::{EntityAddrVec, Epoch, Release, UTime};

/// `mon_feature_t`: features of the monitors as a quorum.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MonFeatures(pub u64);

impl MonFeatures {
    /// What a Pacific quorum turns on: kraken to pacific, with the pruning of OSD maps.
    pub const PACIFIC: MonFeatures = MonFeatures(0xff);
}

/// `mon_info_t`, version 5: one monitor.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 5, compat = 1)]
pub struct MonInfo {
    /// Its name, `a` of `mon.a`.
    pub name: String,
    /// Where it listens.
    pub public_addrs: EntityAddrVec,
    /// For DNS SRV records; lower is preferred.
    pub priority: u16,
    /// For DNS SRV records.
    pub weight: u16,
    /// Its place, for stretch mode.
    pub crush_loc: BTreeMap<String, String>,
}

/// `MonMap`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 9, compat = 6)]
pub struct MonMap {
    /// The cluster.
    pub fsid: [u8; 16],
    /// The version of the map.
    pub epoch: Epoch,
    /// When this epoch was made.
    pub last_changed: UTime,
    /// When the cluster was made.
    pub created: UTime,
    /// Features that stay on.
    pub persistent_features: MonFeatures,
    /// Features that may go off.
    pub optional_features: MonFeatures,
    /// Monitors by name.
    pub mon_info: BTreeMap<String, MonInfo>,
    /// Names in the order of their ranks.
    pub ranks: Vec<String>,
    /// Older monitors are refused.
    pub min_mon_release: Release,
    /// Ranks that were removed in the last change.
    pub removed_ranks: BTreeSet<u32>,
    /// How leaders are elected; 1 is by rank.
    pub strategy: u8,
    /// Monitors that may not lead.
    pub disallowed_leaders: BTreeSet<String>,
    /// Unused.
    pub stretch_mode_enabled: bool,
    /// Unused.
    pub tiebreaker_mon: String,
    /// Unused.
    pub stretch_marked_down_mons: BTreeSet<String>,
}

impl MonMap {
    /// Election by rank.
    pub const STRATEGY_CLASSIC: u8 = 1;

    /// An empty map of a new cluster.
    pub fn new(fsid: [u8; 16], created: UTime) -> MonMap {
        MonMap {
            fsid,
            created,
            last_changed: created,
            persistent_features: MonFeatures::PACIFIC,
            min_mon_release: Release::PACIFIC,
            strategy: MonMap::STRATEGY_CLASSIC,
            ..MonMap::default()
        }
    }

    /// Adds a monitor or moves it; ranks follow the order of the addresses, as Ceph's do.
    pub fn add(&mut self, name: &str, public_addrs: EntityAddrVec) {
        let info = MonInfo { name: name.to_owned(), public_addrs, ..MonInfo::default() };
        self.mon_info.insert(name.to_owned(), info);
        let mut by_addr: Vec<(&EntityAddrVec, &String)> =
            self.mon_info.iter().map(|(name, info)| (&info.public_addrs, name)).collect();
        by_addr.sort();
        self.ranks = by_addr.into_iter().map(|(_, name)| name.clone()).collect();
    }

    /// The rank of the monitor `name`.
    pub fn rank_of(&self, name: &str) -> Option<usize> {
        self.ranks.iter().position(|n| n == name)
    }

    /// The monitor of that rank.
    pub fn mon(&self, rank: usize) -> Option<&MonInfo> {
        self.mon_info.get(self.ranks.get(rank)?)
    }

    /// Monitors in the order of their ranks.
    pub fn mons(&self) -> impl Iterator<Item = &MonInfo> {
        self.ranks.iter().filter_map(|name| self.mon_info.get(name))
    }

    /// How many monitors there are.
    pub fn size(&self) -> usize {
        self.mon_info.len()
    }
}

#[cfg(test)]
mod tests;
