//! What a PG keeps of itself in its collection: info, log, missing objects, past intervals, as omap of
//! an object that no client can name.

use std::ops::Bound;

use bytes::Bytes;
use codec::{Decode, DecodeError, Encode, Features};
use store::{ObjectStore, OmapMost};
use thiserror::Error;
use types::{
    CollId, EVersion, HObject, LogEntry, Missing, Mutation, Pairs, PgInfo, PgInterval, PgProgress, PoolId,
    SnapId, Transaction,
};

const INFO: &[u8] = b"info";
const PROGRESS: &[u8] = b"progress";
const INTERVALS: &[u8] = b"intervals";
const LOG: u8 = b'l';
const MISSING: u8 = b'm';
const GATHERED: u8 = b'g';

/// The object's name sorts before all objects of pools.
pub(crate) fn object() -> HObject {
    HObject { oid: Bytes::from_static(b"pgmeta"), pool: PoolId(-2), snap: SnapId::HEAD, ..HObject::default() }
}

fn log_key(version: EVersion) -> Bytes {
    let mut key = [LOG; 17];
    for (digit, shift) in key[1..].iter_mut().zip((0..u64::BITS).step_by(4).rev()) {
        *digit = b"0123456789abcdef"[(version.version >> shift & 0xf) as usize];
    }
    Bytes::copy_from_slice(&key)
}

fn object_key(kind: u8, object: &HObject) -> Bytes {
    let mut key = vec![kind];
    object.encode(&mut key, Features::default());
    Bytes::from(key)
}

/// Changes of the PG's own record, to go along with a transaction.
#[derive(Debug, Default)]
pub(crate) struct MetaChange {
    set: Pairs,
    /// A key that is set, too, was removed before and stays.
    removed: Vec<Bytes>,
    /// The first key of the log that is not trimmed.
    trimmed: Option<Bytes>,
    /// The last entry that is added to the log.
    logged: Option<EVersion>,
    /// The highest version for users of an entry that is added to the log.
    logged_user_version: u64,
}

impl MetaChange {
    /// Keeps what the PG's info has that is not in the store, as `kept` says, nor in the log entries that were added to
    /// this change before: [`load`] finds the newest versions there, so that overwrites keep nothing but their entry.
    pub(crate) fn info(&mut self, info: &PgInfo, kept: &mut Option<PgInfo>) {
        match kept {
            Some(kept) if kept.is_same_but_progress(info) => {
                let mut known = kept.progress();
                known.last_update = self.logged.map_or(known.last_update, |last| last.max(known.last_update));
                // The entry is trimmed by a change that moves the tail, and so keeps all of this.
                known.last_user_version = known.last_user_version.max(self.logged_user_version);
                kept.last_user_version = known.last_user_version;
                if known != info.progress() {
                    self.progress(info);
                    kept.set_progress(info.progress());
                }
            }
            _ => {
                self.progress(info);
                self.set.insert(Bytes::from_static(INFO), info.to_bytes(Features::default()));
                *kept = Some(info.clone());
            }
        }
    }

    fn progress(&mut self, info: &PgInfo) {
        self.set.insert(Bytes::from_static(PROGRESS), info.progress().to_bytes(Features::default()));
    }

    pub(crate) fn intervals(&mut self, intervals: &Vec<PgInterval>) {
        self.set.insert(Bytes::from_static(INTERVALS), intervals.to_bytes(Features::default()));
    }

    pub(crate) fn log(&mut self, entry: &LogEntry) {
        self.set.insert(log_key(entry.version), entry.to_bytes(Features::default()));
        self.logged = Some(entry.version);
        self.logged_user_version = self.logged_user_version.max(entry.user_version);
    }

    pub(crate) fn unlog(&mut self, version: EVersion) {
        let key = log_key(version);
        self.set.remove(&key);
        self.removed.push(key);
        self.logged = None;
    }

    /// Entries up to `version` are not kept any more.
    pub(crate) fn unlog_upto(&mut self, version: EVersion) {
        let end = log_key(EVersion { version: version.version.saturating_add(1), ..version });
        self.set.retain(|key| key.first() != Some(&LOG) || *key >= end);
        self.trimmed = Some(end);
        self.logged = self.logged.filter(|last| *last > version);
    }

