//! The power fails at any moment of a ledger's life: of what was not synced, some sectors are durable, and others are
//! not. The ledger opens all the same, and has what was committed.

use std::{
    io,
    sync::{Arc, Mutex},
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use redb::{Builder, StorageBackend, backends::InMemoryBackend};

use super::*;

const SECTOR_BYTES: usize = 512;
/// Commits of each life.
const COMMITS: u64 = 5;
/// Parts of a hundred of what was not synced that are durable.
const DURABLE_PARTS: [u32; 4] = [0, 30, 90, 100];

/// What changes a file, or makes its changes durable.
#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
    Sync,
}

type Changes = Arc<Mutex<Vec<Change>>>;

/// A file in memory whose changes are noted.
#[derive(Debug)]
struct NotedFile(InMemoryBackend, Changes);

impl NotedFile {
    fn note(&self, change: Change) {
        self.1.lock().unwrap().push(change);
    }
}

impl StorageBackend for NotedFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.note(Change::Length(len));
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.note(Change::Sync);
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.note(Change::Write(offset, data.to_vec()));
        self.0.write(offset, data)
    }
}

/// Opens a file as the monitor does.
fn open(file: &[u8]) -> Result<(EmbeddedLedger, Changes), redb::Error> {
    verify::verify(file.to_vec())?;
    let (memory, changes) = (InMemoryBackend::new(), Changes::default());
    memory.set_len(file.len() as u64)?;
    memory.write(0, file)?;
    let database = Builder::new().create_with_backend(NotedFile(memory, changes.clone()))?;
    Ok((EmbeddedLedger::of(database)?, changes))
}

/// A ledger from its start to its end.
struct Life {
    changes: Vec<Change>,
    /// What was committed, and how many changes there had been by then.
    committed: Vec<(usize, LedgerContents)>,
}

fn live(file: &[u8], rng: &mut StdRng) -> Life {
    let (mut ledger, changes) = open(file).unwrap();
    let mut committed = vec![(0, ledger.load().unwrap())];
    for number in 0..COMMITS {
        if number == COMMITS / 2 {
            ledger.compact().unwrap();
        }
        let entry = |_| {
            let value = vec![rng.random(); [10, 200, 1_500, 9_000][rng.random_range(0..4)]];
            (format!("key{}", rng.random_range(0..40)), rng.random_bool(0.8).then(|| Bytes::from(value)))
        };
        let ops = (0..8).map(entry).collect();
        let expected = committed[committed.len() - 1].1.revision;
        ledger.commit(&LedgerTxn { expected, ops }).unwrap();
        committed.push((changes.lock().unwrap().len(), ledger.load().unwrap()));
    }
    drop(ledger);
    let changes = changes.lock().unwrap().clone();
    Life { changes, committed }
}

/// Makes changes to a file: all, or so many parts of a hundred of the sectors. Lengths are durable in order.
fn apply(file: &mut Vec<u8>, changes: &[Change], part: u32, rng: &mut StdRng) {
    let mut is_length_durable = true;
    for change in changes {
        match change {
            Change::Length(bytes) => {
                is_length_durable &= rng.random_ratio(part, 100);
                if is_length_durable {
                    file.resize(*bytes as usize, 0);
                }
            }
            Change::Write(offset, data) => {
                let at = *offset as usize;
                assert_eq!(at % SECTOR_BYTES, 0, "sectors are written from their first byte on");
                for (sector, bytes) in data.chunks(SECTOR_BYTES).enumerate() {
                    let place = file.get_mut(at + sector * SECTOR_BYTES..).unwrap_or_default();
                    if rng.random_ratio(part, 100) && bytes.len() <= place.len() {
                        place[..bytes.len()].copy_from_slice(bytes);
                    }
                }
            }
            Change::Sync => {}
        }
    }
}

/// Cuts the power after each change of a life that began with this file. Returns one of the files that are left, of a
/// ledger that was made.
fn cut_everywhere(start: &[u8], life: &Life, name: &str, rng: &mut StdRng) -> Vec<u8> {
    let (mut durable, mut synced, mut left) = (start.to_vec(), 0, Vec::new());
    for at in 0..=life.changes.len() {
        let last = life.committed.iter().rposition(|(upto, _)| *upto <= at).unwrap();
        let allowed = life.committed[last..].iter().take(2).map(|(_, contents)| contents);
        for part in DURABLE_PARTS {
            let mut file = durable.clone();
            apply(&mut file, &life.changes[synced..at], part, rng);
            match open(&file) {
                Ok((ledger, _)) => {
                    let found = ledger.load().unwrap();
                    assert!(allowed.clone().any(|contents| *contents == found), "{name}, {at}, {part} %");
                    if rng.random_ratio(1, 20) {
                        left = file;
                    }
                }
                // It has its name only when its first commit is durable (`EmbeddedLedger::make`).
                Err(_) if start.is_empty() && last == 0 => {}
                Err(error) => panic!("{name}, {at}, {part} %: {error}"),
            }
        }
        if let Some(Change::Sync) = life.changes.get(at) {
            apply(&mut durable, &life.changes[synced..at], 100, rng);
            synced = at + 1;
        }
    }
    left
}

#[test]
fn whenever_the_power_fails_the_ledger_has_what_was_committed() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut file = Vec::new();
    for number in 0..4 {
        let life = live(&file, &mut rng);
        file = cut_everywhere(&file, &life, &format!("life {number}"), &mut rng);
    }
}
