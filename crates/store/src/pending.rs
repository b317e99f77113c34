//! Bytes of an object that the journal holds and the device does not have in their place yet.
//!
//! Invariant: what covers a mapped block shrinks only together with the mapping. The flusher may
//! therefore overwrite a fully covered block in place: whatever a crash leaves of it, the journal or
//! the checkpoint covers it again (docs/formats/store.md).

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use bytes::Bytes;
use codec::Payload;

#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) data: Payload,
    /// The transaction that wrote it.
    pub(crate) txn: u64,
}

/// Pieces by byte offset; they do not overlap. A clone costs next to nothing until one of the two changes: a
/// checkpoint clones everything that is pending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    /// None without any.
    pieces: Option<Arc<BTreeMap<u64, Piece>>>,
    bytes: u64,
}

/// How much is pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) bytes: u64,
    pub(crate) pieces: u64,
}

/// Memory of a piece beside its bytes, about: its place in the map, of which every other one is empty where pieces come
/// in order, the counter of those that hold the bytes, and what an allocator adds to both.
const PIECE_MEMORY: u64 = 192;

impl Amount {
    /// Memory that it takes, about.
    pub(crate) fn memory(self) -> u64 {
        self.bytes + self.pieces * PIECE_MEMORY
    }
}

static NONE: BTreeMap<u64, Piece> = BTreeMap::new();

impl Pending {
    fn pieces(&self) -> &BTreeMap<u64, Piece> {
        self.pieces.as_deref().unwrap_or(&NONE)
    }

