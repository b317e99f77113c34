//! The handshakes under way with peers that dialed us, and how many there may be. A peer that was refused counts until
//! nothing is left of its connection.

use std::collections::BTreeMap;

/// Handshakes of unknown peers under way at a time. An honest one takes milliseconds, so thousands of
/// clients can come at once; each may hold a descriptor and half a MiB of what was said.
pub(crate) const HANDSHAKES_MAX: usize = 512;

/// The handshakes under way with peers that dialed us, and refused peers.
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

    /// A peer was refused, and its connection is closed once it has been told why. Until then it holds its place.
    pub(crate) fn refuse(&mut self, id: u64, conn: C) {
        self.by_id.insert(id, conn);
    }

    /// Several times a second: gives up the places of connections that are gone.
    pub(crate) fn free(&mut self, is_gone: impl Fn(C) -> bool) {
        self.by_id.retain(|_, conn| !is_gone(*conn));
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
