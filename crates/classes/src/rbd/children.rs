//! Children of snapshots: `rbd_children` for clones of the first kind, the parent's header for those
//! of the second.

use std::collections::BTreeSet;

use bytes::Bytes;
use codec::{Encode, Features, Reader};
use types::{Errno, SnapId};

use super::{
    header::set_op_features,
    snapshot::{read_snap, snaps, write_snap},
    types::{ChildSpec, ChildSpecs, namespace, op_feature},
};
use crate::{
    ObjectView, Stop,
    keys::{find, input, next, output, read, remove, write},
};

/// A parent's snapshot, encoded: the key of its children in `rbd_children`.
fn parent_key(reader: &mut Reader) -> Result<Bytes, Stop> {
    let spec: (u64, Bytes, SnapId) = next(reader)?;
    Ok(spec.to_bytes(Features::PACIFIC))
}

pub(super) fn add_child(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let mut reader = Reader::new(bytes.clone());
    let key = parent_key(&mut reader)?;
    let child: Bytes = next(&mut reader)?;
    let mut children: BTreeSet<Bytes> = find(view, &key)?.unwrap_or_default();
    if !children.insert(child) {
        return Err(Errno::EEXIST.into());
    }
    write(view, &key, &children)?;
    Ok(Bytes::new())
}

pub(super) fn remove_child(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let mut reader = Reader::new(bytes.clone());
    let key = parent_key(&mut reader)?;
    let child: Bytes = next(&mut reader)?;
    let mut children: BTreeSet<Bytes> = read(view, &key)?;
    if !children.remove(&child) {
        return Err(Errno::ENOENT.into());
    }
    if children.is_empty() {
        remove(view, &key)?;
    } else {
        write(view, &key, &children)?;
    }
    Ok(Bytes::new())
}

pub(super) fn get_children(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let key = parent_key(&mut Reader::new(bytes.clone()))?;
    let children: BTreeSet<Bytes> = read(view, &key)?;
    output(&children)
}

fn children_key(id: SnapId) -> Vec<u8> {
    format!("snap_children_{:016x}", id.0).into_bytes()
}

pub(super) fn child_attach(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (id, child): (SnapId, ChildSpec) = input(bytes)?;
    let mut snap = read_snap(view, id)?;
    // A deleted snapshot takes no more children.
    if snap.namespace.kind == namespace::TRASH {
        return Err(Errno::ENOENT.into());
    }
    let mut children: ChildSpecs = find(view, &children_key(id))?.unwrap_or_default();
    if !children.insert(child) {
        return Err(Errno::EEXIST.into());
    }
    write(view, &children_key(id), &children)?;
    snap.child_count = snap.child_count.wrapping_add(1);
    write_snap(view, &snap)?;
    set_op_features(view, op_feature::CLONE_PARENT, op_feature::CLONE_PARENT)?;
    Ok(Bytes::new())
}

pub(super) fn child_detach(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (id, child): (SnapId, ChildSpec) = input(bytes)?;
    let mut snap = read_snap(view, id)?;
    let mut children: ChildSpecs = find(view, &children_key(id))?.unwrap_or_default();
    if snap.child_count as usize != children.len() {
        return Err(Errno::EINVAL.into());
    }
    if !children.remove(&child) {
        return Err(Errno::ENOENT.into());
    }
    if children.is_empty() {
        remove(view, &children_key(id))?;
    } else {
        write(view, &children_key(id), &children)?;
    }
    snap.child_count -= 1;
    write_snap(view, &snap)?;
    let is_in_use = snaps(view)?.iter().any(|s| s.id != id && s.child_count > 0);
    if snap.child_count == 0 && !is_in_use {
        set_op_features(view, 0, op_feature::CLONE_PARENT)?;
    }
    Ok(Bytes::new())
}

pub(super) fn children_list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let id: SnapId = input(bytes)?;
    read_snap(view, id)?;
    let children: ChildSpecs = read(view, &children_key(id))?;
    output(&children)
}
