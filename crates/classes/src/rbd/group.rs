//! Groups of images: `rbd_group_directory`, `rbd_group_header.<id>`, and an image's group in its header.

use bytes::Bytes;
use codec::Decode;
use types::Errno;

use super::{
    directory,
    header::set_op_features,
    types::{GroupImageSpec, GroupImageStatus, GroupSnapshot, GroupSpec, op_feature},
};
use crate::{
    ObjectView, Stop,
    keys::{check_exists, find, input, output, read, remove, walk, write},
};

pub(super) fn group_dir_list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    directory::list_names(view, bytes)
}

pub(super) fn group_dir_add(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    directory::dir_add_image(view, bytes)
}

pub(super) fn group_dir_remove(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    directory::dir_remove_image(view, bytes)
}

pub(super) fn group_dir_rename(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    directory::dir_rename_image(view, bytes)
}

const IMAGE: &[u8] = b"image_";
const SNAPSHOT: &[u8] = b"snapshot_";
const GROUP_REF: &[u8] = b"rbd_group_ref";

fn image_key(spec: &GroupImageSpec) -> Vec<u8> {
    format!("image_{:016x}_{}", spec.pool_id, spec.image_id).into_bytes()
}

pub(super) fn group_image_set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let status: GroupImageStatus = input(bytes)?;
    write(view, &image_key(&status.spec), &status)?;
    Ok(Bytes::new())
}

pub(super) fn group_image_remove(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let spec: GroupImageSpec = input(bytes)?;
    remove(view, &image_key(&spec))?;
    Ok(Bytes::new())
}

pub(super) fn group_image_list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (after, count_max): (GroupImageSpec, u64) = input(bytes)?;
    check_exists(view)?;
    let after = if after.pool_id == -1 { Vec::new() } else { image_key(&after)[IMAGE.len()..].to_vec() };
    output(&collect::<GroupImageStatus>(view, IMAGE, &after, count_max)?)
}

/// Decoded values under `prefix` after `after`, in order.
fn collect<T: Decode>(
    view: &mut dyn ObjectView,
    prefix: &[u8],
    after: &[u8],
    count_max: u64,
) -> Result<Vec<T>, Stop> {
    let mut out = Vec::new();
    if count_max > 0 {
        walk(view, prefix, after, |_, value| {
            out.push(T::from_prefix(value).map_err(|_| Stop::Refused(Errno::EIO))?);
            Ok((out.len() as u64) < count_max)
        })?;
    }
    Ok(out)
}

pub(super) fn image_group_add(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let group: GroupSpec = input(bytes)?;
    if find::<GroupSpec>(view, GROUP_REF)?.is_some_and(|old| old != group) {
        return Err(Errno::EEXIST.into());
    }
    set_op_features(view, op_feature::GROUP, op_feature::GROUP)?;
    write(view, GROUP_REF, &group)?;
    Ok(Bytes::new())
}

pub(super) fn image_group_remove(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let group: GroupSpec = input(bytes)?;
    if read::<GroupSpec>(view, GROUP_REF)? != group {
        return Err(Errno::EBADF.into());
    }
    set_op_features(view, 0, op_feature::GROUP)?;
    remove(view, GROUP_REF)?;
    Ok(Bytes::new())
}

pub(super) fn image_group_get(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    check_exists(view)?;
    let none = GroupSpec { group_id: String::new(), pool_id: -1 };
    output(&find(view, GROUP_REF)?.unwrap_or(none))
}

fn snapshot_key(id: &str) -> Vec<u8> {
    [SNAPSHOT, id.as_bytes()].concat()
}

/// `GROUP_SNAPSHOT_STATE_INCOMPLETE`: the record that a creation starts with.
const INCOMPLETE: u8 = 0;

pub(super) fn group_snap_set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let snap: GroupSnapshot = input(bytes)?;
    if snap.name.is_empty() || snap.id.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let all = collect::<GroupSnapshot>(view, SNAPSHOT, b"", u64::MAX)?;
    if all.iter().any(|s| s.name == snap.name && s.id != snap.id) {
        return Err(Errno::EEXIST.into());
    }
    let exists = all.iter().any(|s| s.id == snap.id);
    if snap.state == INCOMPLETE && exists {
        return Err(Errno::EEXIST.into());
    }
    write(view, &snapshot_key(&snap.id), &snap)?;
    Ok(Bytes::new())
}

pub(super) fn group_snap_remove(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let id: String = input(bytes)?;
    remove(view, &snapshot_key(&id))?;
    Ok(Bytes::new())
}

pub(super) fn group_snap_get_by_id(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let id: String = input(bytes)?;
    let snap: GroupSnapshot = read(view, &snapshot_key(&id))?;
    output(&snap)
}

pub(super) fn group_snap_list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (after, count_max): (GroupSnapshot, u64) = input(bytes)?;
    check_exists(view)?;
    output(&collect::<GroupSnapshot>(view, SNAPSHOT, after.id.as_bytes(), count_max)?)
}
