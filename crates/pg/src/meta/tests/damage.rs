//! Damaged records of PGs: none of one is used, or all of it, as it stands there.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*, sample::Index};
use types::{IntervalSet, OsdId, PgTotals, ReqId, ScrubHistory};

use super::*;
use crate::{
    Pg,
    damage::{Damage, damage, damaged},
};

fn coll() -> CollId {
    CollId::pg(PgId::new(PoolId(1), 0))
}

fn at(version: u64) -> EVersion {
    EVersion::new(Epoch(3), version)
}

/// A record with some of everything.
fn record() -> MetaChange {
    let named = |name: &'static str| HObject { oid: name.into(), pool: PoolId(1), ..object() };
    let mut purged_snaps = IntervalSet::new();
    [(1, 2), (6, 1)].iter().for_each(|(snap, count)| purged_snaps.insert(*snap, *count));
    let info = PgInfo {
        last_update: at(5),
        log_tail: at(1),
        last_epoch_started: Epoch(2),
        created: Epoch(1),
        epoch: Epoch(4),
        missing_count: 1,
        purged_snaps,
        totals: PgTotals { objects: 4, clones: 1, bytes: 9 },
        since: Epoch(3),
        scrubs: ScrubHistory { last_scrub: at(2), shallow_errors: 1, ..ScrubHistory::default() },
        pg_num: 8,
        ..PgInfo::default()
    };
    let interval = PgInterval {
        first: Epoch(1),
        last: Epoch(2),
        acting: vec![OsdId(1), OsdId(2)],
        primary: OsdId(1),
        maybe_went_rw: true,
        forgotten_since: Epoch(0),
    };
    let mut change = MetaChange::default();
    for version in 2..=5 {
        let reqid = ReqId { tid: version, ..ReqId::default() };
        let returns = vec![(0, Bytes::from_static(b"output"))];
        let lost_to = (version == 4).then(|| at(2));
        let entry =
            LogEntry { version: at(version), object: named("a"), reqid, returns, ..LogEntry::default() };
        change.log(&LogEntry { lost_to, ..entry });
    }
    change.info(&info, &mut None);
    change.intervals(&vec![interval.clone(), interval]);
    change.missing(&named("a"), Some(at(5)));
    change.missing(&named("b"), Some(at(3)));
    change.gathered(&named("a"), true);
    change
}

fn stored(entries: impl IntoIterator<Item = (Bytes, Bytes)>) -> MemStore {
    let (mut store, mut txn) = (MemStore::new(), Transaction::new(coll()));
    txn.ops.push(TxnOp::CreateCollection);
    txn.push(&object(), Mutation::OmapSet(entries.into_iter().collect()));
    store.submit(Token(0), txn);
    store
}

/// The record of a PG that was loaded.
fn kept_again(loaded: &Loaded) -> Pairs {
    let mut change = MetaChange::default();
    loaded.log.iter().for_each(|entry| change.log(entry));
    change.info(&loaded.info, &mut None);
    change.intervals(&loaded.intervals);
    loaded.missing.iter().for_each(|(object, need)| change.missing(object, Some(*need)));
    loaded.gathered.iter().for_each(|object| change.gathered(object, true));
    change.into_entries()
}

/// A damaged key, or value, of the record.
type Part = (Index, bool, Vec<Damage>);

fn damage_record(parts: &[Part]) -> BTreeMap<Bytes, Bytes> {
    let mut entries: Vec<(Bytes, Bytes)> = record().into_entries().into_iter().collect();
    for (nth, is_key, damages) in parts {
        let nth = nth.index(entries.len());
        let (key, value) = &mut entries[nth];
        let part = if *is_key { key } else { value };
        *part = damaged(part, damages);
    }
    entries.into_iter().collect()
}

#[test]
fn what_is_damaged_is_whole_before() {
    let loaded = load(&stored(record().into_entries()), coll()).unwrap().unwrap();
    let counts = (loaded.log.len(), loaded.missing.len(), loaded.intervals.len(), loaded.gathered.len());
    assert_eq!(counts, (4, 2, 2, 1));
    assert_eq!(kept_again(&loaded), record().into_entries());
}

proptest! {
    #![proptest_config(::damage::cases(2_000))]

    #[test]
    fn a_damaged_record_is_refused_or_can_be_kept_again(
        parts in vec((any::<Index>(), prop::bool::weighted(0.2), vec(damage(), 1..3)), 1..3),
    ) {
        let store = stored(damage_record(&parts));
        let Ok(Some(loaded)) = load(&store, coll()) else { return Ok(()) };
        prop_assert!(loaded.log.is_sorted_by(|one, next| one.version.version < next.version.version));
        let again = load(&stored(kept_again(&loaded)), coll()).unwrap().unwrap();
        prop_assert_eq!((&again.info, &again.intervals), (&loaded.info, &loaded.intervals));
        prop_assert_eq!((&again.log, &again.missing), (&loaded.log, &loaded.missing));
        let pg = Pg::load(1, PgId::new(PoolId(1), 0), OsdId(1), &store).unwrap().unwrap();
        prop_assert_eq!(pg.log.len(), loaded.log.len());
    }

    #[test]
    fn noise_in_a_record_never_panics(
        key in prop_oneof![
            Just(INFO.to_vec()),
            Just(PROGRESS.to_vec()),
            Just(INTERVALS.to_vec()),
            vec(any::<u8>(), 0..20),
        ],
        value in vec(any::<u8>(), 0..99),
    ) {
        let mut entries: BTreeMap<_, _> = record().into_entries().into_iter().collect();
        entries.insert(key.into(), value.into());
        let _ = Pg::load(1, PgId::new(PoolId(1), 0), OsdId(1), &stored(entries));
    }
}
