//! The folder of the monitor's data, looked at and written on a thread of its own: a disk that stalls stops no session.

use std::{
    fs, io,
    path::Path,
    sync::mpsc::{self, Receiver, Sender},
};

use anyhow::{Context, Result};
use mon::DataSpace;
use reactor::FileSystem;

/// The ledger's file in the folder.
pub(crate) const LEDGER_FILE: &str = "ledger.redb";
/// The file with the status line, for `loligo up`.
const STATUS_FILE: &str = "status";

/// The thread that looks. It ends after this is dropped, and is not waited for, as its disk may not answer.
pub(crate) struct DataFolder {
    statuses: Sender<String>,
    found: Receiver<io::Result<DataSpace>>,
    is_busy: bool,
}

impl DataFolder {
    pub(crate) fn spawn(folder: &Path) -> Result<DataFolder> {
        let (statuses, taken) = mpsc::channel();
        let (answers, found) = mpsc::channel();
        let folder = folder.to_owned();
        reactor::spawn("data_folder", None, move || work(&folder, &taken, &answers))
            .context("starting the thread that looks at the data's folder")?;
        Ok(DataFolder { statuses, found, is_busy: false })
    }

    /// Has the status written, and the space looked at; not while that is still under way since it was asked last.
    pub(crate) fn look(&mut self, status: String) {
        // Without the thread nothing is known, which the cluster does not depend on.
        if !self.is_busy {
            self.is_busy = self.statuses.send(status).is_ok();
        }
    }

    /// The space that the data takes and has left, once it was looked at. What cannot be told is as before.
    pub(crate) fn take(&mut self) -> Option<DataSpace> {
        let found = self.found.try_recv().ok()?;
        self.is_busy = false;
        found.inspect_err(|error| tracing::debug!("the space of the monitor's data: {error}")).ok()
    }
}

fn work(folder: &Path, statuses: &Receiver<String>, found: &Sender<io::Result<DataSpace>>) {
    while let Ok(status) = statuses.recv() {
        // Only a convenience: the cluster does not depend on it.
        let _ = fs::write(folder.join(STATUS_FILE), status);
        if found.send(space_of(folder)).is_err() {
            return;
        }
    }
}

/// What the data in a folder takes, and what its file system has.
pub(crate) fn space_of(folder: &Path) -> io::Result<DataSpace> {
    let FileSystem { total, free } = FileSystem::of(folder)?;
    Ok(DataSpace { total, free, used: folder.join(LEDGER_FILE).metadata()?.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until a look is over.
    fn looked(data: &mut DataFolder) -> Option<DataSpace> {
        while data.is_busy {
            if let found @ Some(_) = data.take() {
                return found;
            }
            std::thread::yield_now();
        }
        None
    }

    #[test]
    fn the_status_is_written_and_the_space_told_one_look_at_a_time() {
        let dir = std::env::temp_dir().join(format!("loligo-data-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let mut data = DataFolder::spawn(&dir).unwrap();
        data.look("one".to_owned());
        data.look("ignored".to_owned());
        assert_eq!(looked(&mut data), None, "there is no ledger");
        assert_eq!(fs::read_to_string(dir.join(STATUS_FILE)).unwrap(), "one");
        fs::write(dir.join(LEDGER_FILE), "12345").unwrap();
        data.look("two".to_owned());
        let found = looked(&mut data).unwrap();
        assert_eq!((found.used, found.total > found.free), (5, true));
        assert_eq!(fs::read_to_string(dir.join(STATUS_FILE)).unwrap(), "two");
        fs::remove_dir_all(&dir).unwrap();
    }
}
