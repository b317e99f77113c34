//! Live migration: what both images' headers say of it. An image of format 1 says it in the text that
//! its header begins with, and can only be migrated from.

use bytes::Bytes;
use types::Errno;

use super::{
    old_format,
    types::{MigrationSpec, feature},
};
use crate::{
    ObjectView, Stop,
    keys::{find, input, output, read, remove, write},
};

/// `MIGRATION_HEADER_TYPE_SRC`, `MIGRATION_HEADER_TYPE_DST`.
const HEADER_SOURCE: u8 = 1;
const HEADER_DESTINATION: u8 = 2;

pub(super) fn migration_set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let spec: MigrationSpec = input(bytes)?;
    if view.omap_get(b"migration")?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    match find::<u64>(view, b"features")? {
        None if old_format::is_migrating(view)? => return Err(Errno::EEXIST.into()),
        None if spec.header_type != HEADER_SOURCE => return Err(Errno::EINVAL.into()),
        None => old_format::set_migrating(view, true)?,
        Some(features) if features & feature::MIGRATING == 0 => {
            write(view, b"features", &(features | feature::MIGRATING))?;
        }
        Some(_) if spec.header_type != HEADER_DESTINATION => return Err(Errno::EEXIST.into()),
        Some(_) => {}
    }
    write(view, b"migration", &spec)?;
    Ok(Bytes::new())
}

fn read_spec(view: &mut dyn ObjectView) -> Result<MigrationSpec, Stop> {
    let is_migrating = match find::<u64>(view, b"features")? {
        None => old_format::is_migrating(view)?,
        Some(features) => features & feature::MIGRATING != 0,
    };
    if !is_migrating {
        return Err(Errno::EINVAL.into());
    }
    read(view, b"migration")
}

pub(super) fn migration_set_state(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (state, state_description): (u8, Bytes) = input(bytes)?;
    let spec = MigrationSpec { state, state_description, ..read_spec(view)? };
    write(view, b"migration", &spec)?;
    Ok(Bytes::new())
}

pub(super) fn migration_get(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    output(&read_spec(view)?)
}

pub(super) fn migration_remove(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    match find::<u64>(view, b"features")? {
        None if !old_format::is_migrating(view)? => return Err(Errno::EINVAL.into()),
        None => old_format::set_migrating(view, false)?,
        Some(features) if features & feature::MIGRATING != 0 => {
            write(view, b"features", &(features & !feature::MIGRATING))?;
        }
        Some(_) => {}
    }
    remove(view, b"migration")?;
    Ok(Bytes::new())
}
