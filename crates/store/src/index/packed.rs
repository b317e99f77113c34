//! A page's entries as they are on the device, in one piece of memory: those that nobody asked for or changed since
//! the page was read or written.
//!
//! An entry is in its page's bytes or taken out of them, never both. Nothing that is handed out keeps these bytes
//! alive, so a page that leaves gives its memory back.

use bytes::Bytes;
use codec::DecodeError;

use super::{
    Key,
    heap::{Heap, Piece},
    page::{Bounds, Value, decode_entry, decode_key, open_page},
};

/// Set in the place of an entry that was taken out.
const TAKEN: u32 = 1 << 31;

/// A page's bytes, and which of its entries are still in them.
#[derive(Debug)]
pub(crate) struct Packed {
    piece: Piece,
    /// Where entries begin, in the order of their keys.
    starts: Vec<u32>,
    left: usize,
}

/// An entry in a page's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    packed: &'a Packed,
    at: usize,
}

impl Packed {
    /// A page's bytes that hold what they should: every entry is looked at.
    pub(super) fn open(bytes: Bytes, bounds: &Bounds<'_>) -> Result<Packed, DecodeError> {
        let mut starts = Vec::new();
        open_page(bytes.clone(), bounds, |at, _, _| starts.push(at as u32))?;
        starts.shrink_to_fit();
        Ok(Packed::new(bytes, starts))
    }

    /// A page's bytes, which this store has made.
    pub(super) fn new(bytes: Bytes, starts: Vec<u32>) -> Packed {
        let left = starts.len();
        Packed { piece: Piece::loose(bytes), starts, left }
    }

    /// This page with its bytes copied to the heap.
    pub(super) fn stored(self, heap: &mut Heap) -> Packed {
        Packed { piece: heap.put(&self.piece), ..self }
    }

    /// Moves its bytes within the heap if that frees memory; how many.
    pub(super) fn settle(&mut self, heap: &mut Heap) -> usize {
        if !heap.is_sparse_at(&self.piece) {
            return 0;
        }
        let moved = heap.put(&self.piece);
        heap.free(std::mem::replace(&mut self.piece, moved));
        self.piece.len()
    }

    /// Gives its bytes back to the heap.
    pub(super) fn free(self, heap: &mut Heap) {
        heap.free(self.piece);
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        (self.piece.len() + self.starts.capacity() * size_of::<u32>() + size_of::<Packed>()) as u64
    }

    /// True if all entries were taken out.
    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Entries at these places, as [`Packed::lower_bound`] counts.
    pub(super) fn entries(&self, places: std::ops::Range<usize>) -> impl Iterator<Item = Raw<'_>> {
        places.map(|at| self.raw(at)).filter(|raw| !raw.is_taken())
    }

    /// The place behind the last entry.
    pub(super) fn end(&self) -> usize {
        self.starts.len()
    }

    fn raw(&self, at: usize) -> Raw<'_> {
        Raw { packed: self, at }
    }

    /// The place of the first entry with this key or a later one.
    pub(super) fn lower_bound(&self, key: &Key) -> usize {
        let (mut low, mut high) = (0, self.starts.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.raw(middle).key() < *key { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The entry with this key.
    pub(super) fn find(&self, key: &Key) -> Option<Raw<'_>> {
        let raw = self.raw(self.lower_bound(key));
        (raw.at < self.starts.len() && !raw.is_taken() && raw.key() == *key).then_some(raw)
    }

    /// Entries from a key on.
    pub(super) fn from(&self, key: &Key) -> impl Iterator<Item = Raw<'_>> {
        self.entries(self.lower_bound(key)..self.end())
    }

    /// Takes out the entry with this key: its bytes.
    pub(super) fn take(&mut self, key: &Key) -> Option<Bytes> {
        let raw = self.find(key)?;
        let (at, bytes) = (raw.at, Bytes::copy_from_slice(raw.bytes()));
        self.starts[at] |= TAKEN;
        self.left -= 1;
        Some(bytes)
    }

    /// Takes out all entries from a key on while `is_within` says so.
    pub(super) fn take_from(&mut self, key: &Key, is_within: impl Fn(&Key) -> bool, out: &mut Vec<Bytes>) {
        for at in self.lower_bound(key)..self.starts.len() {
            let raw = self.raw(at);
            if raw.is_taken() {
                continue;
            }
            if !is_within(&raw.key()) {
                return;
            }
            out.push(Bytes::copy_from_slice(raw.bytes()));
            self.starts[at] |= TAKEN;
            self.left -= 1;
        }
    }
}

