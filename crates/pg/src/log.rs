//! The PG log: recent changes in order, and what they say of requests that come again.
//!
//! No log begins with changes that only some members have: entries are trimmed once all members have them durable, so
//! that every later primary has what was before any copy's log. If two logs cannot be reconciled ([`merge`]), the copy
//! is compared with a list of all objects instead.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
};

use bytes::Bytes;
use types::{EVersion, HObject, LogEntry, Missing, PgId, PgInfo, ReqId};

/// Entries kept, an even number: what their requests did is known to clients that send them again, wherever the tail is
/// (`osd_pg_log_dups_tracked`).
pub(crate) const ENTRIES_KEPT: usize = 3_000;

/// How many entries a PG's log keeps behind its tail. A copy that was away longer gets an object list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogLength {
    /// Entries, from 1 to [`ENTRIES_KEPT`] (`osd_max_pg_log_entries`, which is larger by default).
    pub(crate) entries: usize,
    /// By so many the tail moves at once, from 1 on (`osd_pg_log_trim_min`).
    pub(crate) step: usize,
}

impl Default for LogLength {
    fn default() -> LogLength {
        LogLength { entries: ENTRIES_KEPT, step: 100 }
    }
}

/// How far a new entry is compared with those before it, in builds that look.
const COMPARED: usize = 256;

/// The log of a PG, with an index of the requests in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PgLog {
    entries: VecDeque<LogEntry>,
    /// Thousands, and no order is wanted of them; hashed alike at every start.
    by_reqid: HashMap<ReqId, EVersion, BuildHasherDefault<ReqIdHasher>>,
}

/// Hashes a request's few numbers in a fraction of the time that the standard hasher takes. If a client names its
/// requests so that they collide, each lookup goes through no more of them than a log has entries.
#[derive(Clone, Default)]
struct ReqIdHasher(u64);

