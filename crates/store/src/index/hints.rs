//! Where pages were found last, for keys like the one that is looked for: what is written changes few places, again
//! and again, and each change asks for its page.
//!
//! A hint may be wrong, as pages come and go: the caller checks whether that page answers for the key.

use std::cell::Cell;

use super::{KeyRef, node::At};

const HINTS: usize = 1024;

#[derive(Debug)]
pub(super) struct Hints(Box<[Cell<At>; HINTS]>);

impl Default for Hints {
    fn default() -> Hints {
        Hints(Box::new([const { Cell::new(At { node: 0, page: 0 }) }; HINTS]))
    }
}

impl Hints {
    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// The hint for a key: the same one for omap keys that differ in their last two bytes only, as those of a log do
    /// that follow each other.
    pub(super) fn of(&self, key: KeyRef<'_>) -> &Cell<At> {
        let mut hash = u64::from(key.coll.0.seed) ^ u64::from(key.object.hash) << 32 ^ key.object.snap.0;
        if let Some(omap) = key.omap {
            let (words, rest) = omap[..omap.len().saturating_sub(2)].as_chunks::<8>();
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            for word in words.iter().chain([&last]) {
                hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
            }
        }
        // The top bits of a product depend on all of the others.
        &self.0[(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - HINTS.ilog2())) as usize]
    }
}
