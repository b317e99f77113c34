//! Where PGs live, looked up once for each of a map: CRUSH takes longer for it than all else that placing a request
//! takes. Must not know requests.

use std::collections::HashMap;

use types::{Epoch, OsdMap, PgId, UpActing};

/// What the map of an epoch says of the PGs that requests went to, which are at most as many as it has.
#[derive(Default)]
pub(crate) struct Places {
    epoch: Epoch,
    by_pg: HashMap<PgId, UpActing>,
}

impl Places {
    /// Where a PG lives by this map. Whatever was looked up in a map of another epoch is forgotten.
    pub(crate) fn find(&mut self, map: &OsdMap, pg: PgId) -> &UpActing {
        if self.epoch != map.epoch {
            self.by_pg.clear();
            self.epoch = map.epoch;
        }
        self.by_pg.entry(pg).or_insert_with(|| map.pg_to_up_acting(pg))
    }
}
