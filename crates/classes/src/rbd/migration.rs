//! Live migration: what both images' headers say of it.

use bytes::Bytes;
use types::Errno;

use super::types::{MigrationSpec, feature};
use crate::{
    ObjectView, Stop,
    keys::{input, output, read, remove, write},
};

/// `MIGRATION_HEADER_TYPE_DST`.
const HEADER_DESTINATION: u8 = 2;

pub(super) fn migration_set(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let spec: MigrationSpec = input(bytes)?;
    if view.omap_get(b"migration")?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    let features: u64 = read(view, b"features")?;
    if features & feature::MIGRATING == 0 {
        write(view, b"features", &(features | feature::MIGRATING))?;
    } else if spec.header_type != HEADER_DESTINATION {
        return Err(Errno::EEXIST.into());
    }
    write(view, b"migration", &spec)?;
    Ok(Bytes::new())
}

fn read_spec(view: &mut dyn ObjectView) -> Result<MigrationSpec, Stop> {
    let features: u64 = read(view, b"features")?;
    if features & feature::MIGRATING == 0 {
        return Err(Errno::EINVAL.into());
    }
    read(view, b"migration")
}

pub(super) fn migration_set_state(view: &mut dyn ObjectView, bytes: &Bytes) -> Result<Bytes, Stop> {
    let (state, state_description): (u8, String) = input(bytes)?;
    let spec = MigrationSpec { state, state_description, ..read_spec(view)? };
    write(view, b"migration", &spec)?;
    Ok(Bytes::new())
}

pub(super) fn migration_get(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    output(&read_spec(view)?)
}

pub(super) fn migration_remove(view: &mut dyn ObjectView, _: &Bytes) -> Result<Bytes, Stop> {
    remove(view, b"migration")?;
    let features: u64 = read(view, b"features")?;
    if features & feature::MIGRATING != 0 {
        write(view, b"features", &(features & !feature::MIGRATING))?;
    }
    Ok(Bytes::new())
}
