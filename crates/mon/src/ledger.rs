//! The control plane's log as the monitor sees it: transactions of keys and values, committed one after
//! another. The embedded ledger is a durable store in the monitor's folder, [`MemLedger`] serves tests
//! and the simulator, an etcd client is to take the same place.

use std::collections::BTreeMap;

use bytes::Bytes;
use thiserror::Error;

/// Counts committed transactions, from 1 on. 0 is an empty ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub u64);

/// Changes that are committed together, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerTxn {
    /// The revision that the proposer knows; a ledger at another revision refuses.
    pub expected: Revision,
    /// New value by key; none deletes.
    pub ops: BTreeMap<String, Option<Bytes>>,
}

/// All that a ledger holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerContents {
    /// The last committed transaction.
    pub revision: Revision,
    /// Values by key.
    pub entries: BTreeMap<String, Bytes>,
}

/// Why a transaction was not committed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// Another writer committed in between.
    #[error("the ledger is at revision {found:?}, not {expected:?}")]
    Conflict {
        /// The revision proposed upon.
        expected: Revision,
        /// The ledger's.
        found: Revision,
    },
    /// The ledger cannot be read or written; it is unknown whether the transaction was committed.
    #[error("the ledger failed: errno {errno}")]
    Io {
        /// The system's error number.
        errno: i32,
    },
}

/// An ordered, durable log of committed transactions. The caller that executes the monitor's effects owns one and turns
/// its answers into events.
pub trait Ledger {
    /// All that is committed.
    fn load(&self) -> Result<LedgerContents, LedgerError>;

    /// Makes `txn` durable and returns its revision.
    fn commit(&mut self, txn: &LedgerTxn) -> Result<Revision, LedgerError>;

    /// Gives back the space of what is overwritten and deleted, if it takes any.
    fn compact(&mut self) -> Result<(), LedgerError> {
        Ok(())
    }
}

/// A ledger in memory.
#[derive(Clone, Debug, Default)]
pub struct MemLedger(pub LedgerContents);

impl Ledger for MemLedger {
    fn load(&self) -> Result<LedgerContents, LedgerError> {
        Ok(self.0.clone())
    }

    fn commit(&mut self, txn: &LedgerTxn) -> Result<Revision, LedgerError> {
        if txn.expected != self.0.revision {
            return Err(LedgerError::Conflict { expected: txn.expected, found: self.0.revision });
        }
        for (key, value) in &txn.ops {
            match value {
                Some(value) => self.0.entries.insert(key.clone(), value.clone()),
                None => self.0.entries.remove(key),
            };
        }
        self.0.revision.0 += 1;
        Ok(self.0.revision)
    }
}
