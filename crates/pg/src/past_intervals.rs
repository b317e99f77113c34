//! The past that has to be known before a PG may serve: intervals that may have taken writes, the OSDs that can tell of
//! them, and those that the PG waits for.
//!
//! Authority: `PastIntervals::PriorSet`, `PeeringState::Down` (16.2).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use types::{Epoch, OsdId, OsdMap, PgInterval};

use crate::{Pg, pg::Phase, unfound::is_given_up};

/// Drops intervals, of a list in their order, of which later ones say all: the OSDs of one later interval were all
/// members of this one, too, so what tells the PG of that interval tells it of this one, if it is as old
/// ([`PgInterval::speak_for`]), and each member of this one is a member of a later one, so no OSD is forgotten that may
/// have something ([`Pg::might_have`]). Hence the list does not grow with every restart while the PG is not clean
/// (`pi_compact_rep::add_interval`). That all OSDs of the later interval were removed from the map tells nothing of
/// this one: see [`Pg::is_told`].
pub(crate) fn forget_superseded(intervals: &mut Vec<PgInterval>) {
    let (mut kept, mut later) = (Vec::<PgInterval>::with_capacity(intervals.len()), Later::default());
    for interval in intervals.drain(..).rev() {
        let osds: BTreeSet<OsdId> = interval.acting.iter().copied().filter(|osd| osd.is_some()).collect();
        let osds: Vec<OsdId> = osds.into_iter().collect();
        let part = later.part_of(&osds, interval.last).filter(|_| later.names_all(&osds, interval.last));
        match part.and_then(|nth| kept.get_mut(nth)) {
            Some(later) => later.speak_for(&interval),
            None => {
                later.add(&osds, interval.last, kept.len());
                kept.push(interval);
            }
        }
    }
    kept.reverse();
    *intervals = kept;
}

/// The OSDs of the later intervals, so that many are not compared with each other one by one. OSDs are given in their
/// order.
#[derive(Debug, Default)]
struct Later {
    /// When the last interval ended that an OSD was a member of.
    by_osd: BTreeMap<OsdId, Epoch>,
    /// A tree in which the members of an interval are a path: from each node, by the next member.
    next: BTreeMap<(usize, OsdId), usize>,
    /// By node: when the last interval ended that has just the members up to there, and which it is.
    ends: Vec<Option<(Epoch, usize)>>,
}

impl Later {
    /// Adds the `nth` interval.
    fn add(&mut self, osds: &[OsdId], last: Epoch, nth: usize) {
        if self.ends.is_empty() {
            self.ends.push(None);
        }
        let mut node = 0;
        for osd in osds {
            let end = self.by_osd.entry(*osd).or_default();
            *end = last.max(*end);
            node = *self.next.entry((node, *osd)).or_insert(self.ends.len());
            if node == self.ends.len() {
                self.ends.push(None);
            }
        }
        self.ends[node] = self.ends[node].max(Some((last, nth)));
    }

    /// True if each of these is a member of an interval that ended in epoch `last` or later.
    fn names_all(&self, osds: &[OsdId], last: Epoch) -> bool {
        osds.iter().all(|osd| self.by_osd.get(osd).is_some_and(|end| *end >= last))
    }

    /// An interval that ended in epoch `last` or later and had no members but these.
    fn part_of(&self, osds: &[OsdId], last: Epoch) -> Option<usize> {
        // Nodes to look at, each with how many of the OSDs come before those that may follow it.
        let mut open = vec![(0, 0)];
        while let Some((node, before)) = open.pop() {
            if let Some((_, nth)) = self.ends.get(node).copied().flatten().filter(|(end, _)| *end >= last) {
                return Some(nth);
            }
            let more = osds.iter().enumerate().skip(before);
            open.extend(more.filter_map(|(at, osd)| Some((*self.next.get(&(node, *osd))?, at + 1))));
        }
        None
    }
}

