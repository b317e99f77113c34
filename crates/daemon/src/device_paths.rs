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

impl FastDevices {
    /// With their roles.
    fn all(&self) -> impl Iterator<Item = (DeviceRole, &Path)> {
        let both = [(DeviceRole::Journal, &self.journal), (DeviceRole::Index, &self.index)];
        both.into_iter().filter_map(|(role, path)| Some((role, path.as_deref()?)))
    }
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

    /// Takes what an operator named instead of what is linked.
    pub(crate) fn replace(&mut self, fast: &FastDevices) {
        for (of_store, named) in [(&mut self.journal, &fast.journal), (&mut self.index, &fast.index)] {
            if let Some(named) = named {
                *of_store = Some(named.clone());
            }
        }
    }

    /// With their roles.
    pub(crate) fn all(&self) -> impl Iterator<Item = (DeviceRole, &Path)> {
        let others = [(DeviceRole::Journal, &self.journal), (DeviceRole::Index, &self.index)];
        let others = others.into_iter().filter_map(|(role, path)| Some((role, path.as_deref()?)));
        [(DeviceRole::Main, self.main.as_path())].into_iter().chain(others)
    }
}

/// Links to the devices that an operator named, in the OSD's data folder, where its start finds them.
pub(crate) struct Links(Vec<(PathBuf, PathBuf)>);

impl Links {
    /// That they can be made: nothing but other links is in their place, and ceph.conf names no other devices.
    pub(crate) fn check(conf: &CephConf, who: &EntityName, fast: &FastDevices) -> Result<Links> {
        let mut links = Vec::new();
        for (role, device) in fast.all() {
            let (option, name) = names(role);
            if let Some(path) = conf.get(who, option) {
                bail!("ceph.conf names {path} as `{option}` of {who}: name it there or here, not in both");
            }
            let place = PathBuf::from(conf.require(who, "osd data")?).join(name);
            if place.symlink_metadata().is_ok_and(|found| !found.is_symlink()) {
                bail!("{} is there already", place.display());
            }
            links.push((place, std::path::absolute(device)?));
        }
        Ok(Links(links))
    }

    /// Makes them. Each takes another one's place at a stroke.
    pub(crate) fn make(self) -> Result<()> {
        for (place, device) in self.0 {
            let new = place.with_extension("new");
            let link = || {
                if new.is_symlink() {
                    fs::remove_file(&new)?;
                }
                std::os::unix::fs::symlink(&device, &new)?;
                fs::rename(&new, &place)
            };
            link().with_context(|| place.display().to_string())?;
        }
        Ok(())
    }
}