impl Raw<'_> {
    fn is_taken(self) -> bool {
        self.packed.starts[self.at] & TAKEN != 0
    }

    fn range(self) -> std::ops::Range<usize> {
        let starts = &self.packed.starts;
        let end = starts.get(self.at + 1).map_or(self.packed.piece.len(), |next| (next & !TAKEN) as usize);
        (starts[self.at] & !TAKEN) as usize..end
    }

    /// As on the device.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.packed.piece[self.range()]
    }

    /// Its key, for as long as nobody keeps it.
    pub(crate) fn key(&self) -> Key {
        decode_key(self.packed.piece.slice(self.range())).expect("a page's entries were looked at")
    }

    /// What it says, in memory of its own.
    pub(crate) fn entry(&self) -> (Key, Value) {
        let bytes = Bytes::copy_from_slice(self.bytes());
        decode_entry(bytes).expect("a page's entries were looked at")
    }
}

#[cfg(test)]
mod tests {
    use types::{CollId, HObject, PgId, PoolId};

    use super::{
        super::page::{Entry, encode_entry, page_front},
        *,
    };
    use crate::{onode::Onode, space::Run};

    fn key(number: u32) -> Key {
        let pool = PoolId(1);
        let object = HObject { pool, hash: number.reverse_bits(), ..HObject::default() };
        Key::of(CollId::pg(PgId::new(pool, 0)), &object)
    }

    /// A page with these objects, each as large as its number.
    fn page(numbers: &[u32]) -> Bytes {
        let mut out = page_front();
        for &number in numbers {
            let onode = Onode { size: u64::from(number), ..Onode::default() };
            encode_entry(&mut out, key(number).coll, &key(number).object, Entry::Onode(&onode));
        }
        out.into()
    }

    /// Opens a page for the keys from one number up to another.
    fn opened(page: Bytes, first: u32, next: u32) -> Result<Packed, DecodeError> {
        let (first, next, area) = (key(first), key(next), Run { start: 10, count: 10 });
        Packed::open(page, &Bounds { first: &first, next: Some(&next), area })
    }

    #[test]
    fn an_entry_is_found_until_it_is_taken() {
        let mut packed = opened(page(&[2, 4, 6, 8]), 0, 9).unwrap();
        assert!(packed.find(&key(5)).is_none() && packed.find(&key(9)).is_none());
        let (found, value) = packed.find(&key(6)).unwrap().entry();
        assert!(found == key(6) && matches!(value, Value::Onode(onode) if onode.size == 6));
        let bytes = packed.take(&key(6)).unwrap();
        assert_eq!(decode_entry(bytes).unwrap().0, key(6));
        assert!(packed.find(&key(6)).is_none() && packed.take(&key(6)).is_none());
        let left: Vec<Key> = packed.from(&key(3)).map(|raw| raw.key()).collect();
        assert_eq!(left, [key(4), key(8)]);
        let mut taken = Vec::new();
        packed.take_from(&key(3), |other| *other < key(8), &mut taken);
        assert_eq!(taken.len(), 1);
        assert!(packed.take(&key(2)).is_some() && !packed.is_empty());
        assert!(packed.take(&key(8)).is_some() && packed.is_empty());
    }

    #[test]
    fn a_page_out_of_order_is_refused() {
        assert!(opened(page(&[2, 4, 3]), 0, 9).is_err());
        assert!(opened(page(&[2, 2]), 0, 9).is_err());
        assert!(opened(page(&[1, 2]).slice(..30), 0, 9).is_err());
    }

    #[test]
    fn a_page_with_what_is_another_ones_is_refused() {
        assert!(opened(page(&[2, 4]), 2, 5).is_ok());
        assert!(opened(page(&[2, 4]), 3, 5).is_err());
        assert!(opened(page(&[2, 4]), 2, 4).is_err());
    }

    #[test]
    fn a_page_with_data_where_none_may_be_is_refused() {
        let with_extent = |device: u64| {
            let (mut out, mut onode) = (page_front(), Onode::default());
            onode.extents.insert(3, device, &[7, 7]);
            encode_entry(&mut out, key(1).coll, &key(1).object, Entry::Onode(&onode));
            opened(out.into(), 0, 9).is_ok()
        };
        assert!(with_extent(10) && with_extent(18));
        assert!(!with_extent(9) && !with_extent(19) && !with_extent(u64::MAX - 2));
    }
}
