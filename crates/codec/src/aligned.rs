//! Buffers whose memory is aligned for O_DIRECT.

use std::cell::RefCell;

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// The unit of every device command, in bytes: the logical block of any NVMe we serve.
pub const BLOCK_BYTES: usize = 4096;

#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK_BYTES]);

/// Buffers below this size go back to the allocator, which is fast for them.
const POOLED_BLOCKS_MIN: usize = 16;
/// Blocks that a thread keeps for its next large buffers.
const POOL_BLOCKS_MAX: usize = 2 << 10;

thread_local! {
    /// Memory of large buffers that were dropped on this thread: fresh pages cost more than what is done
    /// with them.
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { free: Vec::new(), blocks: 0 }) };
}

struct Pool {
    free: Vec<Vec<Block>>,
    blocks: usize,
}

impl Pool {
    fn take(&mut self, count: usize) -> Option<Vec<Block>> {
        let fits = |blocks: &Vec<Block>| (count..=count * 2).contains(&blocks.capacity());
        let blocks = self.free.swap_remove(self.free.iter().rposition(fits)?);
        self.blocks -= blocks.capacity();
        Some(blocks)
    }

    fn put(&mut self, mut blocks: Vec<Block>) {
        if self.blocks + blocks.capacity() <= POOL_BLOCKS_MAX {
            self.blocks += blocks.capacity();
            blocks.clear();
            self.free.push(blocks);
        }
    }
}

/// An empty vector with room for `count` blocks, if the pool has one.
fn pooled(count: usize) -> Option<Vec<Block>> {
    let take = || POOL.try_with(|pool| pool.borrow_mut().take(count)).ok().flatten();
    (count >= POOLED_BLOCKS_MIN).then(take).flatten()
}

/// A buffer of whole blocks, aligned to a block.
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
        let count = bytes.div_ceil(BLOCK_BYTES);
        // Without memory the process ends here as anywhere else.
        let fresh = || Block::new_vec_zeroed(count).expect("memory for a buffer");
        let blocks = pooled(count).map_or_else(fresh, |mut blocks| {
            blocks.resize(count, Block([0; BLOCK_BYTES]));
            blocks
        });
        AlignedBuf { blocks }
    }

    /// A buffer that starts with `data`, padded with zeros to whole blocks.
    pub fn from_slice(data: &[u8]) -> Self {
        let count = data.len().div_ceil(BLOCK_BYTES);
        let mut blocks = pooled(count).unwrap_or_else(|| Vec::with_capacity(count));
        let (whole, rest) = data.as_chunks::<BLOCK_BYTES>();
        blocks.extend(whole.iter().map(|chunk| Block(*chunk)));
        if !rest.is_empty() {
            let mut last = Block([0; BLOCK_BYTES]);
            last.0[..rest.len()].copy_from_slice(rest);
            blocks.push(last);
        }
        AlignedBuf { blocks }
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

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.blocks.capacity() >= POOLED_BLOCKS_MIN {
            let blocks = std::mem::take(&mut self.blocks);
            // A thread that ends has no pool any more, and needs none.
            let _ = POOL.try_with(|pool| pool.borrow_mut().put(blocks));
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
