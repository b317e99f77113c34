//! Snapshots of an image, in its header: `snapshot_<id>`.

use bytes::Bytes;
use codec::{Decode, Encode, Features, Reader};
use types::{Errno, SnapId};

use super::{
    header::{require_feature, set_op_features},
    mirror, old_format,
    types::{
        Parent, Snap, SnapshotInfo, SnapshotNamespace, TrashNamespace, feature, namespace, op_feature,
        protection,
    },
};
use crate::{
    ObjectView, Stop,
    keys::{Reach, check_exists, find, input, next, optional, output, read, remove, walk, write},
};

const PREFIX: &[u8] = b"snapshot_";

/// `CEPH_MAXSNAP`.
const SNAP_ID_MAX: SnapId = SnapId(u64::MAX - 2);

fn key(id: SnapId) -> Vec<u8> {
    format!("snapshot_{:016x}", id.0).into_bytes()
}

/// The snapshot `id`; ENOENT without one.
pub(super) fn read_snap(view: &mut dyn ObjectView, id: SnapId) -> Result<Snap, Stop> {
    read(view, &key(id))
}

/// Writes `snap` back.
pub(super) fn write_snap(view: &mut dyn ObjectView, snap: &Snap) -> Result<(), Stop> {
    write(view, &key(snap.id), snap)
}

/// All snapshots, oldest first.
pub(super) fn snaps(view: &mut dyn ObjectView) -> Result<Vec<Snap>, Stop> {
    let mut out = Vec::new();
    walk(view, PREFIX, b"", Reach::All, |_, value| {
        out.push(Snap::from_prefix(value).map_err(|_| Stop::Refused(Errno::EIO))?);
        Ok(true)
    })?;
    Ok(out)
}

pub(super) fn get_snapcontext(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    let mut ids: Vec<SnapId> = snaps(view)?.iter().map(|s| s.id).collect();
    ids.reverse();
    let seq: u64 = read(view, b"snap_seq")?;
    output(&(seq, ids))
}

