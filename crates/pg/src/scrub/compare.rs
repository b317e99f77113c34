//! Copies of objects compared: which one the others are measured by, and in what they differ.
//!
//! Authority: `PGBackend::be_select_auth_object`, `be_compare_scrub_objects`, `be_compare_scrubmaps` (16.2). Two
//! things are not here: an object's size and digests are not kept in its own record, so that they are compared
//! between copies only; and a copy whose checksums fail is unreadable, whatever it has.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use codec::Decode;
use types::{EVersion, HObject, OsdId, PgId, ScrubObject, XattrSum};

use super::{
    verdict::{BadCopies, Verdict},
    wire::{CopyFacts, CopyInfo, InconsistentObject, ceph_name, copy_error, object_error},
};
use crate::exec::{INFO_XATTR, ObjectInfo, SNAPSET_XATTR, SnapSet, USER_XATTR};

/// What each copy has of a range.
pub(super) type Maps = BTreeMap<OsdId, BTreeMap<HObject, ScrubObject>>;

/// What is wrong with each copy by itself ([`copy_error`]).
type Errors = BTreeMap<OsdId, u64>;

/// The copy that others are measured by.
struct Selected<'a> {
    osd: OsdId,
    info: ObjectInfo,
    object: &'a ScrubObject,
}

/// Compares all copies of all objects of a PG whose newest change is `newest`. Returns what there is of each, as far as
/// any copy tells.
pub(super) fn compare<'a>(
    maps: &'a Maps,
    me: OsdId,
    (pgid, newest): (PgId, EVersion),
    verdict: &mut Verdict,
) -> BTreeMap<HObject, &'a ScrubObject> {
    let objects: BTreeSet<&HObject> = maps.values().flat_map(BTreeMap::keys).collect();
    let mut sound = BTreeMap::new();
    for object in objects {
        let comparison = Comparison { maps, me, pgid, newest, object, verdict };
        if let Some(found) = comparison.run() {
            sound.insert(object.clone(), found);
        }
    }
    sound
}

/// The comparison of one object.
struct Comparison<'a, 'v> {
    maps: &'a Maps,
    me: OsdId,
    pgid: PgId,
    newest: EVersion,
    object: &'a HObject,
    verdict: &'v mut Verdict,
}

