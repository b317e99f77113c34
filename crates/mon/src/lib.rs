//! The monitor as a pure state machine: cluster maps, authentication database, configuration, commands, statistics
//! and health, over a ledger that makes decisions durable. It plays the manager's part, too.
//!
//! [`Mon::handle`] takes an [`Event`] and gives [`Effect`]s. Every change goes to the ledger first and becomes
//! visible when it is committed; only the ledger's contents survive a restart. Statistics are not stored.
//!
//! Invariant: no socket, file, clock or hidden randomness; this crate knows no `osd`, no `pg` and no `store`.

mod access;
mod auth_service;
mod commands;
mod config_service;
mod epoch_map;
mod event;
mod format;
mod health;
mod ledger;
mod ledger_keys;
mod log_service;
mod manager;
mod mkfs;
mod mon;
mod op_history;
mod options;
mod osdmap_service;
mod rebuild;
mod service_map;
mod session;
mod state;
mod stats;
mod text_limit;

pub use event::{ConnId, Effect, Effects, Event, Peer};
pub use health::DataSpace;
pub use ledger::{Ledger, LedgerContents, LedgerError, LedgerTxn, MemLedger, Revision};
pub use manager::{ManagerAuthority, objects::ObjectRequest, rbd_support::RunId};
pub use mkfs::{MkfsParams, mkfs};
pub use mon::Mon;
pub use options::MonOptions;
pub use rebuild::{OsdRecords, RebuildError, RebuildParams, Rebuilt, RecordsError, StoreRecords, rebuild};

#[cfg(test)]
mod tests;
