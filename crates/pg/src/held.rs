//! A copy of a PG as a check of a whole cluster sees it: what it keeps of itself, and what it holds of work under way.

use std::collections::BTreeMap;

use types::{EVersion, HObject, LogEntry, Missing, PgInfo, PgInterval, ReqId};

use crate::Pg;

/// What a copy of a PG keeps of itself: a copy that is loaded from its store has the same as the one that kept it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PgRecord {
    /// Where it is.
    pub info: PgInfo,
    /// Intervals in which others may have taken writes.
    pub intervals: Vec<PgInterval>,
    /// Its log, the oldest entry first.
    pub log: Vec<LogEntry>,
    /// The requests that the log knows.
    pub requests: BTreeMap<ReqId, EVersion>,
    /// What it lacks.
    pub missing: Missing,
    /// Objects that are put together beside the copies that they replace.
    pub gathered: Vec<HObject>,
}

impl Pg {
    /// What this copy keeps of itself.
    pub fn record(&self) -> PgRecord {
        PgRecord {
            info: self.info.clone(),
            intervals: self.intervals.clone(),
            log: self.log.iter().cloned().collect(),
            requests: self.log.requests().collect(),
            missing: self.missing.clone(),
            gathered: self.gathered.objects().cloned().collect(),
        }
    }

    /// How many objects this copy lacks.
    pub fn missing_count(&self) -> usize {
        self.missing.len()
    }

    /// What this copy holds of requests and of work under way, by kind. A clean PG holds nothing once all requests have
    /// ended.
    pub fn held(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let kinds = [
            ("events of the store", self.pending.len()),
            ("ops", self.ops.count()),
            ("requests that wait for a slot to read", self.ops.reader_count()),
            ("backoffs", self.backoffs.session_count()),
            ("copies of objects", self.copies.count()),
            ("requests passed on", self.proxies.count()),
            ("parts of the index", self.index_waits.count()),
            ("messages of other copies", self.peer_queue.len()),
            ("recovery", self.recovery.count()),
            ("objects put together", self.gathered.objects().len()),
            ("objects missing", self.missing.len()),
            ("objects missing on others", self.peer_missing.values().map(Missing::len).sum()),
            ("objects unfound", self.unfound_count()),
            ("notifications", self.watches.notify_count()),
            ("scrubs", self.scrubs.count()),
            ("trimming", usize::from(self.trimming.is_some())),
            ("a count", usize::from(self.recount.is_some())),
        ];
        kinds.into_iter().filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use crate::test_world::World;

    #[test]
    fn a_change_is_held_until_all_members_have_it() {
        let mut world = World::active();
        assert_eq!(world.pg.held().collect::<Vec<_>>(), []);
        world.write(1, 1);
        // The object's queue, and the change.
        assert_eq!(world.pg.held().collect::<Vec<_>>(), [("ops", 2)]);
        world.confirm_all();
        assert_eq!(world.pg.held().collect::<Vec<_>>(), []);
    }
}