impl<'a> Comparison<'a, '_> {
    fn copy_of(&self, osd: OsdId) -> Option<&'a ScrubObject> {
        self.maps.get(&osd)?.get(self.object)
    }

    /// The copy to go by, if there is any.
    fn run(mut self) -> Option<&'a ScrubObject> {
        let of_missing = |osd: &OsdId| if self.copy_of(*osd).is_some() { 0 } else { copy_error::MISSING };
        let mut errors = self.maps.keys().map(|osd| (*osd, of_missing(osd))).collect();
        let Some(selected) = self.select(&mut errors) else {
            return self.without_selection(&errors);
        };
        let (differences, good) = self.match_copies(&selected, &errors);
        self.count(differences, object_error::DEEP);
        if differences != 0 || errors.values().any(|errors| *errors != 0) {
            self.note(differences, selected.info.user_version, Some(selected.osd), &errors);
        }
        // Ceph goes by the last of the good copies; they are equal.
        Some(good.and_then(|osd| self.copy_of(osd)).unwrap_or(selected.object))
    }

    /// Keeps what was found, to be listed.
    fn note(&mut self, errors: u64, version: u64, selected: Option<OsdId>, of_copies: &Errors) {
        let copy = |(osd, errors): (&OsdId, &u64)| {
            let info = CopyInfo {
                errors: *errors,
                is_primary: *osd == self.me,
                is_selected: Some(*osd) == selected,
                facts: self.copy_of(*osd).map(CopyFacts::of),
            };
            (*osd, info)
        };
        let copies = of_copies.iter().map(copy).collect();
        let found = InconsistentObject { object: self.object.clone(), errors, version, copies };
        self.verdict.objects.push(found);
    }

    /// Counts as one error, deep or not.
    fn count(&mut self, errors: u64, deep: u64) {
        if errors & deep != 0 {
            self.verdict.deep_errors += 1;
        } else if errors != 0 {
            self.verdict.shallow_errors += 1;
        }
    }

    /// The newest copy without anything wrong of its own; the primary's, all else being equal.
    fn select(&mut self, of_copies: &mut Errors) -> Option<Selected<'a>> {
        let others = self.maps.keys().copied().filter(|osd| *osd != self.me);
        let order: Vec<OsdId> = std::iter::once(self.me).chain(others).collect();
        let mut best: Option<Selected<'a>> = None;
        for osd in order {
            let Some(object) = self.copy_of(osd) else { continue };
            let (errors, words, info) = examine(object, self.newest);
            *of_copies.entry(osd).or_default() |= errors;
            if errors != 0 {
                let text = words.join(", ");
                self.verdict.error(format!("{} shard {osd} soid {} : {text}", self.pgid, self.object));
            } else if best.as_ref().is_none_or(|best| info.version > best.info.version) {
                best = Some(Selected { osd, info, object });
            }
        }
        best
    }

    fn without_selection(mut self, of_copies: &Errors) -> Option<&'a ScrubObject> {
        for errors in of_copies.values() {
            self.count(*errors, copy_error::DEEP);
        }
        let (object, pgid) = (self.object, self.pgid);
        self.verdict.error(format!("{pgid} soid {object} : failed to pick suitable object info"));
        self.note(0, 0, None, of_copies);
        self.copy_of(self.me)
    }

    /// Measures all copies by the one selected: in what any differs, and a good one, if there is any. The bad ones
    /// are noted.
    fn match_copies(&mut self, selected: &Selected<'a>, of_copies: &Errors) -> (u64, Option<OsdId>) {
        let (pgid, object) = (self.pgid, self.object);
        let mut all_differences = 0;
        let mut bad = BadCopies { version: selected.info.version, ..BadCopies::default() };
        let (mut good, mut different) = (Vec::new(), BTreeSet::new());
        for osd in self.maps.keys().copied() {
            let errors = of_copies.get(&osd).copied().unwrap_or_default();
            let Some(copy) = self.copy_of(osd) else {
                bad.missing.insert(osd);
                self.verdict.shallow_errors += 1;
                self.verdict.error(format!("{pgid} shard {osd} {object} : missing"));
                continue;
            };
            let (differences, words) = differences(selected, copy, errors);
            all_differences |= differences;
            let text = words.join(", ");
            if errors != 0 {
                bad.inconsistent.insert(osd);
                self.count(errors, copy_error::DEEP);
                if differences != 0 {
                    self.verdict.error(format!("{pgid} shard {osd} soid {object} : {text}"));
                }
            } else if differences != 0 {
                different.insert(osd);
                self.verdict.error(format!("{pgid} soid {object} : {text}"));
            } else {
                good.push(osd);
            }
        }
        bad.inconsistent.extend(different);
        if !bad.missing.is_empty() || !bad.inconsistent.is_empty() {
            self.verdict.bad.insert(object.clone(), bad);
        }
        (all_differences, good.last().copied())
    }
}

/// What is wrong with a copy regardless of others: its errors, these in words, and its record where that can be read.
/// By a record of a version that no change has made yet, all other copies would be bad, and nothing could replace them.
fn examine(copy: &ScrubObject, newest: EVersion) -> (u64, Vec<&'static str>, ObjectInfo) {
    let (mut errors, mut words) = (0, Vec::new());
    let mut wrong = |error: u64, text| {
        errors |= error;
        words.push(text);
    };
    if copy.is_unreadable {
        wrong(copy_error::READ, "candidate had a read error");
    }
    if copy.object.is_head() {
        match copy.xattrs.get(SNAPSET_XATTR).map(|bytes| SnapSet::from_bytes(bytes.clone())) {
            None => wrong(copy_error::SNAPSET_MISSING, "candidate had a missing snapset key"),
            Some(Err(_)) => wrong(copy_error::SNAPSET_CORRUPTED, "candidate had a corrupt snapset"),
            Some(Ok(_)) => {}
        }
    }
    let mut info = ObjectInfo::default();
    match copy.xattrs.get(INFO_XATTR).map(|bytes| ObjectInfo::from_bytes(bytes.clone())) {
        None => wrong(copy_error::INFO_MISSING, "candidate had a missing info key"),
        Some(Ok(found)) if found.version <= newest => info = found,
        Some(Ok(_) | Err(_)) => wrong(copy_error::INFO_CORRUPTED, "candidate had a corrupt info"),
    }
    (errors, words, info)
}

