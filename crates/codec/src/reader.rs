//! A cursor over received bytes.

use bytes::Bytes;
use thiserror::Error;

/// Why bytes could not be decoded. Never a panic: bytes come from the network and from disks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The input ended inside a value.
    #[error("input ends early: {needed} bytes needed, {available} there")]
    Truncated {
        /// Bytes that the value still needed.
        needed: usize,
        /// Bytes that were left.
        available: usize,
    },
    /// The writer says that our version is too old to understand the struct.
    #[error("{what}: compat version {compat} is newer than ours, {ours}")]
    Incompatible {
        /// The struct's name.
        what: &'static str,
        /// The compat version of the input.
        compat: u8,
        /// The version that this code writes.
        ours: u8,
    },
    /// A field holds a value that the format does not allow.
    #[error("{what}: value {value} is not allowed")]
    Invalid {
        /// The field.
        what: &'static str,
        /// The value found.
        value: u64,
    },
    /// Bytes were left after a value that should have filled the input.
    #[error("{extra} bytes follow the value")]
    TrailingBytes {
        /// How many.
        extra: usize,
    },
    /// A string is not UTF-8 where the type demands it.
    #[error("string is not UTF-8")]
    NotUtf8,
}

/// Reads values one after another from a reference-counted buffer.
#[derive(Clone, Debug)]
pub struct Reader {
    bytes: Bytes,
    /// What is unread begins here,
    at: usize,
    /// and ends here, at most at the bytes' end.
    end: usize,
}

impl Reader {
    /// A reader at the front of `bytes`.
    pub fn new(bytes: Bytes) -> Self {
        let end = bytes.len();
        Reader { bytes, at: 0, end }
    }

    /// Bytes not read yet.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.end - self.at
    }

    /// The unread bytes, without taking them.
    #[inline]
    pub fn peek(&self) -> &[u8] {
        &self.bytes[self.at..self.end]
    }

    /// Takes `count` bytes by reference count.
    pub fn take(&mut self, count: usize) -> Result<Bytes, DecodeError> {
        let at = self.skip(count)?;
        Ok(self.bytes.slice(at..at + count))
    }

    /// Takes `count` bytes as a copy in memory of their own.
    pub fn copy(&mut self, count: usize) -> Result<Bytes, DecodeError> {
        let at = self.skip(count)?;
        Ok(Bytes::copy_from_slice(&self.bytes[at..at + count]))
    }

    /// Passes over `count` bytes; where they begin.
    #[inline]
    fn skip(&mut self, count: usize) -> Result<usize, DecodeError> {
        if count > self.remaining() {
            return Err(DecodeError::Truncated { needed: count, available: self.remaining() });
        }
        self.at += count;
        Ok(self.at - count)
    }

    /// Takes all that is left.
    pub fn take_rest(&mut self) -> Bytes {
        let rest = self.bytes.slice(self.at..self.end);
        self.at = self.end;
        rest
    }

    /// Takes `N` bytes by value.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some(head) = self.peek().first_chunk::<N>() else {
            return Err(DecodeError::Truncated { needed: N, available: self.remaining() });
        };
        let out = *head;
        self.at += N;
        Ok(out)
    }

    /// Has `body` read from the next `count` bytes and from no more; what it leaves of them is skipped.
    pub fn within<T>(
        &mut self,
        count: usize,
        body: impl FnOnce(&mut Reader) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let from = self.skip(count)?;
        let (after, end) = (self.at, self.end);
        (self.at, self.end) = (from, after);
        let result = body(self);
        (self.at, self.end) = (after, end);
        result
    }

    /// Reads a u32 element count and refuses one that the rest of the input cannot hold, given that
    /// an element takes at least `element_bytes_min` bytes.
    #[inline]
    pub fn count(&mut self, element_bytes_min: usize) -> Result<usize, DecodeError> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        let needed = count.saturating_mul(element_bytes_min.max(1));
        if needed > self.remaining() {
            return Err(DecodeError::Truncated { needed, available: self.remaining() });
        }
        Ok(count)
    }
}
