//! Where an OSD's devices are: named in ceph.conf, or found in its data folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use store::DeviceRole;
use types::EntityName;

use crate::ceph_conf::CephConf;

/// The paths of one OSD's devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DevicePaths {
    pub(crate) main: PathBuf,
    pub(crate) journal: Option<PathBuf>,
    pub(crate) index: Option<PathBuf>,
}

/// Devices of its own that an operator names for a new store.
#[derive(Clone, Debug, Default)]
pub struct FastDevices {
    /// For the journal.
    pub journal: Option<PathBuf>,
    /// For the index.
    pub index: Option<PathBuf>,
}

/// The option, and the name in the data folder, of a device besides the main one.
fn names(role: DeviceRole) -> (&'static str, &'static str) {
    match role {
        DeviceRole::Main => ("loligo device", "block"),
        DeviceRole::Journal => ("loligo journal device", "journal"),
        DeviceRole::Index => ("loligo index device", "index"),
    }
}

impl DevicePaths {
    /// The devices of `who`: `loligo device`, `loligo journal device` and `loligo index device`, or `block`,
    /// `journal` and `index` in its folder, the last two if they are there.
    pub(crate) fn read(conf: &CephConf, who: &EntityName) -> Result<DevicePaths> {
        let find = |role: DeviceRole| -> Result<Option<PathBuf>> {
            let (option, name) = names(role);
            if let Some(path) = conf.get(who, option) {
                return Ok(Some(PathBuf::from(path)));
            }
            if role != DeviceRole::Main && conf.get(who, "osd data").is_none() {
                return Ok(None);
            }
            let path = Path::new(&conf.require(who, "osd data")?).join(name);
            // A link to a device that is gone is still a link: the store says what is missing.
            Ok(Some(path).filter(|path| role == DeviceRole::Main || path.symlink_metadata().is_ok()))
        };
        let main = find(DeviceRole::Main)?.context("the main device has a name always")?;
        Ok(DevicePaths { main, journal: find(DeviceRole::Journal)?, index: find(DeviceRole::Index)? })
    }

    /// With their roles.
    pub(crate) fn all(&self) -> impl Iterator<Item = (DeviceRole, &Path)> {
        let others = [(DeviceRole::Journal, &self.journal), (DeviceRole::Index, &self.index)];
        let others = others.into_iter().filter_map(|(role, path)| Some((role, path.as_deref()?)));
        [(DeviceRole::Main, self.main.as_path())].into_iter().chain(others)
    }
}

/// Links the devices that an operator named into the OSD's data folder, where its start finds them.
pub(crate) fn link(conf: &CephConf, who: &EntityName, fast: &FastDevices) -> Result<()> {
    for (role, device) in [(DeviceRole::Journal, &fast.journal), (DeviceRole::Index, &fast.index)] {
        let Some(device) = device else { continue };
        let (option, name) = names(role);
        if let Some(path) = conf.get(who, option) {
            bail!("ceph.conf names {path} as `{option}` of {who}: name it there or here, not in both");
        }
        let folder = PathBuf::from(conf.require(who, "osd data")?);
        fs::create_dir_all(&folder)?;
        let (place, device) = (folder.join(name), std::path::absolute(device)?);
        match place.symlink_metadata() {
            Ok(found) if !found.is_symlink() => bail!("{} is there already", place.display()),
            Ok(_) => fs::remove_file(&place)?,
            Err(_) => {}
        }
        std::os::unix::fs::symlink(&device, &place).with_context(|| place.display().to_string())?;
    }
    Ok(())
}
