//! Ops on an object's data and existence.

use bytes::Bytes;
use classes::{ObjectView, Stop};
use codec::{Decode, Encode, Features, Payload, Reader};
use messages::{OpCode, OpParams, OsdOp, op_flag};
use types::Errno;

use super::{OBJECT_BYTES_MAX, Output, Run};

/// `MAX_ERRNO`: a failed comparison answers with -4095 less the offset of the first difference.
const MAX_ERRNO: i32 = 4095;

/// A truncation that the client of an extent op knows of. Truncations and writes of several clients
/// pass each other on their way; the number tells which came first.
#[derive(Clone, Copy)]
struct Truncation {
    seq: u32,
    size: u64,
}

impl Truncation {
    fn of(params: &OpParams) -> Truncation {
        match (params.u32_at(24), params.u64_at(16)) {
            // What clients send that never truncate.
            (1, u64::MAX) => Truncation { seq: 0, size: 0 },
            (seq, size) => Truncation { seq, size },
        }
    }
}

fn bytes_of(pieces: &[Payload]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

impl Run<'_, '_> {
    /// Where the data ends for a reader that knows of a truncation which has not come here yet.
    fn readable_size(&self, params: &OpParams) -> u64 {
        let (truncation, size) = (Truncation::of(params), self.view.size());
        let end = params.offset().saturating_add(params.length());
        if self.view.info.truncate_seq < truncation.seq && end > truncation.size {
            size.min(truncation.size)
        } else {
            size
        }
    }

    pub(super) fn read(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let (offset, size) = (step.params.offset(), self.readable_size(&step.params));
        // Length 0 reads everything.
        let len = if step.params.length() == 0 { size } else { step.params.length() };
        let more = self.view.read_pieces(offset, len.min(size.saturating_sub(offset)))?;
        Ok(Output { length: Some(bytes_of(&more)), more, ..Output::default() })
    }

    pub(super) fn sparse_read(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        // OSDs of 16.2 refuse truncations here, and its librados cannot send any; those of 18.2 heed them.
        self.view.check_exists()?;
        let (offset, size) = (step.params.offset(), self.readable_size(&step.params));
        let len = step.params.length().min(size.saturating_sub(offset));
        let extents = self.view.extents(offset, len)?;
        let mut more = Vec::new();
        for (offset, len) in &extents {
            more.append(&mut self.view.read_pieces(*offset, *len)?);
        }
        let length = bytes_of(&more);
        let data = (extents, length as u32).to_bytes(Features::default());
        Ok(Output { data, more, length: Some(length), ..Output::default() })
    }

    pub(super) fn map_extents(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.check_exists()?;
        let extents = self.view.extents(step.params.offset(), step.params.length())?;
        Ok(extents.to_bytes(Features::default()).into())
    }

    pub(super) fn stat(&mut self) -> Result<Output, Stop> {
        let stat = self.view.stat()?.ok_or(Errno::ENOENT)?;
        Ok((stat.size, stat.mtime).to_bytes(Features::default()).into())
    }

    /// What lies beyond the end, or does not exist, compares as zeros.
    pub(super) fn cmpext(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let (offset, size) = (step.params.offset(), self.readable_size(&step.params));
        let len = step.params.length().min(size.saturating_sub(offset));
        let stored = self.view.read(offset, len)?;
        let byte = |at: usize| stored.get(at).copied().unwrap_or(0);
        match step.data.iter().enumerate().position(|(at, b)| byte(at) != *b) {
            None => Ok(Output { length: Some(len), ..Output::default() }),
            Some(at) => Err(Errno(MAX_ERRNO.saturating_add_unsigned(at as u32)).into()),
        }
    }

    pub(super) fn write(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let (offset, mut data) = (step.params.offset(), self.payload_of(step));
        if step.params.length() != data.len() as u64 {
            return Err(Errno::EINVAL.into());
        }
        let (truncation, size) = (Truncation::of(&step.params), self.view.size());
        let known = self.view.info.truncate_seq;
        if known > truncation.seq && offset.saturating_add(data.len() as u64) > size {
            // Written before a truncation that overtook it.
            data.truncate(size.saturating_sub(offset) as usize);
        }
        if truncation.seq > known {
            // The truncation is still on its way.
            if self.view.exists() {
                self.view.resize(truncation.size)?;
            }
            self.note_truncation(truncation);
        }
        let length = Some(data.len() as u64);
        self.view.put(offset, data)?;
        Ok(Output { length, ..Output::default() })
    }

    fn note_truncation(&mut self, truncation: Truncation) {
        self.view.info.truncate_seq = truncation.seq;
        self.view.info.truncate_size = truncation.size;
    }

    pub(super) fn write_full(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        if step.params.length() != step.data.len() as u64 {
            return Err(Errno::EINVAL.into());
        }
        let data = self.payload_of(step);
        self.view.put_full(data)?;
        Ok(Output::default())
    }

    pub(super) fn write_same(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let (offset, len, unit) = (step.params.offset(), step.params.length(), step.data.len() as u64);
        if len == 0 {
            return Ok(Output::default());
        }
        if unit == 0 || step.params.u64_at(16) != unit || !len.is_multiple_of(unit) {
            return Err(Errno::EINVAL.into());
        }
        self.view.put_repeated(offset, len, &step.data)?;
        Ok(Output::default())
    }

    pub(super) fn append(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        if step.params.length() != step.data.len() as u64 {
            return Err(Errno::EINVAL.into());
        }
        let (size, data) = (self.view.size(), self.payload_of(step));
        self.view.put(size, data)?;
        Ok(Output::default())
    }

    /// An object that does not exist is not made by it.
    pub(super) fn truncate(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        if !self.view.exists() {
            return Ok(Output::default());
        }
        let truncation = Truncation::of(&step.params);
        let size = if step.code == OpCode::TRIMTRUNC { truncation.size } else { step.params.offset() };
        self.view.check_range(size, step.params.length())?;
        if truncation.seq != 0 {
            if truncation.size != size {
                return Err(Errno::EINVAL.into());
            }
            if truncation.seq <= self.view.info.truncate_seq {
                return Ok(Output::default());
            }
            self.note_truncation(truncation);
        }
        self.view.truncate(size)?;
        Ok(Output::default())
    }

    pub(super) fn zero(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let (offset, len, size) = (step.params.offset(), step.params.length(), self.view.size());
        let reaches_end = self.view.exists() && offset.saturating_add(len) >= size;
        if reaches_end && offset < OBJECT_BYTES_MAX && len <= OBJECT_BYTES_MAX {
            // Such a range truncates the object, and may well reach beyond the largest one.
            self.view.zero(offset, size.saturating_sub(offset))?;
            return Ok(Output { keeps_result: offset >= size && len > 0, ..Output::default() });
        }
        self.view.zero(offset, len)?;
        Ok(Output::default())
    }

    pub(super) fn create(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.create(step.flags & op_flag::EXCL != 0)?;
        if !step.data.is_empty() {
            // A category, from the days when objects had one.
            Bytes::decode(&mut Reader::new(step.data.clone())).map_err(|_| Errno::EINVAL)?;
        }
        Ok(Output::default())
    }

    pub(super) fn delete(&mut self) -> Result<Output, Stop> {
        self.view.remove()?;
        Ok(Output::default())
    }

    /// A hint of sizes makes the object exist and is otherwise not needed here.
    pub(super) fn set_alloc_hint(&mut self) -> Result<Output, Stop> {
        self.view.create(false)?;
        Ok(Output::default())
    }

    /// Written data is on its way to the disk anyway: the op counts as a change, and changes nothing.
    pub(super) fn start_sync(&mut self) -> Result<Output, Stop> {
        if self.view.exists() {
            self.view.touch();
        }
        Ok(Output::default())
    }

    pub(super) fn is_dirty(&mut self) -> Result<Output, Stop> {
        let is_there = self.view.exists() || self.view.is_whiteout();
        Ok((is_there && !self.view.info.is_clean).to_bytes(Features::default()).into())
    }

    pub(super) fn undirty(&mut self) -> Result<Output, Stop> {
        if self.view.exists() && !self.view.info.is_clean {
            self.is_undirtied = true;
            self.view.touch();
        }
        Ok(Output::default())
    }

    pub(super) fn call(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let (method, input) = super::request::find_method(step)?;
        self.is_user_change |= method.is_write();
        let data = (method.run)(self.view, &input)?;
        let result = method.result + self.view.take_method_result();
        Ok(Output { length: Some(data.len() as u64), result, ..data.into() })
    }
}