impl Pg {
    /// Adds past intervals that another copy knows of, and forgets those that ended before the PG was clean in epoch
    /// `clean`. True if one was not known, or not all that it answers for.
    pub(crate) fn learn_intervals(&mut self, theirs: Vec<PgInterval>, clean: Epoch) -> bool {
        let clean = self.info.last_epoch_clean.max(clean);
        self.info.last_epoch_clean = clean;
        let since = self.interval_seen_since();
        self.intervals.retain(|interval| interval.last >= clean);
        let span = |interval: &PgInterval| (interval.first, interval.last);
        let claim = |interval: &PgInterval| (span(interval), interval.speaks_since());
        self.intervals.iter_mut().for_each(|interval| interval.clean(clean));
        let known: Vec<_> = self.intervals.iter().map(claim).collect();
        let is_past = |interval: &PgInterval| interval.last >= clean && interval.last < since;
        self.intervals.extend(theirs.into_iter().filter(is_past).map(|mut interval| {
            interval.clean(clean);
            interval
        }));
        self.intervals.sort_by_key(span);
        self.intervals.dedup_by(|other, kept| {
            let is_same = span(other) == span(kept);
            if is_same {
                kept.speak_for(other);
            }
            is_same
        });
        forget_superseded(&mut self.intervals);
        self.intervals.iter().any(|interval| known.binary_search(&claim(interval)).is_err())
    }

    /// Intervals that may have taken writes since the last activation that any OSD that is up knows of. An OSD that
    /// knows of a later activation and is down has what was written before it; no other need have that.
    fn open_intervals(&self, map: &OsdMap) -> impl Iterator<Item = &PgInterval> {
        let up = self.peer_info.iter().filter(|(osd, _)| map.is_up(**osd));
        let started = up.map(|(_, info)| info.last_epoch_started).max().unwrap_or_default();
        let started = started.max(self.info.last_epoch_started);
        self.intervals.iter().filter(move |interval| interval.last >= started)
    }

    /// True when a member of the interval has told what it has, or was given up (`osd lost`) since the interval began.
    /// Also true when no member remains, and no other OSD may have more (`untold` is empty): an operator who removed
    /// them all (`osd purge`) gave them up for good, and there is none left to come back, or to be marked lost.
    fn is_told(&self, interval: &PgInterval, untold: &BTreeSet<OsdId>, map: &OsdMap) -> bool {
        let is_lost = |osd: &OsdId| map.exists(*osd) && map.info(*osd).lost_at > interval.first;
        let mut remaining = self.remaining(interval, map);
        interval.acting.iter().filter(|osd| osd.is_some()).any(is_lost)
            || remaining.clone().any(|osd| osd == self.me || self.is_probed(osd, map))
            || remaining.next().is_none() && untold.is_empty()
    }

    /// The members of the interval that may still have what was written in it. One that was purged has not. Nor has one
    /// that says that its store is younger than what it would answer for, as its OSD was made anew (`osd destroy`),
    /// unless it was part of the active PG after that: then it has all that was before, and was a member with this
    /// store since. Ceph takes the word of any store.
    fn remaining(&self, interval: &PgInterval, map: &OsdMap) -> impl Iterator<Item = OsdId> + Clone {
        let has_it = |osd: &OsdId| {
            let told = self.peer_info.get(osd).filter(|_| self.is_probed(*osd, map));
            let (born, started) = match told {
                _ if *osd == self.me => (self.store_born, self.info.last_epoch_started),
                Some(info) => (info.store_born, info.last_epoch_started),
                None => return true,
            };
            born <= interval.speaks_since() || started >= born.min(interval.first)
        };
        interval.acting.iter().copied().filter(move |osd| osd.is_some() && map.exists(*osd) && has_it(osd))
    }

