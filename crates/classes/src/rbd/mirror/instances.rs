//! `rbd_mirror_leader`: instances of the daemon, and which images they replay.

use std::collections::BTreeMap;

use bytes::Bytes;
use types::Errno;

use super::types::ImageMap;
use crate::{
    ObjectView, Stop,
    keys::{Reach, check_exists, input, list, output, remove, remove_if_any, walk, write, write_raw},
};

const INSTANCE: &[u8] = b"instance_";
const IMAGE_MAP: &[u8] = b"image_map_";

fn key(prefix: &[u8], id: &[u8]) -> Vec<u8> {
    [prefix, id].concat()
}

pub(in crate::rbd) fn mirror_instances_list(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    check_exists(view)?;
    let mut ids: Vec<Bytes> = Vec::new();
    walk(view, INSTANCE, b"", Reach::All, |id, _| {
        ids.push(Bytes::copy_from_slice(id));
        Ok(true)
    })?;
    output(&ids)
}

pub(in crate::rbd) fn mirror_instances_add(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let id: Bytes = input(bytes)?;
    write_raw(view, &key(INSTANCE, &id), Bytes::new())?;
    Ok(Bytes::new())
}

pub(in crate::rbd) fn mirror_instances_remove(
    view: &mut dyn ObjectView,
    bytes: &Bytes,
) -> Result<Bytes, Stop> {
    let id: Bytes = input(bytes)?;
    remove(view, &key(INSTANCE, &id))?;
    Ok(Bytes::new())
}

pub(in crate::rbd) fn mirror_image_map_list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (after, count_max): (Bytes, u64) = input(bytes)?;
    check_exists(view)?;
    let map: Result<BTreeMap<Bytes, ImageMap>, Stop> = list(view, IMAGE_MAP, &after, count_max);
    output(&map.map_err(|stop| match stop {
        Stop::Refused(_) | Stop::Explained(..) => Errno::EINVAL.into(),
        Stop::Missing => Stop::Missing,
    })?)
}

pub(in crate::rbd) fn mirror_image_map_update(
    view: &mut dyn ObjectView,
    bytes: &Bytes,
) -> Result<Bytes, Stop> {
    let (global_id, map): (Bytes, ImageMap) = input(bytes)?;
    write(view, &key(IMAGE_MAP, &global_id), &map)?;
    Ok(Bytes::new())
}

pub(in crate::rbd) fn mirror_image_map_remove(
    view: &mut dyn ObjectView,
    bytes: &Bytes,
) -> Result<Bytes, Stop> {
    let global_id: Bytes = input(bytes)?;
    remove_if_any(view, &key(IMAGE_MAP, &global_id))?;
    Ok(Bytes::new())
}
