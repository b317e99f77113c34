//! Whether a store is that of the OSD that ceph.conf names it for. Devices change their names and disks their
//! machines; an OSD with another's objects, or another cluster's, would serve and replicate them as its own.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use store::StoreIdentity;
use thiserror::Error;
use types::{EntityName, Uuid};

use crate::ceph_conf::CephConf;

/// A store of another OSD, or of another cluster.
#[derive(Debug, PartialEq, Eq, Error)]
#[error(
    "{path} is the store of osd.{} of cluster {}, not of {who} of cluster {}",
    found.1, found.0, fsid, path = path.display()
)]
pub(crate) struct WrongStore {
    path: PathBuf,
    found: (Uuid, u32),
    who: EntityName,
    fsid: Uuid,
}

/// An error unless the store at `path` is that of `who` in the cluster of `conf`.
pub(crate) fn check(identity: &StoreIdentity, conf: &CephConf, who: &EntityName, path: &Path) -> Result<()> {
    let fsid = conf.fsid(who)?;
    let osd: u32 = who.id.parse().context("an OSD's id is a number")?;
    let found = (identity.fsid, identity.osd);
    if found != (fsid, osd) {
        return Err(WrongStore { path: path.to_owned(), found, who: who.clone(), fsid }.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use types::EntityType;

    use super::*;

    #[test]
    fn a_store_serves_its_own_osd_in_its_own_cluster() {
        let text = "[global]\nfsid = 02020202-0202-0202-0202-020202020202\n";
        let conf = CephConf::parse(text).unwrap();
        let who = EntityName::new(EntityType::OSD, "7");
        let check = |fsid, osd| {
            let identity =
                StoreIdentity { store_uuid: Uuid([1; 16]), fsid: Uuid([fsid; 16]), osd, shard: 0, shards: 1 };
            check(&identity, &conf, &who, Path::new("block"))
        };
        check(2, 7).unwrap();
        assert!(check(3, 7).unwrap_err().is::<WrongStore>());
        let words =
            "block is the store of osd.8 of cluster 02020202-0202-0202-0202-020202020202, not of osd.7 of";
        assert!(check(2, 8).unwrap_err().to_string().starts_with(words));
    }
}
