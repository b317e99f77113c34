//! What the sites say of the mirrored images. A status is up while its reporter watches the object.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use codec::{Decode, Encode, Features, Reader};
use types::{AddrType, EntityAddr, Errno};

use super::{
    images::{find_global, images},
    types::{Image, Instance, KeptStatus, Peer, SiteStatus, Status, direction, image_state, status_state},
};
use crate::{
    ObjectView, Stop,
    keys::{
        Reach, SHORT_LIST, check_exists, find, input, next, optional, output, read, remove, remove_if_any,
        walk, write,
    },
};

const LOCAL: &[u8] = b"status_global_";
const REMOTE: &[u8] = b"remote_status_global_";

fn key(global_id: &[u8], mirror_uuid: &[u8]) -> Vec<u8> {
    if mirror_uuid.is_empty() {
        [LOCAL, global_id].concat()
    } else {
        [&remote_prefix(global_id), mirror_uuid].concat()
    }
}

fn remote_prefix(global_id: &[u8]) -> Vec<u8> {
    [REMOTE, global_id, b"_"].concat()
}

/// The address without its protocol: a client may reach different OSDs by different ones.
fn sanitized(addr: EntityAddr) -> EntityAddr {
    EntityAddr { kind: AddrType::ANY, ..addr }
}

fn watchers(view: &mut dyn ObjectView) -> BTreeSet<Instance> {
    view.watchers().into_iter().map(|(name, addr)| (name, sanitized(addr))).collect()
}

fn site_status(kept: KeptStatus, mirror_uuid: &[u8], watchers: &BTreeSet<Instance>) -> SiteStatus {
    SiteStatus {
        mirror_uuid: Bytes::copy_from_slice(mirror_uuid),
        state: kept.state,
        description: kept.description,
        last_update: kept.last_update,
        is_up: watchers.contains(&(kept.origin, kept.addr)),
    }
}

/// All sites' statuses of an image; `None` without any. `reach` is that of other sites' ones.
fn status_of(
    view: &mut dyn ObjectView,
    global_id: &[u8],
    watchers: &BTreeSet<Instance>,
    reach: Reach,
) -> Result<Option<Status>, Stop> {
    let local = find::<KeptStatus>(view, &key(global_id, b""))?.map(|kept| site_status(kept, b"", watchers));
    let mut remotes = Vec::new();
    walk(view, &remote_prefix(global_id), b"", reach, |uuid, value| {
        let kept = KeptStatus::from_prefix(value).map_err(|_| Stop::Refused(Errno::EIO))?;
        remotes.push(site_status(kept, uuid, watchers));
        Ok(true)
    })?;
    let is_there = local.is_some() || !remotes.is_empty();
    Ok(is_there.then_some(Status { local, remotes }))
}

/// Has all statuses brought: those of some images may be anywhere among them.
fn bring(view: &mut dyn ObjectView) -> Result<(), Stop> {
    view.omap_bring(b"", LOCAL, u64::MAX)?;
    view.omap_bring(b"", REMOTE, u64::MAX)
}

/// Removes all sites' statuses of an image, if there are any.
pub(super) fn forget(view: &mut dyn ObjectView, global_id: &[u8]) -> Result<(), Stop> {
    let mut keys = vec![key(global_id, b"")];
    walk(view, &remote_prefix(global_id), b"", Reach::All, |uuid, _| {
        keys.push([remote_prefix(global_id), uuid.to_vec()].concat());
        Ok(true)
    })?;
    keys.iter().try_for_each(|key| remove_if_any(view, key))
}

/// Statuses of images that are not mirrored (any more) are dropped in silence.
pub(in crate::rbd) fn mirror_image_status_set(
    view: &mut dyn ObjectView,
    bytes: &Bytes,
) -> Result<Bytes, Stop> {
    let (global_id, status): (Bytes, SiteStatus) = input(bytes)?;
    let image = find_global(view, &global_id)?;
    if image.is_none_or(|image| image.state != image_state::ENABLED) {
        return Ok(Bytes::new());
    }
    let call = view.context();
    let kept = KeptStatus {
        origin: call.origin,
        addr: sanitized(call.origin_addr),
        state: status.state,
        description: status.description,
        last_update: call.now,
    };
    write(view, &key(&global_id, &status.mirror_uuid), &kept)?;
    Ok(Bytes::new())
}

pub(in crate::rbd) fn mirror_image_status_remove(
    view: &mut dyn ObjectView,
    bytes: &Bytes,
) -> Result<Bytes, Stop> {
    let global_id: Bytes = input(bytes)?;
    forget(view, &global_id)?;
    Ok(Bytes::new())
}

pub(in crate::rbd) fn mirror_image_status_get(
    view: &mut dyn ObjectView,
    bytes: &Bytes,
) -> Result<Bytes, Stop> {
    let global_id: Bytes = input(bytes)?;
    let watchers = watchers(view);
    output(&status_of(view, &global_id, &watchers, Reach::All)?.ok_or(Stop::Refused(Errno::ENOENT))?)
}

