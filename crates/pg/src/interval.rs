//! Where a PG's present interval began.

use std::borrow::Borrow;

use types::{Epoch, Membership, OsdId, OsdMap, PgId};

/// Where the present interval of a PG began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalStart {
    /// Its first epoch (`same_interval_since`). Where maps are gone, the earliest that it can be, as for
    /// [`Membership::begin`]: what was written since may have been written in it.
    pub since: Epoch,
    /// The first epoch in which the same primary led (`same_primary_since`).
    /// Where maps are gone, the earliest that it can be: clients that mapped to it since do not send again.
    pub primary_since: Epoch,
    /// The oldest map in which it is known to go on. What was told before may be of another interval.
    pub seen_since: Epoch,
}

impl IntervalStart {
    /// Walks back from `map` through `history`, the maps before it, newest first: no further than it must. Only where
    /// `me` is the primary has it to know how long it has led. Where `history` ends before the PG was `created`, maps
    /// are gone.
    pub fn find<M: Borrow<OsdMap>>(
        map: &OsdMap,
        history: impl IntoIterator<Item = M>,
        pgid: PgId,
        me: OsdId,
        created: Epoch,
    ) -> IntervalStart {
        let members = Membership::of(map, pgid);
        let epoch = map.epoch;
        let mut start = IntervalStart { since: epoch, primary_since: epoch, seen_since: epoch };
        let mut is_same_interval = true;
        for before in history {
            let before = before.borrow();
            let then = Membership::of(before, pgid);
            // A split moves objects: clients send again, as they do to another primary.
            if then.primary != members.primary
                || then.bits != members.bits
                || map.up_from(members.primary) > before.epoch
            {
                return start;
            }
            start.primary_since = before.epoch;
            is_same_interval &= then == members && members.all().all(|osd| map.up_from(osd) <= before.epoch);
            if is_same_interval {
                (start.since, start.seen_since) = (before.epoch, before.epoch);
            } else if members.primary != me {
                return start;
            }
        }
        // No other primary was found. At `created`, the history ends because the PG does.
        if start.primary_since > created {
            if is_same_interval {
                // As no map before is known.
                start.since = members.begin(Epoch(0), map).max(created).min(start.since);
            }
            start.primary_since = map.up_from(members.primary).max(created).min(start.primary_since);
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
        let at = |since: Epoch, primary_since| IntervalStart { since, primary_since, seen_since: since };
        let created = first.epoch;
        let found = IntervalStart::find(&later, [&lost, &first], pgid, members.primary, created);
        assert_eq!(found, at(lost.epoch, first.epoch));

        let found = IntervalStart::find(&later, [&lost, &first], pgid, other, created);
        assert_eq!(found.since, lost.epoch);

        let mut restarted = next(&first);
        restarted.osd_info[members.primary.0 as usize].up_from = restarted.epoch;
        let found = IntervalStart::find(&restarted, [&first], pgid, members.primary, created);
        assert_eq!(found, at(restarted.epoch, restarted.epoch));
    }

    #[test]
    fn an_interval_does_not_begin_where_the_kept_maps_do() {
        let oldest = captured();
        let pgid = oldest.pgs().next().unwrap();
        let members = Membership::of(&oldest, pgid);
        let (me, up_from) = (members.primary, |osd: OsdId| oldest.up_from(osd));
        let last_up = members.acting.iter().map(|osd| up_from(*osd)).max().unwrap();
        let (newest, seen_since) = (next(&oldest), oldest.epoch);
        assert!(up_from(me) < seen_since && last_up < seen_since);
        let found = |history: &[&OsdMap], created: Epoch| {
            let map = if history.is_empty() { &oldest } else { &newest };
            IntervalStart::find(map, history.iter().copied(), pgid, me, created)
        };
        for history in [&[&oldest][..], &[]] {
            let all = IntervalStart { since: last_up, primary_since: up_from(me), seen_since };
            assert_eq!(found(history, Epoch(1)), all);
            // The PG was made later than its members were started: in the map before the oldest, or in that one.
            for created in [Epoch(seen_since.0 - 1), seen_since] {
                let since = IntervalStart { since: created, primary_since: created, seen_since };
                assert_eq!(found(history, created), since);
            }
        }
        // Another interval with the same primary: only the latter began before the oldest map.
        let mut lost = newest.clone();
        let other = *members.acting.iter().find(|osd| **osd != me).unwrap();
        lost.osd_state[other.0 as usize] = OsdState::EXISTS;
        let found = IntervalStart::find(&lost, [&oldest], pgid, me, Epoch(1));
        let (since, primary_since) = (lost.epoch, up_from(me));
        assert_eq!(found, IntervalStart { since, primary_since, seen_since: since });
    }
}
