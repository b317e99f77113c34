//! Snapshots of single objects: list, roll back, trim.

use std::collections::BTreeMap;

use bytes::Bytes;
use classes::{ObjectView, Stop};
use codec::{Codec, Encode, Features};
use messages::OsdOp;
use store::ObjectStore;
use types::{
    ChunkMap, CollId, EVersion, Errno, HObject, IntervalSet, LogEntry, Mutation, SnapId, Transaction,
};

use super::{
    Delta, Output, Run, Staged,
    chunks::{lost, references},
    object_info::{CloneInfo, INFO_XATTR, Kept, ObjectInfo, SNAPSET_XATTR, SnapSet, info_at, snapset_at},
};

/// `clone_info` and `obj_list_snap_response_t` (osd/osd_types.h, include/rados/rados_types.hpp).
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct ListedClone {
    id: SnapId,
    snaps: Vec<SnapId>,
    overlap: Vec<(u64, u64)>,
    size: u64,
}

#[derive(Codec)]
#[codec(version = 2, compat = 1)]
struct ListedSnaps {
    clones: Vec<ListedClone>,
    seq: SnapId,
}

impl SnapSet {
    /// Takes a clone out. The next older clone then shares with the next newer one what both shared with the clone that
    /// is gone.
    pub(crate) fn remove_clone(&mut self, index: usize) -> CloneInfo {
        let gone = self.clones.remove(index);
        if let Some(older) = index.checked_sub(1).and_then(|i| self.clones.get_mut(i)) {
            older.overlap = older.overlap.intersection(&gone.overlap);
        }
        gone
    }

    /// Leaves out snapshots that are removed, and clones that no other snapshot needs.
    pub(crate) fn leave_out(&mut self, removed: &IntervalSet) {
        for index in (0..self.clones.len()).rev() {
            let snaps = &mut self.clones[index].snaps;
            snaps.retain(|snap| !removed.contains(snap.0));
            if snaps.is_empty() {
                self.remove_clone(index);
            }
        }
    }
}

impl Run<'_, '_> {
    /// Snapshots that are removed are left out before they are trimmed, as reads of them fail from then on:
    /// librbd reads at the newest snapshot that is listed with a clone.
    pub(super) fn list_snaps(&mut self) -> Result<Output, Stop> {
        self.view.spend(self.view.snapset.memory())?;
        let mut snapset = self.view.snapset.clone();
        snapset.leave_out(&self.ctx.removed_snaps);
        if !self.view.exists() && snapset.clones.is_empty() {
            return Err(Errno::ENOENT.into());
        }
        let mut clones: Vec<ListedClone> = snapset
            .clones
            .iter()
            .map(|c| ListedClone {
                id: c.id,
                snaps: c.snaps.iter().rev().copied().collect(),
                overlap: c.overlap.iter().collect(),
                size: c.size,
            })
            .collect();
        if self.view.exists() {
            let (snaps, overlap) = (Vec::new(), Vec::new());
            clones.push(ListedClone { id: SnapId::HEAD, snaps, overlap, size: self.view.size() });
        }
        Ok(ListedSnaps { clones, seq: snapset.seq }.to_bytes(Features::default()).into())
    }

    pub(super) fn rollback(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let snap = step.params.snap();
        let is_of_head = snap > self.view.snapset.seq && self.view.exists();
        match self.view.snapset.clone_of(snap).filter(|_| !self.ctx.removed_snaps.contains(snap.0)) {
            // Nothing was written since: the head is what it was.
            _ if is_of_head => self.view.touch(),
            Some(clone) => {
                let before = self.view.info.chunks().cloned().unwrap_or_default();
                let chunks = self.view.roll_back_to(clone)?;
                self.refer_to(&before, chunks)?;
            }
            None if !self.view.info.watchers.is_empty() => return Err(Errno::EBUSY.into()),
            None if self.view.exists() => self.view.remove()?,
            None => {}
        }
        Ok(Output::default())
    }
}

