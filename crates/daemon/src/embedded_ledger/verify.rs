//! Whether the file of a ledger is as it was written, found out before redb opens it.
//!
//! redb trusts the pages of a file that was closed in order: where they are damaged, it reads something else, or ends
//! the process. After a crash it trusts no page before it has compared that with its checksum. So a copy in memory is
//! repaired first, which says that it was left by a crash.

use std::{fs::File, ops::Bound, path::Path};

use redb::{
    Builder, Error, StorageBackend,
    backends::{FileBackend, InMemoryBackend},
};

/// Where redb's flags are, behind its magic number.
const FLAGS_AT: usize = 9;
/// Which of the two commit slots counts.
const SECOND_SLOT: u8 = 1;
/// Where the checksums of the slots end.
const SLOT_ENDS: [usize; 2] = [192, 320];
const WAS_NOT_CLOSED: u8 = 2;
/// The last commit was durable before it counted. So it is there as a whole, or damaged.
const IS_WHOLE: u8 = 4;
/// How far a repair is that is about to go back to the commit before the last one, and that has done so.
const GOES_BACK: std::ops::Range<f64> = 0.1..0.5;
/// Bytes of pages that redb keeps beside the copy.
const CACHE_BYTES: usize = 16 << 20;

/// What the file has, unless another process uses it.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let backend = FileBackend::new(File::options().read(true).write(true).open(path)?)?;
    // Where there are no locks, redb goes on without.
    if let Ok(false) = backend.try_lock_range(Bound::Unbounded, Bound::Unbounded) {
        return Err(Error::DatabaseAlreadyOpen);
    }
    let mut bytes = vec![0; backend.len()? as usize];
    backend.read(0, &mut bytes)?;
    Ok(bytes)
}

/// Compares all that a file with these bytes holds with its checksums; one that is empty holds nothing.
///
/// # Errors
///
/// If anything is not what was written.
pub(super) fn verify(mut bytes: Vec<u8>) -> Result<(), Error> {
    let Some(flags) = bytes.get_mut(FLAGS_AT) else { return Ok(()) };
    let is_whole = *flags & IS_WHOLE != 0;
    let slot = *flags & SECOND_SLOT;
    *flags = slot | WAS_NOT_CLOSED;
    // What the other slot has may be newer, and under way. It does not count, and the copy is to say so.
    if is_whole && let Some(last) = bytes.get_mut(SLOT_ENDS[usize::from(slot ^ SECOND_SLOT)] - 1) {
        *last ^= 0xff;
    }
    let memory = InMemoryBackend::new();
    memory.set_len(bytes.len() as u64)?;
    memory.write(0, &bytes)?;
    drop(bytes);
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder.set_repair_callback(move |repair| {
        if is_whole && GOES_BACK.contains(&repair.progress()) {
            repair.abort();
        }
    });
    builder.create_with_backend(memory)?;
    Ok(())
}
