//! Where a PG's present interval began.

use std::borrow::Borrow;

use types::{Epoch, Membership, OsdId, OsdMap, PgId};

/// Where the present interval of a PG began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalStart {
    /// Its first epoch (`same_interval_since`).
    pub since: Epoch,
    /// The first epoch in which the same primary led (`same_primary_since`).
    pub primary_since: Epoch,
}

impl IntervalStart {
    /// Walks back from `map` through `history`, the maps before it, newest first: no further than it must. Only where
    /// `me` is the primary has it to know how long it has led.
    pub fn find<M: Borrow<OsdMap>>(
        map: &OsdMap,
        history: impl IntoIterator<Item = M>,
        pgid: PgId,
        me: OsdId,
    ) -> IntervalStart {
        let members = Membership::of(map, pgid);
        let mut start = IntervalStart { since: map.epoch, primary_since: map.epoch };
        let mut is_same_interval = true;
        for before in history {
            let before = before.borrow();
            let then = Membership::of(before, pgid);
            // A split moves objects: clients send again, as they do to another primary.
            if then.primary != members.primary
                || then.bits != members.bits
                || map.up_from(members.primary) > before.epoch
            {
                break;
            }
            start.primary_since = before.epoch;
            is_same_interval &= then == members && members.all().all(|osd| map.up_from(osd) <= before.epoch);
            if is_same_interval {
                start.since = before.epoch;
            } else if members.primary != me {
                break;
            }
        }
        start
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use bytes::Bytes;
    use codec::Decode;
    use messages::MOSDMap;
    use types::OsdState;

    use super::*;

    /// A map of Ceph 16.2 with three OSDs.
    pub(crate) fn captured() -> OsdMap {
        const MAPS: &[u8] = include_bytes!("../../messages/testdata/osd_map_41_s2c_005.front.bin");
        let message = MOSDMap::from_bytes(Bytes::from_static(MAPS)).unwrap();
        OsdMap::from_bytes(message.fulls.values().next_back().unwrap().clone()).unwrap()
    }

    fn next(map: &OsdMap) -> OsdMap {
        OsdMap { epoch: map.epoch.next(), ..map.clone() }
    }

    #[test]
    fn an_interval_begins_where_its_members_or_their_lives_began() {
        let first = captured();
        let pgid = first.pgs().next().unwrap();
        let members = Membership::of(&first, pgid);
        let other = *members.acting.iter().find(|osd| **osd != members.primary).unwrap();

        let mut lost = next(&first);
        lost.osd_state[other.0 as usize] = OsdState::EXISTS;
        let later = next(&lost);
        let found = IntervalStart::find(&later, [&lost, &first], pgid, members.primary);
        assert_eq!(found, IntervalStart { since: lost.epoch, primary_since: first.epoch });

        let found = IntervalStart::find(&later, [&lost, &first], pgid, other);
        assert_eq!(found.since, lost.epoch);

        let mut restarted = next(&first);
        restarted.osd_info[members.primary.0 as usize].up_from = restarted.epoch;
        let found = IntervalStart::find(&restarted, [&first], pgid, members.primary);
        assert_eq!(found, IntervalStart { since: restarted.epoch, primary_since: restarted.epoch });
    }
}
