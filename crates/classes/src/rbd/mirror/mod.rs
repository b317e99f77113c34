//! `rbd_mirroring`: a pool's mirroring mode, its peers, its mirrored images and their states.
//! `rbd_mirror_leader`: which instance of the daemon `rbd-mirror` replays which image.

pub(super) mod images;
pub(super) mod instances;
pub(super) mod peers;
pub(super) mod snapshots;
pub(super) mod status;
#[cfg(test)]
mod tests;
mod types;

use bytes::Bytes;
use types::mode;

use ::types::Errno;

use crate::{
    ObjectView, Stop,
    keys::{find, input, output, read, remove, write, write_raw},
};

const UUID: &[u8] = b"mirror_uuid";
const MODE: &[u8] = b"mirror_mode";
/// The namespace of the other cluster's pool that this one is mirrored with.
const REMOTE_NAMESPACE: &[u8] = b"remote_namespace";

pub(super) fn mirror_uuid_get(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    let uuid = view.omap_get(UUID)?.ok_or(Stop::Refused(Errno::ENOENT))?;
    output(&uuid)
}

/// EINVAL unless the pool mirrors.
fn check_enabled(view: &mut dyn ObjectView) -> Result<(), Stop> {
    match find::<u32>(view, MODE)? {
        None | Some(mode::DISABLED) => Err(Errno::EINVAL.into()),
        Some(_) => Ok(()),
    }
}

pub(super) fn mirror_uuid_set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let uuid: Bytes = input(bytes)?;
    if uuid.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    match find::<u32>(view, MODE)? {
        None | Some(mode::DISABLED) => {}
        Some(_) => return Err(Errno::EINVAL.into()),
    }
    write_raw(view, UUID, uuid)?;
    Ok(Bytes::new())
}

pub(super) fn mirror_mode_get(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    let mode: u32 = read(view, MODE)?;
    output(&mode)
}

pub(super) fn mirror_mode_set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let mode: u32 = input(bytes)?;
    match mode {
        mode::IMAGE | mode::POOL | mode::INIT_ONLY => {
            view.omap_get(UUID)?.ok_or(Stop::Refused(Errno::EINVAL))?;
            write(view, MODE, &mode)?;
        }
        mode::DISABLED => {
            if !peers::all(view)?.is_empty() {
                return Err(Errno::EBUSY.into());
            }
            if view.stat()?.is_some() {
                remove(view, MODE)?;
                remove(view, UUID)?;
                remove(view, REMOTE_NAMESPACE)?;
            }
        }
        _ => return Err(Errno::EINVAL.into()),
    }
    Ok(Bytes::new())
}

pub(super) fn mirror_remote_namespace_get(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    let namespace: Bytes = read(view, REMOTE_NAMESPACE)?;
    output(&namespace)
}

pub(super) fn mirror_remote_namespace_set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let namespace: Bytes = input(bytes)?;
    if !matches!(find(view, MODE)?, None | Some(mode::DISABLED | mode::INIT_ONLY)) {
        return Err(Errno::EINVAL.into());
    }
    write(view, REMOTE_NAMESPACE, &namespace)?;
    Ok(Bytes::new())
}
