//! Data objects: what a clone copies from its parent, and giving back space of zeros.

use std::collections::BTreeMap;

use bytes::Bytes;
use types::{Errno, SnapId};

use crate::{
    ObjectView, Stop,
    keys::{check_exists, input},
};

pub(super) fn copyup(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    if view.stat()?.is_none() {
        view.write(0, bytes.clone())?;
    }
    Ok(Bytes::new())
}

pub(super) fn sparse_copyup(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (extents, mut data): (BTreeMap<u64, u64>, Bytes) = input(bytes)?;
    if view.stat()?.is_some() {
        return Ok(Bytes::new());
    }
    if extents.is_empty() {
        view.create(true)?;
    }
    for (offset, len) in extents {
        let len = usize::try_from(len).ok().filter(|len| *len <= data.len()).ok_or(Errno::EINVAL)?;
        view.write(offset, data.split_to(len))?;
    }
    Ok(Bytes::new())
}

/// Frees runs of zeros of `sparse_size`; an object of nothing but zeros goes, if asked for.
pub(super) fn sparsify(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (sparse_size, is_remove): (u64, bool) = input(bytes)?;
    if sparse_size == 0 {
        return Err(Errno::EINVAL.into());
    }
    check_exists(view)?;
    let size = view.stat()?.map_or(0, |s| s.size);
    let data = view.read(0, size)?;
    let end = data.iter().rposition(|b| *b != 0).map_or(0, |last| last as u64 + 1);
    if end == 0 && is_remove {
        view.remove()?;
        return Ok(Bytes::new());
    }
    let mut offset = 0;
    while offset < end {
        let len = sparse_size.min(end - offset);
        let chunk = &data[offset as usize..(offset + len) as usize];
        if chunk.iter().all(|b| *b == 0) {
            view.zero(offset, len)?;
        }
        offset += len;
    }
    if end < size {
        view.truncate(end)?;
    }
    Ok(Bytes::new())
}

/// `AssertSnapcSeqState`.
const GREATER_THAN_SNAPSET: u8 = 0;
const AT_MOST_SNAPSET: u8 = 1;

pub(super) fn assert_snapc_seq(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (seq, state): (SnapId, u8) = input(bytes)?;
    let is_greater = view.stat()?.is_none() || seq > view.context().snapset_seq;
    match (state, is_greater) {
        (GREATER_THAN_SNAPSET, true) | (AT_MOST_SNAPSET, false) => Ok(Bytes::new()),
        (GREATER_THAN_SNAPSET | AT_MOST_SNAPSET, _) => Err(Errno::ERANGE.into()),
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}