    /// Members of the open intervals that have not told what they have and were not given up. An interval of which they
    /// were members, too, may have been forgotten for one whose members do not exist any more ([`forget_superseded`]).
    /// Then they alone have what was written in it.
    fn untold_members(&self, map: &OsdMap) -> BTreeSet<OsdId> {
        let members = self.open_intervals(map).flat_map(|interval| interval.acting.iter().copied());
        let is_untold = |osd: &OsdId| {
            osd.is_some() && *osd != self.me && !self.is_probed(*osd, map) && !is_given_up(*osd, map)
        };
        members.filter(is_untold).collect()
    }

    /// OSDs that would make [`Pg::is_past_told`] true, if they came up or were given up.
    fn wanted(&self, map: &OsdMap) -> BTreeSet<OsdId> {
        let untold = self.untold_members(map);
        let mut wanted = BTreeSet::new();
        for interval in self.open_intervals(map).filter(|interval| !self.is_told(interval, &untold, map)) {
            let mut members = self.remaining(interval, map).peekable();
            if members.peek().is_none() {
                wanted.extend(&untold);
            }
            wanted.extend(members);
        }
        wanted
    }

    /// True when no writes can be lost by serving with what was told.
    pub(crate) fn is_past_told(&self, map: &OsdMap) -> bool {
        let untold = self.untold_members(map);
        self.open_intervals(map).all(|interval| self.is_told(interval, &untold, map))
    }

    /// Members of the open intervals that are down.
    fn away(&self, map: &OsdMap) -> BTreeSet<OsdId> {
        let members = self.open_intervals(map).flat_map(|interval| interval.acting.iter().copied());
        members.filter(|osd| osd.is_some() && map.is_down(*osd)).collect()
    }

    /// OSDs that the PG waits for while it peers.
    pub(crate) fn blocked_by(&self, map: &OsdMap) -> Vec<OsdId> {
        match &self.phase {
            Phase::GetInfo { waiting } => waiting.iter().copied().collect(),
            Phase::GetLog { from } => vec![*from],
            Phase::Down => self.away(map).into_iter().collect(),
            Phase::Idle
            | Phase::Replica
            | Phase::WaitActing { .. }
            | Phase::WaitUpThru
            | Phase::Activating { .. }
            | Phase::Active => Vec::new(),
        }
    }

    /// What `ceph pg ID query` says of a primary that peers.
    pub(crate) fn peering_json(&self, entered: &str, map: &OsdMap) -> Value {
        let away = self.away(map);
        let probing: BTreeSet<OsdId> = self.peer_info.keys().copied().chain([self.me]).collect();
        let mut out = json!({
            "name": "Started/Primary/Peering",
            "enter_time": entered,
            "past_intervals": self.intervals_json(),
            "probing_osds": probing.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "down_osds_we_would_probe": away.iter().map(|osd| osd.0).collect::<Vec<_>>(),
            "peering_blocked_by": [],
        });
        if self.phase == Phase::Down {
            let wanted = self.wanted(map);
            let one = |osd: &OsdId| {
                json!({
                    "osd": osd.0,
                    "current_lost_at": map.info(*osd).lost_at.0,
                    "comment": "starting or marking this osd lost may let us proceed",
                })
            };
            out["blocked"] = "peering is blocked due to down osds".into();
            out["peering_blocked_by"] = away.intersection(&wanted).map(one).collect();
        }
        out
    }

    fn intervals_json(&self) -> Value {
        let Some(oldest) = self.intervals.first() else { return json!([]) };
        let members = |interval: &PgInterval| -> BTreeSet<OsdId> {
            interval.acting.iter().copied().filter(|osd| osd.is_some()).collect()
        };
        let all: BTreeSet<OsdId> = self.intervals.iter().flat_map(members).collect();
        let one = |interval: &PgInterval| {
            let acting: Vec<String> = members(interval).iter().map(ToString::to_string).collect();
            json!({
                "first": interval.first.to_string(),
                "last": interval.last.to_string(),
                "acting": acting.join(","),
            })
        };
        json!([{
            "first": oldest.first.to_string(),
            "last": (self.info.since.0 - 1).to_string(),
            "all_participants": all.iter().map(|osd| json!({"osd": osd.0})).collect::<Vec<_>>(),
            "intervals": self.intervals.iter().map(one).collect::<Vec<_>>(),
        }])
    }
}

