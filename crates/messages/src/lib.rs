//! Every message, and the table that encoding and dispatch derive from.
//!
//! Client-facing messages have Ceph's numbers and encodings (16.2). Messages among Loligo's own daemons have Ceph's
//! names if they play the same part, numbers from 0x8000 up, and our own encodings.
//!
//! Invariants: plain values and their encodings. Nothing here decides, and no input makes it panic.

mod describe;
mod m_auth;
mod m_command;
mod m_config;
mod m_get_pool_stats;
mod m_log;
mod m_mgr_map;
mod m_mgr_service;
mod m_mon_command;
mod m_mon_get_map;
mod m_mon_get_osd_map;
mod m_mon_get_version;
mod m_mon_map;
mod m_mon_subscribe;
mod m_osd_backoff;
mod m_osd_map;
mod m_osd_op;
mod m_osd_op_reply;
mod m_osd_ping;
mod m_ping;
mod m_pool_op;
mod m_statfs;
mod m_watch_notify;
mod osd_op;
mod osd_to_mon;
mod paxos_header;
mod perf_counters;
mod pg_map;
mod pg_peer;
mod pg_proxy;
mod pg_scrub;
mod pool_stat;
mod raw;
mod table;

pub use m_auth::{MAuth, MAuthReply};
pub use m_command::{MCommand, MCommandReply, MMgrCommand, MMgrCommandReply};
pub use m_config::MConfig;
pub use m_get_pool_stats::{MGetPoolStats, MGetPoolStatsReply};
pub use m_log::{LogEntry, LogLevel, MLog, MLogAck};
pub use m_mgr_map::{MMgrMap, MgrMap, MgrModule, MgrModuleOption, MgrStandby};
pub use m_mgr_service::{MMgrClose, MMgrConfigure, MMgrOpen, MMgrReport, PerfCounterType, ServiceFacts};
pub use m_mon_command::{MMonCommand, MMonCommandAck};
pub use m_mon_get_map::MMonGetMap;
pub use m_mon_get_osd_map::MMonGetOSDMap;
pub use m_mon_get_version::{MMonGetVersion, MMonGetVersionReply};
pub use m_mon_map::MMonMap;
pub use m_mon_subscribe::{MMonSubscribe, SubscribeItem};
pub use m_osd_backoff::{BackoffOp, MOSDBackoff};
pub use m_osd_map::MOSDMap;
pub use m_osd_op::{MOSDOp, ObjectLocator, osd_flag, says_it_writes, tries_when_full};
pub use m_osd_op_reply::MOSDOpReply;
pub use m_osd_ping::{MOSDPing, PingOp};
pub use m_ping::{MPing, Pong};
pub use m_pool_op::{MPoolOp, MPoolOpReply, PoolOpCode};
pub use m_statfs::{MStatfs, MStatfsReply};
pub use m_watch_notify::{MWatchNotify, WatchOpcode};
pub use osd_op::{OpCode, OpParams, OsdOp, op_flag, watch_op};
pub use osd_to_mon::{
    ImageCounts, ImageKey, MOSDAlive, MOSDBoot, MOSDFailure, MOSDForceRecovery, MOSDImageQuery,
    MOSDImageStats, MOSDMarkMeDown, MOSDPGCreate, MOSDPGTemp, MPGStats, PeerPing, PgCreation,
};
pub use paxos_header::PaxosHeader;
pub use perf_counters::{
    CLUSTER_PERF, MON_PERF, OSD_PERF, PERF_USEFUL, PerfCounter, PerfKind, PerfLogger, PerfValue, PerfValues,
    perf_dump, perf_reset_answer, perf_schema,
};
pub use pg_map::{CephOsdStat, CephPgStat, PgMap, StorePerfStat};
pub use pg_peer::{
    CloneBase, MOSDRepOp, MOSDRepOpReply, MPgActivated, MPgClean, MPgCommitted, MPgCopyData, MPgCopyGet,
    MPgInfo, MPgLog, MPgNotify, MPgPull, MPgPush, MPgPushRefused, MPgPushReply, MPgQuery, ObjectCursor,
    PriorLease, pg_peer_target,
};
pub use pg_proxy::{MPgProxyOp, MPgProxyReply};
pub use pg_scrub::{
    MOSDRepScrub, MOSDRepScrubMap, MOSDScrub, MOSDScrubReserve, MPgBadCopy, ScrubReserveStep,
};
pub use pool_stat::{ObjectStatCollection, ObjectStatSum, PoolStat, StoreStatfs};
pub use raw::{PEER_SEGMENT_BYTES_MAX, RawMessage};
pub use table::{Message, TABLE};

#[cfg(test)]
mod tests;