fn named(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Snap, Stop> {
    match input(bytes)? {
        SnapId::HEAD => Err(Errno::EINVAL.into()),
        id => read_snap(view, id),
    }
}

pub(super) fn get_snapshot_name(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    output(&named(view, bytes)?.name)
}

pub(super) fn get_snapshot_timestamp(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    output(&named(view, bytes)?.timestamp)
}

pub(super) fn snapshot_get(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let snap = named(view, bytes)?;
    output(&SnapshotInfo {
        id: snap.id,
        namespace: snap.namespace,
        name: snap.name,
        image_size: snap.image_size,
        timestamp: snap.timestamp,
        child_count: snap.child_count,
    })
}

/// Whether the kind is known and its fields are all there.
fn is_whole(namespace: &SnapshotNamespace) -> bool {
    let fields = &namespace.fields;
    match namespace.kind {
        namespace::USER => true,
        namespace::GROUP => <(i64, Bytes, Bytes)>::from_prefix(fields.clone()).is_ok(),
        namespace::TRASH => TrashNamespace::from_prefix(fields.clone()).is_ok(),
        namespace::MIRROR => mirror::snapshots::are_whole(fields),
        _ => false,
    }
}

pub(super) fn snapshot_add(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let mut reader = Reader::new(bytes.clone());
    let (name, id): (Bytes, SnapId) = next(&mut reader)?;
    let namespace: SnapshotNamespace = optional(&mut reader)?.unwrap_or_default();
    if !is_whole(&namespace) || id > SNAP_ID_MAX {
        return Err(Errno::EINVAL.into());
    }
    let seq: SnapId = read(view, b"snap_seq")?;
    // The client lost a race with another snapshot's creation.
    if id < seq {
        return Err(Errno::ESTALE.into());
    }
    let image_size = read(view, b"size")?;
    let flags = find(view, b"flags")?.unwrap_or(0);
    let limit = find::<u64>(view, b"snap_limit")?.unwrap_or(u64::MAX);
    // One after another: a namesake that comes before the limit is what is told.
    for (count, other) in (1..).zip(snaps(view)?) {
        if count >= limit {
            return Err(Errno::EDQUOT.into());
        }
        if (other.name == name && other.namespace == namespace) || other.id == id {
            return Err(Errno::EEXIST.into());
        }
    }
    let parent_overlap = find::<Parent>(view, b"parent")?.and_then(|p| p.head_overlap);
    if namespace.kind == namespace::TRASH {
        set_op_features(view, op_feature::SNAP_TRASH, op_feature::SNAP_TRASH)?;
    }
    let snap = Snap {
        id,
        name,
        image_size,
        protection_status: protection::UNPROTECTED,
        flags,
        namespace,
        timestamp: view.context().now,
        child_count: 0,
        parent_overlap,
    };
    write(view, b"snap_seq", &id)?;
    write_snap(view, &snap)?;
    Ok(Bytes::new())
}

pub(super) fn snapshot_rename(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (id, name): (SnapId, Bytes) = input(bytes)?;
    if snaps(view)?.iter().any(|s| s.namespace.kind == namespace::USER && s.name == name) {
        return Err(Errno::EEXIST.into());
    }
    let mut snap = read_snap(view, id)?;
    if snap.namespace.kind != namespace::USER {
        return Err(Errno::EINVAL.into());
    }
    snap.name = name;
    write_snap(view, &snap)?;
    Ok(Bytes::new())
}

pub(super) fn snapshot_remove(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let id: SnapId = input(bytes)?;
    let snap = read_snap(view, id)?;
    if snap.protection_status != protection::UNPROTECTED || snap.child_count > 0 {
        return Err(Errno::EBUSY.into());
    }
    remove(view, &key(id))?;
    let others: Vec<Snap> = snaps(view)?.into_iter().filter(|s| s.id != id).collect();
    let has_child_snaps = others.iter().any(|s| s.parent_overlap.is_some());
    let has_trash_snaps = others.iter().any(|s| s.namespace.kind == namespace::TRASH);
    let parent = find::<Parent>(view, b"parent")?.filter(|p| p.spec.exists());
    let is_head_child = parent.as_ref().is_some_and(|p| p.head_overlap.is_some());
    if parent.is_some() && !is_head_child && !has_child_snaps {
        remove(view, b"parent")?;
    }
    let mut mask = 0;
    if !has_child_snaps && !is_head_child {
        mask |= op_feature::CLONE_CHILD;
    }
    if !has_trash_snaps {
        mask |= op_feature::SNAP_TRASH;
    }
    if mask != 0 {
        set_op_features(view, 0, mask)?;
    }
    Ok(Bytes::new())
}

/// A uuid, made from the operation's random bits and a number.
pub(super) fn random_uuid(seed: u64, number: u64) -> Bytes {
    let mix = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number;
    let (first, second, third) = (seed >> 32, seed >> 16 & 0xffff, seed & 0xfff);
    let (fourth, last) = (mix >> 52, mix & 0xffff_ffff_ffff);
    Bytes::from(format!("{first:08x}-{second:04x}-4{third:03x}-a{fourth:03x}-{last:012x}"))
}

pub(super) fn snapshot_trash_add(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let id: SnapId = input(bytes)?;
    let mut snap = read_snap(view, id)?;
    if snap.protection_status != protection::UNPROTECTED {
        return Err(Errno::EBUSY.into());
    }
    if snap.namespace.kind == namespace::TRASH {
        return Err(Errno::EEXIST.into());
    }
    set_op_features(view, op_feature::SNAP_TRASH, op_feature::SNAP_TRASH)?;
    let original = TrashNamespace { original_name: snap.name, original_kind: snap.namespace.kind };
    snap.namespace =
        SnapshotNamespace { kind: namespace::TRASH, fields: original.to_bytes(Features::PACIFIC) };
    // A name that no user snapshot has.
    snap.name = random_uuid(view.context().random_seed, id.0);
    write_snap(view, &snap)?;
    Ok(Bytes::new())
}

pub(super) fn snapshot_get_limit(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    check_exists(view)?;
    output(&find::<u64>(view, b"snap_limit")?.unwrap_or(u64::MAX))
}

fn snap_count(view: &mut dyn ObjectView) -> Result<u64, Stop> {
    match old_format::snap_count(view)? {
        Some(count) => Ok(count),
        None => Ok(snaps(view)?.len() as u64),
    }
}

pub(super) fn snapshot_set_limit(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    match input(bytes)? {
        u64::MAX => remove(view, b"snap_limit")?,
        limit if limit < snap_count(view)? => return Err(Errno::ERANGE.into()),
        limit => write(view, b"snap_limit", &limit)?,
    }
    Ok(Bytes::new())
}

pub(super) fn get_protection_status(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    check_exists(view)?;
    output(&named(view, bytes)?.protection_status)
}

pub(super) fn set_protection_status(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (id, status): (SnapId, u8) = input(bytes)?;
    check_exists(view)?;
    require_feature(view, feature::LAYERING)?;
    if id == SnapId::HEAD || status >= protection::LAST {
        return Err(Errno::EINVAL.into());
    }
    let mut snap = read_snap(view, id)?;
    snap.protection_status = status;
    write_snap(view, &snap)?;
    Ok(Bytes::new())
}