/// In what a copy differs from the one selected, `errors` being wrong with it already.
fn differences(selected: &Selected<'_>, copy: &ScrubObject, errors: u64) -> (u64, Vec<String>) {
    let (one, osd) = (selected.object, selected.osd);
    let (mut out, mut words) = (0, Vec::new());
    let mut differs = |error: u64, text: String| {
        out |= error;
        words.push(text);
    };
    if let (Some(theirs), Some(ours)) = (copy.data_digest, one.data_digest)
        && theirs != ours
    {
        let text = format!("data_digest {theirs:#x} != data_digest {ours:#x} from shard {osd}");
        differs(object_error::DATA_DIGEST, text);
    }
    if let (Some(theirs), Some(ours)) = (copy.omap_digest, one.omap_digest)
        && theirs != ours
    {
        let text = format!("omap_digest {theirs:#x} != omap_digest {ours:#x} from shard {osd}");
        differs(object_error::OMAP_DIGEST, text);
    }
    let is_other = |name: &[u8]| copy.xattrs.get(name) != one.xattrs.get(name);
    if errors & (copy_error::INFO_MISSING | copy_error::INFO_CORRUPTED) == 0 && is_other(INFO_XATTR) {
        differs(object_error::INFO, "object info inconsistent ".to_owned());
    }
    if errors & (copy_error::SNAPSET_MISSING | copy_error::SNAPSET_CORRUPTED) == 0 && is_other(SNAPSET_XATTR)
    {
        differs(object_error::SNAPSET, "snapset inconsistent ".to_owned());
    }
    if copy.size != one.size {
        differs(object_error::SIZE, format!("size {} != size {} from shard {osd}", copy.size, one.size));
    }
    let (ours, theirs) = (users_xattrs(one), users_xattrs(copy));
    for (name, value) in &ours {
        let shown = ceph_name(name);
        match theirs.get(name) {
            None => {
                differs(object_error::ATTR_NAME, format!("attr name mismatch '{}'", shown.escape_ascii()))
            }
            Some(theirs) if theirs != value => {
                differs(object_error::ATTR_VALUE, format!("attr value mismatch '{}'", shown.escape_ascii()));
            }
            Some(_) => {}
        }
    }
    for name in theirs.keys().filter(|name| !ours.contains_key(*name)) {
        let shown = ceph_name(name);
        differs(object_error::ATTR_NAME, format!("attr name mismatch '{}'", shown.escape_ascii()));
    }
    if copy.more_xattrs != one.more_xattrs {
        let last = ours.keys().next_back().map(|name| ceph_name(name)).unwrap_or_default();
        differs(object_error::ATTR_VALUE, format!("attr value mismatch behind '{}'", last.escape_ascii()));
    }
    (out, words)
}

/// The value of an xattr, or what stands for it.
#[derive(PartialEq, Eq)]
enum Value<'a> {
    Whole(&'a Bytes),
    Sum(&'a XattrSum),
}

/// The xattrs of users, as far as they are told by name.
fn users_xattrs(object: &ScrubObject) -> BTreeMap<&Bytes, Value<'_>> {
    let whole = object.xattrs.iter().map(|(name, value)| (name, Value::Whole(value)));
    let long = object.long_xattrs.iter().map(|(name, sum)| (name, Value::Sum(sum)));
    whole.chain(long).filter(|(name, _)| name.first() == Some(&USER_XATTR)).collect()
}
