//! PGs that no OSD has reported active since they were made, or made anew: their primaries are told to make them.
//!
//! An OSD may have made such a PG, taken writes, and gone down before the monitor heard of it: the primary is told the
//! intervals in which that may have happened, as for a PG that it was away from.
//!
//! Authority: `OSDMonitor::update_pending_pgs`, `creating_pgs_t` (16.2).

use std::{collections::BTreeMap, time::Duration};

use messages::{MOSDPGCreate, Message, PgCreation};
use types::{Epoch, Incremental, Instant, Membership, OsdId, OsdMap, PgId, PgInterval, PgState, PoolId};

use crate::{
    ConnId, Effect, Effects, Mon, ledger_keys,
    state::{Creating, value},
};

/// Primaries are told again after this time.
const RESEND: Duration = Duration::from_secs(2);

/// The intervals of a PG since it is to be made.
#[derive(Debug)]
pub(crate) struct Past {
    created: Epoch,
    /// The map that it was looked at in.
    at: Epoch,
    since: Epoch,
    members: Membership,
    intervals: Vec<PgInterval>,
}

impl Past {
    fn begin(map: &OsdMap, pg: PgId, created: Epoch) -> Past {
        let (at, members) = (map.epoch, Membership::of(map, pg));
        Past { created, at, since: at, members, intervals: Vec::new() }
    }

    fn step(&mut self, map: &OsdMap, pg: PgId) {
        let at = std::mem::replace(&mut self.at, map.epoch);
        if let Some(next) = self.members.next(at, map, pg) {
            let closed = self.members.close(self.since, Epoch(map.epoch.0 - 1), map);
            if closed.maybe_went_rw {
                self.intervals.push(closed);
            }
            (self.members, self.since) = (next, map.epoch);
        }
    }
}

impl Mon {
    /// Queues the PGs of a pool from `first` on for creation.
    pub(crate) fn queue_creating(&mut self, pool: PoolId, first: u32, count: u32, epoch: Epoch) {
        let mut creating =
            self.next.creating.get(&pool).cloned().unwrap_or(Creating { epoch, ..Creating::default() });
        creating.seeds.extend(first..count);
        self.put(ledger_keys::creating(pool), value(&creating));
    }

    /// Has a lost PG made anew; false if it is being made.
    pub(crate) fn force_create(&mut self, pg: PgId) -> bool {
        let epoch = self.next.osdmap.epoch;
        let mut creating = self.next.creating.get(&pg.pool).cloned().unwrap_or_default();
        let is_new = creating.seeds.insert(pg.seed);
        if is_new {
            creating.forced.insert(pg.seed, epoch);
            self.put(ledger_keys::creating(pg.pool), value(&creating));
        }
        is_new
    }

    pub(crate) fn tick_creating(&mut self, now: Instant, effects: &mut Effects) {
        self.forget_created();
        if self.osds.creates_sent.is_some_and(|at| now.since(at) < RESEND) {
            return;
        }
        self.osds.creates_sent = Some(now);
        self.learn_past();
        let map = &self.committed.osdmap;
        let mut by_osd: BTreeMap<OsdId, Vec<PgCreation>> = BTreeMap::new();
        for (pgid, past) in &self.osds.creating_past {
            let primary = map.pg_to_up_acting(*pgid).acting_primary;
            if primary.is_some() {
                let (pgid, created, intervals) = (*pgid, past.created, past.intervals.clone());
                by_osd.entry(primary).or_default().push(PgCreation { pgid, created, intervals });
            }
        }
        let conns: Vec<(ConnId, OsdId)> =
            self.sessions.keys().filter_map(|conn| Some((*conn, self.osd_of(*conn)?))).collect();
        for (conn, osd) in conns {
            if let Some(pgs) = by_osd.get(&osd).filter(|_| self.committed.osdmap.is_up(osd)) {
                let message = Message::from(MOSDPGCreate { epoch: map.epoch, pgs: pgs.clone() });
                effects.push(Effect::Send { conn, tid: 0, message });
            }
        }
    }

    /// Walks the PGs to be made through the maps since.
    fn learn_past(&mut self) {
        let state = &self.committed;
        let wanted: BTreeMap<PgId, Epoch> = state
            .creating
            .iter()
            .flat_map(|(pool, creating)| {
                creating.seeds.iter().map(|seed| (PgId::new(*pool, *seed), creating.created(*seed)))
            })
            .collect();
        let past = &mut self.osds.creating_past;
        past.retain(|pg, past| wanted.get(pg) == Some(&past.created));
        let newest = state.osdmap.epoch;
        let from = |(pg, created): (&PgId, &Epoch)| past.get(pg).map_or(*created, |past| past.at);
        let Some(first) = wanted.iter().map(from).min() else { return };
        let mut map = match state.full_map(first.max(state.oldest_epoch())) {
            Some(map) if first < newest => map,
            _ => OsdMap::clone(&state.osdmap),
        };
        loop {
            for (pg, created) in wanted.iter().filter(|(_, created)| **created <= map.epoch) {
                let past = past.entry(*pg).or_insert_with(|| Past::begin(&map, *pg, *created));
                if past.at < map.epoch {
                    past.step(&map, *pg);
                }
            }
            let next = state.incrementals.get(map.epoch.next()).cloned();
            let next = next.and_then(|bytes| <Incremental as codec::Decode>::from_bytes(bytes).ok());
            if next.is_none_or(|inc| map.apply(&inc).is_err()) {
                return;
            }
        }
    }

    /// PGs that were reported active exist; those of deleted pools, and those that were merged into others, never will.
    fn forget_created(&mut self) {
        for (pool, creating) in self.next.creating.clone().iter() {
            let Some(pg_num) = self.next.osdmap.pools.get(pool).map(|pool| pool.pg_num) else {
                self.put(ledger_keys::creating(*pool), None);
                continue;
            };
            let mut left = creating.clone();
            left.seeds.retain(|seed| {
                let stat = self.stats.pg(PgId::new(*pool, *seed));
                let created = creating.created(*seed);
                let is_made =
                    stat.is_some_and(|s| s.state.has(PgState::ACTIVE) && s.reported_epoch >= created);
                *seed < pg_num && !is_made
            });
            left.forced.retain(|seed, _| left.seeds.contains(seed));
            if left.seeds.is_empty() {
                self.put(ledger_keys::creating(*pool), None);
            } else if left != *creating {
                self.put(ledger_keys::creating(*pool), value(&left));
            }
        }
    }
}