#[cfg(test)]
mod tests {
    use messages::{MPgNotify, Message};
    use types::{PgInfo, PgState};

    use super::*;
    use crate::{Event, test_world::World};

    /// The other member tells that it has what this one has.
    fn tell(world: &mut World, osd: OsdId, last_epoch_started: Epoch, last: u64) {
        let (pgid, epoch, last_update) = (world.pg.pgid, world.map.epoch, world.version(last));
        let info = PgInfo { last_epoch_started, last_update, ..PgInfo::default() };
        let (intervals, leases) = (Vec::new(), Vec::new());
        world.say(osd, MPgNotify { pgid, epoch, info, intervals, leases }.into());
    }

    /// A PG of two that begins an interval while an OSD that led before is up, and one that led before that is down.
    /// Returns these two, and when the first one led.
    fn led_by_others() -> (World, OsdId, OsdId, Epoch) {
        let mut world = World::of(2);
        let begun = world.map.epoch;
        let members = [world.pg.me, world.peers[0]];
        let stray = world.map.osds().find(|osd| world.map.is_up(*osd) && !members.contains(osd)).unwrap();
        let away = world.add_down_osd();
        let interval = |nth: u32, acting: Vec<OsdId>| {
            let (first, primary) = (Epoch(begun.0 + nth), acting[0]);
            PgInterval { first, last: first, acting, primary, maybe_went_rw: true, forgotten_since: Epoch(0) }
        };
        world.pg.intervals = vec![interval(1, vec![away]), interval(2, vec![stray, world.pg.me])];
        world.map.epoch = Epoch(begun.0 + 3);
        // It begins anew.
        world.map.osd_info[usize::try_from(world.peers[0].0).unwrap()].up_from = world.map.epoch;
        world.handle(Event::NewMap);
        world.pg.intervals.retain(|interval| interval.first > begun);
        (world, stray, away, Epoch(begun.0 + 2))
    }

    #[test]
    fn what_was_told_by_one_that_is_down_says_nothing_of_the_past() {
        for is_up in [true, false] {
            let (mut world, stray, away, led) = led_by_others();
            assert!(matches!(world.pg.phase, Phase::GetInfo { .. }));
            // It knows of an activation after the one that led alone, and has what that one wrote.
            tell(&mut world, stray, led, 5);
            if !is_up {
                world.map.epoch = world.map.epoch.next();
                world.map.osd_state[usize::try_from(stray.0).unwrap()] = types::OsdState::EXISTS;
                world.handle(Event::NewMap);
            }
            let other = world.peers[0];
            tell(&mut world, other, Epoch(0), 3);
            let expected = if is_up { Phase::GetLog { from: stray } } else { Phase::Down };
            assert_eq!(world.pg.phase, expected);
            if !is_up {
                assert!(world.pg.blocked_by(&world.map).contains(&away));
            }
        }
    }

    #[test]
    fn one_that_began_a_new_life_is_asked_again() {
        let (mut world, stray, _, led) = led_by_others();
        tell(&mut world, stray, led, 5);
        world.told();
        world.map.epoch = world.map.epoch.next();
        world.map.osd_info[usize::try_from(stray.0).unwrap()].up_from = world.map.epoch;
        world.handle(Event::NewMap);
        let asked = world.told().into_iter().filter(|(_, message)| matches!(message, Message::MPgQuery(_)));
        assert_eq!(asked.map(|(osds, _)| osds).collect::<Vec<_>>(), [[stray]]);
        let other = world.peers[0];
        tell(&mut world, other, Epoch(0), 3);
        assert_eq!(world.pg.blocked_by(&world.map), [stray]);
        // It has come back without its copy.
        tell(&mut world, stray, Epoch(0), 0);
        assert_eq!(world.pg.phase, Phase::Down);
    }

