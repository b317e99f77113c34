//! Heads and clones checked against each other: each clone belongs to a head's list, each in the list exists.
//!
//! Authority: `PrimaryLogPG::scrub_snapshot_metadata` (16.2).

use std::collections::BTreeMap;

use codec::Decode;
use types::{HObject, PgId, ScrubObject, SnapId};

use super::{
    verdict::Verdict,
    wire::{InconsistentSnapset, snapset_error},
};
use crate::exec::{CloneInfo, INFO_XATTR, ObjectInfo, SNAPSET_XATTR, SnapSet};

/// Checks objects, of each head and clones together; counts them on the way. `mode` is what the log calls the scrub.
pub(super) fn check(
    objects: &BTreeMap<HObject, &ScrubObject>,
    pgid: PgId,
    mode: &str,
    verdict: &mut Verdict,
) {
    let all: Vec<&ScrubObject> = objects.values().rev().copied().collect();
    let about = format!("{mode} {pgid}");
    for family in all.chunk_by(|one, next| is_same_but_snap(&one.object, &next.object)) {
        let Some(first) = family.first() else { continue };
        let head = first.object.head();
        let missing = verdict.missing_text(&head);
        Family { about: &about, head: &head, missing: &missing, verdict }.check(family);
    }
}

/// True for an object and one of its clones, and for two clones of one.
fn is_same_but_snap(one: &HObject, other: &HObject) -> bool {
    one.with_snap(other.snap) == *other
}

/// A head and its clones.
struct Family<'a> {
    about: &'a str,
    head: &'a HObject,
    /// Which objects some copies lack, in words.
    missing: &'a str,
    verdict: &'a mut Verdict,
}

impl Family<'_> {
    fn wrong(&mut self, object: &HObject, text: &str) {
        let line = format!("{} {object} : {text}", self.about);
        self.verdict.error(line);
        self.verdict.shallow_errors += 1;
    }

    /// `objects` descend: the head, where there is one, then clones from the newest on.
    fn check(&mut self, objects: &[&ScrubObject]) {
        let mut of_head = InconsistentSnapset::of(self.head);
        let mut snapset = None;
        let mut clones = objects;
        let has_head = objects.first().is_some_and(|first| first.object.is_head());
        if let Some((head, rest)) = objects.split_first().filter(|_| has_head) {
            self.count(head);
            self.check_info(head, &mut of_head);
            snapset = self.check_snapset(head, &mut of_head);
            clones = rest;
        }
        let mut expected: Vec<CloneInfo> = snapset.as_ref().map(|s| s.clones.clone()).unwrap_or_default();
        let (mut missing, mut are_clones_wrong) = (0, false);
        for clone in clones {
            self.count(clone);
            let mut of_clone = InconsistentSnapset::of(&clone.object);
            self.check_info(clone, &mut of_clone);
            missing += self.skip_to(Some(clone.object.snap), &mut expected, &mut of_head);
            match expected.pop_if(|next| next.id == clone.object.snap) {
                Some(info) => self.check_clone(clone, &info, &mut of_clone),
                None => {
                    let is_ignored = has_head && snapset.is_none();
                    let text = if is_ignored {
                        "clone ignored due to missing snapset"
                    } else {
                        "is an unexpected clone"
                    };
                    self.wrong(&clone.object, text);
                    of_clone.errors |= snapset_error::HEADLESS;
                    if has_head {
                        of_head.errors |= snapset_error::EXTRA_CLONES;
                        of_head.extra.push(clone.object.snap);
                    }
                }
            }
            if of_clone.errors != 0 {
                are_clones_wrong = true;
                self.verdict.snapsets.push(of_clone);
            }
        }
        missing += self.skip_to(None, &mut expected, &mut of_head);
        if missing > 0 {
            let line = format!("{} {} : {missing} missing clone(s)", self.about, self.head);
            self.verdict.info(line);
        }
        if has_head && (of_head.errors != 0 || are_clones_wrong) {
            of_head.snapset = snapset;
            self.verdict.snapsets.push(of_head);
        }
    }

    fn count(&mut self, object: &ScrubObject) {
        let totals = &mut self.verdict.totals;
        totals.objects += 1;
        totals.clones += u64::from(!object.object.is_head());
        totals.bytes = totals.bytes.saturating_add(object.size);
        self.verdict.omap_keys = self.verdict.omap_keys.saturating_add(object.omap_keys);
        self.verdict.omap_bytes = self.verdict.omap_bytes.saturating_add(object.omap_bytes);
    }

    fn check_info(&mut self, object: &ScrubObject, found: &mut InconsistentSnapset) {
        match object.xattrs.get(INFO_XATTR).map(|bytes| ObjectInfo::from_bytes(bytes.clone())) {
            None => {
                self.wrong(&object.object, "no '_' attr");
                found.errors |= snapset_error::INFO_MISSING;
            }
            Some(Err(error)) => {
                self.wrong(&object.object, &format!("can't decode '_' attr {error}"));
                found.errors |= snapset_error::INFO_CORRUPTED | snapset_error::INFO_MISSING;
            }
            Some(Ok(_)) => {}
        }
    }

    fn check_snapset(&mut self, head: &ScrubObject, found: &mut InconsistentSnapset) -> Option<SnapSet> {
        match head.xattrs.get(SNAPSET_XATTR).map(|bytes| SnapSet::from_bytes(bytes.clone())) {
            None => {
                self.wrong(&head.object, "no 'snapset' attr");
                found.errors |= snapset_error::SNAPSET_MISSING;
                None
            }
            Some(Err(error)) => {
                self.wrong(&head.object, &format!("can't decode 'snapset' attr {error}"));
                found.errors |= snapset_error::SNAPSET_CORRUPTED;
                None
            }
            Some(Ok(snapset)) => {
                if !snapset.clones.is_empty() && snapset.seq == SnapId(0) {
                    self.wrong(&head.object, "snaps.seq not set");
                    found.errors |= snapset_error::SNAP;
                }
                Some(snapset)
            }
        }
    }

    /// Takes clones off the list that are newer than `snap`, or all: they do not exist. How many.
    fn skip_to(
        &mut self,
        snap: Option<SnapId>,
        expected: &mut Vec<CloneInfo>,
        found: &mut InconsistentSnapset,
    ) -> usize {
        let mut count = 0;
        while let Some(next) = expected.pop_if(|next| snap.is_none_or(|snap| next.id > snap)) {
            count += 1;
            let (clone, missing) = (self.head.with_snap(next.id), self.missing);
            self.wrong(self.head, &format!("expected clone {clone} {missing} missing"));
            found.errors |= snapset_error::CLONE_MISSING;
            found.missing.push(next.id);
        }
        count
    }

    fn check_clone(&mut self, clone: &ScrubObject, info: &CloneInfo, found: &mut InconsistentSnapset) {
        if clone.size != info.size {
            self.wrong(&clone.object, &format!("size {} != clone_size {}", clone.size, info.size));
            found.errors |= snapset_error::SIZE_MISMATCH;
        } else if info.overlap.size() > info.size {
            self.wrong(&clone.object, "bad interval_set in clone_overlap");
            found.errors |= snapset_error::SIZE_MISMATCH;
        }
    }
}
