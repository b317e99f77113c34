//! The basic types of a cluster: ids, epochs, names, addresses, versions, object names, transactions and cluster
//! maps, each with Ceph's encoding if a stock client sees it.
//!
//! Invariants: plain values; no IO, no clock, no randomness. This crate knows no message and no daemon.

mod addr;
mod daemon_version;
mod dump;
mod errno;
mod hobject;
mod ids;
mod interval_set;
mod key_type;
mod manifest;
mod membership;
mod monmap;
mod name;
mod options;
mod osdmap;
mod pairs;
mod pg_log;
mod pg_stat;
mod scrub;
mod snap_context;
mod time;
mod transaction;
mod uuid;
mod version;
mod xml;

pub use addr::{AddrType, EntityAddr, EntityAddrVec};
pub use daemon_version::{DAEMON_VERSION, daemon_version_line};
pub use dump::{PgInfoContext, pretty as pretty_json};
pub use errno::Errno;
pub use hobject::{HObject, cmp_bytes, cmp_reversed_bits};
pub use ids::{CollId, Epoch, GlobalId, OsdId, PgId, PoolId, SnapId, SpgId, Token};
pub use interval_set::IntervalSet;
pub use key_type::KeyType;
pub use manifest::{Chunk, ChunkMap, ObjectManifest, decode_chunks};
pub use membership::{Membership, distinct_osds};
pub use monmap::{MonFeatures, MonInfo, MonMap};
pub use name::{EntityName, EntityNum, EntityType};
pub use options::{
    CONFIG_COMMANDS, ConfParseError, ConfSections, ConfigOwner, ConfigReply, OptionInfo, OptionKind,
    OptionLevel, OptionSetError, OptionShown, OptionValueError, Settings, WireSettings, find_option,
    is_observed, known_option, option_json, option_name, options, parse_conf,
};
pub use osdmap::{
    ApplyError, AutoscaleMode, CrushBlob, ErasureCodeProfiles, HitSetParams, Incremental, MapFlags,
    OSD_COUNT_MAX, OsdInfo, OsdMap, OsdState, OsdXInfo, PRIMARY_AFFINITY_DEFAULT, PgMergeMeta, PgPool,
    PoolFlags, PoolOptKey, PoolOptKind, PoolOptValue, PoolOpts, PoolSnapInfo, PoolType, RangeBlocklist,
    RangeChange, Release, UpActing, WEIGHT_IN, object_hash,
};
pub use pairs::Pairs;
pub use pg_log::{LogEntry, Missing, ObjectVersions, PgInfo, PgInterval, PgProgress, PgTotals};
pub use pg_stat::{OsdStat, PgStat, PgStatSum, PgState, PgTimes, PoolStatfs};
pub use scrub::{ScrubHistory, ScrubObject, XattrSum};
pub use snap_context::SnapContext;
pub use time::{Instant, UTime};
pub use transaction::{CollMerge, CollSplit, Mutation, Transaction, TxnOp};
pub use uuid::{Uuid, UuidParseError};
pub use version::{EVersion, ReqId};
pub use xml::{daemon_xml, xml};

#[cfg(test)]
mod tests;
