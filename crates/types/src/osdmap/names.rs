//! Bit sets and small numbers with names: map flags, OSD states, pool flags, releases. The values are
//! `CEPH_OSDMAP_*`, `CEPH_OSD_*` (include/rados.h), `pg_pool_t::FLAG_*` and `ceph_release_t`; unknown
//! bits survive decode and encode.

use std::{fmt, ops};

use codec::Codec;

macro_rules! bit_names {
    ($(#[$doc:meta])* $name:ident($int:ty) { $($(#[$bit_doc:meta])* $bit:ident = $shift:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$bit_doc])* pub const $bit: $name = $name(1 << $shift);)*

            /// Each named bit and its name, in the order in which Ceph prints them.
            pub const NAMES: &'static [($name, &'static str)] = &[$(($name::$bit, $text),)*];

            /// True when every bit of `other` is set.
            pub fn has(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }

            /// The bits without those of `other`.
            pub fn without(self, other: $name) -> $name {
                $name(self.0 & !other.0)
            }

            /// The bits with those of `other` set or cleared.
            pub fn with(self, other: $name, is_set: bool) -> $name {
                if is_set { self | other } else { self.without(other) }
            }

            /// The bit that `text` names.
            pub fn parse(text: &str) -> Option<$name> {
                Self::NAMES.iter().find(|(_, name)| *name == text).map(|(bit, _)| *bit)
            }

            /// The names of the bits that are set.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                Self::NAMES.iter().filter(move |(bit, _)| self.has(*bit)).map(|(_, name)| *name)
            }
        }

        impl ops::BitOr for $name {
            type Output = $name;
            fn bitor(self, rhs: $name) -> $name {
                $name(self.0 | rhs.0)
            }
        }

        impl ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, rhs: $name) {
                self.0 |= rhs.0;
            }
        }

        /// The names of the bits that are set, with commas.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                for (index, name) in self.names().enumerate() {
                    if index > 0 {
                        f.write_str(",")?;
                    }
                    f.write_str(name)?;
                }
                Ok(())
            }
        }
    };
}

bit_names! {
    /// `CEPH_OSDMAP_*`: flags of the whole cluster.
    MapFlags(u32) {
        /// Retired: a pool flag says it.
        NEARFULL = 0, "nearfull";
        /// Retired: a pool flag says it.
        FULL = 1, "full";
        /// Clients hold their reads.
        PAUSERD = 2, "pauserd";
        /// Clients hold their writes.
        PAUSEWR = 3, "pausewr";
        /// Recovery is paused.
        PAUSEREC = 4, "pauserec";
        /// OSDs are not marked up.
        NOUP = 5, "noup";
        /// OSDs are not marked down.
        NODOWN = 6, "nodown";
        /// OSDs are not marked out.
        NOOUT = 7, "noout";
        /// OSDs that boot are not marked in.
        NOIN = 8, "noin";
        /// No backfill starts.
        NOBACKFILL = 9, "nobackfill";
        /// No rebalancing of PGs that are not degraded.
        NOREBALANCE = 14, "norebalance";
        /// No recovery starts.
        NORECOVER = 10, "norecover";
        /// No scrub starts.
        NOSCRUB = 11, "noscrub";
        /// No deep scrub starts.
        NODEEP_SCRUB = 12, "nodeep-scrub";
        /// Removed snapshots are not trimmed.
        NOSNAPTRIM = 21, "nosnaptrim";
        /// The cache tier agent rests.
        NOTIERAGENT = 13, "notieragent";
        /// Objects are ordered by bits; always set.
        SORTBITWISE = 15, "sortbitwise";
        /// Retired: the required release says it.
        REQUIRE_JEWEL = 16, "require_jewel_osds";
        /// Retired: the required release says it.
        REQUIRE_KRAKEN = 17, "require_kraken_osds";
        /// Retired: the required release says it.
        REQUIRE_LUMINOUS = 18, "require_luminous_osds";
        /// Deletes travel as part of recovery; always set since Luminous.
        RECOVERY_DELETES = 19, "recovery_deletes";
        /// Removed snapshots' directories are gone.
        PURGED_SNAPDIRS = 20, "purged_snapdirs";
        /// PG logs have a hard limit.
        PGLOG_HARDLIMIT = 22, "pglog_hardlimit";
        /// The numbers of PGs stay as they are, in all pools.
        NOAUTOSCALE = 23, "noautoscale";
    }
}

impl MapFlags {
    /// What a new Pacific cluster starts with.
    pub const PACIFIC: MapFlags = MapFlags(1 << 15 | 1 << 19 | 1 << 20 | 1 << 22);
}

bit_names! {
    /// `CEPH_OSD_*`: the state of one OSD.
    OsdState(u32) {
        /// The id is in use.
        EXISTS = 0, "exists";
        /// The OSD runs and answers.
        UP = 1, "up";
        /// Marked out by the monitors, not by an operator.
        AUTOOUT = 2, "autoout";
        /// Never was in.
        NEW = 3, "new";
        /// Above the full ratio.
        FULL = 4, "full";
        /// Above the nearfull ratio.
        NEARFULL = 5, "nearfull";
        /// Above the backfillfull ratio.
        BACKFILLFULL = 6, "backfillfull";
        /// The data is gone, the id waits for a replacement.
        DESTROYED = 7, "destroyed";
        /// Not to be marked up.
        NOUP = 8, "noup";
        /// Not to be marked down.
        NODOWN = 9, "nodown";
        /// Not to be marked in at boot.
        NOIN = 10, "noin";
        /// Not to be marked out.
        NOOUT = 11, "noout";
        /// Told to stop.
        STOP = 12, "stop";
    }
}

