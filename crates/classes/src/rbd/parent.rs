//! The parent of a clone, in the clone's header.

use bytes::Bytes;
use codec::Reader;
use types::{Errno, SnapId};

use super::{
    header::{has_feature, require_feature, set_op_features},
    snapshot::{read_snap, snaps, write_snap},
    types::{Parent, ParentSpec, feature, op_feature},
};
use crate::{
    ObjectView, Stop,
    keys::{check_exists, find, input, next, optional, output, read, remove, write},
};

fn find_parent(view: &mut dyn ObjectView) -> Result<Option<Parent>, Stop> {
    find(view, b"parent")
}

/// The image shrank to `size`: what lies over the parent shrinks, too.
pub(super) fn shrink_overlap(view: &mut dyn ObjectView, size: u64) -> Result<(), Stop> {
    let Some(mut parent) = find_parent(view)? else { return Ok(()) };
    if parent.spec.exists() && parent.head_overlap.is_some_and(|overlap| overlap > size) {
        parent.head_overlap = Some(size);
        write(view, b"parent", &parent)?;
    }
    Ok(())
}

fn attach(
    view: &mut dyn ObjectView,
    spec: ParentSpec,
    overlap: u64,
    is_reattach: bool,
) -> Result<Bytes, Stop> {
    check_exists(view)?;
    require_feature(view, feature::LAYERING)?;
    if !spec.exists() || overlap == 0 {
        return Err(Errno::EINVAL.into());
    }
    if let Some(old) = find_parent(view)?
        && (old.head_overlap.is_some() || old.spec != spec)
        && !is_reattach
    {
        return Err(Errno::EEXIST.into());
    }
    let size: u64 = read(view, b"size")?;
    write(view, b"parent", &Parent { spec, head_overlap: Some(overlap.min(size)) })?;
    Ok(Bytes::new())
}

fn detach(view: &mut dyn ObjectView, is_old_api: bool) -> Result<Bytes, Stop> {
    check_exists(view)?;
    require_feature(view, feature::LAYERING)?;
    let mut parent: Parent = read(view, b"parent")?;
    if is_old_api && !parent.spec.pool_namespace.is_empty() {
        return Err(Errno::EXDEV.into());
    }
    if parent.head_overlap.is_none() {
        return Err(Errno::ENOENT.into());
    }
    let is_deep = has_feature(view, feature::DEEP_FLATTEN)?;
    let mut has_child_snaps = false;
    for mut snap in snaps(view)?.into_iter().filter(|s| s.parent_overlap.is_some()) {
        if is_deep {
            snap.parent_overlap = None;
            write_snap(view, &snap)?;
        } else {
            has_child_snaps = true;
        }
    }
    if has_child_snaps {
        parent.head_overlap = None;
        write(view, b"parent", &parent)?;
    } else {
        remove(view, b"parent")?;
        set_op_features(view, 0, op_feature::CLONE_CHILD)?;
    }
    Ok(Bytes::new())
}

/// The form before pool namespaces: what the kernel asks for.
pub(super) fn get_parent(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let snap_id: SnapId = input(bytes)?;
    check_exists(view)?;
    let mut parent = Parent::default();
    if has_feature(view, feature::LAYERING)? {
        parent = find_parent(view)?.unwrap_or_default();
        if !parent.spec.pool_namespace.is_empty() {
            return Err(Errno::EXDEV.into());
        }
        if snap_id != SnapId::HEAD {
            let overlap = match read_snap(view, snap_id) {
                Err(Stop::Refused(Errno::ENOENT)) => None,
                other => other?.parent_overlap,
            };
            parent = match overlap {
                Some(_) => Parent { head_overlap: overlap, ..parent },
                None => Parent::default(),
            };
        }
    }
    let spec = parent.spec;
    output(&((spec.pool_id, spec.image_id), (spec.snap_id, parent.head_overlap.unwrap_or(0))))
}

pub(super) fn set_parent(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (pool_id, image_id, (snap_id, overlap)): (i64, Bytes, (SnapId, u64)) = input(bytes)?;
    let spec = ParentSpec { pool_id, pool_namespace: Bytes::new(), image_id, snap_id };
    attach(view, spec, overlap, false)
}

pub(super) fn remove_parent(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    detach(view, true)
}

pub(super) fn parent_get(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    check_exists(view)?;
    let parent = if has_feature(view, feature::LAYERING)? { find_parent(view)? } else { None };
    output(&parent.unwrap_or_default().spec)
}

pub(super) fn parent_overlap_get(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let snap_id: SnapId = input(bytes)?;
    let overlap = match (has_feature(view, feature::LAYERING)?, snap_id) {
        (false, _) => None,
        (true, SnapId::HEAD) => find_parent(view)?.and_then(|p| p.head_overlap),
        (true, snap) => read_snap(view, snap)?.parent_overlap,
    };
    output(&overlap)
}

pub(super) fn parent_attach(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let mut reader = Reader::new(bytes.clone());
    let (spec, overlap): (ParentSpec, u64) = next(&mut reader)?;
    let is_reattach = optional(&mut reader)?.unwrap_or(false);
    attach(view, spec, overlap, is_reattach)
}

pub(super) fn parent_detach(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    detach(view, false)
}
