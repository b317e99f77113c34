//! The `cmpomap` class: comparisons of omap values, and changes that depend on them.
//!
//! Authority: `cls/cmpomap` of Ceph 17.2 to 20.2.

use std::collections::BTreeMap;

use bytes::Bytes;
use codec::{Codec, Decode};
use types::Errno;

use crate::{
    Method, ObjectView, Stop,
    comparison::{cmp_values, holds},
    keys::{input, remove},
    method::{self, row},
};

const RD: u8 = method::RD;
const RW: u8 = method::RD | method::WR;

/// The methods with their Ceph flags.
pub(crate) const METHODS: &[Method] = &[
    row("cmpomap", "cmp_vals", RD, cmp_vals),
    row("cmpomap", "cmp_set_vals", RW, cmp_set_vals),
    row("cmpomap", "cmp_vals_set_vals", RW, cmp_vals_set_vals),
    row("cmpomap", "cmp_rm_keys", RW, cmp_rm_keys),
];

/// `CEPH_OSD_CMPXATTR_MODE_*`: values are bytes, or numbers.
const MODE_BYTES: u8 = 1;
const MODE_U64: u8 = 2;

/// What is compared, and how (`Mode`; `Op`, which is `CEPH_OSD_CMPXATTR_OP_*`).
#[derive(Codec, Clone, Copy)]
struct How {
    mode: u8,
    comparison: u8,
}

impl How {
    /// Whether the comparison of `given` with what is `stored` holds. EINVAL for what cannot be compared,
    /// EIO for a stored value that is no number.
    fn compare(self, given: &Bytes, stored: &Bytes) -> Result<bool, Stop> {
        match self.mode {
            MODE_BYTES => holds(self.comparison, cmp_values(given, stored)),
            MODE_U64 => {
                let given = u64::from_prefix(given.clone()).map_err(|_| Errno::EINVAL)?;
                let stored = match stored.len() {
                    0 => 0,
                    _ => u64::from_prefix(stored.clone()).map_err(|_| Errno::EIO)?,
                };
                holds(self.comparison, given.cmp(&stored))
            }
            _ => Err(Errno::EINVAL.into()),
        }
    }

    /// As [`Self::compare`], but a stored value that is no number compares as different.
    fn compare_any(self, given: &Bytes, stored: &Bytes) -> Result<bool, Stop> {
        match self.compare(given, stored) {
            Err(Stop::Refused(Errno::EIO)) => Ok(false),
            other => other,
        }
    }
}

/// `cmp_vals_op`, `cmp_set_vals_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct CompareOp {
    how: How,
    values: BTreeMap<Bytes, Bytes>,
    /// Stands for keys that are not there.
    default: Option<Bytes>,
}

/// `cmp_vals_set_vals_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct CompareThenSetOp {
    how: How,
    compared: BTreeMap<Bytes, Bytes>,
    set: BTreeMap<Bytes, Bytes>,
}

/// `cmp_rm_keys_op`.
#[derive(Codec)]
#[codec(version = 1, compat = 1)]
struct RemoveOp {
    how: How,
    values: BTreeMap<Bytes, Bytes>,
}

fn cmp_vals(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: CompareOp = input(bytes)?;
    for (key, given) in &op.values {
        let stored = view.omap_get(key)?.or_else(|| op.default.clone()).ok_or(Errno::ECANCELED)?;
        if !op.how.compare(given, &stored)? {
            return Err(Errno::ECANCELED.into());
        }
    }
    Ok(Bytes::new())
}

fn cmp_set_vals(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: CompareOp = input(bytes)?;
    let mut set = BTreeMap::new();
    for (key, given) in op.values {
        let Some(stored) = view.omap_get(&key)?.or_else(|| op.default.clone()) else { continue };
        if op.how.compare_any(&given, &stored)? {
            set.insert(key, given);
        }
    }
    if !set.is_empty() {
        view.omap_set(set)?;
    }
    Ok(Bytes::new())
}

/// This one compares xattrs, and sets xattrs.
fn cmp_vals_set_vals(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: CompareThenSetOp = input(bytes)?;
    for (name, given) in &op.compared {
        let stored = view.xattr(name)?.ok_or(Errno::EINVAL)?;
        if !matches!(op.how.compare(given, &stored), Ok(true)) {
            return Err(Errno::EPERM.into());
        }
    }
    for (name, value) in op.set {
        view.set_xattr(&name, value)?;
    }
    Ok(Bytes::new())
}

fn cmp_rm_keys(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let op: RemoveOp = input(bytes)?;
    for (key, given) in &op.values {
        if let Some(stored) = view.omap_get(key)?
            && op.how.compare_any(given, &stored)?
        {
            remove(view, key)?;
        }
    }
    Ok(Bytes::new())
}

#[cfg(test)]
mod tests {
    use codec::{Encode, Features};

    use super::*;
    use crate::test_view::TestView;

    const EQUAL: u8 = 1;
    const GREATER: u8 = 3;

    fn number(n: u64) -> Bytes {
        n.to_bytes(Features::PACIFIC)
    }

    fn op(comparison: u8, value: Bytes, default: Option<Bytes>) -> Bytes {
        let how = How { mode: MODE_U64, comparison };
        let op = CompareOp { how, values: [(Bytes::from_static(b"k"), value)].into(), default };
        op.to_bytes(Features::PACIFIC)
    }

    #[test]
    fn values_are_compared_as_numbers_and_set_where_the_comparison_holds() {
        let mut view = TestView { exists: true, ..TestView::default() };
        let mut call = |name: &str, input: Bytes| view.call("cmpomap", name, input);
        assert_eq!(call("cmp_vals", op(EQUAL, number(0), None)), Err(Errno::ECANCELED));
        call("cmp_vals", op(EQUAL, number(0), Some(Bytes::new()))).unwrap();
        call("cmp_set_vals", op(GREATER, number(300), None)).unwrap();
        assert_eq!(
            call("cmp_vals", op(EQUAL, number(300), None)),
            Err(Errno::ECANCELED),
            "nothing was there"
        );
        call("cmp_set_vals", op(GREATER, number(300), Some(number(2)))).unwrap();
        call("cmp_set_vals", op(GREATER, number(200), Some(number(2)))).unwrap();
        call("cmp_vals", op(EQUAL, number(300), None)).unwrap();
        assert_eq!(call("cmp_vals", op(EQUAL, Bytes::from_static(b"x"), None)), Err(Errno::EINVAL));
    }
}
