//! What the store asks of its block device, as data.

use bytes::Bytes;
use codec::BLOCK_BYTES;
use thiserror::Error;
use types::Token;

/// The block size as a device offset.
pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;

/// A command for the device. Offsets and lengths are whole blocks of 4 KiB; the memory of a write is
/// aligned to a block. Commands in flight may be executed in any order. Each is answered by
/// `device_done` with its token, which is the store's own.
#[derive(Clone, Debug)]
pub enum DeviceCommand {
    /// Answered with `len` bytes.
    Read {
        /// Names the command in its answer.
        token: Token,
        /// Byte offset on the device.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Writes all of `data`.
    Write {
        /// Names the command in its answer.
        token: Token,
        /// Byte offset on the device.
        offset: u64,
        /// Whole blocks of aligned memory.
        data: Bytes,
        /// True if the data must survive a power cut when the command is answered (`RWF_DSYNC`).
        durable: bool,
    },
    /// Makes all writes answered before it durable.
    Flush {
        /// Names the command in its answer.
        token: Token,
    },
    /// Tells the device that a range holds nothing of value. May be ignored, must be answered.
    Discard {
        /// Names the command in its answer.
        token: Token,
        /// Byte offset on the device.
        offset: u64,
        /// Bytes.
        len: u64,
    },
}

/// Why the device did not do what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The device or the kernel reported an error.
    #[error("input/output error")]
    Io,
    /// The device does not do such a thing: a discard.
    #[error("not supported by the device")]
    Unsupported,
    /// Fewer bytes were moved than asked for.
    #[error("short transfer")]
    Short,
}
