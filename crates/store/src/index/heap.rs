//! Memory for the bytes of index pages: large chunks that are filled one after another.
//!
//! Pages leave in any order. If each had an allocation of its own, it would leave a hole that hardly anything fits, and
//! a process that let go of most pages would keep nearly all of its memory. The heap knows how much of each chunk is
//! still in use: an empty chunk is given back as a whole, and what is left of sparse ones is copied to the chunk being
//! filled, a little at a time ([`super::Directory::compact`]).

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

/// An allocator gives memory of this size back to the system when it is freed.
const CHUNK_BYTES: usize = 1 << 20;
/// So many quarters of a chunk, and of all of them, are to be in use.
const USED_QUARTERS: usize = 3;
/// Free memory that is not worth the work, in bytes.
const FREE_BYTES: usize = 2 * CHUNK_BYTES;

#[derive(Debug)]
struct Chunk {
    bytes: usize,
    used: usize,
}

impl Chunk {
    fn is_sparse(&self) -> bool {
        self.used < self.bytes / 4 * USED_QUARTERS
    }
}

/// Chunks of memory that hold the bytes of index pages.
#[derive(Debug, Default)]
pub(super) struct Heap {
    chunks: BTreeMap<u64, Chunk>,
    /// The rest of the chunk being filled, whose number is the largest.
    open: BytesMut,
    last: u64,
    /// Of all chunks.
    bytes: usize,
    used: usize,
}

/// Bytes in a chunk. They go by [`Heap::free`].
#[derive(Debug)]
pub(super) struct Piece {
    bytes: Bytes,
    /// None for those that are in no chunk.
    chunk: Option<u64>,
}

impl Piece {
    /// Bytes that are elsewhere.
    pub(super) fn loose(bytes: Bytes) -> Piece {
        Piece { bytes, chunk: None }
    }
}

impl std::ops::Deref for Piece {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}

impl Heap {
    /// A copy of the bytes in a chunk.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Piece {
        if self.open.capacity() < bytes.len() {
            // The chunk that was filled may be empty again.
            self.drop_empty(self.last);
            self.last += 1;
            self.open = BytesMut::with_capacity(bytes.len().max(CHUNK_BYTES));
            self.bytes += self.open.capacity();
            self.chunks.insert(self.last, Chunk { bytes: self.open.capacity(), used: 0 });
        }
        self.open.extend_from_slice(bytes);
        self.used += bytes.len();
        if let Some(chunk) = self.chunks.get_mut(&self.last) {
            chunk.used += bytes.len();
        }
        Piece { bytes: self.open.split().freeze(), chunk: Some(self.last) }
    }

    pub(super) fn free(&mut self, piece: Piece) {
        let Some(number) = piece.chunk else { return };
        let Some(chunk) = self.chunks.get_mut(&number) else { return };
        self.used -= piece.len();
        chunk.used -= piece.len();
        if number != self.last {
            self.drop_empty(number);
        }
    }

    fn drop_empty(&mut self, number: u64) {
        if self.chunks.get(&number).is_some_and(|chunk| chunk.used == 0)
            && let Some(chunk) = self.chunks.remove(&number)
        {
            self.bytes -= chunk.bytes;
        }
    }

    /// True if much of the chunks is free.
    pub(super) fn is_sparse(&self) -> bool {
        self.used < self.bytes.saturating_sub(FREE_BYTES) / 4 * USED_QUARTERS
    }

    /// True if the piece had better be elsewhere.
    pub(super) fn is_sparse_at(&self, piece: &Piece) -> bool {
        let number = piece.chunk.filter(|number| *number != self.last);
        number.and_then(|number| self.chunks.get(&number)).is_some_and(Chunk::is_sparse)
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn what_most_pieces_have_left_goes_back() {
        let (mut heap, mut rng) = (Heap::default(), StdRng::seed_from_u64(1));
        let mut pieces: Vec<(u8, usize, Piece)> = Vec::new();
        for round in 0..40 {
            for _ in 0..100 {
                let (byte, len) = (rng.random(), [700, 9_000, 16_000][rng.random_range(0..3)]);
                pieces.push((byte, len, heap.put(&vec![byte; len])));
            }
            // Any of them leave: more than came in every other round.
            for _ in 0..[40, 120][round % 2] {
                let gone = pieces.swap_remove(rng.random_range(0..pieces.len()));
                heap.free(gone.2);
            }
            for (_, _, piece) in &mut pieces {
                if heap.is_sparse() && heap.is_sparse_at(piece) {
                    let moved = heap.put(piece);
                    heap.free(std::mem::replace(piece, moved));
                }
            }
            let used: usize = pieces.iter().map(|piece| piece.1).sum();
            assert_eq!((heap.used, heap.is_sparse()), (used, false));
            assert!(pieces.iter().all(|(byte, len, piece)| piece[..] == vec![*byte; *len]));
        }
        pieces.into_iter().for_each(|piece| heap.free(piece.2));
        assert!(heap.used == 0 && heap.bytes <= CHUNK_BYTES);
    }

    #[test]
    fn a_large_piece_has_a_chunk_of_its_own() {
        let mut heap = Heap::default();
        let small = heap.put(b"small");
        let large = heap.put(&vec![1; 3 * CHUNK_BYTES]);
        assert_eq!((heap.chunks.len(), heap.bytes >= 4 * CHUNK_BYTES), (2, true));
        heap.free(small);
        assert_eq!(heap.chunks.len(), 1);
        heap.free(large);
        heap.put(b"more bytes");
        assert_eq!((heap.chunks.len(), heap.bytes), (1, CHUNK_BYTES));
    }
}
