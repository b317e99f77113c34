//! When newer maps were asked for. After each change of the map, every message that comes a little before the map is a
//! reason to ask for it. Whoever is asked sends all maps that are missing, each time.

use std::time::Duration;

use types::{Epoch, Instant};

/// Between two requests for the maps that follow upon the same one. What was asked for is on its way meanwhile, or is
/// sent once it is there; a lost session with the monitor is followed by one that asks anew.
const PATIENCE: Duration = Duration::from_secs(1);

/// The last request: the map that this shard had, and the time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MapsAsked(Option<(Epoch, Instant)>);

impl MapsAsked {
    /// True if a shard that has the map of epoch `have` should ask.
    pub(crate) fn is_due(self, have: Epoch, now: Instant) -> bool {
        self.0.is_none_or(|(then, at)| then != have || now.since(at) >= PATIENCE)
    }

    /// It asks.
    pub(crate) fn note(&mut self, have: Epoch, now: Instant) {
        self.0 = Some((have, now));
    }
}
