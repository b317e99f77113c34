//! Data objects of a journal: appending until one is full.

use bytes::Bytes;
use types::Errno;

use crate::{ObjectView, Stop, keys::input};

/// Appends end at a multiple of this, so that the next one shares no block with what is there (Ceph pads
/// to `osd_min_alloc_size`); readers skip the zeros.
const PAD_BYTES: u64 = 4096;

/// EOVERFLOW when the object is full; else its size.
fn check_size(view: &mut dyn ObjectView, soft_bytes_max: u64) -> Result<u64, Stop> {
    match view.stat()? {
        Some(stat) if stat.size >= soft_bytes_max => Err(Errno::EOVERFLOW.into()),
        Some(stat) => Ok(stat.size),
        None => Ok(0),
    }
}

pub(super) fn guard_append(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let soft_bytes_max: u64 = input(bytes)?;
    // An object that does not exist has room, whatever the limit.
    if view.stat()?.is_some() {
        check_size(view, soft_bytes_max)?;
    }
    Ok(Bytes::new())
}

pub(super) fn append(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (soft_bytes_max, data): (u64, Bytes) = input(bytes)?;
    let offset = check_size(view, soft_bytes_max)?;
    let end = offset + data.len() as u64;
    view.write(offset, data)?;
    if !end.is_multiple_of(PAD_BYTES) {
        view.truncate(end.next_multiple_of(PAD_BYTES))?;
    }
    Ok(Bytes::new())
}
