//! Data objects: what a clone copies from its parent, and giving back space of zeros.

use std::{collections::BTreeMap, ops::Range};

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

/// Fewer zeros between data free nothing: they are less than a block of the store. Clients look for no less.
const FREED_BYTES_MIN: u64 = 4096;

/// Runs of blocks of `sparse_size` that are not all zeros; the last block may be shorter. Zeros that free nothing are
/// taken for data, as there may be as many runs as bytes otherwise. The first run begins the object, and may be empty.
fn runs_of_data(data: &[u8], sparse_size: u64) -> Vec<Range<u64>> {
    let block_bytes = usize::try_from(sparse_size).unwrap_or(usize::MAX);
    let mut runs: Vec<Range<u64>> = vec![Range::default()];
    let mut offset = 0;
    for block in data.chunks(block_bytes) {
        let end = offset + block.len() as u64;
        if block.iter().any(|b| *b != 0) {
            match runs.last_mut() {
                Some(last) if offset - last.end < FREED_BYTES_MIN => last.end = end,
                _ => runs.push(offset..end),
            }
        }
        offset = end;
    }
    runs
}

/// Frees blocks of zeros of `sparse_size`, where there is something to be freed; an object of nothing but zeros goes,
/// if asked for. It ends behind the last block with data.
pub(super) fn sparsify(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (sparse_size, is_remove): (u64, bool) = input(bytes)?;
    check_exists(view)?;
    let size = view.stat()?.map_or(0, |s| s.size);
    let data = view.read(0, size)?;
    if is_remove && data.iter().all(|byte| *byte == 0) {
        view.remove()?;
        return Ok(Bytes::new());
    }
    let runs = match sparse_size {
        0 if data.iter().any(|byte| *byte != 0) => return Err(Errno::EINVAL.into()),
        0 => Vec::new(),
        sparse_size => runs_of_data(&data, sparse_size),
    };
    let mut offset = 0;
    for run in &runs {
        if offset < run.start {
            view.zero(offset, run.start - offset)?;
        }
        offset = run.end;
    }
    if offset < size {
        view.truncate(offset)?;
    }
    Ok(Bytes::new())
}

/// `AssertSnapcSeqState`.
const GREATER_THAN_SNAPSET: u8 = 0;
const AT_MOST_SNAPSET: u8 = 1;

pub(super) fn assert_snapc_seq(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (seq, state): (SnapId, u8) = input(bytes)?;
    let is_greater = view.snapset_seq().is_none_or(|known| seq > known);
    match (state, is_greater) {
        (GREATER_THAN_SNAPSET, true) | (AT_MOST_SNAPSET, false) => Ok(Bytes::new()),
        (GREATER_THAN_SNAPSET | AT_MOST_SNAPSET, _) => Err(Errno::ERANGE.into()),
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}
