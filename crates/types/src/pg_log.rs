//! What OSDs keep and tell each other of a PG: its log, its info, its past. Encodings are ours.

use std::collections::BTreeMap;

use codec::{Codec, Decode, DecodeError, Encode, Features, Reader};

use crate::{EVersion, Epoch, HObject, OsdId, ReqId, ScrubHistory, UTime};

/// One change of one object (`pg_log_entry_t`).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 3, compat = 1)]
pub struct LogEntry {
    /// The change's version.
    pub version: EVersion,
    /// The object.
    pub object: HObject,
    /// The object's version before; zero if it did not exist.
    pub prior_version: EVersion,
    /// True when the object is gone after it.
    pub is_delete: bool,
    /// The request; the default for changes that no client asked for.
    pub reqid: ReqId,
    /// The object's version as users see it.
    pub user_version: u64,
    /// The request's result, for a client that sends the request again.
    pub result: i32,
    /// When, by the client's clock.
    pub mtime: UTime,
    /// The request failed and changed nothing: the entry is there to answer a client that sends the request again.
    #[codec(since = 2)]
    pub is_error: bool,
    /// Result and output of each op, if the request wanted them, for a client that sends the request again.
    #[codec(since = 2)]
    pub returns: Vec<(i32, bytes::Bytes)>,
    /// The object's newest changes are lost: it is back at this version, or gone if this is zero.
    #[codec(since = 3)]
    pub lost_to: Option<EVersion>,
}

/// What a PG holds at its `last_update`, including objects that a copy still lacks. It is part of the history that
/// copies agree on, so that no OSD has to count.
#[derive(Codec, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PgTotals {
    /// Objects, clones included.
    pub objects: u64,
    /// Clones.
    pub clones: u64,
    /// Bytes of object data.
    pub bytes: u64,
}

/// Where a copy of a PG is (`pg_info_t`).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 7, compat = 1)]
pub struct PgInfo {
    /// The newest change in its log.
    pub last_update: EVersion,
    /// The oldest change that its log reaches back to, exclusive.
    pub log_tail: EVersion,
    /// The last epoch in which this copy was part of an active PG.
    pub last_epoch_started: Epoch,
    /// The last epoch in which the PG was known clean.
    pub last_epoch_clean: Epoch,
    /// The epoch in which the PG was made.
    pub created: Epoch,
    /// The newest map that the copy has seen.
    pub epoch: Epoch,
    /// Objects that the log has and the copy lacks.
    pub missing_count: u64,
    /// Snapshots whose clones are trimmed.
    pub purged_snaps: crate::IntervalSet,
    /// What the PG holds.
    #[codec(since = 2)]
    pub totals: PgTotals,
    /// The first epoch of the interval that the copy is in (`same_interval_since`).
    #[codec(since = 3)]
    pub since: Epoch,
    /// The first epoch in which the same primary led (`same_primary_since`).
    #[codec(since = 3)]
    pub primary_since: Epoch,
    /// When the PG was scrubbed, and what was found.
    #[codec(since = 4)]
    pub scrubs: ScrubHistory,
    /// The pool's number of PGs by which the copy's objects are split; 0 for the number in the map.
    #[codec(since = 5)]
    pub pg_num: u32,
    /// The epoch in which the PG was split last, or was made by a split (`last_epoch_split`); 0 for never.
    #[codec(since = 5)]
    pub last_epoch_split: Epoch,
    /// True while `totals` are only a share of what was counted before a split.
    #[codec(since = 5)]
    pub is_estimated: bool,
    /// The highest version that users saw of an object of the PG: an object that is deleted and made again, or
    /// takes over another's version, is newer than all of these.
    #[codec(since = 6)]
    pub last_user_version: u64,
    /// Since when the copy's store has been its OSD's, where the copy is told of; 0 if that is not known. A store that
    /// is younger than an interval has nothing of it, whatever id its OSD has.
    #[codec(since = 7)]
    pub store_born: Epoch,
}

/// The part of [`PgInfo`] that changes of objects move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PgProgress {
    /// See [`PgInfo::last_update`].
    pub last_update: EVersion,
    /// See [`PgInfo::log_tail`].
    pub log_tail: EVersion,
    /// See [`PgInfo::totals`].
    pub totals: PgTotals,
    /// See [`PgInfo::is_estimated`].
    pub is_estimated: bool,
    /// See [`PgInfo::last_user_version`]. Older records end before it.
    pub last_user_version: u64,
}

