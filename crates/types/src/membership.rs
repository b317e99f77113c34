//! Intervals of PGs: spans of epochs with the same acting set, and which of them may have taken writes.
//!
//! Authority: `PastIntervals::check_new_interval` (16.2).

use crate::{Epoch, HObject, OsdId, OsdMap, PgId, PgInterval, PgPool, UpActing};

/// What an interval is made of; a change of any of it begins a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Up set.
    pub up: Vec<OsdId>,
    /// First of `up`, unless affinity says otherwise.
    pub up_primary: OsdId,
    /// Acting set.
    pub acting: Vec<OsdId>,
    /// The acting set's primary.
    pub primary: OsdId,
    /// Copies that the pool wants.
    pub size: u8,
    /// Copies without which no writes are taken.
    pub min_size: u8,
    /// Which part of the pool's objects it has: more bits of their hashes are the same after a split.
    pub bits: u32,
    /// True while it is about to be merged: nothing changes.
    pub is_merging: bool,
}

impl Membership {
    /// The PG's members by `map`. A PG that is not split off yet in `map` is placed with the PG that it will come from.
    /// Empty when there is no pool.
    pub fn of(map: &OsdMap, pgid: PgId) -> Membership {
        let Some(pool) = map.pools.get(&pgid.pool) else { return Membership::default() };
        let pgid = PgPool::ancestor_of(pgid, pool.pg_num);
        let UpActing { up, up_primary, acting, acting_primary } = map.pg_to_up_acting(pgid);
        Membership {
            up,
            up_primary,
            acting,
            primary: acting_primary,
            size: pool.size,
            min_size: pool.min_size,
            bits: HObject::split_bits(pgid, pool.pg_num),
            is_merging: pool.is_merging(pgid),
        }
    }

    /// All OSDs that are to have what the PG has: the acting set, and those of the up set that do not act yet. Each
    /// comes once, even if a CRUSH rule names it twice: it has one copy, and what it is told twice it refuses.
    pub fn all(&self) -> impl Iterator<Item = OsdId> + '_ {
        let filled = distinct_osds(&self.up).filter(|osd| !self.acting.contains(osd));
        distinct_osds(&self.acting).chain(filled)
    }

    /// How many OSDs act: an OSD that is named twice holds one copy.
    pub fn acting_count(&self) -> usize {
        distinct_osds(&self.acting).count()
    }

    /// True for one of [`Membership::all`].
    pub fn contains(&self, osd: OsdId) -> bool {
        self.acting.contains(&osd) || self.up.contains(&osd)
    }

    /// True while the acting set differs from the up set (`REMAPPED`).
    pub fn is_remapped(&self) -> bool {
        self.acting != self.up
    }

    /// The membership by `map` if a new interval has begun since the epoch `at`, in which this one was last seen:
    /// because the membership differs, or because a member was started anew. `None` while this one goes on.
    pub fn next(&self, at: Epoch, map: &OsdMap, pgid: PgId) -> Option<Membership> {
        let next = Membership::of(map, pgid);
        let is_restarted = self.all().any(|osd| map.up_from(osd) > at);
        (next != *self || is_restarted).then_some(next)
    }

    /// The first epoch of the interval that contains `map`, given that the map seen before is that of epoch `at`. If
    /// that is the epoch right before `map`, this is the latest epoch at which the interval can have begun. If maps
    /// between are gone, it is the earliest: when the last of the members was started. An interval that began then and
    /// has an `up_thru` since may have taken writes.
    pub fn begin(&self, at: Epoch, map: &OsdMap) -> Epoch {
        if at.next() == map.epoch {
            return map.epoch;
        }
        self.acting.iter().map(|osd| map.up_from(*osd)).max().unwrap_or(map.epoch).min(map.epoch)
    }

    /// The interval from `first` to `last`, that this membership ruled. `map` is the first map after it:
    /// its `up_thru` says whether the primary was known to live in it.
    pub fn close(&self, first: Epoch, last: Epoch, map: &OsdMap) -> PgInterval {
        // If an OSD counts twice here, the only effect is that peering asks about this interval, too.
        let is_enough = self.acting.iter().filter(|o| o.is_some()).count() >= usize::from(self.min_size);
        let lived = self.primary.is_some()
            && map.up_thru(self.primary) >= first
            && map.up_from(self.primary) <= first;
        PgInterval {
            first,
            last,
            acting: self.acting.clone(),
            primary: self.primary,
            maybe_went_rw: is_enough && lived,
            forgotten_since: Epoch(0),
        }
    }
}

/// The OSDs that there are in a set, each where it is named first.
pub fn distinct_osds(osds: &[OsdId]) -> impl Iterator<Item = OsdId> + '_ {
    let firsts = osds.iter().enumerate().filter(|(at, osd)| osd.is_some() && !osds[..*at].contains(osd));
    firsts.map(|(_, osd)| *osd)
}
