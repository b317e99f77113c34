//! What keeps a cluster from answering, as far as its map tells.

use types::{MapFlags, OsdMap, PgId, PoolId};

/// In words, for the user of a bench that gets no answer.
pub(super) fn reason(map: &OsdMap, pool: PoolId) -> String {
    let Some(found) = map.pools.get(&pool) else { return "the pool is gone".to_owned() };
    if !map.osds().any(|osd| map.is_up(osd)) {
        return "no OSD is up".to_owned();
    }
    if map.has_flag(MapFlags::PAUSEWR) || map.has_flag(MapFlags::PAUSERD) {
        return "the cluster is paused (ceph osd unpause)".to_owned();
    }
    if map.is_full(pool) {
        return "the pool is full".to_owned();
    }
    let served = |seed: &u32| {
        let acting = map.pg_to_up_acting(PgId { pool, seed: *seed }).acting;
        acting.iter().filter(|osd| osd.is_some()).count()
    };
    let min_size = found.min_size as usize;
    let few = (0..found.pg_num).filter(|seed| served(seed) < min_size).count();
    if few > 0 {
        return format!("{few} of {} PGs have fewer OSDs than min_size {min_size}", found.pg_num);
    }
    "OSDs are up and do not answer (ceph health detail)".to_owned()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use codec::Decode;
    use messages::MOSDMap;
    use types::{OsdState, PoolFlags};

    use super::*;

    const MAPS: &[u8] = include_bytes!("../../../messages/testdata/osd_map_41_s2c_005.front.bin");

    #[test]
    fn a_bench_without_answers_says_what_is_missing() {
        let message = MOSDMap::from_bytes(Bytes::from_static(MAPS)).unwrap();
        let mut map = OsdMap::from_bytes(message.fulls.values().next_back().unwrap().clone()).unwrap();
        let pool = *map.pools.keys().next().unwrap();
        assert!(reason(&map, pool).starts_with("OSDs are up"));
        assert_eq!(reason(&map, PoolId(77)), "the pool is gone");
        map.pools.get_mut(&pool).unwrap().flags.0 |= PoolFlags::FULL.0;
        assert_eq!(reason(&map, pool), "the pool is full");
        map.flags.0 |= MapFlags::PAUSEWR.0;
        assert!(reason(&map, pool).contains("paused"));
        map.flags.0 &= !MapFlags::PAUSEWR.0;
        map.pools.get_mut(&pool).unwrap().flags.0 &= !PoolFlags::FULL.0;
        let down = |state: &mut OsdState| state.0 &= !OsdState::UP.0;
        map.pools.get_mut(&pool).unwrap().min_size = 2;
        map.osd_state.iter_mut().skip(1).for_each(down);
        assert!(reason(&map, pool).contains("fewer OSDs than min_size 2"), "{}", reason(&map, pool));
        map.osd_state.iter_mut().for_each(down);
        assert_eq!(reason(&map, pool), "no OSD is up");
    }
}
