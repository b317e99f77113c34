//! Clients of a journal: how far each has come.

use bytes::Bytes;
use codec::{Decode, Reader};
use types::Errno;

use super::{
    ORDER, SPLAY_WIDTH, client_key, read, read_client,
    tags::expire_tags,
    types::{Client, DISCONNECTED, ObjectSetPosition},
};
use crate::{
    ObjectView, Stop,
    keys::{Reach, check_exists, input, next, output, remove, walk_from, write},
};

const PREFIX: &[u8] = b"client_";

/// Up to `count_max` clients after `after`, in the order of their ids.
pub(super) fn clients(view: &mut dyn ObjectView, after: &[u8], count_max: u64) -> Result<Vec<Client>, Stop> {
    let mut out = Vec::new();
    if count_max > 0 {
        // A client without a name (librbd's own) has the bare prefix for a key: only a named start excludes it.
        let from = if after.is_empty() { Vec::new() } else { client_key(after) };
        walk_from(view, PREFIX, from, Reach::First(count_max), |_, value| {
            out.push(Client::from_prefix(value).map_err(|_| Stop::Refused(Errno::EIO))?);
            Ok((out.len() as u64) < count_max)
        })?;
    }
    Ok(out)
}

/// Where the slowest connected client is: a new one begins there.
fn least_position(view: &mut dyn ObjectView) -> Result<ObjectSetPosition, Stop> {
    let mut least: Option<(u64, u64, ObjectSetPosition)> = None;
    for client in clients(view, b"", u64::MAX)? {
        if client.state == DISCONNECTED {
            continue;
        }
        let Some(first) = client.commit_position.object_positions.first() else {
            return Ok(ObjectSetPosition::default());
        };
        let at = (first.tag_tid, first.entry_tid);
        if least.as_ref().is_none_or(|(tag, entry, _)| at < (*tag, *entry)) {
            least = Some((at.0, at.1, client.commit_position));
        }
    }
    Ok(least.map(|(_, _, position)| position).unwrap_or_default())
}

pub(super) fn get_client(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let id: Bytes = input(bytes)?;
    output(&read_client(view, &id)?)
}

pub(super) fn client_register(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (id, data): (Bytes, Bytes) = input(bytes)?;
    read::<u8>(view, ORDER)?;
    if view.omap_get(&client_key(&id))?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    let commit_position = least_position(view)?;
    let key = client_key(&id);
    write(view, &key, &Client { id, data, commit_position, state: 0 })?;
    Ok(Bytes::new())
}

pub(super) fn client_update_data(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (id, data): (Bytes, Bytes) = input(bytes)?;
    let client = Client { data, ..read_client(view, &id)? };
    write(view, &client_key(&id), &client)?;
    Ok(Bytes::new())
}

pub(super) fn client_update_state(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (id, state): (Bytes, u8) = input(bytes)?;
    let client = Client { state, ..read_client(view, &id)? };
    write(view, &client_key(&id), &client)?;
    Ok(Bytes::new())
}

pub(super) fn client_unregister(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let id: Bytes = input(bytes)?;
    // What it was does not matter any more.
    view.omap_get(&client_key(&id))?.ok_or(Errno::ENOENT)?;
    remove(view, &client_key(&id))?;
    expire_tags(view)?;
    Ok(Bytes::new())
}

pub(super) fn client_commit(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let mut reader = Reader::new(bytes.clone());
    let id: Bytes = next(&mut reader)?;
    let commit_position: ObjectSetPosition = next(&mut reader)?;
    let splay_width: u8 = read(view, SPLAY_WIDTH)?;
    if commit_position.object_positions.len() > usize::from(splay_width) {
        return Err(Errno::EINVAL.into());
    }
    let client = read_client(view, &id)?;
    if client.commit_position != commit_position {
        write(view, &client_key(&id), &Client { commit_position, ..client })?;
    }
    Ok(Bytes::new())
}

pub(super) fn client_list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (after, count_max): (Bytes, u64) = input(bytes)?;
    check_exists(view)?;
    output(&clients(view, &after, count_max)?)
}
