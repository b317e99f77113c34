//! Striping parameters of an image with the feature `striping`.

use bytes::Bytes;
use types::Errno;

use super::{header::require_feature, types::feature};
use crate::{
    ObjectView, Stop,
    keys::{check_exists, find, input, output, read, write},
};

fn object_bytes(view: &mut dyn ObjectView) -> Result<u64, Stop> {
    let order: u8 = read(view, b"order")?;
    1u64.checked_shl(u32::from(order)).ok_or(Errno::EIO.into())
}

pub(super) fn get_stripe_unit_count(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    check_exists(view)?;
    require_feature(view, feature::STRIPINGV2)?;
    let unit = match find::<u64>(view, b"stripe_unit")? {
        Some(unit) => unit,
        // An image without an order is damaged.
        None => match object_bytes(view) {
            Err(Stop::Refused(_)) => return Err(Errno::EIO.into()),
            other => other?,
        },
    };
    output(&(unit, find::<u64>(view, b"stripe_count")?.unwrap_or(1)))
}

pub(super) fn set_stripe_unit_count(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (unit, count): (u64, u64) = input(bytes)?;
    if unit == 0 || count == 0 {
        return Err(Errno::EINVAL.into());
    }
    check_exists(view)?;
    require_feature(view, feature::STRIPINGV2)?;
    if !object_bytes(view)?.is_multiple_of(unit) {
        return Err(Errno::EINVAL.into());
    }
    write(view, b"stripe_unit", &unit)?;
    write(view, b"stripe_count", &count)?;
    Ok(Bytes::new())
}
