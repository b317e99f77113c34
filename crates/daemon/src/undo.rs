//! What was made on the way to something that then failed goes again, so that it can be tried once more.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Files and folders that are removed when it is dropped, the last one first.
#[derive(Default)]
pub(crate) struct Undo(Vec<PathBuf>);

impl Undo {
    /// To be called before a file or folder is made. What is there already stays.
    pub(crate) fn note(&mut self, path: &Path) {
        if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            self.0.push(path.to_owned());
        }
    }

    /// All has succeeded.
    pub(crate) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
            // It may not have been made, and a folder may hold what others put there: then it stays.
            let _ = if is_folder { fs::remove_dir(path) } else { fs::remove_file(path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_not_there_goes() {
        let dir = std::env::temp_dir().join(format!("loligo-undo-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (old, folder) = (dir.join("old"), dir.join("folder"));
        fs::write(&old, "").unwrap();
        let make = |undo: &mut Undo| {
            for path in [&old, &folder, &folder.join("new"), &dir.join("never")] {
                undo.note(path);
            }
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("new"), "").unwrap();
        };
        let mut undo = Undo::default();
        make(&mut undo);
        drop(undo);
        assert!(old.exists() && !folder.exists());
        let mut undo = Undo::default();
        make(&mut undo);
        undo.keep();
        assert!(folder.join("new").exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