impl Hasher for ReqIdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(size_of::<u64>()) {
            let mut word = [0; size_of::<u64>()];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        // The halves of such a product depend on all bits of what is multiplied.
        let product = u128::from(self.0 ^ number ^ 0x9e37_79b9_7f4a_7c15) * 0xa076_1d64_78bd_642f;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl PgLog {
    pub(crate) fn from_entries(entries: Vec<LogEntry>) -> PgLog {
        let mut log = PgLog::default();
        log.extend(entries);
        log
    }

    /// Appends entries, and looks only once for what they undo, however many of them undo something.
    pub(crate) fn extend(&mut self, entries: impl IntoIterator<Item = LogEntry>) {
        let first = self.entries.len();
        let mut undoes = false;
        for entry in entries {
            undoes |= self.append(entry);
        }
        if undoes {
            self.forget_undone(first);
        }
    }

    /// Appends an entry. Entries stay for long, so an entry's name and outputs are detached from the buffer that it
    /// came in, which is the whole message of a change. True if it undoes others.
    fn append(&mut self, mut entry: LogEntry) -> bool {
        entry.object = entry.object.detached();
        for (_, output) in entry.returns.iter_mut().filter(|(_, output)| !output.is_empty()) {
            *output = Bytes::copy_from_slice(output);
        }
        debug_assert!(self.entries.back().is_none_or(|last| last.version.version < entry.version.version));
        if entry.reqid != ReqId::default() {
            self.by_reqid.insert(entry.reqid, entry.version);
        }
        let undoes = entry.lost_to.is_some();
        self.entries.push_back(entry);
        undoes
    }

    /// Forgets the requests that the entries from the one at `first` on undo: they did nothing, and run if their
    /// clients send them again.
    fn forget_undone(&mut self, first: usize) {
        let mut kept: BTreeMap<&HObject, EVersion> = BTreeMap::new();
        for (at, entry) in self.entries.iter().enumerate().rev() {
            let is_undone = kept.get(&entry.object).is_some_and(|kept| entry.version > *kept);
            // A request that came again after that stands for its newer change.
            if is_undone && self.by_reqid.get(&entry.reqid) == Some(&entry.version) {
                self.by_reqid.remove(&entry.reqid);
            }
            if let Some(lost_to) = entry.lost_to.filter(|_| at >= first) {
                let kept = kept.entry(&entry.object).or_insert(lost_to);
                *kept = lost_to.min(*kept);
            }
        }
    }

    /// True when a new entry says truly what was before it, as far as the log tells from `tail` on: undoing the change
    /// relies on that. Entries up to the tail may come from logs that were merged, under other versions.
    pub(crate) fn is_followed_by(&self, entry: &LogEntry, tail: EVersion) -> bool {
        let recent = self.entries.iter().rev().take(COMPARED).take_while(|last| last.version > tail);
        let before = recent.filter(|last| last.object == entry.object).find(|last| !last.is_error);
        let is_whole = tail == EVersion::ZERO && self.entries.len() <= COMPARED;
        let expected = match before {
            Some(last) if last.is_delete => EVersion::ZERO,
            Some(last) => last.version,
            None if is_whole => EVersion::ZERO,
            None => return true,
        };
        entry.is_error || entry.prior_version == expected
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &LogEntry> {
        self.entries.iter()
    }

    fn position(&self, version: EVersion) -> Option<usize> {
        let at = self.entries.partition_point(|e| e.version.version < version.version);
        self.entries.get(at).filter(|e| e.version == version).map(|_| at)
    }

    /// True when the log has exactly this change.
    pub(crate) fn contains(&self, version: EVersion) -> bool {
        self.position(version).is_some()
    }

    /// False where the changes after `tail` cannot be those of a copy that has had `version`, too, which need not be
    /// logged any more: behind a change, numbers are higher, and epochs not lower.
    fn may_have_had(&self, version: EVersion, tail: EVersion) -> bool {
        let mut logged = self.entries.iter().rev().map(|entry| entry.version).take_while(|at| *at > tail);
        logged.all(|at| match at.version.cmp(&version.version) {
            Ordering::Less => at.epoch <= version.epoch,
            Ordering::Equal => at.epoch == version.epoch,
            Ordering::Greater => at.epoch >= version.epoch,
        })
    }

    /// True when the log has exactly this change, and it is one of this object.
    pub(crate) fn has_change_of(&self, object: &HObject, version: EVersion) -> bool {
        self.position(version).is_some_and(|at| self.entries[at].object == *object)
    }

    /// The requests that are known, and the changes that they made.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (ReqId, EVersion)> + '_ {
        self.by_reqid.iter().map(|(reqid, version)| (*reqid, *version))
    }

    /// The change that a request made.
    pub(crate) fn find(&self, reqid: &ReqId) -> Option<&LogEntry> {
        let at = self.position(*self.by_reqid.get(reqid)?)?;
        self.entries.get(at)
    }

    /// How many entries are after `version`.
    pub(crate) fn len_after(&self, version: EVersion) -> usize {
        self.entries.len() - self.entries.partition_point(|e| e.version.version <= version.version)
    }

    /// Entries after `version`.
    pub(crate) fn after(&self, version: EVersion) -> impl DoubleEndedIterator<Item = &LogEntry> {
        let at = self.entries.partition_point(|e| e.version.version <= version.version);
        self.entries.range(at..)
    }

    /// Up to where the log should be trimmed, if it is long: not beyond `committed`, which all members have durable.
    /// The log has to keep what may be undone later, or has to be told to other copies (`pg_trim_to`,
    /// `min_last_complete_ondisk`).
    pub(crate) fn trim_target(
        &self,
        committed: EVersion,
        tail: EVersion,
        length: LogLength,
    ) -> Option<EVersion> {
        let LogLength { entries, step } = length;
        let extra = self.entries.len().checked_sub(entries + step)?;
        let target = self.entries.get(extra + step - 1)?.version.min(committed);
        let is_step = || self.len_after(tail).saturating_sub(self.len_after(target)) >= step;
        let is_too_far_behind = self.entries.get(extra).is_some_and(|e| e.version > tail) && is_step();
        // Up to the tail there may be more than are kept, as those of two logs that were merged.
        let is_too_long = || {
            let is_behind = self.entries.front().is_some_and(|first| first.version <= target);
            self.entries.len() >= ENTRIES_KEPT + step && is_behind
        };
        (is_too_far_behind || is_too_long()).then_some(target)
    }

    /// Drops entries up to `version`, as long as there are more than `kept`. Returns the last one's version.
    pub(crate) fn trim(&mut self, version: EVersion, kept: usize) -> Option<EVersion> {
        let mut last = None;
        while self.entries.len() > kept && self.entries.front().is_some_and(|e| e.version <= version) {
            let Some(entry) = self.entries.pop_front() else { break };
            last = Some(entry.version);
            // A request that came again after it was undone stands for its newer change.
            if self.by_reqid.get(&entry.reqid) == Some(&entry.version) {
                self.by_reqid.remove(&entry.reqid);
            }
        }
        last
    }

    /// Takes out the entries of other PGs, by the PG that each belongs to.
    pub(crate) fn split_off(&mut self, owner: impl Fn(&HObject) -> Option<PgId>) -> BTreeMap<PgId, PgLog> {
        let (mut ours, mut out) = (Vec::new(), BTreeMap::<PgId, Vec<LogEntry>>::new());
        for entry in std::mem::take(self).entries {
            let log = owner(&entry.object).map_or(&mut ours, |other| out.entry(other).or_default());
            log.push(entry);
        }
        self.extend(ours);
        out.into_iter().map(|(other, entries)| (other, PgLog::from_entries(entries))).collect()
    }

    /// Takes away the entries after `version`, newest first.
    pub(crate) fn rewind(&mut self, version: EVersion) -> Vec<LogEntry> {
        let mut out = Vec::new();
        while self.entries.back().is_some_and(|e| e.version.version > version.version) {
            if let Some(entry) = self.entries.pop_back() {
                self.by_reqid.remove(&entry.reqid);
                out.push(entry);
            }
        }
        if out.iter().any(|entry| entry.lost_to.is_some()) {
            *self = PgLog::from_entries(std::mem::take(&mut self.entries).into());
        }
        out
    }
}

/// The requests in the logs of two PGs that become one, and their results, so that a client that sends one again is
/// answered: as many as a log keeps, the newest of each. They are logged in their order, under versions before `end`;
/// these versions say nothing of objects, so the logs of copies that begin in different places may differ.
pub(crate) fn merge_requests(one: &PgLog, other: &PgLog, end: EVersion) -> PgLog {
    let newest = |log: &'_ PgLog| {
        let is_known = |entry: &&LogEntry| log.by_reqid.get(&entry.reqid) == Some(&entry.version);
        log.iter().rev().filter(is_known).cloned().collect::<Vec<_>>()
    };
    let (mut one, mut other) = (newest(one).into_iter(), newest(other).into_iter());
    let mut kept = Vec::new();
    let mut at = end;
    while kept.len() < ENTRIES_KEPT {
        let pair = [one.next(), other.next()];
        if pair.iter().all(Option::is_none) {
            break;
        }
        for entry in pair.into_iter().flatten() {
            at.version -= 1;
            kept.push(LogEntry { version: at, lost_to: None, ..entry });
        }
    }
    kept.reverse();
    PgLog::from_entries(kept)
}