/// One step of trimming removed snapshots.
pub(crate) enum TrimStep {
    /// Clones of an object to change or remove, and what they do not refer to any more.
    Change(HObject, Box<Staged>, Vec<HObject>),
    /// Nothing up to here; go on behind it.
    Continue(HObject),
    /// All objects were seen.
    Done,
}

/// Objects looked at in one step.
const TRIM_SCAN: usize = 128;

/// Clones of one object that one step removes.
const TRIM_CLONES_MAX: usize = 64;

/// Why an object was not trimmed.
enum Untrimmed {
    /// This has to be loaded first.
    NotCached(store::NotCached),
    /// What is kept with the object, or with one of its clones, cannot be decoded.
    Damaged,
}

impl From<store::NotCached> for Untrimmed {
    fn from(missing: store::NotCached) -> Untrimmed {
        Untrimmed::NotCached(missing)
    }
}

/// Looks for the next object from `from` on with a clone that serves a removed snapshot (one for which `removed` is
/// true), and takes those snapshots from all its clones. An object with something that cannot be decoded is left alone:
/// what there is to trim is not known.
pub(crate) fn trim_step(
    store: &dyn ObjectStore,
    coll: CollId,
    from: &HObject,
    removed: &dyn Fn(SnapId) -> bool,
    at: EVersion,
) -> Result<TrimStep, store::NotCached> {
    let objects = store.list(coll, from, TRIM_SCAN)?;
    let is_last = objects.len() < TRIM_SCAN;
    // An object's clones come one after the other. What tells of them all is read once: it is long where they are many.
    let mut seen = None;
    for object in &objects {
        let head = object.head();
        if object.is_head() || object.pool.0 < 0 || seen.as_ref() == Some(&head) {
            continue;
        }
        match trim(store, coll, &head, removed, at) {
            Ok(None) => seen = Some(head),
            Ok(Some((staged, given_back))) => {
                return Ok(TrimStep::Change(head, Box::new(staged), given_back));
            }
            Err(Untrimmed::NotCached(missing)) => return Err(missing),
            Err(Untrimmed::Damaged) => {
                complain(&head);
                seen = Some(head);
            }
        }
    }
    match objects.last() {
        Some(last) if !is_last => {
            Ok(TrimStep::Continue(last.with_snap(SnapId(last.snap.0.saturating_add(1)))))
        }
        _ => Ok(TrimStep::Done),
    }
}

/// Takes removed snapshots from the clones of one object; none if there is nothing to trim, or if what is kept with the
/// object cannot be decoded.
pub(crate) fn trim_object(
    store: &dyn ObjectStore,
    coll: CollId,
    head: &HObject,
    removed: &dyn Fn(SnapId) -> bool,
    at: EVersion,
) -> Result<Option<(Staged, Vec<HObject>)>, store::NotCached> {
    match trim(store, coll, head, removed, at) {
        Ok(trimmed) => Ok(trimmed),
        Err(Untrimmed::NotCached(missing)) => Err(missing),
        Err(Untrimmed::Damaged) => {
            complain(head);
            Ok(None)
        }
    }
}

fn complain(head: &HObject) {
    tracing::error!(object = %head, "its snapshots are not trimmed: what is kept with it cannot be decoded");
}

fn trim(
    store: &dyn ObjectStore,
    coll: CollId,
    head: &HObject,
    removed: &dyn Fn(SnapId) -> bool,
    at: EVersion,
) -> Result<Option<(Staged, Vec<HObject>)>, Untrimmed> {
    let snapset = match snapset_at(store, coll, head)? {
        Kept::Absent => return Ok(None),
        Kept::Undecodable => return Err(Untrimmed::Damaged),
        Kept::Known(snapset) => snapset,
    };
    let is_served = |clone: &CloneInfo| clone.snaps.iter().any(|snap| removed(*snap));
    if !snapset.clones.iter().any(is_served) {
        return Ok(None);
    }
    trim_clones(store, coll, head, snapset, removed, at).map(Some)
}