    /// A PG whose only other copy led alone after it, and is down.
    fn left_behind() -> (World, OsdId) {
        let mut world = World::of(2);
        let other = world.peers[0];
        let at = usize::try_from(other.0).unwrap();
        let (first, last) = (Epoch(world.map.epoch.0 + 1), Epoch(world.map.epoch.0 + 2));
        world.map.epoch = Epoch(last.0 + 1);
        world.map.osd_state[at] = types::OsdState::EXISTS;
        let interval = PgInterval {
            first,
            last,
            acting: vec![other],
            primary: other,
            maybe_went_rw: true,
            forgotten_since: Epoch(0),
        };
        world.pg.intervals.push(interval);
        world.handle(Event::NewMap);
        (world, other)
    }

    #[test]
    fn a_copy_that_finds_maps_gone_waits_for_those_who_led_in_the_oldest_left() {
        let mut world = World::of(2);
        let (pgid, me, at) = (world.pg.pgid, world.pg.me, world.map.epoch);
        let up = |world: &World| world.map.osds().filter(|osd| world.map.is_up(*osd)).collect::<Vec<_>>();
        let others: Vec<OsdId> = up(&world).into_iter().filter(|osd| *osd != me).take(2).collect();
        // Others lead, and have for long: only they know since when.
        world.map.epoch = Epoch(at.0 + 100);
        world.map.pg_temp.insert(pgid, others.clone());
        world.map.osd_info[usize::try_from(others[0].0).unwrap()].up_thru = Epoch(at.0 + 50);
        world.handle(Event::NewMap);
        assert_eq!(world.pg.members.acting, others);
        for osd in &others {
            world.map.osd_state[usize::try_from(osd.0).unwrap()] = types::OsdState::EXISTS;
        }
        world.map.epoch = world.map.epoch.next();
        world.map.pg_temp.insert(pgid, vec![me]);
        world.handle(Event::NewMap);
        assert_eq!(world.pg.phase, Phase::Down);
        assert_eq!(world.pg.blocked_by(&world.map), others);
    }

    #[test]
    fn a_copy_that_finds_maps_gone_claims_nothing_of_those_that_it_did_not_see() {
        let mut world = World::of(2);
        let (pgid, at, since) = (world.pg.pgid, world.map.epoch, world.pg.info.since);
        let is_up = |world: &World, osd: &OsdId| world.map.is_up(*osd) && *osd != world.pg.me;
        let others: Vec<OsdId> = world.map.osds().filter(|osd| is_up(&world, osd)).take(2).collect();
        let primary = usize::try_from(world.pg.members.primary.0).unwrap();
        world.map.osd_info[primary].up_from = since;
        world.map.osd_info[primary].up_thru = since;
        world.map.epoch = Epoch(at.0 + 100);
        world.map.pg_temp.insert(pgid, others);
        world.handle(Event::NewMap);
        let spans: Vec<_> = world.pg.intervals.iter().map(|seen| (seen.first, seen.last)).collect();
        assert_eq!(spans, [(since, at)], "others may have led in the maps between, and the PG been clean");
    }

    #[test]
    fn a_pg_waits_for_who_may_have_led_alone_until_it_is_given_up() {
        let (mut world, other) = left_behind();
        assert_eq!((&world.pg.phase, world.pg.state()), (&Phase::Down, PgState::DOWN));
        assert_eq!(world.pg.blocked_by(&world.map), [other]);
        let shown = world.pg.peering_json("now", &world.map);
        assert_eq!(shown["peering_blocked_by"][0]["osd"], other.0);
        assert_eq!(shown["down_osds_we_would_probe"], json!([other.0]));
        assert_eq!(shown["past_intervals"][0]["intervals"][0]["acting"], other.to_string());

        let at = usize::try_from(other.0).unwrap();
        let first = world.pg.intervals[0].first;
        for (lost_at, is_down) in [(first, true), (first.next(), false)] {
            world.map.epoch = world.map.epoch.next();
            world.map.osd_info[at].lost_at = lost_at;
            world.handle(Event::NewMap);
            assert_eq!(world.pg.phase == Phase::Down, is_down, "lost in epoch {lost_at}");
        }
        assert!(world.pg.blocked_by(&world.map).is_empty());
    }

