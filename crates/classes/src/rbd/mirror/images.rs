//! Mirrored images of a pool, by their local and by their global id.

use std::collections::BTreeMap;

use bytes::Bytes;
use types::Errno;

use super::{
    status::forget,
    types::{Image, image_state},
};
use crate::{
    ObjectView, Stop,
    keys::{check_exists, find, input, list, output, read, remove, write},
};

const PREFIX: &[u8] = b"image_";

fn key(id: &[u8]) -> Vec<u8> {
    [PREFIX, id].concat()
}

fn global_key(global_id: &[u8]) -> Vec<u8> {
    [b"global_", global_id].concat()
}

/// Up to `count_max` images by local id.
pub(super) fn images(
    view: &mut dyn ObjectView,
    after: &[u8],
    count_max: u64,
) -> Result<BTreeMap<Bytes, Image>, Stop> {
    list(view, PREFIX, after, count_max)
}

/// The image with that global id.
pub(super) fn find_global(view: &mut dyn ObjectView, global_id: &[u8]) -> Result<Option<Image>, Stop> {
    match find::<Bytes>(view, &global_key(global_id))? {
        Some(id) => find(view, &key(&id)),
        None => Ok(None),
    }
}

pub(in crate::rbd) fn mirror_image_list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (after, count_max): (Bytes, u64) = input(bytes)?;
    check_exists(view)?;
    let global_ids = images(view, &after, count_max)?.into_iter().map(|(id, image)| (id, image.global_id));
    output(&global_ids.collect::<BTreeMap<Bytes, Bytes>>())
}

pub(in crate::rbd) fn mirror_image_get_image_id(
    view: &mut dyn ObjectView,
    bytes: &Bytes,
) -> Result<Bytes, Stop> {
    let global_id: Bytes = input(bytes)?;
    output(&read::<Bytes>(view, &global_key(&global_id))?)
}

pub(in crate::rbd) fn mirror_image_get(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let id: Bytes = input(bytes)?;
    output(&read::<Image>(view, &key(&id))?)
}

pub(in crate::rbd) fn mirror_image_set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (id, image): (Bytes, Image) = input(bytes)?;
    match find::<Image>(view, &key(&id))? {
        Some(old) if old.global_id != image.global_id => return Err(Errno::EINVAL.into()),
        Some(_) => {}
        None if view.omap_get(&global_key(&image.global_id))?.is_some() => {
            return Err(Errno::EEXIST.into());
        }
        // Another client ended the image's mirroring meanwhile.
        None if image.state == image_state::DISABLING => return Err(Errno::ENOENT.into()),
        None => {}
    }
    write(view, &key(&id), &image)?;
    write(view, &global_key(&image.global_id), &id)?;
    Ok(Bytes::new())
}

pub(in crate::rbd) fn mirror_image_remove(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let id: Bytes = input(bytes)?;
    let image: Image = read(view, &key(&id))?;
    if image.state != image_state::DISABLING {
        return Err(Errno::EBUSY.into());
    }
    remove(view, &key(&id))?;
    remove(view, &global_key(&image.global_id))?;
    forget(view, &image.global_id)?;
    Ok(Bytes::new())
}
