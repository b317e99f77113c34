//! Files and folders that are there, and whole, after a power cut: what a cluster cannot be without, as its keys.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
};

/// What is left of it is the umask's.
const FOLDER_MODE: u32 = 0o777;

/// The folder that a file or folder is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => Path::new("/"),
    }
}

/// Has a folder keep the names in it as they are: those that were made, and those that were replaced.
pub(crate) fn sync_names(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes a folder, and those above it that are not there. False if it is there already.
pub(crate) fn make_folder(path: &Path, mode: u32) -> io::Result<bool> {
    let above = folder_of(path);
    make_folders(above)?;
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => sync_names(above).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        Err(error) => Err(error),
    }
}

/// The same with the usual rights.
pub(crate) fn make_folders(path: &Path) -> io::Result<bool> {
    if path.is_dir() { Ok(false) } else { make_folder(path, FOLDER_MODE) }
}

/// Writes a file, which keeps its old bytes until it has all new ones. It is another file under the same name: a
/// process that has the old one open sees nothing of the new one, and what others may do with the old one does not
/// count.
pub(crate) fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    replace(path, |new| write_new(new, bytes, mode))
}

/// Puts a file, which `make` makes at the path that it is given and has to make durable, in the place of what is there.
pub(crate) fn replace<E: From<io::Error>>(
    path: &Path,
    make: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    // A link stays one: what it leads to is written.
    let place = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if place.symlink_metadata().is_ok_and(|found| !found.is_file() && !found.is_symlink()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is no file").into());
    }
    let folder = folder_of(&place);
    make_folders(folder)?;
    let new = beside(&place);
    // A process of the same id may have been killed here.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let made = make(&new).and_then(|()| Ok(fs::rename(&new, &place)?));
    if made.is_err() {
        // The error that is told is the first one.
        let _ = fs::remove_file(&new);
    }
    made.and_then(|()| Ok(sync_names(folder)?))
}

/// Where this process writes what takes the place of a file.
fn beside(place: &Path) -> PathBuf {
    let mut name = OsString::from(place.file_name().unwrap_or_default());
    name.push(format!(".{}.new", process::id()));
    place.with_file_name(name)
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_file_has_all_its_new_bytes_or_the_old_ones() {
        let dir = std::env::temp_dir().join(format!("loligo-durable-{}", process::id()));
        let (file, link) = (dir.join("a/b/file"), dir.join("link"));
        write(&file, b"old", 0o600).unwrap();
        std::os::unix::fs::symlink("a/b/file", &link).unwrap();
        let mut open = File::open(&file).unwrap();
        fs::write(beside(&file), "what a process that was killed left").unwrap();
        write(&link, b"new", 0o600).unwrap();
        let mut read = String::new();
        open.read_to_string(&mut read).unwrap();
        assert_eq!((read.as_str(), fs::read_to_string(&file).unwrap().as_str()), ("old", "new"));
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(dir.join("a/b")).unwrap().count(), 1, "nothing is left beside it");
        // A rename would put a file in the place of a device.
        write(Path::new("/dev/null"), b"new", 0o600).unwrap_err();
        write(&dir.join("a"), b"new", 0o600).unwrap_err();
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_folder_is_made_with_those_above_it_once() {
        let dir = std::env::temp_dir().join(format!("loligo-folders-{}", process::id()));
        assert!(make_folder(&dir.join("a/b"), 0o700).unwrap());
        assert!(!make_folder(&dir.join("a/b"), 0o700).unwrap());
        fs::write(dir.join("a/file"), "").unwrap();
        make_folder(&dir.join("a/file"), 0o700).unwrap_err();
        make_folder(Path::new(""), 0o700).unwrap_err();
        assert_eq!([folder_of(Path::new("x")), folder_of(Path::new("/"))], [Path::new("."), Path::new("/")]);
        fs::remove_dir_all(&dir).unwrap();
    }
}
