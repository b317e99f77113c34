//! The embedded ledger: a redb file in the monitor's folder.

mod verify;

use std::{path::Path, thread, time::Duration};

use anyhow::{Context, Result};
use bytes::Bytes;
use mon::{Ledger, LedgerContents, LedgerError, LedgerTxn, Revision};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use crate::{durable, private, undo::Undo};

const ENTRIES: TableDefinition<&str, &[u8]> = TableDefinition::new("entries");
const REVISION: TableDefinition<(), u64> = TableDefinition::new("revision");

/// How often to try while another process has the file, and the pause between two attempts.
const LOCK_ATTEMPTS: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// EIO: what the machine is told of any failure; the log says more.
const EIO: i32 = 5;

/// For an operator whose monitor has no ledger that it could start with.
pub(crate) const ADVICE: &str = "keep the file, and see \"If the ledger is damaged\" in docs/operating.md: an older copy is no replacement";

/// A ledger in a redb file.
pub(crate) struct EmbeddedLedger {
    database: Database,
}

fn io(error: impl std::fmt::Display) -> LedgerError {
    tracing::error!(%error, "the ledger failed");
    LedgerError::Io { errno: EIO }
}

/// Begins what is durable before it counts, which takes a second sync: then damage to the last commit is told from a
/// commit that the power cut short, and is not answered by the state before it.
fn begin_write(database: &Database) -> Result<WriteTransaction, redb::Error> {
    let mut txn = database.begin_write()?;
    txn.set_two_phase_commit(true);
    Ok(txn)
}

impl EmbeddedLedger {
    /// Opens the file if it exists. A daemon makes none: that would stand in the way of `mkfs`.
    pub(crate) fn find(path: &Path) -> Result<Option<EmbeddedLedger>> {
        let is_there = path.try_exists().with_context(|| path.display().to_string())?;
        is_there.then(|| EmbeddedLedger::open(path)).transpose()
    }

    /// Makes the file, with what is in it first: after a power cut it is whole, or not there. What is there already, a
    /// ledger without entries, is replaced.
    pub(crate) fn make(path: &Path, first: &LedgerTxn, undo: &mut Undo) -> Result<()> {
        durable::replace(path, |new| {
            private::new_file(new)?;
            undo.made_for(new, path)?;
            EmbeddedLedger::open(new)?.commit(first)?;
            anyhow::Ok(())
        })
        .with_context(|| format!("making the ledger {}", path.display()))
    }

    /// Opens the file, made if it does not exist. It holds every key: its owner's alone, whatever the umask says.
    ///
    /// # Errors
    ///
    /// If anything in the file is not what was written, besides what has to do with the file system.
    pub(crate) fn open(path: &Path) -> Result<EmbeddedLedger> {
        private::make_file(path)?;
        EmbeddedLedger::open_sound(path).map_err(|error| {
            // Whatever is not the system's own is what redb says of the bytes.
            let is_damaged = match &error {
                redb::Error::Io(error) => error.raw_os_error().is_none(),
                redb::Error::DatabaseAlreadyOpen => false,
                _ => true,
            };
            let what = format!("opening the ledger {}", path.display());
            let advice = || format!("{what}: it is damaged; {ADVICE}");
            anyhow::Error::new(error).context(if is_damaged { advice() } else { what })
        })
    }

    /// Waits for a process that is just ending: one that was killed lives on until its commit is on the disk.
    fn open_sound(path: &Path) -> Result<EmbeddedLedger, redb::Error> {
        for _ in 1..LOCK_ATTEMPTS {
            match EmbeddedLedger::open_unlocked(path) {
                Err(redb::Error::DatabaseAlreadyOpen) => thread::sleep(LOCK_PAUSE),
                opened => return opened,
            }
        }
        EmbeddedLedger::open_unlocked(path)
    }

    fn open_unlocked(path: &Path) -> Result<EmbeddedLedger, redb::Error> {
        verify::verify(verify::read(path)?)?;
        EmbeddedLedger::of(Database::create(path)?)
    }

    fn of(database: Database) -> Result<EmbeddedLedger, redb::Error> {
        let txn = begin_write(&database)?;
        txn.open_table(ENTRIES)?;
        txn.open_table(REVISION)?;
        txn.commit()?;
        Ok(EmbeddedLedger { database })
    }