impl OsdState {
    /// The flags that operators set on OSDs, on CRUSH nodes and on device classes.
    pub const GROUP: OsdState = OsdState(1 << 8 | 1 << 9 | 1 << 10 | 1 << 11);
}

bit_names! {
    /// `pg_pool_t::FLAG_*`: flags of a pool.
    PoolFlags(u64) {
        /// Placement mixes PG and pool by hash; always set on new pools.
        HASHPSPOOL = 0, "hashpspool";
        /// Writes fail with ENOSPC or EDQUOT.
        FULL = 1, "full";
        /// An erasure-coded pool takes overwrites.
        EC_OVERWRITES = 2, "ec_overwrites";
        /// Clones may be missing: the pool is or was a cache tier.
        INCOMPLETE_CLONES = 3, "incomplete_clones";
        /// The pool cannot be deleted.
        NODELETE = 4, "nodelete";
        /// `pg_num` and `pgp_num` cannot be changed.
        NOPGCHANGE = 5, "nopgchange";
        /// `size` and `min_size` cannot be changed.
        NOSIZECHANGE = 6, "nosizechange";
        /// Writes are not cached.
        WRITE_FADVISE_DONTNEED = 7, "write_fadvise_dontneed";
        /// No scrub starts in the pool.
        NOSCRUB = 8, "noscrub";
        /// No deep scrub starts in the pool.
        NODEEP_SCRUB = 9, "nodeep-scrub";
        /// A quota is used up; `FULL` is set too.
        FULL_QUOTA = 10, "full_quota";
        /// An OSD of the pool is nearfull.
        NEARFULL = 11, "nearfull";
        /// An OSD of the pool is backfillfull.
        BACKFILLFULL = 12, "backfillfull";
        /// Clients (librbd) manage the snapshots.
        SELFMANAGED_SNAPS = 13, "selfmanaged_snaps";
        /// The monitors manage the snapshots.
        POOL_SNAPS = 14, "pool_snaps";
        /// The pool's first PGs are being made.
        CREATING = 15, "creating";
        /// Clients' operations fail with EIO.
        EIO = 16, "eio";
        /// The pool is expected to hold much data: it begins with many PGs.
        BULK = 17, "bulk";
    }
}

/// `ceph_release_t`: a release of Ceph, by number.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release(pub u8);

impl Release {
    /// 2.
    pub const BOBTAIL: Release = Release(2);
    /// 6.
    pub const FIREFLY: Release = Release(6);
    /// 8.
    pub const HAMMER: Release = Release(8);
    /// 10.
    pub const JEWEL: Release = Release(10);
    /// 12.
    pub const LUMINOUS: Release = Release(12);
    /// 13.
    pub const MIMIC: Release = Release(13);
    /// 14.
    pub const NAUTILUS: Release = Release(14);
    /// 15.
    pub const OCTOPUS: Release = Release(15);
    /// 16.
    pub const PACIFIC: Release = Release(16);

    const NAMES: [&'static str; 17] = [
        "unknown",
        "argonaut",
        "bobtail",
        "cuttlefish",
        "dumpling",
        "emperor",
        "firefly",
        "giant",
        "hammer",
        "infernalis",
        "jewel",
        "kraken",
        "luminous",
        "mimic",
        "nautilus",
        "octopus",
        "pacific",
    ];

    /// What clients of the release announce, as far as it tells releases apart (`ceph_release_features`).
    pub fn features(self) -> u64 {
        // Each with the first release that has it: tunables of CRUSH, its encodings, hashed pools, primary affinity,
        // caches, addresses of two protocols, weight sets (bit 21 of incarnation 2).
        let steps: [(u8, u64); 7] = [
            (1, 1 << 18),
            (4, 1 << 25 | 1 << 30),
            (6, 1 << 41 | 1 << 35),
            (8, 1 << 48),
            (10, 1 << 58),
            (11, 1 << 59),
            (12, 1 << 21 | 1 << 57),
        ];
        steps.iter().filter(|(since, _)| *since <= self.0).fold(0, |all, (_, bits)| all | bits)
    }

    /// The first release with all features that it has of those (`ceph_release_from_features`).
    pub fn of_features(features: u64) -> Release {
        let has = |release: &Release| release.features() & !features == 0;
        let newest = (1..=12).map(Release).take_while(has).last().unwrap_or_default();
        (1..=12).map(Release).find(|release| release.features() == newest.features()).unwrap_or_default()
    }

    /// The release that `text` names.
    pub fn parse(text: &str) -> Option<Release> {
        (1..=16u8).map(Release).find(|r| r.name() == text)
    }

    /// `pacific`, …; `unknown` for a number without a name here.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(usize::from(self.0)).copied().unwrap_or("unknown")
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