    fn pieces_mut(&mut self) -> &mut BTreeMap<u64, Piece> {
        Arc::make_mut(self.pieces.get_or_insert_default())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn amount(&self) -> Amount {
        Amount { bytes: self.bytes, pieces: self.pieces().len() as u64 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_none()
    }

    /// Drops what lies in `[from, to)`, in bytes.
    pub(crate) fn punch_bytes(&mut self, from: u64, to: u64) {
        // Pieces do not overlap: what the last one before the end does not reach, none does.
        let last = self.pieces().range(..to).next_back();
        if from >= to || last.is_none_or(|(&start, piece)| start + piece.data.len() as u64 <= from) {
            return;
        }
        let first = self.pieces().range(..=from).next_back().map_or(from, |(&start, _)| start);
        let touched: Vec<u64> = self.pieces().range(first..to).map(|(&start, _)| start).collect();
        let Some(pieces) = self.pieces.as_mut().map(Arc::make_mut) else { return };
        for start in touched {
            let end = start + pieces[&start].data.len() as u64;
            let (low, high) = (start.max(from), end.min(to));
            if low >= high {
                continue;
            }
            let piece = pieces.remove(&start).expect("the key was just seen");
            self.bytes -= high - low;
            if start < low {
                let data = piece.data.slice(..(low - start) as usize).into();
                pieces.insert(start, Piece { data, txn: piece.txn });
            }
            if high < end {
                let data = piece.data.slice((high - start) as usize..).into();
                pieces.insert(high, Piece { data, txn: piece.txn });
            }
        }
        if pieces.is_empty() {
            self.pieces = None;
        }
    }

    /// Drops what transactions up to `txn` wrote in `[from, to)`.
    pub(crate) fn remove_upto(&mut self, from: u64, to: u64, txn: u64) {
        let piece = self.pieces().get(&from);
        if piece.is_some_and(|piece| piece.txn <= txn && from + piece.data.len() as u64 == to) {
            return self.remove(from, to - from);
        }
        let old = self.range(from, to).filter(|part| part.2 <= txn);
        let parts: Vec<(u64, u64)> = old.map(|(at, part, _)| (at, at + part.len() as u64)).collect();
        parts.into_iter().for_each(|(low, high)| self.punch_bytes(low, high));
    }

    /// Drops a piece as a whole, as mostly happens.
    fn remove(&mut self, start: u64, bytes: u64) {
        let Some(pieces) = self.pieces.as_mut().map(Arc::make_mut) else { return };
        pieces.remove(&start);
        self.bytes -= bytes;
        if pieces.is_empty() {
            self.pieces = None;
        }
    }

    /// Lays `data` over what is there.
    pub(crate) fn insert(&mut self, offset: u64, data: Payload, txn: u64) {
        if data.is_empty() {
            return;
        }
        self.punch_bytes(offset, offset + data.len() as u64);
        self.bytes += data.len() as u64;
        self.pieces_mut().insert(offset, Piece { data, txn });
    }

    /// Pieces that have something of `[from, to)`: the first byte of it, which bytes of the piece it is, the piece.
    fn parts(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, Range<usize>, &Piece)> {
        let first = self.pieces().range(..=from).next_back().map_or(from, |(&start, _)| start);
        self.pieces().range(first..to.max(first)).filter_map(move |(&start, piece)| {
            let low = start.max(from);
            let high = (start + piece.data.len() as u64).min(to);
            (low < high).then(|| (low, (low - start) as usize..(high - start) as usize, piece))
        })
    }

    /// Parts of pieces in `[from, to)`: offset, bytes, transaction.
    pub(crate) fn range(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &[u8], u64)> {
        self.parts(from, to).map(|(offset, part, piece)| (offset, &piece.data[part], piece.txn))
    }

    /// Parts of pieces in `[from, to)`, without a copy: offset, bytes with their checksum if it is known.
    pub(crate) fn payloads(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, Payload)> {
        self.parts(from, to).map(|(offset, part, piece)| {
            let is_whole = part.len() == piece.data.len();
            (offset, if is_whole { piece.data.clone() } else { piece.data.slice(part).into() })
        })
    }

    /// True if pieces cover all of `[from, to)`.
    pub(crate) fn covers(&self, from: u64, to: u64) -> bool {
        let mut next = from;
        for (offset, part, _) in self.range(from, to) {
            if offset > next {
                return false;
            }
            next = offset + part.len() as u64;
        }
        next >= to
    }

    /// The piece that is just `[from, to)`.
    pub(crate) fn exactly(&self, from: u64, to: u64) -> Option<&Payload> {
        let piece = self.pieces().get(&from)?;
        (from + piece.data.len() as u64 == to).then_some(&piece.data)
    }

    /// The first piece from `offset` on.
    pub(crate) fn piece_from(&self, offset: u64) -> Option<(u64, &Bytes)> {
        self.pieces().range(offset..).next().map(|(&offset, piece)| (offset, &*piece.data))
    }

    /// Every piece as written by `txn`.
    pub(crate) fn stamp(&mut self, txn: u64) {
        let pieces = self.pieces.as_mut().map(Arc::make_mut);
        pieces.into_iter().flat_map(BTreeMap::values_mut).for_each(|piece| piece.txn = txn);
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    /// Byte by byte: what it is, and the transaction that wrote it.
    type Model = Vec<Option<(u8, u64)>>;

    fn compare(pending: &Pending, model: &Model) {
        let mut found: Model = vec![None; model.len()];
        for (at, bytes, txn) in pending.range(0, model.len() as u64) {
            bytes.iter().enumerate().for_each(|(n, byte)| found[at as usize + n] = Some((*byte, txn)));
        }
        assert_eq!(&found, model);
        let bytes = model.iter().flatten().count() as u64;
        assert_eq!((pending.bytes(), pending.is_empty()), (bytes, bytes == 0));
    }

    #[test]
    fn it_is_what_its_bytes_are() {
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..200 {
            let (mut pending, mut model) = (Pending::default(), vec![None; 64]);
            for txn in 1..40 {
                let from = rng.random_range(0..model.len() / 4) * 4;
                let to = (from + rng.random_range(0..4) * 4).min(model.len());
                let (low, high) = (from as u64, to as u64);
                match rng.random_range(0..4) {
                    0 | 1 => {
                        pending.insert(low, Bytes::from(vec![txn as u8; to - from]).into(), txn);
                        model[from..to].fill(Some((txn as u8, txn)));
                    }
                    2 => {
                        pending.punch_bytes(low, high);
                        model[from..to].fill(None);
                    }
                    _ => {
                        let upto = rng.random_range(0..=txn);
                        pending.remove_upto(low, high, upto);
                        let is_old = |byte: &&mut Option<(u8, u64)>| byte.is_some_and(|(_, of)| of <= upto);
                        model[from..to].iter_mut().filter(is_old).for_each(|byte| *byte = None);
                    }
                }
                compare(&pending, &model);
            }
        }
    }
}
