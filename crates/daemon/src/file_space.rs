//! Whether file systems have room for the files that new stores are made of. Such files are sparse: one that is larger
//! than its file system fails writes later on, with EIO, which ends its OSD.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use reactor::FileSystem;
use thiserror::Error;

use crate::{
    device::file_bytes,
    device_paths::{DevicePaths, Found, is_no_place_for_files, look_at},
};

/// A file system with less room than the new files may take.
#[derive(Debug, PartialEq, Eq, Error)]
#[error(
    "{} has {} MiB free, the new files may grow to {} MiB: `--size` makes smaller ones",
    folder.display(), free >> 20, wanted >> 20
)]
pub(crate) struct Shortage {
    folder: PathBuf,
    free: u64,
    wanted: u64,
}

/// The first file system that lacks space for the stores' files that are to be made.
pub(crate) fn shortage<'a>(
    stores: impl IntoIterator<Item = &'a DevicePaths>,
    main_bytes: u64,
) -> Result<Option<Shortage>> {
    let mut wanted: BTreeMap<u64, (PathBuf, u64)> = BTreeMap::new();
    for (role, path) in stores.into_iter().flat_map(DevicePaths::all) {
        let place = match look_at(path).with_context(|| path.display().to_string())? {
            Found::Something => continue,
            Found::LinkTo(target) => target,
            Found::Nothing => path.to_owned(),
        };
        // Where a device is missing no file is made.
        if is_no_place_for_files(&place) {
            continue;
        }
        let (folder, file_system) = existing_folder(&place)?;
        let (_, bytes) = wanted.entry(file_system).or_insert((folder, 0));
        *bytes = bytes.saturating_add(file_bytes(role, main_bytes));
    }
    for (folder, wanted) in wanted.into_values() {
        let free = FileSystem::of(&folder).with_context(|| folder.display().to_string())?.free;
        if wanted > free {
            return Ok(Some(Shortage { folder, free, wanted }));
        }
    }
    Ok(None)
}

/// The lowest folder above a path that is there already, and its file system.
fn existing_folder(path: &Path) -> Result<(PathBuf, u64)> {
    let path = std::path::absolute(path)?;
    for folder in path.ancestors().skip(1) {
        match fs::metadata(folder) {
            Ok(found) => return Ok((folder.to_owned(), found.dev())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| folder.display().to_string()),
        }
    }
    anyhow::bail!("{} is in no folder", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_there_count_no_more_and_others_together() {
        let dir = std::env::temp_dir().join(format!("loligo-space-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let store = |name: &str| DevicePaths { main: dir.join(name), journal: None, index: None };
        let (one, two) = (store("new/one"), store("two"));
        let free = FileSystem::of(&dir).unwrap().free;
        let bytes = free / 2 + (free / 4);
        assert_eq!(shortage([&one], bytes).unwrap(), None);
        let found = shortage([&one, &two], bytes).unwrap().unwrap();
        assert_eq!((&found.folder, found.wanted), (&dir, 2 * bytes));
        fs::write(dir.join("two"), "").unwrap();
        assert_eq!(shortage([&one, &two], bytes).unwrap(), None);
        assert!(shortage([&one], u64::MAX).unwrap().is_some());
        fs::remove_dir_all(&dir).unwrap();
    }
}
