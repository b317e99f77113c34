//! `rbd_header.<id>`: size, features, flags, timestamps, metadata.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Encode, Features, Reader};
use types::{Errno, SnapId, UTime};

use super::{
    parent,
    snapshot::{read_snap, write_snap},
    types::{feature, op_feature},
};
use crate::{
    ObjectView, Stop,
    keys::{check_exists, find, input, list, next, optional, output, read, remove, write},
};

/// Linux's ENOEXEC: Ceph's answer when a feature that a method needs is off.
const ENOEXEC: Errno = Errno(8);
/// Linux's ENOSYS: features asked for that this class does not know.
const ENOSYS: Errno = Errno(38);

/// ENOEXEC unless the image has all features of `need`.
pub(super) fn require_feature(view: &mut dyn ObjectView, need: u64) -> Result<(), Stop> {
    if has_feature(view, need)? { Ok(()) } else { Err(ENOEXEC.into()) }
}

/// True when the image has all features of `need`.
pub(super) fn has_feature(view: &mut dyn ObjectView, need: u64) -> Result<bool, Stop> {
    Ok(find::<u64>(view, b"features")?.is_some_and(|features| features & need == need))
}

/// Sets op features within `mask`; the feature `operations` follows: on while any op feature is.
pub(super) fn set_op_features(view: &mut dyn ObjectView, op_features: u64, mask: u64) -> Result<(), Stop> {
    let features: u64 = read(view, b"features")?;
    let old = find::<u64>(view, b"op_features")?.unwrap_or(0);
    let new = (old & !mask) | (op_features & mask);
    if new == old {
        return Ok(());
    }
    let new_features = if new == 0 {
        remove(view, b"op_features")?;
        features & !feature::OPERATIONS
    } else {
        write(view, b"op_features", &new)?;
        features | feature::OPERATIONS
    };
    if new_features == features { Ok(()) } else { write(view, b"features", &new_features) }
}

pub(super) fn create(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let mut reader = Reader::new(bytes.clone());
    let (size, order): (u64, u8) = next(&mut reader)?;
    let (features, object_prefix): (u64, Bytes) = next(&mut reader)?;
    let data_pool_id: i64 = optional(&mut reader)?.unwrap_or(-1);
    if features & !feature::ALL != 0 {
        return Err(ENOSYS.into());
    }
    let has_data_pool = features & feature::DATA_POOL != 0;
    let is_internal = features & feature::OPERATIONS != 0;
    if object_prefix.is_empty() || is_internal || has_data_pool != (data_pool_id != -1) {
        return Err(Errno::EINVAL.into());
    }
    if view.omap_get(b"object_prefix")?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    let now = view.context().now.to_bytes(Features::PACIFIC);
    let mut entries = BTreeMap::from([
        (Bytes::from_static(b"size"), size.to_bytes(Features::PACIFIC)),
        (Bytes::from_static(b"order"), order.to_bytes(Features::PACIFIC)),
        (Bytes::from_static(b"features"), features.to_bytes(Features::PACIFIC)),
        (Bytes::from_static(b"object_prefix"), object_prefix.to_bytes(Features::PACIFIC)),
        (Bytes::from_static(b"snap_seq"), 0u64.to_bytes(Features::PACIFIC)),
        (Bytes::from_static(b"create_timestamp"), now.clone()),
        (Bytes::from_static(b"access_timestamp"), now.clone()),
        (Bytes::from_static(b"modify_timestamp"), now),
    ]);
    if has_data_pool {
        entries.insert(Bytes::from_static(b"data_pool_id"), data_pool_id.to_bytes(Features::PACIFIC));
    }
    view.omap_set(entries)?;
    Ok(Bytes::new())
}

pub(super) fn get_features(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let mut reader = Reader::new(bytes.clone());
    let _snap: u64 = next(&mut reader)?;
    let is_read_only = optional(&mut reader)?.unwrap_or(false);
    let features: u64 = read(view, b"features")?;
    let mask = if is_read_only { feature::INCOMPATIBLE } else { feature::RW_INCOMPATIBLE };
    output(&(features, features & mask))
}

pub(super) fn set_features(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (features, mask): (u64, u64) = input(bytes)?;
    let old = find::<u64>(view, b"features")?.unwrap_or(0);
    if mask & feature::INTERNAL != 0 {
        return Err(Errno::EINVAL.into());
    }
    // Newer clients may mask off features that this class does not know.
    let mask = mask & feature::ALL;
    let (enabled, disabled) = (features & mask, !features & mask);
    if enabled & !feature::MUTABLE != 0 || disabled & !(feature::MUTABLE | feature::DISABLE_ONLY) != 0 {
        return Err(Errno::EINVAL.into());
    }
    write(view, b"features", &((old & !mask) | enabled))?;
    Ok(Bytes::new())
}

