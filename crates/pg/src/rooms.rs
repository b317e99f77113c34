//! What OSDs have room for, as this one knows it: of itself at first hand, of others by heartbeats. That is known
//! sooner than the map says that an OSD is full, and while the monitor is away.
//!
//! It must not know stores, sessions or heartbeats.

use std::collections::BTreeMap;

use types::OsdId;

/// What a change takes beside its payload, about: index pages.
pub const CHANGE_BYTES: u64 = 16 << 10;
/// The part of an OSD's room that may be gone before others hear of it: the OSD tells them again at the latest then.
pub const STALE_PART: u64 = 8;
/// How often what one OSD has under way may be under way in all to one OSD: each OSD leads about as much as the others,
/// and what it leads goes to as many OSDs as there are copies.
const LEADERS_MAX: u64 = 4;

/// The part of its room that an OSD lets an object take that is recovered: what clients change is under way, too.
const PUSHED_PART: u64 = 2;

/// The room on an OSD, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// For whatever grows: none where the OSD is all but full.
    pub bytes: u64,
    /// What is left in fact.
    pub left_bytes: u64,
}

/// The room on each OSD that has told of it.
#[derive(Debug)]
pub struct Rooms {
    of: BTreeMap<OsdId, Room>,
    /// What every one of them has room for, whatever others send.
    plenty: u64,
}

impl Default for Rooms {
    fn default() -> Rooms {
        Rooms { of: BTreeMap::new(), plenty: u64::MAX }
    }
}

impl Rooms {
    /// An OSD has so much room. True if that is news.
    pub fn set(&mut self, osd: OsdId, room: Room) -> bool {
        let is_news = self.of.insert(osd, room) != Some(room);
        if is_news {
            self.weigh();
        }
        is_news
    }

    /// Forgets the others.
    pub fn retain(&mut self, is_kept: impl Fn(OsdId) -> bool) {
        self.of.retain(|osd, _| is_kept(*osd));
        self.weigh();
    }

    fn weigh(&mut self) {
        let least = self.of.values().map(|room| self.share(room.bytes)).min();
        self.plenty = least.unwrap_or(u64::MAX);
    }

    /// What may be under way from one OSD to another that had room for so many bytes.
    fn share(&self, bytes: u64) -> u64 {
        (bytes - bytes / STALE_PART) / (self.of.len() as u64).clamp(1, LEADERS_MAX)
    }

    /// True if changes that take so much find room on every OSD. If not, a closer look is needed.
    #[inline]
    pub fn have_plenty(&self, bytes: u64) -> bool {
        bytes < self.plenty
    }

    /// True if changes that take so much might find no room on one of these OSDs.
    pub fn are_short(&self, mut osds: impl Iterator<Item = OsdId>, bytes: u64) -> bool {
        osds.any(|osd| self.of.get(&osd).is_some_and(|room| bytes >= self.share(room.bytes)))
    }

    /// True if changes that take so much might find no room on one of these OSDs though they may have all that is left.
    pub fn are_used_up(&self, mut osds: impl Iterator<Item = OsdId>, bytes: u64) -> bool {
        osds.any(|osd| self.of.get(&osd).is_some_and(|room| bytes >= self.share(room.left_bytes)))
    }

    /// True if an OSD takes so much of an object that it lacks. Others are not sure to know of less room than it has
    /// itself, so it takes somewhat more than they send ([`Rooms::are_short`]).
    pub fn takes(&self, osd: OsdId, bytes: u64) -> bool {
        self.of.get(&osd).is_none_or(|room| bytes < room.bytes / PUSHED_PART)
    }

    /// True for an OSD that is all but full, whatever the map says.
    pub fn is_full(&self, osd: OsdId) -> bool {
        self.of.get(&osd).is_some_and(|room| room.bytes == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(bytes: u64) -> Room {
        Room { bytes, left_bytes: bytes }
    }

    #[test]
    fn what_is_under_way_finds_room_on_each_osd_though_others_send_as_much() {
        let mut rooms = Rooms::default();
        assert!(rooms.have_plenty(u64::MAX - 1) && !rooms.are_short([OsdId(0)].into_iter(), u64::MAX));
        assert!(rooms.set(OsdId(0), room(8_000)) && !rooms.set(OsdId(0), room(8_000)));
        assert!(rooms.have_plenty(6_999) && !rooms.have_plenty(7_000), "an eighth may be gone by now");
        assert!(rooms.set(OsdId(1), room(800)));
        assert!(rooms.have_plenty(349) && !rooms.have_plenty(350));
        for (osd, bytes, is_short) in
            [(0, 3_499, false), (0, 3_500, true), (1, 350, true), (2, 1 << 40, false)]
        {
            assert_eq!(rooms.are_short([OsdId(osd)].into_iter(), bytes), is_short, "{osd} {bytes}");
            assert_eq!(rooms.are_used_up([OsdId(osd)].into_iter(), bytes), is_short, "{osd} {bytes}");
        }
        (2..9).for_each(|osd| _ = rooms.set(OsdId(osd), room(80_000)));
        assert!(rooms.have_plenty(174), "the changes of many OSDs go to as many");
        rooms.retain(|osd| osd == OsdId(0));
        assert!(rooms.have_plenty(6_999));
    }

    #[test]
    fn an_osd_without_room_takes_nothing() {
        let mut rooms = Rooms::default();
        assert!(!rooms.is_full(OsdId(0)), "it has not told");
        rooms.set(OsdId(0), Room { bytes: 0, left_bytes: 800 });
        let is_short = |bytes| rooms.are_short([OsdId(0)].into_iter(), bytes);
        assert!(rooms.is_full(OsdId(0)) && is_short(0) && !rooms.have_plenty(0) && !rooms.takes(OsdId(0), 0));
        let is_used_up = |bytes| rooms.are_used_up([OsdId(0)].into_iter(), bytes);
        assert!(!is_used_up(699) && is_used_up(700), "something is left, for what lets nothing grow");
    }
}
