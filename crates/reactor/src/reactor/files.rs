//! The reactor's files.

use std::{io, path::Path};

use bytes::Bytes;
use rustix::io::Errno;

use crate::{
    Event, FileError, FileId, FileOperation, OpenOptions, Reactor,
    backend::{Completion, FileRequest, Owner, Request, batch::Batch},
    file::File,
};

impl Reactor {
    /// Opens a file or block device, which stays open (and locked) as long as the reactor lives; waits for the file
    /// system.
    pub fn open(&mut self, path: impl AsRef<Path>, options: OpenOptions) -> Result<FileId, FileError> {
        let file = File::open(path.as_ref(), options)?;
        let added = self.backend.add_file(file.as_fd());
        added.map_err(|error| file.error(FileOperation::Open, 0, error))?;
        Ok(FileId(self.files.insert(file)))
    }

    /// Bytes of the file or device.
    pub fn size(&self, file: FileId) -> io::Result<u64> {
        self.files.get(file.0).ok_or(io::ErrorKind::NotFound)?.size()
    }

    /// Makes the file's exclusive lock a shared one, so that it may be opened again with one.
    pub fn share_lock(&mut self, file: FileId) -> Result<(), FileError> {
        self.files.get_mut(file.0).map_or(Ok(()), File::share_lock)
    }

    /// True of a block device, false of a regular file.
    pub fn is_block_device(&self, file: FileId) -> bool {
        self.files.get(file.0).is_some_and(|file| file.is_device)
    }

    /// Reads exactly `bytes` at `offset` into page-aligned memory.
    pub fn read(&mut self, file: FileId, token: u64, offset: u64, bytes: usize) {
        let buffer = self.pool.take(bytes);
        self.submit_file(file, token, FileRequest::Read { offset, buffer });
    }

    /// Writes `buffers` one after the other at `offset`. With `durable` they are on stable storage
    /// when that ends well (RWF_DSYNC); earlier writes are not. With O_DIRECT each buffer's address
    /// and length must be multiples of a block, as those of `codec::AlignedBuf` are.
    pub fn write(&mut self, file: FileId, token: u64, offset: u64, buffers: Vec<Bytes>, durable: bool) {
        let batch = Batch::new(buffers);
        self.submit_file(file, token, FileRequest::Write { offset, batch, durable });
    }

    /// Makes all writes that have ended durable (fdatasync).
    pub fn sync(&mut self, file: FileId, token: u64) {
        self.submit_file(file, token, FileRequest::Sync);
    }

    /// Gives space back; it reads as zeros afterwards, except on a device that can only discard,
    /// where it reads as anything. An error of kind `Unsupported` means that nothing was done.
    pub fn discard(&mut self, file: FileId, token: u64, offset: u64, bytes: u64) {
        self.submit_file(file, token, FileRequest::Discard { offset, bytes });
    }

    fn submit_file(&mut self, file: FileId, token: u64, request: FileRequest) {
        let Some(open) = self.files.get(file.0) else {
            tracing::error!(?file, token, "an operation on a file of another reactor");
            return;
        };
        self.backend.submit_file(Owner::File { file, token }, open.raw_fd(), request);
    }

    /// A request went as far as it could: send the rest again, or report.
    pub(super) fn on_file(
        &mut self,
        file: FileId,
        token: u64,
        completion: Completion,
        events: &mut Vec<Event>,
    ) {
        let Some(Request::File { file: fd, request }) = completion.request else { return };
        let Some(open) = self.files.get(file.0) else { return };
        let is_retried = completion.result.is_err_and(|error| error == Errno::INTR || error == Errno::AGAIN);
        if is_retried || (completion.result.is_ok_and(|count| count > 0) && !is_whole(&request)) {
            self.backend.submit_file(Owner::File { file, token }, fd, request);
            return;
        }
        let mut result = completion.result.map(drop).map_err(io::Error::from);
        if let (FileRequest::Discard { offset, bytes }, Err(Errno::OPNOTSUPP)) = (&request, completion.result)
            && open.is_device
        {
            let added = self.backend.add_to_threads(open.as_fd());
            // The device has not failed.
            result = added.map_err(|error| io::Error::new(io::ErrorKind::Unsupported, error));
            if result.is_ok() {
                let request = FileRequest::DiscardAny { offset: *offset, bytes: *bytes };
                return self.backend.submit_file(completion.owner, fd, request);
            }
        }
        let result = finish(open, request, result);
        events.push(Event::FileDone { file, token, result });
    }
}

/// True when nothing is left to be transferred.
fn is_whole(request: &FileRequest) -> bool {
    match request {
        FileRequest::Read { buffer, .. } => buffer.is_full(),
        FileRequest::Write { batch, .. } => batch.bytes() == 0,
        FileRequest::Sync | FileRequest::Discard { .. } | FileRequest::DiscardAny { .. } => true,
    }
}

/// The result that the consumer gets.
fn finish(file: &File, request: FileRequest, result: io::Result<()>) -> Result<Bytes, FileError> {
    let whole = is_whole(&request);
    let (operation, at, short) = match &request {
        FileRequest::Read { offset, buffer } => {
            (FileOperation::Read, offset + buffer.filled() as u64, io::ErrorKind::UnexpectedEof)
        }
        FileRequest::Write { offset, .. } => (FileOperation::Write, *offset, io::ErrorKind::WriteZero),
        FileRequest::Discard { offset, .. } | FileRequest::DiscardAny { offset, .. } => {
            (FileOperation::Discard, *offset, io::ErrorKind::Other)
        }
        FileRequest::Sync => (FileOperation::Sync, 0, io::ErrorKind::Other),
    };
    let result = match result {
        Ok(()) if !whole => Err(short.into()),
        result => result,
    };
    match (result, request) {
        (Err(error), _) => Err(file.error(operation, at, error)),
        (Ok(()), FileRequest::Read { buffer, .. }) => Ok(buffer.freeze()),
        (Ok(()), _) => Ok(Bytes::new()),
    }
}
