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
/// Buffers of each size that are left in the pool for callers that fill only a part: only for those callers does new
/// memory have to be cleared.
const SPARE_BUFFERS: usize = 16;

thread_local! {
    /// Memory of buffers that were dropped on this thread: fresh pages cost more than the work that is done on them.
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
    /// One that holds `count` blocks, if there are more of its size than `spare`.
    fn take(&mut self, count: usize, spare: usize) -> Option<AlignedBuf> {
        let buf = match self.small.get_mut(count) {
            Some(same) if same.len() <= spare => return None,
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
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} blocks)", self.blocks.len())
    }
}

impl AlignedBuf {
    /// A buffer that was used before, with anything in it, if the pool has one.
    fn pooled(count: usize, spare: usize) -> Option<AlignedBuf> {
        let mut buf = POOL.try_with(|pool| pool.borrow_mut().take(count, spare)).ok().flatten()?;
        traffic::cleared(count.saturating_sub(buf.blocks.len()) * BLOCK_BYTES);
        // `resize` may clear a block to copy it, whether it is needed or not.
        buf.blocks.resize_with(count, || Block([0; BLOCK_BYTES]));
        Some(buf)
    }

    /// A buffer of new memory, all zeros.
    fn fresh(count: usize) -> AlignedBuf {
        traffic::cleared(count * BLOCK_BYTES);
        // If there is no memory, the process ends here as it does anywhere else.
        AlignedBuf { blocks: Block::new_vec_zeroed(count).expect("memory for a buffer") }
    }

    /// A buffer of `bytes` zeros, rounded up to whole blocks.
    pub fn zeroed(bytes: usize) -> Self {
        let count = bytes.div_ceil(BLOCK_BYTES);
        Self::pooled(count, 0).map_or_else(|| Self::fresh(count), |buf| buf.cleared_from(0))
    }

    /// A buffer that starts with `data`, padded with zeros to whole blocks.
    pub fn from_slice(data: &[u8]) -> Self {
        Self::of_parts(&[data]).cleared_from(data.len())
    }

    /// A buffer that starts with `parts` end to end. The rest of the last block is anything: what the memory held
    /// before, or zeros.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        let count = bytes.div_ceil(BLOCK_BYTES);
        traffic::copied(bytes);
        let whole = match parts {
            [whole] if bytes.is_multiple_of(BLOCK_BYTES) => Some(whole),
            _ => None,
        };
        let mut buf = match (Self::pooled(count, whole.map_or(0, |_| SPARE_BUFFERS)), whole) {
            (Some(buf), _) => buf,
            (None, Some(whole)) => {
                let blocks = whole.as_chunks::<BLOCK_BYTES>().0.iter().map(|chunk| Block(*chunk));
                return AlignedBuf { blocks: blocks.collect() };
            }
            (None, None) => Self::fresh(count),
        };
        let mut rest = buf.as_mut_slice();
        for part in parts {
            let (filled, behind) = rest.split_at_mut(part.len());
            filled.copy_from_slice(part);
            rest = behind;
        }
        buf
    }

    /// This buffer with zeros from byte `at` on.
    fn cleared_from(mut self, at: usize) -> Self {
        let rest = &mut self.as_mut_slice()[at..];
        traffic::cleared(rest.len());
        rest.fill(0);
        self
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

    /// Gives the memory to the allocator.
    fn free(mut self) {
        self.blocks = Vec::new();
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.blocks.capacity() > 0 {
            let blocks = std::mem::take(&mut self.blocks);
            // A thread that ends has no pool any more, and needs none.
            let _ = POOL.try_with(|pool| pool.borrow_mut().put(AlignedBuf { blocks }));
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
