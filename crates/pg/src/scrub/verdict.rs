//! What a scrub finds: lines for the cluster log, counts of errors, copies that are bad, results to be listed.

use std::collections::{BTreeMap, BTreeSet};

use messages::LogLevel;
use types::{EVersion, HObject, LogEntry, OsdId, PgId, PgTotals, ScrubObject, SnapId};

use super::{
    policy::OmapMax,
    wire::{InconsistentObject, InconsistentSnapset},
};

/// Objects that a line of the log names as lacking: there may be a line for each of thousands of clones.
const NAMED_MAX: usize = 20;

/// An object of which some copies are bad.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BadCopies {
    /// OSDs that do not have it.
    pub(super) missing: BTreeSet<OsdId>,
    /// OSDs that have something else.
    pub(super) inconsistent: BTreeSet<OsdId>,
    /// The version of the good ones.
    pub(super) version: EVersion,
}

impl BadCopies {
    pub(super) fn all(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.missing.union(&self.inconsistent).copied()
    }

    /// Copies that a repair replaces, as Ceph counts them.
    pub(super) fn count(&self) -> u64 {
        (self.missing.len() + self.inconsistent.len()) as u64
    }
}

/// The findings of a scrub: of a chunk, or of all chunks so far.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) log: Vec<(LogLevel, String)>,
    /// Errors found by comparing what copies say of objects.
    pub(super) shallow_errors: u64,
    /// Errors found by reading everything.
    pub(super) deep_errors: u64,
    /// Where some copy is good, others are not.
    pub(super) bad: BTreeMap<HObject, BadCopies>,
    /// Bad copies of objects that were deleted since.
    pub(super) deleted: u64,
    pub(super) objects: Vec<InconsistentObject>,
    pub(super) snapsets: Vec<InconsistentSnapset>,
    /// What was counted.
    pub(super) totals: PgTotals,
    /// Something was left out: not all was counted.
    pub(super) is_partial: bool,
    pub(super) omap_keys: u64,
    pub(super) omap_bytes: u64,
    /// Objects with more omap than the options want.
    pub(super) large_omap_objects: u64,
}

impl Verdict {
    /// An object changes that may have been looked at.
    pub(super) fn on_change(&mut self, entry: &LogEntry) {
        let (object, version) = (&entry.object, entry.version);
        if entry.is_delete {
            self.deleted += self.bad.remove(object).map_or(0, |bad| bad.count());
        } else if let Some(bad) = self.bad.get_mut(object) {
            // It is replaced at the end, by what the object is then: no copy has the version that was compared.
            bad.version = version;
        } else if let Some(head) = self.bad.get(&object.head()).filter(|_| !object.is_head()) {
            // A clone of a bad copy is bad.
            self.bad.insert(object.clone(), BadCopies { version, ..head.clone() });
        }
    }

    pub(super) fn error(&mut self, text: String) {
        self.log.push((LogLevel::ERROR, text));
    }

    /// Objects cannot be compared.
    pub(super) fn leave_out(&mut self, text: String) {
        self.error(text);
        self.shallow_errors += 1;
        self.is_partial = true;
    }

    /// Tells of an object that has more omap keys, or bytes of them, than `max`.
    pub(super) fn note_omap(&mut self, object: &ScrubObject, pgid: PgId, max: OmapMax) {
        let (keys, bytes) = (object.omap_keys, object.omap_bytes);
        if keys <= max.keys && bytes <= max.bytes {
            return;
        }
        self.large_omap_objects += 1;
        let raw = PgId::new(pgid.pool, object.object.hash);
        let line = format!(
            "Large omap object found. Object: {} PG: {raw} ({pgid}) Key count: {keys} Size (bytes): {bytes}",
            object.object
        );
        self.log.push((LogLevel::WARN, line));
    }

    pub(super) fn info(&mut self, text: String) {
        self.log.push((LogLevel::INFO, text));
    }

    pub(super) fn errors(&self) -> u64 {
        self.shallow_errors + self.deep_errors
    }

    /// What some copies lack of an object and its clones, as `{object=osd,osd …}`, as far as a line has room for it.
    pub(super) fn missing_text(&self, head: &HObject) -> String {
        let family = self.bad.range(head.with_snap(SnapId(0))..=head.head());
        let mut missing = family.filter(|(_, bad)| !bad.missing.is_empty());
        let one = |(object, bad): (&HObject, &BadCopies)| {
            let osds: Vec<String> = bad.missing.iter().map(ToString::to_string).collect();
            format!("{object}={}", osds.join(","))
        };
        let named: Vec<String> = missing.by_ref().take(NAMED_MAX).map(one).collect();
        let more = if missing.next().is_some() { ",..." } else { "" };
        format!("{{{}{more}}}", named.join(","))
    }
}
