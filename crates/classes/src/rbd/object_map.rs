//! `rbd_object_map.<id>`: which data objects exist.

use bytes::Bytes;
use codec::Decode;
use types::Errno;

use super::{
    bit_blocks::Blocks,
    bit_vector::{BitVector, COUNT_MAX, those_that},
};
use crate::{ObjectView, Stop, keys::input};

const EXISTS: u8 = 1;
const EXISTS_CLEAN: u8 = 3;

/// The stored map; ENOENT without one.
fn read_map(view: &mut dyn ObjectView) -> Result<BitVector, Stop> {
    let size = view.stat()?.map_or(0, |s| s.size);
    if size == 0 {
        return Err(Errno::ENOENT.into());
    }
    let bytes = view.read(0, size)?;
    BitVector::from_prefix(bytes).map_err(|_| Errno::EINVAL.into())
}

fn write_map(view: &mut dyn ObjectView, map: &BitVector) -> Result<Bytes, Stop> {
    view.write_full(map.to_bytes(true))?;
    Ok(Bytes::new())
}

pub(super) fn object_map_load(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    Ok(read_map(view)?.to_bytes(false))
}

pub(super) fn object_map_save(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    write_map(view, &input(bytes)?)
}

pub(super) fn object_map_resize(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (count, default_state): (u64, u8) = input(bytes)?;
    if count > COUNT_MAX {
        return Err(Errno::EINVAL.into());
    }
    let mut map = match read_map(view) {
        Err(Stop::Refused(Errno::ENOENT)) => BitVector::default(),
        other => other?,
    };
    if !map.are_all(count, default_state) {
        return Err(Errno::ESTALE.into());
    }
    map.resize(count, default_state);
    write_map(view, &map)
}

pub(super) fn object_map_update(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let ((first, end), state, filter): ((u64, u64), u8, Option<u8>) = input(bytes)?;
    if view.stat()?.is_none() {
        return Err(Errno::ENOENT.into());
    }
    let mut blocks = Blocks::read(view, first, end)?;
    let matches = |old: u8| match filter {
        None => true,
        Some(EXISTS) => old == EXISTS || old == EXISTS_CLEAN,
        Some(wanted) => old == wanted,
    };
    let changing = those_that(|old| old != state && matches(old));
    if blocks.set_where(first..end, state, |byte| changing[usize::from(byte)]) {
        blocks.write(view, first, end)?;
    }
    Ok(Bytes::new())
}

/// The image got a snapshot: objects that exist are clean until they are written again.
pub(super) fn object_map_snap_add(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    let mut map = read_map(view)?;
    let existing = those_that(|old| old == EXISTS);
    let is_changed = map.set_where(0..map.len(), EXISTS_CLEAN, |_, byte| existing[usize::from(byte)]);
    if is_changed { write_map(view, &map) } else { Ok(Bytes::new()) }
}

/// A snapshot went: what is clean in the head only because of it is dirty again.
pub(super) fn object_map_snap_remove(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let snap: BitVector = input(bytes)?;
    let mut map = read_map(view)?;
    let (clean, written) = (those_that(|old| old == EXISTS_CLEAN), those_that(|old| old == EXISTS));
    let shared = map.len().min(snap.len());
    let both = |at: usize, byte: u8| clean[usize::from(byte)] & written[usize::from(snap.data()[at])];
    let is_any_written = map.set_where(0..shared, EXISTS, both);
    let is_any_newer = map.set_where(shared..map.len(), EXISTS, |_, byte| clean[usize::from(byte)]);
    if is_any_written || is_any_newer { write_map(view, &map) } else { Ok(Bytes::new()) }
}
