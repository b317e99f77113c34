//! What was made on the way to something that then failed goes again, so that it can be tried once more.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::unfinished::Unfinished;

/// A file or folder that was made, told from others that come to its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) path: PathBuf,
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl Made {
    /// What is at a path.
    pub(crate) fn at(path: &Path) -> io::Result<Made> {
        let found = path.symlink_metadata()?;
        Ok(Made { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }

    /// Removes it if it is still there.
    pub(crate) fn remove(&self) {
        if Made::at(&self.path).is_ok_and(|found| found == *self) {
            let path = &self.path;
            // A folder may hold what others put there: then it stays.
            let _ = if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
        }
    }
}

/// Files and folders that are removed when it is dropped, the last one first.
#[derive(Default)]
pub(crate) struct Undo {
    made: Vec<Made>,
    record: Option<Unfinished>,
}

impl Undo {
    /// To be called once this process has made a file or folder. What was there before stays.
    pub(crate) fn made(&mut self, path: &Path) -> Result<()> {
        Made::at(path).and_then(|made| self.note(made)).with_context(|| path.display().to_string())
    }

    fn note(&mut self, made: Made) -> io::Result<()> {
        self.made.push(made.clone());
        self.record.as_mut().map_or(Ok(()), |record| record.note(&made))
    }

    /// To be called once this process has made a file that is going to be put in the place of another, before it is.
    pub(crate) fn made_for(&mut self, path: &Path, place: &Path) -> Result<()> {
        let note = |undo: &mut Undo| -> io::Result<()> {
            let made = Made::at(path)?;
            undo.note(Made { path: place.to_owned(), ..made.clone() })?;
            undo.note(made)
        };
        note(self).with_context(|| path.display().to_string())
    }

    /// What is made from here on is recorded, for the case that this process is killed.
    pub(crate) fn record(&mut self, record: Unfinished) -> Result<()> {
        if record.is_new() {
            self.made(record.path())?;
        }
        self.record = Some(record);
        Ok(())
    }

    /// To be called before what may be used once it is there: if this process is killed, nothing goes from here on.
    pub(crate) fn note_whole(&mut self) -> Result<()> {
        let Some(record) = &mut self.record else { return Ok(()) };
        record.note_whole().with_context(|| record.path().display().to_string())
    }

    /// All has succeeded.
    pub(crate) fn keep(mut self) {
        self.made.clear();
        if let Some(record) = self.record.take() {
            record.end();
        }
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        self.made.iter().rev().for_each(Made::remove);
        if let Some(record) = &mut self.record {
            record.note_undone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_goes() {
        let dir = std::env::temp_dir().join(format!("loligo-undo-{}", std::process::id()));
        let (folder, other) = (dir.join("folder"), dir.join("other"));
        let make = || {
            let mut undo = Undo::default();
            fs::create_dir_all(&folder).unwrap();
            undo.made(&folder).unwrap();
            for path in [folder.join("new"), other.clone()] {
                fs::write(&path, "").unwrap();
                undo.made(&path).unwrap();
            }
            // Another process puts a file of its own in the place of one.
            fs::write(dir.join("theirs"), "theirs").unwrap();
            fs::rename(dir.join("theirs"), &other).unwrap();
            undo
        };
        drop(make());
        assert!(!folder.exists());
        assert_eq!(fs::read_to_string(&other).unwrap(), "theirs");
        make().keep();
        assert!(folder.join("new").exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