/// References that are lost with the clones that are gone, of an object's `clones`: each as often.
fn lost_with(
    head: &ObjectInfo,
    clones: &[CloneInfo],
    gone: &BTreeMap<SnapId, Option<ChunkMap>>,
    info_of: &dyn Fn(SnapId) -> Result<ObjectInfo, Untrimmed>,
) -> Result<Vec<HObject>, Untrimmed> {
    if head.chunks().is_none() && gone.values().all(Option::is_none) {
        return Ok(Vec::new());
    }
    let mut states = Vec::new();
    for clone in clones {
        states.push(match gone.get(&clone.id) {
            Some(chunks) => (true, chunks.clone()),
            None => (false, info_of(clone.id)?.chunks().cloned()),
        });
    }
    states.push((false, head.chunks().cloned()));
    let before = references(states.iter().map(|(_, chunks)| chunks.as_ref()));
    let kept = states.iter().filter(|(is_gone, _)| !is_gone);
    Ok(lost(before, &references(kept.map(|(_, chunks)| chunks.as_ref()))))
}

fn trim_clones(
    store: &dyn ObjectStore,
    coll: CollId,
    head: &HObject,
    mut snapset: SnapSet,
    removed: &dyn Fn(SnapId) -> bool,
    mut at: EVersion,
) -> Result<(Staged, Vec<HObject>), Untrimmed> {
    let f = Features::default();
    let info_of = |snap: SnapId| match info_at(store, coll, &head.with_snap(snap))? {
        Kept::Known(info) => Ok(info),
        Kept::Absent => Ok(ObjectInfo::default()),
        Kept::Undecodable => Err(Untrimmed::Damaged),
    };
    let mut info = info_of(SnapId::HEAD)?;
    let mut txn = Transaction::new(coll);
    let mut log = Vec::new();
    let mut delta = Delta::default();
    let (all, mut gone_chunks) = (snapset.clones.clone(), BTreeMap::new());
    let mut index = 0;
    while index < snapset.clones.len() && log.len() < TRIM_CLONES_MAX {
        let clone = &mut snapset.clones[index];
        clone.snaps.retain(|s| !removed(*s));
        if !clone.snaps.is_empty() {
            index += 1;
            continue;
        }
        let gone = snapset.remove_clone(index);
        let object = head.with_snap(gone.id);
        // If the change comes to nothing, the clone is needed again.
        let gone_info = info_of(gone.id)?;
        let prior_version = gone_info.version;
        gone_chunks.insert(gone.id, gone_info.chunks().cloned());
        txn.push(&object, Mutation::Remove);
        log.push(LogEntry { version: at, prior_version, object, is_delete: true, ..LogEntry::default() });
        at.version += 1;
        delta.objects -= 1;
        delta.clones -= 1;
        delta.bytes = delta.bytes.saturating_sub_unsigned(gone.size);
    }
    let given_back = lost_with(&info, &all, &gone_chunks, &info_of)?;
    let is_head_gone = info.is_whiteout && snapset.clones.is_empty();
    let prior_version = info.version;
    if is_head_gone {
        txn.push(head, Mutation::Remove);
        delta.objects -= 1;
    } else {
        info.prior_version = prior_version;
        info.version = at;
        let system = [(INFO_XATTR, info.to_bytes(f)), (SNAPSET_XATTR, snapset.to_bytes(f))];
        let system = system.map(|(name, value)| (Bytes::from_static(name), value));
        txn.push(head, Mutation::SetXattrs(system.into()));
    }
    log.push(LogEntry {
        version: at,
        object: head.clone(),
        prior_version,
        is_delete: is_head_gone,
        user_version: info.user_version,
        mtime: info.mtime,
        ..LogEntry::default()
    });
    Ok((Staged { txn, log, delta }, given_back))
}
