//! From changes to a transaction and its log entries.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Encode, Features};
use types::{EVersion, IntervalSet, LogEntry, Mutation, Pairs, SnapContext, SnapId, Transaction, UTime};

use super::View;
use crate::exec::{
    Delta, OpContext, Staged,
    object_info::{CloneInfo, INFO_XATTR, ObjectInfo, SNAPSET_XATTR},
};

/// What is being put together.
struct Stage {
    txn: Transaction,
    log: Vec<LogEntry>,
    delta: Delta,
    at: EVersion,
}

/// What the request says of its own change.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct Change {
    /// The client's clock, zero to leave the object's mtime alone.
    pub(in crate::exec) mtime: UTime,
    /// False for changes that users do not see, as of watchers.
    pub(in crate::exec) is_user_change: bool,
    /// The contents are what they were, wherever they are.
    pub(in crate::exec) is_same_for_snaps: bool,
    /// The result that a repeated request is answered with.
    pub(in crate::exec) result: i32,
}

/// True for a change after which an object has other xattrs than it had, those of the PG's own included.
fn loses_xattrs(mutation: &Mutation) -> bool {
    match mutation {
        Mutation::Remove | Mutation::ClearXattrs | Mutation::CloneFrom { .. } => true,
        Mutation::Touch
        | Mutation::Write { .. }
        | Mutation::Zero { .. }
        | Mutation::Truncate { .. }
        | Mutation::SetXattrs(_)
        | Mutation::RemoveXattr(_)
        | Mutation::OmapSet(_)
        | Mutation::OmapRemove(_)
        | Mutation::OmapRemoveRange { .. }
        | Mutation::OmapClear
        | Mutation::OmapSetHeader(_) => false,
    }
}