pub(super) fn get_size(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let snap_id: SnapId = input(bytes)?;
    let order: u8 = read(view, b"order")?;
    let size: u64 = match snap_id {
        SnapId::HEAD => read(view, b"size")?,
        snap => read_snap(view, snap)?.image_size,
    };
    output(&(order, size))
}

pub(super) fn set_size(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let size: u64 = input(bytes)?;
    let old: u64 = read(view, b"size")?;
    write(view, b"size", &size)?;
    if size < old {
        parent::shrink_overlap(view, size)?;
    }
    Ok(Bytes::new())
}

pub(super) fn get_object_prefix(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    let prefix: Bytes = read(view, b"object_prefix")?;
    output(&prefix)
}

pub(super) fn get_data_pool(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    output(&find::<i64>(view, b"data_pool_id")?.unwrap_or(-1))
}

pub(super) fn get_all_features(_: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    output(&feature::ALL)
}

fn timestamp(view: &mut dyn ObjectView, key: &[u8]) -> Result<Bytes, Stop> {
    output(&find::<UTime>(view, key)?.unwrap_or_default())
}

pub(super) fn get_create_timestamp(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    timestamp(view, b"create_timestamp")
}

pub(super) fn get_access_timestamp(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    timestamp(view, b"access_timestamp")
}

pub(super) fn get_modify_timestamp(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    timestamp(view, b"modify_timestamp")
}

fn touch_timestamp(view: &mut dyn ObjectView, key: &[u8]) -> Result<Bytes, Stop> {
    check_exists(view)?;
    let now = view.context().now;
    write(view, key, &now)?;
    Ok(Bytes::new())
}

pub(super) fn set_access_timestamp(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    touch_timestamp(view, b"access_timestamp")
}

pub(super) fn set_modify_timestamp(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    touch_timestamp(view, b"modify_timestamp")
}

pub(super) fn get_flags(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let flags: u64 = match input(bytes)? {
        SnapId::HEAD => find(view, b"flags")?.unwrap_or(0),
        snap => read_snap(view, snap)?.flags,
    };
    output(&flags)
}

pub(super) fn set_flags(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let mut reader = Reader::new(bytes.clone());
    let (flags, mask): (u64, u64) = next(&mut reader)?;
    let merge = |old: u64| (old & !mask) | (flags & mask);
    match optional(&mut reader)?.unwrap_or(SnapId::HEAD) {
        SnapId::HEAD => {
            let old = find::<u64>(view, b"flags")?.unwrap_or(0);
            write(view, b"flags", &merge(old))?;
        }
        id => {
            let mut snap = read_snap(view, id)?;
            snap.flags = merge(snap.flags);
            write_snap(view, &snap)?;
        }
    }
    Ok(Bytes::new())
}

pub(super) fn op_features_get(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    output(&find::<u64>(view, b"op_features")?.unwrap_or(0))
}

pub(super) fn op_features_set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (op_features, mask): (u64, u64) = input(bytes)?;
    if mask & !op_feature::ALL != 0 {
        return Err(Errno::EINVAL.into());
    }
    set_op_features(view, op_features, mask)?;
    Ok(Bytes::new())
}

const METADATA: &[u8] = b"metadata_";

/// Entries that a list without a limit gives.
const METADATA_DEFAULT_COUNT: u64 = 64;

/// A metadata value, kept and returned as it is.
struct Raw(Bytes);

impl codec::Decode for Raw {
    fn decode(input: &mut Reader) -> Result<Self, codec::DecodeError> {
        Ok(Raw(input.take_rest()))
    }
}

pub(super) fn metadata_list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (after, count_max): (Bytes, u64) = input(bytes)?;
    check_exists(view)?;
    let count_max = if count_max == 0 { METADATA_DEFAULT_COUNT } else { count_max };
    let found: BTreeMap<Bytes, Raw> = list(view, METADATA, &after, count_max)?;
    let plain: BTreeMap<Bytes, Bytes> = found.into_iter().map(|(k, v)| (k, v.0)).collect();
    output(&plain)
}

pub(super) fn metadata_set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let entries: BTreeMap<Bytes, Bytes> = input(bytes)?;
    let prefixed = entries.into_iter().map(|(k, v)| (Bytes::from([METADATA, &k].concat()), v));
    view.omap_set(prefixed.collect())?;
    Ok(Bytes::new())
}

pub(super) fn metadata_remove(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let name: Bytes = input(bytes)?;
    remove(view, &[METADATA, &name].concat())?;
    Ok(Bytes::new())
}

pub(super) fn metadata_get(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let name: Bytes = input(bytes)?;
    let value = view.omap_get(&[METADATA, &name].concat())?.ok_or(Stop::Refused(Errno::ENOENT))?;
    output(&value)
}
