//! Buffers whose memory is aligned for O_DIRECT.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The unit of every device command, in bytes: the logical block of any NVMe we serve.
pub const BLOCK_BYTES: usize = 4096;

#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK_BYTES]);

/// A zeroed buffer of whole blocks, aligned to a block.
#[derive(Clone, Default)]
pub struct AlignedBuf {
    blocks: Vec<Block>,
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} blocks)", self.blocks.len())
    }
}

impl AlignedBuf {
    /// A buffer of `bytes` zeros, rounded up to whole blocks.
    pub fn zeroed(bytes: usize) -> Self {
        AlignedBuf { blocks: vec![Block([0; BLOCK_BYTES]); bytes.div_ceil(BLOCK_BYTES)] }
    }

    /// A buffer that starts with `data`, padded with zeros to whole blocks.
    pub fn from_slice(data: &[u8]) -> Self {
        let mut out = Self::zeroed(data.len());
        out.as_mut_slice()[..data.len()].copy_from_slice(data);
        out
    }

    /// Its length in bytes, a multiple of [`BLOCK_BYTES`].
    pub fn len(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    /// True for a buffer of no blocks.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.blocks.as_bytes()
    }

    /// The bytes, to be written to.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.blocks.as_mut_bytes()
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl From<AlignedBuf> for bytes::Bytes {
    /// Shares the buffer without a copy; its memory stays aligned.
    fn from(buf: AlignedBuf) -> bytes::Bytes {
        bytes::Bytes::from_owner(buf)
    }
}
