//! Files and folders for their owner alone: keys, the ledger with all of them, what clients stored. They are durable
//! once they are made.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use anyhow::{Context, Result};

use crate::durable;

const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// Makes a daemon's data folder, which only its owner enters; folders above it are made as usual. One that is there
/// stays as its operator made it: its files are their owner's anyway. False for that.
pub(crate) fn make_folder(path: &Path) -> Result<bool> {
    durable::make_folder(path, FOLDER_MODE).with_context(|| format!("making {}", path.display()))
}

/// A new file, its owner's from the beginning; its name is not durable yet.
pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// A file that is its owner's before anything is written to it; one that is there becomes so. False for that.
pub(crate) fn make_file(path: &Path) -> Result<bool> {
    let make = || match new_file(path) {
        Ok(_) => durable::sync_names(durable::folder_of(path)).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => take(path).map(|()| false),
        Err(error) => Err(error),
    };
    make().with_context(|| path.display().to_string())
}

/// The mode of creation does not reach a file that is there.
fn take(path: &Path) -> io::Result<()> {
    let found = fs::metadata(path)?;
    if found.is_file() && found.permissions().mode() & 0o777 != FILE_MODE {
        fs::set_permissions(path, Permissions::from_mode(FILE_MODE))?;
    }
    Ok(())
}

/// Writes a text behind what is in a file, which becomes its owner's.
pub(crate) fn append_secret(path: &Path, text: &str) -> Result<()> {
    let append = || -> io::Result<()> {
        let mut bytes = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        if bytes.last().is_some_and(|last| *last != b'\n') {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(text.as_bytes());
        durable::write(path, &bytes, FILE_MODE)
    };
    append().with_context(|| path.display().to_string())
}

/// Writes a file that only its owner reads.
pub(crate) fn write_secret(path: &Path, secret: impl AsRef<[u8]>) -> Result<()> {
    durable::write(path, secret.as_ref(), FILE_MODE).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_was_open_to_all_is_its_owners_once_it_is_written() {
        let dir = std::env::temp_dir().join(format!("loligo-private-{}", std::process::id()));
        assert!(make_folder(&dir.join("mon.a")).unwrap());
        assert_eq!(mode(&dir.join("mon.a")), 0o700);
        let (old, new) = (dir.join("old"), dir.join("new"));
        let text = "a longer text than what comes";
        fs::write(&old, text).unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o644)).unwrap();
        // Another user may have opened it while it was allowed.
        let [mut before, mut before_more] = [(); 2].map(|()| File::open(&old).unwrap());
        let read = |file: &mut File| {
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            text
        };
        write_secret(&old, "key").unwrap();
        assert_eq!(read(&mut before), text);
        assert_eq!((mode(&old), fs::read_to_string(&old).unwrap().as_str()), (0o600, "key"));
        append_secret(&old, "more").unwrap();
        append_secret(&new, "first").unwrap();
        assert_eq!(read(&mut before_more), text);
        assert_eq!(fs::read_to_string(&old).unwrap(), "key\nmore");
        assert_eq!(fs::read_to_string(&new).unwrap(), "first");
        write_secret(&old, "key").unwrap();
        fs::remove_file(&new).unwrap();
        assert!(make_file(&new).unwrap());
        fs::set_permissions(&old, Permissions::from_mode(0o644)).unwrap();
        assert!(!make_file(&old).unwrap());
        assert_eq!([mode(&new), mode(&old)], [0o600; 2]);
        assert_eq!(fs::read_to_string(&old).unwrap(), "key");
        make_folder(&old).unwrap_err();
        fs::remove_dir_all(&dir).unwrap();
    }
}
