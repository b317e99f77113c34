//! `MLog` (52) and `MLogAck` (53): lines of the cluster log, to the monitors and to `ceph -w`.

use codec::Codec;
use types::{EntityAddrVec, EntityName, EntityNum, UTime, Uuid};

use crate::{PaxosHeader, table::front_only};

/// `clog_type`: how grave a line is.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogLevel(pub u16);

impl LogLevel {
    /// For developers.
    pub const DEBUG: LogLevel = LogLevel(0);
    /// As expected.
    pub const INFO: LogLevel = LogLevel(1);
    /// Security.
    pub const SEC: LogLevel = LogLevel(2);
    /// An operator should look.
    pub const WARN: LogLevel = LogLevel(3);
    /// Something is broken.
    pub const ERROR: LogLevel = LogLevel(4);

    /// `[INF]` and so on, as logs print it.
    pub fn tag(self) -> &'static str {
        match self {
            LogLevel::DEBUG => "[DBG]",
            LogLevel::INFO => "[INF]",
            LogLevel::SEC => "[SEC]",
            LogLevel::WARN => "[WRN]",
            LogLevel::ERROR => "[ERR]",
            LogLevel(_) => "[???]",
        }
    }

    /// The level that a command or a subscription names.
    pub fn parse(text: &str) -> Option<LogLevel> {
        Some(match text {
            "debug" => LogLevel::DEBUG,
            "info" => LogLevel::INFO,
            "sec" => LogLevel::SEC,
            "warn" => LogLevel::WARN,
            "error" => LogLevel::ERROR,
            _ => return None,
        })
    }
}

/// `LogEntry`, version 5: one line.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 5, compat = 5)]
pub struct LogEntry {
    /// The daemon or client that logs the entry, by name.
    pub name: EntityName,
    /// The daemon or client that logs the entry, as a number.
    pub rank: EntityNum,
    /// Where the speaker listens.
    pub addrs: EntityAddrVec,
    /// When.
    pub stamp: UTime,
    /// Counts the speaker's lines.
    pub seq: u64,
    /// How grave.
    pub level: LogLevel,
    /// The line.
    #[codec(lossy)]
    pub message: String,
    /// `cluster` or `audit`.
    #[codec(lossy)]
    pub channel: String,
}

/// Lines of the log.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MLog {
    /// See there.
    pub header: PaxosHeader,
    /// The cluster.
    pub fsid: Uuid,
    /// The lines, oldest first.
    pub entries: Vec<LogEntry>,
}
front_only!(MLog);

/// The monitor has written lines down.
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
pub struct MLogAck {
    /// The cluster.
    pub fsid: Uuid,
    /// The newest of them.
    pub last: u64,
    /// Their channel.
    pub channel: String,
}
front_only!(MLogAck);