impl Encode for PgProgress {
    fn encode(&self, out: &mut Vec<u8>, f: Features) {
        self.last_update.encode(out, f);
        self.log_tail.encode(out, f);
        self.totals.encode(out, f);
        self.is_estimated.encode(out, f);
        self.last_user_version.encode(out, f);
    }
}

impl Decode for PgProgress {
    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(PgProgress {
            last_update: Decode::decode(input)?,
            log_tail: Decode::decode(input)?,
            totals: Decode::decode(input)?,
            is_estimated: Decode::decode(input)?,
            last_user_version: if input.remaining() == 0 { 0 } else { Decode::decode(input)? },
        })
    }
}

impl PgInfo {
    /// What changes of objects move.
    pub fn progress(&self) -> PgProgress {
        let PgInfo { last_update, log_tail, totals, is_estimated, last_user_version, .. } = *self;
        PgProgress { last_update, log_tail, totals, is_estimated, last_user_version }
    }

    /// Takes over what changes have moved.
    pub fn set_progress(&mut self, progress: PgProgress) {
        let PgProgress { last_update, log_tail, totals, is_estimated, last_user_version } = progress;
        (self.last_update, self.log_tail) = (last_update, log_tail);
        (self.totals, self.is_estimated) = (totals, is_estimated);
        self.last_user_version = last_user_version;
    }

    /// True if nothing but progress was made between the two.
    pub fn is_same_but_progress(&self, other: &PgInfo) -> bool {
        let PgInfo {
            last_update: _,
            log_tail: _,
            totals: _,
            is_estimated: _,
            last_user_version: _,
            last_epoch_started,
            last_epoch_clean,
            created,
            epoch,
            missing_count,
            purged_snaps,
            since,
            primary_since,
            scrubs,
            pg_num,
            last_epoch_split,
            store_born,
        } = other;
        (self.last_epoch_started, self.last_epoch_clean) == (*last_epoch_started, *last_epoch_clean)
            && (self.created, self.epoch, self.missing_count) == (*created, *epoch, *missing_count)
            && (self.since, self.primary_since) == (*since, *primary_since)
            && (self.pg_num, self.last_epoch_split, self.store_born)
                == (*pg_num, *last_epoch_split, *store_born)
            && self.scrubs == *scrubs
            && self.purged_snaps == *purged_snaps
    }
}

/// A span of epochs in which the acting set did not change (`PastIntervals`).
#[derive(Codec, Clone, Debug, Default, PartialEq, Eq)]
#[codec(version = 2, compat = 1)]
pub struct PgInterval {
    /// First epoch.
    pub first: Epoch,
    /// Last epoch.
    pub last: Epoch,
    /// The acting set.
    pub acting: Vec<OsdId>,
    /// The primary.
    pub primary: OsdId,
    /// True when it may have taken writes: enough members, and the map says that the primary lived.
    pub maybe_went_rw: bool,
    /// Where earlier intervals were forgotten for this one: the first epoch of the first of them; else 0.
    #[codec(since = 2)]
    pub forgotten_since: Epoch,
}

impl PgInterval {
    /// The first epoch that its members answer for.
    pub fn speaks_since(&self) -> Epoch {
        if self.forgotten_since.0 == 0 { self.first } else { self.forgotten_since.min(self.first) }
    }

    /// Answers for what `earlier` answers for, too.
    pub fn speak_for(&mut self, earlier: &PgInterval) {
        if earlier.speaks_since() < self.speaks_since() {
            self.forgotten_since = earlier.speaks_since();
        }
    }

    /// What was before the PG was clean in that epoch need not be answered for.
    pub fn clean(&mut self, epoch: Epoch) {
        let since = self.speaks_since().max(epoch);
        self.forgotten_since = if since < self.first { since } else { Epoch(0) };
    }
}

/// Objects that a copy lacks, with the versions that it needs (`pg_missing_t`).
pub type Missing = BTreeMap<HObject, EVersion>;

/// An object list for copies that the log does not reach.
pub type ObjectVersions = Vec<(HObject, EVersion)>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_from_before_user_versions_were_kept_are_read() {
        let progress = PgProgress { last_update: EVersion::new(Epoch(3), 7), ..PgProgress::default() };
        let bytes = PgProgress { last_user_version: 9, ..progress }.to_bytes(Features::default());
        assert_eq!(PgProgress::from_bytes(bytes.clone()).unwrap().last_user_version, 9);
        assert_eq!(PgProgress::from_bytes(bytes.slice(..bytes.len() - 8)).unwrap(), progress);
        assert!(PgProgress::from_bytes(bytes.slice(..bytes.len() - 1)).is_err());
    }
}
