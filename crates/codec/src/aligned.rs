//! Buffers whose memory is aligned for O_DIRECT.

use std::cell::RefCell;

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::traffic;

/// The unit of every device command, in bytes: the logical block of any NVMe we serve.
pub const BLOCK_BYTES: usize = 4096;

#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK_BYTES]);

/// Blocks that a thread keeps for its next buffers.
const POOL_BLOCKS_MAX: usize = 2 << 10;
/// Buffers of fewer blocks are kept by their size.
const SMALL_BLOCKS_MAX: usize = 16;

thread_local! {
    /// Memory of buffers that were dropped on this thread: fresh pages cost more than what is done with them.
    static POOL: RefCell<Pool> =
        const { RefCell::new(Pool { small: [const { Vec::new() }; SMALL_BLOCKS_MAX], large: Vec::new(), blocks: 0 }) };
}

struct Pool {
    /// By their number of blocks.
    small: [Vec<AlignedBuf>; SMALL_BLOCKS_MAX],
    large: Vec<AlignedBuf>,
    blocks: usize,
}

impl Pool {
    fn take(&mut self, count: usize) -> Option<AlignedBuf> {
        let buf = match self.small.get_mut(count) {
            Some(same) => same.pop()?,
            None => {
                let fits = |buf: &AlignedBuf| (count..=count * 2).contains(&buf.blocks.capacity());
                self.large.swap_remove(self.large.iter().rposition(fits)?)
            }
        };
        self.blocks -= buf.blocks.capacity();
        Some(buf)
    }

    fn put(&mut self, buf: AlignedBuf) {
        let capacity = buf.blocks.capacity();
        if self.blocks + capacity <= POOL_BLOCKS_MAX {
            self.blocks += capacity;
            match self.small.get_mut(buf.blocks.len()) {
                Some(same) => same.push(buf),
                None => self.large.push(buf),
            }
        } else {
            buf.free();
        }
    }
}

/// A buffer of whole blocks, aligned to a block.
#[derive(Clone, Default)]
pub struct AlignedBuf {
    blocks: Vec<Block>,
    /// Bytes from here on are zeros.
    used: usize,
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} blocks)", self.blocks.len())
    }
}

impl AlignedBuf {
    /// A buffer that was used before, with anything in it, if the pool has one.
    fn pooled(count: usize) -> Option<AlignedBuf> {
        let mut buf = POOL.try_with(|pool| pool.borrow_mut().take(count)).ok().flatten()?;
        traffic::cleared(count.saturating_sub(buf.blocks.len()) * BLOCK_BYTES);
        buf.blocks.resize(count, Block([0; BLOCK_BYTES]));
        buf.used = buf.used.min(buf.len());
        Some(buf)
    }

    /// A buffer of `bytes` zeros, rounded up to whole blocks.
    pub fn zeroed(bytes: usize) -> Self {
        let count = bytes.div_ceil(BLOCK_BYTES);
        match Self::pooled(count) {
            Some(mut buf) => {
                buf.clear_from(0);
                buf
            }
            None => {
                traffic::cleared(count * BLOCK_BYTES);
                // Without memory the process ends here as anywhere else.
                AlignedBuf { blocks: Block::new_vec_zeroed(count).expect("memory for a buffer"), used: 0 }
            }
        }
    }

    /// A buffer that starts with `data`, padded with zeros to whole blocks.
    pub fn from_slice(data: &[u8]) -> Self {
        let count = data.len().div_ceil(BLOCK_BYTES);
        if let Some(buf) = Self::pooled(count) {
            return buf.filled(&[data]);
        }
        traffic::copied(data.len());
        let mut blocks = Vec::with_capacity(count);
        let (whole, rest) = data.as_chunks::<BLOCK_BYTES>();
        blocks.extend(whole.iter().map(|chunk| Block(*chunk)));
        if !rest.is_empty() {
            let mut last = Block([0; BLOCK_BYTES]);
            last.0[..rest.len()].copy_from_slice(rest);
            blocks.push(last);
        }
        AlignedBuf { blocks, used: data.len() }
    }

    /// A buffer that starts with `parts` end to end, padded with zeros to whole blocks.
    pub fn from_parts(parts: &[&[u8]]) -> Self {
        let count = parts.iter().map(|part| part.len()).sum::<usize>().div_ceil(BLOCK_BYTES);
        Self::pooled(count).unwrap_or_else(|| Self::zeroed(count * BLOCK_BYTES)).filled(parts)
    }

    /// The same memory with `parts` in it, which it has room for, and zeros behind them.
    fn filled(mut self, parts: &[&[u8]]) -> Self {
        let bytes = self.blocks.as_mut_bytes();
        let mut at = 0;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        traffic::copied(at);
        self.clear_from(at);
        self.used = self.used.max(at);
        self
    }

    /// Makes what was used from byte `at` on zeros.
    fn clear_from(&mut self, at: usize) {
        if at < self.used {
            traffic::cleared(self.used - at);
            self.blocks.as_mut_bytes()[at..self.used].fill(0);
            self.used = at;
        }
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
        self.used = self.len();
        self.blocks.as_mut_bytes()
    }

    /// Gives the memory to the allocator.
    fn free(mut self) {
        self.blocks = Vec::new();
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.blocks.capacity() > 0 {
            let (blocks, used) = (std::mem::take(&mut self.blocks), self.used);
            // A thread that ends has no pool any more, and needs none.
            let _ = POOL.try_with(|pool| pool.borrow_mut().put(AlignedBuf { blocks, used }));
        }
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
