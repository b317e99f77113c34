//! Groups of images: `rbd_group_directory`, `rbd_group_header.<id>`, and an image's group in its header.

use std::collections::BTreeMap;

use bytes::Bytes;
use types::Errno;

use super::{
    directory,
    header::set_op_features,
    types::{GroupImageSpec, GroupImageStatus, GroupSnapshot, GroupSpec, op_feature},
};
use crate::{
    ObjectView, Stop,
    keys::{check_exists, find, input, list, output, read, remove, write},
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
    [format!("image_{:016x}_", spec.pool_id).as_bytes(), &spec.image_id].concat()
}

/// The image that a key without its prefix names.
fn image_of_key(key: &Bytes) -> Option<GroupImageSpec> {
    let end = key.iter().position(|byte| *byte == b'_')?;
    let pool_id = u64::from_str_radix(std::str::from_utf8(&key[..end]).ok()?, 16).ok()?.cast_signed();
    Some(GroupImageSpec { image_id: key.slice(end + 1..), pool_id })
}

pub(super) fn group_image_set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let status: GroupImageStatus = input(bytes)?;
    write(view, &image_key(&status.spec), &status.state)?;
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
    let states: BTreeMap<Bytes, u8> = list(view, IMAGE, &after, count_max)?;
    let statuses = states.into_iter().map(|(key, state)| {
        let spec = image_of_key(&key).ok_or(Stop::Refused(Errno::EIO))?;
        Ok(GroupImageStatus { spec, state })
    });
    output(&statuses.collect::<Result<Vec<_>, Stop>>()?)
}

/// The group that the image is in; EINVAL if what is stored is none.
fn group_of(view: &mut dyn ObjectView) -> Result<Option<GroupSpec>, Stop> {
    let stored = view.omap_get(GROUP_REF)?;
    stored.map(|bytes| input(&bytes)).transpose()
}

pub(super) fn image_group_add(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let group: GroupSpec = input(bytes)?;
    match group_of(view)? {
        Some(old) if old == group => {}
        Some(_) => return Err(Errno::EEXIST.into()),
        None => {
            set_op_features(view, op_feature::GROUP, op_feature::GROUP)?;
            write(view, GROUP_REF, &group)?;
        }
    }
    Ok(Bytes::new())
}

pub(super) fn image_group_remove(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let group: GroupSpec = input(bytes)?;
    if group_of(view)?.ok_or(Errno::ENOENT)? != group {
        return Err(Errno::EBADF.into());
    }
    set_op_features(view, 0, op_feature::GROUP)?;
    remove(view, GROUP_REF)?;
    Ok(Bytes::new())
}

pub(super) fn image_group_get(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    check_exists(view)?;
    let none = GroupSpec { group_id: Bytes::new(), pool_id: -1 };
    output(&group_of(view)?.unwrap_or(none))
}

/// When a snapshot was made among those of its group: a number per id, larger than all before.
const SNAP_ORDER: &[u8] = b"snap_order_";
/// The largest number given so far.
const MAX_ORDER: &[u8] = b"snap_max_order";

fn key(prefix: &[u8], id: &[u8]) -> Vec<u8> {
    [prefix, id].concat()
}

/// Up to `count_max` snapshots after the one with id `after`, by id.
fn snapshots(view: &mut dyn ObjectView, after: &[u8], count_max: u64) -> Result<Vec<GroupSnapshot>, Stop> {
    let found: BTreeMap<Bytes, GroupSnapshot> = list(view, SNAPSHOT, after, count_max)?;
    Ok(found.into_values().collect())
}

/// `GROUP_SNAPSHOT_STATE_INCOMPLETE`: the record that a creation starts with.
const INCOMPLETE: u8 = 0;

pub(super) fn group_snap_set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let snap: GroupSnapshot = input(bytes)?;
    if snap.name.is_empty() || snap.id.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let all = snapshots(view, b"", u64::MAX)?;
    if all.iter().any(|s| s.name == snap.name && s.id != snap.id) {
        return Err(Errno::EEXIST.into());
    }
    if snap.state == INCOMPLETE {
        let order_key = key(SNAP_ORDER, &snap.id);
        if all.iter().any(|s| s.id == snap.id) || view.omap_get(&order_key)?.is_some() {
            return Err(Errno::EEXIST.into());
        }
        let order = find::<u64>(view, MAX_ORDER)?.unwrap_or(0).saturating_add(1);
        write(view, MAX_ORDER, &order)?;
        write(view, &order_key, &order)?;
    }
    write(view, &key(SNAPSHOT, &snap.id), &snap)?;
    Ok(Bytes::new())
}

pub(super) fn group_snap_remove(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let id: Bytes = input(bytes)?;
    remove(view, &key(SNAPSHOT, &id))?;
    remove(view, &key(SNAP_ORDER, &id))?;
    Ok(Bytes::new())
}

pub(super) fn group_snap_get_by_id(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let id: Bytes = input(bytes)?;
    let snap: GroupSnapshot = read(view, &key(SNAPSHOT, &id))?;
    output(&snap)
}

pub(super) fn group_snap_list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (after, count_max): (GroupSnapshot, u64) = input(bytes)?;
    check_exists(view)?;
    output(&snapshots(view, &after.id, count_max)?)
}

/// The numbers by which clients of 20.2 sort snapshots; those made before have none.
pub(super) fn group_snap_list_order(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (after, count_max): (Bytes, u64) = input(bytes)?;
    check_exists(view)?;
    let orders: BTreeMap<Bytes, u64> = list(view, SNAP_ORDER, &after, count_max)?;
    output(&orders)
}