    #[test]
    fn a_pg_waits_for_none_that_was_purged_but_for_those_that_remain_of_its_interval() {
        for (is_lost_first, has_other) in [(false, false), (true, false), (false, true)] {
            let (mut world, purged) = left_behind();
            let other = world.add_down_osd();
            if has_other {
                world.pg.intervals[0].acting.push(other);
            }
            let at = usize::try_from(purged.0).unwrap();
            if is_lost_first {
                world.map.osd_info[at].lost_at = world.pg.intervals[0].first.next();
            }
            world.map.epoch = world.map.epoch.next();
            world.handle(Event::NewMap);
            assert_eq!(world.pg.phase == Phase::Down, !is_lost_first);
            // `osd purge` leaves nothing of it in the map, not even that it was lost.
            world.map.osd_state[at] = types::OsdState::default();
            world.map.osd_info[at] = types::OsdInfo::default();
            world.map.epoch = world.map.epoch.next();
            world.handle(Event::NewMap);
            assert_eq!(world.pg.phase == Phase::Down, has_other, "lost before: {is_lost_first}");
            world.act(|pg, ctx| pg.start_interval(ctx));
            assert_eq!(world.pg.phase == Phase::Down, has_other, "lost before: {is_lost_first}");
            if has_other {
                let shown = world.pg.peering_json("now", &world.map);
                let blocking = shown["peering_blocked_by"].as_array().unwrap();
                assert_eq!(blocking.iter().map(|by| &by["osd"]).collect::<Vec<_>>(), [&json!(other.0)]);
            }
        }
    }

    /// The interval that both led was forgotten for the one that the purged OSD led alone.
    #[test]
    fn a_pg_waits_for_an_osd_that_led_with_a_purged_one_until_it_is_given_up() {
        for is_purged in [false, true] {
            let (mut world, purged) = left_behind();
            let away = world.add_down_osd();
            let [purged, away_at] = [purged, away].map(|osd| usize::try_from(osd.0).unwrap());
            let alone = world.pg.intervals[0].clone();
            let me = world.pg.me;
            world.pg.intervals.push(PgInterval { acting: vec![away, me], primary: me, ..alone });
            world.map.osd_state[purged] = types::OsdState::default();
            world.map.osd_info[purged] = types::OsdInfo::default();
            world.map.osd_info[away_at].up_from = Epoch(1);
            world.map.epoch = world.map.epoch.next();
            world.handle(Event::NewMap);
            assert_eq!(world.pg.phase, Phase::Down);
            let shown = world.pg.peering_json("now", &world.map);
            let blocking = shown["peering_blocked_by"].as_array().unwrap();
            assert_eq!(blocking.iter().map(|by| &by["osd"]).collect::<Vec<_>>(), [&json!(away.0)]);
            if is_purged {
                world.map.osd_state[away_at] = types::OsdState::default();
            } else {
                world.map.osd_info[away_at].lost_at = Epoch(2);
            }
            world.map.epoch = world.map.epoch.next();
            world.handle(Event::NewMap);
            assert_ne!(world.pg.phase, Phase::Down, "purged: {is_purged}");
        }
    }

