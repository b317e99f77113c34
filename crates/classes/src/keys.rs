//! Typed reading and writing of omap entries and inputs, as classes do it.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Decode, Encode, Features, Reader};
use types::Errno;

use crate::{ObjectView, Stop};

/// A list of more entries has those that it may look at brought first. Clients ask for as many at a time, or for all.
pub(crate) const SHORT_LIST: u64 = 1024;
/// Entries read at a time while walking through a prefix.
const PAGE: usize = 64;

/// Decodes a method's input; EINVAL if it is not one.
pub(crate) fn input<T: Decode>(bytes: &Bytes) -> Result<T, Stop> {
    T::from_prefix(bytes.clone()).map_err(|_| Errno::EINVAL.into())
}

/// Decodes what may follow the mandatory input: older clients leave it out.
pub(crate) fn optional<T: Decode>(reader: &mut Reader) -> Result<Option<T>, Stop> {
    if reader.remaining() == 0 {
        return Ok(None);
    }
    T::decode(reader).map(Some).map_err(|_| Errno::EINVAL.into())
}

/// Decodes the next part of an input.
pub(crate) fn next<T: Decode>(reader: &mut Reader) -> Result<T, Stop> {
    T::decode(reader).map_err(|_| Errno::EINVAL.into())
}

/// A method's output.
pub(crate) fn output<T: Encode + ?Sized>(value: &T) -> Result<Bytes, Stop> {
    Ok(value.to_bytes(Features::PACIFIC))
}

/// ENOENT unless the object exists.
pub(crate) fn check_exists(view: &mut dyn ObjectView) -> Result<(), Stop> {
    view.stat()?.map(|_| ()).ok_or(Errno::ENOENT.into())
}

/// The value of `key`, `None` without one; EIO if it does not decode.
pub(crate) fn find<T: Decode>(view: &mut dyn ObjectView, key: &[u8]) -> Result<Option<T>, Stop> {
    match view.omap_get(key)? {
        Some(bytes) => T::from_prefix(bytes).map(Some).map_err(|_| Errno::EIO.into()),
        None => Ok(None),
    }
}

/// The value of `key`; ENOENT without one.
pub(crate) fn read<T: Decode>(view: &mut dyn ObjectView, key: &[u8]) -> Result<T, Stop> {
    find(view, key)?.ok_or(Errno::ENOENT.into())
}

/// Sets `key`.
pub(crate) fn write<T: Encode + ?Sized>(
    view: &mut dyn ObjectView,
    key: &[u8],
    value: &T,
) -> Result<(), Stop> {
    write_raw(view, key, value.to_bytes(Features::PACIFIC))
}

/// Sets `key` to bytes as they are.
pub(crate) fn write_raw(view: &mut dyn ObjectView, key: &[u8], value: Bytes) -> Result<(), Stop> {
    view.omap_set(BTreeMap::from([(Bytes::copy_from_slice(key), value)]))
}

/// Removes `key`, there or not.
pub(crate) fn remove(view: &mut dyn ObjectView, key: &[u8]) -> Result<(), Stop> {
    view.omap_remove(vec![Bytes::copy_from_slice(key)])
}

/// Removes `key` of an object that need not be there either.
pub(crate) fn remove_if_any(view: &mut dyn ObjectView, key: &[u8]) -> Result<(), Stop> {
    match remove(view, key) {
        Err(Stop::Refused(Errno::ENOENT)) => Ok(()),
        other => other,
    }
}

/// How much of what a walk leads through is brought before anything is looked at. What is not would have the method run
/// again from its start for each part that has to be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All: the method looks at everything, or nobody knows where it stops.
    All,
    /// The first entries, as the method stops after so many; none of a short list.
    First(u64),
    /// Nothing: the method had it brought before, with more.
    Brought,
}

/// Calls `each` with every entry under `prefix` after `prefix + after`, in order, until it says false.
pub(crate) fn walk(
    view: &mut dyn ObjectView,
    prefix: &[u8],
    after: &[u8],
    reach: Reach,
    each: impl FnMut(&[u8], Bytes) -> Result<bool, Stop>,
) -> Result<(), Stop> {
    walk_from(view, prefix, [prefix, after].concat(), reach, each)
}

/// Calls `each` with every entry under `prefix` whose whole key is after `last`, in order, until it says false.
pub(crate) fn walk_from(
    view: &mut dyn ObjectView,
    prefix: &[u8],
    mut last: Vec<u8>,
    reach: Reach,
    mut each: impl FnMut(&[u8], Bytes) -> Result<bool, Stop>,
) -> Result<(), Stop> {
    match reach {
        Reach::All => view.omap_bring(&last, prefix, u64::MAX)?,
        Reach::First(count) if count > SHORT_LIST => view.omap_bring(&last, prefix, count)?,
        Reach::First(_) | Reach::Brought => {}
    }
    loop {
        let (entries, has_more) = view.omap_list(&last, prefix, PAGE)?;
        for (key, value) in entries {
            if !each(&key[prefix.len()..], value)? {
                return Ok(());
            }
            last = key.to_vec();
        }
        if !has_more {
            return Ok(());
        }
    }
}

/// Up to `count_max` decoded entries under `prefix` after `after`, keys without the prefix.
pub(crate) fn list<T: Decode>(
    view: &mut dyn ObjectView,
    prefix: &[u8],
    after: &[u8],
    count_max: u64,
) -> Result<BTreeMap<Bytes, T>, Stop> {
    let mut out = BTreeMap::new();
    if count_max == 0 {
        return Ok(out);
    }
    walk(view, prefix, after, Reach::First(count_max), |key, value| {
        let value = T::from_prefix(value).map_err(|_| Stop::Refused(Errno::EIO))?;
        out.insert(Bytes::copy_from_slice(key), value);
        Ok((out.len() as u64) < count_max)
    })?;
    Ok(out)
}
