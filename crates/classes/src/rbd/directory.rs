//! `rbd_id.<name>`, `rbd_directory` and `rbd_namespace`: names to ids and back.

use std::collections::BTreeMap;

use bytes::Bytes;
use types::Errno;

use crate::{
    ObjectView, Stop,
    keys::{check_exists, find, input, list, output, read, remove, write, write_raw},
};

const NAME: &[u8] = b"name_";
const ID: &[u8] = b"id_";

pub(super) fn is_valid_id(id: &[u8]) -> bool {
    !id.is_empty() && id.iter().all(u8::is_ascii_alphanumeric)
}

pub(super) fn get_id(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    let size = view.stat()?.ok_or(Stop::Refused(Errno::ENOENT))?.size;
    if size == 0 {
        return Err(Errno::ENOENT.into());
    }
    let stored = view.read(0, size)?;
    let id = <Bytes as codec::Decode>::from_prefix(stored).map_err(|_| Stop::Refused(Errno::EIO))?;
    output(&id)
}

pub(super) fn set_id(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let size = view.stat()?.ok_or(Stop::Refused(Errno::ENOENT))?.size;
    let id: Bytes = input(bytes)?;
    if !is_valid_id(&id) {
        return Err(Errno::EINVAL.into());
    }
    if size != 0 {
        return Err(Errno::EEXIST.into());
    }
    view.write(0, output(&id)?)?;
    Ok(Bytes::new())
}

fn key(prefix: &[u8], name: &[u8]) -> Vec<u8> {
    [prefix, name].concat()
}

/// EEXIST for a name that is there, EINVAL for a name or an id that cannot be.
fn check_new(view: &mut dyn ObjectView, name: &Bytes, id: &Bytes) -> Result<(), Stop> {
    if name.is_empty() || !is_valid_id(id) {
        return Err(Errno::EINVAL.into());
    }
    match view.omap_get(&key(NAME, name))? {
        Some(_) => Err(Errno::EEXIST.into()),
        None => Ok(()),
    }
}

/// ESTALE when name and id do not belong together.
fn check_entry(view: &mut dyn ObjectView, name: &Bytes, id: &Bytes) -> Result<(), Stop> {
    let stored_id: Bytes = read(view, &key(NAME, name))?;
    let stored_name: Bytes = read(view, &key(ID, id))?;
    if stored_id != id || stored_name != name {
        return Err(Errno::ESTALE.into());
    }
    Ok(())
}

fn put_entry(view: &mut dyn ObjectView, name: &Bytes, id: &Bytes) -> Result<(), Stop> {
    write(view, &key(NAME, name), id)?;
    write(view, &key(ID, id), name)
}

/// Names after `after` with their ids.
pub(super) fn list_names(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (after, count_max): (Bytes, u64) = input(bytes)?;
    check_exists(view)?;
    let found: BTreeMap<Bytes, Bytes> = list(view, NAME, &after, count_max)?;
    output(&found)
}

pub(super) fn dir_add_image(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (name, id): (Bytes, Bytes) = input(bytes)?;
    view.create(false)?;
    check_new(view, &name, &id)?;
    if view.omap_get(&key(ID, &id))?.is_some() {
        return Err(Errno::EBADF.into());
    }
    put_entry(view, &name, &id)?;
    Ok(Bytes::new())
}

pub(super) fn dir_remove_image(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (name, id): (Bytes, Bytes) = input(bytes)?;
    check_entry(view, &name, &id)?;
    remove(view, &key(NAME, &name))?;
    remove(view, &key(ID, &id))?;
    Ok(Bytes::new())
}

pub(super) fn dir_rename_image(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (from, to, id): (Bytes, Bytes, Bytes) = input(bytes)?;
    check_entry(view, &from, &id)?;
    check_new(view, &to, &id)?;
    remove(view, &key(NAME, &from))?;
    put_entry(view, &to, &id)?;
    Ok(Bytes::new())
}

pub(super) fn dir_get_id(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let name: Bytes = input(bytes)?;
    let id: Bytes = read(view, &key(NAME, &name))?;
    output(&id)
}

pub(super) fn dir_get_name(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let id: Bytes = input(bytes)?;
    let name: Bytes = read(view, &key(ID, &id))?;
    output(&name)
}

pub(super) fn dir_list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    list_names(view, bytes)
}

/// `DirectoryState`.
const STATE_READY: u8 = 0;
const STATE_ADD_DISABLED: u8 = 1;

pub(super) fn dir_state_assert(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let state: u8 = input(bytes)?;
    if read::<u8>(view, b"state")? == state { Ok(Bytes::new()) } else { Err(Errno::ENOENT.into()) }
}

pub(super) fn dir_state_set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let state: u8 = input(bytes)?;
    match state {
        STATE_READY => {}
        STATE_ADD_DISABLED => {
            check_exists(view)?;
            let (entries, _) = view.omap_list(NAME, NAME, 1)?;
            if !entries.is_empty() {
                return Err(Errno::EBUSY.into());
            }
        }
        _ => return Err(Errno::EINVAL.into()),
    }
    write(view, b"state", &state)?;
    Ok(Bytes::new())
}

pub(super) fn namespace_add(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let name: Bytes = input(bytes)?;
    if find::<Nothing>(view, &key(NAME, &name))?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    write_raw(view, &key(NAME, &name), Bytes::new())?;
    Ok(Bytes::new())
}

pub(super) fn namespace_remove(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let name: Bytes = input(bytes)?;
    read::<Nothing>(view, &key(NAME, &name))?;
    remove(view, &key(NAME, &name))?;
    Ok(Bytes::new())
}

pub(super) fn namespace_list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (after, count_max): (Bytes, u64) = input(bytes)?;
    check_exists(view)?;
    let found: BTreeMap<Bytes, Nothing> = list(view, NAME, &after, count_max)?;
    output(&found.into_keys().collect::<Vec<_>>())
}

/// An entry whose key says it all.
struct Nothing;

impl codec::Decode for Nothing {
    fn decode(_: &mut codec::Reader) -> Result<Self, codec::DecodeError> {
        Ok(Nothing)
    }
}