    #[test]
    fn an_osd_that_was_made_anew_tells_nothing_of_what_the_store_before_had() {
        let first = left_behind().0.pg.intervals[0].first;
        // With when its store began, and when it was part of the active PG last.
        for (born, started, is_told) in [
            (Epoch(0), Epoch(0), true),
            (first, Epoch(0), true),
            (first.next(), Epoch(0), false),
            (first.next(), first, true),
        ] {
            let (mut world, anew) = left_behind();
            let away = world.add_down_osd();
            world.pg.intervals[0].acting.push(away);
            let at = usize::try_from(anew.0).unwrap();
            world.map.osd_state[at] = types::OsdState::EXISTS | types::OsdState::UP;
            world.map.osd_info[at].up_from = Epoch(first.0 + 5);
            world.map.epoch = Epoch(first.0 + 5);
            world.handle(Event::NewMap);
            let (pgid, epoch) = (world.pg.pgid, world.map.epoch);
            let info = PgInfo { store_born: born, last_epoch_started: started, ..PgInfo::default() };
            let notify = MPgNotify { pgid, epoch, info, intervals: Vec::new(), leases: Vec::new() };
            world.say(anew, notify.into());
            assert_eq!(world.pg.phase != Phase::Down, is_told, "born in {born}, started in {started}");
            if !is_told {
                let shown = world.pg.peering_json("now", &world.map);
                let blocking = shown["peering_blocked_by"].as_array().unwrap();
                assert_eq!(blocking.iter().map(|by| &by["osd"]).collect::<Vec<_>>(), [&json!(away.0)]);
                // Given up as one that was purged: there is no other.
                world.pg.intervals.iter_mut().for_each(|past| past.acting.retain(|osd| *osd != away));
                assert!(world.pg.is_past_told(&world.map));
            }
        }
    }

    #[test]
    fn a_primary_that_was_made_anew_tells_nothing_of_what_its_store_before_had() {
        let (mut world, away) = left_behind();
        let (me, first) = (world.pg.me, world.pg.intervals[0].first);
        world.pg.intervals[0].acting = vec![me, away];
        let (before, active) = (Epoch(first.0 - 1), world.pg.info.last_epoch_started);
        // With where the intervals began that were forgotten for this one, and when the PG was active last.
        for (born, forgotten_since, started, is_told) in [
            (first, Epoch(0), active, true),
            (first.next(), Epoch(0), active, false),
            (before, before, active, true),
            (first, before, active, false),
            (first, before, first, true),
        ] {
            world.pg.set_store_born(born);
            world.pg.info.last_epoch_started = started;
            world.pg.intervals[0].forgotten_since = forgotten_since;
            assert_eq!(world.pg.is_past_told(&world.map), is_told, "{born}, {forgotten_since}, {started}");
            assert_eq!(world.pg.own_info().store_born, born);
        }
    }

    #[test]
    fn what_answers_for_forgotten_intervals_does_so_only_with_a_store_of_then() {
        let mut intervals = vec![
            interval(5, 6, &[0, 1, 2]),
            interval(7, 8, &[0, 1, 2]),
            interval(9, 9, &[0, 1]),
            interval(10, 10, &[2, 3]),
        ];
        forget_superseded(&mut intervals);
        let spans: Vec<_> =
            intervals.iter().map(|interval| (interval.first.0, interval.speaks_since().0)).collect();
        assert_eq!(spans, [(9, 5), (10, 10)]);

        let mut world = World::active();
        world.pg.info.last_epoch_clean = Epoch(0);
        world.pg.info.since = Epoch(20);
        // Others know of it, or do not.
        let plain = interval(9, 9, &[0, 1]);
        for (theirs, is_new) in [(plain.clone(), true), (intervals[0].clone(), true), (plain.clone(), false)]
        {
            assert_eq!(world.pg.learn_intervals(vec![theirs], Epoch(0)), is_new);
        }
        assert_eq!(
            world.pg.intervals.iter().map(|interval| interval.speaks_since().0).collect::<Vec<_>>(),
            [5]
        );
        // It need not answer for what was before the PG was clean.
        for (clean, speaks_since) in [(8, 8), (9, 9)] {
            assert!(!world.pg.learn_intervals(vec![intervals[0].clone()], Epoch(clean)));
            assert_eq!(world.pg.intervals[0].speaks_since(), Epoch(speaks_since));
        }
    }

