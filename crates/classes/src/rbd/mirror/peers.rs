//! Peers of a mirrored pool.

use bytes::Bytes;
use codec::Decode;
use types::Errno;

use super::{
    UUID, check_enabled,
    types::{Peer, direction},
};
use crate::{
    ObjectView, Stop,
    keys::{Reach, check_exists, input, output, read, remove_if_any, walk, write},
    rbd::snapshot::random_uuid,
};

const PREFIX: &[u8] = b"mirror_peer_";

fn key(uuid: &[u8]) -> Vec<u8> {
    [PREFIX, uuid].concat()
}

/// All peers, by uuid.
pub(super) fn all(view: &mut dyn ObjectView) -> Result<Vec<Peer>, Stop> {
    let mut peers = Vec::new();
    walk(view, PREFIX, b"", Reach::All, |_, value| {
        peers.push(Peer::from_prefix(value).map_err(|_| Stop::Refused(Errno::EIO))?);
        Ok(true)
    })?;
    Ok(peers)
}

fn keep(view: &mut dyn ObjectView, peer: &Peer) -> Result<Bytes, Stop> {
    write(view, &key(&peer.uuid), peer)?;
    Ok(Bytes::new())
}

pub(in crate::rbd) fn mirror_peer_list(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    check_exists(view)?;
    output(&all(view)?)
}

pub(in crate::rbd) fn mirror_peer_add(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let peer: Peer = input(bytes)?;
    check_enabled(view)?;
    if !peer.is_valid() {
        return Err(Errno::EINVAL.into());
    }
    let own_uuid = view.omap_get(UUID)?.ok_or(Stop::Refused(Errno::ENOENT))?;
    if peer.uuid == own_uuid || peer.direction == direction::TX {
        return Err(Errno::EINVAL.into());
    }
    for other in all(view)? {
        let is_same_pool = !peer.mirror_uuid.is_empty() && other.mirror_uuid == peer.mirror_uuid;
        if other.uuid == peer.uuid {
            return Err(Errno::ESTALE.into());
        }
        if other.site_name == peer.site_name || is_same_pool {
            return Err(Errno::EEXIST.into());
        }
    }
    keep(view, &peer)
}

pub(in crate::rbd) fn mirror_peer_remove(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let uuid: Bytes = input(bytes)?;
    remove_if_any(view, &key(&uuid))?;
    Ok(Bytes::new())
}

/// A peer's daemon was here: which of the peers that is, or a new one that only it sends to.
pub(in crate::rbd) fn mirror_peer_ping(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (site_name, mirror_uuid, way): (Bytes, Bytes, u8) = input(bytes)?;
    if way != direction::TX {
        return Err(Errno::EINVAL.into());
    }
    check_enabled(view)?;
    if site_name.is_empty() || mirror_uuid.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let peers = all(view)?;
    let by_name = peers.iter().find(|p| p.site_name == site_name);
    let is_sure = by_name.is_some_and(|p| p.mirror_uuid.is_empty() || p.mirror_uuid == mirror_uuid);
    let by_uuid = if is_sure { None } else { peers.iter().find(|p| p.mirror_uuid == mirror_uuid) };
    let mut peer = match (by_name, by_uuid) {
        (Some(_), Some(peer)) => peer.clone(),
        (None, Some(peer)) => Peer { site_name, ..peer.clone() },
        (Some(peer), None) => Peer { mirror_uuid, ..peer.clone() },
        (None, None) => {
            let uuid = random_uuid(view.context().random_seed, 0);
            let way = direction::TX;
            Peer { uuid, site_name, mirror_uuid, direction: way, pool_id: -1, ..Peer::default() }
        }
    };
    if peer.direction == direction::RX {
        peer.direction = direction::RX_TX;
    }
    peer.last_seen = view.context().now;
    if !peer.is_valid() {
        return Err(Errno::EINVAL.into());
    }
    keep(view, &peer)
}

pub(in crate::rbd) fn mirror_peer_set_client(
    view: &mut dyn ObjectView,
    bytes: &Bytes,
) -> Result<Bytes, Stop> {
    let (uuid, client_name): (Bytes, Bytes) = input(bytes)?;
    let peer = Peer { client_name, ..read(view, &key(&uuid))? };
    keep(view, &peer)
}

pub(in crate::rbd) fn mirror_peer_set_cluster(
    view: &mut dyn ObjectView,
    bytes: &Bytes,
) -> Result<Bytes, Stop> {
    let (uuid, site_name): (Bytes, Bytes) = input(bytes)?;
    if all(view)?.iter().any(|p| p.uuid != uuid && p.site_name == site_name) {
        return Err(Errno::EEXIST.into());
    }
    let peer = Peer { site_name, ..read(view, &key(&uuid))? };
    keep(view, &peer)
}

pub(in crate::rbd) fn mirror_peer_set_direction(
    view: &mut dyn ObjectView,
    bytes: &Bytes,
) -> Result<Bytes, Stop> {
    let (uuid, direction): (Bytes, u8) = input(bytes)?;
    let peer = Peer { direction, ..read(view, &key(&uuid))? };
    keep(view, &peer)
}
