//! Files and folders for their owner alone: keys, the ledger with all of them, what clients stored.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use anyhow::{Context, Result};

const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// Makes a daemon's data folder, which only its owner enters; folders above it are made as usual. One that is there
/// stays as its operator made it: its files are their owner's anyway.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    if let Some(above) = path.parent() {
        fs::create_dir_all(above).with_context(|| format!("making {}", above.display()))?;
    }
    match DirBuilder::new().mode(FOLDER_MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made.with_context(|| format!("making {}", path.display())),
    }
}

/// Opens a file for writing, made if it is not there. The mode of creation does not reach one that is.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(FILE_MODE).open(path)?;
    let found = file.metadata()?;
    if found.is_file() && found.permissions().mode() & 0o777 != FILE_MODE {
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// A file that is its owner's before anything is written to it; one that is there becomes so.
pub(crate) fn make_file(path: &Path) -> Result<()> {
    open(path).map(drop).with_context(|| path.display().to_string())
}

/// Writes a text behind what is in a file, which becomes its owner's.
pub(crate) fn append_secret(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let append = || -> io::Result<()> {
        open(path)?;
        let is_line_open = fs::read(path)?.last().is_some_and(|last| *last != b'\n');
        let mut file = OpenOptions::new().append(true).open(path)?;
        file.write_all(format!("{}{text}", if is_line_open { "\n" } else { "" }).as_bytes())
    };
    append().with_context(|| path.display().to_string())
}

/// Writes a file that only its owner reads.
pub(crate) fn write_secret(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let write = || -> io::Result<()> {
        let mut file = open(path)?;
        file.set_len(0)?;
        file.write_all(text.as_bytes())
    };
    write().with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_was_open_to_all_is_its_owners_once_it_is_written() {
        let dir = std::env::temp_dir().join(format!("loligo-private-{}", std::process::id()));
        make_folder(&dir.join("mon.a")).unwrap();
        assert_eq!(mode(&dir.join("mon.a")), 0o700);
        let (old, new) = (dir.join("old"), dir.join("new"));
        fs::write(&old, "a longer text than what comes").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o644)).unwrap();
        write_secret(&old, "key").unwrap();
        assert_eq!((mode(&old), fs::read_to_string(&old).unwrap().as_str()), (0o600, "key"));
        append_secret(&old, "more").unwrap();
        append_secret(&new, "first").unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "key\nmore");
        assert_eq!(fs::read_to_string(&new).unwrap(), "first");
        write_secret(&old, "key").unwrap();
        fs::remove_file(&new).unwrap();
        make_file(&new).unwrap();
        make_file(&old).unwrap();
        assert_eq!((mode(&new), fs::read_to_string(&old).unwrap().as_str()), (0o600, "key"));
        make_folder(&old).unwrap_err();
        fs::remove_dir_all(&dir).unwrap();
    }
}