    /// From epoch to epoch, by these OSDs.
    fn interval(first: u32, last: u32, acting: &[i32]) -> PgInterval {
        let acting: Vec<OsdId> = acting.iter().copied().map(OsdId).collect();
        let (first, last, primary) = (Epoch(first), Epoch(last), acting[0]);
        PgInterval { first, last, acting, primary, maybe_went_rw: true, forgotten_since: Epoch(0) }
    }

    #[test]
    fn intervals_go_of_which_later_ones_say_all() {
        let firsts = |mut intervals: Vec<PgInterval>| {
            forget_superseded(&mut intervals);
            intervals.iter().map(|interval| interval.first.0).collect::<Vec<_>>()
        };
        // OSDs come and go.
        let restarts = (0..100).map(|at| interval(at, at, [&[0, 1, 2][..], &[0, 1]][at as usize % 2]));
        assert_eq!(firsts(restarts.collect()), [98, 99]);
        // What OSD 2 may have is nowhere else.
        assert_eq!(firsts(vec![interval(1, 1, &[0, 1, 2]), interval(2, 2, &[0, 1])]), [1, 2]);
        // Nothing that OSD 3 tells says what OSDs 0 and 1 wrote.
        assert_eq!(firsts(vec![interval(1, 1, &[0, 1]), interval(2, 2, &[0, 1, 3])]), [1, 2]);
        // The later one may end before, where copies have skipped maps.
        assert_eq!(firsts(vec![interval(1, 9, &[0, 1]), interval(2, 3, &[0, 1])]), [1, 2]);
        assert_eq!(firsts(vec![interval(1, 3, &[0, 1]), interval(2, 3, &[1, 0])]), [2]);
        assert_eq!(firsts(vec![interval(1, 1, &[0, i32::MAX]), interval(2, 3, &[0, i32::MAX])]), [2]);
    }

    /// If each interval were compared with all others, this would not end.
    #[test]
    fn a_copy_may_tell_of_very_many_intervals() {
        const COUNT: i32 = 40_000;
        let pair = |at: i32| interval(1 + at as u32, 1 + at as u32, &[2 * at, 2 * at + 1]);
        let mut intervals: Vec<PgInterval> = (0..COUNT).chain(COUNT / 2..COUNT).map(pair).collect();
        // Their order is that of a list that was sorted when they were learned.
        intervals.sort_by_key(|interval| interval.first);
        forget_superseded(&mut intervals);
        assert_eq!(intervals.len(), COUNT as usize);

        let (mut world, other) = left_behind();
        let alone = world.pg.intervals[0].clone();
        let of_purged = |at: i32| PgInterval { acting: vec![OsdId(1_000 + at)], ..alone.clone() };
        world.pg.intervals = (0..COUNT).map(of_purged).chain([alone.clone()]).collect();
        assert!(!world.pg.is_past_told(&world.map));
        let shown = world.pg.peering_json("now", &world.map);
        assert_eq!(shown["peering_blocked_by"].as_array().map(Vec::len), Some(1));
        assert_eq!(shown["peering_blocked_by"][0]["osd"], other.0);
        world.pg.intervals.pop();
        assert!(world.pg.is_past_told(&world.map));
    }

    #[test]
    fn what_is_known_of_the_past_is_not_learned_again() {
        let mut world = World::active();
        world.pg.info.last_epoch_clean = Epoch(0);
        let at = world.pg.info.since.0;
        let theirs = vec![
            interval(at - 9, at - 8, &[0, 1]),
            interval(at - 7, at - 6, &[0, 1]),
            interval(at, at, &[3]),
        ];
        let learn = |world: &mut World, clean: u32| world.pg.learn_intervals(theirs.clone(), Epoch(clean));
        assert!(learn(&mut world, 0));
        let both = PgInterval { forgotten_since: theirs[0].first, ..theirs[1].clone() };
        assert_eq!(world.pg.intervals, [both], "the present one is not over");
        assert!(!learn(&mut world, 0));
        assert!(!learn(&mut world, at - 5) && world.pg.intervals.is_empty());
    }
}
