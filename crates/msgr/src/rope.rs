//! Received bytes, in the pieces in which they came.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use codec::{AlignedBuf, BLOCK_BYTES, traffic};

/// A queue of bytes; what lies in one piece is taken without a copy.
#[derive(Debug, Default)]
pub(crate) struct Rope {
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

impl Rope {
    pub(crate) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.bytes += piece.len();
            self.pieces.push_back(piece);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// All pieces.
    pub(crate) fn take_all(&mut self) -> Vec<Bytes> {
        self.bytes = 0;
        self.pieces.drain(..).collect()
    }

    /// Copies what is there into memory of its own if it is no more than `bytes_max`.
    pub(crate) fn detach(&mut self, bytes_max: usize) {
        if (1..=bytes_max).contains(&self.bytes) {
            traffic::copied(self.bytes);
            let all = self.take_all().concat();
            self.push(all.into());
        }
    }

    /// Appends the first `count` bytes, which are there, to `out` and leaves them here.
    pub(crate) fn append_to(&self, count: usize, out: &mut Vec<u8>) {
        let end = out.len() + count;
        for piece in &self.pieces {
            out.extend_from_slice(&piece[..piece.len().min(end - out.len())]);
        }
    }

    /// Drops the first `count` bytes, which are there.
    pub(crate) fn skip(&mut self, mut count: usize) {
        self.bytes -= count;
        while let Some(piece) = self.pieces.front_mut().filter(|_| count > 0) {
            let part = piece.len().min(count);
            piece.advance(part);
            count -= part;
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
    }

    /// The first `count` bytes, if there are that many.
    pub(crate) fn take(&mut self, count: usize) -> Option<Bytes> {
        if count > self.bytes {
            return None;
        }
        match self.pieces.front_mut() {
            None => Some(Bytes::new()),
            Some(piece) if piece.len() > count => {
                self.bytes -= count;
                Some(piece.split_to(count))
            }
            Some(piece) if piece.len() == count => {
                self.bytes -= count;
                self.pieces.pop_front()
            }
            Some(_) => {
                traffic::copied(count);
                Some(self.take_pieces(count).concat().into())
            }
        }
    }

    /// The first `N` bytes, if there are that many: for a few that are looked at and forgotten.
    pub(crate) fn take_array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes = self.bytes.checked_sub(N)?;
        // Mostly they lie in one piece, and more follows.
        if let Some(piece) = self.pieces.front_mut()
            && let Some(out) = piece.first_chunk().filter(|_| piece.len() > N).copied()
        {
            piece.advance(N);
            return Some(out);
        }
        let mut out = [0; N];
        let mut done = 0;
        while done < N {
            let piece = self.pieces.front_mut().expect("the pieces add up to the count");
            let count = piece.len().min(N - done);
            out[done..done + count].copy_from_slice(&piece[..count]);
            done += count;
            if count == piece.len() {
                self.pieces.pop_front();
            } else {
                piece.advance(count);
            }
        }
        Some(out)
    }

    /// The first `count` bytes in memory of their own, if there are that many: whole blocks in memory that a device
    /// takes. They are copied once, in however many pieces they lie.
    pub(crate) fn copy(&mut self, count: usize) -> Option<Bytes> {
        if count > self.bytes {
            return None;
        }
        match self.pieces.front_mut() {
            Some(piece) if piece.len() > count => {
                self.bytes -= count;
                let out = own(&[&piece[..count]]);
                piece.advance(count);
                Some(out)
            }
            _ => {
                let pieces = self.take_pieces(count);
                Some(own(&pieces.iter().map(|piece| &piece[..]).collect::<Vec<_>>()))
            }
        }
    }

    /// The first `count` bytes, which are there, as they lie.
    fn take_pieces(&mut self, mut count: usize) -> Vec<Bytes> {
        self.bytes -= count;
        let mut out = Vec::new();
        while count > 0 {
            let mut piece = self.pieces.pop_front().expect("the pieces add up to the count");
            if piece.len() > count {
                self.pieces.push_front(piece.split_off(count));
            }
            count -= piece.len();
            out.push(piece);
        }
        out
    }
}

/// These bytes, end to end, in memory of their own.
fn own(parts: &[&[u8]]) -> Bytes {
    let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
    match (parts, bytes) {
        (_, 0) => return Bytes::new(),
        (_, bytes) if bytes.is_multiple_of(BLOCK_BYTES) => return AlignedBuf::of_parts(parts).into(),
        _ => traffic::copied(bytes),
    }
    match parts {
        [whole] => Bytes::copy_from_slice(whole),
        parts => parts.concat().into(),
    }
}
