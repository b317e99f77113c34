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
    rest: Bytes,
}

impl Reader {
    /// A reader at the front of `bytes`.
    pub fn new(bytes: Bytes) -> Self {
        Reader { rest: bytes }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The unread bytes, without taking them.
    pub fn peek(&self) -> &[u8] {
        &self.rest
    }

    /// Takes `count` bytes by reference count.
    pub fn take(&mut self, count: usize) -> Result<Bytes, DecodeError> {
        if count > self.rest.len() {
            return Err(DecodeError::Truncated { needed: count, available: self.rest.len() });
        }
        Ok(self.rest.split_to(count))
    }

    /// Takes all that is left.
    pub fn take_rest(&mut self) -> Bytes {
        std::mem::take(&mut self.rest)
    }

    /// Takes `N` bytes by value.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some(head) = self.rest.first_chunk::<N>() else {
            return Err(DecodeError::Truncated { needed: N, available: self.rest.len() });
        };
        let out = *head;
        bytes::Buf::advance(&mut self.rest, N);
        Ok(out)
    }

    /// Reads a u32 element count and refuses one that the rest of the input cannot hold, given that
    /// an element takes at least `element_bytes_min` bytes.
    pub fn count(&mut self, element_bytes_min: usize) -> Result<usize, DecodeError> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        let needed = count.saturating_mul(element_bytes_min.max(1));
        if needed > self.rest.len() {
            return Err(DecodeError::Truncated { needed, available: self.rest.len() });
        }
        Ok(count)
    }
}
