//! What the members of a clean PG keep of it: each of them the same as it has in memory, and all of them the same log,
//! which tells the truth about the objects.

use std::collections::BTreeMap;

use pg::PgRecord;
use types::{EVersion, HObject, LogEntry, PgInfo};

/// The part of what a copy has in memory that its store does not have.
pub(crate) fn not_kept(memory: &PgRecord, kept: &PgRecord) -> Option<String> {
    let parts = [
        ("log", memory.log == kept.log),
        ("requests", memory.requests == kept.requests),
        ("missing objects", memory.missing == kept.missing),
        ("objects put together", memory.gathered == kept.gathered),
        ("intervals", memory.intervals == kept.intervals),
    ];
    if let Some((part, _)) = parts.into_iter().find(|(_, is_same)| !is_same) {
        return Some(format!("its store has other {part}"));
    }
    // A map that begins no interval is not kept: the copy walks through it again.
    let epoch = memory.info.epoch.max(kept.info.epoch);
    let is_same = PgInfo { epoch, ..memory.info.clone() } == PgInfo { epoch, ..kept.info.clone() };
    (!is_same || epoch != memory.info.epoch)
        .then(|| format!("its store has another info: {:?}, not {:?}", kept.info, memory.info))
}

/// What a member of a clean PG keeps that it has no use for.
pub(crate) fn left_over(record: &PgRecord) -> Option<String> {
    let kept = [
        ("a missing object", record.missing.keys().next()),
        ("an object that is put together", record.gathered.first()),
    ];
    let object = kept.into_iter().find_map(|(what, object)| Some(format!("{what}: {}", object?)));
    let interval = || record.intervals.first().map(|interval| format!("an interval: {interval:?}"));
    object.or_else(interval).map(|what| format!("it is clean and keeps {what}"))
}

/// How the logs of two members differ, from where both begin.
pub(crate) fn difference(one: &PgRecord, other: &PgRecord) -> Option<String> {
    if one.info.last_update != other.info.last_update {
        let ends = (one.info.last_update, other.info.last_update);
        return Some(format!("copies end with {:?} and {:?}", ends.0, ends.1));
    }
    if one.info.totals != other.info.totals {
        return Some(format!("copies count {:?} and {:?}", one.info.totals, other.info.totals));
    }
    let tail = one.info.log_tail.max(other.info.log_tail);
    let mut pairs = (entries(one, tail), entries(other, tail));
    loop {
        match (pairs.0.next(), pairs.1.next()) {
            (None, None) => return None,
            (one, other) if one == other => {}
            (one, other) => return Some(format!("logs differ: {one:?} and {other:?}")),
        }
    }
}

/// What was logged after `tail`: entries up to a log's tail tell of requests alone.
fn entries(record: &PgRecord, tail: EVersion) -> impl Iterator<Item = &LogEntry> {
    record.log.iter().filter(move |entry| entry.version > tail)
}

