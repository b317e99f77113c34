//! `rbd_mirroring`: what is read of it by clients that do not mirror.

use std::collections::BTreeMap;

use bytes::Bytes;
use types::Errno;

use crate::{
    ObjectView, Stop,
    keys::{check_exists, input, output, read, remove, walk},
};

pub(super) fn mirror_uuid_get(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    let uuid = view.omap_get(b"mirror_uuid")?.ok_or(Stop::Refused(Errno::ENOENT))?;
    output(&uuid)
}

pub(super) fn mirror_mode_get(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    let mode: u32 = read(view, b"mirror_mode")?;
    output(&mode)
}

/// Peers are encoded structs; the list is their count and they themselves.
pub(super) fn mirror_peer_list(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    check_exists(view)?;
    let mut peers = BTreeMap::new();
    walk(view, b"mirror_peer_", b"", |uuid, peer| {
        peers.insert(uuid.to_vec(), peer);
        Ok(true)
    })?;
    let mut out = (peers.len() as u32).to_le_bytes().to_vec();
    peers.values().for_each(|peer| out.extend_from_slice(peer));
    Ok(Bytes::from(out))
}

fn image_key(bytes: &Bytes) -> Result<Vec<u8>, Stop> {
    let id: Bytes = input(bytes)?;
    Ok([b"image_", id.as_ref()].concat())
}

pub(super) fn mirror_image_get(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let key = image_key(bytes)?;
    view.omap_get(&key)?.ok_or(Errno::ENOENT.into())
}

pub(super) fn mirror_image_remove(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let key = image_key(bytes)?;
    if view.omap_get(&key)?.is_none() {
        return Err(Errno::ENOENT.into());
    }
    remove(view, &key)?;
    Ok(Bytes::new())
}