/// The range of a copy's log: the changes after `tail`, up to `last`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) tail: EVersion,
    pub(crate) last: EVersion,
}

impl Span {
    pub(crate) fn of(info: &PgInfo) -> Span {
        Span { tail: info.log_tail, last: info.last_update }
    }
}

/// What taking over another copy's log means for this one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Merge {
    /// Entries of ours that the cluster does not have.
    pub(crate) divergent: BTreeSet<EVersion>,
    /// Entries that we lacked.
    pub(crate) added: Vec<LogEntry>,
    /// Objects that are gone.
    pub(crate) deleted: BTreeSet<HObject>,
    /// Objects that we need in another version.
    pub(crate) missing: Missing,
}

impl Merge {
    /// The object is needed in this version, or is gone, whatever was said of it before.
    fn note(&mut self, object: &HObject, need: Option<EVersion>) {
        match need {
            Some(need) => {
                self.deleted.remove(object);
                self.missing.insert(object.clone(), need);
            }
            None => {
                self.missing.remove(object);
                self.deleted.insert(object.clone());
            }
        }
    }
}

/// Takes over `theirs`, the end of the authoritative log: what `reach` says, from its `log_tail` (exclusive) to its
/// `last_update`. `ours` is where our log is. None if theirs does not reach back to what we have, or if our log begins
/// with a change that is not known to be part of theirs: changes before it might have to be undone, too, and the logs
/// cannot tell which. Nor if theirs begins with a change that cannot be part of ours: that may be lacking here, and
/// others before it.
pub(crate) fn merge(log: &mut PgLog, ours: &PgInfo, theirs: &[LogEntry], reach: &PgInfo) -> Option<Merge> {
    let tail = reach.log_tail;
    if ours.last_update < tail || reach.last_update < ours.log_tail {
        return None;
    }
    // What both have logged, and what both logs begin after, is common; everything else that we logged is
    // divergent. Our newest change need not be logged: its object may have gone to another PG by a split.
    let knows = |version: &EVersion| {
        let at = theirs.partition_point(|e| e.version.version < version.version);
        theirs.get(at).is_some_and(|e| e.version == *version)
    };
    let logged = log.iter().rev().map(|e| e.version).find(knows).unwrap_or_default();
    // Up to a change that both have, all that was before is common. Both may begin behind such a one without having it
    // logged: it may be one of an object that went to another PG by a split.
    let begin = ours.log_tail;
    if begin > tail && begin > logged && begin != reach.last_update && !knows(&begin) {
        return None;
    }
    // A tail is no change that only some members had, unless an operator gave up those that had it, and others went on.
    // It need not be logged here: its object may have gone by a split, too.
    if tail > begin && !log.may_have_had(tail, begin) {
        return None;
    }
    let common = tail.max(begin).max(logged);
    let mut out = Merge::default();
    let divergent = log.rewind(common);
    for entry in theirs.iter().filter(|e| e.version.version > common.version) {
        // An object whose request failed stays as it is.
        if !entry.is_error {
            out.note(&entry.object, Some(entry.version).filter(|_| !entry.is_delete));
        }
        out.added.push(entry.clone());
    }
    log.extend(out.added.iter().cloned());
    // What their changes say of an object settles it: each object that they changed is gone, or needed.
    let settled: BTreeSet<HObject> = out.deleted.iter().chain(out.missing.keys()).cloned().collect();
    for entry in divergent {
        // Newest first: the oldest divergent change of an object decides what it was before.
        if !entry.is_error && !settled.contains(&entry.object) {
            out.note(&entry.object, Some(entry.prior_version).filter(|prior| *prior != EVersion::ZERO));
        }
        out.divergent.insert(entry.version);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use codec::{Decode, Encode, Features, Reader};
    use types::Epoch;

    use super::*;

    fn entry(epoch: u32, version: u64, name: &'static str, prior: u64, is_delete: bool) -> LogEntry {
        LogEntry {
            version: EVersion::new(Epoch(epoch), version),
            object: HObject { oid: Bytes::from_static(name.as_bytes()), ..HObject::default() },
            prior_version: if prior == 0 { EVersion::ZERO } else { EVersion::new(Epoch(1), prior) },
            is_delete,
            ..LogEntry::default()
        }
    }

    /// Where a log is whose newest and whose last dropped change have these versions of epoch 1.
    fn info(last: u64, tail: u64) -> PgInfo {
        let version = |at| if at == 0 { EVersion::ZERO } else { EVersion::new(Epoch(1), at) };
        PgInfo { last_update: version(last), log_tail: version(tail), ..PgInfo::default() }
    }

    /// What a log tells that begins after `tail`.
    fn reach(theirs: &[LogEntry], tail: EVersion) -> PgInfo {
        let last_update = theirs.last().map_or(tail, |entry| entry.version);
        PgInfo { last_update, log_tail: tail, ..PgInfo::default() }
    }

    fn names(objects: &BTreeSet<HObject>) -> Vec<&[u8]> {
        objects.iter().map(|o| o.oid.as_ref()).collect()
    }

    #[test]
    fn what_was_missed_is_missing_and_what_was_deleted_goes() {
        let mut log = PgLog::from_entries(vec![entry(1, 1, "a", 0, false)]);
        let theirs = [entry(2, 2, "b", 0, false), entry(2, 3, "a", 1, true), entry(2, 4, "b", 2, false)];
        let merged =
            merge(&mut log, &info(1, 0), &theirs, &reach(&theirs, EVersion::new(Epoch(1), 1))).unwrap();
        assert_eq!(names(&merged.deleted), [b"a"]);
        assert_eq!(merged.missing.values().copied().collect::<Vec<_>>(), [EVersion::new(Epoch(2), 4)]);
        assert_eq!(log.len(), 4);
    }

    #[test]
    fn changes_that_nobody_else_has_are_undone() {
        let ours = vec![entry(1, 1, "a", 0, false), entry(1, 2, "a", 1, false), entry(1, 3, "n", 0, false)];
        let mut log = PgLog::from_entries(ours);
        let theirs = [entry(1, 1, "a", 0, false), entry(2, 2, "b", 0, false)];
        let merged = merge(&mut log, &info(3, 0), &theirs, &reach(&theirs, EVersion::ZERO)).unwrap();
        assert_eq!(merged.divergent.len(), 2);
        assert_eq!(names(&merged.deleted), [b"n"]);
        let needs: Vec<_> = merged.missing.iter().map(|(o, v)| (o.oid.clone(), v.version)).collect();
        assert_eq!(needs, [(Bytes::from_static(b"a"), 1), (Bytes::from_static(b"b"), 2)]);
    }

    /// If each change were compared with all others, this would not end.
    #[test]
    fn logs_may_be_very_long() {
        const COUNT: u64 = 40_000;
        let of = |epoch, version, at: u64, is_delete| LogEntry {
            version: EVersion::new(Epoch(epoch), version),
            object: HObject { hash: at as u32, ..HObject::default() },
            prior_version: EVersion::new(Epoch(1), 1),
            is_delete,
            ..LogEntry::default()
        };
        // Half of the objects that were changed here were changed elsewhere, deleted and made again.
        let mut log = PgLog::from_entries((0..COUNT).map(|at| of(2, 10 + at, at, false)).collect());
        let deleted = (0..COUNT / 2).map(|at| of(3, 10 + at, at, true));
        let made = (0..COUNT / 4).map(|at| of(3, 10 + COUNT / 2 + at, at, false));
        let theirs: Vec<LogEntry> = deleted.chain(made).collect();
        let ours = PgInfo { last_update: EVersion::new(Epoch(2), 9 + COUNT), ..info(9, 9) };
        let merged = merge(&mut log, &ours, &theirs, &reach(&theirs, info(9, 9).log_tail)).unwrap();
        let (deleted, missing) = (merged.deleted.len() as u64, merged.missing.len() as u64);
        assert_eq!((deleted, missing, merged.divergent.len() as u64), (COUNT / 4, COUNT / 4 * 3, COUNT));
    }

    #[test]
    fn an_entry_keeps_nothing_of_the_message_that_it_came_in() {
        let returns = vec![(0, Bytes::from_static(b"output")), (0, Bytes::new())];
        let sent = LogEntry { returns, ..entry(1, 1, "a", 0, false) };
        let mut message = sent.to_bytes(Features::default()).to_vec();
        message.resize(message.len() + (1 << 20), 7);
        let message = Bytes::from(message);
        let received = LogEntry::decode(&mut Reader::new(message.clone())).unwrap();
        assert!(!message.is_unique());
        let log = PgLog::from_entries(vec![received]);
        assert_eq!(log.iter().next(), Some(&sent));
        assert!(message.is_unique());
    }

    #[test]
    fn a_request_that_failed_is_logged_and_moves_no_object() {
        let failed = |entry| LogEntry { is_error: true, ..entry };
        let ours = vec![entry(1, 1, "a", 0, false), failed(entry(1, 2, "n", 0, false))];
        let mut log = PgLog::from_entries(ours);
        let theirs = [entry(1, 1, "a", 0, false), failed(entry(2, 2, "a", 1, false))];
        let merged = merge(&mut log, &info(2, 0), &theirs, &reach(&theirs, EVersion::ZERO)).unwrap();
        assert_eq!((merged.divergent.len(), merged.added.len()), (1, 1));
        assert!(merged.deleted.is_empty() && merged.missing.is_empty());
    }

    #[test]
    fn a_log_of_which_nothing_holds_is_undone_to_its_tail() {
        let mut log = PgLog::from_entries(vec![entry(1, 4, "n", 0, false)]);
        let theirs = [entry(1, 3, "a", 0, false), entry(2, 4, "b", 0, false)];
        let merged = merge(&mut log, &info(4, 3), &theirs, &reach(&theirs, EVersion::ZERO)).unwrap();
        assert_eq!(names(&merged.deleted), [b"n"]);
        assert_eq!(merged.missing.values().copied().collect::<Vec<_>>(), [EVersion::new(Epoch(2), 4)]);
        assert_eq!(log.len(), 1);
    }

    #[test]
    fn a_trimmed_change_takes_its_request_along_and_no_newer_one() {
        let reqid = |tid| ReqId { tid, ..ReqId::default() };
        let of = |tid, version| LogEntry { reqid: reqid(tid), ..entry(1, version, "a", 0, false) };
        let mut log = PgLog::from_entries(vec![of(5, 1), of(6, 2), of(5, 3)]);
        assert_eq!(log.trim(EVersion::new(Epoch(1), 2), 0), Some(EVersion::new(Epoch(1), 2)));
        assert_eq!(log.len(), 1);
        assert_eq!(log.find(&reqid(5)).map(|e| e.version.version), Some(3));
        assert_eq!(log.find(&reqid(6)), None);
        log.trim(EVersion::new(Epoch(1), 3), 0);
        assert_eq!(log.find(&reqid(5)), None);
    }

    #[test]
    fn changes_that_went_to_another_pg_by_a_split_are_not_divergent() {
        // Both copies have seen 10; of the changes up to there only 8 is of this PG.
        let ours = PgInfo { log_tail: EVersion::ZERO, ..info(10, 0) };
        let mut log = PgLog::from_entries(vec![entry(1, 8, "a", 0, false)]);
        let theirs = [entry(1, 8, "a", 0, false), entry(2, 15, "a", 8, false)];
        let merged = merge(&mut log, &ours, &theirs, &reach(&theirs, EVersion::new(Epoch(1), 5))).unwrap();
        assert!(merged.divergent.is_empty() && merged.added.len() == 1);

        // Nothing that is logged here is logged there.
        let mut log = PgLog::from_entries(vec![entry(1, 3, "a", 0, false), entry(1, 7, "b", 0, false)]);
        let theirs = [entry(2, 15, "c", 0, false)];
        let merged = merge(&mut log, &ours, &theirs, &reach(&theirs, EVersion::new(Epoch(1), 5))).unwrap();
        assert_eq!(merged.divergent, [EVersion::new(Epoch(1), 7)].into());
        assert_eq!((names(&merged.deleted), log.len()), (vec![&b"b"[..]], 2));
    }

    #[test]
    fn a_change_names_the_one_before_it() {
        let failed = |entry| LogEntry { is_error: true, ..entry };
        let entries = vec![entry(1, 1, "gone", 0, false), entry(1, 2, "a", 0, false)];
        let later = vec![failed(entry(1, 3, "a", 0, false)), entry(1, 4, "gone", 1, true)];
        let log = PgLog::from_entries([entries, later].concat());
        let check = |tail, name, prior, is_delete| {
            log.is_followed_by(&entry(1, 9, name, prior, is_delete), EVersion::new(Epoch(1), tail))
        };
        assert!(check(1, "a", 2, false) && check(1, "a", 2, true));
        assert!(!check(1, "a", 0, true) && !check(1, "a", 3, false), "what failed changed nothing");
        assert!(log.is_followed_by(&failed(entry(1, 9, "a", 0, false)), EVersion::ZERO));
        assert!(check(1, "gone", 0, false) && !check(1, "gone", 4, false));
        // Of what is not in the log only a whole one tells.
        assert!(check(2, "a", 1, true));
        assert!(log.is_followed_by(&entry(1, 9, "n", 0, false), EVersion::ZERO));
        assert!(!log.is_followed_by(&entry(1, 9, "n", 1, false), EVersion::ZERO));
    }

    #[test]
    fn a_split_divides_the_log_and_what_it_knows_of_requests() {
        let reqid = |tid| ReqId { tid, ..ReqId::default() };
        let of = |tid, version, name| LogEntry { reqid: reqid(tid), ..entry(1, version, name, 0, false) };
        let mut log = PgLog::from_entries(vec![of(5, 1, "a"), of(6, 2, "b"), of(7, 3, "a")]);
        let child = PgId::new(types::PoolId(1), 4);
        let children = log.split_off(|object| (object.oid == "b").then_some(child));
        assert_eq!((log.len(), children[&child].len()), (2, 1));
        assert!(log.find(&reqid(6)).is_none() && children[&child].find(&reqid(6)).is_some());
    }

    #[test]
    fn requests_that_were_given_up_are_not_known_any_more_unless_that_is_undone() {
        let reqid = |tid| ReqId { tid, ..ReqId::default() };
        let of = |tid, version, name| LogEntry { reqid: reqid(tid), ..entry(1, version, name, 0, false) };
        let lost = LogEntry { lost_to: Some(EVersion::new(Epoch(1), 1)), ..entry(2, 5, "a", 3, false) };
        let log = vec![of(5, 1, "a"), of(6, 2, "b"), of(7, 3, "a"), of(8, 4, "a"), lost];
        let mut log = PgLog::from_entries(log);
        let known = |log: &PgLog| [5, 6, 7, 8].map(|tid| log.find(&reqid(tid)).is_some());
        assert_eq!(known(&log), [true, true, false, false]);
        log.extend([of(8, 6, "a")]);
        assert_eq!(log.find(&reqid(8)).map(|e| e.version.version), Some(6), "it ran again");
        log.rewind(EVersion::new(Epoch(1), 4));
        assert_eq!(known(&log), [true; 4]);
    }

    /// If the log were searched for what each of them undoes, this would not end.
    #[test]
    fn very_many_changes_may_be_given_up_at_once() {
        const COUNT: u64 = 100_000;
        let of = |version, at: u64| LogEntry {
            version: EVersion::new(Epoch(1), version),
            object: HObject { hash: at as u32, ..HObject::default() },
            reqid: ReqId { tid: version, ..ReqId::default() },
            ..LogEntry::default()
        };
        let lost_to = Some(EVersion::ZERO);
        let lost = |at| LogEntry { reqid: ReqId::default(), lost_to, ..of(1 + COUNT + at, at) };
        let log = PgLog::from_entries((0..COUNT).map(|at| of(1 + at, at)).collect());
        let mut log = PgLog::from_entries([log.iter().cloned().collect(), vec![of(COUNT + 1, 0)]].concat());
        log.extend((1..COUNT).map(lost));
        assert_eq!(log.requests().count(), 2, "those of the first object");
    }

    #[test]
    fn what_was_given_up_is_missing_or_gone_where_that_was_not_seen() {
        let kept = EVersion::new(Epoch(1), 1);
        let mut log = PgLog::from_entries(vec![entry(1, 1, "a", 0, false), entry(1, 2, "b", 0, false)]);
        let theirs = [
            LogEntry { lost_to: Some(kept), ..entry(2, 3, "a", 1, false) },
            LogEntry { lost_to: Some(EVersion::ZERO), ..entry(2, 4, "b", 2, true) },
        ];
        let merged =
            merge(&mut log, &info(2, 0), &theirs, &reach(&theirs, EVersion::new(Epoch(1), 2))).unwrap();
        assert_eq!(names(&merged.deleted), [b"b"]);
        assert_eq!(merged.missing.values().copied().collect::<Vec<_>>(), [EVersion::new(Epoch(2), 3)]);
    }

    /// A primary that the others no longer hear logs more than it keeps: what it did before its log begins is not
    /// undone by merging the logs.
    #[test]
    fn a_log_that_begins_with_what_the_other_does_not_know_is_not_taken_for_common() {
        let ours = PgInfo { log_tail: EVersion::new(Epoch(1), 10), ..info(12, 0) };
        let entries = vec![entry(1, 11, "a", 0, false), entry(1, 12, "b", 0, false)];
        let theirs = [entry(1, 7, "a", 0, false), entry(2, 8, "b", 0, false)];
        let merged = |ours: &PgInfo, theirs: &[LogEntry]| {
            let reach = reach(theirs, EVersion::new(Epoch(1), 5));
            merge(&mut PgLog::from_entries(entries.clone()), ours, theirs, &reach)
        };
        assert_eq!(merged(&ours, &theirs), None, "epochs count first: theirs ends behind where ours begins");
        // They have written nothing.
        assert_eq!(merged(&ours, &theirs[..1]), None);
        // They know where our log begins: by that entry, by one behind it, as it is the last that they have, or since
        // their log begins later.
        let known = [entry(1, 10, "c", 0, false), entry(2, 11, "d", 0, false)];
        assert_eq!(merged(&ours, &known).map(|merged| merged.divergent.len()), Some(2));
        let behind = [entry(1, 11, "a", 0, false), entry(2, 12, "d", 0, false)];
        assert_eq!(merged(&ours, &behind).map(|merged| merged.divergent.len()), Some(1));
        assert_eq!(merged(&ours, &known[..1]).map(|merged| merged.divergent.len()), Some(2));
        let tail = PgInfo { log_tail: EVersion::new(Epoch(1), 5), ..ours.clone() };
        assert_eq!(merged(&tail, &theirs).map(|merged| merged.divergent.len()), Some(2));
    }

    /// Members that were given up had made a change, and others went on without it.
    #[test]
    fn a_log_that_begins_with_what_we_cannot_have_had_is_no_help() {
        let ours = PgInfo { last_update: EVersion::new(Epoch(3), 5), ..info(0, 0) };
        let theirs = [entry(4, 7, "c", 0, false)];
        for (logged, is_help) in [
            (vec![(1, 1), (2, 2), (3, 5)], true),
            // Its object went to another PG by a split.
            (vec![(1, 1), (3, 5)], true),
            (vec![(1, 1), (3, 2), (3, 5)], false),
            (vec![(1, 1), (1, 2), (3, 5)], false),
            (vec![(3, 1), (3, 5)], false),
            (vec![(1, 3), (3, 5)], false),
        ] {
            let entries = logged.iter().map(|(epoch, at)| entry(*epoch, *at, "a", 0, false));
            let mut log = PgLog::from_entries(entries.collect());
            let reach = reach(&theirs, EVersion::new(Epoch(2), 2));
            let merged = merge(&mut log, &ours, &theirs, &reach);
            assert_eq!(merged.map(|merged| merged.divergent.len()), is_help.then_some(1), "{logged:?}");
        }
    }

    #[test]
    fn nothing_is_trimmed_that_is_not_durable_everywhere() {
        let version = |at| EVersion::new(Epoch(1), at);
        let entries = (1..=4_000).map(|at| entry(1, at, "a", at - 1, false)).collect();
        let mut log = PgLog::from_entries(entries);
        let target = |log: &PgLog, committed, tail| {
            let committed = info(committed, 0).last_update;
            log.trim_target(committed, tail, LogLength::default()).map(|at| at.version)
        };
        for (committed, expected) in [(0, None), (1, Some(1)), (700, Some(700)), (3_999, Some(1_000))] {
            assert_eq!(target(&log, committed, EVersion::ZERO), expected);
        }
        assert_eq!(log.trim(version(700), ENTRIES_KEPT), Some(version(700)));
        assert_eq!(target(&log, 700, version(700)), None, "it is trimmed");
    }

    /// The tail moves on, and what requests did is known as long as before.
    #[test]
    fn a_short_log_keeps_what_tells_of_requests() {
        let version = |at| EVersion::new(Epoch(1), at);
        let length = LogLength { entries: 20, step: 10 };
        let (mut log, mut tail) = (PgLog::default(), 0);
        for at in 1..=4_000 {
            log.extend([entry(1, at, "a", at - 1, false)]);
            let target = log.trim_target(version(at), info(tail, 0).last_update, length);
            assert_eq!(target.map(|to| to.version), (at - tail == 30).then(|| at - 20));
            if let Some(target) = target {
                tail = target.version;
                let first = at.checked_sub(ENTRIES_KEPT as u64).filter(|first| *first > 0);
                assert_eq!(log.trim(target, ENTRIES_KEPT), first.map(version));
            }
        }
        assert!((ENTRIES_KEPT..ENTRIES_KEPT + 10).contains(&log.len()));
        // What is under way on others holds it back, and it does not move by less than a step.
        let held =
            |committed| log.trim_target(version(committed), version(3_900), length).map(|to| to.version);
        assert_eq!((held(3_909), held(3_910), held(4_000)), (None, Some(3_910), Some(3_980)));
    }

    #[test]
    fn a_log_that_does_not_reach_us_is_no_help() {
        let mut log = PgLog::from_entries(vec![entry(1, 1, "a", 0, false)]);
        let theirs = [entry(2, 9, "b", 0, false)];
        assert!(merge(&mut log, &info(1, 0), &theirs, &reach(&theirs, EVersion::new(Epoch(2), 8))).is_none());
    }
}
