//! Making the stores of new OSDs. All devices are opened, locked and looked at before anything is written to one.

use std::path::Path;

use anyhow::{Context, Result, bail};
use rand::{Rng, SeedableRng, rngs::StdRng};
use reactor::Reactor;
use store::{DeviceOwner, StoreIdentity};
use thiserror::Error;
use types::{EntityName, Uuid};

use crate::{
    ceph_conf::CephConf,
    clock,
    device::Device,
    device_paths::{DevicePaths, is_no_place_for_files},
    durable, private,
    signatures::Contents,
    undo::Undo,
};

/// A device that holds something, and the operator did not say that it may go.
#[derive(Debug, Error)]
#[error("{path} holds {what}: `--force` gives it up")]
pub(crate) struct InUse {
    path: String,
    what: String,
}

/// What a new store is to be like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Size of its file if that is made.
    pub(crate) device_bytes: u64,
    pub(crate) reactors: u16,
    /// The OSD's, if it has one already; otherwise one is made.
    pub(crate) uuid: Option<Uuid>,
}

/// The stores that are being made for new OSDs. Unless they are kept, none of them is left when this is dropped.
pub(crate) struct NewStores {
    reactor: Reactor,
    /// What devices hold is given up.
    is_forced: bool,
    /// As stores of these clusters are.
    given_up: Vec<Uuid>,
    stores: Vec<(DevicePaths, Device, StoreIdentity)>,
    /// So many of them have been written to.
    begun: usize,
}

impl NewStores {
    /// None yet.
    pub(crate) fn new(is_forced: bool, given_up: Vec<Uuid>) -> Result<NewStores> {
        let reactor = Reactor::new(reactor::Config::default())?;
        Ok(NewStores { reactor, is_forced, given_up, stores: Vec::new(), begun: 0 })
    }

    /// Opens and checks the devices of one OSD. What is made for it is noted in `undo`.
    pub(crate) fn add(
        &mut self,
        conf: &CephConf,
        who: &EntityName,
        paths: DevicePaths,
        wanted: Wanted,
        undo: &mut Undo,
    ) -> Result<()> {
        let Wanted { device_bytes, reactors, uuid } = wanted;
        if !reactors.is_power_of_two() || reactors > osd::SHARDS_MAX {
            bail!("an OSD has 1, 2, 4, 8, 16 or {} reactors, not {reactors}", osd::SHARDS_MAX);
        }
        let random_uuid = || Uuid::from_random(StdRng::from_seed(clock::random_seed()).random());
        let identity = StoreIdentity {
            store_uuid: uuid.unwrap_or_else(random_uuid),
            fsid: conf.fsid(who)?,
            osd: who.id.parse().context("an OSD's id is a number")?,
            shard: 0,
            shards: reactors,
        };
        let data = conf.data(who);
        if private::make_folder(data.as_ref())? {
            undo.made(data.as_ref())?;
        }
        if let Some(folder) = paths.main.parent().filter(|folder| !is_no_place_for_files(folder)) {
            durable::make_folders(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        let mut made = |path: &Path| undo.made(path);
        let mut device = Device::create(&mut self.reactor, &paths, device_bytes, &mut made)?;
        if !device.has_room_for(identity) {
            bail!("{}: too few for a store: {:?} bytes", paths.main.display(), device.sizes());
        }
        if !self.is_forced {
            self.refuse_contents(&paths, &mut device)?;
        }
        self.stores.push((paths, device, identity));
        Ok(())
    }

    fn refuse_contents(&mut self, paths: &DevicePaths, device: &mut Device) -> Result<()> {
        let is_given_up = |found: &Contents| match found {
            Contents::Store(DeviceOwner::Osd { fsid, .. }) => self.given_up.contains(fsid),
            Contents::Store(DeviceOwner::Unknown) | Contents::Foreign(_) => false,
        };
        let found = device.contents(&mut self.reactor)?;
        let Some((role, found)) = found.into_iter().find(|(_, found)| !is_given_up(found)) else {
            return Ok(());
        };
        let path = paths.all().find(|(other, _)| *other == role).map(|(_, path)| path.display().to_string());
        let what = match found {
            Contents::Store(DeviceOwner::Osd { fsid, osd }) => {
                format!("the store of osd.{osd} of cluster {fsid}")
            }
            Contents::Store(DeviceOwner::Unknown) => {
                "a store of another version, or a damaged one".to_owned()
            }
            Contents::Foreign(what) => what.to_owned(),
        };
        Err(InUse { path: path.unwrap_or_default(), what }.into())
    }

    /// What they are, a line each.
    pub(crate) fn describe(&self) -> impl Iterator<Item = String> {
        self.stores.iter().map(|(paths, device, identity)| {
            let sizes = device.sizes();
            let devices = paths.all().filter_map(|(role, path)| {
                let size = format!("{} MiB", sizes.get(role)? >> 20);
                Some(format!("{role} device {}, {size}; ", path.display()))
            });
            let devices: String = devices.collect();
            let uuid = identity.store_uuid;
            format!("osd.{}: {devices}reactors: {}; uuid {uuid}", identity.osd, identity.shards)
        })
    }

    /// Makes them.
    pub(crate) fn format(&mut self) -> Result<()> {
        for (paths, device, identity) in &self.stores {
            self.begun += 1;
            let formatted = device.format(*identity, &mut self.reactor);
            formatted.with_context(|| format!("formatting {}", paths.main.display()))?;
        }
        Ok(())
    }

    /// All that they are for has succeeded.
    pub(crate) fn keep(mut self) {
        self.begun = 0;
    }
}

impl Drop for NewStores {
    /// Files that were made for them go anyway. A device that fails here may still hold a store, and says so when it is
    /// to have another one.
    fn drop(&mut self) {
        for (paths, device, _) in self.stores.iter_mut().take(self.begun) {
            if let Err(error) = device.unlabel(&mut self.reactor) {
                tracing::error!(device = %paths.main.display(), %error, "a store that is of no use stays there");
            }
        }
    }
}

/// As many reactors as an OSD gets by itself, on a machine with so many CPUs and OSDs: half of the CPUs are
/// for the kernel, the network and clients.
pub(crate) fn reactors_for(cpus: usize, osds: usize) -> u16 {
    let share = cpus / (2 * osds.max(1));
    let power = share.checked_ilog2().unwrap_or(0);
    1 << power.min(REACTORS_DEFAULT_MAX.ilog2())
}

/// A guess: nobody has measured on an NVMe device from how many reactors on more are of no use to it.
const REACTORS_DEFAULT_MAX: u16 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_machines_have_one_reactor_for_each_osd() {
        let found = [(2, 3), (1, 1), (4, 1), (16, 4), (64, 4), (256, 2)].map(|(c, o)| reactors_for(c, o));
        assert_eq!(found, [1, 1, 2, 2, 8, 8]);
    }
}
