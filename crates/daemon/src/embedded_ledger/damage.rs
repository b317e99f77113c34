//! A damaged file of a ledger: what opens it ends with an error that says what to do, or finds what was committed.

use std::{env, fs, process, sync::LazyLock};

use ::damage::Damage;
use proptest::{prelude::*, sample::Index};

use super::*;

const SECTOR_BYTES: usize = 512;

/// The file of a ledger and what it holds.
struct Sample {
    /// As it was closed, and as it was left when the process was killed.
    files: [Vec<u8>; 2],
    /// Sectors that say something.
    sectors: Vec<usize>,
    /// Those that the last commit wrote.
    last_written: Vec<usize>,
    contents: LedgerContents,
}

static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let path = env::temp_dir().join(format!("loligo-sample-ledger-{}", process::id()));
    let mut ledger = EmbeddedLedger::open(&path).unwrap();
    let mut before = Vec::new();
    for revision in 0..12 {
        before = fs::read(&path).unwrap();
        // Some values fill pages of their own, some entries go again.
        let entry = |number: u64| {
            let value = Bytes::from(vec![number as u8; [10, 200, 1_500, 9_000][number as usize % 4]]);
            (format!("key{}", (revision * 5 + number) % 45), (number > 0).then_some(value))
        };
        ledger.commit(&LedgerTxn { expected: Revision(revision), ops: (0..8).map(entry).collect() }).unwrap();
    }
    let (contents, killed) = (ledger.load().unwrap(), fs::read(&path).unwrap());
    drop(ledger);
    let closed = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let sector = |file: &[u8], at: usize| file[at * SECTOR_BYTES..][..SECTOR_BYTES].to_vec();
    let is_used = |at: &usize| sector(&closed, *at).iter().any(|byte| *byte != 0);
    let is_last = |at: &usize| sector(&killed, *at) != sector(&before, *at);
    let sectors = (0..closed.len() / SECTOR_BYTES).filter(is_used).collect();
    let last_written = (0..before.len() / SECTOR_BYTES).filter(is_last).collect();
    Sample { files: [closed, killed], sectors, last_written, contents }
});

/// What happens to a sector.
fn damage() -> impl Strategy<Value = Option<Damage>> {
    let index = any::<Index>;
    prop_oneof![
        3 => (index(), any::<u8>()).prop_map(|(at, bit)| Some(Damage::Bit(at, bit))),
        2 => (index(), any::<u64>()).prop_map(|(at, value)| Some(Damage::Number(at, value, 8))),
        1 => (index(), 0u64..2_048).prop_map(|(at, value)| Some(Damage::Number(at, value, 4))),
        1 => index().prop_map(|at| Some(Damage::Cut(at))),
        // All zeros.
        2 => Just(None),
    ]
}

fn damaged(number: usize, sector: Index, damage: Option<&Damage>) -> Vec<u8> {
    let sample = &*SAMPLE;
    let mut file = sample.files[number].clone();
    let start = sample.sectors[sector.index(sample.sectors.len())] * SECTOR_BYTES;
    match damage {
        Some(Damage::Cut(at)) => file.truncate(at.index(file.len())),
        Some(damage) => damage.overwrite(&mut file[start..start + SECTOR_BYTES]),
        None => file[start..start + SECTOR_BYTES].fill(0),
    }
    file
}

/// Opens a file with these bytes, and uses what it holds.
fn open(file: &[u8], case: &str) -> Result<LedgerContents> {
    let path = env::temp_dir().join(format!("loligo-{case}-ledger-{}", process::id()));
    fs::write(&path, file).unwrap();
    let used = EmbeddedLedger::open(&path).map(|mut ledger| {
        let contents = ledger.load().unwrap();
        let ops = [("key3".to_owned(), Some(Bytes::from(vec![1; 5_000])))].into();
        ledger.commit(&LedgerTxn { expected: contents.revision, ops }).unwrap();
        ledger.compact().unwrap();
        contents
    });
    fs::remove_file(&path).unwrap();
    used
}

proptest! {
    #![proptest_config(::damage::cases(60))]

    #[test]
    fn a_damaged_ledger_is_refused_or_holds_what_was_committed(
        number in 0usize..2,
        sector: Index,
        damage in damage(),
    ) {
        match open(&damaged(number, sector, damage.as_ref()), "damaged") {
            Ok(found) => prop_assert_eq!(&found, &SAMPLE.contents),
            Err(error) => prop_assert!(error.to_string().contains(ADVICE), "{error:#}"),
        }
    }
}

#[test]
fn damage_to_what_was_committed_last_is_not_taken_for_a_commit_that_was_cut_short() {
    let sample = &*SAMPLE;
    assert!(sample.last_written.len() > 1);
    for at in &sample.last_written {
        let mut file = sample.files[1].clone();
        file[at * SECTOR_BYTES..][..SECTOR_BYTES].fill(0);
        if let Ok(found) = open(&file, "last") {
            assert_eq!(found, sample.contents, "sector {at}");
        }
    }
}

#[test]
fn a_sound_ledger_passes_however_it_was_left() {
    for file in &SAMPLE.files {
        assert_eq!(open(file, "sound").unwrap(), SAMPLE.contents);
    }
}
