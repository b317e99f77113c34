//! Files and block devices: opening, and the state of one that is open.

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::fs::FileTypeExt,
    },
    path::Path,
};

use rustix::{
    fs::{FileType, FlockOperation, Mode, OFlags, SeekFrom, fstat, ftruncate, open, seek, statvfs},
    io::Errno,
};

use crate::{FileError, FileOperation, RawFd};

/// A lock of a file that keeps other processes off it, as far as they ask for one. It is the open file's own: it lasts
/// until that is closed and its last operation has ended, even if its process is killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lock {
    /// None.
    #[default]
    None,
    /// Others may have shared ones, too.
    Shared,
    /// Nobody else has one.
    Exclusive,
}

/// How to open a file or block device; always for reading and writing.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// O_DIRECT: offsets, lengths and memory of all operations are multiples of a block.
    pub direct: bool,
    /// Of a block device: keep mounts, RAIDs and other openers that ask for this off it as long as it is open, by
    /// whatever path; fail with `ResourceBusy` if one of them has it. A lock is only of the path's own file.
    pub claim: bool,
    /// Make a regular file at least this long; a device must be. In bytes.
    pub size: Option<u64>,
    /// Take this lock, or fail with `WouldBlock` when another open file has one that excludes it.
    pub lock: Lock,
}

/// The size of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Bytes that it has.
    pub total: u64,
    /// Bytes that it has left for users other than root.
    pub free: u64,
}

impl FileSystem {
    /// The file system of `path`.
    pub fn of(path: &Path) -> io::Result<FileSystem> {
        let found = statvfs(path)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(FileSystem { total: bytes(found.f_blocks), free: bytes(found.f_bavail) })
    }
}

/// An open file.
pub(crate) struct File {
    fd: OwnedFd,
    path: String,
    pub(crate) is_device: bool,
    is_locked: bool,
}

impl File {
    pub(crate) fn open(path: &Path, options: OpenOptions) -> Result<File, FileError> {
        let name = path.display().to_string();
        let fail =
            |operation, source: io::Error| FileError { operation, path: name.clone(), offset: 0, source };
        let mut flags = OFlags::RDWR | OFlags::CLOEXEC;
        flags.set(OFlags::DIRECT, options.direct);
        // Without O_CREAT it is defined for block devices only.
        let is_device = || path.metadata().is_ok_and(|found| found.file_type().is_block_device());
        flags.set(OFlags::EXCL, options.claim && is_device());
        let fd = open(path, flags, Mode::empty()).map_err(|error| {
            let hint = "its file system has no O_DIRECT; use another one or a block device";
            match error {
                Errno::INVAL if options.direct => {
                    fail(FileOperation::Open, io::Error::new(io::ErrorKind::Unsupported, hint))
                }
                error => fail(FileOperation::Open, error.into()),
            }
        })?;
        let lock = match options.lock {
            Lock::None => None,
            Lock::Shared => Some(FlockOperation::NonBlockingLockShared),
            Lock::Exclusive => Some(FlockOperation::NonBlockingLockExclusive),
        };
        if let Some(lock) = lock {
            rustix::fs::flock(&fd, lock).map_err(|error| fail(FileOperation::Lock, error.into()))?;
        }
        let file = Self::prepare(fd, name.clone(), options);
        file.map_err(|error| fail(FileOperation::Open, error))
    }

    fn prepare(fd: OwnedFd, path: String, options: OpenOptions) -> io::Result<File> {
        let kind = FileType::from_raw_mode(fstat(&fd)?.st_mode);
        let file = File {
            fd,
            path,
            is_device: kind == FileType::BlockDevice,
            is_locked: options.lock != Lock::None,
        };
        let bytes = file.size()?;
        match options.size {
            Some(wanted) if bytes < wanted && file.is_device => {
                let text = format!("the device has {bytes} bytes, {wanted} are needed");
                return Err(io::Error::new(io::ErrorKind::StorageFull, text));
            }
            Some(wanted) if bytes < wanted => ftruncate(&file.fd, wanted)?,
            _ => {}
        }
        Ok(file)
    }

    /// Makes an exclusive lock a shared one. Another opener may come between: it has the file then, and this fails
    /// with `WouldBlock`.
    pub(crate) fn share_lock(&mut self) -> Result<(), FileError> {
        let shared = rustix::fs::flock(&self.fd, FlockOperation::NonBlockingLockShared);
        self.is_locked = shared.is_ok();
        shared.map_err(|error| self.error(FileOperation::Lock, 0, error.into()))
    }

    /// From now on the lock lasts until the last operation on the file has ended, however long that is: whoever locks
    /// it next must not find that something is still written.
    pub(crate) fn leave_locked(&mut self) {
        self.is_locked = false;
    }

    /// Bytes of the file or device.
    pub(crate) fn size(&self) -> io::Result<u64> {
        Ok(seek(&self.fd, SeekFrom::End(0))?)
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The error of an operation on this file.
    pub(crate) fn error(&self, operation: FileOperation, offset: u64, source: io::Error) -> FileError {
        FileError { operation, path: self.path.clone(), offset, source }
    }
}

impl Drop for File {
    /// Unlocks: io_uring may hold a completed request's reference to the open file for a moment
    /// longer than we do, and with it the lock.
    fn drop(&mut self) {
        if self.is_locked
            && let Err(error) = rustix::fs::flock(&self.fd, FlockOperation::Unlock)
        {
            tracing::error!(path = self.path, %error, "cannot unlock a file");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_outlasts_the_file_only_where_its_operations_may() {
        let path = std::env::temp_dir().join(format!("loligo-file-{}", std::process::id()));
        std::fs::write(&path, b"x").unwrap();
        let options = OpenOptions { lock: Lock::Exclusive, ..OpenOptions::default() };
        for is_left in [false, true] {
            let mut file = File::open(&path, options).unwrap();
            // As an operation has it that has not ended.
            let operation = file.as_fd().try_clone_to_owned().unwrap();
            if is_left {
                file.leave_locked();
            }
            drop(file);
            assert_eq!(File::open(&path, options).is_err(), is_left);
            drop(operation);
            assert!(File::open(&path, options).is_ok());
        }
        std::fs::remove_file(path).unwrap();
    }
}
