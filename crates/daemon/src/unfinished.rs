//! The record of a cluster that is being made, in its folder. It keeps other processes from making one there at the
//! same time. A process that is killed leaves it: by it the next one knows what it may remove, and whose the stores on
//! the devices are.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Write},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use types::Uuid;

use crate::{private, undo::Made};

const NAME: &str = "unfinished";

/// Of an honest record; a longer one is none.
const BYTES_MAX: u64 = 16 << 20;

/// A line by itself: all was made, and may be in use.
const WHOLE: &[u8] = b"whole";

/// The record, locked as long as it is open. A line of it is `fsid UUID`, `made DEVICE INODE PATH`, or [`WHOLE`].
pub(crate) struct Unfinished {
    file: File,
    path: PathBuf,
    is_new: bool,
    /// The clusters that this process, and those before it, began to make.
    fsids: Vec<Uuid>,
}

impl Unfinished {
    /// Begins to make a cluster in a folder. What is left there of one that was not finished goes.
    pub(crate) fn begin(dir: &Path, fsid: Uuid) -> Result<Unfinished> {
        let path = dir.join(NAME);
        let is_new = private::make_file(&path)?;
        let mut file = File::options().read(true).append(true).open(&path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => bail!("another process makes a cluster in {}", dir.display()),
            Err(TryLockError::Error(error)) => return Err(error).with_context(|| path.display().to_string()),
            Ok(()) => {}
        }
        // One that has just finished has removed it.
        if !fs::metadata(&path).is_ok_and(|found| found.ino() == file.metadata().map_or(0, |own| own.ino())) {
            bail!("another process has just made a cluster in {}", dir.display());
        }
        let mut bytes = Vec::new();
        (&mut file).take(BYTES_MAX).read_to_end(&mut bytes)?;
        if bytes.split(|byte| *byte == b'\n').any(|line| line == WHOLE) {
            bail!(
                "the cluster in {} was made, but its ceph.conf is not there; to give the cluster up, remove {}",
                dir.display(),
                path.display()
            );
        }
        let (made, mut fsids) = parse(&bytes);
        made.iter().rev().for_each(Made::remove);
        fsids.push(fsid);
        let mut record = Unfinished { file, path, is_new, fsids };
        // The last line may be the part of one that was written before a power cut.
        record.append(format!("\nfsid {fsid}\n").as_bytes())?;
        Ok(record)
    }

    /// Forgets a record where the cluster is whole: the process that made it was killed after that.
    pub(crate) fn forget(dir: &Path) {
        // It may not be there, and is in nobody's way.
        let _ = fs::remove_file(dir.join(NAME));
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// No other process has left it.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// The clusters whose stores may be replaced, as they never were whole.
    pub(crate) fn fsids(&self) -> &[Uuid] {
        &self.fsids
    }

    /// Records what was made.
    pub(crate) fn note(&mut self, made: &Made) -> io::Result<()> {
        let mut line = format!("made {} {} ", made.device, made.inode).into_bytes();
        line.extend_from_slice(made.path.as_os_str().as_bytes());
        line.push(b'\n');
        self.append(&line)
    }

    /// Records that nothing of it may be removed any more.
    pub(crate) fn note_whole(&mut self) -> io::Result<()> {
        self.append(&[WHOLE, b"\n"].concat())
    }

    /// All that was made is gone again: what is left to be known is whose the stores on the devices are.
    pub(crate) fn note_undone(&mut self) {
        let fsids: String = self.fsids.iter().map(|fsid| format!("fsid {fsid}\n")).collect();
        if let Err(error) = self.file.set_len(0).and_then(|()| self.append(fsids.as_bytes())) {
            tracing::warn!(%error, "{} cannot be brought up to date", self.path.display());
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.sync_data()
    }

    /// The cluster is whole.
    pub(crate) fn end(self) {
        // One that stays is forgotten at the cluster's next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// What was made, and of which clusters. Lines that make no sense were not written to their ends.
fn parse(record: &[u8]) -> (Vec<Made>, Vec<Uuid>) {
    let (mut made, mut fsids) = (Vec::new(), Vec::new());
    for line in record.split(|byte| *byte == b'\n') {
        made.extend(parse_made(line));
        let fsid: Option<Uuid> =
            line.strip_prefix(b"fsid ").and_then(|text| str::from_utf8(text).ok()?.parse().ok());
        fsids.extend(fsid);
    }
    (made, fsids)
}

fn parse_made(line: &[u8]) -> Option<Made> {
    let mut words = line.strip_prefix(b"made ")?.splitn(3, |byte| *byte == b' ');
    let mut number = || str::from_utf8(words.next()?).ok()?.parse().ok();
    let (device, inode) = (number()?, number()?);
    let path = std::ffi::OsString::from_vec(words.next()?.to_owned()).into();
    Some(Made { path, device, inode })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_process_removes_what_a_killed_one_made_and_nothing_else() {
        let dir = std::env::temp_dir().join(format!("loligo-unfinished-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (folder, old, replaced) = (dir.join("a folder"), dir.join("a folder/old"), dir.join("replaced"));
        let [first, second] = [1, 2].map(|byte| Uuid([byte; 16]));
        let mut record = Unfinished::begin(&dir, first).unwrap();
        assert!(record.is_new() && record.fsids() == [first]);
        let error = Unfinished::begin(&dir, second).err().unwrap();
        assert!(error.to_string().starts_with("another process makes a cluster in"), "{error:#}");
        fs::create_dir(&folder).unwrap();
        record.note(&Made::at(&folder).unwrap()).unwrap();
        for path in [&old, &replaced] {
            fs::write(path, "").unwrap();
            record.note(&Made::at(path).unwrap()).unwrap();
        }
        record.append(b"made 1").unwrap();
        // The process is killed, and its operator puts something there.
        drop(record);
        fs::write(dir.join("theirs"), "theirs").unwrap();
        fs::rename(dir.join("theirs"), &replaced).unwrap();
        let record = Unfinished::begin(&dir, second).unwrap();
        assert!(!record.is_new() && record.fsids() == [first, second]);
        assert!(!folder.exists());
        assert_eq!(fs::read_to_string(&replaced).unwrap(), "theirs");
        record.end();
        let mut record = Unfinished::begin(&dir, first).unwrap();
        assert!(record.is_new());
        let kept = dir.join("kept");
        fs::write(&kept, "in use").unwrap();
        record.note(&Made::at(&kept).unwrap()).unwrap();
        record.note_whole().unwrap();
        record.note_undone();
        drop(record);
        let mut record = Unfinished::begin(&dir, second).unwrap();
        assert_eq!(record.fsids(), [first, second]);
        record.note(&Made::at(&kept).unwrap()).unwrap();
        record.note_whole().unwrap();
        // The process is killed, the cluster used, and its ceph.conf lost.
        drop(record);
        let error = Unfinished::begin(&dir, second).err().unwrap();
        assert!(error.to_string().contains("its ceph.conf is not there"), "{error:#}");
        assert!(kept.exists());
        Unfinished::forget(&dir);
        assert!(Unfinished::begin(&dir, second).unwrap().is_new());
        fs::remove_dir_all(&dir).unwrap();
    }
}
