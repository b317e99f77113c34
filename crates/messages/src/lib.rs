//! Every message, one file each, and the table that dispatch and docs derive from.
//!
//! Client-facing messages have Ceph's numbers and encodings (16.2); messages among Loligo's own
//! daemons have Ceph's names where they play the same part, numbers from 0x8000 up, and our own encodings.
//!
//! Invariants: plain values and their encodings. Nothing here decides, and nothing panics on input.

mod m_osd_map;
mod m_osd_op;
mod m_osd_op_reply;
mod m_osd_ping;
mod m_ping;
mod m_watch_notify;
mod osd_op;
mod osd_to_mon;
mod raw;
mod table;

pub use m_osd_map::MOSDMap;
pub use m_osd_op::{MOSDOp, ObjectLocator, osd_flag};
pub use m_osd_op_reply::MOSDOpReply;
pub use m_osd_ping::{MOSDPing, PingOp};
pub use m_ping::MPing;
pub use m_watch_notify::{MWatchNotify, WatchOpcode};
pub use osd_op::{OpCode, OpParams, OsdOp, op_flag};
pub use osd_to_mon::{MOSDAlive, MOSDBoot, MOSDFailure, MOSDMarkMeDown, MOSDPGCreate, MPGStats};
pub use raw::RawMessage;
pub use table::{Message, TABLE};

#[cfg(test)]
mod tests;
