//! Which part of an OSD a machine is. An OSD of `count` shards is as many machines, each on a reactor of
//! its own with a store of its own; every PG belongs to one of them for good.

use types::{OsdMap, PgId, PgPool};

use crate::ConnId;

/// Shards of an OSD, at most: what a session remembers of them fits a word, and a pair of queues between
/// any two of them is still small.
pub const SHARDS_MAX: u16 = 32;

/// The shard that speaks with the monitors, beats for all, and tells the others what it learns.
pub const CONTROL: u16 = 0;

/// One shard among those of its OSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which one, from 0.
    pub index: u16,
    /// How many there are: a power of two, so that a PG that splits stays where it is.
    pub count: u16,
}

impl Shard {
    /// The only one of its OSD.
    pub const ONLY: Shard = Shard { index: 0, count: 1 };

    /// The shard that a PG belongs to, whatever the map says that has its pool. Pools begin at different shards,
    /// so that small ones spread; a PG that came of a split is where the pool's first PG is that it came of.
    pub fn owner(self, pgid: PgId, map: &OsdMap) -> u16 {
        self.known_owner(pgid, map).unwrap_or_else(|| self.place_of_first(pgid))
    }

    /// The shard that a PG belongs to, if the map has its pool: without the pool it is not known what split it came of.
    pub(crate) fn known_owner(self, pgid: PgId, map: &OsdMap) -> Option<u16> {
        let pool = map.pools.get(&pgid.pool)?;
        Some(self.place_of_first(PgPool::ancestor_of(pgid, pool.first_pg_num())))
    }

    /// The shard of a PG that its pool began with.
    fn place_of_first(self, pgid: PgId) -> u16 {
        let place = pgid.seed.wrapping_add(pgid.pool.0 as u32);
        (place % u32::from(self.count)) as u16
    }

    /// True for the shard that speaks with the monitors.
    pub fn is_control(self) -> bool {
        self.index == CONTROL
    }

    /// The other shards.
    pub(crate) fn others(self) -> impl Iterator<Item = u16> {
        (0..self.count).filter(move |index| *index != self.index)
    }
}

/// Bits of a [`ConnId`] that number the connections of one shard.
const NUMBER_BITS: u32 = 48;
/// Has the ids of sessions at the OSD's own socket: the control shard's, behind those of all its connections.
const LOCAL: u64 = 1 << (NUMBER_BITS - 1);

impl ConnId {
    /// No connection of any shard.
    pub(crate) const NONE: ConnId = ConnId(0);

    /// The first connection of a shard; the next ones count on from it.
    pub fn first_of(shard: u16) -> ConnId {
        ConnId(u64::from(shard) << NUMBER_BITS | 1)
    }

    /// The `number`-th session at the OSD's own socket, which is no connection.
    pub fn local(number: u64) -> ConnId {
        ConnId(LOCAL | number)
    }

    /// True for a session at the OSD's own socket.
    pub fn is_local(self) -> bool {
        self.0 & LOCAL != 0
    }

    /// The shard whose reactor has the connection.
    pub fn shard(self) -> u16 {
        (self.0 >> NUMBER_BITS) as u16
    }
}

#[cfg(test)]
mod tests {
    use types::{CrushBlob, PoolId, PoolType, UTime, Uuid};

    use super::*;

    #[test]
    fn pgs_spread_evenly_and_splits_stay() {
        let shard = Shard { index: 0, count: 4 };
        let map_of = |pool: &PgPool| {
            let mut map = OsdMap::new(Uuid([0; 16]), UTime::default(), CrushBlob::default());
            map.pools.insert(PoolId(3), pool.clone());
            map
        };
        for (first, spread) in [(32, [8; 4]), (6, [1, 1, 2, 2]), (2, [0, 0, 1, 1]), (1, [0, 0, 0, 1])] {
            let mut pool = PgPool::new(PoolType::REPLICATED, 3, 2, 0, first);
            let before = map_of(&pool);
            let mut held = [0; 4];
            for seed in 0..first {
                held[usize::from(shard.owner(PgId::new(PoolId(3), seed), &before))] += 1;
            }
            held.sort_unstable();
            assert_eq!(held, spread, "{first}");
            pool.set_pg_num(12.max(first));
            pool.set_pg_num(77);
            let after = map_of(&pool);
            for pgid in (0..first).map(|seed| PgId::new(PoolId(3), seed)) {
                for child in PgPool::children_of(pgid, first, 77) {
                    assert_eq!(shard.owner(pgid, &before), shard.owner(child, &after), "{first}");
                    // A peer with an older map sends a message to the same shard.
                    assert_eq!(shard.owner(child, &before), shard.owner(child, &after), "{first}");
                }
            }
        }
        assert_eq!(Shard::ONLY.owner(PgId::new(PoolId(7), 5), &map_of(&PgPool::default())), 0);
    }

    #[test]
    fn connections_name_their_shard() {
        assert_eq!((ConnId::first_of(0), ConnId::first_of(3).shard()), (ConnId(1), 3));
    }

    #[test]
    fn connections_of_every_shard_are_told_from_local_sessions() {
        assert!(ConnId::local(0).is_local() && ConnId::local(7).is_local());
        for shard in 0..SHARDS_MAX {
            assert!(!ConnId::first_of(shard).is_local(), "{shard}");
        }
    }
}