    pub(crate) fn missing(&mut self, object: &HObject, need: Option<EVersion>) {
        let key = object_key(MISSING, object);
        match need {
            Some(need) => {
                self.set.insert(key, need.to_bytes(Features::default()));
            }
            None => {
                self.set.remove(&key);
                self.removed.push(key);
            }
        }
    }

    /// Parts of the object are put together beside it, or not any more.
    pub(crate) fn gathered(&mut self, object: &HObject, is_under_way: bool) {
        let key = object_key(GATHERED, object);
        if is_under_way {
            self.set.insert(key, Bytes::new());
        } else {
            self.set.remove(&key);
            self.removed.push(key);
        }
    }

    /// What is set, of a record that is new.
    pub(crate) fn into_entries(self) -> Pairs {
        self.set
    }

    /// Appends the changes to `txn`. Removals come first.
    pub(crate) fn into_txn(self, txn: &mut Transaction) {
        if let Some(last) = self.trimmed {
            txn.push(&object(), Mutation::OmapRemoveRange { first: Bytes::from_static(&[LOG]), last });
        }
        if !self.removed.is_empty() {
            txn.push(&object(), Mutation::OmapRemove(self.removed));
        }
        if !self.set.is_empty() {
            txn.push(&object(), Mutation::OmapSet(self.set));
        }
    }
}

/// All that was kept.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) info: PgInfo,
    pub(crate) intervals: Vec<PgInterval>,
    pub(crate) log: Vec<LogEntry>,
    pub(crate) missing: Missing,
    /// Objects of which parts were being put together.
    pub(crate) gathered: Vec<HObject>,
}

/// Why a PG's record cannot be used. A copy that used only part of its record would answer for what it does not know,
/// so none of it is used.
#[derive(Debug, Error)]
pub enum LoadError {
    /// It would have to be loaded first, which is never so in a mounted store.
    #[error("it is not in memory")]
    NotCached(store::NotCached),
    /// An entry of it cannot be decoded: another version of this software wrote it, or it is damaged.
    #[error("its entry {key:?} is not readable: {error}")]
    Damaged {
        /// The entry.
        key: Bytes,
        /// What is wrong.
        error: DecodeError,
    },
}

impl From<store::NotCached> for LoadError {
    fn from(missing: store::NotCached) -> Self {
        LoadError::NotCached(missing)
    }
}

