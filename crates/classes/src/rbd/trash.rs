//! `rbd_trash`: images that wait for their removal.

use std::collections::BTreeMap;

use bytes::Bytes;
use types::Errno;

use super::{directory::is_valid_id, types::TrashImageSpec};
use crate::{
    ObjectView, Stop,
    keys::{check_exists, find, input, list, output, read, remove, write},
};

const ID: &[u8] = b"id_";

fn key(id: &[u8]) -> Vec<u8> {
    [ID, id].concat()
}

pub(super) fn trash_add(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (id, spec): (Bytes, TrashImageSpec) = input(bytes)?;
    if !is_valid_id(&id) {
        return Err(Errno::EINVAL.into());
    }
    view.create(false)?;
    if find::<TrashImageSpec>(view, &key(&id))?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    write(view, &key(&id), &spec)?;
    Ok(Bytes::new())
}

pub(super) fn trash_remove(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let id: Bytes = input(bytes)?;
    view.omap_get(&key(&id))?.ok_or(Errno::ENOENT)?;
    remove(view, &key(&id))?;
    Ok(Bytes::new())
}

pub(super) fn trash_list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (after, count_max): (Bytes, u64) = input(bytes)?;
    check_exists(view)?;
    let found: BTreeMap<Bytes, TrashImageSpec> = list(view, ID, &after, count_max)?;
    output(&found)
}

pub(super) fn trash_get(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let id: Bytes = input(bytes)?;
    view.omap_get(&key(&id))?.ok_or(Errno::ENOENT.into())
}

pub(super) fn trash_state_set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (id, state, expected): (Bytes, u8, u8) = input(bytes)?;
    let mut spec: TrashImageSpec = read(view, &key(&id))?;
    if spec.state == expected {
        spec.state = state;
        write(view, &key(&id), &spec)?;
    } else if spec.state != state {
        return Err(Errno::ESTALE.into());
    }
    Ok(Bytes::new())
}
