//! `MMgrMap` (0x704) and the `MgrMap` in it (mon/MgrMap.h): where the manager listens.

use std::collections::{BTreeMap, BTreeSet};

use codec::Codec;
use types::{EntityAddrVec, Epoch, UTime};

use crate::table::front_only;

/// Tells a subscriber where the manager is. Clients dial it at once and keep the connection for commands.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MMgrMap {
    /// The map.
    pub mgrmap: MgrMap,
}
front_only!(MMgrMap);

/// `MgrMap`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 12, compat = 6)]
pub struct MgrMap {
    /// The version of the map; clients ignore older ones.
    pub epoch: Epoch,
    /// Where the active manager listens.
    pub active_addrs: EntityAddrVec,
    /// Its global id; 0 without one.
    pub active_gid: u64,
    /// True when it takes commands.
    pub available: bool,
    /// `x` of mgr.x.
    pub active_name: String,
    /// Managers that wait to take over, by global id.
    pub standbys: BTreeMap<u64, MgrStandby>,
    /// Modules that an operator enabled.
    pub modules: BTreeSet<String>,
    /// URIs that modules serve, by module.
    pub services: BTreeMap<String, String>,
    /// Modules that the active manager has.
    pub available_modules: Vec<MgrModule>,
    /// Since when it is active.
    pub active_change: UTime,
    /// Modules that are always on, by release.
    pub always_on_modules: BTreeMap<u32, BTreeSet<String>>,
    /// Its feature bits.
    pub active_mgr_features: u64,
    /// The OSD map in which the manager before it was blocklisted.
    pub last_failure_osd_epoch: Epoch,
    /// Addresses of the clients that its modules are, to blocklist them with it.
    #[codec(since = 11)]
    pub client_addrs: Vec<EntityAddrVec>,
    /// The modules' names, in the same order.
    #[codec(since = 12)]
    pub client_names: Vec<String>,
}

/// `MgrMap::StandbyInfo`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 4, compat = 1)]
pub struct MgrStandby {
    /// Its global id.
    pub gid: u64,
    /// `y` of mgr.y.
    pub name: String,
    /// Names of its modules, for older readers.
    pub module_names: BTreeSet<String>,
    /// Its modules.
    #[codec(since = 3)]
    pub modules: Vec<MgrModule>,
    /// Its feature bits.
    #[codec(since = 4)]
    pub features: u64,
}

/// `MgrMap::ModuleInfo`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub struct MgrModule {
    /// The module.
    pub name: String,
    /// True when all it needs is installed.
    pub can_run: bool,
    /// What is missing.
    pub error: String,
    /// Its options, by name.
    #[codec(since = 2)]
    pub options: BTreeMap<String, MgrModuleOption>,
}

/// `MgrMap::ModuleOption`.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 1, compat = 1)]
pub struct MgrModuleOption {
    /// The option.
    pub name: String,
    /// `Option::type_t`.
    pub kind: u8,
    /// `Option::level_t`.
    pub level: u8,
    /// `Option::flag_t` bits.
    pub flags: u32,
    /// Its value unless it is set.
    pub default_value: String,
    /// Smallest value, where there is one.
    pub min: String,
    /// Largest value, where there is one.
    pub max: String,
    /// The only values allowed; empty for any.
    pub enum_allowed: BTreeSet<String>,
    /// One line.
    pub description: String,
    /// More lines.
    pub long_description: String,
    /// For searching.
    pub tags: BTreeSet<String>,
    /// Related options.
    pub see_also: BTreeSet<String>,
}
