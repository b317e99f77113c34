//! The handshakes under way with peers that dialed us, and how many there may be.

use std::collections::BTreeMap;

/// Handshakes of unknown peers under way at a time. An honest one takes milliseconds, so thousands of
/// clients can come at once; each may hold a descriptor and half a MiB of what was said.
const HANDSHAKES_MAX: usize = 512;

/// The handshakes under way with peers that dialed us.
#[derive(Debug)]
pub(crate) struct Handshakes<C> {
    /// By number of the connection, which is the order in which they came.
    by_id: BTreeMap<u64, C>,
}

impl<C: Copy> Handshakes<C> {
    /// None yet.
    pub(crate) fn new() -> Handshakes<C> {
        Handshakes { by_id: BTreeMap::new() }
    }

    /// A peer dialed us. When there are too many handshakes, the connection of the one that has taken the longest is
    /// returned, for the caller to close: peers that leave handshakes open cannot keep others out.
    pub(crate) fn begin(&mut self, id: u64, conn: C) -> Option<C> {
        self.by_id.insert(id, conn);
        (self.by_id.len() > HANDSHAKES_MAX)
            .then(|| self.by_id.pop_first())
            .flatten()
            .map(|(_, oldest)| oldest)
    }

    /// It is over, or its connection is gone.
    pub(crate) fn end(&mut self, id: u64) {
        self.by_id.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_handshake_makes_room() {
        let mut handshakes = Handshakes::new();
        let max = HANDSHAKES_MAX as u64;
        assert!((0..max).all(|id| handshakes.begin(id, id).is_none()));
        assert_eq!(handshakes.begin(max, max), Some(0));
        // One that is over holds no place.
        handshakes.end(5);
        assert_eq!(handshakes.begin(max + 1, max + 1), None);
        assert_eq!(handshakes.begin(max + 2, max + 2), Some(1));
    }
}
