//! The `journal` class: the header `journal.<id>` of a journal, and appending to its data objects.
//!
//! Authority: `cls/journal` of Ceph 16.2. RBD's journaling feature and journal-based mirroring use it.

mod clients;
mod data;
mod tags;
#[cfg(test)]
mod tests;
mod types;

use bytes::Bytes;
use codec::{Decode, Encode, Reader};
use types::Client;

use ::types::Errno;

use crate::{
    Method, ObjectView, Stop,
    keys::{input, next, output, write},
    method::{self, row},
};

const RD: u8 = method::RD;
const RW: u8 = method::RD | method::WR;

/// The methods with their Ceph flags.
pub(crate) const METHODS: &[Method] = &[
    row("journal", "create", RW, create),
    row("journal", "get_order", RD, get_order),
    row("journal", "get_splay_width", RD, get_splay_width),
    row("journal", "get_pool_id", RD, get_pool_id),
    row("journal", "get_minimum_set", RD, get_minimum_set),
    row("journal", "set_minimum_set", RW, set_minimum_set),
    row("journal", "get_active_set", RD, get_active_set),
    row("journal", "set_active_set", RW, set_active_set),
    row("journal", "get_client", RD, clients::get_client),
    row("journal", "client_register", RW, clients::client_register),
    row("journal", "client_update_data", RW, clients::client_update_data),
    row("journal", "client_update_state", RW, clients::client_update_state),
    row("journal", "client_unregister", RW, clients::client_unregister),
    row("journal", "client_commit", RW, clients::client_commit),
    row("journal", "client_list", RD, clients::client_list),
    row("journal", "get_next_tag_tid", RD, tags::get_next_tag_tid),
    row("journal", "get_tag", RD, tags::get_tag),
    row("journal", "tag_create", RW, tags::tag_create),
    row("journal", "tag_list", RD, tags::tag_list),
    row("journal", "guard_append", RW, data::guard_append),
    row("journal", "append", RW, data::append),
];

const ORDER: &[u8] = b"order";
const SPLAY_WIDTH: &[u8] = b"splay_width";
const POOL_ID: &[u8] = b"pool_id";
const MINIMUM_SET: &[u8] = b"minimum_set";
const ACTIVE_SET: &[u8] = b"active_set";
const NEXT_TAG_TID: &[u8] = b"next_tag_tid";
const NEXT_TAG_CLASS: &[u8] = b"next_tag_class";

fn create(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let mut reader = Reader::new(bytes.clone());
    let order: u8 = next(&mut reader)?;
    let splay_width: u8 = next(&mut reader)?;
    let pool_id: i64 = next(&mut reader)?;
    if view.omap_get(ORDER)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    write(view, ORDER, &order)?;
    write(view, SPLAY_WIDTH, &splay_width)?;
    write(view, POOL_ID, &pool_id)?;
    for counter in [ACTIVE_SET, MINIMUM_SET, NEXT_TAG_TID, NEXT_TAG_CLASS] {
        write(view, counter, &0u64)?;
    }
    Ok(Bytes::new())
}

/// The value of `key`; ENOENT without one. As in Ceph, one that does not decode is EINVAL here, and EIO in a list.
fn read<T: Decode>(view: &mut dyn ObjectView, key: &[u8]) -> Result<T, Stop> {
    let bytes = view.omap_get(key)?.ok_or(Errno::ENOENT)?;
    T::from_prefix(bytes).map_err(|_| Errno::EINVAL.into())
}

fn get<T: Decode + Encode>(view: &mut dyn ObjectView, key: &[u8]) -> Result<Bytes, Stop> {
    output(&read::<T>(view, key)?)
}

fn get_order(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    get::<u8>(view, ORDER)
}

fn get_splay_width(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    get::<u8>(view, SPLAY_WIDTH)
}

fn get_pool_id(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    get::<i64>(view, POOL_ID)
}

fn get_minimum_set(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    get::<u64>(view, MINIMUM_SET)
}

fn get_active_set(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    get::<u64>(view, ACTIVE_SET)
}

/// Moves `key` forward; ESTALE backwards.
fn advance(view: &mut dyn ObjectView, key: &[u8], set: u64) -> Result<Bytes, Stop> {
    let current: u64 = read(view, key)?;
    if set < current {
        return Err(Errno::ESTALE.into());
    }
    if set > current {
        write(view, key, &set)?;
    }
    Ok(Bytes::new())
}

fn set_minimum_set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let set: u64 = input(bytes)?;
    if read::<u64>(view, ACTIVE_SET)? < set {
        return Err(Errno::EINVAL.into());
    }
    advance(view, MINIMUM_SET, set)
}

fn set_active_set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let set: u64 = input(bytes)?;
    if read::<u64>(view, MINIMUM_SET)? > set {
        return Err(Errno::EINVAL.into());
    }
    advance(view, ACTIVE_SET, set)
}

fn client_key(id: &[u8]) -> Vec<u8> {
    [b"client_", id].concat()
}

fn read_client(view: &mut dyn ObjectView, id: &[u8]) -> Result<Client, Stop> {
    read(view, &client_key(id))
}
