//! Tags of a journal: they say which client wrote which entries. Tags that no client needs any more are removed.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Decode, Reader};
use types::Errno;

use super::{
    NEXT_TAG_CLASS, NEXT_TAG_TID, clients, read, read_client,
    types::{DISCONNECTED, TAG_CLASS_NEW, Tag},
};
use crate::{
    ObjectView, Stop,
    keys::{Reach, input, next, output, remove, walk, write},
};

const PREFIX: &[u8] = b"tag_";

fn key(tid: u64) -> Vec<u8> {
    format!("tag_{tid:016x}").into_bytes()
}

/// Has all tags brought: before anything is looked at, as methods walk through them more than once.
fn bring_tags(view: &mut dyn ObjectView) -> Result<(), Stop> {
    view.omap_bring(PREFIX, PREFIX, u64::MAX)
}

/// Calls `each` with the tags, which are brought, in order until it says false. With each comes what its key has behind
/// the prefix.
fn walk_tags(
    view: &mut dyn ObjectView,
    mut each: impl FnMut(&[u8], Tag) -> Result<bool, Stop>,
) -> Result<(), Stop> {
    walk(view, PREFIX, b"", Reach::Brought, |suffix, value| {
        each(suffix, Tag::from_prefix(value).map_err(|_| Stop::Refused(Errno::EIO))?)
    })
}

/// The tag of each class that is in use at `oldest`: the last one up to it. Where keys are checked, a tag under the key
/// of another is EINVAL.
fn in_use_at(view: &mut dyn ObjectView, oldest: u64, checks_keys: bool) -> Result<BTreeMap<u64, u64>, Stop> {
    let mut in_use = BTreeMap::new();
    walk_tags(view, |suffix, tag| {
        if checks_keys && key(tag.tid)[PREFIX.len()..] != *suffix {
            return Err(Errno::EINVAL.into());
        }
        in_use.insert(tag.tag_class, tag.tid);
        Ok(tag.tid < oldest)
    })?;
    Ok(in_use)
}

/// Removes the tags that are older than what any connected client needs.
pub(super) fn expire_tags(view: &mut dyn ObjectView) -> Result<(), Stop> {
    bring_tags(view)?;
    let mut oldest: Option<u64> = None;
    for client in clients::clients(view, b"", u64::MAX)? {
        if client.state == DISCONNECTED {
            continue;
        }
        // One that has committed nothing needs everything.
        let Some(tag) = client.oldest_tag() else { return Ok(()) };
        oldest = Some(oldest.map_or(tag, |old| old.min(tag)));
    }
    let Some(oldest) = oldest else { return Ok(()) };
    let in_use = in_use_at(view, oldest, true)?;
    let mut expired = Vec::new();
    walk_tags(view, |_, tag| {
        if in_use.get(&tag.tag_class).is_some_and(|used| tag.tid < *used) {
            expired.push(tag.tid);
        }
        Ok(tag.tid < oldest)
    })?;
    expired.into_iter().try_for_each(|tid| remove(view, &key(tid)))
}

pub(super) fn get_next_tag_tid(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    output(&read::<u64>(view, NEXT_TAG_TID)?)
}

pub(super) fn get_tag(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let tid: u64 = input(bytes)?;
    output(&read::<Tag>(view, &key(tid))?)
}

pub(super) fn tag_create(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let mut reader = Reader::new(bytes.clone());
    let tid: u64 = next(&mut reader)?;
    let mut tag_class: u64 = next(&mut reader)?;
    let data: Bytes = next(&mut reader)?;
    if view.omap_get(&key(tid))?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    // Another writer took the number.
    if tid != read::<u64>(view, NEXT_TAG_TID)? {
        return Err(Errno::ESTALE.into());
    }
    let next_class: u64 = read(view, NEXT_TAG_CLASS)?;
    if tag_class == TAG_CLASS_NEW {
        tag_class = next_class;
        write(view, NEXT_TAG_CLASS, &next_class.wrapping_add(1))?;
    } else if tag_class >= next_class {
        return Err(Errno::EINVAL.into());
    }
    expire_tags(view)?;
    write(view, NEXT_TAG_TID, &tid.wrapping_add(1))?;
    write(view, &key(tid), &Tag { tid, tag_class, data })?;
    Ok(Bytes::new())
}

pub(super) fn tag_list(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let mut reader = Reader::new(bytes.clone());
    let after: u64 = next(&mut reader)?;
    let count_max: u64 = next(&mut reader)?;
    let client_id: Bytes = next(&mut reader)?;
    let class: Option<u64> = next(&mut reader)?;
    bring_tags(view)?;
    let in_use = match read_client(view, &client_id)?.oldest_tag() {
        Some(oldest) => in_use_at(view, oldest, false)?,
        None => BTreeMap::new(),
    };
    let mut tags: Vec<Tag> = Vec::new();
    walk_tags(view, |_, tag| {
        let is_next = after == 0 || tag.tid > after;
        let is_needed = in_use.get(&tag.tag_class).is_none_or(|used| tag.tid >= *used);
        if is_next && is_needed && class.is_none_or(|class| class == tag.tag_class) {
            tags.push(tag);
        }
        Ok((tags.len() as u64) < count_max)
    })?;
    output(&tags)
}
