//! Received bytes, in the pieces in which they came.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use codec::traffic;

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

    /// The first `count` bytes, if there are that many.
    pub(crate) fn take(&mut self, count: usize) -> Option<Bytes> {
        if count > self.bytes {
            return None;
        }
        self.bytes -= count;
        let front = self.pieces.front_mut();
        match front {
            None => return Some(Bytes::new()),
            Some(piece) if piece.len() > count => return Some(piece.split_to(count)),
            Some(piece) if piece.len() == count => return self.pieces.pop_front(),
            Some(_) => {}
        }
        traffic::copied(count);
        let mut out = BytesMut::with_capacity(count);
        while out.len() < count {
            let piece = self.pieces.front_mut().expect("the pieces add up to the count");
            let part = piece.split_to(piece.len().min(count - out.len()));
            out.extend_from_slice(&part);
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
        Some(out.freeze())
    }
}