impl View<'_> {
    /// True if the object takes more than before, and so makes its pool larger. Clones that snapshots want do not
    /// count: Ceph makes them after it has looked whether there is room (`prepare_transaction`).
    pub(in crate::exec) fn grows(&self) -> bool {
        let is_new = self.exists && !self.existed && !self.is_whiteout();
        is_new || self.size > self.old_bytes
    }

    /// Turns what was changed into a transaction with its log entries; a clone first, where a snapshot
    /// needs the old state (`make_writeable`, `finish_ctx`). The reply's user version comes with it.
    pub(in crate::exec) fn stage(
        mut self,
        ctx: &OpContext,
        snapc: &SnapContext,
        mut change: Change,
    ) -> (Staged, u64) {
        if self.has_copied_mtime {
            change.mtime = UTime::default();
        }
        let txn = Transaction::new(self.coll);
        let log = Vec::with_capacity(1);
        let mut stage = Stage { txn, log, delta: Delta::default(), at: ctx.next_version };
        if self.clone_info().is_some() {
            return self.stage_clone(ctx, change, stage);
        }
        if change.is_same_for_snaps {
            self.differ_from_newest_clone();
        } else {
            self.keep_for_snaps(snapc, change.mtime, &mut stage);
        }
        let at = stage.at;
        if change.is_user_change {
            let seen = self.info.user_version.max(ctx.last_user_version);
            // After the highest number that there is, which a redirect may bring along, the PG's version is taken
            // instead.
            self.info.user_version = at.version.max(seen.wrapping_add(1));
        }
        let user_version = self.info.user_version;
        let prior_version = self.old_info.version;
        let is_gone = !self.exists && self.snapset.clones.is_empty();
        if is_gone {
            stage.txn.push(&self.head, Mutation::Remove);
        } else {
            self.put_head(at, change.mtime, &mut stage.txn);
        }
        // Ceph counts a head that only keeps clones together, too.
        let was_there = self.existed || self.is_whiteout();
        stage.delta.objects += i64::from(!is_gone) - i64::from(was_there);
        stage.delta.bytes += self.size as i64 - self.old_bytes as i64;
        stage.log.push(LogEntry {
            version: at,
            object: self.head.clone(),
            prior_version,
            is_delete: is_gone,
            reqid: ctx.reqid,
            user_version,
            result: change.result,
            mtime: change.mtime,
            ..LogEntry::default()
        });
        let Stage { txn, log, delta, .. } = stage;
        (Staged { txn, log, delta }, user_version)
    }

    fn put_head(&mut self, at: EVersion, mtime: UTime, txn: &mut Transaction) {
        if !self.exists {
            // A head without an object stays as a mark that its clones belong to.
            self.mutations = vec![Mutation::Remove, Mutation::Touch];
        }
        self.info.is_whiteout = !self.exists;
        self.info.prior_version = self.old_info.version;
        self.info.version = at;
        if mtime != UTime::default() {
            self.info.mtime = mtime;
        }
        let mut is_snapset_kept = self.existed && self.kept_snapset.as_ref() == Some(&self.snapset);
        for mutation in std::mem::take(&mut self.mutations) {
            is_snapset_kept &= !loses_xattrs(&mutation);
            txn.push(&self.head, mutation);
        }
        let f = Features::default();
        let mut system = Pairs::from([(Bytes::from_static(INFO_XATTR), self.info.to_bytes(f))]);
        if !is_snapset_kept {
            system.insert(Bytes::from_static(SNAPSET_XATTR), self.snapset.to_bytes(f));
        }
        txn.push(&self.head, Mutation::SetXattrs(system));
    }

    /// Clones the head if snapshots were made since its last change, and notes what the newest clone no longer shares
    /// with the head.
    fn keep_for_snaps(&mut self, snapc: &SnapContext, mtime: UTime, stage: &mut Stage) {
        let seq = self.snapset.seq;
        let snaps: Vec<SnapId> = snapc.snaps.iter().copied().take_while(|s| *s > seq).collect();
        if self.existed && !snaps.is_empty() {
            self.clone_head(snapc.seq, snaps, mtime, stage);
        }
        self.differ_from_newest_clone();
        self.snapset.seq = seq.max(snapc.seq);
    }

    fn differ_from_newest_clone(&mut self) {
        if let Some(newest) = self.snapset.clones.last_mut() {
            newest.overlap.subtract(&self.changed);
        }
    }

    /// A change of a clone, which is one of where its contents are.
    fn stage_clone(mut self, ctx: &OpContext, change: Change, mut stage: Stage) -> (Staged, u64) {
        let (object, at) = (self.base.take().unwrap_or_else(|| self.head.clone()), stage.at);
        for mutation in std::mem::take(&mut self.mutations) {
            stage.txn.push(&object, mutation);
        }
        (self.info.prior_version, self.info.version) = (self.old_info.version, at);
        let entry = (Bytes::from_static(INFO_XATTR), self.info.to_bytes(Features::default()));
        stage.txn.push(&object, Mutation::SetXattrs([entry].into()));
        stage.log.push(LogEntry {
            version: at,
            object,
            prior_version: self.old_info.version,
            reqid: ctx.reqid,
            user_version: self.info.user_version,
            result: change.result,
            mtime: change.mtime,
            ..LogEntry::default()
        });
        let Stage { txn, log, delta, .. } = stage;
        (Staged { txn, log, delta }, self.info.user_version)
    }

    fn clone_head(&mut self, id: SnapId, snaps: Vec<SnapId>, mtime: UTime, stage: &mut Stage) {
        let clone = self.head.with_snap(id);
        let info = ObjectInfo {
            version: stage.at,
            prior_version: self.old_info.version,
            watchers: BTreeMap::new(),
            ..self.old_info.clone()
        };
        let user_version = info.user_version;
        stage.txn.push(&clone, Mutation::CloneFrom { source: self.head.clone().into() });
        stage.txn.push(&clone, Mutation::RemoveXattr(Bytes::from_static(SNAPSET_XATTR)));
        let entry = (Bytes::from_static(INFO_XATTR), info.to_bytes(Features::default()));
        stage.txn.push(&clone, Mutation::SetXattrs([entry].into()));
        let mut overlap = IntervalSet::new();
        overlap.insert(0, self.old_bytes);
        self.snapset.clones.push(CloneInfo { id, snaps, size: self.old_bytes, overlap });
        stage.delta.objects += 1;
        stage.delta.clones += 1;
        stage.delta.bytes += self.old_bytes as i64;
        stage.log.push(LogEntry {
            version: stage.at,
            object: clone,
            user_version,
            mtime,
            ..LogEntry::default()
        });
        stage.at.version += 1;
    }
}