pub(in crate::rbd) fn mirror_image_status_list(
    view: &mut dyn ObjectView,
    bytes: &Bytes,
) -> Result<Bytes, Stop> {
    let (after, count_max): (Bytes, u64) = input(bytes)?;
    check_exists(view)?;
    let watchers = watchers(view);
    // Those of a short list are brought one by one, and the method runs again for each: they may be few of very many.
    let reach = if count_max > SHORT_LIST { Reach::Brought } else { Reach::All };
    if reach == Reach::Brought {
        bring(view)?;
    }
    let images = images(view, &after, count_max)?;
    let mut statuses: BTreeMap<Bytes, Status> = BTreeMap::new();
    for (id, image) in &images {
        match status_of(view, &image.global_id, &watchers, reach) {
            Ok(Some(status)) => {
                statuses.insert(id.clone(), status);
            }
            // One that does not decode is left out.
            Ok(None) | Err(Stop::Refused(_) | Stop::Explained(..)) => {}
            Err(Stop::Missing) => return Err(Stop::Missing),
        }
    }
    let mut out = images.to_bytes(Features::PACIFIC).to_vec();
    statuses.encode(&mut out, Features::PACIFIC);
    Ok(Bytes::from(out))
}

/// One word for an image: the worst of what the sites that matter say.
fn summary_of(status: &Status, way: u8, peers: &BTreeSet<Bytes>) -> u8 {
    let local = status.local.as_ref().filter(|local| local.is_up).map(|local| local.state);
    if way == direction::RX {
        return local.unwrap_or(status_state::UNKNOWN);
    }
    let mut state = local.filter(|_| way == direction::RX_TX);
    let mut silent_count = peers.len();
    for remote in &status.remotes {
        if peers.contains(&remote.mirror_uuid) {
            silent_count = silent_count.saturating_sub(1);
        }
        let said = if remote.is_up { remote.state } else { status_state::UNKNOWN };
        state = match state {
            _ if remote.state == status_state::ERROR => Some(status_state::ERROR),
            Some(status_state::ERROR) => state,
            Some(other) => Some(other.min(said)),
            None => Some(said),
        };
    }
    if silent_count > 0 { status_state::UNKNOWN } else { state.unwrap_or(status_state::UNKNOWN) }
}

pub(in crate::rbd) fn mirror_image_status_get_summary(
    view: &mut dyn ObjectView,
    bytes: &Bytes,
) -> Result<Bytes, Stop> {
    let mut reader = Reader::new(bytes.clone());
    let peers: Vec<Peer> = optional(&mut reader)?.unwrap_or_default();
    check_exists(view)?;
    let mut way = peers.first().map_or(direction::RX, |peer| peer.direction);
    let senders = || peers.iter().filter(|peer| peer.direction != direction::RX);
    if senders().any(|peer| peer.direction != way) {
        way = direction::RX_TX;
    }
    let uuids = senders().map(|peer| peer.mirror_uuid.clone()).collect();
    let watchers = watchers(view);
    let mut counts: BTreeMap<u8, i32> = BTreeMap::new();
    bring(view)?;
    let images = images(view, b"", u64::MAX)?;
    for image in images.values() {
        let status = status_of(view, &image.global_id, &watchers, Reach::Brought)?.unwrap_or_default();
        *counts.entry(summary_of(&status, way, &uuids)).or_default() += 1;
    }
    output(&counts)
}

/// Removes the statuses whose reporters do not watch the object any more.
pub(in crate::rbd) fn mirror_image_status_remove_down(
    view: &mut dyn ObjectView,
    _: &Bytes,
) -> Result<Bytes, Stop> {
    let watchers = watchers(view);
    let mut down = Vec::new();
    bring(view)?;
    for prefix in [LOCAL, REMOTE] {
        walk(view, prefix, b"", Reach::Brought, |rest, value| {
            let kept = KeptStatus::from_prefix(value).map_err(|_| Stop::Refused(Errno::EIO))?;
            if !watchers.contains(&(kept.origin, kept.addr)) {
                down.push([prefix, rest].concat());
            }
            Ok(true)
        })?;
    }
    down.iter().try_for_each(|key| remove(view, key))?;
    Ok(Bytes::new())
}

/// The instance that replays the image here; `None` if it does not watch the object any more.
fn instance_of(
    view: &mut dyn ObjectView,
    image: &[u8],
    watchers: &BTreeSet<Instance>,
) -> Result<Option<Instance>, Stop> {
    let kept: KeptStatus = read(view, &key(image, b""))?;
    let instance = (kept.origin, kept.addr);
    Ok(watchers.contains(&instance).then_some(instance))
}

pub(in crate::rbd) fn mirror_image_instance_get(
    view: &mut dyn ObjectView,
    bytes: &Bytes,
) -> Result<Bytes, Stop> {
    let global_id: Bytes = input(bytes)?;
    let watchers = watchers(view);
    output(&instance_of(view, &global_id, &watchers)?.ok_or(Stop::Refused(Errno::ESTALE))?)
}

pub(in crate::rbd) fn mirror_image_instance_list(
    view: &mut dyn ObjectView,
    bytes: &Bytes,
) -> Result<Bytes, Stop> {
    let mut reader = Reader::new(bytes.clone());
    let (after, count_max): (Bytes, u64) = next(&mut reader)?;
    check_exists(view)?;
    let watchers = watchers(view);
    let mut instances: BTreeMap<Bytes, Instance> = BTreeMap::new();
    view.omap_bring(b"", LOCAL, u64::MAX)?;
    let images: BTreeMap<Bytes, Image> = images(view, &after, u64::MAX)?;
    for (id, image) in images {
        if instances.len() as u64 >= count_max {
            break;
        }
        match instance_of(view, &image.global_id, &watchers) {
            Ok(Some(instance)) => {
                instances.insert(id, instance);
            }
            Ok(None) | Err(Stop::Refused(_) | Stop::Explained(..)) => {}
            Err(Stop::Missing) => return Err(Stop::Missing),
        }
    }
    output(&instances)
}
