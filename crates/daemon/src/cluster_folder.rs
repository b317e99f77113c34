//! What is in the folder of `loligo up`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use thiserror::Error;

/// A folder that holds a part of a cluster.
#[derive(Debug, Error)]
#[error(
    "{dir} has no ceph.conf, but {found} of a cluster: put its ceph.conf back, or begin in an empty folder",
    dir = dir.display(),
    found = found.display()
)]
pub(crate) struct PartialClusterError {
    dir: PathBuf,
    found: PathBuf,
}

/// Ids of the OSDs in the folder, in order: each has a folder of its own, as Ceph names it.
pub(crate) fn osds(dir: &Path) -> Result<Vec<u32>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix("osd.")?.parse::<u32>().ok());
        // `osd.+1` and `osd.01` are numbers, but no OSD's.
        let own = |id: &u32| name.to_str() == Some(&format!("osd.{id}"));
        ids.extend(id.filter(own).filter(|_| entry.path().is_dir()));
    }
    ids.sort_unstable();
    Ok(ids)
}

/// A folder that has a cluster's keys or ledger but no ceph.conf has lost it: nothing of it is replaced. Folders of
/// more OSDs than a new cluster is to have would be taken for its own.
pub(crate) fn refuse_partial_cluster(dir: &Path, osd_count: u32) -> Result<()> {
    let of_osd = |osd: u32| {
        let folder = dir.join(format!("osd.{osd}"));
        if osd < osd_count { folder.join("keyring") } else { folder }
    };
    let of_osds = osds(dir)?.into_iter().map(of_osd);
    let others = ["mon.a/ledger.redb", "mon.a/keyring", "keyring"].map(|name| dir.join(name));
    match others.into_iter().chain(of_osds).find(|path| path.exists()) {
        Some(found) => Err(PartialClusterError { dir: dir.to_owned(), found }.into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn osds_have_folders_with_numbers() {
        let dir = std::env::temp_dir().join(format!("loligo-folder-{}", std::process::id()));
        for name in
            ["osd.10", "osd.9", "osd.0", "osd.old", "osd.01", "osd.+1", "osd.", "osd.4294967296", "mon.a"]
        {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        fs::write(dir.join("osd.3"), "").unwrap();
        std::os::unix::fs::symlink("osd.10", dir.join("osd.4")).unwrap();
        assert_eq!(osds(&dir).unwrap(), [0, 4, 9, 10]);
        fs::remove_dir_all(&dir).unwrap();
    }
}
