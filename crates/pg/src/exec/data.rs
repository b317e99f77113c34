//! Ops on an object's data and existence, and class calls.

use bytes::Bytes;
use classes::{ObjectView, Stop, registry};
use codec::{Encode, Features};
use messages::{OsdOp, op_flag};
use types::Errno;

use super::{OBJECT_BYTES_MAX, Output, Run};

/// `MAX_ERRNO`: a failed comparison answers with -4095 less the offset of the first difference.
const MAX_ERRNO: i32 = 4095;

impl Run<'_, '_> {
    pub(super) fn read(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.check_exists()?;
        // Length 0 reads everything.
        let len = if step.params.length() == 0 { OBJECT_BYTES_MAX } else { step.params.length() };
        let data = self.view.read(step.params.offset(), len)?;
        Ok(Output { length: Some(data.len() as u64), data, result: 0 })
    }

    pub(super) fn sparse_read(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.check_exists()?;
        let extents = self.view.extents(step.params.offset(), step.params.length())?;
        let mut data = Vec::new();
        for (offset, len) in &extents {
            data.extend_from_slice(&self.view.read(*offset, *len)?);
        }
        let mut out = extents.to_bytes(Features::default()).to_vec();
        Bytes::from(data).encode(&mut out, Features::default());
        Ok(Bytes::from(out).into())
    }

    pub(super) fn stat(&mut self) -> Result<Output, Stop> {
        let stat = self.view.stat()?.ok_or(Errno::ENOENT)?;
        Ok((stat.size, stat.mtime).to_bytes(Features::default()).into())
    }

    pub(super) fn cmpext(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let stored = self.view.read(step.params.offset(), step.params.length())?;
        // What lies beyond the end compares as zeros.
        let byte = |at: usize| stored.get(at).copied().unwrap_or(0);
        match step.data.iter().enumerate().position(|(at, b)| byte(at) != *b) {
            None => Ok(Output::default()),
            Some(at) => Err(Errno(MAX_ERRNO + at as i32).into()),
        }
    }

    pub(super) fn write(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        if step.params.length() != step.data.len() as u64 {
            return Err(Errno::EINVAL.into());
        }
        self.view.write(step.params.offset(), step.data.clone())?;
        Ok(Output::default())
    }

    pub(super) fn write_full(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        if step.params.length() != step.data.len() as u64 {
            return Err(Errno::EINVAL.into());
        }
        self.view.write_full(step.data.clone())?;
        Ok(Output::default())
    }

    pub(super) fn write_same(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let (len, unit) = (step.params.length(), step.data.len() as u64);
        if unit == 0 || step.params.u64_at(16) != unit || !len.is_multiple_of(unit) || len > OBJECT_BYTES_MAX
        {
            return Err(Errno::EINVAL.into());
        }
        let data = step.data.repeat((len / unit) as usize);
        self.view.write(step.params.offset(), Bytes::from(data))?;
        Ok(Output::default())
    }

    pub(super) fn append(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let end = self.view.size();
        self.view.write(end, step.data.clone())?;
        Ok(Output::default())
    }

    pub(super) fn truncate(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.check_exists()?;
        self.view.truncate(step.params.offset())?;
        Ok(Output::default())
    }

    pub(super) fn zero(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.zero(step.params.offset(), step.params.length())?;
        Ok(Output::default())
    }

    pub(super) fn create(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        self.view.create(step.flags & op_flag::EXCL != 0)?;
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

    pub(super) fn call(&mut self, step: &OsdOp) -> Result<Output, Stop> {
        let (class_len, method_len) = (usize::from(step.params.u8_at(0)), usize::from(step.params.u8_at(1)));
        if step.data.len() < class_len + method_len {
            return Err(Errno::EINVAL.into());
        }
        let class = step.data.slice(..class_len);
        let name = step.data.slice(class_len..class_len + method_len);
        let Some(method) = registry::find(&class, &name) else {
            let errno = if registry::class_exists(&class) { Errno::EOPNOTSUPP } else { Errno::EPERM };
            return Err(errno.into());
        };
        if method.is_write() && !self.view.is_head() {
            return Err(Errno::EINVAL.into());
        }
        let input = step.data.slice(class_len + method_len..);
        Ok((method.run)(self.view, &input)?.into())
    }
}