/// Reads the record of the PG in `coll`; none where there is no PG. Its last update is what the log ends with, or
/// later: see [`MetaChange::info`].
pub(crate) fn load(store: &dyn ObjectStore, coll: CollId) -> Result<Option<Loaded>, LoadError> {
    const PAGE: OmapMost = OmapMost::of(1_024);
    let mut out = Loaded::default();
    let (mut found, mut progress) = (false, None);
    let mut from: Bytes = Bytes::new();
    loop {
        let page = store.omap_range(coll, &object(), Bound::Excluded(&from), PAGE)?;
        for (key, value) in &page {
            let damaged = |error| LoadError::Damaged { key: key.clone(), error };
            match key.first() {
                _ if key == INFO => {
                    found = true;
                    out.info = PgInfo::from_bytes(value.clone()).map_err(damaged)?;
                }
                _ if key == PROGRESS => {
                    progress = Some(PgProgress::from_bytes(value.clone()).map_err(damaged)?);
                }
                _ if key == INTERVALS => out.intervals = Vec::from_bytes(value.clone()).map_err(damaged)?,
                Some(&LOG) => {
                    let entry = LogEntry::from_bytes(value.clone()).map_err(damaged)?;
                    if log_key(entry.version) != key {
                        let value = entry.version.version;
                        return Err(damaged(DecodeError::Invalid { what: "version of a log entry", value }));
                    }
                    out.log.push(entry);
                }
                Some(&MISSING) => {
                    let object = HObject::from_bytes(key.slice(1..)).map_err(damaged)?;
                    out.missing.insert(object, EVersion::from_bytes(value.clone()).map_err(damaged)?);
                }
                Some(&GATHERED) => {
                    out.gathered.push(HObject::from_bytes(key.slice(1..)).map_err(damaged)?);
                }
                _ => {}
            }
        }
        match page.last() {
            Some((last, _)) if PAGE.is_met_by(&page) => from = last.clone(),
            _ => {
                progress.into_iter().for_each(|progress| out.info.set_progress(progress));
                let logged = out.log.last().map_or(EVersion::ZERO, |entry| entry.version);
                out.info.last_update = out.info.last_update.max(logged);
                let seen = out.log.iter().map(|entry| entry.user_version).max().unwrap_or(0);
                out.info.last_user_version = out.info.last_user_version.max(seen);
                return Ok(found.then_some(out));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    mod damage;

    use store::MemStore;
    use types::{Epoch, PgId, Token, TxnOp};

    use super::*;

    #[test]
    fn log_keys_sort_as_their_versions() {
        let key = |version| log_key(EVersion::new(Epoch(3), version));
        assert_eq!(key(0x12_3456_789a_bcde), "l00123456789abcde");
        assert!(key(0xff) < key(0x100) && key(u64::MAX) == "lffffffffffffffff");
    }

    /// A log in another order than that of its versions would not be searched right.
    #[test]
    fn a_log_entry_under_another_version_than_its_own_is_damaged() {
        let mut store = MemStore::new();
        let coll = CollId::pg(PgId::new(PoolId(1), 0));
        let at = |version| EVersion::new(Epoch(3), version);
        let (mut txn, mut change) = (Transaction::new(coll), MetaChange::default());
        txn.ops.push(TxnOp::CreateCollection);
        change.info(&PgInfo::default(), &mut None);
        let entry = LogEntry { version: at(9), ..LogEntry::default() };
        change.set.insert(log_key(at(8)), entry.to_bytes(Features::default()));
        change.into_txn(&mut txn);
        store.submit(Token(0), txn);
        let found = load(&store, coll);
        assert!(matches!(found, Err(LoadError::Damaged { key, .. }) if key == log_key(at(8))));
    }

    #[test]
    fn a_trimmed_log_keeps_what_is_newer_and_everything_else() {
        let entry = |version| LogEntry { version: EVersion::new(Epoch(3), version), ..LogEntry::default() };
        let mut store = MemStore::new();
        let coll = CollId::pg(PgId::new(PoolId(1), 0));
        let mut made = Transaction::new(coll);
        made.ops.push(TxnOp::CreateCollection);
        store.submit(Token(0), made);
        let mut run = |change: MetaChange| {
            let mut txn = Transaction::new(coll);
            change.into_txn(&mut txn);
            store.submit(Token(0), txn);
            load(&store, coll).unwrap().unwrap_or_default()
        };
        let mut change = MetaChange::default();
        change.info(&PgInfo::default(), &mut None);
        change.missing(&object(), Some(entry(7).version));
        (1..6).for_each(|version| change.log(&entry(version)));
        change.unlog_upto(entry(1).version);
        let versions = |loaded: &Loaded| loaded.log.iter().map(|e| e.version.version).collect::<Vec<_>>();
        assert_eq!(versions(&run(change)), [2, 3, 4, 5], "one that was trimmed as it came");

        let mut change = MetaChange::default();
        change.log(&entry(6));
        change.unlog_upto(entry(4).version);
        let loaded = run(change);
        assert_eq!((versions(&loaded), loaded.missing.len()), (vec![5, 6], 1));
    }

    #[test]
    fn what_is_removed_and_set_again_stays_and_what_is_set_and_removed_goes() {
        let mut store = MemStore::new();
        let coll = CollId::pg(PgId::new(PoolId(1), 0));
        let mut txn = Transaction::new(coll);
        txn.ops.push(TxnOp::CreateCollection);
        let object = |at: u64| HObject { oid: Bytes::from(format!("o{at}")), ..object() };
        let need = EVersion::new(Epoch(3), 1);
        let mut change = MetaChange::default();
        change.info(&PgInfo::default(), &mut None);
        for (at, is_last) in [(1, true), (2, false)] {
            change.missing(&object(at), (!is_last).then_some(need));
            change.gathered(&object(at), !is_last);
            change.missing(&object(at), is_last.then_some(need));
            change.gathered(&object(at), is_last);
        }
        change.into_txn(&mut txn);
        store.submit(Token(0), txn);
        let loaded = load(&store, coll).unwrap().unwrap();
        assert_eq!((loaded.missing, loaded.gathered), ([(object(1), need)].into(), vec![object(1)]));
    }

    #[test]
    fn an_overwrite_keeps_its_entry_only_and_the_last_update_is_found_again() {
        let mut store = MemStore::new();
        let coll = CollId::pg(PgId::new(PoolId(1), 0));
        let mut made = Transaction::new(coll);
        made.ops.push(TxnOp::CreateCollection);
        store.submit(Token(0), made);
        let at = |epoch, version| EVersion::new(Epoch(epoch), version);
        let (mut info, mut kept) = (PgInfo::default(), None);
        // What each step says of the info, the entries that it takes back and adds, and whether it is written.
        type Step = (fn(&mut PgInfo), Vec<EVersion>, Vec<EVersion>, bool);
        let steps: [Step; 7] = [
            (|_| {}, vec![], vec![at(3, 1)], true),
            (|_| {}, vec![], vec![at(3, 2), at(3, 3)], false),
            (|info| info.totals.objects += 1, vec![], vec![at(3, 4)], true),
            (|info| info.last_update = EVersion::new(Epoch(3), 2), vec![at(3, 3), at(3, 4)], vec![], true),
            (|_| {}, vec![], vec![at(4, 3)], false),
            (|_| {}, vec![at(4, 3)], vec![at(5, 3), at(5, 4)], false),
            // As if they became another PG's.
            (|_| {}, vec![at(3, 1), at(3, 2), at(5, 3), at(5, 4)], vec![], true),
        ];
        for (nth, (changes, back, added, is_written)) in steps.into_iter().enumerate() {
            let mut change = MetaChange::default();
            changes(&mut info);
            back.into_iter().for_each(|version| change.unlog(version));
            for version in added {
                change.log(&LogEntry { version, ..LogEntry::default() });
                info.last_update = version;
            }
            change.info(&info, &mut kept);
            assert_eq!(change.set.contains_key(PROGRESS), is_written, "step {nth}");
            let mut txn = Transaction::new(coll);
            change.into_txn(&mut txn);
            store.submit(Token(0), txn);
            assert_eq!(
                load(&store, coll).unwrap().map(|loaded| loaded.info),
                Some(info.clone()),
                "step {nth}"
            );
        }
    }

    #[test]
    fn the_highest_version_that_users_saw_outlives_its_entry() {
        let mut store = MemStore::new();
        let coll = CollId::pg(PgId::new(PoolId(1), 0));
        let mut made = Transaction::new(coll);
        made.ops.push(TxnOp::CreateCollection);
        store.submit(Token(0), made);
        let (mut info, mut kept) = (PgInfo::default(), None);
        // The second is of a copy of an object from elsewhere; an overwrite writes nothing but its entry.
        for (version, user_version, upto, is_written) in
            [(1, 1, 0, true), (2, 1_000, 0, false), (3, 1_001, 2, true)]
        {
            let mut change = MetaChange::default();
            let version = EVersion::new(Epoch(3), version);
            change.log(&LogEntry { version, user_version, ..LogEntry::default() });
            (info.last_update, info.last_user_version) = (version, user_version);
            if upto > 0 {
                info.log_tail = EVersion::new(Epoch(3), upto);
                change.unlog_upto(info.log_tail);
            }
            change.info(&info, &mut kept);
            assert_eq!(change.set.contains_key(PROGRESS), is_written, "{version:?}");
            let mut txn = Transaction::new(coll);
            change.into_txn(&mut txn);
            store.submit(Token(0), txn);
            let loaded = load(&store, coll).unwrap().unwrap();
            assert_eq!(loaded.info, info);
        }
        let mut change = MetaChange::default();
        change.unlog(info.last_update);
        info.last_update = info.log_tail;
        change.info(&info, &mut kept);
        let mut txn = Transaction::new(coll);
        change.into_txn(&mut txn);
        store.submit(Token(0), txn);
        assert_eq!(load(&store, coll).unwrap().unwrap().info.last_user_version, 1_001);
    }

    #[test]
    fn what_is_not_readable_is_not_taken_for_nothing() {
        let coll = CollId::pg(PgId::new(PoolId(1), 0));
        for key in
            [INFO, PROGRESS, INTERVALS, &log_key(EVersion::new(Epoch(3), 1)), &object_key(MISSING, &object())]
        {
            let mut store = MemStore::new();
            let mut txn = Transaction::new(coll);
            txn.ops.push(TxnOp::CreateCollection);
            let mut change = MetaChange::default();
            change.info(&PgInfo::default(), &mut None);
            change.set.insert(Bytes::copy_from_slice(key), Bytes::from_static(&[1]));
            change.into_txn(&mut txn);
            store.submit(Token(0), txn);
            assert!(
                matches!(load(&store, coll), Err(LoadError::Damaged { key: named, .. }) if named == key),
                "{key:?}"
            );
        }
    }
}
