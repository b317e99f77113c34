//! PGs that no OSD has ever reported active: their primaries are told to make them.

use std::{collections::BTreeMap, time::Duration};

use messages::{MOSDPGCreate, Message};
use types::{Epoch, Instant, OsdId, PgId, PgState, PoolId};

use crate::{
    ConnId, Effect, Effects, Mon, keys,
    state::{Creating, value},
};

/// Primaries are told again after this time.
const RESEND: Duration = Duration::from_secs(2);

impl Mon {
    /// Queues the PGs of a pool from `first` on for creation.
    pub(crate) fn queue_creating(&mut self, pool: PoolId, first: u32, count: u32, epoch: Epoch) {
        let mut creating =
            self.next.creating.get(&pool).cloned().unwrap_or(Creating { epoch, ..Creating::default() });
        creating.seeds.extend(first..count);
        self.put(keys::creating(pool), value(&creating));
    }

    pub(crate) fn tick_creating(&mut self, now: Instant, effects: &mut Effects) {
        self.forget_created();
        if self.osds.creates_sent.is_some_and(|at| now.since(at) < RESEND) {
            return;
        }
        self.osds.creates_sent = Some(now);
        let map = &self.committed.osdmap;
        let mut by_osd: BTreeMap<OsdId, Vec<(PgId, Epoch)>> = BTreeMap::new();
        for (pool, creating) in self.committed.creating.iter() {
            for seed in &creating.seeds {
                let pg = PgId::new(*pool, *seed);
                let primary = map.pg_to_up_acting(pg).acting_primary;
                if primary.is_some() {
                    by_osd.entry(primary).or_default().push((pg, creating.epoch));
                }
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

    /// PGs that were reported active exist; those of deleted pools never will.
    fn forget_created(&mut self) {
        for (pool, creating) in self.next.creating.clone().iter() {
            if !self.next.osdmap.pools.contains_key(pool) {
                self.put(keys::creating(*pool), None);
                continue;
            }
            let mut left = creating.clone();
            left.seeds.retain(|seed| {
                let stat = self.stats.pg(PgId::new(*pool, *seed));
                !stat.is_some_and(|s| s.state.has(PgState::ACTIVE) && s.reported_epoch >= creating.epoch)
            });
            if left.seeds.is_empty() {
                self.put(keys::creating(*pool), None);
            } else if left != *creating {
                self.put(keys::creating(*pool), value(&left));
            }
        }
    }
}
