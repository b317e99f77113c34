//! Omap keys that begin with a time, as the classes `log` and `timeindex` make them.

use bytes::Bytes;
use types::UTime;

/// What all such keys begin with.
pub(crate) const PREFIX: &[u8] = b"1_";

/// The beginning of the keys of a time: seconds and microseconds.
pub(crate) fn prefix(time: UTime) -> Vec<u8> {
    format!("1_{:010}.{:06}_", time.sec, time.nsec / 1_000).into_bytes()
}

/// True for a key of the time that `boundary` is the prefix of, or of a later one: keys are cut to its
/// length before they are compared.
pub(crate) fn has_reached(key: &Bytes, boundary: &[u8]) -> bool {
    &key[..key.len().min(boundary.len())] >= boundary
}

/// Entries that a list or a trim takes at a time, where the caller may say how many; 0 asks for `default`.
pub(crate) fn count(asked: u32, default: usize) -> usize {
    const COUNT_MAX: usize = 1_000;
    match asked as usize {
        0 => default,
        asked => asked.min(COUNT_MAX),
    }
}