    fn read(&self) -> Result<LedgerContents, redb::Error> {
        let txn = self.database.begin_read()?;
        let revision = txn.open_table(REVISION)?.get(())?.map_or(0, |v| v.value());
        let mut contents = LedgerContents { revision: Revision(revision), ..LedgerContents::default() };
        for entry in txn.open_table(ENTRIES)?.iter()? {
            let (key, value) = entry?;
            contents.entries.insert(key.value().to_owned(), Bytes::copy_from_slice(value.value()));
        }
        Ok(contents)
    }

    fn write(&mut self, change: &LedgerTxn) -> Result<Result<Revision, LedgerError>, redb::Error> {
        let txn = begin_write(&self.database)?;
        let found = {
            let mut revision = txn.open_table(REVISION)?;
            let found = revision.get(())?.map_or(0, |v| v.value());
            revision.insert((), found + 1)?;
            let mut entries = txn.open_table(ENTRIES)?;
            for (key, value) in &change.ops {
                match value {
                    Some(value) => entries.insert(key.as_str(), value.as_ref())?,
                    None => entries.remove(key.as_str())?,
                };
            }
            found
        };
        if Revision(found) != change.expected {
            txn.abort()?;
            return Ok(Err(LedgerError::Conflict { expected: change.expected, found: Revision(found) }));
        }
        // Durable when this returns: redb's default.
        txn.commit()?;
        Ok(Ok(Revision(found + 1)))
    }
}

impl Ledger for EmbeddedLedger {
    fn compact(&mut self) -> Result<(), LedgerError> {
        self.database.compact().map(|_| ()).map_err(io)
    }

    fn load(&self) -> Result<LedgerContents, LedgerError> {
        self.read().map_err(io)
    }

    fn commit(&mut self, txn: &LedgerTxn) -> Result<Revision, LedgerError> {
        self.write(txn).map_err(io)?
    }
}

#[cfg(test)]
mod damage;

#[cfg(test)]
mod power_cut;

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn what_is_committed_is_there_after_reopening() {
        let dir = std::env::temp_dir().join(format!("loligo-ledger-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("ledger");
        let change = |expected, key: &str, value: Option<&'static [u8]>| LedgerTxn {
            expected: Revision(expected),
            ops: [(key.to_owned(), value.map(Bytes::from_static))].into(),
        };
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mut ledger = EmbeddedLedger::open(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(ledger.commit(&change(0, "a", Some(b"1"))), Ok(Revision(1)));
        let conflict = LedgerError::Conflict { expected: Revision(0), found: Revision(1) };
        assert_eq!(ledger.commit(&change(0, "b", Some(b"2"))), Err(conflict));
        drop(ledger);
        let mut ledger = EmbeddedLedger::open(&path).unwrap();
        let contents = ledger.load().unwrap();
        assert_eq!((contents.revision, contents.entries.len()), (Revision(1), 1));
        assert_eq!(ledger.commit(&change(1, "a", None)), Ok(Revision(2)));
        assert!(ledger.load().unwrap().entries.is_empty());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn it_is_made_as_a_whole_or_not_at_all() {
        let dir = std::env::temp_dir().join(format!("loligo-new-ledger-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("ledger");
        let first = |expected| LedgerTxn {
            expected: Revision(expected),
            ops: [("a".to_owned(), Some(Bytes::from_static(b"1")))].into(),
        };
        let files =
            || std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        let mut undo = Undo::default();
        EmbeddedLedger::make(&path, &first(1), &mut undo).unwrap_err();
        assert!(files().is_empty());
        EmbeddedLedger::make(&path, &first(0), &mut undo).unwrap();
        assert_eq!(files(), std::slice::from_ref(&path));
        drop(undo);
        assert!(files().is_empty());
        // In the place of one without entries.
        drop(EmbeddedLedger::open(&path).unwrap());
        let mut undo = Undo::default();
        EmbeddedLedger::make(&path, &first(0), &mut undo).unwrap();
        undo.keep();
        assert_eq!(EmbeddedLedger::open(&path).unwrap().load().unwrap().entries.len(), 1);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