/// An object that is not what the log says. `objects`: all that there are, with their versions.
pub(crate) fn unlike_log(record: &PgRecord, objects: &BTreeMap<&HObject, EVersion>) -> Option<String> {
    let changes = entries(record, record.info.log_tail).filter(|entry| !entry.is_error);
    let last: BTreeMap<&HObject, &LogEntry> = changes.map(|entry| (&entry.object, entry)).collect();
    let logged = last.iter().find_map(|(object, entry)| {
        let (expected, found) = ((!entry.is_delete).then_some(entry.version), objects.get(object).copied());
        (expected != found).then(|| format!("{object} is {found:?}, its log says {expected:?}"))
    });
    let is_unlogged = |(object, version): &(&&HObject, &EVersion)| {
        **version > record.info.log_tail && !last.contains_key(**object)
    };
    let unlogged = || objects.iter().find(is_unlogged);
    logged
        .or_else(|| unlogged().map(|(object, version)| format!("{object} is {version:?}, which no log has")))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use types::{Epoch, PgInterval, PoolId};

    use super::*;

    fn version(at: u64) -> EVersion {
        EVersion::new(Epoch(3), at)
    }

    fn object(name: &'static str) -> HObject {
        HObject { oid: Bytes::from(name), pool: PoolId(1), ..HObject::default() }
    }

    fn entry(at: u64, name: &'static str) -> LogEntry {
        LogEntry { version: version(at), object: object(name), ..LogEntry::default() }
    }

    /// A log of three changes: `a` is made, `b` is made, `a` is deleted.
    fn record() -> PgRecord {
        let log = vec![entry(1, "a"), entry(2, "b"), LogEntry { is_delete: true, ..entry(3, "a") }];
        PgRecord { info: PgInfo { last_update: version(3), ..PgInfo::default() }, log, ..PgRecord::default() }
    }

    #[test]
    fn what_a_store_does_not_have_is_named() {
        assert_eq!(not_kept(&record(), &record()), None);
        let mut later = record();
        later.info.epoch = Epoch(1);
        assert_eq!(not_kept(&later, &record()), None, "a map that begins no interval is not kept");
        type Spoil = fn(&mut PgRecord);
        let spoils: [(Spoil, &str); 7] = [
            (|kept| drop(kept.log.pop()), "other log"),
            (|kept| kept.requests.extend([(types::ReqId::default(), version(1))]), "other requests"),
            (|kept| kept.missing.extend([(object("a"), version(1))]), "other missing objects"),
            (|kept| kept.gathered.push(object("a")), "other objects put together"),
            (|kept| kept.intervals.push(PgInterval::default()), "other intervals"),
            (|kept| kept.info.last_user_version += 1, "another info"),
            (|kept| kept.info.epoch = Epoch(1), "another info"),
        ];
        for (spoil, sign) in spoils {
            let mut kept = record();
            spoil(&mut kept);
            assert!(not_kept(&record(), &kept).is_some_and(|why| why.contains(sign)), "{sign}");
        }
    }

    #[test]
    fn what_a_clean_pg_has_no_use_for_is_named() {
        assert_eq!(left_over(&record()), None);
        let missing = [(object("a"), version(1))].into();
        assert!(left_over(&PgRecord { missing, ..record() }).is_some());
        assert!(left_over(&PgRecord { gathered: vec![object("a")], ..record() }).is_some());
        assert!(left_over(&PgRecord { intervals: vec![PgInterval::default()], ..record() }).is_some());
    }

    #[test]
    fn logs_are_compared_from_where_both_begin() {
        let mut other = record();
        other.info.log_tail = version(2);
        assert_eq!(difference(&record(), &other), None, "entries up to the tail are of no account");
        other.log[2].is_delete = false;
        assert!(difference(&record(), &other).is_some_and(|why| why.contains("logs differ")));
        let mut short = record();
        short.log.pop();
        assert!(difference(&record(), &short).is_some_and(|why| why.contains("logs differ")));
        short.info.last_update = version(2);
        assert!(difference(&record(), &short).is_some_and(|why| why.contains("end with")));
        let mut miscounted = record();
        miscounted.info.totals.objects = 1;
        assert!(difference(&record(), &miscounted).is_some_and(|why| why.contains("count")));
    }

    #[test]
    fn objects_are_what_the_log_says() {
        let (a, b, c) = (object("a"), object("b"), object("c"));
        let check = |objects: &[(&HObject, u64)]| {
            unlike_log(&record(), &objects.iter().map(|(object, at)| (*object, version(*at))).collect())
        };
        assert_eq!(check(&[(&b, 2)]), None);
        assert!(check(&[]).is_some(), "it is gone");
        assert!(check(&[(&b, 1)]).is_some(), "an older one");
        assert!(check(&[(&a, 1), (&b, 2)]).is_some(), "deleted");
        assert!(check(&[(&b, 2), (&c, 2)]).is_some(), "made by no change");
        let failed = LogEntry { is_error: true, ..entry(4, "b") };
        let record = PgRecord { log: [record().log, vec![failed]].concat(), ..record() };
        assert_eq!(unlike_log(&record, &[(&b, version(2))].into()), None, "what failed changed nothing");
    }
}
