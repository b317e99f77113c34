//! The monitor map (`MonMap`, mon/MonMap.h), version 10: which monitors there are, where they listen, and
//! what secret keys they take.

use std::collections::{BTreeMap, BTreeSet};

use codec::Codec;

use crate::{EntityAddrVec, Epoch, KeyType, Release, UTime, Uuid};

/// `mon_feature_t`: features of the monitors as a quorum.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MonFeatures(pub u64);

impl MonFeatures {
    /// What a Pacific quorum turns on: kraken to pacific, with the pruning of OSD maps.
    pub const PACIFIC: MonFeatures = MonFeatures(0xff);
}

/// `mon_info_t`, version 6: one monitor.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 6, compat = 1)]
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
    /// When it joined.
    #[codec(since = 6)]
    pub time_added: UTime,
}

/// `MonMap`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 10, compat = 6)]
pub struct MonMap {
    /// The cluster.
    pub fsid: Uuid,
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
    /// Grows when all rotating secrets are thrown away.
    #[codec(since = 10)]
    pub auth_epoch: Epoch,
    /// The type of new rotating secrets, as a number ([`KeyType::number`]).
    #[codec(since = 10)]
    pub auth_service_cipher: u32,
    /// Types of keys with which entities may authenticate.
    #[codec(since = 10)]
    pub auth_allowed_ciphers: Vec<u32>,
    /// The type of new keys where none is asked for.
    #[codec(since = 10)]
    pub auth_preferred_cipher: u32,
}

impl MonMap {
    /// Election by rank.
    pub const STRATEGY_CLASSIC: u8 = 1;
    /// Election by rank among those that may lead.
    pub const STRATEGY_DISALLOW: u8 = 2;
    /// Election by connections.
    pub const STRATEGY_CONNECTIVITY: u8 = 3;

    /// An empty map of a new cluster, which takes keys of both types and prefers those that every client knows.
    pub fn new(fsid: Uuid, created: UTime) -> MonMap {
        let mut map = MonMap {
            fsid,
            created,
            last_changed: created,
            persistent_features: MonFeatures::PACIFIC,
            min_mon_release: Release::PACIFIC,
            strategy: MonMap::STRATEGY_CLASSIC,
            ..MonMap::default()
        };
        map.set_key_types(KeyType::ALL, KeyType::Aes);
        map
    }

    /// Says which keys may be used, and which new ones are made. Service secrets are of the safest type: none
    /// but the services open what is sealed with them.
    pub fn set_key_types(&mut self, allowed: impl IntoIterator<Item = KeyType>, preferred: KeyType) {
        self.auth_allowed_ciphers = allowed.into_iter().map(|kind| u32::from(kind.number())).collect();
        self.auth_preferred_cipher = preferred.number().into();
        self.auth_service_cipher = KeyType::Aes256k.number().into();
    }

    /// The type of new rotating secrets.
    pub fn service_key_type(&self) -> KeyType {
        key_type(self.auth_service_cipher).unwrap_or(KeyType::Aes256k)
    }

    /// The type of new keys where none is asked for.
    pub fn preferred_key_type(&self) -> KeyType {
        key_type(self.auth_preferred_cipher).unwrap_or(KeyType::Aes)
    }

    /// Types of keys with which entities may authenticate.
    pub fn allowed_key_types(&self) -> impl Iterator<Item = KeyType> {
        self.auth_allowed_ciphers.iter().filter_map(|number| key_type(*number))
    }

    /// True when entities with such a key are let in.
    pub fn allows_key_type(&self, kind: KeyType) -> bool {
        self.allowed_key_types().any(|allowed| allowed == kind)
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

fn key_type(number: u32) -> Option<KeyType> {
    u16::try_from(number).ok().and_then(KeyType::from_number)
}

#[cfg(test)]
mod tests;
