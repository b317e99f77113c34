//! Where an OSD's devices are: named in ceph.conf, or found in its data folder.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use store::DeviceRole;
use types::EntityName;

use crate::{ceph_conf::CephConf, durable};

/// The paths of one OSD's devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DevicePaths {
    pub(crate) main: PathBuf,
    pub(crate) journal: Option<PathBuf>,
    pub(crate) index: Option<PathBuf>,
}

/// Devices that an operator names for a store.
#[derive(Clone, Debug, Default)]
pub struct NamedDevices {
    /// The main one.
    pub main: Option<PathBuf>,
    /// One for the journal alone.
    pub journal: Option<PathBuf>,
    /// One for the index.
    pub index: Option<PathBuf>,
}

impl NamedDevices {
    /// With their roles.
    fn all(&self) -> impl Iterator<Item = (DeviceRole, &Path)> {
        let all = [
            (DeviceRole::Main, &self.main),
            (DeviceRole::Journal, &self.journal),
            (DeviceRole::Index, &self.index),
        ];
        all.into_iter().filter_map(|(role, path)| Some((role, path.as_deref()?)))
    }
}

/// The option, and the name in the data folder, of a device.
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
    pub(crate) fn read(conf: &CephConf, who: &EntityName) -> DevicePaths {
        let named = |role| conf.get(who, names(role).0).map(PathBuf::from);
        let found = DevicePaths::in_folder(Path::new(&conf.data(who)));
        DevicePaths {
            main: named(DeviceRole::Main).unwrap_or(found.main),
            journal: named(DeviceRole::Journal).or(found.journal),
            index: named(DeviceRole::Index).or(found.index),
        }
    }

    /// The devices in an OSD's data folder.
    pub(crate) fn in_folder(folder: &Path) -> DevicePaths {
        let place = |role| folder.join(names(role).1);
        // A link to a device that is gone is still a link: the store says what is missing.
        let linked = |role| Some(place(role)).filter(|path| path.symlink_metadata().is_ok());
        DevicePaths {
            main: place(DeviceRole::Main),
            journal: linked(DeviceRole::Journal),
            index: linked(DeviceRole::Index),
        }
    }

    /// Takes what an operator named instead of what is linked.
    pub(crate) fn replace(&mut self, named: &NamedDevices) {
        if let Some(main) = &named.main {
            self.main.clone_from(main);
        }
        for (of_store, named) in [(&mut self.journal, &named.journal), (&mut self.index, &named.index)] {
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

/// What is at a device's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Something to be opened.
    Something,
    /// Nothing.
    Nothing,
    /// A link, through others or not, whose target is not there: a disk that was taken out, or is not found yet.
    LinkTo(PathBuf),
}

/// How many links may lead from one to the next, as in Linux.
const LINKS_MAX: u32 = 40;

/// Looks at a device's path. That it cannot be looked at, for a permission or a fault, does not say that nothing is
/// there.
pub(crate) fn look_at(path: &Path) -> io::Result<Found> {
    match fs::metadata(path) {
        Ok(_) => return Ok(Found::Something),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    let mut target = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&target) {
            // The target of a link is meant from the folder that it is in.
            Ok(next) => target = target.parent().unwrap_or(Path::new("")).join(next),
            Err(_) => break,
        }
    }
    Ok(if target == path { Found::Nothing } else { Found::LinkTo(target) })
}

/// Below /dev are devices: a file there would fill the memory in which that folder is, and be gone after a restart.
pub(crate) fn is_no_place_for_files(path: &Path) -> bool {
    // Links such as /dev/disk/by-id/x lead to `../../sdb`, others to folders.
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let is_below = |path: &Path| path.starts_with("/dev") && !path.starts_with("/dev/shm");
    is_below(path) || folder.is_some_and(|folder| is_below(&folder))
}

/// Links to the devices that an operator named, in the OSD's data folder, where its start finds them.
pub(crate) struct Links(Vec<(PathBuf, PathBuf)>);

impl Links {
    /// That they can be made: nothing but other links is in their place, and ceph.conf names no other devices.
    pub(crate) fn check(conf: &CephConf, who: &EntityName, named: &NamedDevices) -> Result<Links> {
        let mut links = Vec::new();
        for (role, device) in named.all() {
            let (option, name) = names(role);
            if let Some(path) = conf.get(who, option) {
                bail!("ceph.conf names {path} as `{option}` of {who}: name it there or here, not in both");
            }
            let place = Path::new(&conf.data(who)).join(name);
            if place.symlink_metadata().is_ok_and(|found| !found.is_symlink()) {
                bail!(
                    "{} is there already, and is no link: remove it first, if what it holds may be lost",
                    place.display()
                );
            }
            links.push((place, std::path::absolute(device)?));
        }
        Ok(Links(links))
    }

    /// Makes the links. Each replaces an existing one atomically.
    pub(crate) fn make(self) -> Result<()> {
        for (place, device) in self.0 {
            let new = place.with_extension("new");
            let link = || {
                if new.is_symlink() {
                    fs::remove_file(&new)?;
                }
                std::os::unix::fs::symlink(&device, &new)?;
                fs::rename(&new, &place)?;
                durable::sync_names(durable::folder_of(&place))
            };
            link().with_context(|| place.display().to_string())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_gone_is_told_from_one_that_is_not_to_be_seen() {
        let dir = std::env::temp_dir().join(format!("loligo-paths-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (file, first, second, disk) =
            (dir.join("file"), dir.join("first"), dir.join("second"), dir.join("disk"));
        fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink("second", &first).unwrap();
        std::os::unix::fs::symlink("/dev/loligo-nosuch", &second).unwrap();
        std::os::unix::fs::symlink("file", &disk).unwrap();
        assert_eq!(look_at(&file).unwrap(), Found::Something);
        assert_eq!(look_at(&disk).unwrap(), Found::Something);
        assert_eq!(look_at(&dir.join("nothing")).unwrap(), Found::Nothing);
        let gone = PathBuf::from("/dev/loligo-nosuch");
        assert_eq!(look_at(&first).unwrap(), Found::LinkTo(gone.clone()));
        assert!(is_no_place_for_files(&gone) && !is_no_place_for_files(&file));
        let below = look_at(&file.join("block")).unwrap_err();
        assert_eq!(below.kind(), io::ErrorKind::NotADirectory);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_link_to_a_folder_of_devices_is_no_place_for_files_either() {
        let dir = std::env::temp_dir().join(format!("loligo-devices-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let folder = dir.join("disks");
        std::os::unix::fs::symlink("/dev", &folder).unwrap();
        assert!(is_no_place_for_files(&folder.join("sdb")));
        assert!(!is_no_place_for_files(&dir.join("sdb")));
        fs::remove_dir_all(&dir).unwrap();
    }
}
