//! Comparisons that clients name by number.

use std::cmp::Ordering;

use types::Errno;

use crate::Stop;

/// Whether a value that compares with another one in this way is what the comparison wants of it
/// (`CEPH_OSD_CMPXATTR_OP_*`). EINVAL for a comparison that is not known.
pub fn holds(comparison: u8, order: Ordering) -> Result<bool, Stop> {
    match comparison {
        1 => Ok(order.is_eq()),
        2 => Ok(order.is_ne()),
        3 => Ok(order.is_gt()),
        4 => Ok(order.is_ge()),
        5 => Ok(order.is_lt()),
        6 => Ok(order.is_le()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// How the bytes of omap values compare: as Ceph's buffers do, whose bytes are `char` and so have a sign on the
/// machines that clusters run on. (Keys, and strings of xattrs, compare without.)
pub fn cmp_values(one: &[u8], other: &[u8]) -> Ordering {
    one.iter().map(|byte| byte.cast_signed()).cmp(other.iter().map(|byte| byte.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_values_have_a_sign() {
        let sorted: [&[u8]; 7] = [b"", b"\x80", b"\xff", b"\xff\x80", b"\xffa", b"a", b"ab"];
        for (at, one) in sorted.iter().enumerate() {
            for (other_at, other) in sorted.iter().enumerate() {
                assert_eq!(cmp_values(one, other), at.cmp(&other_at), "{one:?} {other:?}");
            }
        }
    }
}
